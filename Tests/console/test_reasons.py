"""I9: the list says what each message waits for and why, and what is paused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from conftest import Opener, Shower
from msgqueue import Connectivity, Mode, Outcome, RetryPolicy, Status
from transport import Transport


def test_I9_rows_say_what_each_message_waits_for(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[3600, 3600, 3600], jitter=0))
    transport.answer("bad", Outcome.reject(code=422, text="phone number is not valid"))
    transport.answer("late", Outcome.http(503))
    bad = queue.enqueue("bad", conversation="ben")
    late = queue.enqueue("late", conversation="cem")
    queue.drain()
    behind = queue.enqueue("second", conversation="cem")
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    later = queue.enqueue("later", conversation="dana", not_before=tomorrow)
    held = queue.enqueue("held", conversation="eva")
    ready = queue.enqueue("ready", conversation="fay")
    queue.pause("eva")
    page = show(queue, "#/queue")

    def reason(id: str) -> str:
        return page.text(f"{page.row(id)} .detail")

    page.until(lambda: "Retry 1 of 3 in 1 h" in reason(late) and reason(late).endswith("HTTP 503"), "a retry")
    assert reason(behind) == "Behind “late”"
    assert reason(later).startswith("Scheduled for ")
    assert reason(later).endswith(", in 1 d")
    assert reason(held) == "Sending is paused in this conversation."
    assert reason(ready) == "Waiting for you to send it."
    failed = reason(bad)
    assert "HTTP 422" in failed
    assert "“phone number is not valid”" in failed
    assert "1 attempt of 4" in failed
    assert failed.startswith("The server did not accept this message.")
    # A change of the whole queue changes the reasons, without an event of the messages.
    queue.set_connectivity(Connectivity.OFFLINE)
    page.until(lambda: reason(ready).startswith("You're offline."), "offline")
    queue.set_connectivity(Connectivity.ONLINE)
    queue.pause()
    page.until(lambda: reason(ready) == "Sending is paused.", "paused")
    queue.resume("eva")
    queue.resume()
    page.until(lambda: reason(held) == "Waiting for you to send it.", "resumed")


def test_I9_paused_conversations_are_marked_and_have_one_button(opened: Opener, show: Shower) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello", conversation="ana")
    queue.enqueue("hello", conversation="ben")
    queue.pause("ana")
    # Offline, too, the page knows which of the two buttons fits.
    queue.set_connectivity(Connectivity.OFFLINE)
    page = show(queue, "#/conversations")
    page.until(lambda: page.texts(".conversations .badge.grey") == ["Paused"], "the mark")
    page.go("#/conversations/ana")
    page.see(".chat .view-buttons [data-action=resume]", "Resume")
    assert page.texts(".chat .view-buttons [data-action=pause]") == []
    page.go("#/conversations/ben")
    page.see(".chat .view-buttons [data-action=pause]", "Pause")
    assert page.texts(".chat .view-buttons [data-action=resume]") == []
    queue.set_connectivity(Connectivity.ONLINE)
    page.go("#/queue")
    page.see(f"{page.row(id)} .detail", "Sending is paused in this conversation.")
    page.click(f"{page.row(id)} [data-control=open]")
    page.see("dialog [data-action=resume]", "Resume this conversation")
    page.click("dialog [data-action=resume]")
    page.until(lambda: not queue.conversation("ana").paused, "the resume")
    assert queue.get(id).status is Status.QUEUED


def test_I9_a_closed_store_says_what_its_messages_wait_for(opened: Opener, show: Shower) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    first = queue.enqueue("first", conversation="ana")
    second = queue.enqueue("second", conversation="ana")
    later = queue.enqueue("later", conversation="ben", delay=timedelta(days=2))
    queue.close()
    closed = opened(maintenance=True, transport=None)
    page = show(closed, "#/queue")
    page.see(f"{page.row(second)} .detail", "Behind “first”")
    page.see(f"{page.row(later)} .detail", lambda text: text.startswith("Scheduled for "))
    page.see(f"{page.row(first)} .detail", lambda text: "maintenance" in text)

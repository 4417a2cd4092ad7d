"""I9: the whole queue, filtered, sorted, grouped and acted on in bulk."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener, Shower
from msgqueue import Draft, FailureKind, MessageQueue, Outcome, RetryPolicy, Status, control
from page import Page
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

UNAVAILABLE = Outcome.reject(code=503, kind=FailureKind.SERVER, text="maintenance")
# Keeps what the page saves as a file.
CATCH = """
window.saved = [];
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return create.call(URL, blob); };
HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };
"""
OVERFLOW = """
return [...document.querySelectorAll(".queue-view *")].filter((e) => e.checkVisibility())
  .filter((e) => !e.closest(".hidden-text, .control-label") && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 80));
"""
# What a finger cannot press.
SMALL = """
const controls = document.querySelectorAll(".tools select, .tools button, .selection button, .groups button, .choose");
return [...controls].filter((e) => e.checkVisibility())
  .filter((e) => e.getBoundingClientRect().width < 24 || e.getBoundingClientRect().height < 24).map((e) => e.outerHTML);
"""


def choose(page: Page, name: str, text: str) -> None:
    """Chooses in the field with that name."""

    def act() -> bool:
        field = Select(page.element(f'select[name="{name}"]'))
        field.select_by_visible_text(text)
        return True

    page.until(act, f"{text} in {name}")


def saved(page: Page) -> list[dict[str, Any]]:
    """Returns the lines of the last file that the page saved."""
    texts: list[str] = page.until(lambda: page.script("return window.saved"), "a file")
    assert page.script("return window.savedAs") == "messages.jsonl"
    return [json.loads(line) for line in texts[-1].splitlines()]


def fail(queue: MessageQueue, count: int, outcome: Outcome, conversation: str = "ana") -> list[str]:
    """Adds messages that fail with an outcome."""
    ids = [queue.enqueue(f"{outcome.code} {number}", conversation=conversation) for number in range(count)]
    queue.set_transport(lambda _: outcome)
    assert queue.drain().failed == count
    queue.set_transport(lambda _: Outcome.sent())
    return ids


def test_I9_equal_failures_are_grouped_and_acted_on_as_a_group(opened: Opener, show: Shower) -> None:
    queue = opened()
    fail(queue, 150, UNAVAILABLE)
    fail(queue, 3, Outcome.reject(code=404, kind=FailureKind.NOT_FOUND), "ben")
    alone = fail(queue, 1, Outcome.reject(kind=FailureKind.TIMEOUT))
    page = show(queue)
    page.script(CATCH)
    page.see(".groups a", lambda text: text.startswith("HTTP 503 since ") and text.endswith(": 150 messages"))
    # A message alone says itself why it failed; the list of failed ones has all groups.
    assert len(page.texts(".groups li")) == 2
    page.go("#/queue?show=failed")
    page.see(".groups a", lambda text: text.startswith("timeout since ") and text.endswith(": 1 message"))
    page.press("Export 3 messages with HTTP 404")
    page.see(".notice p", "3 messages exported.")
    assert [(line["conversation"], line["body"]) for line in saved(page)] == [("ben", f"404 {n}") for n in range(3)]
    page.press("Retry 3 messages with HTTP 404")
    page.see(".notice p", "3 messages sent.")
    page.until(lambda: len(page.texts(".groups li")) == 2, "the group is gone")
    page.press("Delete 150 messages with HTTP 503")
    page.see("dialog p", "150 messages that have failed with HTTP 503 will be deleted for good.")
    page.press("Cancel")
    page.gone("dialog")
    assert queue.counts().failed == 151
    page.press("Delete 150 messages with HTTP 503")
    page.press("Delete")
    page.see(".notice p", "150 messages deleted.")
    page.see_texts(".row .preview", [queue.get(alone[0]).text or ""])


def test_I9_failures_are_filtered_by_kind_code_and_conversation(opened: Opener, show: Shower) -> None:
    queue = opened()
    fail(queue, 2, UNAVAILABLE, "ben")
    fail(queue, 2, Outcome.reject(code=500, kind=FailureKind.SERVER), "cem")
    # The others are behind more rows than a page loads.
    queue.enqueue_batch([Draft(f"queued {number}", conversation="ana") for number in range(600)])
    last = fail_one(queue, "last")
    page = show(queue)
    choose(page, "by", "HTTP 503")
    page.see_texts(".row .preview", ["503 0", "503 1", "last"])
    assert page.texts(".filters [aria-current]") == ["Failed 5"]
    choose(page, "by", "server, any code")
    page.see_texts(".row .preview", ["503 0", "503 1", "500 0", "500 1", "last"])
    choose(page, "conversation", "ben")
    page.see_texts(".row .preview", ["503 0", "503 1"])
    page.see(".chip", lambda text: "ben" in text)
    # The address has the choice: it survives a reload.
    page.driver.refresh()
    page.see_texts(".row .preview", ["503 0", "503 1"])
    choose(page, "by", "HTTP 500")
    page.see(".empty h2", "No such messages")
    choose(page, "conversation", "All conversations")
    page.see_texts(".row .preview", ["500 0", "500 1"])
    # What is done with all is done with those that are listed.
    page.press("Retry all", ".view-head")
    page.see(".notice p", "2 messages sent.")
    page.go("#/queue?by=server:503")
    page.press("Delete all", ".view-head")
    page.see("dialog p", "All messages that have failed with HTTP 503 will be deleted for good.")
    page.press("Delete")
    page.see(".notice p", "3 messages deleted.")
    assert queue.counts().failed == 0
    assert queue.counts().queued == 600
    assert last not in [message.id for message in queue.list(limit=1000)]


def test_I9_a_group_that_grows_during_the_question_is_asked_about(opened: Opener, show: Shower) -> None:
    queue = opened()
    fail(queue, 2, UNAVAILABLE)
    fail(queue, 1, Outcome.reject(kind=FailureKind.TIMEOUT))
    page = show(queue)
    page.press("Delete 2 messages with HTTP 503")
    page.see("dialog p", "2 messages that have failed with HTTP 503 will be deleted for good.")
    fail(queue, 3, UNAVAILABLE)
    page.press("Delete")
    page.see("dialog p", "5 messages that have failed with HTTP 503 will be deleted for good.")
    assert queue.counts().failed == 6
    page.press("Delete")
    page.see(".notice p", "5 messages deleted.")
    assert queue.counts().failed == 1


def test_I9_the_latest_possible_times_are_shown_and_exported(opened: Opener, show: Shower, store: Path) -> None:
    queue = opened(online=False)
    queue.start_control()
    with control.connect(store) as client:
        client.call("enqueue", body="never", not_before_ms=2**63 - 2, expires_at_ms=2**63 - 1)
    page = show(queue)
    page.script(CATCH)
    for view in ("#/conversations", "#/conversations/", "#/queue"):
        page.go(view)
        page.until(lambda: "never" in page.script('return document.getElementById("content").innerText'))
        assert "Invalid" not in page.script("return document.body.innerText")
    page.press("Export")
    page.see(".notice p", "1 message exported.")
    (line,) = saved(page)
    assert 2**53 > line["not_before_ms"] > 2**52


def fail_one(queue: MessageQueue, text: str) -> str:
    """Adds a message of another conversation that fails with 503, and leaves the others queued."""
    id = queue.enqueue(text, conversation="last")
    queue.set_transport(lambda _: UNAVAILABLE)
    assert queue.drain(conversation="last").failed == 1
    queue.set_transport(lambda _: Outcome.sent())
    return id


def test_I9_queued_messages_are_filtered_by_reason_with_the_next_first(opened: Opener, show: Shower) -> None:
    queue = opened(retry=RetryPolicy(ladder=[3600, 3600], jitter=0))
    queue.enqueue("late", conversation="retry")
    queue.set_transport(lambda _: Outcome.http(503))
    queue.drain()
    now = datetime.now(timezone.utc)
    for hours in (5, 2, 8):
        queue.enqueue(f"in {hours} h", conversation=f"c{hours}", not_before=now + timedelta(hours=hours, seconds=30))
    queue.enqueue_batch([Draft(f"queued {number}", conversation="ana") for number in range(400)])
    queue.enqueue("held", conversation="ben")
    queue.enqueue("held too", conversation="ben", not_before=now + timedelta(hours=1))
    queue.pause("ben")
    page = show(queue)
    for _ in ("online", "offline"):
        choose(page, "by", "Scheduled, next first")
        page.see_texts(".row .preview", ["in 2 h", "in 5 h", "in 8 h"])
        choose(page, "by", "Waiting for a retry, next first")
        page.see_texts(".row .preview", ["late"])
        choose(page, "by", "Paused")
        page.see_texts(".row .preview", ["held", "held too"])
        queue.set_connectivity(type(queue.state().connectivity).OFFLINE)
    # The list follows.
    queue.resume("ben")
    page.see(".empty h2", "No such messages")
    choose(page, "by", "Scheduled, next first")
    page.see_texts(".row .preview", ["held too", "in 2 h", "in 5 h", "in 8 h"])
    # In one conversation the library has no such list, so that it is not offered.
    page.go("#/queue/ben?by=paused")
    page.see(".empty h2", "No such messages")
    disabled = 'return [...document.querySelectorAll("select[name=by] option:disabled")].map((each) => each.value)'
    assert page.script(disabled) == ["scheduled", "retrying"]


def test_I9_lists_are_sorted_and_filtered_by_age(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    now = datetime.now(timezone.utc)
    for name, age in (("new", 0), ("old", 3), ("older", 30), ("oldest", 24 * 9)):
        queue.enqueue(name, conversation="ana", time=now - timedelta(hours=age))
    queue.enqueue_batch(
        [Draft(f"filler {number:03}", conversation="ben", time=now - timedelta(days=20)) for number in range(300)]
    )
    page = show(queue)
    page.see(".row .preview", "new")
    choose(page, "sort", "Newest first")
    page.until(
        lambda: page.texts(".row .preview")[:5] == ["new", "old", "older", "oldest", "filler 299"], "the newest first"
    )
    page.keys(Keys.TAB)
    choose(page, "by", "Older than 1 day")
    page.until(lambda: page.texts(".row .preview")[:3] == ["older", "oldest", "filler 299"], "the older ones")
    choose(page, "conversation", "ana")
    page.see_texts(".row .preview", ["older", "oldest"])
    choose(page, "sort", "Oldest first")
    page.see_texts(".row .preview", ["oldest", "older"])
    choose(page, "by", "Older than 1 week")
    page.see_texts(".row .preview", ["oldest"])
    choose(page, "by", "No filter")
    page.see_texts(".row .preview", ["oldest", "older", "old", "new"])
    choose(page, "conversation", "All conversations")
    # Far down: the rows of a sorted list are found by their times.
    page.until(lambda: page.texts(".row .preview")[:1] == ["filler 000"], "the oldest first")
    page.script('const w = document.querySelector(".window"); w.scrollTop = w.scrollHeight;')
    page.see(".row .preview", "new")
    assert page.texts(".row .preview")[-4:] == ["oldest", "older", "old", "new"]


def test_I9_chosen_rows_are_retried_exported_and_deleted(opened: Opener, show: Shower) -> None:
    queue = opened()
    fail(queue, 4, UNAVAILABLE)
    queue.enqueue("queued", conversation="ben")
    page = show(queue)
    page.script(CATCH)
    page.press("Select")
    page.see(".selection strong", "Choose messages")
    # By keyboard alone: the arrow keys walk, the space bar chooses.
    page.until(lambda: len(page.texts(".row .choose")) == 5, "the boxes")
    page.script('document.querySelector(".row .choose").focus()')
    page.keys(Keys.SPACE, Keys.ARROW_DOWN, Keys.SPACE)
    page.see(".selection strong", "2 messages chosen")
    page.press("Export", ".selection")
    page.see(".notice p", "2 messages exported.")
    assert [line["body"] for line in saved(page)] == ["503 0", "503 1"]
    page.press("Retry", ".selection")
    page.see(".notice p", "2 messages sent.")
    page.see_texts(".row .preview", ["503 2", "503 3", "queued"])
    page.see(".selection strong", "Choose messages")
    # What cannot be retried is not offered for that.
    page.click('.row[data-status="queued"] .choose')
    page.see(".selection strong", "1 message chosen")
    assert page.script('return document.querySelector(".selection [data-action=retry]").ariaDisabled') == "true"
    page.click('.row[data-status="failed"] .choose')
    page.press("Delete", ".selection")
    page.see("dialog h2", "Delete 2 messages?")
    page.press("Cancel")
    page.gone("dialog")
    page.see(".selection strong", "2 messages chosen")
    page.press("Delete", ".selection")
    page.see("dialog h2", "Delete 2 messages?")
    page.press("Delete")
    page.see_texts(".row .preview", ["503 3"])
    # A message that goes elsewhere is not chosen any more.
    page.click(".row .choose")
    page.see(".selection strong", "1 message chosen")
    queue.retry_all()
    page.see(".empty h2", "No queued messages")
    page.press("Done", ".selection")
    page.gone(".selection")
    assert queue.counts().queued == queue.counts().failed == 0


def test_I9_the_headline_says_what_is_true_of_the_whole(opened: Opener, show: Shower) -> None:
    queue = opened(retry=RetryPolicy(ladder=[7200], jitter=0))
    queue.enqueue("late", conversation="cem")
    queue.set_transport(lambda _: Outcome.http(503))
    queue.drain()
    # The page reads a title when it first shows the conversation.
    first = queue.enqueue("text", conversation="4711")
    queue.set_title("4711", "Müller & Söhne")
    queue.delete(first)
    page = show(queue)
    headline = ".view-title .reason"
    page.see(headline, "1 message is retried in 2 h.")
    for number in range(9):
        queue.enqueue(f"text {number}", conversation="4711")
    queue.pause("4711")
    page.see(headline, "9 messages are paused in Müller & Söhne. 1 is retried in 2 h.")
    start = datetime.now(timezone.utc) + timedelta(hours=3)
    queue.enqueue("report", conversation="board", not_before=start)
    clock = page.driver.execute_async_script(
        'const [ms, done] = arguments; import("/words.js").then(({ clockTime }) => done(clockTime(ms)));',
        int(start.timestamp() * 1000),
    )
    clock = " ".join(clock.split())
    page.see(headline, f"9 messages are paused in Müller & Söhne. 1 is scheduled for {clock}. 1 is retried in 2 h.")
    queue.enqueue("ready", conversation="ana")
    queue.pause("cem")
    page.see(headline, lambda text: text.startswith("10 messages are paused in 2 conversations. 1 is scheduled for "))
    page.see(headline, lambda text: text.endswith(" Waiting for you to send 1 message."))
    # A pause of the queue is said by the bar alone, with the number that the title has.
    queue.pause()
    page.see(".bar-text", "Sending is paused. 12 messages queued.")
    page.until(lambda: page.text(headline) == "", "no headline")
    assert page.text("h1") == "Queue (12)"
    # In a conversation it is about that one.
    queue.resume()
    page.go("#/queue/4711")
    page.see(headline, "9 messages are paused.")


def test_I9_a_message_that_is_paused_offers_nothing_that_cannot_work(opened: Opener, show: Shower) -> None:
    queue = opened()
    held = queue.enqueue("held", conversation="ana")
    queue.enqueue("free", conversation="ben")
    queue.pause("ana")
    page = show(queue)
    page.see(f"{page.row(held)} .detail", "Sending is paused in this conversation.")
    assert not page.has("Send now", page.row(held))
    assert page.has("Edit", page.row(held))
    queue.resume("ana")
    page.until(lambda: page.has("Send now", page.row(held)), "Send now")


def test_I9_search_results_are_acted_on(opened: Opener, show: Shower) -> None:
    queue = opened()
    (bad,) = fail(queue, 1, Outcome.reject(code=422), "ana")
    queue.enqueue("order 422", conversation="ben")
    page = show(queue, "#/search?q=422")
    page.see_texts(".results .preview", ["order 422", "422 0"])
    assert page.texts(".results mark") == ["422", "422"]
    page.press("Retry", page.row(bad))
    page.see(f"{page.row(bad)} .badge", "Sent")
    assert not page.has("Retry", page.row(bad))
    assert page.texts(".results mark") == ["422", "422"]
    page.press("Delete", ".results")
    page.see("dialog h2", "Delete this message?")
    page.press("Delete")
    page.see_texts(".results .preview", ["422 0"])
    assert queue.get(bad).status is Status.SENT


@pytest.mark.parametrize("width", [390, 320])
def test_I9_filters_groups_and_choices_fit_a_phone(opened: Opener, show: Shower, width: int) -> None:
    queue = opened()
    fail(queue, 4, UNAVAILABLE, "a long name of a conversation that does not fit")
    fail(queue, 2, Outcome.reject(code=404, kind=FailureKind.NOT_FOUND))
    queue.enqueue("W" * 200, conversation="W" * 255)
    queue.pause("W" * 255)
    page = show(queue)
    page.size(width, 844)
    page.see(".groups a", lambda text: "HTTP 503" in text)
    page.see(".view-title .reason", lambda text: "paused" in text)
    page.press("Select")
    page.click(".row .choose")
    page.see(".selection strong", "1 message chosen")
    assert page.script(OVERFLOW) == []
    assert page.script(SMALL) == []
    page.press("Done")
    page.press("Retry 4 messages with HTTP 503")
    page.see(".notice p", "4 messages sent.")
    choose(page, "by", "HTTP 404")
    page.see_texts(".row .preview", ["404 0", "404 1"])

"""Failed messages in the browser: the reason, and Retry, Delete and Cancel."""

from __future__ import annotations

from conftest import Opener, Shower
from msgqueue import Connectivity, MessageQueue, Mode, Outcome, Status
from page import Page
from transport import Transport

REFUSED = "The server did not accept this message. You can change it and retry."


def fail(queue: MessageQueue, transport: Transport, text: str = "hello", *later: Outcome) -> str:
    """Makes a failed message; `later` are the answers to its next attempts."""
    transport.answer(text, Outcome.reject(code=422, text="raw <b>text</b>"), *later)
    id = queue.enqueue(text, conversation="ana")
    queue.drain()
    assert queue.get(id).status is Status.FAILED
    return id


def ask(page: Page, id: str) -> None:
    page.press("Failed – retry", page.row(id))
    page.see("dialog h2", "Message not sent")


def test_R1_a_failed_message_shows_its_reason(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    page = show(queue)
    # The row has the sentence first, then the receiver's own words.
    page.see(f"{page.row(id)} .detail", lambda text: text.startswith(REFUSED) and text.endswith("“raw <b>text</b>”"))
    page.go("#/conversations/ana")
    page.see(f"{page.row(id)} .sentence", REFUSED)
    assert "raw" not in page.text("main")
    # The details are for developers.
    page.press("Details of this message", page.row(id))
    page.see("dialog .sentence", REFUSED)
    page.see("dialog .attempt-head", "1. Refused rejected code 422")
    page.see("dialog .raw", "raw <b>text</b>")


def test_R2_the_dialog_offers_retry_delete_and_cancel(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    page = show(queue, "#/conversations/ana")
    ask(page, id)
    page.see("dialog p", "This message failed to send. Would you like to retry or delete it?")
    page.see("dialog .sentence", REFUSED)
    page.see_texts("dialog .dialog-foot button", ["Delete", "Cancel", "Retry"])


def test_R2_cancel_changes_nothing(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    before = queue.get(id)
    page = show(queue, "#/conversations/ana")
    ask(page, id)
    page.press("Cancel")
    page.gone("dialog")
    page.unanswered()
    assert queue.get(id) == before
    assert page.focus == "Failed – retry"


def test_R2_retry_sends_the_message_under_its_id(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    page = show(queue, "#/conversations/ana")
    transport.hold()
    ask(page, id)
    page.press("Retry")
    page.see(f"{page.row(id)} .status", "Sending…")
    transport.release()
    page.see(f"{page.row(id)} .status", "✓ Sent")
    assert [attempt.number for attempt in queue.attempts(id)] == [1, 2]
    assert queue.get(id).status is Status.SENT


def test_R2_delete_removes_the_message_at_once(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    page = show(queue, "#/conversations/ana")
    ask(page, id)
    page.press("Delete")
    page.gone(page.row(id))
    page.see(".chat-scroll", "No messages")
    page.until(lambda: queue.counts().failed == 0)


def test_R2_a_message_that_is_gone_meanwhile_is_said(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    page = show(queue, "#/conversations/ana")
    ask(page, id)
    queue.delete(id)
    page.press("Retry")
    page.see(".notice p", "This message is gone.")
    page.gone(page.row(id))


def test_R2_on_the_messages_of_others_there_is_nothing_to_retry(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    queue.record("from Ana", conversation="ana", sender="Ana", id="other")
    page = show(queue, "#/conversations/ana")
    page.see(".bubble.received .bubble-text", "from Ana")
    page.see_texts(".bubble.received button", [""])
    assert page.has("Details of this message", ".bubble.received")
    assert page.texts(".bubble.received .status") == []


def test_R8_a_retry_that_gets_no_answer_has_failed_again_in_time(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened(on_demand_timeout=1.0)
    id = fail(queue, transport)
    page = show(queue, "#/conversations/ana")
    transport.hold()
    ask(page, id)
    page.press("Retry")
    page.see(f"{page.row(id)} .status", "Sending…")
    page.see(f"{page.row(id)} .sentence", lambda text: "The server did not answer in time." in text, timeout=10)
    assert page.has("Failed – retry", page.row(id))


def test_R11_further_clicks_while_it_is_retried_are_ignored(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    id = fail(queue, transport)
    page = show(queue)
    page.see_texts(".row .badge", ["Failed"])
    transport.hold()
    page.click_ten_times(f"{page.row(id)} [data-control=retry]")
    page.see_texts(".row .badge", ["Sending…"])
    transport.release()
    page.see(".empty h2", "No queued messages")
    assert len(queue.attempts(id)) == 2
    assert page.texts(".notice") == []


def test_R15_R17_a_retry_while_offline_says_so_and_the_message_stays_failed(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    id = fail(queue, transport)
    queue.set_connectivity(Connectivity.OFFLINE)
    page = show(queue, "#/conversations/ana")
    ask(page, id)
    page.press("Retry")
    sentence = "No internet connection. Your message is saved and you can retry later."
    page.see(".notice p", sentence)
    rejected = "The server did not accept this message. You can change it and retry."
    page.see(f"{page.row(id)} .sentence", f"{sentence} Before that: {rejected}")
    assert queue.get(id).status is Status.FAILED


def test_R15_in_mode_auto_a_retry_while_offline_queues_the_message(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened(mode=Mode.AUTO)
    id = queue.enqueue("hello", conversation="ana")
    queue.drain()
    transport.answer("bad", Outcome.reject(code=422))
    id = queue.enqueue("bad", conversation="ana")
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    page = show(queue, "#/conversations/ana")
    ask(page, id)
    page.press("Retry")
    page.see(f"{page.row(id)} .status", "Queued · will send when online")
    assert queue.get(id).status is Status.QUEUED


def test_R14_retry_all_of_one_conversation(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    for number in range(3):
        fail(queue, transport, f"text {number}")
    other = fail(queue, transport, "other")
    queue.delete(other)
    transport.answer("ben", Outcome.reject(code=400))
    queue.enqueue("ben", conversation="ben")
    queue.drain()
    page = show(queue, "#/conversations/ana")
    page.press("Retry all", ".chat")
    page.see(".notice p", "3 messages sent.")
    page.see_texts(".bubble .status", ["✓ Sent"] * 3)
    assert queue.counts().failed == 1

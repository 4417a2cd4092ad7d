"""The queue in the browser: banner, prompt, rows and their actions."""

from __future__ import annotations

import time

import pytest
from conftest import Opener, Shower
from msgqueue import Connectivity, Link, MessageQueue, Mode, NotFoundError, Outcome, Status
from page import Page
from selenium.webdriver.common.keys import Keys
from transport import Transport


def fill(queue: MessageQueue, count: int, conversation: str = "ana") -> list[str]:
    return [queue.enqueue(f"message {number}", conversation=conversation) for number in range(1, count + 1)]


def offline(queue: MessageQueue) -> None:
    queue.set_connectivity(Connectivity.OFFLINE)


def online(queue: MessageQueue) -> None:
    queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)


# ---------------------------------------------------------------- Q2


def test_Q2_the_banner_says_how_many_messages_are_queued(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("one")
    page = show(queue)
    page.see(".bar.offline", "You're offline 1 message queued. Send All Review")
    assert page.script('return document.querySelector(".bar").parentElement.getAttribute("role")') == "status"
    assert page.script('return document.querySelector(".bar").parentElement.ariaLive') == "polite"
    fill(queue, 4)
    page.see(".bar.offline .bar-text", "You're offline 5 messages queued.")
    # It is amber and never red: offline is temporary.
    red, green, blue = page.script(
        'return getComputedStyle(document.querySelector(".bar.offline")).backgroundColor.match(/\\d+/g).map(Number)'
    )
    assert red > 240
    assert green > 230
    assert blue > 200


def test_Q2_the_banner_is_gone_within_two_seconds_of_being_online(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    fill(queue, 2)
    page = show(queue)
    page.see(".bar.offline .bar-text", "You're offline 2 messages queued.")
    online(queue)
    page.gone(".bar.offline", timeout=2)
    offline(queue)
    page.see(".bar.offline .bar-text", "You're offline 2 messages queued.")


def test_Q2_send_all_while_offline_says_that_nothing_was_sent(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened(online=False)
    ids = fill(queue, 3)
    page = show(queue)
    page.press("Send All", ".bar")
    page.see(".notice p", "You're offline. Nothing was sent.")
    assert [queue.get(id).status for id in ids] == [Status.QUEUED] * 3
    assert transport.sent == []
    page.see_texts(".row .badge", ["Queued"] * 3)


def test_Q2_failed_messages_are_said_too_and_review_leads_to_the_queue(opened: Opener, show: Shower) -> None:
    queue = opened()
    transport_failure(queue)
    offline(queue)
    queue.enqueue("waiting", conversation="ana")
    page = show(queue, "#/activity")
    page.see(".bar.offline .bar-text", "You're offline 1 message queued. 1 message failed.")
    page.press("Review", ".bar")
    page.see("h1", "Offline queue (2)")


def transport_failure(queue: MessageQueue) -> str:
    queue.set_transport(lambda _: Outcome.reject(code=422))
    id = queue.enqueue("refused", conversation="ana")
    queue.drain()
    return id


def test_H7_in_mode_auto_the_banner_says_that_messages_will_send(opened: Opener, show: Shower) -> None:
    queue = opened(mode=Mode.AUTO, online=False)
    page = show(queue)
    page.see(".bar.offline .bar-text", "You're offline. Messages will send when connected.")
    assert not page.has("Send All")


# ---------------------------------------------------------------- Q4


def asking(opened: Opener, prompt_timeout: float = 10.0) -> MessageQueue:
    return opened(mode=Mode.ASK, online=False, prompt_timeout=prompt_timeout)


def online_with_toast(queue: MessageQueue, page: Page) -> None:
    """Goes online when the page shows the two queued messages, and waits for the toast that offers to send them."""
    page.see(".bar.offline", lambda text: "2 messages" in text)
    online(queue)
    page.see(".toast-text span", "Auto-send 2 queued messages?")


def test_Q4_one_prompt_is_shown_with_its_digest(opened: Opener, show: Shower) -> None:
    queue = asking(opened)
    fill(queue, 5)
    queue.enqueue("x" * 2000, conversation="ben")
    page = show(queue)
    page.see(".bar.offline", lambda text: "6 messages" in text)
    online(queue)
    text = page.see(".toast-text", lambda text: text.startswith("Connected"))
    assert text == "Connected Auto-send 6 queued messages? 2.0 KB, oldest just now, 2 conversations"
    page.see_texts(".toast button", ["Review first", "Yes, send all"])
    region = page.script('const e = document.querySelector(".toast").parentElement; return [e.role, e.ariaLive]')
    assert region == ["status", "polite"]


def test_Q4_yes_sends_everything(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = asking(opened)
    fill(queue, 3)
    page = show(queue)
    page.see(".bar.offline", lambda text: "3 messages" in text)
    online(queue)
    page.press("Yes, send all", ".toasts")
    page.see(".notice p", "3 messages sent.")
    page.see(".empty h2", "No queued messages")
    page.gone(".toast")
    assert transport.sent == ["message 1", "message 2", "message 3"]


def test_Q4_review_first_opens_the_queue_and_sends_nothing(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = asking(opened)
    fill(queue, 1)
    page = show(queue, "#/activity")
    page.see(".bar.offline", lambda text: "1 message queued" in text)
    online(queue)
    page.see(".toast-text span", "Auto-send 1 queued message?")
    page.press("Review first", ".toasts")
    page.see("h1", "Queue (1)")
    page.gone(".toast")
    page.until(lambda: queue.state().prompt is None)
    assert transport.sent == []


def test_Q4_the_toast_goes_with_its_prompt(opened: Opener, show: Shower) -> None:
    queue = asking(opened, prompt_timeout=3.0)
    fill(queue, 2)
    page = show(queue)
    online_with_toast(queue, page)
    # By itself, when its time is up.
    page.gone(".toast")
    offline(queue)
    online_with_toast(queue, page)
    # When offline returns.
    offline(queue)
    page.gone(".toast")


def test_Q4_the_toast_goes_when_the_queue_empties(opened: Opener, show: Shower) -> None:
    queue = asking(opened, prompt_timeout=600.0)
    fill(queue, 2)
    page = show(queue)
    online_with_toast(queue, page)
    queue.clear()
    page.gone(".toast")


def test_Q4_a_flapping_link_shows_one_toast_and_no_timer_closes_a_later_one(opened: Opener, show: Shower) -> None:
    queue = asking(opened, prompt_timeout=4.0)
    fill(queue, 2)
    page = show(queue)
    online_with_toast(queue, page)
    page.script(
        "window.most = 0; new MutationObserver(() => {"
        'window.most = Math.max(window.most, document.querySelectorAll(".toast").length); })'
        '.observe(document.getElementById("toasts"), {childList: true, subtree: true});'
    )
    for _ in range(50):
        offline(queue)
        online(queue)
    expires = page.until(lambda: queue.state().prompt_expires, "the prompt")
    page.see(".toast-text span", "Auto-send 2 queued messages?")
    # It is there until its own time is up, although the timers of earlier ones have ended before.
    assert expires is not None
    while time.time() < expires.timestamp() - 0.5:
        assert page.texts(".toast-text span") == ["Auto-send 2 queued messages?"]
    assert page.script("return window.most") <= 1
    page.gone(".toast")


# ---------------------------------------------------------------- Q5


def test_Q5_all_queued_and_failed_messages_are_listed_in_order(opened: Opener, show: Shower) -> None:
    queue = opened()
    failed = transport_failure(queue)
    offline(queue)
    queue.enqueue("y" * 150, conversation="ben", id="long")
    queue.enqueue("three\nlines\nhere", conversation="")
    page = show(queue)
    page.see("h1", "Offline queue (3)")
    page.see_texts(".row .preview", ["refused", "y" * 100 + "…", "three lines here"])
    page.see_texts(".row .conversation", ["ana", "ben", "(no name)"])
    page.see_texts(".row .badge", ["Failed", "Queued", "Queued"])
    page.see_texts(".row time", ["Just now"] * 3)
    colours = page.script('return [...document.querySelectorAll(".row .badge")].map((each) => each.className)')
    assert colours == ["badge red", "badge orange", "badge orange"]
    sentence = "The server did not accept this message. You can change it and retry."
    page.see(f"{page.row(failed)} .detail", lambda text: text.startswith(sentence))
    page.press("Failed 1", ".filters")
    page.see_texts(".row .preview", ["refused"])
    page.press("Queued 2", ".filters")
    page.see_texts(".row .badge", ["Queued", "Queued"])
    page.go("#/queue/ben")
    page.see("h1", "Offline queue (1)")
    page.see_texts(".row .conversation", ["ben"])


def test_Q5_the_list_follows_what_other_programs_do(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    page = show(queue)
    page.see(".empty h2", "No queued messages")
    page.see(".empty p", "What cannot be sent at once will appear here, for example while offline")
    ids = fill(queue, 3)
    page.see_texts(".row .preview", ["message 1", "message 2", "message 3"])
    queue.edit(ids[1], "changed")
    page.see_texts(".row .preview", ["message 1", "changed", "message 3"])
    queue.delete(ids[0])
    page.see_texts(".row .preview", ["changed", "message 3"])
    queue.clear()
    page.see(".empty h2", "No queued messages")


# ---------------------------------------------------------------- Q6


def test_Q6_one_message_is_sent_now(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    ids = fill(queue, 3)
    page = show(queue)
    page.press("Send now", page.row(ids[1]))
    page.see_texts(".row .preview", ["message 1", "message 3"])
    assert transport.sent == ["message 2"]


def test_Q6_a_double_click_sends_once(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    ids = fill(queue, 2)
    transport.hold()
    page = show(queue)
    page.see_texts(".row .badge", ["Queued", "Queued"])
    page.click_ten_times(f"{page.row(ids[0])} [data-control=send-now]")
    page.see_texts(".row .badge", ["Sending…", "Queued"])
    transport.release()
    page.see_texts(".row .preview", ["message 2"])
    assert transport.sent == ["message 1"]
    assert len(queue.attempts(ids[0])) == 1


def test_Q6_send_now_while_offline_says_why_and_keeps_the_message(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    (id,) = fill(queue, 1)
    page = show(queue)
    page.press("Send now", page.row(id))
    page.see(".notice p", "No internet connection. The message stays queued.")
    assert queue.get(id).status is Status.QUEUED


def test_Q6_an_edit_keeps_the_place(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    ids = fill(queue, 3)
    page = show(queue)
    page.press("Edit", page.row(ids[0]))
    page.see("dialog h2", "Edit message")
    assert page.script('return document.querySelector("dialog textarea").value') == "message 1"
    page.write("dialog textarea", "   ")
    assert page.script('return document.querySelector("dialog [type=submit]").disabled')
    page.write("dialog textarea", "first line\nsecond line")
    page.press("Save")
    page.gone("dialog")
    page.see_texts(".row .preview", ["first line second line", "message 2", "message 3"])
    assert queue.get(ids[0]).text == "first line\nsecond line"
    # Cancel changes nothing.
    page.press("Edit", page.row(ids[1]))
    page.see("dialog h2", "Edit message")
    page.write("dialog textarea", "other")
    page.press("Cancel")
    page.gone("dialog")
    assert queue.get(ids[1]).text == "message 2"


def test_Q6_an_edit_of_a_message_that_goes_meanwhile_says_so(opened: Opener, show: Shower) -> None:
    queue = opened()
    ids = fill(queue, 3)
    page = show(queue)
    page.press("Edit", page.row(ids[0]))
    page.see("dialog h2", "Edit message")
    queue.drain(batch=1)
    page.see("dialog .note", "This message was sent or deleted meanwhile.")
    assert page.script('return document.querySelector("dialog [type=submit]").disabled')
    page.press("Cancel")
    page.press("Edit", page.row(ids[1]))
    page.see("dialog h2", "Edit message")
    queue.delete(ids[1])
    page.see("dialog .note", "This message was sent or deleted meanwhile.")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.see_texts(".row .preview", ["message 3"])


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (b"\xff\xfe\x00", "This message is not text and cannot be edited here. It has 3 B."),
        (b"text\0with a null character", "This message is not text and cannot be edited here. It has 26 B."),
        (b"x" * 1_048_577, "This message has 1.0 MB. Texts of more than 1.0 MB cannot be edited here."),
    ],
)
def test_Q6_I7_a_body_that_is_not_text_is_not_edited(opened: Opener, show: Shower, body: bytes, note: str) -> None:
    queue = opened(online=False, limit_body=2 << 20)
    id = queue.enqueue(body)
    page = show(queue)
    page.press("Edit", page.row(id))
    page.see("dialog .note", note)
    assert page.script('return document.querySelector("dialog [type=submit]").disabled')
    assert page.texts("dialog textarea") == []
    page.press("Cancel")
    page.gone("dialog")
    assert queue.get(id).body == body


def test_Q6_delete_asks_first(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    ids = fill(queue, 2)
    page = show(queue)
    page.press("Delete", page.row(ids[0]))
    page.see("dialog h2", "Delete this message?")
    page.press("Cancel")
    page.gone("dialog")
    assert queue.counts().queued == 2
    page.press("Delete", page.row(ids[0]))
    page.see("dialog h2", "Delete this message?")
    page.press("Delete")
    page.see_texts(".row .preview", ["message 2"])
    try:
        queue.get(ids[0])
    except NotFoundError:
        pass
    else:
        raise AssertionError("the message is still there")


def test_Q6_deleting_what_is_gone_already_counts_as_done(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    ids = fill(queue, 2)
    page = show(queue)
    page.press("Delete", page.row(ids[0]))
    page.see("dialog h2", "Delete this message?")
    queue.delete(ids[0])
    page.press("Delete")
    page.gone("dialog")
    page.see_texts(".row .preview", ["message 2"])
    assert page.texts(".notice") == []


def test_Q6_send_all_sends_everything_in_order_and_the_view_closes(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    fill(queue, 5)
    page = show(queue, "#/conversations/ana")
    page.press("Review", ".chat")
    page.see("h1", "Queue (5)")
    page.press("Send All", ".view-head")
    page.see(".notice p", "5 messages sent.")
    assert transport.sent == [f"message {number}" for number in range(1, 6)]
    # It closes itself when everything went: back to where the person came from.
    page.see("h1", "ana")


def test_Q6_send_all_reports_what_failed(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    fill(queue, 3)
    transport.answer("message 2", Outcome.reject(code=400))
    page = show(queue)
    page.press("Send All", ".view-head")
    page.see(".notice p", "2 messages sent. 1 message failed.")
    page.see_texts(".row .badge", ["Failed"])
    assert not page.has("Send All")
    transport.answer("message 2", Outcome.sent())
    page.press("Retry all", ".view-head")
    page.see(".notice p", "1 message sent.")
    page.see(".empty h2", "No queued messages")


# ---------------------------------------------------------------- Q22


def test_Q22_the_toast_follows_the_queue(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = asking(opened, prompt_timeout=600.0)
    fill(queue, 2)
    page = show(queue)
    online_with_toast(queue, page)
    expires = queue.state().prompt_expires
    page.script("window.toast = document.querySelector('.toast'); window.toast.querySelector('button').focus()")
    fill(queue, 1)
    page.see(".toast-text span", "Auto-send 3 queued messages?")
    page.see(".toast-text small", lambda text: text.endswith("1 conversation"))
    queue.enqueue("x" * 2000, conversation="ben")
    page.see(".toast-text small", lambda text: text.startswith("2.0 KB") and text.endswith("2 conversations"))
    queue.pause("ben")
    page.see(".toast-text span", "Auto-send 3 queued messages?")
    # It is the same toast, with the focus where it was, and it ends when it would have.
    assert page.script("return window.toast === document.querySelector('.toast')")
    assert page.script("return document.activeElement.dataset.action") == "review-first"
    assert queue.state().prompt_expires == expires
    page.press("Yes, send all", ".toasts")
    page.see(".notice p", "Sending is paused. 3 messages sent.")
    assert len(transport.sent) == 3


def test_Q22_yes_takes_the_failed_messages_along(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(mode=Mode.ASK, prompt_timeout=600.0, prompt_for_failed=True)
    transport.answer("message 1", Outcome.reject(code=400))
    fill(queue, 1)
    assert queue.drain().failed == 1
    offline(queue)
    queue.enqueue("message 2", conversation="ana")
    page = show(queue)
    page.see(".bar.offline", lambda text: "1 message queued" in text)
    online(queue)
    page.see(".toast-text span", "Auto-send 1 queued and 1 failed message?")
    page.press("Yes, send all", ".toasts")
    page.see(".notice p", "2 messages sent.")
    assert transport.sent[1:] == ["message 1", "message 2"]
    assert queue.counts().failed == 0


# ---------------------------------------------------------------- Q23


def test_Q23_send_all_takes_the_failed_messages_along(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    transport.answer("message 1", Outcome.reject(code=400))
    transport.answer("message 3", Outcome.reject(code=400))
    fill(queue, 3)
    assert queue.drain().failed == 2
    page = show(queue)
    page.see_texts(".row .badge", ["Failed", "Failed"])
    # With nothing queued "Retry all" does the same.
    assert not page.has("Send All with the failed")
    queue.enqueue("message 4", conversation="ana")
    page.see_texts(".row .badge", ["Failed", "Failed", "Queued"])
    queue.pause()
    page.until(lambda: not page.has("Send All with the failed"))
    queue.resume()
    page.press("Send All with the failed", ".view-head")
    page.see(".notice p", "3 messages sent.")
    assert transport.sent[3:] == ["message 1", "message 3", "message 4"]
    assert queue.counts().failed == 0


def test_Q23_send_all_alone_leaves_the_failed_messages(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    transport.answer("message 1", Outcome.reject(code=400))
    fill(queue, 1)
    queue.drain()
    queue.enqueue("message 2", conversation="ana")
    page = show(queue)
    page.press("Send All", ".view-head")
    page.see(".notice p", "1 message sent.")
    assert queue.counts().failed == 1


# ---------------------------------------------------------------- Q19


def test_Q19_banner_send_all_and_pause_of_one_conversation(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(online=False)
    fill(queue, 2, "ana")
    fill(queue, 3, "ben")
    page = show(queue, "#/conversations/ana")
    page.see(".bar.offline .bar-text", "You're offline 2 messages queued.")
    page.go("#/conversations/ben")
    page.see(".bar.offline .bar-text", "You're offline 3 messages queued.")
    page.go("#/queue")
    page.see(".bar.offline .bar-text", "You're offline 5 messages queued.")
    online(queue)
    page.go("#/conversations/ana")
    page.see(".chat h1", "ana")
    page.press("Pause", ".chat")
    page.see(".chat .reason", lambda text: text.startswith("Sending is paused."))
    page.until(lambda: queue.state().paused_conversations == 1)
    page.go("#/conversations/ben")
    page.press("Send All", ".chat")
    page.see(".notice p", "3 messages sent.")
    assert len(transport.sent) == 3
    assert queue.counts("ana").queued == 2
    page.go("#/conversations/ana")
    page.press("Resume", ".chat")
    page.until(lambda: queue.state().paused_conversations == 0)
    page.press("Send All", ".chat")
    page.see(".notice p", "2 messages sent.")
    assert queue.counts().queued == 0


def test_Q19_the_queue_is_paused_and_resumed(opened: Opener, show: Shower) -> None:
    queue = opened()
    fill(queue, 2)
    page = show(queue)
    page.press("Pause", ".view-head")
    page.see(".bar-text", "Sending is paused. 2 messages queued.")
    page.see(".capsule", "Paused")
    assert queue.state().paused
    page.press("Send All", ".view-head")
    page.see(".notice p", "Sending is paused.")
    page.press("Resume", ".bar")
    page.gone(".bar")
    assert not queue.state().paused

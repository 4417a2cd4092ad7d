"""What a person sees at a glance: the title, the main action, what became of a retry, the title of a conversation."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from conftest import Opener, Shower
from msgqueue import Connectivity, Mode, Outcome
from page import Page
from selenium.webdriver.common.keys import Keys
from transport import Transport

ORANGE = (
    'return [...document.querySelectorAll("button.orange")].filter((e) => e.checkVisibility()).map((e) => e.innerText)'
)


def main_actions(page: Page) -> list[str]:
    found: list[str] = page.script(ORANGE)
    return [each.strip() for each in found]


def see_main_actions(page: Page, *names: str) -> None:
    page.until(lambda: main_actions(page) == list(names), f"the orange buttons {names}")


def see_button(page: Page, name: str) -> None:
    page.until(lambda: page.has(name, "main"), f"the button {name}")


def test_I9_the_title_says_whether_the_queue_is_offline(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue("one", conversation="ana")
    page = show(queue)
    page.see("h1", "Queue (1)")
    assert page.driver.title == "Queue (1) · msgqueue"
    queue.set_connectivity(Connectivity.OFFLINE)
    page.see("h1", "Offline queue (1)")
    assert page.driver.title == "Offline queue (1) · msgqueue"
    # One number of what waits, wherever it is shown.
    queue.set_connectivity(Connectivity.ONLINE)
    page.see("h1", "Queue (1)")
    assert page.texts(".tabs .number") == ["1"]
    assert not [text for text in page.texts(".capsule") if "1" in text]


def test_I9_the_main_action_is_one_that_helps(opened: Opener, show: Shower) -> None:
    queue = opened(mode=Mode.MANUAL)
    soon = datetime.now(timezone.utc) + timedelta(hours=2)
    queue.enqueue("later", conversation="ana", not_before=soon)
    for hash in ("#/queue", "#/conversations/ana"):
        page = show(queue, hash)
        # Only what is scheduled: nothing can go.
        see_button(page, "Send All")
        see_main_actions(page)
    id = queue.enqueue("now", conversation="ana")
    see_main_actions(page, "Send All")
    queue.pause()
    see_main_actions(page, "Resume")
    queue.resume()
    queue.pause("ana")
    see_main_actions(page, "Resume")
    queue.resume("ana")
    # Offline, the banner keeps its button, which says that nothing was sent.
    queue.set_connectivity(Connectivity.OFFLINE)
    see_main_actions(page, "Send All")
    page.press("Send All", ".bar.offline")
    page.see(".notice p", "You're offline. Nothing was sent.")
    assert queue.get(id).status.name == "QUEUED"


def test_I9_without_a_program_there_is_no_button_that_cannot_work(
    opened: Opener, show: Shower, page: Page, store: Path
) -> None:
    queue = opened(transport=None)
    queue.enqueue("text", conversation="ana")
    show(queue)
    page.see(".bar-text strong", "The program that has this store open sends nothing.")
    page.see(".row .preview", "text")
    for name in ("Send All", "Send now", "Pause", "Resume"):
        assert not page.has(name), name
    assert page.has("Edit", ".row")
    page.press("text", ".row")
    page.see("dialog .sentence", lambda text: text != "")
    assert not page.has("Send now")
    page.keys(Keys.ESCAPE)
    page.go("#/conversations/ana")
    page.see(".bubble .bubble-text", "text")
    assert not page.has("Send All")
    assert not page.has("Pause")


# Milliseconds: notices that do not stay are shown so long; nothing else in that test sets so long a timer.
_LEAST_SHOWN = 5_000
_RECORD_TIMERS = """
    const begin = window.setTimeout.bind(window);
    window.delays = [];
    window.setTimeout = (call, delay) => {
      window.delays.push(delay);
      return begin(call, delay);
    };
"""


def test_I9_send_all_leaves_only_the_view_in_which_it_was_pressed(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    for number in range(3):
        queue.enqueue(f"text {number}", conversation="ana")
    page = show(queue, "#/activity")
    page.see("h1", "Activity")
    page.go("#/queue")
    page.press("Send All", ".view-head")
    page.see("h1", "Activity")
    page.see(".notice p", "3 messages sent.")
    # Not from a view to which the person went meanwhile.
    queue.enqueue("text", conversation="ana")
    page.go("#/queue")
    page.see("h1", "Queue (1)")
    transport.hold()
    page.press("Send All", ".view-head")
    page.see(".capsule", "Sending 1 message…")
    page.go("#/conversations/ana")
    page.see(".chat h1", "ana")
    transport.release()
    page.see(".notice p", "1 message sent.")
    page.unanswered()
    assert page.text(".chat h1") == "ana"
    # Not while something is left.
    queue.enqueue("good", conversation="ana")
    queue.enqueue("later", conversation="ben", not_before=datetime.now(timezone.utc) + timedelta(hours=2))
    page.go("#/queue")
    page.script(_RECORD_TIMERS)
    page.press("Send All", ".view-head")
    page.see(".row .preview", "later")
    page.see(".notice p", "1 message sent.")
    page.unanswered()
    assert page.text("h1") == "Queue (1)"
    queue.set_connectivity(Connectivity.OFFLINE)
    page.see("h1", "Offline queue (1)")
    assert page.texts(".notice p") == ["1 message sent."]
    # The notice stays: it does not go by the time after which others do.
    assert [delay for delay in page.script("return window.delays") if delay >= _LEAST_SHOWN] == []


# ---------------------------------------------------------------- retries


def test_I9_a_retry_that_fails_again_says_so_with_its_count(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    transport.answer("text", Outcome.reject(code=422), Outcome.reject(code=422), Outcome.http(503))
    id = queue.enqueue("text", conversation="ana")
    queue.drain()
    page = show(queue)
    sentence = "The server did not accept this message. You can change it and retry."
    page.see(".row .detail", lambda text: text.startswith(sentence))
    page.press("Retry", page.row(id))
    page.see(".row .detail", lambda text: text.startswith(f"Still failing after a retry: HTTP 422. {sentence}"))
    page.see(".notice p", "Still failing: HTTP 422.")
    page.press("Retry", page.row(id))
    page.see(".row .detail", lambda text: text.startswith("Still failing after 2 retries: HTTP 503. "))
    page.see_texts(".notice p", ["Still failing: HTTP 503."])
    # It stays, in every view of the message.
    page.go("#/conversations/ana")
    page.see(".bubble .sentence", lambda text: text.startswith("Still failing after 2 retries: HTTP 503. "))
    page.press("Details of this message", page.row(id))
    page.see("dialog .sentence", lambda text: text.startswith("Still failing after 2 retries: HTTP 503. "))


def test_I9_retry_all_says_how_many_were_sent_and_how_many_failed_again(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    for number in range(5):
        again = [Outcome.reject(code=400)] if number < 2 else []
        transport.answer(f"text {number}", Outcome.reject(code=400), *again)
        queue.enqueue(f"text {number}", conversation="ana")
    queue.drain()
    page = show(queue)
    transport.hold()
    page.press("Retry all", ".view-head")
    page.see(".notice p", "5 messages put back into the queue.")
    transport.release()
    page.see_texts(".notice p", ["3 messages sent. 2 messages failed again."])
    page.see_texts(".row .preview", ["text 0", "text 1"])
    page.press("Retry all", ".view-head")
    page.see_texts(".notice p", ["2 messages sent."])


# ---------------------------------------------------------------- words


def test_I9_the_title_of_a_conversation_is_shown_wherever_it_is_named(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("text", conversation="4711")
    queue.enqueue("text", conversation="other")
    queue.set_title("4711", "Müller & Söhne")
    page = show(queue, "#/queue/4711")
    page.see(".chip a", "Müller & Söhne")
    page.see_texts(".row .conversation", ["Müller & Söhne"])
    page.click(".row .open")
    page.see("dialog .sheet-head .name", "Müller & Söhne")
    page.see("dialog .facts", lambda text: "Conversation 4711" in text)
    page.keys(Keys.ESCAPE)
    page.go("#/conversations/4711")
    page.see(".chat h1", "Müller & Söhne")
    page.go("#/queue")
    page.see_texts(".row .conversation", ["Müller & Söhne", "other"])


def test_Q24_the_queued_badge_is_a_warning_wherever_it_is(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("text", conversation="ana")
    page = show(queue)
    page.see(".row .badge", "Queued")
    icon = 'return [...document.querySelectorAll(arguments[0])].map((each) => each.getAttribute("class"))'
    assert page.script(icon, ".row .badge svg") == ["icon icon-warning"]
    page.go("#/conversations/ana")
    page.see(".bubble .status", "Queued")
    assert page.script(icon, ".bubble .status svg, .badges svg") == ["icon icon-warning"] * 2


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (12, "12 ms"), (1500, "1.5 s"), (59_400, "59 s"), (119_000, "2 min"), (7_199_000, "2 h"),
        (5_400_000, "1 h 30 min"), (7_200_000, "2 h"), (86_399_000, "1 d"), (172_800_000, "2 d"),
    ],
)  # fmt: skip
def test_I9_durations_are_said_as_a_person_says_them(opened: Opener, show: Shower, ms: int, text: str) -> None:
    page = show(opened())
    said = page.driver.execute_async_script(
        'const [ms, done] = arguments; import("/words.js").then(({ duration }) => done(duration(ms)));', ms
    )
    assert said == text


def test_I9_a_phone_shows_the_reason_in_full(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    for number in range(3):
        transport.answer("x" * 90 + str(number), Outcome.reject(code=422), Outcome.offline())
        queue.enqueue("x" * 90 + str(number), conversation="a long name of a conversation")
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    for failed in queue.list():
        queue.retry(failed.id)
    page = show(queue)
    for width in (390, 320):
        page.size(width, 844)
        page.see(".row .detail", lambda text: "Before that: " in text)
        cut = page.script(
            'return [...document.querySelectorAll(".row .detail")].filter((e) => e.scrollHeight > e.clientHeight + 1 ||'
            "e.scrollWidth > e.clientWidth + 1).length"
        )
        assert cut == 0
        outside = page.script(
            'return [...document.querySelectorAll(".row > *, .row .open, .row .detail, .row .row-facts")].filter((e) =>'
            '{ const r = e.closest(".row").getBoundingClientRect(), b = e.getBoundingClientRect();'
            "return b.height > 0 && (b.top < r.top || b.bottom > r.bottom); }).length"
        )
        assert outside == 0


def test_I9_the_search_says_what_it_finds_before_the_first_letter(opened: Opener, show: Shower) -> None:
    page = show(opened(), "#/search")
    page.see_texts(
        ".search-help dt",
        ["A part of a text", "A conversation or a sender", "An id of a message", "Metadata, by name and value"],
    )

"""Conversations in the browser: ticks, history, compose field, the list of conversations, times."""

from __future__ import annotations

from datetime import timedelta

from conftest import Opener, Shower
from msgqueue import Connectivity, Mode, Outcome, RetryPolicy, Status
from selenium.webdriver.common.keys import Keys
from transport import Transport


def test_A8_each_status_has_its_words(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(3)]
    queue.drain()
    queue.mark(ids[1], Status.DELIVERED)
    queue.mark(ids[2], Status.READ)
    queue.enqueue("waiting", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.see_texts(".bubble .status", ["✓ Sent", "✓✓ Delivered", "✓✓ Read", "Queued"])
    # A receipt is shown when it comes.
    queue.mark(ids[0], Status.READ)
    page.see_texts(".bubble .status", ["✓✓ Read", "✓✓ Delivered", "✓✓ Read", "Queued"])
    read, delivered = page.script(
        'const own = [...document.querySelectorAll(".bubble .status")];'
        "return own.slice(0, 2).map((each) => getComputedStyle(each).color)"
    )
    assert read != delivered
    transport.hold()
    page.press("Send All", ".chat")
    page.see(".bubble .status", "Sending…")
    transport.release()
    page.see(".notice p", "1 message sent.")


def test_A8_in_mode_auto_offline_a_queued_message_says_that_it_will_be_sent(opened: Opener, show: Shower) -> None:
    queue = opened(mode=Mode.AUTO, online=False)
    queue.enqueue("one", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.see_texts(".bubble .status", ["Queued · will send when online"])


def test_X1_a_message_behind_another_says_so(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(mode=Mode.AUTO, retry=RetryPolicy(ladder=[3600]))
    transport.answer("first", Outcome.http(503))
    first = queue.enqueue("first", conversation="ana")
    second = queue.enqueue("second", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.see(f"{page.row(second)} .status", "Queued · Behind another message")
    page.see(f"{page.row(first)} .status", lambda text: text.startswith("Queued · ") and "min" in text)
    page.press("Details of this message", page.row(second))
    page.see("dialog .sentence", lambda text: text.startswith("Behind another message."))
    page.press("Show that message")
    page.see("dialog .body", "first")
    page.see("dialog .sentence .quiet", lambda text: text.startswith("Until "))


def test_H11_changes_by_other_programs_are_shown(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.record("helo", sender="eve", conversation="ana", id="r")
    queue.record("second", sender="eve", conversation="ana", id="s")
    mine = queue.enqueue("mine 1", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.see_texts(".bubble-text", ["helo", "second", "mine 1"])
    # Neither changes a count.
    queue.update("r", "hello")
    page.see_texts(".bubble-text", ["hello", "second", "mine 1"])
    queue.edit(mine, "mine 2")
    page.see_texts(".bubble-text", ["hello", "second", "mine 2"])
    # A time moves the message.
    queue.update("r", "hello again", time=queue.get("s").time + timedelta(milliseconds=1))
    page.see(".bubble:first-child .bubble-text", "second")
    queue.update("s", "the newest", time=queue.get(mine).time + timedelta(hours=1))
    page.see(".bubble:last-child .bubble-text", "the newest")
    page.see(".item-text", "the newest")


def test_H11_a_message_that_moves_before_what_is_kept_comes_with_its_page(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    ids = [queue.record(f"text {number}", sender="eve", conversation="ana") for number in range(120)]
    page = show(queue, "#/conversations/ana")
    page.see(".bubble:last-child .bubble-text", "text 119")
    queue.update(ids[119], "moved", time=queue.get(ids[0]).time - timedelta(hours=1))
    page.see(".bubble:last-child .bubble-text", "text 118")

    def scroll_up() -> bool:
        page.script('document.querySelector(".chat-scroll").scrollTop = 0')
        return bool(page.script(BUBBLES)[0] == "moved")

    page.until(scroll_up, "the first message")
    # Without a gap.
    assert page.script(BUBBLES) == ["moved", *(f"text {number}" for number in range(119))]


def test_H3_history_pages_backwards_offline(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue_bodies([f"text {number}" for number in range(230)], conversation="ana")
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    page = show(queue, "#/conversations/ana")
    page.see(".bubble .bubble-text", "text 229")
    shown = page.script('return document.querySelectorAll(".bubble").length')
    assert shown < 230
    # The newest is in view, and scrolling up loads page after page without losing the place.
    assert page.script(
        'const s = document.querySelector(".chat-scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 5'
    )

    def scroll_up() -> bool:
        page.script('document.querySelector(".chat-scroll").scrollTop = 0')
        return "text 0" in page.script('return document.querySelector(".bubble-text").textContent')

    page.until(scroll_up, "the first message")
    texts = page.script('return [...document.querySelectorAll(".bubble-text")].map((each) => each.textContent)')
    assert texts == [f"text {number}" for number in range(230)]
    page.gone(".earlier")


def test_H3_many_messages_at_once_leave_no_hole_in_the_history(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue_bodies([f"text {number}" for number in range(60)], conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.until(lambda: page.script('return document.querySelectorAll(".bubble").length') >= 50)
    # More than the page reads at once.
    queue.enqueue_bodies([f"text {number}" for number in range(60, 260)], conversation="ana")

    def texts() -> list[str]:
        page.script('document.querySelector(".earlier")?.click()')
        found: list[str] = page.script(
            'return [...document.querySelectorAll(".bubble-text")].map((each) => each.textContent)'
        )
        return found

    page.until(lambda: texts() == [f"text {number}" for number in range(260)], "all messages")


def test_H3_earlier_messages_can_be_loaded_with_the_keyboard(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue_bodies(["x" * 400 for _ in range(160)], conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.until(lambda: page.script('return document.querySelectorAll(".bubble").length') >= 50)
    assert page.script('return document.querySelector(".earlier").tabIndex') == 0
    before = page.script('return document.querySelectorAll(".bubble").length')
    page.script('document.querySelector(".earlier").focus({preventScroll: true})')
    page.keys(Keys.ENTER)
    page.until(lambda: page.script('return document.querySelectorAll(".bubble").length') > before)


BUBBLES = 'return [...document.querySelectorAll(".bubble-text")].map((each) => each.textContent)'
# The texts of the bubbles in view.
IN_VIEW = """
const view = document.querySelector(".chat-scroll").getBoundingClientRect();
return [...document.querySelectorAll(".bubble")]
  .filter((each) => each.getBoundingClientRect().bottom > view.top && each.getBoundingClientRect().top < view.bottom)
  .map((each) => each.querySelector(".bubble-text").textContent);
"""
AT_END = 'const s = document.querySelector(".chat-scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 5'


def test_H3_a_long_conversation_stays_bounded_and_keeps_its_place(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    texts = [f"text {number}" for number in range(1500)]
    page = show(queue, "#/conversations/ana")
    most = 0

    def bubbles() -> list[str]:
        """The texts of all bubbles, which are a bounded part of the messages without a gap."""
        nonlocal most
        found: list[str] = page.script(BUBBLES)
        most = max(most, len(found))
        if found:
            first = texts.index(found[0])
            assert found == texts[first : first + len(found)]
        return found

    for start in range(0, 900, 30):
        queue.enqueue_bodies(texts[start : start + 30], conversation="ana")
        bubbles()
    page.until(lambda: bubbles()[-1:] == texts[899:900], "the newest message")
    page.until(lambda: page.script(AT_END), "the end")

    # Up to the first message, and nothing is skipped.
    seen = set(page.script(IN_VIEW))

    def scroll(distance: int, end: str) -> bool:
        page.script('document.querySelector(".chat-scroll").scrollTop += arguments[0]', distance)
        seen.update(page.script(IN_VIEW))
        bubbles()
        return end in seen

    page.until(lambda: scroll(-500, texts[0]), "the first message", timeout=120)
    assert seen == set(texts[:900])
    # What the person reads stays where it is, whatever comes: one by one, and more at once than a page has.
    page.script('document.querySelector(".chat-scroll").scrollTop = 300')
    page.until(lambda: texts[5] in page.script(IN_VIEW))
    page.unanswered()
    view = page.script(IN_VIEW)
    for start, end in ((900, 903), (903, 1500)):
        queue.enqueue_bodies(texts[start:end], conversation="ana")
        page.see(".chat .reason", f"{end:,} messages queued")
        page.unanswered()
        assert page.script(IN_VIEW) == view
        bubbles()
    page.script('document.querySelector(".chat-scroll").scrollTop += 3000')
    seen.clear()
    page.until(lambda: scroll(500, texts[600]), "later messages", timeout=120)
    assert most <= 450
    # One's own new message is shown at once.
    texts.append("my own")
    page.write(".compose textarea", "my own")
    page.keys(Keys.ENTER)
    page.until(lambda: "my own" in page.script(IN_VIEW), "the own message")
    page.until(lambda: page.script(AT_END), "the end")
    page.gone(".later")
    bubbles()
    assert most <= 450


def test_H3_history_above_a_change_of_many_messages_is_kept(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue_bodies([f"text {number}" for number in range(100)], conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.until(lambda: len(page.script(BUBBLES)) >= 50)
    page.script('document.querySelector(".chat-scroll").scrollTop = 0')
    page.until(lambda: len(page.script(BUBBLES)) == 100, "the history")
    page.unanswered()
    page.script('document.querySelector(".chat-scroll").scrollTop = 0')
    view = page.script(IN_VIEW)
    assert view[0] == "text 0"
    page.press("Send All", ".chat")
    page.see(".notice p", "100 messages sent.")
    page.see(".chat .reason", "100 messages sent")
    page.unanswered()
    assert page.script(IN_VIEW)[0] == "text 0"
    # While nothing is in view any more, the newest ones are shown.
    queue.clear()
    for message in queue.list(status=list(Status), limit=1000):
        queue.delete(message.id)
    page.see(".chat-scroll > p", "No messages")


def test_H3_a_view_that_shows_the_beginning_of_what_is_loaded_loads_more(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue_bodies([f"text {number}" for number in range(300)], conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.size(1440, 9000)
    # A page of messages is less than the window shows.
    page.until(lambda: len(page.script(BUBBLES)) > 100, "as much as the window shows")
    page.driver.refresh()
    page.until(lambda: len(page.script(BUBBLES)) > 100, "as much as the window shows")
    # More than a page at once, while the beginning is in view.
    page.size(1440, 900)
    page.driver.refresh()
    page.until(lambda: len(page.script(BUBBLES)) >= 50)
    page.script('document.querySelector(".chat-scroll").scrollTop = 0')
    page.until(lambda: len(page.script(BUBBLES)) >= 100)
    queue.enqueue_bodies([f"text {number}" for number in range(300, 1000)], conversation="ana")
    page.see(".chat .reason", "1,000 messages queued")

    def up() -> bool:
        page.script('document.querySelector(".chat-scroll").scrollTop = 0')
        return "text 0" in page.script(IN_VIEW)

    page.until(up, "the first message")


def test_H2_messages_of_others_stand_between_ones_own(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue("question", conversation="ana")
    queue.drain()
    queue.record("answer", conversation="ana", sender="Ana", id="answer")
    page = show(queue, "#/conversations/ana")
    page.see_texts(".bubble-text", ["question", "answer"])
    page.see(".bubble.received .sender", "Ana")
    queue.record("and more", conversation="ana", sender="Ana", id="more")
    page.see_texts(".bubble-text", ["question", "answer", "and more"])


def test_H4_conversations_with_preview_time_and_counts(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    transport.answer("bad", Outcome.reject(code=400))
    queue.enqueue("bad", conversation="ana")
    queue.drain()
    queue.record("hello", conversation="ben", sender="Ben", id="hello")
    for number in range(2):
        queue.enqueue(f"text {number}", conversation="ana")
    queue.enqueue("nobody", conversation="")
    page = show(queue, "#/conversations")
    page.see_texts(".conversations .name", ["(no name)", "ana", "ben"])
    page.see_texts(".item-text", ["Queued: nobody", "Queued: text 1", "hello"])
    page.see_texts(".conversations time", ["Just now"] * 3)
    page.see_texts(".badges", ["1 queued", "2 queued 1 failed", "1 unread"])
    # The newest message moves its conversation to the front.
    queue.enqueue("again", conversation="ben")
    page.see_texts(".conversations .name", ["ben", "(no name)", "ana"])
    page.press("ana Just now Queued: text 1 2 queued 1 failed", ".conversations")
    page.see("h1", "ana")


def test_H4_the_list_goes_on_page_by_page(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    for number in range(60):
        queue.enqueue("x", conversation=f"name {number}")
    page = show(queue, "#/conversations")
    page.until(lambda: len(page.texts(".conversations .name")) == 50)
    page.press("Show more conversations")
    page.until(lambda: len(page.texts(".conversations .name")) == 60)
    page.gone(".conversation-list > button")


def test_Q17_deleting_asks_first_and_drops_the_unsent_messages(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue("sent", conversation="ana")
    queue.drain()
    for number in range(3):
        queue.enqueue(f"text {number}", conversation="ana")
    queue.enqueue("other", conversation="ben")
    page = show(queue, "#/conversations/ana")
    page.press("Delete unsent", ".chat")
    page.see("dialog p", "3 messages in ana will be deleted. What was sent stays.")
    page.press("Cancel")
    page.gone("dialog")
    assert queue.counts("ana").queued == 3
    page.press("Delete unsent", ".chat")
    page.press("Delete")
    page.see_texts(".bubble-text", ["sent"])
    assert queue.counts().queued == 1


def test_Q17_what_is_queued_during_the_question_is_asked_about(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    for number in range(3):
        queue.enqueue(f"text {number}", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.press("Delete unsent", ".chat")
    page.see("dialog p", "3 messages in ana will be deleted. What was sent stays.")
    for number in range(50):
        queue.enqueue(f"new {number}", conversation="ana")
    page.press("Delete")
    page.see("dialog p", "53 messages in ana will be deleted. What was sent stays.")
    assert queue.counts("ana").queued == 53
    queue.delete(queue.list("ana")[0].id)
    page.press("Delete")
    page.see(".notice p", "52 messages deleted.")
    assert queue.counts("ana").queued == 0


def test_I5_a_message_is_composed(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("first", conversation="ana")
    page = show(queue, "#/conversations/ana")
    assert page.script('return document.querySelector(".compose [type=submit]").disabled')
    page.write(".compose textarea", "   ")
    assert page.script('return document.querySelector(".compose [type=submit]").disabled')
    page.keys(Keys.ENTER)
    page.write(".compose textarea", "  hello there  ")
    page.keys(Keys.ENTER)
    page.see_texts(".bubble-text", ["first", "hello there"])
    page.until(lambda: page.script('return document.querySelector(".compose textarea").value') == "")
    assert queue.list(conversation="ana")[-1].text == "hello there"
    page.write(".compose textarea", "two")
    page.keys(Keys.SHIFT + Keys.ENTER + Keys.NULL)
    page.click(".compose [type=submit]")
    page.until(lambda: queue.counts().queued == 3)


def test_I5_a_refusal_says_why_and_keeps_the_text(opened: Opener, show: Shower) -> None:
    queue = opened(online=False, limit_messages=1)
    queue.enqueue("first", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.write(".compose textarea", "second")
    page.keys(Keys.ENTER)
    page.see(".notice p", "Failed to queue message: The queue is full.")
    assert page.script('return document.querySelector(".compose textarea").value') == "second"
    assert queue.counts().queued == 1


def test_I5_a_new_conversation_begins_with_a_message(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    page = show(queue, "#/conversations")
    page.press("New message")
    page.see("dialog h2", "New message")
    page.keys("someone new", Keys.TAB, "hello", Keys.ENTER)
    page.see("h1", "someone new")
    page.see_texts(".bubble-text", ["hello"])
    assert queue.list()[0].conversation == "someone new"


def test_H6_relative_times_are_computed_again_without_network(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("x", conversation="ana")
    page = show(queue)
    page.see_texts(".row time", ["Just now"])
    page.script("window.realNow = Date.now")
    page.offline(True)
    try:
        minute, hour, day = 60_000, 3_600_000, 86_400_000
        for passed, text in (
            (5 * minute, "5m ago"),
            (2 * hour, "2h ago"),
            (3 * day, "3d ago"),
            (-2 * hour, "Just now"),
        ):
            page.script(f"Date.now = () => window.realNow() + {passed} + 2000;")
            page.script('document.dispatchEvent(new Event("visibilitychange"))')
            page.see_texts(".row time", [text])
        page.script(f"Date.now = () => window.realNow() + {8 * day};")
        page.script('document.dispatchEvent(new Event("visibilitychange"))')
        date = page.script(
            'return new Date(Number(document.querySelector(".row time").dataset.ms))'
            '.toLocaleDateString(undefined, {year: "numeric", month: "short", day: "numeric"})'
        )
        page.see_texts(".row time", [date])
    finally:
        page.offline(False)
    page.expected_errors = ["ERR_INTERNET_DISCONNECTED"]

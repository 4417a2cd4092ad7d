"""Notices and the prompt: where they are read, what they never cover, and when they go."""

from __future__ import annotations

import pytest
from conftest import Opener, Shower
from msgqueue import Connectivity, Mode, Outcome
from selenium.webdriver.common.keys import Keys
from transport import Transport

# The controls that another element covers, and the last row when it is scrolled to.
COVERED = """
const list = document.querySelector(".window");
if (list) list.scrollTop = list.scrollHeight;
const parts = [...document.querySelectorAll(
  "header.top, .tabs a, .bar button, main h1, main .view-head button, main .view-head a, .compose textarea," +
  ".compose button, .row [data-control], .filters a"
)].filter((each) => each.checkVisibility() && each.getBoundingClientRect().width > 0);
const isCovered = (part) => {
  const { left, right, top, bottom } = part.getBoundingClientRect();
  // A row that is scrolled out of its list is not covered.
  const box = part.closest(".row") && list.getBoundingClientRect();
  if (box && (top < box.top || bottom > box.bottom)) return false;
  return [...document.querySelectorAll(".notice, .toast")].some((each) => {
    const own = each.getBoundingClientRect();
    return own.left < right && own.right > left && own.top < bottom && own.bottom > top;
  }) || bottom > innerHeight + 1;
};
return parts.filter(isCovered).map((each) => each.outerHTML.slice(0, 80));
"""
# The region of the first notice: its role, and whether it and its button can be read and pressed.
REGION = """
const notice = document.querySelector(arguments[0]);
const box = notice.querySelector("button").getBoundingClientRect();
const top = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
const region = notice.parentElement;
return [region.role, region.ariaLive, notice.contains(top), region.closest("dialog")?.matches(":modal") ?? false];
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_I8_notices_and_the_prompt_cover_nothing(opened: Opener, show: Shower, width: int) -> None:
    queue = opened(mode=Mode.ASK, online=False, prompt_timeout=600.0)
    for number in range(40):
        queue.enqueue(f"text {number}", conversation="ana")
    page = show(queue)
    page.size(width, 800)
    page.press("Send All", ".bar")
    page.see(".notice p", "You're offline. Nothing was sent.")
    assert page.script(COVERED) == []
    queue.set_connectivity(Connectivity.ONLINE)
    page.see(".toast button", "Yes, send all")
    # Several notices at once, as from several actions.
    queue.pause()
    page.see(".bar-text strong", "Sending is paused.")
    page.press("Send All", ".view-head")
    page.see(".notice p", "Sending is paused.")
    assert page.script(COVERED) == []
    page.go("#/conversations/ana")
    page.see(".bubble .bubble-text", "text 39")
    assert page.script(COVERED) == []
    assert page.texts(".notice, .toast strong")
    # The newest message is still in view.
    assert page.script(
        'const s = document.querySelector(".chat-scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 5'
    )


def test_I8_a_notice_is_read_and_closed_above_an_open_sheet(opened: Opener, show: Shower) -> None:
    queue = opened(mode=Mode.ASK, online=False, prompt_timeout=600.0)
    id = queue.enqueue("text", conversation="ana")
    page = show(queue)
    page.press("text", page.row(id))
    page.press("Send now")
    page.see(".notice p", "No internet connection. The message stays queued.")
    assert page.script(REGION, ".notice") == ["status", "polite", True, True]
    queue.set_connectivity(Connectivity.ONLINE)
    page.see(".toast button", "Yes, send all")
    assert page.script(REGION, ".toast") == ["status", "polite", True, True]
    page.press("Review first")
    page.gone("dialog")
    queue.pause()
    page.see(".bar-text strong", "Sending is paused.")
    page.press("Send All", ".view-head")
    page.see(".notice p", "Sending is paused.")
    assert page.script(REGION, ".notice") == ["status", "polite", True, False]
    # A notice that was there before the sheet stays readable.
    page.press("text", page.row(id))
    page.see("dialog h2", "Message")
    assert page.script(REGION, ".notice") == ["status", "polite", True, True]
    page.press("Close this notice")
    page.gone(".notice")
    assert page.script('return document.querySelector("dialog").contains(document.activeElement)')
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.until(lambda: page.script('return document.getElementById("notices").parentElement === document.body'))


def test_I8_a_notice_goes_when_it_is_no_longer_true(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.start_control()
    id = queue.enqueue("text", conversation="ana")
    page = show(queue)
    page.press("Send All", ".bar")
    page.press("Send now", page.row(id))
    page.see_texts(
        ".notice", ["You're offline. Nothing was sent.", "No internet connection. The message stays queued."]
    )
    queue.set_connectivity(Connectivity.ONLINE)
    page.gone(".notice", timeout=3)
    queue.pause()
    page.see(".bar-text strong", "Sending is paused.")
    page.press("Send All", ".view-head")
    page.see(".notice p", "Sending is paused.")
    page.press("Resume", ".bar")
    page.gone(".notice", timeout=3)
    # After the close the page shows what it knew before.
    page.until(lambda: page.has("Send now", page.row(id)), "the row that is not paused")
    queue.close()
    page.see(".bar-text strong", "The queue was closed.")
    page.press("Send now", page.row(id))
    page.see(".notice p", "The queue is closed.")
    again = opened()
    again.start_control()
    page.gone(".notice", timeout=5)


def test_I8_a_notice_of_another_message_stays_its_time(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    transport.answer("bad", Outcome.reject(code=400))
    queue.enqueue("bad", conversation="ana")
    page = show(queue)
    page.press("Send All", ".view-head")
    page.see(".notice p", "1 message failed.")
    queue.enqueue("other", conversation="ana")
    page.see(".row .preview", "other")
    assert page.texts(".notice p") == ["1 message failed."]

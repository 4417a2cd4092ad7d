"""The focus: no action and no change of the list takes it from the person who works by keyboard."""

from __future__ import annotations

from time import monotonic

from conftest import Opener, Shower
from msgqueue import MessageQueue, Outcome
from page import Page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.keys import Keys
from transport import Transport

# The preview of the row with the focus, and the name of its control.
PLACE = """
const row = document.activeElement.closest(".row");
return row && [row.querySelector(".preview").textContent, document.activeElement.innerText.trim()];
"""
# The rows that are whole in view.
IN_VIEW = """
const list = document.querySelector(".window").getBoundingClientRect();
return [...document.querySelectorAll(".row")]
  .filter((row) => { const b = row.getBoundingClientRect(); return b.top >= list.top && b.bottom <= list.bottom; })
  .map((row) => row.querySelector(".preview").textContent);
"""


def place(page: Page) -> list[str] | None:
    found: list[str] | None = page.script(PLACE)
    return found


def see_place(page: Page, preview: str, control: str) -> None:
    page.until(lambda: place(page) == [preview, control], lambda: f"the focus on {preview}, {control}: {place(page)}")


def focus(page: Page, id: str, control: str) -> None:
    page.element(f"{page.row(id)} [data-control={control}]")
    page.script(f"document.querySelector('{page.row(id)} [data-control={control}]').focus()")


def failed(queue: MessageQueue, transport: Transport, *later: Outcome) -> list[str]:
    """Makes three failed messages; `later` are the further answers to the second."""
    for number in range(3):
        transport.answer(f"text {number}", Outcome.reject(code=422), *(later if number == 1 else ()))
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(3)]
    assert queue.drain().failed == 3
    return ids


def test_I8_a_retry_by_keyboard_that_fails_again_leaves_the_focus_where_it_was(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    ids = failed(queue, transport, Outcome.reject(code=422))
    page = show(queue)
    focus(page, ids[1], "retry")
    transport.hold()
    page.keys(Keys.ENTER)
    page.see(f"{page.row(ids[1])} .badge", "Sending…")
    see_place(page, "text 1", "text 1")
    transport.release()
    page.see(f"{page.row(ids[1])} .badge", "Failed")
    see_place(page, "text 1", "Retry")


def test_I8_a_message_that_goes_gives_the_focus_to_the_next_one(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    ids = failed(queue, transport)
    page = show(queue)
    focus(page, ids[1], "retry")
    page.keys(Keys.ENTER)
    page.see_texts(".row .preview", ["text 0", "text 2"])
    see_place(page, "text 2", "Retry")
    # From the last one it goes to the one before, and from the only one to the content.
    page.keys(Keys.ENTER)
    page.see_texts(".row .preview", ["text 0"])
    see_place(page, "text 0", "Retry")
    page.keys(Keys.ENTER)
    page.see(".empty h2", lambda text: text.startswith("No "))
    page.until(lambda: page.script("return document.activeElement.id") == "content")


def test_I8_send_now_by_keyboard_goes_from_row_to_row(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened()
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(6)]
    page = show(queue)
    focus(page, ids[2], "send-now")
    page.keys(Keys.ENTER)
    page.see_texts(".row .preview", ["text 0", "text 1", "text 3", "text 4", "text 5"])
    see_place(page, "text 3", "Send now")
    page.keys(Keys.DOWN)
    see_place(page, "text 4", "Send now")
    page.keys(Keys.ENTER)
    page.see_texts(".row .preview", ["text 0", "text 1", "text 3", "text 5"])
    see_place(page, "text 5", "Send now")
    assert transport.sent == ["text 2", "text 4"]


def test_I8_arrow_keys_work_after_every_action(opened: Opener, show: Shower) -> None:
    queue = opened()
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(6)]
    page = show(queue)
    # Delete, by the question.
    focus(page, ids[1], "delete")
    page.keys(Keys.ENTER)
    page.see("dialog h2", "Delete this message?")
    page.keys(Keys.TAB, Keys.ENTER)
    page.see_texts(".row .preview", ["text 0", "text 2", "text 3", "text 4", "text 5"])
    see_place(page, "text 2", "Delete")
    page.keys(Keys.DOWN)
    see_place(page, "text 3", "Delete")
    # Edit, saved.
    focus(page, ids[3], "edit")
    page.keys(Keys.ENTER)
    page.see("dialog h2", "Edit message")
    page.keys("!")
    page.element("dialog textarea").send_keys(Keys.CONTROL, Keys.ENTER)
    page.gone("dialog")
    page.see(".row .preview", lambda text: "!" in text)
    page.keys(Keys.UP)
    see_place(page, "text 2", "Edit")
    # The sheet, from which the message is sent.
    focus(page, ids[2], "open")
    page.keys(Keys.ENTER)
    page.press("Send now")
    page.see("dialog .badge", "Sent")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.keys(Keys.DOWN)
    page.until(lambda: place(page) is not None, lambda: page.focus)


def test_I8_after_scrolling_with_the_mouse_tab_leads_to_a_row_in_view(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue_bodies([f"text {number}" for number in range(3000)], conversation="ana")
    page = show(queue)
    page.see(".row .preview", "text 0")

    def scroll() -> list[str]:
        before = page.script('return document.querySelector(".window").scrollTop')
        origin = ScrollOrigin.from_element(page.element(".window"))
        turned = 0.0

        def turn() -> bool:
            nonlocal turned
            top = page.script('return document.querySelector(".window").scrollTop')
            # A browser that is short of processor time sometimes loses the turn of the wheel.
            if top == before and monotonic() > turned + 3:
                ActionChains(page.driver).scroll_from_origin(origin, 0, 9000).perform()
                turned = monotonic()
            return bool(top >= before + 9000)

        page.until(turn)
        page.until(lambda: len(page.script(IN_VIEW)) > 3)
        seen: list[str] = page.script(IN_VIEW)
        return seen

    seen = scroll()
    page.script('document.querySelector(".tool-buttons button:last-child").focus()')
    page.keys(Keys.TAB)
    found = place(page)
    assert found is not None
    assert found[0] in seen
    assert page.script(IN_VIEW) == seen
    # Also from a row that was scrolled out of view.
    seen = scroll()
    page.keys(Keys.TAB)
    page.until(lambda: (place(page) or [""])[0] in seen, lambda: (place(page), seen))
    assert page.script(IN_VIEW) == seen


def test_I8_buttons_that_go_give_the_focus_to_the_next_one(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue("text", conversation="ana")
    for hash in ("#/queue", "#/conversations/ana"):
        page = show(queue, hash)
        see_button(page, "Pause")
        page.script('[...document.querySelectorAll("main button")].find((e) => e.innerText.trim() === "Pause").focus()')
        page.keys(Keys.ENTER)
        see_focus(page, "Resume")
        page.keys(Keys.ENTER)
        see_focus(page, "Pause")


def see_button(page: Page, name: str) -> None:
    page.until(lambda: page.has(name, "main"), f"the button {name}")


def see_focus(page: Page, name: str) -> None:
    page.until(lambda: page.focus == name, f"the focus on {name}")


def test_I8_a_bubble_that_goes_gives_the_focus_to_the_next_one(opened: Opener, show: Shower) -> None:
    queue = opened()
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(3)]
    page = show(queue, "#/conversations/ana")
    page.element(f"{page.row(ids[1])} button")
    page.script(f"document.querySelector('{page.row(ids[1])} button').focus()")
    queue.delete(ids[1])
    page.gone(page.row(ids[1]))
    where = 'return document.activeElement.closest(".bubble")?.dataset.id'
    page.until(lambda: page.script(where) == ids[2])

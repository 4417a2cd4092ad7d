"""Edit in the browser: what a person typed is kept, and what nobody touched stays as it was."""

from __future__ import annotations

import pytest
from conftest import Opener, Shower
from page import Page
from selenium.webdriver.common.keys import Keys


def edit(page: Page, id: str) -> None:
    page.press("Edit", page.row(id))
    page.see("dialog h2", "Edit message")


def save(page: Page) -> None:
    page.press("Save")
    page.gone("dialog")


# ---------------------------------------------------------------- line ends


@pytest.mark.parametrize("body", ["a\r\nb", "a\rb\r", "a\nb\r\nc\rd", "\r\n\r\na", "a\n\rb", "a\u2028b\x85c\x0cd"])
def test_I7_line_ends_that_nobody_touched_are_kept(opened: Opener, show: Shower, body: str) -> None:
    queue = opened(online=False)
    id = queue.enqueue(body)
    page = show(queue)
    edit(page, id)
    save(page)
    assert queue.get(id).text == body
    # A text behind the last line changes no byte before it.
    edit(page, id)
    page.element("dialog textarea").send_keys(Keys.CONTROL, Keys.END)
    page.keys("!")
    save(page)
    assert queue.get(id).text == body + "!"


def test_I7_new_lines_get_the_ends_of_their_neighbours(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("one\r\ntwo\rthree\nfour")
    page = show(queue)
    edit(page, id)
    # Both ends are edited at once; the lines between them are not touched.
    page.element("dialog textarea").send_keys(Keys.CONTROL, Keys.HOME)
    page.keys("zero", Keys.ENTER)
    page.element("dialog textarea").send_keys(Keys.CONTROL, Keys.END)
    page.keys(Keys.ENTER, "five")
    save(page)
    assert queue.get(id).text == "zero\r\none\r\ntwo\rthree\nfour\nfive"

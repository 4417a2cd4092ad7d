"""The page by keyboard and screen reader, in both colour schemes and at three widths."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import axe_core_python  # type: ignore[import-untyped]
import pytest
from conftest import Opener, Shower
from msgqueue import Connectivity, MessageQueue, Mode, Outcome, Status
from page import Page
from selenium.webdriver.common.keys import Keys
from transport import Transport

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


def choose_one(page: Page) -> None:
    page.press("Select")
    page.click(".row .choose")


# Of each view: its name, what leads to it, and what it shows then.
VIEWS: list[tuple[str, Callable[[Page], object], str, str]] = [
    ("queue", lambda page: page.go("#/queue"), "h1", "Offline queue (4)"),
    ("failed", lambda page: page.go("#/queue?show=failed"), ".row .badge", "Failed"),
    ("groups", lambda page: page.go("#/queue?show=failed"), ".groups strong", "HTTP 422"),
    ("group", lambda page: page.go("#/queue?by=rejected:422"), ".row .preview", "refused"),
    ("chosen", choose_one, ".selection strong", "1 message chosen"),
    ("details", lambda page: page.click(".row .open"), "dialog .attempts h3", "1 attempt"),
    ("edit", lambda page: page.press("Edit", ".row"), "dialog h2", "Edit message"),
    ("delete", lambda page: page.press("Delete", ".row"), "dialog h2", "Delete this message?"),
    ("conversation", lambda page: page.go("#/conversations/ana"), ".chat h1", "ana"),
    ("conversations", lambda page: page.go("#/conversations"), ".conversations .name", "ana"),
    ("activity", lambda page: page.go("#/activity"), ".tiles dt", "Time to send"),
    ("search", lambda page: page.go("#/search?q=text"), "mark", "text"),
    ("notice", lambda page: page.press("Send All", ".bar"), ".notice p", "You're offline. Nothing was sent."),
]


def populated(opened: Opener, transport: Transport) -> MessageQueue:
    """Returns a queue, offline, with a message of every status."""
    queue = opened()
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(3)]
    queue.drain()
    queue.mark(ids[1], Status.DELIVERED)
    queue.mark(ids[2], Status.READ)
    transport.answer("refused", Outcome.reject(code=422, text="no"))
    queue.enqueue("refused", conversation="ana")
    queue.drain()
    queue.record("from Ana", conversation="ana", sender="Ana", id="received")
    for number in range(3):
        queue.enqueue(f"queued text {number}", conversation="ana")
    queue.set_connectivity(Connectivity.OFFLINE)
    return queue


def violations(page: Page) -> list[str]:
    """Returns what axe-core finds on the page."""
    page.script(f"if (!window.axe) {{ {AXE} }}")
    result: dict[str, Any] = page.driver.execute_async_script(
        "const done = arguments[1]; axe.run(document, arguments[0]).then(done, (e) => done({error: String(e)}));", RULES
    )
    assert "error" not in result, result
    return [
        f"{found['id']}: {found['help']}: {json.dumps([node['html'][:160] for node in found['nodes'][:3]])}"
        f" {found['nodes'][0].get('failureSummary', '')}"
        for found in result["violations"]
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_I5_no_view_has_a_barrier(opened: Opener, show: Shower, transport: Transport, dark: bool) -> None:
    """Names, roles, contrasts, order of headings: the rules of axe-core for WCAG 2.1 A and AA, in every view."""
    page = show(populated(opened, transport))
    problems = []
    for width in (1440,) if dark else (1440, 390):
        page.size(width, 900, dark=dark)
        for name, lead, selector, text in VIEWS:
            page.go("#/queue")
            page.see("h1", "Offline queue (4)")
            page.see(".row .badge", "Failed")
            lead(page)
            page.see(selector, text)
            problems += [f"{name}, {width}: {each}" for each in violations(page)]
            if page.texts("dialog"):
                page.keys(Keys.ESCAPE)
                page.gone("dialog")
    assert problems == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_I5_toast_bars_and_empty_states_have_no_barrier(opened: Opener, show: Shower, dark: bool) -> None:
    queue = opened(mode=Mode.ASK, online=False, prompt_timeout=600.0)
    page = show(queue)
    page.size(1440, 900, dark=dark)
    page.see(".empty h2", "No queued messages")
    problems = violations(page)
    queue.enqueue("text", conversation="ana")
    page.see(".bar.offline", lambda text: "1 message queued" in text)
    queue.set_connectivity(Connectivity.ONLINE)
    page.see(".toast button", "Yes, send all")
    problems += violations(page)
    queue.pause()
    page.see(".bar-text strong", "Sending is paused.")
    problems += violations(page)
    queue.close()
    page.see(".bar-text strong", "The queue was closed.")
    problems += violations(page)
    assert problems == []


NAMES = [
    "",
    " ",
    "\u00a0 \u3000",
    "\u202eana",
    "a\u200bb",
    "\u2067\u2069\u00ad",
    "<b>&amp;</b>",
    "W" * 255,
    "\u0301" * 60,
    "👩\u200d🔧",
]


@pytest.mark.parametrize("width", [1440, 390])
def test_I8_hostile_names_have_no_barrier_and_are_seen(
    opened: Opener, show: Shower, transport: Transport, width: int
) -> None:
    queue = opened()
    for number, name in enumerate(NAMES):
        transport.answer(f"text {number}", Outcome.reject(code=422, text=name))
        queue.enqueue(f"text {number}", conversation=name, metadata={name or " ": name})
        queue.record("received", conversation=name, sender=name or " ", id=f"received {number}")
    queue.drain()
    page = show(queue)
    page.size(width, 900)
    page.until(lambda: len(page.texts(".row .conversation")) == len(NAMES))
    # Nothing is invisible, and no mark changes the direction of what follows.
    shown = page.texts(".row .conversation")
    assert shown[:6] == ["(no name)", "\\x20", "\\xa0\\x20\\u3000", "\\u202eana", "a\\u200bb", "\\u2067\\u2069\\xad"]
    assert shown[9] == "👩\\u200d🔧"
    problems = violations(page)
    page.click(".row .open")
    page.see("dialog .attempts h3", "1 attempt")
    problems += violations(page)
    page.go("#/conversations")
    page.until(lambda: len(page.texts(".conversations .name")) == len(NAMES))
    assert set(page.texts(".conversations .name")) == set(shown)
    problems += violations(page)
    for name in ("", " ", "\u202eana"):
        page.go(f"#/conversations/{quote(name, safe='')}")
        page.see(".bubble .sentence", lambda text: text != "")
        problems += violations(page)
    assert page.text(".chat h1") == "\\u202eana"
    assert problems == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_I8_sheets_notices_and_conflicts_have_no_barrier(opened: Opener, show: Shower, dark: bool) -> None:
    queue = opened(mode=Mode.ASK, online=False, prompt_timeout=600.0)
    queue.start_control()
    id = queue.enqueue("text", conversation="ana")
    page = show(queue)
    page.size(390 if dark else 1280, 900, dark=dark)
    page.press("text", page.row(id))
    page.press("Send now")
    page.see("dialog .notice p", "No internet connection. The message stays queued.")
    queue.set_connectivity(Connectivity.ONLINE)
    page.see("dialog .toast button", "Yes, send all")
    problems = violations(page)
    page.press("Edit", "dialog .sheet-buttons")
    page.see("dialog h2", "Edit message")
    page.write("dialog.edit textarea", "mine")
    queue.edit(id, "a longer one of another")
    page.see("dialog .conflict pre", "a longer one of another")
    problems += violations(page)
    page.keys(Keys.ESCAPE)
    page.gone("dialog.edit")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    queue.pause()
    page.see(".bar-text strong", "Sending is paused.")
    problems += violations(page)
    page.go("#/search")
    page.see(".search-help dt", "A part of a text")
    problems += violations(page)
    page.go("#/conversations")
    page.press("New message")
    page.see("dialog h2", "New message")
    problems += violations(page)
    queue.close()
    page.see(".bar-text strong", "The queue was closed.")
    problems += violations(page)
    assert problems == []


def tab_to(page: Page, name: str, most: int = 60) -> None:
    """Presses Tab until the element with that name has the focus, which must be visible."""
    for _ in range(most):
        page.keys(Keys.TAB)
        if page.focus == name:
            outline = page.script(
                "const e = document.activeElement; const s = getComputedStyle(e); const b = e.getBoundingClientRect();"
                "const isSeen = b.width > 0 && b.bottom > 0 && b.top < innerHeight;"
                "return [s.outlineStyle, parseFloat(s.outlineWidth), isSeen];"
            )
            assert outline == ["solid", 2, True], (name, outline)
            return
    raise AssertionError(f"Tab does not lead to {name}")


def test_I5_every_action_is_reached_by_keyboard(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = populated(opened, transport)
    page = show(queue)
    page.see(".row .badge", "Failed")
    for name in (
        *("Skip to the content", "msgqueue: the queue", "Search messages", "Queue 4", "Conversations", "Activity"),
        *("Send All", "Review", "Retry all", "Pause", "All 4", "Queued 3", "Failed 1"),
        *("Filter", "Conversation", "Sort", "Select", "Export"),
        *("refused", "Retry", "Edit", "Delete"),
    ):
        if name == "Search messages":
            page.keys(Keys.TAB)
            assert page.script("return document.activeElement.labels[0].textContent") == name
        else:
            tab_to(page, name, 3)


def test_I5_rows_are_walked_with_the_arrow_keys(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue_bodies([f"text {number}" for number in range(2000)], conversation="ana")
    page = show(queue)
    page.see(".row .preview", "text 0")
    tab_to(page, "text 0")
    page.keys(Keys.DOWN, Keys.DOWN)
    page.until(lambda: page.focus == "text 2")
    page.keys(Keys.END)
    page.until(lambda: page.focus == "text 1999", lambda: page.focus)
    page.keys(Keys.UP)
    page.until(lambda: page.focus == "text 1998")
    page.keys(Keys.HOME)
    page.until(lambda: page.focus == "text 0")
    page.keys(Keys.PAGE_DOWN)
    page.until(lambda: page.focus.startswith("text ") and int(page.focus[5:]) >= 5)
    # The same control of the next row.
    page.keys(Keys.HOME)
    page.until(lambda: page.focus == "text 0")
    page.keys(Keys.TAB, Keys.TAB)
    page.until(lambda: page.focus == "Edit")
    page.keys(Keys.DOWN)
    page.keys(Keys.ENTER)
    page.see("dialog h2", "Edit message")
    assert page.script('return document.querySelector("dialog textarea").value') == "text 1"
    # The focus is in the dialog, and returns to where it was.
    assert page.script('return document.querySelector("dialog").contains(document.activeElement)')
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    assert page.focus == "Edit"
    facts = page.script(
        'const e = document.activeElement.closest("[role=listitem]"); return [e.ariaPosInSet, e.ariaSetSize]'
    )
    assert facts == ["2", "2000"]


def test_I5_a_failed_message_is_retried_by_keyboard_alone(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = populated(opened, transport)
    queue.set_connectivity(Connectivity.ONLINE)
    page = show(queue, "#/conversations/ana")
    page.see(".bubble button", "Failed – retry")
    tab_to(page, "Failed – retry")
    page.keys(Keys.ENTER)
    page.see("dialog h2", "Message not sent")
    assert page.focus == "Cancel"
    tab_to(page, "Retry", 3)
    page.keys(Keys.SPACE)
    page.gone("dialog")
    page.until(lambda: queue.counts().failed == 0)
    assert page.script("return document.activeElement !== document.body")


def test_I5_the_focus_stays_where_it_is_while_the_list_changes(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(5)]
    page = show(queue)
    page.see(".row .preview", "text 4")
    page.script(f"document.querySelector('{page.row(ids[3])} [data-control=edit]').focus()")
    queue.delete(ids[0])
    page.see_texts(".row .preview", ["text 1", "text 2", "text 3", "text 4"])
    where = 'return document.activeElement.closest(".row")?.querySelector(".preview").textContent'
    assert page.script(where) == "text 3"
    assert page.focus == "Edit"
    # When its own message is gone, the row in its place has it.
    queue.delete(ids[3])
    page.see_texts(".row .preview", ["text 1", "text 2", "text 4"])
    page.until(lambda: page.script(where) == "text 4")


@pytest.mark.parametrize("width", [320, 390, 900, 1440])
def test_I5_nothing_is_cut_off_at_any_width(opened: Opener, show: Shower, transport: Transport, width: int) -> None:
    page = show(populated(opened, transport))
    page.size(width, 800)
    for hash, title in (
        ("#/queue", "Offline queue (4)"),
        ("#/conversations", "Conversations"),
        ("#/conversations/ana", "ana"),
        ("#/activity", "Activity"),
        ("#/search?q=text", "Search"),
    ):
        page.go(hash)
        page.see("h1", title)
        assert page.script("return document.documentElement.scrollWidth") <= width
        cut = page.script(
            'return [...document.querySelectorAll("button, a, input, h1")].filter((e) => e.checkVisibility() &&'
            '!e.closest(".skip, .hidden-text")).filter((e) => { const b = e.getBoundingClientRect();'
            "return b.width > 0 && (b.left < -1 || b.right > innerWidth + 1); }).map((e) => e.outerHTML.slice(0, 99))"
        )
        assert cut == [], hash

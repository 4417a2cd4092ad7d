"""Edit in the browser: what a person typed is kept, and what nobody touched stays as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Opener, Shower
from page import Page
from selenium.webdriver.common.action_chains import ActionChains
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


def test_I7_an_empty_line_between_other_ends_stays(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("a\rb\nc")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "a\n\nc")
    save(page)
    assert queue.get(id).text == "a\r\rc"


def test_I7_an_edit_with_mixed_line_ends_is_saved_as_it_was_typed(opened: Opener, show: Shower) -> None:
    page = show(opened(online=False))
    wrong = page.script(
        """
        return import("/line-ends.js").then(({ withLineEndsOf }) => {
          let seed = 1;
          const random = (count) => (seed = (seed * 48271) % 2147483647) % count;
          const some = (most, make) => Array.from({ length: 1 + random(most) }, make);
          const wrong = [];
          let changed = 0;
          for (let number = 0; number < 50_000; number += 1) {
            const ends = some(6, () => ["\\r\\n", "\\r", "\\n"][random(3)]);
            const original = ends.map((end) => (random(3) ? `line ${random(4)}` : "") + end).join("");
            const lines = original.split(/\\r\\n|\\r|\\n/);
            for (const _ of some(2, () => 0)) {
              lines.splice(random(lines.length + 1), random(3), ...some(2, () => (random(2) ? "" : "new")));
            }
            const edited = lines.join("\\n");
            const saved = withLineEndsOf(original, edited);
            if (saved.replace(/\\r\\n|\\r/g, "\\n") !== edited) wrong.push([original, edited, saved]);
            changed += saved !== original;
          }
          return changed > 40_000 ? wrong.slice(0, 5) : changed;
        });
        """
    )
    assert wrong == []


# ---------------------------------------------------------------- changes elsewhere


def field(page: Page) -> str:
    text: str = page.script('return document.querySelector("dialog textarea").value')
    return text


def test_I7_an_edit_does_not_overwrite_a_change_elsewhere(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("first")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "mine")
    # As if the event came after Save.
    page.script(
        "window.fetch = ((real) => async (path, options) => {"
        'if (options?.body?.includes(\'"call":"get"\') && !window.isSaved) await new Promise(() => {});'
        "return real(path, options); })(window.fetch)"
    )
    queue.edit(id, "FIRST")
    page.see(".row .preview", "FIRST")
    page.script("window.isSaved = true")
    page.press("Save")
    page.see("dialog .note", "This message was changed elsewhere. Its new text is shown below yours.")
    page.see("dialog .conflict pre", "FIRST")
    assert field(page) == "mine"
    assert queue.get(id).text == "FIRST"
    assert page.script('return document.querySelector("dialog [type=submit]").disabled')
    page.press("Keep mine")
    page.gone("dialog .conflict")
    assert field(page) == "mine"
    save(page)
    assert queue.get(id).text == "mine"


def test_I7_a_change_elsewhere_is_shown_while_the_sheet_is_open(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("first")
    page = show(queue)
    edit(page, id)
    # Nothing was typed: there is nothing to ask.
    queue.edit(id, "second text")
    page.see("dialog .note", "This message was changed elsewhere. This is its new text.")
    assert field(page) == "second text"
    page.write("dialog textarea", "mine")
    queue.edit(id, "the third text")
    page.see("dialog .conflict pre", "the third text")
    queue.edit(id, "the fourth text of it")
    page.see("dialog .conflict pre", "the fourth text of it")
    page.press("Keep mine")
    page.gone("dialog .conflict")
    assert field(page) == "mine"
    queue.edit(id, "five")
    page.see("dialog .conflict pre", "five")
    page.press("Take theirs")
    page.gone("dialog .conflict")
    assert field(page) == "five"
    page.write("dialog textarea", "six")
    save(page)
    assert queue.get(id).text == "six"


def test_I7_cancel_in_a_conflict_leaves_the_text_of_the_other(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("first")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "mine")
    queue.edit(id, b"\xff\xfe")
    page.see("dialog .conflict pre", "2 B that are not text")
    page.press("Cancel")
    page.gone("dialog")
    assert queue.get(id).body == b"\xff\xfe"
    assert page.texts(".notice") == []


# ---------------------------------------------------------------- drafts


def beside(page: Page) -> None:
    """Clicks beside the sheet."""
    ActionChains(page.driver).move_by_offset(3, 450).click().perform()
    ActionChains(page.driver).move_by_offset(-3, -450).perform()


CLOSINGS: dict[str, Callable[[Page], object]] = {
    "Escape": lambda page: page.keys(Keys.ESCAPE),
    "beside": beside,
    "Close": lambda page: page.press("Close"),
    "Back": lambda page: page.driver.back(),
    "view": lambda page: page.go("#/activity"),
    "reload": lambda page: page.driver.refresh(),
}


@pytest.mark.parametrize("closing", CLOSINGS)
def test_I7_changes_that_are_not_saved_are_kept(opened: Opener, show: Shower, closing: str) -> None:
    queue = opened(online=False)
    id = queue.enqueue("one\r\ntwo")
    page = show(queue, "#/activity")
    page.see("h1", "Activity")
    page.go("#/queue")
    edit(page, id)
    page.element("dialog textarea").send_keys(Keys.CONTROL, Keys.END)
    page.keys(" three")
    CLOSINGS[closing](page)
    page.gone("dialog")
    assert queue.get(id).text == "one\r\ntwo"
    page.go("#/queue")
    page.press("Edit draft", page.row(id))
    page.see("dialog .note", "These are your changes, which are not saved. Cancel drops them.")
    assert field(page) == "one\ntwo three"
    save(page)
    assert queue.get(id).text == "one\r\ntwo three"
    page.until(lambda: page.has("Edit", page.row(id)))


def test_I7_cancel_drops_the_changes(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("one")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "two")
    page.press("Cancel")
    page.gone("dialog")
    edit(page, id)
    assert field(page) == "one"


def test_I7_changes_that_are_kept_meet_a_change_elsewhere(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("one")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "mine")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    queue.edit(id, "theirs")
    page.press("Edit draft", page.row(id))
    page.see("dialog .conflict pre", "theirs")
    assert field(page) == "mine"


def test_I7_the_text_of_an_edit_whose_message_goes_is_kept(opened: Opener, show: Shower) -> None:
    queue = opened()
    id = queue.enqueue("one", conversation="ana")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "a longer text")
    queue.drain()
    page.see("dialog .note", "This message was sent or deleted meanwhile.")
    page.keys(Keys.ESCAPE)
    page.see(".notice p", "Your text is kept in the message field of the conversation.")
    page.go("#/conversations/ana")
    page.until(lambda: page.script('return document.querySelector(".compose textarea").value') == "a longer text")


@pytest.mark.parametrize("view", ["#/queue", "#/activity", "#/conversations/ana", "reload"])
@pytest.mark.parametrize("ending", ["sent", "deleted"])
def test_I7_the_text_of_a_kept_edit_whose_message_goes_is_kept(
    opened: Opener, show: Shower, view: str, ending: str
) -> None:
    queue = opened()
    id = queue.enqueue("one", conversation="ana")
    queue.enqueue("another", conversation="ana", delay=1000)
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "a longer text")
    page.keys(Keys.ESCAPE)
    page.see(".notice p", "Your changes are kept. “Edit draft” shows them again.")
    if view == "reload":
        page.driver.get("about:blank")
    else:
        page.go(view)
    if ending == "sent":
        queue.drain()
    else:
        queue.delete(id)
    if view == "reload":
        page.driver.back()
    page.see(".notice p", "Your text is kept in the message field of the conversation.")
    assert len(page.texts(".notice")) == 1
    page.go("#/conversations/ana")
    page.until(lambda: composed(page) == "a longer text")
    # It is kept once.
    page.driver.refresh()
    page.until(lambda: composed(page) == "a longer text")


def test_I7_the_text_of_an_edit_follows_what_is_written_already(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("one", conversation="ana")
    queue.enqueue("another", conversation="ana")
    page = show(queue)
    edit(page, id)
    page.write("dialog textarea", "an edit")
    page.keys(Keys.ESCAPE)
    page.go("#/conversations/ana")
    page.write(".compose textarea", "a message")
    queue.delete(id)
    page.until(lambda: composed(page) == "a message\n\nan edit")
    page.element(".compose textarea").send_keys("!")
    page.driver.refresh()
    page.until(lambda: composed(page) == "a message\n\nan edit!")


def composed(page: Page) -> str:
    page.element(".compose textarea")
    text: str = page.script('return document.querySelector(".compose textarea").value')
    return text


def test_I7_a_message_that_is_written_survives_views_and_reloads(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("x", conversation="ana")
    queue.enqueue("x", conversation="ben")
    page = show(queue, "#/conversations/ana")
    page.write(".compose textarea", "to Ana")
    page.go("#/conversations/ben")
    page.see(".chat h1", "ben")
    assert composed(page) == ""
    page.write(".compose textarea", "to Ben")
    page.go("#/conversations/ana")
    page.see(".chat h1", "ana")
    assert composed(page) == "to Ana"
    page.driver.refresh()
    page.see(".chat h1", "ana")
    assert composed(page) == "to Ana"
    page.element(".compose textarea").send_keys(Keys.ENTER)
    page.see(".bubble .bubble-text", "to Ana")
    page.go("#/conversations/ben")
    page.see(".chat h1", "ben")
    assert composed(page) == "to Ben"
    page.go("#/conversations/ana")
    page.see(".chat h1", "ana")
    assert composed(page) == ""
    # Nothing is left where another tab, or a later start of the browser, could find it.
    assert page.script("return localStorage.length") == 0


def test_I7_a_message_whose_answer_was_lost_is_queued_once(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("x", conversation="ana")
    page = show(queue, "#/conversations/ana")
    page.element(".compose textarea")
    page.script(
        "window.fetch = ((real) => async (path, options) => { const answer = await real(path, options);"
        'if (options?.body?.includes(\'"call":"enqueue"\')) throw new TypeError("lost");'
        "return answer; })(window.fetch)"
    )
    page.write(".compose textarea", "pay 100")
    page.keys(Keys.ENTER)
    page.see(
        ".notice p",
        "It is not known whether the message was queued: The console does not answer. "
        "Queue it again: it will not be there twice.",
    )
    assert composed(page) == "pay 100"
    page.driver.refresh()
    page.until(lambda: composed(page) == "pay 100")
    page.element(".compose textarea").send_keys(Keys.ENTER)
    page.until(lambda: composed(page) == "")
    assert [message.text for message in queue.list("ana")] == ["x", "pay 100"]
    # The same text once more is another message.
    page.write(".compose textarea", "pay 100")
    page.keys(Keys.ENTER)
    page.until(lambda: queue.counts().queued == 3)


def test_I7_a_message_to_a_new_conversation_survives_the_end_of_its_sheet(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    page = show(queue, "#/conversations")
    page.press("New message")
    page.write("dialog input", "carl")
    page.write("dialog textarea", "hello")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.driver.refresh()
    page.press("New message")
    page.see("dialog h2", "New message")
    assert page.script('return document.querySelector("dialog input").value') == "carl"
    assert field(page) == "hello"
    page.press("Queue message")
    page.see(".bubble .bubble-text", "hello")
    assert queue.counts("carl").queued == 1
    page.go("#/conversations")
    page.press("New message")
    page.see("dialog h2", "New message")
    assert (page.script('return document.querySelector("dialog input").value'), field(page)) == ("", "")


def test_I7_a_draft_for_which_the_browser_has_no_room_is_asked_about(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("x", conversation="ana")
    page = show(queue, "#/conversations/ana")
    asks = (
        'const event = new Event("beforeunload", {cancelable: true}); dispatchEvent(event);'
        "return event.defaultPrevented"
    )
    page.write(".compose textarea", "small")
    assert not page.script(asks)
    page.script(
        'for (let n = 0, s = 1 << 22; s >= 1; s >>= 1) try { sessionStorage.setItem(`x${n++}`, "x".repeat(s)); }'
        "catch { /* full */ }"
    )
    page.write(".compose textarea", "no room for this one")
    assert page.script(asks)
    # It survives a change of view all the same.
    page.go("#/queue")
    page.see(".row .preview", "x")
    page.go("#/conversations/ana")
    page.see(".chat h1", "ana")
    assert composed(page) == "no room for this one"
    page.write(".compose textarea", "y")
    page.element(".compose textarea").send_keys(Keys.ENTER)
    page.see(".bubble .bubble-text", "y")
    assert not page.script(asks)

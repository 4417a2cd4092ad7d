"""The page as a whole: status capsule, charts, search, live queues of other programs, what can go wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import ROOT, Opener, Shower, start_browser
from msgqueue import Connectivity, Link, MessageQueue, Mode, Outcome, RetryPolicy, Status
from msgqueue.console import Console
from msgqueue.console._session import reached
from msgqueue.control import connect
from page import Page
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from transport import Transport

HOSTILE = [
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "</bdi></button></div><h1 id=owned>owned</h1>",
    "\u202eevil\u2066 \u0000text\u0007",
    "${document.title='owned'}{{7*7}}",
    "javascript:document.title='owned'",
    "a\u0301" * 3000,
    "W" * 5000,
    "&lt;b&gt;&amp;",
]


# ---------------------------------------------------------------- A7, X2, X9, M9


def test_A7_the_capsule_says_what_the_queue_does(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(online=False)
    page = show(queue)
    page.see(".capsule.red", "Offline")
    queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)
    page.gone(".capsule.red")
    page.see_texts(".capsule", ["Wi-Fi"])
    for number in range(3):
        queue.enqueue(f"text {number}", conversation="ana")
    page.see_texts(".capsule", ["Wi-Fi"])
    transport.hold()
    page.press("Send All", ".view-head")
    page.see(".capsule.orange", "Sending 3 messages…")
    transport.release()
    page.gone(".capsule.orange")
    for link, text in ((Link.CELLULAR, "Cellular"), (Link.ETHERNET, "Ethernet")):
        queue.set_connectivity(Connectivity.ONLINE, link)
        page.see_texts(".capsule", [text])


def test_A7_counts_of_one_conversation_and_of_all(opened: Opener, show: Shower) -> None:
    queue = opened()
    queue.enqueue("x", conversation="ana")
    for _ in range(2):
        queue.enqueue("x", conversation="ben")
    page = show(queue, "#/conversations/ben")
    page.see(".tabs .number", "3")
    page.see(".chat .reason", "2 messages queued")
    page.see_texts(".badges", ["2 queued", "1 queued"])


def test_X1_X2_the_sheet_explains_and_lists_the_attempts(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(mode=Mode.AUTO, retry=RetryPolicy(ladder=[3600]))
    transport.answer("hello", Outcome.http(503, text="try later"), Outcome.sent())
    id = queue.enqueue("hello", conversation="ana", metadata={"trace": "abc"})
    page = show(queue)
    page.see(f"{page.row(id)} .detail", "Retry 1 of 1 in 1 h · HTTP 503")
    page.press("hello", page.row(id))
    page.see("dialog .sentence", lambda text: "Until" in text)
    page.see("dialog .attempt-head", "1. Failed, to be retried server code 503")
    page.see("dialog .attempt .quiet", lambda text: text.endswith("Did not arrive") or "arrive" in text)
    page.see("dialog .raw", "try later")
    page.see("dialog .facts", lambda text: "trace abc" in text and "Next attempt" in text)
    # The sheet follows the message.
    page.press("Send now")
    page.see("dialog .badge", "Sent")
    page.see_texts("dialog .attempt-head strong", ["2. Sent", "1. Failed, to be retried"])
    page.keys(Keys.ESCAPE)
    page.gone("dialog")


@pytest.mark.parametrize("drives", [False, True])
def test_M9_hiding_the_page_drives_the_lifecycle_only_where_told(opened: Opener, show: Shower, drives: bool) -> None:
    queue = opened()
    page = show(queue, drives_lifecycle=drives)
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    try:
        page.until(lambda: queue.state().lifecycle.name == ("BACKGROUND" if drives else "FOREGROUND"))
    finally:
        page.driver.close()
        page.driver.switch_to.window(first)
    page.until(lambda: queue.state().lifecycle.name == "FOREGROUND")
    page.see("h1", "Queue (0)")
    # The page is live again.
    queue.enqueue("x")
    page.see("h1", "Queue (1)")


def test_M9_a_browser_that_is_killed_puts_the_queue_into_the_background(opened: Opener) -> None:
    queue = opened()
    with queue.console(drives_lifecycle=True) as console:
        driver = start_browser()
        try:
            Page(driver).open(console)
            _until(lambda: queue.state().lifecycle.name == "FOREGROUND")
            for child in Path(f"/proc/{driver.service.process.pid}/task").glob("*/children"):
                for pid in child.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            _until(lambda: queue.state().lifecycle.name == "BACKGROUND")
        finally:
            driver.service.stop()
    assert queue.state().lifecycle.name == "FOREGROUND"


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_I5_I9_activity_shows_the_last_hour_when_it_is_opened(
    opened: Opener, show: Shower, transport: Transport
) -> None:
    queue = opened()
    transport.answer("bad", Outcome.reject(code=400))
    transport.answer("late", Outcome.http(503))
    for text in ("a", "b", "bad", "late"):
        queue.enqueue(text, conversation=text)
    queue.drain()
    page = show(queue, "#/activity")
    page.see(".tiles > div", lambda text: text.startswith("Sent 2 2 in the last minute"))
    page.see(".tiles > div", lambda text: text.startswith("Failed 2"))
    page.see("figure", lambda text: text.startswith("Failures by kind 2 failed attempts"))
    page.see(".ranking", "server 1 rejected 1")
    page.until(lambda: page.script('return document.querySelectorAll(".column").length') >= 3)
    page.see("figure", lambda text: text.startswith("The last hour 2 messages sent, 4 enqueued, 2 failed attempts"))
    page.see(".key", "Sent")
    assert page.texts(".key") == ["Sent", "Enqueued"]
    page.see(".tiles > div", lambda text: text.startswith("Attempts 4 2 sent, 1 retryable, 1 refused"))
    page.see(".tiles > div", lambda text: text.startswith("Time to send ≤ ") and "p95" in text and "p99" in text)
    page.see(".tiles > div", lambda text: text.startswith("Oldest waiting –"))
    page.see(".tiles > div", lambda text: text.startswith("File ") and text.endswith("of it free"))
    tables = page.script('return [...document.querySelectorAll("figure table caption")].map((e) => e.textContent)')
    assert tables == ["The last hour", "Time to send", "Failures by kind"]
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("waits", conversation="ana")
    page.see(".tiles > div", lambda text: re.match(r"Oldest waiting \d+ m?s ", text) is not None)


def test_I5_several_stores_are_told_apart(page: Page, opened: Opener, tmp_path: Path) -> None:
    paths = [tmp_path / name / "outbox.db" for name in ("one", "two")]
    with ExitStack() as resources:
        for number, path in enumerate(paths):
            path.parent.mkdir()
            queue = opened(path)
            queue.start_control()
            for _ in range(number + 1):
                queue.enqueue("x")
        sessions = [resources.enter_context(reached(str(path))) for path in paths]
        console = resources.enter_context(Console(sessions, 0, False, ExitStack()))
        resources.callback(page.leave)
        page.open(console)
        page.see("h1", "Queue (1)")
        options = page.script('return [...document.querySelectorAll("#store option")].map((e) => [e.text, e.title])')
        assert options == [["one/outbox.db", str(paths[0])], ["two/outbox.db", str(paths[1])]]
        Select(page.element("#store select")).select_by_visible_text("two/outbox.db")
        page.see("h1", "Queue (2)")
        for wrong in ("99", "2", "-1", "x", "0x1", "1e0", "", "%20", "0.0", "9" * 400, "<b>"):
            page.driver.get(f"http://127.0.0.1:{console.port}/?store={wrong}")
            page.see("main [role=alert]", lambda text: text.startswith("There is no store "))
            assert page.texts("main a") == ["one/outbox.db", "two/outbox.db"]
        page.press("two/outbox.db", "main")
        page.see("h1", "Queue (2)")


def test_X1_a_late_answer_does_not_replace_a_newer_one(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    id = queue.enqueue("one", conversation="ana")
    page = show(queue, "#/conversations")
    page.see(".item-text", "Queued: one")
    page.press("Queue 1")
    page.press("one", page.row(id))
    page.see("dialog .body", "one")
    page.hold("get")
    queue.edit(id, "one, two")
    page.until_held()
    queue.edit(id, "one, two, three")
    # The list has the newest text, and the sheet could have it, too.
    page.see(".row .preview", "one, two, three")
    page.unanswered()
    time.sleep(0.5)
    page.release()
    page.see("dialog .body", "one, two, three")
    time.sleep(0.5)
    assert page.text("dialog .body") == "one, two, three"


def test_H4_a_late_list_of_conversations_does_not_replace_a_newer_one(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("one", conversation="ana")
    page = show(queue, "#/conversations")
    page.see(".item-text", "Queued: one")
    page.hold("conversations")
    queue.enqueue("two", conversation="ana")
    page.until_held()
    queue.enqueue("three", conversation="ana")
    time.sleep(1)
    page.release()
    page.see(".item-text", "Queued: three")
    time.sleep(0.5)
    assert page.text(".item-text") == "Queued: three"


# ---------------------------------------------------------------- search, empty states


def test_I5_search_finds_and_marks(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("The invoice is attached", conversation="ana")
    queue.enqueue("nothing", conversation="ana", metadata={"kind": "INVOICE"})
    queue.enqueue("other", conversation="ben")
    page = show(queue)
    page.keys("/")
    page.keys("invoice", Keys.ENTER)
    page.see(".reason", "2 matches for “invoice” in all 3 messages")
    page.see_texts(".results .preview", ["kind: INVOICE", "The invoice is attached"])
    page.see_texts("mark", ["INVOICE", "invoice"])
    page.press("The invoice is attached", ".results")
    page.see("dialog .body", "The invoice is attached")
    page.keys(Keys.ESCAPE)
    page.go("#/search?q=absent")
    page.see(".reason", "0 matches for “absent” in all 3 messages")


def test_I5_empty_states(opened: Opener, show: Shower) -> None:
    page = show(opened())
    page.see(".empty", "No queued messages What cannot be sent at once will appear here, for example while offline")
    assert page.script('return document.querySelector(".empty .icon-check-circle").getBoundingClientRect().width') > 50
    page.go("#/queue?show=failed")
    page.see(".empty h2", "No failed messages")
    page.go("#/conversations")
    page.see(".conversation-list", "No conversations. Each one appears here with its first message.")
    page.see(".split-empty", "Choose a conversation")
    page.go("#/conversations/nobody")
    page.see(".chat-scroll", "No messages")


# ---------------------------------------------------------------- hostile


@pytest.mark.parametrize("view", ["#/queue", "#/conversations", "#/conversations/{}", "#/search?q=e"])
def test_I5_hostile_texts_stay_text(opened: Opener, show: Shower, transport: Transport, view: str) -> None:
    queue = opened()
    hostile = "<b id=owned>&amp;</b>'\"`${1}"
    for text in HOSTILE:
        transport.answer(text, Outcome.reject(code=400, text=text[:400].replace("\x00", "")))
        queue.enqueue(text, conversation=hostile, metadata={hostile: hostile})
    queue.drain()
    assert queue.counts().failed == len(HOSTILE)
    queue.record("<i>received</i>", conversation=hostile, sender="<u id=owned>x</u>", id="<a id=owned>")
    page = show(queue, view.format(quote(hostile, safe="")))
    page.see("main", lambda text: "<b id=owned>" in text)
    page.until(
        lambda: page.script('return document.querySelectorAll(".row, .bubble, .conversations li, .results li").length')
    )
    if view == "#/queue":
        page.click(".row .open")
        page.see("dialog .raw", lambda text: text == HOSTILE[0])
        page.see("dialog .body", HOSTILE[0])
    assert page.script('return document.querySelectorAll("#owned, main img, main script, main b").length') == 0
    assert "owned" not in page.driver.title
    # No text makes the page wider than the window.
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    wide = (
        'return [...document.querySelectorAll("main *")]'
        ".filter((each) => each.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert page.script(wide) == 0


# ---------------------------------------------------------------- other programs


class Program:
    """A process that prints a line when it is ready, and reads commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.first = process.stdout.readline().strip()
        assert self.first

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()


@contextmanager
def running(*command: str | Path) -> Iterator[Program]:
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT / "bindings" / "python" / "src",
    )
    try:
        yield Program(process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def console(store: Path) -> tuple[str | Path, ...]:
    code = "import sys; from msgqueue import console; console.run(sys.argv[1], open_browser=False)"
    return sys.executable, "-c", code, store


def enter(page: Page, url: str) -> None:
    page.driver.get(url)
    page.until(lambda: "token" not in page.driver.current_url)
    page.until(lambda: page.texts("main h1"), "a view")


def test_I5_the_queue_of_a_C_program(page: Page, c_host: Path, store: Path) -> None:
    with running(c_host, store) as host, running(*console(store)) as console_:
        with connect(store) as client:
            id = client.call("enqueue", conversation="ana", body="from Python")["message"]
        enter(page, console_.first)
        page.see_texts(".row .preview", ["from Python"])
        page.press("Send All", ".view-head")
        page.see(".notice p", "1 message failed.")
        page.see(f"{page.row(id)} .badge", "Failed")
        host.write("accept")
        page.press("Retry", page.row(id))
        page.see(".empty h2", "No queued messages")
        host.write("offline")
        page.see(".capsule", "Offline")
        page.go("#/conversations/ana")
        page.see(".bubble .status", "✓ Sent")
        page.write(".compose textarea", "from the page")
        page.keys(Keys.ENTER)
        page.see(".bar.offline .bar-text", "You're offline 1 message queued.")
        host.write("online")
        page.gone(".bar.offline", timeout=2)
        host.write("end")
        page.see(".bar-text strong", "The queue was closed.")
        page.leave()


def test_I5_a_store_that_nobody_has_open(page: Page, store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
        id = queue.enqueue("hello", conversation="ana")
    with running(*console(store)) as program:
        enter(page, program.first)
        page.see(".bar-text strong", "No other program has this store open.")
        page.press("Edit", page.row(id))
        page.write("dialog textarea", "changed")
        page.press("Save")
        page.see_texts(".row .preview", ["changed"])
        page.leave()
    with MessageQueue(store, read_only=True) as queue:
        assert queue.get(id).text == "changed"
        assert queue.get(id).status is Status.QUEUED


def test_I5_a_queue_that_is_closed_is_said_and_found_again(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.start_control()
    queue.enqueue("one")
    page = show(queue)
    page.see("h1", "Offline queue (1)")
    queue.close()
    page.see(".bar-text", lambda text: text.startswith("The queue was closed."))
    # What was loaded is still there, and actions say why they do nothing.
    assert page.texts(".row .preview") == ["one"]
    page.press("Send now", ".row")
    page.see(".notice p", "The queue is closed.")
    again = opened(online=False)
    again.enqueue("two")
    again.start_control()
    page.see_texts(".row .preview", ["one", "two"])
    page.see(".bar-text strong", "You're offline")


def test_I5_an_offline_browser_says_so_and_goes_on(opened: Opener, show: Shower) -> None:
    queue = opened(online=False)
    queue.enqueue("one")
    page = show(queue)
    page.see("h1", "Offline queue (1)")
    page.offline(True)
    page.expected_errors = ["ERR_INTERNET_DISCONNECTED"]
    page.press("Send now", ".row")
    page.see(".notice p", "The console does not answer.")
    page.see(".bar-text strong", "The console does not answer.")
    assert page.texts(".row .preview") == ["one"]
    page.offline(False)
    queue.enqueue("two")
    page.go("#/activity")
    page.go("#/queue")
    page.see_texts(".row .preview", ["one", "two"])
    page.gone(".bar.grey")


def test_I5_a_console_that_was_started_again_gives_no_access(
    opened: Opener, show: Shower, page: Page, store: Path
) -> None:
    queue = opened()
    with queue.console() as first:
        page.open(first)
        port = first.port
        page.see("h1", "Queue (0)")
    page.expected_errors = ["401", "ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "403", "ERR_"]
    page.see(".bar-text strong", "The console does not answer.")
    with queue.console(port) as second:
        page.see(".bar-text strong", "This page has no access any more.")
        page.driver.get(f"http://127.0.0.1:{port}/?token=wrong")
        page.see("h1", "No access")
        page.open(second)
        page.see("h1", "Queue (0)")
        page.leave()


def test_I5_two_browsers_at_once(opened: Opener, show: Shower, page: Page) -> None:
    queue = opened(online=False)
    ids = [queue.enqueue(f"text {number}", conversation="ana") for number in range(3)]
    show(queue)
    page.see_texts(".row .preview", ["text 0", "text 1", "text 2"])
    page.go("#/activity")
    page.press("Another browser or tab", ".activity")
    page.see("dialog h2", "Another browser or tab")
    address = page.script('return document.querySelector("dialog input").value')
    page.keys(Keys.ESCAPE)
    page.go("#/queue")
    driver = start_browser()
    try:
        other = Page(driver)
        enter(other, address)
        other.see_texts(".row .preview", ["text 0", "text 1", "text 2"])
        # Both ask about the same message; what the first does, the second sees, and its own click is no error.
        for each in (page, other):
            each.press("Delete", each.row(ids[0]))
            each.see("dialog h2", "Delete this message?")
        page.press("Delete")
        for each in (page, other):
            each.see_texts(".row .preview", ["text 1", "text 2"])
        other.press("Delete")
        other.gone("dialog")
        assert other.texts(".notice") == []
        other.press("Edit", other.row(ids[1]))
        other.write("dialog textarea", "changed by the other")
        other.press("Save")
        page.see_texts(".row .preview", ["changed by the other", "text 2"])
        queue.set_connectivity(Connectivity.ONLINE)
        for each in (page, other):
            each.gone(".bar.offline")
        other.press("Send All", ".view-head")
        for each in (page, other):
            each.see(".empty h2", "No queued messages")
        other.driver.get("about:blank")
    finally:
        driver.quit()


def test_I5_several_stores(page: Page, opened: Opener, tmp_path: Path) -> None:
    queues = [opened(tmp_path / name) for name in ("first.db", "second.db")]
    for queue in queues:
        queue.start_control()
    queues[1].enqueue("in the second")
    code = "import sys; from msgqueue import console; console.run(sys.argv[1:], open_browser=False)"
    with running(sys.executable, "-c", code, tmp_path / "first.db", tmp_path / "second.db") as program:
        enter(page, program.first)
        page.see("h1", "Queue (0)")
        page.click("#store select")
        page.keys(Keys.DOWN, Keys.ENTER)
        page.see("h1", "Queue (1)")
        page.see_texts(".row .preview", ["in the second"])
        page.leave()


def test_I9_activity_fits_a_phone(opened: Opener, show: Shower, page: Page) -> None:
    queue = opened()
    queue.enqueue("hello", conversation="ana")
    queue.drain()
    page.size(390, 844)
    show(queue, "#/activity").see(".keys .key", "Sent")
    page.until(
        lambda: page.script('const v = document.querySelector("#content"); return v.scrollWidth <= v.clientWidth')
    )

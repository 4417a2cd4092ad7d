"""100,000 rows without lag. The figures are printed with `pytest -s`; the limits are those of a slow, busy machine."""

from __future__ import annotations

import statistics
import time

from conftest import Opener, Shower
from msgqueue import Connectivity, MessageQueue
from page import Page
from transport import Transport

COUNT = 100_000

# Scrolls by `step` points per frame and returns the time of each frame in milliseconds.
SCROLL = """
const [step, frames, done] = arguments;
const list = document.querySelector(".window");
const times = [];
let last = performance.now();
function next(now) {
  times.push(now - last);
  last = now;
  list.scrollTop += step;
  if (times.length < frames) requestAnimationFrame(next); else done(times.slice(1));
}
requestAnimationFrame(next);
"""
# The rows in view: index and text of each, in the order of their places.
VIEW = """
const list = document.querySelector(".window").getBoundingClientRect();
return [...document.querySelectorAll(".row")]
  .map((row) => [row, row.getBoundingClientRect()])
  .filter(([, box]) => box.bottom > list.top + 1 && box.top < list.bottom - 1)
  .map(([row]) => [Number(row.ariaPosInSet), row.querySelector(".preview").textContent])
  .sort(([one], [other]) => one - other);
"""


def long_queue(opened: Opener) -> MessageQueue:
    queue = opened(online=False)
    queue.enqueue_bodies([f"text {number}" for number in range(COUNT)], conversation="ana")
    return queue


def rows(page: Page) -> list[tuple[int, str]]:
    return [(index, text) for index, text in page.script(VIEW)]


def full(page: Page) -> list[tuple[int, str]]:
    """Waits until the window is full of rows."""

    def look() -> list[tuple[int, str]]:
        found = rows(page)
        return found if len(found) >= 8 else []

    return page.until(look, "a window full of rows")


def jump(page: Page, index: int) -> list[tuple[int, str]]:
    """Scrolls to a row at once, and waits until the window is full of rows."""
    page.script(
        'const l = document.querySelector(".window");'
        'l.scrollTop = arguments[0] * Number.parseFloat(getComputedStyle(l).getPropertyValue("--row-height"));',
        index,
    )
    return full(page)


def test_Q5_Q13_a_hundred_thousand_rows_scroll_without_lag(opened: Opener, show: Shower) -> None:
    page = show(long_queue(opened))
    page.see("h1", "Offline queue (100,000)")
    full(page)
    # What was loaded: from the address without the token to the first rows.
    page.driver.refresh()
    loaded = page.until(
        lambda: page.script('return document.querySelector(".row") ? performance.now() : 0'), "the first row"
    )
    print(f"\nfirst rows after {loaded:.0f} ms")
    assert loaded < 5000

    for step in (66, 660):
        times = page.driver.execute_async_script(SCROLL, step, 120)
        median, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(f"{step} points per frame: median {median:.1f} ms, 95 % {slow:.1f} ms, longest {max(times):.1f} ms")
        assert median < 60
        assert slow < 200
    # However long the list is, few rows are in the page.
    assert page.script('return document.querySelectorAll(".row").length') < 60
    assert page.script('return document.querySelectorAll("*").length') < 1500


def test_Q5_Q13_every_place_in_the_list_is_reached(opened: Opener, show: Shower) -> None:
    page = show(long_queue(opened))
    full(page)
    begin = time.monotonic()
    for index in (50_000, 99_990, 12_345, 77_777, 3, 60_000):
        found = jump(page, index)
        # Sequences without gaps give the exact place.
        assert all(text == f"text {number - 1}" for number, text in found), found
        assert any(number - 1 == min(index, COUNT - 5) for number, _ in found) or index > COUNT - 20
    print(f"\nsix jumps in {time.monotonic() - begin:.2f} s")
    found = jump(page, COUNT)
    assert found[-1] == (COUNT, f"text {COUNT - 1}")


def test_Q5_Q13_gaps_do_not_hide_or_repeat_a_row(opened: Opener, show: Shower, transport: Transport) -> None:
    """Where sequences are dense in one part and rare in another, places are estimates: each row is still shown once."""
    queue = opened(online=False)
    texts = [f"text {number}" for number in range(300)]
    queue.enqueue_bodies(texts[:100], conversation="ana")
    queue.enqueue_bodies(["other"] * 2000, conversation="ben")
    queue.enqueue_bodies(texts[100:], conversation="ana")
    page = show(queue, "#/queue/ana")
    page.see("h1", "Offline queue (300)")
    full(page)
    found = jump(page, 150)
    place = texts.index(found[0][1])
    assert [text for _, text in found] == texts[place : place + len(found)]

    # Upwards to the first row, in steps of less than a window.
    seen: list[str] = []

    def step(distance: int) -> bool:
        page.script('document.querySelector(".window").scrollTop += arguments[0]', distance)
        view = full(page)
        for number, text in view:
            assert 1 <= number <= len(texts)
            seen.append(text)
        numbers = [texts.index(text) for _, text in view]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
        top = page.script('return document.querySelector(".window").scrollTop')
        return bool(top == 0) if distance < 0 else view[-1][1] == texts[-1]

    page.until(lambda: step(-300), "the first row")
    page.until(lambda: rows(page)[0] == (1, texts[0]))
    assert set(texts[: place + 1]) <= set(seen)
    seen[:] = [text for _, text in rows(page)]
    page.until(lambda: step(300), "the last row")
    assert set(texts) == set(seen)
    page.until(lambda: rows(page)[-1] == (len(texts), texts[-1]))


def test_Q5_Q13_a_long_queue_is_followed_while_it_is_sent(opened: Opener, show: Shower, transport: Transport) -> None:
    queue = opened(online=False)
    queue.enqueue_bodies([f"text {number}" for number in range(5000)], conversation="ana")
    page = show(queue)
    page.see("h1", "Offline queue (5,000)")
    queue.set_connectivity(Connectivity.ONLINE)
    page.gone(".bar.offline")
    transport.hold()
    page.press("Send All", ".view-head")
    page.see(".capsule", lambda text: text.startswith("Sending "))
    transport.release()
    page.see(".notice p", "5,000 messages sent.", timeout=60)
    page.see(".empty h2", "No queued messages")
    assert len(transport.sent) == 5000

"""The queue for asyncio: messages of several tasks share commits and flushes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flushes
from async_sender import in_loop
from msgqueue import (
    ClosedError,
    DuplicateError,
    EventKind,
    FullError,
    InvalidError,
    Mode,
    Status,
    TooLargeError,
    aio,
)
from support import run

OPTIONS: Any = {"mode": Mode.MANUAL, "direct": False}


@contextmanager
def changes_held(queue: aio.MessageQueue) -> Iterator[None]:
    """Holds the thread of the changes, so that the calls of the block wait together."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        release.wait(20)

    queue._calls.opened.changes.submit(hold)
    held.wait(20)
    try:
        yield
    finally:
        release.set()


async def together(queue: aio.MessageQueue, *calls: Any) -> list[Any]:
    """Makes calls that wait at the same time. Returns their results and exceptions."""
    with changes_held(queue):
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def texts(queue: aio.MessageQueue) -> list[str]:
    return [message.text for message in await queue.list(limit=1000)]


COUNTED = """
    import asyncio
    import sys

    import flushes
    from msgqueue import Mode, aio

    async def test() -> None:
        async with aio.MessageQueue(sys.argv[1], mode=Mode.MANUAL, direct=False) as queue:
            async def task(number: int, count: int) -> None:
                for place in range(count):
                    before = flushes.done()
                    await queue.enqueue(f"{number} {place}", conversation=str(number))
                    # None returns before a flush that began after its call.
                    assert flushes.done() > before

            before = flushes.done()
            await asyncio.gather(*[task(number, 20) for number in range(64)])
            print(flushes.done() - before)
            before = flushes.done()
            await task(64, 50)
            print(flushes.done() - before)
            for number in range(64):
                found = await queue.list(conversation=str(number))
                assert [message.text for message in found] == [f"{number} {place}" for place in range(20)]

    asyncio.run(test())
"""


def test_F10_tasks_that_enqueue_at_a_time_share_flushes(store: Path, tmp_path: Path) -> None:
    done = run(COUNTED, store, LD_PRELOAD=str(flushes.build(tmp_path)))
    assert done.returncode == 0, done.stderr
    shared, alone = map(int, done.stdout.split())
    assert 20 <= shared <= 64 * 20 / 8
    assert alone >= 50


def test_F10_an_error_of_one_message_is_its_tasks_alone(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, limit_body=100, **OPTIONS) as queue:
            await queue.enqueue("before", id="taken")
            queue_enqueue: Any = queue.enqueue
            results = await together(
                queue,
                queue.enqueue("0", id="0"),
                queue.enqueue("taken again", id="taken"),
                queue.enqueue("1", id="1"),
                queue.enqueue("a control character", conversation="\n"),
                queue.enqueue("x" * 101),
                queue_enqueue(2),
                queue_enqueue("two", "positions"),
                queue_enqueue("no such argument", identifier="7"),
                queue.enqueue("3", id="1"),
                queue.enqueue("4", metadata={"key": "value"}, id="4"),
            )
            kinds = [type(result) for result in results]
            refused = [InvalidError, TooLargeError, TypeError, TypeError, TypeError]
            assert kinds == [str, DuplicateError, str, *refused, DuplicateError, str]
            assert [result for result in results if isinstance(result, str)] == ["0", "1", "4"]
            assert await texts(queue) == ["before", "0", "1", "4"]
            # The errors are those of a call alone: without the place in a batch.
            assert "draft" not in "".join(map(str, results))
            assert "enqueue() takes" in str(results[6])
            assert "MessageQueue.enqueue() got" in str(results[7])

    in_loop(test())


def test_F10_what_fits_into_a_queue_that_becomes_full_is_stored(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, limit_messages=11, **OPTIONS) as queue:
            results = await together(queue, *[queue.enqueue(str(number)) for number in range(40)])
            assert [type(result) for result in results] == [str] * 11 + [FullError] * 29
            assert await texts(queue) == [str(number) for number in range(11)]

    in_loop(test())


def test_F10_changes_take_effect_in_the_order_of_the_calls(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, **OPTIONS) as queue:
            results = await together(
                queue,
                queue.enqueue("0", id="0"),
                queue.enqueue("1", id="1"),
                queue.edit("0", "0 edited"),
                queue.delete("1"),
                queue.enqueue("1 again", id="1"),
                queue.enqueue_batch([{"body": "2"}, {"body": "3"}]),
                queue.enqueue("4", replace_key="key"),
                queue.enqueue("5"),
                queue.enqueue("6", replace_key="key"),
                queue.record("7", sender="ana"),
                queue.enqueue("8"),
            )
            assert not [result for result in results if isinstance(result, Exception)]
            assert await texts(queue) == ["0 edited", "1 again", "2", "3", "6", "5", "8"]
            assert [(await queue.get(results[place])).sequence for place in (9, 10)] == [8, 9]

    in_loop(test())


def test_F10_a_cancelled_task_leaves_the_others(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, **OPTIONS) as queue:
            with changes_held(queue):
                tasks = [asyncio.create_task(queue.enqueue(str(number))) for number in range(10)]
                await asyncio.sleep(0)
                for task in tasks[::3]:
                    task.cancel()
                await asyncio.sleep(0)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            cancelled = [isinstance(result, asyncio.CancelledError) for result in results]
            assert cancelled == [number % 3 == 0 for number in range(10)]
            assert await texts(queue) == ["1", "2", "4", "5", "7", "8"]
            # Cancelled while they are stored, in any moment: in the order of the calls, and none twice.
            tasks = [asyncio.create_task(queue.enqueue(f"late {number}")) for number in range(400)]
            for task in tasks[::2]:
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            places = [int(text[5:]) for text in await texts(queue) if text.startswith("late")]
            assert places == sorted(set(places))
            assert {number for number in range(400) if number % 2} <= set(places)

    in_loop(test())


def test_F10_every_task_is_answered_when_the_queue_is_closed(store: Path) -> None:
    async def test() -> None:
        queue = await aio.MessageQueue(store, **OPTIONS).open()
        results = await together(
            queue,
            *[queue.enqueue(f"before {number}") for number in range(20)],
            queue.close(),
            *[queue.enqueue(f"after {number}") for number in range(20)],
        )
        assert [type(result) for result in results] == [str] * 20 + [type(None)] + [ClosedError] * 20
        # Closed while they wait, but not by the loop: the library refuses them.
        queue = await aio.MessageQueue(store, **OPTIONS).open()
        polled = queue._calls.opened.queue
        with changes_held(queue):
            tasks = [asyncio.ensure_future(queue.enqueue("late")) for _ in range(5)]
            await asyncio.sleep(0)
            await asyncio.to_thread(polled.close)
        refused = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in refused] == [ClosedError] * 5
        assert len({id(result) for result in refused}) == 5
        await queue.close()
        async with aio.MessageQueue(store, **OPTIONS) as reopened:
            assert await texts(reopened) == [f"before {number}" for number in range(20)]

    in_loop(test())


def test_F10_queues_and_loops_do_not_mix(tmp_path: Path) -> None:
    def test(name: str) -> None:
        async def fill() -> None:
            queues = [await aio.MessageQueue(tmp_path / f"{name}{number}.db", **OPTIONS).open() for number in "12"]
            await asyncio.gather(*[queue.enqueue(f"{number}") for number in range(100) for queue in queues])
            for queue in queues:
                assert await texts(queue) == [str(number) for number in range(100)]
                await queue.close()
            finished.append(name)

        asyncio.run(fill())

    finished: list[str] = []
    threads = [threading.Thread(target=test, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(finished) == ["a", "b"]


def test_F10_large_and_many_messages_are_divided_and_all_are_reported(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, **OPTIONS) as queue:
            reader = queue.events()
            bodies = [f"{number} " + "x" * (300_000 if number < 8 else 10) for number in range(600)]
            ids = await together(queue, *[queue.enqueue(body) for body in bodies])
            assert [message.id for message in await queue.list(limit=1000)] == ids
            for number in (0, 7, 599):
                assert (await queue.get(ids[number])).text == bodies[number]
            seen: list[str | None] = []
            async for event in reader:
                if event.kind is EventKind.STATUS and event.to_status is Status.QUEUED:
                    seen.append(event.id)
                if len(seen) == 600:
                    break
            assert seen == ids

    in_loop(test())


FAILED = """
    import asyncio
    import sys
    import threading

    import flushes
    from msgqueue import Mode, UnknownError, aio

    async def test() -> None:
        queue = await aio.MessageQueue(sys.argv[1], mode=Mode.MANUAL, direct=False).open()
        await queue.enqueue("safe")
        release = threading.Event()
        queue._calls.opened.changes.submit(lambda: release.wait(20))
        tasks = [asyncio.create_task(queue.enqueue(str(number))) for number in range(20)]
        await asyncio.sleep(0)
        flushes.fail_next()
        release.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [UnknownError] * 20, results
        assert len({id(result) for result in results}) == 20

    asyncio.run(test())
"""


def test_F10_after_a_failed_flush_no_message_is_tried_again(store: Path, tmp_path: Path) -> None:
    done = run(FAILED, store, LD_PRELOAD=str(flushes.build(tmp_path)))
    assert done.returncode == 0, done.stderr

    async def test() -> None:
        async with aio.MessageQueue(store, **OPTIONS) as queue:
            found = await texts(queue)
            assert found in (["safe"], ["safe", *map(str, range(20))])

    in_loop(test())

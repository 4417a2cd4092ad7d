"""The queue for asyncio: opening, closing, loops that end, and unreferenced queues."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from async_sender import AsyncHttpTransport, in_loop, until
from conftest import Opener
from msgqueue import (
    AttemptOutcome,
    ClosedError,
    ConflictError,
    Connectivity,
    Delivery,
    InvalidError,
    LockedError,
    MessageQueue,
    Mode,
    Outcome,
    Status,
    Stop,
    TimedOutError,
    aio,
)
from receiver import Receiver
from support import program, run, wait_until


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("msgqueue")]


def test_a_block_opens_and_closes(store: Path) -> None:
    async def test() -> None:
        queue = aio.MessageQueue(store)
        assert repr(queue) == f"<aio.MessageQueue {str(store)!r} not open>"
        assert queue.path == str(store)
        assert not store.exists()
        for call in (queue.counts(), queue.enqueue("early"), queue.drain()):
            with pytest.raises(ClosedError, match="not open"):
                await call
        await queue.close()
        async with queue as entered:
            assert entered is queue
            with pytest.raises(ConflictError, match="opened before"):
                await queue.open()
        assert queue.closed
        assert repr(queue).endswith(" closed>")
        await queue.close()
        with pytest.raises(ConflictError):
            await queue.open()

    in_loop(test())
    wait_until(lambda: ours() == [])


def test_opening_fails_with_a_clear_error_and_can_be_repeated(store: Path, opened: Opener) -> None:
    owner = opened()

    async def test() -> None:
        queue = aio.MessageQueue(store)
        with pytest.raises(LockedError):
            await queue.open()
        with pytest.raises(InvalidError):
            await aio.MessageQueue(store.with_suffix(".other"), max_in_flight=0).open()
        with pytest.raises(TypeError):
            await aio.MessageQueue(store, nonsense=1).open()  # type: ignore[call-arg]
        await asyncio.to_thread(owner.close)
        async with queue:
            assert (await queue.counts()).queued == 0

    in_loop(test())
    wait_until(lambda: ours() == [])


def test_cancelling_an_open_leaves_nothing_open(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        for delay in (0, 0.0005, 0.002, 0.01):
            opening = asyncio.create_task(aio.MessageQueue(store, lambda _: Outcome.sent()).open())
            await asyncio.sleep(delay)
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await opening).close()
            await until(lambda: is_free(store))

    in_loop(test())
    wait_until(lambda: ours() == [])


def is_free(store: Path) -> bool:
    try:
        MessageQueue(store).close()
    except LockedError:
        return False
    return True


def test_a_closed_queue_raises_closed_error(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:
            pass
        for call in (
            queue.counts(),
            queue.enqueue("late"),
            queue.drain(),
            queue.set_connectivity(Connectivity.ONLINE),
            queue.complete(1, Outcome.sent()),
            queue.complete_batch([(1, Outcome.sent())]),
            queue.enqueue_bodies(["late"]),
            queue.set_transport(None),
            queue.set_event_handler(None),
        ):
            with pytest.raises(ClosedError):
                await call

    in_loop(test())


def test_close_waits_for_attempts_without_blocking_the_loop(store: Path, receiver: Receiver, opened: Opener) -> None:
    async def test() -> str:
        transport = AsyncHttpTransport(receiver.port)
        queue = await aio.MessageQueue(store, transport, max_in_flight=3).open()
        with receiver.holding() as gate:
            ids = [await queue.enqueue("hello", conversation=name) for name in "abc"]
            await until(lambda: len(receiver.received) == 3)
            closing = asyncio.create_task(queue.close(timeout=20))
            turns = 0
            while turns < 20:
                turns += 1
                await asyncio.sleep(0.01)
            assert not closing.done()
            assert queue.closed
            gate.open()
            await closing
        return ids[0]

    id = in_loop(test())
    queue = opened()
    assert queue.get(id).status is Status.SENT
    assert queue.counts().sent == 3


def test_close_times_out_cancels_the_tasks_and_the_outcome_is_unknown(store: Path, opened: Opener) -> None:
    async def test() -> str:
        cancelled = False

        async def transport(_: Delivery) -> Outcome:
            nonlocal cancelled
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled = True
                raise
            return Outcome.sent()

        queue = await aio.MessageQueue(store, transport).open()
        id = await queue.enqueue("hello")
        await until(lambda: is_sending(queue, id))
        await asyncio.sleep(0.05)
        with pytest.raises(TypeError):
            await queue.close(timeout="now")  # type: ignore[arg-type]
        start = time.monotonic()
        with pytest.raises(TimedOutError):
            await queue.close(timeout=0.1)
        assert time.monotonic() - start < 5
        assert cancelled
        assert len(asyncio.all_tasks()) <= 2
        await queue.close()
        return id

    id = in_loop(test())
    assert [attempt.outcome for attempt in opened().attempts(id)] == [AttemptOutcome.UNKNOWN]


@pytest.mark.parametrize(
    ("problem", "expected"), [(None, 45.0), (ValueError(), 45.0), (asyncio.CancelledError(), 5.0), (SystemExit(), 5.0)]
)
def test_a_block_waits_as_long_as_an_attempt_may_take(
    store: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException | None, expected: float
) -> None:
    waits: list[float | None] = []
    close = aio.MessageQueue.close

    async def watched(queue: aio.MessageQueue, timeout: float | None = 5.0) -> None:
        waits.append(timeout)
        await close(queue, timeout)

    async def test() -> None:
        monkeypatch.setattr(aio.MessageQueue, "close", watched)
        queue = await aio.MessageQueue(store, attempt_timeout=40, on_demand_timeout=4).open()
        await queue.__aexit__(None if problem is None else type(problem), problem, None)

    in_loop(test())
    assert waits == [expected]


async def is_sending(queue: aio.MessageQueue, id: str) -> bool:
    return (await queue.get(id)).status is Status.SENDING


def test_a_cancelled_close_still_closes(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        queue = await aio.MessageQueue(store, AsyncHttpTransport(receiver.port)).open()
        with receiver.holding() as gate:
            await queue.enqueue("hello")
            await until(lambda: receiver.received)
            closing = asyncio.create_task(queue.close(timeout=20))
            others = [asyncio.create_task(queue.close()) for _ in range(3)]
            await asyncio.sleep(0.05)
            closing.cancel()
            await asyncio.sleep(0.05)
            assert closing.cancelled()
            assert queue.closed
            gate.open()
            await asyncio.gather(*others)
        assert await asyncio.to_thread(is_free, store)

    in_loop(test())
    wait_until(lambda: ours() == [])


def test_close_inside_an_attempt_is_a_conflict(store: Path) -> None:
    async def test() -> None:
        caught: list[Exception] = []

        async def transport(_: Delivery) -> Outcome:
            try:
                await queue.close()
            except ConflictError as problem:
                caught.append(problem)
            return Outcome.sent()

        async with aio.MessageQueue(store, transport) as queue:
            await queue.enqueue("hello")
            assert (await queue.drain()).remaining == 0
            assert len(caught) == 1
            assert not queue.closed

    in_loop(test())


def test_closing_ends_a_waiting_drain(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        transport = AsyncHttpTransport(receiver.port)
        queue = await aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False).open()
        await queue.enqueue_batch({"body": str(number)} for number in range(3))
        with receiver.holding() as gate:
            draining = asyncio.create_task(queue.drain())
            await until(lambda: receiver.received)
            closing = asyncio.create_task(queue.close(timeout=20))
            await asyncio.sleep(0.05)
            gate.open()
            assert (await draining).stop is Stop.CLOSED
            await closing

    in_loop(test())
    assert receiver.texts == ["0"]


def test_an_exception_in_the_block_is_not_replaced_by_one_of_close(store: Path) -> None:
    async def test() -> None:
        async def transport(_: Delivery) -> Outcome:
            await asyncio.sleep(60)
            return Outcome.sent()

        queue = aio.MessageQueue(store, transport)
        # So that close fails, too, without a long wait.
        queue.close = lambda _: aio.MessageQueue.close(queue, 0.05)  # type: ignore[assignment, method-assign, misc]

        async def block() -> None:
            async with queue:
                await queue.enqueue("hello")
                await asyncio.sleep(0.05)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block()
        assert queue.closed

    in_loop(test())


def test_the_queue_belongs_to_its_loop(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:

            async def elsewhere() -> None:
                for call in (queue.counts(), queue.enqueue("hello"), queue.drain(), queue.close()):
                    with pytest.raises(RuntimeError, match="another event loop"):
                        await call
                with pytest.raises(RuntimeError, match="another event loop"):
                    queue.events()

            def from_a_thread() -> None:
                with pytest.raises(RuntimeError, match="no event loop"):
                    queue.events()
                asyncio.run(elsewhere())

            await asyncio.to_thread(from_a_thread)
            # The way that the documentation of asyncio gives:
            loop = asyncio.get_running_loop()
            await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(queue.enqueue("hello"), loop).result(20))
            assert (await queue.counts()).queued == 1

    in_loop(test())


def test_an_unreferenced_queue_is_closed(store: Path) -> None:
    async def test() -> None:
        async def use_and_forget() -> aio.EventReader:
            queue = await aio.MessageQueue(store, lambda _: Outcome.sent(), on_event=lambda _: None).open()
            await queue.set_connectivity(Connectivity.OFFLINE)
            await queue.enqueue("hello")
            return queue.events()

        # A reader that still waits for events ends.
        async for _ in await use_and_forget():
            pass
        # The thread that made the last call may keep its reference a moment longer.
        await until(lambda: is_free(store))

    with pytest.warns(ResourceWarning, match="unclosed queue"):
        in_loop(test())
    wait_until(lambda: ours() == [])


def test_a_loop_may_end_before_the_queue_is_closed(store: Path, receiver: Receiver) -> None:
    queues: list[aio.MessageQueue] = []

    async def test() -> None:
        async def transport(_: Delivery) -> Outcome:
            await asyncio.sleep(60)
            return Outcome.sent()

        queue = await aio.MessageQueue(store, transport).open()
        queues.append(queue)
        await queue.enqueue("hello", id="the-id")
        await until(lambda: is_sending(queue, "the-id"))

    asyncio.run(test())

    def forget() -> None:
        queues.clear()
        gc.collect()
        # The thread that made the last call may keep its reference a moment longer.
        wait_until(lambda: is_free(store))

    with pytest.warns(ResourceWarning, match="unclosed queue"):
        forget()
    with MessageQueue(store) as queue:
        assert queue.get("the-id").status is Status.QUEUED


ENDS = """
    import asyncio, sys
    from msgqueue import Outcome, aio

    async def send(delivery):
        await asyncio.sleep(0 if sys.argv[2] == "quick" else 60)
        return Outcome.sent()

    async def main():
        global queue
        queue = await aio.MessageQueue(sys.argv[1], send, on_event=lambda _: None, max_in_flight=2).open()
        for name in "abc":
            await queue.enqueue("hello", conversation=name, id=name)
        await asyncio.sleep(0.05)
        if sys.argv[2] == "raises":
            raise SystemExit(7)

    asyncio.run(main())
    if sys.argv[2] == "dropped":
        del queue
"""


@pytest.mark.parametrize(("how", "code"), [("quick", 0), ("slow", 0), ("raises", 7), ("dropped", 0)])
def test_the_interpreter_exits_cleanly_without_close(opened: Opener, store: Path, how: str, code: int) -> None:
    start = time.monotonic()
    ended = run(ENDS, store, how)
    assert ended.returncode == code, ended.stderr
    assert "Fatal" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - start < 10
    queue = opened()
    assert len(queue.list(status=Status)) == 3
    assert queue.counts().sent == (3 if how == "quick" else 0)


INTERRUPTED = """
    import asyncio, sys
    from msgqueue import Outcome, aio

    async def send(delivery):
        print("sending", flush=True)
        await asyncio.sleep(0.3)
        return Outcome.sent()

    async def main():
        async with aio.MessageQueue(sys.argv[1], send, on_event=lambda _: None) as queue:
            await queue.enqueue("hello", id="the-id")
            await asyncio.sleep(60)

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_closes_the_queue(opened: Opener, store: Path) -> None:
    with program(INTERRUPTED, store) as child:
        assert child.line() == "sending"
        start = time.monotonic()
        child.signal(signal.SIGINT)
        assert child.line() == "interrupted"
        assert child.wait() == 0
        assert time.monotonic() - start < 10
    # From Python 3.11 on the block ends first, and the attempt may end; before, all tasks are cancelled at once.
    assert opened().get("the-id").status is (Status.SENT if sys.version_info >= (3, 11) else Status.QUEUED)


def test_opening_and_closing_leaves_no_threads_and_no_descriptors(store: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def test() -> None:
        async with aio.MessageQueue(store):
            pass
        await until(lambda: not ours())
        before = descriptors()
        for _ in range(30):
            options: dict[str, Any] = {"on_event": lambda _: None}
            async with aio.MessageQueue(store, lambda _: Outcome.sent(), **options) as queue:
                await queue.enqueue("hello")
                await queue.drain()
        await until(lambda: not ours())
        assert descriptors() <= before

    in_loop(test())

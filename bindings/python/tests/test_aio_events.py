"""The queue for asyncio: events."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from pathlib import Path

import pytest

from async_sender import Complaints, in_loop, until
from msgqueue import ClosedError, Connectivity, Event, EventKind, Outcome, Status, _abi, _convert, aio
from msgqueue.aio._events import MAX_BUFFERED


def statuses(events: list[Event]) -> list[tuple[str | None, Status | None]]:
    return [(event.id, event.to_status) for event in events if event.kind is EventKind.STATUS]


def test_each_reader_gets_every_event_from_its_call_on(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, lambda _: Outcome.sent()) as queue:
            # From the call on, also before the first event is awaited.
            early = queue.events()
            await queue.enqueue("one", id="1")
            await queue.drain()
            late = queue.events()
            await queue.enqueue("two", id="2")
            await queue.drain()
            await queue.close()
            with pytest.raises(ClosedError):
                queue.events()
            second = [("2", Status.QUEUED), ("2", Status.SENDING), ("2", Status.SENT)]
            assert statuses([event async for event in late]) == second
            first = [("1", Status.QUEUED), ("1", Status.SENDING), ("1", Status.SENT)]
            assert statuses([event async for event in early]) == first + second
            # An ended reader stays ended.
            assert [event async for event in early] == []

    in_loop(test())


def test_a_waiting_reader_ends_when_the_queue_is_closed(store: Path) -> None:
    async def test() -> None:
        queue = await aio.MessageQueue(store).open()

        async def read() -> list[Event]:
            return [event async for event in queue.events()]

        reading = [asyncio.create_task(read()) for _ in range(3)]
        await asyncio.sleep(0.05)
        await queue.set_connectivity(Connectivity.OFFLINE)
        await queue.enqueue("last", id="last")
        await queue.close()
        for events in await asyncio.gather(*reading):
            # Events just before the close were delivered, too.
            assert statuses(events) == [("last", Status.QUEUED)]

    in_loop(test())


def test_without_a_listener_no_event_is_made(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Event] = []
    convert = _convert.event

    def count(source: _abi.Event) -> Event:
        made.append(convert(source))
        return made[-1]

    monkeypatch.setattr(_convert, "event", count)

    async def test() -> None:
        async with aio.MessageQueue(store, lambda _: Outcome.sent()) as queue:
            await queue.enqueue("one")
            assert (await queue.drain()).remaining == 0
            assert made == []
            reader = queue.events()
            await queue.enqueue("two", id="2")
            await queue.drain()
            await queue.close()
            assert statuses([event async for event in reader]) == [
                ("2", Status.QUEUED),
                ("2", Status.SENDING),
                ("2", Status.SENT),
            ]

    in_loop(test())


def test_a_first_reader_during_a_long_call_gets_a_resync(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:
            with queue._calls.opened._bridge.long_call():
                reader = queue.events()
            assert (await reader.__anext__()).kind is EventKind.RESYNC
            await queue.enqueue("one", id="1")
            await queue.close()
            assert statuses([event async for event in reader]) == [("1", Status.QUEUED)]

    in_loop(test())


def test_leaving_the_loop_or_aclose_ends_a_reader(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:
            readers = queue._calls.opened.events._readers
            await queue.set_connectivity(Connectivity.OFFLINE)
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(queue.enqueue("hello")))
            async for event in queue.events():
                if event.kind is EventKind.STATUS:
                    break
            gc.collect()
            assert len(readers) == 0
            reader = queue.events()
            waiting = asyncio.create_task(read_one(reader))
            await asyncio.sleep(0.05)
            await reader.aclose()
            assert await waiting is None
            await queue.enqueue("hello")
            assert await read_one(reader) is None

    in_loop(test())


async def read_one(reader: aio.EventReader) -> Event | None:
    async for event in reader:
        return event
    return None


def test_a_reader_whose_task_is_cancelled_can_be_used_again_and_others_lose_nothing(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:
            await queue.set_connectivity(Connectivity.OFFLINE)
            reader, other = queue.events(), queue.events()
            waiting = asyncio.create_task(read_until_status(reader))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.sleep(0)
            await queue.enqueue("hello", id="the-id")
            assert (await read_until_status(reader)).id == "the-id"
            assert (await read_until_status(other)).id == "the-id"

    in_loop(test())


async def read_until_status(reader: aio.EventReader) -> Event:
    async for event in reader:
        if event.kind is EventKind.STATUS:
            return event
    raise AssertionError("it ended")


def test_a_slow_reader_keeps_the_newest_events_and_gets_a_resync(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:
            await queue.set_connectivity(Connectivity.OFFLINE)
            slow = queue.events()
            received: list[Event] = []
            await queue.set_event_handler(received.append)
            many = MAX_BUFFERED // 2 + 500
            for _ in range(2):
                ids = await queue.enqueue_batch({"body": ""} for _ in range(many))
                # In steps, because the library also buffers at most that many events.
                await until(lambda last=ids[-1]: any(event.id == last for event in received))  # type: ignore[misc]
            assert EventKind.RESYNC not in {event.kind for event in received}
            assert len(received) > MAX_BUFFERED
            await queue.close()
            got = [event async for event in slow]
            assert len(got) == MAX_BUFFERED + 1
            assert got[0].kind is EventKind.RESYNC
            assert got[0].lost_events == len(received) - MAX_BUFFERED
            assert got[1:] == received[-MAX_BUFFERED:]

    in_loop(test())


def test_a_handler_that_raises_is_reported_to_the_log_and_the_loop_and_called_again(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problem = ValueError("boom")

    async def test() -> None:
        complaints = Complaints()

        def handler(event: Event) -> None:
            if event.kind is EventKind.STATUS:
                raise problem

        async with aio.MessageQueue(store, on_event=handler) as queue:
            await queue.set_connectivity(Connectivity.OFFLINE)
            reader = queue.events()
            await queue.enqueue("one")
            await queue.enqueue("two")
            await until(lambda: len(complaints.problems) == 2)
            assert complaints.problems == [problem, problem]
            # A reader gets every event.
            assert (await read_until_status(reader)).to_status is Status.QUEUED

    in_loop(test())
    logged = [record for record in caplog.records if record.exc_info and record.exc_info[1] is problem]
    assert [(record.name, record.levelno) for record in logged] == [("msgqueue", logging.ERROR)] * 2


def test_a_handler_is_a_plain_function_and_can_be_set_and_removed(store: Path) -> None:
    async def handler(_: Event) -> None:
        raise AssertionError

    async def test() -> None:
        first, second = list[Event](), list[Event]()
        async with aio.MessageQueue(store, on_event=first.append) as queue:
            await queue.set_connectivity(Connectivity.OFFLINE)
            await queue.enqueue("one", id="1")
            await until(lambda: statuses(first))
            await queue.set_event_handler(second.append)
            await queue.enqueue("two", id="2")
            await until(lambda: statuses(second))
            await queue.set_event_handler(None)
            await queue.enqueue("three", id="3")
            with pytest.raises(TypeError):
                await queue.set_event_handler(handler)
        assert statuses(first) == [("1", Status.QUEUED)]
        assert statuses(second) == [("2", Status.QUEUED)]

    in_loop(test())
    with pytest.raises(TypeError):
        aio.MessageQueue(store, on_event=handler)


def test_events_during_close_arrive_in_order_on_the_thread_of_the_loop(store: Path) -> None:
    received: list[Event] = []
    threads: set[int] = set()

    def handler(event: Event) -> None:
        received.append(event)
        threads.add(threading.get_ident())

    async def test() -> None:
        queue = await aio.MessageQueue(store, on_event=handler).open()
        await queue.set_connectivity(Connectivity.OFFLINE)
        writes = [asyncio.ensure_future(queue.enqueue(str(number), id=str(number))) for number in range(200)]
        await asyncio.sleep(0)
        await queue.close()
        await asyncio.gather(*writes)

    in_loop(test())
    assert [id for id, _ in statuses(received)] == [str(number) for number in range(200)]
    assert threads == {threading.get_ident()}

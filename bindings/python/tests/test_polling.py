"""X7: any event loop can host the queue, by a file descriptor and a call that runs the callbacks."""

from __future__ import annotations

import asyncio
import select
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    ClosedError,
    ConflictError,
    Connectivity,
    Delivery,
    Event,
    EventKind,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
    Stop,
)
from receiver import Receiver
from sender import HttpTransport
from support import Events, program, wait_until

Waiter = Callable[[float], bool]


@contextmanager
def by_select(queue: MessageQueue) -> Iterator[Waiter]:
    yield lambda seconds: bool(select.select([queue], [], [], seconds)[0])


@contextmanager
def by_poll(queue: MessageQueue) -> Iterator[Waiter]:
    poll = select.poll()
    poll.register(queue, select.POLLIN)
    yield lambda seconds: bool(poll.poll(seconds * 1000))


@contextmanager
def by_epoll(queue: MessageQueue) -> Iterator[Waiter]:
    with select.epoll() as epoll:
        epoll.register(queue, select.EPOLLIN)
        yield lambda seconds: bool(epoll.poll(seconds))


@contextmanager
def by_selectors(queue: MessageQueue) -> Iterator[Waiter]:
    with selectors.DefaultSelector() as selector:
        selector.register(queue, selectors.EVENT_READ)
        yield lambda seconds: bool(selector.select(seconds))


def serve(queue: MessageQueue) -> None:
    while True:
        queue.poll()


def serve_until_closed(queue: MessageQueue) -> None:
    with pytest.raises(ClosedError):
        serve(queue)


WAYS = [by_select, by_poll, by_epoll, by_selectors]


@pytest.mark.parametrize("way", WAYS)
def test_X7_a_loop_hosts_the_queue_and_its_thread_runs_every_callback(
    opened: Opener, http: HttpTransport, receiver: Receiver, way: Any
) -> None:
    threads: set[int] = set()

    def transport(delivery: Delivery) -> Outcome:
        threads.add(threading.get_ident())
        return http(delivery)

    received: list[Event] = []

    def handler(event: Event) -> None:
        threads.add(threading.get_ident())
        received.append(event)

    before = threading.enumerate()
    queue = opened(transport=transport, on_event=handler, polled=True)
    ids = [queue.enqueue(str(number), conversation=str(number % 3)) for number in range(10)]
    wakeups = callbacks = 0
    with way(queue) as readable:
        while queue.counts().sent < 10:
            assert readable(20)
            wakeups += 1
            callbacks += queue.poll(0)
        while readable(0):
            callbacks += queue.poll(0)
        # Without work it does not become readable, so that the loop sleeps.
        assert not readable(0.1)
        assert queue.poll(0) == 0
        assert 0 < wakeups <= callbacks
        # No wake-up is lost afterwards.
        queue.set_connectivity(Connectivity.OFFLINE)
        assert readable(20)
        assert queue.poll(0) > 0
    assert threads == {threading.get_ident()}
    assert threading.enumerate() == before
    assert sorted(receiver.ids) == sorted(ids)
    assert len([event for event in received if event.to_status is Status.SENT]) == 10


def test_X7_the_descriptor_stays_readable_until_the_work_is_done(opened: Opener) -> None:
    queue = opened(transport=lambda _: Outcome.sent(), polled=True)
    queue.enqueue_batch({"body": "hello", "conversation": str(number)} for number in range(100))
    callbacks = idle = 0
    with by_epoll(queue) as readable:
        while callbacks < 100:
            assert readable(20)
            # Nothing was polled: it is still readable.
            assert readable(0)
            ran = queue.poll(0)
            assert ran <= 64
            callbacks += ran
            # It is readable as well for what is due at a time, such as the flush of outcomes, which is not counted.
            idle += ran == 0
        assert queue.counts().sent == 100
        assert idle <= 20
        # The last outcomes are flushed within a second: that is work without a callback.
        assert readable(20)
        assert queue.poll(0) == 0


def test_X7_no_wake_up_is_lost_between_enqueueing_threads_and_a_polling_one(opened: Opener) -> None:
    sent: list[str] = []

    def transport(delivery: Delivery) -> Outcome:
        sent.append(delivery.id)
        return Outcome.sent()

    queue = opened(transport=transport, polled=True, max_in_flight=4)

    def enqueue(name: str) -> None:
        for number in range(25):
            queue.enqueue(str(number), conversation=name)

    threads = [threading.Thread(target=enqueue, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    with by_epoll(queue) as readable:
        while len(sent) < 100:
            assert time.monotonic() < deadline
            assert readable(5)
            queue.poll(0)
    for thread in threads:
        thread.join()
    assert len(set(sent)) == 100


def test_X7_asyncio_watches_the_descriptor(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, on_event=events, polled=True)
    wakeups = 0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        finished = asyncio.Event()

        def readable() -> None:
            nonlocal wakeups
            wakeups += 1
            queue.poll(0)
            if len([event for event in events.all(EventKind.STATUS) if event.to_status is Status.SENT]) == 5:
                finished.set()

        loop.add_reader(queue.fileno(), readable)
        try:
            await loop.run_in_executor(None, lambda: [queue.enqueue(str(number)) for number in range(5)])
            await asyncio.wait_for(finished.wait(), 20)
            await asyncio.sleep(0.05)
            idle = wakeups
            await asyncio.sleep(0.2)
            assert wakeups == idle
        finally:
            loop.remove_reader(queue.fileno())

    asyncio.run(main())
    assert receiver.texts == ["0", "1", "2", "3", "4"]
    assert 0 < wakeups < 100


def test_X7_the_descriptor_becomes_readable_when_a_retry_falls_due(opened: Opener) -> None:
    attempts: list[int] = []

    def transport(delivery: Delivery) -> Outcome:
        attempts.append(delivery.attempt)
        return Outcome.retry(FailureKind.NETWORK) if delivery.attempt == 1 else Outcome.sent()

    queue = opened(transport=transport, polled=True, retry=RetryPolicy(ladder=[0.3]))
    queue.enqueue("hello")
    start, wakeups = time.monotonic(), 0
    with by_poll(queue) as readable:
        while len(attempts) < 2:
            assert readable(10)
            wakeups += 1
            queue.poll(0)
    assert 0.25 < time.monotonic() - start < 5
    assert wakeups < 10


def test_poll_waits_at_most_its_timeout_and_returns_the_number_of_callbacks(opened: Opener) -> None:
    queue = opened(on_event=lambda _: None, polled=True)
    start = time.monotonic()
    assert queue.poll(0.3) == 0
    assert 0.25 < time.monotonic() - start < 5
    start = time.monotonic()
    assert queue.poll(0) == 0
    assert time.monotonic() - start < 0.2
    threading.Timer(0.1, queue.enqueue, ["hello"]).start()
    assert queue.poll(20) > 0
    threading.Timer(0.1, queue.enqueue, ["hello"]).start()
    assert queue.poll() > 0
    with pytest.raises(InvalidError):
        queue.poll(-1)
    with pytest.raises(TypeError):
        queue.poll("1")  # type: ignore[arg-type]


def test_a_queue_with_threads_of_its_own_is_not_polled(opened: Opener, store: Path) -> None:
    queue = opened()
    for call in (queue.poll, queue.fileno):
        with pytest.raises(ConflictError, match="polled=True"):
            call()
    with pytest.raises(TypeError):
        MessageQueue(store.with_suffix(".other"), polled=1)  # type: ignore[arg-type]


def test_a_closed_queue_is_not_polled(opened: Opener) -> None:
    queue = opened(polled=True)
    assert queue.fileno() > 2
    queue.close()
    for call in (queue.poll, queue.fileno):
        with pytest.raises(ClosedError):
            call()


def test_closing_ends_a_waiting_poll(opened: Opener) -> None:
    queue = opened(polled=True)
    ended: list[type[BaseException]] = []

    def poll() -> None:
        try:
            queue.poll()
        except ClosedError as problem:
            ended.append(type(problem))

    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(0.1)
    queue.close()
    thread.join(20)
    assert ended == [ClosedError]


def test_a_polled_queue_drains_on_the_only_thread_that_polls(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, on_event=events, polled=True, mode=Mode.MANUAL, direct=False)
    ids = [queue.enqueue(str(number)) for number in range(5)]
    queue.poll(0)
    report = queue.drain()
    assert (report.stop, report.sent, report.remaining) == (Stop.EMPTY, 5, 0)
    assert receiver.ids == ids
    # Its events have been delivered when it returns.
    assert len(events.all(EventKind.DRAIN_FINISHED)) == 1


def test_a_polled_queue_drains_while_another_thread_polls(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    threads: set[int] = set()

    def transport(delivery: Delivery) -> Outcome:
        threads.add(threading.get_ident())
        return http(delivery)

    queue = opened(transport=transport, polled=True, mode=Mode.MANUAL, direct=False)

    poller = threading.Thread(target=serve_until_closed, args=(queue,))
    poller.start()
    wait_until(lambda: poller.is_alive())
    time.sleep(0.05)
    ids = [queue.enqueue(str(number)) for number in range(5)]
    assert queue.drain().sent == 5
    assert threads == {poller.ident}
    queue.close()
    poller.join(20)
    assert receiver.ids == ids


def test_inside_a_callback_a_polled_queue_starts_a_drain_and_polls_nothing(opened: Opener) -> None:
    said: list[Any] = []

    def transport(_: Delivery) -> Outcome:
        said.append((queue.drain().stop, queue.poll(0)))
        with pytest.raises(ConflictError):
            queue.close()
        return Outcome.sent()

    queue = opened(polled=True)
    queue.set_transport(transport)
    queue.enqueue("hello")
    wait_until(lambda: queue.poll(0) or queue.counts().sent)
    wait_until(lambda: queue.poll(0.01) == 0)
    assert said == [(Stop.STARTED, 0)]
    assert queue.counts().sent == 1


def test_several_threads_may_poll_to_send_in_parallel(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, polled=True, max_in_flight=3)

    pollers = [threading.Thread(target=serve_until_closed, args=(queue,)) for _ in range(3)]
    for poller in pollers:
        poller.start()
    with receiver.holding():
        queue.enqueue_batch({"body": name, "conversation": name} for name in "abc")
        wait_until(lambda: len(receiver.received) == 3)
    wait_until(lambda: queue.counts().sent == 3)
    queue.close()
    for poller in pollers:
        poller.join(20)
    assert receiver.most_at_once == 3


@pytest.mark.parametrize("where", ["transport", "handler"])
@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])
def test_keyboard_interrupt_and_system_exit_in_a_callback_are_raised_from_poll(
    opened: Opener, where: str, problem: BaseException
) -> None:
    def interrupted(_: object) -> Outcome:
        raise problem

    callables: dict[str, Any] = {"transport": lambda _: Outcome.sent(), "on_event": lambda _: None}
    callables["transport" if where == "transport" else "on_event"] = interrupted
    queue = opened(polled=True, retry=RetryPolicy(ladder=[60]), **callables)
    id = queue.enqueue("hello")
    with pytest.raises(type(problem)) as caught:
        serve(queue)
    assert caught.value is problem
    queue.set_event_handler(None)
    while queue.poll(0.1):
        pass
    # Neither lost nor marked as sent.
    assert queue.get(id).status is (Status.QUEUED if where == "transport" else Status.SENT)


def test_other_exceptions_of_callbacks_are_not_raised_from_poll(
    opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    def transport(_: Delivery) -> Outcome:
        raise ValueError("boom")

    queue = opened(transport=transport, polled=True, retry=RetryPolicy(ladder=[]))
    id = queue.enqueue("hello")
    while queue.poll(0.2):
        pass
    failure = queue.get(id).failure
    assert failure is not None
    assert failure.text == "ValueError: boom"
    assert "the transport raised ValueError: boom" in caplog.text


def test_ctrl_c_ends_a_waiting_poll(tmp_path: Path) -> None:
    code = """
        import sys
        from msgqueue import MessageQueue
        with MessageQueue(sys.argv[1], polled=True) as queue:
            print("waits", flush=True)
            try:
                queue.poll()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
    """
    with program(code, tmp_path / "outbox.db") as child:
        assert child.line() == "waits"
        time.sleep(0.1)
        start = time.monotonic()
        child.signal(signal.SIGINT)
        assert child.line() == "interrupted"
        assert time.monotonic() - start < 5
        assert child.wait() == 0


def test_a_transport_of_a_polled_queue_may_complete_later(opened: Opener) -> None:
    tokens: list[int] = []

    def transport(delivery: Delivery) -> Outcome:
        tokens.append(delivery.token)
        return Outcome.pending()

    queue = opened(transport=transport, polled=True)
    id = queue.enqueue("hello")
    while not tokens:
        assert queue.poll(10)
    queue.complete(tokens[0], Outcome.sent())
    assert queue.get(id).status is Status.SENT


def test_X8_a_drain_on_the_only_polling_thread_waits_for_other_threads_to_complete(opened: Opener) -> None:
    def transport(delivery: Delivery) -> Outcome:
        threading.Timer(0.1, queue.complete, [delivery.token, Outcome.sent()]).start()
        return Outcome.pending()

    queue = opened(polled=True, mode=Mode.MANUAL, direct=False, max_in_flight=2)
    queue.set_transport(transport)
    for number in range(4):
        queue.enqueue("hello", conversation=str(number % 2))
    report = queue.drain()
    assert (report.stop, report.sent) == (Stop.EMPTY, 4)

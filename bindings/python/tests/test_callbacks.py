"""Transports and event handlers: what they may do, and what happens to the message when they fail."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    Connectivity,
    Delivery,
    Event,
    EventKind,
    FailureKind,
    Mode,
    NoTransportError,
    Outcome,
    RetryPolicy,
    Status,
    Stop,
)
from msgqueue._poll_threads import PollThreads
from receiver import Receiver
from sender import HttpTransport
from support import Events, wait_until

NO_RETRY = RetryPolicy(ladder=[])


class UnspeakableError(Exception):
    """An exception whose text raises another one."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(problem: BaseException) -> Callable[[Delivery], Outcome]:
    def transport(_: Delivery) -> Outcome:
        raise problem

    return transport


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (RuntimeError("boom"), "RuntimeError: boom"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit("odd"), "GeneratorExit: odd"),
        (UnspeakableError(), "UnspeakableError"),
        (RuntimeError("nul \0 and \ud800"), "RuntimeError: nul \N{REPLACEMENT CHARACTER} and \\ud800"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_exception_in_a_transport_is_a_failure(
    opened: Opener, caplog: pytest.LogCaptureFixture, problem: BaseException, text: str
) -> None:
    events = Events()
    caplog.set_level(logging.DEBUG, "msgqueue")
    queue = opened(transport=raising(problem), retry=NO_RETRY, on_event=events)
    id = queue.enqueue("hello")
    failure = events.wait_for_status(id, Status.FAILED).failure
    assert failure is not None
    assert (failure.kind, failure.text, failure.retryable) == (FailureKind.UNKNOWN, text, True)
    (traceback,) = [record for record in caplog.records if record.exc_info and record.exc_info[1] is problem]
    assert traceback.levelno == logging.DEBUG
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith(f"attempt 1 of message {id} failed (UNKNOWN): the transport raised {type(problem).__name__}")
    assert "\n" not in line


def test_after_an_exception_the_message_is_retried(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    calls: list[int] = []

    def transport(delivery: Delivery) -> Outcome:
        calls.append(delivery.attempt)
        if len(calls) == 1:
            raise RuntimeError("boom")
        return http(delivery)

    events = Events()
    queue = opened(transport=transport, retry=RetryPolicy(ladder=[0.05]), on_event=events)
    id = queue.enqueue("hello")
    events.wait_for_status(id, Status.SENT)
    assert calls == [1, 2]
    assert receiver.ids == [id]


@pytest.mark.parametrize(
    ("answer", "said"), [(None, "None"), (True, "bool"), (200, "int"), ("sent", "str"), (Outcome, "type")]
)
def test_a_return_value_that_is_not_an_outcome_is_a_failure(opened: Opener, answer: Any, said: str) -> None:
    events = Events()
    queue = opened(transport=lambda _: answer, retry=NO_RETRY, on_event=events)
    failure = events.wait_for_status(queue.enqueue("hello"), Status.FAILED).failure
    assert failure is not None
    assert failure.kind is FailureKind.UNKNOWN
    assert said in failure.text
    assert "not an Outcome" in failure.text


@pytest.mark.parametrize("problem", [RuntimeError("boom"), KeyboardInterrupt(), SystemExit(1)])
def test_an_exception_in_an_event_handler_is_logged_and_the_next_event_is_delivered(
    opened: Opener, caplog: pytest.LogCaptureFixture, problem: BaseException
) -> None:
    received: list[str | None] = []

    def handler(event: Event) -> None:
        if event.kind is EventKind.STATUS:
            received.append(event.id)
            raise problem

    queue = opened(on_event=handler)
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue("one"), queue.enqueue("two")]

    def logged() -> list[tuple[str, int]]:
        return [(each.name, each.levelno) for each in caplog.records if each.exc_info and each.exc_info[1] is problem]

    wait_until(lambda: len(logged()) == 2)
    assert received == ids
    assert logged() == [("msgqueue", logging.ERROR)] * 2


def test_callbacks_run_on_threads_of_this_package_only(opened: Opener, http: HttpTransport) -> None:
    threads: set[threading.Thread] = set()

    def transport(delivery: Delivery) -> Outcome:
        threads.add(threading.current_thread())
        return http(delivery)

    def handler(_: Event) -> None:
        threads.add(threading.current_thread())

    queue = opened(transport=transport, on_event=handler, max_in_flight=4)
    queue.enqueue_batch({"body": "hello", "conversation": str(number)} for number in range(20))
    wait_until(lambda: queue.counts().sent == 20)
    # A thread of the library would be one that Python did not start.
    assert {thread.name.split()[0] for thread in threads} == {"msgqueue"}
    assert all(type(thread) is threading.Thread and thread.daemon for thread in threads)


def test_a_drain_without_a_polling_thread_still_times_out(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, http: HttpTransport, receiver: Receiver
) -> None:
    """The library calls the transport on the draining thread, which a receiver that hangs must not block."""
    monkeypatch.setattr(PollThreads, "start", lambda _: None)
    threads: list[threading.Thread] = []

    def transport(delivery: Delivery) -> Outcome:
        threads.append(threading.current_thread())
        return http(delivery)

    queue = opened(transport=transport, mode=Mode.MANUAL, direct=False, max_in_flight=2)
    receiver.answer_by(lambda request: 400 if request.text == "bad" else 200)
    ids = [queue.enqueue(text, conversation=text) for text in ("good", "bad", "better")]
    assert queue.drain().sent == 2
    assert [queue.get(id).status for id in ids] == [Status.SENT, Status.FAILED, Status.SENT]
    held = queue.enqueue("held")
    with receiver.holding():
        assert queue.drain(timeout=0.2).stop is Stop.TIMEOUT
    wait_until(lambda: queue.get(held).status is Status.SENT)
    assert threading.main_thread() not in threads
    assert sorted(receiver.ids) == sorted([*ids, held])


def test_Q7_a_drain_with_a_timeout_does_not_wait_for_a_blocked_handler_or_for_another_drain(opened: Opener) -> None:
    release = threading.Event()

    def transport(_: Delivery) -> Outcome:
        release.wait(10)
        return Outcome.sent()

    queue = opened(transport=transport, mode=Mode.MANUAL, direct=False)
    queue.enqueue("hello")
    endless = threading.Thread(target=queue.drain)
    endless.start()
    wait_until(lambda: queue.counts().sending == 1)
    start = time.monotonic()
    report = queue.drain(timeout=0.2)
    assert (report.stop, report.sent, report.remaining) == (Stop.TIMEOUT, 0, 1)
    assert endless.is_alive()
    release.set()
    endless.join()
    release.clear()
    queue.set_event_handler(lambda _: release.wait(10))
    report = queue.drain(timeout=0.2)
    assert report.stop is Stop.TIMEOUT
    assert time.monotonic() - start < 5
    release.set()


def test_a_transport_may_call_drain_on_any_thread(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PollThreads, "start", lambda _: None)
    reports: list[Stop] = []

    def transport(_: Delivery) -> Outcome:
        reports.append(queue.drain().stop)
        return Outcome.sent()

    queue = opened(mode=Mode.MANUAL, direct=False)
    queue.set_transport(transport)
    for number in range(3):
        queue.enqueue("hello", conversation=str(number))
    start = time.monotonic()
    assert queue.drain().sent == 3
    assert time.monotonic() - start < 20
    assert reports == [Stop.STARTED] * 3


def test_everything_but_close_may_be_called_from_a_callback(opened: Opener, http: HttpTransport) -> None:
    problems: list[Exception] = []
    replies: list[str] = []

    def transport(delivery: Delivery) -> Outcome:
        try:
            assert queue.get(delivery.id).status is Status.SENDING
            assert queue.counts().sending == 1
            assert [message.id for message in queue.list("ana")] == [delivery.id]
            assert queue.drain().stop is Stop.STARTED
        except Exception as problem:  # noqa: BLE001 - the test looks at it
            problems.append(problem)
        return http(delivery)

    def handler(event: Event) -> None:
        try:
            if event.to_status is Status.SENT and event.conversation == "ana":
                # The drain is still in progress: while online it could send the reply before the next line.
                queue.set_connectivity(Connectivity.OFFLINE)
                replies.append(queue.enqueue("reply", conversation="ben"))
                queue.edit(replies[0], "reply, edited")
                queue.delete(replies[0])
                queue.set_transport(None)
        except Exception as problem:  # noqa: BLE001 - the test looks at it
            problems.append(problem)

    queue = opened(mode=Mode.MANUAL, direct=False)
    queue.set_event_handler(handler)
    queue.set_transport(transport)
    queue.enqueue("hello", conversation="ana")
    assert queue.drain().sent == 1
    wait_until(lambda: replies)
    wait_until(lambda: queue.counts().queued == 0)
    assert problems == []
    with pytest.raises(NoTransportError):
        queue.drain()


def test_events_are_delivered_one_at_a_time_and_in_order(opened: Opener, http: HttpTransport) -> None:
    inside = threading.Lock()
    overlaps: list[Event] = []
    events = Events()

    def handler(event: Event) -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(event)
            return
        events(event)
        inside.release()

    queue = opened(transport=http, on_event=handler, max_in_flight=4)
    ids = [queue.enqueue("hello", conversation=str(number % 5)) for number in range(40)]
    for id in ids:
        events.wait_for_status(id, Status.SENT)
    assert overlaps == []
    for id in ids:
        assert events.statuses(id) == [Status.QUEUED, Status.SENDING, Status.SENT]
    times = [event.at for event in events.all()]
    assert times == sorted(times)
    assert datetime.now(timezone.utc) - times[0] < timedelta(minutes=1)


def test_events_are_delivered_while_a_transport_blocks(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, on_event=events)
    with receiver.holding():
        queue.enqueue("held", conversation="ana")
        wait_until(lambda: receiver.received)
        id = queue.enqueue("waits", conversation="ben")
        events.wait_for_status(id, Status.QUEUED)


def test_transports_that_hang_block_neither_events_nor_other_conversations(opened: Opener, receiver: Receiver) -> None:
    release = threading.Event()
    http = HttpTransport(receiver.port)

    def transport(delivery: Delivery) -> Outcome:
        if delivery.text == "hangs":
            release.wait(60)
        return http(delivery)

    events = Events()
    queue = opened(transport=transport, attempt_timeout=0.1, retry=NO_RETRY, on_event=events)
    try:
        for conversation in "abcde":
            id = queue.enqueue("hangs", conversation=conversation)
            failure = events.wait_for_status(id, Status.FAILED).failure
            assert failure is not None
            assert failure.kind is FailureKind.TIMEOUT
        queue.set_transport(HttpTransport(receiver.port, timeout=20))
        id = queue.enqueue("goes", conversation="f")
        events.wait_for_status(id, Status.SENT)
    finally:
        release.set()


def test_a_transport_can_be_replaced_and_removed(opened: Opener, receiver: Receiver) -> None:
    used: list[str] = []

    def named(name: str) -> Callable[[Delivery], Outcome]:
        def transport(_: Delivery) -> Outcome:
            used.append(name)
            return Outcome.sent()

        return transport

    queue = opened(mode=Mode.MANUAL, direct=False)
    queue.enqueue("one")
    with pytest.raises(NoTransportError):
        queue.drain()
    queue.set_transport(named("first"))
    queue.drain()
    queue.set_transport(named("second"))
    queue.enqueue("two")
    queue.drain()
    queue.set_transport(None)
    queue.enqueue("three")
    with pytest.raises(NoTransportError):
        queue.drain()
    assert used == ["first", "second"]
    assert queue.counts().queued == 1


def test_a_replaced_transport_and_those_of_a_closed_queue_are_released(opened: Opener) -> None:
    class Sender:
        def __call__(self, deliveries: object) -> Any:
            raise NotImplementedError

    queue = opened(mode=Mode.MANUAL)

    def registered(register: Callable[[Sender], None]) -> weakref.ref[Sender]:
        sender = Sender()
        register(sender)
        return weakref.ref(sender)

    def is_released(sender: weakref.ref[Sender]) -> bool:
        gc.collect()
        return sender() is None

    batch = registered(queue.set_batch_transport)
    assert not is_released(batch)
    single = registered(queue.set_transport)
    assert is_released(batch)
    batch = registered(queue.set_batch_transport)
    assert is_released(single)
    queue.set_transport(None)
    assert is_released(batch)
    last = [registered(queue.set_event_handler), registered(queue.set_transport)]
    queue.close()
    assert all(map(is_released, last))


def test_an_event_handler_can_be_replaced_and_removed(opened: Opener) -> None:
    first, second = Events(), Events()
    queue = opened(on_event=first)
    queue.set_connectivity(Connectivity.OFFLINE)
    one = queue.enqueue("one")
    first.wait_for_status(one, Status.QUEUED)
    queue.set_event_handler(second)
    two = queue.enqueue("two")
    second.wait_for_status(two, Status.QUEUED)
    queue.set_event_handler(None)
    queue.enqueue("three")
    queue.close()
    assert [event.id for event in first.all(EventKind.STATUS)] == [one]
    assert [event.id for event in second.all(EventKind.STATUS)] == [two]


def test_a_delivery_stays_valid_after_the_transport_returned(opened: Opener) -> None:
    kept: list[Delivery] = []

    def transport(delivery: Delivery) -> Outcome:
        kept.append(delivery)
        return Outcome.sent()

    queue = opened(transport=transport, on_demand_timeout=7.5, mode=Mode.MANUAL, direct=False, attempt_timeout=1.5)
    queue.enqueue(b"\x00bytes\x00", conversation="ana", metadata={"k": "v"}, id="the-id")
    queue.drain()
    queue.delete("the-id")
    queue.close()
    (delivery,) = kept
    assert (delivery.id, delivery.conversation, delivery.body) == ("the-id", "ana", b"\x00bytes\x00")
    assert (delivery.metadata, delivery.attempt, delivery.timeout) == ({"k": "v"}, 1, 1.5)
    assert delivery.text == "\0bytes\0"

"""The queue for asyncio: sending, drains, and transports."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import msgqueue
from async_sender import AsyncHttpTransport, Complaints, in_loop, until
from msgqueue import (
    AttemptOutcome,
    Connectivity,
    Delivery,
    DuplicateError,
    Event,
    EventKind,
    FailureKind,
    InvalidError,
    Lifecycle,
    Mode,
    NotFoundError,
    NoTransportError,
    Outcome,
    Report,
    RetryPolicy,
    Status,
    Stop,
    aio,
)
from receiver import Received, Receiver
from support import environment


def test_X7_A10_conversations_are_sent_in_parallel_each_in_order(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        transport = AsyncHttpTransport(receiver.port)
        async with aio.MessageQueue(store, transport, max_in_flight=3, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(4):
                for name in "abcd":
                    await queue.enqueue(f"{name}{number}", conversation=name)
            with receiver.holding(lambda request: request.text.endswith("0")) as gate:
                draining = asyncio.create_task(queue.drain())
                await until(lambda: len(receiver.received) == 3)
                await asyncio.sleep(0.1)
                # Three at a time, of three conversations.
                assert sorted(receiver.texts) == ["a0", "b0", "c0"]
                gate.open()
                report = await draining
            assert (report.stop, report.sent, report.remaining) == (Stop.EMPTY, 16, 0)
            assert (await queue.counts()).sent == 16

    in_loop(test())
    for name in "abcd":
        assert [text for text in receiver.texts if text[0] == name] == [f"{name}{number}" for number in range(4)]
    assert receiver.most_at_once == 3
    assert receiver.most_of_one_conversation_at_once == 1


def test_X7_every_callback_runs_on_the_thread_of_the_loop(store: Path, receiver: Receiver) -> None:
    threads: set[int] = set()

    async def test() -> None:
        http = AsyncHttpTransport(receiver.port)

        async def transport(delivery: Delivery) -> Outcome:
            threads.add(threading.get_ident())
            return await http(delivery)

        def handler(_: Event) -> None:
            threads.add(threading.get_ident())

        async with aio.MessageQueue(store, transport, on_event=handler, max_in_flight=4) as queue:
            await queue.enqueue_batch({"body": "hello", "conversation": str(number)} for number in range(20))
            assert (await queue.drain()).remaining == 0
            # Events during close are delivered on the loop, too.
            await queue.set_connectivity(Connectivity.OFFLINE)

    in_loop(test())
    assert threads == {threading.get_ident()}
    assert len(receiver.received) == 20


def test_X7_the_loop_sleeps_while_the_queue_is_idle(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, lambda _: Outcome.sent()) as queue:
            polls = 0
            polled_queue = queue._calls.opened.queue
            poll = polled_queue.poll

            def counted(timeout: float | None = None) -> int:
                nonlocal polls
                polls += 1
                return poll(timeout)

            polled_queue.poll = counted  # type: ignore[method-assign, misc]
            await queue.enqueue("hello")
            assert (await queue.drain()).remaining == 0
            await asyncio.sleep(0.1)
            assert 0 < polls < 60
            idle = polls
            await asyncio.sleep(0.3)
            assert polls == idle
            del polled_queue.poll

    in_loop(test())


def test_the_loop_is_not_blocked_by_calls_that_wait_for_the_disk(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store) as queue:
            polled_queue = queue._calls.opened.queue
            began = threading.Event()

            def slow(conversation: str | None = None) -> Any:
                began.set()
                time.sleep(0.5)
                return conversation

            polled_queue.counts = slow  # type: ignore[method-assign, misc]
            start = time.monotonic()
            counting = asyncio.create_task(queue.counts("ana"))
            await until(began.is_set)
            assert time.monotonic() - start < 0.4
            id = await queue.enqueue("hello")
            assert (await queue.get(id)).text == "hello"
            said: object = await counting
            assert said == "ana"
            del polled_queue.counts

    in_loop(test())


def test_the_loop_is_not_blocked_by_a_long_call_of_the_queue(store: Path, tmp_path: Path) -> None:
    async def test() -> None:
        received: list[Event] = []
        async with aio.MessageQueue(store, on_event=received.append) as queue:
            polled_queue = queue._calls.opened.queue
            began, go_on = threading.Event(), threading.Event()
            polls: list[int] = []
            poll = polled_queue.poll

            def slow(path: str | os.PathLike[str]) -> None:
                began.set()
                go_on.wait(20)

            def counted(timeout: float | None = None) -> int:
                polls.append(poll(timeout))
                return polls[-1]

            polled_queue.backup, polled_queue.poll = slow, counted  # type: ignore[method-assign, misc]
            backup = asyncio.create_task(queue.backup(tmp_path / "copy.db"))
            await until(began.is_set)
            # An event is due, and a poll would wait for the lock that a backup holds.
            await queue.set_connectivity(Connectivity.OFFLINE)
            await asyncio.sleep(0.1)
            assert (polls, received) == ([], [])
            go_on.set()
            await backup
            await until(lambda: received)
            del polled_queue.backup, polled_queue.poll

    in_loop(test())


def test_Q14_R11_every_method_of_the_plain_queue_works(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        queue = await aio.MessageQueue(store, AsyncHttpTransport(receiver.port), online_debounce=0.0).open()
        await queue.set_connectivity(Connectivity.OFFLINE)
        id = await queue.enqueue("hello", conversation="ana", metadata={"k": "v"}, id="the-id")
        assert id == "the-id"
        with pytest.raises(DuplicateError):
            await queue.enqueue("again", id="the-id")
        with pytest.raises(NotFoundError):
            await queue.get("absent")
        with pytest.raises(TypeError):
            await queue.enqueue(3)  # type: ignore[arg-type]
        with pytest.raises(InvalidError):
            await queue.drain(timeout=-1)
        await queue.edit(id, "hello!")
        assert await queue.enqueue_batch([{"body": "two", "id": "2", "conversation": "ben"}]) == ["2"]
        with pytest.raises(TypeError):
            await queue.enqueue_bodies([b"x", 3])  # type: ignore[list-item]
        carl = await queue.enqueue_bodies((body for body in ("a", b"b")), conversation="carl", metadata={"k": "v"})
        assert [(await queue.get(each)).text for each in carl] == ["a", "b"]
        for each in carl:
            await queue.delete(each)
        await queue.record("hi", sender="ben", conversation="ana", id="theirs")
        assert [message.text for message in await queue.list()] == ["hello!", "two"]
        assert [each.name for each in await queue.conversations()] == ["ana", "ben"]
        assert (await queue.counts("ana")).queued == 1
        assert (await queue.explain(id)).code.name == "OFFLINE"
        assert await queue.banner() == "You're offline. 2 messages queued. They will be sent when connected."
        await queue.backup(store.with_suffix(".copy"))
        await queue.delete("2")
        await queue.pause("ana")
        await queue.set_lifecycle(Lifecycle.BACKGROUND)
        await queue.set_connectivity(Connectivity.ONLINE)
        assert (await queue.drain()).stop is not Stop.EMPTY
        await queue.resume("ana")
        await queue.set_lifecycle(Lifecycle.FOREGROUND)
        await until(lambda: receiver.texts == ["hello!"])
        await queue.drain()
        await queue.mark(id, Status.READ)
        assert (await queue.get(id)).status is Status.READ
        assert [attempt.outcome for attempt in await queue.attempts(id)] == [AttemptOutcome.SENT]
        assert (await queue.stats()).sent == 1
        assert "msgq" in await queue.prometheus()
        receiver.answer_next(400)
        failed = await queue.enqueue("no")
        await until(lambda: receiver.texts[-1] == "no")
        await queue.drain()
        assert (await queue.get(failed)).status is Status.FAILED
        await queue.retry(failed)
        await until(lambda: receiver.texts.count("no") == 2)
        later = await queue.enqueue("later", not_before=time.time() + 600)
        await queue.send_now(later)
        await until(lambda: receiver.texts[-1] == "later")
        await queue.start_monitor()
        with pytest.raises(msgqueue.ConflictError):
            await queue.set_connectivity(Connectivity.ONLINE)
        await queue.stop_monitor()
        await queue.set_connectivity(Connectivity.OFFLINE)
        await queue.enqueue("gone")
        await queue.clear()
        assert (await queue.counts()).queued == 0
        await queue.close()

    in_loop(test())


def test_the_methods_are_those_of_the_plain_queue() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert methods(msgqueue.MessageQueue) - methods(aio.MessageQueue) == {"poll", "fileno"}
    assert methods(aio.MessageQueue) - methods(msgqueue.MessageQueue) == {"open", "events"}
    for name in methods(msgqueue.MessageQueue) & methods(aio.MessageQueue) - {"path", "closed"}:
        plain, coroutine = getattr(msgqueue.MessageQueue, name), getattr(aio.MessageQueue, name)
        if name == "follow_changes":
            assert inspect.isasyncgenfunction(coroutine)
            assert inspect.signature(plain).parameters == inspect.signature(coroutine).parameters
            continue
        assert inspect.iscoroutinefunction(coroutine), name
        assert inspect.signature(plain) == inspect.signature(coroutine), name


def test_the_options_are_those_of_the_plain_queue() -> None:
    plain = dict(inspect.signature(msgqueue.MessageQueue).parameters)
    for name in ("path", "transport", "on_event", "polled", "batch_transport", "batch_options"):
        del plain[name]
    types = get_type_hints(msgqueue.MessageQueue.__init__)
    assert get_type_hints(aio.Options) == {name: types[name] for name in plain}


def test_importing_the_package_does_not_import_asyncio() -> None:
    code = "import sys, msgqueue; print('asyncio' in sys.modules); import msgqueue.aio; print('asyncio' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "True"]


def test_enqueues_are_stored_in_the_order_of_the_calls(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, AsyncHttpTransport(receiver.port)) as queue:
            await asyncio.gather(*[queue.enqueue(str(number)) for number in range(30)])
            await queue.drain()

    in_loop(test())
    assert receiver.texts == [str(number) for number in range(30)]


# -------------------------------------------------------------------- transports


def test_a_plain_transport_may_answer_at_once_or_later(store: Path) -> None:
    async def test() -> None:
        deliveries: list[Delivery] = []

        def transport(delivery: Delivery) -> Outcome:
            deliveries.append(delivery)
            return Outcome.pending() if delivery.text == "later" else Outcome.sent()

        async with aio.MessageQueue(store, transport) as queue:
            ids = [await queue.enqueue("now"), await queue.enqueue("later")]
            await until(lambda: len(deliveries) == 2)
            await until(lambda: is_status(queue, ids[0], Status.SENT))
            await queue.complete(deliveries[1].token, Outcome.sent())
            assert (await queue.get(ids[1])).status is Status.SENT
            with pytest.raises(msgqueue.ConflictError):
                await queue.complete(deliveries[1].token, Outcome.sent())

    in_loop(test())


async def is_status(queue: aio.MessageQueue, id: str, status: Status) -> bool:
    return (await queue.get(id)).status is status


def test_an_exception_is_a_failure_and_is_reported_to_the_log_and_the_loop(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problem = ValueError("boom")
    caplog.set_level(logging.DEBUG, "msgqueue")

    async def test() -> None:
        complaints = Complaints()

        async def transport(delivery: Delivery) -> Outcome:
            await asyncio.sleep(0)
            if delivery.attempt == 1:
                raise problem
            return Outcome.sent()

        async with aio.MessageQueue(store, transport, retry=RetryPolicy(ladder=[0.05])) as queue:
            id = await queue.enqueue("hello")
            await until(lambda: is_status(queue, id, Status.SENT))
            first, second = await queue.attempts(id)
            assert (first.kind, first.text) == (FailureKind.UNKNOWN, "ValueError: boom")
            assert second.outcome is AttemptOutcome.SENT
        assert complaints.problems == [problem]
        assert complaints.contexts[0]["delivery"].id == id

    in_loop(test())
    logged = [record for record in caplog.records if record.exc_info and record.exc_info[1] is problem]
    assert [(record.name, record.levelno) for record in logged] == [("msgqueue", logging.DEBUG)]
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.endswith("failed (UNKNOWN): the transport raised ValueError: boom")


def test_an_outcome_is_passed_on_when_no_thread_can_be_started(store: Path) -> None:
    async def test() -> None:
        def none_left(job: Callable[[], object]) -> None:
            raise RuntimeError("can't start new thread")

        async with aio.MessageQueue(store, lambda _: Outcome.sent()) as queue:
            queue._calls.opened.attempts.answers.submit = none_left  # type: ignore[method-assign]
            id = await queue.enqueue("hello")
            await until(lambda: is_status(queue, id, Status.SENT))

    in_loop(test())


@pytest.mark.parametrize("answer", [None, True, 200, "sent"])
def test_a_return_value_that_is_not_an_outcome_is_a_failure(store: Path, answer: Any) -> None:
    async def test() -> None:
        async def transport(_: Delivery) -> Any:
            return answer

        async with aio.MessageQueue(store, transport, retry=RetryPolicy(ladder=[])) as queue:
            id = await queue.enqueue("hello")
            await until(lambda: is_status(queue, id, Status.FAILED))
            failure = (await queue.get(id)).failure
            assert failure is not None
            assert failure.kind is FailureKind.UNKNOWN
            assert "not an Outcome" in failure.text

    in_loop(test())


@pytest.mark.parametrize("when", ["before it began", "under way"])
def test_a_cancelled_task_is_a_failure_that_is_retried(store: Path, when: str) -> None:
    async def test() -> None:
        calls: list[int] = []

        async def transport(delivery: Delivery) -> Outcome:
            calls.append(delivery.attempt)
            if delivery.attempt == 1:
                await asyncio.sleep(60)
            return Outcome.sent()

        def attempts() -> list[asyncio.Task[Any]]:
            return list(queue._calls.opened.attempts._tasks)

        async with aio.MessageQueue(store, transport, retry=RetryPolicy(ladder=[0.05])) as queue:
            if when == "before it began":
                begin = queue._calls.opened.attempts._begin
                cancelled: list[bool] = []

                def cancelling(transport: aio.Transport, delivery: Delivery) -> None:
                    begin(transport, delivery)
                    if not cancelled:
                        cancelled.append(attempts()[0].cancel())

                queue._calls.opened.attempts._begin = cancelling  # type: ignore[method-assign]
            id = await queue.enqueue("hello")
            if when == "under way":
                await until(lambda: calls)
                attempts()[0].cancel()
            await until(lambda: is_status(queue, id, Status.SENT))
            first, _ = await queue.attempts(id)
            assert (first.kind, first.outcome) == (FailureKind.UNKNOWN, AttemptOutcome.RETRY)
            assert first.text.startswith("cancelled")
        assert calls == ([2] if when == "before it began" else [1, 2])

    in_loop(test())


def test_X8_a_late_success_counts(store: Path) -> None:
    async def test() -> None:
        answer = asyncio.Event()

        async def transport(_: Delivery) -> Outcome:
            await answer.wait()
            return Outcome.sent()

        options: Any = {"attempt_timeout": 0.1, "retry": RetryPolicy(ladder=[])}
        async with aio.MessageQueue(store, transport, **options) as queue:
            id = await queue.enqueue("hello")
            await until(lambda: is_status(queue, id, Status.FAILED))
            answer.set()
            await until(lambda: is_status(queue, id, Status.SENT))

    in_loop(test())


def test_X8_only_the_latest_attempt_counts_and_older_tasks_are_cancelled(store: Path) -> None:
    async def test() -> None:
        cancelled: list[int] = []
        second = asyncio.Event()

        async def transport(delivery: Delivery) -> Outcome:
            if delivery.attempt == 1:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(1)
                    # This outcome is of an attempt that has ended.
                    return Outcome.sent()
            await second.wait()
            return Outcome.reject(text="second")

        options: Any = {"attempt_timeout": 0.2, "retry": RetryPolicy(ladder=[0.05])}
        async with aio.MessageQueue(store, transport, **options) as queue:
            id = await queue.enqueue("hello")
            await until(lambda: cancelled)
            await asyncio.sleep(0.05)
            assert (await queue.get(id)).status is Status.SENDING
            second.set()
            await until(lambda: is_status(queue, id, Status.FAILED))
            failure = (await queue.get(id)).failure
            assert failure is not None
            assert failure.text == "second"

    in_loop(test())


def test_a_receiver_that_hangs_is_a_time_out_and_the_message_is_sent_later(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        options: Any = {"attempt_timeout": 0.2, "retry": RetryPolicy(ladder=[0.05])}
        async with aio.MessageQueue(store, AsyncHttpTransport(receiver.port), **options) as queue:

            def first(request: Received) -> bool:
                return request.attempt == 1

            with receiver.holding(first):
                id = await queue.enqueue("hello")
                await until(lambda: is_status(queue, id, Status.SENT))
            assert [attempt.kind for attempt in await queue.attempts(id)] == [FailureKind.TIMEOUT, FailureKind.NONE]

    in_loop(test())
    assert receiver.texts == ["hello", "hello"]


def test_concurrent_changes_of_the_transport_take_effect_in_the_order_of_the_calls(store: Path) -> None:
    async def test() -> None:
        async def send(_: Delivery) -> Outcome:
            return Outcome.sent()

        async with aio.MessageQueue(store, send, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(20):
                await asyncio.gather(queue.set_transport(None), queue.set_transport(send))
                await queue.enqueue("hello", id=str(number))
                assert (await queue.drain()).sent == 1

    in_loop(test())


def test_a_cancelled_change_of_the_transport_leaves_the_queue_consistent(store: Path) -> None:
    async def test() -> None:
        async def send(_: Delivery) -> Outcome:
            return Outcome.sent()

        async with aio.MessageQueue(store, send, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(20):
                await queue.enqueue("hello", id=str(number))
                changes = [asyncio.create_task(queue.set_transport(to)) for to in (None, send)]
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                changes[1].cancel()
                await asyncio.gather(*changes, return_exceptions=True)
                # The change was made completely or not at all: no attempt is without a transport.
                with contextlib.suppress(NoTransportError):
                    await queue.drain()
                    assert (await queue.get(str(number))).status is Status.SENT
                await queue.set_transport(send)
                await queue.drain()

    in_loop(test())


def test_a_transport_can_be_set_later_replaced_and_removed(store: Path) -> None:
    async def test() -> None:
        used: list[str] = []

        def named(name: str) -> aio.Transport:
            async def transport(_: Delivery) -> Outcome:
                used.append(name)
                return Outcome.sent()

            return transport

        async with aio.MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
            await queue.enqueue("one")
            with pytest.raises(NoTransportError):
                await queue.drain()
            await queue.set_transport(named("first"))
            assert (await queue.drain()).sent == 1
            await queue.set_transport(named("second"))
            await queue.enqueue("two")
            assert (await queue.drain()).sent == 1
            await queue.set_transport(None)
            with pytest.raises(NoTransportError):
                await queue.drain()
            with pytest.raises(TypeError):
                await queue.set_transport(3)  # type: ignore[arg-type]
        assert used == ["first", "second"]

    in_loop(test())
    with pytest.raises(TypeError):
        aio.MessageQueue(store, 3)  # type: ignore[arg-type]


# -------------------------------------------------------------------- drains


def test_A6_several_drains_join_and_get_one_report(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        transport = AsyncHttpTransport(receiver.port)
        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(3):
                await queue.enqueue(str(number))
            with receiver.holding() as gate:
                waiters = [asyncio.create_task(queue.drain()) for _ in range(5)]
                await until(lambda: receiver.received)
                # Cancelling one waiter does not affect the others.
                waiters[0].cancel()
                await asyncio.sleep(0.05)
                assert waiters[0].cancelled()
                gate.open()
                reports = await asyncio.gather(*waiters[1:])
            assert reports == [Report(Stop.EMPTY, sent=3, failed=0, discarded=0, remaining=0)] * 4
            assert (await queue.drain()).stop is Stop.EMPTY

    in_loop(test())
    assert receiver.texts == ["0", "1", "2"]


def test_a_drain_whose_waiter_is_cancelled_continues(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        transport = AsyncHttpTransport(receiver.port)
        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(3):
                await queue.enqueue(str(number))
            with receiver.holding(), pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(queue.drain(), 0.2)
            await until(lambda: len(receiver.received) == 3)
            await queue.drain()
            assert (await queue.counts()).sent == 3

    in_loop(test())


def test_M8_a_drain_has_a_batch_and_a_timeout(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        transport = AsyncHttpTransport(receiver.port)
        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(4):
                await queue.enqueue(str(number))
            report = await queue.drain(batch=3)
            assert (report.stop, report.sent, report.remaining) == (Stop.BATCH, 3, 1)
            with receiver.holding() as gate:
                draining = asyncio.create_task(queue.drain(timeout=0.2))
                await until(lambda: len(receiver.received) == 4)
                await asyncio.sleep(0.3)
                gate.open()
                assert (await draining).stop is Stop.TIMEOUT

    in_loop(test())


def test_A6_a_drain_that_joins_another_has_its_own_timeout(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        transport = AsyncHttpTransport(receiver.port)
        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            await queue.enqueue("hello")
            with receiver.holding():
                endless = asyncio.create_task(queue.drain())
                await until(lambda: len(receiver.received) == 1)
                report = await asyncio.wait_for(queue.drain(timeout=0.2), 5)
                assert (report.stop, report.sent, report.remaining) == (Stop.TIMEOUT, 0, 1)
                assert not endless.done()
            assert (await endless).sent == 1

    in_loop(test())


def test_the_report_of_a_drain_inside_an_attempt_counts_what_it_drains(store: Path) -> None:
    async def main() -> None:
        reports: list[Report] = []

        async def transport(delivery: Delivery) -> Outcome:
            if delivery.text == "fails":
                return Outcome.reject()
            reports.append(await queue.drain(conversation="ana"))
            reports.append(await queue.drain())
            return Outcome.sent()

        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            for conversation in ("ana", "ben"):
                await queue.enqueue("fails", conversation=conversation)
            assert (await queue.drain()).failed == 2
            await queue.pause("ben")
            await queue.enqueue("sent", conversation="ana")
            for _ in range(3):
                await queue.enqueue("waits", conversation="ben")
            assert (await queue.drain()).sent == 1
        assert [(each.stop, each.remaining, each.remaining_failed) for each in reports] == [
            (Stop.STARTED, 1, 1),
            (Stop.STARTED, 4, 2),
        ]

    asyncio.run(main())


def test_a_drain_inside_an_attempt_only_starts(store: Path) -> None:
    async def test() -> None:
        reports: list[Report] = []
        left: list[asyncio.Task[Report]] = []

        async def transport(delivery: Delivery) -> Outcome:
            reports.append(await queue.drain())
            # Also in a task that the attempt awaits.
            reports.append(await asyncio.wait_for(queue.drain(), 10))
            if delivery.text == "last":
                left.append(asyncio.create_task(later()))
            return Outcome.sent()

        async def later() -> Report:
            await asyncio.sleep(0.1)
            # The attempt that created this task has ended: here drain may wait.
            return await queue.drain()

        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            for text in ("one", "two", "last"):
                await queue.enqueue(text)
            assert (await queue.drain()).sent == 3
            assert [report.stop for report in reports] == [Stop.STARTED] * 6
            assert (await left[0]).stop is Stop.EMPTY

    in_loop(test())


def test_the_events_of_a_drain_are_delivered_before_its_report(store: Path) -> None:
    async def test() -> None:
        received: list[EventKind] = []
        queue = aio.MessageQueue(store, lambda _: Outcome.sent(), on_event=lambda event: received.append(event.kind))
        async with queue:
            await queue.enqueue("hello")
            await queue.drain()
            assert EventKind.DRAIN_FINISHED in received

    in_loop(test())


@pytest.mark.parametrize("cancelled_at_once", [True, False])
def test_a_cancelled_enqueue_leaves_the_queue_consistent(store: Path, cancelled_at_once: bool) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
            home = queue._calls.opened
            blocked, release = threading.Event(), threading.Event()

            def block() -> None:
                blocked.set()
                release.wait(20)

            home.changes.submit(block)
            await until(blocked.is_set)
            waiting = asyncio.create_task(queue.enqueue("cancelled", id="cancelled"))
            await asyncio.sleep(0.05)
            if cancelled_at_once:
                waiting.cancel()
                await asyncio.sleep(0)
            release.set()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            await queue.enqueue("next", id="next")
            ids = [message.id for message in await queue.list()]
            # Cancelled before the call began, nothing is stored; otherwise the message is stored in its place.
            assert ids == (["next"] if cancelled_at_once else ["cancelled", "next"])

    in_loop(test())

"""Waiting threads are woken one at a time, and a polled queue ends and begins attempts in one commit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import flushes
import wakes
from conftest import Opener
from msgqueue import AttemptOutcome, Event, MessageQueue, Mode, Outcome, Status
from support import run

MESSAGES = 300


def drafts(conversations: int, count: int = MESSAGES) -> list[dict[str, str]]:
    return [{"body": str(number), "conversation": str(number % conversations)} for number in range(count)]


DRAIN = """
    import sys

    import wakes
    from msgqueue import Mode, MessageQueue, Outcome

    conversations, in_flight = int(sys.argv[2]), int(sys.argv[3])
    with MessageQueue(
        sys.argv[1], lambda _: Outcome.sent(), mode=Mode.MANUAL, direct=False, max_in_flight=in_flight
    ) as queue:
        queue.enqueue_batch({"body": "hello", "conversation": str(number % conversations)} for number in range(2000))
        before = wakes.done()
        assert queue.drain().sent == 2000
        print(wakes.done() - before)
"""


@pytest.mark.parametrize(("conversations", "in_flight", "most"), [(1, 1, 8000), (16, 8, 8000)])
def test_F10_a_drain_does_not_wake_threads_that_have_nothing_to_do(
    store: Path, tmp_path: Path, conversations: int, in_flight: int, most: int
) -> None:
    library = wakes.build(tmp_path)
    counts: list[int] = []
    # Each of the 2,000 messages woke all threads, some of them several times: 11,269. It is 450 on a quiet machine.
    # Other work only adds to it, because threads go to sleep before the next message begins: the least of three counts.
    while len(counts) < 3 and (not counts or counts[-1] >= most):
        done = run(DRAIN, store.with_name(f"{len(counts)}.db"), conversations, in_flight, LD_PRELOAD=str(library))
        assert done.returncode == 0, done.stderr
        counts.append(int(done.stdout))
    assert min(counts) < most, counts


def test_F10_A10_each_attempt_that_can_begin_wakes_a_thread(opened: Opener) -> None:
    together = threading.Barrier(4)

    def transport(_: object) -> Outcome:
        # Returns when four attempts are in flight.
        together.wait(20)
        return Outcome.sent()

    queue = opened(transport=transport, max_in_flight=4, mode=Mode.MANUAL, direct=False)
    for _ in range(25):
        queue.enqueue_batch(drafts(4, 8))
        report = queue.drain(timeout=30)
        assert (report.sent, report.remaining) == (8, 0)


def test_F10_events_arrive_while_every_attempt_blocks(opened: Opener) -> None:
    release, queued = threading.Event(), threading.Semaphore(0)

    def transport(_: object) -> Outcome:
        release.wait(20)
        return Outcome.sent()

    def handler(event: Event) -> None:
        if event.to_status is Status.QUEUED:
            queued.release()

    queue = opened(transport=transport, on_event=handler, max_in_flight=2)
    for number in range(50):
        queue.enqueue(str(number), conversation=str(number % 4))
        assert queued.acquire(timeout=20)
    release.set()
    assert queue.drain(timeout=30).remaining == 0


COMMITS = """
    import sys

    import flushes
    from msgqueue import Mode, MessageQueue, Outcome

    handler = (lambda _: None) if sys.argv[2] == "handler" else None
    with MessageQueue(
        sys.argv[1], lambda _: Outcome.sent(), on_event=handler, durable_outcomes=True, polled=True, mode=Mode.MANUAL,
        direct=False, max_in_flight=4,
    ) as queue:
        queue.enqueue_batch({"body": "hello", "conversation": str(number % 4)} for number in range(300))
        before = flushes.done()
        assert queue.drain().sent == 300
        print(flushes.done() - before)
"""


@pytest.mark.parametrize("handler", ["handler", "none"])
def test_F10_a_polled_queue_writes_an_end_and_the_next_beginning_in_one_commit(
    store: Path, tmp_path: Path, handler: str
) -> None:
    done = run(COMMITS, store, handler, LD_PRELOAD=str(flushes.build(tmp_path)))
    assert done.returncode == 0, done.stderr
    # With a handler the events of the end are delivered before the next attempt begins.
    least, most = (2 * MESSAGES, 3 * MESSAGES) if handler == "handler" else (MESSAGES, MESSAGES * 11 // 10 + 10)
    assert least <= int(done.stdout) <= most


def test_F10_a_polled_queue_begins_no_attempt_whose_call_does_not_follow(opened: Opener) -> None:
    in_transport: set[int] = set()
    in_handler: set[int] = set()

    def transport(_: object) -> Outcome:
        in_transport.add(queue.counts().sending)
        return Outcome.sent()

    def handler(_: Event) -> None:
        in_handler.add(queue.counts().sending)

    queue = opened(transport=transport, polled=True, max_in_flight=8, mode=Mode.MANUAL, direct=False)
    queue.enqueue_batch(drafts(8))
    assert queue.drain().remaining == 0
    assert in_transport == {1}
    queue.enqueue_batch(drafts(8))
    queue.set_event_handler(handler)
    assert queue.drain().remaining == 0
    assert in_handler == {0}


KILLED = """
    import os
    import sys

    from msgqueue import Mode, MessageQueue, Outcome

    calls = []

    def transport(delivery):
        calls.append(delivery.id)
        if len(calls) == int(sys.argv[2]):
            os._exit(3)
        return Outcome.sent()

    queue = MessageQueue(sys.argv[1], transport, polled=True, max_in_flight=8, mode=Mode.MANUAL, direct=False)
    queue.enqueue_batch({"body": "hello", "conversation": str(number % 8)} for number in range(300))
    queue.drain()
"""


@pytest.mark.parametrize("calls", [1, 2, 63, 64, 65, 100])
def test_F10_X3_a_kill_in_a_polled_queue_leaves_one_outcome_unknown(store: Path, calls: int) -> None:
    assert run(KILLED, store, calls).returncode == 3
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        assert queue.counts().sent == calls - 1
        tried = [queue.attempts(message.id) for message in queue.list(limit=MESSAGES)]
        assert [[attempt.outcome for attempt in attempts] for attempts in tried if attempts] == [
            [AttemptOutcome.UNKNOWN]
        ]

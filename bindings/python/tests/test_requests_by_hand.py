"""What attempts by hand, offline answers and skipped messages leave behind, in simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable

import pytest

from msgqueue import (
    Connectivity,
    Event,
    EventKind,
    FailureKind,
    Link,
    Mode,
    NotFoundError,
    Outcome,
    Reason,
    RetryPolicy,
    Status,
    Stop,
)
from msgqueue.simulation import SimulatedQueue

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
UNAVAILABLE = Outcome.http(503)


class Host:
    """A queue, the next outcome of its transport, and its events."""

    def __init__(self, queue: SimulatedQueue, outcomes: list[Outcome], events: list[Event]) -> None:
        self.queue = queue
        self.outcomes = outcomes
        self.events = events

    def answer(self, outcome: Outcome) -> None:
        self.outcomes[:] = [outcome]

    def failed(self, outcome: Outcome = UNAVAILABLE) -> str:
        """Returns a message that is failed."""
        self.answer(outcome)
        id = self.queue.enqueue("x")
        self.queue.drain()
        assert self.queue.get(id).status is Status.FAILED
        return id


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    with ExitStack() as stack:

        def opener(start: datetime = START, **options: Any) -> Host:
            outcomes, events = [Outcome.sent()], list[Event]()
            given = {"mode": Mode.MANUAL, "direct": False, "retry": RetryPolicy(ladder=[]), **options}
            queue = SimulatedQueue(
                tmp_path / "outbox.db", lambda _: outcomes[0], start=start, on_event=events.append, **given
            )
            return Host(stack.enter_context(queue), outcomes, events)

        yield opener


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.ASK, Mode.MANUAL])
def test_R17_a_retry_that_the_transport_ends_as_offline_is_failed_and_listed(
    host: Callable[..., Host], mode: Mode
) -> None:
    made = host(mode=mode)
    id = made.failed()
    made.answer(Outcome.offline(text="unplugged"))
    made.queue.retry(id)
    made.queue.advance(20)
    message = made.queue.get(id)
    assert message.status is Status.FAILED
    assert message.failure is not None
    assert message.failure.kind is FailureKind.OFFLINE
    assert message.failure_before is not None
    assert message.failure_before.kind is FailureKind.SERVER
    assert [attempt.kind for attempt in made.queue.attempts(id)] == [FailureKind.SERVER, FailureKind.OFFLINE]
    # The next attempt has the same number.
    made.answer(Outcome.sent())
    made.queue.retry(id)
    made.queue.advance(20)
    assert [attempt.number for attempt in made.queue.attempts(id)] == [1, 2]
    assert made.queue.get(id).status is Status.SENT


def test_R17_an_attempt_of_a_drain_that_ends_as_offline_is_not_listed(host: Callable[..., Host]) -> None:
    made = host(retry=RetryPolicy(ladder=[1, 1]))
    made.answer(UNAVAILABLE)
    id = made.queue.enqueue("x")
    made.queue.drain()
    made.queue.advance(2)
    made.answer(Outcome.offline())
    assert made.queue.drain().stop is Stop.OFFLINE
    message = made.queue.get(id)
    assert message.failure is not None
    assert message.failure.kind is FailureKind.SERVER
    assert message.failure_before is None
    assert len(made.queue.attempts(id)) == 1


def test_M7_a_retry_that_pauses_the_queue_is_failed(host: Callable[..., Host]) -> None:
    made = host(pause_on_unauthorized=True)
    id = made.failed(Outcome.reject(code=400))
    made.answer(Outcome.http(401))
    made.queue.retry(id)
    made.queue.advance(20)
    assert made.queue.state().paused
    assert made.queue.get(id).status is Status.FAILED


def test_X5_send_now_and_retry_send_over_a_metered_link(host: Callable[..., Host]) -> None:
    made = host(unmetered_only=True)
    failed = made.failed()
    queued = made.queue.enqueue("x", conversation="other")
    made.queue.set_connectivity(Connectivity.ONLINE, Link.CELLULAR, metered=True)
    made.answer(Outcome.sent())
    made.queue.drain()
    assert made.queue.get(queued).status is Status.QUEUED
    made.queue.send_now(queued)
    made.queue.retry(failed)
    made.queue.advance(20)
    assert {made.queue.get(id).status for id in (queued, failed)} == {Status.SENT}


def test_B1_the_event_of_a_skipped_retry_says_that_it_was_skipped(host: Callable[..., Host]) -> None:
    made = host()
    id = made.failed(Outcome.reject(code=404, kind=FailureKind.NOT_FOUND))
    made.answer(Outcome.skipped())
    made.events.clear()
    made.queue.retry(id)
    made.queue.advance(20)
    message = made.queue.get(id)
    assert message.status is Status.FAILED
    assert message.failure is not None
    assert message.failure.kind is FailureKind.NOT_FOUND
    last = [event for event in made.events if event.kind is EventKind.STATUS][-1]
    assert last.failure is not None
    assert last.failure.kind is FailureKind.UNKNOWN
    assert last.failure.text == "the transport skipped the message"


def test_Q4_nobody_is_asked_about_what_a_drain_left_for_its_time(host: Callable[..., Host]) -> None:
    made = host(mode=Mode.ASK)
    made.queue.set_connectivity(Connectivity.OFFLINE)
    id = made.queue.enqueue("x", delay=50)
    made.queue.set_connectivity(Connectivity.ONLINE)
    made.queue.advance(5)
    assert made.queue.drain().stop is Stop.WAITING
    made.queue.advance(1000)
    assert made.queue.explain(id).code is Reason.PERSON
    assert EventKind.PROMPT not in [event.kind for event in made.events]
    # The next return of the connection asks.
    made.queue.set_connectivity(Connectivity.OFFLINE)
    made.queue.set_connectivity(Connectivity.ONLINE)
    made.queue.advance(5)
    assert EventKind.PROMPT in [event.kind for event in made.events]


@pytest.mark.parametrize(("kept", "late"), [(100, 5), (7200, 60)])
def test_H1_messages_are_pruned_by_age_within_a_twentieth_of_it(
    host: Callable[..., Host], kept: float, late: float
) -> None:
    made = host(keep_sent_for=kept)
    id = made.queue.enqueue("x")
    made.queue.drain()
    made.queue.advance(kept - 1)
    assert made.queue.get(id).status is Status.SENT
    made.queue.advance(1 + late + 1)
    with pytest.raises(NotFoundError):
        made.queue.get(id)


def test_M16_any_simulated_clock_is_right(host: Callable[..., Host]) -> None:
    made = host(start=datetime(2025, 1, 1, tzinfo=timezone.utc))
    id = made.queue.enqueue("x", expiry=timedelta(seconds=10))
    made.queue.advance(60)
    failure = made.queue.get(id).failure
    assert failure is not None
    assert failure.kind is FailureKind.EXPIRED
    assert made.queue.stats().failures[FailureKind.EXPIRED] == 1
    assert made.queue.stats().attempts == 0

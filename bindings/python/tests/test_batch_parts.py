"""B1, F9: a large batch begins in several commits, between which other calls run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msgqueue import (
    BatchOptions,
    ClosedError,
    Connectivity,
    Delivery,
    Draft,
    MessageQueue,
    Mode,
    Outcome,
    Result,
    Status,
)
from support import Events, wait_until

COUNT = 1_000
CONVERSATIONS = 10
OPTIONS = BatchOptions(max_messages=COUNT)


class Taker:
    """A batch transport that keeps the deliveries of each call."""

    def __init__(self, outcome: Callable[[], Outcome] = Outcome.sent) -> None:
        self.calls: list[list[Delivery]] = []
        self._outcome = outcome

    def __call__(self, deliveries: list[Delivery]) -> list[Outcome]:
        self.calls.append(deliveries)
        return [self._outcome() for _ in deliveries]


def expected() -> list[str]:
    """The ids in the order in which one call gets them: grouped by conversation."""
    return [f"m{number}" for first in range(CONVERSATIONS) for number in range(first, COUNT, CONVERSATIONS)]


def opened(store: Path, taker: Taker, **options: Any) -> MessageQueue:
    return MessageQueue(store, batch_transport=taker, batch_options=OPTIONS, mode=Mode.MANUAL, direct=False, **options)


def fill(queue: MessageQueue) -> None:
    queue.enqueue_batch(
        [Draft("hello", id=f"m{number}", conversation=f"c{number % CONVERSATIONS}") for number in range(COUNT)]
    )


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("polled", [False, True])
def test_B1_F9_a_batch_of_1000_is_one_call(store: Path, polled: bool, durable: bool) -> None:
    taker, events = Taker(), Events()
    with opened(store, taker, on_event=events, polled=polled, durable_outcomes=durable) as queue:
        fill(queue)
        assert queue.drain().sent == COUNT
        while polled and queue.poll(0):
            pass
        assert [[delivery.id for delivery in call] for call in taker.calls] == [expected()]
        assert all(delivery.attempt == 1 for delivery in taker.calls[0])
        assert (queue.counts().sent, queue.state().in_flight) == (COUNT, 0)
        wait_until(lambda: events.statuses("m999")[-1:] == [Status.SENT])
        for id in ("m0", "m255", "m256", "m999"):
            assert events.statuses(id) == [Status.QUEUED, Status.SENDING, Status.SENT]


def pause(queue: MessageQueue) -> Callable[[MessageQueue], None]:
    queue.pause()
    return MessageQueue.resume


def disconnect(queue: MessageQueue) -> Callable[[MessageQueue], None]:
    queue.set_connectivity(Connectivity.OFFLINE)
    return lambda queue: queue.set_connectivity(Connectivity.ONLINE)


def close(queue: MessageQueue) -> Callable[[MessageQueue], None]:
    queue.close()
    return lambda _: None


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("act", [pause, disconnect, close])
def test_B1_F9_what_comes_between_two_parts_prevents_the_call(
    tmp_path: Path, act: Callable[[MessageQueue], Callable[[MessageQueue], None]], durable: bool
) -> None:
    def interrupt(store: Path) -> bool:
        """Returns whether the act came between two parts of the batch."""
        taker = Taker()
        queue = opened(store, taker, durable_outcomes=durable)
        fill(queue)

        def drain() -> None:
            try:
                queue.drain()
            except ClosedError:
                assert act is close

        thread = threading.Thread(target=drain)
        thread.start()
        # Without a pause: all parts may begin within a millisecond.
        deadline = time.monotonic() + 30
        while not taker.calls and queue.state().in_flight == 0:
            assert time.monotonic() < deadline
        undo = act(queue)
        thread.join()
        if act is close:
            queue = opened(store, taker, durable_outcomes=durable)
        with queue:
            was_between = not taker.calls
            assert queue.state().in_flight == 0
            assert queue.counts().queued == (COUNT if was_between else 0)
            assert all(message.attempts == 0 for message in queue.list(limit=COUNT))  # those that are not sent
            undo(queue)
            queue.drain()
            assert [[delivery.id for delivery in call] for call in taker.calls] == [expected()]
            assert queue.counts().sent == COUNT
        return was_between

    assert any(interrupt(tmp_path / f"{number}.db") for number in range(50))


@pytest.mark.parametrize("durable", [False, True])
def test_B1_F9_outcomes_arrive_from_several_threads_in_any_order(store: Path, durable: bool) -> None:
    taker = Taker(Outcome.pending)
    with opened(store, taker, durable_outcomes=durable) as queue:
        fill(queue)
        thread = threading.Thread(target=queue.drain)
        thread.start()
        wait_until(lambda: taker.calls)
        tokens = [delivery.token for delivery in reversed(taker.calls[0])]
        results: list[Result] = []

        def answer(first: int) -> None:
            answers = [(token, Outcome.sent()) for token in tokens[first::4]]
            results.extend(queue.complete_batch(answers))
            assert set(queue.complete_batch(answers)) == {Result.CONFLICT}

        threads = [threading.Thread(target=answer, args=[first]) for first in range(4)]
        for each in threads:
            each.start()
        for each in [*threads, thread]:
            each.join()
        assert results == [Result.OK] * COUNT
        assert (queue.counts().sent, queue.state().in_flight, len(taker.calls)) == (COUNT, 0, 1)

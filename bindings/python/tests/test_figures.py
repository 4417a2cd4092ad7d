"""The figures that the replaced systems promised, each as the best of a few rounds, because other programs run here."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from conftest import Opener
from msgqueue import EventKind, Mode, NotFoundError, Outcome, Status
from support import Events

_ROUNDS = 5


def best(call: Callable[[], object]) -> float:
    """Returns the seconds of the fastest round."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def test_Q12_M3_a_hundred_enqueues_take_less_than_500_ms(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)

    def enqueue() -> None:
        for number in range(100):
            queue.enqueue(f"message {number}, written while offline", conversation="ana")

    assert best(enqueue) < 0.5
    assert queue.counts().queued == 100 * _ROUNDS


@pytest.mark.parametrize("count", [50, 100])
def test_Q11_R5_fifty_and_a_hundred_are_listed_in_less_than_100_ms(opened: Opener, count: int) -> None:
    queue = opened(transport=lambda _: Outcome.reject(), mode=Mode.MANUAL, direct=False)
    queue.enqueue_batch({"body": str(number), "conversation": str(number % 7)} for number in range(count))
    assert [message.text for message in queue.list(limit=100)] == [str(number) for number in range(count)]
    assert best(lambda: queue.list(limit=100)) < 0.1
    assert queue.drain().failed == count
    queue.close()
    queue = opened(mode=Mode.MANUAL)
    assert len(queue.list(status=Status.FAILED, limit=100)) == count
    assert best(lambda: queue.list(status=Status.FAILED, limit=100)) < 0.1


def test_Q6_R4_deleting_an_absent_message_is_not_found_and_changes_nothing(opened: Opener) -> None:
    events = Events()
    queue = opened(mode=Mode.MANUAL, direct=False, on_event=events)
    gone, kept = queue.enqueue("gone"), queue.enqueue("kept")
    queue.delete(gone)
    events.wait_for(EventKind.DELETED)
    before = queue.get(kept)
    for id in (gone, gone, "never"):
        with pytest.raises(NotFoundError):
            queue.delete(id)
    assert queue.list() == [before]
    assert queue.counts().queued == 1
    queue.close()
    assert len(events.all(EventKind.DELETED)) == 1
    queue = opened(mode=Mode.MANUAL)
    with pytest.raises(NotFoundError):
        queue.delete(gone)
    assert queue.list() == [before]

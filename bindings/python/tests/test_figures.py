"""The figures that the replaced systems promised."""

from __future__ import annotations

import pytest

from conftest import Opener
from msgqueue import EventKind, Mode, NotFoundError, Outcome, Status
from support import Events, rounds_until_within


def test_Q12_M3_a_hundred_enqueues_take_less_than_500_ms(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)

    def enqueue() -> None:
        for number in range(100):
            queue.enqueue(f"message {number}, written while offline", conversation="ana")

    rounds = rounds_until_within(0.5, enqueue)
    assert queue.counts().queued == 100 * rounds


@pytest.mark.parametrize("count", [50, 100])
def test_Q11_R5_fifty_and_a_hundred_are_listed_in_less_than_100_ms(opened: Opener, count: int) -> None:
    queue = opened(transport=lambda _: Outcome.reject(), mode=Mode.MANUAL, direct=False)
    queue.enqueue_batch({"body": str(number), "conversation": str(number % 7)} for number in range(count))
    assert [message.text for message in queue.list(limit=100)] == [str(number) for number in range(count)]
    rounds_until_within(0.1, lambda: queue.list(limit=100))
    assert queue.drain().failed == count
    queue.close()
    queue = opened(mode=Mode.MANUAL)
    assert len(queue.list(status=Status.FAILED, limit=100)) == count
    rounds_until_within(0.1, lambda: queue.list(status=Status.FAILED, limit=100))


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

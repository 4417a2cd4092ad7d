"""Events of large batches: each is heard, or the handler is told how many were lost."""

from __future__ import annotations

import threading

from conftest import Opener
from msgqueue import Event, EventKind, Mode
from support import wait_until


class Listener:
    """A handler that does not return before it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.queued: list[str | None] = []
        self.lost: list[int | None] = []

    def __call__(self, event: Event) -> None:
        self.entered.set()
        self.let_go.wait(60)
        if event.kind is EventKind.STATUS:
            self.queued.append(event.id)
        if event.kind is EventKind.RESYNC:
            self.lost.append(event.lost_events)


def test_Q1_each_body_of_a_large_batch_has_its_event(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    listener = Listener()
    queue.set_event_handler(listener)
    ids = [queue.enqueue("first")]
    assert listener.entered.wait(60)
    ids += queue.enqueue_bodies([b"x"] * 30_000, conversation="ana")
    listener.let_go.set()
    wait_until(lambda: len(listener.queued) == 30_001)
    assert listener.queued == ids
    assert listener.lost == []


def test_Q1_a_handler_is_told_how_many_events_were_lost(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    listener = Listener()
    queue.set_event_handler(listener)
    queue.enqueue("first")
    assert listener.entered.wait(60)
    queue.enqueue_batch({"body": "x", "conversation": str(number % 2)} for number in range(12_000))
    listener.let_go.set()
    wait_until(lambda: listener.lost and len(listener.queued) + sum(lost or 0 for lost in listener.lost) == 12_001)
    assert len(listener.lost) == 1

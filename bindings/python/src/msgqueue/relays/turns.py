"""Which calls of a relay may send at the same time, and which messages must be alone in their call."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ..models import Delivery

# The longest that the list of suspects becomes; then the oldest are forgotten.
_MOST_SUSPECTS = 10_000


class Turn:
    """A call that sends. `is_shared`: another one sent at the same time on the same connection."""

    def __init__(self, *, is_alone: bool) -> None:
        self.is_alone = is_alone
        self.is_shared = False


class Turns:
    """Calls take turns: any number of ordinary ones at a time, or one that must be alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[Turn] = []
        # Those that must be alone and wait. No other call begins before them.
        self._waiting = 0

    @property
    def is_busy(self) -> bool:
        """Whether a call sends, or waits to send alone."""
        return bool(self._running or self._waiting)

    def take(self, deadline: float, *, is_alone: bool) -> Turn | None:
        """Waits for a turn until this time (monotonic). None: it did not come."""
        turn = Turn(is_alone=is_alone)
        with self._changed:
            self._waiting += is_alone
            try:
                if not self._changed.wait_for(lambda: self._may_begin(turn), max(0.0, deadline - time.monotonic())):
                    return None
            finally:
                self._waiting -= is_alone
                if is_alone:
                    self._changed.notify_all()
            self._running.append(turn)
            if len(self._running) > 1:
                for each in self._running:
                    each.is_shared = True
        return turn

    def give_back(self, turn: Turn) -> None:
        """Ends a turn."""
        with self._changed:
            self._running.remove(turn)
            self._changed.notify_all()

    def _may_begin(self, turn: Turn) -> bool:
        if turn.is_alone:
            return not self._running
        return not self._waiting and not any(each.is_alone for each in self._running)


class Suspects:
    """Messages in a call of several that ended without an answer: one of them may be the reason.

    Each is alone in its next calls, until one of them is answered. So the message that is the reason fails for itself,
    and no other one fails with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._ids)

    def has(self, delivery: Delivery) -> bool:
        """Whether a message must be alone in its call."""
        return delivery.id in self._ids

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Notes messages whose call ended without an answer."""
        with self._lock:
            self._ids.update((each.id, None) for each in deliveries)
            while len(self._ids) > _MOST_SUSPECTS:
                del self._ids[next(iter(self._ids))]

    def clear(self, delivery: Delivery) -> None:
        """Notes that a message was answered."""
        with self._lock:
            self._ids.pop(delivery.id, None)

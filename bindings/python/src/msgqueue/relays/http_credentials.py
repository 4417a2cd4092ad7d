"""What follows from an answer 401: the credentials, which all messages of a relay have, are refused."""

from __future__ import annotations

import threading
import time
from enum import Enum

from ..enums import Verdict
from ..outcome import Outcome

UNAUTHORIZED = 401
# A server that refused the credentials is not asked again for so long (seconds).
_REFUSED_FOR = 1.0
# Seconds between two looks of a message that waits.
LOOK = 0.02


def is_unauthorized(outcome: Outcome) -> bool:
    """Whether the server answered 401."""
    return outcome.verdict is Verdict.HTTP and outcome.code == UNAUTHORIZED


class Turn(Enum):
    """How a message is sent."""

    FREE = 1
    #: The credentials were refused: this message finds out whether they still are.
    TRIAL = 2


class Credentials:
    """Whether the server accepts the credentials. While it refuses them, only one message at a time is sent."""

    def __init__(self, place: str, *, is_final: bool) -> None:
        """Makes it. `is_final`: the engine decides what an answer 401 means."""
        self.is_final = is_final
        # The same each time: the engine logs each change of it.
        self._refusal = Outcome.offline(text=f"{place} answered {UNAUTHORIZED}")
        self._lock = threading.Lock()
        self._is_refused = False
        self._is_tried = False
        # Monotonic.
        self._asks_again_at = 0.0

    def begin(self) -> Turn | Outcome | None:
        """Returns how a message may be sent now, or its outcome. None: it waits for another one, which finds out.

        The engine attempts each message that is the first of its conversation, also while the queue is held.
        """
        with self._lock:
            if not self._is_refused:
                return Turn.FREE
            if time.monotonic() < self._asks_again_at:
                return self._refusal
            if self._is_tried:
                return None
            self._is_tried = True
            return Turn.TRIAL

    def end(self, turn: Turn, outcome: Outcome | None) -> None:
        """Notes what became of a message; None: nothing is known."""
        with self._lock:
            if turn is Turn.TRIAL:
                self._is_tried = False
            if not self.is_final and outcome is not None and outcome.verdict is Verdict.HTTP:
                self._is_refused = is_unauthorized(outcome)
                self._asks_again_at = time.monotonic() + _REFUSED_FOR

    def judged(self, outcome: Outcome) -> Outcome:
        """Returns what an outcome means for its message: 401 is a fault of no message."""
        return self._refusal if is_unauthorized(outcome) and not self.is_final else outcome

"""The statistics of a queue."""

from __future__ import annotations

import math
from datetime import datetime

from . import _arguments
from ._values import Value, dataclass
from .enums import FailureKind
from .errors import InvalidError

LATENCY_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, math.inf)
"""The upper bounds of the latency classes, in seconds."""


@dataclass(frozen=True)
class Statistics(Value):
    """What a queue has done since it was opened."""

    opened: datetime
    sent_per_minute: int
    """In the last minute."""
    enqueued_per_minute: int
    """In the last minute."""
    enqueued: int
    attempts: int
    sent: int
    sent_bytes: int
    retried: int
    """Attempts that failed and will be made again."""
    failed: int
    """Messages that became failed."""
    discarded: int
    failures: dict[FailureKind, int]
    """Failed attempts, and messages that expired or were dropped, by every kind but NONE."""
    latencies: dict[float, int]
    """From enqueue to sent: messages in each class, by its upper bound in seconds; the last is `math.inf`."""
    latency_sum: float
    """Seconds."""
    latency_max: float
    """Seconds."""
    replaced: int
    """Queued messages that newer ones of the same `replace_key` replaced."""
    file_bytes: int
    """Size of the database file, without the log and reserved space."""
    free_bytes: int
    """Unused part of the file. New messages use it, and a queue that is idle for some seconds gives most of it back to
    the file system.
    """
    retryable: int = 0
    """Attempts that ended with a retryable failure, also when no retry was left."""
    rejected: int = 0
    """Attempts that ended with a final failure."""
    offline: int = 0
    """Attempts that ended as offline."""
    oldest_queued: datetime | None = None
    """When the first message that is queued or being sent was enqueued (or replaced an earlier one).

    None: there is none.
    """

    def latency(self, share: float) -> float | None:
        """Returns the seconds that a share of the messages did not exceed.

        Args:
            share: 0 to 1; 0.99: the 99th percentile.

        Returns:
            The upper bound of the class, or `latency_max` for the longest; None: none was sent.

        Raises:
            InvalidError: The share is out of range.
        """
        wanted = _arguments.finite("share", share)
        if not 0 <= wanted <= 1:
            raise InvalidError(f"share must be 0 to 1, got {wanted}")
        total = sum(self.latencies.values())
        if not total:
            return None
        reached = 0
        for bound, count in self.latencies.items():
            reached += count
            if reached >= wanted * total:
                return self.latency_max if math.isinf(bound) else bound
        return self.latency_max


@dataclass(frozen=True)
class Minute(Value):
    """What happened in one minute."""

    start: datetime
    """By the present wall clock."""
    enqueued: int
    sent: int
    failed_attempts: int
    """Without those that ended as offline."""
    failed: int
    """Messages that became failed."""

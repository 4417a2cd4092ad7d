"""The retry policy."""

from __future__ import annotations

from collections.abc import Sequence

from ._values import Value, dataclass
from .enums import Backoff, Exhausted
from .errors import InvalidError

_DEFAULT_RETRIES = 5
_DEFAULT_BASE = 5.0
_DEFAULT_FACTOR = 2.0
_DEFAULT_CAP = 3600.0


@dataclass(frozen=True)
class RetryPolicy(Value):
    """The delays between attempts after a retryable failure, and what happens when they are used up.

    RetryPolicy()                                   mode AUTO: 5 s, 30 s, 2 min; ASK and MANUAL: no retry
    RetryPolicy(ladder=[5, 30, 120])                one delay per retry, in seconds; [] means no retry
    RetryPolicy(base=1, factor=2, cap=60)           1 s, 2 s, 4 s … at most 1 min

    Ranges are checked when the queue is opened.

    Attributes:
        ladder: One delay per retry, in seconds: at most 64, each 0 s to 7 days.
        base: Seconds before the first retry, 0.001 s to 7 days; default 5 s.
        factor: The factor by which the delay grows with each retry, 1 to 100; default 2.
        cap: The longest delay in seconds, from `base` to 7 days; default 1 hour, or `base` if that is longer.
        max_retries: 0 to 1000; None: the length of the ladder, or 5. A shorter ladder ends earlier.
        jitter: Each delay is varied at random by plus or minus this share, 0 to 1, except one that a receiver asked
            for. Where many clients share a receiver, 0.2 or more keeps them from coming back together after an outage.
        exhausted: What happens to a message whose retries are used up.
    """

    ladder: Sequence[float] | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_retries: int | None = None
    jitter: float = 0.0
    exhausted: Exhausted = Exhausted.KEEP

    def __post_init__(self) -> None:
        """Refuses contradicting arguments, and copies the ladder."""
        if self.ladder is None:
            return
        if self._is_exponential:
            raise InvalidError("a retry policy must not have both a ladder and base, factor or cap")
        if isinstance(self.ladder, (str, bytes)):
            raise TypeError("ladder must be a sequence of seconds")
        object.__setattr__(self, "ladder", tuple(self.ladder))

    @property
    def backoff(self) -> Backoff:
        """How the delays are computed."""
        if self.ladder is not None:
            return Backoff.LADDER
        return Backoff.EXPONENTIAL if self._is_exponential else Backoff.AUTOMATIC

    @property
    def retries(self) -> int:
        """The maximum number of retries after the first attempt."""
        if self.max_retries is not None:
            return self.max_retries
        return _DEFAULT_RETRIES if self.ladder is None else len(self.ladder)

    @property
    def exponential(self) -> tuple[float, float, float]:
        """Base in seconds, factor, and cap in seconds, with defaults filled in."""
        base = _DEFAULT_BASE if self.base is None else self.base
        factor = _DEFAULT_FACTOR if self.factor is None else self.factor
        # A base above the default cap raises the cap: it was not given, so it cannot contradict.
        cap = max(_DEFAULT_CAP, base) if self.cap is None else self.cap
        return base, factor, cap

    @property
    def _is_exponential(self) -> bool:
        return any(value is not None for value in (self.base, self.factor, self.cap))

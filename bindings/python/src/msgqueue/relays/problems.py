"""What a relay found out about a failure: its classes say what the outcome is."""

from __future__ import annotations

from ..enums import FailureKind


class ProblemError(Exception):
    """A failure as a relay classified it. Its text says everything."""


class RejectedError(ProblemError, ValueError):
    """The broker never accepts this message: the outcome is final."""


class UnauthorizedError(ProblemError):
    """The user may not send this message: the outcome is final, and pauses a queue with `pause_on_unauthorized`."""


class UnreachableError(ProblemError):
    """There is no connection, and nothing was sent: the outcome is `Outcome.offline`."""


class UnavailableError(ProblemError):
    """The broker refuses messages for a reason that is in none of them, and has not stored this one.

    It is out of memory, or does not know the credentials, or has no stream. The outcome is `Outcome.offline`: the queue
    sends nothing for some seconds, and uses up no retry.
    """


class TogetherError(ProblemError):
    """The broker stored none of the messages of this call because of one of them, and did not say which.

    A message that was alone is rejected.
    """


class UnusableError(ProblemError):
    """The connection cannot be used any more, for a reason that is in no message. Perhaps the broker has this one.

    It is sent again, on another connection, at most twice. Then the outcome is a retry with kind NETWORK.
    """


class RetryableError(ProblemError):
    """A retryable failure."""

    def __init__(self, kind: FailureKind, text: str, *, not_sent: bool = False) -> None:
        """Makes it; `not_sent` says that the broker certainly does not have the message."""
        super().__init__(text)
        self.kind = kind
        self.not_sent = not_sent


class SkippedError(ProblemError):
    """An earlier message of the conversation failed, so this one was not tried."""

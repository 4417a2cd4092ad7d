"""What became of the messages of a call."""

from __future__ import annotations

from typing import NamedTuple

from ..enums import FailureKind, Verdict
from ..outcome import Outcome

# The broker said nothing about the message.
WITHOUT_ANSWER = (FailureKind.NETWORK, FailureKind.TIMEOUT, FailureKind.UNKNOWN)


class Result(NamedTuple):
    """What became of a message in a call."""

    outcome: Outcome
    #: The connection, or another message of the call or of one at the same time, may be the reason.
    is_unclear: bool = False
    #: The message did not cause it: nothing is sent at present.
    is_away: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether the broker has the message."""
        return self.outcome.verdict is Verdict.SENT

    @property
    def is_not_sent(self) -> bool:
        """Whether the broker certainly does not have the message."""
        return self.outcome.verdict in (Verdict.OFFLINE, Verdict.SKIPPED) or self.outcome.not_sent

    @property
    def is_answer(self) -> bool:
        """Whether the broker answered for the message."""
        is_answered = self.outcome.not_sent and self.outcome.verdict is Verdict.RETRY
        return is_answered or self.outcome.verdict in (Verdict.SENT, Verdict.REJECT)


NOT_TRIED = Result(Outcome.skipped())
SENT = Result(Outcome.sent())

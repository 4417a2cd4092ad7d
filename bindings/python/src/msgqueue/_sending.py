"""The calls that control sending: answers, pauses."""

from __future__ import annotations

from . import _arguments
from ._handle import Handle
from .enums import Verdict
from .errors import InvalidError
from .outcome import Outcome


class Sending:
    """The calls of `MessageQueue` that answer attempts and pause them."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def complete(self, token: int, outcome: Outcome) -> None:
        """Answers an attempt whose transport returned `Outcome.pending()`, also before it has returned.

        An `async def` transport seldom needs it: it can return the outcome itself when it has it.

        Args:
            token: The `token` of the delivery.
            outcome: The result of the attempt.

        Raises:
            NotFoundError: There is no such token.
            ConflictError: Answered already, or timed out: then only a late success of the latest attempt counts.
            InvalidError: `outcome` is pending.
        """
        number = _arguments.unsigned("token", token, bits=64)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"outcome must be Outcome, not {type(outcome).__name__}")
        if outcome.verdict is Verdict.PENDING:
            raise InvalidError("an attempt cannot be completed with pending")
        handle = self._handle
        handle.check(handle.lib.msgq_complete(handle.pointer, number, outcome._for_c()))

    def pause(self, conversation: str | None = None) -> None:
        """Starts no more attempts until `resume`, whoever asks. Attempts in flight end as usual.

        A pause ends with the process.

        Args:
            conversation: Only its messages; None: all.
        """
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_pause(self._handle.pointer, name))

    def resume(self, conversation: str | None = None) -> None:
        """Ends a pause of the same scope, or one that an unauthorized answer began.

        Args:
            conversation: As for `pause`.
        """
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_resume(self._handle.pointer, name))

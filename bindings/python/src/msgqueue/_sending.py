"""The calls that control sending: answers, pauses."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Iterable

from . import _arguments
from ._handle import Handle
from .enums import Result, Verdict
from .errors import InvalidError
from .outcome import Outcome, _array_for_c


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
            ConflictError: Answered already, or timed out: then only a late success of the latest attempt counts, unless
                the message was edited since.
            InvalidError: `outcome` is pending.
        """
        number, answer = _token(token), _final(outcome)
        handle = self._handle
        handle.check(handle.lib.msgq_complete(handle.pointer, number, answer._for_c()))

    def complete_batch(self, answers: Iterable[tuple[int, Outcome]]) -> builtins.list[Result]:
        """Answers several attempts, in this order, as `complete` does each, with fewer commits.

        Args:
            answers: The token of each attempt and its outcome.

        Returns:
            The result of each: OK, or NOT_FOUND or CONFLICT where `complete` raises the error of that name.

        Raises:
            InvalidError: An outcome is pending; nothing was answered.
        """
        tokens: builtins.list[int] = []
        outcomes: builtins.list[Outcome] = []
        for token, outcome in answers:
            tokens.append(_token(token))
            outcomes.append(_final(outcome))
        count = len(tokens)
        results = (ctypes.c_int * count)()
        handle = self._handle
        handle.check(
            handle.lib.msgq_complete_batch(
                handle.pointer, (ctypes.c_uint64 * count)(*tokens), _array_for_c(outcomes), count, results
            )
        )
        return [Result(result) for result in results]

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

    def withdraw_prompt(self) -> None:
        """Answers a prompt of mode ASK with no: what is queued stays queued, and EventKind.PROMPT_WITHDRAWN follows.

        Without a prompt it does nothing. The next prompt comes as after one that expired.
        """
        self._handle.check(self._handle.lib.msgq_withdraw_prompt(self._handle.pointer))


def _token(token: object) -> int:
    return _arguments.unsigned("token", token, bits=64)


def _final(outcome: object) -> Outcome:
    if not isinstance(outcome, Outcome):
        raise TypeError(f"outcome must be Outcome, not {type(outcome).__name__}")
    if outcome.verdict is Verdict.PENDING:
        raise InvalidError("an attempt cannot be completed with pending")
    return outcome

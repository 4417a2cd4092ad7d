"""The calls that record several messages and write several receipts."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Iterable, Mapping
from typing import Any

from . import _arguments, _drafts
from ._handle import Handle
from .enums import Result, Status
from .errors import InvalidError
from .models import RecordedDraft


class History:
    """The calls of `MessageQueue` for the history of conversations."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def record_batch(self, drafts: Iterable[RecordedDraft | Mapping[str, Any]]) -> builtins.list[Result]:
        """Adds up to 1,000,000 messages to the history, in this order and in one transaction.

        Those without a sender are one's own that were sent from another device: their status is sent, they are never
        unread, and `mark` moves them. The others are received ones, as for `record`.

        Args:
            drafts: RecordedDrafts, or dicts of the arguments of `record` with "body" among them.

        Returns:
            What became of each. OK: it is stored, or a recorded message of its id is there, which is left as it is.
            DUPLICATE: nothing of it is stored, because its id is that of a message that was enqueued here, or is
            remembered of one that is gone.

        Raises:
            Error: As `record` but DuplicateError; nothing was stored. The detail about one of several drafts begins
                with its index, from 0.
        """
        array, senders = _drafts.recorded(drafts)
        count = len(array)
        results = (ctypes.c_int * count)()
        handle = self._handle
        handle.check(handle.lib.msgq_record_batch(handle.pointer, array, senders, count, results))
        return [Result(result) for result in results]

    def mark_batch(self, ids: Iterable[str], status: Status) -> builtins.list[Result]:
        """Records one receipt for up to 1,000,000 messages, in one transaction.

        Args:
            ids: The messages.
            status: Status.DELIVERED or Status.READ.

        Returns:
            The result of each: OK, or NOT_FOUND, CONFLICT (not sent yet) or CORRUPT (damaged), where `mark` raises the
            error of that name.

        Raises:
            InvalidError: Another status, or an id is not valid; nothing was marked.
        """
        number = _arguments.member("status", status, Status)
        names = texts("ids", ids)
        count = len(names)
        results = (ctypes.c_int * count)()
        handle = self._handle
        handle.check(
            handle.lib.msgq_mark_batch(handle.pointer, (ctypes.c_char_p * count)(*names), count, number, results)
        )
        return [Result(result) for result in results]

    def mark_up_to(self, id: str, status: Status) -> int:
        """Records a receipt for a message and for those before it of its conversation, in the order of their `time`.

        For a received message these are the received ones, for one's own those that were sent or recorded. The others
        are left. It works in steps between which other calls run; after an error the oldest ones are marked: call it
        again.

        Args:
            id: The last message.
            status: Status.DELIVERED or Status.READ.

        Returns:
            How many changed their status.

        Raises:
            InvalidError: Another status.
            NotFoundError: There is no such message.
            ConflictError: It is not sent yet.
        """
        number = _arguments.member("status", status, Status)
        count = ctypes.c_uint64()
        handle = self._handle
        handle.check(handle.lib.msgq_mark_up_to(handle.pointer, _arguments.text("id", id), number, count))
        return count.value


def texts(name: str, given: Iterable[str]) -> builtins.list[bytes]:
    """Returns strings for C. An error names the one that is wrong by its index, from 0."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name} must be several, not one {type(given).__name__}")
    result: builtins.list[bytes] = []
    for index, text in enumerate(given):
        try:
            result.append(_arguments.text("id", text))
        except InvalidError as problem:
            raise InvalidError(f"id {index}: {problem.detail}") from None
        except TypeError as problem:
            raise TypeError(f"id {index}: {problem}") from None
    return result

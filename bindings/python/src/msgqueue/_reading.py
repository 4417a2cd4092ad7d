"""What a queue can be asked: the half of `MessageQueue` that changes nothing."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Callable, Iterable

from . import _abi, _arguments, _logs, _read
from ._handle import Handle
from ._library import last_error
from .enums import Result, Status
from .models import Attempt, Conversation, Counts, Explanation, Message, State
from .statistics import Statistics


class Reading:
    """The base of MessageQueue. What C gave is freed in every case, also when copying it fails."""

    _lib: ctypes.CDLL
    _handle: Handle

    # ---------------------------------------------------------------- one message

    def get(self, id: str) -> Message:
        """One message. Errors: NotFoundError, CorruptError."""
        found = ctypes.POINTER(_abi.Message)()
        self._check(self._lib.msgq_get(self._handle.pointer, _arguments.text("id", id), found))
        try:
            return _read.message(found[0])
        finally:
            self._lib.msgq_message_free(found)

    def attempts(self, id: str) -> builtins.list[Attempt]:
        """The ledger of one message: its attempts, oldest first, the last 1000. Errors: NotFoundError, CorruptError."""
        ledger = ctypes.c_void_p()
        self._check(self._lib.msgq_attempts(self._handle.pointer, _arguments.text("id", id), ledger))
        try:
            entry, size = self._lib.msgq_ledger_at, self._lib.msgq_ledger_size(ledger)
            return [_read.attempt(entry(ledger, index)[0]) for index in range(size)]
        finally:
            self._lib.msgq_ledger_free(ledger)

    def explain(self, id: str) -> Explanation:
        """The one reason why a message is not sent yet: what the engine would do next, never a guess.

        Errors: NotFoundError, CorruptError.
        """
        out: _abi.Explanation = _abi.sized(_abi.Explanation)
        self._check(self._lib.msgq_explain(self._handle.pointer, _arguments.text("id", id), out))
        return _read.explanation(out)

    # ---------------------------------------------------------------- many messages

    def list(
        self,
        conversation: str | None = None,
        status: Status | Iterable[Status] | None = None,
        limit: int = 50,
        after: int | None = None,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> builtins.list[Message]:
        """A page of messages in the order of sending.

        conversation  None: all.
        status        One status or several; None: queued, sending and failed. `status=Status` means every status.
        limit         1 to 1000.
        after         The `sequence` of the last page's last message; None: the first page.
        newest_first  The other way round.
        bodies        False: previews and sizes only, which is quicker; `Message.body` is None then.
        """
        wanted: _abi.Filter = _abi.sized(_abi.Filter)
        wanted.conversation = _arguments.optional_text("conversation", conversation)
        wanted.statuses = _arguments.status_bits(status)
        wanted.limit = _arguments.unsigned("limit", limit, least=1)
        wanted.after = 0 if after is None else _arguments.unsigned("after", after, bits=64)
        wanted.newest_first = _arguments.flag("newest_first", newest_first)
        wanted.without_bodies = not _arguments.flag("bodies", bodies)
        page = ctypes.c_void_p()
        self._check(self._lib.msgq_list(self._handle.pointer, wanted, page))
        try:
            entry, size = self._lib.msgq_list_at, self._lib.msgq_list_size(page)
            return [_read.message(entry(page, index)[0]) for index in range(size)]
        finally:
            self._lib.msgq_list_free(page)

    def counts(self, conversation: str | None = None) -> Counts:
        """Messages by status, of one conversation or (None) of all; as fast with a million as with one."""
        out: _abi.Counts = _abi.sized(_abi.Counts)
        name = _arguments.optional_text("conversation", conversation)
        self._check(self._lib.msgq_count(self._handle.pointer, name, out))
        return _read.counts(out)

    def conversations(self, before: int = 0, limit: int = 50) -> builtins.list[Conversation]:
        """A page of conversations, the one with the newest message first.

        before  The `last.sequence` of the last page's last conversation; 0: the first page.
        limit   1 to 1000.
        """
        behind = _arguments.unsigned("before", before, bits=64)
        most = _arguments.unsigned("limit", limit, least=1)
        page = ctypes.c_void_p()
        self._check(self._lib.msgq_conversations(self._handle.pointer, behind, most, page))
        try:
            entry, size = self._lib.msgq_conversations_at, self._lib.msgq_conversations_size(page)
            return [_read.conversation(entry(page, index)[0]) for index in range(size)]
        finally:
            self._lib.msgq_conversations_free(page)

    # ---------------------------------------------------------------- the queue as a whole

    def stats(self) -> Statistics:
        """What the queue has done since it was opened."""
        out: _abi.Statistics = _abi.sized(_abi.Statistics)
        self._check(self._lib.msgq_stats(self._handle.pointer, out))
        return _read.statistics(out)

    def prometheus(self) -> str:
        """The statistics and the counts, as Prometheus reads them (text format 0.0.4)."""
        return self._text(self._lib.msgq_stats_text)

    def state(self) -> State:
        """The state of the queue as the events before told it, and why nothing is being sent now.

        Looks at the first 64 queued messages at most: as fast with a million messages as with one hundred.
        """
        out: _abi.State = _abi.sized(_abi.State)
        self._check(self._lib.msgq_get_state(self._handle.pointer, out))
        return _read.state(out)

    def banner(self, conversation: str | None = None) -> str:
        """One line about the queue for a person, or about the messages of one conversation, as "You're offline. 5
        messages queued." or "Sending 3 messages…"; "" when there is nothing to say.
        """
        name = _arguments.optional_text("conversation", conversation)
        return self._text(lambda queue, out: self._lib.msgq_banner(queue, name, out))

    def _text(self, function: Callable[[int, ctypes.c_void_p], int]) -> str:
        out = ctypes.c_void_p()
        self._check(function(self._handle.pointer, out))
        try:
            return _read.owned_text(out)
        finally:
            self._lib.msgq_text_free(out)

    def _check(self, result: int) -> None:
        if result != Result.OK:
            error = last_error(self._lib, result)
            _logs.read(self._lib)
            raise error

"""The calls that read a queue and change nothing."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Callable, Iterable

from . import _abi, _arguments, _convert
from ._handle import Handle
from .enums import Status
from .models import Attempt, Conversation, Counts, Explanation, Message, State
from .statistics import Statistics


class Queries:
    """The reading calls of `MessageQueue`. What C gave is freed in every case, also when copying it fails."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # ---------------------------------------------------------------- one message

    def get(self, id: str) -> Message:
        """See `MessageQueue.get`."""
        handle = self._handle
        found = ctypes.POINTER(_abi.Message)()
        handle.check(handle.lib.msgq_get(handle.pointer, _arguments.text("id", id), found))
        try:
            return _convert.message(found[0])
        finally:
            handle.lib.msgq_message_free(found)

    def attempts(self, id: str) -> builtins.list[Attempt]:
        """See `MessageQueue.attempts`."""
        handle, lib = self._handle, self._handle.lib
        ledger = ctypes.c_void_p()
        handle.check(lib.msgq_attempts(handle.pointer, _arguments.text("id", id), ledger))
        try:
            entry, size = lib.msgq_ledger_at, lib.msgq_ledger_size(ledger)
            return [_convert.attempt(entry(ledger, index)[0]) for index in range(size)]
        finally:
            lib.msgq_ledger_free(ledger)

    def explain(self, id: str) -> Explanation:
        """See `MessageQueue.explain`."""
        handle = self._handle
        out: _abi.Explanation = _abi.sized(_abi.Explanation)
        handle.check(handle.lib.msgq_explain(handle.pointer, _arguments.text("id", id), out))
        return _convert.explanation(out)

    # ---------------------------------------------------------------- many messages

    def list(
        self,
        conversation: str | None,
        status: Status | Iterable[Status] | None,
        limit: int,
        after: int | None,
        newest_first: bool,
        bodies: bool,
    ) -> builtins.list[Message]:
        """See `MessageQueue.list`."""
        wanted: _abi.Filter = _abi.sized(_abi.Filter)
        wanted.conversation = _arguments.optional_text("conversation", conversation)
        wanted.statuses = _arguments.status_bits(status)
        wanted.limit = _arguments.unsigned("limit", limit, least=1)
        wanted.after = 0 if after is None else _arguments.unsigned("after", after, bits=64)
        wanted.newest_first = _arguments.flag("newest_first", newest_first)
        wanted.without_bodies = not _arguments.flag("bodies", bodies)
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(lib.msgq_list(handle.pointer, wanted, page))
        try:
            entry, size = lib.msgq_list_at, lib.msgq_list_size(page)
            return [_convert.message(entry(page, index)[0]) for index in range(size)]
        finally:
            lib.msgq_list_free(page)

    def counts(self, conversation: str | None) -> Counts:
        """See `MessageQueue.counts`."""
        out: _abi.Counts = _abi.sized(_abi.Counts)
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_count(self._handle.pointer, name, out))
        return _convert.counts(out)

    def conversations(self, before: int, limit: int) -> builtins.list[Conversation]:
        """See `MessageQueue.conversations`."""
        behind = _arguments.unsigned("before", before, bits=64)
        most = _arguments.unsigned("limit", limit, least=1)
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(lib.msgq_conversations(handle.pointer, behind, most, page))
        try:
            entry, size = lib.msgq_conversations_at, lib.msgq_conversations_size(page)
            return [_convert.conversation(entry(page, index)[0]) for index in range(size)]
        finally:
            lib.msgq_conversations_free(page)

    # ---------------------------------------------------------------- the queue as a whole

    def stats(self) -> Statistics:
        """See `MessageQueue.stats`."""
        out: _abi.Statistics = _abi.sized(_abi.Statistics)
        self._handle.check(self._handle.lib.msgq_stats(self._handle.pointer, out))
        return _convert.statistics(out)

    def prometheus(self) -> str:
        """See `MessageQueue.prometheus`."""
        return self._text(self._handle.lib.msgq_stats_text)

    def state(self) -> State:
        """See `MessageQueue.state`."""
        out: _abi.State = _abi.sized(_abi.State)
        self._handle.check(self._handle.lib.msgq_get_state(self._handle.pointer, out))
        return _convert.state(out)

    def banner(self, conversation: str | None) -> str:
        """See `MessageQueue.banner`."""
        name = _arguments.optional_text("conversation", conversation)
        return self._text(lambda queue, out: self._handle.lib.msgq_banner(queue, name, out))

    def _text(self, function: Callable[[int, ctypes.c_void_p], int]) -> str:
        out = ctypes.c_void_p()
        self._handle.check(function(self._handle.pointer, out))
        try:
            return _convert.owned_text(out)
        finally:
            self._handle.lib.msgq_text_free(out)

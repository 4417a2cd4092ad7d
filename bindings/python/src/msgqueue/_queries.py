"""The calls that read a queue and change nothing in it."""

from __future__ import annotations

import builtins
import ctypes
import os
from collections.abc import Callable, Iterable

from . import _abi, _arguments, _convert
from ._arguments import Time
from ._handle import Handle
from .enums import FailureKind, ListOrder, Reason, Status
from .models import Attempt, Conversation, Counts, Explanation, FailureGroup, Message, State, Waiting
from .statistics import Minute, Statistics


class Queries:
    """The calls of `MessageQueue` that read. What C returns is freed in every case, also when copying it fails."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # ---------------------------------------------------------------- one message

    def get(self, id: str) -> Message:
        """Returns one message.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        handle = self._handle
        found = ctypes.POINTER(_abi.Message)()
        handle.check(handle.lib.msgq_get(handle.pointer, _arguments.text("id", id), found))
        try:
            return _convert.message(found[0])
        finally:
            handle.lib.msgq_message_free(found)

    def attempts(self, id: str) -> builtins.list[Attempt]:
        """Returns the attempts of one message, oldest first.

        The first 4, the last 60, and the last one that a crash interrupted are kept; the numbers show how many are
        missing. Fewer are kept, with shorter texts, when the files are much larger than `limit_file_bytes`.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        handle, lib = self._handle, self._handle.lib
        ledger = ctypes.c_void_p()
        handle.check(lib.msgq_attempts(handle.pointer, _arguments.text("id", id), ledger))
        try:
            entry, size = lib.msgq_attempts_at, lib.msgq_attempts_size(ledger)
            return [_convert.attempt(entry(ledger, index)[0]) for index in range(size)]
        finally:
            lib.msgq_attempts_free(ledger)

    def explain(self, id: str) -> Explanation:
        """Returns the one reason why a message is not sent yet.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        handle = self._handle
        out: _abi.Explanation = _abi.sized(_abi.Explanation)
        handle.check(handle.lib.msgq_explain(handle.pointer, _arguments.text("id", id), out))
        return _convert.explanation(out)

    # ---------------------------------------------------------------- many messages

    def list(
        self,
        conversation: str | None = None,
        status: Status | Iterable[Status] | None = None,
        limit: int = 50,
        after: int | None = None,
        newest_first: bool = False,
        bodies: bool = True,
        order: ListOrder = ListOrder.SEQUENCE,
        after_time: Time | None = None,
        reasons: bool = False,
        kind: FailureKind | None = None,
        code: int | None = None,
        waiting_for: Reason | None = None,
    ) -> builtins.list[Message]:
        """Returns a page of messages, in the order of sending or by time.

        Args:
            conversation: Only its messages; None: all.
            status: One status or several; None: queued, sending and failed. `status=Status` means every status.
            limit: 1 to 1000.
            after: The `sequence` of the last message of the page before; None: the first page.
            newest_first: In the reverse order.
            bodies: False: previews and sizes only, which is faster; `Message.body` is None then.
            order: By `sequence`, the order of sending, or by `time`, then by `sequence`.
            after_time: With ListOrder.TIME: the `time` of the last message of the page before, beside `after`; without
                `after` the page begins at this time. None: the first page.
            reasons: Each message has its `explanation`, as `explain` returns it.
            kind: Only failed messages whose failure is of this kind, by `sequence`; None: of any.
            code: Only failed messages whose failure has this code, by `sequence`; 0: without a code; None: with any.
            waiting_for: Only queued messages that wait for this, as `waiting` counts them: PAUSED; or SCHEDULED or
                RETRYING, of all conversations, in the order of their next attempts. Then `after_time` is the
                `not_before` or `next_attempt` of the last message of the page before. None: any.
        """
        wanted: _abi.Filter = _abi.sized(_abi.Filter)
        wanted.conversation = _arguments.optional_text("conversation", conversation)
        wanted.statuses = _arguments.status_bits(status)
        wanted.limit = _arguments.unsigned("limit", limit, least=1, values="1 to 1000")
        wanted.after = 0 if after is None else _arguments.unsigned("after", after, bits=63)
        wanted.newest_first = _arguments.flag("newest_first", newest_first)
        wanted.without_bodies = not _arguments.flag("bodies", bodies)
        wanted.order = _arguments.member("order", order, ListOrder)
        wanted.after_time_ms = _arguments.moment("after_time", after_time)
        wanted.with_reasons = _arguments.flag("reasons", reasons)
        _arguments.failure(wanted, kind, code)
        if waiting_for is not None:
            reason = _arguments.member("waiting_for", waiting_for, Reason)
            wanted.waiting_for = ctypes.pointer(ctypes.c_int(reason))
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(lib.msgq_list(handle.pointer, wanted, page))
        try:
            entry, size = lib.msgq_list_at, lib.msgq_list_size(page)
            return [_convert.message(entry(page, index)[0]) for index in range(size)]
        finally:
            lib.msgq_list_free(page)

    def counts(self, conversation: str | None = None) -> Counts:
        """Returns the number of messages by status, as fast with a million as with one.

        Args:
            conversation: Only its messages; None: all.
        """
        out: _abi.Counts = _abi.sized(_abi.Counts)
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_count(self._handle.pointer, name, out))
        return _convert.counts(out)

    def waiting(self) -> Waiting:
        """Counts the queued messages by what they wait for.

        It takes longer with more messages that are scheduled or wait for a retry, and while conversations are paused
        reads these in steps, between which other calls run.
        """
        out: _abi.Waiting = _abi.sized(_abi.Waiting)
        self._handle.check(self._handle.lib.msgq_count_waiting(self._handle.pointer, out))
        return _convert.waiting(out)

    def failure_groups(self, limit: int = 50) -> builtins.list[FailureGroup]:
        """Returns the failed messages of all conversations by kind and code of failure, the largest groups first.

        As fast with a million messages as with one. `list`, `retry_all` and `clear_failed` take a kind and a code.

        Args:
            limit: 1 to 1000.
        """
        most = _arguments.unsigned("limit", limit, least=1, values="1 to 1000")
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(lib.msgq_failure_groups(handle.pointer, most, page))
        try:
            entry, size = lib.msgq_failure_groups_at, lib.msgq_failure_groups_size(page)
            return [_convert.failure_group(entry(page, index)[0]) for index in range(size)]
        finally:
            lib.msgq_failure_groups_free(page)

    def conversations(self, before: int = 0, limit: int = 50) -> builtins.list[Conversation]:
        """Returns a page of conversations, the one with the newest message first.

        Args:
            before: The `last.sequence` of the last conversation of the page before; 0: the first page.
            limit: 1 to 1000. Only the last page has fewer.
        """
        sequence = _arguments.unsigned("before", before, bits=63)
        most = _arguments.unsigned("limit", limit, least=1, values="1 to 1000")
        lib = self._handle.lib
        return self._conversations(lambda queue, page: lib.msgq_conversations(queue, sequence, most, page))

    def conversations_by_time(self, after: Message | None = None, limit: int = 50) -> builtins.list[Conversation]:
        """Returns a page of conversations in the order of their newest messages by time, the newest first.

        Args:
            after: The `last` of the last conversation of the page before; None: the first page.
            limit: 1 to 1000. Only the last page has fewer.
        """
        if after is not None and not isinstance(after, Message):
            raise TypeError(f"after must be a Message, not {type(after).__name__}")
        time, sequence = (0, 0) if after is None else (_arguments.moment("after.time", after.time), after.sequence)
        most = _arguments.unsigned("limit", limit, least=1, values="1 to 1000")
        lib = self._handle.lib
        return self._conversations(
            lambda queue, page: lib.msgq_conversations_by_time(queue, time, sequence, most, page)
        )

    def conversation(self, name: str) -> Conversation:
        """Returns one conversation.

        Args:
            name: The conversation.

        Raises:
            NotFoundError: It has no messages.
        """
        text = _arguments.text("name", name)
        lib = self._handle.lib
        (found,) = self._conversations(lambda queue, page: lib.msgq_get_conversation(queue, text, page))
        return found

    def _conversations(self, read: Callable[[int, ctypes.c_void_p], int]) -> builtins.list[Conversation]:
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(read(handle.pointer, page))
        try:
            entry, size = lib.msgq_conversations_at, lib.msgq_conversations_size(page)
            return [_convert.conversation(entry(page, index)[0]) for index in range(size)]
        finally:
            lib.msgq_conversations_free(page)

    # ---------------------------------------------------------------- the queue as a whole

    def stats(self) -> Statistics:
        """Returns what the queue has done since it was opened."""
        out: _abi.Statistics = _abi.sized(_abi.Statistics)
        self._handle.check(self._handle.lib.msgq_stats(self._handle.pointer, out))
        return _convert.statistics(out)

    def minutes(self) -> builtins.list[Minute]:
        """Returns the last hour: consecutive minutes, the oldest first, at most 60.

        They begin with the first one in which something happened in this process. The last one has not ended.
        """
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(lib.msgq_minutes(handle.pointer, page))
        try:
            entry, size = lib.msgq_minutes_at, lib.msgq_minutes_size(page)
            return [_convert.minute(entry(page, index)[0]) for index in range(size)]
        finally:
            lib.msgq_minutes_free(page)

    def prometheus(self) -> str:
        """Returns the statistics and the counts in the Prometheus text format 0.0.4.

        Each sample has the label `queue` with the path of the store. `msgqueue.prometheus` is for several queues.
        """
        return self._text(self._handle.lib.msgq_stats_text)

    def state(self) -> State:
        """Returns the state of the queue as the events before reported it, and why nothing is being sent now.

        Looks at the first 64 queued messages at most: as fast with a million messages as with one hundred.
        """
        out: _abi.State = _abi.sized(_abi.State)
        self._handle.check(self._handle.lib.msgq_get_state(self._handle.pointer, out))
        return _convert.state(out)

    def banner(self, conversation: str | None = None) -> str:
        """Returns one line about the queue for a person; "" when there is nothing to say.

        For example "You're offline. 5 messages queued." or "Sending 3 messages…".

        Args:
            conversation: About its messages only; None: about the queue.
        """
        name = _arguments.optional_text("conversation", conversation)
        return self._text(lambda queue, out: self._handle.lib.msgq_banner(queue, name, out))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a consistent copy of the store to a new file, while the queue is in use.

        Args:
            path: The new file.

        Raises:
            ConflictError: The file exists.
            MissingFileError: Its directory does not exist.
            PermissionDeniedError: The system, or the safety of the place, forbids it.
        """
        name = _arguments.path(path)
        self._handle.check(self._handle.lib.msgq_backup(self._handle.pointer, name), name)

    def _text(self, function: Callable[[int, ctypes.c_void_p], int]) -> str:
        out = ctypes.c_void_p()
        self._handle.check(function(self._handle.pointer, out))
        try:
            return _convert.owned_text(out)
        finally:
            self._handle.lib.msgq_text_free(out)

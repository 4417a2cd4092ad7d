"""The calls that add, change and remove messages."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi, _arguments, _drafts
from ._arguments import Body, Time
from ._handle import Handle
from .enums import Status
from .models import Draft


class Commands:
    """The calls of `MessageQueue` that change messages."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # ---------------------------------------------------------------- messages in

    def enqueue(
        self,
        body: Body,
        conversation: str,
        metadata: Mapping[str, str] | None,
        id: str | None,
        not_before: Time | None,
        expires_at: Time | None,
        unmetered_only: bool,
    ) -> str:
        """See `MessageQueue.enqueue`."""
        draft = _abi.Draft()
        _drafts.fill(draft, body, conversation, metadata, id, not_before, expires_at, unmetered_only)
        out = _abi.IdBuffer()
        self._handle.check(self._handle.lib.msgq_enqueue(self._handle.pointer, draft, out))
        return out.value.decode()

    def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> list[str]:
        """See `MessageQueue.enqueue_batch`."""
        array = _drafts.array(drafts)
        ids = (_abi.IdBuffer * len(array))()
        self._handle.check(self._handle.lib.msgq_enqueue_batch(self._handle.pointer, array, len(array), ids))
        return [entry.value.decode() for entry in ids]

    def record(
        self, body: Body, sender: str, conversation: str, metadata: Mapping[str, str] | None, id: str | None
    ) -> str:
        """See `MessageQueue.record`."""
        draft = _abi.Draft()
        _drafts.fill(draft, body, conversation, metadata, id, None, None, False)
        name = _arguments.text("sender", sender)
        out = _abi.IdBuffer()
        self._handle.check(self._handle.lib.msgq_record(self._handle.pointer, draft, name, out))
        return out.value.decode()

    # ---------------------------------------------------------------- one message

    def edit(self, id: str, body: Body) -> None:
        """See `MessageQueue.edit`."""
        data = _arguments.body(body)
        self._handle.check(self._handle.lib.msgq_edit(self._handle.pointer, _arguments.text("id", id), data, len(data)))

    def delete(self, id: str) -> None:
        """See `MessageQueue.delete`."""
        self._handle.check(self._handle.lib.msgq_delete(self._handle.pointer, _arguments.text("id", id)))

    def retry(self, id: str) -> None:
        """See `MessageQueue.retry`."""
        self._handle.check(self._handle.lib.msgq_retry(self._handle.pointer, _arguments.text("id", id)))

    def send_now(self, id: str) -> None:
        """See `MessageQueue.send_now`."""
        self._handle.check(self._handle.lib.msgq_send_now(self._handle.pointer, _arguments.text("id", id)))

    def mark(self, id: str, status: Status) -> None:
        """See `MessageQueue.mark`."""
        number = _arguments.member("status", status, Status)
        self._handle.check(self._handle.lib.msgq_mark(self._handle.pointer, _arguments.text("id", id), number))

    # ---------------------------------------------------------------- many messages

    def clear(self, conversation: str | None) -> None:
        """See `MessageQueue.clear`."""
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_clear(self._handle.pointer, name))

    def retry_all(self, conversation: str | None) -> int:
        """See `MessageQueue.retry_all`."""
        name = _arguments.optional_text("conversation", conversation)
        count = ctypes.c_uint64()
        self._handle.check(self._handle.lib.msgq_retry_all(self._handle.pointer, name, count))
        return count.value

    def pause(self, conversation: str | None) -> None:
        """See `MessageQueue.pause`."""
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_pause(self._handle.pointer, name))

    def resume(self, conversation: str | None) -> None:
        """See `MessageQueue.resume`."""
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_resume(self._handle.pointer, name))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """See `MessageQueue.backup`."""
        self._handle.check(self._handle.lib.msgq_backup(self._handle.pointer, _arguments.path(path)))

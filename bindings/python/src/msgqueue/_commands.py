"""The calls that add, change and remove messages."""

from __future__ import annotations

import builtins
import ctypes
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi, _arguments, _drafts
from ._arguments import ANY_EDIT, AnyEdit, Body, Duration, Time
from ._handle import Handle
from .enums import FailureKind, Status
from .models import Draft


class Commands:
    """The calls of `MessageQueue` that change messages."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # ---------------------------------------------------------------- adding messages

    def enqueue(
        self,
        body: Body,
        *,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
        not_before: Time | None = None,
        delay: Duration | None = None,
        expires_at: Time | None = None,
        unmetered_only: bool = False,
        replace_key: str | None = None,
        priority: int = 0,
        time: Time | None = None,
        expiry: Duration | None = None,
    ) -> str:
        """Stores one message as queued. When this returns, it survives power loss.

        Args:
            body: str (stored as UTF-8) or bytes.
            conversation: Messages are ordered within it: at most 255 bytes without control characters.
            metadata: str to str, without NUL: at most 1024 pairs.
            id: The idempotency key: 1 to 255 bytes without control characters. None: a new UUIDv7.
            not_before: Not sent before this time: seconds since 1970 UTC, or a datetime with a time zone.
            delay: In place of `not_before`: not sent before this much time from now has passed, in seconds or as a
                timedelta, at most 10 years. The time that results is the message's `not_before`. 0: none. Until the
                system is booted again it is measured by a clock that cannot be set.
            expires_at: From this time on it is not sent but failed with kind EXPIRED; later than `not_before`.
                None: as the option `expiry`.
            unmetered_only: Sent only while the link is not metered, or by `send_now` and `retry`.
            replace_key: Replaces a queued message of the same key in its conversation: the new message takes its place
                and its `sequence`, and has an id, times, metadata and retries of its own. The id of the old one is
                refused for `remember_ids`, and an event of kind REPLACED reports it. One that is being sent is left,
                and the new one stands behind it; one that failed is left as well. At most 255 bytes without control
                characters; None or "": none.
            priority: -100 to 100. Of conversations whose first messages may be sent, the one whose message has the
                highest priority is next; see the option `live_share`. The order within a conversation does not change.
            time: When the message was composed, or sent by its sender: seconds since 1970 UTC, or a datetime with a
                time zone, up to the year 9999, also in the future. None: now. Lists show messages with this time and
                can be in its order; the order of sending does not depend on it.
            expiry: In place of `expires_at`: how long the message may wait, from now or from its start, in seconds or
                as a timedelta, at most 10 years; measured as `delay` is. 0: as the option `expiry`.

        Returns:
            The id.

        Raises:
            InvalidError: An argument is out of range.
            DuplicateError: The id is in the queue already, or was sent or replaced recently.
            FullError: A limit on messages, bytes or file bytes is reached; see `on_full`.
            TooLargeError: The body or the metadata is over its limit.
            StorageError: The store refuses to write.
            UnknownError: Whether it is stored is not known; the same id may safely be enqueued again. After any other
                error nothing has changed.
        """
        draft = _abi.Draft()
        _drafts.fill(
            draft,
            body,
            conversation=conversation,
            metadata=metadata,
            id=id,
            not_before=not_before,
            delay=delay,
            expires_at=expires_at,
            unmetered_only=unmetered_only,
            replace_key=replace_key,
            priority=priority,
            time=time,
            expiry=expiry,
        )
        out = _abi.IdBuffer()
        self._handle.check(self._handle.lib.msgq_enqueue(self._handle.pointer, draft, out))
        return out.value.decode()

    def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[str]:
        """Stores up to 1,000,000 messages in this order, all or none.

        Args:
            drafts: Drafts, or dicts of the arguments of `enqueue` with "body" among them.

        Returns:
            The ids.

        Raises:
            Error: As `enqueue`; the detail about one of several drafts begins with its index, from 0.
        """
        return self.enqueue_array(_drafts.array(drafts))

    def enqueue_array(self, array: ctypes.Array[_abi.Draft]) -> builtins.list[str]:
        """Stores drafts for C as `enqueue_batch` does."""
        ids = (_abi.IdBuffer * len(array))()
        self._handle.check(self._handle.lib.msgq_enqueue_batch(self._handle.pointer, array, len(array), ids))
        return [entry.value.decode() for entry in ids]

    def enqueue_bodies(
        self,
        bodies: Iterable[Body],
        *,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        not_before: Time | None = None,
        delay: Duration | None = None,
        expires_at: Time | None = None,
        unmetered_only: bool = False,
        priority: int = 0,
        time: Time | None = None,
        expiry: Duration | None = None,
    ) -> builtins.list[str]:
        """Stores up to 1,000,000 messages that differ only in their bodies, in this order, all or none.

        Faster than `enqueue_batch`, most of all with bodies that are bytes.

        Args:
            bodies: As the body of `enqueue`.
            conversation: Of all messages, as for `enqueue`; so are the arguments that follow.
            metadata: As for `enqueue`.
            not_before: As for `enqueue`.
            delay: As for `enqueue`.
            expires_at: As for `enqueue`.
            unmetered_only: As for `enqueue`.
            priority: As for `enqueue`.
            time: As for `enqueue`.
            expiry: As for `enqueue`.

        Returns:
            The ids.

        Raises:
            Error: As `enqueue`; the detail about a body has its index, from 0.
        """
        draft = _abi.Draft()
        _drafts.fill(
            draft,
            b"",
            conversation=conversation,
            metadata=metadata,
            not_before=not_before,
            delay=delay,
            expires_at=expires_at,
            unmetered_only=unmetered_only,
            priority=priority,
            time=time,
            expiry=expiry,
        )
        given = _drafts.bodies(bodies)
        count = len(given)
        lengths = array("L", map(len, given))
        sizes = (ctypes.c_size_t * count).from_buffer(lengths)
        ids = (_abi.IdBuffer * count)()
        handle = self._handle
        # The joined bodies are released before the ids are read.
        handle.check(
            handle.lib.msgq_enqueue_bodies(handle.pointer, draft, b"".join(given), sum(lengths), sizes, count, ids),
        )
        return _drafts.made_ids(ids)

    def record(
        self,
        body: Body,
        *,
        sender: str,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
        time: Time | None = None,
    ) -> str:
        """Adds a message that was received from someone else to the history.

        Its status is delivered until `mark` says read, it has a place in the order, and it is never sent. A second
        call with the same id changes nothing.

        Args:
            body: As for `enqueue`.
            sender: Who wrote it: 1 to 255 bytes.
            conversation: As for `enqueue`.
            metadata: As for `enqueue`.
            id: As for `enqueue`.
            time: When its sender sent it, as for `enqueue`.

        Returns:
            The id.

        Raises:
            InvalidError: An argument is out of range.
            DuplicateError: The id is that of a message to send.
            FullError: The limit on file bytes is reached.
            TooLargeError: The body or the metadata is over its limit.
            StorageError: The store refuses to write.
            UnknownError: Whether it is stored is not known.
        """
        draft = _abi.Draft()
        _drafts.fill(draft, body, conversation=conversation, metadata=metadata, id=id, time=time)
        name = _arguments.text("sender", sender)
        out = _abi.IdBuffer()
        self._handle.check(self._handle.lib.msgq_record(self._handle.pointer, draft, name, out))
        return out.value.decode()

    def set_title(self, conversation: str, title: str) -> None:
        """Gives a conversation a title for people.

        It is kept while messages come and go, also when pruning removes the last one.

        Args:
            conversation: Its name.
            title: At most 255 bytes without control characters; "" removes it.

        Raises:
            NotFoundError: The conversation has no messages; not when the title is removed.
        """
        name = _arguments.text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_set_title(self._handle.pointer, name, _arguments.text("title", title)))

    # ---------------------------------------------------------------- one message

    def edit(
        self,
        id: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        if_edited: Time | AnyEdit | None = ANY_EDIT,
    ) -> None:
        """Replaces the body of a queued or failed message, which keeps its id and its place.

        An event of kind EDITED reports it.

        Args:
            id: The message.
            body: The new body, as for `enqueue`.
            metadata: The new metadata, in place of all of the old, as for `enqueue`; {} removes them. None: they stay.
            if_edited: `Message.edited` of the message as it was read, None if it was never edited. If it was edited
                since, ConflictError is raised, and nothing changes. By default that does not matter.

        Raises:
            InvalidError: An argument is out of range.
            NotFoundError: There is no such message.
            BusyError: It is being sent.
            ConflictError: It was sent already, or edited since.
            TooLargeError: The body or the metadata is over its limit.
            FullError: The limit on bytes or on file bytes is reached.
            CorruptError: It is damaged.
        """
        draft, last = _drafts.change(body, metadata), _arguments.last_edit("if_edited", if_edited)
        name = _arguments.text("id", id)
        self._handle.check(self._handle.lib.msgq_edit_message(self._handle.pointer, name, draft, last))

    def update(
        self,
        id: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        time: Time | None = None,
    ) -> None:
        """Changes a message that was received from someone else, after its sender changed it.

        It keeps its id, its place, its conversation and its status: a message that was read stays read. An event of
        kind EDITED reports it.

        Args:
            id: The message, which `record` added.
            body: The new body, as for `enqueue`.
            metadata: The new metadata, in place of all of the old, as for `enqueue`; {} removes them. None: they stay.
            time: When its sender sent it, as for `enqueue`. None: the time stays.

        Raises:
            InvalidError: An argument is out of range.
            NotFoundError: There is no such message.
            ConflictError: It is one's own message.
            TooLargeError: The body or the metadata is over its limit.
            FullError: The limit on file bytes is reached.
            CorruptError: It is damaged.
        """
        draft, name = _drafts.change(body, metadata, time), _arguments.text("id", id)
        self._handle.check(self._handle.lib.msgq_update(self._handle.pointer, name, draft))

    def delete(self, id: str) -> None:
        """Removes one message for good, whatever its status, also from disk.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            BusyError: It is being sent.
        """
        self._handle.check(self._handle.lib.msgq_delete(self._handle.pointer, _arguments.text("id", id)))

    def retry(self, id: str) -> None:
        """Tries a failed message again, now, under the same id, in its old place.

        Returns at once. An event reports the outcome: sent, or failed again, within `on_demand_timeout`.

        While offline the transport is not called: in the modes ASK and MANUAL the message stays failed, with a failure
        of kind OFFLINE and an event; in mode AUTO it is queued again, and sent when online. While paused it is queued
        again in every mode, and sent after `resume`: in mode AUTO in its turn, in the modes ASK and MANUAL by the next
        drain.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            ConflictError: It is not failed.
            BusyError: It is being sent, or was asked for already.
            NoTransportError: The queue has no transport.
        """
        self._handle.check(self._handle.lib.msgq_retry(self._handle.pointer, _arguments.text("id", id)))

    def send_now(self, id: str) -> None:
        """Sends one queued message now, whatever is before it.

        Returns at once. While offline the transport is not called: the message stays queued, with a failure of kind
        OFFLINE and an event.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            ConflictError: It is not queued, or sending is paused.
            BusyError: It is being sent, or was asked for already.
            NoTransportError: The queue has no transport.
        """
        self._handle.check(self._handle.lib.msgq_send_now(self._handle.pointer, _arguments.text("id", id)))

    def mark(self, id: str, status: Status) -> None:
        """Records a receipt. One that comes twice or late changes nothing.

        Args:
            id: The message.
            status: Status.DELIVERED or Status.READ.

        Raises:
            InvalidError: Another status.
            NotFoundError: There is no such message.
            ConflictError: It is not sent yet.
        """
        number = _arguments.member("status", status, Status)
        self._handle.check(self._handle.lib.msgq_mark(self._handle.pointer, _arguments.text("id", id), number))

    # ---------------------------------------------------------------- many messages

    def clear(self, conversation: str | None = None) -> None:
        """Removes the queued and failed messages that are stored now, in steps between which other calls run.

        A message that is being sent is removed when its attempt ends, unless that succeeds. None of the others is sent
        any more. Messages that are added meanwhile stay. After an error those not removed yet are as they were.

        Args:
            conversation: Only its messages; None: all.
        """
        name = _arguments.optional_text("conversation", conversation)
        self._handle.check(self._handle.lib.msgq_clear(self._handle.pointer, name))

    def delete_conversation(self, conversation: str) -> int:
        """Deletes every message of a conversation that is stored now, also the received ones.

        It deletes from the oldest on, in steps between which other calls run. Until it returns nothing of the
        conversation is sent. After an error the oldest ones are gone; call it again. Messages that are added meanwhile
        stay.

        Args:
            conversation: Its name.

        Returns:
            The number of messages deleted.

        Raises:
            BusyError: One of its messages is being sent; nothing was changed.
        """
        name = _arguments.text("conversation", conversation)
        count = ctypes.c_uint64()
        self._handle.check(self._handle.lib.msgq_delete_conversation(self._handle.pointer, name, count))
        return count.value

    def clear_failed(
        self, conversation: str | None = None, *, kind: FailureKind | None = None, code: int | None = None
    ) -> int:
        """Deletes failed messages, in steps between which other calls run.

        Args:
            conversation: Only its messages; None: all.
            kind: Only those whose failure is of this kind; None: of any.
            code: Only those whose failure has this code; 0: without a code; None: with any.

        Returns:
            The number of messages deleted.
        """
        wanted = _arguments.failed(conversation, kind, code)
        count = ctypes.c_uint64()
        self._handle.check(self._handle.lib.msgq_clear_failed_by(self._handle.pointer, wanted, count))
        return count.value

    def retry_all(
        self, conversation: str | None = None, *, kind: FailureKind | None = None, code: int | None = None
    ) -> int:
        """Puts failed messages back to queued, in their places and with all of their retries, and sends them.

        They are sent in any mode, without what was queued before. Returns without waiting for an attempt. While
        offline, in the modes ASK and MANUAL, nothing changes, and it returns 0.

        Each message is put back as a whole, but not all of them together: after an error those put back until then
        are queued, the others failed.

        Args:
            conversation: Only its messages; None: all.
            kind: Only those whose failure is of this kind; None: of any.
            code: Only those whose failure has this code; 0: without a code; None: with any.

        Returns:
            The number of messages put back.

        Raises:
            NoTransportError: The queue has no transport.
        """
        wanted = _arguments.failed(conversation, kind, code)
        count = ctypes.c_uint64()
        self._handle.check(self._handle.lib.msgq_retry_all_by(self._handle.pointer, wanted, count))
        return count.value

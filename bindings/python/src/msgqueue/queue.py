"""The message queue."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from . import _abi, _arguments, _drafts, _logs, _options, _read
from ._arguments import Body, Time
from ._callbacks import EventHandler, Transport, logger, raise_interruption
from ._handle import Handle
from ._library import library
from ._polling import Polling
from ._service import Service
from ._wiring import Wiring, require_callable
from ._world import World
from .enums import FinalFailure, Mode, Refused, Result, Status, Stop, Verdict
from .errors import Error, InvalidError, StorageError
from .models import Draft, Report
from .outcome import Outcome
from .retry import RetryPolicy

_MEBIBYTE = 1 << 20
_DAY = 86400.0


class MessageQueue(World, Polling):
    """A durable outbound message queue in one file.

    What `enqueue` accepted is on disk when it returns, and goes out in order, conversation by conversation, through
    `transport`. Failures are classified, retried as `retry` says, and kept as failed for a person to retry, edit or
    delete.

    Threads: every method may be called from any thread at any time, also from inside a callback, except `close`.
    Callbacks run on threads of this package, never two events at a time and never two messages of one conversation
    at a time; with `polled` there are no threads, and callbacks run in `poll` alone (and in `drain` and `close` when
    nobody polls). Methods that wait do so without the interpreter's lock, but a signal (Ctrl-C) is handled only when
    they return; `poll` is the exception.

    Errors: all are kinds of `Error`; every method may raise ClosedError, StorageError, and ForkedError in a forked
    child. A wrong type is a TypeError. Keep a reference to the queue: one that nobody holds is closed, with a
    ResourceWarning. (Its own callbacks hold it when they refer to it.) What is still open when the interpreter ends
    is closed then.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        transport: Transport | None = None,
        *,
        mode: Mode = Mode.AUTO,
        retry: RetryPolicy | None = None,
        on_event: EventHandler | None = None,
        final_failure: FinalFailure = FinalFailure.STEP_ASIDE,
        refused: Refused = Refused.KEEP,
        strict_order: bool = True,
        pause_on_unauthorized: bool = False,
        unmetered_only: bool = False,
        send_in_background: bool = False,
        direct: bool = True,
        hold_interrupted: bool = False,
        durable_outcomes: bool = False,
        conflict_is_sent: bool = False,
        read_only: bool = False,
        refuse_lost_tail: bool = False,
        max_in_flight: int = 1,
        attempt_timeout: float = 30.0,
        on_demand_timeout: float = 3.0,
        prompt_timeout: float = 10.0,
        online_debounce: float = 0.5,
        drain_batch: int = 0,
        trigger_interval: float | None = None,
        expiry: float | None = None,
        keep_sent: int | None = 10_000,
        keep_sent_for: float | None = 30 * _DAY,
        remember_ids: float = 7 * _DAY,
        limit_messages: int = 0,
        limit_bytes: int = 0,
        limit_body: int = _MEBIBYTE,
        limit_metadata: int = 64 * 1024,
        polled: bool = False,
    ) -> None:
        """Opens the store in the file `path`, or makes it; a missing directory is not made.

        transport        Sends one message and answers with an Outcome; see `set_transport`.
        mode             Who starts sending a backlog.
        retry            The delays after a failure; None is RetryPolicy().
        on_event         Is told what happens; see `set_event_handler`.
        final_failure    What a message that failed for good does to its conversation.
        refused          What becomes of a message that its receiver refuses for good: DISCARD deletes it with an event
                         and a line in the log, except after `retry`. What expired or is held is never discarded.
        strict_order     A message that waits for its retry holds its conversation; False: others pass it.
        pause_on_unauthorized  HTTP 401 and 403 (kind UNAUTHORIZED) pause the queue until `resume` instead of failing
                         message after message; the message stays queued and uses up no retry.
        unmetered_only   Nothing is sent while the link is metered.
        send_in_background
                         In the background (`set_lifecycle`) the engine still sends by itself.
        direct           A message enqueued while online, with nothing of its conversation before it, is sent at once.
        hold_interrupted After a crash in mid-attempt: False sends the message again under its id, True makes it failed
                         with kind UNKNOWN for a person to decide.
        durable_outcomes Outcomes survive a power cut, too, at one disk flush each; otherwise a message that was sent in
                         the last second before the cut may be sent twice, under the same id.
        conflict_is_sent HTTP 409 after an attempt that perhaps arrived counts as sent; False: it is retried, because it
                         may mean "a request with this key is still being processed".
        read_only        Opens a closed store, a backup, or a store on a full or read-only disk for reading only;
                         nothing is written or sent, and changes raise PermissionDeniedError.
        refuse_lost_tail Refuses a store whose log lost its end (CorruptError) instead of opening what is whole and
                         telling what is missing.
        max_in_flight    Attempts at one time, of different conversations: 1 to 64.
        attempt_timeout  Seconds until an attempt without an answer ends as a time-out: 0.001 to 1 day.
        on_demand_timeout
                         The same for `retry` and `send_now`.
        prompt_timeout   Seconds that a prompt of mode ASK stands: 0.001 to 1 day.
        online_debounce  Seconds that a connection must last before sending starts by itself, and before the delays of
                         messages that failed for want of a network end: 0 to 1 hour.
        drain_batch      Attempts started by one drain, and by the engine itself between two triggers; 0: all. Retries
                         that are due do not count.
        trigger_interval Seconds between triggers by the clock, 0.001 to 1 day; None: there are none.
        expiry           Seconds after which messages expire that do not say when, 0.001 to 10 years; None: never.
        keep_sent        Sent and recorded messages are kept as history, so many at most; None: no limit ...
        keep_sent_for    ... and so many seconds at most; None: no limit. What is queued or failed is always kept, and
                         so is what is recorded and not marked as read, which does not count against keep_sent.
        remember_ids     Seconds for which ids of messages that were sent and are gone are refused as duplicates.
        limit_messages   Unsent messages; 0: no limit. Over it: FullError.
        limit_bytes      Bytes of unsent bodies; 0: no limit. Over it: FullError.
        limit_body       Bytes of one body: 1 to 256 MiB. Over it: TooLargeError.
        limit_metadata   Bytes of one message's metadata: 0 to 16 MiB. Over it: TooLargeError.
        polled           No threads are started: callbacks run where `poll` is called; see there, and `fileno`.

        Errors: InvalidError, PermissionDeniedError (a directory, a link, another user's file, an unsafe place),
        LockedError, CorruptError (not a store), TooNewError, StorageError; LibraryError when there is no
        libmsgqueue.
        """
        options = _options.build(
            mode=mode,
            retry=RetryPolicy() if retry is None else retry,
            final_failure=final_failure,
            refused=refused,
            strict_order=strict_order,
            pause_on_unauthorized=pause_on_unauthorized,
            unmetered_only=unmetered_only,
            send_in_background=send_in_background,
            direct=direct,
            hold_interrupted=hold_interrupted,
            durable_outcomes=durable_outcomes,
            conflict_is_sent=conflict_is_sent,
            read_only=read_only,
            refuse_lost_tail=refuse_lost_tail,
            max_in_flight=max_in_flight,
            attempt_timeout=attempt_timeout,
            on_demand_timeout=on_demand_timeout,
            prompt_timeout=prompt_timeout,
            online_debounce=online_debounce,
            drain_batch=drain_batch,
            trigger_interval=trigger_interval,
            expiry=expiry,
            keep_sent=keep_sent,
            keep_sent_for=keep_sent_for,
            remember_ids=remember_ids,
            limit_messages=limit_messages,
            limit_bytes=limit_bytes,
            limit_body=limit_body,
            limit_metadata=limit_metadata,
        )
        name = _arguments.path(path)
        _arguments.flag("polled", polled)
        require_callable("transport", transport)
        require_callable("on_event", on_event)
        self._lib = library()
        _logs.begin(self._lib)
        pointer = ctypes.c_void_p()
        self._check(self._lib.msgq_open(name, options, pointer))
        self._path = name.decode()
        self._handle = Handle(self._lib, pointer.value or 0, self._path, max_in_flight, polled)
        self._finalizer = weakref.finalize(self, self._handle.abandon)
        # The interpreter's end has its own way, which waits a little for what is in flight.
        self._finalizer.atexit = False
        self._wiring = Wiring(self._lib, self._handle)
        try:
            # The handler first, so that it misses nothing that the transport does.
            if on_event is not None:
                self.set_event_handler(on_event)
            if transport is not None:
                self.set_transport(transport)
        except BaseException:
            self._finalizer.detach()
            self._handle.close_quietly()
            raise

    # ---------------------------------------------------------------- the queue itself

    @property
    def path(self) -> str:
        """The store's file, as it was given."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether the queue was closed, or is being closed: from then on every method raises ClosedError. In a forked
        child always True.
        """
        return self._handle.is_forked or self._handle.is_closed

    def close(self, timeout: float | None = 5.0) -> None:
        """Starts nothing more, waits at most `timeout` seconds (None: without end) for attempts in flight, tells the
        events that are left, closes the store, and ends the threads. A second call does nothing; one that comes while
        another thread closes waits for that.

        Errors: TimedOutError: closed all the same, but an attempt had not ended; after the next open its outcome is
        unknown. StorageError: closed all the same, but outcomes could not be saved; after the next open they are
        unknown. ConflictError: called from inside a callback.
        """
        try:
            self._handle.close(timeout)
            self._finalizer.detach()
        finally:
            raise_interruption()

    def __enter__(self) -> MessageQueue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._handle.is_forked:
            # A child leaves the block on its way out; the queue is its parent's to close.
            return
        try:
            self.close()
        except Error:
            if problem is None:
                raise
            # What went wrong first is what the caller must see.
            logger.warning("closing %s", self._path, exc_info=True)

    def __repr__(self) -> str:
        return f"<MessageQueue {self._path!r}{' closed' if self.closed else ''}>"

    # ---------------------------------------------------------------- messages in

    def enqueue(
        self,
        body: Body,
        *,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
        not_before: Time | None = None,
        expires_at: Time | None = None,
        unmetered_only: bool = False,
    ) -> str:
        """Stores one message as queued and returns its id; it then survives a power cut.

        body            str (stored as UTF-8) or bytes.
        conversation    What messages are ordered by; at most 255 bytes without control characters.
        metadata        str to str, without NUL; at most 1024 pairs.
        id              The idempotency key, 1 to 255 bytes without control characters; None: a new UUIDv7.
        not_before      Not sent before this moment: seconds since 1970 UTC, or a datetime with a time zone.
        expires_at      Past this moment it is not sent but failed with kind EXPIRED.
        unmetered_only  Sent only while the link is not metered.

        Errors: InvalidError, DuplicateError (still in the queue, or sent), FullError, TooLargeError, StorageError,
        UnknownError (the same id may safely be enqueued again). Nothing changed after any of them but the last.
        """
        draft = _abi.Draft()
        _drafts.fill(draft, body, conversation, metadata, id, not_before, expires_at, unmetered_only)
        out = _abi.IdBuffer()
        self._check(self._lib.msgq_enqueue(self._handle.pointer, draft, out))
        return out.value.decode()

    def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> list[str]:
        """Stores up to 1,000,000 messages in this order, all or none, and returns their ids.

        A draft is a Draft, or a dict of `enqueue`'s arguments with "body" among them. Errors: as `enqueue`.
        """
        array = _drafts.array(drafts)
        ids = (_abi.IdBuffer * len(array))()
        self._check(self._lib.msgq_enqueue_batch(self._handle.pointer, array, len(array), ids))
        return [entry.value.decode() for entry in ids]

    def record(
        self,
        body: Body,
        *,
        sender: str,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
    ) -> str:
        """Puts somebody else's message into the history, so that a conversation reads whole, and returns its id.

        It is delivered until `mark` says read, has a place in the order, and is never sent. A second time with the same
        id changes nothing. `sender` has 1 to 255 bytes; the other arguments are as `enqueue`'s.

        Errors: InvalidError, DuplicateError (the id is one of our own), TooLargeError, StorageError, UnknownError.
        """
        draft = _abi.Draft()
        _drafts.fill(draft, body, conversation, metadata, id, None, None, False)
        name = _arguments.text("sender", sender)
        out = _abi.IdBuffer()
        self._check(self._lib.msgq_record(self._handle.pointer, draft, name, out))
        return out.value.decode()

    # ---------------------------------------------------------------- one message

    def edit(self, id: str, body: Body) -> None:
        """Replaces the body of a queued or failed message, which keeps its id and its place.

        Errors: NotFoundError, BusyError (being sent), ConflictError (sent already), TooLargeError, FullError.
        """
        data = _arguments.body(body)
        self._check(self._lib.msgq_edit(self._handle.pointer, _arguments.text("id", id), data, len(data)))

    def delete(self, id: str) -> None:
        """Removes one message for good, whatever its status, from disk too.

        Errors: NotFoundError, BusyError (being sent).
        """
        self._check(self._lib.msgq_delete(self._handle.pointer, _arguments.text("id", id)))

    def retry(self, id: str) -> None:
        """Tries a failed message again, now, under the same id, in its old place. Returns at once; an event tells
        the outcome: sent, or failed again, within `on_demand_timeout`. While offline the transport is not called: in
        the modes ASK and MANUAL the message stays failed, with a failure of kind OFFLINE and an event; in mode AUTO it
        is queued again, and sent when online. While paused it is queued again in every mode, and sent after the resume:
        in mode AUTO in its turn, in the modes ASK and MANUAL by the next drain.

        Errors: NotFoundError, ConflictError (not failed), BusyError (being sent, or asked for already),
        NoTransportError, StorageError.
        """
        self._check(self._lib.msgq_retry(self._handle.pointer, _arguments.text("id", id)))

    def send_now(self, id: str) -> None:
        """Sends one queued message now, whatever stands before it. Returns at once. While offline the transport is not
        called: the message stays queued, with a failure of kind OFFLINE and an event.

        Errors: NotFoundError, ConflictError (not queued, or sending is paused), BusyError (being sent, or asked for
        already), NoTransportError, StorageError.
        """
        self._check(self._lib.msgq_send_now(self._handle.pointer, _arguments.text("id", id)))

    def mark(self, id: str, status: Status) -> None:
        """A receipt came: Status.DELIVERED or Status.READ. One that comes twice or late changes nothing.

        Errors: InvalidError (another status), NotFoundError, ConflictError (not sent yet).
        """
        number = _arguments.member("status", status, Status)
        self._check(self._lib.msgq_mark(self._handle.pointer, _arguments.text("id", id), number))

    # ---------------------------------------------------------------- many messages

    def clear(self, conversation: str | None = None) -> None:
        """Removes the queued and failed messages of one conversation or (None) of all. One that is being sent is
        removed when its attempt ends, unless that succeeds.
        """
        name = _arguments.optional_text("conversation", conversation)
        self._check(self._lib.msgq_clear(self._handle.pointer, name))

    def retry_all(self, conversation: str | None = None) -> int:
        """Puts all failed messages of one conversation or (None) of all back to queued, in their places and with all
        of their retries, and sends them, in any mode, without what was queued before. Returns their number at once,
        without waiting for an attempt. While offline, in the modes ASK and MANUAL, nothing changes, and it returns 0.

        Each message is put back as a whole, but not all of them together: after an error those put back until then
        are queued, the others failed.

        Errors: InvalidError, NoTransportError, StorageError.
        """
        name = _arguments.optional_text("conversation", conversation)
        count = ctypes.c_uint64()
        self._check(self._lib.msgq_retry_all(self._handle.pointer, name, count))
        return count.value

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a consistent copy of the store to the new file `path`, while the queue goes on.

        Errors: InvalidError, ConflictError (the file exists), PermissionDeniedError, StorageError.
        """
        self._check(self._lib.msgq_backup(self._handle.pointer, _arguments.path(path)))

    # ---------------------------------------------------------------- sending

    def drain(self, batch: int = 0, timeout: float | None = None, conversation: str | None = None) -> Report:
        """Sends what is due, in order, and returns when nothing is due any more; the events of it have been told then.

        Only one drain runs at a time. A second call that asks for the same, or for one conversation while all are
        drained, joins the first and gets the same report; any other begins its drain when the first has ended. From
        inside a callback it only starts one (Stop.STARTED). Do not hold a lock that a callback takes. On a polled queue
        the callbacks run in here when no other thread polls; one that runs in here is waited for.

        batch         Attempts at most, without due retries; 0: as the queue's option `drain_batch`.
        timeout       Seconds after which it returns what was done until then (Stop.TIMEOUT), also when it joined
                      another drain or an event handler does not return; the drain that it began starts no attempt
                      after that. None: without end.
        conversation  Only its messages are sent and counted; None: all.

        Errors: InvalidError, NoTransportError.
        """
        options = drain_options(batch, timeout, conversation)
        service = self._handle.service
        if service is not None and service.answers_here:
            # In a callback, as the library would see if it had called on this thread: waiting here for the drain that
            # waits for this very attempt would hold both until the time-out.
            return self._start_drain(service, options, conversation)
        out: _abi.Report = _abi.sized(_abi.Report)
        result = self._lib.msgq_drain(self._handle.pointer, options, out)
        raise_interruption()
        if result != Result.TIMEOUT:
            # The report says TIMEOUT, too; an exception would only take from the caller what was done until then.
            self._check(result)
        return _read.report(out)

    def complete(self, token: int, outcome: Outcome) -> None:
        """Answers an attempt whose transport returned `Outcome.pending()`; also before it has returned.

        Errors: NotFoundError (no such token), ConflictError (answered already, or timed out: only a late success of
        the latest attempt counts then), InvalidError (`outcome` is pending).
        """
        number = _arguments.unsigned("token", token, bits=64)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"outcome must be Outcome, not {type(outcome).__name__}")
        if outcome.verdict is Verdict.PENDING:
            raise InvalidError("an attempt cannot be completed with pending")
        answer = _abi.sized(_abi.Outcome)
        outcome._write(answer)
        self._check(self._lib.msgq_complete(self._handle.pointer, number, answer))

    def set_transport(self, transport: Transport | None) -> None:
        """Sets what sends messages; None takes it away. A call in progress goes on with the transport that it began
        with.

        It is called with a Delivery, on a thread of this package or in `poll`, and returns an Outcome within
        `delivery.timeout` seconds. An exception, or any other answer, counts as a failure of kind UNKNOWN with its
        text, is logged, and is retried.
        """
        self._wiring.set_transport(transport)

    def set_event_handler(self, handler: EventHandler | None) -> None:
        """Sets who is told of events; None takes it away. One event at a time, in the order in which things
        happened, each after it is on disk. What the handler raises is logged under "msgqueue".
        """
        self._wiring.set_event_handler(handler)

    def pause(self, conversation: str | None = None) -> None:
        """Starts nothing more, in one conversation or (None) at all, whoever asks, until `resume`. What is under way
        ends. Not kept over a restart.
        """
        name = _arguments.optional_text("conversation", conversation)
        self._check(self._lib.msgq_pause(self._handle.pointer, name))

    def resume(self, conversation: str | None = None) -> None:
        """Ends a pause of the same scope, or one that an unauthorized answer began."""
        name = _arguments.optional_text("conversation", conversation)
        self._check(self._lib.msgq_resume(self._handle.pointer, name))

    def _start_drain(self, service: Service, options: _abi.DrainOptions, conversation: str | None) -> Report:
        counts = self.counts(conversation)
        if not service.drain_later(options):
            raise StorageError("no thread is left to drain on")
        return Report(
            Stop.STARTED,
            sent=0,
            failed=0,
            discarded=0,
            remaining=counts.queued + counts.sending,
            remaining_failed=counts.failed,
        )


def drain_options(batch: object, timeout: object, conversation: object) -> _abi.DrainOptions:
    """The arguments of `MessageQueue.drain` for C."""
    options: _abi.DrainOptions = _abi.sized(
        _abi.DrainOptions,
        _arguments.unsigned("batch", batch),
        _arguments.timeout("timeout", timeout),
        _arguments.optional_text("conversation", conversation),
    )
    return options

"""The message queue."""

from __future__ import annotations

import ctypes
import os
import time
import weakref
from types import TracebackType
from typing import ClassVar, Final, NoReturn, SupportsIndex

from . import _abi, _arguments, _logs, _options
from ._callbacks import BatchTransport, EventHandler, Transport, logger, raise_interruption
from ._commands import Commands
from ._control import Control
from ._drains import Drains
from ._environment import Environment
from ._feed import Feed
from ._forward import forward
from ._handle import CLOSE_TIMEOUT, Handle, block_timeout, refuse_copy
from ._handovers import HandOvers
from ._history import History
from ._library import library, path_error
from ._polling import Polling
from ._queries import Queries
from ._registration import Registration, require_callable
from ._sending import Sending
from ._waits import Waits
from .enums import Callbacks, Connectivity, FinalFailure, Mode, OnFull, Refused, Result
from .errors import Error
from .models import BatchOptions
from .retry import RetryPolicy

_MEBIBYTE = 1 << 20
_DAY = 86400.0
# Milliseconds.
_LONGEST_WAIT = 86_400_000
_SIGNAL_INTERVAL = 200


class MessageQueue:
    """A durable outbound message queue in one file.

    A message is on disk when `enqueue` returns. It is sent in order, conversation by conversation, through `transport`.
    Failures are classified and retried as `retry` says; a message that fails for good is kept as failed for a person to
    retry, edit or delete.

    Threads: every method may be called from any thread at any time, also inside a callback, except `close`.
    Callbacks run on threads of this package: one event at a time, and one message of a conversation at a time. With
    `polled` there are no threads, and callbacks run in `poll` alone (and in `drain` and `close` when no thread polls).
    Methods that wait do so without the interpreter's lock. On the main thread, Ctrl-C ends `drain`, `close`, `poll`
    and the `wait` of an opening within half a second; other methods handle it when they return.

    Errors: all are kinds of `Error`. Every method may raise ClosedError, StorageError, and, in a forked child,
    ForkedError. An argument of the wrong type is a TypeError, one out of range an InvalidError.

    Lifetime: keep a reference to the queue. Without one it is closed, with a ResourceWarning. (Its own callbacks keep
    it alive when they refer to it.) Queues that are still open when the interpreter ends are closed then.
    """

    # With polled=True: a thread of the library does what is due at a time.
    _has_timer: ClassVar[bool] = False

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
        on_full: OnFull = OnFull.REFUSE,
        limit_file_bytes: int = 0,
        rate_per_second: float = 0.0,
        rate_burst: int = 0,
        ramp_up: float = 0.0,
        live_share: float = 0.5,
        soonest_expiry_first: bool = False,
        maintenance: bool = False,
        initial_connectivity: Connectivity = Connectivity.UNKNOWN,
        prompt_for_failed: bool = False,
        wait: float = 0.0,
        collect_interval: float | None = 5.0,
        keep_changes: int = 0,
        polled: bool = False,
        batch_transport: BatchTransport | None = None,
        batch_options: BatchOptions | None = None,
    ) -> None:
        """Opens the store in a file, or makes it.

        Args:
            path: The file. A missing directory is not made.
            transport: Sends one message and returns an Outcome; see `set_transport`.
            mode: Whether the engine or a person starts sending what is queued.
            retry: The delays after a failure; None: RetryPolicy().
            on_event: Receives the events; see `set_event_handler`.
            final_failure: What a message that failed for good does to its conversation.
            refused: What happens to a message that its receiver refuses for good. DISCARD deletes it with an event and
                a log line, except after `retry`. A message that expired or is held is never discarded.
            strict_order: A message that is queued for a retry blocks its conversation. False: others may overtake it.
            pause_on_unauthorized: HTTP 401 and 403 (kind UNAUTHORIZED) pause the queue until `resume`, instead of
                failing message after message. The message stays queued and uses up no retry.
            unmetered_only: Nothing is sent while the link is metered, except by `send_now` and `retry`.
            send_in_background: The engine also sends by itself in the background (`set_lifecycle`).
            direct: A message enqueued while online, with nothing of its conversation before it, is sent at once.
            hold_interrupted: After a crash during an attempt: False sends the message again under its id, True makes it
                failed with kind UNKNOWN for a person to decide. A crash uses up one retry; with False a message is
                failed, too, when a crash has used up more retries than `max_retries`, at least 2.
            durable_outcomes: Beginnings and outcomes of attempts survive power loss at once, at one disk flush each.
                False: a message that was sent in the last second before power loss may be sent twice, under the same
                id.
            conflict_is_sent: HTTP 409 after an attempt that may have arrived counts as sent. False: it is retried,
                because it may mean "a request with this key is still being processed".
            read_only: Opens a closed store, a backup, or a store on a full or read-only disk for reading only. Nothing
                is written or sent, and changes raise PermissionDeniedError.
            refuse_lost_tail: Refuses a store whose log lost its end (CorruptError). False: opens what is whole and
                reports what is missing.
            max_in_flight: Attempts at one time, of different conversations: 1 to 64.
            attempt_timeout: Seconds until an attempt without an answer ends as a time-out: 0.001 s to 1 day.
            on_demand_timeout: The same for `retry` and `send_now`: 0.001 s to 1 day.
            prompt_timeout: Seconds until a prompt of mode ASK expires: 0.001 s to 1 day.
            online_debounce: Seconds that a connection must last before sending starts by itself, and before the delays
                of messages that failed with kind OFFLINE or NETWORK end: 0 s to 1 hour.
            drain_batch: Attempts started by one drain, and by the engine itself between two triggers, at most
                2147483647. Retries that are due do not count. 0: all.
            trigger_interval: Seconds between periodic triggers: 0.001 s to 1 day. None: no periodic trigger.
            expiry: Seconds after which messages without an `expires_at` of their own expire: 0.001 s to 10 years.
                None: never.
            keep_sent: Sent and recorded messages that are kept as history, at most. None: no limit. The oldest by
                their `time` are removed, within about a second; meanwhile there may be a tenth more, or the messages
                of one batch.
            keep_sent_for: Seconds for which they are kept, and up to a twentieth of it more, at most a minute. None: no
                limit. Queued and failed messages are always kept. Recorded messages that are not marked as read are
                also kept and do not count.
            remember_ids: Seconds for which the ids of messages that were sent or recorded and are gone, and of replaced
                ones (`replace_key`), are refused as duplicates. 0: not at all.
            limit_messages: Unsent messages; over it: FullError, or as `on_full` says. 0: no limit.
            limit_bytes: Bytes of unsent bodies; over it: FullError, or as `on_full` says. 0: no limit.
            limit_body: Bytes of one body: 1 byte to 256 MiB. Over it: TooLargeError.
            limit_metadata: Bytes of one message's metadata: 0 to 16 MiB. Over it: TooLargeError.
            on_full: What `enqueue` does when `limit_messages`, `limit_bytes` or `limit_file_bytes` would be exceeded.
                DROP_OLDEST deletes the oldest queued messages, each with an event and in the log.
            limit_file_bytes: Bytes of the database file and its log; over it: FullError, or as `on_full` says. Free
                pages inside the file are used again and do not count. Outcomes and deletions are always written; of
                attempts less is kept when the files are larger by more than 512 KiB (see `attempts`). The
                log takes a part of it, 0.5 MiB at least. With less than about 0.6 MiB every message is refused. 0: no
                limit.
            rate_per_second: Attempts of every kind that begin in a second, at most 1,000,000, also a fraction. In any T
                seconds at most rate_per_second * T + rate_burst begin; the first one 1 / rate_per_second seconds after
                opening. 0: no limit.
            rate_burst: Attempts that may begin at once, after a time with fewer. 0: 1. A batch has at most so many
                messages: for a batch transport set it to the size of a batch.
            ramp_up: Needs a rate. After an outage attempts in flight and rate begin at 1 and 1 per second, grow with
                each success, and reach their full values when sending has gone on for this many seconds at the
                earliest: 0 s to 1 day. Time-outs, HTTP 429 and 503 halve them. 0: off.
            live_share: While a backlog is sent, this share of the attempts goes to messages enqueued since sending
                began: 0 to 1. 0: they wait for the whole backlog. 1: the backlog waits while there are any. Each
                attempt goes to the first message of one conversation: of the part that live_share gives it, the one
                with the highest priority, then (with soonest_expiry_first) the soonest expiry, then the oldest; one
                of 8 attempts of each part goes to its oldest message instead. A backlog is what was queued when
                sending began: at the launch, when a transport was set, online, after `resume`, in the foreground, with
                a `drain`, at the end of a wait (`Outcome.offline`, `retry_after_queue`), with a trigger after
                `drain_batch` was used up, and with the first success after three or more retryable failures in a row.
            soonest_expiry_first: Of messages with equal priority, those that expire are sent first, the soonest
                expiry first.
            maintenance: For a tool that changes a store while the program that owns it does not run. The file must
                exist. Nothing is pruned, forgotten, expired by time or discarded, and only `drain` and `send_now` send:
                mode, direct, keep_sent, keep_sent_for, remember_ids, expiry, refused, on_full and what `retry` says of
                used-up retries have no effect. `retry` and `retry_all` put messages back to `queued` in their places,
                durably, also without a transport, and send nothing. An expired message fails when a drain reaches it.
            initial_connectivity: What counts until connectivity is reported for the first time, by `set_connectivity`
                or the monitor. UNKNOWN counts as online. OFFLINE: the queue begins offline, so that it raises no
                prompt and calls no transport before the report, and the first report of ONLINE counts as a return of
                the connection. If there is no report within 60 s, one line of the log says so.
            prompt_for_failed: The prompt of mode ASK asks about failed messages, too: "Connected. Auto-send 5 queued
                and 2 failed messages?", also when only failed ones are there. The yes to it is
                `drain(include_failed=True)`; a plain `drain` sends the queued ones only.
            wait: Seconds to wait while another owner has the store open, in another process or in this one, before
                LockedError: 0 s to 1 day. For a program that is started while the one before it still closes. Of
                several that wait any one may be the next. 0 is 0.1 s for another process. Ctrl-C ends the wait.
            collect_interval: Seconds between events of kind COLLECT, which ask to take over what waits in places of the
                program, such as an outbox: 0.001 s to 1 day; None: no such events. They begin with the first
                `handed_over`.
            keep_changes: The most changes of messages that are kept for `changes`, the latest ones; 0: none. Each takes
                10 to 30 bytes beside the id of its message, and the conversation where it is not that of the change
                before it; of `limit_file_bytes` at most a quarter. When there is no room for them the oldest go, so
                that the limit is no reason to refuse an outcome for them. For a full disk 256 bytes are reserved for
                the changes of each unsent message; while it stays full the oldest go as well, and outcomes for whose
                changes there is no room are stored without them, so that earlier tokens raise ConflictError. A store
                that is changed with 0 begins anew with its next changes; only `maintenance` goes on as the program that
                owns the store has begun.
            polled: No threads are started, except by `start_control`. Callbacks run where `poll` is called, and what is
                due at a time is done there; see there, and `fileno`. A program that does not poll while the queue is
                readable gives up what is due meanwhile: outcomes are not safe from a power loss within a second (unless
                durable_outcomes), and while its only thread is inside a transport no attempt times out.
            batch_transport: Sends several messages in one call; see `set_batch_transport`. Not together with transport.
            batch_options: The limits of its batches; None: BatchOptions().

        Raises:
            InvalidError: An option is out of range.
            MissingFileError: The directory does not exist; or with `read_only` or `maintenance` the file. Also an
                InvalidError and a FileNotFoundError.
            PermissionDeniedError: The path is a directory, a link, another user's file, or in an unsafe place.
            LockedError: Another owner has the store open, and had it for `wait` seconds.
            CorruptError: The file is not a store, or is damaged.
            TooNewError: A later version wrote the store.
            StorageError: The disk is full or fails.
            LibraryError: libmsgqueue was not found.
        """
        options = _options.build(locals())
        if polled and not self._has_timer:
            options.callbacks = Callbacks.POLL
        name = _arguments.path(path)
        _arguments.flag("polled", polled)
        require_callable("transport", transport)
        require_callable("on_event", on_event)
        require_callable("batch_transport", batch_transport)
        if transport is not None and batch_transport is not None:
            raise TypeError("transport and batch_transport exclude each other")
        lib = library()
        _logs.begin(lib)
        pointer = ctypes.c_void_p()
        result = self._open_when_unlocked(lib, name, options, pointer)
        if result != Result.OK:
            error = path_error(lib, result, name)
            _logs.read(lib)
            raise error
        self._path = name.decode()
        self._longest_attempt = _options.longest_attempt(options)
        handle = self._handle = Handle(lib, pointer.value or 0, self._path, max_in_flight, polled)
        self._finalizer = weakref.finalize(self, handle.abandon)
        # At the end of the interpreter _handle._close_all closes it, which waits for attempts in flight.
        self._finalizer.atexit = False
        self._commands = Commands(handle)
        self._history = History(handle)
        self._handovers = HandOvers(handle)
        self._queries = Queries(handle)
        self._drains = Drains(handle, self._queries)
        self._sending = Sending(handle)
        self._waits = Waits(handle, self._commands)
        self._environment = Environment(handle)
        self._control = Control(handle, self._path)
        self._polling = Polling(handle)
        self._registration = Registration(handle)
        self._feed = Feed(handle, self._registration, read_only)
        try:
            # The handler first, so that it receives every event of the first attempt.
            if on_event is not None:
                self.set_event_handler(on_event)
            if transport is not None:
                self.set_transport(transport)
            if batch_transport is not None:
                self.set_batch_transport(batch_transport, batch_options)
        except BaseException:
            self._finalizer.detach()
            handle.close_quietly()
            raise

    # ---------------------------------------------------------------- opening and closing

    def _open_when_unlocked(
        self, lib: ctypes.CDLL, name: bytes, options: _abi.Options, pointer: ctypes.c_void_p
    ) -> int:
        """Calls `_open`, and waits for the lock in short calls, between which Python handles signals."""
        left: int = options.wait_ms
        # The library refuses a longer wait.
        if left > _LONGEST_WAIT:
            return self._open(lib, name, options, pointer)
        end = time.monotonic_ns() // 1_000_000 + left
        while True:
            options.wait_ms = max(0, min(left, _SIGNAL_INTERVAL))
            result = self._open(lib, name, options, pointer)
            left = end - time.monotonic_ns() // 1_000_000
            if result != Result.LOCKED or left <= 0 or self._is_cancelled():
                return result

    def _is_cancelled(self) -> bool:
        """Whether nobody waits for the opening any more."""
        return False

    def _open(self, lib: ctypes.CDLL, name: bytes, options: _abi.Options, pointer: ctypes.c_void_p) -> int:
        """Calls the library's function that opens a queue."""
        result: int = lib.msgq_open(name, options, pointer)
        return result

    @property
    def path(self) -> str:
        """The store's file, as it was given."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether the queue was closed, or is being closed; then every method raises ClosedError.

        Always True in a forked child.
        """
        return self._handle.is_forked or self._handle.is_closed

    def close(self, timeout: float | None = CLOSE_TIMEOUT) -> None:
        """Closes the queue and its store, and ends its threads.

        Starts no attempt, waits for attempts in flight, and delivers the events that are left. A second call does
        nothing; one that comes while another thread closes waits for that. Ctrl-C ends the wait, and the queue is
        closed all the same.

        Args:
            timeout: Seconds to wait for attempts in flight; None: without end. A `with` block waits as long as an
                attempt may take (`attempt_timeout`, `on_demand_timeout`) and 5 s more; 5 s when it ends by
                KeyboardInterrupt or SystemExit.

        Raises:
            TimedOutError: The queue is closed, but an attempt had not ended; its outcome is unknown after the next
                open.
            StorageError: The queue is closed, but outcomes could not be saved; they are unknown after the next open.
            UnknownError: The queue is closed, but its files were removed, replaced or modified while it was open, and
                accepted messages may be lost.
            ConflictError: Called inside a callback.
        """
        try:
            self._handle.close_interruptibly(timeout)
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
            # A forked child that leaves the block must not close its parent's queue.
            return
        try:
            self.close(block_timeout(problem, self._longest_attempt))
        except Error:
            if problem is None:
                raise
            # The first exception is the one that the caller must see.
            logger.warning("closing %s", self._path, exc_info=True)

    def __reduce_ex__(self, _: SupportsIndex) -> NoReturn:
        refuse_copy(self)

    def __repr__(self) -> str:
        return f"<MessageQueue {self._path!r}{' closed' if self.closed else ''}>"

    # Methods of the parts. `Final` tells type checkers that the inferred type is the declared one.

    # ---------------------------------------------------------------- adding messages

    enqueue: Final = forward("_commands", Commands.enqueue)
    enqueue_batch: Final = forward("_commands", Commands.enqueue_batch)
    enqueue_bodies: Final = forward("_commands", Commands.enqueue_bodies)
    record: Final = forward("_commands", Commands.record)
    record_batch: Final = forward("_history", History.record_batch)
    handed_over: Final = forward("_handovers", HandOvers.handed_over)
    take_over: Final = forward("_handovers", HandOvers.take_over)
    hand_over_done: Final = forward("_handovers", HandOvers.hand_over_done)
    hand_over_forget: Final = forward("_handovers", HandOvers.hand_over_forget)
    request_collect: Final = forward("_handovers", HandOvers.request_collect)

    # ---------------------------------------------------------------- one message

    get: Final = forward("_queries", Queries.get)
    attempts: Final = forward("_queries", Queries.attempts)
    explain: Final = forward("_queries", Queries.explain)
    edit: Final = forward("_commands", Commands.edit)
    update: Final = forward("_commands", Commands.update)
    delete: Final = forward("_commands", Commands.delete)
    retry: Final = forward("_commands", Commands.retry)
    send_now: Final = forward("_commands", Commands.send_now)
    mark: Final = forward("_commands", Commands.mark)
    wait: Final = forward("_waits", Waits.wait)
    send: Final = forward("_waits", Waits.send)

    # ---------------------------------------------------------------- many messages

    list: Final = forward("_queries", Queries.list)
    counts: Final = forward("_queries", Queries.counts)
    waiting: Final = forward("_queries", Queries.waiting)
    failure_groups: Final = forward("_queries", Queries.failure_groups)
    changes: Final = forward("_feed", Feed.changes)
    follow_changes: Final = forward("_feed", Feed.follow_changes)
    conversations: Final = forward("_queries", Queries.conversations)
    conversations_by_time: Final = forward("_queries", Queries.conversations_by_time)
    set_title: Final = forward("_commands", Commands.set_title)
    mark_batch: Final = forward("_history", History.mark_batch)
    mark_up_to: Final = forward("_history", History.mark_up_to)
    clear: Final = forward("_commands", Commands.clear)
    delete_conversation: Final = forward("_commands", Commands.delete_conversation)
    clear_failed: Final = forward("_commands", Commands.clear_failed)
    retry_all: Final = forward("_commands", Commands.retry_all)

    # ---------------------------------------------------------------- the queue as a whole

    stats: Final = forward("_queries", Queries.stats)
    minutes: Final = forward("_queries", Queries.minutes)
    conversation: Final = forward("_queries", Queries.conversation)
    prometheus: Final = forward("_queries", Queries.prometheus)
    state: Final = forward("_queries", Queries.state)
    banner: Final = forward("_queries", Queries.banner)
    backup: Final = forward("_queries", Queries.backup)

    # ---------------------------------------------------------------- sending

    set_transport: Final = forward("_registration", Registration.set_transport)
    set_batch_transport: Final = forward("_registration", Registration.set_batch_transport)
    set_event_handler: Final = forward("_registration", Registration.set_event_handler)
    drain: Final = forward("_drains", Drains.drain)
    complete: Final = forward("_sending", Sending.complete)
    complete_batch: Final = forward("_sending", Sending.complete_batch)
    pause: Final = forward("_sending", Sending.pause)
    resume: Final = forward("_sending", Sending.resume)
    withdraw_prompt: Final = forward("_sending", Sending.withdraw_prompt)

    # ---------------------------------------------------------------- environment

    set_connectivity: Final = forward("_environment", Environment.set_connectivity)
    start_monitor: Final = forward("_environment", Environment.start_monitor)
    stop_monitor: Final = forward("_environment", Environment.stop_monitor)
    set_lifecycle: Final = forward("_environment", Environment.set_lifecycle)
    start_control: Final = forward("_control", Control.start_control)
    stop_control: Final = forward("_control", Control.stop_control)
    console: Final = forward("_control", Control.console)

    # ---------------------------------------------------------------- polling

    poll: Final = forward("_polling", Polling.poll)
    fileno: Final = forward("_polling", Polling.fileno)

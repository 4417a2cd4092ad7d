"""The message queue."""

from __future__ import annotations

import builtins
import ctypes
import os
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from . import _arguments, _logs, _options
from ._arguments import Body, Time
from ._callbacks import EventHandler, Transport, logger, raise_interruption
from ._commands import Commands
from ._drains import Drains
from ._environment import Environment
from ._handle import Handle
from ._library import last_error, library
from ._polling import Polling
from ._queries import Queries
from ._registration import Registration, require_callable
from .enums import Connectivity, FinalFailure, Lifecycle, Link, Mode, Refused, Result, Status, Verdict
from .errors import Error, InvalidError
from .models import Attempt, Conversation, Counts, Draft, Explanation, Message, Report, State
from .outcome import Outcome
from .retry import RetryPolicy
from .statistics import Statistics

_MEBIBYTE = 1 << 20
_DAY = 86400.0
_CLOSE_PATIENCE = 5.0


class MessageQueue:
    """A durable outbound message queue in one file.

    What `enqueue` accepted is on disk when it returns. It is sent in order, conversation by conversation, through
    `transport`. Failures are classified and retried as `retry` says; what fails for good is kept as failed for a
    person to retry, edit or delete.

    Threads: every method may be called from any thread at any time, also from inside a callback, except `close`.
    Callbacks run on threads of this package: one event at a time, and one message of a conversation at a time. With
    `polled` there are no threads, and callbacks run in `poll` alone (and in `drain` and `close` when nobody polls).
    Methods that wait do so without the interpreter's lock. On the main thread, Ctrl-C ends `drain`, `close` and `poll`
    within half a second; other methods handle it when they return.

    Errors: all are kinds of `Error`. Every method may raise ClosedError, StorageError, and, in a forked child,
    ForkedError. An argument of the wrong type is a TypeError, one out of range an InvalidError.

    Lifetime: keep a reference to the queue. One that nobody holds is closed, with a ResourceWarning. (Its own callbacks
    hold it when they refer to it.) What is still open when the interpreter ends is closed then.
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
        """Opens the store in a file, or makes it.

        Args:
            path: The file. A missing directory is not made.
            transport: Sends one message and returns an Outcome; see `set_transport`.
            mode: Who starts sending a backlog.
            retry: The delays after a failure; None: RetryPolicy().
            on_event: Receives the events; see `set_event_handler`.
            final_failure: What a message that failed for good does to its conversation.
            refused: What happens to a message that its receiver refuses for good. DISCARD deletes it with an event and
                a log line, except after `retry`. A message that expired or is held is never discarded.
            strict_order: A message that waits for its retry blocks its conversation. False: others may overtake it.
            pause_on_unauthorized: HTTP 401 and 403 (kind UNAUTHORIZED) pause the queue until `resume`, instead of
                failing message after message. The message stays queued and uses up no retry.
            unmetered_only: Nothing is sent while the link is metered.
            send_in_background: The engine also sends by itself in the background (`set_lifecycle`).
            direct: A message enqueued while online, with nothing of its conversation before it, is sent at once.
            hold_interrupted: After a crash during an attempt: False sends the message again under its id, True makes it
                failed with kind UNKNOWN for a person to decide.
            durable_outcomes: Outcomes also survive power loss, at one disk flush each. False: a message that was sent
                in the last second before power loss may be sent twice, under the same id.
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
            drain_batch: Attempts started by one drain, and by the engine itself between two triggers. Retries that are
                due do not count. 0: all.
            trigger_interval: Seconds between periodic triggers: 0.001 s to 1 day. None: no periodic trigger.
            expiry: Seconds after which messages without an `expires_at` of their own expire: 0.001 s to 10 years.
                None: never.
            keep_sent: Sent and recorded messages that are kept as history, at most. None: no limit.
            keep_sent_for: Seconds for which they are kept, at most. None: no limit. Queued and failed messages are
                always kept. Recorded messages that are not marked as read are also kept and do not count.
            remember_ids: Seconds for which the ids of messages that were sent and are gone are refused as duplicates.
                0: not at all.
            limit_messages: Unsent messages; over it: FullError. 0: no limit.
            limit_bytes: Bytes of unsent bodies; over it: FullError. 0: no limit.
            limit_body: Bytes of one body: 1 byte to 256 MiB. Over it: TooLargeError.
            limit_metadata: Bytes of one message's metadata: 0 to 16 MiB. Over it: TooLargeError.
            polled: No threads are started. Callbacks run where `poll` is called; see there, and `fileno`.

        Raises:
            InvalidError: An option is out of range.
            PermissionDeniedError: The path is a directory, a link, another user's file, or in an unsafe place.
            LockedError: Another owner has the store open.
            CorruptError: The file is not a store, or is damaged.
            TooNewError: A later version wrote the store.
            StorageError: The disk is full or fails.
            LibraryError: libmsgqueue was not found.
        """
        options = _options.build(locals())
        name = _arguments.path(path)
        _arguments.flag("polled", polled)
        require_callable("transport", transport)
        require_callable("on_event", on_event)
        lib = library()
        _logs.begin(lib)
        pointer = ctypes.c_void_p()
        result = lib.msgq_open(name, options, pointer)
        if result != Result.OK:
            error = last_error(lib, result)
            _logs.read(lib)
            raise error
        self._path = name.decode()
        self._longest_attempt = _options.longest_attempt(options)
        handle = self._handle = Handle(lib, pointer.value or 0, self._path, max_in_flight, polled)
        self._finalizer = weakref.finalize(self, handle.abandon)
        # The interpreter's end has its own way, which waits a little for what is in flight.
        self._finalizer.atexit = False
        self._commands = Commands(handle)
        self._queries = Queries(handle)
        self._drains = Drains(handle, self._queries)
        self._environment = Environment(handle)
        self._polling = Polling(handle)
        self._registration = Registration(handle)
        try:
            # The handler first, so that it misses nothing that the transport does.
            if on_event is not None:
                self.set_event_handler(on_event)
            if transport is not None:
                self.set_transport(transport)
        except BaseException:
            self._finalizer.detach()
            handle.close_quietly()
            raise

    # ---------------------------------------------------------------- the queue itself

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

    def close(self, timeout: float | None = _CLOSE_PATIENCE) -> None:
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
            ConflictError: Called from inside a callback.
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
            # A child leaves the block on its way out; the queue is its parent's to close.
            return
        try:
            self.close(block_patience(problem, self._longest_attempt))
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
        """Stores one message as queued. When this returns, it survives power loss.

        Args:
            body: str (stored as UTF-8) or bytes.
            conversation: What messages are ordered by: at most 255 bytes without control characters.
            metadata: str to str, without NUL: at most 1024 pairs.
            id: The idempotency key: 1 to 255 bytes without control characters. None: a new UUIDv7.
            not_before: Not sent before this time: seconds since 1970 UTC, or a datetime with a time zone.
            expires_at: After this time it is not sent but failed with kind EXPIRED. None: as the option `expiry`.
            unmetered_only: Sent only while the link is not metered.

        Returns:
            The id.

        Raises:
            InvalidError: An argument is out of range.
            DuplicateError: The id is in the queue already, or was sent lately.
            FullError: A limit on messages or bytes is reached.
            TooLargeError: The body or the metadata is over its limit.
            StorageError: The store refuses to write.
            UnknownError: Stored or not is not known; the same id may safely be enqueued again. After any other error
                nothing has changed.
        """
        return self._commands.enqueue(body, conversation, metadata, id, not_before, expires_at, unmetered_only)

    def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[str]:
        """Stores up to 1,000,000 messages in this order, all or none.

        Args:
            drafts: Drafts, or dicts of the arguments of `enqueue` with "body" among them.

        Returns:
            The ids.

        Raises:
            Error: As `enqueue`; the detail names the draft by its place, from 0.
        """
        return self._commands.enqueue_batch(drafts)

    def record(
        self,
        body: Body,
        *,
        sender: str,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
    ) -> str:
        """Adds a message of somebody else to the history.

        It is delivered until `mark` says read, has a place in the order, and is never sent. A second call with the same
        id changes nothing.

        Args:
            body: As for `enqueue`.
            sender: Who wrote it: 1 to 255 bytes.
            conversation: As for `enqueue`.
            metadata: As for `enqueue`.
            id: As for `enqueue`.

        Returns:
            The id.

        Raises:
            InvalidError: An argument is out of range.
            DuplicateError: The id belongs to a message of this queue's own.
            TooLargeError: The body or the metadata is over its limit.
            StorageError: The store refuses to write.
            UnknownError: Stored or not is not known.
        """
        return self._commands.record(body, sender, conversation, metadata, id)

    # ---------------------------------------------------------------- one message

    def get(self, id: str) -> Message:
        """Returns one message.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        return self._queries.get(id)

    def attempts(self, id: str) -> builtins.list[Attempt]:
        """Returns the attempts of one message, oldest first, the last 1000.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        return self._queries.attempts(id)

    def explain(self, id: str) -> Explanation:
        """Returns the one reason why a message is not sent yet.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        return self._queries.explain(id)

    def edit(self, id: str, body: Body) -> None:
        """Replaces the body of a queued or failed message, which keeps its id and its place.

        Args:
            id: The message.
            body: The new body, as for `enqueue`.

        Raises:
            NotFoundError: There is no such message.
            BusyError: It is being sent.
            ConflictError: It was sent already.
            TooLargeError: The body is over its limit.
            FullError: The limit on bytes is reached.
        """
        self._commands.edit(id, body)

    def delete(self, id: str) -> None:
        """Removes one message for good, whatever its status, also from disk.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            BusyError: It is being sent.
        """
        self._commands.delete(id)

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
        self._commands.retry(id)

    def send_now(self, id: str) -> None:
        """Sends one queued message now, whatever stands before it.

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
        self._commands.send_now(id)

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
        self._commands.mark(id, status)

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
        """Returns a page of messages in the order of sending.

        Args:
            conversation: Only its messages; None: all.
            status: One status or several; None: queued, sending and failed. `status=Status` means every status.
            limit: 1 to 1000.
            after: The `sequence` of the last message of the page before; None: the first page.
            newest_first: The other way round.
            bodies: False: previews and sizes only, which is quicker; `Message.body` is None then.
        """
        return self._queries.list(conversation, status, limit, after, newest_first, bodies)

    def counts(self, conversation: str | None = None) -> Counts:
        """Returns the number of messages by status, as fast with a million as with one.

        Args:
            conversation: Only its messages; None: all.
        """
        return self._queries.counts(conversation)

    def conversations(self, before: int = 0, limit: int = 50) -> builtins.list[Conversation]:
        """Returns a page of conversations, the one with the newest message first.

        Args:
            before: The `last.sequence` of the last conversation of the page before; 0: the first page.
            limit: 1 to 1000.
        """
        return self._queries.conversations(before, limit)

    def clear(self, conversation: str | None = None) -> None:
        """Removes queued and failed messages.

        A message that is being sent is removed when its attempt ends, unless that succeeds. On a full disk, after
        StorageError, some of them may be gone.

        Args:
            conversation: Only its messages; None: all.
        """
        self._commands.clear(conversation)

    def retry_all(self, conversation: str | None = None) -> int:
        """Puts failed messages back to queued, in their places and with all of their retries, and sends them.

        They are sent in any mode, without what was queued before. Returns without waiting for an attempt. While
        offline, in the modes ASK and MANUAL, nothing changes, and it returns 0.

        Each message is put back as a whole, but not all of them together: after an error those put back until then
        are queued, the others failed.

        Args:
            conversation: Only its messages; None: all.

        Returns:
            The number of messages put back.

        Raises:
            NoTransportError: The queue has no transport.
        """
        return self._commands.retry_all(conversation)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a consistent copy of the store to a new file; the queue goes on meanwhile.

        Args:
            path: The new file.

        Raises:
            ConflictError: The file exists.
            PermissionDeniedError: The system, or the safety of the place, forbids it.
        """
        self._commands.backup(path)

    # ---------------------------------------------------------------- the queue as a whole

    def stats(self) -> Statistics:
        """Returns what the queue has done since it was opened."""
        return self._queries.stats()

    def prometheus(self) -> str:
        """Returns the statistics and the counts in the Prometheus text format 0.0.4."""
        return self._queries.prometheus()

    def state(self) -> State:
        """Returns the state of the queue as the events before reported it, and why nothing is being sent now.

        Looks at the first 64 queued messages at most: as fast with a million messages as with one hundred.
        """
        return self._queries.state()

    def banner(self, conversation: str | None = None) -> str:
        """Returns one line about the queue for a person; "" when there is nothing to say.

        For example "You're offline. 5 messages queued." or "Sending 3 messages…".

        Args:
            conversation: About its messages only; None: about the queue.
        """
        return self._queries.banner(conversation)

    # ---------------------------------------------------------------- sending

    def drain(self, batch: int = 0, timeout: float | None = None, conversation: str | None = None) -> Report:
        """Sends what is due, in order, and returns when nothing is due any more.

        The events of the drain have been delivered when it returns. Only one drain runs at a time. A second call that
        asks for the same, or for one conversation while all are drained, joins the first and gets the same report; any
        other begins its drain when the first has ended. From inside a callback it only starts one (Stop.STARTED). Do
        not hold a lock that a callback takes.

        On a polled queue the callbacks run in here when no other thread polls; one that runs in here is waited for.

        On the main thread Ctrl-C ends the call by KeyboardInterrupt within half a second. Nothing is lost: attempts in
        flight end by themselves, and the drain goes on until it is done or the queue is paused or closed. On a polled
        queue it goes on in the next `poll`.

        Args:
            batch: Attempts at most, without due retries; 0: as the option `drain_batch`.
            timeout: Seconds after which it returns what was done until then (Stop.TIMEOUT), also when it joined another
                drain or an event handler does not return. The drain that it began starts no attempt after that. None:
                without end.
            conversation: Only its messages are sent and counted; None: all.

        Returns:
            What was done, and why the drain stopped.

        Raises:
            InvalidError: An argument is out of range.
            NoTransportError: The queue has no transport.
        """
        return self._drains.run(batch, timeout, conversation)

    def complete(self, token: int, outcome: Outcome) -> None:
        """Answers an attempt whose transport returned `Outcome.pending()`, also before it has returned.

        Args:
            token: The `token` of the delivery.
            outcome: How the attempt went.

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

    def set_transport(self, transport: Transport | None) -> None:
        """Sets the function that sends messages. A call in progress goes on with the one that it began with.

        It is called with a Delivery, on a thread of this package or in `poll`, and returns an Outcome within
        `delivery.timeout` seconds. An exception is a failure: time-outs and network errors of the standard library,
        `requests` and `httpx` have their kind, responses of `urllib.error.HTTPError` and `raise_for_status` count as
        responses, any other exception and any other answer is of kind UNKNOWN. It is logged in one line, with the
        traceback at level DEBUG, and the message is retried as after any failure.

        Args:
            transport: The function; None takes it away.

        Raises:
            PermissionDeniedError: The queue was opened with `read_only`.
        """
        self._registration.set_transport(transport)

    def set_event_handler(self, handler: EventHandler | None) -> None:
        """Sets the function that receives events.

        It gets one event at a time, in the order in which things happened, each after it is on disk. An exception that
        it raises is logged under "msgqueue".

        Args:
            handler: The function; None takes it away.
        """
        self._registration.set_event_handler(handler)

    def pause(self, conversation: str | None = None) -> None:
        """Starts no more attempts until `resume`, whoever asks. Attempts in flight end.

        A pause ends with the process.

        Args:
            conversation: Only its messages; None: all.
        """
        self._commands.pause(conversation)

    def resume(self, conversation: str | None = None) -> None:
        """Ends a pause of the same scope, or one that an unauthorized answer began.

        Args:
            conversation: As for `pause`.
        """
        self._commands.resume(conversation)

    # ---------------------------------------------------------------- environment

    def set_connectivity(self, connectivity: Connectivity, link: Link = Link.OTHER, metered: bool = False) -> None:
        """Reports connectivity. Offline stops sending; online starts it after `online_debounce` seconds.

        Args:
            connectivity: Whether there is a connection.
            link: What it goes over.
            metered: Whether it costs by volume.

        Raises:
            ConflictError: A monitor reports it.
        """
        self._environment.set_connectivity(connectivity, link, metered)

    def start_monitor(self) -> None:
        """Lets the kernel report connectivity (Linux), beginning with the current state.

        When this returns, the queue knows it. Online means a default route, of IPv4 or IPv6, by a link that is up, and
        an address of its family. The link is that of the route with the lowest metric, and counts as metered when it is
        cellular. Whether a receiver can be reached is not checked. It watches the network namespace of the thread that
        calls this. A second call changes nothing.

        Raises:
            PermissionDeniedError: A sandbox forbids it.
            StorageError: No file descriptor is left.
        """
        self._environment.start_monitor()

    def stop_monitor(self) -> None:
        """Ends the monitor; the last known connectivity stays until `set_connectivity`.

        Without a monitor it does nothing.
        """
        self._environment.stop_monitor()

    def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """Reports whether the program is in the foreground, where a queue begins.

        In the background nothing is sent by itself, unless `send_in_background` is set. What is enqueued online, a
        drain, `retry` and `send_now` still send.

        Args:
            lifecycle: Foreground or background.
        """
        self._environment.set_lifecycle(lifecycle)

    # ---------------------------------------------------------------- polling

    def poll(self, timeout: float | None = None) -> int:
        """Runs the callbacks that are waiting, on this thread: 64 at most, so that a loop around it goes on.

        Several threads may poll at a time: that is how several conversations are sent side by side by a transport that
        blocks. From inside a callback it runs nothing. KeyboardInterrupt and SystemExit in a callback, or while the
        main thread waits here, are raised from here; other exceptions of callbacks are not, see `set_transport` and
        `set_event_handler`.

        Args:
            timeout: Seconds to wait for a callback when there is none; 0: not at all, None: without end.

        Returns:
            How many callbacks ran.

        Raises:
            ConflictError: The queue was not opened with polled=True.
            ClosedError: The queue is closed, or was closed while this waited.
        """
        return self._polling.poll(timeout)

    def fileno(self) -> int:
        """Returns a file descriptor that is readable while `poll` has work, level-triggered.

        With it the queue itself can be given to `select`, `selectors`, `poll`, `epoll`, and to a loop's `add_reader`.
        Remove it from there before `close`: the descriptor is gone then, and its number may become another file's.
        Never read, write or close it.

        Raises:
            ConflictError: The queue was not opened with polled=True.
            ClosedError: The queue is closed.
        """
        return self._polling.fileno()


def block_patience(problem: BaseException | None, longest_attempt: float) -> float:
    """The seconds that the end of a `with` block waits for attempts in flight."""
    if problem is not None and not isinstance(problem, Exception):
        # KeyboardInterrupt, SystemExit, asyncio.CancelledError: somebody wants the end soon.
        return _CLOSE_PATIENCE
    return longest_attempt + _CLOSE_PATIENCE

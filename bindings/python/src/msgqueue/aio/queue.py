"""The message queue, for asyncio."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _arguments
from .._arguments import Body, Time
from .._callbacks import EventHandler, logger
from .._drains import drain_options
from .._registration import require_callable
from ..enums import Connectivity, Lifecycle, Link, Status
from ..errors import ConflictError, Error
from ..models import Attempt, Conversation, Counts, Draft, Explanation, Message, Report, State
from ..outcome import Outcome
from ..queue import MessageQueue as PolledQueue
from ..queue import block_patience
from ..statistics import Statistics
from ._attempts import Transport
from ._calls import Calls
from ._commands import Commands
from ._events import EventReader
from ._home import Home
from ._queries import Queries

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Options


class MessageQueue:
    """A durable outbound message queue in one file, for asyncio: `msgqueue.MessageQueue` with `await`.

        async with aio.MessageQueue("outbox.db", transport=send) as queue:
            await queue.enqueue("hello", conversation="ana")

    The transport is an `async def`; a plain function that does not block will do. Each attempt is a task of its own:
    with `max_in_flight` several conversations are sent side by side, each in its own order. An exception, or a
    cancelled task, is a failure; see `set_transport`. An attempt without an answer ends as a time-out after
    `delivery.timeout` seconds, but its task goes on. A success that comes late still counts, until the next attempt of
    the message begins, which cancels the old task.

    Threads: the queue belongs to the loop in which it was opened; elsewhere its methods raise RuntimeError. Callbacks
    run on the loop's thread. Calls are made on a few threads of the queue's own, so that the loop does not wait for the
    disk; only starting an attempt writes a line, without a flush, and may wait for a flush that is under way. During a
    large `enqueue_batch`, a `clear` and a `backup` the callbacks wait, and the loop goes on.

    Order: calls that change something take effect in the order in which they were made, also when nobody waited for
    one before the next. One that is cancelled while it is under way may have been done or not: who must know gives the
    message an id, and looks.

    Errors: as of `msgqueue.MessageQueue`.

    Lifetime: close the queue. One that nobody holds is closed with a ResourceWarning, and what is open when the
    interpreter ends is closed then. Tasks under way are lost with their loop: their attempts count as interrupted.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        transport: Transport | None = None,
        *,
        on_event: EventHandler | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens nothing yet: `async with` does, or `open`.

        Args:
            path: The store's file.
            transport: Sends one message and returns an Outcome.
            on_event: A plain function that receives events on the loop's thread: let it be quick. An exception that it
                raises is logged and given to the loop's exception handler. See also `events`.
            **options: As of `msgqueue.MessageQueue`.
        """
        _require_transport(transport)
        require_callable("on_event", on_event)
        self._path = _arguments.path(path).decode()
        self._transport = transport
        self._on_event = on_event
        self._make = partial(PolledQueue, path, **options)
        calls = self._calls = Calls()
        self._commands = Commands(calls)
        self._queries = Queries(calls)

    # ---------------------------------------------------------------- the queue itself

    @property
    def path(self) -> str:
        """The store's file, as it was given."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether `close` was called; False before the queue is opened."""
        home = self._calls.home
        return home is not None and home.is_closed

    async def open(self) -> MessageQueue:
        """Opens the store, or makes it, for programs whose queue lives longer than a block.

        Cancelled, nothing is left open.

        Returns:
            The queue itself.

        Raises:
            ConflictError: It was opened before. After a failure it may be tried again.
            Error: As `msgqueue.MessageQueue`.
        """
        if self._calls.home is not None:
            raise ConflictError("the queue was opened before; make another")
        home = self._calls.home = Home(self._transport, self._on_event)
        try:
            await home.open(self._make)
        except BaseException:
            self._calls.home = None
            raise
        return self

    async def close(self, timeout: float | None = 5.0) -> None:
        """Closes the queue and its store, and cancels the tasks that are left.

        Starts no attempt, waits for attempts in flight, and delivers the events that are left. The loop goes on
        meanwhile. A second call waits for the first. Cancelled, it stops waiting, and the queue is closed all the same.

        Args:
            timeout: Seconds to wait for attempts in flight; None: without end. An `async with` block waits as long as
                an attempt may take (`attempt_timeout`, `on_demand_timeout`) and 5 s more; 5 s when it ends by
                KeyboardInterrupt, SystemExit or CancelledError.

        Raises:
            TimedOutError: The queue is closed, but an attempt had not ended; its outcome is unknown after the next
                open.
            ConflictError: Called from inside an attempt, which it would wait for.
        """
        _arguments.timeout("timeout", timeout)
        home = self._calls.home
        if home is None:
            return
        if home.attempts.is_inside:
            raise ConflictError("a queue cannot be closed from inside its own transport")
        home.check_loop()
        await home.close(timeout)

    async def __aenter__(self) -> MessageQueue:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close(
                block_patience(problem, 0 if self._calls.home is None else self._calls.home.longest_attempt)
            )
        except Error:
            if problem is None:
                raise
            # What went wrong first is what the caller must see.
            logger.warning("closing %s", self._path, exc_info=True)

    def __repr__(self) -> str:
        state = " not open" if self._calls.home is None else " closed" if self.closed else ""
        return f"<aio.MessageQueue {self._path!r}{state}>"

    # ---------------------------------------------------------------- messages in

    async def enqueue(
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
        return await self._commands.enqueue(body, conversation, metadata, id, not_before, expires_at, unmetered_only)

    async def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[str]:
        """Stores up to 1,000,000 messages in this order, all or none.

        Args:
            drafts: Drafts, or dicts of the arguments of `enqueue` with "body" among them.

        Returns:
            The ids.

        Raises:
            Error: As `enqueue`; the detail names the draft by its place, from 0.
        """
        return await self._commands.enqueue_batch(drafts)

    async def record(
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
        return await self._commands.record(body, sender, conversation, metadata, id)

    # ---------------------------------------------------------------- one message

    async def get(self, id: str) -> Message:
        """Returns one message.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        return await self._queries.get(id)

    async def attempts(self, id: str) -> builtins.list[Attempt]:
        """Returns the attempts of one message, oldest first, the last 1000.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        return await self._queries.attempts(id)

    async def explain(self, id: str) -> Explanation:
        """Returns the one reason why a message is not sent yet.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            CorruptError: The message is damaged.
        """
        return await self._queries.explain(id)

    async def edit(self, id: str, body: Body) -> None:
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
        await self._commands.edit(id, body)

    async def delete(self, id: str) -> None:
        """Removes one message for good, whatever its status, also from disk.

        Args:
            id: The message.

        Raises:
            NotFoundError: There is no such message.
            BusyError: It is being sent.
        """
        await self._commands.delete(id)

    async def retry(self, id: str) -> None:
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
        await self._commands.retry(id)

    async def send_now(self, id: str) -> None:
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
        await self._commands.send_now(id)

    async def mark(self, id: str, status: Status) -> None:
        """Records a receipt. One that comes twice or late changes nothing.

        Args:
            id: The message.
            status: Status.DELIVERED or Status.READ.

        Raises:
            InvalidError: Another status.
            NotFoundError: There is no such message.
            ConflictError: It is not sent yet.
        """
        await self._commands.mark(id, status)

    # ---------------------------------------------------------------- many messages

    async def list(
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
        return await self._queries.list(conversation, status, limit, after, newest_first, bodies)

    async def counts(self, conversation: str | None = None) -> Counts:
        """Returns the number of messages by status, as fast with a million as with one.

        Args:
            conversation: Only its messages; None: all.
        """
        return await self._queries.counts(conversation)

    async def conversations(self, before: int = 0, limit: int = 50) -> builtins.list[Conversation]:
        """Returns a page of conversations, the one with the newest message first.

        Args:
            before: The `last.sequence` of the last conversation of the page before; 0: the first page.
            limit: 1 to 1000.
        """
        return await self._queries.conversations(before, limit)

    async def clear(self, conversation: str | None = None) -> None:
        """Removes queued and failed messages.

        A message that is being sent is removed when its attempt ends, unless that succeeds. On a full disk, after
        StorageError, some of them may be gone.

        Args:
            conversation: Only its messages; None: all.
        """
        await self._commands.clear(conversation)

    async def retry_all(self, conversation: str | None = None) -> int:
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
        return await self._commands.retry_all(conversation)

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a consistent copy of the store to a new file; the queue goes on meanwhile.

        Args:
            path: The new file.

        Raises:
            ConflictError: The file exists.
            PermissionDeniedError: The system, or the safety of the place, forbids it.
        """
        await self._queries.backup(path)

    # ---------------------------------------------------------------- the queue as a whole

    async def stats(self) -> Statistics:
        """Returns what the queue has done since it was opened."""
        return await self._queries.stats()

    async def prometheus(self) -> str:
        """Returns the statistics and the counts in the Prometheus text format 0.0.4."""
        return await self._queries.prometheus()

    async def state(self) -> State:
        """Returns the state of the queue as the events before reported it, and why nothing is being sent now.

        Looks at the first 64 queued messages at most: as fast with a million messages as with one hundred.
        """
        return await self._queries.state()

    async def banner(self, conversation: str | None = None) -> str:
        """Returns one line about the queue for a person; "" when there is nothing to say.

        For example "You're offline. 5 messages queued." or "Sending 3 messages…".

        Args:
            conversation: About its messages only; None: about the queue.
        """
        return await self._queries.banner(conversation)

    # ---------------------------------------------------------------- sending

    async def drain(self, batch: int = 0, timeout: float | None = None, conversation: str | None = None) -> Report:
        """Sends what is due, in order, and returns when nothing is due any more.

        The events of the drain have been delivered when it returns. Only one drain runs at a time. A second call that
        asks for the same, or for one conversation while all are drained, joins the first and gets the same report; any
        other begins its drain when the first has ended. Cancelled, it only stops waiting. From inside an attempt it
        only starts one (Stop.STARTED).

        Args:
            batch: Attempts at most, without due retries; 0: as the option `drain_batch`.
            timeout: Seconds after which it returns what was done until then (Stop.TIMEOUT), also when it joined another
                drain. The drain that it began starts no attempt after that. None: without end.
            conversation: Only its messages are sent and counted; None: all.

        Returns:
            What was done, and why the drain stopped.

        Raises:
            InvalidError: An argument is out of range.
            NoTransportError: The queue has no transport.
        """
        options = drain_options(batch, timeout, conversation)
        return await self._calls.opened.drain(options)

    async def complete(self, token: int, outcome: Outcome) -> None:
        """Answers an attempt whose transport returned `Outcome.pending()`.

        An `async def` transport seldom needs it: it may take its time and return the outcome itself.

        Args:
            token: The `token` of the delivery.
            outcome: How the attempt went.

        Raises:
            NotFoundError: There is no such token.
            ConflictError: Answered already, or timed out: then only a late success of the latest attempt counts.
            InvalidError: `outcome` is pending.
        """
        await self._commands.complete(token, outcome)

    async def set_transport(self, transport: Transport | None) -> None:
        """Sets the function that sends messages. A task under way goes on with the one that it began with.

        An exception is a failure: time-outs and network errors of the standard library, `requests` and `httpx` have
        their kind, responses of `raise_for_status` count as responses, any other exception and any other answer is of
        kind UNKNOWN. It is logged in one line, with the traceback at level DEBUG; one of kind UNKNOWN is also given to
        the loop's exception handler. The message is retried as after any failure.

        Args:
            transport: An `async def`, or a plain function that does not block; None takes it away.
        """
        _require_transport(transport)
        # What the library calls knows its transport: whatever is set or cancelled meanwhile, the two agree.
        sender = self._calls.opened.attempts.sender(transport)
        await self._calls.change(lambda queue: queue.set_transport(sender))

    async def pause(self, conversation: str | None = None) -> None:
        """Starts no more attempts until `resume`, whoever asks. Attempts in flight end.

        A pause ends with the process.

        Args:
            conversation: Only its messages; None: all.
        """
        await self._commands.pause(conversation)

    async def resume(self, conversation: str | None = None) -> None:
        """Ends a pause of the same scope, or one that an unauthorized answer began.

        Args:
            conversation: As for `pause`.
        """
        await self._commands.resume(conversation)

    # ---------------------------------------------------------------- environment

    async def set_connectivity(
        self, connectivity: Connectivity, link: Link = Link.OTHER, metered: bool = False
    ) -> None:
        """Reports connectivity. Offline stops sending; online starts it after `online_debounce` seconds.

        Args:
            connectivity: Whether there is a connection.
            link: What it goes over.
            metered: Whether it costs by volume.

        Raises:
            ConflictError: A monitor reports it.
        """
        await self._commands.set_connectivity(connectivity, link, metered)

    async def start_monitor(self) -> None:
        """Lets the kernel report connectivity (Linux), beginning with the current state.

        When this returns, the queue knows it. Online means a default route, of IPv4 or IPv6, by a link that is up, and
        an address of its family. The link is that of the route with the lowest metric, and counts as metered when it is
        cellular. Whether a receiver can be reached is not checked. It watches the network namespace of the thread that
        calls this. A second call changes nothing.

        Raises:
            PermissionDeniedError: A sandbox forbids it.
            StorageError: No file descriptor is left.
        """
        await self._commands.start_monitor()

    async def stop_monitor(self) -> None:
        """Ends the monitor; the last known connectivity stays until `set_connectivity`.

        Without a monitor it does nothing.
        """
        await self._commands.stop_monitor()

    async def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """Reports whether the program is in the foreground, where a queue begins.

        In the background nothing is sent by itself, unless `send_in_background` is set. What is enqueued online, a
        drain, `retry` and `send_now` still send.

        Args:
            lifecycle: Foreground or background.
        """
        await self._commands.set_lifecycle(lifecycle)

    # ---------------------------------------------------------------- events

    def events(self) -> EventReader:
        """Returns a reader of every event from this moment on: `async for event in queue.events()`.

        Each reader receives every event. Up to 10,000 events wait for a slow reader; then the oldest are replaced by
        one of kind RESYNC: list again. It ends when the queue is closed, after the events that were left; `aclose`, or
        dropping it, ends it before.
        """
        home = self._calls.opened
        _ = home.queue
        return home.events.reader()

    async def set_event_handler(self, handler: EventHandler | None) -> None:
        """Sets the plain function that receives events. Readers of `events` are independent of it.

        Args:
            handler: The function; None takes it away.
        """
        require_callable("handler", handler)
        home = self._calls.opened
        _ = home.queue
        home.events.handler = handler


def _require_transport(transport: object) -> None:
    if transport is not None and not callable(transport):
        raise TypeError(f"transport must be callable, not {type(transport).__name__}")

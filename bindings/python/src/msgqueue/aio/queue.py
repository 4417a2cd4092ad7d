"""The message queue, for asyncio."""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex

from .. import _arguments, _drafts
from .._arguments import Body, Duration, Time
from .._callbacks import EventHandler, logger
from .._drains import drain_options
from .._handle import CLOSE_TIMEOUT, block_timeout, refuse_copy
from .._handovers import HandOver
from .._registration import require_callable
from ..enums import Result, Status
from ..errors import ClosedError, ConflictError, Error
from ..models import BatchOptions, Change, Draft, Message, RecordedDraft, Report
from ._attempts import BatchTransport, Transport
from ._calls import Calls, answers, changes_long, enqueues, reads, reads_long
from ._calls import changes as changes_queue
from ._events import EventReader, anext_or_none
from ._polled import PolledQueue
from ._session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Options


class MessageQueue:
    """A durable outbound message queue in one file, for asyncio: `msgqueue.MessageQueue` with `await`.

        async with aio.MessageQueue("outbox.db", transport=send) as queue:
            await queue.enqueue("hello", conversation="ana")

    The transport is an `async def`, or a plain function that does not block. Each attempt is a task: with
    `max_in_flight` several conversations are sent in parallel, each in its own order. An exception, or a cancelled
    task, is a failure; see `set_transport`. An attempt without an answer ends as a time-out after `delivery.timeout`
    seconds, but its task continues. A late success still counts, until the next attempt of the message begins, which
    cancels the old task.

    Threads: the queue belongs to the loop in which it was opened; elsewhere its methods raise RuntimeError. Callbacks
    run on the loop's thread. Calls are made on a few threads of the queue, so that the loop does not wait for the disk.
    Two exceptions may wait for a flush in progress: starting an attempt, which writes a row without a flush, and the
    first call of `events`. During a large `enqueue_batch`, a `clear`, a `retry_all` and a `backup` the callbacks are
    delayed, the loop is not.

    Order: calls that change something take effect in the order in which they were made, also when none is awaited
    before the next. Consecutive calls of `enqueue` that wait share a commit and its flush; an error of one is not one
    of the others. A call that is cancelled may have taken effect or not. To find out, give the message an id and call
    `get`.

    Errors: as of `msgqueue.MessageQueue`.

    Lifetime: close the queue. Without a reference to it, it is closed with a ResourceWarning; queues that are still
    open when the interpreter ends are closed then. Tasks are lost with their loop: their attempts count as interrupted.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        transport: Transport | None = None,
        *,
        on_event: EventHandler | None = None,
        batch_transport: BatchTransport | None = None,
        batch_options: BatchOptions | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens nothing yet: `async with` does, or `open`.

        Args:
            path: The store's file.
            transport: Sends one message and returns an Outcome.
            on_event: A plain function that receives events on the loop's thread; it must not block. An exception that
                it raises is logged and passed to the loop's exception handler. See also `events`.
            batch_transport: Sends several messages in one call; see `set_batch_transport`. Not together with transport.
            batch_options: The limits of its batches; None: BatchOptions().
            **options: As of `msgqueue.MessageQueue`.
        """
        _require_transport(transport)
        _require_transport(batch_transport, "batch_transport")
        if transport is not None and batch_transport is not None:
            raise TypeError("transport and batch_transport exclude each other")
        require_callable("on_event", on_event)
        self._path = _arguments.path(path).decode()
        self._transport = transport
        self._batch_transport = batch_transport
        self._on_event = on_event
        self._make = partial(PolledQueue, path, batch_options=batch_options, **options)
        self._calls = Calls()
        self._read_only = bool(options.get("read_only"))

    # ---------------------------------------------------------------- opening and closing

    @property
    def path(self) -> str:
        """The store's file, as it was given."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether `close` was called; False before the queue is opened."""
        session = self._calls.session
        return session is not None and session.is_closed

    async def open(self) -> MessageQueue:
        """Opens the store, or makes it, for programs whose queue lives longer than a block.

        Cancelled, nothing is left open.

        Returns:
            The queue itself.

        Raises:
            ConflictError: It was opened before. After a failure it may be tried again.
            Error: As `msgqueue.MessageQueue`.
        """
        if self._calls.session is not None:
            raise ConflictError("the queue was opened before; make another")
        session = self._calls.session = Session(self._transport, self._on_event, self._batch_transport)
        try:
            await session.open(self._make)
        except BaseException:
            self._calls.session = None
            raise
        return self

    async def close(self, timeout: float | None = CLOSE_TIMEOUT) -> None:
        """Closes the queue and its store, and cancels the tasks that are left.

        Starts no attempt, waits for attempts in flight, and delivers the events that are left. The loop is not blocked.
        A second call waits for the first. Cancelled, it stops waiting, and the queue is closed all the same.

        Args:
            timeout: Seconds to wait for attempts in flight; None: without end. An `async with` block waits as long as
                an attempt may take (`attempt_timeout`, `on_demand_timeout`) and 5 s more; 5 s when it ends by
                KeyboardInterrupt, SystemExit or CancelledError.

        Raises:
            TimedOutError: The queue is closed, but an attempt had not ended; its outcome is unknown after the next
                open.
            ConflictError: Called inside an attempt, which it would wait for.
        """
        _arguments.timeout("timeout", timeout)
        session = self._calls.session
        if session is None:
            return
        if session.attempts.is_inside:
            raise ConflictError("a queue cannot be closed inside its own transport")
        session.check_loop()
        await session.close(timeout)

    async def __aenter__(self) -> MessageQueue:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        longest_attempt = 0 if self._calls.session is None else self._calls.session.longest_attempt
        try:
            await self.close(block_timeout(problem, longest_attempt))
        except Error:
            if problem is None:
                raise
            # The first exception is the one that the caller must see.
            logger.warning("closing %s", self._path, exc_info=True)

    def __reduce_ex__(self, _: SupportsIndex) -> NoReturn:
        refuse_copy(self)

    def __repr__(self) -> str:
        state = " not open" if self._calls.session is None else " closed" if self.closed else ""
        return f"<aio.MessageQueue {self._path!r}{state}>"

    # Methods of the parts. `Final` tells type checkers that the inferred type is the declared one.

    # ---------------------------------------------------------------- adding messages

    enqueue: Final = enqueues(PolledQueue.enqueue)
    record: Final = changes_queue(PolledQueue.record)

    async def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[str]:
        """Stores up to 1,000,000 messages in this order, all or none.

        Args:
            drafts: Drafts, or dicts of the arguments of `enqueue` with "body" among them.

        Returns:
            The ids.

        Raises:
            Error: As `enqueue`; the detail about one of several drafts begins with its index, from 0.
        """
        # The iterable is read here, because it may belong to the loop's thread.
        given = drafts if isinstance(drafts, (Draft, Mapping)) else builtins.list(drafts)
        return await self._calls.change_long(lambda queue: queue.enqueue_batch(given))

    async def enqueue_bodies(
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
        # The iterable is read here, because it may belong to the loop's thread.
        given = _drafts.bodies(bodies)
        return await self._calls.change_long(
            lambda queue: queue.enqueue_bodies(
                given,
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
        )

    async def record_batch(self, drafts: Iterable[RecordedDraft | Mapping[str, Any]]) -> builtins.list[Result]:
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
        # The iterable is read here, because it may belong to the loop's thread.
        given = drafts if isinstance(drafts, (RecordedDraft, Mapping)) else builtins.list(drafts)
        return await self._calls.change_long(lambda queue: queue.record_batch(given))

    handed_over: Final = reads_long(PolledQueue.handed_over)

    async def take_over(
        self, hand_over: HandOver, drafts: Iterable[Draft | Mapping[str, Any]]
    ) -> builtins.list[Result]:
        """Stores up to 1,000,000 drafts in this order, and in the same transaction their ids as the open hand-over.

        Each draft has an id. On return all of that survives a power cut. A draft that `enqueue` refuses for good,
        because it is over `limit_body` or `limit_metadata` or another value is invalid, is in the queue as failed, kind
        LOCAL, with its whole body and metadata; `retry` raises TooLargeError while it is over `limit_body`.

        Args:
            hand_over: What `handed_over` returned last for the source.
            drafts: Drafts, or dicts of the arguments of `enqueue` with "body" among them.

        Returns:
            What became of each. OK: the queue has it, or its id is in the open hand-over already. DUPLICATE: the queue
            has a message of this id, or remembers one, or it is that of a draft before it. INVALID, TOO_LARGE: it
            cannot be kept whole (an invalid id or conversation, a body over 256 MiB or over `limit_bytes` or
            `limit_file_bytes`, metadata over 16 MiB); it stands in the list of `handed_over` until
            `hand_over_forget`. Keep its row, and mark it, so that it is not read again.

        Raises:
            ConflictError: Another call of `handed_over` for the source came later. Begin again with that.
            FullError: The queue is full; none is stored.
            InvalidError: A draft has no id, or a value that C cannot express; none is stored.
        """
        # The iterable is read here, because it may belong to the loop's thread.
        given = drafts if isinstance(drafts, (Draft, Mapping)) else builtins.list(drafts)
        return await self._calls.change_long(lambda queue: queue.take_over(hand_over, given))

    hand_over_done: Final = changes_long(PolledQueue.hand_over_done)
    hand_over_forget: Final = changes_long(PolledQueue.hand_over_forget)
    request_collect: Final = changes_queue(PolledQueue.request_collect)

    # ---------------------------------------------------------------- one message

    get: Final = reads(PolledQueue.get)
    attempts: Final = reads(PolledQueue.attempts)
    explain: Final = reads(PolledQueue.explain)
    edit: Final = changes_queue(PolledQueue.edit)
    update: Final = changes_queue(PolledQueue.update)
    delete: Final = changes_queue(PolledQueue.delete)
    retry: Final = changes_queue(PolledQueue.retry)
    send_now: Final = changes_queue(PolledQueue.send_now)
    mark: Final = changes_queue(PolledQueue.mark)

    async def wait(self, id: str, timeout: float | None = None) -> Message:
        """Waits for the first outcome of a message since it was enqueued, and returns the message as it is then.

        As `msgqueue.MessageQueue.wait`. Cancelled, it only stops waiting.

        Args:
            id: The message.
            timeout: Seconds after which it returns the message as it is then: SENDING, or QUEUED with the explanation
                NEXT, BEHIND, RATE or RETRYING. None: without end.

        Raises:
            NotFoundError: There is no such message, or it is gone and its outcome is not known.
            CorruptError: The message is damaged.
            ConflictError: Called inside an attempt.
            ClosedError: The queue is closed, or was closed while this waited.
        """
        name, limit = _arguments.text("id", id), _arguments.timeout("timeout", timeout)
        session = self._calls.opened
        session.check_may_wait()
        return await session.wait(name, limit)

    async def send(
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
        timeout: float | None = None,
    ) -> Message:
        """Stores one message as `enqueue` does, and waits for its outcome as `wait` does.

        Whatever ends the wait, also when it is cancelled, a message that is stored will be sent like any other.

        Args:
            body: As for `enqueue`.
            conversation: As for `enqueue`.
            metadata: As for `enqueue`.
            id: As for `enqueue`.
            not_before: As for `enqueue`.
            delay: As for `enqueue`.
            expires_at: As for `enqueue`.
            unmetered_only: As for `enqueue`.
            replace_key: As for `enqueue`.
            priority: As for `enqueue`.
            time: As for `enqueue`.
            expiry: As for `enqueue`.
            timeout: As for `wait`.

        Returns:
            The message, which was sent, has failed, or is queued with an explanation.

        Raises:
            Error: As `enqueue`; then nothing was stored.
            ConflictError: Called inside an attempt; then nothing was stored.
            ClosedError: The queue is closed, or was closed while this waited; the message may be stored.
        """
        limit = _arguments.timeout("timeout", timeout)
        session = self._calls.opened
        session.check_may_wait()
        made = await self.enqueue(
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
        return await session.wait(made.encode(), limit)

    # ---------------------------------------------------------------- many messages

    list: Final = reads(PolledQueue.list)
    counts: Final = reads(PolledQueue.counts)
    waiting: Final = reads(PolledQueue.waiting)
    failure_groups: Final = reads(PolledQueue.failure_groups)
    changes: Final = reads(PolledQueue.changes)
    conversations: Final = reads(PolledQueue.conversations)
    conversations_by_time: Final = reads(PolledQueue.conversations_by_time)
    set_title: Final = changes_queue(PolledQueue.set_title)
    mark_up_to: Final = changes_long(PolledQueue.mark_up_to)

    async def mark_batch(self, ids: Iterable[str], status: Status) -> builtins.list[Result]:
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
        # The iterable is read here, because it may belong to the loop's thread.
        given = ids if isinstance(ids, (str, bytes)) else builtins.list(ids)
        return await self._calls.change_long(lambda queue: queue.mark_batch(given, status))

    clear: Final = changes_long(PolledQueue.clear)
    delete_conversation: Final = changes_long(PolledQueue.delete_conversation)
    clear_failed: Final = changes_long(PolledQueue.clear_failed)
    retry_all: Final = changes_long(PolledQueue.retry_all)

    # ---------------------------------------------------------------- the queue as a whole

    stats: Final = reads(PolledQueue.stats)
    minutes: Final = reads(PolledQueue.minutes)
    conversation: Final = reads(PolledQueue.conversation)
    prometheus: Final = reads(PolledQueue.prometheus)
    state: Final = reads(PolledQueue.state)
    banner: Final = reads(PolledQueue.banner)
    backup: Final = reads_long(PolledQueue.backup)

    # ---------------------------------------------------------------- sending

    complete: Final = answers(PolledQueue.complete)
    complete_batch: Final = answers(PolledQueue.complete_batch)
    pause: Final = changes_queue(PolledQueue.pause)
    resume: Final = changes_queue(PolledQueue.resume)
    withdraw_prompt: Final = changes_queue(PolledQueue.withdraw_prompt)

    async def drain(
        self,
        batch: int = 0,
        timeout: float | None = None,
        conversation: str | None = None,
        *,
        include_failed: bool = False,
    ) -> Report:
        """Sends what is due, in order, and returns when nothing is due any more.

        The events of the drain have been delivered when it returns. Only one drain runs at a time. A second call that
        asks for the same, or for one conversation while all are drained, joins the first and gets the same report; any
        other, also one with another `include_failed`, begins its drain when the first has ended.
        Cancelled, it only stops waiting. Inside an attempt it
        only starts one (Stop.STARTED).

        Args:
            batch: Attempts at most, without due retries, up to 2147483647; 0: as the option `drain_batch`.
            timeout: Seconds after which it returns what was done until then (Stop.TIMEOUT), also when it joined another
                drain. The drain that it began starts no attempt after that. None: without end.
            conversation: Only its messages are sent and counted; None: all.
            include_failed: First puts the failed messages back to queued, as `retry_all` does, and sends them with the
                others. While offline or paused they stay failed.

        Returns:
            What was done, and why the drain stopped.

        Raises:
            InvalidError: An argument is out of range.
            NoTransportError: The queue has no transport.
        """
        options = drain_options(batch, timeout, conversation, include_failed)
        return await self._calls.opened.drain(options)

    async def set_transport(self, transport: Transport | None) -> None:
        """Sets the function that sends messages. A task in progress continues with the function it began with.

        An exception is a failure: time-outs and network errors of the standard library, `requests`, `httpx` and
        `aiohttp` have their kind, responses of `raise_for_status` count as responses, any other exception and any other
        return value is of kind UNKNOWN. It is logged in one line, with the traceback at level DEBUG; one of kind
        UNKNOWN is also passed to the loop's exception handler. The message is retried as after any failure.

        Args:
            transport: An `async def`, or a plain function that does not block; None removes it.
        """
        _require_transport(transport)
        # The function that the library calls contains its transport, so that both change together.
        sender = self._calls.opened.attempts.sender(transport)
        await self._calls.change(lambda queue: queue.set_transport(sender))

    async def set_batch_transport(self, transport: BatchTransport | None, options: BatchOptions | None = None) -> None:
        """Sets a function that sends several messages in one call, in place of any transport.

        As `msgqueue.MessageQueue.set_batch_transport`. One task sends a batch; when a newer attempt of one of its
        messages begins, the task is cancelled.

        Args:
            transport: An `async def`, or a plain function that does not block; None removes it.
            options: The limits of a batch; None: BatchOptions().

        Raises:
            InvalidError: An option is out of range.
        """
        _require_transport(transport)
        sender = self._calls.opened.attempts.batch_sender(transport)
        await self._calls.change(lambda queue: queue.set_batch_transport(sender, options))

    # ---------------------------------------------------------------- environment

    set_connectivity: Final = changes_queue(PolledQueue.set_connectivity)
    start_monitor: Final = changes_queue(PolledQueue.start_monitor)
    stop_monitor: Final = changes_queue(PolledQueue.stop_monitor)
    set_lifecycle: Final = changes_queue(PolledQueue.set_lifecycle)
    start_control: Final = changes_long(PolledQueue.start_control)
    stop_control: Final = changes_long(PolledQueue.stop_control)
    console: Final = changes_long(PolledQueue.console)

    # ---------------------------------------------------------------- events

    def events(self) -> EventReader:
        """Returns a reader of every event from this moment on: `async for event in queue.events()`.

        Each reader receives every event. Up to 10,000 events wait for a slow reader; then the oldest are replaced by
        one of kind RESYNC, with their number: list again. It ends when the queue is closed, after the events that were
        left; `aclose`, or dropping it, ends it before.
        """
        session = self._calls.opened
        return session.events.reader(session.queue, session.reads)

    async def follow_changes(self, after: str | None = None, limit: int = 50) -> AsyncIterator[Change]:
        """Iterates over changes, and waits for new ones: `async for change in queue.follow_changes(token)`.

        It ends when the queue is closed, with `read_only` after the last change.

        Args:
            after: As for `changes`.
            limit: How many changes are read at once: 1 to 1000.

        Raises:
            Error: As `changes`.
        """
        reader = self.events()
        try:
            while True:
                reader.clear()
                page = await self.changes(after, limit)
                for change in page.changes:
                    yield change
                after = page.next
                if page.changes:
                    continue
                if self._read_only or await anext_or_none(reader) is None:
                    return
        except ClosedError:
            return
        finally:
            await reader.aclose()

    async def set_event_handler(self, handler: EventHandler | None) -> None:
        """Sets the plain function that receives events. Readers of `events` are independent of it.

        Args:
            handler: The function; None removes it.
        """
        require_callable("handler", handler)
        session = self._calls.opened
        _ = session.queue
        session.events.handler = handler
        if handler is not None:
            await self._calls.change(session.events.listen)


def _require_transport(transport: object, name: str = "transport") -> None:
    if transport is not None and not callable(transport):
        raise TypeError(f"{name} must be callable, not {type(transport).__name__}")

"""An open queue: the polled queue of the library, the tasks of the loop, and the threads between them."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from .. import _abi
from .._callbacks import EventHandler
from .._drains import started
from ..errors import ClosedError, ConflictError, ForkedError
from ..models import Message, Report
from ..queue import MessageQueue
from ._attempts import Attempts, BatchTransport, Transport
from ._bridge import Bridge
from ._changes import Changes
from ._events import Events
from ._executor import Executor, call_on_loop, set_result

T = TypeVar("T")

# Threads that read in parallel.
_READ_THREADS = 3


class Session:
    """One open queue in one loop.

    Nothing that the loop holds refers back to it, so that it is finalized when the last reference to the queue goes.
    """

    def __init__(
        self, transport: Transport | None, on_event: EventHandler | None, batch_transport: BatchTransport | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._bridge = Bridge(self._loop)
        self.attempts = Attempts(self._loop, self._bridge)
        self._transport = self.attempts.sender(transport)
        self._batch_transport = self.attempts.batch_sender(batch_transport)
        self.events = Events(self._loop, self._bridge, on_event)
        # Changes run in the order of the calls. Reads do not wait for them.
        self.changes = Changes("msgqueue changes")
        self.reads = Executor("msgqueue reads", _READ_THREADS)
        self._drains: set[asyncio.Future[Report]] = set()
        self._waits: set[asyncio.Future[Message]] = set()
        self._queue: MessageQueue | None = None
        self._closed: asyncio.Future[BaseException | None] | None = None
        executors = (self.changes, self.reads, self.attempts.answers)
        self._finalizer = weakref.finalize(self, _abandon, self._bridge, self.events, executors)
        self._finalizer.atexit = False

    @property
    def queue(self) -> MessageQueue:
        """The polled queue.

        Raises:
            ClosedError: It is not open.
            ForkedError: It belongs to the parent process.
            RuntimeError: Another loop, or no loop, runs on this thread.
        """
        queue = self._queue
        if queue is None:
            raise ClosedError("the queue is not open yet")
        if queue._handle.is_forked:
            raise ForkedError("the queue belongs to the parent process; open another in this one")
        self.check_loop()
        if self._closed is not None:
            raise ClosedError("the queue is closed")
        return queue

    @property
    def longest_attempt(self) -> float:
        """The seconds that an attempt may take at most."""
        return 0 if self._queue is None else self._queue._longest_attempt

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed is not None or (self._queue is not None and self._queue.closed)

    def check_loop(self) -> None:
        """Raises RuntimeError when this is not the loop in which the queue was opened."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "no event loop runs on this thread; the queue belongs to the loop in which it was opened"
            ) from None
        if here is not self._loop:
            raise RuntimeError("the queue belongs to another event loop, in which it was opened")

    async def open(self, make: Callable[..., MessageQueue]) -> None:
        """Opens the store. After an exception or a cancellation nothing is left open."""
        made: list[MessageQueue] = []
        cancelled = threading.Event()
        transport, batch_transport = self._transport, self._batch_transport

        def opened() -> None:
            queue = make(
                transport=transport,
                batch_transport=batch_transport,
                on_event=self.events.first_handler,
                cancelled=cancelled,
            )
            made.append(queue)
            # When the loop has ended, no attempt is answered any more.
            queue._handle.last_timeout = 0.0
            self._bridge.prepare(queue)

        try:
            await self.changes.run(opened)
            self._bridge.attach()
        except BaseException:
            cancelled.set()
            # On the same thread, so that it runs after an open that is still in progress.
            self.changes.submit(partial(_close_quietly, made, self._bridge))
            self._stop()
            raise
        self._queue = made[0]

    async def run_long(self, executor: Executor, call: Callable[[MessageQueue], T]) -> T:
        """Like `executor.run`, for a call that holds the library's lock for long."""
        queue, bridge = self.queue, self._bridge

        def guarded() -> T:
            with bridge.long_call():
                return call(queue)

        return await executor.run(guarded)

    async def drain(self, options: _abi.DrainOptions) -> Report:
        """Starts a drain and waits for its report, without a thread that waits."""
        queue = self.queue
        if self.attempts.is_inside:
            return await self.changes.run(partial(_start_drain, queue, options))
        waiter: asyncio.Future[Report] = self._loop.create_future()
        self._drains.add(waiter)
        waiter.add_done_callback(self._drains.discard)
        bridge = self._bridge
        try:
            await self.changes.run(
                lambda: queue._drains.start(options, lambda report: bridge.post(partial(set_result, waiter, report)))
            )
            return await waiter
        finally:
            waiter.cancel()

    def check_may_wait(self) -> None:
        """Refuses a wait for an outcome inside an attempt, which the outcome may need to end first."""
        _ = self.queue
        if self.attempts.is_inside:
            raise ConflictError("an attempt cannot wait for the outcome of a message of its own queue")

    async def wait(self, id: bytes, timeout_ms: int) -> Message:
        """Waits for the outcome of a message, without a thread that waits."""
        queue = self.queue
        waiter: asyncio.Future[Message] = self._loop.create_future()
        self._waits.add(waiter)
        waiter.add_done_callback(self._waits.discard)
        bridge = self._bridge
        try:
            await self.reads.run(
                lambda: queue._waits.start(id, timeout_ms, lambda found: bridge.post(partial(_end, waiter, found)))
            )
            return await waiter
        finally:
            waiter.cancel()

    async def close(self, timeout: float | None) -> None:
        """Closes the queue. The first caller gets the exception, if any; the others only wait.

        Cancelling a caller changes nothing. The thread of the changes makes the call, after the changes before it:
        msgq_close_async would have no advantage here, because the library needs a thread for it, too, and its last
        callbacks would never run in a loop that ends meanwhile.
        """
        is_first = self._closed is None
        closed = self._closed
        if closed is None:
            queue = self.queue
            closed = self._closed = self._loop.create_future()
            self.changes.submit(lambda: call_on_loop(self._loop, self._finish, _close(queue, timeout)))
        problem = await asyncio.shield(closed)
        await self.attempts.wait_cancelled()
        if is_first and problem is not None:
            raise problem

    def _finish(self, problem: BaseException | None) -> None:
        self._bridge.detach()
        self.attempts.cancel()
        self.events.end()
        for waiter in list(self._drains):
            # The library reports the end of every drain, unless an event handler does not return.
            if not waiter.done():
                waiter.set_exception(ClosedError("the queue was closed before the end of the drain was reported"))
        for wait in list(self._waits):
            if not wait.done():
                wait.set_exception(ClosedError("the queue is closed"))
        self._stop()
        if self._closed is not None:
            set_result(self._closed, problem)

    def _stop(self) -> None:
        self._finalizer.detach()
        for executor in (self.changes, self.reads, self.attempts.answers):
            executor.stop()


def _end(waiter: asyncio.Future[Message], found: Message | BaseException) -> None:
    if waiter.done():
        return
    if isinstance(found, BaseException):
        waiter.set_exception(found)
    else:
        waiter.set_result(found)


def _start_drain(queue: MessageQueue, options: _abi.DrainOptions) -> Report:
    conversation: bytes | None = options.conversation
    counts = queue.counts(None if conversation is None else conversation.decode())
    queue._drains.start(options, lambda _: None)
    return started(counts)


def _close(queue: MessageQueue, timeout: float | None) -> BaseException | None:
    try:
        queue.close(timeout)
    except BaseException as problem:  # noqa: BLE001 - raised in Session.close
        return problem
    return None


def _close_quietly(queues: list[MessageQueue], bridge: Bridge) -> None:
    for queue in queues:
        queue._handle.close_quietly()
    bridge.abandon()


def _abandon(bridge: Bridge, events: Events, executors: tuple[Executor, ...]) -> None:
    """Ends the session when no reference to the queue is left; a reader may still wait for its events."""
    bridge.abandon()
    bridge.post(events.end)
    for executor in executors:
        executor.stop()

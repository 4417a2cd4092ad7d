"""The message queue, for asyncio."""

from __future__ import annotations

import os
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from .. import _arguments
from .._callbacks import EventHandler, logger
from .._wiring import require_callable
from ..errors import ConflictError, Error
from ..models import Report
from ..queue import MessageQueue as PolledQueue
from ..queue import drain_options
from ._attempts import Transport
from ._changing import Changing
from ._events import EventReader
from ._home import Home
from ._reading import Reading

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Options


class MessageQueue(Changing, Reading):
    """A durable outbound message queue in one file, for asyncio: `msgqueue.MessageQueue` with `await`.

        async with aio.MessageQueue("outbox.db", transport=send) as queue:
            await queue.enqueue("hello", conversation="ana")

    The transport is an `async def` (a plain function that does not block will do). Each attempt is a task of its own,
    so that with `max_in_flight` several conversations are sent side by side, each in its own order. What the task
    returns counts; what it raises is a failure of kind UNKNOWN with its text, is logged and given to the loop's
    exception handler, and the message is tried again, as after a cancellation. An attempt without an answer ends as a
    time-out after `delivery.timeout` seconds, but its task goes on: a success that comes late still counts, until the
    next attempt of the message begins, which cancels the old task.

    Threads: the queue belongs to the loop in which it was opened; elsewhere its methods raise RuntimeError. Callbacks
    run on the loop's thread. Calls are made on a few threads of the queue's own, so that the loop does not wait for the
    disk; only starting an attempt writes a line, without a flush, and may wait for a flush that is under way. During a
    large `enqueue_batch`, a `clear` and a `backup` the callbacks wait, and the loop goes on.

    Errors: as of `msgqueue.MessageQueue`. Close the queue: one that nobody holds is closed with a ResourceWarning, what
    is open when the interpreter ends is closed then, and tasks under way are lost with their loop: their attempts
    count as cut.
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

        transport  Sends one message and answers with an Outcome.
        on_event   A plain function that is told what happens, on the loop's thread: let it be quick. What it raises is
                   logged and given to the loop's exception handler. See also `events`.
        options    As of `msgqueue.MessageQueue`.
        """
        _require_transport(transport)
        require_callable("on_event", on_event)
        self._path = _arguments.path(path).decode()
        self._transport = transport
        self._on_event = on_event
        self._make = partial(PolledQueue, path, **options)

    # ---------------------------------------------------------------- the queue itself

    @property
    def path(self) -> str:
        """The store's file, as it was given."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether `close` was called; False before the queue is opened."""
        return self._home is not None and self._home.is_closed

    async def open(self) -> MessageQueue:
        """Opens the store, or makes it, and returns the queue; for programs whose queue lives longer than a block.

        Errors: as of `msgqueue.MessageQueue`; ConflictError (it was opened before; after a failure it may be tried
        again). Cancelled, nothing is left open.
        """
        if self._home is not None:
            raise ConflictError("the queue was opened before; make another")
        home = self._home = Home(self._transport, self._on_event)
        try:
            await home.open(self._make)
        except BaseException:
            self._home = None
            raise
        return self

    async def close(self, timeout: float | None = 5.0) -> None:
        """Starts nothing more, waits at most `timeout` seconds (None: without end) for attempts under way, tells the
        events that are left, closes the store, and cancels what tasks are left. The loop goes on meanwhile. A second
        call waits for the first. Cancelled, it stops waiting, and the queue is closed all the same.

        Errors: TimedOutError: closed all the same, but an attempt had not ended; after the next open its outcome is
        unknown. ConflictError: called from inside an attempt, which it would wait for.
        """
        _arguments.timeout("timeout", timeout)
        home = self._home
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
            await self.close()
        except Error:
            if problem is None:
                raise
            # What went wrong first is what the caller must see.
            logger.warning("closing %s", self._path, exc_info=True)

    def __repr__(self) -> str:
        state = " not open" if self._home is None else " closed" if self.closed else ""
        return f"<aio.MessageQueue {self._path!r}{state}>"

    # ---------------------------------------------------------------- sending

    async def drain(self, batch: int = 0, timeout: float | None = None, conversation: str | None = None) -> Report:
        """Sends what is due, in order, and returns when nothing is due any more; the events of it have been told then.

        Only one drain runs at a time. A second call that asks for the same, or for one conversation while all are
        drained, joins the first and gets the same report; any other begins its drain when the first has ended.
        Cancelled, it only stops waiting. From inside an attempt it only starts one (Stop.STARTED).

        batch         Attempts at most, without due retries; 0: as the queue's option `drain_batch`.
        timeout       Seconds after which it returns what was done until then (Stop.TIMEOUT), also when it joined
                      another drain; the drain that it began starts no attempt after that. None: without end.
        conversation  Only its messages are sent and counted; None: all.

        Errors: InvalidError, NoTransportError.
        """
        options = drain_options(batch, timeout, conversation)
        return await self._at_home.drain(options)

    async def set_transport(self, transport: Transport | None) -> None:
        """Sets what sends messages; None takes it away. A task under way goes on with the one that it began with."""
        _require_transport(transport)
        # What the library calls knows its transport: whatever is set or cancelled meanwhile, the two agree.
        sender = self._at_home.attempts.sender(transport)
        await self._change(lambda queue: queue.set_transport(sender))

    # ---------------------------------------------------------------- events

    def events(self) -> EventReader:
        """Every event from this moment on: `async for event in queue.events()`. Each reader gets all of them.

        Up to 10,000 events wait for a slow reader; then the oldest give way to one of kind RESYNC, which says "list
        again". It ends when the queue is closed, after what was left; `aclose`, or letting go of it, ends it before.
        """
        home = self._at_home
        _ = home.queue
        return home.events.reader()

    async def set_event_handler(self, handler: EventHandler | None) -> None:
        """Sets the plain function that is told of events; None takes it away. Readers of `events` are another thing."""
        require_callable("handler", handler)
        home = self._at_home
        _ = home.queue
        home.events.handler = handler


def _require_transport(transport: object) -> None:
    if transport is not None and not callable(transport):
        raise TypeError(f"transport must be callable, not {type(transport).__name__}")

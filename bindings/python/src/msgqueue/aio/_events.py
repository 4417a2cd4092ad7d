"""Events for coroutines: `async for event in queue.events()`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from functools import partial
from weakref import WeakSet

from .._callbacks import EventHandler
from ..enums import EventKind
from ..errors import ClosedError, ForkedError
from ..events import Event
from ..queue import MessageQueue
from ._bridge import Bridge
from ._executor import Executor

logger = logging.getLogger("msgqueue")

MAX_BUFFERED = 10_000


class EventReader(AsyncIterator[Event]):
    """Every event since the call of `MessageQueue.events()`, in order; ends when the queue is closed.

    Up to 10,000 events are buffered for a slow reader. Beyond that the oldest are replaced by one event of kind RESYNC,
    with their number: list again. A reader without references, as after a `break` out of
    `async for event in queue.events()`, receives nothing any more.
    """

    def __init__(self) -> None:
        self._buffer: deque[Event] = deque()
        self._gap: Event | None = None
        self._is_ended = False
        self._changed = asyncio.Event()

    async def __anext__(self) -> Event:
        while True:
            if self._gap is not None:
                gap, self._gap = self._gap, None
                return gap
            if self._buffer:
                return self._buffer.popleft()
            if self._is_ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    async def aclose(self) -> None:
        """Ends the reader and drops the buffered events."""
        self.clear()
        self._end()

    def clear(self) -> None:
        """Drops the buffered events."""
        self._buffer.clear()
        self._gap = None

    def _add(self, event: Event) -> None:
        if self._is_ended:
            return
        if len(self._buffer) >= MAX_BUFFERED:
            self._lose(self._buffer.popleft())
        self._buffer.append(event)
        self._changed.set()

    def _lose(self, event: Event) -> None:
        lost = event.lost_events or 1
        if self._gap is not None:
            lost += self._gap.lost_events or 0
        self._gap = Event(EventKind.RESYNC, at=event.at, lost_events=lost)

    def _end(self) -> None:
        self._is_ended = True
        self._changed.set()


async def anext_or_none(reader: EventReader) -> Event | None:
    """Returns the next event; None: there is no other."""
    try:
        return await reader.__anext__()
    except StopAsyncIteration:
        return None


class Events:
    """The event handler and the readers of one queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bridge: Bridge, handler: EventHandler | None) -> None:
        self.handler = handler
        self._loop = loop
        self._bridge = bridge
        self._readers: WeakSet[EventReader] = WeakSet()
        # Without a listener the library reports no event. From the first one on it does, until the queue is closed.
        self._is_listening = handler is not None

    @property
    def first_handler(self) -> EventHandler | None:
        """What the library calls from the beginning; None: nobody listens yet."""
        return self.publish if self._is_listening else None

    def publish(self, event: Event) -> None:
        """Receives an event from the library, on any thread."""
        self._bridge.post(partial(self._deliver, event))

    def reader(self, queue: MessageQueue, threads: Executor) -> EventReader:
        """Returns a new reader, which receives every event from now on.

        The first one needs the library's lock. While a long call holds it, one of `threads` waits for it, and the
        readers receive an event of kind RESYNC for what they may have missed.
        """
        reader = EventReader()
        self._readers.add(reader)
        if not self._is_listening:
            self._is_listening = True
            if self._bridge.is_in_long_call:
                threads.submit(partial(self._listen_late, queue))
            else:
                self.listen(queue)
        return reader

    def listen(self, queue: MessageQueue) -> None:
        """Asks the library for events. Any thread; a second call changes nothing."""
        queue.set_event_handler(self.publish)
        self._is_listening = True

    def _listen_late(self, queue: MessageQueue) -> None:
        try:
            self.listen(queue)
        except (ClosedError, ForkedError):
            return
        self.publish(Event(EventKind.RESYNC, at=datetime.now(timezone.utc)))

    def end(self) -> None:
        """Ends the readers when the queue is closed."""
        for reader in list(self._readers):
            reader._end()

    def _deliver(self, event: Event) -> None:
        for reader in list(self._readers):
            reader._add(event)
        if self.handler is None:
            return
        try:
            self.handler(event)
        except Exception as problem:
            message = "an event handler raised"
            logger.error(message, exc_info=True)
            self._loop.call_exception_handler({"message": message, "exception": problem, "event": event})

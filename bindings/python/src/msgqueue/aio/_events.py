"""Events for coroutines: `async for event in queue.events()`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from weakref import WeakSet

from .._callbacks import EventHandler
from ..enums import EventKind
from ..events import Event
from ._bridge import Bridge

logger = logging.getLogger("msgqueue")

MOST_WAITING = 10_000


class EventReader(AsyncIterator[Event]):
    """Every event from the moment of `MessageQueue.events()` on, in order; ends when the queue is closed.

    Up to 10,000 events wait for a slow reader. Then the oldest are dropped, and one event of kind RESYNC stands in
    their place: list again. A reader that nobody holds, as after a `break` out of `async for event in queue.events()`,
    receives nothing any more.
    """

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._gap: Event | None = None
        self._is_ended = False
        self._news = asyncio.Event()

    async def __anext__(self) -> Event:
        while True:
            if self._gap is not None:
                gap, self._gap = self._gap, None
                return gap
            if self._waiting:
                return self._waiting.popleft()
            if self._is_ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    async def aclose(self) -> None:
        """Ends the reader and drops the events that wait."""
        self._waiting.clear()
        self._gap = None
        self._end()

    def _hear(self, event: Event) -> None:
        if self._is_ended:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._gap = Event(EventKind.RESYNC, at=self._waiting.popleft().at)
        self._waiting.append(event)
        self._news.set()

    def _end(self) -> None:
        self._is_ended = True
        self._news.set()


class Events:
    """Who hears the events of one queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bridge: Bridge, handler: EventHandler | None) -> None:
        self.handler = handler
        self._loop = loop
        self._bridge = bridge
        self._readers: WeakSet[EventReader] = WeakSet()

    def tell(self, event: Event) -> None:
        """The library's event handler."""
        self._bridge.post(partial(self._hear, event))

    def reader(self) -> EventReader:
        """Another one who hears."""
        reader = EventReader()
        self._readers.add(reader)
        return reader

    def end(self) -> None:
        """The queue is closed."""
        for reader in list(self._readers):
            reader._end()

    def _hear(self, event: Event) -> None:
        for reader in list(self._readers):
            reader._hear(event)
        if self.handler is None:
            return
        try:
            self.handler(event)
        except Exception as problem:
            message = "an event handler raised"
            logger.error(message, exc_info=True)
            self._loop.call_exception_handler({"message": message, "exception": problem, "event": event})

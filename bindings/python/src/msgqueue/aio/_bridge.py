"""Brings the library's callbacks onto the loop's thread, in order."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import ClosedError, Error, ForkedError, StorageError
from ..queue import MessageQueue
from ._executor import tell

logger = logging.getLogger("msgqueue")

_PAUSE_AFTER_ERROR = 1.0


class Bridge:
    """Polls a queue when its descriptor says so, and takes what callbacks have to say.

    It does not hold the queue: the loop holds the bridge, and would never let go of a queue that nobody closes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: Callable[[], MessageQueue | None] = lambda: None
        self._descriptor = -1
        self._is_watched = False
        # One entry per long call that is under way; a set, because adding and removing is one step for every thread.
        self._long: set[object] = set()
        self._inbox: deque[Callable[[], object]] = deque()

    @property
    def queue(self) -> MessageQueue | None:
        """The queue, as long as somebody holds it."""
        return self._queue()

    def prepare(self, queue: MessageQueue) -> None:
        """Takes a descriptor of its own. Any thread.

        The library closes the queue's on whatever thread closes the queue, and the loop may be watching it, or another
        file under its number, at that moment.
        """
        self._queue = weakref.ref(queue)
        try:
            self._descriptor = os.dup(queue.fileno())
        except OSError as problem:
            raise StorageError(f"no file descriptor left: {problem}") from problem

    def attach(self) -> None:
        """Lets the loop watch it."""
        self._loop.add_reader(self._descriptor, self._readable)
        self._is_watched = True

    def detach(self) -> None:
        """Takes it out of the loop. On the loop's thread, or when the loop is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)

    @contextmanager
    def long_call(self) -> Iterator[None]:
        """Around a call that keeps the library busy: a poll would wait for it, and the loop with it. Any thread."""
        entry = object()
        self._long.add(entry)
        try:
            yield
        finally:
            self._long.discard(entry)
            tell(self._loop, self._again)

    def abandon(self) -> None:
        """As `detach`, on any thread."""
        if not tell(self._loop, self.detach):
            self.detach()

    def post(self, call: Callable[[], object]) -> None:
        """Makes the call on the loop's thread: at once when this is it, behind those that were posted before.

        In `close` the library may run callbacks on the thread that closes, and the next one in the loop's poll again.
        """
        self._inbox.append(call)
        if self._is_here:
            self._empty()
        else:
            tell(self._loop, self._empty)

    @property
    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _empty(self) -> None:
        try:
            while self._inbox:
                self._inbox.popleft()()
        finally:
            # Ctrl-C went through here; what is behind it is not lost.
            if self._inbox:
                self._loop.call_soon(self._empty)

    def _readable(self) -> None:
        """The descriptor is level-triggered: what one poll leaves, the loop comes back for after its other work."""
        queue = self.queue
        try:
            if queue is None:
                self.detach()
            elif self._long:
                self._look_away()
            else:
                queue.poll(0)
        except ClosedError:
            self.detach()
        except ForkedError:
            # The selector is shared with the parent: to take anything out here would take it from the parent.
            raise
        except Error:
            # It should not be; but giving up would leave the queue dumb, and trying at once would spin.
            logger.error("a queue could not be polled", exc_info=True)
            self._look_away()
            self._loop.call_later(_PAUSE_AFTER_ERROR, self._again)

    def _look_away(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._is_watched = False

    def _again(self) -> None:
        if self._descriptor >= 0 and not self._is_watched and not self._long:
            self.attach()

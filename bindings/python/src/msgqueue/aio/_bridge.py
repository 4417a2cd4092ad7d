"""Runs the library's callbacks on the loop's thread, in order."""

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
from ._executor import call_on_loop

logger = logging.getLogger("msgqueue")

# Seconds until the next poll after one that failed.
_RETRY_DELAY = 1.0


class Bridge:
    """Polls a queue when its descriptor is readable, and runs calls that callbacks post.

    It refers to the queue weakly: the loop refers to the bridge, and would keep a queue alive that is never closed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: Callable[[], MessageQueue | None] = lambda: None
        self._descriptor = -1
        self._is_watched = False
        # One entry per long call in progress. A set, because its add and discard are atomic.
        self._long_calls: set[object] = set()
        self._posted: deque[Callable[[], object]] = deque()

    @property
    def queue(self) -> MessageQueue | None:
        """The queue, while references to it exist."""
        return self._queue()

    def prepare(self, queue: MessageQueue) -> None:
        """Duplicates the descriptor of the queue. Any thread.

        The library closes the original on the thread that closes the queue. At that moment the loop may be watching it,
        or another file that got its number.
        """
        self._queue = weakref.ref(queue)
        try:
            self._descriptor = os.dup(queue.fileno())
        except OSError as problem:
            raise StorageError(f"no file descriptor left: {problem}") from problem

    def attach(self) -> None:
        """Lets the loop watch the descriptor."""
        self._loop.add_reader(self._descriptor, self._readable)
        self._is_watched = True

    def detach(self) -> None:
        """Removes the descriptor from the loop and closes it. On the loop's thread, or when the loop is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)

    @property
    def is_in_long_call(self) -> bool:
        """Whether a call holds the library's lock for long."""
        return bool(self._long_calls)

    @contextmanager
    def long_call(self) -> Iterator[None]:
        """Suspends polling during a call that holds the library's lock: a poll would block the loop. Any thread."""
        entry = object()
        self._long_calls.add(entry)
        try:
            yield
        finally:
            self._long_calls.discard(entry)
            call_on_loop(self._loop, self._watch_again)

    def abandon(self) -> None:
        """Like `detach`, on any thread."""
        if not call_on_loop(self._loop, self.detach):
            self.detach()

    def post(self, call: Callable[[], object]) -> None:
        """Makes a call on the loop's thread, after those posted before; at once when this is that thread.

        During `close` the library runs callbacks on the thread that closes, or in the loop's poll.
        """
        if not self._is_here:
            self._posted.append(call)
            call_on_loop(self._loop, self._run_posted)
        elif self._posted:
            self._posted.append(call)
            self._run_posted()
        else:
            call()

    @property
    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _run_posted(self) -> None:
        try:
            while self._posted:
                self._posted.popleft()()
        finally:
            # After a KeyboardInterrupt the rest runs later.
            if self._posted:
                self._loop.call_soon(self._run_posted)

    def _readable(self) -> None:
        """Polls once. The descriptor is level-triggered: the loop comes back for what one poll leaves."""
        queue = self.queue
        try:
            if queue is None:
                self.detach()
            elif self._long_calls:
                self._unwatch()
            else:
                queue.poll(0)
        except ClosedError:
            self.detach()
        except ForkedError:
            # The selector is shared with the parent: removing the descriptor here would remove it there.
            raise
        except Error:
            # Not expected. Stopping would end all callbacks, and polling again at once could spin.
            logger.error("polling the queue failed", exc_info=True)
            self._unwatch()
            self._loop.call_later(_RETRY_DELAY, self._watch_again)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._is_watched = False

    def _watch_again(self) -> None:
        if self._descriptor >= 0 and not self._is_watched and not self._long_calls:
            self.attach()

"""The calls of a polled queue, whose callbacks run where its host polls."""

from __future__ import annotations

import ctypes
import threading
import time

from . import _arguments
from ._handle import Handle
from .errors import ClosedError, ConflictError

# Milliseconds between two checks for signals, which only the main thread handles.
_SIGNAL_INTERVAL = 200


class Polling:
    """The calls of a queue that was opened with `polled=True`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def poll(self, timeout: float | None = None) -> int:
        """Runs the callbacks that are due, on this thread: 64 at most, so that a loop around it is not blocked.

        It also does what is due at a time: retries, time-outs, expiry, the flush of outcomes. That takes as long as a
        flush of the disk, and is not counted.

        Several threads may poll at a time: then a transport that blocks sends several conversations in parallel. Inside
        a callback it runs nothing. KeyboardInterrupt and SystemExit in a callback, or while the main thread waits here,
        are raised from here; other exceptions of callbacks are not, see `set_transport` and `set_event_handler`.

        Args:
            timeout: Seconds to wait for a callback when there is none; 0: not at all, None: without end.

        Returns:
            The number of callbacks that ran.

        Raises:
            ConflictError: The queue was not opened with polled=True.
            ClosedError: The queue is closed, or was closed while this waited.
        """
        limit = _arguments.timeout("timeout", timeout)
        handle = self._handle
        _ = self._polled
        handles_signals = handle.waits and threading.current_thread() is threading.main_thread()
        deadline = time.monotonic() + limit / 1000
        ran = ctypes.c_size_t()
        while True:
            step = self._step(limit) if handles_signals else limit
            handle.check(handle.poll(step, ran))
            if limit >= 0:
                limit = max(round((deadline - time.monotonic()) * 1000), 0)
            if ran.value or limit == 0 or not handles_signals:
                return ran.value

    def fileno(self) -> int:
        """Returns a file descriptor that is readable while `poll` has work, level-triggered: callbacks, or what is due.

        With it the queue itself can be given to `select`, `selectors`, `poll`, `epoll`, and to a loop's `add_reader`.
        Remove it from there before `close`, which closes the descriptor: its number may then become another file's.
        Never read, write or close it.

        Raises:
            ConflictError: The queue was not opened with polled=True.
            ClosedError: The queue is closed.
        """
        descriptor: int = self._handle.lib.msgq_fd(self._polled)
        if descriptor < 0:
            raise ClosedError("the queue is closed")
        return descriptor

    @staticmethod
    def _step(limit: int) -> int:
        """Returns the milliseconds for one call of the library; a negative limit means without end."""
        return _SIGNAL_INTERVAL if limit < 0 else min(_SIGNAL_INTERVAL, limit)

    @property
    def _polled(self) -> int:
        """The handle's pointer, when the queue is polled."""
        if self._handle.poll_threads is not None:
            raise ConflictError("the callbacks of this queue run on its own threads; open it with polled=True to poll")
        return self._handle.pointer

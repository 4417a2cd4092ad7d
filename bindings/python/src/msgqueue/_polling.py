"""Polling: a queue whose callbacks run where its host polls, for event loops and for programs without threads."""

from __future__ import annotations

import ctypes
import threading
import time

from . import _arguments
from ._handle import Handle
from .errors import ClosedError, ConflictError

# Milliseconds between two looks for signals, which only the main thread handles, between two calls of the library.
_ATTENTION = 200


class Polling:
    """The calls of a queue that was opened with `polled=True`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def poll(self, timeout: float | None) -> int:
        """See `MessageQueue.poll`."""
        limit = _arguments.timeout("timeout", timeout)
        handle = self._handle
        _ = self._polled
        attentive = threading.current_thread() is threading.main_thread()
        deadline = time.monotonic() + limit / 1000
        ran = ctypes.c_size_t()
        while True:
            step = min(_ATTENTION, limit) if attentive and limit >= 0 else _ATTENTION if attentive else limit
            handle.check(handle.poll(step, ran))
            if limit >= 0:
                limit = max(round((deadline - time.monotonic()) * 1000), 0)
            if ran.value or limit == 0 or not attentive:
                return ran.value

    def fileno(self) -> int:
        """See `MessageQueue.fileno`."""
        descriptor: int = self._handle.lib.msgq_fd(self._polled)
        if descriptor < 0:
            raise ClosedError("the queue is closed")
        return descriptor

    @property
    def _polled(self) -> int:
        if self._handle.poll_threads is not None:
            raise ConflictError("the callbacks of this queue run on its own threads; open it with polled=True to poll")
        return self._handle.pointer

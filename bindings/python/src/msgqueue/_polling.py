"""Queues whose callbacks run where their host polls, for event loops and for programs that want no threads."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

from . import _abi, _arguments, _logs
from ._callbacks import drained_trampoline, expect_drain, forget_drain, raise_interruption
from ._reading import Reading
from .enums import Result
from .errors import ClosedError, ConflictError
from .models import Report

# Only the main thread hears signals, and only between two calls of the library. So long may Ctrl-C wait: milliseconds.
_ATTENTION = 200


class Polling(Reading):
    """What a queue that was opened with `polled=True` can do more."""

    def poll(self, timeout: float | None = None) -> int:
        """Runs the callbacks that are waiting, on this thread, and returns how many ran: 64 at most, so that a loop
        around it goes on. With none, waits for one, at most `timeout` seconds (0: not at all; None: without end), and
        returns 0 when none came.

        Several threads may poll at a time: that is how several conversations are sent side by side by a transport that
        blocks. From inside a callback it runs nothing. Ctrl-C in a callback, or while the main thread waits here, is
        raised from here; other exceptions of callbacks are not, see `set_transport` and `set_event_handler`.

        Errors: ConflictError (the queue was not opened with polled=True), ClosedError (also: closed while this waited).
        """
        limit = _arguments.timeout("timeout", timeout)
        pointer = self._polled
        attentive = threading.current_thread() is threading.main_thread()
        deadline = time.monotonic() + limit / 1000
        ran = ctypes.c_size_t()
        while True:
            step = min(_ATTENTION, limit) if attentive and limit >= 0 else _ATTENTION if attentive else limit
            result = self._lib.msgq_poll(pointer, step, ran)
            raise_interruption()
            _logs.read(self._lib)
            self._check(result)
            if limit >= 0:
                limit = max(round((deadline - time.monotonic()) * 1000), 0)
            if ran.value or limit == 0 or not attentive:
                return ran.value

    def fileno(self) -> int:
        """A file descriptor that is readable while `poll` has work, level-triggered, so that the queue itself can be
        given to `select`, `selectors`, `poll`, `epoll`, and to a loop's `add_reader`. Take it out of there before
        `close`: it is gone then, and its number may become another file's. Never read, write or close it.

        Errors: ConflictError (the queue was not opened with polled=True), ClosedError.
        """
        descriptor: int = self._lib.msgq_fd(self._polled)
        if descriptor < 0:
            raise ClosedError("the queue is closed")
        return descriptor

    @property
    def _polled(self) -> int:
        if self._handle.service is not None:
            raise ConflictError("the callbacks of this queue run on its own threads; open it with polled=True to poll")
        return self._handle.pointer

    def _drain_then(self, options: _abi.DrainOptions, done: Callable[[Report], object]) -> None:
        """Starts a drain, or joins the one that runs. `done` gets its report where callbacks run, after the events of
        it were told, or in `close`. Errors: NoTransportError.
        """
        context = expect_drain(done)
        result = self._lib.msgq_drain_async(self._handle.pointer, options, drained_trampoline, context)
        if result != Result.OK:
            forget_drain(context)
        self._check(result)

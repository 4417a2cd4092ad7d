"""The handle of an open queue, and its close, which must happen exactly once."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import logging
import math
import os
import threading
import time
import warnings
from enum import Enum
from typing import NoReturn

from . import _abi, _arguments, _interruptible, _logs
from ._callbacks import Callbacks, call_guarded, raise_interruption
from ._library import last_error, path_error
from ._poll_threads import PollThreads, complete
from .enums import Result
from .errors import ConflictError, Error, ForkedError, TimedOutError
from .outcome import Outcome

logger = logging.getLogger("msgqueue")

# Seconds that `close` waits for attempts in flight by default.
CLOSE_TIMEOUT = 5.0
# Seconds for attempts in flight when the garbage collector or the end of the interpreter closes the queue.
_LAST_TIMEOUT = 1.0
# Seconds to wait for the poll threads after the queue is closed; no callback runs on them any more then.
_JOIN_TIMEOUT = 5.0
# A thread that polled within this many seconds counts as one that polls in a loop.
_POLL_GAP = 0.2

# The number of forks between the process that imported this module and this one.
_forks = 0
_open: dict[int, Handle] = {}


def _file_name(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - a string is enough


class _State(Enum):
    OPEN = 0
    CLOSING = 1
    CLOSED = 2


class Handle:
    """The library's handle of one queue. Threads that use it keep it alive when the `MessageQueue` is gone."""

    def __init__(self, lib: ctypes.CDLL, pointer: int, path: str, max_in_flight: int, polled: bool) -> None:
        self.lib = lib
        self._pointer = pointer
        self._path = path
        self.name = f"msgqueue {_file_name(path)}"
        """The prefix of the names of the queue's threads."""
        self._forks_at_open = _forks
        self._state = _State.OPEN
        self._changed = threading.Condition()
        self.last_timeout = _LAST_TIMEOUT
        """Seconds for attempts in flight when the program does not close the queue."""
        self.waits = True
        """Whether calls that wait take time: those of a simulated queue do not."""
        self.callbacks = Callbacks()
        # A polled queue has no threads: its host polls.
        self.poll_threads = None if polled else PollThreads(lib, pointer, self.name, max_in_flight)
        self.callbacks.poll_threads = self.poll_threads
        # When each thread polled last; infinite while it polls.
        self._polls: dict[int, float] = {}
        _open[self.callbacks.number] = self

    @property
    def pointer(self) -> int:
        """The handle for C, which looks it up and never follows it, so that one of a closed queue is safe.

        Raises:
            ForkedError: This is a forked child. Even a call of the library could wait there for a lock that no thread
                releases.
        """
        if self._forks_at_open != _forks:
            raise ForkedError("the queue belongs to the parent process; open another queue in this process")
        return self._pointer

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that opened the queue."""
        return self._forks_at_open != _forks

    @property
    def is_open(self) -> bool:
        """Whether no call of `close` has begun."""
        return self._state is _State.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether the library refuses calls. A call of `close` that has only begun does not count."""
        if self._state is _State.CLOSING:
            counts = _abi.sized(_abi.Counts)
            return bool(self.lib.msgq_count(self._pointer, None, counts) == Result.CLOSED)
        return self._state is _State.CLOSED

    def check(self, result: int, *paths: bytes) -> None:
        """Raises the error for a result other than OK, with the detail of this thread's last failed call.

        `paths` are those that the call was given.
        """
        if result != Result.OK:
            error = path_error(self.lib, result, *paths)
            _logs.read(self.lib)
            raise error

    def poll(self, timeout_ms: int, ran: ctypes.c_size_t) -> int:
        """Runs the callbacks that are due, on a polled queue, and returns the result of msgq_poll.

        Raises what ended a callback of this thread, for example KeyboardInterrupt.
        """
        thread = threading.get_ident()
        self._polls[thread] = math.inf
        try:
            deferred = 0 if self.callbacks.is_running_here else self._run_deferred()
            result = call_guarded(self.lib.msgq_poll, self._pointer, 0 if deferred else timeout_ms, ran)
        finally:
            self._polls[thread] = time.monotonic()
        ran.value += deferred
        raise_interruption()
        _logs.read(self.lib)
        return result

    @property
    def others_poll(self) -> bool:
        """Whether another thread polls, or did within `_POLL_GAP` seconds."""
        now = time.monotonic()
        for thread, last in list(self._polls.items()):
            if last < now - _POLL_GAP:
                self._polls.pop(thread, None)
            elif thread != threading.get_ident():
                return True
        return False

    def _run_deferred(self) -> int:
        """Makes the attempts that were deferred because of Ctrl-C. Returns their number."""
        ran = 0
        while self.callbacks.deferred:
            tokens, send = self.callbacks.deferred.popleft()
            self._answer(tokens, send())
            raise_interruption()
            ran += 1
        return ran

    def _answer(self, tokens: list[int], outcomes: list[Outcome]) -> None:
        # An answer after the time-out is refused; the attempt is recorded already. So the result does not matter.
        complete(self.lib, self._pointer, zip(tokens, outcomes))

    def close_interruptibly(self, timeout: float | None) -> None:
        """Closes as `close` does. Ctrl-C ends the wait; the queue is closed all the same."""
        if self.poll_threads is None or self.callbacks.is_running_here:
            self.close(timeout)
        else:
            _arguments.timeout("timeout", timeout)
            _ = self.pointer
            _interruptible.run(lambda: self.close(timeout), f"{self.name} close")

    def close(self, timeout: float | None, wait: float | None = None) -> None:
        """Closes as `MessageQueue.close` does, without checking for signals.

        Args:
            timeout: Seconds for attempts in flight; None: without end.
            wait: Seconds for a close on another thread; None: as `timeout`.
        """
        limit = _arguments.timeout("timeout", timeout)
        pointer = self.pointer
        if self.callbacks.is_running_here:
            raise ConflictError("a queue cannot be closed inside its own callback")
        if not self._begin(timeout if wait is None else wait):
            return
        while self.callbacks.deferred:
            tokens, _ = self.callbacks.deferred.popleft()
            self._answer(tokens, [Outcome.offline(text="interrupted before the attempt began")] * len(tokens))
        result: int = Result.INTERNAL
        error = None
        try:
            result = call_guarded(self.lib.msgq_close, pointer, limit)
            if result not in (Result.OK, Result.CLOSED):
                error = last_error(self.lib, result)
        finally:
            self._end(result)
        if result == Result.OK and self.poll_threads is not None:
            self.poll_threads.join(_JOIN_TIMEOUT)
        if error is not None:
            raise error

    def abandon(self) -> None:
        """Closes the queue when no reference to it is left. May run on any thread, as the garbage collector does."""
        if self.is_forked or not self.is_open:
            return
        try:
            # On another thread, because closing delivers events, and their handler may need a lock that this thread
            # holds. Not a threading.Thread, because starting one takes locks that this thread may hold.
            _thread.start_new_thread(self.close_quietly, ())
        except RuntimeError:
            # The interpreter is ending. The store is safe without a close.
            return
        warnings.warn(f"unclosed queue {self._path!r}", ResourceWarning, stacklevel=2)

    def close_quietly(self) -> None:
        """Closes, and logs an error instead of raising it."""
        if self.is_forked:
            return
        try:
            self.close(self.last_timeout, _LAST_TIMEOUT)
        except Error as problem:
            logger.warning("closing %s: %s", self._path, problem)

    def _begin(self, timeout: float | None) -> bool:
        """Returns whether the caller is the one to close. Waits for another thread that closes."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._state is not _State.CLOSING, timeout):
                raise TimedOutError("another thread is still closing the queue")
            if self._state is _State.CLOSED:
                return False
            self._state = _State.CLOSING
            return True

    def _end(self, result: int) -> None:
        refused = result == Result.CONFLICT
        with self._changed:
            self._state = _State.OPEN if refused else _State.CLOSED
            self._changed.notify_all()
        if not refused:
            _open.pop(self.callbacks.number, None)
            self.callbacks.forget()
            _logs.read(self.lib)
            if self.poll_threads is not None:
                self.poll_threads.end_log()


def refuse_copy(queue: object) -> NoReturn:
    """Refuses `copy` and `pickle` of a queue."""
    raise TypeError(
        f"a {type(queue).__name__} cannot be copied or pickled, because one process owns a store: in another process "
        "open a queue on another store, or enqueue into this one through msgqueue.control"
    )


def block_timeout(problem: BaseException | None, longest_attempt: float) -> float:
    """Returns the seconds that the end of a `with` block waits for attempts in flight."""
    if problem is not None and not isinstance(problem, Exception):
        # KeyboardInterrupt, SystemExit, asyncio.CancelledError: the program is to end soon.
        return CLOSE_TIMEOUT
    return longest_attempt + CLOSE_TIMEOUT


def _close_all() -> None:
    for handle in list(_open.values()):
        handle.close_quietly()


def _forked() -> None:
    global _forks
    _forks += 1
    _open.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)

"""An open queue of the library, and everything that must happen to it exactly once: closing above all."""

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

from . import _abi, _arguments, _interruptible, _logs
from ._callbacks import Callbacks, call_guarded, raise_interruption
from ._library import last_error
from ._poll_threads import PollThreads
from .enums import Result, Verdict
from .errors import ConflictError, Error, ForkedError, TimedOutError
from .outcome import Outcome

logger = logging.getLogger("msgqueue")

# Seconds when nobody closes the queue but the garbage collector or the interpreter's end.
_LAST_PATIENCE = 1.0
# Seconds for the polling threads to notice that the queue is closed; no callback runs on them any more then.
_JOIN_PATIENCE = 5.0
# Seconds between two polls of a thread that polls in a loop.
_POLL_GAP = 0.2

# How often this process was born by a fork of a process that had this module loaded.
_forks = 0
_open: dict[int, Handle] = {}


def _file_name(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - no path is wanted


class _State(Enum):
    OPEN = 0
    CLOSING = 1
    CLOSED = 2


class Handle:
    """What outlives the `MessageQueue` in front of it for as long as threads use it."""

    def __init__(self, lib: ctypes.CDLL, pointer: int, path: str, max_in_flight: int, polled: bool) -> None:
        self.lib = lib
        self._pointer = pointer
        self._path = path
        self.name = f"msgqueue {_file_name(path)}"
        """What the threads of the queue are named after."""
        self._born = _forks
        self._state = _State.OPEN
        self._changed = threading.Condition()
        self.last_patience = _LAST_PATIENCE
        """Seconds for attempts in flight when nobody closes the queue."""
        self.callbacks = Callbacks()
        # A polled queue has no threads: its host polls.
        self.poll_threads = None if polled else PollThreads(lib, pointer, self.name, max_in_flight)
        self.callbacks.poll_threads = self.poll_threads
        # When each thread polled last; without end while it polls.
        self._polls: dict[int, float] = {}
        _open[self.callbacks.number] = self

    @property
    def pointer(self) -> int:
        """What C is given. It is looked up there, never followed, so that even that of a closed queue is safe.

        ForkedError in a forked child: there even asking the library could wait for a lock that nobody will release.
        """
        if self._born != _forks:
            raise ForkedError("the queue belongs to the parent process; open another in this one")
        return self._pointer

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that opened the queue."""
        return self._born != _forks

    @property
    def is_open(self) -> bool:
        """Whether nobody began to close it."""
        return self._state is _State.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether the library refuses calls: not yet when somebody has only begun to close the queue."""
        if self._state is _State.CLOSING:
            counts = _abi.sized(_abi.Counts)
            return bool(self.lib.msgq_count(self._pointer, None, counts) == Result.CLOSED)
        return self._state is _State.CLOSED

    def check(self, result: int) -> None:
        """Raises the error for a result other than OK, with the detail of this thread's last failed call."""
        if result != Result.OK:
            error = last_error(self.lib, result)
            _logs.read(self.lib)
            raise error

    def poll(self, timeout_ms: int, ran: ctypes.c_size_t) -> int:
        """Runs what waits, on a polled queue, and returns the result of msgq_poll.

        What ended a callback of this thread, as KeyboardInterrupt, is raised.
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
        """Whether another thread polls, or did until a moment ago."""
        now = time.monotonic()
        for thread, last in list(self._polls.items()):
            if last < now - _POLL_GAP:
                self._polls.pop(thread, None)
            elif thread != threading.get_ident():
                return True
        return False

    def _run_deferred(self) -> int:
        """Makes the attempts that Ctrl-C had put off; how many."""
        ran = 0
        while self.callbacks.deferred:
            token, send = self.callbacks.deferred.popleft()
            self._answer(token, send())
            raise_interruption()
            ran += 1
        return ran

    def _answer(self, token: int, outcome: Outcome) -> None:
        if outcome.verdict is not Verdict.PENDING:
            # What comes after the time-out is refused, and rightly so: the ledger has its line.
            self.lib.msgq_complete(self._pointer, token, outcome._for_c())

    def close_interruptibly(self, timeout: float | None) -> None:
        """Closes as `close` does. Ctrl-C ends the wait; the queue is closed all the same."""
        if self.poll_threads is None or self.callbacks.is_running_here:
            self.close(timeout)
        else:
            _arguments.timeout("timeout", timeout)
            _ = self.pointer
            _interruptible.run(lambda: self.close(timeout), f"{self.name} close")

    def close(self, timeout: float | None, patience: float | None = None) -> None:
        """See `MessageQueue.close`. `patience`: seconds for another's closing, when not the same."""
        limit = _arguments.timeout("timeout", timeout)
        pointer = self.pointer
        if self.callbacks.is_running_here:
            raise ConflictError("a queue cannot be closed from inside its own callback")
        if not self._begin(timeout if patience is None else patience):
            return
        while self.callbacks.deferred:
            token, _ = self.callbacks.deferred.popleft()
            self._answer(token, Outcome.offline(text="interrupted before it began"))
        result: int = Result.INTERNAL
        error = None
        try:
            result = call_guarded(self.lib.msgq_close, pointer, limit)
            if result not in (Result.OK, Result.CLOSED):
                error = last_error(self.lib, result)
        finally:
            self._end(result)
        if result == Result.OK and self.poll_threads is not None:
            self.poll_threads.join(_JOIN_PATIENCE)
        if error is not None:
            raise error

    def abandon(self) -> None:
        """Nobody holds the queue any more. May run anywhere, as garbage is collected anywhere."""
        if self.is_forked or not self.is_open:
            return
        try:
            # Closing tells the events that are left, and their handler may need a lock that is held right here. Not
            # a threading.Thread: starting one takes locks of that module, which may be held right here, too.
            _thread.start_new_thread(self.close_quietly, ())
        except RuntimeError:
            # The interpreter is ending; what is on disk is safe.
            return
        warnings.warn(f"unclosed queue {self._path!r}", ResourceWarning, stacklevel=2)

    def close_quietly(self) -> None:
        """Closes where nobody could be told of an error."""
        if self.is_forked:
            return
        try:
            self.close(self.last_patience, _LAST_PATIENCE)
        except Error as problem:
            logger.warning("closing %s: %s", self._path, problem)

    def _begin(self, timeout: float | None) -> bool:
        """Whether the caller is the one to close; another's closing is waited for."""
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


def _close_all() -> None:
    for handle in list(_open.values()):
        handle.close_quietly()


def _forked() -> None:
    global _forks
    _forks += 1
    _open.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)

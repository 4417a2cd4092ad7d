"""An open queue of the library, and everything that must happen to it exactly once: closing above all."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import logging
import os
import threading
import warnings
from enum import Enum

from . import _abi, _arguments, _logs
from ._callbacks import Callbacks
from ._library import last_error
from ._service import Service
from .enums import Result
from .errors import ConflictError, Error, ForkedError, TimedOutError

logger = logging.getLogger("msgqueue")

# Seconds when nobody closes the queue but the garbage collector or the interpreter's end.
_LAST_PATIENCE = 1.0
# Seconds for the service threads to notice that the queue is closed; no callback runs on them any more then.
_JOIN_PATIENCE = 5.0

# How often this process was born by a fork of a process that had this module loaded.
_forks = 0
_open: dict[int, Handle] = {}


def name_of(path: str) -> str:
    """The file's name, which threads are named after."""
    return os.path.basename(path)  # noqa: PTH119 - no path is wanted


class _State(Enum):
    OPEN = 0
    CLOSING = 1
    CLOSED = 2


class Handle:
    """What outlives the `MessageQueue` in front of it for as long as threads use it."""

    def __init__(self, lib: ctypes.CDLL, pointer: int, path: str, max_in_flight: int, polled: bool) -> None:
        self._lib = lib
        self._pointer = pointer
        self._path = path
        self._born = _forks
        self._state = _State.OPEN
        self._changed = threading.Condition()
        self.last_patience = _LAST_PATIENCE
        """Seconds for attempts in flight when nobody closes the queue."""
        self.callbacks = Callbacks()
        # A polled queue has no threads: its host polls.
        self.service = None if polled else Service(lib, pointer, f"msgqueue {name_of(path)}", max_in_flight)
        self.callbacks.service = self.service
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
            return bool(self._lib.msgq_count(self._pointer, None, counts) == Result.CLOSED)
        return self._state is _State.CLOSED

    def close(self, timeout: float | None, patience: float | None = None) -> None:
        """See `MessageQueue.close`. `patience`: seconds for another's closing, when not the same."""
        limit = _arguments.timeout("timeout", timeout)
        pointer = self.pointer
        if self.callbacks.is_running_here:
            raise ConflictError("a queue cannot be closed from inside its own callback")
        if not self._begin(timeout if patience is None else patience):
            return
        result, error = Result.INTERNAL, None
        try:
            result = self._lib.msgq_close(pointer, limit)
            if result not in (Result.OK, Result.CLOSED):
                error = last_error(self._lib, result)
        finally:
            self._end(result)
        if result == Result.OK and self.service is not None:
            self.service.join(_JOIN_PATIENCE)
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
            _logs.read(self._lib)
            if self.service is not None:
                self.service.end_log()


def _close_all() -> None:
    for handle in list(_open.values()):
        handle.close_quietly()


def _forked() -> None:
    global _forks
    _forks += 1
    _open.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)

"""Passes the library's log lines to `logging`.

No thread of the library may enter Python, so the library buffers lines until they are read here: by a daemon thread
while a queue has threads, otherwise in `poll`, after an error, and in `close`.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import sys
import threading

from . import _abi, _arguments, _threads
from ._library import library
from .enums import LogLevel

logger = logging.getLogger("msgqueue")

_LEVELS: dict[int, int] = {
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
}
# Seconds for a handler of `logging` to return when the last queue with threads is closed.
_JOIN_TIMEOUT = 1.0

_line = ctypes.create_string_buffer(_abi.LOG_SIZE)
_level = ctypes.c_int()


class _State:
    """The state of this process; a forked child gets a new one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # One reader at a time, which keeps the order of the lines.
        self.reading = threading.Lock()
        self.queues = 0
        self.thread: threading.Thread | None = None
        # The write end of a pipe. The thread, which has the read end, ends when this one is closed.
        self.wake: int | None = None
        self.inherited: list[int] = []
        self.lost = 0


_state = _State()
_is_begun = False
# The level that the program chose; None: that of the logger.
_chosen: LogLevel | None = None


def set_log_level(level: LogLevel | None = None) -> None:
    """Sets the least severe level of which the library makes log lines, for the whole process. Any thread.

    With DEBUG one line says of each step what happened: a message was enqueued, an attempt began, it ended and why, a
    prompt was raised, connectivity changed, a drain started. Other levels cost nothing measurable.

    Opening a queue takes the level from the logger `msgqueue`: DEBUG if the logger is enabled for it, otherwise INFO.
    `logging` does not report later changes, so call this after one while a queue is open.

    Args:
        level: A level that the logger's does not change any more; None: that of the logger, now and whenever a queue is
            opened.
    """
    global _chosen
    _chosen = None if level is None else _arguments.member("level", level, LogLevel)
    _pass_level(library())


def _pass_level(lib: ctypes.CDLL) -> None:
    level = _chosen
    if level is None:
        # Never less than INFO: a line that the logger does not want now may be wanted when it arrives.
        level = LogLevel.DEBUG if logger.isEnabledFor(logging.DEBUG) else LogLevel.INFO
    lib.msgq_set_log_level(level)


def begin(lib: ctypes.CDLL) -> None:
    """Directs lines to `logging` from now on, unless MSGQUEUE_LOG is "off". Called before a queue is opened."""
    global _is_begun
    setting = os.environ.get("MSGQUEUE_LOG")
    if setting == "off":
        return
    if setting == "debug" and logger.level == logging.NOTSET:
        logger.setLevel(logging.DEBUG)
    _pass_level(lib)
    lib.msgq_log_fd()
    _is_begun = True


def read(lib: ctypes.CDLL) -> None:
    """Logs the buffered lines, unless another thread is doing that."""
    state = _state
    if _is_begun and state.reading.acquire(blocking=False):
        _read(state, lib)


def listen(lib: ctypes.CDLL) -> bool:
    """Lets a thread log lines when they arrive, until `unlisten`. Returns False when it cannot be started."""
    if not _is_begun:
        return False
    state = _state
    with state.lock:
        if state.thread is None and not _start(state, lib):
            return False
        state.queues += 1
    return True


def unlisten() -> None:
    """Ends the thread when no queue needs it any more, after it has logged what is left."""
    state = _state
    with state.lock:
        state.queues -= 1
        if state.queues > 0 or state.thread is None or state.wake is None:
            return
        thread, state.thread = state.thread, None
        os.close(state.wake)
        state.wake, state.inherited = None, []
    if thread is not threading.current_thread():
        thread.join(_JOIN_TIMEOUT)


def _start(state: _State, lib: ctypes.CDLL) -> bool:
    lines = lib.msgq_log_fd()
    if lines < 0:
        return False
    try:
        ended, wake = os.pipe()
    except OSError:
        return False
    thread = threading.Thread(target=_run, args=(state, lib, lines, ended), name="msgqueue-log", daemon=True)
    try:
        _threads.start(thread)
    except RuntimeError:
        os.close(ended)
        os.close(wake)
        return False
    state.thread, state.wake, state.inherited = thread, wake, [ended, wake]
    return True


def _run(state: _State, lib: ctypes.CDLL, lines: int, ended: int) -> None:
    watch = select.poll()
    watch.register(lines, select.POLLIN)
    watch.register(ended, select.POLLIN)
    found: list[int] = []
    while ended not in found:
        found = [descriptor for descriptor, _ in watch.poll()]
        state.reading.acquire()
        _read(state, lib)
        if state is not _state:
            # A handler forked, and this is the child, where the descriptors are closed.
            return
    os.close(ended)


def _read(state: _State, lib: ctypes.CDLL) -> None:
    """Logs the buffered lines. The caller has acquired `reading`, which is released here."""
    try:
        while lib.msgq_log_next(_level, _line, _abi.LOG_SIZE):
            level, text = _LEVELS.get(_level.value, logging.ERROR), _line.value.decode("utf-8", "replace")
            if _would_block():
                state.lost += 1
                continue
            if state.lost > 0:
                _log(logging.WARNING, f"{state.lost} log lines were lost")
                state.lost = 0
            _log(level, text)
    finally:
        state.reading.release()


def _log(level: int, text: str) -> None:
    try:
        if level < logging.WARNING and os.environ.get("MSGQUEUE_LOG") == "debug" and not logger.hasHandlers():
            _show(level, text)
        else:
            logger.log(level, "%s", text)
    except Exception:  # noqa: BLE001 - a defect of the program's handler
        return


def _show(level: int, text: str) -> None:
    """Writes a line as `logging` writes warnings when the program has not configured it."""
    if logging.lastResort is not None and logger.isEnabledFor(level):
        logging.lastResort.handle(logger.makeRecord(logger.name, level, __file__, 0, "%s", (text,), None))


def _would_block() -> bool:
    """Whether writing a line would block because standard error is full.

    `logging` writes warnings there when the program has not configured it.
    """
    if logger.hasHandlers():
        return False
    watch = select.poll()
    try:
        watch.register(sys.stderr.fileno(), select.POLLOUT)
        return not watch.poll(0)
    except (AttributeError, OSError, ValueError):
        # Standard error is closed, or is not a file.
        return False


def _forked() -> None:
    global _state
    # The parent's pipe. This runs before other code could have closed it in the child.
    for descriptor in _state.inherited:
        os.close(descriptor)
    _state = _State()


os.register_at_fork(after_in_child=_forked)

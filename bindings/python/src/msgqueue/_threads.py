"""Starts the threads of the library, so that none of them is about to begin when the interpreter ends.

CPython before 3.11.4 frees the state of a thread that was created and has not begun when the interpreter ends; the
thread then reads that state, and the process crashes. A loop on a daemon thread can start a thread at that moment.
"""

from __future__ import annotations

import atexit
import os
import threading

# Held while a thread is started: `start` returns after the thread has begun. Reentrant, because a signal handler may
# interrupt a start and start a thread.
_starting = threading.RLock()
_is_ending = False


def start(thread: threading.Thread) -> None:
    """Starts a thread. While the interpreter ends, the main thread alone can start one: it waits until that has begun.

    Raises:
        RuntimeError: The system has no thread left, or the interpreter is ending.
    """
    with _starting:
        if _is_ending and threading.current_thread() is not threading.main_thread():
            raise RuntimeError("can't start a thread: the interpreter is ending")
        thread.start()


def _end() -> None:
    global _is_ending
    with _starting:
        _is_ending = True


def _forked() -> None:
    global _starting
    # Another thread may have held it.
    _starting = threading.RLock()


# Runs after the queues are closed: `_handle` registers its function later than this.
atexit.register(_end)
os.register_at_fork(after_in_child=_forked)

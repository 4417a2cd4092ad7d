"""Long calls of the library that Ctrl-C can end.

Python handles signals on the main thread only, between two instructions of its own. A call into the library that waits
on that thread would delay Ctrl-C until it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from . import _threads

T = TypeVar("T")

# Seconds between two checks for signals.
_SIGNAL_INTERVAL = 0.2


def run(call: Callable[[], T], name: str) -> T:
    """Returns or raises what the call does. When called on the main thread, another thread makes the call.

    An exception that a signal handler raises, such as KeyboardInterrupt, ends the wait; the call continues.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    values: list[T] = []
    problems: list[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        try:
            values.append(call())
        except BaseException as problem:  # noqa: BLE001 - raised on the thread that waits
            problems.append(problem)
        finally:
            ended.set()

    try:
        _threads.start(threading.Thread(target=work, name=name, daemon=True))
    except RuntimeError:
        # No thread can be started: none is left, or the interpreter is ending.
        return call()
    while not ended.wait(_SIGNAL_INTERVAL):
        # Repeated, because a signal just before a wait does not end that wait.
        pass
    if problems:
        try:
            raise problems[0]
        finally:
            # Avoids a reference cycle: the traceback of the exception refers to this frame.
            problems.clear()
    return values[0]

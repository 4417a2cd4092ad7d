"""Long calls of the library that Ctrl-C can end.

Python handles signals on the main thread only, between two of its own instructions; a call into the library that waits
there would keep Ctrl-C waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds between two looks for signals.
_ATTENTION = 0.2


def run(call: Callable[[], T], name: str) -> T:
    """Returns or raises what the call does. On the main thread it is made by another one, which is waited for.

    An exception that a signal handler raises, as KeyboardInterrupt, ends the wait; the call goes on.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    values: list[T] = []
    problems: list[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        try:
            values.append(call())
        except BaseException as problem:  # noqa: BLE001 - it is raised where the call was asked for
            problems.append(problem)
        finally:
            ended.set()

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        # The system, or an interpreter that is ending, gives no thread.
        return call()
    while not ended.wait(_ATTENTION):
        # A signal just before the wait begins does not end it.
        pass
    if problems:
        try:
            raise problems[0]
        finally:
            # The exception refers to this frame by its traceback, and the frame would refer to it.
            problems.clear()
    return values[0]

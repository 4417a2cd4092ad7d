"""Texts for people. Those of a status, a failure or a connectivity are there, for example `Status.label`."""

from __future__ import annotations

import ctypes
import time

from . import _arguments
from ._arguments import Time
from ._library import last_error, library
from .enums import Result

_SIZE = 16


def relative_time(then: Time, now: Time | None = None) -> str:
    """Returns how long ago that was: "Just now", "5m ago", "2h ago", "3d ago", then a date (UTC) as "2024-03-09".

    Args:
        then: The time. One in the future, as after a clock was set back, is "Just now".
        now: The current time; None: by the clock.

    Raises:
        InvalidError: The time is out of range, or a datetime has no time zone.
        LibraryError: libmsgqueue was not found.
    """
    since = _arguments.instant("then", then)
    until = time.time_ns() // 1_000_000 if now is None else _arguments.instant("now", now)
    out = ctypes.create_string_buffer(_SIZE)
    lib = library()
    result = lib.msgq_relative_time(since, until, out, _SIZE)
    if result != Result.OK:
        raise last_error(lib, result)
    return out.value.decode()

"""Checks the arguments of callers, so that nothing wrong reaches C.

There a NUL would silently cut a string, and a number out of range would silently become another one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from enum import IntEnum
from typing import TypeVar, Union

from .enums import Status
from .errors import InvalidError

Body = Union[str, bytes]
# A point in time: seconds since 1970-01-01 UTC, or a datetime with a time zone.
Time = Union[float, datetime]

_Member = TypeVar("_Member", bound=IntEnum)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_MOST_SECONDS = (2**63 - 1) // 1000


def text(name: str, value: object) -> bytes:
    """A string for C, as UTF-8."""
    if not isinstance(value, str):
        raise _wrong_type(name, "str", value)
    if "\0" in value:
        raise InvalidError(f"{name} holds a NUL")
    return _utf8(name, value)


def optional_text(name: str, value: object) -> bytes | None:
    """A string for C, or None for NULL."""
    return None if value is None else text(name, value)


def body(value: object) -> bytes:
    """A message's bytes; a str as UTF-8. Any byte may be inside, NUL included."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8("body", value)
    raise _wrong_type("body", "str or bytes", value)


def flag(name: str, value: object) -> bool:
    """A bool, and nothing that is merely true."""
    if not isinstance(value, bool):
        raise _wrong_type(name, "bool", value)
    return value


def member(name: str, value: object, kind: type[_Member]) -> _Member:
    """A member of that enumeration; its number alone would hide a mistake."""
    if not isinstance(value, kind):
        raise _wrong_type(name, kind.__name__, value)
    return value


def unsigned(name: str, value: object, *, bits: int = 32, least: int = 0) -> int:
    """A whole number from `least` to what fits into so many bits."""
    most = 2**bits - 1
    number = whole(name, value)
    if not least <= number <= most:
        raise InvalidError(f"{name} is {number}, not in {least} to {most}")
    return number


def whole(name: str, value: object) -> int:
    """An int; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(name, "int", value)
    return value


def finite(name: str, value: object) -> float:
    """A number that is one: neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(name, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidError(f"{name} is too large") from None
    if not math.isfinite(number):
        raise InvalidError(f"{name} is {number}")
    return number


def milliseconds(name: str, seconds: object) -> int:
    """A duration in seconds as milliseconds; a short one never becomes 0, which may mean something else."""
    number = finite(name, seconds)
    if not 0 <= number <= _MOST_SECONDS:
        raise InvalidError(f"{name} is {number} seconds, not in 0 to {_MOST_SECONDS}")
    return max(round(number * 1000), 1) if number else 0


def timeout(name: str, seconds: object) -> int:
    """A duration in seconds as milliseconds; None is without end, which C writes as -1."""
    return -1 if seconds is None else milliseconds(name, seconds)


def moment(name: str, value: object) -> int:
    """A point in time after 1970 as milliseconds; None is 0, which C reads as "not given"."""
    if value is None:
        return 0
    number = _of_datetime(name, value) if isinstance(value, datetime) else milliseconds(name, _seconds(name, value))
    if number <= 0:
        raise InvalidError(f"{name} is not after 1970-01-01 UTC")
    return number


def instant(name: str, value: object) -> int:
    """Any point in time as milliseconds, before 1970 too: what a clock said, however wrong it was."""
    if isinstance(value, datetime):
        return _of_datetime(name, value)
    number = finite(name, _seconds(name, value))
    if abs(number) > _MOST_SECONDS:
        raise InvalidError(f"{name} is {number} seconds, not in {-_MOST_SECONDS} to {_MOST_SECONDS}")
    # Down to the millisecond, as clocks are read: what is rounded up would be too young. A float of today is good to
    # the microsecond; below that it is noise.
    return round(number * 1_000_000) // 1000


def path(value: object) -> bytes:
    """A file's name. The library takes UTF-8 only, so that a name of other bytes is refused."""
    if not isinstance(value, (str, os.PathLike)):
        raise _wrong_type("path", "str or os.PathLike", value)
    return text("path", os.fspath(value))


def status_bits(status: object) -> int:
    """One status, several, or None for the unsent ones, as C's bits."""
    if status is None:
        return 0
    if isinstance(status, Status):
        return 1 << status
    if not isinstance(status, Iterable):
        raise _wrong_type("status", "a Status or several", status)
    bits = 0
    for each in status:
        bits |= 1 << member("status", each, Status)
    if not bits:
        # C reads no bit at all as "the unsent ones", which is not what an empty choice says.
        raise InvalidError("status names no status")
    return bits


def _of_datetime(name: str, value: datetime) -> int:
    if value.utcoffset() is None:
        raise InvalidError(f"{name} has no time zone: say which moment is meant")
    return (value - _EPOCH) // _MILLISECOND


def _seconds(name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(name, "seconds since 1970 or a datetime", value)
    return value


def _utf8(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as problem:
        raise InvalidError(f"{name} holds a lone surrogate at {problem.start}: it is not text") from None


def _wrong_type(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")

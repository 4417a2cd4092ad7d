"""Checks the arguments of callers before they are passed to C.

C would silently cut a string at a NUL, and ctypes would silently wrap a number that is out of range.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from enum import Enum, IntEnum
from typing import Final, TypeVar, Union

from . import _abi
from ._far_moment import FarMoment
from .enums import FailureKind, Status
from .errors import InvalidError

Body = Union[str, bytes]
# A point in time: seconds since 1970-01-01 UTC, or a datetime with a time zone.
Time = Union[float, datetime]
# A duration: seconds, or a timedelta.
Duration = Union[float, timedelta]


class AnyEdit(Enum):
    """In place of the time of the last edit."""

    ANY_EDIT = -1
    """Whether the message was edited does not matter."""

    def __repr__(self) -> str:
        return self.name


ANY_EDIT: Final = AnyEdit.ANY_EDIT

_Member = TypeVar("_Member", bound=IntEnum)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_SECONDS = (2**63 - 1) // 1000


def text(name: str, value: object) -> bytes:
    """Returns a string for C, as UTF-8."""
    if not isinstance(value, str):
        raise _wrong_type(name, "str", value)
    if "\0" in value:
        raise InvalidError(f"{name} contains a NUL")
    return _utf8(name, value)


def optional_text(name: str, value: object) -> bytes | None:
    """Returns a string for C, or None for NULL."""
    return None if value is None else text(name, value)


def body(value: object) -> bytes:
    """Returns a body as bytes; a str as UTF-8. Every byte is allowed, NUL too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8("body", value)
    raise _wrong_type("body", "str or bytes", value)


def flag(name: str, value: object) -> bool:
    """Returns a bool; other values that are true or false are refused."""
    if not isinstance(value, bool):
        raise _wrong_type(name, "bool", value)
    return value


def member(name: str, value: object, kind: type[_Member]) -> _Member:
    """Returns a member of that enumeration. A plain number is refused, because it could be of another one."""
    if not isinstance(value, kind):
        raise _wrong_type(name, kind.__name__, value)
    return value


def unsigned(name: str, value: object, *, bits: int = 32, least: int = 0, values: str = "") -> int:
    """Returns a whole number from `least` to the largest of `bits` bits.

    `values` is the range for the error when C, which checks it, permits fewer numbers.
    """
    most = 2**bits - 1
    number = whole(name, value)
    if not least <= number <= most:
        raise InvalidError(f"{name} must be {values or f'{least} to {most}'}, got {number}")
    return number


def signed(name: str, value: object, *, values: str) -> int:
    """Returns a whole number of 32 bits with a sign; `values` as for `unsigned`."""
    number = whole(name, value)
    if not -(2**31) <= number < 2**31:
        raise InvalidError(f"{name} must be {values}, got {number}")
    return number


def whole(name: str, value: object) -> int:
    """Returns an int; a bool is refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(name, "int", value)
    return value


def finite(name: str, value: object) -> float:
    """Returns a number that is neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(name, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidError(f"{name} is too large") from None
    if not math.isfinite(number):
        raise InvalidError(f"{name} must be finite, got {number}")
    return number


def milliseconds(name: str, seconds: object, *, values: str = "") -> int:
    """Converts seconds to milliseconds. A short duration never becomes 0, which may have a meaning of its own.

    `values` is as for `unsigned`.
    """
    number = finite(name, seconds)
    if not 0 <= number <= _MAX_SECONDS:
        raise InvalidError(f"{name} must be {values or f'0 to {_MAX_SECONDS} seconds'}, got {number}")
    return max(round(number * 1000), 1) if number else 0


def timeout(name: str, seconds: object) -> int:
    """Converts seconds to milliseconds; None means without end, -1 in C."""
    return -1 if seconds is None else milliseconds(name, seconds)


def moment(name: str, value: object) -> int:
    """Converts a point in time after 1970 to milliseconds; None to 0, which means "not given" in C."""
    if value is None:
        return 0
    number = _of_datetime(name, value) if isinstance(value, datetime) else milliseconds(name, _seconds(name, value))
    if number <= 0:
        raise InvalidError(f"{name} must be after 1970-01-01 UTC")
    return number


def last_edit(name: str, value: object) -> int:
    """Converts the time of the last edit to milliseconds; None, which means never, to 0."""
    return ANY_EDIT.value if value is ANY_EDIT else moment(name, value)


def exclude(name: str, value: object, other: str, other_value: object) -> None:
    """Raises TypeError if both arguments are given."""
    if value is not None and other_value is not None:
        raise TypeError(f"{name} and {other} exclude each other")


def duration(name: str, value: object) -> int:
    """Converts seconds or a timedelta to milliseconds."""
    if isinstance(value, timedelta):
        return _of_timedelta(name, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(name, "seconds or a timedelta", value)
    return milliseconds(name, value)


def instant(name: str, value: object) -> int:
    """Converts any point in time to milliseconds, also one before 1970, as a wrong clock may show it."""
    if isinstance(value, datetime):
        return _of_datetime(name, value)
    number = finite(name, _seconds(name, value))
    if abs(number) > _MAX_SECONDS:
        raise InvalidError(f"{name} must be {-_MAX_SECONDS} to {_MAX_SECONDS} seconds, got {number}")
    # Rounded down to the millisecond, as clocks are read. First to the microsecond, the precision of a float of today,
    # so that its rounding error does not lose a millisecond.
    return round(number * 1_000_000) // 1000


def path(value: object) -> bytes:
    """Returns the name of a file for C, which accepts only UTF-8."""
    if not isinstance(value, (str, os.PathLike)):
        raise _wrong_type("path", "str or os.PathLike", value)
    return text("path", os.fspath(value))


def status_bits(status: object) -> int:
    """Converts one status, several, or None for the unsent ones to the bits of C."""
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
        # In C no bit means the unsent ones.
        raise InvalidError("status must name at least one status")
    return bits


def failed(conversation: object, kind: object, code: object) -> _abi.Filter:
    """Returns the filter of the failed messages of a conversation, with this kind and code of failure (None: any)."""
    wanted: _abi.Filter = _abi.sized(_abi.Filter)
    wanted.conversation = optional_text("conversation", conversation)
    failure(wanted, kind, code)
    return wanted


def failure(wanted: _abi.Filter, kind: object, code: object) -> None:
    """Sets the kind and the code of failure of a filter (None: any)."""
    if kind is not None and member("kind", kind, FailureKind) == FailureKind.NONE:
        raise InvalidError("kind must be a kind of failure, or None for any, got NONE")
    wanted.failure_kind = 0 if kind is None else member("kind", kind, FailureKind)
    if code is not None:
        number = signed("code", code, values="-2147483648 to 2147483647")
        wanted.failure_code = ctypes.pointer(ctypes.c_int32(number))


def _of_datetime(name: str, value: datetime) -> int:
    if isinstance(value, FarMoment) and value.milliseconds is not None:
        return value.milliseconds
    if value.utcoffset() is None:
        raise InvalidError(f"{name} must have a time zone")
    return (value - _EPOCH) // _MILLISECOND


def _of_timedelta(name: str, value: timedelta) -> int:
    """Converts a duration to milliseconds, rounded up, so that what waits for it never starts early."""
    if value < timedelta(0):
        raise InvalidError(f"{name} must not be negative, got {value}")
    return value // _MILLISECOND + bool(value % _MILLISECOND)


def _seconds(name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(name, "seconds since 1970 or a datetime", value)
    return value


def _utf8(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as problem:
        raise InvalidError(f"{name} is not valid Unicode: lone surrogate at index {problem.start}") from None


def _wrong_type(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")

"""The options of a queue: one table of their names, types, C fields and ranges.

`Options` is that table. Type checkers read the types from it, `build` the C fields, and tests the ranges. The defaults
are those of the library.
"""

import ctypes
import math
from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Annotated, Any, Callable, NamedTuple, Optional, TypedDict, Union

from . import _abi, _arguments
from ._library import library
from .enums import Backoff, Callbacks, Connectivity, Exhausted, FinalFailure, Mode, OnFull, Refused
from .errors import InvalidError
from .retry import RetryPolicy

_NO_LIMIT = 2**64 - 1
# In C a zero in these fields means the default. In Python a missing argument does, and 0 is an error.
_NOT_ZERO = {
    "max_in_flight": "max_in_flight",
    "attempt_timeout_ms": "attempt_timeout",
    "on_demand_timeout_ms": "on_demand_timeout",
    "prompt_timeout_ms": "prompt_timeout",
    "limit_body": "limit_body",
    "backoff_base_ms": "base",
    "backoff_factor": "factor",
}

# The largest limits that the library accepts. A tool that opens the store of another program sets none of its own.
LARGEST_BODY = 256 << 20
LARGEST_METADATA = 16 << 20


class Option(NamedTuple):
    """One option: its field in C, its conversions and its range."""

    field: str
    """The field of msgq_options."""
    check: Callable[[str, object], Union[int, float]]
    """Checks the argument of that name and returns its value for C."""
    read: Callable[[Any], object]
    """Turns the value of C into the one of Python."""
    values: str = ""
    """The range as the documentation gives it; the library checks it."""
    none: Optional[int] = None
    """The value of None in C; None: the option cannot be None."""

    def write(self, options: _abi.Options, name: str, value: object) -> None:
        """Sets the field."""
        if value is None and self.none is not None:
            setattr(options, self.field, self.none)
            return
        number = self.check(name, value)
        if number == self.none == 0:
            # In C 0 means "none" here, which is None in Python.
            raise InvalidError(f"{name} must be {self.values}, or None, got {value}")
        setattr(options, self.field, number)

    def default(self, options: _abi.Options) -> object:
        """Returns the value of this field in the library's defaults."""
        number = getattr(options, self.field)
        return None if self.none is not None and number == self.none else self.read(number)


def _member(field: str, kind: type[IntEnum]) -> Option:
    return Option(field, lambda name, value: _arguments.member(name, value, kind), kind)


def _flag(field: str) -> Option:
    return Option(field, _arguments.flag, bool)


def _seconds(field: str, values: str, none: Optional[int] = None) -> Option:
    return Option(
        field, partial(_arguments.milliseconds, values=_range(values)), lambda number: number / 1000, values, none
    )


def _number(field: str, values: str, bits: int = 64, none: Optional[int] = None) -> Option:
    return Option(field, partial(_arguments.unsigned, bits=bits, values=_range(values)), int, values, none)


def _real(field: str, values: str) -> Option:
    return Option(field, _arguments.finite, float, values)


def _range(values: str) -> str:
    """Returns the range for an error, or "" where the documentation names only a special value."""
    return values if " to " in values else ""


class Options(TypedDict, total=False):
    """The keyword arguments of `msgqueue.MessageQueue` beside its file and its callables; see there."""

    mode: Annotated[Mode, _member("mode", Mode)]
    retry: Optional[RetryPolicy]
    final_failure: Annotated[FinalFailure, _member("final_failure", FinalFailure)]
    refused: Annotated[Refused, _member("refused", Refused)]
    strict_order: Annotated[bool, _flag("strict_order")]
    pause_on_unauthorized: Annotated[bool, _flag("pause_on_unauthorized")]
    unmetered_only: Annotated[bool, _flag("unmetered_only")]
    send_in_background: Annotated[bool, _flag("send_in_background")]
    direct: Annotated[bool, _flag("direct")]
    hold_interrupted: Annotated[bool, _flag("hold_interrupted")]
    durable_outcomes: Annotated[bool, _flag("durable_outcomes")]
    conflict_is_sent: Annotated[bool, _flag("conflict_is_sent")]
    read_only: Annotated[bool, _flag("read_only")]
    refuse_lost_tail: Annotated[bool, _flag("refuse_lost_tail")]
    max_in_flight: Annotated[int, _number("max_in_flight", "1 to 64", bits=32)]
    attempt_timeout: Annotated[float, _seconds("attempt_timeout_ms", "0.001 s to 1 day")]
    on_demand_timeout: Annotated[float, _seconds("on_demand_timeout_ms", "0.001 s to 1 day")]
    prompt_timeout: Annotated[float, _seconds("prompt_timeout_ms", "0.001 s to 1 day")]
    online_debounce: Annotated[float, _seconds("online_debounce_ms", "0 s to 1 hour")]
    drain_batch: Annotated[int, _number("drain_batch", "0: all", bits=31)]
    trigger_interval: Annotated[Optional[float], _seconds("trigger_interval_ms", "0.001 s to 1 day", none=0)]
    expiry: Annotated[Optional[float], _seconds("expiry_ms", "0.001 s to 10 years", none=0)]
    keep_sent: Annotated[Optional[int], _number("keep_sent", "None: no limit", none=_NO_LIMIT)]
    keep_sent_for: Annotated[Optional[float], _seconds("keep_sent_ms", "None: no limit", none=-1)]
    remember_ids: Annotated[float, _seconds("remember_ids_ms", "0: not at all")]
    limit_messages: Annotated[int, _number("limit_messages", "0: no limit")]
    limit_bytes: Annotated[int, _number("limit_bytes", "0: no limit")]
    limit_body: Annotated[int, _number("limit_body", "1 byte to 256 MiB")]
    limit_metadata: Annotated[int, _number("limit_metadata", "0 to 16 MiB")]
    on_full: Annotated[OnFull, _member("on_full", OnFull)]
    limit_file_bytes: Annotated[int, _number("limit_file_bytes", "0: no limit", bits=63)]
    rate_per_second: Annotated[float, _real("rate_per_second", "0: no limit")]
    rate_burst: Annotated[int, _number("rate_burst", "0: 1", bits=32)]
    ramp_up: Annotated[float, _seconds("ramp_up_ms", "0 s to 1 day")]
    live_share: Annotated[float, _real("live_share", "0 to 1")]
    soonest_expiry_first: Annotated[bool, _flag("soonest_expiry_first")]
    maintenance: Annotated[bool, _flag("maintenance")]
    initial_connectivity: Annotated[Connectivity, _member("initial_connectivity", Connectivity)]
    prompt_for_failed: Annotated[bool, _flag("prompt_for_failed")]
    wait: Annotated[float, _seconds("wait_ms", "0 s to 1 day")]
    collect_interval: Annotated[Optional[float], _seconds("collect_interval_ms", "0.001 s to 1 day", none=0)]
    keep_changes: Annotated[int, _number("keep_changes", "0: none")]


TABLE: dict[str, Option] = {
    name: hint.__metadata__[0] for name, hint in Options.__annotations__.items() if hasattr(hint, "__metadata__")
}
"""Every option but `retry`, which sets several fields."""


def library_defaults() -> _abi.Options:
    """Returns options with the library's defaults."""
    options: _abi.Options = _abi.sized(_abi.Options)
    library().msgq_options_init(options)
    return options


def defaults() -> dict[str, object]:
    """Returns the library's default of every option of the table, as a value of Python."""
    options = library_defaults()
    return {name: option.default(options) for name, option in TABLE.items()}


def build(given: Mapping[str, object]) -> _abi.Options:
    """Returns the library's defaults with the given options in their place; other names are ignored.

    Checks types, and whether every number fits into its field. The library checks the ranges.

    Raises:
        InvalidError: A number does not fit.
        TypeError: A value has the wrong type.
    """
    options = library_defaults()
    # The threads of this package poll, or its event loop, and neither must wait for the disk.
    options.callbacks = Callbacks.POLL_TIMER
    for name, option in TABLE.items():
        if name in given:
            option.write(options, name, given[name])
    retry = given.get("retry")
    if retry is not None:
        _write_retry(options, retry)
    for field, name in _NOT_ZERO.items():
        if not getattr(options, field):
            raise InvalidError(f"{name} must be more than 0")
    return options


def longest_attempt(options: _abi.Options) -> float:
    """Returns the seconds that an attempt may take at most."""
    milliseconds: int = max(options.attempt_timeout_ms, options.on_demand_timeout_ms)
    return math.ceil(milliseconds / 1000)


def _write_retry(options: _abi.Options, retry: object) -> None:
    if not isinstance(retry, RetryPolicy):
        raise TypeError(f"retry must be RetryPolicy or None, not {type(retry).__name__}")
    options.backoff = retry.backoff
    options.exhausted = _arguments.member("exhausted", retry.exhausted, Exhausted)
    options.max_retries = _arguments.unsigned("max_retries", retry.retries, values="0 to 1000")
    options.jitter = _arguments.finite("jitter", retry.jitter)
    base, factor, _ = retry.exponential
    options.backoff_base_ms = _arguments.milliseconds("base", base, values="0.001 s to 7 days")
    options.backoff_factor = _arguments.finite("factor", factor)
    if retry.cap is not None:
        options.backoff_cap_ms = _arguments.milliseconds("cap", retry.cap, values="base to 7 days")
        if not options.backoff_cap_ms:
            raise InvalidError("cap must be more than 0")
    if retry.backoff is Backoff.LADDER:
        delays = [
            _arguments.milliseconds("a delay of the ladder", delay, values="0 s to 7 days")
            for delay in retry.ladder or ()
        ]
        options.ladder_ms = (ctypes.c_int64 * len(delays))(*delays)
        options.ladder_count = len(delays)

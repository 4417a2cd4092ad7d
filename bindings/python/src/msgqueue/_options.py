"""Writes the options of a queue for C."""

from __future__ import annotations

import ctypes

from . import _abi, _arguments
from .enums import Backoff, Callbacks, Exhausted, FinalFailure, Mode, Refused
from .errors import InvalidError
from .retry import RetryPolicy

_NO_LIMIT = 2**64 - 1
# In C a zero in these fields means the default. In Python None and a missing argument do, and 0 is a mistake.
_NOT_ZERO = (
    "max_in_flight",
    "attempt_timeout_ms",
    "on_demand_timeout_ms",
    "prompt_timeout_ms",
    "limit_body",
    "backoff_base_ms",
    "backoff_factor",
    "backoff_cap_ms",
)


def build(
    *,
    mode: object,
    retry: RetryPolicy,
    final_failure: object,
    refused: object,
    strict_order: object,
    pause_on_unauthorized: object,
    unmetered_only: object,
    send_in_background: object,
    direct: object,
    hold_interrupted: object,
    durable_outcomes: object,
    conflict_is_sent: object,
    read_only: object,
    refuse_lost_tail: object,
    max_in_flight: object,
    attempt_timeout: object,
    on_demand_timeout: object,
    prompt_timeout: object,
    online_debounce: object,
    drain_batch: object,
    trigger_interval: object,
    expiry: object,
    keep_sent: object,
    keep_sent_for: object,
    remember_ids: object,
    limit_messages: object,
    limit_bytes: object,
    limit_body: object,
    limit_metadata: object,
) -> _abi.Options:
    """Checks types and that every number fits into its field; what the numbers may be is the library's to say."""
    options: _abi.Options = _abi.sized(_abi.Options)
    options.callbacks = Callbacks.POLL
    options.mode = _arguments.member("mode", mode, Mode)
    options.final_failure = _arguments.member("final_failure", final_failure, FinalFailure)
    options.refused = _arguments.member("refused", refused, Refused)
    options.strict_order = _arguments.flag("strict_order", strict_order)
    options.pause_on_unauthorized = _arguments.flag("pause_on_unauthorized", pause_on_unauthorized)
    options.unmetered_only = _arguments.flag("unmetered_only", unmetered_only)
    options.send_in_background = _arguments.flag("send_in_background", send_in_background)
    options.direct = _arguments.flag("direct", direct)
    options.hold_interrupted = _arguments.flag("hold_interrupted", hold_interrupted)
    options.durable_outcomes = _arguments.flag("durable_outcomes", durable_outcomes)
    options.conflict_is_sent = _arguments.flag("conflict_is_sent", conflict_is_sent)
    options.read_only = _arguments.flag("read_only", read_only)
    options.refuse_lost_tail = _arguments.flag("refuse_lost_tail", refuse_lost_tail)
    options.max_in_flight = _arguments.unsigned("max_in_flight", max_in_flight)
    options.attempt_timeout_ms = _arguments.milliseconds("attempt_timeout", attempt_timeout)
    options.on_demand_timeout_ms = _arguments.milliseconds("on_demand_timeout", on_demand_timeout)
    options.prompt_timeout_ms = _arguments.milliseconds("prompt_timeout", prompt_timeout)
    options.online_debounce_ms = _arguments.milliseconds("online_debounce", online_debounce)
    options.drain_batch = _arguments.unsigned("drain_batch", drain_batch)
    options.trigger_interval_ms = (
        0 if trigger_interval is None else _arguments.milliseconds("trigger_interval", trigger_interval)
    )
    options.expiry_ms = 0 if expiry is None else _arguments.milliseconds("expiry", expiry)
    options.keep_sent = _NO_LIMIT if keep_sent is None else _arguments.unsigned("keep_sent", keep_sent, bits=64)
    options.keep_sent_ms = _arguments.timeout("keep_sent_for", keep_sent_for)
    options.remember_ids_ms = _arguments.milliseconds("remember_ids", remember_ids)
    options.limit_messages = _arguments.unsigned("limit_messages", limit_messages, bits=64)
    options.limit_bytes = _arguments.unsigned("limit_bytes", limit_bytes, bits=64)
    options.limit_body = _arguments.unsigned("limit_body", limit_body, bits=64)
    options.limit_metadata = _arguments.unsigned("limit_metadata", limit_metadata, bits=64)
    _write_retry(options, retry)
    for name in _NOT_ZERO:
        if not getattr(options, name):
            raise InvalidError(f"{name.removesuffix('_ms')} must be more than 0")
    return options


def _write_retry(options: _abi.Options, retry: object) -> None:
    if not isinstance(retry, RetryPolicy):
        raise TypeError(f"retry must be RetryPolicy or None, not {type(retry).__name__}")
    options.backoff = retry.backoff
    options.exhausted = _arguments.member("exhausted", retry.exhausted, Exhausted)
    options.max_retries = _arguments.unsigned("max_retries", retry.retries)
    options.jitter = _arguments.finite("jitter", retry.jitter)
    base, factor, cap = retry.exponential
    options.backoff_base_ms = _arguments.milliseconds("base", base)
    options.backoff_factor = _arguments.finite("factor", factor)
    options.backoff_cap_ms = _arguments.milliseconds("cap", cap)
    if retry.backoff is Backoff.LADDER:
        delays = [_arguments.milliseconds("a delay of the ladder", delay) for delay in retry.ladder or ()]
        options.ladder_ms = (ctypes.c_int64 * len(delays))(*delays)
        options.ladder_count = len(delays)

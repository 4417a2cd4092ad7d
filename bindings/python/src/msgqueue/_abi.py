"""The library's header in ctypes: structures, callback types, and the prototype of every function.

Tests compare every field, number and function with the header.

Bytes that go into the library are declared `c_char_p`, because ctypes then passes the address of the bytes
object itself, without a copy. Bytes that come out are `c_void_p`, because ctypes would read a `c_char_p` up to
its first NUL; their sizes come beside them.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

# The version of the header that this file mirrors.
VERSION = (0, 2, 0)

ID_SIZE = 256
OFFLINE_REASON_SIZE = 256
LOG_SIZE = 2048
STATUS_NONE = -1


class Pair(Structure):
    """msgq_pair."""

    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class Options(Structure):
    """msgq_options."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("mode", c_int),
        ("direct", c_bool),
        ("send_in_background", c_bool),
        ("unmetered_only", c_bool),
        ("pause_on_unauthorized", c_bool),
        ("drain_batch", c_uint32),
        ("online_debounce_ms", c_int64),
        ("trigger_interval_ms", c_int64),
        ("prompt_timeout_ms", c_int64),
        ("final_failure", c_int),
        ("strict_order", c_bool),
        ("max_in_flight", c_uint32),
        ("hold_interrupted", c_bool),
        ("durable_outcomes", c_bool),
        ("conflict_is_sent", c_bool),
        ("attempt_timeout_ms", c_int64),
        ("on_demand_timeout_ms", c_int64),
        ("backoff", c_int),
        ("max_retries", c_uint32),
        ("ladder_ms", POINTER(c_int64)),
        ("ladder_count", c_size_t),
        ("backoff_base_ms", c_int64),
        ("backoff_factor", c_double),
        ("backoff_cap_ms", c_int64),
        ("jitter", c_double),
        ("exhausted", c_int),
        ("refused", c_int),
        ("keep_sent", c_uint64),
        ("keep_sent_ms", c_int64),
        ("remember_ids_ms", c_int64),
        ("expiry_ms", c_int64),
        ("limit_messages", c_uint64),
        ("limit_bytes", c_uint64),
        ("limit_body", c_uint64),
        ("limit_metadata", c_uint64),
        ("callbacks", c_int),
        ("read_only", c_bool),
        ("refuse_lost_tail", c_bool),
        ("on_full", c_int),
        ("limit_file_bytes", c_int64),
        ("rate_per_second", c_double),
        ("rate_burst", c_uint32),
        ("ramp_up_ms", c_int64),
        ("live_share", c_double),
        ("soonest_expiry_first", c_bool),
        ("maintenance", c_bool),
        ("initial_connectivity", c_int64),
        ("prompt_for_failed", c_bool),
        ("wait_ms", c_int64),
        ("collect_interval_ms", c_int64),
        ("keep_changes", c_uint64),
    ]


class Draft(Structure):
    """msgq_draft."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("id", c_char_p),
        ("conversation", c_char_p),
        ("body", c_char_p),
        ("body_size", c_size_t),
        ("metadata", POINTER(Pair)),
        ("metadata_count", c_size_t),
        ("not_before_ms", c_int64),
        ("expires_at_ms", c_int64),
        ("unmetered_only", c_bool),
        ("replace_key", c_char_p),
        ("priority", c_int32),
        ("time_ms", c_int64),
        ("delay_ms", c_int64),
        ("expiry_ms", c_int64),
    ]


class Failure(Structure):
    """msgq_failure."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int),
        ("code", c_int32),
        ("retryable", c_bool),
        ("attempts", c_uint32),
        ("at_ms", c_int64),
        ("text", c_char_p),
    ]


class Explanation(Structure):
    """msgq_explanation."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("reason", c_int),
        ("until_ms", c_int64),
        ("behind", c_char * ID_SIZE),
        ("text", c_char * 256),
        ("retries", c_uint32),
    ]


class Message(Structure):
    """msgq_message."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int),
        ("id", c_char_p),
        ("conversation", c_char_p),
        ("sender", c_char_p),
        ("body", c_void_p),
        ("body_size", c_size_t),
        ("preview", c_char_p),
        ("metadata", POINTER(Pair)),
        ("metadata_count", c_size_t),
        ("sequence", c_uint64),
        ("created_ms", c_int64),
        ("edited_ms", c_int64),
        ("sent_ms", c_int64),
        ("delivered_ms", c_int64),
        ("read_ms", c_int64),
        ("not_before_ms", c_int64),
        ("expires_at_ms", c_int64),
        ("next_attempt_ms", c_int64),
        ("last_attempt_ms", c_int64),
        ("attempts", c_uint32),
        ("retries_used", c_uint32),
        ("unmetered_only", c_bool),
        ("failure", POINTER(Failure)),
        ("priority", c_int32),
        ("time_ms", c_int64),
        ("failure_before", POINTER(Failure)),
        ("explanation", POINTER(Explanation)),
    ]


class Attempt(Structure):
    """msgq_attempt."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("number", c_uint32),
        ("started_ms", c_int64),
        ("duration_ms", c_int64),
        ("outcome", c_int),
        ("kind", c_int),
        ("code", c_int32),
        ("arrival", c_int),
        ("text", c_char_p),
    ]


class Filter(Structure):
    """msgq_filter."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("conversation", c_char_p),
        ("statuses", c_uint32),
        ("after", c_uint64),
        ("limit", c_uint32),
        ("newest_first", c_bool),
        ("without_bodies", c_bool),
        ("order", c_int),
        ("after_time_ms", c_int64),
        ("with_reasons", c_bool),
        ("failure_code", POINTER(c_int32)),
        ("failure_kind", c_int),
        ("waiting_for", POINTER(c_int)),
    ]


class Counts(Structure):
    """msgq_counts."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("queued", c_uint64),
        ("sending", c_uint64),
        ("sent", c_uint64),
        ("delivered", c_uint64),
        ("read", c_uint64),
        ("failed", c_uint64),
        ("received", c_uint64),
        ("unread", c_uint64),
        ("unsent_bytes", c_uint64),
    ]


class Waiting(Structure):
    """msgq_waiting."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("queued", c_uint64),
        ("paused", c_uint64),
        ("scheduled", c_uint64),
        ("retrying", c_uint64),
        ("next_scheduled_ms", c_int64),
        ("next_retry_ms", c_int64),
    ]


class FailureGroup(Structure):
    """msgq_failure_group."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int),
        ("code", c_int32),
        ("count", c_uint64),
        ("first_ms", c_int64),
        ("last_ms", c_int64),
        ("text", c_char_p),
    ]


class Change(Structure):
    """msgq_change."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int),
        ("status", c_int),
        ("failure_kind", c_int),
        ("code", c_int32),
        ("at_ms", c_int64),
        ("id", c_char_p),
        ("conversation", c_char_p),
        ("token", c_char_p),
    ]


class Handed(Structure):
    """msgq_handed."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("result", c_int),
        ("id", c_char_p),
        ("body_size", c_uint64),
        ("at_ms", c_int64),
        ("text", c_char_p),
    ]


class Conversation(Structure):
    """msgq_conversation."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("name", c_char_p),
        ("counts", POINTER(Counts)),
        ("last", POINTER(Message)),
        ("title", c_char_p),
        ("paused", c_bool),
    ]


class Statistics(Structure):
    """msgq_statistics."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("sent_per_minute", c_uint32),
        ("enqueued_per_minute", c_uint32),
        ("opened_ms", c_int64),
        ("enqueued", c_uint64),
        ("attempts", c_uint64),
        ("sent", c_uint64),
        ("sent_bytes", c_uint64),
        ("retried", c_uint64),
        ("failed", c_uint64),
        ("discarded", c_uint64),
        ("failures", c_uint64 * 32),
        ("latencies", c_uint64 * 16),
        ("latency_sum_ms", c_uint64),
        ("latency_max_ms", c_uint64),
        ("replaced", c_uint64),
        ("file_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("retryable", c_uint64),
        ("rejected", c_uint64),
        ("offline", c_uint64),
        ("oldest_queued_ms", c_int64),
    ]


class Minute(Structure):
    """msgq_minute."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("start_ms", c_int64),
        ("enqueued", c_uint64),
        ("sent", c_uint64),
        ("failed_attempts", c_uint64),
        ("failed", c_uint64),
    ]


class Delivery(Structure):
    """msgq_delivery."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("attempt", c_uint32),
        ("token", c_uint64),
        ("id", c_char_p),
        ("conversation", c_char_p),
        ("body", c_void_p),
        ("body_size", c_size_t),
        ("metadata", POINTER(Pair)),
        ("metadata_count", c_size_t),
        ("created_ms", c_int64),
        ("timeout_ms", c_int64),
    ]


class Outcome(Structure):
    """msgq_outcome."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("verdict", c_int),
        ("kind", c_int),
        ("code", c_int32),
        ("retry_after_ms", c_int64),
        ("retry_after_queue", c_bool),
        ("not_sent", c_bool),
        ("retry_after", c_char * 64),
        ("text", c_char * 512),
        ("receipt", c_int64),
    ]


class CheckReport(Structure):
    """msgq_check_report."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("sound", c_bool),
        ("whole", c_uint64),
        ("damaged", c_uint64),
        ("missing", c_uint64),
        ("first_missing", c_uint64),
        ("last_missing", c_uint64),
        ("text", c_char * 512),
    ]


class BatchOptions(Structure):
    """msgq_batch_options."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("max_messages", c_uint32),
        ("delivery_size", c_size_t),
        ("outcome_size", c_size_t),
        ("max_bytes", c_uint64),
        ("linger_ms", c_int64),
        ("single_conversation", c_bool),
        ("max_batches", c_uint64),
    ]


class DrainOptions(Structure):
    """msgq_drain_options."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("batch", c_uint32),
        ("timeout_ms", c_int64),
        ("conversation", c_char_p),
        ("include_failed", c_bool),
    ]


class Report(Structure):
    """msgq_report."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("stop", c_int),
        ("sent", c_uint64),
        ("failed", c_uint64),
        ("discarded", c_uint64),
        ("remaining", c_uint64),
        ("remaining_failed", c_uint64),
        ("put_back", c_uint64),
    ]


class Prompt(Structure):
    """msgq_prompt."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("timeout_ms", c_uint32),
        ("messages", c_uint64),
        ("bytes", c_uint64),
        ("oldest_ms", c_int64),
        ("conversations", c_uint64),
        ("text", c_char_p),
        ("failed", c_uint64),
    ]


class StandingPrompt(Structure):
    """msgq_standing_prompt."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("timeout_ms", c_uint32),
        ("messages", c_uint64),
        ("bytes", c_uint64),
        ("oldest_ms", c_int64),
        ("conversations", c_uint64),
        ("expires_ms", c_int64),
        ("text", c_char * 128),
    ]


class State(Structure):
    """msgq_state."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("connectivity", c_int),
        ("link", c_int),
        ("lifecycle", c_int),
        ("mode", c_int),
        ("metered", c_bool),
        ("paused", c_bool),
        ("draining", c_bool),
        ("has_transport", c_bool),
        ("has_prompt", c_bool),
        ("storage_trouble", c_bool),
        ("storage", c_int),
        ("in_flight", c_uint32),
        ("paused_conversations", c_uint64),
        ("prompt", StandingPrompt),
        ("reason", c_int),
        ("until_ms", c_int64),
        ("text", c_char * 256),
        ("offline_reason", c_char * OFFLINE_REASON_SIZE),
        ("sqlite_version", c_char * 16),
        ("prompt_failed", c_uint64),
    ]


class Event(Structure):
    """msgq_event."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int),
        ("id", c_char_p),
        ("conversation", c_char_p),
        ("from", c_int32),
        ("to", c_int32),
        ("attempt", c_uint32),
        ("result", c_int),
        ("connectivity", c_int),
        ("link", c_int),
        ("metered", c_bool),
        ("paused", c_bool),
        ("failure_kind", c_int),
        ("at_ms", c_int64),
        ("failure", POINTER(Failure)),
        ("counts", POINTER(Counts)),
        ("prompt", POINTER(Prompt)),
        ("report", POINTER(Report)),
        ("text", c_char_p),
        ("lost_events", c_uint64),
    ]


# The C spelling of each structure.
STRUCTURES: dict[str, type[Structure]] = {
    "msgq_pair": Pair,
    "msgq_options": Options,
    "msgq_draft": Draft,
    "msgq_failure": Failure,
    "msgq_message": Message,
    "msgq_attempt": Attempt,
    "msgq_explanation": Explanation,
    "msgq_filter": Filter,
    "msgq_counts": Counts,
    "msgq_waiting": Waiting,
    "msgq_failure_group": FailureGroup,
    "msgq_change": Change,
    "msgq_handed": Handed,
    "msgq_conversation": Conversation,
    "msgq_statistics": Statistics,
    "msgq_minute": Minute,
    "msgq_delivery": Delivery,
    "msgq_batch_options": BatchOptions,
    "msgq_outcome": Outcome,
    "msgq_check_report": CheckReport,
    "msgq_drain_options": DrainOptions,
    "msgq_report": Report,
    "msgq_prompt": Prompt,
    "msgq_standing_prompt": StandingPrompt,
    "msgq_state": State,
    "msgq_event": Event,
}

IdBuffer = c_char * ID_SIZE

TransportFunction = CFUNCTYPE(c_int, c_void_p, POINTER(Delivery), POINTER(Outcome))
BatchTransportFunction = CFUNCTYPE(None, c_void_p, POINTER(Delivery), c_size_t, POINTER(Outcome))
EventFunction = CFUNCTYPE(None, c_void_p, POINTER(Event))
DrainedFunction = CFUNCTYPE(None, c_void_p, POINTER(Report))
WaitedFunction = CFUNCTYPE(None, c_void_p, c_int, POINTER(Message))
ClosedFunction = CFUNCTYPE(None, c_void_p, c_int)
LogFunction = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ReleaseFunction = CFUNCTYPE(None, c_void_p)

# Only the library reads handles and owned results, so an untyped address is enough.
_queue = c_void_p
_owned = c_void_p
_out = POINTER(c_void_p)

# Every function of the header: the type of its result, and the types of its arguments.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "msgq_version": (c_char_p, []),
    "msgq_version_number": (c_uint32, []),
    "msgq_sqlite_version": (c_char_p, []),
    "msgq_result_name": (c_char_p, [c_int]),
    "msgq_error_detail": (c_char_p, []),
    "msgq_options_init": (None, [POINTER(Options)]),
    "msgq_draft_init": (None, [POINTER(Draft)]),
    "msgq_filter_init": (None, [POINTER(Filter)]),
    "msgq_outcome_init": (None, [POINTER(Outcome)]),
    "msgq_drain_options_init": (None, [POINTER(DrainOptions)]),
    "msgq_open": (c_int, [c_char_p, POINTER(Options), _out]),
    "msgq_open_simulated": (c_int, [c_char_p, POINTER(Options), c_int64, c_uint64, _out]),
    "msgq_close": (c_int, [_queue, c_int64]),
    "msgq_close_async": (c_int, [_queue, c_int64, ClosedFunction, c_void_p]),
    "msgq_enqueue": (c_int, [_queue, POINTER(Draft), POINTER(IdBuffer)]),
    "msgq_enqueue_batch": (c_int, [_queue, POINTER(Draft), c_size_t, POINTER(IdBuffer)]),
    "msgq_enqueue_bodies": (
        c_int,
        [_queue, POINTER(Draft), c_char_p, c_size_t, POINTER(c_size_t), c_size_t, POINTER(IdBuffer)],
    ),
    "msgq_record": (c_int, [_queue, POINTER(Draft), c_char_p, POINTER(IdBuffer)]),
    "msgq_record_batch": (c_int, [_queue, POINTER(Draft), POINTER(c_char_p), c_size_t, POINTER(c_int)]),
    "msgq_handed_over": (c_int, [_queue, c_char_p, _out]),
    "msgq_handed_over_size": (c_size_t, [_owned]),
    "msgq_handed_over_at": (POINTER(Handed), [_owned, c_size_t]),
    "msgq_handed_over_free": (None, [_owned]),
    "msgq_take_over": (c_int, [_queue, _owned, POINTER(Draft), c_size_t, POINTER(c_int)]),
    "msgq_hand_over_done": (c_int, [_queue, _owned]),
    "msgq_request_collect": (c_int, [_queue]),
    "msgq_hand_over_forget": (c_int, [_queue, c_char_p, c_char_p]),
    "msgq_get": (c_int, [_queue, c_char_p, POINTER(POINTER(Message))]),
    "msgq_message_free": (None, [POINTER(Message)]),
    "msgq_edit": (c_int, [_queue, c_char_p, c_char_p, c_size_t]),
    "msgq_edit_message": (c_int, [_queue, c_char_p, POINTER(Draft), c_int64]),
    "msgq_update": (c_int, [_queue, c_char_p, POINTER(Draft)]),
    "msgq_delete": (c_int, [_queue, c_char_p]),
    "msgq_retry": (c_int, [_queue, c_char_p]),
    "msgq_send_now": (c_int, [_queue, c_char_p]),
    "msgq_mark": (c_int, [_queue, c_char_p, c_int]),
    "msgq_attempts": (c_int, [_queue, c_char_p, _out]),
    "msgq_attempts_size": (c_size_t, [_owned]),
    "msgq_attempts_at": (POINTER(Attempt), [_owned, c_size_t]),
    "msgq_attempts_free": (None, [_owned]),
    "msgq_ledger_size": (c_size_t, [_owned]),
    "msgq_ledger_at": (POINTER(Attempt), [_owned, c_size_t]),
    "msgq_ledger_free": (None, [_owned]),
    "msgq_wait": (c_int, [_queue, c_char_p, c_int64, POINTER(POINTER(Message))]),
    "msgq_wait_async": (c_int, [_queue, c_char_p, c_int64, WaitedFunction, c_void_p]),
    "msgq_explain": (c_int, [_queue, c_char_p, POINTER(Explanation)]),
    "msgq_list": (c_int, [_queue, POINTER(Filter), _out]),
    "msgq_list_size": (c_size_t, [_owned]),
    "msgq_list_at": (POINTER(Message), [_owned, c_size_t]),
    "msgq_list_free": (None, [_owned]),
    "msgq_count": (c_int, [_queue, c_char_p, POINTER(Counts)]),
    "msgq_count_waiting": (c_int, [_queue, POINTER(Waiting)]),
    "msgq_failure_groups": (c_int, [_queue, c_uint32, _out]),
    "msgq_failure_groups_size": (c_size_t, [_owned]),
    "msgq_failure_groups_at": (POINTER(FailureGroup), [_owned, c_size_t]),
    "msgq_failure_groups_free": (None, [_owned]),
    "msgq_changes": (c_int, [_queue, c_char_p, c_uint32, _out]),
    "msgq_changes_size": (c_size_t, [_owned]),
    "msgq_changes_at": (POINTER(Change), [_owned, c_size_t]),
    "msgq_changes_next": (c_char_p, [_owned]),
    "msgq_changes_oldest": (c_char_p, [_owned]),
    "msgq_changes_free": (None, [_owned]),
    "msgq_conversations": (c_int, [_queue, c_uint64, c_uint32, _out]),
    "msgq_get_conversation": (c_int, [_queue, c_char_p, _out]),
    "msgq_conversations_by_time": (c_int, [_queue, c_int64, c_uint64, c_uint32, _out]),
    "msgq_set_title": (c_int, [_queue, c_char_p, c_char_p]),
    "msgq_conversations_size": (c_size_t, [_owned]),
    "msgq_conversations_at": (POINTER(Conversation), [_owned, c_size_t]),
    "msgq_conversations_free": (None, [_owned]),
    "msgq_mark_batch": (c_int, [_queue, POINTER(c_char_p), c_size_t, c_int, POINTER(c_int)]),
    "msgq_mark_up_to": (c_int, [_queue, c_char_p, c_int, POINTER(c_uint64)]),
    "msgq_clear": (c_int, [_queue, c_char_p]),
    "msgq_delete_conversation": (c_int, [_queue, c_char_p, POINTER(c_uint64)]),
    "msgq_clear_failed": (c_int, [_queue, c_char_p, POINTER(c_uint64)]),
    "msgq_clear_failed_by": (c_int, [_queue, POINTER(Filter), POINTER(c_uint64)]),
    "msgq_retry_all": (c_int, [_queue, c_char_p, POINTER(c_uint64)]),
    "msgq_retry_all_by": (c_int, [_queue, POINTER(Filter), POINTER(c_uint64)]),
    "msgq_backup": (c_int, [_queue, c_char_p]),
    "msgq_stats": (c_int, [_queue, POINTER(Statistics)]),
    "msgq_minutes": (c_int, [_queue, _out]),
    "msgq_minutes_size": (c_size_t, [c_void_p]),
    "msgq_minutes_at": (POINTER(Minute), [c_void_p, c_size_t]),
    "msgq_minutes_free": (None, [c_void_p]),
    "msgq_stats_text": (c_int, [_queue, _out]),
    "msgq_stats_text_all": (c_int, [POINTER(c_void_p), c_size_t, _out]),
    "msgq_text_free": (None, [_owned]),
    "msgq_check": (c_int, [c_char_p, POINTER(CheckReport)]),
    "msgq_salvage": (c_int, [c_char_p, c_char_p, POINTER(CheckReport)]),
    "msgq_set_transport": (c_int, [_queue, TransportFunction, c_void_p, ReleaseFunction]),
    "msgq_set_batch_transport": (
        c_int,
        [_queue, BatchTransportFunction, c_void_p, ReleaseFunction, POINTER(BatchOptions)],
    ),
    "msgq_complete": (c_int, [_queue, c_uint64, POINTER(Outcome)]),
    "msgq_complete_batch": (c_int, [_queue, POINTER(c_uint64), POINTER(Outcome), c_size_t, POINTER(c_int)]),
    "msgq_drain": (c_int, [_queue, POINTER(DrainOptions), POINTER(Report)]),
    "msgq_drain_async": (c_int, [_queue, POINTER(DrainOptions), DrainedFunction, c_void_p]),
    "msgq_pause": (c_int, [_queue, c_char_p]),
    "msgq_resume": (c_int, [_queue, c_char_p]),
    "msgq_withdraw_prompt": (c_int, [_queue]),
    "msgq_set_connectivity": (c_int, [_queue, c_int, c_int, c_bool]),
    "msgq_set_connectivity_reason": (c_int, [_queue, c_int, c_int, c_bool, c_char_p]),
    "msgq_monitor_start": (c_int, [_queue]),
    "msgq_monitor_stop": (c_int, [_queue]),
    "msgq_set_lifecycle": (c_int, [_queue, c_int]),
    "msgq_control_start": (c_int, [_queue, c_char_p]),
    "msgq_control_stop": (c_int, [_queue]),
    "msgq_status_label": (c_char_p, [c_int]),
    "msgq_status_icon": (c_char_p, [c_int]),
    "msgq_failure_text": (c_char_p, [c_int]),
    "msgq_connectivity_label": (c_char_p, [c_int]),
    "msgq_banner": (c_int, [_queue, c_char_p, _out]),
    "msgq_relative_time": (c_int, [c_int64, c_int64, c_char_p, c_size_t]),
    "msgq_set_event_handler": (c_int, [_queue, EventFunction, c_void_p, ReleaseFunction]),
    "msgq_poll": (c_int, [_queue, c_int64, POINTER(c_size_t)]),
    "msgq_fd": (c_int, [_queue]),
    "msgq_get_state": (c_int, [_queue, POINTER(State)]),
    "msgq_set_log": (c_int, [LogFunction, c_void_p, ReleaseFunction]),
    "msgq_set_log_level": (c_int, [c_int]),
    "msgq_log_next": (c_size_t, [POINTER(c_int), c_char_p, c_size_t]),
    "msgq_log_fd": (c_int, []),
    "msgq_advance": (c_int, [_queue, c_int64, POINTER(c_int64)]),
}


def sized(structure: type[Structure], *values: object) -> Any:  # noqa: ANN401 - ctypes has no better type
    """Returns a structure with its struct_size set and `values` in the fields after that."""
    return structure(ctypes.sizeof(structure), *values)

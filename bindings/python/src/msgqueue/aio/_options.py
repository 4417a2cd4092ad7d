"""The options of a queue, by name."""

from __future__ import annotations

from typing import TypedDict

from ..enums import FinalFailure, Mode, Refused
from ..retry import RetryPolicy


class Options(TypedDict, total=False):
    """What `msgqueue.MessageQueue` can be given beside its file and its callables; see there."""

    mode: Mode
    retry: RetryPolicy | None
    final_failure: FinalFailure
    refused: Refused
    strict_order: bool
    pause_on_unauthorized: bool
    unmetered_only: bool
    send_in_background: bool
    direct: bool
    hold_interrupted: bool
    durable_outcomes: bool
    conflict_is_sent: bool
    read_only: bool
    refuse_lost_tail: bool
    max_in_flight: int
    attempt_timeout: float
    on_demand_timeout: float
    prompt_timeout: float
    online_debounce: float
    drain_batch: int
    trigger_interval: float | None
    expiry: float | None
    keep_sent: int | None
    keep_sent_for: float | None
    remember_ids: float
    limit_messages: int
    limit_bytes: int
    limit_body: int
    limit_metadata: int

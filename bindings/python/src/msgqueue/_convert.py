"""Copies the library's structures into Python values, which contain no pointers."""

from __future__ import annotations

import ctypes
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from . import _abi
from ._far_moment import FarMoment
from .enums import (
    Arrival,
    AttemptOutcome,
    ChangeKind,
    Connectivity,
    EventKind,
    FailureKind,
    Lifecycle,
    Link,
    Mode,
    Reason,
    Result,
    Status,
    Stop,
)
from .events import Event
from .models import (
    Attempt,
    Change,
    CheckReport,
    Conversation,
    Counts,
    Delivery,
    Explanation,
    Failure,
    FailureGroup,
    Handed,
    Message,
    Prompt,
    Report,
    State,
    Waiting,
)
from .statistics import LATENCY_BOUNDS, Minute, Statistics

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# How `deliveries` reads the structures: as words of 8 bytes, of which each field but the numbers of attempts is one.
_DELIVERY_WORDS = ctypes.sizeof(_abi.Delivery) // 8
_ATTEMPT = _abi.Delivery.attempt.offset // 4
_COLUMN_KINDS = tuple(
    ctypes.POINTER(kind)
    for kind in (
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_char),
        ctypes.c_uint64,
        ctypes.c_int64,
        ctypes.c_uint32,
    )
)


def _word(field: str) -> int:
    return int(getattr(_abi.Delivery, field).offset) // 8


# Messages that were enqueued together share their times, and a transport meets them together.
@lru_cache(maxsize=256)
def moment(milliseconds: int) -> datetime:
    """Converts a point in time. One outside the range of datetime becomes the nearest inside, a FarMoment."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return FarMoment.of(milliseconds)


def message(source: _abi.Message) -> Message:
    """Converts a message of msgq_get or of a page."""
    return Message(
        id=_text(source.id),
        conversation=_text(source.conversation),
        sender=_optional_text(source.sender),
        status=Status(source.status),
        body=None if source.body is None else ctypes.string_at(source.body, source.body_size),
        body_size=source.body_size,
        preview=_text(source.preview),
        metadata=_pairs(source.metadata, source.metadata_count),
        sequence=source.sequence,
        created=moment(source.created_ms),
        attempts=source.attempts,
        failure=failure(source.failure[0]) if source.failure else None,
        edited=_optional_moment(source.edited_ms),
        not_before=_optional_moment(source.not_before_ms),
        expires_at=_optional_moment(source.expires_at_ms),
        next_attempt=_optional_moment(source.next_attempt_ms),
        last_attempt=_optional_moment(source.last_attempt_ms),
        sent=_optional_moment(source.sent_ms),
        unmetered_only=source.unmetered_only,
        delivered_at=_optional_moment(source.delivered_ms),
        read_at=_optional_moment(source.read_ms),
        retries_used=source.retries_used,
        priority=source.priority,
        time=moment(source.time_ms),
        failure_before=failure(source.failure_before[0]) if source.failure_before else None,
        explanation=explanation(source.explanation[0]) if source.explanation else None,
    )


def delivery(source: _abi.Delivery) -> Delivery:
    """Converts the delivery for a transport."""
    # The constructor of a frozen data class needs three times as long.
    value = object.__new__(Delivery)
    value.__dict__.update(
        id=_text(source.id),
        conversation=_text(source.conversation),
        body=ctypes.string_at(source.body, source.body_size),
        metadata=_pairs(source.metadata, source.metadata_count),
        attempt=source.attempt,
        token=source.token,
        created=moment(source.created_ms),
        timeout=source.timeout_ms / 1000,
    )
    return value


def deliveries(first: Any, count: int) -> list[Delivery]:  # noqa: ANN401 - a ctypes pointer has no better type
    """Converts the deliveries of a batch. `first`: a pointer to the first one.

    ctypes makes an object for each structure that is read, and calls a descriptor for each field. So each field is read
    of all structures at a time, as every so many words of one array.
    """
    words = count * _DELIVERY_WORDS
    texts, bodies, numbers, signed, halves = (ctypes.cast(first, kind) for kind in _COLUMN_KINDS)
    make = object.__new__
    found: list[Delivery] = []
    for id_, conversation_, body, size, pairs, attempt_, token, created, timeout in zip(
        texts[_word("id") : words : _DELIVERY_WORDS],
        texts[_word("conversation") : words : _DELIVERY_WORDS],
        bodies[_word("body") : words : _DELIVERY_WORDS],
        numbers[_word("body_size") : words : _DELIVERY_WORDS],
        numbers[_word("metadata_count") : words : _DELIVERY_WORDS],
        halves[_ATTEMPT : 2 * words : 2 * _DELIVERY_WORDS],
        numbers[_word("token") : words : _DELIVERY_WORDS],
        signed[_word("created_ms") : words : _DELIVERY_WORDS],
        signed[_word("timeout_ms") : words : _DELIVERY_WORDS],
    ):
        value = make(Delivery)
        value.__dict__.update(
            id=id_.decode("utf-8", "replace"),
            conversation=conversation_.decode("utf-8", "replace"),
            body=body[:size],
            metadata=_pairs(first[len(found)].metadata, pairs) if pairs else {},
            attempt=attempt_,
            token=token,
            created=moment(created),
            timeout=timeout / 1000,
        )
        found.append(value)
    return found


def failure(source: _abi.Failure) -> Failure:
    """Converts a failure."""
    return Failure(
        kind=FailureKind(source.kind),
        code=source.code,
        text=_text(source.text),
        at=moment(source.at_ms),
        retryable=source.retryable,
        attempts=source.attempts,
    )


def attempt(source: _abi.Attempt) -> Attempt:
    """Converts an attempt of the ledger."""
    return Attempt(
        number=source.number,
        started=moment(source.started_ms),
        duration=None if source.duration_ms < 0 else source.duration_ms / 1000,
        outcome=AttemptOutcome(source.outcome),
        kind=FailureKind(source.kind),
        code=source.code,
        arrival=Arrival(source.arrival),
        text=_text(source.text),
    )


def counts(source: _abi.Counts) -> Counts:
    """Converts counts."""
    return Counts(
        queued=source.queued,
        sending=source.sending,
        sent=source.sent,
        delivered=source.delivered,
        read=source.read,
        failed=source.failed,
        received=source.received,
        unread=source.unread,
        unsent_bytes=source.unsent_bytes,
    )


def waiting(source: _abi.Waiting) -> Waiting:
    """Converts what queued messages wait for."""
    return Waiting(
        queued=source.queued,
        paused=source.paused,
        scheduled=source.scheduled,
        retrying=source.retrying,
        next_scheduled=_optional_moment(source.next_scheduled_ms),
        next_retry=_optional_moment(source.next_retry_ms),
    )


def failure_group(source: _abi.FailureGroup) -> FailureGroup:
    """Converts a group of failed messages."""
    return FailureGroup(
        kind=FailureKind(source.kind),
        code=source.code,
        count=source.count,
        first=moment(source.first_ms),
        last=moment(source.last_ms),
        text=_text(source.text),
    )


def change(source: _abi.Change) -> Change:
    """Converts a change of a message."""
    return Change(
        kind=ChangeKind(source.kind),
        status=Status(source.status),
        failure_kind=FailureKind(source.failure_kind),
        code=source.code,
        at=moment(source.at_ms),
        id=_text(source.id),
        conversation=_text(source.conversation),
        token=_text(source.token),
    )


def handed(source: _abi.Handed) -> Handed:
    """Converts a draft that was handed over."""
    return Handed(
        id=_text(source.id),
        result=Result(source.result),
        body_size=source.body_size,
        at=moment(source.at_ms),
        text=_text(source.text),
    )


def conversation(source: _abi.Conversation) -> Conversation:
    """Converts a conversation of a page."""
    return Conversation(
        name=_text(source.name),
        counts=counts(source.counts[0]),
        last=message(source.last[0]),
        title=_optional_text(source.title),
        paused=source.paused,
    )


def explanation(source: _abi.Explanation) -> Explanation:
    """Converts an explanation."""
    return Explanation(
        code=Reason(source.reason),
        text=_text(source.text),
        until=_optional_moment(source.until_ms),
        behind=_text(source.behind) or None,
        retries=source.retries,
    )


def statistics(source: _abi.Statistics) -> Statistics:
    """Converts statistics."""
    return Statistics(
        opened=moment(source.opened_ms),
        sent_per_minute=source.sent_per_minute,
        enqueued_per_minute=source.enqueued_per_minute,
        enqueued=source.enqueued,
        attempts=source.attempts,
        sent=source.sent,
        sent_bytes=source.sent_bytes,
        retried=source.retried,
        failed=source.failed,
        discarded=source.discarded,
        failures={kind: source.failures[kind] for kind in FailureKind if kind is not FailureKind.NONE},
        latencies=dict(zip(LATENCY_BOUNDS, source.latencies)),
        latency_sum=source.latency_sum_ms / 1000,
        latency_max=source.latency_max_ms / 1000,
        replaced=source.replaced,
        file_bytes=source.file_bytes,
        free_bytes=source.free_bytes,
        retryable=source.retryable,
        rejected=source.rejected,
        offline=source.offline,
        oldest_queued=_optional_moment(source.oldest_queued_ms),
    )


def minute(source: _abi.Minute) -> Minute:
    """Converts a minute of the last hour."""
    return Minute(
        start=moment(source.start_ms),
        enqueued=source.enqueued,
        sent=source.sent,
        failed_attempts=source.failed_attempts,
        failed=source.failed,
    )


def owned_text(source: ctypes.c_void_p) -> str:
    """Copies a text that C returned through `char **out`; the caller frees it."""
    return "" if not source else ctypes.string_at(source).decode()


def check_report(source: _abi.CheckReport) -> CheckReport:
    """Converts the report of a check."""
    return CheckReport(
        sound=source.sound,
        whole=source.whole,
        damaged=source.damaged,
        missing=source.missing,
        first_missing=source.first_missing,
        last_missing=source.last_missing,
        text=_text(source.text),
    )


def report(source: _abi.Report) -> Report:
    """Converts the report of a drain."""
    return Report(
        stop=Stop(source.stop),
        sent=source.sent,
        failed=source.failed,
        discarded=source.discarded,
        remaining=source.remaining,
        remaining_failed=source.remaining_failed,
        put_back=source.put_back,
    )


def state(source: _abi.State) -> State:
    """Converts the state of a queue."""
    return State(
        connectivity=Connectivity(source.connectivity),
        link=Link(source.link),
        metered=source.metered,
        lifecycle=Lifecycle(source.lifecycle),
        mode=Mode(source.mode),
        paused=source.paused,
        paused_conversations=source.paused_conversations,
        draining=source.draining,
        in_flight=source.in_flight,
        has_transport=source.has_transport,
        prompt=_prompt(source.prompt, source.prompt_failed) if source.has_prompt else None,
        prompt_expires=moment(source.prompt.expires_ms) if source.has_prompt else None,
        storage=Result(source.storage),
        storage_trouble=source.storage_trouble,
        reason=Reason(source.reason),
        until=_optional_moment(source.until_ms),
        text=_text(source.text),
        offline_reason=_text(source.offline_reason) or None,
        sqlite_version=_text(source.sqlite_version),
    )


def event(source: _abi.Event) -> Event:
    """Converts an event. C leaves 0 in fields that the kind does not have; those become None."""
    kind = EventKind(source.kind)
    is_status = kind is EventKind.STATUS
    is_link = kind is EventKind.CONNECTIVITY
    is_pause = kind is EventKind.PAUSED
    before = getattr(source, "from")
    return Event(
        kind=kind,
        at=moment(source.at_ms),
        id=_optional_text(source.id),
        conversation=_optional_text(source.conversation),
        from_status=Status(before) if is_status and before != _abi.STATUS_NONE else None,
        to_status=Status(source.to) if is_status else None,
        attempt=source.attempt or None,
        failure=failure(source.failure[0]) if source.failure else None,
        counts=counts(source.counts[0]) if source.counts else None,
        connectivity=Connectivity(source.connectivity) if is_link or kind is EventKind.SUMMARY else None,
        link=Link(source.link) if is_link else None,
        metered=source.metered if is_link else None,
        paused=source.paused if is_pause else None,
        failure_kind=FailureKind(source.failure_kind) if is_pause and source.failure_kind else None,
        prompt=_prompt(source.prompt[0], source.prompt[0].failed) if source.prompt else None,
        report=report(source.report[0]) if source.report else None,
        result=Result(source.result) if kind is EventKind.STORAGE else None,
        text=_optional_text(source.text),
        lost_events=source.lost_events or None,
    )


def _prompt(source: _abi.Prompt | _abi.StandingPrompt, failed: int) -> Prompt:
    return Prompt(
        messages=source.messages,
        bytes=source.bytes,
        oldest=moment(source.oldest_ms),
        conversations=source.conversations,
        timeout=source.timeout_ms / 1000,
        text=_text(source.text),
        failed=failed,
    )


def _pairs(pairs: Any, count: int) -> dict[str, str]:  # noqa: ANN401 - a ctypes pointer has no better type
    return {_text(pairs[index].key): _text(pairs[index].value) for index in range(count)} if count else {}


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _optional_text(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


def _optional_moment(milliseconds: int) -> datetime | None:
    return moment(milliseconds) if milliseconds else None

"""The values that a queue returns, frozen. Points in time are datetimes in UTC, durations are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from ._arguments import Body, Duration, Time
from ._values import Value, dataclass, field
from .enums import (
    Arrival,
    AttemptOutcome,
    ChangeKind,
    Connectivity,
    FailureKind,
    Lifecycle,
    Link,
    Mode,
    Reason,
    Result,
    Status,
    Stop,
)


@dataclass(frozen=True)
class Draft(Value):
    """A message for `MessageQueue.enqueue_batch`; the fields are the arguments of `MessageQueue.enqueue`."""

    body: Body
    conversation: str = ""
    metadata: Mapping[str, str] | None = None
    id: str | None = None
    not_before: Time | None = None
    expires_at: Time | None = None
    unmetered_only: bool = False
    replace_key: str | None = None
    priority: int = 0
    delay: Duration | None = None
    time: Time | None = None
    expiry: Duration | None = None


@dataclass(frozen=True)
class RecordedDraft(Value):
    """A message for `MessageQueue.record_batch`; the fields are the arguments of `MessageQueue.record`."""

    body: Body
    sender: str | None = None
    """Who wrote it; None: it is one's own, sent from another device."""
    conversation: str = ""
    metadata: Mapping[str, str] | None = None
    id: str | None = None
    time: Time | None = None


@dataclass(frozen=True)
class Failure(Value):
    """Why the last attempt of a message failed."""

    kind: FailureKind
    code: int
    """The transport's own code, for example an HTTP status; 0: none."""
    text: str
    """Raw, for a developer; `sentence` is for a person."""
    at: datetime
    retryable: bool
    """Another attempt may succeed."""
    attempts: int
    """Attempts made until then."""

    @property
    def sentence(self) -> str:
        """What happened and what can be done, for a person, without `text`."""
        return self.kind.sentence


@dataclass(frozen=True)
class Explanation(Value):
    """Why a message is not sent yet."""

    code: Reason
    text: str
    """One sentence for a person."""
    until: datetime | None
    """When that reason ends, if it is known."""
    behind: str | None
    """The id of the message before it, for BEHIND and BLOCKED; for NEXT the first of those of other conversations that
    go before it by `live_share` (0 or 1), priority or `soonest_expiry_first`; for GONE the one that replaced it."""
    retries: int = 0
    """How many retries the options permit a message: one with RETRYING waits for retry `retries_used` of them, or was
    skipped. 0: none, or not known (`maintenance`, `read_only`)."""


@dataclass(frozen=True)
class Message(Value):
    """A message at the time of the call that returned it."""

    id: str
    conversation: str
    sender: str | None
    """Of a received message; None: a message to send, or one's own that was recorded."""
    status: Status
    body: bytes | None = field(repr=False)
    """None when `list` was called with bodies=False, and of a message that is gone (`wait`, `send`)."""
    body_size: int
    preview: str
    """The first 100 characters of the body as text."""
    metadata: dict[str, str]
    sequence: int
    """The place in the order; grows with every enqueue, never reused."""
    created: datetime
    attempts: int
    """Attempts that were sent, the one in progress included."""
    failure: Failure | None
    """Of the last attempt, when that failed."""
    edited: datetime | None
    """When `edit` or `update` changed it last, each time a later time; None: never."""
    not_before: datetime | None
    expires_at: datetime | None
    next_attempt: datetime | None
    """After a retryable failure: not before this."""
    last_attempt: datetime | None
    """When the last attempt started."""
    sent: datetime | None
    unmetered_only: bool
    delivered_at: datetime | None = None
    """When the receipt arrived, never before `sent`; None: none arrived before the message was read."""
    read_at: datetime | None = None
    """When the receipt arrived, never before `sent` or `delivered_at`; of a received message: when it was marked."""
    retries_used: int = 0
    """Retries that count against `max_retries`; `MessageQueue.retry` starts at 0 again."""
    priority: int = 0
    time: datetime = datetime(1970, 1, 1, tzinfo=timezone.utc)
    """When it was composed, or sent by its sender, if that was given; otherwise `created`. The time to show."""
    failure_before: Failure | None = None
    """What failed before, when `failure` does not show it: while an attempt is in flight, and while
    `failure` is of kind OFFLINE."""
    explanation: Explanation | None = None
    """Why it is not sent yet: from `wait`, `send` and `list` with reasons=True; otherwise None."""

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 become replacement characters.

        Raises:
            ValueError: `list` was called with bodies=False; use `preview`.
        """
        if self.body is None:
            raise ValueError("the message was listed without its body; use preview, or get(id)")
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Delivery(Value):
    """One message as the transport receives it."""

    id: str
    """The idempotency key: the same on every attempt."""
    conversation: str
    body: bytes = field(repr=False)
    metadata: dict[str, str]
    attempt: int
    """From 1."""
    token: int
    """For `MessageQueue.complete`, when the transport returns `Outcome.pending()`."""
    created: datetime
    timeout: float
    """Seconds; without an answer within them the attempt ends as a time-out."""

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 become replacement characters."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Attempt(Value):
    """One attempt of a message."""

    number: int
    """From 1."""
    started: datetime
    duration: float | None
    """Seconds; None: not known, or not ended."""
    outcome: AttemptOutcome
    kind: FailureKind
    code: int
    arrival: Arrival
    """What is known about whether the message reached the receiver."""
    text: str


@dataclass(frozen=True)
class Counts(Value):
    """Messages by status."""

    queued: int
    sending: int
    sent: int
    delivered: int
    read: int
    failed: int
    received: int
    """Recorded messages with a sender."""
    unread: int
    """Those of them that are not marked as read."""
    unsent_bytes: int
    """Of the bodies of queued, sending and failed messages."""


@dataclass(frozen=True)
class Waiting(Value):
    """What the queued messages wait for. Each is counted once."""

    queued: int
    """All of them."""
    paused: int
    """In conversations that are paused; all, while the queue is paused."""
    scheduled: int
    """Of the others: before their `not_before`."""
    retrying: int
    """Of the others: in the delay after a failed attempt."""
    next_scheduled: datetime | None
    """When the first of the scheduled ones may be sent; None: there is none."""
    next_retry: datetime | None
    """When the first of the retrying ones is tried again; None: there is none."""


@dataclass(frozen=True)
class FailureGroup(Value):
    """The failed messages with the same kind and code of failure."""

    kind: FailureKind
    """UNKNOWN also where the failure is not known."""
    code: int
    """0: none."""
    count: int
    """The number of messages."""
    first: datetime
    """When the first message failed so, since there was none. It may have been retried or deleted."""
    last: datetime
    """When the last message failed so. It may have been retried or deleted."""
    text: str
    """Of the failure of the newest message, for a developer."""


@dataclass(frozen=True)
class Change(Value):
    """One change of a message, as the queue keeps it with `keep_changes`."""

    kind: ChangeKind
    """What happened."""
    status: Status
    """Since then; the last one if the message is gone."""
    failure_kind: FailureKind
    """Why it failed or waits for a retry; otherwise NONE."""
    code: int
    """0: none."""
    at: datetime
    """When it was written."""
    id: str
    """It is here until the change is removed, also when the message is gone."""
    conversation: str
    token: str
    """The place after this change: 49 characters."""


@dataclass(frozen=True)
class ChangePage(Value):
    """Changes in the order in which they were committed."""

    changes: tuple[Change, ...]
    """None: there are no more now."""
    next: str
    """The token of the place after them, from which the next page goes on."""
    oldest: str
    """The token of the place before the oldest change that is kept."""


@dataclass(frozen=True)
class Handed(Value):
    """One draft that another place has handed over to the queue."""

    id: str
    """One that is not valid is on one line, at most 255 bytes long, with control characters escaped."""
    result: Result
    """OK: the queue has a message of this id, or had one. INVALID, TOO_LARGE: it could not be kept."""
    body_size: int
    at: datetime
    """When it was handed over."""
    text: str
    """Why it could not be kept; otherwise ""."""


@dataclass(frozen=True)
class Conversation(Value):
    """A conversation as a list of conversations shows it."""

    name: str
    counts: Counts
    last: Message
    """Its newest message by time, without the body."""
    title: str | None = None
    """Of `MessageQueue.set_title`; None: it has none."""
    paused: bool = False
    """By `MessageQueue.pause` with its name, whether the queue is paused or not."""


@dataclass(frozen=True)
class CheckReport(Value):
    """What `check` and `salvage` found in a store."""

    sound: bool
    """Nothing is wrong with the store."""
    whole: int
    """Messages, of every status, that are exactly what was written."""
    damaged: int
    """Messages that are not, or that cannot be read."""
    missing: int
    """Messages that were in a part of the log that is lost, as far as their number is known."""
    first_missing: int
    """Their first sequence; 0: none are missing."""
    last_missing: int
    """Their last sequence; 0: it is not known how many are missing."""
    text: str
    """The findings in sentences, for a person."""


@dataclass(frozen=True)
class BatchOptions(Value):
    """The limits of the batches that a batch transport receives."""

    max_messages: int = 100
    """The most messages in a batch: 1 to 1,000.

    Unless `max_batches` is set, a batch begins while fewer than `max_in_flight` messages are in flight. It has more
    than the rest of those only if none is; so with `max_in_flight=1` there is one call at a time.
    """
    max_bytes: int = 1024 * 1024
    """The most bytes of bodies in a batch: 1 byte to 1 GiB. A larger message is alone in its batch."""
    linger: float = 0.0
    """Seconds for which a batch that is not full waits for more messages: 0 to 60. Not during a drain that was asked
    for."""
    single_conversation: bool = False
    """All messages of a batch belong to one conversation."""
    max_batches: int = 0
    """The most batches in flight: 1 to 64. Each may have `max_messages` messages, whatever `max_in_flight` is.

    With 2 the next batch is sent while the outcomes of the last one are stored; the transport is then called on two
    threads at a time. 0: `max_in_flight` limits the messages in flight. While sending ramps up (`ramp_up`), as few
    batches are in flight as attempts would be.
    """


@dataclass(frozen=True)
class Report(Value):
    """What a drain did."""

    stop: Stop
    """Why it stopped."""
    sent: int
    failed: int
    """Became failed."""
    discarded: int
    remaining: int
    """Queued or being sent when it ended."""
    remaining_failed: int = field(default=0, compare=False)
    """Failed when it ended. A drain sends none of what was failed before it, unless `include_failed` is set. Not part
    of a comparison of reports, which compares what the drains did."""
    put_back: int = 0
    """Were failed, and were put back to queued (`include_failed`)."""


@dataclass(frozen=True)
class Prompt(Value):
    """What a prompt of mode ASK asks about: what `drain` would send now.

    It does not count what is paused, scheduled for later, waits for a retry or an unmetered link, is blocked by a
    failed message, has expired, is being sent, or starts without an answer.
    """

    messages: int
    """Queued messages, at most `drain_batch`."""
    bytes: int
    """Of these and of the failed ones."""
    oldest: datetime
    """When the first of them was enqueued (or replaced an earlier one)."""
    conversations: int
    timeout: float
    """Seconds until the prompt expires."""
    text: str
    """The question, for a person."""
    failed: int = 0
    """With `prompt_for_failed`: failed messages that `drain(include_failed=True)` would send."""


@dataclass(frozen=True)
class State(Value):
    """The queue as a whole at the time of the call."""

    connectivity: Connectivity
    link: Link
    metered: bool
    lifecycle: Lifecycle
    mode: Mode
    paused: bool
    """The queue is paused; conversations that are paused by name count in `paused_conversations`."""
    paused_conversations: int
    draining: bool
    """A drain is in progress."""
    in_flight: int
    """Attempts in progress."""
    has_transport: bool
    prompt: Prompt | None
    """The prompt that is valid, with the numbers of its last event."""
    prompt_expires: datetime | None
    """When that prompt expires."""
    storage: Result
    """Of the last event of kind STORAGE; OK: nothing was wrong, or the store has recovered."""
    storage_trouble: bool
    """The store refuses writes now."""
    reason: Reason
    """Why nothing is being sent now. SENDING: something is. NONE: nothing is queued, and nothing stops the queue."""
    until: datetime | None
    """When that reason ends, if it is known."""
    text: str
    """The reason in a sentence, for a person."""
    offline_reason: str | None = None
    """Why there is no connection, as `set_connectivity` or the text of the last attempt says, if that was offline."""
    sqlite_version: str = ""
    """The version of SQLite that the library uses, as "3.40.1"."""

"""What a queue tells: plain, frozen values. Points in time are datetimes in UTC, durations seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ._arguments import Body, Time
from .enums import (
    Arrival,
    AttemptOutcome,
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
class Draft:
    """A message for `MessageQueue.enqueue_batch`; the fields are the arguments of `MessageQueue.enqueue`."""

    body: Body
    conversation: str = ""
    metadata: Mapping[str, str] | None = None
    id: str | None = None
    not_before: Time | None = None
    expires_at: Time | None = None
    unmetered_only: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a message is where it is: how its last attempt failed."""

    kind: FailureKind
    code: int
    """The transport's own, as an HTTP status; 0: none."""
    text: str
    """Raw, for a developer; for a person there is `sentence`."""
    at: datetime
    retryable: bool
    """Trying again may help."""
    attempts: int
    """Made until then."""

    @property
    def sentence(self) -> str:
        """What happened and what can be done, for a person; nothing of `text` is in it."""
        return self.kind.sentence


@dataclass(frozen=True)
class Message:
    """A message as it stood when it was asked for."""

    id: str
    conversation: str
    sender: str | None
    """Of a recorded message; None: our own."""
    status: Status
    body: bytes | None = field(repr=False)
    """None when the list was asked for without bodies."""
    body_size: int
    preview: str
    """The first 100 characters of the body as text."""
    metadata: dict[str, str]
    sequence: int
    """The place in the order: grows with every enqueue, is never reused."""
    created: datetime
    attempts: int
    """Those that left, the one under way included."""
    failure: Failure | None
    """Of the last attempt, when that failed."""
    edited: datetime | None
    not_before: datetime | None
    expires_at: datetime | None
    next_attempt: datetime | None
    """After a failure that may pass: not before this."""
    last_attempt: datetime | None
    """When the last attempt started."""
    sent: datetime | None
    unmetered_only: bool
    delivered_at: datetime | None = None
    """When the receipt came, never before `sent`; None: none came before the message was read."""
    read_at: datetime | None = None
    """When the receipt came, never before `sent` or `delivered_at`; or when a recorded message was marked as read."""
    retries_used: int = 0
    """Retries that count against `max_retries`; `MessageQueue.retry` begins anew."""

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 show as replacement characters.

        ValueError when the list was asked for without bodies: `preview` is there then.
        """
        if self.body is None:
            raise ValueError("the message was listed without its body; use preview, or get(id)")
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Delivery:
    """One message on its way, as the transport is given it."""

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
    """Seconds: answer within these, or it counts as a time-out."""

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 show as replacement characters."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Attempt:
    """One line of a message's ledger."""

    number: int
    """From 1."""
    started: datetime
    duration: float | None
    """Seconds; None: not known, or not over."""
    outcome: AttemptOutcome
    kind: FailureKind
    code: int
    arrival: Arrival
    """Whether the message surely, surely not or perhaps reached the receiver."""
    text: str


@dataclass(frozen=True)
class Counts:
    """Messages by status."""

    queued: int
    sending: int
    sent: int
    delivered: int
    read: int
    failed: int
    received: int
    """Recorded messages of others."""
    unread: int
    """Those of them that are not marked as read."""
    unsent_bytes: int
    """Of the bodies of queued, sending and failed messages."""


@dataclass(frozen=True)
class Conversation:
    """A conversation as a list of conversations shows it."""

    name: str
    counts: Counts
    last: Message
    """Its newest message, without the body."""


@dataclass(frozen=True)
class Explanation:
    """Why a message is not sent yet."""

    code: Reason
    text: str
    """One sentence for a person."""
    until: datetime | None
    """When the wait is over, where that is known."""
    behind: str | None
    """The id of the message that comes first, for BEHIND and BLOCKED."""


@dataclass(frozen=True)
class CheckReport:
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
class Report:
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
    """Failed when it ended; a drain leaves them alone, `retry_all` sends them again. Not part of a comparison: what
    the drain did is."""


@dataclass(frozen=True)
class Prompt:
    """What mode ASK asks about: send these now?"""

    messages: int
    bytes: int
    oldest: datetime
    """When the oldest was enqueued."""
    conversations: int
    timeout: float
    """Seconds until the prompt expires."""
    text: str
    """The question, for a person."""


@dataclass(frozen=True)
class State:
    """The queue as a whole, as it stood when it was asked for."""

    connectivity: Connectivity
    link: Link
    metered: bool
    lifecycle: Lifecycle
    mode: Mode
    paused: bool
    """The queue is paused; conversations that are paused by name count in `paused_conversations`."""
    paused_conversations: int
    draining: bool
    """A drain is under way."""
    in_flight: int
    """Attempts under way."""
    has_transport: bool
    prompt: Prompt | None
    """The prompt that stands, as its event told it."""
    prompt_expires: datetime | None
    """When that prompt expires."""
    storage: Result
    """Of the last event of kind STORAGE; OK: nothing was wrong, or the store has recovered."""
    storage_trouble: bool
    """The store refuses writes now."""
    reason: Reason
    """Why nothing is being sent now. SENDING: something is. NONE: nothing is queued, and nothing is in the way."""
    until: datetime | None
    """When that reason is over, where it is known."""
    text: str
    """The reason in a sentence, for a person."""

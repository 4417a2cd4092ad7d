"""Every enumeration of the library's header, with the same numbers."""

from __future__ import annotations

from enum import IntEnum


class _Named(IntEnum):
    """A number of the library with a name, which str() shows in every version of Python.

    A member is true, also the one with the number 0, unless its name is NONE.
    """

    def __bool__(self) -> bool:
        return self.name != "NONE"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class Result(_Named):
    """The result of a call of the library; `Error.code` is one of these."""

    OK = 0
    INVALID = 1
    NOT_FOUND = 2
    DUPLICATE = 3
    CONFLICT = 4
    BUSY = 5
    FULL = 6
    TOO_LARGE = 7
    LOCKED = 8
    CLOSED = 9
    FORKED = 10
    CORRUPT = 11
    STORAGE = 12
    UNKNOWN = 13
    TOO_NEW = 14
    PERMISSION = 15
    TIMEOUT = 16
    NO_TRANSPORT = 17
    INTERNAL = 18


class Status(_Named):
    """The status of a message; see "The life of a message" in the README."""

    QUEUED = 0
    """Will be sent."""
    SENDING = 1
    """An attempt is in progress."""
    SENT = 2
    """Reported by the transport."""
    DELIVERED = 3
    """Reported by a receipt."""
    READ = 4
    """Reported by a receipt."""
    FAILED = 5
    """Needs a person: retry, edit, delete."""

    @property
    def label(self) -> str:
        """The status for a person: "Queued", "Sending…", "Sent", "Delivered", "Read", "Failed"."""
        return _text("msgq_status_label", self)

    @property
    def icon(self) -> str:
        """The name of an icon: "clock", "arrow-up", "check", "check-double", "eye", "alert"."""
        return _text("msgq_status_icon", self)


class ChangeKind(_Named):
    """What a change of a message is."""

    STATUS = 0
    """It has another status, or failed again."""
    REPLACED = 1
    """A newer message of its `replace_key` took its place."""
    DISCARDED = 2
    """Deleted for its failure: its retries were used up, the receiver refused it, or the queue was full (DROPPED)."""
    DELETED = 3
    """A call deleted it."""
    PRUNED = 4
    """The limits of the history removed it."""


class FailureKind(_Named):
    """Why an attempt failed."""

    NONE = 0
    OFFLINE = 1
    """No connection: the message was not sent."""
    TIMEOUT = 2
    """No answer in time: the message may have arrived."""
    NETWORK = 3
    """Refused, reset, no name, no route."""
    SERVER = 4
    """The receiver failed (HTTP 5xx)."""
    RATE_LIMIT = 5
    """Too many requests (HTTP 429)."""
    UNAUTHORIZED = 6
    """The receiver refuses the credentials (HTTP 401, 403)."""
    REJECTED = 7
    """The receiver refuses the message (HTTP 4xx)."""
    NOT_FOUND = 8
    """There is no such receiver (HTTP 404, 410)."""
    EXPIRED = 9
    """The message expired before it could be sent."""
    UNKNOWN = 10
    """An attempt interrupted by a crash, an exception, or an invalid answer."""
    DROPPED = 11
    """The queue was full, and the message was deleted to make room for a newer one."""
    LOCAL = 12
    """The transport could not prepare the message for sending; see `PreparationError`."""

    @property
    def sentence(self) -> str:
        """What happened and what can be done, for a person; "" for NONE.

        For example "No internet connection. Your message is saved and you can retry later."
        """
        return _text("msgq_failure_text", self)


class Mode(_Named):
    """Whether the engine or a person starts sending what is queued."""

    AUTO = 0
    """The engine, by itself."""
    ASK = 1
    """The person, after an event of kind PROMPT: `drain` accepts it."""
    MANUAL = 2
    """The person alone, by `drain`, `send_now`, `retry` and `retry_all`."""


class Backoff(_Named):
    """How the delays between attempts are computed; chosen by the arguments of `RetryPolicy`."""

    AUTOMATIC = 0
    LADDER = 1
    EXPONENTIAL = 2


class Exhausted(_Named):
    """What happens to a message whose retries are used up."""

    KEEP = 0
    """It is failed until a person acts."""
    DISCARD = 1
    """It is deleted, with an event of kind DISCARDED."""


class Refused(_Named):
    """What happens to a message that its receiver refuses for good."""

    KEEP = 0
    """It is failed until a person acts."""
    DISCARD = 1
    """It is deleted, with an event of kind DISCARDED."""


class OnFull(_Named):
    """What `enqueue` and `enqueue_batch` do when a limit would be exceeded."""

    REFUSE = 0
    """They raise FullError, and nothing changes."""
    DROP_OLDEST = 1
    """The oldest queued messages of all conversations are deleted, each with an event of kind DISCARDED.

    One that is being sent or failed, and the history, are left. FullError when that is not enough.
    """


class ListOrder(_Named):
    """The order of the messages of a page."""

    SEQUENCE = 0
    """By `Message.sequence`, the order of sending."""
    TIME = 1
    """By `Message.time`, then by `Message.sequence`."""


class FinalFailure(_Named):
    """What a message that failed for good does to its conversation."""

    STEP_ASIDE = 0
    """The messages behind it are sent."""
    BLOCK = 1
    """It blocks them until a person retries or deletes it."""


class Callbacks(_Named):
    """Who runs callbacks, and what is due at a time.

    This package opens with POLL_TIMER, and its threads or its event loop poll; with polled=True it opens with POLL.
    """

    THREAD = 0
    POLL = 1
    POLL_TIMER = 2


class Verdict(_Named):
    """The result of an attempt, in an `Outcome`."""

    UNKNOWN = 0
    SENT = 1
    RETRY = 2
    REJECT = 3
    OFFLINE = 4
    PENDING = 5
    HTTP = 6
    SKIPPED = 7


class Arrival(_Named):
    """What is known about whether an attempt's message reached the receiver."""

    NO = 0
    YES = 1
    PERHAPS = 2


class AttemptOutcome(_Named):
    """How an attempt ended."""

    UNDER_WAY = 0
    SENT = 1
    RETRY = 2
    """A retryable failure."""
    REJECTED = 3
    """A final failure."""
    UNKNOWN = 4
    """Interrupted by a crash."""


class Stop(_Named):
    """Why a drain stopped."""

    EMPTY = 0
    """Nothing is queued any more."""
    WAITING = 1
    """What is queued is not due yet: a retry's delay, `not_before`, an unmetered link."""
    OFFLINE = 2
    """Not connected, or the transport reported that."""
    BATCH = 3
    """The batch is done."""
    TIMEOUT = 4
    """Its timeout ended."""
    STORAGE = 5
    """The store refuses to write, or no thread can be created."""
    CLOSED = 6
    """The queue is being closed."""
    STARTED = 7
    """Called inside a callback: it was started, and runs after the callback."""
    PAUSED = 8
    """`pause`, of the queue or of every conversation with queued messages; or the receiver refused the credentials."""


class Connectivity(_Named):
    """Whether there is a connection. UNKNOWN counts as online: a program that reports nothing is online."""

    UNKNOWN = 0
    OFFLINE = 1
    ONLINE = 2

    @property
    def label(self) -> str:
        """The connectivity for a person: "Unknown", "Offline", "Online"."""
        return _text("msgq_connectivity_label", self)


class Link(_Named):
    """The kind of the link."""

    NONE = 0
    WIFI = 1
    ETHERNET = 2
    CELLULAR = 3
    OTHER = 4


class Lifecycle(_Named):
    """Whether the program is in the foreground."""

    FOREGROUND = 0
    BACKGROUND = 1


class LogLevel(_Named):
    """The level of a log line of the library, for `set_log_level`."""

    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


class EventKind(_Named):
    """What an `Event` reports."""

    STATUS = 0
    """A message changed its status: id, conversation, from_status, to_status, attempt, failure."""
    SUMMARY = 1
    """The counts or the connectivity changed: counts, connectivity. Several changes may share one."""
    CONNECTIVITY = 2
    """connectivity, link, metered; text: why there is no connection."""
    PROMPT = 3
    """Send these now? `drain` accepts (with `include_failed` for `prompt_for_failed`), `withdraw_prompt` declines:
    prompt."""
    PROMPT_WITHDRAWN = 4
    """The prompt was answered, expired, or there is nothing to ask any more."""
    DRAIN_STARTED = 5
    """counts."""
    DRAIN_PROGRESS = 6
    """report: so far."""
    DRAIN_FINISHED = 7
    """report."""
    DISCARDED = 8
    """The message was deleted (`exhausted`, `refused`, `on_full`): id, conversation, failure."""
    DELETED = 9
    """id, conversation; without id: `clear`, `clear_failed` or `delete_conversation` of the conversation, or of all
    (conversation None)."""
    STORAGE = 10
    """The store has trouble, or (Result.OK) has recovered: result, text."""
    PAUSED = 11
    """paused, conversation (None: the queue), and failure_kind UNAUTHORIZED when an answer caused it."""
    RESYNC = 12
    """Events were lost because they were not taken in time: list again, and call `state`. lost_events."""
    REPLACED = 13
    """A queued message was replaced by a newer one of the same `replace_key`: id, conversation, text (the new id)."""
    EDITED = 14
    """`edit` or `update` changed the message: id, conversation."""
    PROMPT_CHANGED = 15
    """What a yes to the prompt would send changed while it stands: prompt. At most 4 in a second; it expires when it
    would have."""
    COLLECT = 16
    """Messages may wait in a place that hands them over, such as an outbox: collect them (`take_over`), also after
    RESYNC. From `request_collect`, also of another process, and every `collect_interval`."""


class Reason(_Named):
    """Why a message is not sent yet."""

    NONE = 0
    """Nothing to wait for: it was sent, or is a recorded one."""
    NEXT = 1
    """It starts as soon as an attempt may; while its batch waits for more (`linger`), at `until` at the latest."""
    SENDING = 2
    FAILED = 3
    """It needs a person: retry, edit, delete."""
    BEHIND = 4
    """Another message of its conversation comes first."""
    BLOCKED = 5
    """A failed message before it blocks the conversation."""
    RETRYING = 6
    """A retry is due later, after a failure or because the transport skipped the message."""
    SCHEDULED = 7
    """Its `not_before` is later."""
    EXPIRED = 8
    """It is about to fail."""
    OFFLINE = 9
    METERED = 10
    PAUSED = 11
    NO_TRANSPORT = 12
    PERSON = 13
    """A person has to send it: by a drain, which is also the answer to a prompt, or by `send_now`."""
    HOLDING = 14
    """`online_debounce`, or the receiver's delay."""
    TRIGGER = 15
    """In the background, or the batch is used up: until the next trigger."""
    STORAGE = 16
    """The store refuses to write, or no thread can be created."""
    RATE = 17
    """`rate_per_second` permits the next attempt of the queue later."""
    GONE = 18
    """Of `wait` and `send`: the message is no longer in the store. It was discarded, replaced (`behind`: by which) or
    deleted."""


def _text(function: str, number: int) -> str:
    # Imported here, because loading the library needs the errors, which need this module.
    from ._library import library

    text: bytes = getattr(library(), function)(number)
    return text.decode()

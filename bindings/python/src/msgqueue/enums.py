"""The words of the library: every enumeration of its header, with the same numbers."""

from __future__ import annotations

from enum import IntEnum


class _Word(IntEnum):
    """A number of the library with a name; shown by its name in every version of Python."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class Result(_Word):
    """What a call of the library answered; `Error.code` is one of these."""

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


class Status(_Word):
    """Where a message is on its way. Statuses only move forward, except that a failed message may be retried."""

    QUEUED = 0
    """It waits for its turn."""
    SENDING = 1
    """An attempt is under way."""
    SENT = 2
    """The transport said so."""
    DELIVERED = 3
    """A receipt said so."""
    READ = 4
    """A receipt said so."""
    FAILED = 5
    """It waits for a person: retry, edit, delete."""

    @property
    def label(self) -> str:
        """The word for a person: "Queued", "Sending…", "Sent", "Delivered", "Read", "Failed"."""
        return _word("msgq_status_label", self)

    @property
    def icon(self) -> str:
        """The name of an icon: "clock", "arrow-up", "check", "check-double", "eye", "alert"."""
        return _word("msgq_status_icon", self)


class FailureKind(_Word):
    """Why an attempt failed."""

    NONE = 0
    OFFLINE = 1
    """No connection: it never left."""
    TIMEOUT = 2
    """No answer in time: perhaps it arrived."""
    NETWORK = 3
    """Refused, reset, no name, no route."""
    SERVER = 4
    """The receiver broke (HTTP 5xx)."""
    RATE_LIMIT = 5
    """Too many (HTTP 429)."""
    UNAUTHORIZED = 6
    """Who are you? (HTTP 401, 403)"""
    REJECTED = 7
    """The receiver does not want it (HTTP 4xx)."""
    NOT_FOUND = 8
    """There is no such receiver (HTTP 404, 410)."""
    EXPIRED = 9
    """Its time ran out before it could be sent."""
    UNKNOWN = 10
    """Nobody knows: an attempt cut by a crash, an exception, an answer that means nothing."""

    @property
    def sentence(self) -> str:
        """What happened and what can be done, for a person; "" for NONE.

        For example "No internet connection. Your message is saved and you can retry later."
        """
        return _word("msgq_failure_text", self)


class Mode(_Word):
    """Who starts sending a backlog."""

    AUTO = 0
    """The engine, by itself."""
    ASK = 1
    """The person, after an event of kind PROMPT: `drain` is the yes."""
    MANUAL = 2
    """The person alone, by `drain`, `send_now`, `retry` and `retry_all`."""


class Backoff(_Word):
    """How the delays between attempts are found; chosen by what `RetryPolicy` is given."""

    AUTOMATIC = 0
    LADDER = 1
    EXPONENTIAL = 2


class Exhausted(_Word):
    """What becomes of a message whose retries are used up."""

    KEEP = 0
    """It is failed and waits for a person."""
    DISCARD = 1
    """It is deleted, with an event of kind DISCARDED."""


class Refused(_Word):
    """What becomes of a message that its receiver refuses for good."""

    KEEP = 0
    """It is failed and waits for a person."""
    DISCARD = 1
    """It is deleted, with an event of kind DISCARDED."""


class FinalFailure(_Word):
    """What a message that failed for good does to its conversation."""

    STEP_ASIDE = 0
    """Those behind it go on."""
    BLOCK = 1
    """They wait until a person retries or deletes it."""


class Callbacks(_Word):
    """Who runs callbacks. The binding always opens with POLL: its own threads poll, or its host does."""

    THREAD = 0
    POLL = 1


class Verdict(_Word):
    """The core of an `Outcome`."""

    UNKNOWN = 0
    SENT = 1
    RETRY = 2
    REJECT = 3
    OFFLINE = 4
    PENDING = 5
    HTTP = 6


class Arrival(_Word):
    """What is known about whether an attempt's message reached the receiver."""

    NO = 0
    YES = 1
    PERHAPS = 2


class AttemptOutcome(_Word):
    """How an attempt ended."""

    UNDER_WAY = 0
    SENT = 1
    RETRY = 2
    """Failed in a way that may pass."""
    REJECTED = 3
    """Failed for good."""
    UNKNOWN = 4
    """Cut by a crash."""


class Stop(_Word):
    """Why a drain stopped."""

    EMPTY = 0
    """Nothing is queued any more."""
    WAITING = 1
    """What is queued is not due yet: a retry's delay, `not_before`, an unmetered link."""
    OFFLINE = 2
    """Not connected, or the transport said so."""
    BATCH = 3
    """The batch is done."""
    TIMEOUT = 4
    """Its time ran out."""
    STORAGE = 5
    """The store refuses to write."""
    CLOSED = 6
    """The queue is being closed."""
    STARTED = 7
    """Called from inside a callback: it was started and goes on after the callback."""
    PAUSED = 8
    """`pause`, of the queue or of every conversation with queued messages; or the receiver did not know who it was."""


class Connectivity(_Word):
    """How the world is. UNKNOWN counts as online: a program that never tells is online."""

    UNKNOWN = 0
    OFFLINE = 1
    ONLINE = 2

    @property
    def label(self) -> str:
        """The word for a person: "Unknown", "Offline", "Online"."""
        return _word("msgq_connectivity_label", self)


class Link(_Word):
    """What the connection goes over."""

    NONE = 0
    WIFI = 1
    ETHERNET = 2
    CELLULAR = 3
    OTHER = 4


class Lifecycle(_Word):
    """Where the program is."""

    FOREGROUND = 0
    BACKGROUND = 1


class LogLevel(_Word):
    """How much a log line of the library matters."""

    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


class EventKind(_Word):
    """What an `Event` tells of."""

    STATUS = 0
    """A message changed its status: id, conversation, from_status, to_status, attempt, failure."""
    SUMMARY = 1
    """The counts or the connectivity changed: counts, connectivity. Several changes may share one."""
    CONNECTIVITY = 2
    """connectivity, link, metered."""
    PROMPT = 3
    """Send these now? `drain` is the yes: prompt."""
    PROMPT_WITHDRAWN = 4
    """The prompt was answered, expired, or there is nothing to ask any more."""
    DRAIN_STARTED = 5
    """counts."""
    DRAIN_PROGRESS = 6
    """report: so far."""
    DRAIN_FINISHED = 7
    """report."""
    DISCARDED = 8
    """Retries used up, or damaged beyond reading: id, conversation, failure."""
    DELETED = 9
    """id, conversation; without id: `clear` of the conversation, or of all (conversation None)."""
    STORAGE = 10
    """The store has trouble, or (Result.OK) is well again: result, text."""
    PAUSED = 11
    """paused, conversation (None: the queue), and failure_kind UNAUTHORIZED when an answer did it."""
    RESYNC = 12
    """Events were lost because nobody took them: list again, and ask for `state`."""


class Reason(_Word):
    """Why a message is not sent yet."""

    NONE = 0
    """Nothing to wait for: it was sent, or is somebody else's."""
    NEXT = 1
    """It starts as soon as an attempt may."""
    SENDING = 2
    FAILED = 3
    """It waits for a person: retry, edit, delete."""
    BEHIND = 4
    """Another message of its conversation comes first."""
    BLOCKED = 5
    """A failed message before it holds the conversation."""
    RETRYING = 6
    """It waits after a failure."""
    SCHEDULED = 7
    """It waits for its `not_before`."""
    EXPIRED = 8
    """It is about to fail."""
    OFFLINE = 9
    METERED = 10
    PAUSED = 11
    NO_TRANSPORT = 12
    PERSON = 13
    """A person has to send it: by a drain, which is also the answer to a prompt, or by `send_now`."""
    HOLDING = 14
    """The link settles, or the receiver asked to wait."""
    TRIGGER = 15
    """In the background, or the batch is used up: the next trigger goes on."""
    STORAGE = 16
    """The store refuses to write."""


def _word(function: str, number: int) -> str:
    # Imported here, because the library is loaded with errors, which are numbered by this module.
    from ._library import library

    text: bytes = getattr(library(), function)(number)
    return text.decode()

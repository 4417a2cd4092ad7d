"""A durable, offline-first outbound message queue.

    from msgqueue import MessageQueue, Outcome

    def send(delivery):                     # delivery.id .conversation .body .metadata .attempt
        response = post(delivery.body, key=delivery.id)
        return Outcome.http(response.status, response.headers)

    with MessageQueue("outbox.db", transport=send, on_event=print) as queue:
        queue.enqueue("hello", conversation="ana")
        queue.drain()

`msgqueue.aio` has the same for asyncio. The package uses the standard library and libmsgqueue.so, which the environment
variable MSGQUEUE_LIBRARY may name.
"""

from __future__ import annotations

from ._arguments import Body, Duration, Time
from ._callbacks import BatchTransport, EventHandler, Transport
from ._handovers import HandOver
from ._library import library_version, sqlite_version
from ._logs import set_log_level
from ._metrics import prometheus
from .checking import check, salvage
from .enums import (
    Arrival,
    AttemptOutcome,
    ChangeKind,
    Connectivity,
    EventKind,
    Exhausted,
    FailureKind,
    FinalFailure,
    Lifecycle,
    Link,
    ListOrder,
    LogLevel,
    Mode,
    OnFull,
    Reason,
    Refused,
    Result,
    Status,
    Stop,
    Verdict,
)
from .errors import (
    BusyError,
    ClosedError,
    ConflictError,
    CorruptError,
    DuplicateError,
    Error,
    ForkedError,
    FullError,
    InternalError,
    InvalidError,
    LibraryError,
    LockedError,
    MissingFileError,
    NotFoundError,
    NoTransportError,
    PermissionDeniedError,
    PreparationError,
    StorageError,
    TimedOutError,
    TooLargeError,
    TooNewError,
    UnknownError,
)
from .events import Event
from .models import (
    Attempt,
    BatchOptions,
    Change,
    ChangePage,
    CheckReport,
    Conversation,
    Counts,
    Delivery,
    Draft,
    Explanation,
    Failure,
    FailureGroup,
    Handed,
    Message,
    Prompt,
    RecordedDraft,
    Report,
    State,
    Waiting,
)
from .outbox import Outbox
from .outcome import Outcome
from .queue import MessageQueue
from .retry import RetryPolicy
from .statistics import Minute, Statistics
from .words import relative_time

__version__ = "0.2.0"

__all__ = [
    "Arrival",
    "Attempt",
    "AttemptOutcome",
    "BatchOptions",
    "BatchTransport",
    "Body",
    "BusyError",
    "Change",
    "ChangeKind",
    "ChangePage",
    "CheckReport",
    "ClosedError",
    "ConflictError",
    "Connectivity",
    "Conversation",
    "CorruptError",
    "Counts",
    "Delivery",
    "Draft",
    "DuplicateError",
    "Duration",
    "Error",
    "Event",
    "EventHandler",
    "EventKind",
    "Exhausted",
    "Explanation",
    "Failure",
    "FailureGroup",
    "FailureKind",
    "FinalFailure",
    "ForkedError",
    "FullError",
    "HandOver",
    "Handed",
    "InternalError",
    "InvalidError",
    "LibraryError",
    "Lifecycle",
    "Link",
    "ListOrder",
    "LockedError",
    "LogLevel",
    "Message",
    "MessageQueue",
    "Minute",
    "MissingFileError",
    "Mode",
    "NoTransportError",
    "NotFoundError",
    "OnFull",
    "Outbox",
    "Outcome",
    "PermissionDeniedError",
    "PreparationError",
    "Prompt",
    "Reason",
    "RecordedDraft",
    "Refused",
    "Report",
    "Result",
    "RetryPolicy",
    "State",
    "Statistics",
    "Status",
    "Stop",
    "StorageError",
    "Time",
    "TimedOutError",
    "TooLargeError",
    "TooNewError",
    "Transport",
    "UnknownError",
    "Verdict",
    "Waiting",
    "__version__",
    "check",
    "library_version",
    "prometheus",
    "relative_time",
    "salvage",
    "set_log_level",
    "sqlite_version",
]

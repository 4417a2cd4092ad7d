"""The events that a queue reports."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from ._values import Value, dataclass
from .enums import Connectivity, EventKind, FailureKind, Link, Result, Status
from .models import Counts, Failure, Prompt, Report


@dataclass(frozen=True, repr=False)
class Event(Value):
    """One event, reported after it is on disk. Fields that its kind does not have are None; see `EventKind`."""

    kind: EventKind
    at: datetime
    id: str | None = None
    conversation: str | None = None
    from_status: Status | None = None
    """None in an event of kind STATUS: the message was enqueued or recorded just now."""
    to_status: Status | None = None
    attempt: int | None = None
    """The attempt to which the change of status belongs."""
    failure: Failure | None = None
    counts: Counts | None = None
    connectivity: Connectivity | None = None
    link: Link | None = None
    metered: bool | None = None
    paused: bool | None = None
    failure_kind: FailureKind | None = None
    """The kind of the answer that paused the queue."""
    prompt: Prompt | None = None
    report: Report | None = None
    result: Result | None = None
    text: str | None = None
    lost_events: int | None = None
    """How many events were lost. None in an event of kind RESYNC: it is not known."""

    def __repr__(self) -> str:
        # For handlers such as `print`: one short line with the fields of this kind.
        from dataclasses import fields

        parts = [self.kind.name]
        for entry in fields(self)[2:]:
            value = getattr(self, entry.name)
            if value is not None:
                parts.append(f"{entry.name}={value.name if isinstance(value, Enum) else repr(value)}")
        return f"Event({', '.join(parts)})"

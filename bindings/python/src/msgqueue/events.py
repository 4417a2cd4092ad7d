"""What a queue tells its event handler."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum

from .enums import Connectivity, EventKind, FailureKind, Link, Result, Status
from .models import Counts, Failure, Prompt, Report


@dataclass(frozen=True, repr=False)
class Event:
    """Something that happened, told after it is on disk. What a kind does not have is None; see `EventKind`."""

    kind: EventKind
    at: datetime
    id: str | None = None
    conversation: str | None = None
    from_status: Status | None = None
    """None in an event of kind STATUS: the message was enqueued just now."""
    to_status: Status | None = None
    attempt: int | None = None
    """The attempt that the change of status belongs to."""
    failure: Failure | None = None
    counts: Counts | None = None
    connectivity: Connectivity | None = None
    link: Link | None = None
    metered: bool | None = None
    paused: bool | None = None
    failure_kind: FailureKind | None = None
    """Of an answer that paused the queue."""
    prompt: Prompt | None = None
    report: Report | None = None
    result: Result | None = None
    text: str | None = None

    def __repr__(self) -> str:
        # Handlers are often `print` at first: one short line with what this kind has.
        parts = [self.kind.name]
        for entry in fields(self)[2:]:
            value = getattr(self, entry.name)
            if value is not None:
                parts.append(f"{entry.name}={value.name if isinstance(value, Enum) else repr(value)}")
        return f"Event({', '.join(parts)})"

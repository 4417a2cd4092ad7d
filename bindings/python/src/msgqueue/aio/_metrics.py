"""The statistics of several queues as one text, without blocking the loop."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from .. import _metrics
from ..errors import ClosedError
from .queue import MessageQueue


async def prometheus(queues: Iterable[MessageQueue]) -> str:
    """Returns the statistics and the counts of several queues as one text, as `msgqueue.prometheus`.

    Those that are not open are left out.

    Args:
        queues: The queues, at most 1000, all of the running loop.

    Raises:
        Error: As `msgqueue.prometheus`.
    """
    sessions = []
    for queue in queues:
        with suppress(ClosedError):
            session = queue._calls.opened
            sessions.append((session, session.queue))
    if not sessions:
        return ""
    return await sessions[0][0].reads.run(lambda: _metrics.prometheus(queue for _, queue in sessions))

"""The statistics of several queues as one text, without blocking the loop."""

from __future__ import annotations

from collections.abc import Iterable

from .. import _metrics
from .queue import MessageQueue


async def prometheus(queues: Iterable[MessageQueue]) -> str:
    """Returns the statistics and the counts of several queues as one text, as `msgqueue.prometheus`.

    Args:
        queues: The queues, at most 1000, all of the running loop.

    Raises:
        Error: As `msgqueue.prometheus`.
    """
    sessions = [queue._calls.opened for queue in queues]
    if not sessions:
        return ""
    polled = [session.queue for session in sessions]
    return await sessions[0].reads.run(lambda: _metrics.prometheus(polled))

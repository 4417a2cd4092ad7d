"""Which queues a relay reports its connectivity to, and what they know."""

from __future__ import annotations

import threading
import weakref

from ..enums import Connectivity
from ..errors import ConflictError, Error
from ..queue import MessageQueue
from .reasons import logger


class Reports:
    """The queues that are attached to a relay. Any thread may call any method; no queue is kept alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Each queue, and what was reported to it last: the connectivity, and the reason for being offline.
        self._queues: weakref.WeakKeyDictionary[MessageQueue, tuple[Connectivity, str]] = weakref.WeakKeyDictionary()

    def add(self, queue: MessageQueue) -> None:
        """Reports to a queue from now on."""
        with self._lock:
            self._queues[queue] = (Connectivity.UNKNOWN, "")

    def clear(self) -> None:
        """Reports to no queue any more."""
        with self._lock:
            self._queues.clear()

    def report(self, connectivity: Connectivity, reason: str = "", *, only_after: Connectivity | None = None) -> None:
        """Reports to each queue, unless it knows that already, or knows anything but `only_after`."""
        state = (connectivity, _presentable(reason) if connectivity is Connectivity.OFFLINE else "")
        with self._lock:
            queues = list(self._queues.items())
        for queue, known in queues:
            if known == state or (only_after is not None and known[0] is not only_after):
                continue
            is_told = _tell(queue, *state)
            with self._lock:
                if not is_told:
                    self._queues.pop(queue, None)
                elif queue in self._queues:
                    self._queues[queue] = state


def _tell(queue: MessageQueue, connectivity: Connectivity, reason: str) -> bool:
    try:
        queue.set_connectivity(connectivity, reason=reason)
    except ConflictError:
        logger.warning("a monitor reports the connectivity of %s: its relay does not", queue.path)
        return False
    except Error:
        # The queue is closed.
        return False
    return True


def _presentable(text: str) -> str:
    """Returns a text that may come from an exception as one that C accepts."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()

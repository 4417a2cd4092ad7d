"""The queue of an event loop."""

from __future__ import annotations

from ..queue import MessageQueue


class PolledQueue(MessageQueue):
    """Its callbacks run where the loop polls. A thread of the library does what is due, which may use the disk."""

    _has_timer = True

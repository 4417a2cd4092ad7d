"""What a queue is told of its environment: connectivity and lifecycle."""

from __future__ import annotations

from . import _arguments
from ._handle import Handle
from .enums import Connectivity, Lifecycle, Link


class Environment:
    """The calls of `MessageQueue` that report connectivity and lifecycle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def set_connectivity(self, connectivity: Connectivity, link: Link, metered: bool) -> None:
        """See `MessageQueue.set_connectivity`."""
        handle = self._handle
        handle.check(
            handle.lib.msgq_set_connectivity(
                handle.pointer,
                _arguments.member("connectivity", connectivity, Connectivity),
                _arguments.member("link", link, Link),
                _arguments.flag("metered", metered),
            )
        )

    def start_monitor(self) -> None:
        """See `MessageQueue.start_monitor`."""
        self._handle.check(self._handle.lib.msgq_monitor_start(self._handle.pointer))

    def stop_monitor(self) -> None:
        """See `MessageQueue.stop_monitor`."""
        self._handle.check(self._handle.lib.msgq_monitor_stop(self._handle.pointer))

    def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """See `MessageQueue.set_lifecycle`."""
        number = _arguments.member("lifecycle", lifecycle, Lifecycle)
        self._handle.check(self._handle.lib.msgq_set_lifecycle(self._handle.pointer, number))

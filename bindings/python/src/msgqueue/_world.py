"""What a queue is told of the world around it."""

from __future__ import annotations

from . import _arguments
from ._reading import Reading
from .enums import Connectivity, Lifecycle, Link


class World(Reading):
    """Connectivity and lifecycle."""

    def set_connectivity(self, connectivity: Connectivity, link: Link = Link.OTHER, metered: bool = False) -> None:
        """Tells how the world is. Offline stops sending; online wakes what waits, after `online_debounce` seconds.

        Errors: ConflictError (a monitor tells it).
        """
        self._check(
            self._lib.msgq_set_connectivity(
                self._handle.pointer,
                _arguments.member("connectivity", connectivity, Connectivity),
                _arguments.member("link", link, Link),
                _arguments.flag("metered", metered),
            )
        )

    def start_monitor(self) -> None:
        """Lets the kernel tell instead (Linux), beginning with how things are now: when this returns, the queue knows.

        Online is a default route, of IPv4 or IPv6, by a link that is up, and an address of its family to come from. The
        link is that of the route with the lowest metric, and counts as metered when it is cellular. Whether a receiver
        can be reached is not asked. It hears of the network namespace of the thread that calls this. A second time
        changes nothing.

        Errors: PermissionDeniedError (a sandbox forbids it), StorageError (no descriptor left).
        """
        self._check(self._lib.msgq_monitor_start(self._handle.pointer))

    def stop_monitor(self) -> None:
        """Ends it; what was known last stays true until `set_connectivity`. Without a monitor it does nothing."""
        self._check(self._lib.msgq_monitor_stop(self._handle.pointer))

    def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """Tells where the program is; a queue begins in the foreground. In the background nothing is sent by itself,
        unless `send_in_background` says so; what is enqueued online, a drain and a person's wish still go.
        """
        number = _arguments.member("lifecycle", lifecycle, Lifecycle)
        self._check(self._lib.msgq_set_lifecycle(self._handle.pointer, number))

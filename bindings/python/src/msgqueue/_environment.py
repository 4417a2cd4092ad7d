"""The calls that report connectivity and the lifecycle of the host."""

from __future__ import annotations

from . import _arguments
from ._handle import Handle
from .enums import Connectivity, Lifecycle, Link


class Environment:
    """The calls of `MessageQueue` that report connectivity and lifecycle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def set_connectivity(
        self,
        connectivity: Connectivity,
        link: Link = Link.OTHER,
        metered: bool = False,
        *,
        reason: str | None = None,
    ) -> None:
        """Reports connectivity. Offline stops sending; online starts it after `online_debounce` seconds.

        Args:
            connectivity: Whether there is a connection.
            link: The kind of the link.
            metered: Whether traffic on it is charged by volume.
            reason: Why there is no connection, as "connection refused by 127.0.0.1:4222". `state`, `explain` and the
                event repeat it, and each change of it, except of its digits, is a warning in the log. It becomes one
                line of at most 255 bytes, without user names and passwords of URLs. The text of `Outcome.offline` is
                used in the same way. Ignored while online.

        Raises:
            ConflictError: A monitor reports it.
        """
        handle = self._handle
        handle.check(
            handle.lib.msgq_set_connectivity_reason(
                handle.pointer,
                _arguments.member("connectivity", connectivity, Connectivity),
                _arguments.member("link", link, Link),
                _arguments.flag("metered", metered),
                _arguments.optional_text("reason", reason),
            )
        )

    def start_monitor(self) -> None:
        """Lets the kernel report connectivity (Linux), beginning with the current state.

        When this returns, the queue has that state. Online means a default route, of IPv4 or IPv6, by a link that is
        up, and an address of its family. The link is that of the route with the lowest metric, and counts as metered
        when it is cellular. Whether a receiver can be reached is not checked. It watches the network namespace of the
        thread that calls this. A second call changes nothing.

        Raises:
            PermissionDeniedError: A sandbox forbids it.
            StorageError: No file descriptor is left.
        """
        self._handle.check(self._handle.lib.msgq_monitor_start(self._handle.pointer))

    def stop_monitor(self) -> None:
        """Ends the monitor; the last known connectivity stays until `set_connectivity`.

        Without a monitor it does nothing.
        """
        self._handle.check(self._handle.lib.msgq_monitor_stop(self._handle.pointer))

    def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """Reports whether the program is in the foreground; a queue begins there.

        In the background the engine sends nothing by itself, unless `send_in_background` is set. Messages enqueued
        while online, `drain`, `retry` and `send_now` still send.

        Args:
            lifecycle: Foreground or background.
        """
        number = _arguments.member("lifecycle", lifecycle, Lifecycle)
        self._handle.check(self._handle.lib.msgq_set_lifecycle(self._handle.pointer, number))

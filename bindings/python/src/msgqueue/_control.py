"""The calls that start and stop the control socket."""

from __future__ import annotations

import os

from . import _arguments
from ._handle import Handle


class Control:
    """The calls of `MessageQueue` for the control socket."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def start_control(self, path: str | os.PathLike[str] | None = None) -> None:
        """Lets other programs of the same user, and of root, look into the queue and control it while it is open.

        They write requests in lines of JSON to a Unix socket with mode 0600; the protocol is described in
        `Sources/MsgQueue/MsgQueue.docc/ControlSocket.md`. The socket ends with `stop_control` or `close`.

        Args:
            path: The path of the socket; None: the store's path with "-control" appended.

        Raises:
            ConflictError: It is started already; or the path exists and is not a socket.
            LockedError: Another program listens there.
            InvalidError: The directory does not exist, or the name is too long.
            PermissionDeniedError: The place is unsafe or not writable; or the queue was opened with `read_only`.
            StorageError: No file descriptor or thread is left, or the disk is full.
        """
        given = None if path is None else _arguments.path(path)
        self._handle.check(self._handle.lib.msgq_control_start(self._handle.pointer, given))

    def stop_control(self) -> None:
        """Removes the control socket and disconnects its clients.

        Without a control socket it does nothing.
        """
        self._handle.check(self._handle.lib.msgq_control_stop(self._handle.pointer))

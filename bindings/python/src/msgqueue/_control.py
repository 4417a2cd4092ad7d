"""The calls that start and stop the control socket."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import _arguments
from ._handle import Handle
from .errors import Error

if TYPE_CHECKING:
    from .console import Console


class Control:
    """The calls of `MessageQueue` for the control socket, and for the review page, which works through it."""

    def __init__(self, handle: Handle, store: str) -> None:
        self._handle = handle
        self._store = str(Path(store).absolute())
        # Where the socket is; None: it was not started.
        self._socket: str | None = None

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
            PermissionDeniedError: The place is unsafe or not writable; or the queue was opened with `read_only` and no
                path is given, because no file is made beside such a store.
            StorageError: No file descriptor or thread is left, or the disk is full.
        """
        given = None if path is None else _arguments.path(path)
        self._handle.check(self._handle.lib.msgq_control_start(self._handle.pointer, given))
        self._socket = f"{self._store}-control" if path is None else str(Path(path).absolute())

    def stop_control(self) -> None:
        """Removes the control socket and disconnects its clients.

        Without a control socket it does nothing.
        """
        self._handle.check(self._handle.lib.msgq_control_stop(self._handle.pointer))
        self._socket = None

    def console(self, port: int = 0, *, drives_lifecycle: bool = False) -> Console:
        """Serves the review page, which shows the queue in a browser and controls it, until `Console.close`.

        The server listens on 127.0.0.1, on threads of its own. It works through the control socket; without a started
        one, it starts one in a private directory and stops it at its end. Close the console before the queue.

        Args:
            port: The port, 0 to 65535; 0: a free one.
            drives_lifecycle: The queue is in the foreground while a page that shows it is visible, otherwise in the
                background.

        Returns:
            The console; `url` is the address to open. It is also a context manager.

        Raises:
            InvalidError: The port is out of range.
            OSError: The port is taken.
            PermissionDeniedError: The queue was opened with `read_only`.
            StorageError: No file descriptor or thread is left.
        """
        from . import console
        from .console._store import Store

        _arguments.unsigned("port", port, bits=16)
        _arguments.flag("drives_lifecycle", drives_lifecycle)
        with ExitStack() as resources:
            socket = self._socket or self.private_socket(resources)
            return console._serve(Store(self._store, socket), port, drives_lifecycle, resources.pop_all())

    def private_socket(self, resources: ExitStack) -> str:
        """Starts the control socket in a directory that only this user may enter, until `resources` are released."""
        directory = resources.enter_context(tempfile.TemporaryDirectory(prefix="msgqueue-"))
        socket = str(Path(directory) / "control")
        self.start_control(socket)

        def stop() -> None:
            if self._socket == socket:
                # A closed queue has stopped it already.
                with suppress(Error):
                    self.stop_control()

        resources.callback(stop)
        return socket

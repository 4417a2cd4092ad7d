"""The calls that start and stop the control socket."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from . import _arguments
from ._handle import Handle
from .errors import ClosedError, Error

if TYPE_CHECKING:
    import tempfile

    from .console import Console

logger = logging.getLogger("msgqueue")


class Control:
    """The calls of `MessageQueue` for the control socket, and for the review page, which works through it."""

    def __init__(self, handle: Handle, store: str) -> None:
        self._handle = handle
        # Absolute, without `pathlib`, whose import takes a tenth of the time of `import msgqueue`.
        self._given = store if os.path.isabs(store) else os.path.join(os.getcwd(), store)  # noqa: PTH117, PTH118, PTH109
        self._lock = threading.RLock()
        # Where the socket is, or was last.
        self._place = ""
        self._is_started = False
        # The socket for the consoles of this queue, used when no other was started, and how many use it.
        self._private: str | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._users = 0

    @property
    def _store(self) -> str:
        return _absolute(self._given)

    def start_control(self, path: str | os.PathLike[str] | None = None) -> None:
        """Lets other programs of the same user, and of root, look into the queue and control it while it is open.

        They write requests in lines of JSON to a Unix socket with mode 0600; the protocol is described in
        `Sources/MsgQueue/MsgQueue.docc/ControlSocket.md`. The socket ends with `stop_control` or `close`.
        Consoles of this queue that run connect again, to this socket.

        Args:
            path: The path of the socket; None: the store's path with "-control" appended.

        Raises:
            ConflictError: It is started already; or the path exists and is not a socket.
            LockedError: Another program listens there.
            MissingFileError: The directory does not exist.
            InvalidError: The name is too long.
            PermissionDeniedError: The place is unsafe or not writable; or the queue was opened with `read_only` and no
                path is given, because no file is made beside such a store.
            StorageError: No file descriptor or thread is left, or the disk is full.
        """
        given = None if path is None else _arguments.path(path)
        place = f"{self._store}-control" if path is None else _absolute(path)
        with self._changing():
            if not self._uses_private:
                self._start(given, place)
                return
            # The queue has one socket. Consoles connect again, to this one.
            self._stop()
            try:
                self._start(given, place)
            except BaseException:
                self._start_private()
                raise

    def stop_control(self) -> None:
        """Removes the control socket and disconnects its clients.

        Without a control socket it does nothing. Consoles of this queue go on, through a socket of their own.
        """
        with self._changing():
            if self._uses_private:
                self._require_open()
                return
            self._stop()
            if self._private is not None:
                self._start_private()

    def console(self, port: int = 0, *, drives_lifecycle: bool = False) -> Console:
        """Serves the review page, which shows the queue in a browser and controls it, until `Console.close`.

        The server listens on 127.0.0.1, on threads of its own. It works through the control socket; without a started
        one, it starts one in a private directory, which the consoles of the queue share and the last one stops. Close
        the console before the queue.

        Args:
            port: The port, 0 to 65535; 0: a free one.
            drives_lifecycle: The queue is in the foreground while a page that shows it is visible, otherwise in the
                background.

        Returns:
            The console; `url` is the address to open. It is also a context manager.

        Raises:
            ClosedError: The queue is closed.
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
            self.private_socket(resources)
            store = Store(self._store, lambda: self._place)
            return console._serve(store, port, drives_lifecycle, resources.pop_all())

    def private_socket(self, resources: ExitStack) -> str:
        """Returns the path of the control socket, until `resources` are released.

        Without a started one, it starts one in a directory that only this user may enter.
        """
        with self._changing():
            self._require_open()
            if self._private is None:
                import tempfile

                directory = tempfile.TemporaryDirectory(prefix="msgqueue-")
                self._private = os.path.join(directory.name, "control")  # noqa: PTH118
                self._directory = directory
            self._users += 1
            resources.callback(self._release)
            if not self._is_started:
                self._start(_arguments.path(self._private), self._private)
            return self._place

    def _release(self) -> None:
        """Stops the private socket after its last user."""
        if self._handle.is_forked:
            # It belongs to the parent.
            return
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self._uses_private:
                # A closed queue has stopped it already.
                with suppress(Error):
                    self._stop()
                self._is_started = False
            self._private = None
            if self._directory is not None:
                self._directory.cleanup()
                self._directory = None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        # Refused in a forked child, where no thread releases the lock.
        _ = self._handle.pointer
        with self._lock:
            yield

    def _require_open(self) -> None:
        if self._handle.is_closed:
            raise ClosedError("the queue is closed")

    @property
    def _uses_private(self) -> bool:
        return self._is_started and self._place == self._private

    def _start(self, given: bytes | None, place: str) -> None:
        result = self._handle.lib.msgq_control_start(self._handle.pointer, given)
        self._handle.check(result, *([] if given is None else [given]))
        self._place = place
        self._is_started = True

    def _stop(self) -> None:
        self._handle.check(self._handle.lib.msgq_control_stop(self._handle.pointer))
        self._is_started = False

    def _start_private(self) -> None:
        """Starts the private socket again, for the consoles that still run."""
        assert self._private is not None, "a console uses it"
        try:
            self._start(_arguments.path(self._private), self._private)
        except Error:
            logger.warning("the consoles of %s cannot go on", self._store, exc_info=True)


def _absolute(path: str | os.PathLike[str]) -> str:
    from pathlib import Path

    return str(Path(path).absolute())

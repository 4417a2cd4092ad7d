"""The HTTP server of the review page, on 127.0.0.1 only."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from http.server import ThreadingHTTPServer
from typing import Any, Final

from ._access import Access
from ._connections import Connections, disconnect
from ._files import Files
from ._handler import Handler
from ._requests import Requests
from ._session import Session

logger = logging.getLogger("msgqueue")

# As socketserver has them.
_Request = Any
_Address = Any

# Seconds after a connection could not be accepted.
_ACCEPT_PAUSE: Final = 0.1


class Server(ThreadingHTTPServer):
    """Listens on a port, with a thread for each connection, until `close`."""

    daemon_threads = True
    # Another program may not take the port while this one listens, and this one may take it again at once.
    allow_reuse_address = True
    request_queue_size = 32

    def __init__(self, sessions: Sequence[Session], port: int, drives_lifecycle: bool) -> None:
        """Begins to listen. `is_closed` becomes True with `close`.

        Raises:
            OSError: The port is taken.
        """
        super().__init__(("127.0.0.1", port), Handler)
        self.port = int(self.server_address[1])
        self.access = Access(self.port)
        self.files = Files()
        self.requests = Requests(sessions, self.access, drives_lifecycle)
        self.connections = Connections()
        self._lock = threading.Lock()
        self.is_closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._accept, name="msgqueue console", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server and its connections. A second call does nothing.

        In a forked child it only closes the child's descriptors: the server belongs to the parent.
        """
        if os.getpid() != self._process:
            self.socket.close()
            return
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        # Wakes the thread that accepts; unlike serve_forever, that needs no timer.
        disconnect(self.socket)
        self._thread.join()
        self.server_close()
        for session in self.requests.sessions:
            session.feed.close()
        self.connections.close()
        self.requests.close()

    def _accept(self) -> None:
        """Accepts connections until `close`."""
        while not self.is_closed:
            try:
                request, address = self.get_request()
            except OSError:
                # Closed; or no descriptor is left: others may give one back.
                time.sleep(0 if self.is_closed else _ACCEPT_PAUSE)
                continue
            self.process_request(request, address)

    def process_request(self, request: _Request, client_address: _Address) -> None:
        """Starts the thread of a connection."""
        if not self.connections.enter(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No thread is left.
            self.connections.leave(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: _Request, client_address: _Address) -> None:
        """Serves a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    def handle_error(self, request: _Request, client_address: _Address) -> None:
        """Ignores connections that a browser broke; anything else is a defect, which is reported."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.error("review page: a request failed", exc_info=True)

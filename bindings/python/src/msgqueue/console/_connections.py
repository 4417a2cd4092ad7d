"""The connections of the server: a bounded number, of which strangers cannot take all."""

from __future__ import annotations

import socket
import threading
from typing import Final

# Connections that have shown no right to be here yet. Any user of this machine can make them. With one more, the oldest
# is disconnected: a browser sends its request as soon as it is connected.
_STRANGERS: Final = 32
# Connections of browsers that were admitted. Each uses up to six.
_GUESTS: Final = 32
# Those that were disconnected and whose threads have not ended are counted, too.
_MOST: Final = 80
# Seconds for one of them to end.
_PATIENCE: Final = 1.0


class Connections:
    """Knows which connections there are, from `enter` to `leave`. Any thread may call it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # In the order of their coming.
        self._strangers: dict[socket.socket, None] = {}
        self._guests: set[socket.socket] = set()
        self._ending: set[socket.socket] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._strangers) + len(self._guests) + len(self._ending)

    def enter(self, connection: socket.socket) -> bool:
        """Gives a new connection a place, as a stranger. False: there is none."""
        with self._changed:
            if len(self._strangers) >= _STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                self._ending.add(oldest)
                disconnect(oldest)
            self._changed.wait_for(lambda: self._is_closed or len(self) < _MOST, _PATIENCE)
            if self._is_closed or len(self) >= _MOST:
                return False
            self._strangers[connection] = None
            return True

    def admit(self, connection: socket.socket) -> bool:
        """Makes a stranger a guest, which stays. False: there are too many, or it was disconnected."""
        with self._changed:
            if connection in self._guests:
                return True
            if connection not in self._strangers or len(self._guests) >= _GUESTS:
                return False
            del self._strangers[connection]
            self._guests.add(connection)
            return True

    def leave(self, connection: socket.socket) -> None:
        """Frees the place of a connection that has ended."""
        with self._changed:
            self._strangers.pop(connection, None)
            self._guests.discard(connection)
            self._ending.discard(connection)
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all of them, and gives no further place."""
        with self._changed:
            self._is_closed = True
            for connection in (*self._strangers, *self._guests):
                disconnect(connection)
            self._changed.notify_all()


def disconnect(connection: socket.socket) -> None:
    """Ends a connection that another thread may be using; that thread closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It has ended by itself.
        return

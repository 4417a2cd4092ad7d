"""The connection of a client of the control socket: lines over a Unix socket, with time limits."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from .errors import InternalError, InvalidError, PermissionDeniedError, StorageError, TimedOutError

# The longest path in a socket address.
_MAX_PATH = 107
_CHUNK = 256 << 10
# A greeting has a path and few more bytes. Other lines are limited by what the store can contain: `Address.longest`.
LONGEST_GREETING = 64 << 10
_LONGEST = 64 << 20
_WORST_ESCAPE = 6
_PEER = struct.Struct("iII")


@dataclass(frozen=True)
class Address:
    """Where a control socket is expected, and whose."""

    store: str
    path: str
    timeout: float

    def connect(self) -> Connection:
        """Connects.

        Raises:
            FileNotFoundError: There is no socket.
            ConnectionRefusedError: No program listens.
            PermissionDeniedError: It belongs to another user, or the system forbids it.
            TimedOutError: The program did not accept the connection in time.
            InvalidError: The path is wrong.
        """
        try:
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as problem:
            raise StorageError(f"socket: {problem.strerror}") from None
        try:
            peer.settimeout(self.timeout)
            self._connect(peer)
            self._check_peer(peer)
        except OSError as problem:
            peer.close()
            raise self._explained(problem) from None
        except BaseException:
            peer.close()
            raise
        return Connection(peer, self)

    def longest(self) -> int:
        """Returns how many bytes a line may have: more than all messages of the store, with every byte escaped."""
        size = 0
        for name in (self.store, f"{self.store}-wal"):
            with contextlib.suppress(OSError, ValueError):
                size += Path(name).stat().st_size
        return _LONGEST + _WORST_ESCAPE * size

    def _connect(self, peer: socket.socket) -> None:
        name = os.fsencode(self.path)
        if b"\0" in name:
            raise InvalidError("the path of the socket contains a NUL")
        if len(name) <= _MAX_PATH:
            peer.connect(name)
            return
        # A longer path does not fit into a socket address.
        descriptor = os.open(name, os.O_PATH | os.O_CLOEXEC)
        try:
            peer.connect(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def _check_peer(self, peer: socket.socket) -> None:
        """Refuses the socket of a user who may not own the store."""
        user: int = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
        allowed = {0, os.geteuid()}
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):
                allowed.add(Path(self.store).stat().st_uid)
        if user not in allowed:
            raise PermissionDeniedError(f"the program that answers on {self.path} belongs to another user ({user})")

    def _explained(self, problem: OSError) -> OSError | InvalidError:
        if isinstance(problem, PermissionDeniedError):
            return problem
        if isinstance(problem, (TimeoutError, socket.timeout)) or problem.errno == errno.EAGAIN:
            return TimedOutError(f"no answer on {self.path} within {self.timeout:g} s")
        if problem.errno in (errno.EACCES, errno.EPERM):
            return PermissionDeniedError(f"{self.path}: {problem.strerror}")
        if problem.errno in (errno.ENOTSOCK, errno.EPROTOTYPE, errno.ENAMETOOLONG, errno.ELOOP):
            return InvalidError(f"{self.path}: {problem.strerror}")
        return problem


class Connection:
    """A connected socket that carries lines."""

    def __init__(self, peer: socket.socket, address: Address) -> None:
        self._peer = peer
        self._address = address
        self._input = bytearray()
        # The first byte of the input that was not searched for the end of a line.
        self._searched = 0
        self._is_closed = False

    def write(self, data: bytes) -> None:
        """Writes all bytes. If that is interrupted or fails, the connection is closed, because half a line was sent.

        Raises:
            TimedOutError: The server does not read.
        """
        if self._is_closed:
            # The next `line` reports the end.
            return
        try:
            self._peer.settimeout(self._address.timeout)
            self._peer.sendall(data)
        except (TimeoutError, socket.timeout):
            self.close()
            raise TimedOutError(f"the server did not read within {self._address.timeout:g} s") from None
        except (ConnectionError, ValueError):
            # The server may have written why it ended the connection, which the next `line` returns.
            pass
        except OSError:
            if not self._is_closed:
                raise
        except BaseException:
            self.close()
            raise

    def line(self, timeout: float | None, longest: int | None = None) -> bytes | None:
        """Returns the next line, or None at the end of the connection.

        Args:
            timeout: How many seconds to wait; None: without limit.
            longest: How many bytes it may have; None: what fits the store.

        Raises:
            TimedOutError: It did not arrive in time. A part that did is kept for the next call.
            InternalError: It is too long. The connection is ended.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            line = self._buffered()
            if line is not None:
                return line
            self._check_length(longest)
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not self._readable(left):
                raise TimedOutError(f"no answer on {self._address.path} within {timeout:g} s")
            chunk = self._receive()
            if not chunk:
                return None
            self._input += chunk

    def end(self) -> None:
        """Ends the connection and keeps the descriptor, which another thread may use: it reads the end."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection. No other thread may be in a method."""
        self._is_closed = True
        self._peer.close()

    def __del__(self) -> None:
        self._peer.close()

    def _buffered(self) -> bytes | None:
        end = self._input.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._input)
            return None
        line = bytes(self._input[:end])
        del self._input[: end + 1]
        self._searched = 0
        return line

    def _check_length(self, longest: int | None) -> None:
        size = len(self._input)
        if longest is None and size <= _LONGEST:
            return
        limit = self._address.longest() if longest is None else longest
        if size > limit:
            self._input.clear()
            self._searched = 0
            self.end()
            raise InternalError(f"{self._address.path} wrote a line of more than {limit} bytes")

    def _readable(self, timeout: float | None) -> bool:
        if self._is_closed:
            return True
        poll = select.poll()
        poll.register(self._peer, select.POLLIN)
        milliseconds = None if timeout is None else min(int(timeout * 1000) + 1, 2**31 - 1)
        return bool(poll.poll(milliseconds))

    def _receive(self) -> bytes:
        if self._is_closed:
            return b""
        try:
            self._peer.settimeout(None)
            return self._peer.recv(_CHUNK)
        except ConnectionError:
            return b""

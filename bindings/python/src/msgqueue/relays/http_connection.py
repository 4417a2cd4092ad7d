"""A connection of `http.client` whose every step ends by a deadline."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import ssl
import time
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, RemoteDisconnected
from typing import IO, Any

from .http_proxy import Proxy, ProxyError
from .http_request import Form

# Answers with a status 1xx other than 100 that may precede the final one. http.client skips those with 100.
_MAX_INTERIM = 100
# Bytes of the answer of a proxy to CONNECT.
_MAX_HEAD = 1 << 16
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: ([^\r\n]*))?\r?\n")
# A line of a header that has no colon, does not continue the one before, and does not end the header.
_NO_HEADER = re.compile(rb"[^ \t\r\n:][^:\n]*\n")


class Connection(HTTPConnection):
    """A connection to the server of a form."""

    sock: socket.socket | Any

    def __init__(self, form: Form, context: ssl.SSLContext | None) -> None:
        super().__init__(form.host, form.port)
        self._form = form
        self._context = context

    def open(self, deadline: float) -> None:
        """Connects, through the proxy if there is one, and for https checks the certificate."""
        proxy = self._form.proxy
        sock = _dial(self.host, self.port, deadline) if proxy is None else _dial(proxy.host, proxy.port, deadline)
        try:
            # A request would wait for the acknowledgement of its header otherwise.
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if proxy is not None and self._form.has_tunnel:
                _pass_on(sock, proxy, self._form, deadline)
            if self._context is not None:
                sock.settimeout(_left(deadline))
                sock = self._context.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def connect(self) -> None:
        """Called by `request` when the connection is closed, which `open` does not leave."""
        raise ConnectionResetError("the connection was closed before the request")

    def limit(self, deadline: float) -> None:
        """Limits what is sent next by the time that is left."""
        if self.sock is not None:
            self.sock.settimeout(_left(deadline))


class _SecureConnection(Connection):
    default_port = 443


def new_connection(form: Form, context: ssl.SSLContext | None) -> Connection:
    """Returns a connection that is not open yet."""
    return Connection(form, None) if context is None else _SecureConnection(form, context)


class Response(HTTPResponse):
    """A response whose header is whole. Interim ones (1xx), of which http.client skips only 100, are skipped."""

    fp: io.BufferedReader
    length: int | None
    has_more: bool
    headers: HTTPMessage
    msg: HTTPMessage

    def __init__(self, deadline: float, sock: socket.socket, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(sock, *arguments, **options)
        # Nothing has been read yet. A server that sends a byte now and then does not extend the time.
        file: Any = self.fp
        self._timed = _Timed(file.detach(), sock, deadline)
        self._buffer: Any = io.BufferedReader(self._timed)
        self.fp = self._buffer
        self.has_more = False
        """Something follows the answer, which no request asked for. Known when the answer was read to its end."""

    def close(self) -> None:
        """Ends the response, not the connection."""
        self._look()
        super().close()

    def _close_conn(self) -> None:
        # Called at the end of the body, at which the buffer is closed.
        self._look()
        super()._close_conn()  # type: ignore[misc]

    def _look(self) -> None:
        if not self._buffer.closed:
            self._timed.is_ended = True
            self.has_more = bool(self._buffer.peek())

    def begin(self) -> None:
        """Reads the header of the final answer."""
        for _ in range(_MAX_INTERIM + 1):
            file = self.fp
            head: Any = _Head(file)
            self.fp = head
            try:
                super().begin()
            except HTTPException as problem:
                if type(problem) is HTTPException:
                    # Too many headers: as for the other limits, the answer is not one of HTTP.
                    raise BadStatusLine(str(problem)) from None
                raise
            finally:
                # None: it was closed.
                if self.fp is head:
                    self.fp = file
            if head.last not in (b"\r\n", b"\n"):
                raise RemoteDisconnected("the answer ended within its header")
            if not 100 <= self.status < 200:
                break
            # Without it the next header would not be read.
            self.headers = self.msg = None  # type: ignore[assignment]
        else:
            raise BadStatusLine(f"more than {_MAX_INTERIM} answers with a status 1xx")
        lengths = [each.strip(" \t") for each in ",".join(self.headers.get_all("Content-Length", ())).split(",")]
        if "Content-Length" in self.headers:
            wrong = [each for each in lengths if not re.match(r"[0-9]{1,99}\Z", each) or int(each) >= 1 << 63]
            if wrong or len({each.lstrip("0") for each in lengths}) > 1:
                raise BadStatusLine(f"Content-Length: {', '.join(lengths)[:99]}")
            if self.length is None and not self.chunked:
                # http.client understands no list.
                self.length = int(lengths[0])


class _Head:
    """Passes the lines of headers on, and keeps the last one. Refuses lines that http.client would accept or ignore."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.last = b"\n"

    def readline(self, limit: int = -1) -> bytes:
        is_first = self.last in (b"\r\n", b"\n")
        self.last = line = self._file.readline(limit)
        # http.client reports the end of the connection, and lines that are too long.
        if is_first and 0 < len(line) < limit and not _STATUS_LINE.match(line):
            if line.startswith(b"HTTP/") and not line.endswith(b"\n"):
                raise RemoteDisconnected("the answer ended within its first line")
            raise BadStatusLine(line[:99].decode("latin-1"))
        if not is_first and _NO_HEADER.match(line):
            raise BadStatusLine(f"a header line without a colon: {line[:99].decode('latin-1')}")
        return line

    def close(self) -> None:
        self._file.close()


class _Timed(io.RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline
        self.is_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - a buffer has no name in Python 3.9
        if self.is_ended:
            return 0
        self._sock.settimeout(_left(self._deadline))
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _dial(host: str, port: int, deadline: float) -> socket.socket:
    """Connects to one address of a host after the other, until the deadline."""
    problem: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        left = deadline - time.monotonic()
        if left <= 0:
            problem = TimeoutError("no connection in time")
            break
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(left)
            sock.connect(address)
        except OSError as raised:
            problem = raised
            if sock is not None:
                sock.close()
        else:
            return sock
    raise problem or OSError("the name has no address")


def _pass_on(sock: socket.socket, proxy: Proxy, form: Form, deadline: float) -> None:
    """Asks a proxy to pass the connection on to the server.

    Raises:
        ProxyError: The proxy answered that it does not.
    """
    headers = {"Host": form.authority, **form.proxy_headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock.settimeout(_left(deadline))
    sock.sendall(f"CONNECT {form.authority} HTTP/1.1\r\n{lines}\r\n".encode("ascii"))
    status, reason = 100, ""
    while status < 200:
        status, reason = _status(_read_head(sock, proxy, deadline), proxy)
    if status >= 300:
        raise ProxyError(proxy.refusal(status, reason))


def _read_head(sock: socket.socket, proxy: Proxy, deadline: float) -> bytes:
    """Reads an answer without a body, and nothing after it: that is for TLS."""
    head = bytearray()
    while not head.endswith((b"\n\r\n", b"\n\n")):
        if len(head) >= _MAX_HEAD:
            raise ConnectionError(f"the answer of {proxy.place} is too long")
        sock.settimeout(_left(deadline))
        byte = sock.recv(1)
        if not byte:
            raise ConnectionError(f"{proxy.place} ended the connection")
        head += byte
    return bytes(head)


def _status(head: bytes, proxy: Proxy) -> tuple[int, str]:
    found = _STATUS_LINE.match(head)
    if found is None:
        raise ConnectionError(f"the answer of {proxy.place} is not HTTP")
    return int(found[1]), (found[2] or b"").decode("latin-1").strip()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left

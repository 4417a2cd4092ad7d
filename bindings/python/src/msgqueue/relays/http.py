"""A transport that posts each message to an HTTP server."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

from .. import _arguments, _failures
from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from ..outcome import Outcome

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
# Visible characters, space and tab of Latin-1: nothing that could end the line.
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*\Z")
_TARGET = re.compile(r"[\x21-\x7e]*\Z")
_PRINTABLE = re.compile(r"[\x20-\x7e]*\Z")
# The headers that this transport sets itself.
_OWN = frozenset(("connection", "content-length", "host", "idempotency-key", "transfer-encoding"))
# Bytes of an answer that are read; a longer one ends the connection.
_MAX_ANSWER = 1 << 20
# Answers with a status 1xx that may precede the final one.
_MAX_INTERIM = 100
# Statuses other than 2xx and 5xx with which the engine tries again.
_RETRIED = frozenset((408, 425, 429))
# Characters of an answer in the text of an outcome.
_MAX_TEXT = 200


class Http:
    r"""Posts the body of each message to a URL; the header Idempotency-Key is the message's id.

    The engine decides by the status of the answer as described at `Outcome.http`: 2xx is sent, 408, 425, 429 and 5xx
    are retried after Retry-After, other 4xx are final. Redirects are not followed; they count as an unknown status.

    A connection that is refused, a name that does not resolve and a network that cannot be reached mean that nothing
    was sent: the outcome is `Outcome.offline`, which uses up no retry and stops a drain. A certificate that is not
    trusted and a time-out while connecting mean the same, but are retried. A connection that breaks later, or a
    time-out of the answer, is retried under the same key, because the message may have arrived. So is an answer whose
    header is cut or has no valid Content-Length, whatever its status, and an answer that is cut in its body, if its
    status would be final and is not 2xx. Answers with a status 1xx are skipped.

    The key is a string of RFC 9651 ("…" with \" and \\ escaped); of an id with characters outside ASCII a display
    string (%"…"). Connections are kept alive and reused. Any thread may call it; each call uses a connection of its
    own. Proxies of the environment are not used.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Makes the transport; connects nowhere yet.

        Args:
            url: http or https, without user name and fragment. Its path and query are used as they are.
            headers: Sent with every message, for example Authorization. Content-Type is application/octet-stream unless
                it is among them.
            timeout: Seconds that connecting, sending, and each wait for data may take; None, or more than the timeout
                of the attempt: that timeout.
            context: For https; None: certificates are verified against those of the system.

        Raises:
            InvalidError: The URL or a header is not valid.
        """
        parts = _split(url)
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = _checked(headers or {})
        if timeout is not None and _arguments.finite("timeout", timeout) <= 0:
            raise InvalidError(f"timeout must be more than 0 seconds, got {timeout}")
        self._timeout = timeout
        self._context = (context or ssl.create_default_context()) if self._is_secure else None
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []

    def __enter__(self) -> Http:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, delivery: Delivery) -> Outcome:
        """Posts one message and returns the outcome."""
        limit = delivery.timeout if self._timeout is None else min(self._timeout, delivery.timeout)
        deadline = time.monotonic() + limit
        connection = self._reusable()
        if connection is None:
            connection = self._new(limit)
            problem = _connect(connection)
            if problem is not None:
                connection.close()
                return problem
        try:
            outcome, is_reusable = self._post(connection, delivery, deadline)
        except (OSError, HTTPException, ValueError) as problem:
            connection.close()
            return _failures.outcome_of(problem)
        except BaseException:
            connection.close()
            raise
        self._return(connection, is_reusable)
        return outcome

    def close(self) -> None:
        """Closes the connections that are kept. Any thread; the transport can still be called."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _post(self, connection: HTTPConnection, delivery: Delivery, deadline: float) -> tuple[Outcome, bool]:
        headers = {**self._headers, "Idempotency-Key": idempotency_key(delivery.id)}
        _limit(connection, deadline)
        connection.request("POST", self._target, delivery.body, headers)
        _limit(connection, deadline)
        response = connection.getresponse()
        answer, is_whole = _read(connection, response, deadline)
        if (
            not is_whole
            and len(answer) < _MAX_ANSWER
            and 300 <= response.status < 500
            and response.status not in _RETRIED
        ):
            raise IncompleteRead(answer)
        excerpt = " ".join(answer.decode("utf-8", "replace").split())[:_MAX_TEXT]
        text = f"{response.status} {response.reason}".strip() + (f": {excerpt}" if excerpt else "")
        is_reusable = is_whole and not response.will_close
        response.close()
        return Outcome.http(response.status, response.headers, text=text), is_reusable

    def _new(self, timeout: float) -> HTTPConnection:
        connection = (
            HTTPConnection(self._host, self._port, timeout=timeout)
            if self._context is None
            else HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        )
        connection.response_class = _Response
        return connection

    def _reusable(self) -> HTTPConnection | None:
        """Takes a kept connection that the server has not ended."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not _is_readable(connection.sock):
                return connection
            connection.close()

    def _return(self, connection: HTTPConnection, is_reusable: bool) -> None:
        if is_reusable and connection.sock is not None:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()


class _Head:
    """Passes the lines of a header on, and keeps the last one."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.last = b""

    def readline(self, limit: int = -1) -> bytes:
        self.last = self._file.readline(limit)
        return self.last

    def close(self) -> None:
        self._file.close()


class _Response(HTTPResponse):
    """A response whose header is whole. Interim ones (1xx), of which http.client skips only 100, are skipped."""

    def begin(self) -> None:
        for _ in range(_MAX_INTERIM):
            file = self.fp
            head: Any = _Head(file)
            self.fp = head
            try:
                super().begin()
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
        for value in self.headers.get_all("Content-Length", ()):
            if not re.match(r"[0-9]+([ \t]*,[ \t]*[0-9]+)*\Z", value.strip(" \t")):
                raise BadStatusLine(f"Content-Length: {value}")


def idempotency_key(id: str) -> str:
    """Returns the value of the header for an id: a string, or a display string, of RFC 9651."""
    if _PRINTABLE.match(id):
        escaped = id.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    encoded = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'%"' else f"%{byte:02x}"
        for byte in id.encode("utf-8", "surrogatepass")
    )
    return f'%"{encoded}"'


def _split(url: str) -> SplitResult:
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as problem:
        raise InvalidError(f"{url!r} is not a URL: {problem}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError(f"{url!r} is not a URL of http or https")
    if parts.username is not None or parts.password is not None:
        raise InvalidError("the URL must not contain a user name; use the header Authorization")
    if parts.fragment or not _TARGET.match(parts.path + parts.query) or not _TARGET.match(parts.netloc):
        raise InvalidError(f"{url!r} contains a fragment or a character that must be percent-encoded")
    return parts


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    checked = {"Content-Type": "application/octet-stream"}
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.match(name):
            raise InvalidError(f"{name!r} is not the name of a header")
        if name.lower() in _OWN:
            raise InvalidError(f"the header {name} is set by the transport")
        if not isinstance(value, str) or not _VALUE.match(value):
            raise InvalidError(f"the value of the header {name} contains a control character, or one outside Latin-1")
        if name.lower() == "content-type":
            del checked["Content-Type"]
        checked[name] = value
    return checked


def _connect(connection: HTTPConnection) -> Outcome | None:
    """Connects. After a failure, returns the outcome: nothing was sent."""
    try:
        connection.connect()
    except (socket.timeout, TimeoutError) as problem:
        return Outcome.retry(FailureKind.TIMEOUT, text=_failures.described(problem), not_sent=True)
    except ssl.SSLError as problem:
        return Outcome.retry(FailureKind.NETWORK, text=_failures.described(problem), not_sent=True)
    except (OSError, UnicodeError) as problem:
        return Outcome.offline(text=_failures.described(problem))
    # A request would wait for the acknowledgement of its header otherwise.
    with contextlib.suppress(OSError):
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return None


def _limit(connection: HTTPConnection, deadline: float) -> None:
    """Limits the next operations by the time that is left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _read(connection: HTTPConnection, response: HTTPResponse, deadline: float) -> tuple[bytes, bool]:
    """Returns the answer, and whether it was read to its end. The status is known: a failure of this part is none."""
    answer = b""
    try:
        while len(answer) < _MAX_ANSWER:
            _limit(connection, deadline)
            part = response.read1(1 << 16)
            if not part:
                return answer, not response.length
            answer += part
    except (OSError, HTTPException, ValueError):
        pass
    return answer, False


def _is_readable(peer: socket.socket) -> bool:
    poll = select.poll()
    poll.register(peer, select.POLLIN)
    return bool(poll.poll(0))

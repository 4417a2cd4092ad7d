"""The requests of one connection to the review page."""

from __future__ import annotations

import io
import json
import select
import socket
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from ..errors import InvalidError
from ._feed import Stream

if TYPE_CHECKING:
    from ._server import Server

# What has the buffer protocol, which Python 3.9 cannot name.
_Buffer = Any

# Bytes of the body of a request.
_LARGEST_BODY: Final = 8 << 20
# Seconds for a request to arrive, the idle time before it included: from an admitted browser, and from anybody else.
# Then, for each part of an answer to be taken.
_REQUEST_TIME: Final = 60.0
_STRANGER_TIME: Final = 5.0
_ANSWER_TIME: Final = 30.0
# Seconds between two batches of events, between two looks whether the page is still there, and how many of them pass
# between two signs of life.
_BATCH: Final = 0.1
_LOOK: Final = 1.0
_LOOKS: Final = 10

# Where the token of an address is exchanged for a key, and the bytes of such a request.
_ENTER: Final = "/api/enter"
_LARGEST_ENTRY: Final = 1024
_NO_ACCESS: Final = "this browser has no access, or no longer"

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class _TimedInput(io.RawIOBase):
    """The bytes of a connection. A request must arrive within a time, however slowly its bytes come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: _Buffer) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("the request did not arrive in time")
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(_ANSWER_TIME)


class Handler(BaseHTTPRequestHandler):
    """Answers requests for the files of the page, its calls and its events."""

    server: Server
    protocol_version = "HTTP/1.1"
    # An answer is written at once; nothing waits for more to send.
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        """Prepares the connection."""
        super().setup()
        self.rfile.close()
        self._input = _TimedInput(self.connection)
        self._is_guest = False
        self.rfile = io.BufferedReader(self._input)

    def handle_one_request(self) -> None:
        """Reads and answers one request."""
        self._input.deadline = time.monotonic() + (_REQUEST_TIME if self._is_guest else _STRANGER_TIME)
        super().handle_one_request()

    def version_string(self) -> str:
        """Returns the value of the header Server."""
        return "msgqueue"

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing: addresses contain a token."""

    # ---------------------------------------------------------------- requests

    def do_GET(self) -> None:
        """Answers with a file, or with events until the page closes the connection."""
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.BAD_REQUEST, "a request for a file has no body")
            return
        address = self._address()
        if address is None:
            return
        # A link on another site may lead here; it shows the page, and nothing of the queue, to nobody else.
        refusal = self.server.access.refusal(self.headers, needs_origin=False)
        if refusal and not (address.path == "/" and self._is_navigation()):
            self._refuse(HTTPStatus.FORBIDDEN, refusal)
        elif (is_admitted := self._is_admitted()) and not self._has_place():
            self._refuse_for_now()
        elif address.path != "/api/events":
            # The page itself is no secret: the browser asks for it without the key.
            self._send_file(address.path)
        elif not is_admitted:
            self._refuse(HTTPStatus.UNAUTHORIZED, _NO_ACCESS)
        else:
            self._send_events(parse_qs(address.query).get("store", [""])[0])

    def _address(self) -> SplitResult | None:
        """Returns the address of the request; None: it is not one, and the request was refused."""
        try:
            return urlsplit(self.path)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the address is not valid")
            return None

    def do_POST(self) -> None:
        """Performs a request of the page."""
        address = self._address()
        if address is None:
            return
        path = address.path
        refusal = self.server.access.refusal(self.headers, needs_origin=True)
        length = self._length()
        if refusal:
            self._refuse(HTTPStatus.FORBIDDEN, refusal)
        elif path != _ENTER and not self._is_admitted():
            self._refuse(HTTPStatus.UNAUTHORIZED, _NO_ACCESS)
        elif path != _ENTER and not self._has_place():
            self._refuse_for_now()
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request must be application/json")
        elif length is None:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing or wrong")
        elif length > (most := _LARGEST_ENTRY if path == _ENTER else _LARGEST_BODY):
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request may have {most} bytes")
        else:
            self._perform(path, self._read(length))

    def handle_expect_100(self) -> bool:
        """Leaves the answer to `_read`: a request that is refused is not told to go on."""
        return True

    def _read(self, length: int) -> bytes:
        """Returns the body of the request, for which the client may wait to be asked."""
        if self.headers.get("Expect", "").strip().lower() == "100-continue" and self.request_version >= "HTTP/1.1":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
            self.wfile.flush()
        return self.rfile.read(length)

    def _perform(self, path: str, body: bytes) -> None:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "the request is not JSON")
            return
        if path == _ENTER:
            self._redeem(request)
            return
        try:
            answer = self.server.requests.perform(path, request)
        except KeyError:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such address")
            return
        self._send_json(HTTPStatus.OK, answer)

    def _redeem(self, request: object) -> None:
        token = request.get("token") if isinstance(request, dict) else None
        key = self.server.access.redeem(token) if isinstance(token, str) else None
        if key is None:
            self._refuse(HTTPStatus.UNAUTHORIZED, _NO_ACCESS)
        else:
            self._send_json(HTTPStatus.OK, {"result": {"key": key}})

    def _send_file(self, path: str) -> None:
        found = self.server.files.get(path)
        if found is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such address")
        else:
            self._send(HTTPStatus.OK, *found)

    def _send_events(self, store: str) -> None:
        """Sends the events of a store as server-sent events."""
        try:
            session = self.server.requests.session(
                int(store) if store.isascii() and store.isdigit() and len(store) < 16 else None
            )
        except InvalidError as problem:
            self._refuse(HTTPStatus.NOT_FOUND, problem.detail)
            return
        self.close_connection = True
        self._begin(HTTPStatus.OK, {"Content-Type": "text/event-stream", "Connection": "close"})
        with session.feed.opened() as stream, self.server.requests.shown(session):
            self._write(stream)

    def _write(self, stream: Stream) -> None:
        self.wfile.write(b"retry: 1000\n\n")
        looks = 0
        while True:
            self.wfile.flush()
            events = stream.take(_LOOK)
            if events is None or self._is_page_gone():
                return
            if events:
                self.wfile.write(b"data: " + json.dumps(events).encode() + b"\n\n")
                self.wfile.flush()
                time.sleep(_BATCH)
                continue
            looks += 1
            if looks % _LOOKS == 0:
                self.wfile.write(b":\n\n")

    def _is_page_gone(self) -> bool:
        """Whether the page has ended its connection, on which it sends nothing more."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)

    # ---------------------------------------------------------------- checks

    def _is_admitted(self) -> bool:
        return self.server.access.admits(self.headers.get("Authorization", ""))

    def _has_place(self) -> bool:
        """Keeps the connection of an admitted browser, and gives it more time. False: there are too many of them."""
        self._is_guest = self.server.connections.admit(self.connection)
        if self._is_guest:
            self._input.deadline = time.monotonic() + _REQUEST_TIME
        return self._is_guest

    def _is_navigation(self) -> bool:
        """Whether a person follows a link to this server: only the site of the link is another."""
        is_own = self.server.access.is_own(self.headers)
        return is_own and self.headers.get("Sec-Fetch-Mode") == "navigate" and "Origin" not in self.headers

    def _length(self) -> int | None:
        values = self.headers.get_all("Content-Length") or []
        if len(values) != 1 or "Transfer-Encoding" in self.headers:
            return None
        return _number(values[0])

    # ---------------------------------------------------------------- answers

    def _send_json(self, status: HTTPStatus, value: object) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self._begin(status, {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Refuses a request. What is left of it is not read: the connection ends."""
        self.close_connection = True
        body = json.dumps({"error": {"code": "REFUSED", "text": text}}).encode()
        self._send(status, body, "application/json", {"Connection": "close"})

    def _refuse_for_now(self) -> None:
        self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuses a request that http.server itself cannot read."""
        self.command = getattr(self, "command", None) or "GET"
        if not hasattr(self, "request_version") or self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)


def _number(text: str) -> int | None:
    """Returns a number of up to 15 digits; None: it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None

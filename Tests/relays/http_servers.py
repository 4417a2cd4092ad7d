"""Servers on loopback that read HTTP requests and answer with scripted bytes, and relays of three kinds to them."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from msgqueue import Delivery, Outcome
from msgqueue.relays import AsyncHttp, Http
from servers import Client

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
REFUSED = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"


class Request(NamedTuple):
    """A request as the server read it."""

    line: str
    headers: dict[str, str]
    body: bytes
    #: Of the connection, from 0.
    connection: int


class Server:
    """Answers each request by a function; None: not at all. A function may also write to the connection itself."""

    def __init__(
        self, answer: Callable[[Request, socket.socket], bytes | None], context: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._context = context
        self._peers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}/in?a=b"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                threading.Thread(target=self._serve, args=(peer, len(self._peers) - 1), daemon=True).start()

    def _serve(self, peer: socket.socket, number: int) -> None:
        with suppress(OSError):
            if self._context is not None:
                peer = self._context.wrap_socket(peer, server_side=True)
                self._peers.append(peer)
            with peer.makefile("rb") as file:
                while (request := read_request(file, number)) is not None:
                    self.requests.append(request)
                    answer = self._answer(request, peer)
                    if answer is not None:
                        peer.sendall(answer)


def read_request(file: IO[bytes] | socket.SocketIO, number: int) -> Request | None:
    """Reads a request; None: the connection has ended."""
    line = file.readline().decode().strip()
    if not line:
        return None
    headers: dict[str, str] = {}
    while head := file.readline().decode("latin-1").strip():
        name, _, value = head.partition(":")
        assert name.lower() not in headers
        headers[name.lower()] = value.strip()
    body, size = b"", int(headers.get("content-length", "0"))
    while len(body) < size and (part := file.read(size - len(body))):
        body += part
    return Request(line, headers, body, number)


class HttpProxy:
    """A proxy of HTTP: passes connections on (CONNECT), and requests with an absolute URL.

    `credentials`: USER:PASSWORD that it wants. `refusal`: its answer to every CONNECT; b"" ends the connection.
    """

    def __init__(self, credentials: str = "", refusal: bytes | None = None) -> None:
        self.requests: list[Request] = []
        self.credentials = credentials
        self.refusal = refusal
        self._peers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> HttpProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                threading.Thread(target=self._serve, args=(peer, len(self._peers) - 1), daemon=True).start()

    def _serve(self, peer: socket.socket, number: int) -> None:
        # Without a buffer, in which the beginning of TLS would be lost.
        with suppress(OSError), peer.makefile("rb", buffering=0) as file:
            while (request := read_request(file, number)) is not None:
                self.requests.append(request)
                answer = self._answered(request)
                if answer is not None:
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_RDWR)
                    return
                method, target, _ = request.line.split()
                authority = target if method == "CONNECT" else urlsplit(target).netloc
                host, _, port = authority.rpartition(":")
                with socket.create_connection((host, int(port))) as other:
                    self._peers.append(other)
                    if method == "CONNECT":
                        peer.sendall(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n")
                        threading.Thread(target=_pump, args=(other, peer), daemon=True).start()
                        _pump(peer, other)
                        return
                    other.sendall(_forwarded(request))
                    peer.sendall(_read_answer(other))

    def _answered(self, request: Request) -> bytes | None:
        """What the proxy answers itself."""
        wanted = "Basic " + base64.b64encode(self.credentials.encode()).decode()
        if self.credentials and request.headers.get("proxy-authorization") != wanted:
            return b"HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno"
        return self.refusal if request.line.startswith("CONNECT ") else None


def _forwarded(request: Request) -> bytes:
    """A request as a proxy sends it on."""
    method, target, version = request.line.split()
    parts = urlsplit(target)
    line = f"{method} {parts.path}?{parts.query} {version}"
    headers = {name: value for name, value in request.headers.items() if not name.startswith("proxy-")}
    lines = [line, *(f"{name}: {value}" for name, value in {**headers, "connection": "close"}.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + request.body


def _read_answer(peer: socket.socket) -> bytes:
    """Reads an answer with a Content-Length."""
    with peer.makefile("rb") as file:
        head, size = b"", 0
        while not head.endswith(b"\r\n\r\n"):
            line = file.readline()
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
            head += line
        return head + file.read(size)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def in_turn(*answers: bytes, close: bool = False) -> Callable[[Request, socket.socket], bytes | None]:
    """Answers one request after the other; with `close` each answer ends its connection."""
    left = list(answers)
    lock = threading.Lock()

    def answer(_: Request, peer: socket.socket) -> bytes | None:
        with lock:
            data = left.pop(0)
        if not close:
            return data
        peer.sendall(data)
        peer.shutdown(socket.SHUT_RDWR)
        return None

    return answer


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Client, Client, Client]) -> Client:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """An `AsyncHttp` that is called as an `Http` is."""

    def __init__(self, loop: Loop, url: str, client: str, **options: Client) -> None:
        self._loop = loop
        self._relay = AsyncHttp(url, client=client, **options)

    def __enter__(self) -> Blocking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.run(self._relay.close())

    def __call__(self, delivery: Delivery) -> Outcome:
        outcome: Outcome = self._loop.run(self._relay(delivery))
        return outcome

    def batch(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        outcomes: list[Outcome] = self._loop.run(self._relay.batch(deliveries))
        return outcomes


class Kind:
    """Makes relays of one kind: "Http", or the name of a client of `AsyncHttp`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop = Loop()

    def relay(self, url: str, **options: Client) -> Client:
        return Http(url, **options) if self.name == "Http" else Blocking(self._loop, url, self.name, **options)

    def end(self) -> None:
        self._loop.end()

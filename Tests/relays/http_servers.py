"""Servers on loopback that read HTTP requests and answer with scripted bytes, and relays of three kinds to them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

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

    def __init__(self, answer: Callable[[Request, socket.socket], bytes | None]) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._peers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/in?a=b"
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
        with suppress(OSError), peer.makefile("rb") as file:
            while True:
                line = file.readline().decode().strip()
                if not line:
                    return
                headers: dict[str, str] = {}
                while head := file.readline().decode("latin-1").strip():
                    name, _, value = head.partition(":")
                    assert name.lower() not in headers
                    headers[name.lower()] = value.strip()
                request = Request(line, headers, file.read(int(headers["content-length"])), number)
                self.requests.append(request)
                answer = self._answer(request, peer)
                if answer is not None:
                    peer.sendall(answer)


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

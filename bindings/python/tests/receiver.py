"""A real HTTP receiver on loopback that counts and orders what it gets, and answers as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

_TIMEOUT = 60.0


@dataclass(frozen=True)
class Received:
    """One request."""

    id: str
    conversation: str
    body: bytes
    metadata: dict[str, str]
    attempt: int
    at: float
    """Time of the monotonic clock."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


class Gate:
    """Blocks requests until it is opened."""

    def __init__(self, which: Callable[[Received], bool]) -> None:
        self._which = which
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def pass_through(self, request: Received) -> None:
        """Waits until the request may be answered."""
        if self._which(request):
            self._opened.wait(_TIMEOUT)


class Receiver:
    """An HTTP server on a free port of 127.0.0.1."""

    def __init__(self, *, listening: bool = True) -> None:
        """Binds a port. Without `listening` connections are refused until `listen`."""
        self.received: list[Received] = []
        self.most_at_once = 0
        self.most_of_one_conversation_at_once = 0
        self._script: list[Answer] = []
        self._rule: Callable[[Received], Answer] = lambda _: Answer()
        self._gates: list[Gate] = []
        self._gate: Gate | None = None
        self._under_way: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread: threading.Thread | None = None
        if listening:
            self.listen()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def texts(self) -> list[str]:
        with self._lock:
            return [request.text for request in self.received]

    @property
    def ids(self) -> list[str]:
        with self._lock:
            return [request.id for request in self.received]

    def listen(self) -> None:
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops; connections are refused from here on."""
        self.open_gates()
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def answer_next(self, *answers: int | Answer) -> None:
        """Sets the answers to the next requests, in this order; later ones are answered by the rule."""
        with self._lock:
            self._script += [Answer(answer) if isinstance(answer, int) else answer for answer in answers]

    def answer_by(self, rule: Callable[[Received], int | Answer]) -> None:
        """Sets the rule for requests without a scripted answer; it runs on their threads. Default: 200."""

        def answer(request: Received) -> Answer:
            said = rule(request)
            return Answer(said) if isinstance(said, int) else said

        self._rule = answer

    @contextmanager
    def holding(self, which: Callable[[Received], bool] = lambda _: True) -> Iterator[Gate]:
        """Holds matching requests back until the gate is opened, at the latest at the end of the block."""
        gate = Gate(which)
        with self._lock:
            self._gates.append(gate)
            self._gate = gate
        try:
            yield gate
        finally:
            with self._lock:
                self._gate = None
            gate.open()

    def open_gates(self) -> None:
        with self._lock:
            self._gate = None
            for gate in self._gates:
                gate.open()

    def handle(self, request: Received) -> Answer:
        with self._lock:
            self.received.append(request)
            self._under_way[request.conversation] += 1
            self.most_at_once = max(self.most_at_once, sum(self._under_way.values()))
            self.most_of_one_conversation_at_once = max(
                self.most_of_one_conversation_at_once, self._under_way[request.conversation]
            )
            scripted = self._script.pop(0) if self._script else None
            gate = self._gate
        try:
            if gate is not None:
                gate.pass_through(request)
            return scripted or self._rule(request)
        finally:
            with self._lock:
                self._under_way[request.conversation] -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.receiver = receiver
        # Bound but not listening: connections are refused, and no other program can take the port.
        self.server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores connections that a killed or cancelled sender broke."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.receiver.handle(
            Received(
                id=unquote(self.headers["Idempotency-Key"]),
                conversation=unquote(self.headers.get("Conversation", "")),
                body=body,
                metadata=json.loads(self.headers.get("Metadata", "{}")),
                attempt=int(self.headers.get("Attempt", "0")),
                at=time.monotonic(),
                headers=dict(self.headers),
            )
        )
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.text.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing; the tests check the received requests."""

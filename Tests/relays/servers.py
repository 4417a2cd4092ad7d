"""Brokers that the tests start as processes of their own, on free ports of 127.0.0.1, and end by process id."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgqueue.relays.targets import Target

# Where servers are installed, too.
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/lib/rabbitmq/bin"))

# A relay, or a client of a broker. Their libraries are not installed where the types are checked.
Client = Any


class Received(NamedTuple):
    """A message as a consumer of the broker receives it."""

    id: str
    conversation: str
    body: bytes
    headers: dict[str, str]


def free_port() -> int:
    """Returns a port below those that clients get: none of them gets it while a server that was killed starts again."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def wait_until(condition: Callable[[], object], what: str, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout:g} s for {what}"
        time.sleep(0.02)


class Broker(ABC):
    """A server, and what the checks need of it."""

    program = ""
    #: Seconds that the server may take until it answers.
    patience = 60.0
    #: Whether it removes a message that is sent twice under one id.
    deduplicates = True
    #: Whether its client may send a message again by itself.
    client_repeats = False
    #: To how many servers its client connects at most.
    servers = 1
    #: How the proof ends the server, and how often in its short form.
    ending = signal.SIGKILL
    short_kills = 5

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "server.log"

    @classmethod
    def is_installed(cls) -> bool:
        return shutil.which(cls.program, path=PATH) is not None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder, env=self.environment(), start_new_session=True
            )
        wait_until(self.is_ready, f"{self.program}; its output:\n{self.log.read_text()[-2000:]}", self.patience)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            # The server leads a process group of its own: its children end with it.
            os.killpg(process.pid, how)
            process.wait(timeout=30)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def end(self) -> None:
        """Ends the server for good."""
        self.kill()

    def interrupt(self, meanwhile: Callable[[], object]) -> None:
        """Ends the server as the proof does, and starts it again."""
        self.stop(self.ending)
        meanwhile()
        self.start()

    def environment(self) -> dict[str, str]:
        return {**os.environ}

    def load(self, library: str) -> Client:
        return importlib.import_module(library)

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the server."""

    @abstractmethod
    def relay(self, target: Target, **options: Client) -> Client:
        """A relay to this server; `port` and `host` among the options say where else to connect."""

    def behind(self, proxy: Client) -> int:
        """The port to connect to, so that everything goes through a proxy."""
        port: int = proxy.port
        return port

    @abstractmethod
    def prepare(self, target: str) -> None:
        """Makes the stream or queue, where the broker needs it before the first message."""

    @abstractmethod
    def received(self, target: str, count: int) -> list[Received]:
        """What consumers received of a target: waits for at least `count` messages, or 10 s."""


def started(kind: type[Broker], folder: Path) -> Broker:
    """Starts a server, or skips the tests that need it."""
    if not kind.is_installed():
        pytest.skip(f"{kind.program} is not installed")
    folder.mkdir(exist_ok=True)
    broker = kind(folder)
    broker.start()
    return broker


class Proxy:
    """Forwards connections to a port. `cut`: all connections end.

    `is_silent`: the server's answers are dropped; `is_silent_both`: what the client sends later, too.
    """

    def __init__(self, port: int, near: int = 0) -> None:
        self.is_silent = False
        self.is_silent_both = False
        #: What a client must not send: its connection is cut instead.
        self.poison: bytes | None = None
        #: Instead, it gets no answer on this connection any more.
        self.poison_is_silent = False
        #: After a client has sent the first, what it sends waits until the server has answered with the second.
        self.pause: tuple[bytes, bytes] | None = None
        self._may_go_on = threading.Event()
        self._target = port
        self._peers: list[socket.socket] = []
        self.port = near
        self._server: socket.socket | None = None
        self.open()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Listens."""
        if self._server is None:
            server = self._server = socket.create_server(("127.0.0.1", self.port))
            self.port = server.getsockname()[1]
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def close(self) -> None:
        """Listens no more, and ends all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
        self.cut()

    def cut(self) -> None:
        peers, self._peers = self._peers, []
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                near = server.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                # The server does not listen yet, or no longer.
                near.close()
                continue
            self._peers += [near, far]
            threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if self.poison is not None and not is_answer and self.poison in data:
                    if self.poison_is_silent:
                        while source.recv(65536):
                            pass
                    break
                if not (self.is_silent_both or (is_answer and self.is_silent)):
                    sink.sendall(data)
                if self.pause is not None:
                    first, answer = self.pause
                    if is_answer and answer in data:
                        self._may_go_on.set()
                    elif not is_answer and first in data and not self._may_go_on.wait(60):
                        break
            sink.shutdown(socket.SHUT_RDWR)
            source.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

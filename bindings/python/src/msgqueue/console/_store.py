"""A store, as its owner's control socket shows it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final

from .. import control
from ..control import Client, Events, NotRunningError
from ..errors import BusyError, Error

Json = dict[str, Any]

# The owner serves 16 clients: one of them is for events, and other programs need some.
_CLIENTS: Final = 4
_DRAINS: Final = 2
# Seconds: for a free client, for an answer of the owner, and for a drain before it is reported as started.
_PATIENCE: Final = 10.0
_TIMEOUT: Final = 20.0
_DRAIN_PATIENCE: Final = 1.0
# Seconds between two deliveries of events: a page shows no more changes, and a drain is not slowed down by them.
_EVENTS: Final = 0.4


class Store:
    """Performs calls on the queue that has a store open, from any thread, and survives the end of that queue."""

    def __init__(self, path: str, socket: str | Callable[[], str] | None = None) -> None:
        """Does not connect yet.

        Args:
            path: The store's file.
            socket: The path of the control socket, or what returns it for each connection; None: the default.
        """
        self.path = path
        self._socket = socket
        self._free = threading.Semaphore(_CLIENTS)
        self._free_for_drains = threading.Semaphore(_DRAINS)
        self._lock = threading.Lock()
        self._idle: deque[Client] = deque()
        self._used: set[Client] = set()
        self._is_closed = False

    def connect(self) -> Client:
        """Returns a new connection to the owner.

        Raises:
            NotRunningError: No program has the store open, or it serves no control socket.
            Error: As `control.connect`.
        """
        socket = self._socket() if callable(self._socket) else self._socket
        return control.connect(self.path, socket=socket, timeout=_TIMEOUT)

    def call(self, name: str, fields: Mapping[str, object]) -> Json:
        """Performs a call of the control socket and returns its result.

        A drain is waited for up to a second. One that goes on then has the result {"stop": "started"}: its end is an
        event.

        Raises:
            Error: The owner refused the call, or cannot be reached (NotRunningError).
        """
        if name == "drain":
            return self._drain(fields)
        with self._client() as client:
            return client.call(name, **fields)

    def events(self) -> Events:
        """Subscribes to all events of the queue, on a connection of their own, which share what happens at once."""
        with self._client() as client:
            return client.events(interval=_EVENTS)

    def close(self) -> None:
        """Ends all connections. Calls in progress raise NotRunningError."""
        with self._lock:
            self._is_closed = True
            clients = [*self._idle, *self._used]
            self._idle.clear()
        for client in clients:
            client.close()

    # ---------------------------------------------------------------- connections

    @contextmanager
    def _client(self) -> Iterator[Client]:
        if not self._free.acquire(timeout=_PATIENCE):
            raise BusyError("too many calls are waiting for the owner of the store")
        try:
            client = self._living_client()
            try:
                with self._using(client):
                    yield client
            except NotRunningError:
                client.close()
                raise
            except Error:
                self._keep(client)
                raise
            except BaseException:
                client.close()
                raise
            self._keep(client)
        finally:
            self._free.release()

    def _living_client(self) -> Client:
        """Returns an idle client whose owner still answers, or a new one."""
        while True:
            with self._lock:
                client = self._idle.pop() if self._idle else None
            if client is None:
                return self.connect()
            try:
                client.call("ping")
            except Error:
                client.close()
            else:
                return client

    @contextmanager
    def _using(self, client: Client) -> Iterator[None]:
        """Lets `close` end a client that is in use."""
        with self._lock:
            if self._is_closed:
                client.close()
            self._used.add(client)
        try:
            yield
        finally:
            with self._lock:
                self._used.discard(client)

    def _keep(self, client: Client) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(client)
                return
        client.close()

    # ---------------------------------------------------------------- drains

    def _drain(self, fields: Mapping[str, object]) -> Json:
        if not self._free_for_drains.acquire(blocking=False):
            raise BusyError("the drains that were asked for have not ended")
        answers: SimpleQueue[Json | Error] = SimpleQueue()

        def drain() -> None:
            try:
                with self.connect() as client, self._using(client):
                    answers.put(client.call("drain", **fields))
            except Error as problem:
                answers.put(problem)
            finally:
                self._free_for_drains.release()

        threading.Thread(target=drain, name="msgqueue console drain", daemon=True).start()
        began = time.time()
        try:
            answer = answers.get(timeout=_DRAIN_PATIENCE)
        except Empty:
            return {"stop": "started", "at_ms": int(began * 1000)}
        if isinstance(answer, Error):
            raise answer
        return answer

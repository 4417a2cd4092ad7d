"""What the benchmark compares: this package, and peers where they are installed.

Every write is on disk before it counts.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BODY = b"m" * 256
BATCH = 1000
IN_FLIGHT = 64


class Contender:
    """A durable queue. A method that returns None is not supported."""

    name = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def put(self) -> None:
        """Stores one message."""
        raise NotImplementedError

    def put_batch(self) -> bool:
        """Stores `BATCH` messages, all or none. Returns False if that is not supported."""
        return False

    def drain(self, count: int) -> float | None:
        """Sends `count` messages that it stores before. Returns the seconds of the sending."""
        return None

    def close(self) -> None:
        """Closes files and servers."""


class Queue(Contender):
    """msgqueue.MessageQueue."""

    name = "msgqueue"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        from msgqueue import MessageQueue, Mode, Outcome

        self._queue = MessageQueue(
            directory / "queue.db", lambda _: Outcome.sent(), mode=Mode.MANUAL, direct=False, max_in_flight=1
        )

    def put(self) -> None:
        self._queue.enqueue(BODY, conversation="bench")

    def put_batch(self) -> bool:
        self._queue.enqueue_bodies([BODY] * BATCH, conversation="bench")
        return True

    def drain(self, count: int) -> float | None:
        self._queue.enqueue_bodies([BODY] * count, conversation="bench")
        began = time.perf_counter()
        report = self._queue.drain()
        elapsed = time.perf_counter() - began
        assert report.remaining == 0, report
        return elapsed

    def close(self) -> None:
        self._queue.close()


class AsyncQueue(Contender):
    """msgqueue.aio.MessageQueue: a coroutine as the transport, and `IN_FLIGHT` attempts at a time."""

    name = "msgqueue.aio"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        from msgqueue import Mode, Outcome, aio

        async def send(_: object) -> Outcome:
            return Outcome.sent()

        self._loop = asyncio.new_event_loop()
        self._queue = aio.MessageQueue(
            directory / "queue.db", send, mode=Mode.MANUAL, direct=False, max_in_flight=IN_FLIGHT
        )
        self._loop.run_until_complete(self._queue.open())

    def put(self) -> None:
        self._loop.run_until_complete(self._queue.enqueue(BODY, conversation="bench"))

    def put_batch(self) -> bool:
        self._loop.run_until_complete(self._queue.enqueue_bodies([BODY] * BATCH, conversation="bench"))
        return True

    def drain(self, count: int) -> float | None:
        return self._loop.run_until_complete(self._drain(count))

    async def _drain(self, count: int) -> float:
        await self._queue.enqueue_batch({"body": BODY, "conversation": str(n % IN_FLIGHT)} for n in range(count))
        began = time.perf_counter()
        report = await self._queue.drain()
        elapsed = time.perf_counter() - began
        assert report.remaining == 0, report
        return elapsed

    def close(self) -> None:
        self._loop.run_until_complete(self._queue.close())
        self._loop.close()


class BareSQLite(Contender):
    """The module sqlite3: one table, a commit for each call, synchronous=FULL."""

    name = "sqlite3"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._lock = threading.Lock()
        self._base = sqlite3.connect(directory / "bare.db", isolation_level=None, check_same_thread=False)
        for line in ("PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"):
            self._base.execute(line)
        self._base.execute("CREATE TABLE message(seq INTEGER PRIMARY KEY, body BLOB)")

    def put(self) -> None:
        with self._lock:
            self._base.execute("INSERT INTO message(body) VALUES(?)", (BODY,))

    def put_batch(self) -> bool:
        with self._lock:
            self._base.execute("BEGIN")
            self._base.executemany("INSERT INTO message(body) VALUES(?)", [(BODY,)] * BATCH)
            self._base.execute("COMMIT")
        return True

    def drain(self, count: int) -> float | None:
        with self._lock:
            self._base.execute("BEGIN")
            self._base.executemany("INSERT INTO message(seq, body) VALUES(?, ?)", [(n, BODY) for n in range(count)])
            self._base.execute("COMMIT")
            began = time.perf_counter()
            for number in range(count):
                self._base.execute("SELECT body FROM message WHERE seq = ?", (number,)).fetchone()
                self._base.execute("DELETE FROM message WHERE seq = ?", (number,))
            return time.perf_counter() - began

    def close(self) -> None:
        self._base.close()


class Huey(Contender):
    """huey with its SQLite storage, with fsync."""

    name = "huey"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        from huey.storage import SqliteStorage  # type: ignore[import-not-found, unused-ignore]

        self._storage: Any = SqliteStorage("bench", filename=str(directory / "huey.db"), fsync=True)

    def put(self) -> None:
        self._storage.enqueue(BODY)

    def drain(self, count: int) -> float | None:
        for _ in range(count):
            self._storage.enqueue(BODY)
        began = time.perf_counter()
        for _ in range(count):
            assert self._storage.dequeue() == BODY
        return time.perf_counter() - began


class LiteQueue(Contender):
    """litequeue, with synchronous=FULL."""

    name = "litequeue"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        from litequeue import LiteQueue as Peer  # type: ignore[import-not-found, unused-ignore]

        self._lock = threading.Lock()
        self._queue: Any = Peer(str(directory / "lite.db"))
        self._queue.conn.execute("PRAGMA synchronous=FULL")
        self._text = BODY.decode()

    def put(self) -> None:
        with self._lock:
            self._queue.put(self._text)

    def drain(self, count: int) -> float | None:
        for _ in range(count):
            self._queue.put(self._text)
        began = time.perf_counter()
        for _ in range(count):
            self._queue.done(self._queue.pop().message_id)
        return time.perf_counter() - began

    def close(self) -> None:
        self._queue.conn.close()


class PersistQueue(Contender):
    """persist-queue: its SQLite queue, with a commit for each message and synchronous=FULL."""

    name = "persist-queue"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        import persistqueue  # type: ignore[import-not-found, unused-ignore]

        self._queue: Any = persistqueue.SQLiteQueue(str(directory), auto_commit=True, multithreading=True)
        self._queue._putter.execute("PRAGMA synchronous=FULL")

    def put(self) -> None:
        self._queue.put(BODY)

    def drain(self, count: int) -> float | None:
        for _ in range(count):
            self._queue.put(BODY)
        began = time.perf_counter()
        for _ in range(count):
            assert self._queue.get(block=False) == BODY
        return time.perf_counter() - began

    def close(self) -> None:
        self._queue.close()


class Redis(Contender):
    """A list in a redis-server of its own on a free port of 127.0.0.1, with appendfsync always."""

    name = "redis"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        import redis  # type: ignore[import-not-found, unused-ignore]

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"--bind 127.0.0.1 --port {port} --appendonly yes --appendfsync always --save".split()
        self._server = subprocess.Popen(
            ["redis-server", *options, "", "--dir", str(directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._client: Any = redis.Redis(port=port)
        deadline = time.monotonic() + 30
        while True:
            try:
                self._client.ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    self.close()
                    raise
                time.sleep(0.01)

    def put(self) -> None:
        self._client.rpush("bench", BODY)

    def put_batch(self) -> bool:
        self._client.rpush("bench", *[BODY] * BATCH)
        return True

    def drain(self, count: int) -> float | None:
        self._client.rpush("bench", *[BODY] * count)
        began = time.perf_counter()
        for _ in range(count):
            assert self._client.lpop("bench") == BODY
        return time.perf_counter() - began

    def close(self) -> None:
        self._client.close()
        self._server.terminate()
        self._server.wait()


_PEERS: list[tuple[type[Contender], str]] = [
    (Huey, "huey"),
    (LiteQueue, "litequeue"),
    (PersistQueue, "persistqueue"),
    (Redis, "redis"),
]


def installed() -> list[type[Contender]]:
    """Returns the contenders that can run here."""
    found: list[type[Contender]] = [Queue, AsyncQueue, BareSQLite]
    for kind, module in _PEERS:
        if importlib.util.find_spec(module) is not None and (kind is not Redis or shutil.which("redis-server")):
            found.append(kind)
    return found


def by_threads(put: Callable[[], None], threads: int, seconds: float) -> float:
    """Returns the messages per second that several threads store, one message at a time each."""
    counts = [0] * threads
    end = time.perf_counter() + seconds

    def run(number: int) -> None:
        # At least one message, also on a machine that gives the thread no time before the end.
        while True:
            put()
            counts[number] += 1
            if time.perf_counter() >= end:
                break

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)

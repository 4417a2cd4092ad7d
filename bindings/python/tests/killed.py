"""Kills a program at every step from the put of a message to the end of its collection, and checks what is left.

    python killed.py KIND FOLDER FATE REMEMBER_IDS [SERVER]

Each case is a process that kills itself before one of its steps. Then a fate befalls the message in the queue, and
another process collects. KIND is `sqlite-normal` or `sqlite-full` (the level of `synchronous`), or `postgresql`.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from msgqueue import ConflictError, FailureKind, MessageQueue, Mode, Outbox, Outcome, Refused, Status
from msgqueue._handovers import HandOvers

ID = "m"
FATES = ("queued", "sending", "sent", "failed", "deleted", "cleared", "discarded", "replaced", "pruned")
#: The fates after which the queue has no message of this id.
GONE = ("deleted", "cleared", "discarded", "replaced", "pruned")


class Steps:
    """Counts the calls of the database and the queue, and ends the process before one of them."""

    def __init__(self, last: int, end: Callable[[], None]) -> None:
        self._count = 0
        self._last = last
        self._end = end

    def step(self) -> None:
        self._count += 1
        if self._count == self._last:
            self._end()

    def watch(self, kind: type, *names: str) -> None:
        for name in names:
            self._watch(kind, name, getattr(kind, name))

    def _watch(self, kind: type, name: str, method: Callable[..., Any]) -> None:
        @wraps(method)
        def watched(*arguments: Any) -> Any:
            self.step()
            return method(*arguments)

        setattr(kind, name, watched)

    def watch_all(self, kind: type) -> None:
        """Watches the calls of an outbox, and those of the queue that it makes."""
        self.watch(kind, "execute", "page", "forget", "put")
        self.watch(HandOvers, "handed_over", "take_over_array", "hand_over_done")


class SqlitePlace:
    """A database of the program in a file."""

    def __init__(self, folder: Path, level: str) -> None:
        self.connection = sqlite3.connect(folder / "host.db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(f"PRAGMA synchronous = {level}")

    @staticmethod
    def kind() -> type:
        kind: type = importlib.import_module("msgqueue._outbox.sqlite").Sqlite
        return kind

    def execute(self, sql: str) -> list[Any]:
        return self.connection.execute(sql).fetchall()


class PostgresqlPlace:
    """A schema of its own of a server."""

    def __init__(self, folder: Path, server: str) -> None:
        name = folder.name.replace("-", "_")
        options = f"-c search_path={name} -c synchronous_commit=off"
        self.connection = importlib.import_module("psycopg").connect(server, autocommit=True, options=options)
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")

    @staticmethod
    def kind() -> type:
        kind: type = importlib.import_module("msgqueue._outbox.postgresql").Postgresql
        return kind

    def execute(self, sql: str) -> list[Any]:
        cursor = self.connection.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


class Case:
    """One kill, and what came of it."""

    def __init__(self, folder: Path, place: Callable[[Path], Any], fate: str, remember_ids: float) -> None:
        self.folder = folder
        self.fate = fate
        self._place = place
        self._remember_ids = remember_ids

    def queue(self, **options: Any) -> MessageQueue:
        return MessageQueue(
            self.folder / "queue.db", mode=Mode.MANUAL, direct=False, remember_ids=self._remember_ids, **options
        )

    # ---------------------------------------------------------------- the processes

    def prepare(self) -> None:
        place = self._place(self.folder)
        Outbox(place.connection).create()
        place.execute("CREATE TABLE orders(name TEXT)")

    def put_and_collect(self, last: int) -> None:
        """Puts and collects; killed before step `last`."""
        place = self._place(self.folder)
        outbox = Outbox(place.connection)
        with self.queue() as queue:
            steps = Steps(last, lambda: os.kill(os.getpid(), signal.SIGKILL))
            steps.watch_all(place.kind())
            place.execute("BEGIN")
            place.execute("INSERT INTO orders VALUES('m')")
            outbox.put("body", id=ID, conversation="c", replace_key="k" if self.fate == "replaced" else None)
            steps.step()
            place.execute("COMMIT")
            steps.step()
            outbox.collect(queue)
            steps.step()

    def die_in_the_transport(self) -> None:
        with self.queue(transport=lambda _: os.kill(os.getpid(), signal.SIGKILL)) as queue:
            queue.drain()

    def befall(self, queue: MessageQueue) -> None:
        """Does to the message in the queue what its fate says."""
        if self.fate in ("sent", "pruned"):
            queue.set_transport(lambda _: Outcome.sent())
            queue.drain()
        elif self.fate in ("failed", "discarded"):
            queue.set_transport(lambda _: Outcome.reject(FailureKind.REJECTED))
            queue.drain()
        elif self.fate == "deleted":
            queue.delete(ID)
        elif self.fate == "cleared":
            queue.clear()
        elif self.fate == "replaced":
            queue.enqueue("newer", id="newer", conversation="c", replace_key="k")
        if self.fate in GONE:
            wait_until(lambda: self.status(queue) is None)

    def check(self) -> None:
        """Collects, and checks that nothing is lost, doubled or back."""
        place = self._place(self.folder)
        outbox = Outbox(place.connection)
        fated_options: dict[str, dict[str, Any]] = {
            "discarded": {"refused": Refused.DISCARD},
            "pruned": {"keep_sent": 0},
        }
        options = fated_options.get(self.fate, {})
        with self.queue(**options) as queue:
            was_there = self.status(queue) is not None
            if was_there:
                self.befall(queue)
            fated = self.status(queue)
            while True:
                try:
                    if not outbox.collect(queue):
                        break
                except ConflictError:
                    # The server has not noticed yet that the other process is gone.
                    time.sleep(0.02)
            has_order = bool(place.execute("SELECT * FROM orders"))
            assert not place.execute("SELECT * FROM msgq_outbox")
            source = place.execute("SELECT source FROM msgq_outbox_store")[0][0]
            assert queue.handed_over(source).drafts == ()
            if was_there:
                assert has_order, "a message without its order"
                assert self.status(queue) is fated, "the message is back, or gone"
                queue.set_transport(lambda _: Outcome.sent())
                queue.drain()
                if self.fate in GONE:
                    assert self.status(queue) is None
            else:
                assert (self.status(queue) is Status.QUEUED) is has_order, "lost, or a message without its order"
            assert [message.id for message in queue.list(status=Status)].count(ID) <= 1

    @staticmethod
    def status(queue: MessageQueue) -> Status | None:
        return next((message.status for message in queue.list(status=Status) if message.id == ID), None)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def forked(work: Callable[..., None], *arguments: Any) -> int:
    """Runs a function in a process of its own and returns its exit status."""
    child = os.fork()
    if not child:
        try:
            work(*arguments)
        except BaseException:  # noqa: BLE001 - the parent reports it
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(kind: str, root: str, fate: str, remember_ids: str, server: str = "") -> None:
    if kind == "postgresql":
        places: Callable[[Path], Any] = lambda folder: PostgresqlPlace(folder, server)  # noqa: E731
    else:
        places = lambda folder: SqlitePlace(folder, kind.partition("-")[2])  # noqa: E731
    # Once for all the processes.
    for name in ("sqlite", "collecting") if kind != "postgresql" else ("postgresql", "collecting", "psycopg"):
        importlib.import_module(name if name == "psycopg" else f"msgqueue._outbox.{name}")
    last = 0
    template = Path(root) / "template"
    template.mkdir()
    assert forked(Case(template, places, fate, float(remember_ids)).prepare) == 0
    while True:
        last += 1
        folder = Path(root) / f"{fate}-{last}"
        shutil.copytree(template, folder)
        case = Case(folder, places, fate, float(remember_ids))
        if kind == "postgresql":
            assert forked(case.prepare) == 0
        ended = forked(case.put_and_collect, last)
        assert ended in (0, -signal.SIGKILL), ended
        if fate == "sending":
            assert forked(case.die_in_the_transport) in (0, -signal.SIGKILL)
        assert forked(case.check) == 0, f"{fate}: killed before step {last}"
        if ended == 0:
            break
    print(last - 1, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

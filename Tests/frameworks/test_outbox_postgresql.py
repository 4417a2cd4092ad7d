"""The outbox in a PostgreSQL database, with Debian's server."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killed import FATES
from msgqueue import (
    ConflictError,
    CorruptError,
    Draft,
    DuplicateError,
    FullError,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    Outbox,
    Status,
    TooNewError,
)
from msgqueue._outbox.postgresql import Postgresql, lock_of
from postgresql import PYTHON_TESTS, Client, Server, address, psycopg, server

# The fixtures.
__all__ = ["address", "server"]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[MessageQueue]:
    with MessageQueue(tmp_path / "queue.db", mode=Mode.MANUAL, direct=False) as queue:
        yield queue


@pytest.fixture
def host(address: str) -> Iterator[Any]:
    connection = made(address)
    yield connection
    connection.close()


def made(address: str, **options: Client) -> Client:
    """Connects the program to its database, and makes its tables."""
    connection = psycopg.connect(address, **options)
    Outbox(connection).create()
    connection.execute("CREATE TABLE IF NOT EXISTS orders(name text)")
    connection.commit()
    return connection


def bodies(queue: MessageQueue) -> list[bytes | None]:
    return [message.body for message in queue.list(status=Status, limit=1000)]


def rows(connection: Client, sql: str) -> list[Any]:
    found = list(psycopg.Cursor(connection).execute(sql).fetchall())
    connection.commit()
    return found


def test_T2_order_and_message_exist_both_or_neither(host: Client, queue: MessageQueue) -> None:
    outbox = Outbox(host)
    for name in ("rolled back", "kept"):
        host.execute("INSERT INTO orders VALUES(%s)", (name,))
        outbox.put(name, conversation="c")
        with pytest.raises(ConflictError):
            outbox.collect(queue)
        (host.commit if name == "kept" else host.rollback)()
    assert rows(host, "SELECT name FROM orders") == [("kept",)]
    assert outbox.collect(queue) == 1
    assert outbox.collect(queue) == 0
    assert bodies(queue) == [b"kept"]
    assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_T2_the_same_with_autocommit_and_savepoints(address: str, queue: MessageQueue) -> None:
    host = made(address, autocommit=True)
    outbox = Outbox(host, queue)
    with host.transaction():
        outbox.put("one")
        with host.transaction(force_rollback=True):
            outbox.put("two")
            outbox.put_batch([Draft("three"), {"body": "four"}])
        with host.transaction():
            outbox.put_batch([{"body": "five"}])
    with host.transaction(force_rollback=True):
        outbox.put("six")
    outbox.put("a transaction of its own")
    outbox.put_batch([{"body": "both"}, {"body": "of one"}])
    with pytest.raises(DuplicateError):
        outbox.put_batch([{"body": "none", "id": "x"}, {"body": "of one", "id": "x"}])
    assert outbox.collect() == 5
    assert bodies(queue) == [b"one", b"five", b"a transaction of its own", b"both", b"of one"]
    assert host.autocommit is True
    host.close()


@pytest.mark.parametrize("autocommit", [False, True])
def test_T2_a_block_commits_and_collects_or_rolls_back(address: str, queue: MessageQueue, autocommit: bool) -> None:
    host = made(address, autocommit=autocommit)
    outbox = Outbox(host, queue)

    def failing() -> None:
        with outbox:
            host.execute("INSERT INTO orders VALUES('neither')")
            outbox.put("neither")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    with outbox:
        host.execute("INSERT INTO orders VALUES('both')")
        outbox.put("both")
        with pytest.raises(ConflictError), outbox:
            pass
    assert bodies(queue) == [b"both"]
    assert rows(host, "SELECT name FROM orders") == [("both",)]

    def lost() -> None:
        with outbox:
            outbox.put("lost")
            host.close()

    with pytest.raises(psycopg.OperationalError):
        lost()
    with pytest.raises(psycopg.OperationalError):
        outbox.collect()


def test_T3_a_trigger_that_keeps_rows_makes_no_message_be_taken_twice(host: Client, queue: MessageQueue) -> None:
    outbox = Outbox(host, queue)
    outbox.put("hello", id="a")
    host.execute("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    host.execute("CREATE TRIGGER keep BEFORE DELETE ON msgq_outbox FOR EACH ROW EXECUTE FUNCTION keep()")
    host.commit()
    for _ in range(2):
        with pytest.raises(ConflictError, match="a trigger keeps a row"):
            outbox.collect()
    host.execute("DROP TRIGGER keep ON msgq_outbox")
    host.commit()
    assert outbox.collect() == 0
    assert rows(host, "SELECT count(*) FROM msgq_outbox") == [(0,)]
    assert bodies(queue) == [b"hello"]


def test_T2_a_duplicate_leaves_the_transaction_usable(host: Client, queue: MessageQueue) -> None:
    outbox = Outbox(host)
    outbox.put("one", id="a")
    with pytest.raises(DuplicateError):
        outbox.put("again", id="a")
    with pytest.raises(DuplicateError):
        outbox.put_batch([{"body": "not this"}, {"body": "again", "id": "a"}])
    with pytest.raises(InvalidError):
        outbox.put("bad", id="")
    host.execute("INSERT INTO orders VALUES('usable')")
    outbox.put("two", id="b")
    host.commit()
    assert rows(host, "SELECT count(*) FROM orders") == [(1,)]
    assert outbox.collect(queue) == 2
    assert bodies(queue) == [b"one", b"two"]


def test_T2_every_field_arrives(host: Client, queue: MessageQueue) -> None:
    given: dict[str, Any] = {
        "body": b"a\0b'; DROP TABLE orders; -- %s %(x)s",
        "conversation": "'; DROP TABLE orders; -- ü %s",
        "metadata": {"kéy": "välue", "empty": ""},
        "id": "id'\"%",
        "not_before": 4102444800.5,
        "expires_at": 4102444900.25,
        "unmetered_only": True,
        "priority": -7,
        "time": 1000000000.125,
    }
    outbox = Outbox(host)
    outbox.put(**given, replace_key="k")
    outbox.put(b"", id="empty")
    queue.enqueue(**{**given, "id": "direct"})
    host.commit()
    assert outbox.collect(queue) == 2
    ignored = {"id", "sequence", "created"}
    direct, first = vars(queue.get("direct")), vars(queue.get("id'\"%"))
    assert {n: v for n, v in first.items() if n not in ignored} == {n: v for n, v in direct.items() if n not in ignored}
    assert (queue.get("empty").body, queue.get("empty").conversation) == (b"", "")


def test_T2_nothing_of_the_program_changes_what_is_read(address: str, queue: MessageQueue) -> None:
    """Factories, loaders and dumpers of the program, and its settings, which are left as they are."""
    host = made(address)

    def failing(*_: Client) -> Client:
        raise AssertionError("the program's factory was called")

    class Loader(psycopg.adapt.Loader):  # type: ignore[misc]
        def load(self, data: Client) -> Client:
            return failing(data)

    class Dumper(psycopg.adapt.Dumper):  # type: ignore[misc]
        def dump(self, obj: Client) -> Client:
            return failing(obj)

    for name in ("text", "bytea", "int4", "int8", "bool"):
        host.adapters.register_loader(name, Loader)
    for kind in (str, bytes, int):
        host.adapters.register_dumper(kind, Dumper)
    host.row_factory = failing
    host.cursor_factory = failing
    host.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    outbox = Outbox(host, queue)
    outbox.put("ü", conversation="ü", metadata={"a": "b"}, replace_key="k", priority=3)
    host.commit()
    with outbox:
        outbox.put("two")
    assert bodies(queue) == ["ü".encode(), b"two"]
    assert host.isolation_level == psycopg.IsolationLevel.SERIALIZABLE
    assert (host.row_factory, host.cursor_factory) == (failing, failing)
    host.close()


@pytest.mark.parametrize("autocommit", [False, True])
def test_T2_in_a_pipeline_messages_are_put_and_nothing_else(
    address: str, queue: MessageQueue, autocommit: bool
) -> None:
    host, other = made(address), made(address)
    host.autocommit = autocommit
    outbox = Outbox(host, queue)
    with host.pipeline():
        for what in (outbox.collect, outbox.create, outbox.__enter__):
            with pytest.raises(ConflictError, match="pipeline"):
                what()
        outbox.put("one", id="a", conversation="c")
        host.execute("INSERT INTO orders VALUES('one')")
        with pytest.raises(DuplicateError):
            outbox.put("again", id="a")
        drafts = [{"body": "two", "conversation": "c"}, {"body": "three", "conversation": "c"}]
        if autocommit:
            with pytest.raises(ConflictError, match="pipeline"):
                outbox.put_batch(drafts)
        else:
            outbox.put_batch(drafts)
            with pytest.raises(DuplicateError):
                outbox.put_batch([{"body": "undone"}, {"body": "undone", "id": "a"}])
        host.commit()
    assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert rows(other, "SELECT count(*) FROM msgq_outbox") == [(1 if autocommit else 3,)]
    assert rows(other, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
    outbox.collect()
    assert bodies(queue) == ([b"one"] if autocommit else [b"one", b"two", b"three"])
    host.close()
    other.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_T2_connections_with_other_encodings(address: str, queue: MessageQueue, encoding: str) -> None:
    host = made(address, client_encoding=encoding)
    outbox = Outbox(host, queue)
    outbox.put("one", conversation="ü")
    host.commit()
    if encoding == "LATIN1":
        with pytest.raises(psycopg.DataError, match="client_encoding"):
            outbox.put("two", conversation="日本")
        host.commit()
    other = made(address)
    Outbox(other).put("three", conversation="日本")
    other.commit()
    assert outbox.collect() == 2
    assert [message.conversation for message in queue.list()] == ["ü", "日本"]
    assert rows(host, "SHOW client_encoding") == [(encoding,)] or encoding == "SQL_ASCII"
    other.close()
    host.close()


def test_T2_a_database_without_an_encoding(server: Server, queue: MessageQueue) -> None:
    host = made(server.database("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"))
    outbox = Outbox(host, queue)
    outbox.put("one", conversation="ü", metadata={"a": "b"})
    host.commit()
    assert outbox.collect() == 1
    assert queue.list()[0].conversation == "ü"
    host.close()


# ---------------------------------------------------------------- T4: order


def test_T4_eight_writers_whose_commits_overtake_each_other(address: str, queue: MessageQueue) -> None:
    made(address).close()
    conversations, puts = 4, 30
    # What each conversation got, in the order of the commits: read by the triggers of no one, but by the writers
    # themselves, who hold the conversation until they have committed.
    committed: dict[str, list[str]] = {str(number): [] for number in range(conversations)}
    problems: list[BaseException] = []

    def writer(name: int) -> None:
        chance = random.Random(name)
        try:
            with psycopg.connect(address) as connection:
                outbox = Outbox(connection)
                for number in range(puts):
                    conversation = str(chance.randrange(conversations))
                    body = f"{name}-{number}"
                    outbox.put(body, conversation=conversation)
                    # Others put into other conversations, and commit before this one.
                    time.sleep(chance.random() * 0.004)
                    committed[conversation].append(body)
                    connection.commit()
        except BaseException as problem:  # noqa: BLE001 - it is raised in the test
            problems.append(problem)

    ended = threading.Event()
    host = psycopg.connect(address)
    outbox = Outbox(host, queue)
    numbers: list[int] = []

    def collector() -> None:
        while True:
            is_last = ended.is_set()
            numbers.append(outbox.collect(limit=7))
            if is_last and not numbers[-1]:
                return

    threads = [threading.Thread(target=writer, args=(name,)) for name in range(8)]
    collecting = threading.Thread(target=collector)
    collecting.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    collecting.join()
    host.close()
    assert problems == []
    assert sum(numbers) == 8 * puts
    found = {name: [message.text for message in queue.list(name, limit=1000)] for name in committed}
    assert found == committed


def test_T4_without_the_lock_commits_do_overtake(address: str) -> None:
    """That the test above can fail: numbers are given before the commit."""
    first, second = made(address), made(address)
    Outbox(first).put("first", conversation="a")
    Outbox(second).put("second", conversation="b")
    second.commit()
    seen = rows(second, "SELECT number FROM msgq_outbox")
    first.commit()
    assert rows(second, "SELECT number FROM msgq_outbox ORDER BY number")[0] < seen[0]
    first.close()
    second.close()


def test_T4_a_put_waits_for_the_transaction_before_it(address: str, queue: MessageQueue) -> None:
    first, second = made(address), made(address)
    Outbox(first).put("1", conversation="c")
    waiting = threading.Thread(target=lambda: (Outbox(second).put("2", conversation="c"), second.commit()))
    waiting.start()
    time.sleep(0.2)
    assert waiting.is_alive()
    first.commit()
    waiting.join()
    assert Outbox(first, queue).collect() == 2
    assert bodies(queue) == [b"1", b"2"]
    first.close()
    second.close()


def test_T4_a_batch_takes_its_locks_in_one_order(address: str) -> None:
    """Two calls with the same conversations in opposite orders; each one alone reports the deadlock."""
    names = [str(number) for number in range(40)]
    problems: list[Exception] = []

    def run(order: list[str], put: Callable[[Any, list[str]], None]) -> None:
        with psycopg.connect(address) as connection:
            for _ in range(10):
                try:
                    put(connection, order)
                    connection.commit()
                except psycopg.errors.DeadlockDetected as problem:
                    problems.append(problem)
                    connection.rollback()

    def both(put: Callable[[Any, list[str]], None]) -> None:
        threads = [threading.Thread(target=run, args=(order, put)) for order in (names, names[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    made(address).close()
    both(lambda host, order: (Outbox(host).put_batch({"body": "", "conversation": name} for name in order), None)[1])
    assert problems == []

    def alone(host: Client, order: list[str]) -> None:
        for name in order:
            Outbox(host).put("", conversation=name)
            time.sleep(0.001)

    both(alone)
    assert problems != []


def test_T4_the_lock_of_a_conversation_is_the_same_in_every_version() -> None:
    """As `sha256sum` prints the first four bytes."""
    assert [lock_of(name) for name in ("", "ana", "gespräch")] == [-474954686, 617920879, 129432974]


# ---------------------------------------------------------------- collecting


def test_T3_a_full_queue_takes_what_it_can(host: Client, tmp_path: Path) -> None:
    with MessageQueue(tmp_path / "small.db", mode=Mode.MANUAL, direct=False, limit_messages=3) as queue:
        outbox = Outbox(host, queue)
        outbox.put_batch({"body": str(number)} for number in range(10))
        host.commit()
        assert [outbox.collect(), outbox.collect()] == [2, 1]
        with pytest.raises(FullError):
            outbox.collect()
        queue.clear()
        assert outbox.collect() == 3
        assert rows(host, "SELECT count(*) FROM msgq_outbox") == [(4,)]


def test_T3_large_messages_are_collected_in_rounds(host: Client, tmp_path: Path) -> None:
    with MessageQueue(tmp_path / "large.db", mode=Mode.MANUAL, direct=False, limit_body=16 << 20) as queue:
        outbox = Outbox(host, queue)
        for number in range(5):
            outbox.put(bytes(10 << 20), id=str(number))
        host.commit()
        assert outbox.collect(limit=4) == 4
        assert outbox.collect() == 1
        assert [message.id for message in queue.list()] == ["0", "1", "2", "3", "4"]


COLLECTOR = """
import sys, time
import psycopg
from msgqueue import ConflictError, MessageQueue, Mode, Outbox

with psycopg.connect(sys.argv[1]) as host, MessageQueue(sys.argv[2], mode=Mode.MANUAL, direct=False) as queue:
    outbox = Outbox(host, queue)
    conflicts = 0
    while True:
        try:
            if not outbox.collect(limit=5) and host.execute("SELECT 1 FROM orders").fetchall():
                break
            host.rollback()
        except ConflictError:
            conflicts += 1
    print(conflicts)
"""


def test_T3_collectors_in_two_processes_exclude_each_other(address: str, tmp_path: Path) -> None:
    """Each message comes into one of two queues, which collect from one database at the same time."""
    host = made(address)
    outbox = Outbox(host)
    stores = [tmp_path / name for name in ("one.db", "two.db")]
    collectors = [
        subprocess.Popen(
            [sys.executable, "-c", COLLECTOR, address, str(store)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(PYTHON_TESTS.parent / "src")},
        )
        for store in stores
    ]
    for number in range(300):
        outbox.put(str(number))
        host.commit()
    host.execute("INSERT INTO orders VALUES('end')")
    host.commit()
    for collector in collectors:
        assert collector.stdout is not None
        assert collector.wait(timeout=60) == 0
        assert int(collector.stdout.read()) >= 0
        collector.stdout.close()
    found: list[int] = []
    for store in stores:
        with MessageQueue(store, mode=Mode.MANUAL) as queue:
            found += [int(message.text) for message in queue.list(limit=1000)]
    assert sorted(found) == list(range(300))
    # While one collects, another connection is told.
    with psycopg.connect(address, autocommit=True) as other, MessageQueue(tmp_path / "three.db") as queue:
        other.execute("SELECT pg_advisory_lock(%s, 0)", (0x6D736763,))
        with pytest.raises(ConflictError, match="another connection"):
            Outbox(host, queue).collect()
    host.close()


@pytest.mark.parametrize("autocommit", [False, True])
def test_T3_an_interrupted_collection_leaves_no_lock_and_no_transaction(
    address: str, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch, autocommit: bool
) -> None:
    """Like a KeyboardInterrupt, or a task that is cancelled, after each call of the driver or of the queue."""
    host, other = made(address), psycopg.connect(address, autocommit=True)
    host.autocommit = autocommit
    outbox = Outbox(host, queue)
    total = 0
    for step in range(1000):
        with host.transaction():
            outbox.put_batch([{"body": str(total + number), "conversation": "c"} for number in range(2)])
        total += 2
        taken = 0

        def interrupted(steps: Client, at: int = step) -> Client:
            nonlocal taken
            try:
                value = next(steps)
                while True:
                    taken += 1
                    value = steps.throw(KeyboardInterrupt()) if taken == at + 1 else steps.send(value)
            except StopIteration as end:
                return end.value

        with monkeypatch.context() as patch:
            patch.setattr("msgqueue.outbox.run", interrupted)
            with contextlib.suppress(KeyboardInterrupt):
                outbox.collect()
        assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE, step
        assert rows_of_locks(other) == 0, step
        if taken <= step:
            break
    assert step > 10
    outbox.collect()
    assert [body.decode() for body in bodies(queue) if body] == [str(number) for number in range(total)]
    host.close()
    other.close()


def rows_of_locks(connection: Client) -> int:
    number: int = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()[0]
    return number


# ---------------------------------------------------------------- T5: bad input

TABLES: list[tuple[str, type[Exception], str]] = [
    ("DROP TABLE msgq_outbox", NotFoundError, "msgq_outbox"),
    ("DROP TABLE msgq_outbox_store", NotFoundError, "msgq_outbox_store"),
    ("DELETE FROM msgq_outbox_store", CorruptError, "0 rows"),
    ("INSERT INTO msgq_outbox_store VALUES(0, 2, 'other')", CorruptError, "2 rows"),
    ("UPDATE msgq_outbox_store SET version = 2", TooNewError, "later version"),
    ("UPDATE msgq_outbox_store SET version = 0", CorruptError, "version"),
    ("ALTER TABLE msgq_outbox DROP COLUMN metadata", CorruptError, "metadata"),
    ("ALTER TABLE msgq_outbox RENAME COLUMN body TO data", CorruptError, "body"),
    ("ALTER TABLE msgq_outbox ALTER COLUMN body TYPE text USING ''", CorruptError, "body"),
    ("DROP TABLE msgq_outbox; CREATE TABLE msgq_outbox(name text)", CorruptError, "column"),
    ("DROP TABLE msgq_outbox; CREATE VIEW msgq_outbox AS SELECT 1 AS number", CorruptError, "number|column"),
]


@pytest.mark.parametrize(("change", "kind", "text"), TABLES, ids=[change for change, _, _ in TABLES])
def test_T5_tables_of_others_are_refused(
    host: Client, queue: MessageQueue, change: str, kind: type[Exception], text: str
) -> None:
    host.execute(change)
    host.commit()
    outbox = Outbox(host, queue)
    with pytest.raises(kind, match=text):
        outbox.collect()
    assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    # A value of another type is accepted where PostgreSQL converts it.
    if "INSERT" not in change and "TYPE text" not in change:
        with pytest.raises(kind, match=text):
            outbox.put("one")
    host.rollback()
    # The lock of collectors is free again.
    assert rows(host, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
    assert queue.counts().queued == 0


def test_T5_rows_that_somebody_wrote_by_hand_block_nothing(host: Client, queue: MessageQueue) -> None:
    for column in ("id", "conversation", "body", "time_ms", "priority", "unmetered_only"):
        host.execute(f"ALTER TABLE msgq_outbox ALTER COLUMN {column} DROP NOT NULL")
    good = {"id": "'x'", "conversation": "'c'", "body": "'b'", "time_ms": "5", "priority": "0", "unmetered_only": "0"}
    wrong = [
        ({"id": "NULL"}, "id is NULL"),
        ({"id": "repeat('i', 300)"}, "bytes"),
        ({"id": "''"}, "must not be empty"),
        ({"conversation": "NULL"}, "conversation is NULL"),
        ({"conversation": "repeat('c', 5000000)"}, "bytes"),
        ({"body": "NULL"}, "body is NULL"),
        ({"body": "convert_to(repeat('b', 300000000), 'UTF8')"}, "body has 300000000 bytes"),
        ({"metadata": "'a'"}, "metadata are not pairs"),
        ({"metadata": r"'a\000\377\000'"}, "UTF-8"),
        ({"time_ms": "NULL"}, "time_ms is NULL"),
        ({"priority": "NULL"}, "priority is NULL"),
        ({"unmetered_only": "NULL"}, "unmetered_only is NULL"),
    ]
    for index, (changes, _) in enumerate(wrong):
        values = {**good, "id": f"'wrong {index}'", **changes}
        host.execute(f"INSERT INTO msgq_outbox({', '.join(values)}) VALUES({', '.join(values.values())})")
    outbox = Outbox(host, queue)
    outbox.put("last", id="last")
    host.commit()
    assert outbox.collect() == len(wrong) + 1
    reasons = [reason for (reason,) in rows(host, "SELECT refused FROM msgq_outbox ORDER BY number")]
    assert len(reasons) == len(wrong)
    for reason, (_, text) in zip(reasons, wrong):
        assert text in reason
    assert queue.get("last").text == "last"


def test_T5_errors_of_the_server_are_unchanged_and_lose_nothing(address: str, queue: MessageQueue) -> None:
    host, other = made(address), made(address)
    outbox = Outbox(host, queue)
    outbox.put("one", conversation="c")
    host.commit()
    host.read_only = True
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        outbox.put("two")
    host.rollback()
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        outbox.collect()
    host.read_only = False
    # Another transaction holds the table.
    host.execute("SET lock_timeout = '200ms'")
    host.commit()
    other.execute("LOCK TABLE msgq_outbox, msgq_outbox_store IN ACCESS EXCLUSIVE MODE")
    for call in (outbox.collect, lambda: outbox.put("two")):
        with pytest.raises(psycopg.errors.LockNotAvailable):
            call()
        host.rollback()
    other.rollback()
    # Or the conversation.
    Outbox(other).put("two", conversation="c")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        outbox.put("three", conversation="c")
    host.rollback()
    other.commit()
    # The server ends the connection.
    pid = host.info.backend_pid
    other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    other.commit()
    with pytest.raises(psycopg.OperationalError):
        outbox.collect()
    assert Outbox(other, queue).collect() == 2
    assert bodies(queue) == [b"one", b"two"]
    other.close()
    host.close()


def test_T5_wrapped_connections_are_refused(address: str) -> None:
    with psycopg.connect(address) as host, pytest.raises(TypeError, match=r"psycopg\.Connection"):
        Outbox(host.cursor())


# ---------------------------------------------------------------- crashes


@pytest.mark.parametrize("fate", FATES)
def test_T2_T3_a_message_is_neither_lost_nor_doubled_nor_back(server: Server, tmp_path: Path, fate: str) -> None:
    """The program is killed at every step, and its commits are asynchronous."""
    ended = subprocess.run(
        [sys.executable, PYTHON_TESTS / "killed.py", "postgresql", tmp_path, fate, "0", server.database()],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(PYTHON_TESTS.parent / "src")},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.split()[-1]) >= 20


def crashing_before(last: int, server: Server) -> Client:
    """Returns `execute`, which ends the server before a statement."""
    count = 0
    execute = Postgresql.execute

    def crashing(self: Postgresql, *arguments: Client) -> Client:
        nonlocal count
        count += 1
        if count == last:
            server.stop(signal.SIGQUIT)
        return execute(self, *arguments)

    return crashing


@pytest.fixture
def crashing_server() -> Iterator[Server]:
    """A server of the test's own, because its recovery reads and flushes the databases of all tests."""
    server = Server()
    yield server
    server.end()


def test_T2_a_crash_of_the_server_leaves_both_or_neither(
    crashing_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server loses commits that it has not flushed, between the steps of a program whose commits are asynchronous.

    With MSGQ_SOAK before every statement, otherwise before every third one.
    """
    server = crashing_server
    address = server.database()
    last = 0
    lost = 0
    while True:
        last += 1 if os.environ.get("MSGQ_SOAK") else 3
        host = made(address, options="-c synchronous_commit=off")
        host.execute("TRUNCATE msgq_outbox, orders")
        host.execute("SET synchronous_commit = on")
        host.commit()
        host.execute("SET synchronous_commit = off")
        host.commit()
        with MessageQueue(tmp_path / f"{last}.db", mode=Mode.MANUAL, direct=False) as queue:
            crashing = crashing_before(last, server)
            other = psycopg.connect(address, options="-c synchronous_commit=off")
            with monkeypatch.context() as patch:
                patch.setattr(Postgresql, "execute", crashing)
                outbox = Outbox(host, queue)
                try:
                    for number in range(3):
                        host.execute("INSERT INTO orders VALUES(%s)", (str(number),))
                        outbox.put(str(number), id=str(number), conversation="c")
                        host.commit()
                        # A commit of another connection that nothing has flushed, either.
                        Outbox(other).put(f"other {number}", id=f"other {number}")
                        other.execute("INSERT INTO orders VALUES(%s)", (f"other {number}",))
                        other.commit()
                    outbox.collect()
                    is_end = True
                except psycopg.OperationalError:
                    is_end = False
            host.close()
            other.close()
            if is_end:
                server.crash()
            else:
                server.start()
            with psycopg.connect(address) as again:
                while Outbox(again, queue).collect():
                    pass
                orders = {name for (name,) in rows(again, "SELECT name FROM orders")}
                assert rows(again, "SELECT * FROM msgq_outbox") == []
            ids = [message.id for message in queue.list(limit=1000)]
            assert sorted(ids) == sorted(orders), f"killed before statement {last}"
            lost += len(orders) < 6
        if is_end:
            break
    assert last > 10
    assert lost > 0

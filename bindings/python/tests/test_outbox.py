"""The outbox in a SQLite database of the program."""

from __future__ import annotations

import logging
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    ConflictError,
    CorruptError,
    Delivery,
    Draft,
    DuplicateError,
    EventKind,
    FailureKind,
    FullError,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    Outbox,
    Outcome,
    Result,
    Status,
    TooLargeError,
    TooNewError,
    control,
)
from support import Events, program, run

MODES: list[dict[str, Any]] = [
    {"isolation_level": None},
    {"isolation_level": ""},
    {"isolation_level": "DEFERRED"},
    {"isolation_level": "IMMEDIATE"},
    {"isolation_level": "EXCLUSIVE"},
]
if sys.version_info >= (3, 12):
    MODES += [{"autocommit": True}, {"autocommit": False}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "host.db"


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    return opened(mode=Mode.MANUAL, direct=False)


@pytest.fixture
def host(path: Path) -> Iterator[sqlite3.Connection]:
    connection = made(path)
    yield connection
    connection.close()


def made(path: Path, **options: Any) -> sqlite3.Connection:
    """Opens the program's database, and makes its tables."""
    # Inside a transaction, as one always is with autocommit=False, SQLite does not change these.
    is_always_inside = options.get("autocommit") is False
    opening = {**options, "autocommit": True} if is_always_inside else options
    connection: sqlite3.Connection = sqlite3.connect(path, **opening)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if is_always_inside:
        connection.autocommit = False  # type: ignore[attr-defined]
    Outbox(connection).create()
    connection.execute("CREATE TABLE IF NOT EXISTS orders(name TEXT)")
    connection.commit()
    return connection


def bodies(queue: MessageQueue) -> list[bytes | None]:
    return [message.body for message in queue.list(status=Status, limit=1000)]


def count(connection: sqlite3.Connection, table: str = "msgq_outbox") -> int:
    number: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number


# ---------------------------------------------------------------- T1: both or neither


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_T1_order_and_message_exist_both_or_neither(path: Path, queue: MessageQueue, mode: dict[str, Any]) -> None:
    host = made(path, **mode)
    outbox = Outbox(host)
    is_manual = mode.get("isolation_level", "") is None or mode.get("autocommit") is True
    for name, is_kept in (("rolled back", False), ("kept", True)):
        if is_manual:
            host.execute("BEGIN")
        outbox.put(name, conversation="c")
        host.execute("INSERT INTO orders VALUES(?)", (name,))
        assert host.in_transaction
        with pytest.raises(ConflictError):
            outbox.collect(queue)
        assert host.in_transaction
        host.execute(
            "COMMIT" if is_kept else "ROLLBACK"
        ) if is_manual else host.commit() if is_kept else host.rollback()
    if mode.get("autocommit") is False:
        with pytest.raises(ConflictError, match="autocommit"):
            outbox.collect(queue)
        host.autocommit = True  # type: ignore[attr-defined]
    assert host.execute("SELECT name FROM orders").fetchall() == [("kept",)]
    assert outbox.collect(queue) == 1
    assert outbox.collect(queue) == 0
    assert bodies(queue) == [b"kept"]
    assert count(host) == 0
    assert not host.in_transaction
    host.close()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_T1_a_block_commits_and_collects_or_rolls_back(path: Path, queue: MessageQueue, mode: dict[str, Any]) -> None:
    host = made(path, **mode)
    outbox = Outbox(host, queue)

    def failing() -> None:
        with outbox:
            outbox.put("neither")
            host.execute("INSERT INTO orders VALUES('neither')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert count(host, "orders") == 0
    host.rollback()
    with outbox:
        outbox.put("both")
        host.execute("INSERT INTO orders VALUES('both')")
        if mode.get("autocommit") is not False:
            with pytest.raises(ConflictError), outbox:
                pass
    assert bodies(queue) == [b"both"]
    assert host.execute("SELECT name FROM orders").fetchall() == [("both",)]
    assert getattr(host, "autocommit", None) in (None, mode.get("autocommit", -1))
    host.close()


def test_T1_savepoints_of_the_program_hold(host: sqlite3.Connection, queue: MessageQueue) -> None:
    outbox = Outbox(host)
    outbox.put("one")
    host.execute("SAVEPOINT a")
    outbox.put("two")
    outbox.put_batch([Draft("three"), {"body": "four"}])
    host.execute("ROLLBACK TO a")
    host.execute("SAVEPOINT b")
    outbox.put("five")
    host.execute("RELEASE b")
    host.commit()
    assert outbox.collect(queue) == 2
    assert bodies(queue) == [b"one", b"five"]


def test_T1_every_field_arrives(host: sqlite3.Connection, queue: MessageQueue) -> None:
    outbox = Outbox(host)
    given: dict[str, Any] = {
        "body": b"a\0b'; DROP TABLE orders; --",
        "conversation": "'; DROP TABLE orders; -- ü",
        "metadata": {"kéy": "välue", "empty": ""},
        "id": "id'\"",
        "not_before": 4102444800.5,
        "expires_at": 4102444900.25,
        "unmetered_only": True,
        "replace_key": "k",
        "priority": -7,
        "time": 1000000000.125,
    }
    queue.enqueue(**{**given, "id": "direct", "replace_key": None})
    assert outbox.put(**given) == "id'\""
    generated = outbox.put("", delay=3600, expiry=7200)
    host.commit()
    assert outbox.collect(queue) == 2
    direct, first, second = queue.get("direct"), queue.get("id'\""), queue.get(generated)
    ignored = {"id", "sequence", "created"}
    assert [(name, value) for name, value in vars(first).items() if name not in ignored] == [
        (name, value) for name, value in vars(direct).items() if name not in ignored
    ]
    assert second.not_before is not None
    assert second.expires_at is not None
    assert (second.not_before - second.time).total_seconds() == 3600
    assert (second.expires_at - second.not_before).total_seconds() == 7200
    assert (second.body, second.conversation, second.metadata) == (b"", "", {})
    assert queue.enqueue("next", replace_key="k", conversation=given["conversation"])
    assert len(generated) == 36
    assert generated[14] == "7"


def test_T1_what_no_queue_takes_is_refused_and_changes_nothing(host: sqlite3.Connection) -> None:
    outbox = Outbox(host)
    outbox.put("good")
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (TypeError, {"body": 1}),
        (TypeError, {"conversation": b"c"}),
        (TypeError, {"metadata": "no"}),
        (TypeError, {"delay": 1, "not_before": 2}),
        (TypeError, {"priority": True}),
        (InvalidError, {"body": b"bad", "conversation": "\x7f"}),
        (InvalidError, {"body": b"bad", "conversation": "c" * 256}),
        (InvalidError, {"body": "\ud800"}),
        (InvalidError, {"id": ""}),
        (InvalidError, {"id": "i" * 256}),
        (InvalidError, {"id": "ü" * 128}),
        (InvalidError, {"id": "a\nb"}),
        (InvalidError, {"id": "a\x85b"}),
        (InvalidError, {"id": "a\0b"}),
        (InvalidError, {"conversation": "c" * 256}),
        (InvalidError, {"conversation": "\x7f"}),
        (InvalidError, {"replace_key": "k" * 256}),
        (InvalidError, {"metadata": {"": "v"}}),
        (InvalidError, {"priority": 101}),
        (InvalidError, {"time": 253402300800}),
        (InvalidError, {"time": 0}),
        (InvalidError, {"delay": 4000 * 86400}),
        (InvalidError, {"expiry": 4000 * 86400}),
        (InvalidError, {"not_before": 20, "expires_at": 20}),
        (TooLargeError, {"body": bytes((256 << 20) + 1)}),
        (TooLargeError, {"metadata": {str(n): "" for n in range(1025)}}),
        (TooLargeError, {"metadata": {"k": "v" * (16 << 20)}}),
    ]
    for kind, arguments in wrong:
        with pytest.raises(kind):
            outbox.put(**{"body": "bad", **arguments})
        with pytest.raises(kind, match="draft 1: "):
            outbox.put_batch([{"body": "not this"}, {"body": "bad", **arguments}])
    for drafts in (Draft("one"), {"body": "one"}, [1]):
        with pytest.raises(TypeError):
            outbox.put_batch(drafts)  # type: ignore[arg-type]
    assert outbox.put_batch([]) == []
    host.commit()
    assert count(host) == 1


def test_T1_a_duplicate_leaves_the_transaction_usable(host: sqlite3.Connection, queue: MessageQueue) -> None:
    outbox = Outbox(host)
    outbox.put("one", id="a")
    with pytest.raises(DuplicateError):
        outbox.put("again", id="a")
    with pytest.raises(DuplicateError):
        outbox.put_batch([{"body": "not this"}, {"body": "again", "id": "a"}])
    assert host.in_transaction
    outbox.put("two", id="b")
    host.commit()
    with pytest.raises(DuplicateError):
        outbox.put_batch([{"body": "not this"}, {"body": "again", "id": "a"}])
    host.rollback()
    assert outbox.collect(queue) == 2
    assert bodies(queue) == [b"one", b"two"]


def test_T1_a_batch_is_part_of_the_transaction_in_every_mode(path: Path) -> None:
    for mode in MODES:
        host = made(path, **mode)
        is_manual = mode.get("isolation_level", "") is None or mode.get("autocommit") is True
        Outbox(host).put_batch([{"body": "one"}, {"body": "two"}])
        assert host.in_transaction is not is_manual
        host.rollback()
        assert count(host) == (2 if is_manual else 0)
        host.execute("DELETE FROM msgq_outbox")
        host.commit()
        host.close()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_T1_a_batch_whose_commit_fails_leaves_nothing(path: Path, mode: dict[str, Any]) -> None:
    made(path).execute("PRAGMA journal_mode = DELETE").connection.close()
    host, other = (sqlite3.connect(path, timeout=0.05, **options) for options in (mode, {"isolation_level": None}))
    outbox = Outbox(host)
    # A reader keeps the other one from its commit.
    other.execute("BEGIN")
    assert count(other) == 0

    def put_and_commit() -> None:
        outbox.put_batch([{"body": "one"}, {"body": "two"}])
        host.commit()

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        put_and_commit()
    if host.in_transaction and mode.get("isolation_level", "") is not None and mode.get("autocommit") is not True:
        host.rollback()
    other.execute("COMMIT")
    assert host.in_transaction is (mode.get("autocommit") is False)
    outbox.put_batch([{"body": "one"}, {"body": "two"}])
    host.commit()
    assert count(other) == 2
    host.close()
    other.close()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_T1_a_block_whose_commit_fails_leaves_nothing(path: Path, mode: dict[str, Any]) -> None:
    made(path).execute("PRAGMA journal_mode = DELETE").connection.close()
    host, other = (sqlite3.connect(path, timeout=0.05, **options) for options in (mode, {"isolation_level": None}))
    outbox = Outbox(host)
    other.execute("BEGIN")
    assert count(other) == 0

    def undone() -> None:
        with outbox:
            host.execute("INSERT INTO orders VALUES('undone')")
            outbox.put("undone")

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        undone()
    other.execute("COMMIT")
    assert count(host) == count(host, "orders") == 0
    host.rollback()
    with outbox:
        host.execute("INSERT INTO orders VALUES('kept')")
        outbox.put("kept")
    assert count(other) == count(other, "orders") == 1
    host.close()
    other.close()


def test_T1_the_errors_of_a_busy_database_are_unchanged(path: Path, queue: MessageQueue) -> None:
    host, other = made(path, timeout=0.05), made(path, timeout=0.05)
    outbox = Outbox(host, queue)
    outbox.put("one", id="a")
    host.commit()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        outbox.put("two", id="b")
    host.rollback()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        outbox.collect()
    assert host.execute("PRAGMA synchronous").fetchone() == (1,)
    assert not host.in_transaction
    other.rollback()
    # A transaction that read before the other one wrote.
    host.execute("BEGIN")
    assert count(host) == 1
    other.execute("INSERT INTO orders VALUES('x')")
    other.commit()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        outbox.put("two", id="b")
    host.rollback()
    outbox.put("two", id="b")
    host.commit()
    assert outbox.collect() == 2
    host.close()
    other.close()


def test_T1_a_program_that_holds_its_lock_delays_a_collection_and_loses_nothing(
    path: Path, queue: MessageQueue
) -> None:
    host = made(path, timeout=0.2)
    outbox = Outbox(host, queue)
    outbox.put("one")
    host.commit()
    with program(
        """
        import sqlite3, sys, time
        other = sqlite3.connect(sys.argv[1], isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        time.sleep(60)
        """,
        path,
    ) as other:
        assert other.line() == "locked"
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            outbox.collect()
    assert outbox.collect() == 1
    assert bodies(queue) == [b"one"]
    host.close()


# ---------------------------------------------------------------- T3, T4: collecting


def test_T4_rows_are_taken_in_the_order_of_their_conversation(host: sqlite3.Connection, queue: MessageQueue) -> None:
    outbox = Outbox(host)
    for number in range(30):
        outbox.put(str(number), conversation=str(number % 3))
        host.commit()
    # A number that is lower than those before, as PostgreSQL gives it, is taken as well.
    assert outbox.collect(queue, limit=10) == 10
    host.execute("UPDATE msgq_outbox SET number = 1 WHERE number = 30")
    host.commit()
    assert [outbox.collect(queue, limit=7) for _ in range(4)] == [7, 7, 6, 0]
    assert sorted(int(body or b"") for body in bodies(queue)) == list(range(30))
    for limit, kind in ((0, InvalidError), (1_000_001, InvalidError), (True, TypeError), ("1", TypeError)):
        with pytest.raises(kind):
            outbox.collect(queue, limit=limit)  # type: ignore[arg-type]


def test_T3_a_full_queue_takes_what_it_can(host: sqlite3.Connection, opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_messages=3)
    outbox = Outbox(host, queue)
    outbox.put_batch({"body": str(number)} for number in range(10))
    host.commit()
    assert outbox.collect() == 2
    assert outbox.collect() == 1
    with pytest.raises(FullError):
        outbox.collect()
    assert count(host) == 7
    queue.clear()
    assert outbox.collect() == 3
    assert host.execute("PRAGMA synchronous").fetchone() == (1,)


def test_T3_large_messages_are_collected_in_rounds(host: sqlite3.Connection, opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_body=16 << 20)
    outbox = Outbox(host, queue)
    outbox.put_batch({"body": bytes(10 << 20)} for _ in range(5))
    host.commit()
    statements: list[str] = []
    host.set_trace_callback(lambda statement: statements.append(statement[:6]))
    assert outbox.collect() == 5
    # Two rows each, and the transaction that reads no more.
    assert statements.count("COMMIT") == 4


def test_T3_two_collectors_of_one_database_exclude_each_other(path: Path, queue: MessageQueue) -> None:
    """Whatever two threads with connections of their own do at the same time, no message is lost or doubled."""
    host = made(path, timeout=20)
    outbox = Outbox(host)
    count_of_messages = 2000
    ended = threading.Event()
    conflicts = []

    def collector() -> None:
        own = sqlite3.connect(path, timeout=20)
        while True:
            is_last = ended.is_set()
            try:
                if not Outbox(own).collect(queue, limit=17) and is_last:
                    break
            except ConflictError as problem:
                conflicts.append(problem)
        own.close()

    threads = [threading.Thread(target=collector) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(0, count_of_messages, 10):
        outbox.put_batch({"body": str(number + each), "conversation": "c"} for each in range(10))
        host.commit()
    ended.set()
    for thread in threads:
        thread.join()
    assert count(host) == 0
    found: list[int] = []
    after = 0
    while page := queue.list(after=after, limit=1000):
        found += [int(message.body or b"") for message in page]
        after = page[-1].sequence
    assert found == list(range(count_of_messages))
    host.close()


def test_T3_collections_of_one_outbox_exclude_each_other(host: sqlite3.Connection, queue: MessageQueue) -> None:
    outbox = Outbox(host, queue)
    outbox.put("one")
    host.commit()
    with outbox._collects, pytest.raises(ConflictError, match="another thread"):
        outbox.collect()
    assert outbox.collect() == 1


def test_T3_what_the_queue_has_is_deleted_before_it_is_forgotten(
    host: sqlite3.Connection, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collectors that are interrupted after they took over; more in test_outbox_kills.py."""
    outbox = Outbox(host, queue)
    outbox.put("one", id="a")
    host.commit()
    delete = outbox._host.delete

    def failing(numbers: list[int]) -> Any:
        assert not numbers
        return delete(numbers)

    with monkeypatch.context() as patch:
        patch.setattr(outbox._host, "delete", failing)
        with pytest.raises(AssertionError):
            outbox.collect()
    assert count(host) == 1
    queue.delete("a")
    outbox.put("two", id="b")
    host.commit()
    assert outbox.collect() == 1
    assert bodies(queue) == [b"two"]
    assert count(host) == 0


def interrupted(at: int, seen: list[int]) -> Any:
    """Returns `run`, which is interrupted after a step, as by Ctrl-C while SQLite waits for a lock."""

    def run(steps: Any) -> Any:
        try:
            value = next(steps)
            while True:
                seen.append(at)
                value = steps.throw(KeyboardInterrupt()) if len(seen) == at + 1 else steps.send(value)
        except StopIteration as end:
            return end.value

    return run


@pytest.mark.parametrize("mode", [{"isolation_level": None}, {"isolation_level": ""}], ids=str)
@pytest.mark.parametrize("what", ["collect", "block", "batch"])
def test_T3_an_interrupt_leaves_no_transaction_and_no_setting(
    path: Path, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch, mode: dict[str, Any], what: str
) -> None:
    host = made(path, **mode)
    outbox = Outbox(host, queue)
    for step in range(1000):
        for number in range(2):
            outbox.put(str(number), id=f"{step} {number}")
        host.commit()
        seen: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr("msgqueue.outbox.run", interrupted(step, seen))
            try:
                if what == "collect":
                    outbox.collect()
                elif what == "block":
                    outbox.__enter__()
                    outbox.__exit__(None, None, None)
                else:
                    outbox.put_batch([{"body": "batch"}, {"body": "batch"}])
            except KeyboardInterrupt:
                if what == "batch" and mode["isolation_level"] is not None:
                    host.rollback()
        if what == "batch" and mode["isolation_level"] is not None:
            host.commit()
        assert not host.in_transaction, step
        assert host.execute("PRAGMA synchronous").fetchone() == (1,), step
        if len(seen) <= step:
            break
    assert step >= 2
    outbox.collect()
    ids = [message.id for message in queue.list(status=Status, limit=1000) if message.body != b"batch"]
    assert ids == [f"{before} {number}" for before in range(step + 1) for number in range(2)]
    host.close()


# ---------------------------------------------------------------- T5: what is refused


def test_T5_rows_that_somebody_wrote_by_hand_block_nothing(
    path: Path, host: sqlite3.Connection, opened: Opener
) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_body=10)
    host.execute("DROP TABLE msgq_outbox")
    kinds = {"msgq_outbox": Outbox(host)._host.columns["msgq_outbox"]}
    columns = [f"{name} {kind}" for name, kind in kinds["msgq_outbox"].items() if name != "number"]
    # The same columns without their constraints.
    host.execute(f"CREATE TABLE msgq_outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, {', '.join(columns)})")
    good = {
        "id": "'x'",
        "conversation": "'c'",
        "body": "x'6162'",
        "time_ms": "5",
        "priority": "0",
        "unmetered_only": "0",
    }
    wrong = [
        ({"id": "NULL"}, "id is NULL"),
        ({"id": "x'61'"}, "id is NULL or of another type"),
        ({"id": "'a' || char(0) || 'b'"}, "id contains a NUL"),
        ({"id": "''"}, "must not be empty"),
        ({"id": "CAST(x'ff' AS TEXT)"}, "UTF-8"),
        ({"id": "replace(hex(zeroblob(200)), '0', 'i')"}, "bytes"),
        ({"conversation": "NULL"}, "conversation is NULL"),
        ({"conversation": "char(10)"}, "control character"),
        ({"conversation": "replace(hex(zeroblob(5000000)), '0', 'i')"}, "bytes"),
        ({"body": "NULL"}, "body is NULL"),
        ({"body": "'text'"}, "body is NULL or of another type"),
        ({"body": "7"}, "body is NULL or of another type"),
        ({"body": "zeroblob(300000000)"}, "body has 300000000 bytes"),
        ({"metadata": "'text'"}, "metadata is of another type"),
        ({"metadata": "x'61'"}, "metadata are not pairs"),
        ({"metadata": "x'6100'"}, "metadata are not pairs"),
        ({"metadata": "x'6100ff00'"}, "UTF-8"),
        ({"metadata": "zeroblob(20000000)"}, "metadata has 20000000 bytes"),
        ({"time_ms": "NULL"}, "time_ms is NULL"),
        ({"time_ms": "'soon'"}, "time_ms is NULL or of another type"),
        ({"not_before_ms": "1.5"}, "not_before_ms is of another type"),
        ({"expires_at_ms": "x'61'"}, "expires_at_ms is of another type"),
        ({"priority": "NULL"}, "priority is NULL"),
        ({"priority": "5000000000"}, "priority must be"),
        ({"replace_key": "x'61'"}, "replace_key is of another type"),
        ({"unmetered_only": "'yes'"}, "unmetered_only is NULL or of another type"),
        ({"unmetered_only": "2"}, "unmetered_only is not 0 or 1"),
    ]
    for index, (changes, _) in enumerate(wrong):
        values = {**good, "id": f"'wrong {index}'", **changes}
        host.execute(f"INSERT INTO msgq_outbox({', '.join(values)}) VALUES({', '.join(values.values())})")
    # What the queue keeps as failed, whole.
    failing = {
        "large": {"body": "zeroblob(11)"},
        "priority": {"priority": "101"},
        "time": {"time_ms": "-5"},
        "expiry": {"not_before_ms": "10", "expires_at_ms": "5"},
    }
    for id, changes in failing.items():
        values = {**good, "id": f"'{id}'", **changes}
        host.execute(f"INSERT INTO msgq_outbox({', '.join(values)}) VALUES({', '.join(values.values())})")
    host.execute("CREATE UNIQUE INDEX ids ON msgq_outbox(id)")
    host.commit()
    outbox = Outbox(host, queue)
    outbox.put("last", id="last")
    host.commit()
    moved = 0
    while number := outbox.collect(limit=10):
        moved += number
    assert moved == len(wrong) + len(failing) + 1
    reasons = [reason for (reason,) in host.execute("SELECT refused FROM msgq_outbox ORDER BY number")]
    assert len(reasons) == len(wrong)
    for reason, (_, text) in zip(reasons, wrong):
        assert text in reason
    assert queue.get("last").body == b"last"
    for id in failing:
        failure = queue.get(id).failure
        assert queue.get(id).status is Status.FAILED
        assert failure is not None
        assert failure.kind is FailureKind.LOCAL
    with pytest.raises(TooLargeError):
        queue.retry("large")
    # Some of them stand in the queue's list, too, until somebody clears it.
    assert {draft.result for draft in queue.handed_over(outbox_source(host)).drafts} == {Result.INVALID}
    # A row that was corrected is taken.
    host.execute("UPDATE msgq_outbox SET body = x'62', refused = NULL WHERE id = 'wrong 9'")
    host.commit()
    assert outbox.collect() == 1
    assert queue.get("wrong 9").body == b"b"


def outbox_source(connection: sqlite3.Connection) -> str:
    source: str = connection.execute("SELECT source FROM msgq_outbox_store").fetchone()[0]
    return source


TABLES: list[tuple[str, type[Exception], str]] = [
    ("DROP TABLE msgq_outbox", NotFoundError, "msgq_outbox does not exist"),
    ("DROP TABLE msgq_outbox_store", NotFoundError, "msgq_outbox_store does not exist"),
    ("DELETE FROM msgq_outbox_store", CorruptError, "0 rows"),
    ("INSERT INTO msgq_outbox_store VALUES(0, 1, 'other')", CorruptError, "2 rows"),
    ("UPDATE msgq_outbox_store SET version = 2", TooNewError, "later version"),
    ("UPDATE msgq_outbox_store SET version = 'one'", CorruptError, "version"),
    ("UPDATE msgq_outbox_store SET version = 0", CorruptError, "version"),
    ("ALTER TABLE msgq_outbox DROP COLUMN metadata", CorruptError, "no column metadata"),
    ("ALTER TABLE msgq_outbox RENAME COLUMN body TO data", CorruptError, "no column body"),
    ("DROP TABLE msgq_outbox; CREATE TABLE msgq_outbox(name TEXT)", CorruptError, "no column number"),
    (
        "CREATE TABLE other AS SELECT * FROM msgq_outbox; DROP TABLE msgq_outbox; "
        "ALTER TABLE other RENAME TO msgq_outbox",
        CorruptError,
        "type",
    ),
    ("DROP TABLE msgq_outbox; CREATE VIEW msgq_outbox AS SELECT 1 AS number", CorruptError, "number"),
]


@pytest.mark.parametrize("limit", [1, 10])
def test_T3_a_trigger_that_keeps_rows_makes_no_message_be_sent_twice(
    host: sqlite3.Connection, opened: Opener, limit: int
) -> None:
    sent: list[str] = []

    def send(delivery: Delivery) -> Outcome:
        sent.append(delivery.id)
        return Outcome.sent()

    queue = opened(transport=send, mode=Mode.MANUAL, direct=False, keep_sent=0, remember_ids=0)
    outbox = Outbox(host, queue)
    outbox.put("hello", id="a")
    host.execute("CREATE TRIGGER keep BEFORE DELETE ON msgq_outbox BEGIN SELECT RAISE(IGNORE); END")
    host.commit()
    for _ in range(3):
        with pytest.raises(ConflictError, match="a trigger keeps a row"):
            outbox.collect(limit=limit)
        queue.drain()
    host.execute("DROP TRIGGER keep")
    host.commit()
    assert outbox.collect() == 0
    assert host.execute("SELECT count(*) FROM msgq_outbox").fetchone() == (0,)
    queue.drain()
    assert sent == ["a"]


def test_T5_a_trigger_that_keeps_a_refused_row_makes_no_collection_endless(
    host: sqlite3.Connection, queue: MessageQueue
) -> None:
    outbox = Outbox(host, queue)
    outbox.put("hello")
    host.execute("UPDATE msgq_outbox SET unmetered_only = 2")
    host.execute("CREATE TRIGGER keep BEFORE UPDATE ON msgq_outbox BEGIN SELECT RAISE(IGNORE); END")
    host.commit()
    with pytest.raises(ConflictError, match="a trigger keeps a row"):
        outbox.collect()
    host.execute("DROP TRIGGER keep")
    host.commit()
    outbox.collect()
    assert queue.list() == []
    assert host.execute("SELECT count(*) FROM msgq_outbox WHERE refused IS NOT NULL").fetchone() == (1,)


def test_T5_refused_rows_are_not_read_by_each_collection(host: sqlite3.Connection, queue: MessageQueue) -> None:
    outbox = Outbox(host, queue)

    def steps() -> int:
        made = 0

        def step() -> int:
            nonlocal made
            made += 1
            return 0

        host.set_progress_handler(step, 1)
        assert outbox.collect() == 0
        host.set_progress_handler(None, 0)
        return made

    before = steps()
    for number in range(2000):
        host.execute(
            "INSERT INTO msgq_outbox(id, conversation, body, time_ms, refused) VALUES(?, '', x'00', 1, 'by hand')",
            (f"r{number}",),
        )
    host.commit()
    assert steps() < before + 200
    assert count(host) == 2000


@pytest.mark.parametrize(("change", "kind", "text"), TABLES, ids=[change for change, _, _ in TABLES])
def test_T5_tables_of_others_are_refused_and_left_as_they_are(
    host: sqlite3.Connection, queue: MessageQueue, change: str, kind: type[Exception], text: str
) -> None:
    outbox = Outbox(host, queue)
    host.executescript(change)
    host.commit()
    before = list(host.iterdump())
    with pytest.raises(kind, match=text):
        outbox.collect()
    assert not host.in_transaction
    if "other" not in change:
        with pytest.raises(kind, match=text):
            outbox.put("one")
    host.rollback()
    assert list(host.iterdump()) == before
    assert host.execute("PRAGMA synchronous").fetchone() == (1,)
    assert queue.counts().queued == 0


def test_T5_tables_whose_numbers_could_be_used_twice_are_refused(path: Path, queue: MessageQueue) -> None:
    host = sqlite3.connect(path, isolation_level=None)
    outbox = Outbox(host, queue)
    host.executescript(outbox.schema.replace("AUTOINCREMENT", ""))
    outbox.put("one")
    for call in (outbox.collect, outbox.create):
        with pytest.raises(CorruptError, match="AUTOINCREMENT"):
            call()
    assert not host.in_transaction
    assert count(host) == 1
    assert queue.counts().queued == 0
    host.close()


def test_T5_a_read_only_database_is_an_error_and_loses_nothing(path: Path, queue: MessageQueue) -> None:
    host = made(path)
    Outbox(host).put("one")
    host.commit()
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    outbox = Outbox(reader, queue)
    for call in (lambda: outbox.collect(), lambda: outbox.put("two")):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            call()
        reader.rollback()
    reader.close()
    assert queue.counts().queued == 0
    assert Outbox(host, queue).collect() == 1
    host.close()


def test_T5_a_failed_collection_after_a_block_is_a_warning(
    path: Path, host: sqlite3.Connection, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_messages=1)
    outbox = Outbox(host, queue)
    with caplog.at_level(logging.WARNING, "msgqueue"):
        for name in ("one", "two"):
            with outbox:
                outbox.put(name)
    assert "MSGQ_FULL" in caplog.text
    assert count(host) == 1


def test_T1_a_block_asks_the_owner_of_the_queue_to_collect(host: sqlite3.Connection, opened: Opener) -> None:
    events = Events()
    queue = opened(mode=Mode.MANUAL, direct=False, on_event=events, collect_interval=None)
    queue.start_control()
    with control.connect(queue.path) as client:
        outbox = Outbox(host, client)
        with outbox:
            outbox.put("one")
        events.wait_for(EventKind.COLLECT)
        with pytest.raises(TypeError, match="needs a queue"):
            outbox.collect()
    assert Outbox(host).collect(queue) == 1


def test_T5_wrong_arguments_are_type_errors(host: sqlite3.Connection, queue: MessageQueue) -> None:
    for connection in (None, "host.db", host.cursor(), object()):
        with pytest.raises(TypeError, match="connection must be"):
            Outbox(connection)
    with pytest.raises(TypeError, match="queue must be"):
        Outbox(host, "queue")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs a queue"):
        Outbox(host).collect()
    with pytest.raises(TypeError, match="queue must be"):
        Outbox(host).collect(1)  # type: ignore[arg-type]


# ---------------------------------------------------------------- T6: the program's database is its own


class Watched(sqlite3.Connection):
    """A connection that fails when the library opens, closes, hooks or configures something."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the library must not call this")

    set_authorizer = set_progress_handler = set_trace_callback = create_function = create_aggregate = _fail
    create_collation = enable_load_extension = load_extension = executescript = backup = interrupt = _fail


def test_T6_nothing_is_opened_closed_hooked_or_left_changed(
    path: Path, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(path).close()
    host = sqlite3.connect(path, factory=Watched, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)
    traced: list[str] = []
    sqlite3.Connection.set_trace_callback(host, traced.append)
    host.execute("PRAGMA synchronous = OFF")

    def failing(*_: Any) -> Any:
        raise AssertionError("a factory of the program was called")

    monkeypatch.setattr(sqlite3, "connect", failing)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", failing)
    for name in ("TEXT", "BLOB", "INTEGER"):
        sqlite3.register_converter(name, failing)
    try:
        host.row_factory = host.text_factory = failing
        outbox = Outbox(host, queue)
        outbox.create()
        outbox.put("one", conversation="ü", metadata={"a": "b"}, replace_key="k")
        host.commit()
        with outbox:
            outbox.put("two")
        assert outbox.collect() == 0
    finally:
        for name in ("TEXT", "BLOB", "INTEGER"):
            sqlite3.dbapi2.converters.pop(name)
    assert host.row_factory is failing
    assert host.text_factory is failing
    host.row_factory, host.text_factory = None, str
    assert host.execute("PRAGMA synchronous").fetchone() == (0,)
    assert bodies(queue) == [b"one", b"two"]
    assert queue.list()[0].conversation == "ü"
    # The program's own hook is still there.
    assert any("msgq_outbox" in statement for statement in traced)
    assert host.total_changes > 0
    host.close()


def test_T6_temporary_and_attached_tables_do_not_take_the_place_of_the_outbox(
    path: Path, queue: MessageQueue, tmp_path: Path
) -> None:
    host = sqlite3.connect(path, isolation_level=None)
    host.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    for schema in ("temp", "other"):
        host.execute(f"CREATE TABLE {schema}.msgq_outbox(collected, version, source)")
        host.execute(f"CREATE TABLE {schema}.msgq_outbox_store(collected, version, source)")
    host.execute("INSERT INTO temp.msgq_outbox_store VALUES(0, 1, 'temporary')")
    outbox = Outbox(host, queue)
    outbox.create()
    outbox.create()
    outbox.put("one")
    before = host.execute("SELECT collected FROM main.msgq_outbox_store").fetchone()
    assert outbox.collect() == 1
    # Each transaction of the collector writes to the database with the rows.
    assert host.execute("SELECT collected FROM main.msgq_outbox_store").fetchone() == before
    host.execute(
        "CREATE TEMP TRIGGER written AFTER UPDATE ON main.msgq_outbox_store BEGIN INSERT INTO writes VALUES(1); END"
    )
    host.execute("CREATE TEMP TABLE writes(number)")
    outbox.put("two")
    assert outbox.collect() == 1
    assert count(host, "writes") == 2
    for schema in ("temp", "other"):
        assert count(host, f"{schema}.msgq_outbox") == 0
    assert host.execute("SELECT * FROM temp.msgq_outbox_store").fetchall() == [(0, 1, "temporary")]
    host.close()


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_T6_a_database_in_utf_16_is_read(path: Path, queue: MessageQueue, encoding: str) -> None:
    host = sqlite3.connect(path)
    host.execute(f"PRAGMA encoding = '{encoding}'")
    outbox = Outbox(host, queue)
    outbox.create()
    outbox.put("ü", conversation="gespräch", id="ïd", metadata={"é": "ö"}, replace_key="ß")
    host.execute("INSERT INTO msgq_outbox(id, conversation, body, time_ms) VALUES(CAST(x'00d8' AS TEXT), '', x'', 1)")
    host.commit()
    assert outbox.collect() == 2
    message = queue.get("ïd")
    assert (message.conversation, message.text, message.metadata) == ("gespräch", "ü", {"é": "ö"})
    host.close()


def test_T6_locks_of_the_program_hold_while_the_library_works(path: Path, queue: MessageQueue) -> None:
    """Closing any descriptor of the file in this process would drop SQLite's locks."""
    host, other = made(path), made(path, timeout=0)
    Outbox(host).put("committed")
    host.commit()
    Outbox(host).put("held")
    host.execute("INSERT INTO orders VALUES('held')")
    outbox = Outbox(other, queue)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        outbox.collect()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        outbox.put("other")
    other.rollback()
    ended = run(
        """
        import sqlite3, sys
        try:
            sqlite3.connect(sys.argv[1], timeout=0).execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as problem:
            print(problem)
        """,
        path,
    )
    assert ended.stdout == "database is locked\n"
    host.commit()
    assert outbox.collect() == 2
    host.close()
    other.close()


def test_T6_importing_the_package_imports_no_driver() -> None:
    ended = run("import sys, msgqueue; print(sorted({'sqlite3', 'psycopg', 'asyncio'} & set(sys.modules)))")
    assert ended.stdout == "[]\n"


def test_T6_levels_that_are_higher_are_left(path: Path, queue: MessageQueue) -> None:
    host = made(path)
    outbox = Outbox(host, queue)
    statements: list[str] = []
    host.set_trace_callback(statements.append)
    for level in (0, 1, 2, 3):
        host.execute(f"PRAGMA synchronous = {level}")
        outbox.put("one")
        host.commit()
        statements.clear()
        assert outbox.collect() == 1
        changes = [each for each in statements if each.startswith("PRAGMA main.synchronous =")]
        assert changes == ([] if level == 3 else ["PRAGMA main.synchronous = 3", f"PRAGMA main.synchronous = {level}"])
        # Nothing to do is nothing written.
        statements.clear()
        assert outbox.collect() == 0
        assert not any(each.startswith(("BEGIN", "INSERT", "UPDATE", "DELETE")) for each in statements)
    host.close()

"""The store's files: read, copied, opened by sqlite3, restored, and damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msgqueue import (
    CorruptError,
    Draft,
    EventKind,
    FailureKind,
    LockedError,
    MessageQueue,
    Mode,
    Outcome,
    PermissionDeniedError,
    Result,
    Status,
    TooNewError,
)
from support import Events, program

OPEN = """
    import sys
    from msgqueue import Error, MessageQueue
    try:
        MessageQueue(sys.argv[1]).close()
        print("OK")
    except Error as problem:
        print(problem.name, problem)
"""

# Enqueues m1, m2, … and waits to be killed.
WRITE = """
    import sys, time
    from msgqueue import MessageQueue, Mode
    queue = MessageQueue(sys.argv[1], mode=Mode.MANUAL, direct=False)
    for number in range(int(sys.argv[2]), int(sys.argv[3]) + 1):
        queue.enqueue(f"body {number}", id=f"m{number}", conversation="ana")
    print("written", flush=True)
    time.sleep(60)
"""


def opened(store: Path, **options: object) -> MessageQueue:
    return MessageQueue(store, mode=Mode.MANUAL, direct=False, **options)  # type: ignore[arg-type]


def fill(store: Path, first: int, last: int) -> None:
    """Enqueues m<first> to m<last> and closes the queue."""
    with opened(store) as queue:
        for number in range(first, last + 1):
            queue.enqueue(f"body {number}", id=f"m{number}", conversation="ana")


def crash(store: Path, first: int, last: int) -> None:
    """Enqueues the same in a process that is killed."""
    with program(WRITE, store, first, last) as writer:
        assert writer.line() == "written"


def elsewhere(store: Path) -> str:
    """Returns the result of opening it in another process."""
    with program(OPEN, store) as other:
        return other.line()


def numbers(queue: MessageQueue) -> list[str]:
    return [message.text.removeprefix("body ") for message in queue.list(limit=1000)]


def beside(store: Path) -> dict[str, bytes]:
    """Returns every file of the store's directory."""
    return {path.name: path.read_bytes() for path in store.parent.iterdir()}


def run_sql(store: Path, sql: str) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(sql)


def test_D1_reading_copying_and_sqlite3_in_the_process_do_not_release_the_lock(store: Path, tmp_path: Path) -> None:
    with opened(store) as queue:
        queue.enqueue("body 1")
        store.read_bytes()
        shutil.copy(store, tmp_path / "copy.db")
        with closing(sqlite3.connect(store)) as connection, pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("SELECT count(*) FROM message").fetchall()
        answer = elsewhere(store)
        assert answer.startswith(("MSGQ_LOCKED", "LOCKED"))
        assert str(os.getpid()) in answer
        with pytest.raises(LockedError):
            opened(store)
        queue.enqueue("body 2")
    with opened(store) as queue:
        assert numbers(queue) == ["1", "2"]


def test_D2_D4_a_refused_open_changes_no_byte(store: Path) -> None:
    fill(store, 1, 3)
    crash(store, 4, 6)
    good = beside(store)
    for place, value, error in ((68, 4711, CorruptError), (60, 1_000_000, TooNewError)):
        changed = bytearray(good[store.name])
        changed[place : place + 4] = value.to_bytes(4, "big")
        store.write_bytes(changed)
        before = beside(store)
        with pytest.raises(error):
            opened(store)
        assert beside(store) == before
    store.write_bytes(good[store.name])
    with opened(store) as queue:
        assert numbers(queue) == [str(number) for number in range(1, 7)]


def test_D3_D17_a_backup_over_a_crashed_store_is_refused_until_its_log_is_moved_away(
    store: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    with opened(store) as queue:
        queue.enqueue("body 1")
        queue.backup(backup)
    fill(store, 2, 3)
    crash(store, 4, 6)
    shutil.copy(backup, store)
    before = beside(store)
    with pytest.raises(CorruptError, match="does not belong") as refused:
        opened(store)
    assert beside(store) == before
    for suffix in ("-wal", "-tail"):
        assert f"{store}{suffix}" in str(refused.value)
        Path(f"{store}{suffix}").rename(f"{store}.old{suffix}")
    with opened(store) as queue:
        assert numbers(queue) == ["1"]


@pytest.mark.parametrize("what", ["flipped", "removed"])
def test_D7_a_lost_tail_is_reported_with_the_missing_sequences(store: Path, what: str) -> None:
    fill(store, 1, 3)
    crash(store, 4, 12)
    log = Path(f"{store}-wal")
    if what == "removed":
        log.unlink()
    else:
        changed = bytearray(log.read_bytes())
        changed[len(changed) // 2] ^= 1
        log.write_bytes(changed)
    before = beside(store)
    with pytest.raises(CorruptError) as refused:
        opened(store, refuse_lost_tail=True)
    assert beside(store) == before
    events = Events()
    with opened(store, on_event=events) as queue:
        count = len(numbers(queue))
        assert 3 <= count < 12
        event = events.wait_for(EventKind.STORAGE)
        assert event.result is Result.CORRUPT
        assert f"Messages with the sequences {count + 1} to 12 are missing" in (event.text or "")
        assert (event.text or "?") in str(refused.value)


def test_D10_damaged_rows_are_listed_as_damaged(store: Path) -> None:
    changes = [
        "created_at = -9223372036854775808",
        "created_at = 9223372036854775807",
        "due_at = 9223372036854775807, due_delay = 9223372036854775807",
        "expires_at = 9223372036854775807",
        "sent_at = -9223372036854775808",
        "attempts = 9223372036854775807",
        "body_size = 9223372036854775807",
        "body = x'ff'",
        "metadata = '{'",
        "status = 77",
    ]
    for change in changes:
        fill(store, 1, 2)
        run_sql(store, f"UPDATE message SET {change} WHERE id = 'm1'")
        with opened(store) as queue:
            messages = {message.id: message for message in queue.list(status=Status)}
            assert messages["m2"].text == "body 2", change
            damaged = messages["m1"]
            assert damaged.status is Status.FAILED, change
            assert damaged.failure is not None, change
            assert "damaged" in damaged.failure.text, change
            assert damaged.failure.kind is FailureKind.UNKNOWN, change
            queue.delete("m1")  # a person can remove it
            assert [message.id for message in queue.list(status=Status)] == ["m2"], change
        store.unlink()


def test_D10_altered_counts_are_rebuilt(store: Path) -> None:
    fill(store, 1, 3)
    run_sql(store, "UPDATE conversation SET queued = 99; UPDATE state SET queued = -5")
    events = Events()
    with opened(store, on_event=events) as queue:
        assert queue.counts().queued == 3
        assert queue.counts("ana").queued == 3
        assert "state" in (events.wait_for(EventKind.STORAGE).text or "")


def test_D12_a_store_that_others_may_write_is_refused(store: Path) -> None:
    fill(store, 1, 1)
    for mode in (0o666, 0o620):
        store.chmod(mode)
        with pytest.raises(PermissionDeniedError, match="chmod go-w"):
            opened(store)
    store.chmod(0o644)
    with opened(store) as queue:
        assert numbers(queue) == ["1"]


def test_D17_backup_copy_and_restore(store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    sent: list[str] = []

    def send(delivery: object) -> Outcome:
        sent.append(delivery.id)  # type: ignore[attr-defined]
        return Outcome.sent()

    with opened(store, transport=send) as queue:
        queue.enqueue("body 1", id="m1")
        queue.backup(backup)
        queue.enqueue("body 2", id="m2")
        assert queue.drain().sent == 2
    assert sorted(beside(store)) == ["backup.db", "outbox.db"]  # a closed store is one file
    shutil.copy(store, tmp_path / "closed.db")
    with opened(tmp_path / "closed.db") as copy:
        assert copy.counts().sent == 2
    store.rename(tmp_path / "away.db")
    shutil.copy(backup, store)
    with opened(store, transport=send) as queue:
        assert numbers(queue) == ["1"]
        assert queue.drain().sent == 1
    assert sent == ["m1", "m2", "m1"]  # sent again under its id


PRINT = """
    import os, sys
    from msgqueue import MessageQueue, Mode
    descriptor = int(sys.argv[2])
    os.close(descriptor)
    with MessageQueue(sys.argv[1], mode=Mode.MANUAL, direct=False) as queue:
        queue.enqueue("first", id="a")
        try:
            os.write(descriptor, b"an ordinary line of the host\\n")
        except OSError:
            pass  # no descriptor is open there
        queue.enqueue("second", id="b")
"""


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_Q12_writes_to_a_closed_standard_descriptor_do_not_reach_the_store(store: Path, descriptor: int) -> None:
    fill(store, 1, 1)
    with program(PRINT, store, descriptor) as host:
        host.wait()
    with opened(store) as queue:
        assert [message.id for message in queue.list()] == ["m1", "a", "b"]


def test_D12_files_with_names_like_unfinished_ones_are_kept(store: Path) -> None:
    others = [store.with_name(f"{store.name}.new-2025"), store.with_name(f"{store.name}.msgq-new-notes.txt")]
    for other in others:
        other.write_text("somebody's")
        os.utime(other, (1, 1))
    fill(store, 1, 1)
    assert [other.read_text() for other in others] == ["somebody's", "somebody's"]


def test_D7_a_missing_side_record_beside_a_log_is_reported(store: Path) -> None:
    crash(store, 1, 3)
    copy = store.with_name("copy.db")
    shutil.copy(store, copy)
    shutil.copy(f"{store}-wal", f"{copy}-wal")
    with pytest.raises(CorruptError, match=r"copy\.db-tail is missing"):
        opened(copy, refuse_lost_tail=True)
    events = Events()
    with opened(copy, on_event=events) as queue:
        assert queue.counts().queued == 3
        assert "-tail is missing" in (events.wait_for(EventKind.STORAGE).text or "")


def test_D10_an_incomplete_index_of_a_large_store_is_rebuilt(store: Path) -> None:
    # Two events for each message: fewer than the queue keeps for a slow handler.
    count = 4000
    with opened(store) as queue:
        queue.enqueue_batch([Draft("x" * 800, conversation=f"c{number % 20}") for number in range(count)])
    assert store.stat().st_size > 2 << 20
    with closing(sqlite3.connect(store)) as plain:
        sql = plain.execute("SELECT sql FROM sqlite_schema WHERE name = 'message_ordered'").fetchone()[0]
        plain.execute("DROP INDEX message_ordered")
        plain.execute(f"{sql} AND seq % 2 = 0")
        plain.execute("PRAGMA writable_schema = ON")
        plain.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'message_ordered'", [sql])
        plain.commit()
    events = Events()
    with opened(store, on_event=events) as queue:
        queue.set_transport(lambda delivery: Outcome.sent())
        # In steps, because events of a handler that is 10,000 behind are dropped.
        for _ in range(18):
            queue.drain(batch=1500)
        assert queue.counts().queued == 0
        assert queue.counts().sent == count
        assert "index" in (events.wait_for(EventKind.STORAGE).text or "")


def test_H1_an_emptied_store_is_small_again_after_close(store: Path) -> None:
    count = 6000
    with opened(store) as queue:
        queue.enqueue_batch([Draft("x" * 500, id=f"n{number}", conversation="ana") for number in range(count)])
    before = store.stat().st_size
    with opened(store) as queue:
        queue.clear()
        queue.enqueue("the one that is left", id="left")
    assert before > 3 << 20
    assert store.stat().st_size < 1 << 20
    with closing(sqlite3.connect(store)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with opened(store) as queue:
        assert [message.id for message in queue.list()] == ["left"]
        queue.enqueue("another", id="another")

"""D15: checking and salvaging stores."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import msgqueue
from conftest import Opener
from msgqueue import (
    ConflictError,
    CorruptError,
    Error,
    InvalidError,
    LockedError,
    Message,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
    TooNewError,
    aio,
    checking,
)

PAGE = 4096
MESSAGES = 240


def answer(delivery: msgqueue.Delivery) -> Outcome:
    return Outcome.reject(code=400, text="no") if delivery.body.startswith(b"bad") else Outcome.sent()


def fill(path: Path, count: int = MESSAGES) -> dict[str, Message]:
    """Returns a closed store with messages of every kind, and the messages."""
    with MessageQueue(path, answer, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(max_retries=0)) as queue:
        ids = []
        for number in range(count):
            body = ("bad " if number % 6 == 0 else "") + f"message {number} " * (
                400 if number % 11 == 0 else number % 9
            )
            if number == count // 2:
                queue.drain()
            ids.append(
                queue.enqueue(
                    body,
                    conversation=f"c{number % 5}",
                    metadata={"n": str(number)} if number % 4 == 0 else None,
                    id=f"mine-{number}" if number % 3 == 0 else None,
                )
            )
            if number % 10 == 0:
                ids.append(queue.record(f"heard {number}", conversation="c1", sender="Ana"))
        queue.mark(ids[1], Status.READ)
        return {id: queue.get(id) for id in ids}


def crash(path: Path, target: Path) -> None:
    """Copies an open store in the state that a crash would leave."""
    for name in path.parent.iterdir():
        if name.name.startswith(path.name):
            shutil.copy(name, target.parent / name.name.replace(path.name, target.name))


def state(directory: Path) -> dict[str, tuple[bytes, int, int]]:
    """Returns the files of a directory: content, time of change, mode."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode)
        for file in directory.iterdir()
        if file.is_file()
    }


def readable(path: Path, ids: list[str]) -> dict[str, Message]:
    """Returns the messages of a read-only queue, by id and by list."""
    found: dict[str, Message] = {}
    with MessageQueue(path, read_only=True) as queue:
        for id in ids:
            try:
                found[id] = queue.get(id)
            except Error:
                continue
        after: int | None = None
        try:
            while page := queue.list(status=Status, limit=100, after=after):
                found.update(
                    {
                        message.id: message
                        for message in page
                        if message.failure is None or "damaged" not in message.failure.text
                    }
                )
                after = page[-1].sequence
        except Error:
            pass
    return found


def test_D15_a_sound_store_is_reported_as_sound_and_copied_completely(store: Path, tmp_path: Path) -> None:
    messages = fill(store)
    before = state(tmp_path)
    report = msgqueue.check(store)
    assert (report.sound, report.whole, report.damaged, report.missing) == (True, len(messages), 0, 0)
    assert (report.first_missing, report.last_missing) == (0, 0)
    assert report.text == f"{len(messages)} messages, no damage found."
    assert state(tmp_path) == before
    target = tmp_path / "salvaged.db"
    assert msgqueue.salvage(store, target) == report
    assert {name: bytes for name, bytes in state(tmp_path).items() if name != target.name} == before
    assert target.stat().st_mode & 0o777 == 0o600
    with MessageQueue(target, mode=Mode.MANUAL) as queue, MessageQueue(store, mode=Mode.MANUAL) as original:
        assert {id: queue.get(id) for id in messages} == messages
        assert queue.counts() == original.counts()
        assert [queue.attempts(id) for id in messages] == [original.attempts(id) for id in messages]
        assert queue.conversations() == original.conversations()
        assert queue.get(queue.enqueue("next")).sequence > max(message.sequence for message in messages.values())


def test_D15_a_crashed_store_is_salvaged_with_its_log(store: Path, tmp_path: Path, opened: Opener) -> None:
    crashed = tmp_path / "crashed" / "outbox.db"
    crashed.parent.mkdir()
    queue = opened(mode=Mode.MANUAL)
    ids = [queue.enqueue(f"message {number}") for number in range(50)]
    with pytest.raises(LockedError):
        msgqueue.check(store)
    with pytest.raises(LockedError):
        msgqueue.salvage(store, tmp_path / "new.db")
    crash(store, crashed)
    before = state(crashed.parent)
    assert msgqueue.check(crashed).sound
    assert msgqueue.salvage(crashed, tmp_path / "new.db").whole == 50
    assert state(crashed.parent) == before
    with MessageQueue(tmp_path / "new.db", mode=Mode.MANUAL) as salvaged:
        assert [message.id for message in salvaged.list(limit=100)] == ids


def test_D15_a_lost_end_of_the_log_is_reported_and_its_sequences_stay_unused(
    tmp_path: Path, store: Path, opened: Opener
) -> None:
    crashed = tmp_path / "crashed" / "outbox.db"
    crashed.parent.mkdir()
    queue = opened(mode=Mode.MANUAL)
    for number in range(50):
        queue.enqueue(f"message {number}")
    crash(store, crashed)
    log = Path(f"{crashed}-wal")
    os.truncate(log, log.stat().st_size // 2)
    report = msgqueue.check(crashed)
    assert 0 < report.whole < 50
    assert (report.missing, report.first_missing, report.last_missing) == (50 - report.whole, report.whole + 1, 50)
    assert not report.sound
    assert f"{report.whole + 1} to 50 are missing" in report.text
    assert msgqueue.salvage(crashed, tmp_path / "new.db") == report
    with MessageQueue(tmp_path / "new.db", mode=Mode.MANUAL) as salvaged:
        assert salvaged.get(salvaged.enqueue("later")).sequence > 50


def test_D15_random_damage_loses_only_the_damaged_messages(store: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("MSGQ_SEED", "0")) or random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    messages = fill(store)
    original = store.read_bytes()
    target = tmp_path / "salvaged.db"
    for _ in range(400 if os.environ.get("MSGQ_SOAK") else 25):
        damaged = bytearray(original)
        for _ in range(dice.randrange(1, 4)):
            page = dice.randrange(len(damaged) // PAGE) * PAGE
            kind = dice.randrange(3)
            if kind == 0:
                damaged[page : page + PAGE] = dice.randbytes(PAGE)
            elif kind == 1:
                damaged[page : page + PAGE] = bytes(PAGE)
            else:
                damaged[page + dice.randrange(PAGE)] ^= 1 << dice.randrange(8)
        store.write_bytes(damaged)
        try:
            found = readable(store, list(messages))
        except Error:
            found = {}
        before = state(tmp_path)
        try:
            report = msgqueue.salvage(store, target)
        except (CorruptError, TooNewError):
            assert not found
            continue
        assert {name: file for name, file in state(tmp_path).items() if name != target.name} == before
        assert msgqueue.check(store).whole == report.whole
        assert msgqueue.check(target).sound
        salvaged = readable(target, list(messages))
        assert len(salvaged) == report.whole
        assert found.keys() <= salvaged.keys()
        for id, message in salvaged.items():
            assert (message.body, message.sequence, message.metadata, message.status) == (
                messages[id].body,
                messages[id].sequence,
                messages[id].metadata,
                messages[id].status,
            )
        assert report.sound == (len(salvaged) == len(messages) and msgqueue.check(store).sound)
        target.unlink()


def test_D15_a_message_with_a_wrong_checksum_is_left_out_and_named(store: Path, tmp_path: Path) -> None:
    messages = fill(store, 20)
    victim = next(message for message in messages.values() if message.sequence == 7)
    with sqlite3.connect(store) as plain:
        plain.execute("UPDATE message SET body = CAST('forged' AS BLOB), body_size = 6 WHERE seq = 7")
    plain.close()
    report = msgqueue.check(store)
    assert (report.sound, report.whole, report.damaged) == (False, len(messages) - 1, 1)
    assert "damaged sequences: 7" in report.text
    assert msgqueue.salvage(store, tmp_path / "new.db").damaged == 1
    assert readable(tmp_path / "new.db", list(messages)).keys() == messages.keys() - {victim.id}


@pytest.mark.parametrize("content", [b"", b"no store " * 5000, bytes(range(256)) * 600], ids=["empty", "text", "noise"])
def test_D15_a_file_that_is_not_a_store_is_corrupt(content: bytes, store: Path, tmp_path: Path) -> None:
    store.write_bytes(content)
    store.chmod(0o600)
    with pytest.raises(CorruptError):
        msgqueue.check(store)
    with pytest.raises(CorruptError):
        msgqueue.salvage(store, tmp_path / "new.db")
    assert [file.name for file in tmp_path.iterdir()] == [store.name]


def test_D15_another_programs_database_is_corrupt_and_a_later_version_too_new(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as plain:
        plain.execute("CREATE TABLE message(seq INTEGER PRIMARY KEY, body)")
    plain.close()
    other.chmod(0o600)
    with pytest.raises(CorruptError):
        msgqueue.check(other)
    fill(store, 3)
    with sqlite3.connect(store) as plain:
        plain.execute("PRAGMA user_version = 99")
    plain.close()
    with pytest.raises(TooNewError):
        msgqueue.check(store)
    with pytest.raises(TooNewError):
        msgqueue.salvage(store, tmp_path / "new.db")


@pytest.mark.parametrize("call", [msgqueue.check, lambda path: msgqueue.salvage(path, path.parent / "new.db")])
def test_D15_unsafe_or_missing_paths_are_refused(call: Callable[[Path], object], store: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidError):
        call(store)
    with pytest.raises(InvalidError):
        call(tmp_path / "none" / "outbox.db")
    with pytest.raises(msgqueue.PermissionDeniedError):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_D15_a_target_that_exists_is_a_conflict(store: Path, tmp_path: Path) -> None:
    fill(store, 3)
    before = state(tmp_path)
    with pytest.raises(ConflictError):
        msgqueue.salvage(store, store)
    assert state(tmp_path) == before


def test_D15_check_and_salvage_do_not_block_the_loop(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    loop_thread = threading.get_ident()
    threads: list[int] = []
    for name in ("check", "salvage"):
        real = getattr(checking, name)

        def called(*given: Path, real: Callable[..., msgqueue.CheckReport] = real) -> msgqueue.CheckReport:
            threads.append(threading.get_ident())
            return real(*given)

        monkeypatch.setattr(checking, name, called)

    async def both() -> tuple[msgqueue.CheckReport, msgqueue.CheckReport]:
        return await aio.check(store), await aio.salvage(store, tmp_path / "salvaged.db")

    checked, salvaged = asyncio.run(both())
    assert checked.sound
    assert salvaged.sound
    assert checked.whole == salvaged.whole > 0
    assert len(threads) == 2
    assert loop_thread not in threads
    with pytest.raises(msgqueue.InvalidError):
        asyncio.run(aio.check(tmp_path / "none.db"))

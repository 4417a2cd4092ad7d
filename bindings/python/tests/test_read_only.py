"""D16: stores that are opened for reading only."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    AttemptOutcome,
    Connectivity,
    CorruptError,
    Draft,
    Error,
    EventKind,
    InvalidError,
    LockedError,
    MessageQueue,
    Mode,
    NotFoundError,
    Outcome,
    PermissionDeniedError,
    Reason,
    Status,
    aio,
)
from support import Events, program
from test_salvage import crash, fill, state


def read_everything(queue: MessageQueue, ids: list[str]) -> list[object]:
    """Returns the results of each reading call."""
    return [
        [queue.get(id) for id in ids],
        [queue.attempts(id) for id in ids],
        # What a queued message waits for is said differently where nothing can be sent (test_reasons.py).
        [code if (code := queue.explain(id).code) in (Reason.NONE, Reason.FAILED) else None for id in ids],
        queue.list(status=Status, limit=1000),
        queue.list(status=Status, limit=1000, newest_first=True, bodies=False),
        queue.list("c1", status=Status, limit=7),
        queue.list(status=Status.FAILED),
        queue.counts(),
        queue.counts("c2"),
        queue.conversations(limit=3),
    ]


def test_D16_a_closed_store_reads_as_it_does_when_it_is_open_and_nothing_is_written(
    store: Path, tmp_path: Path
) -> None:
    ids = list(fill(store))
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        expected = read_everything(queue, ids)
    before = state(tmp_path)
    with MessageQueue(store, mode=Mode.MANUAL, read_only=True) as queue:
        assert read_everything(queue, ids) == expected
        assert queue.stats().enqueued == 0
        assert "queued" in queue.prometheus()
        assert queue.banner().endswith(f" queued. {queue.counts().failed} messages failed.")
        with pytest.raises(NotFoundError):
            queue.get("nobody")
        assert state(tmp_path) == before
    assert state(tmp_path) == before


def test_D16_a_crashed_store_shows_the_content_of_its_log_and_the_interrupted_attempt(
    store: Path, tmp_path: Path, opened: Opener
) -> None:
    crashed = tmp_path / "crashed" / "outbox.db"
    crashed.parent.mkdir()
    begun, go = threading.Event(), threading.Event()

    def hang(_: object) -> Outcome:
        begun.set()
        go.wait(20)
        return Outcome.sent()

    queue = opened(transport=hang, mode=Mode.MANUAL, direct=False)
    ids = [queue.enqueue(f"message {number}") for number in range(3)]
    queue.send_now(ids[0])
    assert begun.wait(20)
    crash(store, crashed)
    go.set()
    before = state(crashed.parent)
    assert f"{crashed.name}-wal" in before
    with MessageQueue(crashed, mode=Mode.MANUAL, read_only=True) as reader:
        assert [message.id for message in reader.list()] == ids
        assert reader.get(ids[0]).status is Status.QUEUED
        assert [attempt.outcome for attempt in reader.attempts(ids[0])] == [AttemptOutcome.UNKNOWN]
        assert reader.explain(ids[0]).code is Reason.NO_TRANSPORT
        reader.backup(tmp_path / "copy.db")
    assert state(crashed.parent) == before
    with MessageQueue(tmp_path / "copy.db", mode=Mode.MANUAL) as copy:
        assert [message.id for message in copy.list()] == ids


CHANGES: dict[str, Callable[[MessageQueue, str], object]] = {
    "enqueue": lambda queue, id: queue.enqueue("x"),
    "enqueue_batch": lambda queue, id: queue.enqueue_batch([Draft("x"), Draft("y")]),
    "enqueue_bodies": lambda queue, id: queue.enqueue_bodies(["x", "y"]),
    "record": lambda queue, id: queue.record("x", sender="Ana"),
    "record_batch": lambda queue, id: queue.record_batch([{"body": "x"}, {"body": "y", "sender": "Ana"}]),
    "mark_batch": lambda queue, id: queue.mark_batch([id], Status.READ),
    "mark_up_to": lambda queue, id: queue.mark_up_to(id, Status.READ),
    "edit": lambda queue, id: queue.edit(id, "y"),
    "edit if": lambda queue, id: queue.edit(id, "y", metadata={}, if_edited=None),
    "update": lambda queue, id: queue.update(id, "y"),
    "delete": lambda queue, id: queue.delete(id),
    "retry": lambda queue, id: queue.retry(id),
    "send_now": lambda queue, id: queue.send_now(id),
    "mark": lambda queue, id: queue.mark(id, Status.READ),
    "clear": lambda queue, id: queue.clear(),
    "clear one": lambda queue, id: queue.clear("c1"),
    "clear_failed": lambda queue, id: queue.clear_failed(),
    "clear_failed one": lambda queue, id: queue.clear_failed("c1"),
    "delete_conversation": lambda queue, id: queue.delete_conversation("c1"),
    "set_title": lambda queue, id: queue.set_title("c1", "Title"),
    "no title": lambda queue, id: queue.set_title("c1", ""),
    "retry_all": lambda queue, id: queue.retry_all(),
    "send": lambda queue, id: queue.send("x"),
    "withdraw_prompt": lambda queue, id: queue.withdraw_prompt(),
    "request_collect": lambda queue, id: queue.request_collect(),
    "drain": lambda queue, id: queue.drain(),
    "pause": lambda queue, id: queue.pause(),
    "resume": lambda queue, id: queue.resume(),
    "set_transport": lambda queue, id: queue.set_transport(lambda _: Outcome.sent()),
    "no transport": lambda queue, id: queue.set_transport(None),
    "set_batch_transport": lambda queue, id: queue.set_batch_transport(lambda batch: [Outcome.sent()] * len(batch)),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_D16_every_change_is_refused(name: str, store: Path, tmp_path: Path) -> None:
    ids = list(fill(store, 20))
    before = state(tmp_path)
    with MessageQueue(store, mode=Mode.MANUAL, read_only=True) as queue:
        expected = read_everything(queue, ids)
        for id in ids:
            with pytest.raises(PermissionDeniedError):
                CHANGES[name](queue, id)
        assert read_everything(queue, ids) == expected
    assert state(tmp_path) == before


def test_D16_a_transport_is_refused_at_once_and_the_store_is_free_again(store: Path) -> None:
    fill(store, 3)
    with pytest.raises(PermissionDeniedError):
        MessageQueue(store, lambda _: Outcome.sent(), read_only=True)
    MessageQueue(store, mode=Mode.MANUAL).close()


@pytest.mark.parametrize("polled", [False, True])
@pytest.mark.parametrize("mode", list(Mode))
def test_D16_events_connectivity_and_polling_work(mode: Mode, polled: bool, store: Path, tmp_path: Path) -> None:
    fill(store, 20)
    before = state(tmp_path)
    events = Events()
    with MessageQueue(store, mode=mode, read_only=True, polled=polled, online_debounce=0, on_event=events) as queue:
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.set_connectivity(Connectivity.ONLINE)
        queue.start_monitor()
        queue.stop_monitor()
        if polled:
            while queue.poll(0.05):
                pass
        else:
            events.wait_for(EventKind.CONNECTIVITY)
    kinds = {event.kind for event in events.all()}
    assert kinds <= {EventKind.CONNECTIVITY, EventKind.SUMMARY}
    assert state(tmp_path) == before


def test_D16_a_missing_file_is_not_created(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidError):
        MessageQueue(store, read_only=True)
    with pytest.raises(PermissionDeniedError):
        MessageQueue(tmp_path, read_only=True)
    store.write_bytes(b"no store")
    store.chmod(0o600)
    with pytest.raises(CorruptError):
        MessageQueue(store, read_only=True)
    assert [file.name for file in tmp_path.iterdir()] == [store.name]


HOLD = """
    import sys, time
    from msgqueue import MessageQueue, Mode
    queue = MessageQueue(sys.argv[1], mode=Mode.MANUAL, read_only=sys.argv[2] == "reader")
    print(queue.counts().queued, flush=True)
    time.sleep(60)
"""


def test_D16_a_store_has_many_readers_or_one_owner(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as owner:
        owner.enqueue("hello")
        with pytest.raises(LockedError):
            MessageQueue(store, read_only=True)
    is_here = pytest.raises(LockedError, match=r"is open in this process \(\d+\)")
    with MessageQueue(store, read_only=True), MessageQueue(store, read_only=True), is_here:
        MessageQueue(store, mode=Mode.MANUAL)
    with program(HOLD, store, "reader") as other, MessageQueue(store, read_only=True) as first:
        assert other.line() == "1"
        with MessageQueue(store, read_only=True) as second:
            assert first.list() == second.list()
        with pytest.raises(LockedError):
            MessageQueue(store, mode=Mode.MANUAL)
        assert first.counts().queued == 1
    with program(HOLD, store, "owner") as other:
        assert other.line() == "1"
        with pytest.raises(LockedError):
            MessageQueue(store, read_only=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yields a file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_D16_a_store_on_a_read_only_or_full_disk_can_be_read(small_disk: Path, tmp_path: Path, opened: Opener) -> None:
    queue = opened(path=tmp_path / "outbox.db", mode=Mode.MANUAL)
    ids = [queue.enqueue(f"message {number}") for number in range(30)]
    store = small_disk / "outbox.db"
    crash(tmp_path / "outbox.db", store)
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(bytes(1 << 20))
    before = state(small_disk)
    with MessageQueue(store, read_only=True) as reader:
        assert [message.id for message in reader.list()] == ids
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Error):
        MessageQueue(store, mode=Mode.MANUAL)
    with MessageQueue(store, read_only=True) as reader:
        assert [message.id for message in reader.list()] == ids
        reader.backup(tmp_path / "copy.db")
    assert state(small_disk) == before


def test_D16_a_backup_is_read(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        ids = [queue.enqueue(f"message {number}") for number in range(20)]
        queue.backup(copy)
    before = state(tmp_path)
    with MessageQueue(copy, read_only=True) as queue:
        assert [message.id for message in queue.list()] == ids
        assert queue.counts().queued == 20
    assert state(tmp_path) == before


def test_D16_the_asyncio_queue_reads_too(store: Path, tmp_path: Path) -> None:
    ids = list(fill(store, 20))
    before = state(tmp_path)

    async def main() -> None:
        async with aio.MessageQueue(store, read_only=True) as queue:
            assert [(await queue.get(id)).id for id in ids] == ids
            with pytest.raises(PermissionDeniedError):
                await queue.enqueue("x")
            with pytest.raises(PermissionDeniedError):
                await queue.drain()

    asyncio.run(main())
    assert state(tmp_path) == before

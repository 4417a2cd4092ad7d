"""Messages that another store hands over: each is taken over exactly once."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    ConflictError,
    Draft,
    EventKind,
    FailureKind,
    FullError,
    HandOver,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    Result,
    Status,
    TooLargeError,
    aio,
)
from support import program, wait_until

OFFER: list[Draft | Mapping[str, Any]] = [Draft("one", id="a"), {"body": "two", "id": "b", "conversation": "ana"}]


def collect(queue: MessageQueue, host: sqlite3.Connection) -> int:
    """Takes over all rows of the host's table, as the documentation describes it. Returns how many there were."""
    handed = queue.handed_over("orders")
    with host:
        host.executemany("DELETE FROM outbox WHERE id = ?", [(draft.id,) for draft in handed.drafts])
    queue.hand_over_done(handed)
    rows = host.execute("SELECT id, body FROM outbox ORDER BY number").fetchall()
    results = queue.take_over(handed, [{"body": body, "id": id} for id, body in rows])
    with host:
        for (id, _), result in zip(rows, results):
            assert result in (Result.OK, Result.DUPLICATE)
            host.execute("DELETE FROM outbox WHERE id = ?", (id,))
    queue.hand_over_done(handed)
    return len(rows)


def test_T3_a_table_of_the_host_is_taken_over(tmp_path: Path, opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    host = sqlite3.connect(tmp_path / "host.db")
    host.execute("CREATE TABLE outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, body BLOB)")
    with host:
        host.executemany("INSERT INTO outbox(id, body) VALUES(?, ?)", [(f"m{n}", b"body") for n in range(5)])
    assert collect(queue, host) == 5
    assert collect(queue, host) == 0
    assert [message.id for message in queue.list()] == [f"m{n}" for n in range(5)]
    host.close()


def test_T3_an_id_of_an_open_hand_over_does_not_come_back(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, remember_ids=0)
    handed = queue.handed_over("orders")
    assert handed.source == "orders"
    assert handed.drafts == ()
    assert queue.take_over(handed, OFFER) == [Result.OK, Result.OK]
    queue.delete("a")
    assert queue.take_over(handed, OFFER) == [Result.OK, Result.OK]
    assert [message.id for message in queue.list()] == ["b"]
    again = queue.handed_over("orders")
    assert [(draft.id, draft.result, draft.body_size, draft.text) for draft in again.drafts] == [
        ("a", Result.OK, 3, ""),
        ("b", Result.OK, 3, ""),
    ]
    with pytest.raises(ConflictError):
        queue.take_over(handed, OFFER)
    with pytest.raises(ConflictError):
        queue.hand_over_done(handed)
    queue.hand_over_done(again)
    assert queue.handed_over("orders").drafts == ()
    del handed, again
    gc.collect()


def test_T5_what_is_refused_for_good_is_failed_or_listed(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_body=10, limit_messages=3)
    handed = queue.handed_over("orders")
    offer = [Draft("x" * 20, id="large"), Draft("body", id="i" * 300), Draft("after", id="after")]
    assert queue.take_over(handed, offer) == [Result.OK, Result.INVALID, Result.OK]
    large = queue.get("large")
    assert large.status is Status.FAILED
    assert large.body == b"x" * 20
    assert large.failure is not None
    assert large.failure.kind is FailureKind.LOCAL
    with pytest.raises(TooLargeError):
        queue.retry("large")
    refused = [draft for draft in queue.handed_over("orders").drafts if draft.result is not Result.OK]
    assert [(draft.body_size, draft.text) for draft in refused] == [(4, "id has more than 255 bytes")]
    assert len(refused[0].id) <= 255
    queue.hand_over_forget("orders", refused[0].id)
    with pytest.raises(NotFoundError):
        queue.hand_over_forget("orders", refused[0].id)
    queue.hand_over_forget("orders")
    with pytest.raises(FullError):
        queue.take_over(queue.handed_over("orders"), [Draft("1", id="1"), Draft("2", id="2")])
    assert [draft.id for draft in queue.handed_over("orders").drafts] == ["after", "large"]


def test_T3_arguments_of_wrong_types_and_values_change_nothing(opened: Opener) -> None:
    queue = opened()
    handed = queue.handed_over("orders")
    wrong: list[Any] = [None, "orders", 1]
    for value in wrong:
        with pytest.raises(TypeError):
            queue.take_over(value, OFFER)
        with pytest.raises(TypeError):
            queue.hand_over_done(value)
    with pytest.raises(TypeError):
        queue.take_over(handed, Draft("one"))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        queue.handed_over(b"orders")  # type: ignore[arg-type]
    for source in ("", "a\nb", "s" * 256, "nul\0inside"):
        with pytest.raises(InvalidError):
            queue.handed_over(source)
    for draft in (Draft("no id"), Draft("body", id="nul\0inside")):
        with pytest.raises(InvalidError):
            queue.take_over(handed, [Draft("one", id="a"), draft])
    assert queue.counts().queued == 0
    assert isinstance(handed, HandOver)


def test_T3_asyncio_takes_messages_over(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
            handed = await queue.handed_over("orders")
            assert await queue.take_over(handed, iter(OFFER)) == [Result.OK, Result.OK]
            await queue.delete("a")
            assert await queue.take_over(handed, OFFER) == [Result.OK, Result.OK]
            assert [message.id for message in await queue.list()] == ["b"]
            await queue.hand_over_done(handed)
            assert (await queue.handed_over("orders")).drafts == ()
            await queue.hand_over_forget("orders")

    asyncio.run(main())


COLLECTOR = """
    import sqlite3, sys
    sys.path.insert(0, sys.argv[3])
    from msgqueue import MessageQueue, Mode
    from test_take_over import collect

    queue = MessageQueue(sys.argv[1], mode=Mode.MANUAL, direct=False, remember_ids=0)
    host = sqlite3.connect(sys.argv[2])
    print("begun", flush=True)
    number = 0
    while True:
        with host:
            for _ in range(3):
                number += 1
                host.execute("INSERT INTO outbox(id, body) VALUES(?, 'body')", (f"{sys.argv[4]}-{number}",))
        collect(queue, host)
"""


def test_a_request_to_collect_is_an_event(opened: Opener) -> None:
    asked: list[EventKind] = []
    queue = opened(mode=Mode.MANUAL, collect_interval=0.02, on_event=lambda event: asked.append(event.kind))

    def count() -> int:
        return asked.count(EventKind.COLLECT)

    queue.request_collect()
    wait_until(lambda: count() == 1)
    queue.handed_over("orders")
    wait_until(lambda: count() >= 3)


def test_the_interval_of_requests_to_collect_is_checked(opened: Opener) -> None:
    for interval in (0.0, -1.0, 86_401.0):
        with pytest.raises(InvalidError, match=r"collect[_ ]interval must be 0"):
            opened(collect_interval=interval)
    asked: list[EventKind] = []
    queue = opened(collect_interval=None, on_event=lambda event: asked.append(event.kind))
    queue.handed_over("orders")
    queue.enqueue("hello", id="last")
    wait_until(lambda: EventKind.STATUS in asked)
    assert EventKind.COLLECT not in asked


def test_asyncio_receives_a_request_to_collect(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            events = queue.events()
            await queue.request_collect()
            async for event in events:
                if event.kind is EventKind.COLLECT:
                    break

    asyncio.run(asyncio.wait_for(main(), 20))


def test_T3_collectors_killed_at_any_time_lose_and_double_nothing(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    host = sqlite3.connect(path)
    host.execute("PRAGMA journal_mode = WAL")
    host.execute("CREATE TABLE outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, body BLOB)")
    host.execute("CREATE TABLE put(id TEXT PRIMARY KEY)")
    # The host's own record of what it has committed, in the same transactions.
    host.execute("CREATE TRIGGER note AFTER INSERT ON outbox BEGIN INSERT INTO put VALUES(new.id); END")
    host.close()
    for life in range(10):
        with program(COLLECTOR, store, path, Path(__file__).parent, life) as collector:
            assert collector.line() == "begun"
            time.sleep(0.05 + 0.013 * life)
    host = sqlite3.connect(path)
    with MessageQueue(store, mode=Mode.MANUAL, direct=False, remember_ids=0) as queue:
        while collect(queue, host):
            pass
        ids: list[str] = []
        after = 0
        while page := queue.list(after=after, limit=1000):
            ids += [message.id for message in page]
            after = page[-1].sequence
        put = [id for (id,) in host.execute("SELECT id FROM put")]
        assert len(put) > 10
        assert sorted(ids) == sorted(put)
        assert queue.handed_over("orders").drafts == ()
    host.close()

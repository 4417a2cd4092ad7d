"""H9: unlimited history, unread messages, the times of receipts, and retries_used."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import msgqueue
from async_sender import in_loop
from conftest import Opener
from msgqueue import ConflictError, MessageQueue, Mode, Outcome, RetryPolicy, Status, aio
from support import wait_until


def send(_: object) -> Outcome:
    return Outcome.sent()


def ids(queue: MessageQueue) -> list[str]:
    return [message.id for message in queue.list(status=Status, limit=1000)]


def now() -> datetime:
    """Returns the time in whole milliseconds, rounded down, as the queue stores it."""
    return datetime.fromtimestamp(int(time.time() * 1000) / 1000, timezone.utc)


def test_H9_history_can_be_unlimited(opened: Opener) -> None:
    count = 10_100
    options: dict[str, Any] = {"transport": send, "mode": Mode.MANUAL, "direct": False}
    queue = opened(keep_sent=None, keep_sent_for=None, **options)
    queue.enqueue_batch({"body": ""} for _ in range(count))
    assert queue.drain().sent == count
    queue.close()
    queue = opened(keep_sent=None, keep_sent_for=None, **options)
    time.sleep(0.05)
    assert queue.counts().sent == count
    queue.close()
    queue = opened(**options)  # pruned by default
    wait_until(lambda: queue.counts().sent == 10_000)


def test_H9_unread_recorded_messages_are_never_pruned(opened: Opener) -> None:
    queue = opened(transport=send, mode=Mode.MANUAL, direct=False, keep_sent=0, keep_sent_for=0)
    for id in ("r1", "r2", "r3"):
        queue.record("hello", sender="ana", id=id)
    queue.enqueue("mine", id="mine")
    assert queue.drain().sent == 1
    wait_until(lambda: ids(queue) == ["r1", "r2", "r3"])
    queue.mark("r2", Status.READ)
    wait_until(lambda: ids(queue) == ["r1", "r3"])
    assert queue.counts().unread == 2


def test_H9_receipts_keep_their_times(opened: Opener) -> None:
    queue = opened(transport=send, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello")
    with pytest.raises(ConflictError):
        queue.mark(id, Status.DELIVERED)
    queue.drain()
    sent = queue.get(id)
    assert sent.sent is not None
    assert (sent.delivered_at, sent.read_at) == (None, None)
    time.sleep(0.002)
    before = now()
    queue.mark(id, Status.DELIVERED)
    delivered = queue.get(id).delivered_at
    assert delivered is not None
    assert before <= delivered <= now()
    time.sleep(0.002)
    before = now()
    queue.mark(id, Status.READ)
    read = queue.get(id).read_at
    assert read is not None
    assert before <= read <= now()
    time.sleep(0.002)
    for receipt in (Status.READ, Status.DELIVERED):  # a second time, and late
        queue.mark(id, receipt)
    queue.close()
    message = opened().get(id)
    assert (message.sent, message.delivered_at, message.read_at) == (sent.sent, delivered, read)


def test_H9_a_message_read_without_delivered_has_only_read_at(opened: Opener) -> None:
    queue = opened(transport=send, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello")
    queue.drain()
    queue.mark(id, Status.READ)
    read = queue.get(id)
    assert read.delivered_at is None
    assert read.read_at is not None
    queue.mark(id, Status.DELIVERED)
    assert queue.get(id) == read
    theirs = queue.record("hello", sender="ana")
    recorded = queue.get(theirs)
    assert (recorded.delivered_at, recorded.read_at) == (recorded.created, None)
    queue.mark(theirs, Status.READ)
    message = queue.get(theirs)
    assert message.read_at is not None
    assert message.read_at >= recorded.created


def test_H9_the_times_survive_a_backup_and_a_salvage(opened: Opener, store: Path, tmp_path: Path) -> None:
    queue = opened(transport=send, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello")
    queue.drain()
    queue.mark(id, Status.DELIVERED)
    queue.mark(id, Status.READ)
    before = queue.get(id)
    queue.backup(tmp_path / "backup.db")
    queue.close()
    assert msgqueue.salvage(store, tmp_path / "salvaged.db").sound
    for copy in ("backup.db", "salvaged.db"):
        assert opened(tmp_path / copy, read_only=True).get(id) == before


def test_H9_M11_retries_used_counts_against_max_retries(opened: Opener) -> None:
    answers = [Outcome.offline(), Outcome.retry(), Outcome.retry(), Outcome.retry()]
    options: dict[str, Any] = {"mode": Mode.MANUAL, "direct": False, "retry": RetryPolicy(ladder=[600])}
    queue = opened(transport=lambda _: answers.pop(0), **options)
    id = queue.enqueue("hello")
    queue.drain()
    assert queue.get(id).retries_used == 0
    queue.drain()
    assert queue.get(id).retries_used == 1
    queue.send_now(id)
    wait_until(lambda: queue.get(id).status is Status.FAILED)
    assert (queue.get(id).retries_used, queue.get(id).attempts) == (1, 2)
    queue.retry(id)  # on demand: the count starts at 0 again
    wait_until(lambda: queue.get(id).attempts == 3 and queue.get(id).status is Status.FAILED)
    assert queue.get(id).retries_used == 0


def test_H9_receipts_in_asyncio(store: Path) -> None:
    async def send(_: object) -> Outcome:
        return Outcome.sent()

    async def test() -> None:
        async with aio.MessageQueue(
            store, send, mode=Mode.MANUAL, direct=False, keep_sent=None, keep_sent_for=None
        ) as queue:
            id = await queue.enqueue("hello")
            await queue.drain()
            await queue.mark(id, Status.READ)
            message = await queue.get(id)
            assert message.read_at is not None
            assert (message.delivered_at, message.retries_used) == (None, 0)

    in_loop(test())


def test_A13_a_transport_reports_a_receipt_at_once(opened: Opener) -> None:
    receipts = {"d": Status.DELIVERED, "r": Status.READ, "s": None}
    changes: list[tuple[Any, ...]] = []
    queue = opened(mode=Mode.MANUAL, direct=False)
    queue.set_event_handler(lambda event: changes.append((event.id, event.from_status, event.to_status)))
    queue.set_transport(lambda delivery: Outcome.sent(receipt=receipts[delivery.id]))
    for id in receipts:
        queue.enqueue("hello", id=id)
    assert queue.drain().sent == 3
    assert [queue.get(id).status for id in receipts] == [Status.DELIVERED, Status.READ, Status.SENT]
    read = queue.get("r")
    assert read.read_at == read.sent
    assert read.delivered_at is None
    wait_until(lambda: ("r", Status.SENT, Status.READ) in changes)
    reached = [change[2] for change in changes if change[0] == "d"]
    assert reached == [Status.QUEUED, Status.SENDING, Status.SENT, Status.DELIVERED]


def test_A13_an_http_response_has_a_receipt(opened: Opener) -> None:
    answers = {"d": (200, Status.DELIVERED), "r": (201, Status.READ), "s": (204, None), "f": (422, Status.READ)}

    def answer(delivery: msgqueue.Delivery) -> Outcome:
        status, receipt = answers[delivery.id]
        return Outcome.http(status, receipt=receipt)

    queue = opened(transport=answer, mode=Mode.MANUAL, direct=False)
    for id in answers:
        queue.enqueue("hello", id=id)
    assert queue.drain().sent == 3
    assert [queue.get(id).status for id in answers] == [Status.DELIVERED, Status.READ, Status.SENT, Status.FAILED]
    with pytest.raises(msgqueue.InvalidError, match="receipt"):
        Outcome.http(200, receipt=Status.SENT)


def test_A13_a_coroutine_and_a_later_answer_report_a_receipt(store: Path) -> None:
    async def read(_: object) -> Outcome:
        return Outcome.sent(receipt=Status.READ)

    async def test() -> None:
        async with aio.MessageQueue(store, read, mode=Mode.MANUAL, direct=False) as queue:
            id = await queue.enqueue("hello")
            assert (await queue.drain()).sent == 1
            assert (await queue.get(id)).status is Status.READ

    in_loop(test())
    tokens: list[int] = []

    def pend(delivery: msgqueue.Delivery) -> Outcome:
        tokens.append(delivery.token)
        return Outcome.pending()

    with MessageQueue(store, pend) as queue:
        id = queue.enqueue("hello")
        wait_until(lambda: len(tokens) == 1)
        queue.complete(tokens[0], Outcome.sent(receipt=Status.DELIVERED))
        assert queue.get(id).status is Status.DELIVERED

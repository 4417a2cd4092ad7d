"""H12: many messages are recorded, and many receipts written, in one call."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import msgqueue.simulation
from conftest import Opener
from msgqueue import (
    ClosedError,
    ConflictError,
    EventKind,
    InvalidError,
    ListOrder,
    MessageQueue,
    Mode,
    NotFoundError,
    Outcome,
    RecordedDraft,
    Result,
    Status,
    TooLargeError,
    aio,
    control,
)
from support import Events, wait_until

WEEK = datetime(2024, 3, 9, 12, 30, tzinfo=timezone.utc)


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    return opened(mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.sent())


def ids(queue: MessageQueue, status: Status | type[Status] = Status) -> list[str]:
    return [message.id for message in queue.list(status=status, order=ListOrder.TIME)]


def test_H12_messages_of_others_and_ones_own_are_recorded_together(opened: Opener) -> None:
    events = Events()
    queue = opened(mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.sent(), on_event=events)
    drafts: list[RecordedDraft | dict[str, Any]] = [
        RecordedDraft(
            b"fine\0thanks", sender="Ana", conversation="ana", metadata={"k": "v"}, id="hers", time=WEEK + timedelta(1)
        ),
        {"body": "how are you?", "conversation": "ana", "id": "mine", "time": WEEK.timestamp()},
        {"body": "without an id", "sender": "Ben"},
    ]
    assert queue.record_batch(iter(drafts)) == [Result.OK] * 3
    hers, mine = queue.get("hers"), queue.get("mine")
    assert (hers.sender, hers.status, hers.body, hers.metadata) == (
        "Ana",
        Status.DELIVERED,
        b"fine\0thanks",
        {"k": "v"},
    )
    assert (mine.sender, mine.status, mine.attempts) == (None, Status.SENT, 0)
    assert mine.sent is not None
    assert mine.delivered_at is None
    assert (mine.time, hers.time) == (WEEK, WEEK + timedelta(1))
    assert ids(queue)[:2] == ["mine", "hers"]
    counts = queue.counts()
    assert (counts.sent, counts.received, counts.unread, counts.queued) == (1, 2, 2, 0)
    assert queue.attempts("mine") == []
    assert queue.wait("mine").status is Status.SENT
    assert queue.drain().sent == 0
    queue.mark("mine", Status.DELIVERED)
    assert queue.get("mine").delivered_at is not None
    wait_until(lambda: events.statuses("mine") == [Status.SENT, Status.DELIVERED])
    assert queue.record_batch([]) == []


def test_H12_each_draft_has_its_result(queue: MessageQueue) -> None:
    queue.enqueue("x", id="sent")
    queue.drain()
    queue.enqueue("x", id="queued")
    queue.record_batch([{"body": "x", "sender": "Ana", "id": "gone"}, {"body": "x", "sender": "Ana", "id": "there"}])
    queue.delete("gone")
    names = ["new", "there", "gone", "sent", "queued", "new"]
    results = queue.record_batch([{"body": "y", "sender": "Ana", "id": name} for name in names])
    assert results == [Result.OK, Result.OK, Result.DUPLICATE, Result.DUPLICATE, Result.DUPLICATE, Result.OK]
    assert queue.get("there").text == "x"
    assert sorted(ids(queue)) == ["new", "queued", "sent", "there"]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"sender": ""}, InvalidError),
        ({"sender": "a\0"}, InvalidError),
        ({"sender": "\ud800"}, InvalidError),
        ({"sender": "s" * 256}, InvalidError),
        ({"sender": 5}, TypeError),
        ({"id": ""}, InvalidError),
        ({"body": None}, TypeError),
        ({"time": -1}, InvalidError),
        ({"time": 253402300800}, InvalidError),
        ({"not_before": 5}, TypeError),
        ({"body": "x" * 20}, TooLargeError),
    ],
)
def test_H12_an_invalid_draft_is_named_and_nothing_is_stored(
    wrong: dict[str, Any], kind: type[Exception], opened: Opener
) -> None:
    queue = opened(mode=Mode.MANUAL, limit_body=10)
    drafts: list[dict[str, Any]] = [{"body": "x", "sender": "Ana", "id": "a"}, {"body": "x", "sender": "Ana", **wrong}]
    with pytest.raises(kind, match=re.escape("draft 1: ")):
        queue.record_batch(drafts)
    assert queue.list(status=Status) == []


@pytest.mark.parametrize("drafts", [RecordedDraft("x"), {"body": "x"}, 7, ["x"], [None]])
def test_H12_what_is_no_batch_is_a_type_error(drafts: Any, queue: MessageQueue) -> None:
    with pytest.raises(TypeError):
        queue.record_batch(drafts)


def fill(queue: MessageQueue, count: int = 5) -> list[str]:
    """Records received messages, the newest first."""
    drafts = [
        RecordedDraft("x", sender="Ana", conversation="ana", id=f"m{number}", time=WEEK + timedelta(minutes=number))
        for number in reversed(range(count))
    ]
    assert queue.record_batch(drafts) == [Result.OK] * count
    return [f"m{number}" for number in range(count)]


def test_H12_one_receipt_marks_many(queue: MessageQueue) -> None:
    names = fill(queue)
    queue.enqueue("x", id="queued")
    given = [*names[:3], "nobody", "queued"]
    expected = [Result.OK, Result.OK, Result.OK, Result.NOT_FOUND, Result.CONFLICT]
    assert queue.mark_batch(iter(given), Status.READ) == expected
    assert queue.mark_batch(given, Status.READ) == expected
    assert ids(queue, Status.READ) == names[:3]
    assert queue.counts().unread == 2
    assert queue.mark_batch([], Status.READ) == []
    for wrong, kind in (("m1", TypeError), (b"m1", TypeError), ([b"m1"], TypeError), (["m1", ""], InvalidError)):
        with pytest.raises(kind):
            queue.mark_batch(wrong, Status.READ)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match=re.escape("id 1: ")):
        queue.mark_batch(["m3", "a\0"], Status.READ)
    with pytest.raises(InvalidError):
        queue.mark_batch(names, Status.SENT)
    with pytest.raises(TypeError):
        queue.mark_batch(names, 4)  # type: ignore[arg-type]
    assert queue.counts().unread == 2


def test_H12_read_up_to_here(queue: MessageQueue) -> None:
    names = fill(queue)
    queue.enqueue("x", id="queued", conversation="ana")
    assert queue.mark_up_to("m2", Status.READ) == 3
    assert ids(queue, Status.READ) == names[:3]
    assert queue.mark_up_to("m2", Status.READ) == 0
    assert queue.mark_up_to("m4", Status.READ) == 2
    with pytest.raises(NotFoundError):
        queue.mark_up_to("nobody", Status.READ)
    with pytest.raises(ConflictError):
        queue.mark_up_to("queued", Status.READ)
    with pytest.raises(InvalidError):
        queue.mark_up_to("m4", Status.FAILED)
    with pytest.raises(TypeError):
        queue.mark_up_to("m4", 4)  # type: ignore[arg-type]
    queue.drain()
    assert queue.mark_up_to("queued", Status.READ) == 1


def test_H12_a_closed_queue_refuses_batches(store: Path) -> None:
    with MessageQueue(store) as queue:
        pass
    for call in (
        lambda: queue.record_batch([{"body": "x"}]),
        lambda: queue.mark_batch(["x"], Status.READ),
        lambda: queue.mark_up_to("x", Status.READ),
    ):
        with pytest.raises(ClosedError):
            call()


def test_H12_asyncio_has_the_calls(store: Path) -> None:
    async def run() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            drafts = (RecordedDraft("x", sender="Ana", id=f"m{number}", time=WEEK) for number in range(300))
            assert await queue.record_batch(drafts) == [Result.OK] * 300
            assert await queue.record_batch([{"body": "y", "id": "mine"}, {"body": "z", "id": "m0"}]) == [Result.OK] * 2
            assert await queue.mark_batch((f"m{number}" for number in range(100)), Status.READ) == [Result.OK] * 100
            assert (await queue.counts()).unread == 200
            assert await queue.mark_up_to("m298", Status.READ) == 199
            with pytest.raises(InvalidError, match=re.escape("draft 1: ")):
                await queue.record_batch([{"body": "x"}, {"body": "x", "sender": ""}])
            with pytest.raises(TypeError):
                await queue.record_batch(RecordedDraft("x"))  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                await queue.mark_batch("m1", Status.READ)
            counts = await queue.counts()
            assert (counts.unread, counts.sent) == (1, 1)

    asyncio.run(run())


def test_H12_a_simulated_queue_has_the_calls(store: Path) -> None:
    with msgqueue.simulation.SimulatedQueue(store, mode=Mode.MANUAL, start=WEEK) as queue:
        queue.record_batch([{"body": "x", "id": "mine"}])
        assert queue.get("mine").sent == WEEK
        queue.advance(60)
        assert queue.mark_batch(["mine"], Status.DELIVERED) == [Result.OK]
        assert queue.get("mine").delivered_at == WEEK + timedelta(minutes=1)


def test_H12_the_control_socket_has_the_calls(queue: MessageQueue, store: Path) -> None:
    queue.start_control()
    queue.enqueue("x", id="queued")
    with control.connect(store) as client, client.events("status") as events:
        drafts: list[dict[str, Any]] = [
            {"message": "hers", "sender": "Ana", "body": "hi", "conversation": "ana", "time_ms": 5},
            {"message": "mine", "body_base64": "/w==", "conversation": "ana", "metadata": {"k": "v"}},
            {"message": "queued", "sender": "Ana", "body": ""},
            {"message": "hers", "sender": None, "body": ""},
        ]
        assert client.call("record_batch", drafts=drafts) == {"results": ["OK", "OK", "DUPLICATE", "OK"]}
        assert (queue.get("mine").body, queue.get("mine").metadata) == (b"\xff", {"k": "v"})
        seen = [next(events), next(events)]
        assert [(event["id"], event["from"], event["to"]) for event in seen] == [
            ("hers", None, "delivered"),
            ("mine", None, "sent"),
        ]
        answer = client.call("mark_batch", messages=["mine", "nobody", "queued"], status="delivered")
        assert answer == {"results": ["OK", "NOT_FOUND", "CONFLICT"]}
        assert client.call("mark_up_to", message="hers", status="read") == {"count": 1}
        assert client.call("mark_up_to", message="mine", status="read") == {"count": 1}
        with pytest.raises(NotFoundError):
            client.call("mark_up_to", message="nobody", status="read")
        for wrong, text in (
            ([{"body": "x", "sender": ""}, {"body": "x"}], "draft 0: sender must not be empty"),
            ([{"body": "x"}, {"body": "x", "time_ms": -1}], "in element 1"),
            ([{"body": "x"}, {"sender": "Ana"}], "draft 1: body or body_base64 is missing"),
            ([{"body": "x", "id": "a"}], "unknown field id"),
            ([{"body": "x"}] * 1001, "1 to 1000"),
            ([], "1 to 1000"),
        ):
            with pytest.raises(InvalidError, match=re.escape(text)):
                client.call("record_batch", drafts=wrong)
        with pytest.raises(InvalidError):
            client.call("mark_batch", messages=["mine"], status="sent")
        with pytest.raises(InvalidError, match=re.escape("id 1: ")):
            client.call("mark_batch", messages=["mine", ""], status="read")
        assert client.call("record_batch", drafts=[{"body": "x"}] * 1000) == {"results": ["OK"] * 1000}
        assert queue.counts().sent == 1000


def test_H12_X14_a_large_batch_is_reported_by_its_events_or_by_one_that_says_to_list_again(opened: Opener) -> None:
    events = Events()
    queue = opened(mode=Mode.MANUAL, on_event=events)
    count = 3000
    queue.record_batch({"body": "x", "sender": "Ana", "id": str(number)} for number in range(count))

    def known() -> int:
        lost = sum(event.lost_events or 0 for event in events.all(EventKind.RESYNC))
        return lost + sum(event.from_status is None for event in events.all(EventKind.STATUS))

    wait_until(lambda: known() == count)

"""I9: why each message of a list waits, and which conversations are paused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import MessageQueue, Mode, NotFoundError, Outcome, Reason, RetryPolicy, Status, aio, control


def filled(queue: MessageQueue) -> None:
    queue.enqueue("no", conversation="ben", id="failed")
    queue.drain()
    queue.enqueue("1", conversation="ana", id="paused")
    queue.enqueue("2", conversation="cem", id="later", delay=timedelta(days=1))
    queue.enqueue("3", conversation="dana", id="ready")
    queue.enqueue("4", conversation="dana", id="behind")
    queue.pause("ana")


EXPECTED = {
    "failed": Reason.FAILED,
    "paused": Reason.PAUSED,
    "later": Reason.SCHEDULED,
    "ready": Reason.PERSON,
    "behind": Reason.BEHIND,
}


def test_I9_a_list_with_reasons_says_what_explain_says(opened: Opener) -> None:
    queue = opened(
        transport=lambda _: Outcome.reject(), mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[5, 30])
    )
    filled(queue)
    listed = queue.list(status=Status, reasons=True)
    assert {message.id: message.explanation.code for message in listed if message.explanation} == EXPECTED
    for message in listed:
        single = queue.explain(message.id)
        assert message.explanation is not None
        assert (message.explanation.text, message.explanation.behind) == (single.text, single.behind)
        assert message.explanation.retries == single.retries == 2
    assert [message.explanation for message in queue.list()] == [None] * 5
    dana = queue.conversation("dana")
    assert (dana.counts.queued, dana.last.id, dana.paused) == (2, "behind", False)
    assert queue.conversation("ana").paused
    with pytest.raises(NotFoundError):
        queue.conversation("nobody")
    assert {found.name: found.paused for found in queue.conversations()} == {
        "ana": True,
        "ben": False,
        "cem": False,
        "dana": False,
    }


def test_I9_the_control_socket_lists_reasons(opened: Opener, store: Path) -> None:
    queue = opened(transport=lambda _: Outcome.reject(), mode=Mode.MANUAL, direct=False)
    filled(queue)
    queue.start_control()
    with control.connect(store) as client:
        listed = client.call("list", reasons=True)["messages"]
        reasons = {message["id"]: message["explanation"]["reason"] for message in listed}
        assert reasons == {id: reason.name.lower() for id, reason in EXPECTED.items()}
        assert listed[-1]["explanation"] == client.call("explain", message="behind")
        assert "explanation" not in client.call("list")["messages"][0]
        paused = {found["name"] for found in client.call("conversations")["conversations"] if found["paused"]}
        assert paused == {"ana"}


def test_I9_the_asyncio_queue_lists_reasons(store: Path) -> None:
    async def run() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            await queue.enqueue("hello", id="a")
            (message,) = await queue.list(reasons=True)
            assert message.explanation is not None
            assert message.explanation.code is Reason.NO_TRANSPORT

    asyncio.run(run())


def test_I9_X1_a_closed_store_says_what_its_messages_wait_for(opened: Opener, store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue("1", conversation="cem", id="later", delay=timedelta(days=1))
        queue.enqueue("2", conversation="dana", id="ready")
    queue = opened(maintenance=True)
    reasons = {message.id: message.explanation for message in queue.list(reasons=True)}
    later, ready = reasons["later"], reasons["ready"]
    assert later is not None
    assert ready is not None
    assert (later.code, ready.code) == (Reason.SCHEDULED, Reason.NO_TRANSPORT)
    assert later.text.endswith(ready.text)


def test_X9_I9_the_last_hour_and_the_outcomes_of_attempts(opened: Opener, store: Path) -> None:
    queue = opened(transport=lambda _: Outcome.reject(), mode=Mode.MANUAL, direct=False)
    assert queue.minutes() == []
    queue.enqueue("hello")
    oldest = queue.stats().oldest_queued
    assert oldest == queue.list()[0].created
    queue.drain()
    minutes = queue.minutes()
    assert sum(minute.enqueued for minute in minutes) == 1
    assert sum(minute.failed for minute in minutes) == sum(minute.failed_attempts for minute in minutes) == 1
    stats = queue.stats()
    assert (stats.rejected, stats.retryable, stats.offline, stats.oldest_queued) == (1, 0, 0, None)
    queue.start_control()
    with control.connect(store) as client:
        assert sum(minute["failed"] for minute in client.call("minutes")["minutes"]) == 1

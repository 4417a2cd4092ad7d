"""I9: failed messages by what they failed with, and queued ones by what they wait for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from command_line import msgq
from conftest import Opener
from msgqueue import (
    FailureKind,
    InvalidError,
    ListOrder,
    MessageQueue,
    Mode,
    Outcome,
    PermissionDeniedError,
    Reason,
    Status,
    aio,
    control,
)
from support import wait_until

FAILURES = {
    "a1": (FailureKind.SERVER, 503),
    "b1": (FailureKind.SERVER, 503),
    "a2": (FailureKind.SERVER, 500),
    "b2": (FailureKind.TIMEOUT, 0),
}


def refused(delivery: object) -> Outcome:
    kind, code = FAILURES[delivery.id]  # type: ignore[attr-defined]
    return Outcome.reject(kind=kind, code=code, text=f"{kind.name} {code}")


def fill(queue: MessageQueue) -> None:
    for id in FAILURES:
        queue.enqueue(f"the body of {id}", conversation="ana" if id[0] == "a" else "ben", id=id)
    queue.drain()


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    queue = opened(transport=refused, mode=Mode.MANUAL, direct=False)
    fill(queue)
    return queue


def groups(queue: MessageQueue) -> list[tuple[FailureKind, int, int]]:
    return [(group.kind, group.code, group.count) for group in queue.failure_groups()]


def test_I9_groups_count_failed_messages_by_kind_and_code(queue: MessageQueue) -> None:
    # Of groups of one size that with the lower kind and code is first.
    assert groups(queue) == [(FailureKind.SERVER, 503, 2), (FailureKind.TIMEOUT, 0, 1), (FailureKind.SERVER, 500, 1)]
    first = queue.failure_groups(limit=1)[0]
    assert first.text == "SERVER 503"
    assert first.first <= first.last
    with pytest.raises(InvalidError):
        queue.failure_groups(limit=1001)


def test_I9_a_list_is_filtered_by_kind_and_code(queue: MessageQueue) -> None:
    def ids(**filter: object) -> list[str]:
        return [message.id for message in queue.list(**filter)]  # type: ignore[arg-type]

    assert ids(kind=FailureKind.SERVER) == ["a1", "b1", "a2"]
    assert ids(kind=FailureKind.SERVER, code=503, conversation="ben") == ["b1"]
    assert ids(code=0, status=Status.FAILED) == ["b2"]
    assert ids(code=500, newest_first=True) == ["a2"]
    for wrong in ({"status": Status.QUEUED}, {"order": ListOrder.TIME}):
        with pytest.raises(InvalidError):
            queue.list(kind=FailureKind.SERVER, **wrong)
    with pytest.raises(InvalidError):
        queue.list(code=2**31)
    with pytest.raises(TypeError):
        queue.list(kind=4)  # type: ignore[arg-type]


def test_I9_a_group_is_retried_and_deleted(queue: MessageQueue) -> None:
    # NONE is no kind: it must not select every failed message.
    for call in (queue.clear_failed, queue.retry_all, queue.list):
        with pytest.raises(InvalidError, match="got NONE"):
            call(kind=FailureKind.NONE)
    assert queue.clear_failed(kind=FailureKind.SERVER, code=500) == 1
    assert queue.clear_failed("ben", kind=FailureKind.SERVER) == 1
    queue.set_transport(lambda _: Outcome.sent())
    assert queue.retry_all(code=503) == 1
    wait_until(lambda: queue.get("a1").status is Status.SENT)
    assert groups(queue) == [(FailureKind.TIMEOUT, 0, 1)]
    assert queue.retry_all() == 1


def test_I9_the_control_socket_groups_filters_and_acts(queue: MessageQueue, store: Path) -> None:
    queue.enqueue("later", conversation="cem", delay=timedelta(days=1))
    queue.start_control()
    with control.connect(store) as client:
        found = client.call("failures", limit=1)["groups"]
        assert found == [found[0]]
        assert (found[0]["kind"], found[0]["code"], found[0]["count"]) == ("server", 503, 2)
        assert found[0]["sentence"] == queue.get("a1").failure.sentence  # type: ignore[union-attr]
        listed = client.call("list", kind="server", code=503)["messages"]
        assert [message["id"] for message in listed] == ["a1", "b1"]
        waiting = client.call("waiting")
        assert (waiting["queued"], waiting["scheduled"], waiting["retrying"]) == (1, 1, 0)
        assert waiting["next_scheduled_ms"] > 0
        assert client.call("clear_failed", kind="timeout") == {"count": 1}
        queue.set_transport(lambda _: Outcome.sent())
        assert client.call("retry_all", kind="server", code=503, conversation="ben") == {"count": 1}
        for wrong in ({"kind": "none"}, {"kind": "other"}, {"code": 2**31}):
            with pytest.raises(InvalidError):
                client.call("list", **wrong)


def test_I9_waiting_counts_each_message_once(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.enqueue("1", conversation="ana", delay=timedelta(days=1))
    queue.enqueue("2", conversation="ben", delay=timedelta(days=2))
    queue.enqueue("3", conversation="ben")
    queue.pause("ben")
    waiting = queue.waiting()
    assert (waiting.queued, waiting.paused, waiting.scheduled, waiting.retrying) == (3, 2, 1, 0)
    assert waiting.next_scheduled == queue.list("ana")[0].not_before
    assert waiting.next_retry is None


def test_I9_a_list_is_filtered_by_what_messages_wait_for(opened: Opener, store: Path) -> None:
    queue = opened(mode=Mode.MANUAL)
    for id, conversation, hours in (("later", "ana", 2), ("sooner", "ben", 1), ("held", "cem", 3), ("now", "cem", 0)):
        queue.enqueue(id, conversation=conversation, id=id, delay=timedelta(hours=hours) if hours else None)
    queue.pause("cem")

    def ids(waiting_for: Reason, **filter: object) -> list[str]:
        return [message.id for message in queue.list(waiting_for=waiting_for, **filter)]  # type: ignore[arg-type]

    assert ids(Reason.PAUSED) == ["held", "now"]
    assert ids(Reason.PAUSED, conversation="ana") == []
    assert ids(Reason.SCHEDULED) == ["sooner", "later"]
    assert ids(Reason.SCHEDULED, newest_first=True) == ["later", "sooner"]
    assert ids(Reason.RETRYING) == []
    first = queue.list(waiting_for=Reason.SCHEDULED, limit=1)[0]
    assert ids(Reason.SCHEDULED, after=first.sequence, after_time=first.not_before) == ["later"]
    for reason, wrong in ((Reason.BEHIND, {}), (Reason.SCHEDULED, {"conversation": "ana"})):
        with pytest.raises(InvalidError):
            ids(reason, **wrong)
    with pytest.raises(TypeError):
        queue.list(waiting_for=11)  # type: ignore[arg-type]
    queue.start_control()
    with control.connect(store) as client:
        page = client.call("list", waiting_for="scheduled", limit=1)
        assert [message["id"] for message in page["messages"]] == ["sooner"]
        assert page["next_time_ms"] == page["messages"][0]["not_before_ms"]
        rest = client.call("list", waiting_for="scheduled", after=page["next"], after_time_ms=page["next_time_ms"])
        assert [message["id"] for message in rest["messages"]] == ["later"]
        with pytest.raises(InvalidError):
            client.call("list", waiting_for="behind")


def test_I9_the_asyncio_queue_has_groups(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL, direct=False, transport=refused) as queue:
            for id in FAILURES:
                await queue.enqueue("hello", id=id)
            await queue.drain()
            assert (await queue.failure_groups(limit=1))[0].count == 2
            assert [message.id for message in await queue.list(code=500)] == ["a2"]
            assert await queue.clear_failed(kind=FailureKind.SERVER) == 3
            assert await queue.retry_all(kind=FailureKind.SERVER) == 0
            assert (await queue.waiting()).queued == 0

    asyncio.run(main())


def test_I9_X1_the_command_line_acts_on_groups_of_a_closed_store(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, direct=False, transport=refused) as queue:
        fill(queue)
    first = msgq("groups", store, "--json").rows[0]
    assert (first["kind"], first["code"], first["count"]) == ("server", 503, 2)
    assert "503" in msgq("groups", store).lines[1]
    exported = msgq("export", store, "--kind", "server", "--code", "503").rows
    assert [(row["id"], row["body"]) for row in exported] == [("a1", "the body of a1"), ("b1", "the body of b1")]
    assert [row["id"] for row in msgq("list", store, "--code", "0", "--json").rows] == ["b2"]
    msgq("clear", store, "--kind", "server", "--yes", fails=2)
    msgq("list", store, "--kind", "none", fails=2)
    msgq("clear", store, "--failed", "--kind", "timeout", fails=2)
    msgq("clear", store, "--failed", "--kind", "timeout", "--yes")
    assert msgq("retry-all", store, "--kind", "server", "--code", "500").lines == ["1 message queued again"]
    assert "1 message queued" in msgq("groups", store).errors
    with MessageQueue(store, mode=Mode.MANUAL, read_only=True) as queue:
        assert groups(queue) == [(FailureKind.SERVER, 503, 2)]
        assert queue.waiting().queued == 1
        with pytest.raises(PermissionDeniedError):
            queue.retry_all(kind=FailureKind.SERVER)
        with pytest.raises(PermissionDeniedError):
            queue.clear_failed(kind=FailureKind.SERVER)

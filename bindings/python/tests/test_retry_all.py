"""Retries while offline, retry_all, and drains of one conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from msgqueue import (
    ConflictError,
    Connectivity,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    NoTransportError,
    Outcome,
    RetryPolicy,
    Status,
    Stop,
    aio,
)


class Receiver:
    """A transport that refuses messages until `outcome` is changed."""

    def __init__(self) -> None:
        self.outcome = Outcome.reject()
        self.ids: list[str] = []

    def __call__(self, delivery: object) -> Outcome:
        self.ids.append(delivery.id)  # type: ignore[attr-defined]
        return self.outcome


def opened(path: Path, transport: Receiver | None, mode: Mode = Mode.MANUAL) -> MessageQueue:
    return MessageQueue(path, transport, mode=mode, direct=False, polled=True)


def run_until(queue: MessageQueue, status: Status, id: str) -> None:
    for _ in range(1000):
        if queue.get(id).status is status:
            return
        queue.poll(0.05)
    raise AssertionError(f"{id} is {queue.get(id).status}")


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.MANUAL])
def test_R15_a_retry_while_offline_fails_again_at_once(store: Path, mode: Mode) -> None:
    receiver = Receiver()
    with opened(store, receiver, mode) as queue:
        queue.enqueue("hello", id="a")
        assert queue.drain().failed == 1
        queue.set_connectivity(Connectivity.OFFLINE)
        for _ in range(2):
            queue.retry("a")
        message = queue.get("a")
        assert message.status is Status.FAILED
        assert message.failure is not None
        assert message.failure.kind is FailureKind.OFFLINE
        queue.enqueue("hello", id="b")
        queue.send_now("b")
        waiting = queue.get("b")
        assert waiting.status is Status.QUEUED
        assert waiting.failure is not None
        assert waiting.failure.kind is FailureKind.OFFLINE
        assert receiver.ids == ["a"]


def test_R17_what_failed_before_stays_readable(store: Path) -> None:
    with opened(store, Receiver(), Mode.MANUAL) as queue:
        queue.enqueue("hello", id="a")
        assert queue.drain().failed == 1
        failure = queue.get("a").failure
        assert failure is not None
        assert queue.get("a").failure_before is None
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.retry("a")
        assert queue.get("a").failure_before == failure
        assert queue.list(status=Status.FAILED)[0].failure_before == failure


def test_R15_in_mode_auto_a_retry_while_offline_is_queued(store: Path) -> None:
    receiver = Receiver()
    with opened(store, receiver, Mode.AUTO) as queue:
        queue.enqueue("hello", id="a")
        run_until(queue, Status.FAILED, "a")
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.retry("a")
        assert queue.get("a").status is Status.QUEUED
        receiver.outcome = Outcome.sent()
        queue.set_connectivity(Connectivity.ONLINE)
        run_until(queue, Status.SENT, "a")


def test_R14_retry_all_of_one_conversation_or_of_all(store: Path) -> None:
    receiver = Receiver()
    with opened(store, receiver) as queue:
        for number in range(6):
            queue.enqueue("hello", conversation="ana" if number % 2 else "ben", id=f"m{number}")
        assert queue.drain().remaining_failed == 6
        assert queue.drain(conversation="ana").remaining_failed == 3
        receiver.outcome = Outcome.sent()
        receiver.ids.clear()
        assert queue.retry_all("ana") == 3
        run_until(queue, Status.SENT, "m5")
        assert receiver.ids == ["m1", "m3", "m5"]
        assert queue.retry_all() == 3
        run_until(queue, Status.SENT, "m4")
        assert queue.retry_all() == 0
        with pytest.raises(InvalidError):
            queue.retry_all("a\nb")
        with pytest.raises(TypeError):
            queue.retry_all(5)  # type: ignore[arg-type]
        queue.set_transport(None)
        with pytest.raises(NoTransportError):
            queue.retry_all()


def test_Q19_a_drain_of_one_conversation(store: Path) -> None:
    receiver = Receiver()
    receiver.outcome = Outcome.sent()
    with opened(store, receiver) as queue:
        for number in range(6):
            queue.enqueue("hello", conversation="ana" if number % 2 else "ben", id=f"m{number}")
        report = queue.drain(conversation="ana")
        assert (report.stop, report.sent, report.remaining) == (Stop.EMPTY, 3, 0)
        assert receiver.ids == ["m1", "m3", "m5"]
        with pytest.raises(InvalidError):
            queue.drain(conversation="x" * 256)
        assert queue.drain().sent == 3


def test_R14_Q19_retry_all_and_scoped_drains_in_asyncio(store: Path) -> None:
    outcome = Outcome.reject()
    ids: list[str] = []

    async def send(delivery: object) -> Outcome:
        ids.append(delivery.id)  # type: ignore[attr-defined]
        return outcome

    async def main() -> None:
        nonlocal outcome
        async with aio.MessageQueue(store, send, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(4):
                await queue.enqueue("hello", conversation="ana" if number % 2 else "ben", id=f"m{number}")
            report = await queue.drain(conversation="ana")
            assert (report.failed, report.remaining_failed) == (2, 2)
            outcome = Outcome.sent()
            assert await queue.retry_all("ana") == 2
            while (await queue.counts()).sent < 2:
                await asyncio.sleep(0.01)
            assert ids == ["m1", "m3", "m1", "m3"]
            assert (await queue.drain()).sent == 2

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("strict_order", [True, False])
@pytest.mark.parametrize("way", ["drain", "send_now", "retry_all"])
def test_M12_a_ladder_in_mode_ask_runs_by_itself_however_the_attempt_began(
    store: Path, way: str, strict_order: bool
) -> None:
    receiver = Receiver()
    retry = RetryPolicy(ladder=[0.05, 0.05])
    with MessageQueue(
        store, receiver, mode=Mode.ASK, direct=False, polled=True, strict_order=strict_order, retry=retry
    ) as queue:
        queue.enqueue("hello", id="a")
        if way == "retry_all":
            assert queue.drain().failed == 1
        receiver.outcome = Outcome.http(503)
        receiver.ids.clear()
        if way == "drain":
            queue.drain()
        elif way == "send_now":
            queue.send_now("a")
        else:
            assert queue.retry_all() == 1
        for _ in range(1000):
            if queue.get("a").status is Status.FAILED:
                break
            queue.poll(0.05)
        assert receiver.ids == ["a"] * 3


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("scope", [None, "ana"])
def test_R15_while_paused_a_retry_is_queued_and_send_now_is_refused(store: Path, mode: Mode, scope: str | None) -> None:
    receiver = Receiver()
    with opened(store, receiver, mode) as queue:
        queue.enqueue("hello", id="a", conversation="ana")
        queue.drain()
        run_until(queue, Status.FAILED, "a")
        queue.pause(scope)
        queue.retry("a")
        assert queue.get("a").status is Status.QUEUED
        with pytest.raises(ConflictError):
            queue.retry("a")
        with pytest.raises(ConflictError, match="paused"):
            queue.send_now("a")
    receiver.outcome = Outcome.sent()
    with opened(store, receiver, mode) as queue:
        assert queue.get("a").status is Status.QUEUED, "it survives a restart"
        queue.drain()
        run_until(queue, Status.SENT, "a")

"""Transports that send several messages in one call."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Optional

import pytest

from async_sender import in_loop, until
from msgqueue import (
    BatchOptions,
    Change,
    Delivery,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    Result,
    RetryPolicy,
    Status,
    TimedOutError,
    Verdict,
    aio,
)
from support import wait_until

NO_RETRY = RetryPolicy(ladder=[])
Answer = Callable[[Delivery], Optional[Outcome]]


class Batcher:
    """A batch transport that keeps the ids of each call."""

    def __init__(self, answer: Answer = lambda _: Outcome.sent()) -> None:
        self.calls: list[list[str]] = []
        self._answer = answer

    def __call__(self, deliveries: list[Delivery]) -> list[Outcome | None]:
        self.calls.append([delivery.id for delivery in deliveries])
        return [self._answer(delivery) for delivery in deliveries]


def fill(queue: MessageQueue, *ids: str) -> None:
    """Enqueues messages, each in the conversation of its first letter."""
    for id in ids:
        queue.enqueue(id, conversation=id[0], id=id)


def opened(store: Path, transport: Callable[..., Any], **options: Any) -> MessageQueue:
    return MessageQueue(store, batch_transport=transport, mode=Mode.MANUAL, direct=False, retry=NO_RETRY, **options)


@pytest.mark.parametrize("polled", [False, True])
def test_B1_a_batch_holds_several_conversations(store: Path, polled: bool) -> None:
    batcher = Batcher()
    with opened(store, batcher, polled=polled) as queue:
        fill(queue, "a1", "b1", "a2", "b2", "a3")
        assert queue.drain().sent == 5
    assert batcher.calls == [["a1", "a2", "a3", "b1", "b2"]]


def test_B1_partial_success_keeps_the_order(store: Path) -> None:
    def answer(delivery: Delivery) -> Outcome:
        if delivery.id == "a2" and delivery.attempt == 1:
            return Outcome.retry(FailureKind.NETWORK)
        return Outcome.skipped() if delivery.id == "a3" and len(batcher.calls) == 1 else Outcome.sent()

    batcher = Batcher(answer)
    policy = RetryPolicy(ladder=[0.01])
    with MessageQueue(store, batch_transport=batcher, retry=policy, max_in_flight=8) as queue:
        queue.pause()
        fill(queue, "a1", "a2", "a3", "b1")
        queue.resume()
        wait_until(lambda: queue.counts().sent == 4)
        assert queue.get("a3").attempts == 1
        assert queue.get("a2").attempts == 2
    assert batcher.calls == [["a1", "a2", "a3", "b1"], ["a2", "a3"]]


def test_B1_answers_by_token(store: Path) -> None:
    deliveries: list[Delivery] = []

    def pending(batch: list[Delivery]) -> list[Outcome]:
        deliveries.extend(batch)
        return [Outcome.pending()] * len(batch)

    with opened(store, pending) as queue:
        fill(queue, "a1", "a2", "b1")
        thread = threading.Thread(target=queue.drain)
        thread.start()
        wait_until(lambda: len(deliveries) == 3)
        answers = [(delivery.token, Outcome.sent()) for delivery in deliveries]
        assert queue.complete_batch(answers) == [Result.OK] * 3
        thread.join()
        assert queue.counts().sent == 3


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (lambda _: None, "the transport returned None for a batch of 2 messages"),
        (lambda _: 17, "the transport returned an object of type int for a batch of 2 messages"),
        (lambda _: [Outcome.sent()], "the transport returned 1 outcomes for a batch of 2 messages"),
        (lambda _: [], "the transport returned 0 outcomes for a batch of 2 messages"),
    ],
)
def test_B1_a_wrong_answer_is_a_failure_of_every_message(
    store: Path, caplog: pytest.LogCaptureFixture, answers: Callable[[Sequence[Delivery]], Any], text: str
) -> None:
    with opened(store, answers) as queue:
        fill(queue, "a1", "b1")
        assert queue.drain().failed == 2
        for id in ("a1", "b1"):
            failure = queue.get(id).failure
            assert failure is not None
            assert (failure.kind, failure.text, failure.retryable) == (FailureKind.UNKNOWN, text, True)
    assert text in caplog.text


def test_B1_an_exception_is_a_failure_of_every_message(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: list[Delivery]) -> list[Outcome]:
        raise ConnectionRefusedError("nobody there")

    caplog.set_level(logging.WARNING)
    with opened(store, refuse) as queue:
        fill(queue, "a1", "b1")
        assert queue.drain().failed == 2
        failure = queue.get("b1").failure
        assert failure is not None
        assert (failure.kind, failure.text) == (FailureKind.NETWORK, "ConnectionRefusedError: nobody there")
    assert "a batch of 2 messages failed, attempt 1 of message a1 failed (NETWORK)" in caplog.text


def test_B1_a_message_without_an_outcome_has_failed(store: Path) -> None:
    with opened(store, Batcher(lambda delivery: None if delivery.id == "a2" else Outcome.sent())) as queue:
        fill(queue, "a1", "a2", "b1")
        report = queue.drain()
        assert (report.sent, report.failed) == (2, 1)
        failure = queue.get("a2").failure
        assert failure is not None
        assert failure.text == "the transport returned None, not an Outcome"


def test_B1_limits_of_a_batch(store: Path) -> None:
    batcher = Batcher()
    with opened(store, batcher, batch_options=BatchOptions(max_messages=2)) as queue:
        fill(queue, "a1", "b1", "a2", "b2", "a3")
        queue.drain()
        assert batcher.calls == [["a1", "b1"], ["a2", "b2"], ["a3"]]
        batcher.calls.clear()
        queue.set_batch_transport(batcher, BatchOptions(max_bytes=4, single_conversation=True, linger=0.001))
        fill(queue, "a4", "b4", "a5", "a6")
        queue.drain()
        assert batcher.calls == [["a4", "a5"], ["b4"], ["a6"]]
        for wrong in (
            BatchOptions(max_messages=0),
            BatchOptions(max_messages=1001),
            BatchOptions(max_bytes=0),
            BatchOptions(max_bytes=2**40),
            BatchOptions(linger=-1),
            BatchOptions(linger=61),
        ):
            with pytest.raises(InvalidError):
                queue.set_batch_transport(batcher, wrong)
        with pytest.raises(TypeError, match="BatchOptions"):
            queue.set_batch_transport(batcher, {"max_messages": 3})  # type: ignore[arg-type]


def test_B1_two_batches_are_sent_at_a_time(store: Path) -> None:
    both = threading.Barrier(2)

    def send(deliveries: list[Delivery]) -> list[Outcome]:
        both.wait(20)
        return [Outcome.sent() for _ in deliveries]

    options = BatchOptions(max_messages=2, max_batches=2)
    with opened(store, send, batch_options=options, max_in_flight=1) as queue:
        fill(queue, "a1", "b1", "c1", "d1")
        assert queue.drain().sent == 4
        for wrong in (-1, 65):
            with pytest.raises(InvalidError, match="max_batches must be 0 to 64"):
                queue.set_batch_transport(send, BatchOptions(max_batches=wrong))


def test_B1_Q20_messages_of_a_hung_batch_wait_for_the_end_of_its_call(store: Path) -> None:
    returned = threading.Event()

    def send(deliveries: list[Delivery]) -> list[Outcome]:
        returned.wait(30)
        return [Outcome.sent() for _ in deliveries]

    waiting = "Waiting for the last attempt to end."
    with MessageQueue(store, attempt_timeout=0.2, retry=RetryPolicy(ladder=[0.01])) as queue:
        queue.pause()
        queue.set_batch_transport(send, BatchOptions(max_messages=2, max_batches=2))
        fill(queue, "a1", "a2", "a3")
        queue.resume()
        try:
            timed_out = [(Status.QUEUED, 1)] * 2
            wait_until(lambda: [(each.status, each.attempts) for each in map(queue.get, ("a1", "a2"))] == timed_out)
            explained = [queue.explain(id) for id in ("a1", "a2", "a3")]
            assert [each.text for each in explained[:2]] == [waiting, waiting]
            assert explained[2].behind == "a1"
            assert queue.state().text == waiting
        finally:
            returned.set()


def test_B1_transports_replace_each_other(store: Path) -> None:
    single: list[str] = []

    def send(delivery: Delivery) -> Outcome:
        single.append(delivery.id)
        return Outcome.sent()

    batcher = Batcher()
    with opened(store, batcher) as queue:
        queue.set_transport(send)
        fill(queue, "a1")
        queue.drain()
        queue.set_batch_transport(batcher)
        fill(queue, "a2")
        queue.drain()
        queue.set_batch_transport(None)
        assert not queue.state().has_transport
    assert (single, batcher.calls) == (["a1"], [["a2"]])
    with pytest.raises(TypeError, match="exclude each other"):
        MessageQueue(store, send, batch_transport=batcher)
    with pytest.raises(TypeError, match="batch_transport must be callable"):
        MessageQueue(store, batch_transport=3)  # type: ignore[arg-type]


def test_B1_async_batches(store: Path) -> None:
    calls: list[list[str]] = []
    inside: list[int] = []

    async def send(deliveries: list[Delivery]) -> list[Outcome]:
        calls.append([delivery.id for delivery in deliveries])
        await asyncio.sleep(0)
        inside.append((await queue.counts()).sending)
        return [
            Outcome.skipped() if delivery.id == "a2" and len(calls) == 1 else Outcome.sent() for delivery in deliveries
        ]

    async def test() -> None:
        async with queue:
            for id in ("a1", "b1", "a2"):
                await queue.enqueue(id, conversation=id[0], id=id)
            assert (await queue.drain()).sent == 3
            await queue.set_batch_transport(send, BatchOptions(max_messages=1))
            await queue.enqueue("c1", conversation="c", id="c1")
            await queue.enqueue("d1", conversation="d", id="d1")
            await queue.drain()

    queue = aio.MessageQueue(store, batch_transport=send, mode=Mode.MANUAL, direct=False, retry=NO_RETRY)
    in_loop(test())
    assert calls == [["a1", "a2", "b1"], ["a2"], ["c1"], ["d1"]]
    assert inside[0] == 3


def test_B1_async_failures_and_plain_functions(store: Path) -> None:
    async def fail(_: list[Delivery]) -> list[Outcome]:
        raise ConnectionResetError("cut")

    async def test() -> None:
        async with aio.MessageQueue(
            store, batch_transport=fail, mode=Mode.MANUAL, direct=False, retry=NO_RETRY
        ) as queue:
            for id in ("a1", "b1"):
                await queue.enqueue(id, conversation=id[0], id=id)
            assert (await queue.drain()).failed == 2
            failure = (await queue.get("b1")).failure
            assert failure is not None
            assert failure.kind is FailureKind.NETWORK
            batcher = Batcher()
            await queue.set_batch_transport(batcher)
            assert await queue.retry_all() == 2
            await until(lambda: is_sent(queue, 2))
            assert batcher.calls == [["a1", "b1"]]

    async def is_sent(queue: aio.MessageQueue, count: int) -> bool:
        return (await queue.counts()).sent == count

    in_loop(test())


def test_B1_a_close_cancels_the_task_of_a_batch(store: Path) -> None:
    cancelled: list[bool] = []

    async def hang(_: list[Delivery]) -> list[Outcome]:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return []

    async def is_sending(queue: aio.MessageQueue) -> bool:
        return (await queue.counts()).sending > 0

    async def test() -> None:
        queue = aio.MessageQueue(store, batch_transport=hang)
        await queue.open()
        for id in ("a1", "b1"):
            await queue.enqueue(id, conversation=id[0], id=id)
        await until(lambda: is_sending(queue))
        with pytest.raises(Exception, match="closed before"):
            await queue.close(timeout=0)
        assert cancelled

    in_loop(test())


def test_X4_expired_and_deleted_messages_are_in_no_batch(store: Path) -> None:
    batcher = Batcher()
    with opened(store, batcher) as queue:
        fill(queue, "a1", "a2", "a3")
        queue.delete("a2")
        queue.drain()
        assert batcher.calls == [["a1", "a3"]]
        assert queue.get("a3").status is Status.SENT


@pytest.mark.parametrize("burst", [0, 3])
def test_B1_F3_a_batch_has_at_most_as_many_messages_as_the_burst(store: Path, burst: int) -> None:
    batcher = Batcher()

    def send(deliveries: list[Delivery]) -> list[Outcome | None]:
        time.sleep(0.02)  # in which the rate would permit 20 messages
        return batcher(deliveries)

    with opened(store, send, rate_per_second=1000, rate_burst=burst) as queue:
        fill(queue, *(f"a{number}" for number in range(12)))
        assert queue.drain().sent == 12
    sizes = [len(ids) for ids in batcher.calls]
    assert max(sizes) == max(burst, 1)
    assert sizes[1:-1] == [max(burst, 1)] * (len(sizes) - 2)


class Calls:
    """Counts the calls of functions of the package on this thread."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename).parent.name == "msgqueue":
            self.count += 1


@pytest.mark.parametrize("answer", [Outcome.sent(), Outcome.pending()], ids=["sent", "pending"])
def test_F11_a_batch_is_read_and_answered_with_few_calls(store: Path, answer: Outcome) -> None:
    tokens: list[int] = []
    answers = [answer] * 200

    def transport(deliveries: list[Delivery]) -> list[Outcome]:
        sys.setprofile(None)
        tokens.extend(delivery.token for delivery in deliveries)
        sys.setprofile(calls)
        return answers

    calls = Calls()
    with opened(store, transport, batch_options=BatchOptions(max_messages=200), polled=True) as queue:
        queue.enqueue_batch({"body": "hello", "conversation": str(number)} for number in range(200))
        while not tokens:
            sys.setprofile(calls)
            try:
                with suppress(TimedOutError):
                    queue.drain(timeout=0.1)
            finally:
                sys.setprofile(None)
        if answer.verdict is Verdict.PENDING:
            assert queue.counts().sending == 200
            queue.complete_batch([(token, Outcome.sent()) for token in tokens])
        assert queue.counts().sent == 200
    # It was 850: four for each message.
    assert calls.count < 100


def test_F11_every_field_of_a_batch_is_that_of_the_message(store: Path) -> None:
    found: list[Delivery] = []

    def transport(deliveries: list[Delivery]) -> list[Outcome]:
        found.extend(deliveries)
        return [Outcome.sent()] * len(deliveries)

    bodies = [b"", b"\0", b"a\0b", "\N{SNOWMAN}".encode(), bytes(range(256)) * 300]
    with opened(store, transport, batch_options=BatchOptions(max_messages=10), attempt_timeout=12.5) as queue:
        for number, body in enumerate(bodies):
            metadata = {f"k{each}": "\N{SNOWMAN}" * each for each in range(number)}
            queue.enqueue(body, conversation="" if number % 2 else "\N{SNOWMAN}", id=f"id {number}", metadata=metadata)
        assert queue.drain().sent == len(bodies)
        assert sorted(each.id for each in found) == [f"id {number}" for number in range(len(bodies))]
        assert len({each.token for each in found}) == len(bodies)
        for delivery in found:
            message = queue.get(delivery.id)
            assert delivery == Delivery(
                id=message.id,
                conversation=message.conversation,
                body=bodies[int(delivery.id[3:])],
                metadata=message.metadata,
                attempt=1,
                token=delivery.token,
                created=message.created,
                timeout=12.5,
            )
            assert repr(delivery).startswith(f"Delivery(id='{delivery.id}'")


def test_F11_a_batch_begins_before_the_outcomes_of_another_one_are_stored(store: Path) -> None:
    calls: list[list[str]] = []
    lock, both, gate = threading.Lock(), threading.Event(), threading.Event()

    def transport(deliveries: list[Delivery]) -> list[Outcome]:
        with lock:
            calls.append([delivery.id for delivery in deliveries])
            number = len(calls)
        if number == 1:
            both.wait(30)
        elif number == 2:
            both.set()
            gate.wait(30)
        return [Outcome.sent()] * len(deliveries)

    two = BatchOptions(max_messages=1000, max_batches=2)
    with opened(store, transport, batch_options=two, keep_changes=100_000) as queue:
        queue.enqueue_batch({"body": "hello", "conversation": str(number)} for number in range(4000))
        drain = threading.Thread(target=queue.drain)
        drain.start()
        # The second batch returns while the outcomes of the first one are being stored.
        wait_until(lambda: queue.counts().sent > 0)
        gate.set()
        drain.join()
        assert queue.counts().sent == 4000
        changes: list[Change] = []
        page = queue.changes(limit=1000)
        while page.changes:
            changes += page.changes
            page = queue.changes(page.next, limit=1000)
    second, third = set(calls[1]), set(calls[2])
    begins = next(at for at, each in enumerate(changes) if each.id in third and each.status is Status.SENDING)
    end = max(at for at, each in enumerate(changes) if each.id in second and each.status is Status.SENT)
    # It waited for all of them: then batches were sent at the same time, and their outcomes stored at the same time.
    assert begins < end

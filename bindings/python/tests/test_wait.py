"""M14: `send` and `wait`."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from async_sender import in_loop, until
from conftest import Opener
from msgqueue import (
    ClosedError,
    ConflictError,
    Connectivity,
    Delivery,
    DuplicateError,
    FailureKind,
    Message,
    Mode,
    NotFoundError,
    Outcome,
    Reason,
    Refused,
    Status,
    aio,
)
from support import wait_until


def send(_: object) -> Outcome:
    return Outcome.sent()


def reason(message: Message) -> Reason:
    assert message.explanation is not None
    return message.explanation.code


def test_M14_send_returns_the_message_that_was_sent(opened: Opener) -> None:
    queue = opened(transport=send)
    message = queue.send("hello", conversation="ana", id="a", metadata={"k": "v"}, timeout=30)
    assert (message.id, message.status, message.text) == ("a", Status.SENT, "hello")
    assert (message.metadata, reason(message)) == ({"k": "v"}, Reason.NONE)
    assert queue.wait("a").status is Status.SENT
    assert queue.get("a").explanation is None
    with pytest.raises(DuplicateError):
        queue.send("again", id="a")
    with pytest.raises(NotFoundError):
        queue.wait("nobody")


def test_M14_send_returns_a_failure_or_a_reason(opened: Opener) -> None:
    queue = opened()
    message = queue.send("hello")
    assert (message.status, reason(message)) == (Status.QUEUED, Reason.NO_TRANSPORT)
    queue.set_transport(lambda _: Outcome.reject(code=422))
    failed = queue.send("hello", conversation="ana")
    assert failed.status is Status.FAILED
    assert failed.failure is not None
    assert (failed.failure.kind, failed.failure.code) == (FailureKind.REJECTED, 422)
    queue.set_transport(lambda _: Outcome.retry(FailureKind.SERVER))
    retried = queue.send("hello", conversation="ben")
    assert (retried.status, reason(retried)) == (Status.QUEUED, Reason.RETRYING)
    assert retried.failure is not None
    queue.set_connectivity(Connectivity.OFFLINE)
    offline = queue.send("hello", conversation="cid")
    assert (offline.status, reason(offline)) == (Status.QUEUED, Reason.OFFLINE)
    assert offline.explanation is not None
    assert "offline" in offline.explanation.text


def test_M14_at_its_timeout_send_returns_the_message_as_it_is(opened: Opener) -> None:
    release = threading.Event()

    def hang(_: object) -> Outcome:
        release.wait(30)
        return Outcome.sent()

    queue = opened(transport=hang)
    begin = time.monotonic()
    message = queue.send("hello", timeout=0.05)
    assert time.monotonic() - begin < 20
    assert (message.status, reason(message)) == (Status.SENDING, Reason.SENDING)
    assert queue.wait(message.id, timeout=0).status is Status.SENDING
    release.set()
    assert queue.wait(message.id).status is Status.SENT


def test_M14_a_message_that_is_gone_has_its_outcome(opened: Opener) -> None:
    queue = opened(
        transport=lambda delivery: Outcome.reject() if delivery.text == "no" else Outcome.sent(),
        keep_sent=0,
        refused=Refused.DISCARD,
    )
    sent = queue.send("yes")
    assert (sent.status, sent.body, reason(sent)) == (Status.SENT, None, Reason.NONE)
    discarded = queue.send("no")
    assert (discarded.status, reason(discarded)) == (Status.FAILED, Reason.GONE)
    assert discarded.failure is not None


def test_M14_callbacks_cannot_wait(opened: Opener) -> None:
    problems: list[BaseException] = []
    queue = opened(mode=Mode.MANUAL, direct=False)

    def attempt(call: Any) -> None:
        try:
            call()
        except BaseException as problem:  # noqa: BLE001 - checked below
            problems.append(problem)

    def transport(delivery: Delivery) -> Outcome:
        attempt(lambda: queue.wait(delivery.id))
        attempt(lambda: queue.send("from a callback"))
        return Outcome.sent()

    queue.set_transport(transport)
    queue.enqueue("hello")
    assert queue.drain().sent == 1
    assert [type(problem) for problem in problems] == [ConflictError, ConflictError]
    assert queue.counts().queued == 0


@pytest.mark.parametrize("main_thread", [True, False])
def test_M14_X7_a_polled_queue_runs_its_callbacks_meanwhile(opened: Opener, main_thread: bool) -> None:
    events: list[Any] = []
    queue = opened(transport=send, polled=True, on_event=events.append)
    found: list[Message] = []

    def call() -> None:
        found.append(queue.send("hello", timeout=30))

    if main_thread:
        call()
    else:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join(40)
    assert found[0].status is Status.SENT
    assert events or not main_thread


def test_M14_ctrl_c_ends_a_wait(opened: Opener) -> None:
    release = threading.Event()

    def hang(_: object) -> Outcome:
        release.wait(30)
        return Outcome.sent()

    queue = opened(transport=hang)
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        queue.send("hello", id="a")
    timer.join()
    assert queue.get("a").status is Status.SENDING
    release.set()
    assert queue.wait("a").status is Status.SENT


def test_M14_a_close_ends_a_wait(opened: Opener) -> None:
    queue = opened(transport=lambda _: Outcome.pending())
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).status is Status.SENDING)
    problems: list[BaseException] = []

    def call() -> None:
        try:
            queue.wait(id)
        except ClosedError as problem:
            problems.append(problem)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.05)
    with pytest.raises(TimeoutError):
        queue.close(timeout=0.05)
    thread.join(30)
    assert len(problems) == 1


def test_M14_arguments_are_checked_before_anything_is_stored(opened: Opener) -> None:
    queue = opened(transport=send)
    wrong: Any
    for wrong in ("soon", -1, float("nan")):
        with pytest.raises((TypeError, ValueError)):
            queue.send("hello", timeout=wrong)
        with pytest.raises((TypeError, ValueError)):
            queue.wait("a", timeout=wrong)
    for wrong in (7, None):
        with pytest.raises(TypeError):
            queue.wait(wrong)
    assert queue.counts().sent == 0


def test_M14_asyncio(store: Path) -> None:
    async def transport(delivery: Delivery) -> Outcome:
        if delivery.text == "slow":
            await asyncio.sleep(0.2)
        return Outcome.reject() if delivery.text == "no" else Outcome.sent()

    async def test() -> None:
        async with aio.MessageQueue(store, transport, max_in_flight=8) as queue:
            assert (await queue.send("yes", timeout=30)).status is Status.SENT
            assert (await queue.send("no")).status is Status.FAILED
            slow = await queue.send("slow", conversation="slow", timeout=0.01)
            assert slow.status is Status.SENDING
            assert (await queue.wait(slow.id)).status is Status.SENT
            messages = await asyncio.gather(
                *(queue.send("yes", conversation=str(number % 16)) for number in range(100))
            )
            assert {message.status for message in messages} == {Status.SENT}
            await queue.pause()
            paused = await queue.send("yes")
            assert (paused.status, reason(paused)) == (Status.QUEUED, Reason.PAUSED)
            with pytest.raises(NotFoundError):
                await queue.wait("nobody")

    in_loop(test())


def test_M14_a_cancelled_send_leaves_the_message(store: Path) -> None:
    async def test() -> None:
        release = asyncio.Event()
        problems: list[str] = []
        queue = aio.MessageQueue(store)

        async def transport(delivery: Delivery) -> Outcome:
            try:
                await queue.wait(delivery.id)
            except ConflictError as problem:
                problems.append(problem.name)
            await release.wait()
            return Outcome.sent()

        async with queue:
            await queue.set_transport(transport)
            task = asyncio.create_task(queue.send("hello", id="a"))
            await until(lambda: problems)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await queue.get("a")).status is Status.SENDING
            release.set()
            assert (await queue.wait("a")).status is Status.SENT
            assert problems == ["MSGQ_CONFLICT"]
            release.clear()
            waiting = asyncio.create_task(queue.send("hello", id="b"))
            await until(lambda: len(problems) == 2)
            closing = asyncio.create_task(queue.close(0.05))
            with pytest.raises(ClosedError):
                await waiting
            with pytest.raises(TimeoutError):
                await closing

    in_loop(test())

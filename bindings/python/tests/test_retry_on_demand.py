"""R: retries on demand."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    AttemptOutcome,
    BusyError,
    ConflictError,
    Connectivity,
    EventKind,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    RetryPolicy,
    Status,
)
from receiver import Answer, Receiver
from sender import HttpTransport
from support import Events, program, wait_until

# A retryable failure makes the message failed at once.
NO_RETRY = RetryPolicy(ladder=[])


def failed(queue: MessageQueue, receiver: Receiver, status: int = 400, text: str = "hello") -> str:
    """Returns a message that the receiver answered with that status."""
    receiver.answer_next(Answer(status, text="the receiver's words"))
    id = queue.enqueue(text, conversation="ana")
    assert queue.drain().failed == 1
    return id


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(400, FailureKind.REJECTED, False), (404, FailureKind.NOT_FOUND, False), (503, FailureKind.SERVER, True)],
)
def test_R1_a_failed_message_carries_its_failure(
    opened: Opener, http: HttpTransport, receiver: Receiver, status: int, kind: FailureKind, retryable: bool
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=NO_RETRY)
    message = queue.get(failed(queue, receiver, status))
    assert message.status is Status.FAILED
    failure = message.failure
    assert failure is not None
    assert (failure.kind, failure.code, failure.retryable, failure.attempts) == (kind, status, retryable, 1)
    assert failure.text == "the receiver's words"
    assert abs(datetime.now(timezone.utc) - failure.at) < timedelta(minutes=1)


def test_R3_a_retry_is_a_new_attempt_under_the_same_id(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    id = failed(queue, receiver)
    queue.retry(id)
    events.wait_for_status(id, Status.SENT)
    assert receiver.ids == [id, id]
    assert [request.attempt for request in receiver.received] == [1, 2]
    assert queue.list(status=Status.FAILED) == []
    assert queue.get(id).status is Status.SENT


def test_R3_a_retry_may_fail_again(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    id = failed(queue, receiver)
    receiver.answer_next(503)
    queue.retry(id)
    again = events.wait_for(
        EventKind.STATUS, lambda event: event.id == id and event.attempt == 2 and event.failure is not None
    )
    assert again.to_status is Status.FAILED
    failure = queue.get(id).failure
    assert failure is not None
    assert (failure.kind, failure.attempts) == (FailureKind.SERVER, 2)


def test_R4_a_deleted_message_is_gone_from_disk(
    opened: Opener, store: Path, http: HttpTransport, receiver: Receiver
) -> None:
    marker = b"nobody shall find these words again"
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    id = failed(queue, receiver, text=marker.decode())
    queue.close()
    assert marker in on_disk(store)
    queue = opened()
    queue.delete(id)
    with pytest.raises(NotFoundError):
        queue.get(id)
    queue.close()
    assert marker not in on_disk(store)


def on_disk(store: Path) -> bytes:
    """Returns the content of the store's files."""
    return b"".join(file.read_bytes() for file in sorted(store.parent.glob(f"{store.name}*")))


def test_R5_fifty_failed_messages_are_listed_after_a_restart_without_delay(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    receiver.answer_by(lambda _: 400)
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    ids = queue.enqueue_batch({"body": str(number), "conversation": str(number % 7)} for number in range(50))
    assert queue.drain().failed == 50
    queue.close()
    start = time.monotonic()
    messages = opened().list(status=Status.FAILED, limit=50)
    assert time.monotonic() - start < 1
    assert [message.id for message in messages] == ids
    assert all(message.failure is not None and message.failure.code == 400 for message in messages)


def test_R6_receipts_only_move_a_status_forward(opened: Opener, http: HttpTransport) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    id = queue.enqueue("hello")
    with pytest.raises(ConflictError):
        queue.mark(id, Status.DELIVERED)
    assert queue.get(id).status is Status.QUEUED
    queue.drain()
    for receipt, becomes in [
        (Status.DELIVERED, Status.DELIVERED),
        (Status.DELIVERED, Status.DELIVERED),
        (Status.READ, Status.READ),
        (Status.DELIVERED, Status.READ),
    ]:
        queue.mark(id, receipt)
        assert queue.get(id).status is becomes
    events.wait_for_status(id, Status.READ)
    assert events.statuses(id) == [Status.QUEUED, Status.SENDING, Status.SENT, Status.DELIVERED, Status.READ]


def test_R6_only_receipts_can_be_marked(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello")
    queue.drain()
    for status in (Status.QUEUED, Status.SENDING, Status.SENT, Status.FAILED):
        with pytest.raises(InvalidError):
            queue.mark(id, status)
    assert queue.get(id).status is Status.SENT


def test_R8_a_retry_on_demand_ends_within_three_seconds(opened: Opener, receiver: Receiver) -> None:
    events = Events()
    # The transport would wait much longer than its timeout: the queue ends the attempt.
    transport = HttpTransport(receiver.port, timeout=60)
    queue = opened(transport=transport, mode=Mode.MANUAL, direct=False, retry=NO_RETRY, on_event=events)
    id = failed(queue, receiver)
    with receiver.holding():
        start = time.monotonic()
        queue.retry(id)
        event = events.wait_for(EventKind.STATUS, lambda event: event.attempt == 2 and event.failure is not None)
        assert 2.5 < time.monotonic() - start < 4
        assert event.to_status is Status.FAILED
        failure = queue.get(id).failure
        assert failure is not None
        assert (failure.kind, failure.retryable) == (FailureKind.TIMEOUT, True)


RETRY_AND_DIE = """
    import signal, sys
    from msgqueue import MessageQueue, Mode
    from sender import HttpTransport

    queue = MessageQueue(sys.argv[1], transport=HttpTransport(int(sys.argv[2])), mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello", conversation="ana")
    queue.drain()
    print(id, queue.get(id).status.name, flush=True)
    queue.retry(id)
    signal.pause()
"""


@pytest.mark.parametrize(("hold", "becomes"), [(False, Status.QUEUED), (True, Status.FAILED)])
def test_R9_a_crash_during_a_retry_loses_nothing(
    opened: Opener, store: Path, receiver: Receiver, hold: bool, becomes: Status
) -> None:
    receiver.answer_next(400)
    with receiver.holding(lambda request: request.attempt == 2), program(RETRY_AND_DIE, store, receiver.port) as child:
        id, status = child.line().split()
        assert status == "FAILED"
        wait_until(lambda: len(receiver.received) == 2)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    queue = opened(hold_interrupted=hold)
    (message,) = queue.list()
    assert (message.id, message.text, message.status) == (id, "hello", becomes)
    assert [entry.outcome for entry in queue.attempts(id)] == [AttemptOutcome.REJECTED, AttemptOutcome.UNKNOWN]


def test_R11_only_failed_messages_can_be_retried(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello")
    with pytest.raises(ConflictError):
        queue.retry(id)
    with pytest.raises(NotFoundError):
        queue.retry("no such message")
    assert queue.get(id).status is Status.QUEUED
    queue.drain()
    with pytest.raises(ConflictError):
        queue.retry(id)
    assert receiver.ids == [id]


def test_R11_a_message_being_sent_is_busy(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    with receiver.holding():
        id = queue.enqueue("hello")
        wait_until(lambda: receiver.received)
        assert queue.get(id).status is Status.SENDING
        for action in (queue.retry, queue.send_now, queue.delete, lambda id: queue.edit(id, "changed")):
            with pytest.raises(BusyError):
                action(id)
    wait_until(lambda: queue.get(id).status is Status.SENT)
    assert receiver.texts == ["hello"]


def test_R11_ten_quick_retries_make_one_attempt(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    id = failed(queue, receiver)
    accepted = 0
    with receiver.holding():
        for _ in range(10):
            try:
                queue.retry(id)
                accepted += 1
            except (BusyError, ConflictError):
                pass
        wait_until(lambda: len(receiver.received) == 2)
    events.wait_for_status(id, Status.SENT)
    assert accepted == 1
    assert receiver.ids == [id, id]


@pytest.fixture
def refusing() -> Iterator[Receiver]:
    """Yields a receiver whose port refuses connections until it listens."""
    receiver = Receiver(listening=False)
    yield receiver
    receiver.stop()


def test_R12_a_refused_message_is_sent_by_a_retry(opened: Opener, refusing: Receiver) -> None:
    events = Events()
    queue = opened(transport=HttpTransport(refusing.port), mode=Mode.MANUAL, retry=NO_RETRY, on_event=events)
    id = queue.enqueue("hello")
    events.wait_for_status(id, Status.FAILED)
    failure = queue.get(id).failure
    assert failure is not None
    assert (failure.kind, failure.retryable) == (FailureKind.NETWORK, True)
    assert "ConnectionRefusedError" in failure.text
    refusing.listen()
    queue.retry(id)
    events.wait_for_status(id, Status.SENT)
    assert refusing.ids == [id]


def test_R13_ten_messages_are_reported_as_sent(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, on_event=events)
    queue.set_connectivity(Connectivity.ONLINE)
    ids = [queue.enqueue(str(number)) for number in range(10)]
    for id in ids:
        events.wait_for_status(id, Status.SENT)
        assert events.statuses(id) == [Status.QUEUED, Status.SENDING, Status.SENT]
    assert receiver.ids == ids


def test_R15_a_retry_while_offline_fails_again_and_can_be_repeated(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    id = failed(queue, receiver)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.retry(id)
    assert queue.get(id).status is Status.FAILED
    queue.retry(id)
    assert receiver.ids == [id]
    queue.set_connectivity(Connectivity.ONLINE)
    queue.retry(id)
    events.wait_for_status(id, Status.SENT)
    assert receiver.ids == [id, id]


def test_X4_an_expired_message_is_failed_and_not_sent(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    expires = datetime.now(timezone.utc) + timedelta(milliseconds=200)
    id = queue.enqueue("hello", expires_at=expires)
    wait_until(lambda: datetime.now(timezone.utc) > expires)
    queue.drain()
    message = queue.get(id)
    assert message.status is Status.FAILED
    assert message.failure is not None
    assert message.failure.kind is FailureKind.EXPIRED
    assert receiver.received == []

"""X4 and X5: expiry, not_before and unmetered links."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from conftest import Opener
from msgqueue import Connectivity, FailureKind, Link, MessageQueue, Mode, Reason, Status, Stop
from receiver import Receiver
from sender import HttpTransport
from support import Events, wait_until


def soon(seconds: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=seconds)


def is_expired(queue: MessageQueue, id: str) -> bool:
    """Returns whether the message failed because it expired."""
    message = queue.get(id)
    if message.status is not Status.FAILED:
        return False
    assert message.failure is not None
    assert (message.failure.kind, message.attempts) == (FailureKind.EXPIRED, 0)
    return True


@pytest.mark.parametrize("mode", Mode)
def test_X4_an_expired_message_fails_and_is_not_sent(
    opened: Opener, http: HttpTransport, receiver: Receiver, mode: Mode
) -> None:
    events = Events()
    queue = opened(transport=http, mode=mode, online_debounce=0, on_event=events)
    queue.set_connectivity(Connectivity.OFFLINE)
    late = queue.enqueue("late", conversation="ana", expires_at=soon(0.1))
    other = queue.enqueue("other", conversation="ana")
    wait_until(lambda: is_expired(queue, late))
    failure = events.wait_for_status(late, Status.FAILED).failure
    assert failure is not None
    assert failure.kind is FailureKind.EXPIRED
    queue.set_connectivity(Connectivity.ONLINE)
    queue.drain()
    wait_until(lambda: queue.get(other).status is Status.SENT)
    assert receiver.texts == ["other"]


def test_X4_the_option_expiry_applies_to_messages_without_their_own(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, expiry=0.1)
    queue.set_connectivity(Connectivity.OFFLINE)
    silent = queue.enqueue("says nothing")
    patient = queue.enqueue("says when", expires_at=soon(3600))
    wait_until(lambda: is_expired(queue, silent))
    assert queue.get(patient).status is Status.QUEUED


def test_X4_an_expired_message_can_be_retried_on_demand(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("late", expires_at=soon(0.05))
    wait_until(lambda: is_expired(queue, id))
    queue.retry(id)
    wait_until(lambda: queue.get(id).status is Status.SENT)
    assert receiver.ids == [id]


def test_X4_a_message_that_expired_while_the_queue_was_closed_is_not_sent(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened()
    id = queue.enqueue("late", expires_at=soon(0.1))
    queue.close()
    time.sleep(0.15)
    queue = opened(transport=http)
    wait_until(lambda: is_expired(queue, id))
    assert receiver.received == []


def test_X5_a_message_is_sent_automatically_at_its_time_and_not_before(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http)
    start, moment = time.monotonic(), soon(1.5)
    later = queue.enqueue("later", conversation="ana", not_before=moment)
    queue.enqueue("now", conversation="ana")
    wait_until(lambda: receiver.texts == ["now"])
    # Until the outcome of the other is recorded, the reason is that one.
    wait_until(lambda: queue.explain(later).code is Reason.SCHEDULED)
    wait_until(lambda: queue.get(later).status is Status.SENT)
    assert receiver.texts == ["now", "later"]
    # The two clocks may differ by some milliseconds.
    assert receiver.received[1].at - start >= 1.49


def test_X5_not_before_is_kept_through_a_restart(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    moment = soon(3600)
    id = queue.enqueue("later", not_before=moment)
    queue.close()
    queue = opened(transport=http, mode=Mode.MANUAL)
    assert queue.drain().stop is Stop.WAITING
    assert receiver.received == []
    queue.send_now(id)
    wait_until(lambda: queue.get(id).status is Status.SENT)


def test_X5_a_message_for_an_unmetered_link_blocks_no_other(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, online_debounce=0)
    queue.set_connectivity(Connectivity.ONLINE, Link.CELLULAR, metered=True)
    queue.enqueue("large", conversation="ana", unmetered_only=True)
    small = queue.enqueue("small", conversation="ana")
    wait_until(lambda: queue.get(small).status is Status.SENT)
    assert receiver.texts == ["small"]
    queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)
    wait_until(lambda: receiver.texts == ["small", "large"])

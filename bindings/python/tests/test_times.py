"""X4 and X5: expiry, not_before and unmetered links."""

from __future__ import annotations

import asyncio
import copy
import pickle
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    Connectivity,
    Draft,
    FailureKind,
    InvalidError,
    Link,
    Message,
    MessageQueue,
    Mode,
    Reason,
    Status,
    Stop,
    _arguments,
    _convert,
    aio,
    control,
)
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


@pytest.mark.parametrize("delay", [timedelta(hours=2), 7200, 7200.0])
def test_X5_a_delay_counts_from_now(opened: Opener, delay: timedelta | float) -> None:
    queue = opened(mode=Mode.MANUAL)
    before = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    ids = [
        queue.enqueue("one", delay=delay),
        *queue.enqueue_batch([{"body": "two", "delay": delay}, Draft("three", delay=delay)]),
        *queue.enqueue_bodies(["four"], delay=delay),
    ]
    after = datetime.now(timezone.utc)
    for id in ids:
        moment = queue.get(id).not_before
        assert moment is not None
        assert before <= moment - timedelta(hours=2) <= after


def test_X5_a_delay_of_0_is_none_and_a_short_one_is_not_lost(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    assert queue.get(queue.enqueue("now", delay=timedelta(0))).not_before is None
    id = queue.enqueue("soon", delay=timedelta(microseconds=1))
    assert queue.get(id).not_before is not None
    wait_until(lambda: queue.get(id).status is Status.SENT)


def test_X5_a_delay_in_asyncio_and_through_the_control_socket(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            ids = [
                await queue.enqueue("one", delay=60),
                *await queue.enqueue_bodies(["two"], delay=timedelta(minutes=1)),
            ]
            await queue.start_control()

            def call() -> str:
                with control.connect(store) as client:
                    with pytest.raises(InvalidError, match="not_before_ms and delay_ms must not both be given"):
                        client.call("enqueue", body="x", not_before_ms=1, delay_ms=1)
                    return str(client.call("enqueue", body="three", delay_ms=60_000)["message"])

            ids.append(await asyncio.get_running_loop().run_in_executor(None, call))
            for id in ids:
                moment = (await queue.get(id)).not_before
                assert moment is not None
                assert timedelta(seconds=40) < moment - datetime.now(timezone.utc) <= timedelta(minutes=1)

    asyncio.run(main())


@pytest.mark.parametrize("expiry", [timedelta(hours=1), 3600.0])
def test_X4_an_expiry_counts_from_now_or_from_the_start(opened: Opener, expiry: timedelta | float) -> None:
    queue = opened(mode=Mode.MANUAL, expiry=1.0)
    before = datetime.now(timezone.utc)
    ids = [queue.enqueue("a", expiry=expiry), queue.enqueue("b", delay=60, expiry=expiry)]
    ids += queue.enqueue_batch([Draft("c", expiry=expiry), {"body": "d", "expiry": expiry}])
    ids += queue.enqueue_bodies(["e"], expiry=expiry)
    ids.append(queue.enqueue("f", not_before=before + timedelta(hours=2), expiry=expiry))
    after = datetime.now(timezone.utc)
    spans = [1, 61 / 60, 1, 1, 1, 3]
    for id, hours in zip(ids, spans):
        expires_at = queue.get(id).expires_at
        assert expires_at is not None
        assert before + timedelta(hours=hours, milliseconds=-1) <= expires_at <= after + timedelta(hours=hours)
    short = queue.enqueue("short", id="short", expiry=0.05)
    wait_until(lambda: is_expired(queue, short))


def test_X4_an_expiry_in_asyncio_and_through_the_control_socket(store: Path) -> None:
    async def run() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            ids = [
                await queue.enqueue("a", expiry=60),
                *(await queue.enqueue_bodies(["b"], expiry=timedelta(minutes=1))),
            ]
            message = await queue.send("c", timeout=0, expiry=60)
            for each in [message, *[await queue.get(id) for id in ids]]:
                assert each.expires_at is not None
                assert 55 < (each.expires_at - each.created).total_seconds() < 65

    asyncio.run(run())
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.start_control()
        with control.connect(store) as client:
            id = client.call("enqueue", body="d", delay_ms=60_000, expiry_ms=60_000)["message"]
            with pytest.raises(InvalidError):
                client.call("enqueue", body="e", expires_at_ms=4_000_000_000_000, expiry_ms=1)
        message = queue.get(id)
        assert message.not_before is not None
        assert message.expires_at is not None
        assert message.expires_at - message.not_before == timedelta(minutes=1)


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


def test_X4_pages_of_messages_after_the_year_9999_end(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    for number, seconds in enumerate((9e14, 3e14, 6e14, 4e9)):
        queue.enqueue("later", id=f"m{number}", conversation=str(number), not_before=seconds)
    assert queue.get("m0").not_before == datetime.max.replace(tzinfo=timezone.utc)
    scheduled: list[Message] = []
    for _ in range(5):
        cursor = {"after": scheduled[-1].sequence, "after_time": scheduled[-1].not_before} if scheduled else {}
        scheduled += queue.list(waiting_for=Reason.SCHEDULED, limit=1, **cursor)  # type: ignore[arg-type]
    assert [message.id for message in scheduled] == ["m3", "m1", "m2", "m0"]


def test_a_time_after_the_year_9999_survives_a_copy() -> None:
    far = _convert.moment(2**62)
    for each in (far, copy.deepcopy(far), pickle.loads(pickle.dumps(far))):
        assert each == datetime.max.replace(tzinfo=timezone.utc)
        assert _arguments.moment("time", each) == 2**62
    assert _arguments.moment("time", far - timedelta(days=1)) < 2**48

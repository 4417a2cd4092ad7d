"""M: synchronising in the background."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from conftest import Opener
from msgqueue import (
    Connectivity,
    EventKind,
    Exhausted,
    FailureKind,
    Lifecycle,
    Link,
    Message,
    MessageQueue,
    Mode,
    NotFoundError,
    Outcome,
    Reason,
    Report,
    RetryPolicy,
    Status,
    Stop,
)
from receiver import Answer, Receiver
from sender import HttpTransport
from support import Events, wait_until

# Long enough that no retry falls due during a test.
LATER = RetryPolicy(ladder=[600])


def test_M1_a_message_carries_body_metadata_and_its_history(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    metadata = {"kind": "note", "empty": "", "words": "grüße, 世界"}
    id = queue.enqueue(b"\x00\xff bytes", conversation="ana", metadata=metadata)
    before = queue.get(id)
    assert (before.body, before.metadata, before.conversation) == (b"\x00\xff bytes", metadata, "ana")
    assert (before.attempts, before.last_attempt, before.failure) == (0, None, None)
    assert abs(datetime.now(timezone.utc) - before.created) < timedelta(minutes=1)
    queue.drain()
    after = queue.get(id)
    assert (after.attempts, after.metadata, after.created) == (1, metadata, before.created)
    assert after.last_attempt is not None
    assert after.last_attempt >= after.created
    (request,) = receiver.received
    assert (request.body, request.metadata, request.conversation) == (b"\x00\xff bytes", metadata, "ana")


def test_M2_direct_a_retryable_failure_leaves_the_message_queued(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, retry=LATER, on_event=events)
    receiver.answer_next(503)
    id = queue.enqueue("hello")
    event = events.wait_for(EventKind.STATUS, lambda event: event.from_status is Status.SENDING)
    assert (event.id, event.to_status, event.attempt) == (id, Status.QUEUED, 1)
    assert event.failure is not None
    assert event.failure.kind is FailureKind.SERVER
    message = queue.get(id)
    assert message.status is Status.QUEUED
    assert message.next_attempt is not None
    assert receiver.ids == [id]


def test_M2_direct_a_final_failure_is_reported_as_final(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, retry=LATER, on_event=events)
    receiver.answer_next(400)
    id = queue.enqueue("hello")
    event = events.wait_for_status(id, Status.FAILED)
    assert event.failure is not None
    assert (event.failure.kind, event.failure.retryable) == (FailureKind.REJECTED, False)


def test_M2_without_direct_only_drains_send(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    queue.set_connectivity(Connectivity.ONLINE)
    id = queue.enqueue("hello")
    assert queue.get(id).status is Status.QUEUED
    assert receiver.received == []
    queue.drain()
    assert receiver.ids == [id]


def test_M3_messages_are_sent_in_the_order_of_enqueueing(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    ids = [queue.enqueue(str(number), conversation="ana") for number in range(12)]
    ids += queue.enqueue_batch({"body": str(number), "conversation": "ana"} for number in range(12, 24))
    queue.drain()
    assert receiver.ids == ids
    assert receiver.texts == [str(number) for number in range(24)]


def gaps(receiver: Receiver) -> list[float]:
    """Returns the seconds between each request and the next."""
    times = [request.at for request in receiver.received]
    return [later - earlier for earlier, later in zip(times, times[1:])]


# The possible difference of two clocks that are read on two threads and rounded to milliseconds.
TOLERANCE = 0.01


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (RetryPolicy(ladder=[0.1, 0.3]), [0.1, 0.3]),
        (RetryPolicy(base=0.05, factor=3, cap=0.2, max_retries=3), [0.05, 0.15, 0.2]),
        (RetryPolicy(ladder=[0.1, 0.1, 0.1], max_retries=1), [0.1]),
        (RetryPolicy(ladder=[]), []),
    ],
    ids=["ladder", "exponential", "ladder cut by max_retries", "no retry"],
)
def test_M4_retries_follow_the_ladder_and_end_as_failed(
    opened: Opener, http: HttpTransport, receiver: Receiver, policy: RetryPolicy, delays: list[float]
) -> None:
    events = Events()
    queue = opened(transport=http, retry=policy, on_event=events)
    receiver.answer_by(lambda _: 503)
    id = queue.enqueue("hello")
    failure = events.wait_for_status(id, Status.FAILED).failure
    assert failure is not None
    assert failure.attempts == len(delays) + 1
    assert len(gaps(receiver)) == len(delays)
    assert all(gap >= delay - TOLERANCE for gap, delay in zip(gaps(receiver), delays))
    assert queue.get(id).attempts == len(delays) + 1


def test_M4_the_default_ladder_begins_with_five_seconds(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http)
    receiver.answer_next(503)
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).next_attempt is not None)
    assert delay(queue, queue.get(id)) == pytest.approx(5, abs=1)


def test_M4_jitter_varies_the_delay(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    policy = RetryPolicy(ladder=[1000], jitter=0.5)
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=policy)
    receiver.answer_by(lambda _: 503)
    for conversation in "abcdefgh":
        queue.enqueue("hello", conversation=conversation)
    assert queue.drain().stop is Stop.WAITING
    delays = [delay(queue, message) for message in queue.list()]
    assert all(499 <= each <= 1501 for each in delays)
    assert max(delays) - min(delays) > 1


def delay(queue: MessageQueue, message: Message) -> float:
    """Returns the seconds from the end of the last attempt to the next."""
    attempt = queue.attempts(message.id)[-1]
    assert attempt.duration is not None
    assert message.next_attempt is not None
    return (message.next_attempt - attempt.started).total_seconds() - attempt.duration


def test_M5_an_exhausted_message_is_discarded_when_the_option_is_set(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    policy = RetryPolicy(ladder=[0.05], exhausted=Exhausted.DISCARD)
    queue = opened(transport=http, retry=policy, on_event=events)
    receiver.answer_by(lambda _: 503)
    id = queue.enqueue("hello", conversation="ana")
    event = events.wait_for(EventKind.DISCARDED)
    assert (event.id, event.conversation) == (id, "ana")
    assert event.failure is not None
    assert (event.failure.kind, event.failure.attempts) == (FailureKind.SERVER, 2)
    with pytest.raises(NotFoundError):
        queue.get(id)


RETRIED = {
    408: None,
    425: None,
    429: FailureKind.RATE_LIMIT,
    500: FailureKind.SERVER,
    502: FailureKind.SERVER,
    503: FailureKind.SERVER,
    504: FailureKind.SERVER,
    520: None,
    999: None,
}
FINAL = {
    400: FailureKind.REJECTED,
    401: FailureKind.UNAUTHORIZED,
    403: FailureKind.UNAUTHORIZED,
    404: FailureKind.NOT_FOUND,
    410: FailureKind.NOT_FOUND,
    422: FailureKind.REJECTED,
}


def test_M6_the_http_status_decides_about_a_retry(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=LATER)
    receiver.answer_by(lambda request: int(request.text))
    accepted = {200: None, 201: None, 204: None}
    ids = {status: queue.enqueue(str(status), conversation=str(status)) for status in {**accepted, **RETRIED, **FINAL}}
    report = queue.drain()
    assert report == Report(Stop.WAITING, sent=len(accepted), failed=len(FINAL), discarded=0, remaining=len(RETRIED))
    for statuses, becomes in ((accepted, Status.SENT), (RETRIED, Status.QUEUED), (FINAL, Status.FAILED)):
        for status, kind in statuses.items():
            message = queue.get(ids[status])
            assert (status, message.status) == (status, becomes)
            if message.failure is not None:
                assert message.failure.code == status
            if kind is not None:
                assert message.failure is not None
                assert (status, message.failure.kind) == (status, kind)
            assert (message.next_attempt is not None) == (becomes is Status.QUEUED)


@pytest.mark.parametrize("conflict_is_sent", [False, True])
def test_D14_http_409_counts_as_sent_only_with_conflict_is_sent(
    opened: Opener, http: HttpTransport, receiver: Receiver, conflict_is_sent: bool
) -> None:
    events = Events()
    policy = RetryPolicy(ladder=[0.05, 0.05])
    queue = opened(transport=http, retry=policy, on_event=events, conflict_is_sent=conflict_is_sent)
    # After the first answer it is not known whether the message arrived.
    receiver.answer_next(504, 409)
    id = queue.enqueue("hello")
    events.wait_for_status(id, Status.SENT)
    assert receiver.ids == [id] * (2 if conflict_is_sent else 3)
    kinds = [attempt.kind for attempt in queue.attempts(id)]
    assert kinds[1] is (FailureKind.NONE if conflict_is_sent else FailureKind.SERVER)


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind is not FailureKind.NONE])
def test_M6_the_transport_may_decide_about_a_retry(opened: Opener, kind: FailureKind) -> None:
    answers = {"retry": Outcome.retry(kind, code=7, text="odd"), "reject": Outcome.reject(kind, code=8, text="no")}
    queue = opened(transport=lambda delivery: answers[delivery.text], mode=Mode.MANUAL, direct=False, retry=LATER)
    retried = queue.enqueue("retry", conversation="a")
    rejected = queue.enqueue("reject", conversation="b")
    queue.drain()
    for id, status, code, text in ((retried, Status.QUEUED, 7, "odd"), (rejected, Status.FAILED, 8, "no")):
        message = queue.get(id)
        assert message.status is status
        assert message.failure is not None
        assert (message.failure.kind, message.failure.code, message.failure.text) == (kind, code, text)


@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_M6_retry_after_in_seconds_delays_the_retry(
    opened: Opener, http: HttpTransport, receiver: Receiver, name: str
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[1]))
    receiver.answer_next(Answer(503, {name: "120"}))
    id = queue.enqueue("hello")
    queue.drain()
    assert delay(queue, queue.get(id)) == pytest.approx(120, abs=1)


def test_M6_retry_after_as_a_date_delays_the_retry(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[1]))
    date = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(minutes=5)
    receiver.answer_next(Answer(429, {"Retry-After": format_datetime(date, usegmt=True)}))
    id = queue.enqueue("hello")
    queue.drain()
    next_attempt = queue.get(id).next_attempt
    assert next_attempt is not None
    assert abs(next_attempt - date) < timedelta(seconds=1)


def test_M6_retry_after_of_the_transport_delays_the_retry(opened: Opener) -> None:
    outcome = Outcome.retry(FailureKind.RATE_LIMIT, retry_after=90.5)
    queue = opened(transport=lambda _: outcome, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[1]))
    id = queue.enqueue("hello")
    queue.drain()
    assert delay(queue, queue.get(id)) == pytest.approx(90.5, abs=0.5)


def test_M6_retry_after_for_the_queue_delays_all_messages(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    outcome = Outcome.retry(FailureKind.RATE_LIMIT, retry_after=600, retry_after_queue=True)
    queue = opened(transport=lambda _: outcome, mode=Mode.MANUAL, direct=False, retry=LATER)
    queue.enqueue("limited", conversation="a")
    held = queue.enqueue("held", conversation="b")
    report = queue.drain()
    assert (report.stop, report.remaining) == (Stop.WAITING, 2)
    assert queue.get(held).attempts == 0
    queue.set_transport(http)
    assert queue.drain().stop is Stop.WAITING
    assert receiver.received == []


def test_M7_an_unauthorized_answer_pauses_the_queue_until_resume(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, pause_on_unauthorized=True, on_event=events)
    ids = [queue.enqueue(str(number), conversation=str(number)) for number in range(3)]
    receiver.answer_next(401)
    report = queue.drain()
    assert (report.stop, report.failed, report.remaining) == (Stop.PAUSED, 0, 3)
    assert receiver.ids == ids[:1]
    event = events.wait_for(EventKind.PAUSED)
    assert (event.paused, event.conversation, event.failure_kind) == (True, None, FailureKind.UNAUTHORIZED)
    queue.resume()
    event = events.wait_for(EventKind.PAUSED, lambda event: event.paused is False)
    assert event.failure_kind is None
    assert queue.drain().sent == 3
    assert queue.counts().failed == 0


def test_M7_many_401_pause_the_queue_and_resume_sends_in_order(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, pause_on_unauthorized=True, online_debounce=0, on_event=events)
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(str(number), conversation="abc"[number % 3]) for number in range(12)]

    def pauses() -> int:
        return sum(event.paused is True for event in events.all(EventKind.PAUSED))

    receiver.answer_by(lambda _: 401)
    queue.set_connectivity(Connectivity.ONLINE)
    for storm in (1, 2, 3):
        wait_until(lambda: pauses() == storm)  # noqa: B023 - waited for in this very round
        # An enqueue while online would start sending if the queue were not paused.
        ids.append(queue.enqueue(f"later {storm}", conversation="d"))
        assert queue.drain().stop is Stop.PAUSED
        assert receiver.ids == ids[:1] * storm
        counts = queue.counts()
        assert (counts.queued, counts.failed, counts.sent) == (12 + storm, 0, 0)
        assert all(queue.explain(id).code is Reason.PAUSED for id in ids)
        if storm < 3:
            queue.resume()
    receiver.received.clear()
    receiver.answer_by(lambda _: 200)
    queue.resume()
    wait_until(lambda: queue.counts().sent == 15)
    assert receiver.ids == ids
    assert queue.stats().failures[FailureKind.UNAUTHORIZED] == 3


def test_M7_the_first_401_of_parallel_attempts_pauses_and_none_fails(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, pause_on_unauthorized=True, max_in_flight=4)
    receiver.answer_by(lambda _: 403)
    for number in range(20):
        queue.enqueue(str(number), conversation=str(number % 5))
    report = queue.drain()
    assert (report.stop, report.failed, report.remaining) == (Stop.PAUSED, 0, 20)
    # The pause ends the drain at once. Its attempts in progress end later, and would pause the queue again.
    wait_until(lambda: queue.counts().sending == 0)
    assert len(receiver.received) <= 4
    receiver.received.clear()
    receiver.answer_by(lambda _: 200)
    queue.resume()
    assert queue.drain().sent == 20
    for conversation in "01234":
        sent = [int(each.text) for each in receiver.received if each.conversation == conversation]
        assert sent == list(range(int(conversation), 20, 5))


def test_M8_a_drain_may_be_limited_to_a_batch(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, drain_batch=5)
    ids = [queue.enqueue(str(number)) for number in range(9)]
    assert queue.drain() == Report(Stop.BATCH, sent=5, failed=0, discarded=0, remaining=4)
    assert queue.drain(batch=1).remaining == 3
    assert receiver.ids == ids[:6]
    assert queue.drain().stop is Stop.EMPTY
    assert receiver.ids == ids


def test_M10_the_pending_count_is_reported_and_the_queue_can_be_cleared(opened: Opener) -> None:
    events = Events()
    queue = opened(on_event=events)
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(3):
        queue.enqueue("x" * 100, conversation=str(number))
    assert queue.counts().queued == 3
    assert queue.counts("1").queued == 1
    assert queue.counts().unsent_bytes == 300
    events.wait_for(
        EventKind.SUMMARY,
        lambda event: (
            event.counts is not None and event.counts.queued == 3 and event.connectivity is Connectivity.OFFLINE
        ),
    )
    queue.clear()
    assert queue.counts() == queue.counts("1")
    assert queue.list() == []
    events.wait_for(EventKind.SUMMARY, lambda event: event.counts is not None and event.counts.queued == 0)
    events.wait_for(EventKind.DELETED, lambda event: (event.id, event.conversation) == (None, None))


def test_M11_a_message_that_was_not_sent_uses_up_no_retry(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=lambda _: Outcome.offline(), mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[]))
    id = queue.enqueue("hello")
    for _ in range(5):
        report = queue.drain()
        assert (report.stop, report.failed, report.remaining) == (Stop.OFFLINE, 0, 1)
        message = queue.get(id)
        assert (message.status, message.attempts) == (Status.QUEUED, 0)
    queue.set_transport(http)
    assert queue.drain().sent == 1
    assert queue.get(id).attempts == 1
    assert receiver.ids == [id]


def test_a_paused_conversation_does_not_delay_others(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    for text in ("a", "b"):
        queue.enqueue(text, conversation=text)
    queue.pause("a")
    assert queue.drain().remaining == 1
    assert receiver.texts == ["b"]
    queue.resume("a")
    assert queue.drain().remaining == 0
    queue.pause()
    queue.enqueue("c")
    assert queue.drain().stop is Stop.PAUSED
    assert receiver.texts == ["b", "a"]


def test_M9_in_the_background_nothing_is_sent_automatically(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, online_debounce=0)
    queue.set_lifecycle(Lifecycle.BACKGROUND)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("composed in the background", conversation="a")
    queue.set_connectivity(Connectivity.ONLINE)
    # A message enqueued online is sent at once. When it has arrived, the other had time to be sent, too.
    queue.enqueue("enqueued online", conversation="b")
    wait_until(lambda: receiver.received)
    assert receiver.texts == ["enqueued online"]
    queue.set_lifecycle(Lifecycle.FOREGROUND)
    wait_until(lambda: len(receiver.received) == 2)


def test_X5_a_queue_with_unmetered_only_sends_nothing_over_a_metered_link(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, unmetered_only=True)
    queue.set_connectivity(Connectivity.ONLINE, Link.CELLULAR, metered=True)
    queue.enqueue("hello")
    assert queue.drain().stop is Stop.WAITING
    assert receiver.received == []
    queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)
    assert queue.drain().sent == 1


def test_X4_messages_without_an_expiry_expire_by_the_option(opened: Opener) -> None:
    queue = opened(expiry=3600)
    queue.set_connectivity(Connectivity.OFFLINE)
    message = queue.get(queue.enqueue("hello"))
    assert message.expires_at == message.created + timedelta(hours=1)


def test_a_drain_stops_at_its_timeout(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    for number in range(3):
        queue.enqueue(str(number))
    with receiver.holding():
        start = time.monotonic()
        report = queue.drain(timeout=0.2)
        assert time.monotonic() - start < 10
        assert report.stop is Stop.TIMEOUT
        assert report.remaining == 3


def test_X5_a_message_is_not_sent_before_its_not_before(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    moment = datetime.now(timezone.utc).replace(microsecond=123000) + timedelta(hours=1)
    later = queue.enqueue("later", not_before=moment, expires_at=moment.timestamp() + 60)
    now = queue.enqueue("now", conversation="ana")
    assert queue.drain().stop is Stop.WAITING
    assert receiver.ids == [now]
    message = queue.get(later)
    assert message.not_before == moment
    assert message.expires_at == moment + timedelta(minutes=1)


def test_X5_a_message_with_unmetered_only_is_not_sent_over_a_metered_link(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    queue.set_connectivity(Connectivity.ONLINE, Link.CELLULAR, metered=True)
    event = events.wait_for(EventKind.CONNECTIVITY)
    assert (event.connectivity, event.link, event.metered) == (Connectivity.ONLINE, Link.CELLULAR, True)
    id = queue.enqueue("large", unmetered_only=True)
    assert queue.get(id).unmetered_only
    assert queue.drain().stop is Stop.WAITING
    assert receiver.received == []
    queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)
    assert queue.drain().sent == 1

"""M13: refused messages are discarded with the option `refused`, with an event and a log line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from async_sender import AsyncHttpTransport, in_loop
from conftest import Opener
from msgqueue import (
    Connectivity,
    Event,
    EventKind,
    Exhausted,
    FailureKind,
    FinalFailure,
    Mode,
    NotFoundError,
    Outcome,
    Refused,
    Report,
    RetryPolicy,
    Status,
    Stop,
    aio,
)
from receiver import Receiver
from sender import HttpTransport
from support import Events, wait_until


def test_M13_a_refused_message_is_discarded_when_the_option_is_set(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, refused=Refused.DISCARD, on_event=events)
    receiver.answer_by(lambda request: 422 if request.text == "refused" else 200)
    id = queue.enqueue("refused", conversation="ana")
    queue.enqueue("goes on", conversation="ana")
    assert queue.drain() == Report(Stop.EMPTY, sent=1, failed=0, discarded=1, remaining=0)
    event = events.wait_for(EventKind.DISCARDED)
    assert (event.id, event.conversation) == (id, "ana")
    assert event.failure is not None
    assert (event.failure.kind, event.failure.code, event.failure.attempts) == (FailureKind.REJECTED, 422, 1)
    with pytest.raises(NotFoundError):
        queue.get(id)
    assert (queue.counts().failed, queue.stats().discarded) == (0, 1)


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_M13_a_refused_message_is_kept_by_default(
    opened: Opener, http: HttpTransport, receiver: Receiver, status: int
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(exhausted=Exhausted.DISCARD))
    receiver.answer_by(lambda _: status)
    id = queue.enqueue("refused")
    assert queue.drain().failed == 1
    assert queue.get(id).status is Status.FAILED


@pytest.mark.parametrize(
    ("outcome", "options", "said"),
    [
        (
            Outcome.reject(FailureKind.NOT_FOUND, code=410),
            {"refused": Refused.DISCARD},
            "1 attempt (not_found, code 410)",
        ),
        (
            Outcome.http(503),
            {"retry": RetryPolicy(ladder=[], exhausted=Exhausted.DISCARD)},
            "1 attempt (server, code 503)",
        ),
    ],
)
def test_M13_M5_event_and_log_line_carry_kind_and_code_without_a_text(
    opened: Opener,
    caplog: pytest.LogCaptureFixture,
    outcome: Outcome,
    options: dict[str, Any],
    said: str,
) -> None:
    events = Events()
    queue = opened(transport=lambda _: outcome, mode=Mode.MANUAL, direct=False, on_event=events, **options)
    id = queue.enqueue("hello")
    assert queue.drain().discarded == 1
    failure = events.wait_for(EventKind.DISCARDED).failure
    assert failure is not None
    assert (failure.code, failure.text) == (outcome.code, "")
    assert failure.kind in {FailureKind.NOT_FOUND, FailureKind.SERVER}
    end = f": message {id} is discarded after {said}"
    wait_until(lambda: any(record.getMessage().endswith(end) for record in caplog.records))


def test_M13_M7_pause_on_unauthorized_takes_precedence_over_discarding(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    options: dict[str, Any] = {
        "transport": http,
        "mode": Mode.MANUAL,
        "direct": False,
        "refused": Refused.DISCARD,
        "on_event": events,
    }
    queue = opened(pause_on_unauthorized=True, **options)
    receiver.answer_next(401)
    id = queue.enqueue("hello")
    assert queue.drain() == Report(Stop.PAUSED, sent=0, failed=0, discarded=0, remaining=1)
    assert queue.get(id).status is Status.QUEUED
    assert events.all(EventKind.DISCARDED) == []
    queue.close()
    queue = opened(**options)
    receiver.answer_next(401)
    assert queue.drain().discarded == 1


def test_M13_a_discarded_message_does_not_block_its_conversation(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(
        transport=http, mode=Mode.MANUAL, direct=False, refused=Refused.DISCARD, final_failure=FinalFailure.BLOCK
    )
    receiver.answer_next(400)
    for number in range(3):
        queue.enqueue(str(number), conversation="ana")
    report = queue.drain()
    assert (report.stop, report.discarded, report.sent) == (Stop.EMPTY, 1, 2)


def test_M13_a_failed_retry_keeps_the_message(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(
        transport=http,
        mode=Mode.MANUAL,
        direct=False,
        refused=Refused.DISCARD,
        retry=RetryPolicy(ladder=[]),
        on_event=events,
    )
    receiver.answer_next(503, 400)
    id = queue.enqueue("hello")
    assert queue.drain().failed == 1
    queue.retry(id)
    events.wait_for(EventKind.STATUS, lambda event: event.attempt == 2 and event.to_status is Status.FAILED)
    failure = queue.get(id).failure
    assert failure is not None
    assert failure.kind is FailureKind.REJECTED
    assert events.all(EventKind.DISCARDED) == []


def test_M13_discarding_in_asyncio(store: Path, receiver: Receiver) -> None:
    async def test() -> None:
        received: list[Event] = []
        transport = AsyncHttpTransport(receiver.port)
        async with aio.MessageQueue(
            store, transport, mode=Mode.MANUAL, direct=False, refused=Refused.DISCARD, on_event=received.append
        ) as queue:
            receiver.answer_next(422)
            await queue.enqueue("hello")
            assert (await queue.drain()).discarded == 1
        failures = [event.failure for event in received if event.kind is EventKind.DISCARDED]
        assert [failure.code for failure in failures if failure] == [422]

    in_loop(test())


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("answer", [Outcome.http(401), Outcome.retry()])
def test_M13_R8_a_retry_on_demand_while_offline_is_kept_when_it_fails_again(
    opened: Opener, answer: Outcome, restarts: bool
) -> None:
    answers = [Outcome.http(400)]
    options: dict[str, Any] = {"mode": Mode.AUTO, "online_debounce": 0}
    options["retry"] = RetryPolicy(ladder=[], exhausted=Exhausted.DISCARD)
    queue = opened(transport=lambda delivery: answers[0], **options)
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).status is Status.FAILED)
    queue.close()
    options["refused"] = Refused.DISCARD
    queue = opened(transport=lambda delivery: answers[0], **options)
    queue.set_connectivity(Connectivity.OFFLINE)
    answers[0] = answer
    queue.retry(id)
    assert queue.get(id).status is Status.QUEUED
    if restarts:
        queue.close()
        queue = opened(transport=lambda delivery: answers[0], **options)
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.get(id).status is Status.FAILED)

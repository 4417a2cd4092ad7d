"""X1: why a message is not sent yet."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from conftest import Opener
from msgqueue import (
    Connectivity,
    Explanation,
    FinalFailure,
    Lifecycle,
    Link,
    MessageQueue,
    Mode,
    NotFoundError,
    Outcome,
    Reason,
    RetryPolicy,
    Status,
)
from receiver import Answer, Receiver
from sender import HttpTransport
from support import wait_until


def explained(queue: MessageQueue, id: str, code: Reason) -> Explanation:
    """Returns the explanation after checking its code and that it has a sentence."""
    explanation = queue.explain(id)
    assert explanation.code is code, explanation
    assert explanation.text.endswith(".")
    return explanation


def within(until: datetime | None, seconds: float) -> bool:
    """Returns whether that time is known, in the future, and at most that far away."""
    now = datetime.now(timezone.utc)
    return until is not None and now < until <= now + timedelta(seconds=seconds)


def test_X1_explains_a_missing_transport(opened: Opener) -> None:
    queue = opened()
    explanation = explained(queue, queue.enqueue("hello"), Reason.NO_TRANSPORT)
    assert (explanation.until, explanation.behind) == (None, None)


def test_X1_explains_offline(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    queue.set_connectivity(Connectivity.OFFLINE)
    explanation = explained(queue, queue.enqueue("hello"), Reason.OFFLINE)
    assert explanation.text == "You're offline. It will be sent when connected."


def test_X1_explains_pauses_of_a_conversation_and_of_the_queue(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    queue.pause("ana")
    ana = queue.enqueue("hello", conversation="ana")
    explained(queue, ana, Reason.PAUSED)
    queue.pause()
    explained(queue, queue.enqueue("hello", conversation="ben"), Reason.PAUSED)
    queue.resume()
    explained(queue, ana, Reason.PAUSED)
    queue.resume("ana")
    wait_until(lambda: queue.explain(ana).code is Reason.NONE)


def test_X1_names_the_message_before_it(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    ids = [queue.enqueue(text, conversation="ana") for text in ("first", "second")]
    explained(queue, ids[0], Reason.PERSON)
    assert explained(queue, ids[1], Reason.BEHIND).behind == ids[0]


def test_X1_explains_sending_behind_and_next(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    with receiver.holding():
        first = queue.enqueue("first", conversation="ana")
        wait_until(lambda: receiver.received)
        explained(queue, first, Reason.SENDING)
        assert explained(queue, queue.enqueue("second", conversation="ana"), Reason.BEHIND).behind == first
        explained(queue, queue.enqueue("elsewhere", conversation="ben"), Reason.NEXT)
    wait_until(lambda: queue.counts().sent == 3)
    explained(queue, first, Reason.NONE)


def test_X1_names_the_failed_message_that_blocks(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, final_failure=FinalFailure.BLOCK)
    ids = [queue.enqueue(text, conversation="ana") for text in ("bad", "second", "third")]
    receiver.answer_next(400)
    queue.drain()
    explained(queue, ids[0], Reason.FAILED)
    for id in ids[1:]:
        assert explained(queue, id, Reason.BLOCKED).behind == ids[0]


def test_X1_explains_a_retry_with_its_time(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, retry=RetryPolicy(ladder=[60]))
    receiver.answer_next(503)
    id = queue.enqueue("hello", conversation="ana")
    wait_until(lambda: queue.get(id).next_attempt is not None)
    explanation = explained(queue, id, Reason.RETRYING)
    assert within(explanation.until, 60)
    assert explanation.until is not None
    message = queue.get(id)
    assert message.next_attempt is not None
    assert abs(explanation.until - message.next_attempt) < timedelta(seconds=1)
    assert re.fullmatch(r"The last attempt failed\. It is tried again in [1-6]\d s\.", explanation.text)
    second = queue.enqueue("second", conversation="ana")
    assert explained(queue, second, Reason.BEHIND).behind == id


def test_X1_explains_not_before(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    later = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)
    id = queue.enqueue("hello", conversation="ana", not_before=later)
    assert explained(queue, id, Reason.SCHEDULED).until == later
    # It blocks no other message.
    behind = queue.enqueue("now", conversation="ana")
    wait_until(lambda: queue.explain(behind).code is Reason.NONE)


def test_X1_explains_a_metered_link(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    queue.set_connectivity(Connectivity.ONLINE, Link.CELLULAR, metered=True)
    explained(queue, queue.enqueue("large", unmetered_only=True), Reason.METERED)


@pytest.mark.parametrize(
    ("mode", "text"),
    [(Mode.ASK, "Waiting for your confirmation."), (Mode.MANUAL, "Waiting for you to send it.")],
)
def test_X1_explains_that_a_person_must_send(opened: Opener, http: HttpTransport, mode: Mode, text: str) -> None:
    queue = opened(transport=http, mode=mode, online_debounce=0)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("hello")
    queue.set_connectivity(Connectivity.ONLINE)
    assert explained(queue, id, Reason.PERSON).text == text


def test_X1_explains_an_expired_message(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("hello", expires_at=datetime.now(timezone.utc) + timedelta(milliseconds=100))
    wait_until(lambda: queue.explain(id).code is Reason.FAILED)
    failure = queue.get(id).failure
    assert failure is not None
    assert failure.sentence == "It was too late to send this message. You can still retry."


def test_X1_explains_online_debounce(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, online_debounce=30)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("hello")
    queue.set_connectivity(Connectivity.ONLINE)
    assert within(explained(queue, id, Reason.HOLDING).until, 30)


def test_X1_explains_the_delay_of_a_receiver(opened: Opener) -> None:
    def busy(_: object) -> Outcome:
        return Outcome.http(429, {"Retry-After": "60"}, retry_after_queue=True)

    queue = opened(transport=busy)
    queue.enqueue("first", conversation="ana")
    wait_until(lambda: queue.stats().retried)
    other = queue.enqueue("other", conversation="ben")
    assert within(explained(queue, other, Reason.HOLDING).until, 60)


def test_X1_explains_the_next_trigger_in_the_background(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, online_debounce=0)
    queue.set_lifecycle(Lifecycle.BACKGROUND)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("hello")
    queue.set_connectivity(Connectivity.ONLINE)
    explained(queue, id, Reason.TRIGGER)
    queue.set_lifecycle(Lifecycle.FOREGROUND)
    wait_until(lambda: queue.get(id).status is Status.SENT)


def test_X1_explains_a_failed_message(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    receiver.answer_next(Answer(422, text="raw words"))
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).status is Status.FAILED)
    assert explained(queue, id, Reason.FAILED).text == "It could not be sent. You can retry, change or delete it."


def test_X1_an_unknown_id_is_not_found(opened: Opener) -> None:
    with pytest.raises(NotFoundError):
        opened().explain("no such message")


def test_X1_a_long_id_is_not_cut(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    longest = "\N{SLICE OF PIZZA}" * 63 + "end"
    queue.enqueue("first", conversation="ana", id=longest)
    assert queue.explain(queue.enqueue("second", conversation="ana")).behind == longest

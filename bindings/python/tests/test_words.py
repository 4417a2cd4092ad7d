"""Texts for people: H6, H7, A7, A8, R10, and the banner of Q2."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from conftest import Opener
from msgqueue import (
    Connectivity,
    EventKind,
    Failure,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
    relative_time,
)
from receiver import Answer, Receiver
from sender import HttpTransport
from support import Events, wait_until

NOW = datetime(2024, 3, 10, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(0), "Just now"),
        (timedelta(seconds=59.999), "Just now"),
        (timedelta(minutes=1), "1m ago"),
        (timedelta(minutes=5), "5m ago"),
        (timedelta(minutes=59, seconds=59), "59m ago"),
        (timedelta(hours=2), "2h ago"),
        (timedelta(hours=23, minutes=59), "23h ago"),
        (timedelta(days=1), "1d ago"),
        (timedelta(days=3), "3d ago"),
        (timedelta(days=6, hours=23), "6d ago"),
        (timedelta(days=7), "2024-03-03"),
        (timedelta(days=10), "2024-02-29"),
        (timedelta(days=366), "2023-03-10"),
    ],
)
def test_H6_a_time_is_relative_to_now(ago: timedelta, text: str) -> None:
    assert relative_time(NOW - ago, NOW) == text
    assert relative_time((NOW - ago).timestamp(), NOW.timestamp()) == text
    elsewhere = timezone(timedelta(hours=9))
    assert relative_time((NOW - ago).astimezone(elsewhere), NOW) == text


def test_H6_a_time_in_the_future_is_just_now(opened: Opener) -> None:
    assert relative_time(NOW + timedelta(seconds=1), NOW) == "Just now"
    assert relative_time(NOW + timedelta(days=4000), NOW) == "Just now"
    assert relative_time(datetime(1969, 7, 20, 20, tzinfo=timezone.utc), NOW) == "1969-07-20"
    assert relative_time(-1.0, 0) == "Just now"
    assert relative_time(datetime.min.replace(tzinfo=timezone.utc), NOW).endswith("-01-01")
    assert relative_time(datetime.max.replace(tzinfo=timezone.utc), NOW) == "Just now"
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    assert relative_time(queue.get(queue.enqueue("hello")).created) == "Just now"


def test_H6_now_is_the_current_time_by_default() -> None:
    assert relative_time(time.time()) == "Just now"
    assert relative_time(time.time() - 3 * 3600) == "3h ago"


@pytest.mark.parametrize("wrong", [float("nan"), 1e300, 10**400, datetime(2024, 3, 10)])
def test_H6_an_invalid_time_is_refused(wrong: float | datetime) -> None:
    with pytest.raises(InvalidError):
        relative_time(wrong)
    with pytest.raises(InvalidError):
        relative_time(NOW, wrong)


@pytest.mark.parametrize("wrong", [None, "yesterday", True])
def test_H6_a_time_of_a_wrong_type_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError):
        relative_time(wrong)  # type: ignore[arg-type]


def test_H7_the_offline_banner_disappears_within_two_seconds_of_being_online(opened: Opener) -> None:
    queue = opened()
    assert queue.banner() == ""
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.banner() == "You're offline."
    queue.set_transport(lambda _: Outcome.sent())
    assert queue.banner() == "You're offline. Messages will send when connected."
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.banner() == "", timeout=2)


def test_H7_with_queued_messages_the_offline_banner_disappears_and_they_are_sent(
    opened: Opener, http: HttpTransport
) -> None:
    queue = opened(transport=http)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("hello")
    assert queue.banner() == "You're offline. 1 message queued. It will be sent when connected."
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: "offline" not in queue.banner(), timeout=2)
    wait_until(lambda: queue.banner() == "" and queue.counts().sent == 1)


def test_Q2_the_banner_counts_what_is_queued(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.set_connectivity(Connectivity.OFFLINE)
    said = []
    for _ in range(5):
        queue.enqueue("hello")
        said.append(queue.banner())
    assert said[0] == "You're offline. 1 message queued."
    assert said[4] == "You're offline. 5 messages queued."
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.banner() == "5 messages queued."


def test_Q2_a_summary_follows_each_change(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    receiver.answer_by(lambda request: 400 if request.text == "bad" else 200)

    def wait_for_summary(queued: int, sent: int, failed: int) -> None:
        """Returns whether the latest summary has these numbers and agrees with `counts`."""

        def is_reported() -> bool:
            summaries = [event.counts for event in events.all(EventKind.SUMMARY)]
            last = summaries[-1] if summaries else None
            return last == queue.counts() and (last.queued, last.sent, last.failed) == (queued, sent, failed)

        wait_until(is_reported)

    queue.set_connectivity(Connectivity.OFFLINE)
    events.wait_for(EventKind.SUMMARY, lambda event: event.connectivity is Connectivity.OFFLINE)
    ids = []
    for number, text in enumerate(["good", "bad", "good"]):
        ids.append(queue.enqueue(text))
        wait_for_summary(queued=number + 1, sent=0, failed=0)
    queue.set_connectivity(Connectivity.ONLINE)
    events.wait_for(EventKind.SUMMARY, lambda event: event.connectivity is Connectivity.ONLINE)
    queue.drain()
    wait_for_summary(queued=0, sent=2, failed=1)
    queue.delete(ids[1])
    wait_for_summary(queued=0, sent=2, failed=0)


def test_A7_counts_are_available_by_conversation_and_in_total(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    for text in ("a1", "a2", "b1"):
        queue.enqueue(text, conversation=text[0])
    assert [queue.counts(name).queued for name in ("a", "b", "nobody")] == [2, 1, 0]
    assert queue.counts().queued == 3
    assert {each.name: each.counts.queued for each in queue.conversations()} == {"a": 2, "b": 1}


def test_A7_during_a_drain_the_banner_counts_the_remaining_messages(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, online_debounce=0)
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(3):
        queue.enqueue(str(number), conversation="ana")
    with receiver.holding():
        queue.set_connectivity(Connectivity.ONLINE)
        wait_until(lambda: receiver.received)
        assert queue.banner() == "Sending 3 messages…"
    with receiver.holding(lambda request: request.text == "last"):
        queue.enqueue("last", conversation="ana")
        wait_until(lambda: "last" in receiver.texts)
        assert queue.banner() == "Sending 1 message…"
    wait_until(lambda: queue.banner() == "")


def test_A7_the_banner_counts_failed_messages(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    receiver.answer_by(lambda _: 400)
    for number in range(2):
        queue.enqueue(str(number))
    queue.drain()
    assert queue.banner() == "2 messages failed."


def test_A8_each_status_has_a_label_and_an_icon() -> None:
    assert {status: (status.label, status.icon) for status in Status} == {
        Status.QUEUED: ("Queued", "clock"),
        Status.SENDING: ("Sending…", "arrow-up"),
        Status.SENT: ("Sent", "check"),
        Status.DELIVERED: ("Delivered", "check-double"),
        Status.READ: ("Read", "eye"),
        Status.FAILED: ("Failed", "alert"),
    }


def test_A8_the_label_follows_the_status_of_the_message(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("hello")
    said = [queue.get(id).status.label]
    with receiver.holding():
        queue.send_now(id)
        wait_until(lambda: receiver.received)
        said.append(queue.get(id).status.label)
    wait_until(lambda: queue.counts().sent)
    said.append(queue.get(id).status.label)
    for receipt in (Status.DELIVERED, Status.READ):
        queue.mark(id, receipt)
        said.append(queue.get(id).status.label)
    assert said == ["Queued", "Sending…", "Sent", "Delivered", "Read"]


def test_R10_each_kind_of_failure_has_one_plain_sentence() -> None:
    sentences = {kind: kind.sentence for kind in FailureKind}
    assert sentences.pop(FailureKind.NONE) == ""
    assert sentences[FailureKind.OFFLINE] == "No internet connection. Your message is saved and you can retry later."
    assert len(set(sentences.values())) == len(sentences) == 12
    for sentence in sentences.values():
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert not any(character.isdigit() for character in sentence)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.REJECTED),
        (401, FailureKind.UNAUTHORIZED),
        (404, FailureKind.NOT_FOUND),
        (408, FailureKind.TIMEOUT),
        (429, FailureKind.RATE_LIMIT),
        (503, FailureKind.SERVER),
    ],
)
def test_R10_the_sentence_contains_no_raw_text(
    opened: Opener, http: HttpTransport, receiver: Receiver, status: int, kind: FailureKind
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[]))
    receiver.answer_next(Answer(status, text="<h1>ECONNBORKED at 0xdeadbeef</h1>"))
    id = queue.enqueue("hello")
    queue.drain()
    failure = queue.get(id).failure
    assert failure is not None
    assert (failure.kind, failure.text) == (kind, "<h1>ECONNBORKED at 0xdeadbeef</h1>")
    assert failure.sentence == kind.sentence
    assert "0xdeadbeef" not in failure.sentence
    assert "0xdeadbeef" not in queue.explain(id).text
    assert "0xdeadbeef" not in queue.banner()


def failed(queue: MessageQueue) -> Failure:
    """Returns the failure of a message that is sent now."""
    id = queue.enqueue("hello")
    assert queue.drain().failed == 1
    failure = queue.get(id).failure
    assert failure is not None
    return failure


def test_R10_a_refused_connection_and_an_exception_have_sentences(opened: Opener) -> None:
    def explode(_: object) -> Outcome:
        raise ValueError("secret")

    queue = opened(mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[]))
    refusing = Receiver(listening=False)
    queue.set_transport(HttpTransport(refusing.port))
    assert failed(queue).sentence == FailureKind.NETWORK.sentence
    refusing.stop()
    queue.set_transport(explode)
    failure = failed(queue)
    assert "secret" in failure.text
    assert failure.sentence == FailureKind.UNKNOWN.sentence

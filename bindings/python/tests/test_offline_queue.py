"""Q: a queue that the user controls."""

from __future__ import annotations

import os
import signal
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    ConflictError,
    Connectivity,
    DuplicateError,
    EventKind,
    FailureKind,
    FullError,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    Report,
    RetryPolicy,
    Status,
    Stop,
)
from receiver import Received, Receiver
from sender import HttpTransport
from support import Events, program, wait_until


def test_Q1_a_message_enqueued_offline_is_queued_and_reported_by_an_event(opened: Opener) -> None:
    events = Events()
    queue = opened(on_event=events)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("hello", conversation="ana")
    assert queue.get(id).status is Status.QUEUED
    event = events.wait_for(EventKind.STATUS, lambda event: event.id == id)
    assert (event.conversation, event.from_status, event.to_status) == ("ana", None, Status.QUEUED)


COMPOSE_AND_DIE = """
    import signal, sys
    from msgqueue import Connectivity, MessageQueue, Mode
    from sender import HttpTransport

    queue = MessageQueue(sys.argv[1], transport=HttpTransport(int(sys.argv[2])), mode=Mode.MANUAL, direct=False)
    print(queue.enqueue("refused", conversation="ben"), flush=True)
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(5):
        print(queue.enqueue(f"message {number}", conversation="ana", metadata={"number": str(number)}), flush=True)
    signal.pause()
"""


def test_Q3_queued_and_failed_messages_survive_kill_9(opened: Opener, store: Path, receiver: Receiver) -> None:
    receiver.answer_next(400)
    with program(COMPOSE_AND_DIE, store, receiver.port) as child:
        ids = [child.line() for _ in range(6)]
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    messages = opened().list()
    assert [message.id for message in messages] == ids
    assert [message.status for message in messages] == [Status.FAILED] + [Status.QUEUED] * 5
    assert [message.text for message in messages] == ["refused"] + [f"message {number}" for number in range(5)]
    assert messages[0].failure is not None
    assert messages[0].failure.code == 400
    assert messages[5].metadata == {"number": "4"}


def with_backlog(opened: Opener, receiver: Receiver) -> MessageQueue:
    """Returns an offline queue with two failed and eight queued messages in two conversations."""
    queue = opened(transport=HttpTransport(receiver.port), mode=Mode.MANUAL, direct=False)
    receiver.answer_next(400, 400)
    queue.enqueue("0", conversation="ana")
    queue.enqueue("1", conversation="ben")
    assert queue.drain().failed == 2
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(2, 10):
        queue.enqueue(str(number), conversation="ben" if number % 2 else "ana")
    return queue


def test_Q5_all_unsent_messages_are_listed_in_order(opened: Opener, receiver: Receiver) -> None:
    messages = with_backlog(opened, receiver).list()
    assert [message.text for message in messages] == [str(number) for number in range(10)]
    assert [message.status for message in messages] == [Status.FAILED] * 2 + [Status.QUEUED] * 8
    assert [message.sequence for message in messages] == sorted(message.sequence for message in messages)
    assert {message.conversation for message in messages} == {"ana", "ben"}


def test_Q5_the_messages_of_one_conversation_are_listed_in_order(opened: Opener, receiver: Receiver) -> None:
    queue = with_backlog(opened, receiver)
    assert [message.text for message in queue.list("ben")] == ["1", "3", "5", "7", "9"]
    assert queue.list("nobody") == []


def test_Q5_messages_are_listed_by_status(opened: Opener, receiver: Receiver) -> None:
    queue = with_backlog(opened, receiver)
    assert [message.text for message in queue.list(status=Status.FAILED)] == ["0", "1"]
    assert [message.text for message in queue.list("ana", status=[Status.QUEUED, Status.SENT])] == ["2", "4", "6", "8"]
    assert len(queue.list(status=Status)) == 10


def test_Q5_messages_are_listed_page_by_page(opened: Opener, receiver: Receiver) -> None:
    queue = with_backlog(opened, receiver)
    pages, after = [], None
    while page := queue.list(limit=4, after=after):
        pages.append([message.text for message in page])
        after = page[-1].sequence
    assert pages == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]


def test_Q5_messages_are_listed_from_the_newest_backwards(opened: Opener, receiver: Receiver) -> None:
    queue = with_backlog(opened, receiver)
    first = queue.list(limit=3, newest_first=True)
    second = queue.list(limit=3, newest_first=True, after=first[-1].sequence)
    assert [message.text for message in first + second] == ["9", "8", "7", "6", "5", "4"]


def test_Q5_a_preview_has_100_whole_characters(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(text * 150) for text in ("a", "é", "\N{SLICE OF PIZZA}")] + [queue.enqueue("short")]
    previews = [queue.get(id).preview for id in ids]
    assert previews == ["a" * 100, "é" * 100, "\N{SLICE OF PIZZA}" * 100, "short"]


def test_Q5_a_list_without_bodies_has_previews_and_sizes(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("x" * 1000)
    (message,) = queue.list(bodies=False)
    assert (message.body, message.body_size, message.preview) == (None, 1000, "x" * 100)
    with pytest.raises(ValueError, match="without its body"):
        _ = message.text


def compose(queue: MessageQueue, *texts: str, conversation: str = "ana") -> list[str]:
    """Enqueues messages while offline, then goes online."""
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(text, conversation=conversation) for text in texts]
    queue.set_connectivity(Connectivity.ONLINE)
    return ids


def test_Q6_send_now_sends_one_message_before_earlier_ones(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, on_event=events)
    ids = compose(queue, "first", "second", "third")
    queue.send_now(ids[2])
    events.wait_for_status(ids[2], Status.SENT)
    assert receiver.texts == ["third"]
    assert [message.id for message in queue.list()] == ids[:2]


def test_Q6_an_edit_keeps_the_message_in_its_place(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    ids = compose(queue, "first", "second", "third")
    queue.edit(ids[0], "first, edited")
    edited = queue.get(ids[0])
    assert (edited.text, edited.preview, edited.status) == ("first, edited", "first, edited", Status.QUEUED)
    assert edited.edited is not None
    queue.drain()
    assert receiver.texts == ["first, edited", "second", "third"]
    assert receiver.ids == ids


def test_Q6_a_deleted_message_is_not_sent(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, on_event=events)
    ids = compose(queue, "first", "second", "third")
    queue.delete(ids[1])
    with pytest.raises(NotFoundError):
        queue.get(ids[1])
    events.wait_for(EventKind.DELETED, lambda event: (event.id, event.conversation) == (ids[1], "ana"))
    queue.drain()
    assert receiver.texts == ["first", "third"]


def test_Q6_a_sent_message_cannot_be_edited(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    (id,) = compose(queue, "gone")
    queue.drain()
    with pytest.raises(ConflictError):
        queue.edit(id, "too late")
    with pytest.raises(ConflictError):
        queue.send_now(id)
    assert queue.get(id).text == "gone"


def test_Q7_a_drain_sends_every_queued_message_in_order(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(str(number), conversation="abc"[number % 3]) for number in range(9)]
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.drain() == Report(stop=Stop.EMPTY, sent=9, failed=0, discarded=0, remaining=0)
    assert receiver.ids == ids


def test_Q8_messages_are_sent_one_at_a_time_by_default(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(8):
        queue.enqueue(str(number), conversation=str(number % 4))
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.drain().sent == 8
    assert receiver.most_at_once == 1


def test_Q8_two_messages_of_one_conversation_are_never_sent_at_a_time(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    # The first request of each conversation waits for those of the others: only parallel requests can continue.
    together = threading.Barrier(4, timeout=20)

    def answer(request: Received) -> int:
        if request.text == "0":
            together.wait()
        return 200

    receiver.answer_by(answer)
    queue = opened(transport=http, mode=Mode.MANUAL, max_in_flight=4)
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(5):
        for conversation in "abcd":
            queue.enqueue(str(number), conversation=conversation)
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.drain().sent == 20
    assert receiver.most_at_once == 4
    assert receiver.most_of_one_conversation_at_once == 1
    for conversation in "abcd":
        assert [each.text for each in receiver.received if each.conversation == conversation] == list("01234")


def test_Q9_a_sent_message_leaves_the_queue_as_sent(opened: Opener, http: HttpTransport) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, on_event=events)
    (id,) = compose(queue, "hello")
    queue.drain()
    assert queue.list() == []
    message = queue.get(id)
    assert message.status is Status.SENT
    assert message.sent is not None
    assert message.sent >= message.created
    assert events.statuses(id) == [Status.QUEUED, Status.SENDING, Status.SENT]
    counts = queue.counts()
    assert (counts.queued, counts.sending, counts.sent, counts.failed) == (0, 0, 1, 0)


def test_Q10_a_final_failure_keeps_its_reason_and_others_are_sent(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, on_event=events)
    receiver.answer_by(lambda request: 422 if request.text == "bad" else 200)
    ids = compose(queue, "first", "bad", "third")
    queue.drain()
    assert receiver.texts == ["first", "bad", "third"]
    (failed,) = queue.list()
    assert (failed.id, failed.status) == (ids[1], Status.FAILED)
    assert failed.failure is not None
    assert (failed.failure.kind, failed.failure.code) == (FailureKind.REJECTED, 422)
    receiver.answer_by(lambda _: 200)
    queue.retry(ids[1])
    events.wait_for_status(ids[1], Status.SENT)
    assert queue.list() == []


def test_Q14_a_queued_id_is_refused_and_nothing_changes(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.enqueue("one", id="the-id") == "the-id"
    before = queue.counts()
    with pytest.raises(DuplicateError):
        queue.enqueue("two", id="the-id", conversation="elsewhere")
    with pytest.raises(DuplicateError):
        queue.enqueue_batch([{"body": "new"}, {"body": "two", "id": "the-id"}])
    with pytest.raises(DuplicateError):
        queue.enqueue_batch([{"body": "a", "id": "twin"}, {"body": "b", "id": "twin"}])
    assert queue.counts() == before
    assert [message.text for message in queue.list()] == ["one"]


def test_Q15_bodies_become_messages_that_are_otherwise_alike(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    bodies: list[str | bytes] = ["text", b"\0\xff", "", b"", "\N{SNOWMAN}", b"x" * 5000] * 100
    later = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)
    ids = queue.enqueue_bodies(
        iter(bodies),
        conversation="ana",
        metadata={"k": "v"},
        not_before=later,
        expires_at=later + timedelta(hours=1),
        unmetered_only=True,
    )
    assert len(set(ids)) == len(bodies)
    messages = queue.list(conversation="ana", limit=1000)
    assert [message.id for message in messages] == ids
    assert [message.body for message in messages] == [
        body.encode() if isinstance(body, str) else body for body in bodies
    ]
    for message in messages:
        assert message.metadata == {"k": "v"}
        assert (message.not_before, message.expires_at) == (later, later + timedelta(hours=1))
        assert message.unmetered_only
    assert queue.enqueue_bodies([]) == []


def test_X11_bodies_are_stored_all_or_none(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_messages=100)
    queue.enqueue_bodies([b"one"] * 99)
    before = queue.counts()
    with pytest.raises(FullError):
        queue.enqueue_bodies([b"one", b"two"])
    assert queue.counts() == before
    with pytest.raises(InvalidError, match="1000000"):
        queue.enqueue_bodies([b""] * 1_000_001)
    assert queue.counts() == before


def test_Q14_a_sent_id_is_refused(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    id = queue.enqueue("one")
    queue.drain()
    with pytest.raises(DuplicateError):
        queue.enqueue("two", id=id)
    queue.drain()
    assert receiver.texts == ["one"]


def test_Q15_five_composed_offline_arrive_in_order(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(f"message {number}", conversation="ana") for number in range(5)]
    assert queue.drain().stop is Stop.OFFLINE
    assert receiver.received == []
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.drain().sent == 5
    assert receiver.ids == ids
    assert receiver.texts == [f"message {number}" for number in range(5)]
    assert queue.list() == []
    assert queue.counts().queued == 0


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.MANUAL])
def test_Q16_a_message_enqueued_online_is_sent_at_once(
    opened: Opener, http: HttpTransport, receiver: Receiver, mode: Mode
) -> None:
    events = Events()
    queue = opened(transport=http, mode=mode, on_event=events)
    queue.set_connectivity(Connectivity.ONLINE)
    id = queue.enqueue("hello", conversation="ana")
    events.wait_for_status(id, Status.SENT)
    assert receiver.texts == ["hello"]


def test_Q17_clear_removes_the_unsent_messages_of_a_conversation(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    receiver.answer_next(200, 400)
    sent = queue.enqueue("sent", conversation="ana")
    failed = queue.enqueue("failed", conversation="ana")
    queue.drain()
    queued = queue.enqueue("queued", conversation="ana")
    other = queue.enqueue("other", conversation="ben")
    queue.clear("ana")
    assert [message.id for message in queue.list()] == [other]
    assert queue.get(sent).status is Status.SENT
    for id in (failed, queued):
        with pytest.raises(NotFoundError):
            queue.get(id)
    events.wait_for(EventKind.DELETED, lambda event: (event.id, event.conversation) == (None, "ana"))
    queue.drain()
    assert receiver.texts == ["sent", "failed", "other"]


def test_Q18_a_drain_with_one_failure_sends_the_rest_and_reports_both(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL)
    receiver.answer_by(lambda request: 400 if request.text == "bad" else 200)
    ids = compose(queue, "a", "b", "bad", "c", "d")
    assert queue.drain() == Report(stop=Stop.EMPTY, sent=4, failed=1, discarded=0, remaining=0)
    assert queue.get(ids[2]).status is Status.FAILED
    assert [queue.get(id).status for id in ids[:2] + ids[3:]] == [Status.SENT] * 4


def test_Q4_going_online_raises_one_prompt_with_a_digest(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.ASK, on_event=events, online_debounce=0.05, retry=RetryPolicy(ladder=[]))
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(5):
        queue.enqueue("x" * 10, conversation=str(number % 2))
    queue.set_connectivity(Connectivity.ONLINE)
    prompt = events.wait_for(EventKind.PROMPT).prompt
    assert prompt is not None
    assert (prompt.messages, prompt.bytes, prompt.conversations, prompt.timeout) == (5, 50, 2, 10.0)
    assert prompt.oldest == queue.list()[0].created
    assert prompt.text == "Connected. Auto-send 5 queued messages?"
    assert receiver.received == []
    queue.drain()
    events.wait_for(EventKind.PROMPT_WITHDRAWN)
    assert len(receiver.received) == 5
    wait_until(lambda: events.all(EventKind.DRAIN_FINISHED))
    assert len(events.all(EventKind.PROMPT)) == 1

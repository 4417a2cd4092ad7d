"""A: the automatic queue."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from conftest import Opener
from msgqueue import Connectivity, EventKind, FinalFailure, Mode, Report, RetryPolicy, Status, Stop
from msgqueue._callbacks import call_guarded
from receiver import Receiver
from sender import HttpTransport
from support import Events, wait_until


def test_A1_queued_messages_are_sent_automatically_when_online(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, online_debounce=0.05)
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(str(number)) for number in range(5)]
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.counts().sent == 5)
    assert receiver.ids == ids


def test_A1_queued_messages_are_sent_automatically_after_a_restart(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened()
    ids = [queue.enqueue(str(number)) for number in range(5)]
    queue.close()
    queue = opened(transport=http)
    wait_until(lambda: queue.counts().sent == 5)
    assert receiver.ids == ids


def test_A2_a_message_queued_for_a_retry_blocks_only_its_own_conversation(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[0.3]))
    for text in ("a1", "a2", "b1", "b2"):
        queue.enqueue(text, conversation=text[0])
    receiver.answer_next(503)
    queue.drain()
    assert receiver.texts[:3] == ["a1", "b1", "b2"]
    wait_until(lambda: queue.drain().remaining == 0)
    assert receiver.texts == ["a1", "b1", "b2", "a1", "a2"]


def test_A2_without_strict_order_others_overtake_a_message_queued_for_a_retry(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    policy = RetryPolicy(ladder=[600])
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=policy, strict_order=False)
    for text in ("a1", "a2"):
        queue.enqueue(text, conversation="a")
    receiver.answer_next(503)
    queue.drain()
    assert receiver.texts == ["a1", "a2"]


def test_a_final_failure_may_block_its_conversation(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, final_failure=FinalFailure.BLOCK)
    ids = [queue.enqueue(text, conversation=text[0]) for text in ("a1", "a2", "b1")]
    receiver.answer_next(400)
    report = queue.drain()
    assert (report.sent, report.failed, report.remaining) == (1, 1, 1)
    assert receiver.texts == ["a1", "b1"]
    queue.delete(ids[0])
    assert queue.drain().sent == 1
    assert receiver.texts == ["a1", "b1", "a2"]


def test_A2_order_holds_through_a_restart(opened: Opener, store: Path, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[600]))
    ids = {text: queue.enqueue(text, conversation=text[0]) for text in ("a1", "a2", "b1")}
    receiver.answer_next(503)
    queue.drain()
    assert receiver.texts == ["a1", "b1"]
    queue.close()

    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[600]))
    queue.enqueue("b2", conversation="b")
    assert queue.drain().stop is Stop.WAITING
    assert receiver.texts == ["a1", "b1", "b2"]
    queue.send_now(ids["a1"])
    wait_until(lambda: queue.get(ids["a1"]).status is Status.SENT)
    queue.drain()
    assert receiver.texts == ["a1", "b1", "b2", "a1", "a2"]


def test_A3_each_message_of_a_mixed_queue_ends_in_its_status(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[600]))
    answers = {"good": 200, "bad": 400, "late": 503}
    becomes = {"good": Status.SENT, "bad": Status.FAILED, "late": Status.QUEUED}
    receiver.answer_by(lambda request: answers[request.text])
    words = ["good", "bad", "good", "late", "bad", "good", "late"]
    ids = [queue.enqueue(word, conversation=str(place)) for place, word in enumerate(words)]
    assert queue.drain() == Report(Stop.WAITING, sent=3, failed=2, discarded=0, remaining=2)
    assert [queue.get(id).status for id in ids] == [becomes[word] for word in words]
    counts = queue.counts()
    assert (counts.sent, counts.failed, counts.queued, counts.sending) == (3, 2, 2, 0)


def test_A6_a_second_drain_joins_the_first(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    ids = [queue.enqueue(str(number)) for number in range(5)]
    reports: list[Report] = []

    def drain() -> None:
        reports.append(queue.drain())

    threads = [threading.Thread(target=drain) for _ in range(4)]
    with receiver.holding():
        threads[0].start()
        wait_until(lambda: receiver.received)
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: all(is_draining(thread) for thread in threads))
    for thread in threads:
        thread.join()
    assert reports == [Report(Stop.EMPTY, sent=5, failed=0, discarded=0, remaining=0)] * 4
    assert receiver.ids == ids
    assert len(events.all(EventKind.DRAIN_STARTED)) == 1
    (finished,) = events.all(EventKind.DRAIN_FINISHED)
    assert finished.report == reports[0]


def is_draining(thread: threading.Thread) -> bool:
    """Returns whether the innermost Python function of the thread is the one that calls the library."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is call_guarded.__code__


def test_A9_receipts_move_a_sent_message_to_delivered_and_read(opened: Opener, http: HttpTransport) -> None:
    events = Events()
    queue = opened(transport=http, on_event=events)
    id = queue.enqueue("hello", conversation="ana")
    events.wait_for_status(id, Status.SENT)
    for receipt in (Status.DELIVERED, Status.READ):
        queue.mark(id, receipt)
        event = events.wait_for_status(id, receipt)
        assert event.conversation == "ana"
        assert queue.get(id).status is receipt
    assert events.statuses(id) == [Status.QUEUED, Status.SENDING, Status.SENT, Status.DELIVERED, Status.READ]
    counts = queue.counts("ana")
    assert (counts.sent, counts.delivered, counts.read) == (0, 0, 1)


def test_A9_a_read_receipt_that_arrives_first_counts(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).status is Status.SENT)
    queue.mark(id, Status.READ)
    queue.mark(id, Status.DELIVERED)
    assert queue.get(id).status is Status.READ
    queue.close()
    assert opened().get(id).status is Status.READ

"""X: ledger, interrupted attempts, pending attempts, limits, backups."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    Arrival,
    Attempt,
    AttemptOutcome,
    ConflictError,
    Connectivity,
    Delivery,
    FailureKind,
    FullError,
    Mode,
    NotFoundError,
    Outcome,
    Report,
    Result,
    RetryPolicy,
    Status,
    Stop,
    TooLargeError,
)
from receiver import Answer, Receiver
from sender import HttpTransport
from support import Events, program, wait_until


def test_X2_the_ledger_has_every_attempt_and_survives_a_restart(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, retry=RetryPolicy(ladder=[0.05, 0.05]))
    receiver.answer_next(Answer(503, text="try later"), Answer(429, text="too many"), 200)
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).status is Status.SENT)
    ledger = queue.attempts(id)
    assert [entry.number for entry in ledger] == [1, 2, 3]
    assert [entry.outcome for entry in ledger] == [AttemptOutcome.RETRY, AttemptOutcome.RETRY, AttemptOutcome.SENT]
    assert [entry.kind for entry in ledger] == [FailureKind.SERVER, FailureKind.RATE_LIMIT, FailureKind.NONE]
    assert [entry.code for entry in ledger] == [503, 429, 200]
    assert [entry.text for entry in ledger[:2]] == ["try later", "too many"]
    assert ledger[2].arrival is Arrival.YES
    assert [entry.started for entry in ledger] == sorted(entry.started for entry in ledger)
    assert all(entry.duration is not None and 0 <= entry.duration < 20 for entry in ledger)
    queue.close()
    assert opened().attempts(id) == ledger


def test_X2_a_message_without_attempts_has_an_empty_ledger(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.attempts(queue.enqueue("hello")) == []
    with pytest.raises(NotFoundError):
        queue.attempts("no such message")


def test_X2_an_attempt_in_progress_is_in_the_ledger(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    with receiver.holding():
        id = queue.enqueue("hello")
        wait_until(lambda: receiver.received)
        (entry,) = queue.attempts(id)
        assert (entry.number, entry.outcome, entry.duration) == (1, AttemptOutcome.UNDER_WAY, None)
        assert queue.counts().sending == 1


SEND_AND_DIE = """
    import signal, sys
    from msgqueue import MessageQueue
    from sender import HttpTransport

    queue = MessageQueue(sys.argv[1], transport=HttpTransport(int(sys.argv[2])))
    print(queue.enqueue("hello", conversation="ana"), flush=True)
    signal.pause()
"""


def cut(store: Path, receiver: Receiver) -> str:
    """Returns a message whose process was killed after its first attempt reached the receiver."""
    with receiver.holding(), program(SEND_AND_DIE, store, receiver.port) as child:
        id = child.line()
        wait_until(lambda: receiver.received)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        return id


def unknown(entry: Attempt) -> None:
    assert (entry.number, entry.outcome, entry.arrival) == (1, AttemptOutcome.UNKNOWN, Arrival.PERHAPS)
    assert entry.duration is None


def test_X3_an_attempt_interrupted_by_a_crash_is_recorded_and_its_message_sent_again(
    opened: Opener, store: Path, http: HttpTransport, receiver: Receiver
) -> None:
    id = cut(store, receiver)
    queue = opened()
    message = queue.get(id)
    assert (message.status, message.attempts) == (Status.QUEUED, 1)
    unknown(*queue.attempts(id))
    queue.set_transport(http)
    wait_until(lambda: queue.get(id).status is Status.SENT)
    assert receiver.ids == [id, id]
    assert [request.attempt for request in receiver.received] == [1, 2]


def test_X3_hold_interrupted_holds_an_interrupted_attempt_for_a_person(
    opened: Opener, store: Path, http: HttpTransport, receiver: Receiver
) -> None:
    id = cut(store, receiver)
    queue = opened(transport=http, hold_interrupted=True)
    message = queue.get(id)
    assert message.status is Status.FAILED
    assert message.failure is not None
    assert message.failure.kind is FailureKind.UNKNOWN
    unknown(*queue.attempts(id))
    assert receiver.ids == [id]
    queue.retry(id)
    wait_until(lambda: queue.get(id).status is Status.SENT)
    assert receiver.ids == [id, id]


def test_X8_a_transport_may_complete_later_from_any_thread(opened: Opener) -> None:
    taken: list[Delivery] = []

    def transport(delivery: Delivery) -> Outcome:
        taken.append(delivery)
        return Outcome.pending()

    events = Events()
    queue = opened(transport=transport, on_event=events)
    id = queue.enqueue("hello")
    wait_until(lambda: taken)
    assert queue.get(id).status is Status.SENDING
    answering = threading.Thread(target=queue.complete, args=(taken[0].token, Outcome.sent()))
    answering.start()
    answering.join()
    events.wait_for_status(id, Status.SENT)
    with pytest.raises(ConflictError):
        queue.complete(taken[0].token, Outcome.sent())
    with pytest.raises(NotFoundError):
        queue.complete(2**63, Outcome.sent())


def test_X8_several_attempts_may_be_completed_by_one_call(opened: Opener) -> None:
    taken: list[Delivery] = []

    def transport(delivery: Delivery) -> Outcome:
        taken.append(delivery)
        return Outcome.pending()

    queue = opened(transport=transport, mode=Mode.MANUAL, direct=False, max_in_flight=3, attempt_timeout=600)
    ids = [queue.enqueue("hello", conversation=name) for name in ("ana", "ben", "carl")]
    drain = threading.Thread(target=queue.drain)
    drain.start()
    wait_until(lambda: len(taken) == 3)
    tokens = {delivery.id: delivery.token for delivery in taken}
    answers = [(tokens[id], Outcome.sent()) for id in ids[:2]]
    answers += [(tokens[ids[2]], Outcome.reject(code=7, text="no")), (tokens[ids[0]], Outcome.sent())]
    results = queue.complete_batch([*answers, (2**63, Outcome.sent())])
    assert results == [Result.OK, Result.OK, Result.OK, Result.CONFLICT, Result.NOT_FOUND]
    drain.join()
    assert [queue.get(id).status for id in ids] == [Status.SENT, Status.SENT, Status.FAILED]
    rejected = queue.get(ids[2]).failure
    assert rejected is not None
    assert (rejected.code, rejected.text) == (7, "no")
    assert queue.complete_batch([]) == []


def test_X8_an_attempt_may_be_completed_before_the_transport_returns(opened: Opener) -> None:
    events = Events()
    queue = opened(on_event=events)

    def transport(delivery: Delivery) -> Outcome:
        queue.complete(delivery.token, Outcome.reject(FailureKind.REJECTED, code=7, text="early"))
        return Outcome.pending()

    queue.set_transport(transport)
    failure = events.wait_for_status(queue.enqueue("hello"), Status.FAILED).failure
    assert failure is not None
    assert (failure.code, failure.text) == (7, "early")


def test_X8_a_drain_continues_after_an_attempt_completed_before_the_return(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)

    def transport(delivery: Delivery) -> Outcome:
        queue.complete(delivery.token, Outcome.sent())
        # This call still occupies the conversation. The drain must wait for it and not report that nothing is due.
        time.sleep(0.05)
        return Outcome.pending()

    queue.set_transport(transport)
    for number in range(3):
        queue.enqueue(str(number), conversation="ana")
    assert queue.drain() == Report(Stop.EMPTY, sent=3, failed=0, discarded=0, remaining=0)


def test_X8_only_a_success_counts_after_the_time_out(opened: Opener) -> None:
    taken: dict[str, int] = {}

    def transport(delivery: Delivery) -> Outcome:
        taken[delivery.id] = delivery.token
        return Outcome.pending()

    events = Events()
    queue = opened(transport=transport, attempt_timeout=0.1, retry=RetryPolicy(ladder=[]), on_event=events)
    late, never = queue.enqueue("late", conversation="a"), queue.enqueue("never", conversation="b")
    for id in (late, never):
        failure = events.wait_for_status(id, Status.FAILED).failure
        assert failure is not None
        assert failure.kind is FailureKind.TIMEOUT
    with pytest.raises(ConflictError):
        queue.complete(taken[never], Outcome.reject())
    queue.complete(taken[late], Outcome.sent())
    events.wait_for_status(late, Status.SENT)
    assert queue.get(never).status is Status.FAILED


def test_X11_the_limit_of_messages(opened: Opener) -> None:
    queue = opened(limit_messages=2)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("one")
    with pytest.raises(FullError):
        queue.enqueue_batch([{"body": "two"}, {"body": "three"}])
    queue.enqueue("two")
    with pytest.raises(FullError):
        queue.enqueue("three")
    assert [message.text for message in queue.list()] == ["one", "two"]


def test_X11_the_limit_of_bytes(opened: Opener) -> None:
    queue = opened(limit_bytes=10)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("12345678")
    with pytest.raises(FullError):
        queue.enqueue("123")
    with pytest.raises(FullError):
        queue.edit(id, "12345678901")
    queue.enqueue("12")
    assert queue.counts().unsent_bytes == 10
    assert [message.text for message in queue.list()] == ["12345678", "12"]


def test_X11_the_limit_of_one_body(opened: Opener) -> None:
    queue = opened(limit_body=5)
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("12345")
    with pytest.raises(TooLargeError):
        queue.enqueue("123456")
    with pytest.raises(TooLargeError):
        queue.edit(id, "123456")
    assert [message.text for message in queue.list()] == ["12345"]


def test_X11_the_limit_of_metadata(opened: Opener) -> None:
    queue = opened(limit_metadata=10)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("fits", metadata={"key": "1234567"})
    with pytest.raises(TooLargeError):
        queue.enqueue("does not", metadata={"key": "12345678"})
    assert [message.text for message in queue.list()] == ["fits"]


def rows(file: Path) -> list[tuple[object, ...]]:
    """Returns the table of messages, read by SQLite, after a check for damage."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return database.execute("SELECT * FROM message ORDER BY rowid").fetchall()


def holds(row: tuple[object, ...], body: str) -> bool:
    return body in row or body.encode() in row


def test_X12_sqlite_reads_a_closed_store(opened: Opener, store: Path) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(3):
        queue.enqueue(f"body {number}", conversation="ana")
    queue.close()
    found = rows(store)
    assert len(found) == 3
    assert all(holds(row, f"body {number}") for number, row in enumerate(found))


def test_X12_a_backup_is_consistent_while_the_queue_is_in_use(opened: Opener, tmp_path: Path) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(f"body {number}") for number in range(3)]
    copy = tmp_path / "copy.db"
    queue.backup(copy)
    queue.enqueue("later")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    found = rows(copy)
    assert len(found) == 3
    assert all(holds(row, f"body {number}") for number, row in enumerate(found))
    with pytest.raises(ConflictError):
        queue.backup(copy)
    restored = opened(copy)
    assert [message.id for message in restored.list()] == ids


def test_H1_keep_sent_limits_the_history(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, keep_sent=2, keep_sent_for=None)
    for number in range(5):
        queue.enqueue(str(number))
    assert queue.drain().sent == 5
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("queued")
    wait_until(lambda: [message.text for message in queue.list(status=Status)] == ["3", "4", "queued"])


@pytest.mark.parametrize("mode", Mode)
def test_a_queue_opens_in_every_mode(opened: Opener, mode: Mode) -> None:
    queue = opened(mode=mode)
    assert queue.counts().queued == 0

"""M16: the engine over a real store in simulated time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from msgqueue import (
    ClosedError,
    ConflictError,
    Connectivity,
    Delivery,
    Draft,
    EventKind,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
    Stop,
)
from msgqueue.simulation import SimulatedQueue

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
LADDER = RetryPolicy(ladder=[5, 30, 120], max_retries=3, jitter=0)


class Receiver:
    """A transport that notes the seconds after START at which it was called."""

    def __init__(self) -> None:
        self.queue: SimulatedQueue | None = None
        self.outcome = Outcome.retry(FailureKind.SERVER)
        self.duration = 0.0
        self.times: list[float] = []

    def __call__(self, delivery: Delivery) -> Outcome:
        assert self.queue is not None
        self.times.append((self.queue.now - START).total_seconds())
        self.queue.advance(self.duration)
        return self.outcome


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def opened(store: Path, receiver: Receiver) -> Iterator[Any]:
    queues: list[SimulatedQueue] = []

    def opener(**options: Any) -> SimulatedQueue:
        options.setdefault("start", START)
        options.setdefault("transport", receiver)
        queue = receiver.queue = SimulatedQueue(store, **options)
        queues.append(queue)
        return queue

    yield opener
    for queue in queues:
        queue.close(timeout=0)


def test_M16_the_ladder_of_5_s_30_s_and_2_min_takes_no_time(opened: Any, receiver: Receiver) -> None:
    began = time.monotonic()
    queue = opened(retry=LADDER)
    queue.enqueue("hello", conversation="ana", id="a")
    assert queue.advance(timedelta(minutes=3)) == START + timedelta(minutes=3)
    assert receiver.times == pytest.approx([0, 5, 35, 155], abs=0.05)
    assert queue.get("a").status is Status.FAILED
    assert [attempt.number for attempt in queue.attempts("a")] == [1, 2, 3, 4]
    assert time.monotonic() - began < 60


def test_M16_a_drain_moves_the_clock_instead_of_waiting(opened: Any, receiver: Receiver) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, attempt_timeout=30.0, retry=LADDER)
    receiver.outcome = Outcome.pending()
    queue.enqueue("hello")
    assert queue.drain(timeout=10).stop is Stop.TIMEOUT
    assert 10 <= (queue.now - START).total_seconds() < 11
    assert queue.drain().remaining == 1
    assert 30 <= (queue.now - START).total_seconds() < 31


def test_M16_a_wait_and_a_send_move_the_clock_instead_of_waiting(opened: Any, receiver: Receiver) -> None:
    queue = opened(attempt_timeout=30.0, retry=LADDER)
    receiver.outcome = Outcome.pending()
    message = queue.send("hello", time=START - timedelta(days=1), timeout=10)
    assert (message.status, message.time) == (Status.SENDING, START - timedelta(days=1))
    assert 10 <= (queue.now - START).total_seconds() < 11
    assert queue.wait(message.id).failure.kind is FailureKind.TIMEOUT
    assert 30 <= (queue.now - START).total_seconds() < 31


def test_M16_a_poll_moves_the_clock_to_what_is_due(opened: Any, receiver: Receiver) -> None:
    queue = opened(retry=LADDER)
    queue.enqueue("hello")
    while len(receiver.times) < 2:
        queue.poll(600)
    assert receiver.times == pytest.approx([0, 5], abs=0.05)


def test_M16_a_slow_receiver_and_events_have_times_of_the_clock(opened: Any, receiver: Receiver) -> None:
    events: list[tuple[EventKind, datetime]] = []
    queue = opened(on_event=lambda event: events.append((event.kind, event.at)))
    receiver.outcome, receiver.duration = Outcome.sent(), 7.0
    queue.enqueue("hello", id="a")
    queue.advance(1)
    assert [attempt.duration for attempt in queue.attempts("a")] == [7.0]
    assert queue.get("a").sent == START + timedelta(seconds=7)
    assert all(START <= at <= START + timedelta(seconds=8) for _, at in events)


def test_M16_a_delay_counts_from_the_clock_of_the_queue(opened: Any, receiver: Receiver) -> None:
    queue = opened()
    receiver.outcome = Outcome.sent()
    queue.advance(timedelta(days=1))
    queue.enqueue("hello", id="a", delay=timedelta(hours=1))
    (second,) = queue.enqueue_batch([{"body": "again", "delay": 7200.0}])
    queue.enqueue_bodies(["b"], delay=10800.0)
    assert queue.get("a").not_before == START + timedelta(days=1, hours=1)
    assert queue.get(second).not_before == START + timedelta(days=1, hours=2)
    queue.advance(timedelta(minutes=59))
    assert receiver.times == []
    queue.advance(timedelta(hours=3))
    assert [round(each / 3600 - 24, 3) for each in receiver.times] == [1, 2, 3]


def test_M16_expiry_and_history_over_hours(opened: Any, receiver: Receiver) -> None:
    queue = opened(expiry=3600.0, keep_sent_for=10 * 3600.0)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("late", id="late")
    queue.advance(timedelta(hours=1, minutes=2))
    assert queue.get("late").failure.kind is FailureKind.EXPIRED
    receiver.outcome = Outcome.sent()
    queue.set_connectivity(Connectivity.ONLINE)
    queue.enqueue("sent", id="sent")
    queue.advance(timedelta(hours=9))
    assert queue.get("sent").status is Status.SENT
    queue.advance(timedelta(hours=2))
    assert queue.counts().sent == 0


def test_M16_offline_and_the_ladder_of_connectivity(opened: Any, receiver: Receiver) -> None:
    queue = opened(initial_connectivity=Connectivity.OFFLINE)
    receiver.outcome = Outcome.sent()
    queue.enqueue("hello")
    queue.advance(3600)
    assert receiver.times == []
    queue.set_connectivity(Connectivity.ONLINE)
    queue.advance(1)
    assert receiver.times == pytest.approx([3600.5], abs=0.1)


def test_M16_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    def run(name: str, seed: int) -> tuple[list[float], str]:
        receiver = Receiver()
        policy = RetryPolicy(ladder=[5, 30, 120], max_retries=3, jitter=0.5)
        with SimulatedQueue(tmp_path / name, receiver, start=START, seed=seed, retry=policy) as queue:
            receiver.queue = queue
            id = queue.enqueue("hello")
            queue.advance(600)
        return receiver.times, id

    assert run("a.db", 1) == run("b.db", 1)
    assert run("c.db", 2)[0] != run("a2.db", 1)[0]


def test_M16_the_store_is_a_real_one(store: Path, opened: Any, receiver: Receiver) -> None:
    queue = opened()
    queue.enqueue("hello", id="a")
    queue.advance(1)
    queue.close()
    with MessageQueue(store, read_only=True) as real:
        assert real.get("a").status is Status.QUEUED
    receiver.outcome = Outcome.sent()
    again = opened(start=START + timedelta(days=1))
    again.advance(60)
    assert again.get("a").status is Status.SENT


def test_M16_bad_arguments_are_refused(store: Path, opened: Any) -> None:
    with pytest.raises(InvalidError, match="time zone"):
        SimulatedQueue(store, start=datetime(2030, 1, 1))
    with pytest.raises(InvalidError, match="9999"):
        SimulatedQueue(store, start=253402300800.0)
    with pytest.raises(InvalidError, match="seed"):
        SimulatedQueue(store, seed=-1)
    with pytest.raises(TypeError, match="always polled"):
        SimulatedQueue(store, polled=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="transport"):
        SimulatedQueue(store, transport=1)  # type: ignore[arg-type]
    queue = opened()
    with pytest.raises(InvalidError):
        queue.advance(-1)
    with pytest.raises(InvalidError):
        queue.advance(timedelta(days=40000))
    with pytest.raises(TypeError):
        queue.advance("1")
    with pytest.raises(ConflictError, match="connectivity"):
        queue.start_monitor()
    assert queue.now == START
    queue.close()
    with pytest.raises(ClosedError):
        queue.advance(1)


def test_M16_an_interrupt_in_a_callback_is_raised_from_advance(opened: Any, receiver: Receiver) -> None:
    def interrupted(_: Delivery) -> Outcome:
        raise KeyboardInterrupt

    queue = opened(transport=interrupted)
    queue.enqueue("hello")
    with pytest.raises(KeyboardInterrupt):
        queue.advance(1)
    receiver.outcome = Outcome.sent()
    queue.set_transport(receiver)
    queue.advance(3600)
    assert queue.counts().sent == 1


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.MANUAL])
def test_M2_Q16_a_scheduled_message_stays_direct_when_a_later_one_fails(
    opened: Any, receiver: Receiver, mode: Mode
) -> None:
    queue = opened(mode=mode, retry=LADDER)
    queue.enqueue("later", conversation="ana", not_before=START + timedelta(seconds=60))
    queue.enqueue("now", conversation="ana")
    queue.advance(1)
    receiver.outcome = Outcome.sent()
    queue.advance(200)
    assert (receiver.times[0], receiver.times[-1]) == pytest.approx((0, 60), abs=0.05)


def test_M2_B1_a_skipped_message_stays_direct_when_another_of_its_batch_fails(opened: Any) -> None:
    calls: list[list[str]] = []

    def send(deliveries: list[Delivery]) -> list[Outcome]:
        calls.append([delivery.id for delivery in deliveries])
        if len(calls) > 1:
            return [Outcome.sent()] * len(deliveries)
        return [Outcome.retry(FailureKind.SERVER), Outcome.skipped()]

    queue = opened(transport=None, batch_transport=send, mode=Mode.ASK, retry=LADDER)
    queue.enqueue_batch([Draft("hello", conversation="ana", id=id) for id in ("a", "b")])
    queue.advance(200)
    assert [id for call in calls for id in call] == ["a", "b", "a", "b"]
    assert calls[0] == ["a", "b"]


def test_F1_of_live_messages_the_oldest_is_next_while_the_backlog_is_being_read(opened: Any) -> None:
    """The conversation of the first live message has an older one, which is read long after both were enqueued."""
    sent: list[str] = []

    def send(delivery: Delivery) -> Outcome:
        sent.append(delivery.id)
        if len(sent) == 700:
            queue.enqueue("hello", conversation="c1500", id="first")
            queue.enqueue_batch([Draft("hello", conversation=f"live{each}", id=f"live{each}") for each in range(2_000)])
        return Outcome.sent()

    queue = opened(transport=send, mode=Mode.MANUAL, direct=False)
    queue.enqueue_batch([Draft("hello", conversation=f"c{each}", id=f"m{each}") for each in range(3_000)])
    queue.drain()
    place = sent.index("m1500")
    assert "first" in sent[place + 1 : place + 4]
    assert len(sent) == 5_001


@pytest.mark.parametrize("mode", list(Mode))
def test_F9_X5_many_scheduled_messages_are_sent_at_their_times(opened: Any, store: Path, mode: Mode) -> None:
    times: dict[str, datetime] = {}
    with MessageQueue(store, mode=Mode.MANUAL, direct=False) as first:
        # 1,200 messages of 60 conversations, not in the order of their times, and two without a time behind them.
        for number in range(1200):
            times[f"m{number}"] = START + timedelta(seconds=3600 + number * 7919 % 3000)
        first.enqueue_batch(
            [
                Draft(id, conversation=f"c{number % 60}", id=id, not_before=when)
                for number, (id, when) in enumerate(times.items())
            ]
        )
        first.enqueue("now", conversation="c1", id="now")
        first.enqueue("now", conversation="new", id="now 2")
    sent: dict[str, datetime] = {}

    def send(delivery: Delivery) -> Outcome:
        sent[delivery.id] = queue.now
        return Outcome.sent()

    queue: SimulatedQueue = opened(transport=send, mode=mode, direct=False)

    def pass_time(seconds: float) -> None:
        queue.advance(seconds)
        if mode is not Mode.AUTO:
            queue.drain()

    pass_time(1)
    assert list(sent) == ["now", "now 2"]
    queue.delete("m5")
    queue.enqueue("behind", conversation="c7", id="behind")
    queue.enqueue("sooner", conversation="c8", id="sooner", not_before=queue.now + timedelta(seconds=60))
    pass_time(61)
    assert list(sent)[2:] == ["behind", "sooner"]
    while queue.counts().queued:
        assert queue.now < START + timedelta(seconds=7000)
        pass_time(10)
    assert set(sent) == set(times) - {"m5"} | {"now", "now 2", "behind", "sooner"}
    for id, when in times.items():
        if id != "m5":
            assert timedelta(0) <= sent[id] - when <= timedelta(seconds=0 if mode is Mode.AUTO else 10), id

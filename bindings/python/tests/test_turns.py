"""Which conversation is next: live_share, priorities and soonest_expiry_first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import Connectivity, Delivery, Draft, InvalidError, MessageQueue, Mode, Outcome, Status, aio
from receiver import Received, Receiver
from sender import HttpTransport
from support import wait_until


class Recorder:
    """A transport that keeps the ids in order. It calls `act` during its call number `at`."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.at = 0
        self.act: Callable[[], object] = lambda: None

    def __call__(self, delivery: Delivery) -> Outcome:
        self.ids.append(delivery.id)
        if len(self.ids) == self.at:
            self.act()
        return Outcome.sent()


def opened(path: Path, recorder: Recorder, **options: Any) -> MessageQueue:
    return MessageQueue(path, recorder, mode=Mode.MANUAL, polled=True, **options)


def backlog(queue: MessageQueue) -> None:
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue_batch(Draft(b"", conversation=f"c{number % 1000}") for number in range(2000))
    queue.set_connectivity(Connectivity.ONLINE)


@pytest.mark.parametrize(("share", "last"), [(None, 102), (0.5, 102), (0.0, 2001), (1.0, 101)])
def test_F1_a_message_for_an_idle_conversation_has_its_share(store: Path, share: float | None, last: int) -> None:
    recorder = Recorder()
    options = {} if share is None else {"live_share": share}
    with opened(store, recorder, **options) as queue:
        backlog(queue)
        recorder.at = 100
        recorder.act = lambda: queue.enqueue("now", conversation="idle", id="live")
        assert queue.drain().sent == 2001
    place = recorder.ids.index("live") + 1
    assert place <= last if share in (None, 0.5) else place == last


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
def test_F1_live_share_is_0_to_1(store: Path, share: float) -> None:
    with pytest.raises(InvalidError, match=r"live.share"):
        MessageQueue(store, live_share=share)


def test_F2_the_conversation_with_the_highest_priority_is_next(store: Path) -> None:
    with opened(store, Recorder(), direct=False) as queue:
        queue.enqueue("1", id="a1", conversation="ana")
        queue.enqueue("2", id="a2", conversation="ana", priority=100)
        queue.enqueue("3", id="b1", conversation="ben", priority=-5)
        queue.enqueue_batch(
            [Draft("4", id="c1", conversation="cem", priority=7), {"body": "5", "id": "d1", "conversation": "dana"}]
        )
    recorder = Recorder()
    with opened(store, recorder, direct=False) as queue:
        assert queue.drain().sent == 5
    assert recorder.ids == ["c1", "a1", "a2", "d1", "b1"]


def test_F2_a_message_shows_and_keeps_its_priority(store: Path) -> None:
    with opened(store, Recorder(), direct=False) as queue:
        queue.enqueue("hello", id="a", priority=-100)
        queue.edit("a", "edited")
        assert queue.get("a").priority == -100
        queue.enqueue("hello", id="b")
        queue.record("hello", id="r", sender="ben")
        assert {message.id: message.priority for message in queue.list(status=Status)} == {"a": -100, "b": 0, "r": 0}


@pytest.mark.parametrize("priority", [101, -101, 2**31, -(2**40)])
def test_F2_a_priority_out_of_range_is_refused(store: Path, priority: int) -> None:
    with opened(store, Recorder(), direct=False) as queue:
        with pytest.raises(InvalidError, match="priority"):
            queue.enqueue("hello", priority=priority)
        with pytest.raises(InvalidError, match="priority"):
            queue.enqueue_batch([Draft("1"), Draft("2", priority=priority)])
        with pytest.raises(TypeError, match="priority"):
            queue.enqueue("hello", priority="high")  # type: ignore[arg-type]
        assert queue.counts().queued == 0


@pytest.mark.parametrize("is_on", [True, False])
def test_F2_of_equal_priorities_the_soonest_expiry_is_next(store: Path, is_on: bool) -> None:
    recorder, later = Recorder(), time.time() + 3600
    with opened(store, recorder, direct=False, soonest_expiry_first=is_on) as queue:
        for id, expires_at, priority in [
            ("never", None, 0),
            ("late", later + 2, 0),
            ("soon", later + 1, 0),
            ("low", later, -1),
            ("high", None, 1),
        ]:
            queue.enqueue("hello", id=id, conversation=id, expires_at=expires_at, priority=priority)
        assert queue.drain().sent == 5
    middle = ["soon", "late", "never"] if is_on else ["never", "late", "soon"]
    assert recorder.ids == ["high", *middle, "low"]


def test_F2_X1_an_explanation_says_what_is_ahead(store: Path) -> None:
    recorder, found = Recorder(), []
    with opened(store, recorder, direct=False) as queue:
        queue.enqueue("1", id="low", conversation="a")
        queue.enqueue("2", id="first", conversation="b", priority=9)
        queue.enqueue("3", id="next", conversation="c", priority=5)
        recorder.at = 1
        recorder.act = lambda: found.append(queue.explain("low"))
        assert queue.drain().sent == 3
    assert found[0].text == "Messages with a higher priority go first."
    assert found[0].behind == "next"


def test_F1_F2_the_options_are_there_in_asyncio(store: Path) -> None:
    ids: list[str] = []

    async def send(delivery: Delivery) -> Outcome:
        ids.append(delivery.id)
        return Outcome.sent()

    async def run() -> None:
        async with aio.MessageQueue(
            store, send, mode=Mode.MANUAL, direct=False, live_share=1.0, soonest_expiry_first=True
        ) as queue:
            await queue.enqueue("1", id="a", conversation="a")
            await queue.enqueue("2", id="b", conversation="b", expires_at=time.time() + 3600)
            await queue.enqueue("3", id="c", conversation="c", priority=3)
            assert (await queue.get("c")).priority == 3
            assert (await queue.drain()).sent == 3

    asyncio.run(run())
    assert ids == ["c", "b", "a"]


def test_F1_over_http_a_message_for_an_idle_conversation_leaves_within_3_attempts(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    enqueued: dict[str, int] = {}

    def answer(request: Received) -> int:
        place = len(receiver.received)
        if place % 20 == 10 and len(enqueued) < 10:
            enqueued[queue.enqueue("live", conversation=f"idle {place}")] = place
        return 200

    queue = opened(online_debounce=0)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue_batch(Draft(str(number), conversation=f"c{number % 100}") for number in range(400))
    receiver.answer_by(answer)
    queue.set_transport(http)
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.counts().sent == 410)
    ids = receiver.ids
    assert len(enqueued) == 10
    assert all(ids.index(id) + 1 - place <= 3 for id, place in enqueued.items())
    backlog = [request for request in receiver.received if request.id not in enqueued]
    assert [int(request.text) for request in backlog] == list(range(400))


def test_F2_over_http_the_highest_priority_is_first_and_none_waits_forever(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(online_debounce=0)
    queue.set_connectivity(Connectivity.OFFLINE)
    low = queue.enqueue("low", conversation="low", priority=-100)
    queue.enqueue_batch(Draft(str(number), conversation=f"c{number % 100}") for number in range(400))
    urgent = [queue.enqueue("urgent", conversation=str(priority), priority=priority) for priority in (5, 90, 7)]
    live: list[str] = []

    def answer(request: Received) -> int:
        if len(receiver.received) == 50:
            live.append(queue.enqueue("live", conversation="idle", priority=100))
        return 200

    receiver.answer_by(answer)
    queue.set_transport(http)
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.counts().sent == 405)
    ids = receiver.ids
    assert [ids.index(id) for id in urgent] == [2, 0, 1]
    assert ids.index(low) == 7, "one of 8 attempts goes to the oldest message"
    assert ids.index(live[0]) - 49 <= 3

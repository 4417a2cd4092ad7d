"""Q23: drains that include the failed messages, in the plain queue, for asyncio, from outside, and with msgq."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from command_line import STANDARD, fill, hosted, msgq, statuses
from control_peer import Peer
from msgqueue import Connectivity, MessageQueue, Mode, Outcome, Report, Status, Stop, aio
from receiver import Answer, Receiver


class Refusing:
    """A transport that refuses each message once."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def __call__(self, delivery: object) -> Outcome:
        id: str = delivery.id  # type: ignore[attr-defined]
        self.ids.append(id)
        return Outcome.sent() if self.ids.count(id) > 1 else Outcome.reject()


def filled(store: Path, transport: Refusing) -> MessageQueue:
    """Returns a queue with the failed messages a and c of ana, b of ben, and d of ana queued behind them."""
    queue = MessageQueue(store, transport, mode=Mode.MANUAL, direct=False)
    queue.set_connectivity(Connectivity.ONLINE)
    for id, conversation in (("a", "ana"), ("b", "ben"), ("c", "ana")):
        queue.enqueue("hello", conversation=conversation, id=id)
    report = queue.drain()
    assert (report.failed, report.remaining_failed, report.put_back) == (3, 3, 0)
    queue.enqueue("hello", conversation="ana", id="d")
    transport.ids.clear()
    transport.ids += ["a", "b", "c", "d"]
    return queue


def test_Q23_a_drain_with_the_failed_messages(store: Path) -> None:
    transport = Refusing()
    with filled(store, transport) as queue:
        queue.set_connectivity(Connectivity.OFFLINE)
        assert queue.drain(include_failed=True) == Report(Stop.OFFLINE, 0, 0, 0, 1, remaining_failed=3)
        queue.set_connectivity(Connectivity.ONLINE)
        queue.pause()
        assert queue.drain(include_failed=True) == Report(Stop.PAUSED, 0, 0, 0, 1, remaining_failed=3)
        assert queue.get("a").status is Status.FAILED
        queue.resume()
        report = queue.drain(conversation="ben", include_failed=True)
        assert (report.sent, report.put_back, report.remaining_failed) == (1, 1, 0)
        report = queue.drain(include_failed=True)
        assert report == Report(Stop.EMPTY, 3, 0, 0, 0, put_back=2)
        assert transport.ids[4:] == ["b", "a", "c", "d"]
        assert queue.drain(include_failed=True) == Report(Stop.EMPTY, 0, 0, 0, 0)
        with pytest.raises(TypeError):
            queue.drain(include_failed=1)  # type: ignore[arg-type]


def test_Q23_a_drain_with_the_failed_messages_for_asyncio(store: Path) -> None:
    async def test() -> None:
        transport = Refusing()
        filled(store, transport).close()
        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            await queue.set_connectivity(Connectivity.ONLINE)
            plain, full = await asyncio.gather(queue.drain(), queue.drain(include_failed=True))
            assert (plain.sent, plain.put_back, plain.remaining_failed) == (1, 0, 3)
            assert (full.sent, full.put_back, full.remaining_failed) == (3, 3, 0)
            with pytest.raises(TypeError):
                await queue.drain(include_failed="yes")  # type: ignore[arg-type]

    asyncio.run(test())


def test_Q23_a_drain_with_the_failed_messages_from_outside(store: Path) -> None:
    transport = Refusing()
    with filled(store, transport) as queue:
        queue.start_control()
        with Peer(Path(f"{store}-control")) as peer:
            text = peer.answer("drain", include_failed="yes")["error"]["text"]
            assert text == "drain: include_failed must be true or false"
            assert peer.call("drain", include_failed=False)["put_back"] == 0
            assert queue.get("a").status is Status.FAILED
            report = peer.call("drain", include_failed=True, conversation="ana")
            assert (report["sent"], report["put_back"], report["remaining_failed"]) == (2, 2, 0)
            assert peer.call("drain", include_failed=True)["put_back"] == 1


@pytest.mark.parametrize("kind", ["python", "c"])
def test_Q23_msgq_drains_with_the_failed_messages(store: Path, kind: str) -> None:
    fill(store)
    with hosted(kind, store):
        # The transports refuse bodies that begin so.
        msgq("edit", store, "f1", "better")
        assert msgq("drain", store, "-c", "ben").text == "0 sent, 0 failed, 0 left; ended: empty\n"
        done = msgq("drain", store, "--failed", fails=1)
        assert done.text == "3 sent, 1 failed, 0 left, 2 had failed before; ended: empty\n"
        assert statuses(store) == {**STANDARD, "f1": "sent", "q1": "sent", "q2": "sent"}
        assert msgq("drain", store, "--failed", "--json", fails=1).rows[0]["put_back"] == 1


def test_Q23_msgq_posts_the_failed_messages_without_an_owner(store: Path, receiver: Receiver) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        first, second = queue.enqueue("1", conversation="ana"), queue.enqueue("2", conversation="ana")
    receiver.answer_next(Answer(422))
    url = f"http://127.0.0.1:{receiver.port}/"
    msgq("drain", store, "--to", url, fails=1)
    assert statuses(store) == {first: "failed", second: "sent"}
    assert msgq("drain", store, "--to", url).text == "0 sent, 0 failed, 0 left; ended: empty\n"
    done = msgq("drain", store, "--to", url, "--failed")
    assert done.text == "1 sent, 0 failed, 0 left, 1 had failed before; ended: empty\n"
    assert statuses(store) == {first: "sent", second: "sent"}

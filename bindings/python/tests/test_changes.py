"""H11: received messages that are updated, and edits that are refused when the message was edited meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from command_line import fill, hosted, msgq
from conftest import Opener
from msgqueue import (
    ClosedError,
    ConflictError,
    EventKind,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    Outcome,
    Status,
    TooLargeError,
    aio,
    control,
)
from msgqueue.simulation import SimulatedQueue
from support import Events, wait_until

WEEK = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=7)


def test_H11_an_update_changes_a_received_message_in_its_place(opened: Opener) -> None:
    events = Events()
    queue = opened(mode=Mode.MANUAL, on_event=events)
    queue.record("helo", sender="eve", conversation="ana", id="r", metadata={"a": "1"}, time=WEEK)
    queue.record("next", sender="eve", conversation="ana", id="s")
    queue.mark("r", Status.READ)
    before = queue.get("r")
    assert before.edited is None

    queue.update("r", "hello")
    first = queue.get("r")
    assert (first.text, first.metadata, first.time, first.status) == ("hello", {"a": "1"}, WEEK, Status.READ)
    later = WEEK + timedelta(milliseconds=1)
    queue.update("r", b"\xff\x00", metadata={"b": "2"}, time=later)
    second = queue.get("r")
    assert (second.body, second.metadata, second.time) == (b"\xff\x00", {"b": "2"}, later)
    assert first.edited is not None
    assert second.edited is not None
    assert second.edited > first.edited
    queue.update("r", "", metadata={}, time=(WEEK - timedelta(days=1)).timestamp())
    after = queue.get("r")
    assert (after.body, after.metadata, after.time) == (b"", {}, WEEK - timedelta(days=1))
    for name in ("id", "conversation", "sender", "sequence", "created", "read_at", "delivered_at", "status"):
        assert getattr(after, name) == getattr(before, name)

    wait_until(lambda: len(events.all(EventKind.EDITED)) == 3)
    assert {(event.id, event.conversation) for event in events.all(EventKind.EDITED)} == {("r", "ana")}


def test_H11_an_update_is_refused_without_a_change(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, limit_body=10, limit_metadata=20)
    queue.record("first", sender="eve", conversation="ana", id="r", metadata={"a": "1"})
    queue.enqueue("mine", id="m")
    before = queue.get("r")
    calls: tuple[Callable[[], None], ...] = (
        lambda: queue.update("r", "x", time=-1),
        lambda: queue.update("r", "x", time=253402300800),
        lambda: queue.update("r", "x", metadata={"": "x"}),
        lambda: queue.update("r", "x", metadata={"a": "\0"}),
        lambda: queue.update("r", "\ud800"),
        lambda: queue.update("", "x"),
        lambda: queue.update("r\0", "x"),
    )
    for call in calls:
        with pytest.raises(InvalidError):
            call()
    for wrong in (None, 5, bytearray(b"x")):
        with pytest.raises(TypeError):
            queue.update("r", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        queue.update("r", "x", metadata=[("a", "b")])  # type: ignore[arg-type]
    with pytest.raises(TooLargeError):
        queue.update("r", "more than ten")
    with pytest.raises(TooLargeError):
        queue.update("r", "x", metadata={"a": "more than twenty bytes"})
    with pytest.raises(NotFoundError):
        queue.update("nobody", "x")
    with pytest.raises(ConflictError):
        queue.update("m", "x")
    assert queue.get("r") == before
    assert queue.get("m").text == "mine"
    queue.close()
    with pytest.raises(ClosedError):
        queue.update("r", "x")


def test_H11_an_edit_is_refused_when_the_message_was_edited_since(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.enqueue("first", conversation="ana", id="m", metadata={"a": "1"})
    read = queue.get("m")
    queue.edit("m", "second", if_edited=read.edited)
    with pytest.raises(ConflictError, match="edited"):
        queue.edit("m", "mine", metadata={"x": "y"}, if_edited=read.edited)
    message = queue.get("m")
    assert (message.text, message.metadata) == ("second", {"a": "1"})
    assert message.edited is not None

    # The time as a number, as it may have been kept in JSON.
    queue.edit("m", "third", metadata={"b": "2"}, if_edited=message.edited.timestamp())
    with pytest.raises(ConflictError):
        queue.edit("m", "mine", if_edited=message.edited)
    message = queue.get("m")
    assert (message.text, message.metadata) == ("third", {"b": "2"})
    queue.edit("m", "fourth", metadata={})
    assert queue.get("m").metadata == {}
    for wrong in ("now", True):
        with pytest.raises(TypeError):
            queue.edit("m", "x", if_edited=wrong)  # type: ignore[arg-type]
    for invalid in (-1, float("nan"), datetime(2026, 1, 1)):
        with pytest.raises(InvalidError):
            queue.edit("m", "x", if_edited=invalid)
    assert queue.get("m").text == "fourth"


def test_H11_of_edits_at_the_same_time_one_is_made(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.enqueue("first", id="m")
    made: list[str] = []

    def edit(text: str) -> None:
        try:
            queue.edit("m", text, if_edited=None)
            made.append(text)
        except ConflictError:
            pass

    threads = [threading.Thread(target=edit, args=(f"by {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [queue.get("m").text] == made


def test_H11_the_time_of_an_edit_grows_although_the_clock_stands(store: Path) -> None:
    with SimulatedQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue("x", id="m")
        times = []
        for number in range(5):
            last = queue.get("m").edited
            queue.edit("m", str(number), if_edited=last)
            times.append(queue.get("m").edited)
        assert len(set(times)) == 5
        assert times == sorted(times)  # type: ignore[type-var]


def test_H11_asyncio_has_the_same(store: Path) -> None:
    async def main() -> list[str | None]:
        kinds: list[str | None] = []
        async with aio.MessageQueue(
            store,
            on_event=lambda event: kinds.append(event.id) if event.kind is EventKind.EDITED else None,
            mode=Mode.MANUAL,
        ) as queue:
            await queue.record("helo", sender="eve", id="r")
            await queue.update("r", "hello", metadata={"a": "1"}, time=WEEK)
            message = await queue.get("r")
            assert (message.text, message.metadata, message.time) == ("hello", {"a": "1"}, WEEK)
            await queue.enqueue("first", id="m")
            await queue.edit("m", "second", if_edited=None)
            with pytest.raises(ConflictError):
                await queue.edit("m", "mine", if_edited=None)
            await queue.edit("m", "third", if_edited=(await queue.get("m")).edited)
            assert (await queue.get("m")).text == "third"
        return kinds

    assert asyncio.run(main()) == ["r", "m", "m"]


def test_H11_what_is_sent_is_what_the_edit_says(opened: Opener) -> None:
    sent: list[tuple[str, dict[str, str]]] = []

    def send(delivery: object) -> Outcome:
        sent.append((delivery.text, delivery.metadata))  # type: ignore[attr-defined]
        return Outcome.sent()

    queue = opened(transport=send, mode=Mode.MANUAL, direct=False)
    queue.enqueue("first", id="m", metadata={"a": "1"})
    queue.edit("m", "second", metadata={"b": "2"}, if_edited=None)
    assert queue.drain().sent == 1
    assert sent == [("second", {"b": "2"})]
    with pytest.raises(ConflictError):
        queue.edit("m", "late", if_edited=queue.get("m").edited)


def test_H11_the_control_socket_answers_conflict(opened: Opener, store: Path) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.start_control()
    queue.enqueue("first", id="m")
    queue.record("helo", sender="eve", id="r")
    with control.connect(store) as client, client.events("edited") as events:
        assert client.call("get", message="m")["edited_ms"] == 0
        client.call("edit", message="m", body="second", metadata={"a": "1"}, if_edited_ms=0)
        with pytest.raises(ConflictError, match="edited"):
            client.call("edit", message="m", body="mine", if_edited_ms=0)
        found = client.call("get", message="m")
        assert (found["body"], found["metadata"]) == ("second", {"a": "1"})
        client.call("edit", message="m", body="third", if_edited_ms=found["edited_ms"])
        client.call("update", message="r", body="hello", time_ms=5000)
        assert client.call("get", message="r")["time_ms"] == 5000
        seen = [events.next(20) for _ in range(3)]
        assert [(event or {}).get("id") for event in seen] == ["m", "m", "r"]
        assert queue.get("m").text == "third"


def test_H11_msgq_edit_is_refused_when_the_message_was_edited_since(store: Path) -> None:
    fill(store)
    (message,) = msgq("show", store, "q1", "--json").rows
    assert message["edited_ms"] == 0
    msgq("edit", store, "q1", "second", "--metadata", "a=1", "--metadata", "b=2", "--if-edited", 0)
    assert "edited" in msgq("edit", store, "q1", "mine", "--if-edited", 0, fails=6).errors
    (message,) = msgq("show", store, "q1", "--json").rows
    assert (message["body"], message["metadata"]) == ("second", {"a": "1", "b": "2"})
    # The number stands in the text for people, too.
    assert f"({message['edited_ms']})" in msgq("show", store, "q1").text
    with hosted("python", store):
        msgq("edit", store, "q1", "third", "--if-edited", message["edited_ms"])
        msgq("edit", store, "q1", "mine", "--if-edited", message["edited_ms"], fails=6)
        msgq("edit", store, "q1", "fourth")
    (message,) = msgq("show", store, "q1", "--json").rows
    assert (message["body"], message["metadata"]) == ("fourth", {"a": "1", "b": "2"})
    for wrong in ("-1", "now", "1.5"):
        msgq("edit", store, "q1", "mine", f"--if-edited={wrong}", fails=2)
    msgq("edit", store, "q1", "mine", "--metadata", "none", fails=2)
    assert msgq("show", store, "q1", "--body").output == b"fourth"


def test_H11_msgq_watch_prints_edits(store: Path) -> None:
    fill(store)
    with hosted("python", store):
        lines: list[str] = []
        watch = threading.Thread(
            target=lambda: lines.extend(msgq("watch", store, "--events", "edited", "--count", "1", "--json").lines)
        )
        watch.start()
        # It may not have subscribed yet.
        while watch.is_alive():
            msgq("edit", store, "q1", "again")
            watch.join(0.1)
        assert '"event":"edited"' in lines[0]
        assert '"id":"q1"' in lines[0]


def test_H11_a_read_only_queue_refuses(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.record("x", sender="eve", id="r")
    with MessageQueue(store, mode=Mode.MANUAL, read_only=True) as reader:
        with pytest.raises(PermissionError):
            reader.update("r", "y")
        with pytest.raises(PermissionError):
            reader.edit("r", "y", if_edited=None)
        assert reader.get("r").text == "x"

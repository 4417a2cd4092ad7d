"""T7: the durable feed of changes, and iterators that follow it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

import pytest

from command_line import command, msgq
from msgqueue import (
    Change,
    ChangeKind,
    ConflictError,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    Status,
    aio,
)
from support import environment
from test_salvage import crash


def told(changes: Iterator[Change] | tuple[Change, ...]) -> list[str]:
    """Returns each change as "id status"."""
    return [
        f"{change.id} {(change.status if change.kind is ChangeKind.STATUS else change.kind).name.lower()}"
        for change in changes
    ]


def sent(_: object) -> Outcome:
    """Sends everything."""
    return Outcome.sent()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def test_T7_changes_are_read_from_a_token_across_restarts(store: Path) -> None:
    with MessageQueue(store, sent, mode=Mode.MANUAL, direct=False, keep_changes=100) as queue:
        empty = queue.changes()
        assert (empty.changes, empty.next) == ((), empty.oldest)
        queue.enqueue("hello", conversation="ana", id="a")
        page = queue.changes(empty.next)
        assert told(page.changes) == ["a queued"]
        assert page.changes[0].conversation == "ana"
        assert abs((datetime.now(timezone.utc) - page.changes[0].at).total_seconds()) < 600
        queue.drain()
    with MessageQueue(store, mode=Mode.MANUAL, keep_changes=100) as queue:
        rest = queue.changes(page.next, limit=1)
        assert told(rest.changes) == ["a sending"]
        assert rest.next == rest.changes[-1].token
        assert told(queue.changes(rest.next).changes) == ["a sent"]
        assert queue.changes().oldest == empty.oldest or told(queue.changes(queue.changes().oldest).changes) == [
            "a queued",
            "a sending",
            "a sent",
        ]


def test_T7_failures_have_their_kind_and_code(store: Path) -> None:
    def reject(_: object) -> Outcome:
        return Outcome.http(422)

    with MessageQueue(store, reject, mode=Mode.MANUAL, direct=False, keep_changes=100) as queue:
        queue.enqueue("hello", id="a")
        queue.drain()
        last = queue.changes().changes[-1]
        assert (last.kind, last.status, last.failure_kind, last.code) == (
            ChangeKind.STATUS,
            Status.FAILED,
            FailureKind.REJECTED,
            422,
        )


def test_T7_bad_arguments_are_refused(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, keep_changes=100) as queue:
        for token in ("", "a", "x" * 49, "a" * 50):
            with pytest.raises(InvalidError):
                queue.changes(token)
            with pytest.raises(InvalidError):
                queue.follow_changes(token)
        for limit in (0, 1001, -1):
            with pytest.raises(InvalidError):
                queue.changes(limit=limit)
        with pytest.raises(TypeError):
            queue.changes(5)  # type: ignore[arg-type]
        with pytest.raises(ConflictError, match="oldest token"):
            queue.changes("a" + "0" * 48)
    with MessageQueue(store, mode=Mode.MANUAL) as queue, pytest.raises(InvalidError):
        queue.changes()
    with pytest.raises(InvalidError):
        MessageQueue(store, keep_changes=-1)


def test_T7_an_older_token_than_what_is_kept_conflicts(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, keep_changes=3) as queue:
        queue.enqueue("hello", id="m0")
        token = queue.changes().next
        for number in range(1, 5):
            queue.enqueue("hello", id=f"m{number}")
        with pytest.raises(ConflictError):
            queue.changes(token)
        assert told(queue.changes(queue.changes().oldest).changes) == ["m2 queued", "m3 queued", "m4 queued"]


def test_T7_a_closed_store_is_followed_to_its_end(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, keep_changes=100) as queue:
        for number in range(5):
            queue.enqueue("hello", id=f"m{number}")
    with MessageQueue(store, mode=Mode.MANUAL, read_only=True) as queue:
        assert told(queue.follow_changes(limit=2)) == [f"m{number} queued" for number in range(5)]


def test_T7_a_token_of_a_store_that_a_crash_left_is_valid_later(store: Path, tmp_path: Path) -> None:
    """Only an owner stores that the attempt in flight was interrupted."""
    left = tmp_path / "left.db"

    def send(_: object) -> Outcome:
        crash(store, left)
        return Outcome.sent()

    with MessageQueue(store, send, mode=Mode.MANUAL, direct=False, keep_changes=100) as queue:
        queue.enqueue("hello", id="m")
        assert queue.drain().sent == 1
    for _ in range(2):
        with MessageQueue(left, mode=Mode.MANUAL, read_only=True) as queue:
            page = queue.changes()
            assert told(page.changes) == ["m queued", "m sending"]
            assert queue.get("m").status is Status.QUEUED
            assert told(queue.changes(page.next).changes) == []
    with MessageQueue(left, mode=Mode.MANUAL, keep_changes=100) as queue:
        assert told(queue.changes(page.next).changes) == ["m queued"]


def test_T7_an_iterator_waits_for_changes_until_the_queue_is_closed(store: Path) -> None:
    queue = MessageQueue(store, sent, mode=Mode.AUTO, keep_changes=10_000)
    seen: list[Change] = []
    changes = queue.follow_changes(limit=7)
    thread = threading.Thread(target=lambda: seen.extend(changes))
    thread.start()
    handled: list[object] = []
    queue.set_event_handler(handled.append)
    for number in range(30):
        queue.enqueue("hello", id=f"m{number}")
        if number == 15:
            queue.set_event_handler(None)
    queue.drain(timeout=60)
    token = None
    expected: list[str] = []
    while page := queue.changes(token).changes:
        expected += told(page)
        token = page[-1].token
    # The last of them is read before the close, because a closed queue cannot be read.
    for _ in range(6000):
        if len(seen) == len(expected):
            break
        thread.join(0.01)
    queue.close()
    thread.join(60)
    assert not thread.is_alive()
    assert told(tuple(seen)) == expected
    assert len(expected) == 90
    assert handled


def test_T7_an_iterator_that_is_dropped_needs_nothing_more(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, keep_changes=100) as queue:
        queue.enqueue("hello", id="a")
        queue.enqueue("hello", id="b")
        changes = queue.follow_changes(limit=1)
        assert [next(changes).id, next(changes).id] == ["a", "b"]
        del changes
        queue.enqueue("hello", id="c")


def test_T7_aio_changes_and_their_iterator(store: Path) -> None:
    async def run() -> None:
        async with aio.MessageQueue(store, sent, mode=Mode.AUTO, keep_changes=1000) as queue:
            seen: list[Change] = []

            async def follow() -> None:
                async for change in queue.follow_changes(limit=5):
                    seen.append(change)

            task = asyncio.create_task(follow())
            for number in range(20):
                await queue.enqueue("hello", id=f"m{number}")
            await queue.drain(timeout=60)
            for _ in range(6000):
                if len(seen) == 60:
                    break
                await asyncio.sleep(0.01)
            page = await queue.changes(limit=1000)
            assert told(tuple(seen)) == told(page.changes)
            assert len(seen) == 60
        await asyncio.wait_for(task, 60)
        async with aio.MessageQueue(store, read_only=True) as queue:
            assert [change.token async for change in queue.follow_changes(seen[9].token)] == [
                change.token for change in seen[10:]
            ]

    asyncio.run(run())


# ---------------------------------------------------------------- the command


def test_T7_the_command_prints_the_changes_of_a_closed_store(store: Path) -> None:
    with MessageQueue(store, sent, mode=Mode.MANUAL, direct=False, keep_changes=100) as queue:
        queue.enqueue("hello", conversation="ana", id="a")
        queue.drain()
        page = queue.changes()
    rows = msgq("changes", store, "--json").rows
    assert [(row["id"], row["status"], row["token"]) for row in rows] == [
        (change.id, change.status.name.lower(), change.token) for change in page.changes
    ]
    assert {row["kind"] for row in rows} == {"status"}
    assert [row["status"] for row in msgq("changes", store, "--json", "--after", rows[0]["token"]).rows] == [
        "sending",
        "sent",
    ]
    # Nothing changes a closed store, so there is nothing to wait for.
    assert len(msgq("changes", store, "--follow", "-n", 2).lines) == 2
    assert "a" in msgq("changes", store, "--follow").text
    assert msgq("changes", store, "--after", rows[-1]["token"]).text == ""
    assert "oldest token" in msgq("changes", store, "--after", "a" + "0" * 48, fails=6).errors
    # A change by the command is one, too.
    msgq("enqueue", store, "hello", "--id", "b")
    assert [row["id"] for row in msgq("changes", store, "--json", "--after", rows[-1]["token"]).rows] == ["b"]


def test_T7_the_command_follows_the_changes_of_an_owner(store: Path) -> None:
    with MessageQueue(store, sent, mode=Mode.MANUAL, direct=False, keep_changes=100) as queue:
        queue.enqueue("hello", id="a")
        queue.start_control()
        with subprocess.Popen(
            command("changes", store, "--follow", "--json", "-n", "6"), stdout=subprocess.PIPE, env=environment()
        ) as follower:
            assert follower.stdout is not None
            assert json.loads(follower.stdout.readline())["id"] == "a"
            queue.enqueue("hello", id="b")
            assert json.loads(follower.stdout.readline())["id"] == "b"
            queue.drain()
            rest = [json.loads(line) for line in follower.stdout]
            assert follower.wait(60) == 0
        assert [(row["id"], row["status"]) for row in rest] == [
            ("a", "sending"),
            ("a", "sent"),
            ("b", "sending"),
            ("b", "sent"),
        ]


def test_T7_the_command_ends_when_the_owner_closes_its_queue(store: Path) -> None:
    with MessageQueue(store, sent, mode=Mode.AUTO, keep_changes=1000) as queue, ExitStack() as stack:
        queue.enqueue("hello")
        queue.start_control()
        followers = [
            stack.enter_context(
                subprocess.Popen(
                    command("changes", store, "--follow", "--json"),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment(),
                )
            )
            for _ in range(8)
        ]
        lines: list[list[str]] = []
        for follower in followers:
            assert follower.stdout is not None
            lines.append([json.loads(follower.stdout.readline())["token"]])
        for _ in range(50):
            queue.enqueue("hello")
        queue.close()
        for follower, tokens in zip(followers, lines):
            assert follower.stdout is not None
            assert follower.stderr is not None
            tokens += [json.loads(line)["token"] for line in follower.stdout]
            assert b"ended first" in follower.stderr.read()
            # In whatever call the close has met it.
            assert follower.wait(60) == 8
    with MessageQueue(store, read_only=True) as queue:
        kept = [change.token for change in queue.follow_changes()]
    assert all(tokens == kept[: len(tokens)] for tokens in lines)

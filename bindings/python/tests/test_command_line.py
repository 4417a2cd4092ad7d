"""I4: every command of msgq, on a closed store and on one that a program in Python or C has open."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import HOSTILE, STANDARD, command, fill, hosted, msgq, statuses
from msgqueue import Connectivity, Delivery, MessageQueue, Mode, Outcome, Status
from support import environment, wait_until


@pytest.fixture(params=["closed", "python", "c"])
def host(request: pytest.FixtureRequest, store: Path) -> Iterator[str]:
    """The kinds of host, with the store of most tests open in them."""
    fill(store)
    kind: str = request.param
    with hosted(kind, store):
        yield kind


@pytest.fixture(params=["python", "c"])
def owner(request: pytest.FixtureRequest, store: Path) -> Iterator[str]:
    fill(store)
    kind: str = request.param
    with hosted(kind, store):
        yield kind


def test_I4_list_says_how_the_store_was_reached(host: str, store: Path) -> None:
    done = msgq("list", store)
    assert done.lines[0].split() == ["ID", "STATUS", "CONVERSATION", "TIME", "ATTEMPTS", "TEXT"]
    assert [line.split()[:3] for line in done.lines[1:]] == [
        ["f1", "failed", "ana"],
        ["f2", "failed", "ben"],
        ["q1", "queued", "ana"],
        ["q2", "queued", "-"],
    ]
    if host == "closed":
        assert done.errors == f"msgq: opened {store}: no other program has it open\n"
    else:
        assert done.errors.startswith("msgq: owner: pid ")
        assert done.errors.endswith(f", through {store}-control\n")
    assert msgq("list", store, "--quiet").errors == ""
    assert msgq("list", store, "-s", "all", "--json", "--newest", "--limit", 2).rows[0]["id"] == "r1"
    assert [row["id"] for row in msgq("list", store, "--status", "failed", "--json").rows] == ["f1", "f2"]
    assert [row["id"] for row in msgq("list", store, "-c", "ana", "--status=all", "--json").rows] == ["f1", "q1", "r1"]
    first = msgq("list", store, "--limit", 2, "--json")
    assert "--after" in first.errors
    after = first.rows[-1]["sequence"]
    assert [row["id"] for row in msgq("list", store, "--after", after, "--json").rows] == ["q1", "q2"]
    assert msgq("list", store, "--bodies", "--json", "--all").rows[2]["body"] == HOSTILE


def test_I4_one_message_is_shown(host: str, store: Path) -> None:
    shown = msgq("show", store, "q1").text
    assert "hello \\x1b[2J\\u202e\n漢字\n" in shown
    assert "metadata kind" in shown
    assert "\x1b" not in shown
    row = msgq("show", store, "q1", "--json").rows[0]
    assert (row["body"], row["metadata"], row["priority"]) == (HOSTILE, {"kind": "ü"}, 3)
    assert msgq("show", store, "q2", "--body").output == b"\xff\x00"
    assert "did not accept" in msgq("show", store, "f1").text
    assert msgq("explain", store, "q1").text.strip()
    assert msgq("explain", store, "q1", "--json").rows[0]["reason"] == (
        "no_transport" if host == "closed" else "person"
    )
    assert msgq("attempts", store, "f1", "--json").rows[0]["outcome"] == "rejected"
    assert "rejected" in msgq("attempts", store, "f1").lines[1]
    assert msgq("show", store, "nobody", fails=3).errors.endswith("msgq: message not found: nobody\n")


def test_R17_show_says_what_failed_before_a_retry_while_offline(store: Path) -> None:
    fill(store)
    with MessageQueue(store, mode=Mode.MANUAL, transport=lambda _: Outcome.sent()) as queue:
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.retry("f1")

    def line(id: str, name: str) -> str:
        found = [line for line in msgq("show", store, id).lines if line.startswith(name)]
        return found[0].removeprefix(name).strip() if found else ""

    assert line("f1", "failure").startswith("No internet connection.")
    assert line("f1", "failed before").startswith("The server did not accept this message.")
    assert line("f2", "failure").startswith("The server did not accept this message.")
    assert line("f2", "failed before") == ""
    (row,) = msgq("show", store, "f1", "--json").rows
    assert (row["failure"]["kind"], row["failure_before"]["kind"]) == ("offline", "rejected")


def test_M15_the_variable_shows_the_steps_of_a_command(store: Path) -> None:
    fill(store)
    done = msgq("delete", store, "q1", "--yes", MSGQUEUE_LOG="debug")
    assert f"{store}: message q1: deleted\n" in done.errors
    assert "message f1: deleted" not in msgq("delete", store, "f1", "--yes").errors


def test_I4_the_queue_as_a_whole_is_shown(host: str, store: Path) -> None:
    rows = msgq("conversations", store, "--json").rows
    assert [row["name"] for row in rows] == ["ana", "", "ben"]
    assert [line.split()[:3] for line in msgq("conversations", store, "--limit", 1).lines[1:]] == [["ana", "-", "1"]]
    assert len(msgq("conversations", store, "--all").lines) == 4
    whole = msgq("stats", store, "--json").rows[0]
    assert (whole["counts"]["queued"], whole["counts"]["failed"]) == (2, 2)
    assert "queued" in msgq("stats", store).text
    assert 'status="queued"} 2' in msgq("stats", store, "--prometheus").text


def test_I4_messages_are_changed(host: str, store: Path) -> None:
    assert msgq("edit", store, "q1", "new").code == 0
    assert msgq("edit", store, "q2", "-", input=b"\xfe").code == 0
    assert msgq("show", store, "q1", "--body").output == b"new"
    assert msgq("show", store, "q2", "--body").output == b"\xfe"
    body = store.with_name("body")
    body.write_bytes(b"from a file")
    msgq("edit", store, "q2", "--file", body)
    assert msgq("show", store, "q2", "--body").output == b"from a file"
    assert "--yes" in msgq("delete", store, "q2", fails=2).errors
    assert statuses(store) == STANDARD
    msgq("delete", store, "q2", "--yes")
    assert "q2" not in statuses(store)
    made = msgq(
        "enqueue", store, "text", "-c", "eva", "--id", "e1", "--metadata", "a=1", "--priority", -5, "--expires", "+1d"
    )
    assert made.text == "e1\n"
    row = msgq("show", store, "e1", "--json").rows[0]
    assert (row["body"], row["metadata"], row["priority"], row["conversation"]) == ("text", {"a": "1"}, -5, "eva")
    assert row["expires_at_ms"] > row["created_ms"]
    assert msgq("enqueue", store, "again", "--id", "e1", fails=6).text == ""
    assert msgq("enqueue", store, b"\xff", "--json").rows[0]["message"]
    assert "--yes" in msgq("clear", store, "-c", "eva", fails=2).errors
    msgq("clear", store, "-c", "eva", "--yes")
    assert "e1" not in statuses(store)
    assert "--yes" in msgq("clear", store, "--failed", fails=2).errors
    assert "f1" in statuses(store)
    msgq("clear", store, "--failed", "--yes")
    assert not {"f1", "f2"} & set(statuses(store))
    msgq("clear", store, "--yes")
    assert set(statuses(store)) == {"s1", "r1"}


def test_I4_clear_counts_no_message_as_deleted_that_is_being_sent(store: Path) -> None:
    deliveries: list[Delivery] = []

    def send(delivery: Delivery) -> Outcome:
        deliveries.append(delivery)
        return Outcome.pending()

    with MessageQueue(store, transport=send) as queue:
        queue.set_connectivity(Connectivity.ONLINE)
        queue.start_control()
        queue.enqueue("first", conversation="eva", id="e1")
        wait_until(lambda: deliveries)
        queue.enqueue("second", conversation="eva", id="e2")
        done = msgq("clear", store, "-c", "eva", "--yes")
        assert "deleted 1 message; 1 is being sent, and deleted unless that succeeds\n" in done.errors
        assert [(message.id, message.status) for message in queue.list()] == [("e1", Status.SENDING)]
        queue.complete(deliveries[0].token, Outcome.sent())


def test_H13_I4_a_conversation_is_deleted(host: str, store: Path) -> None:
    msgq("enqueue", store, "text", "-c", "eva", "--id", "e1")
    assert "--yes" in msgq("delete-conversation", store, "eva", fails=2).errors
    assert "e1" in statuses(store)
    assert "deleted 1 message" in msgq("delete-conversation", store, "eva", "--yes").errors
    assert statuses(store) == STANDARD
    for name in ("ana", "ben", ""):
        msgq("delete-conversation", store, name, "--yes", "--quiet")
    assert statuses(store) == {}


def test_I4_failed_messages_are_put_back(host: str, store: Path) -> None:
    msgq("edit", store, "f1", "better")
    msgq("edit", store, "f2", "better")
    msgq("retry", store, "f1")
    if host == "closed":
        assert statuses(store) == {**STANDARD, "f1": "queued"}
        assert msgq("retry-all", store, "--json").rows == [{"count": 1}]
        assert statuses(store) == {**STANDARD, "f1": "queued", "f2": "queued"}
        assert "only a failed message" in msgq("retry", store, "f1", fails=6).errors
        # In its place, before the others.
        assert [row["id"] for row in msgq("list", store, "--json").rows] == ["f1", "f2", "q1", "q2"]
        return
    assert msgq("retry-all", store, "-c", "ben").text == "1 message retried\n"
    msgq("drain", store, "--timeout", 60)
    assert statuses(store) == {**STANDARD, "f1": "sent", "f2": "sent", "q1": "sent", "q2": "sent"}


def test_I4_the_owner_sends_and_pauses(owner: str, store: Path) -> None:
    msgq("pause", store)
    assert msgq("stats", store, "--json").rows[0]["state"]["paused"]
    assert "paused" in msgq("drain", store, fails=1).text
    msgq("resume", store)
    with subprocess.Popen(
        command("watch", store, "--json", "--events", "collect", "--count", 1),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as asked:
        while asked.poll() is None:
            msgq("collect", store)
        assert asked.stdout is not None
        assert b'"collect"' in asked.stdout.read()
    with subprocess.Popen(
        command("watch", store, "--json", "--events", "status", "--count", 2),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as watcher:  # fmt: skip
        assert watcher.stdout is not None
        assert watcher.stderr is not None
        # The subscription follows the greeting; a request after it is answered after it, too.
        assert b"owner" in watcher.stderr.readline()
        while watcher.poll() is None:
            msgq("enqueue", store, "x", "-c", "zoe")
        events = [json.loads(line) for line in watcher.stdout]
    assert [(event["event"], event["to"]) for event in events] == [("status", "queued")] * 2
    msgq("clear", store, "-c", "zoe", "--yes")
    msgq("send-now", store, "q2")
    report = msgq("drain", store, "--json", "--batch", 10).rows[0]
    assert report["remaining"] == 0
    assert statuses(store) == {**STANDARD, "q1": "sent", "q2": "sent"}
    assert msgq("drain", store).text == "0 sent, 0 failed, 0 left; ended: empty\n"
    assert "its transport sends" in msgq("drain", store, "--to", "http://127.0.0.1:9/", fails=6).errors


def test_I4_a_store_is_copied_and_checked(host: str, store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    msgq("backup", store, copy)
    assert statuses(copy) == STANDARD
    msgq("backup", store, copy, fails=6)
    assert msgq("check", store, "--json").rows[0]["sound"] is True
    assert msgq("check", store).text == "6 messages, no damage found.\n"
    if host == "closed":
        msgq("salvage", store, tmp_path / "rescued.db")
        assert statuses(tmp_path / "rescued.db") == STANDARD
    else:
        assert "open" in msgq("salvage", store, tmp_path / "rescued.db", fails=5).errors


def test_I4_what_needs_an_owner_says_so(store: Path) -> None:
    fill(store)
    before = store.read_bytes()
    for words in (["watch"], ["send-now", "q1"], ["pause"], ["resume"], ["collect"], ["drain"]):
        done = msgq(words[0], store, *words[1:], fails=6)
        assert f"no program has {store} open with a control socket" in done.errors
        assert done.text == ""
    assert store.read_bytes() == before


def test_I4_a_closed_store_stays_as_it_is_when_it_is_only_read(store: Path) -> None:
    fill(store)
    before = store.read_bytes()
    for words in (
        ["list"],
        ["show", "q1"],
        ["explain", "q1"],
        ["attempts", "f1"],
        ["conversations"],
        ["stats"],
        ["export"],
    ):
        msgq(words[0], store, *words[1:])
    assert store.read_bytes() == before
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_I4_a_change_of_a_closed_store_prunes_and_forgets_nothing(store: Path) -> None:
    fill(store)
    with MessageQueue(store, maintenance=True) as queue:
        queue.enqueue("late", id="late", expires_at=1.0)
        queue.delete("s1")
    msgq("enqueue", store, "x", "--id", "x")
    assert statuses(store) == {
        **{id: status for id, status in STANDARD.items() if id != "s1"},
        "x": "queued",
        "late": "queued",
    }
    # The id of the sent message is still known.
    msgq("enqueue", store, "x", "--id", "s1", fails=6)
    with MessageQueue(store, read_only=True) as reader:
        assert reader.get("late").status is Status.QUEUED

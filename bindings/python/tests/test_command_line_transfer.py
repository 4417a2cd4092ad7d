"""I4: `msgq export` and `msgq import`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import HOSTILE, STANDARD, command, fill, hosted, msgq, statuses
from msgqueue import LockedError, MessageQueue, Mode, Outcome, TooLargeError
from msgqueue.cli import transfer
from msgqueue.cli.session import Way
from receiver import Answer, Receiver
from support import environment, wait_until


@pytest.fixture(params=["closed", "python", "c"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty store, closed or open in a program."""
    path = tmp_path / "target.db"
    MessageQueue(path, mode=Mode.MANUAL).close()
    with hosted(request.param, path):
        yield path


def line(**changes: Any) -> bytes:
    return json.dumps({"id": "m", "status": "queued", "body": "x", **changes}).encode() + b"\n"


def test_I4_the_form_of_export_is_that_of_list_and_of_the_socket(store: Path) -> None:
    fill(store)
    exported = {kind: b"" for kind in ("closed", "python", "c")}
    for kind in exported:
        with hosted(kind, store):
            exported[kind] = msgq("export", store).output
            assert msgq("list", store, "-s", "all", "--all", "--bodies", "--json").output == exported[kind]
            assert [json.loads(row)["id"] for row in exported[kind].splitlines()] == list(STANDARD)
    assert exported["closed"] == exported["python"] == exported["c"]
    assert len(msgq("export", store, "--status", "failed").rows) == 2
    assert len(msgq("export", store, "-c", "ana").rows) == 3


def test_I4_an_import_adds_what_is_not_there_and_repeats_nothing(store: Path, target: Path) -> None:
    fill(store)
    export = msgq("export", store).output
    first = msgq("import", target, "-", "--json", input=export)
    assert first.rows == [{"new": 5, "known": 0, "skipped": 1, "wrong": 0, "blank": 0}]
    content = msgq("export", target).output
    file = target.with_name("export.jsonl")
    file.write_bytes(export)
    again = msgq("import", target, file)
    assert again.text == "0 new, 5 already there, 1 sent ones skipped, 0 wrong lines\n"
    assert msgq("export", target).output == content
    rows = {row["id"]: row for row in map(json.loads, content.splitlines())}
    # Those that had failed are queued again, in the order of the export.
    assert [row["id"] for row in msgq("list", target, "--json").rows] == ["f1", "f2", "q1", "q2"]
    assert statuses(target) == {"f1": "queued", "f2": "queued", "q1": "queued", "q2": "queued", "r1": "delivered"}
    assert (rows["q1"]["body"], rows["q1"]["metadata"], rows["q1"]["priority"]) == (HOSTILE, {"kind": "ü"}, 3)
    assert rows["q2"]["body_base64"] == "/wA="
    assert (rows["r1"]["sender"], rows["r1"]["body"]) == ("Ana", "hi")


def test_I4_wrong_lines_are_reported_and_the_others_imported(target: Path) -> None:
    wrong = [
        b"\n",
        b"{\n",
        b"[]\n",
        b'{"id":1,"status":"queued","body":"x"}\n',
        line(status="lost"),
        line(body=None),
        line(body=5),
        line(body_base64="eA=="),
        line(body=None, body_base64="?"),
        line(priority=101),
        line(priority=True),
        line(expires_at_ms="soon"),
        line(metadata={"a": 1}),
        line(conversation="a\n"),
        line(id="i" * 300),
        line(status="read", sender=5),
        b'{"id":"m","status":"queued","body":"x","priority":NaN}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
    ]
    done = msgq("import", target, "-", "--json", input=line(id="a") + b"".join(wrong) + line(id="b"), fails=1)
    assert done.rows == [{"new": 2, "known": 0, "skipped": 0, "wrong": len(wrong) - 1, "blank": 1}]
    reported = sorted(int(each.split()[2][:-1]) for each in done.errors.splitlines() if each.startswith("msgq: line "))
    assert reported == list(range(3, len(wrong) + 2))
    assert [row["id"] for row in msgq("list", target, "--json").rows] == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        line(conversation="\ud800"),
        line(id="\ud800"),
        line(metadata={"a": "\ud800"}),
        line(metadata={"\ud800": "a"}),
        line(body="\ud800"),
        line(sender="\ud800", status="delivered"),
        line(priority=10**20),
        line(not_before_ms=10**20),
        line(expires_at_ms=-(10**20)),
        line(priority=-(2**63)),
        line(metadata={"a": 10**20}),
        line(metadata=[10**20]),
        line(metadata={"a": None}),
        line(conversation=10**20),
        b'{"id":"m","id":"n","status":"queued","body":"x"}\n',
        b'{"id":"m","status":"queued","body":"x","metadata":{"a":"1","a":"2"}}\n',
    ],
)
def test_I4_a_wrong_line_among_others_is_named_and_loses_none(target: Path, wrong: bytes) -> None:
    good = [line(id=f"g{number}") for number in range(100)]
    done = msgq("import", target, "-", "--json", input=b"".join((*good[:10], wrong, *good[10:])), fails=1)
    assert done.rows == [{"new": 100, "known": 0, "skipped": 0, "wrong": 1, "blank": 0}]
    assert [each.split(":")[1] for each in done.errors.splitlines() if " line " in each] == [" line 11"]
    assert [row["id"] for row in msgq("list", target, "--all", "--json").rows] == [f"g{n}" for n in range(100)]


def test_I4_a_line_over_the_limit_of_the_owner_ends_no_import(tmp_path: Path) -> None:
    path = tmp_path / "target.db"
    with MessageQueue(path, mode=Mode.MANUAL, limit_body=1000, limit_metadata=1000) as queue:
        queue.start_control()
        lines = [line(id="a"), line(id="b", body="x" * 2000), line(id="c", body="x" * 500_000), line(id="d")]
        done = msgq("import", path, "-", "--json", input=b"".join(lines), fails=1)
        assert done.rows == [{"new": 2, "known": 0, "skipped": 0, "wrong": 2, "blank": 0}]
        assert [message.id for message in queue.list()] == ["a", "d"]


def test_I4_nothing_behind_a_message_without_room_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "target.db"
    sizes = {"a": 500, "b": 700, "c": 100, "d": 100}
    lines = b"".join(line(id=id, body="x" * size) for id, size in sizes.items())
    options: dict[str, Any] = {"mode": Mode.MANUAL, "direct": False, "limit_bytes": 1000}
    with MessageQueue(path, **options, transport=lambda _: Outcome.sent()) as queue:
        queue.start_control()
        done = msgq("import", path, "-", "--json", input=lines, fails=1)
        assert "the queue is full" in done.errors
        assert "until then: 1 new" in done.errors
        assert [message.id for message in queue.list()] == ["a"]
        queue.drain()
        # Repeated, it goes on with the message that had no room.
        done = msgq("import", path, "-", "--json", input=lines)
        assert done.rows == [{"new": 3, "known": 1, "skipped": 0, "wrong": 0, "blank": 0}]
        assert [message.id for message in queue.list()] == ["b", "c", "d"]


def test_I4_a_repeated_import_marks_what_an_interrupted_one_left_unread(tmp_path: Path) -> None:
    path = tmp_path / "target.db"
    with MessageQueue(path, mode=Mode.MANUAL) as queue:
        for id in ("a", "b"):
            queue.record("x", sender="bob", id=id)
    lines = received("a", status="read") + received("b")
    done = msgq("import", path, "-", "--json", input=lines)
    assert done.rows == [{"new": 0, "known": 2, "skipped": 0, "wrong": 0, "blank": 0}]
    assert statuses(path) == {"a": "read", "b": "delivered"}


def received(id: str, **changes: Any) -> bytes:
    return line(**{"id": id, "status": "delivered", "sender": "bob", **changes})


def test_I4_a_received_message_whose_id_is_remembered_is_left_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    lines = received("r", status="read") + received("d") + received("s") + received("new")
    with MessageQueue(target, mode=Mode.MANUAL, keep_sent=0, transport=lambda _: Outcome.sent()) as queue:
        queue.enqueue("hello", id="s")
        queue.drain()
        for id in ("r", "d"):
            queue.record("hello", sender="bob", id=id)
            queue.delete(id)
    for new in (1, 0):
        done = msgq("import", target, "-", "--json", input=lines)
        assert done.rows == [{"new": new, "known": 4 - new, "skipped": 0, "wrong": 0, "blank": 0}]


def test_I4_a_received_message_over_a_limit_of_the_owner_ends_no_import(tmp_path: Path) -> None:
    path = tmp_path / "target.db"
    with MessageQueue(path, mode=Mode.MANUAL, limit_body=1000, limit_metadata=1000) as queue:
        queue.start_control()
        large: dict[str, dict[str, Any]] = {
            "b": {"body": "x" * 2000},
            "c": {"body": "x" * 500_000},
            "d": {"metadata": {"key": "x" * 2000}},
        }
        lines = [received("a"), *(received(id, **changes) for id, changes in large.items()), received("e")]
        done = msgq("import", path, "-", "--json", input=b"".join(lines), fails=1)
        assert done.rows == [{"new": 2, "known": 0, "skipped": 0, "wrong": 3, "blank": 0}]
        assert [each.split(":")[1] for each in done.errors.splitlines() if " line " in each] == [
            " line 2",
            " line 3",
            " line 4",
        ]


def test_I4_an_endless_line_ends_an_import_in_little_memory(target: Path) -> None:
    words = map(os.fsdecode, command("import", target, "-", "--json", "-q"))
    with subprocess.Popen(
        ["bash", "-c", 'cat - /dev/zero | "$@"', "-", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        output, errors = process.communicate(line(id="a") + line(id="b"), timeout=120)
        assert process.returncode == 1
    assert json.loads(output) == {"new": 2, "known": 0, "skipped": 0, "wrong": 1, "blank": 0}
    assert errors.startswith(b"msgq: line 3: more than 536,870,912 bytes")
    assert set(statuses(target)) == {"a", "b"}


def test_I4_an_endless_line_takes_no_memory() -> None:
    read, write = os.pipe()
    with subprocess.Popen(["cat", "/dev/zero"], stdout=write):
        os.close(write)
        lines = transfer.Lines(read)
        with pytest.raises(TooLargeError):
            lines.next(None)
        assert len(lines._input) == 0
        os.close(read)


def test_I4_lines_are_read_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LONGEST_LINE", 3000)
    monkeypatch.setattr(transfer, "_CHUNK", 100)
    read, write = os.pipe()
    lines = transfer.Lines(read)
    assert lines.next(0) is None
    for part, expected in (
        (b"a\n\nb", [b"a\n", b"\n", None]),
        (b"\n", [b"?\n"]),
        (b' {"a"', [None]),
        (b":1}\n", [b'{"a":1}\n']),
        (b"{" + b"x" * 2998 + b"\n", [b"{" + b"x" * 2998 + b"\n"]),
        # Blanks are not kept when the line has not ended, however many they are.
        (b" " * 2000 + b"\n", [b"\n"]),
    ):
        os.write(write, part)
        for each in expected:
            found = lines.next(0)
            # What cannot be a message is only marked as such.
            assert found == each or (found is not None and each is not None and each[:1] == found[:1] == b"?")
    os.write(write, b"{" * 2500)
    assert lines.next(0) is None
    os.write(write, b"{" * 600)
    with pytest.raises(TooLargeError):
        lines.next(0)
    os.close(read)
    os.close(write)
    read, write = os.pipe()
    os.write(write, b"a\n{end")
    os.close(write)
    lines = transfer.Lines(read)
    assert [lines.next(None) for _ in range(4)] == [b"a\n", b"{end", b"", b""]
    os.close(read)


def test_I4_the_store_is_free_while_an_import_waits_for_its_pipe(store: Path) -> None:
    MessageQueue(store).close()
    with subprocess.Popen(
        command("import", store, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(), bufsize=0,
    ) as process:  # fmt: skip
        assert process.stdin is not None

        def arrived(id: str) -> bool:
            try:
                with MessageQueue(store, mode=Mode.MANUAL) as queue:
                    return [message.id for message in queue.list()][-1:] == [id]
            except LockedError:
                return False

        for id in ("a", "b"):
            process.stdin.write(line(id=id) + b'{"id":')
            # The line is imported, although the pipe stays open, and others can open the store.
            wait_until(lambda id=id: arrived(id))  # type: ignore[misc]
            process.stdin.write(b"\n")
        with MessageQueue(store, mode=Mode.MANUAL) as queue:
            queue.start_control()
            process.stdin.write(line(id="c"))
            wait_until(lambda: len(queue.list()) == 3)
        process.stdin.write(line(id="d"))
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1
    assert output == b"4 new, 0 already there, 0 sent ones skipped, 2 wrong lines\n"
    said = [each for each in errors.decode().splitlines() if " line " not in each]
    opened = f"msgq: opened {store}: no other program has it open"
    assert said == [opened, f"msgq: owner: pid {os.getpid()}, through {store}-control", opened]
    assert set(statuses(store)) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("endless", ["", '{"id":"s","status":"sent","body":"x"}', "wrong"])
def test_I4_the_store_is_free_while_an_import_has_nothing_to_write(store: Path, endless: str) -> None:
    MessageQueue(store).close()
    words = map(os.fsdecode, command("import", store, "-", "-q"))
    with subprocess.Popen(
        ["bash", "-c", 'lines="$1"; shift; (echo "$FIRST"; exec yes "$lines") | exec "$@"', "-", endless, *words],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**environment(), "FIRST": line(id="a").decode().strip()},
    ) as process:  # fmt: skip
        try:
            # The first line is written, and then others can open the store, although lines still arrive.
            wait_until(lambda: "a" in _listed(store))
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _listed(store: Path) -> list[str]:
    try:
        with MessageQueue(store, mode=Mode.MANUAL) as queue:
            return [message.id for message in queue.list()]
    except LockedError:
        return []


@pytest.mark.parametrize("blanks", [b" " * 2000, b"\t \r" * 400])
@pytest.mark.parametrize(
    ("rest", "result"),
    [
        (b'{"id":"a","status":"queued","body":"x"}\n', {"new": 1, "wrong": 0, "blank": 0}),
        (b'{"id":"a","status":"queued","body":"x"}', {"new": 1, "wrong": 0, "blank": 0}),
        (b"\n" + b'{"id":"a","status":"queued","body":"x"}\n', {"new": 1, "wrong": 0, "blank": 1}),
        (b"x\n", {"new": 0, "wrong": 1, "blank": 0}),
        (b"\x0c\n", {"new": 0, "wrong": 1, "blank": 0}),
        (b"", {"new": 0, "wrong": 0, "blank": 1}),
    ],
)
def test_I4_a_line_is_the_same_whole_and_in_pieces(
    store: Path, blanks: bytes, rest: bytes, result: dict[str, int]
) -> None:
    for pieces in ([blanks + rest], [blanks, rest], [blanks[:1500], blanks[1500:] + rest[:5], rest[5:]]):
        store.unlink(missing_ok=True)
        MessageQueue(store).close()
        read, write = os.pipe()
        lines = transfer.Lines(read)
        work = transfer.Import(Way(str(store), writes=True, changes=True, quiet=True))
        worker = threading.Thread(target=work.run, args=(lines,))
        worker.start()
        try:
            for piece in pieces:
                os.write(write, piece)
                time.sleep(0.02)
        finally:
            os.close(write)
            worker.join(60)
            os.close(read)
        assert work.counts == {"known": 0, "skipped": 0, **result}, pieces


def test_I4_what_an_interrupted_import_did_is_said(store: Path) -> None:
    MessageQueue(store).close()
    with subprocess.Popen(
        command("import", store, "-", "-q"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"no\n" + line(id="a"))
        assert process.stderr.readline().startswith(b"msgq: line 1: not JSON")
        wait_until(lambda: "a" in statuses(store))
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
    assert b"did not reach the end; until then: 1 new, 0 already there, 0 sent ones skipped, 1 wrong line\n" in errors


def test_I4_a_body_of_control_characters_is_written_in_base64(target: Path) -> None:
    body = target.with_name("body")
    for content in (b"\x01" * 700_000, b'"\n' * 300_000, b"a" * 700_000):
        body.write_bytes(content)
        id = msgq("enqueue", target, "--file", body).text.strip()
        assert msgq("show", target, id, "--body").output == content


def test_I4_a_large_body_is_exported_and_imported_without_a_limit_of_the_command_line(tmp_path: Path) -> None:
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    with MessageQueue(source, mode=Mode.MANUAL, limit_body=8 << 20) as queue:
        queue.enqueue(b"\xff" * (5 << 20), id="large")
    MessageQueue(target).close()
    msgq("import", target, "-", input=msgq("export", source).output)
    assert msgq("show", target, "large", "--body").output == b"\xff" * (5 << 20)


def test_I4_many_messages_keep_their_order(tmp_path: Path) -> None:
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    with MessageQueue(source, mode=Mode.MANUAL) as queue:
        queue.enqueue_bodies([f"{number}" for number in range(3000)], conversation="ana")
    MessageQueue(target, mode=Mode.MANUAL).close()
    done = msgq("import", target, "-", input=msgq("export", source).output)
    assert done.text.startswith("3,000 new")
    assert [row["preview"] for row in msgq("list", target, "--all", "--json").rows] == [f"{n}" for n in range(3000)]


def test_I4_drain_to_posts_every_message_in_order_without_an_owner(store: Path, receiver: Receiver) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        ids = queue.enqueue_batch([{"body": f"{number}", "conversation": "ana"} for number in range(3)])
    done = msgq("drain", store, "--to", f"http://127.0.0.1:{receiver.port}/messages")
    assert done.text == "3 sent, 0 failed, 0 left; ended: empty\n"
    assert [request.text for request in receiver.received] == ["0", "1", "2"]
    assert [request.id for request in receiver.received] == [f'"{id}"' for id in ids]
    assert set(statuses(store).values()) == {"sent"}
    assert done.errors == f"msgq: opened {store}: no other program has it open\n"


def test_I4_drain_to_a_server_that_is_down_changes_nothing_and_says_why(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        id = queue.enqueue("1")
    with socket.socket() as down:
        # Bound, but not listening.
        down.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{down.getsockname()[1]}"
        done = msgq("drain", store, "--to", f"http://{address}/", fails=1)
    refused = f"connection refused by {address}"
    assert done.text == f"0 sent, 0 failed, 1 left; ended: offline ({refused})\n"
    assert "refused" in done.errors.splitlines()[-1]
    row = msgq("show", store, id, "--json").rows[0]
    assert (row["status"], row["attempts"], row["retries_used"]) == ("queued", 0, 0)


def test_I4_a_drain_of_a_part_says_that_messages_are_left(store: Path, receiver: Receiver) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue_bodies(["1", "2"])
    url = f"http://127.0.0.1:{receiver.port}/"
    assert msgq("drain", store, "--to", url, "--batch", 1, "--json", fails=1).rows[0]["remaining"] == 1
    assert msgq("drain", store, "--to", url, "--batch", 1, "--json").rows[0]["remaining"] == 0


def test_I4_drain_to_keeps_what_was_not_accepted(store: Path, receiver: Receiver) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        first, second = queue.enqueue("1", conversation="ana"), queue.enqueue("2", conversation="ben")
    receiver.answer_next(Answer(503), Answer(422))
    url = f"http://127.0.0.1:{receiver.port}/"
    assert msgq("drain", store, "--to", url, "--json", fails=1).rows[0]["failed"] == 1
    assert statuses(store) == {first: "queued", second: "failed"}
    assert msgq("show", store, first, "--json").rows[0]["failure"]["code"] == 503
    assert msgq("drain", store, "--header", "A: b", fails=2)
    assert msgq("drain", store, "--to", "ftp://x/", fails=2)
    assert msgq("drain", store, "--to", url, "--header", "A: b\nC: d", fails=2)


def test_I4_headers_come_from_a_file_or_a_variable(store: Path, receiver: Receiver, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{receiver.port}/"
    headers = tmp_path / "headers"
    headers.write_bytes(b"\xef\xbb\xbfAuthorization: Bearer x\r\n\r\nX-One: 1\n")
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue("1")
    words = ("--header-file", headers, "--header-env", "EXTRA", "--header", "X-Three: 3")
    msgq("drain", store, "--to", url, *words, EXTRA="X-Two: 2")
    (request,) = receiver.received
    sent = {name.lower(): value for name, value in request.headers.items()}
    expected = {"authorization": "Bearer x", "x-one": "1", "x-two": "2", "x-three": "3"}
    assert {name: sent.get(name) for name in expected} == expected
    # The help offers only what other users cannot read.
    for shows in (("drain", "--help"), ("completion", "bash"), ("completion", "zsh"), ("completion", "fish")):
        shown = msgq(*shows).text
        assert "header-file" in shown
        assert "header-env" in shown
        assert not [word for word in shown.replace("'", " ").split() if word.strip('[],"') == "--header"]
    # What is wrong is said without the value, which is a secret.
    secret = "s3cret"
    for data, problem in ((secret.encode(), "line 1 of"), (b"A: \xff" + secret.encode(), "is not UTF-8")):
        headers.write_bytes(data)
        done = msgq("drain", store, "--to", url, "--header-file", headers, fails=2)
        assert problem in done.errors
        assert secret not in done.errors
    assert "MISSING" in msgq("drain", store, "--to", url, "--header-env", "MISSING", fails=2).errors
    for word in ("--header-file", "--header-env"):
        assert f"{word} needs --to" in msgq("drain", store, word, "x", fails=2).errors


def test_I4_an_import_reports_lines_in_their_order(store: Path) -> None:
    MessageQueue(store).close()
    good = b'{"id":"%d","status":"queued","body":"x"}\n'
    # Refused by the queue, which is known when lines are written together; and by the command, which is known at once.
    late = b'{"id":"l%d","status":"queued","body":"x","priority":1000}\n'
    lines = [
        good % 1,
        late % 2,
        b"x\n",
        b"\n",
        good % 5,
        b'{"id":"\xff"}\n',
        late % 7,
        b"[]\n",
        b"  \t\n",
        b"\xfe\xff\n",
    ]
    done = msgq("import", store, "-", "--quiet", input=b"".join(lines), fails=1)
    found = [line.partition(": ")[2].partition(":")[0] for line in done.errors.splitlines()]
    assert found == [f"line {number}" for number in (2, 3, 6, 7, 8, 10)]
    assert done.errors.splitlines()[2] == "msgq: line 6: not UTF-8"
    assert done.errors.splitlines()[5] == "msgq: line 10: not UTF-8"
    # A blank line is not passed over in silence.
    assert done.text == "2 new, 0 already there, 0 sent ones skipped, 6 wrong lines, 2 blank lines\n"


def test_H10_H14_an_import_keeps_times_and_titles(store: Path, target: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.record("old", sender="eve", conversation="ana", id="r", time=1_000_000)
        queue.enqueue("waits", conversation="ana", id="q", time=2_000_000)
        queue.enqueue("plain", conversation="ben", id="p")
        queue.set_title("ana", "Ana")
        created = round(queue.get("p").created.timestamp() * 1000)
    msgq("import", target, "-", input=msgq("export", store).output)
    msgq("title", target, "ben", "Benno")
    msgq("title", target, "nobody", "x", fails=3)
    rows = msgq("list", target, "--status", "all", "--order", "time", "--json").rows
    assert [(row["id"], row["time_ms"]) for row in rows] == [("r", 10**9), ("q", 2 * 10**9), ("p", created)]
    first = msgq("list", target, "--status", "all", "--order", "time", "-n", "1", "--json").rows[0]
    further = ("--after", first["sequence"], "--after-time", first["time_ms"])
    rows = msgq("list", target, "--status", "all", "--order", "time", *further, "--json").rows
    assert [row["id"] for row in rows] == ["q", "p"]
    rows = msgq("conversations", target, "--order", "time", "--json").rows
    assert [(row["name"], row["title"]) for row in rows] == [("ben", "Benno"), ("ana", "Ana")]


def test_H10_I4_the_last_line_with_a_title_decides(target: Path) -> None:
    lines = [
        line(id="a", conversation="ana", conversation_title="first"),
        line(id="b", conversation="ana", conversation_title="last", status="sent"),
    ]
    msgq("import", target, "-", input=b"".join(lines))
    assert [row["title"] for row in msgq("conversations", target, "--json").rows] == ["last"]


def test_H10_I4_a_wrong_title_is_reported_and_ends_no_import(target: Path) -> None:
    lines = [
        line(id="a", conversation="ana", conversation_title="A\nna"),
        line(id="b", conversation="ben", conversation_title="B" * 2_000_000),
        # A line that is refused gives no title, neither to its own conversation nor to one that exists.
        line(id="c", conversation="c" * 300, conversation_title="C"),
        line(id="d", conversation="dora", conversation_title="Dora"),
        line(id="e", conversation="dora", conversation_title="Other", priority=101),
        line(id="f", conversation="dora", conversation_title="Other", priority="high"),
        line(id="g", conversation="eva", status="delivered", sender="Eva", conversation_title="Eva"),
    ]
    done = msgq("import", target, "-", "--json", input=b"".join(lines), fails=1)
    assert done.rows == [{"new": 4, "known": 0, "skipped": 0, "wrong": 5, "blank": 0}]
    assert [each.split(":")[1] for each in done.errors.splitlines() if " line " in each] == [
        f" line {number}" for number in (3, 5, 6, 1, 2)
    ]
    rows = msgq("conversations", target, "--json").rows
    titles = {row["name"]: row["title"] for row in rows}
    assert titles == {"ana": None, "ben": None, "dora": "Dora", "eva": "Eva"}

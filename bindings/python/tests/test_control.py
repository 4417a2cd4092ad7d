"""I3: a running queue answers the other programs of its owner, and nobody else."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import Opener
from control_peer import Peer
from msgqueue import (
    ClosedError,
    ConflictError,
    Connectivity,
    InvalidError,
    LockedError,
    MessageQueue,
    Mode,
    Outcome,
    PermissionDeniedError,
    Status,
    aio,
)
from support import program, run, wait_until


@pytest.fixture
def control(store: Path) -> Path:
    return store.with_name("outbox.db-control")


@pytest.fixture
def connect(control: Path) -> Iterator[Callable[[], Peer]]:
    """Returns a function that connects to the control socket."""
    with ExitStack() as peers:
        yield lambda: peers.enter_context(Peer(control))


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users may enter, so that the mode of what is in it decides.

    Every start of pytest closes the directory above those that it makes.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    queue = opened(mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.sent())
    queue.set_connectivity(Connectivity.ONLINE)
    return queue


def test_I3_the_socket_is_private_and_ends_with_the_queue(queue: MessageQueue, store: Path, control: Path) -> None:
    old = os.umask(0)
    try:
        queue.start_control()
    finally:
        os.umask(old)
    assert stat.S_IMODE(control.stat().st_mode) == 0o600
    with Peer(control) as peer:
        assert peer.greeting is not None
        assert peer.greeting["protocol"] == 1
        assert peer.greeting["store"] == str(store)
        assert peer.greeting["pid"] == os.getpid()
        with pytest.raises(ConflictError):
            queue.start_control()
        queue.stop_control()
        queue.stop_control()
        assert peer.line() is None
    assert not control.exists()
    queue.start_control(control.with_name("elsewhere"))
    with Peer(control.with_name("elsewhere")) as peer:
        queue.close()
        assert peer.line() is None
    assert not control.with_name("elsewhere").exists()
    with pytest.raises(ClosedError):
        queue.start_control()


@pytest.mark.parametrize("umask", [0o777, 0o077, 0o002])
def test_I3_the_mode_does_not_depend_on_the_umask(
    queue: MessageQueue, control: Path, connect: Callable[[], Peer], umask: int
) -> None:
    old = os.umask(umask)
    try:
        queue.start_control()
    finally:
        os.umask(old)
    assert stat.S_IMODE(control.stat().st_mode) == 0o600
    assert connect().call("ping") == {}


def test_I3_every_call_is_answered(
    queue: MessageQueue, control: Path, connect: Callable[[], Peer], tmp_path: Path
) -> None:
    queue.start_control()
    peer = connect()
    body = 'grüße\n\u2028"\\'
    id = peer.call("enqueue", conversation="ana", body=body, metadata={"a": "ä"})["message"]
    message = queue.get(id)
    assert (message.text, message.metadata) == (body, {"a": "ä"})
    seen = peer.call("get", message=id)
    assert (seen["body"], seen["metadata"], seen["status"]) == (body, {"a": "ä"}, "queued")
    assert seen["created_ms"] == round(message.created.timestamp() * 1000)
    raw = peer.call("enqueue", conversation="ben", body_base64=base64.b64encode(b"\xff\x00").decode())["message"]
    assert base64.b64decode(peer.call("get", message=raw)["body_base64"]) == b"\xff\x00"
    assert [each["id"] for each in peer.call("list")["messages"]] == [id, raw]
    assert peer.call("explain", message=raw)["reason"] == "person"
    assert peer.call("counts")["queued"] == 2
    assert [each["name"] for each in peer.call("conversations")["conversations"]] == ["ben", "ana"]
    assert peer.call("banner")["text"] == "2 messages queued."
    assert peer.call("state")["connectivity"] == "online"
    assert peer.call("pause") == {}
    assert queue.state().paused
    assert peer.call("resume") == {}
    assert peer.call("edit", message=raw, body="text") == {}
    assert peer.call("drain", conversation="ana", batch=5, timeout_ms=20000)["sent"] == 1
    assert peer.call("attempts", message=id)["attempts"][0]["outcome"] == "sent"
    for status in ("sent", "queued"):
        text = peer.answer("mark", message=id, status=status)["error"]["text"]
        assert text == "mark: status must be one of delivered, read"
    assert peer.call("mark", message=id, status="read") == {}
    assert queue.get(id).status is Status.READ
    assert peer.call("send_now", message=raw) == {}
    wait_until(lambda: queue.get(raw).status is Status.SENT)
    assert peer.call("stats")["sent"] == 2
    assert f'msgqueue_sent_total{{queue="{control.with_name("outbox.db")}"}} 2' in peer.call("stats_text")["text"]
    assert peer.refusal("retry", message=raw) == "CONFLICT"
    assert peer.call("retry_all") == {"count": 0}
    assert peer.call("delete", message=raw) == {}
    assert peer.refusal("get", message=raw) == "NOT_FOUND"
    assert peer.call("clear") == {}
    assert peer.call("set_lifecycle", lifecycle="foreground") == {}
    assert peer.call("withdraw_prompt") == {}
    assert peer.call("request_collect") == {}
    assert peer.call("check")["sound"] is True
    assert peer.call("backup", path=str(tmp_path / "copy.db")) == {}
    with MessageQueue(tmp_path / "copy.db", read_only=True) as copy:
        assert copy.get(id).text == body
    assert peer.call("subscribe", events=["status", "collect"]) == {}
    queue.enqueue("x", id="x")
    queue.request_collect()
    assert peer.call("unsubscribe") == {}
    assert peer.call("ping") == {}
    assert [(event["event"], event.get("id"), event.get("to")) for event in peer.events] == [
        ("status", "x", "queued"),
        ("collect", None, None),
    ]


def test_I3_a_failed_message_is_retried_from_outside(opened: Opener, control: Path) -> None:
    outcomes = [Outcome.reject(code=400, text="no"), Outcome.sent()]
    queue = opened(mode=Mode.MANUAL, direct=False, transport=lambda _: outcomes.pop(0))
    queue.set_connectivity(Connectivity.ONLINE)
    queue.start_control()
    with Peer(control) as peer:
        id = peer.call("enqueue", body="x")["message"]
        assert peer.call("drain")["failed"] == 1
        failure = peer.call("get", message=id)["failure"]
        assert (failure["kind"], failure["code"], failure["text"]) == ("rejected", 400, "no")
        assert failure["sentence"] == "The server did not accept this message. You can change it and retry."
        assert peer.call("subscribe", events=["status"]) == {}
        assert peer.call("retry", message=id) == {}
        changes = [event["to"] for event in peer.events]
        while "sent" not in changes:
            line = peer.line()
            assert line is not None
            changes.append(line["to"])
        assert changes == ["sending", "sent"]


@pytest.mark.parametrize(
    "line",
    [
        b"x",
        b"{}",
        b'{"id":1,"call":"fly"}',
        b'{"id":1,"call":"ping","a":1}',
        b'{"id":1,"id":2,"call":"ping"}',
        b'"\xff"',
        b"[" * 1000,
    ],
)
def test_I3_wrong_lines_are_answered(queue: MessageQueue, control: Path, line: bytes) -> None:
    queue.start_control()
    with Peer(control) as peer:
        peer.write(line + b"\n")
        answer = peer.line()
        assert answer is not None
        assert answer["error"]["code"] == "INVALID"
        assert peer.call("ping") == {}


def test_I3_a_line_of_10_MB_ends_its_connection_alone(queue: MessageQueue, control: Path) -> None:
    queue.start_control()
    with Peer(control) as large, Peer(control) as other:
        try:
            large.write(b'{"id":1,"call":"' + b"x" * 10_000_000)
            answer = large.line()
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        assert answer is None or answer["error"]["code"] == "TOO_LARGE"
        assert other.call("ping") == {}


def test_I3_a_thousand_connections_and_half_lines_stop_nobody(
    queue: MessageQueue, control: Path, connect: Callable[[], Peer]
) -> None:
    queue.start_control()
    with Peer(control) as peer:
        for _ in range(15):
            connect().write(b'{"id":')
        for _ in range(1000):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
                dead.connect(str(control))
        assert peer.call("ping") == {}


def test_I3_another_user_is_refused(queue: MessageQueue, open_directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    control = open_directory / "control"
    queue.start_control(control)
    code = (
        "import os, socket, sys\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "peer = socket.socket(socket.AF_UNIX)\n"
        "try: peer.connect(sys.argv[1])\n"
        "except PermissionError: print('no way in'); sys.exit()\n"
        "print(peer.makefile().readline())\n"
    )
    assert run(code, control).stdout.strip() == "no way in"
    control.chmod(0o666)
    assert json.loads(run(code, control).stdout)["error"]["code"] == "PERMISSION"
    with Peer(control) as peer:
        assert peer.call("ping") == {}


def test_I3_a_forked_child_does_not_keep_the_clients(
    queue: MessageQueue, control: Path, connect: Callable[[], Peer]
) -> None:
    queue.start_control()
    peer = connect()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        assert peer.call("ping") == {}
        queue.close()
        assert peer.line() is None
        with pytest.raises((FileNotFoundError, ConnectionRefusedError)):
            connect()
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def test_I3_a_killed_owner_leaves_a_socket_that_the_next_one_replaces(
    store: Path, control: Path, connect: Callable[[], Peer], opened: Opener
) -> None:
    code = (
        "import sys, time; from msgqueue import MessageQueue\n"
        "queue = MessageQueue(sys.argv[1]); queue.start_control(); print('open', flush=True); time.sleep(600)"
    )
    with program(code, store) as owner:
        assert owner.line() == "open"
        with Peer(control) as peer:
            assert peer.greeting is not None
            assert peer.greeting["pid"] == owner.pid
            owner.signal(signal.SIGKILL)
            owner.wait()
            assert peer.line() is None
    assert control.exists()
    queue = opened()
    queue.start_control()
    assert connect().call("ping") == {}


def test_I3_wrong_paths_are_refused(
    queue: MessageQueue, store: Path, control: Path, tmp_path: Path, opened: Opener
) -> None:
    with pytest.raises(ConflictError):
        queue.start_control(store)
    for path in ("", tmp_path / "missing" / "socket"):
        with pytest.raises(InvalidError):
            queue.start_control(path)
    with pytest.raises(TypeError):
        queue.start_control(5)  # type: ignore[arg-type]
    queue.start_control()
    other = opened(tmp_path / "other.db")
    with pytest.raises(LockedError):
        other.start_control(control)
    other.close()
    reader = MessageQueue(tmp_path / "other.db", read_only=True)
    with pytest.raises(PermissionDeniedError):
        reader.start_control()
    reader.start_control(tmp_path / "elsewhere")
    with Peer(tmp_path / "elsewhere") as peer:
        assert peer.call("counts")["queued"] == 0
        for call, fields in {
            "enqueue": {"body": "x"},
            "retry": {"message": "x"},
            "clear": {},
            "pause": {},
            "drain": {},
        }.items():
            assert peer.refusal(call, **fields) == "PERMISSION"
    reader.close()


def test_I3_a_polled_queue_is_served_although_nobody_polls(opened: Opener, control: Path) -> None:
    queue = opened(polled=True, mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.sent())
    queue.set_connectivity(Connectivity.ONLINE)
    queue.start_control()
    with Peer(control) as peer:
        assert peer.call("subscribe", events=["status", "drain_finished"]) == {}
        peer.call("enqueue", body="x", message="x")
        assert peer.call("counts")["queued"] == 1
        peer.write(b'{"id":77,"call":"drain"}\n')
        wait_until(lambda: queue.state().draining)
        wait_until(lambda: queue.poll(0) or queue.counts().sent)
        wait_until(lambda: queue.poll(0) == 0)
        lines = list(peer.events)
        while not any(line.get("id") == 77 for line in lines):
            line = peer.line()
            assert line is not None
            lines.append(line)
        assert [line["to"] for line in lines if line.get("event") == "status"] == ["queued", "sending", "sent"]


def test_I3_with_asyncio(store: Path, control: Path) -> None:
    async def main() -> None:
        async def send(_: object) -> Outcome:
            return Outcome.sent()

        async with aio.MessageQueue(store, mode=Mode.MANUAL, direct=False, transport=send) as queue:
            await queue.set_connectivity(Connectivity.ONLINE)
            await queue.start_control()
            peer = await asyncio.to_thread(Peer, control)
            assert (await asyncio.to_thread(peer.call, "enqueue", body="x", message="x")) == {"message": "x"}
            assert (await asyncio.to_thread(peer.call, "drain"))["sent"] == 1
            await queue.stop_control()
            assert await asyncio.to_thread(peer.line) is None
            peer.close()

    asyncio.run(main())


def test_I3_several_clients_at_once(queue: MessageQueue, control: Path) -> None:
    queue.start_control()
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with Peer(control) as peer:
                for index in range(50):
                    peer.call("enqueue", body="x", message=f"{number}-{index}", conversation=f"c{number}")
                    peer.call("list", limit=10, bodies=True)
        except BaseException as problem:  # noqa: BLE001 - reported by the test's thread
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert queue.counts().queued == 400


def test_I3_Q20_the_reason_for_being_offline_is_told_to_other_programs(
    queue: MessageQueue, connect: Callable[[], Peer]
) -> None:
    queue.enqueue("hello", id="a")
    queue.start_control()
    peer = connect()
    peer.call("subscribe", events=["connectivity"])
    queue.set_connectivity(Connectivity.OFFLINE, reason="refused")
    state = peer.call("state")
    event = peer.events.pop()
    assert (event["connectivity"], event["text"]) == ("offline", "refused")
    assert (state["reason"], state["offline_reason"]) == ("offline", "refused")
    assert peer.call("explain", message="a")["text"] == "You're offline: refused. Waiting for you to send it."
    queue.set_connectivity(Connectivity.ONLINE)
    assert peer.call("state")["offline_reason"] == ""
    assert peer.events.pop()["text"] is None

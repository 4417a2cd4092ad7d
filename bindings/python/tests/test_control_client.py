"""I4: the client of the control socket."""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    BusyError,
    ConflictError,
    DuplicateError,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    PermissionDeniedError,
    TimedOutError,
    TooLargeError,
    control,
)
from support import program


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    queue = opened(mode=Mode.MANUAL, direct=False)
    queue.start_control()
    return queue


@contextmanager
def server(path: Path, *lines: bytes) -> Iterator[None]:
    """A server that writes these lines to its one client and then waits for the client's end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"".join(line + b"\n" for line in lines))
                while peer.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(30)
        assert not thread.is_alive()


def greeting(store: Path, protocol: int = 1) -> bytes:
    return f'{{"msgqueue":"9.9.9","protocol":{protocol},"store":"{store}","pid":7}}'.encode()


def test_I4_a_client_calls_and_hears_events(queue: MessageQueue, store: Path) -> None:
    with control.connect(store) as client, client.events("status") as events:
        assert (client.pid, client.store, client.version) == (os.getpid(), str(store), "0.2.0")
        fields = control.body_fields(b"\xff\n")
        id = client.call("enqueue", conversation="ana", metadata=None, **fields)["message"]
        assert queue.get(id).body == b"\xff\n"
        assert control.body_of(client.call("get", message=id)) == b"\xff\n"
        assert control.body_of(client.call("list")["messages"][0]) is None
        event = events.next(30)
        assert event is not None
        assert (event["id"], event["to"]) == (id, "queued")
        assert events.next(0) is None
        with pytest.raises(NotFoundError, match="nobody"):
            client.call("get", message="nobody")
        with pytest.raises(ConflictError):
            client.call("retry", message=id)
        for wrong in ({"message": "\udcff"}, {"message": float("nan")}, {"message": b""}, {"id": 1}):
            with pytest.raises(InvalidError):
                client.call("get", **wrong)
        assert client.call("ping") == {}
        queue.stop_control()
        assert list(events) == []
        with pytest.raises(control.NotRunningError):
            client.call("ping")


def test_I4_an_error_without_an_id_belongs_to_one_request_of_a_batch(queue: MessageQueue, store: Path) -> None:
    with control.connect(store) as client:
        requests = [{"message": f"{number}", "body": "x"} for number in range(9)]
        for place in (2, 5):
            requests[place]["priority"] = 10**20  # type: ignore[assignment]
        answers = client.batch("enqueue", requests)
        assert [place for place, answer in enumerate(answers) if isinstance(answer, InvalidError)] == [2, 5]
        assert [message.id for message in queue.list()] == ["0", "1", "3", "4", "6", "7", "8"]
        assert client.call("ping") == {}


@pytest.mark.parametrize(
    "wrong", [{"timeout": -1}, {"timeout": math.nan}, {"timeout": math.inf}, {"socket": ""}, {"socket": "a\0"}]
)
def test_I4_a_wrong_argument_of_a_client_is_refused(queue: MessageQueue, store: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        control.connect(store, **wrong)
    with pytest.raises(InvalidError):
        control.connect("\ud800")
    with control.connect(store, timeout=1e15) as client, client.events() as events:
        assert client.call("ping") == {}
        for time in (math.nan, math.inf):
            with pytest.raises(InvalidError):
                events.next(time)
        with pytest.raises(InvalidError):
            client.events(interval=timedelta.max)  # type: ignore[arg-type]


def test_I4_a_batch_is_stored_as_a_whole_or_not_at_all(queue: MessageQueue, store: Path) -> None:
    with control.connect(store) as client:
        drafts = [{"message": f"m{number}", "conversation": "ana", "body": "x"} for number in range(1000)]
        assert client.call("enqueue_batch", drafts=drafts)["messages"] == [draft["message"] for draft in drafts]
        assert queue.counts("ana").queued == 1000
        new = {"message": "new", "body": "x"}
        for wrong, error in (
            ([new, {"message": "m5", "body": "y"}], DuplicateError),
            ([new, {"body": "y", "priority": 101}], InvalidError),
            ([new, {"body": "y" * 2_000_000}], TooLargeError),
            ([new] * 1001, InvalidError),
        ):
            with control.connect(store) as other, pytest.raises(error):
                other.call("enqueue_batch", drafts=wrong)
        assert queue.counts().queued == 1000


def test_I4_a_path_that_is_too_long_for_a_socket_is_reached(tmp_path: Path, opened: Opener) -> None:
    place = tmp_path / ("d" * 120)
    place.mkdir()
    opened(path=place / "outbox.db").start_control()
    with control.connect(place / "outbox.db") as client:
        assert client.call("counts")["queued"] == 0


def test_I4_threads_share_a_client(queue: MessageQueue, store: Path) -> None:
    with control.connect(store) as client:
        threads = [
            threading.Thread(
                target=lambda i=i: [client.call("enqueue", message=f"{i}-{j}", body="") for j in range(50)]
            )
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.call("counts")["queued"] == 200


def test_I4_closing_a_client_ends_a_wait_of_another_thread(queue: MessageQueue, store: Path) -> None:
    events = control.connect(store).events()
    thread = threading.Thread(target=lambda: list(events))
    thread.start()
    events.close()
    thread.join(30)
    assert not thread.is_alive()


def test_I4_what_is_no_owner_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(control.NotRunningError):
        control.connect(store)
    stale = Path(f"{store}-control")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    with pytest.raises(control.NotRunningError):
        control.connect(store)
    stale.unlink()
    stale.touch()
    with pytest.raises(control.NotRunningError):
        control.connect(store)
    stale.unlink()
    store.touch()
    (tmp_path / "other.db").touch()
    problems = {
        b"hello": InvalidError,
        b"[]": InvalidError,
        b'{"protocol":1}': InvalidError,
        greeting(store, protocol=2): InvalidError,
        greeting(tmp_path / "other.db"): InvalidError,
        b'{"id":null,"error":{"code":"BUSY","text":"16 clients"}}': BusyError,
    }
    for line, problem in problems.items():
        with server(stale, line), pytest.raises(problem):
            control.connect(store)
        stale.unlink()
    with server(stale, greeting(store)), control.connect(store, timeout=0.05) as client, pytest.raises(TimedOutError):
        client.call("ping")
    with server(tmp_path / "elsewhere", greeting(store)):
        control.connect(store, socket=tmp_path / "elsewhere").close()


def test_I4_the_socket_of_another_user_is_refused(store: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    store.touch()
    listening = """
        import os, socket, sys
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sys.argv[1])
        os.setgid(65534); os.setuid(65534)
        listener.listen()
        print("ready", flush=True)
        listener.accept()
    """
    for owner, problem in ((0, PermissionDeniedError), (65534, control.NotRunningError)):
        # To root, the user who owns the file may own the queue; this one only ends at once.
        os.chown(store, owner, owner)
        with program(listening, f"{store}-control") as process:
            assert process.line() == "ready"
            with pytest.raises(problem):
                control.connect(store)
        Path(f"{store}-control").unlink()

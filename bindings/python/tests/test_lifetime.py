"""Opening, closing, forking, the end of the interpreter, and unreferenced queues."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    AttemptOutcome,
    ClosedError,
    ConflictError,
    Connectivity,
    CorruptError,
    Delivery,
    Error,
    Event,
    FailureKind,
    InvalidError,
    Lifecycle,
    LockedError,
    MessageQueue,
    Mode,
    Outcome,
    PermissionDeniedError,
    Status,
    TimedOutError,
    aio,
    control,
)
from msgqueue.relays import Http
from receiver import Receiver
from sender import HttpTransport
from support import Events, run, wait_until


def service_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("msgqueue ")]


def test_a_new_store_is_private(opened: Opener, store: Path) -> None:
    queue = opened()
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert (queue.path, queue.closed) == (str(store), False)
    assert repr(queue) == f"<MessageQueue {str(store)!r}>"


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_queue_that_is_copied_or_pickled_says_why_not(
    opened: Opener, tmp_path: Path, way: Callable[[object], object]
) -> None:
    for queue in (opened(), aio.MessageQueue(tmp_path / "other.db")):
        with pytest.raises(
            TypeError, match="a MessageQueue cannot be copied or pickled, because one process owns a store"
        ):
            way(queue)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_relay_and_a_client_that_are_copied_or_pickled_say_why_not(
    opened: Opener, way: Callable[[object], object]
) -> None:
    queue = opened()
    queue.start_control()

    with control.connect(queue.path) as client, Http("http://127.0.0.1/") as relay:
        for each in (client, relay):
            name = type(each).__name__
            with pytest.raises(TypeError, match=rf"{name} cannot be copied or pickled, .* in each process"):
                way(each)


def test_arguments_that_do_not_fit_name_the_method_of_the_queue(opened: Opener, tmp_path: Path) -> None:
    # Before Python 3.10 the message has the name of the method alone.
    prefix = "MessageQueue." if sys.version_info >= (3, 10) else ""
    queue: Any = opened()
    for name in sorted(set(dir(MessageQueue)) & set(dir(aio.MessageQueue))):
        if not name.startswith("_") and callable(getattr(queue, name)):
            with pytest.raises(TypeError, match=rf"^{re.escape(prefix)}{name}\(\) got an unexpected keyword argument"):
                getattr(queue, name)(colour="red")

    async def main() -> None:
        async with aio.MessageQueue(tmp_path / "other.db") as queue:
            wrong: Any = queue.enqueue
            with pytest.raises(TypeError, match=rf"^{re.escape(prefix)}enqueue\(\) missing 1 required"):
                await wrong()

    asyncio.run(main())


def test_a_second_owner_is_refused(opened: Opener, store: Path) -> None:
    opened()
    with pytest.raises(LockedError):
        MessageQueue(store)
    code = """
        import sys
        from msgqueue import LockedError, MessageQueue
        try:
            MessageQueue(sys.argv[1])
        except LockedError:
            print("locked")
    """
    assert run(code, store).stdout == "locked\n"


def test_a_file_that_is_not_a_store_is_refused_and_not_changed(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a store")
    with pytest.raises(CorruptError):
        MessageQueue(text)
    assert text.read_text() == "not a store"
    with pytest.raises(PermissionDeniedError):
        MessageQueue(tmp_path)
    with pytest.raises(Error):
        MessageQueue(tmp_path / "missing" / "outbox.db")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("option", ["max_in_flight", "attempt_timeout", "limit_body"])
def test_an_option_out_of_range_is_refused_by_the_library(store: Path, option: str) -> None:
    with pytest.raises(InvalidError) as caught:
        MessageQueue(store, **{option: 0})  # type: ignore[arg-type]
    assert caught.value.detail
    assert not store.exists()


def test_a_closed_queue_raises_closed_error(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http)
    queue.close()
    queue.close()
    assert queue.closed
    assert repr(queue).endswith(" closed>")
    for call in (
        lambda: queue.enqueue("late"),
        lambda: queue.enqueue_batch([{"body": "late"}]),
        lambda: queue.enqueue_bodies(["late"]),
        lambda: queue.get("id"),
        lambda: queue.edit("id", "late"),
        lambda: queue.update("id", "late"),
        lambda: queue.delete("id"),
        lambda: queue.retry("id"),
        lambda: queue.send_now("id"),
        lambda: queue.mark("id", Status.READ),
        lambda: queue.attempts("id"),
        lambda: queue.explain("id"),
        lambda: queue.record("late", sender="ana"),
        queue.list,
        queue.counts,
        queue.conversations,
        queue.stats,
        queue.prometheus,
        queue.banner,
        queue.state,
        queue.clear,
        queue.drain,
        lambda: queue.backup("copy.db"),
        lambda: queue.complete(1, Outcome.sent()),
        lambda: queue.complete_batch([(1, Outcome.sent())]),
        lambda: queue.set_transport(http),
        lambda: queue.set_transport(None),
        lambda: queue.set_event_handler(print),
        lambda: queue.set_connectivity(Connectivity.ONLINE),
        lambda: queue.set_lifecycle(Lifecycle.BACKGROUND),
        queue.start_monitor,
        queue.stop_monitor,
        queue.start_control,
        queue.stop_control,
        queue.pause,
        queue.resume,
    ):
        with pytest.raises(ClosedError):
            call()


def test_closed_is_true_when_enqueue_is_refused_and_not_before(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    close = queue._handle.lib.msgq_close
    seen: list[tuple[bool, bool]] = []

    def look() -> None:
        closed = queue.closed
        try:
            queue.enqueue("hello")
        except ClosedError:
            seen.append((closed, True))
        else:
            seen.append((closed, False))

    def slow_close(pointer: int, timeout: int) -> int:
        # Between the call of `close` and that of msgq_close.
        look()
        result: int = close(pointer, timeout)
        look()
        return result

    monkeypatch.setattr(queue._handle, "lib", Overlay(queue._handle.lib, msgq_close=slow_close))
    queue.close()
    assert seen == [(False, False), (True, True)]


class Overlay:
    """A library with some functions replaced."""

    def __init__(self, lib: object, **functions: object) -> None:
        self._lib = lib
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> object:
        return getattr(self._lib, name)


def test_a_queue_is_closed_by_its_block(store: Path) -> None:
    with MessageQueue(store) as queue:
        queue.set_connectivity(Connectivity.OFFLINE)
        id = queue.enqueue("hello")
    assert queue.closed
    with MessageQueue(store) as queue:
        assert [message.id for message in queue.list()] == [id]


def test_an_exception_in_the_block_is_not_replaced_by_one_of_close(store: Path, receiver: Receiver) -> None:
    with pytest.raises(ZeroDivisionError), MessageQueue(store) as queue:
        raise ZeroDivisionError
    assert queue.closed


def test_close_ends_the_threads_and_delivers_the_remaining_events(opened: Opener, http: HttpTransport) -> None:
    events = Events()
    before = service_threads()
    queue = opened(transport=http, on_event=events, max_in_flight=3)
    started = [thread for thread in service_threads() if thread not in before]
    assert started
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue(str(number)) for number in range(50)]
    queue.close()
    assert not any(thread.is_alive() for thread in service_threads() if thread not in before)
    assert not any(thread.is_alive() for thread in started)
    assert all(events.statuses(id) == [Status.QUEUED] for id in ids)


def test_a_queue_without_callbacks_has_no_threads(opened: Opener) -> None:
    before = threading.enumerate()
    queue = opened()
    queue.enqueue("hello")
    assert [thread for thread in threading.enumerate() if thread not in before] == []


def test_close_waits_for_the_attempt_in_flight(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    with receiver.holding() as gate:
        id = queue.enqueue("hello")
        wait_until(lambda: receiver.received)
        closing = threading.Thread(target=queue.close)
        closing.start()
        wait_until(lambda: queue.closed)
        gate.open()
        closing.join()
    assert opened().get(id).status is Status.SENT


def test_close_times_out_and_the_outcome_is_unknown(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    with receiver.holding():
        id = queue.enqueue("hello")
        wait_until(lambda: receiver.received)
        start = time.monotonic()
        with pytest.raises(TimedOutError):
            queue.close(timeout=0.1)
        assert time.monotonic() - start < 5
        assert queue.closed
        queue.close()
        again = opened()
        assert again.get(id).status is Status.QUEUED
        assert [entry.outcome for entry in again.attempts(id)] == [AttemptOutcome.UNKNOWN]


def test_a_block_waits_as_long_as_an_attempt_may_take(store: Path) -> None:
    """The default of `close`, 5 s, is less than the 30 s of an attempt."""
    started = threading.Event()

    def transport(_: Delivery) -> Outcome:
        started.set()
        time.sleep(5.5)
        return Outcome.sent()

    with MessageQueue(store, transport) as queue:
        id = queue.enqueue("hello")
        assert started.wait(20)
    with MessageQueue(store, read_only=True) as queue:
        assert queue.get(id).status is Status.SENT


@pytest.mark.parametrize("polled", [False, True])
def test_a_block_ends_when_the_attempt_has_timed_out(store: Path, polled: bool) -> None:
    started: list[str] = []

    def transport(delivery: Delivery) -> Outcome:
        started.append(delivery.id)
        return Outcome.pending()

    with MessageQueue(store, transport, polled=polled, attempt_timeout=0.5, on_demand_timeout=0.5) as queue:
        id = queue.enqueue("hello")
        wait_until(lambda: started or (polled and queue.poll(0)))
        start = time.monotonic()
    assert time.monotonic() - start < 20
    with MessageQueue(store, read_only=True) as queue:
        (attempt,) = queue.attempts(id)
        assert attempt.kind is FailureKind.TIMEOUT


def test_close_on_several_threads_closes_once(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http)
    problems: list[Error] = []
    closed_when_back: list[bool] = []

    def close() -> None:
        try:
            queue.close(timeout=20)
            closed_when_back.append(receiver.texts == ["hello"])
        except Error as problem:
            problems.append(problem)

    threads = [threading.Thread(target=close) for _ in range(8)]
    with receiver.holding() as gate:
        queue.enqueue("hello")
        wait_until(lambda: receiver.received)
        for thread in threads:
            thread.start()
        wait_until(lambda: queue.closed)
        gate.open()
        for thread in threads:
            thread.join()
    assert problems == []
    assert closed_when_back == [True] * 8


def test_close_inside_a_callback_is_a_conflict(opened: Opener) -> None:
    caught: dict[str, Error] = {}

    def close(where: str) -> None:
        try:
            queue.close()
        except Error as problem:
            caught[where] = problem

    def transport(_: Delivery) -> Outcome:
        close("transport")
        return Outcome.sent()

    def handler(_: Event) -> None:
        close("handler")

    queue = opened()
    queue.set_event_handler(handler)
    queue.set_transport(transport)
    id = queue.enqueue("hello")
    wait_until(lambda: len(caught) == 2)
    assert all(type(problem) is ConflictError for problem in caught.values())
    assert not queue.closed
    wait_until(lambda: queue.get(id).status is Status.SENT)


def test_an_unreferenced_queue_is_closed(opened: Opener, store: Path, http: HttpTransport) -> None:
    def use_and_forget() -> None:
        queue = MessageQueue(store, transport=http, on_event=Events())
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.enqueue("hello", id="the-id")

    def is_there() -> bool:
        try:
            return opened().get("the-id").text == "hello"
        except LockedError:
            return False

    with pytest.warns(ResourceWarning, match="unclosed queue"):
        use_and_forget()
    assert wait_until(is_there)
    wait_until(lambda: not service_threads())


LEAVE_OPEN = """
    import sys
    import time
    from msgqueue import Connectivity, MessageQueue
    from sender import HttpTransport

    events = []
    queue = MessageQueue(sys.argv[1], transport=HttpTransport(int(sys.argv[2]), timeout=60), on_event=events.append)
    if sys.argv[3] == "offline":
        queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("hello", id="the-id")
    while sys.argv[3] != "offline" and queue.get("the-id").attempts == 0:
        time.sleep(0.001)
    if sys.argv[3] == "raises":
        raise SystemExit(7)
"""


@pytest.mark.parametrize(("how", "code"), [("offline", 0), ("sending", 0), ("raises", 7)])
def test_the_interpreter_exits_cleanly_without_close(
    opened: Opener, store: Path, receiver: Receiver, how: str, code: int
) -> None:
    ended = run(LEAVE_OPEN, store, receiver.port, how)
    assert (ended.returncode, ended.stderr) == (code, "")
    status = opened().get("the-id").status
    assert status is (Status.QUEUED if how == "offline" else Status.SENT)


def test_the_interpreter_exits_cleanly_while_a_transport_hangs(opened: Opener, store: Path, receiver: Receiver) -> None:
    with receiver.holding():
        start = time.monotonic()
        ended = run(LEAVE_OPEN, store, receiver.port, "sending")
        assert time.monotonic() - start < 20
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr
    assert opened().get("the-id").attempts == 1


FORK = """
    import json, os, sys
    from msgqueue import Connectivity, Error, MessageQueue, Outcome, Status

    queue = MessageQueue(sys.argv[1], transport=lambda _: Outcome.sent(), on_event=lambda _: None)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("before", id="before")
    calls = {
        "enqueue": lambda: queue.enqueue("child"),
        "get": lambda: queue.get("before"),
        "list": queue.list,
        "counts": queue.counts,
        "delete": lambda: queue.delete("before"),
        "drain": queue.drain,
        "mark": lambda: queue.mark("before", Status.READ),
        "complete": lambda: queue.complete(1, Outcome.sent()),
        "set_transport": lambda: queue.set_transport(None),
        "set_connectivity": lambda: queue.set_connectivity(Connectivity.ONLINE),
        "backup": lambda: queue.backup("copy.db"),
        "start_control": queue.start_control,
        "stop_control": queue.stop_control,
        "close": queue.close,
    }
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = {}
        with queue:
            for name, call in calls.items():
                try:
                    said[name] = repr(call())
                except Error as problem:
                    said[name] = problem.name
        said["closed"] = queue.closed
        del queue, calls, call
        os.write(writing, json.dumps(said).encode())
        sys.exit(0)  # with the handlers that run at exit
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    queue.enqueue("after", id="after")
    print(json.dumps({"said": json.loads(said), "status": status, "texts": [each.text for each in queue.list()]}))
    queue.close()
"""


def test_a_forked_child_is_refused_and_does_not_affect_the_parent(opened: Opener, store: Path) -> None:
    ended = run(FORK, store, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (ended.returncode, ended.stderr) == (0, "")
    report = json.loads(ended.stdout)
    assert report["said"].pop("closed") is True
    assert set(report["said"].values()) == {"MSGQ_FORKED"}
    assert report["status"] == 0
    assert report["texts"] == ["before", "after"]
    assert [message.id for message in opened().list()] == ["before", "after"]


def test_opening_and_closing_leaves_no_threads_and_no_descriptors(store: Path, http: HttpTransport) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    MessageQueue(store, transport=http).close()
    threads, files = threading.enumerate(), descriptors()
    for _ in range(50):
        with MessageQueue(store, transport=http, on_event=Events()) as queue:
            queue.counts()
    assert [thread for thread in threading.enumerate() if thread not in threads] == []
    assert descriptors() <= files

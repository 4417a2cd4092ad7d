"""I4: msgq and other programs that use the same store, or end during a command; and listings of many messages."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from command_line import command, fill, hosted, msgq, statuses
from msgqueue import Connectivity, Delivery, MessageQueue, Mode, Outcome
from support import environment, program, run, wait_until


@pytest.mark.parametrize("kind", ["closed", "python", "c"])
def test_I4_check_says_how_the_store_was_reached(kind: str, store: Path) -> None:
    fill(store)
    with hosted(kind, store):
        errors = msgq("check", store).errors
        assert msgq("check", store, "--quiet").errors == ""
    if kind == "closed":
        assert errors == f"msgq: opened {store}: no other program has it open\n"
    else:
        assert errors.endswith(f", through {store}-control\n")


def test_I4_salvage_says_how_the_store_was_reached(store: Path, tmp_path: Path) -> None:
    fill(store)
    said = f"msgq: opened {store}: no other program has it open\n"
    assert msgq("salvage", store, tmp_path / "1.db").errors == said
    assert msgq("salvage", store, tmp_path / "2.db", "-q").errors == ""
    with hosted("python", store):
        errors = msgq("salvage", store, tmp_path / "3.db", "--wait", 0, fails=5).errors
    assert "salvage needs a store that no program has open" in errors


def test_I4_programs_that_use_a_store_at_once_wait_for_each_other(store: Path) -> None:
    started = [
        subprocess.Popen(
            command("enqueue", store, f"{number}", "--id", f"m{number}", "--create", "--wait", 100),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        )
        for number in range(8)
    ]  # fmt: skip
    for number, process in enumerate(started):
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, f"m{number}\n".encode()), errors
    assert set(statuses(store)) == {f"m{number}" for number in range(8)}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list"], 0), (["retry", "f1"], 0), (["check"], 0), (["salvage", "NEW"], 0), (["pause"], 6),
        (["import", "/dev/null"], 0), (["drain", "--to", "http://127.0.0.1:1/"], 1), (["clear", "--yes"], 0),
    ],
)  # fmt: skip
def test_I4_a_command_waits_for_a_program_that_ends_soon(store: Path, words: list[str], code: int) -> None:
    fill(store)
    target = str(store.with_name("new.db"))
    given = [target if word == "NEW" else word for word in words[1:]]
    queue = MessageQueue(store, mode=Mode.MANUAL)
    with subprocess.Popen(
        command(words[0], store, *given, "--wait", 100),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        queue.close()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code, errors


def test_I4_a_command_waits_two_seconds_and_then_says_what_to_do(store: Path) -> None:
    fill(store)
    with hosted("c", store, has_socket=False):
        start = time.monotonic()
        errors = msgq("list", store, fails=5).errors
        assert time.monotonic() - start > 2
    assert "serves no control socket: let it call start_control" in errors
    assert "or end it; if it ends soon, give --wait SECONDS" in errors


@contextmanager
def ending(store: Path, answer: bytes) -> Iterator[None]:
    """An owner that ends each connection after it has read one request and written these bytes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{store}-control")
        listener.listen()

        greeting = json.dumps({"msgqueue": "9.9.9", "protocol": 1, "store": str(store), "pid": 7})

        def end(peer: socket.socket) -> None:
            with peer, suppress(OSError):
                peer.sendall(greeting.encode() + b"\n")
                peer.recv(1 << 20)
                peer.sendall(answer)

        def serve() -> None:
            with suppress(OSError), ThreadPoolExecutor() as pool:
                while True:
                    peer, _ = listener.accept()
                    # A drain has two connections, and may send its first request on either.
                    pool.submit(end, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)
    Path(f"{store}-control").unlink()


@pytest.mark.parametrize("answer", [b"", b'{"id":1,"resu'])
def test_I4_an_owner_that_ends_during_a_command_is_named(store: Path, answer: bytes) -> None:
    fill(store)
    lines = store.with_name("lines")
    lines.write_bytes(msgq("export", store).output)
    ended = f"the program that has {store} open (process 7) ended first"
    with ending(store, answer):
        for words in (["list"], ["show", "q1"], ["stats"], ["conversations"], ["check"], ["export"]):
            assert msgq(words[0], store, *words[1:], "-q", fails=8).errors == f"msgq: {ended}\n"
        for words in (
            ["enqueue", "x"], ["retry", "f1"], ["retry-all"], ["edit", "q1", "x"], ["delete", "q1", "--yes"],
            ["clear", "--yes"], ["pause"], ["resume"], ["collect"], ["send-now", "q1"], ["import", str(lines)],
            ["drain"],
        ):  # fmt: skip
            errors = msgq(words[0], store, *words[1:], "-q", fails=8).errors
            assert f"msgq: {ended}; whether the change was made is not known" in errors


def test_I4_many_messages_are_listed_in_little_memory(tmp_path: Path) -> None:
    sizes: dict[int, list[int]] = {}
    for count in (1_000, 40_000):
        store = tmp_path / f"{count}.db"
        with MessageQueue(store, mode=Mode.MANUAL) as queue:
            for start in range(0, count, 1000):
                queue.enqueue_batch([{"body": "x" * 100, "conversation": f"c{start + place}"} for place in range(1000)])
        for words in (["list"], ["list", "--json"], ["conversations"]):
            sizes.setdefault(count, []).append(_memory(words[0], store, "--all", *words[1:], lines=count))
    for few, many in zip(sizes[1_000], sizes[40_000]):
        assert many < few * 1.5, sizes


def _memory(*words: object, lines: int) -> int:
    """Runs msgq, counts the lines that it writes, and returns the most memory that it had, in KiB."""
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        count = sum(1 for _ in process.stdout)
        assert lines <= count <= lines + 1
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
    return used.ru_maxrss


def test_I4_the_columns_of_a_long_table_stay_where_they_are(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        for start in range(0, 3000, 1000):
            queue.enqueue_batch([{"body": f"body {start + place}", "conversation": "ana"} for place in range(1000)])
        queue.enqueue("last", conversation="a long name of a conversation", id="i" * 100)
        queue.enqueue("end", conversation="ana", id="short")
    lines = msgq("list", store, "--all").lines
    place = lines[0].index("TEXT")
    assert all(each[place:].startswith("body ") for each in lines[1:3001])
    # A wider text is whole, and moves its own row only.
    assert lines[3001].split() == [
        "i" * 100,
        "queued",
        *["a", "long", "name", "of", "a", "conversation"],
        *lines[3001].split()[-4:],
    ]
    assert lines[3002][place:] == "end"


@contextmanager
def silent(store: Path, path: Path | None = None) -> Iterator[None]:
    """A program that accepts connections at the control socket, and never answers."""
    place = path or Path(f"{store}-control")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(16)
        yield
    place.unlink()


# Runs msgq with a short time for answers.
IMPATIENT = """
    import sys
    from msgqueue.cli import main, session
    session._ANSWER_TIME = 0.2
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["list"], False), (["watch"], False), (["check"], False), (["console", "--no-browser"], False),
        (["delete", "f1", "--yes"], True), (["import", "/dev/null"], True), (["pause"], True), (["drain"], True),
    ],
)  # fmt: skip
def test_I4_an_owner_that_does_not_answer_is_named(store: Path, words: list[str], changes: bool) -> None:
    fill(store)
    with silent(store):
        done = run(IMPATIENT, words[0], store, *words[1:], "-q")
    unsent = "; no change was sent to it on this connection" if changes else ""
    said = f"the program that has {store} open did not answer: no answer on {store}-control within 0.2 s"
    assert (done.returncode, done.stdout, done.stderr) == (8, "", f"msgq: {said}{unsent}\n")


@pytest.mark.parametrize(("words", "seen"), [(["-n", "3"], ", after 0 of 3 events"), ([], "")])
def test_I4_a_watch_whose_owner_ends_says_so(store: Path, words: list[str], seen: str) -> None:
    fill(store)
    with hosted("python", store):
        watcher = subprocess.Popen(
            command("watch", store, "--events", "drain_finished", *words),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        assert watcher.stderr is not None
        assert b"owner" in watcher.stderr.readline()
        # The subscription has a connection of its own.
        time.sleep(0.5)
    output, errors = watcher.communicate(timeout=60)
    said = f"msgq: the program that has {store} open (process {os.getpid()}) ended first{seen}\n"
    assert (watcher.returncode, output, errors.decode()) == (8, b"", said)


def test_I4_a_drain_whose_owner_closes_the_queue_says_what_was_sent(store: Path) -> None:
    started, free = threading.Event(), threading.Event()

    def send(_: Delivery) -> Outcome:
        started.set()
        free.wait(60)
        return Outcome.sent()

    queue = MessageQueue(store, send, mode=Mode.MANUAL, direct=False, max_in_flight=1)
    queue.set_connectivity(Connectivity.ONLINE)
    queue.start_control()
    queue.enqueue_bodies(["x"] * 10)
    with subprocess.Popen(
        command("drain", store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as drain:
        assert started.wait(60)
        closing = threading.Thread(target=queue.close)
        closing.start()
        wait_until(lambda: queue.closed)
        free.set()
        output, errors = drain.communicate(timeout=60)
        closing.join(60)
    assert drain.returncode == 8, (output, errors)
    if output:
        # The answer of the drain arrived before the connection ended.
        assert output.endswith(b"left; ended: closed\n")
        assert errors.endswith(b"closed the queue first\n")
    else:
        assert b"ended first; whether" in errors


def test_I4_a_drain_whose_owner_is_killed_says_what_was_sent(store: Path) -> None:
    MessageQueue(store).close()
    code = """
        import sys, threading
        from msgqueue import Connectivity, MessageQueue, Mode, Outcome
        free = threading.Semaphore(3)
        def send(delivery):
            if not free.acquire(blocking=False):
                print("stuck", flush=True)
                threading.Event().wait()
            return Outcome.sent()
        queue = MessageQueue(sys.argv[1], send, mode=Mode.MANUAL, direct=False, max_in_flight=1)
        queue.set_connectivity(Connectivity.ONLINE)
        queue.enqueue_bodies(["x"] * 10)
        queue.start_control()
        print("ready", flush=True)
        threading.Event().wait()
    """
    with program(code, store) as owner:
        assert owner.line() == "ready"
        with subprocess.Popen(
            command("drain", store, "-q"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        ) as drain:
            assert owner.line() == "stuck"
            time.sleep(0.5)
            owner.signal(signal.SIGKILL)
            output, errors = drain.communicate(timeout=60)
    assert (drain.returncode, output) == (8, b"")
    lines = errors.decode().splitlines()
    assert [line.startswith("msgq: the last that is known: ") for line in lines] == [True, False], lines
    assert lines[1].startswith(f"msgq: the program that has {store} open")


def test_I4_the_console_reaches_the_store_as_the_other_commands_do(store: Path) -> None:
    fill(store)
    other = store.with_name("other.sock")
    # A wrong socket never leads to the opening of the store.
    errors = msgq("console", store, "--no-browser", "--socket", other, fails=6).errors
    assert errors == f"msgq: no program answers on {other}\n"
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        assert "serves no control socket" in msgq("console", store, "--no-browser", "--wait", 0, fails=5).errors
        queue.start_control(other)
        _check_console(store, f"msgq: owner: pid {os.getpid()}, through {other}\n", "--socket", other)
    _check_console(store, f"msgq: opened {store}: no other program has it open\n")


def _check_console(store: Path, said: str, *words: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for options in ((), ("-q",), ("--json", "-q")):
            with subprocess.Popen(
                command("console", store, "--no-browser", *words, *options),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
            ) as process:  # fmt: skip
                assert process.stdout is not None
                line = process.stdout.readline().decode()
                address = json.loads(line)["url"] if "--json" in options else line
                assert address.startswith("http://127.0.0.1:")
                process.send_signal(number)
                output, errors = process.communicate(timeout=60)
            assert (process.returncode, output, errors.decode()) == (0, b"", "" if "-q" in options else said)


def test_I4_a_console_waits_for_a_program_that_ends_soon(store: Path) -> None:
    fill(store)
    queue = MessageQueue(store, mode=Mode.MANUAL)
    with subprocess.Popen(
        command("console", store, "--no-browser", "--wait", 100), stdout=subprocess.PIPE, env=environment()
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        queue.close()
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize("number", ["1_0", "１０", " 5", "5 ", "٣"])  # noqa: RUF001
def test_I4_numbers_have_ascii_digits_only(store: Path, number: str) -> None:
    fill(store)
    assert "is not a whole number" in msgq("list", store, "-n", number, fails=2).errors
    assert "is not a time" in msgq("enqueue", store, "x", "--not-before", f"+{number}m", fails=2).errors


def test_I4_a_list_says_that_it_is_cut_only_if_it_is(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue_bodies(["x"] * 3)
    for words in ([], ["--json"], ["--newest"]):
        assert "--after" not in msgq("list", store, "-n", 3, *words).errors
        done = msgq("list", store, "-n", 2, *words)
        assert "the first 2 messages; --after" in done.errors
        assert len(done.lines) == 2 + ("--json" not in words)


def test_I4_Q20_the_command_line_says_why_there_is_no_connection(store: Path) -> None:
    refused = "connection refused by 127.0.0.1:4222"
    with MessageQueue(
        store, mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.offline(text=refused)
    ) as queue:
        queue.enqueue("hello", id="a")
        queue.start_control()
        assert msgq("drain", store, fails=1).text == f"0 sent, 0 failed, 1 left; ended: offline ({refused})\n"
        assert f"Not connected: {refused}. " in msgq("stats", store).text
        queue.set_connectivity(Connectivity.OFFLINE, reason="TLS expected")
        assert "You're offline: TLS expected. " in msgq("explain", store, "a").text
        assert msgq("stats", store, "--json").rows[0]["state"]["offline_reason"] == "TLS expected"

"""I4: msgq with wrong arguments, wrong files, without rights, without a terminal, and when it is interrupted."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from command_line import command, fill, hosted, msgq, statuses
from msgqueue import MessageQueue, Mode, sqlite_version
from msgqueue._handle import CLOSE_TIMEOUT
from msgqueue.cli import arguments
from msgqueue.cli.terminal import columns_of, cut, escaped
from support import environment, run, wait_until


def test_I4_what_is_no_store_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello " * 100)
    for path, said in (
        (tmp_path / "missing.db", "does not exist"),
        (tmp_path / "nowhere" / "missing.db", "does not exist"),
        (tmp_path, "is a directory"),
        (text / "below", "does not exist"),
        ("/dev/null", "is not a regular file"),
    ):
        for words in (["list"], ["enqueue", "x"], ["check"], ["watch"], ["salvage", tmp_path / "new.db"], ["console"]):
            done = msgq(words[0], path, *words[1:], fails=4)
            assert said in done.errors, (words, path, done)
            assert done.text == ""
    for words in (["list"], ["enqueue", "x"], ["check"], ["salvage", tmp_path / "new.db"]):
        assert "not" in msgq(words[0], text, *words[1:], fails=4).errors
    assert sorted(each.name for each in tmp_path.iterdir()) == ["text"]
    assert "does not exist" in msgq("list", b"\xff\xfe.db", fails=4).errors
    msgq("list", "", fails=4)


@pytest.mark.parametrize("kind", ["python", "c"])
def test_I4_an_owner_without_a_socket_is_named_with_what_to_do(kind: str, store: Path) -> None:
    fill(store)
    with hosted(kind, store, has_socket=False):
        for words in (
            ["list"], ["retry", "f1"], ["check"], ["export"],
            ["pause"], ["resume"], ["collect"], ["send-now", "q1"], ["watch"], ["drain"],
        ):  # fmt: skip
            errors = msgq(words[0], store, *words[1:], "--wait", 0, fails=5).errors
            assert "serves no control socket" in errors
            assert "start_control" in errors
            assert "process" in errors
    assert msgq("list", store).code == 0


@contextmanager
def impostor(store: Path, greeting: bytes, *answers: bytes) -> Iterator[None]:
    """A program that is no queue: it greets each client, and then writes the answers for ever, one for each request."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{store}-control")
        listener.listen()

        def talk(peer: socket.socket) -> None:
            with peer, suppress(OSError), peer.makefile("rb") as requests:
                peer.sendall(greeting)
                for number, _ in enumerate(requests):
                    while answers[0] == ENDLESS:
                        peer.sendall(ENDLESS)
                    peer.sendall(answers[min(number, len(answers) - 1)].replace(b"ID", b"%d" % (number + 1)))

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(peer,), daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)
    Path(f"{store}-control").unlink()


GREETING = b'{"msgqueue":"9.9.9","protocol":1,"store":"/nowhere","pid":7}\n'
ENDLESS = b"x" * (1 << 20)


def test_I4_a_socket_of_another_protocol_is_named(store: Path) -> None:
    fill(store)
    for greeting in (b'{"protocol":99}\n', GREETING.replace(b":1,", b":99,")):
        with impostor(store, greeting, b"\n"):
            assert "speaks the unknown protocol 99" in msgq("list", store, fails=2).errors


def test_I4_an_endless_line_of_a_socket_ends_the_command(store: Path) -> None:
    fill(store)
    with impostor(store, b"x" * (4 << 20), b"\n"):
        assert "is not the control socket of a queue" in msgq("list", store, fails=2).errors
    with impostor(store, GREETING, ENDLESS):
        assert "wrote a line of more than" in msgq("list", store, fails=1).errors


@pytest.mark.parametrize(
    "answer",
    [
        b'{"id":ID,"result":{}}',
        b'{"id":ID,"result":[]}',
        b'{"id":ID}',
        b"hello",
        b'{"id":ID,"result":{"messages":5,"next":null,"counts":1,"conversations":[{}],"attempts":[1],"message":7}}',
        b'{"id":ID,"result":{"messages":[{"id":"a"}],"next":null,"conversations":[],"next":"x","sent":"many"}}',
        b'{"id":ID,"error":"no"}',
    ],
)
def test_I4_an_answer_without_the_form_of_the_protocol_is_an_error(store: Path, answer: bytes) -> None:
    fill(store)
    with impostor(store, GREETING, answer + b"\n"):
        for words in (["list"], ["show", "q1"], ["stats"], ["drain"], ["clear", "--yes"], ["explain", "q1"], ["check"]):
            done = msgq(words[0], store, *words[1:], "--quiet", fails=1)
            assert done.errors.startswith("msgq: ")
            assert "Traceback" not in done.errors


def test_I4_a_listing_that_never_advances_ends(store: Path) -> None:
    fill(store)
    row = b'{"id":ID,"result":{"messages":[],"conversations":[],"next":%d}}\n'
    with impostor(store, GREETING, row % 5):
        for words in (["list", "--all"], ["conversations", "--all"], ["export"]):
            assert "where it was before" in msgq(words[0], store, *words[1:], fails=1).errors


def test_I4_wrong_values_change_nothing(store: Path) -> None:
    fill(store)
    before = store.read_bytes()
    for words in (
        ["list", store, "--limit", "0"],
        ["list", store, "--limit", "x"],
        ["list", store, "--limit", str(2**70)],
        ["list", store, "--status", "lost"],
        ["list", store, "--after", "-1"],
        ["list"],
        [],
        ["fly", store],
        ["enqueue", store],
        ["enqueue", store, "x", "--file", "y"],
        ["enqueue", store, "x", "--priority", "101"],
        ["enqueue", store, "x", "--expires", "soon"],
        ["enqueue", store, "x", "--not-before", "+2d", "--expires", "+1d"],
        ["enqueue", store, "x", "--metadata", "novalue"],
        ["enqueue", store, "x", "--metadata", "a=1", "--metadata", "a=2"],
        ["enqueue", store, "x", "-c", b"\xff"],
        ["enqueue", store, "x", "--id", "i" * 256],
        ["enqueue", store, "x", "--id", "a\x1bb"],
        ["show", store, b"\xff"],
        ["edit", store, "q1"],
        ["completion", "tcsh"],
        ["completion", "bash", "--json"],
        ["stats", store, "--prometheus", "--json"],
        ["list", store, "--x\x1b[2J"],
        ["console", store, "--port", "-1"],
        ["console", store, "--port", "65536"],
        ["console", store, "--port", "x\x1b[2J"],
        ["console", store, "--port", ""],
        ["enqueue", store, "--file", "/dev/zero"],
    ):
        done = msgq(*words, fails=2)
        assert done.errors
        assert "Traceback" not in done.errors
        assert "\x1b" not in done.errors
    for words, code in (
        (["edit", store, "s1", "x"], 6),
        (["edit", store, "nobody", "x"], 3),
        (["delete", store, "nobody", "--yes"], 3),
        (["list", store, "--socket", "/nowhere"], 6),
        (["edit", store, "q1", "--file", "/nowhere"], 1),
        (["import", store, "/nowhere"], 1),
        (["backup", store, "/nowhere/copy"], 2),
    ):
        msgq(*words, fails=code)
    with MessageQueue(store, read_only=True) as reader:
        assert len(reader.list()) == 4
    assert len(before) == store.stat().st_size


@pytest.mark.parametrize("words", [["retry", "f1", "nobody", "f2"], ["delete", "f1", "nobody", "f2", "--yes"]])
def test_I4_what_was_done_before_an_unknown_id_is_said(store: Path, words: list[str]) -> None:
    fill(store)
    done = msgq(words[0], store, *words[1:], fails=3)
    assert f"msgq: {words[0]} was done for f1; it stopped at nobody\n" in done.errors
    assert statuses(store)["f2"] == "failed"
    assert statuses(store).get("f1") != "failed"


def test_I4_without_rights_it_says_so(store: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    fill(store)
    code = """
        import os, pkgutil, sys
        import msgqueue.cli, msgqueue.queue, msgqueue._library
        # The user may be unable to read the modules.
        for module in pkgutil.iter_modules(msgqueue.cli.__path__):
            __import__(f"msgqueue.cli.{module.name}")
        msgqueue._library.library()
        msgqueue.cli.main(["--version"])
        os.setgid(65534); os.setuid(65534)
        sys.exit(msgqueue.cli.main(["list", sys.argv[1]]))
    """
    opened_up = []
    for place in store.parents:
        mode = place.stat().st_mode & 0o777
        if not mode & 0o001:
            opened_up.append((place, mode))
            place.chmod(mode | 0o001)
    try:
        done = run(code, store)
    finally:
        for place, mode in opened_up:
            place.chmod(mode)
    assert (done.returncode, done.stdout[:11]) == (7, "msgq 0.2.0 "), done.stderr
    assert "ermission denied" in done.stderr


def test_I4_a_reader_that_ends_early_ends_it_quietly(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue_bodies(["x" * 200] * 5000)
    for words in (["list", "--all"], ["list", "--all", "--json"], ["export"]):
        shell = 'set -o pipefail; "$@" | head -n 1'
        done = subprocess.run(
            ["bash", "-c", shell, "-", *map(os.fsdecode, command(words[0], store, "-q", *words[1:]))],
            capture_output=True, timeout=60, check=False, env=environment(),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (141, b"")
        assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    ("redirection", "words", "code"),
    [
        ("2>/dev/full", ["list"], 0),
        ("2>&-", ["list"], 0),
        ("2>/dev/full", ["enqueue", "x"], 0),
        ("2>&-", ["enqueue", "x"], 0),
        ("2>/dev/full", ["show", "nobody"], 3),
        ("2>&-", ["show", "nobody"], 3),
        ("2>/dev/full", ["list", "--nothing"], 2),
        ("2>&-", ["list", "--nothing"], 2),
        ("2>/dev/full", ["delete", "q1"], 2),
        (">&-", ["list"], 1),
        (">&-", ["delete", "q1", "--yes"], 0),
        (">/dev/full", ["list"], 1),
        (">/dev/full", ["export"], 1),
        (">&-", ["--help"], 1),
        (">/dev/full", ["--help"], 1),
        ("<&-", ["list"], 0),
        ("<&-", ["enqueue", "-"], 1),
        ("<&-", ["import", "-"], 1),
        ("<&-", ["delete", "q1"], 2),
        ("<&- >&- 2>&-", ["delete", "q1", "--yes"], 0),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_I4_a_standard_stream_that_is_closed_or_full(
    store: Path, redirection: str, words: list[str], code: int, unbuffered: str
) -> None:
    fill(store)
    done = subprocess.run(
        ["bash", "-c", f'"$@" {redirection}', "-", *map(os.fsdecode, command(words[0], store, *words[1:]))],
        capture_output=True, timeout=60, check=False, env={**environment(), "PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"Exception ignored" not in done.stderr
    if words[0] == "list" and code == 0:
        assert done.stdout.count(b"\n") == 5
    if code and "2>" not in redirection:
        assert done.stderr.splitlines()[-1].startswith(b"msgq: ")
    assert msgq("check", store, "--json").rows[0]["sound"] is True


def test_I4_ctrl_c_and_sigterm_end_it_and_leave_no_file(store: Path, tmp_path: Path) -> None:
    fill(store)
    place = tmp_path / "temporary"
    place.mkdir()
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with socket.socket() as silent:
            # A server that accepts, and never answers.
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            with subprocess.Popen(
                command("drain", store, "--to", url),
                stderr=subprocess.PIPE,
                env={**environment(), "TMPDIR": str(place)},
            ) as process:
                peer, _ = silent.accept()
                with peer:
                    assert list(place.iterdir())
                    process.send_signal(number)
                    start = time.monotonic()
                    _, errors = process.communicate(timeout=60)
                    # It does not wait for the attempt, which ends as one whose outcome is not known.
                    assert time.monotonic() - start < CLOSE_TIMEOUT
                assert process.returncode == code, errors
                assert b"Traceback" not in errors
            assert list(place.iterdir()) == []
    assert (statuses(store)["q1"], statuses(store)["q2"]) == ("queued", "queued")
    with MessageQueue(store, mode=Mode.MANUAL):
        pass
    tried = [row for id in ("q1", "q2") for row in msgq("attempts", store, id, "--json").rows]
    assert {row["outcome"] for row in tried} == {"unknown"}


def test_X12_I4_a_backup_that_is_interrupted_or_killed_leaves_no_file(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        for _ in range(10):
            queue.enqueue_batch([{"body": b"x" * 500_000}] * 10)
    target = store.with_name("copy.db")
    for number in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(command("backup", store, target, "-q"), env=environment()) as process:
            wait_until(lambda: list(store.parent.glob("copy.db?*")))
            assert len(list(store.parent.glob("copy.db?*"))) == 1
            process.send_signal(number)
            process.wait(60)
        assert number == signal.SIGKILL or target.exists() or not list(store.parent.glob("copy.db*"))
        target.unlink(missing_ok=True)
    # What a killed process has left is removed by the next backup, after a second.
    time.sleep(2.1)
    msgq("backup", store, target)
    assert sorted(each.name for each in store.parent.iterdir()) == ["copy.db", store.name]


def on_a_terminal(*words: object, answer: bytes = b"", columns: object = 80, **variables: str) -> tuple[int, bytes]:
    """Runs msgq on a terminal of its own. Returns its exit code and what the terminal showed."""
    leader, follower = pty.openpty()
    plain = {name: value for name, value in environment().items() if name not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        command(*words), stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
        env={**plain, "COLUMNS": str(columns), "TERM": "xterm", **variables},
    )  # fmt: skip
    os.close(follower)
    shown = b""
    is_answered = not answer
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        shown += part
        if not is_answered and b"[y/N]" in shown:
            os.write(leader, answer)
            is_answered = True
        if not part:
            break
    os.close(leader)
    return process.wait(60), shown


def test_I4_on_a_terminal_it_asks_and_fits(store: Path) -> None:
    fill(store)
    code, shown = on_a_terminal("delete", store, "q2", answer=b"n\n")
    assert (code, b"nothing was deleted" in shown) == (2, True)
    assert statuses(store)["q2"] == "queued"
    assert on_a_terminal("delete", store, "q2", answer=b"y\n")[0] == 0
    assert "q2" not in statuses(store)
    code, shown = on_a_terminal("list", store, columns=60, NO_COLOR="1", PYTHONIOENCODING="utf-8")
    text = shown.decode()
    assert code == 0
    assert "\x1b" not in text
    assert "\u202e" not in text
    rows = [line for line in text.splitlines() if line.startswith(("ID", "f1", "q1"))]
    assert len(rows) == 3
    assert max(map(columns_of, rows)) <= 60
    assert b"\x1b[31mfailed" in on_a_terminal("list", store)[1]
    assert "\\u202e" in on_a_terminal("list", store, "--json")[1].decode()
    assert b"\x1b[2J" not in on_a_terminal("show", store, "q1", "--body")[1]


def test_I4_a_terminal_without_a_size_has_80_columns(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue("x" * 100, id="wide")
    # A new terminal has the size 0 x 0 until somebody sets it.
    for columns in (0, -1, "x"):
        shown = on_a_terminal("list", store, columns=columns, NO_COLOR="1")[1].decode()
        row = next(line for line in shown.splitlines() if line.startswith("wide"))
        assert columns_of(row) == 80, columns
    assert (
        columns_of(
            next(
                line
                for line in on_a_terminal("list", store, columns=50, NO_COLOR="1")[1].decode().splitlines()
                if line.startswith("wide")
            )
        )
        == 50
    )


@pytest.mark.parametrize("words", [["enqueue", "-"], ["edit", "q1", "-"], ["delete", "q1"], ["clear"]])
def test_I4_the_store_is_not_open_while_it_waits(store: Path, words: list[str]) -> None:
    fill(store)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command(words[0], store, *words[1:]), stdin=follower, stdout=subprocess.PIPE, stderr=follower,
        env=environment(), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        if "-" not in words:
            shown = b""
            while b"[y/N]" not in shown:
                assert b"opened" not in shown
                shown += os.read(leader, 65536)
        # Nothing says that it reads: the store is free at any time.
        MessageQueue(store, maintenance=True).close()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        MessageQueue(store, maintenance=True).close()
        os.write(leader, b"y\n\x04")
        process.stdout.read()
        assert process.wait(60) == 0
    os.close(leader)
    os.close(follower)
    assert (words[0] in ("delete", "clear")) == ("q1" not in statuses(store))


def test_I4_no_character_can_control_the_terminal() -> None:
    every = "".join(chr(number) for number in range(0x3000)) + "\U000e0001\ud800\ufeff"
    shown = escaped(every)
    assert shown.isprintable() or all(
        each == " " or each.isprintable() or each in "\u00a0\u1680" or each.isspace() for each in shown
    )
    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in shown)
    assert not set(shown) & set("\u200b\u200e\u202a\u202e\u2066\u2028\u2029")
    assert columns_of("漢字e\u0301") == 5
    assert cut("漢字漢字", 5) == "漢字…"
    assert cut("abc", 3) == "abc"


def test_I4_the_name_of_a_store_cannot_control_the_terminal(tmp_path: Path) -> None:
    store = tmp_path / "a\x1b[2J\x9bb.db"
    fill(store)
    for words in (
        ["list"], ["stats"], ["stats", "--prometheus"], ["check"], ["export"], ["backup", tmp_path / "copy.db"],
        ["console", "--port", "x"], ["salvage", tmp_path / "copy.db"], ["watch"], ["show", "nobody"],
    ):  # fmt: skip
        for path in (store, tmp_path / "missing\x1b[2J\x9b.db"):
            _, shown = on_a_terminal(words[0], path, *words[1:], NO_COLOR="1", PYTHONIOENCODING="utf-8")
            text = shown.decode().replace("\r\x1b[K", "")
            assert "\x1b" not in text, words
            assert "\x9b" not in text, words
    assert b"\x1b" in msgq("stats", store, "--prometheus").output


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["drain"], {"sent": 1, "failed": 0, "remaining": 0, "discarded": 0, "stop": "e\x1b[2J"}),
        (["enqueue", "x"], {"message": "i\x1b[2J"}),
        (["stats", "--prometheus"], {"text": "n\x1b[2J"}),
    ],
)
def test_I4_an_answer_cannot_control_the_terminal(store: Path, words: list[str], result: dict[str, object]) -> None:
    fill(store)
    with impostor(store, GREETING, json.dumps({"id": "ID", "result": result}).replace('"ID"', "ID").encode() + b"\n"):
        _, shown = on_a_terminal(words[0], store, *words[1:], NO_COLOR="1")
    assert b"\\x1b[2J" in shown
    assert b"\x1b[2J" not in shown


def test_I4_an_event_cannot_control_the_terminal(store: Path) -> None:
    fill(store)
    evil = "e\x1b[2J"
    events = [
        {"event": "status", "id": evil, "from": evil, "to": evil, "failure": {"sentence": evil}},
        {"event": evil, "x": evil, evil: "x"},
    ]
    answer = b'{"id":ID,"result":{}}\n' + b"".join(json.dumps(event).encode() + b"\n" for event in events)
    with impostor(store, GREETING, answer):
        done = msgq("watch", store, "--count", "2")
    assert "\x1b" not in done.text
    assert done.text.count("\\x1b[2J") == 7


def test_I4_a_log_line_cannot_control_the_terminal(store: Path) -> None:
    fill(store)
    done = run(
        """
        import logging, sys
        from msgqueue.cli import main
        main(["list", sys.argv[1], "--quiet"])
        logging.getLogger("msgqueue").warning("%s", "a\\x1b[2J\\nb")
        """,
        store,
    )
    assert done.stderr == "a\\x1b[2J\\nb\n"


def test_I4_every_command_has_help_with_examples() -> None:
    top = msgq("--help").text
    assert "exit codes:" in top
    for each in arguments.COMMANDS:
        assert f"\n    {each.name}" in top
    for name in ("list", "drain", "import", "completion"):
        assert f"examples:\n  msgq {name}" in msgq(name, "--help").text
    assert {each.examples[0].split()[1] for each in arguments.COMMANDS} == {each.name for each in arguments.COMMANDS}
    assert msgq("--version").text == f"msgq 0.2.0 (libmsgqueue 0.2.0, SQLite {sqlite_version()})\n"


def test_I4_the_version_is_shown_without_the_library(tmp_path: Path) -> None:
    missing = {"MSGQUEUE_LIBRARY": str(tmp_path / "none.so")}
    assert run("from msgqueue.cli import main; main(['--version'])", **missing).stdout == (
        "msgq 0.2.0 (without libmsgqueue)\n"
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_I4_completion_names_every_command(shell: str, tmp_path: Path) -> None:
    script = msgq("completion", shell).text
    for each in arguments.COMMANDS:
        assert each.name in script
    assert "newest" in script
    if shell == "bash":
        (tmp_path / "script").write_text(script)
        probe = 'source "$1"; COMP_WORDS=(msgq retry-); COMP_CWORD=1; _msgq; echo "${COMPREPLY[@]}"; ' \
            'COMP_WORDS=(msgq list --ne); COMP_CWORD=2; _msgq; echo "${COMPREPLY[@]}"'  # fmt: skip
        done = subprocess.run(
            ["bash", "-c", probe, "-", tmp_path / "script"], capture_output=True, check=True, text=True
        )
        assert done.stdout == "retry-all\n--newest\n"

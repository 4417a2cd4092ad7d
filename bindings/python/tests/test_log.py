"""Log lines of the library reach `logging`, without a thread of the library in Python, and block no call."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import Exhausted, LogLevel, MessageQueue, Mode, Outcome, RetryPolicy, aio, set_log_level
from support import environment, run, wait_until

DISCARD = RetryPolicy(ladder=[], exhausted=Exhausted.DISCARD)


def refuse(_: object) -> Outcome:
    return Outcome.retry(text="no \x1b[31mroom\nmsgqueue: forged")


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "is discarded" in record.getMessage()]


def test_D13_lines_reach_logging_with_level_and_text(
    opened: Opener, store: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False, retry=DISCARD)
    for _ in range(3):
        queue.enqueue("hello")
    queue.drain()
    wait_until(lambda: len(lines(caplog)) == 3)
    for record in lines(caplog):
        assert (record.name, record.levelno, record.threadName) == ("msgqueue", logging.WARNING, "msgqueue-log")
        assert record.getMessage().startswith(f"{store}: message ")
        assert record.getMessage().endswith(": no \\x1b[31mroom\\nmsgqueue: forged")
    assert capfd.readouterr().err == ""


def test_D13_a_polled_queue_logs_in_poll_and_close_without_a_thread(
    opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.enumerate()
    queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False, retry=DISCARD, polled=True)
    queue.enqueue("hello")
    queue.drain()
    queue.poll(0)
    assert len(lines(caplog)) == 1
    assert lines(caplog)[0].threadName == threading.current_thread().name
    queue.enqueue("hello")
    queue.drain()
    queue.close()
    assert len(lines(caplog)) == 2
    assert threading.enumerate() == before


def log_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "msgqueue-log"]


def test_D13_one_thread_serves_all_queues_sleeps_and_ends_with_the_last(opened: Opener, tmp_path: Path) -> None:
    queues = [opened(tmp_path / f"{number}.db", transport=refuse) for number in range(3)]
    (thread,) = log_threads()
    status = Path(f"/proc/self/task/{thread.native_id}/status")

    def switches() -> int:
        return sum(int(line.split()[1]) for line in status.read_text().splitlines() if "ctxt_switches" in line)

    time.sleep(0.2)
    before = switches()
    time.sleep(0.5)
    assert switches() - before <= 2
    for queue in queues:
        assert log_threads() == [thread]
        queue.close()
    assert log_threads() == []


def test_D13_a_handler_that_raises_or_hangs_blocks_no_call(opened: Opener, tmp_path: Path) -> None:
    gate, texts = threading.Event(), []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())
            if len(texts) == 1:
                raise ValueError("broken")
            gate.wait(20)

    handler = Handler()
    logger = logging.getLogger("msgqueue")
    logger.addHandler(handler)
    try:
        queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False, retry=DISCARD)
        queue.enqueue("hello")
        queue.drain()
        wait_until(lambda: len(texts) == 1)
        queue.enqueue("hello")
        queue.drain()
        wait_until(lambda: len(texts) == 2)
        start = time.monotonic()
        queue.enqueue("hello")
        queue.drain()
        queue.close()
        assert time.monotonic() - start < 10
        assert len(texts) == 2
        gate.set()
        wait_until(lambda: len(texts) == 3 and not log_threads())
    finally:
        gate.set()
        logger.removeHandler(handler)


PROGRAM = """
    import logging, os, sys
    from msgqueue import Exhausted, LogLevel, MessageQueue, Mode, Outcome, RetryPolicy, aio, set_log_level

    def refuse(delivery):
        return Outcome.retry(text=delivery.text)

    def discard(path, *texts, **options):
        policy = RetryPolicy(ladder=[], exhausted=Exhausted.DISCARD)
        queue = MessageQueue(path, refuse, mode=Mode.MANUAL, direct=False, retry=policy, **options)
        for text in texts:
            queue.enqueue(text)
        queue.drain()
        return queue

    def to_stdout():
        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(message)s", level=logging.INFO)
"""


def code(text: str) -> str:
    return textwrap.dedent(PROGRAM) + textwrap.dedent(text)


def test_D13_nothing_is_lost_at_the_end_of_a_program_that_does_not_close(store: Path) -> None:
    ended = run(code("to_stdout(); queue = discard(sys.argv[1], *map(str, range(50)))"), store)
    assert (ended.returncode, ended.stderr) == (0, "")
    said = ended.stdout.splitlines()
    assert [line.split()[-1] for line in said] == [str(number) for number in range(50)]
    assert all(line.startswith(f"WARNING msgqueue {store}: message ") for line in said)


def test_D13_without_logging_warnings_go_to_standard_error(store: Path) -> None:
    ended = run(code("discard(sys.argv[1], 'a').close(); discard(sys.argv[1], 'b', polled=True).close()"), store)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert [line.split()[-1] for line in ended.stderr.splitlines()] == ["a", "b"]


def test_D13_the_variable_turns_lines_off(store: Path) -> None:
    silent = code("to_stdout(); discard(sys.argv[1], 'a').close(); discard(sys.argv[1], 'b', polled=True).close()")
    ended = run(silent, store, MSGQUEUE_LOG="off")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


FULL = """
    import fcntl
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    os.dup2(writer, 2)
    queue = discard(sys.argv[1], "a", "b", polled=sys.argv[2] == "polled")
    queue.enqueue("kept")
    queue.close()
    print("closed", flush=True)
"""


@pytest.mark.parametrize("way", ["polled", "threads"])
def test_D13_a_full_standard_error_blocks_neither_the_queue_nor_the_exit(store: Path, way: str) -> None:
    ended = run(code(FULL), store, way)
    assert (ended.returncode, ended.stdout) == (0, "closed\n")
    with MessageQueue(store) as queue:
        assert queue.counts().queued == 1


def test_D13_a_broken_standard_error_does_not_end_the_program(store: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code("discard(sys.argv[1], 'a', 'b').close(); print('closed')"), store],
            stdout=subprocess.PIPE,
            stderr=writer,
            text=True,
            timeout=60,
            env=environment(),
            check=False,
        )
    finally:
        os.close(writer)
    assert ended.stdout == "closed\n"
    assert ended.returncode >= 0


FORK = """
    to_stdout()
    queue = discard(sys.argv[1], "parent 1")
    child = os.fork()
    if child == 0:
        discard(sys.argv[1] + "-child", "child").close()
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    queue.enqueue("parent 2")
    queue.drain()
    queue.close()
    print(status)
"""


def test_D13_a_forked_child_logs_its_own_lines_and_not_its_parents(store: Path) -> None:
    ended = run(code(FORK), store, PYTHONWARNINGS="ignore::DeprecationWarning", PYTHONUNBUFFERED="1")
    assert (ended.returncode, ended.stderr) == (0, "")
    said = sorted(line.partition("code 0): ")[2] or line for line in ended.stdout.splitlines())
    assert said == ["0", "child", "parent 1", "parent 2"]


# ---------------------------------------------------------------- the level debug

SECRET = "s3cret"
STEPS = [
    'message a: enqueued in conversation "ana", 6 bytes',
    "drain started: 1 queued, 0 being sent, 0 failed",
    "message a: attempt 1 begins",
    "message a: attempt 1 ended: failed (unknown): no \\x1b[31mroom\\nmsgqueue: forged",
    "drain finished (empty): 0 sent, 1 failed, 0 discarded, 0 put back, 0 remaining",
]


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    logger = logging.getLogger("msgqueue")
    yield logger
    logger.setLevel(logging.NOTSET)
    set_log_level()


def steps(caplog: pytest.LogCaptureFixture, store: Path) -> list[str]:
    """Returns the lines of the level DEBUG about that store."""
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert not any(SECRET in line for line in found)
    return [line.removeprefix(f"{store}: ") for line in found if line.startswith(f"{store}: ")]


def drain_one(queue: MessageQueue, id: str = "a") -> None:
    queue.enqueue(SECRET, id=id, conversation="ana", metadata={"key": SECRET})
    queue.drain()


@pytest.mark.parametrize("polled", [False, True])
def test_M15_the_level_of_the_logger_at_the_opening_adds_a_line_for_each_step(
    opened: Opener, store: Path, caplog: pytest.LogCaptureFixture, log: logging.Logger, polled: bool
) -> None:
    log.setLevel(logging.DEBUG)
    queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False, polled=polled)
    drain_one(queue)
    queue.close()
    assert steps(caplog, store) == STEPS


def test_M15_set_log_level_takes_over_a_later_change_of_the_logger(
    opened: Opener, store: Path, caplog: pytest.LogCaptureFixture, log: logging.Logger
) -> None:
    queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False, retry=DISCARD, polled=True)
    drain_one(queue, "before")
    log.setLevel(logging.DEBUG)
    drain_one(queue, "unnoticed")
    queue.poll(0)
    assert steps(caplog, store) == []
    set_log_level()
    drain_one(queue)
    queue.poll(0)
    found = steps(caplog, store)
    assert found[:3] == STEPS[:3]
    assert len(found) == len(STEPS)
    log.setLevel(logging.INFO)
    set_log_level()
    drain_one(queue, "after")
    log.setLevel(logging.DEBUG)
    queue.poll(0)
    assert steps(caplog, store) == found


def test_M15_a_level_that_was_chosen_is_not_changed_by_an_opening(
    opened: Opener, store: Path, caplog: pytest.LogCaptureFixture, log: logging.Logger
) -> None:
    log.setLevel(logging.DEBUG)
    set_log_level(LogLevel.ERROR)
    queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False, retry=DISCARD)
    drain_one(queue)
    queue.close()
    assert (steps(caplog, store), lines(caplog)) == ([], [])
    set_log_level(None)
    queue = opened(transport=refuse, mode=Mode.MANUAL, direct=False)
    drain_one(queue)
    queue.close()
    assert steps(caplog, store) == STEPS


@pytest.mark.parametrize("level", [logging.DEBUG, "DEBUG", 3, Mode.MANUAL])
def test_M15_only_levels_of_the_library_are_accepted(level: object) -> None:
    with pytest.raises(TypeError, match="level must be LogLevel"):
        set_log_level(level)  # type: ignore[arg-type]


def test_M15_a_queue_of_asyncio_has_the_same_lines(
    store: Path, caplog: pytest.LogCaptureFixture, log: logging.Logger
) -> None:
    async def send(_: object) -> Outcome:
        return refuse(None)

    async def test() -> None:
        async with aio.MessageQueue(store, transport=send, mode=Mode.MANUAL, direct=False) as queue:
            await queue.enqueue(SECRET, id="a", conversation="ana", metadata={"key": SECRET})
            await queue.drain()

    log.setLevel(logging.DEBUG)
    asyncio.run(test())
    assert steps(caplog, store) == STEPS


def check_shown(text: str, store: Path) -> None:
    """Checks the lines of TRACED."""
    expected = [step.replace("6 bytes", "4 bytes").replace(STEPS[3].partition("): ")[2], "busy") for step in STEPS]
    assert [line.removeprefix(f"{store}: ") for line in text.splitlines()] == expected


TRACED = """
    queue = MessageQueue(sys.argv[1], refuse, mode=Mode.MANUAL, direct=False, polled=sys.argv[2] == "polled")
    queue.enqueue("busy", id="a", conversation="ana")
    queue.drain()
    queue.close()
"""


@pytest.mark.parametrize("way", ["polled", "threads"])
def test_M15_the_variable_shows_each_step_on_standard_error(store: Path, way: str) -> None:
    ended = run(code(TRACED), store, way, MSGQUEUE_LOG="debug")
    assert (ended.returncode, ended.stdout) == (0, "")
    check_shown(ended.stderr, store)


def test_M15_the_variable_sets_the_level_of_the_logger(store: Path) -> None:
    configured = "logging.basicConfig(stream=sys.stdout, format='%(message)s', level=logging.WARNING)"
    ended = run(code(f"\n    {configured}{TRACED}"), store, "threads", MSGQUEUE_LOG="debug")
    assert (ended.returncode, ended.stderr) == (0, "")
    check_shown(ended.stdout, store)
    chosen = "logging.getLogger('msgqueue').setLevel(logging.INFO)"
    ended = run(code(f"\n    {chosen}{TRACED}"), store.with_name("other.db"), "threads", MSGQUEUE_LOG="debug")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_M15_without_the_variable_nothing_is_shown(store: Path) -> None:
    ended = run(code(TRACED), store, "threads")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")

"""What several tests use: waiting for a condition, remembering events, and processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from msgqueue import Event, EventKind, Status

TESTS = Path(__file__).resolve().parent
BINDING = TESTS.parent
PROJECT = BINDING.parent.parent
HEADER = PROJECT / "Include" / "msgqueue.h"

T = TypeVar("T")
TIMEOUT = 20.0


def wait_until(condition: Callable[[], T], *, timeout: float = TIMEOUT) -> T:
    """Waits until the condition is true and returns its value; fails when it is not in time."""
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {timeout} s: {condition}"
        time.sleep(0.005)


def rounds_until_within(limit: float, call: Callable[[], object]) -> int:
    """Repeats the call until one takes less than `limit` seconds, and returns the number of calls; fails after TIMEOUT.

    Other programs run here, and a disk that they keep busy: they only add to the time that the library takes.
    """
    times: list[float] = []
    end = time.monotonic() + TIMEOUT
    while not times or times[-1] >= limit:
        assert not times or time.monotonic() < end, f"the fastest of {len(times)} calls took {min(times)} s"
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return len(times)


class Events:
    """An event handler that keeps the events."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    def all(self, kind: EventKind | None = None) -> list[Event]:
        with self._lock:
            return [event for event in self._events if kind is None or event.kind is kind]

    def statuses(self, id: str) -> list[Status | None]:
        """Returns the statuses of a message, as reported by events."""
        return [event.to_status for event in self.all(EventKind.STATUS) if event.id == id]

    def wait_for(self, kind: EventKind, found: Callable[[Event], bool] = lambda _: True) -> Event:
        """Waits for the first event of that kind for which `found` is true."""
        return wait_until(lambda: next((event for event in self.all(kind) if found(event)), None))  # type: ignore[return-value]

    def wait_for_status(self, id: str, status: Status) -> Event:
        return self.wait_for(EventKind.STATUS, lambda event: event.id == id and event.to_status is status)


class Program:
    """A Python process that runs some code, which may import the modules of the tests."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self._output: IO[str] = process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """Returns the next line of its output; fails when it ends before."""
        line = self._output.readline()
        assert line, f"the program ended with {self._process.wait()}"
        return line.rstrip("\n")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Waits for its exit status; negative: ended by that signal."""
        return self._process.wait()


@contextmanager
def program(code: str, *arguments: object) -> Iterator[Program]:
    """Runs a process, which is killed at the end of the block, or when it hangs."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        yield Program(process)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run(code: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a process to its end."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment(), **variables},
        check=False,
    )


def environment() -> dict[str, str]:
    """Returns the environment of a process that may import the modules of the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(BINDING / "src"), str(TESTS)])}

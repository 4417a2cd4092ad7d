"""Threads that make the calls of a queue, so that the loop never waits for the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from .. import _threads

T = TypeVar("T")
Job = Callable[[], object]


class Executor:
    """Runs jobs on up to `most` threads, which start them in the order of submission.

    The threads are daemons, started when needed. The executors of concurrent.futures cannot be used: the interpreter
    waits for their threads at its end, also when a disk hangs.
    """

    def __init__(self, name: str, most: int = 1) -> None:
        self._name = name
        self._most = most
        self._threads = 0
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, job: Job) -> None:
        """Queues a job, which must not raise.

        Raises:
            RuntimeError: The system has no thread left, or the interpreter is ending.
        """
        if not self._idle.acquire(blocking=False) and self._threads < self._most:
            name = f"{self._name} {self._threads + 1}"
            _threads.start(threading.Thread(target=_work, args=(self._jobs, self._idle), name=name, daemon=True))
            self._threads += 1
        self._jobs.put(job)

    async def run(self, call: Callable[[], T]) -> T:
        """Returns what the call returns, or raises what it raises.

        Cancelled before the call begins, it is not made. Cancelled later, the call runs to its end.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            if answer.cancelled():
                return
            try:
                value = call()
            except BaseException as problem:  # noqa: BLE001 - raised in the task that awaits the call
                call_on_loop(loop, set_exception, answer, problem)
            else:
                call_on_loop(loop, set_result, answer, value)

        self.submit(job)
        return await answer

    def stop(self) -> None:
        """Ends the threads after the queued jobs."""
        self._jobs.put(None)


def call_on_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> bool:
    """Schedules a call on the loop, from any thread. Returns False when the loop is closed."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        return False
    return True


def set_result(future: asyncio.Future[T], value: T) -> None:
    """Sets the result of a future, unless it is done or cancelled."""
    if not future.done():
        future.set_result(value)


def set_exception(future: asyncio.Future[T], problem: BaseException) -> None:
    """Sets the exception of a future, unless it is done or cancelled."""
    if not future.done():
        future.set_exception(problem)


def _work(jobs: SimpleQueue[Job | None], idle: threading.Semaphore) -> None:
    while _work_once(jobs):
        idle.release()


def _work_once(jobs: SimpleQueue[Job | None]) -> bool:
    """Runs one job. A function of its own, so that a waiting thread holds no reference to its last job."""
    job = jobs.get()
    if job is None:
        # For the other threads of the executor.
        jobs.put(None)
        return False
    job()
    return True

"""Threads that make a queue's calls, so that the loop never waits for a disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Job = Callable[[], object]


class Executor:
    """Runs jobs on up to `most` threads, which begin them in the order in which they came.

    The threads are daemons and started when needed: a disk that hangs must not keep the interpreter from exiting, which
    rules out an executor, whose threads are waited for.
    """

    def __init__(self, name: str, most: int = 1) -> None:
        self._name = name
        self._most = most
        self._threads = 0
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, job: Job) -> None:
        """Runs the job, which must not raise, when its turn comes. RuntimeError when the system has no thread left."""
        if not self._idle.acquire(blocking=False) and self._threads < self._most:
            name = f"{self._name} {self._threads + 1}"
            threading.Thread(target=_work, args=(self._jobs, self._idle), name=name, daemon=True).start()
            self._threads += 1
        self._jobs.put(job)

    async def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises. Cancelled before its turn, it is not made; later it is made to its end."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            if answer.cancelled():
                return
            try:
                value = call()
            except BaseException as problem:  # noqa: BLE001 - it is raised where the call was asked for
                tell(loop, _fail, answer, problem)
            else:
                tell(loop, settle, answer, value)

        self.submit(job)
        return await answer

    def stop(self) -> None:
        """Ends the threads after the jobs that there are."""
        self._jobs.put(None)


def tell(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> bool:
    """Has the loop call this, from any thread; False: the loop is closed, and nobody is left to be told."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        return False
    return True


def settle(future: asyncio.Future[T], value: T) -> None:
    """The future's result, unless nobody waits any more."""
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], problem: BaseException) -> None:
    if not future.done():
        future.set_exception(problem)


def _work(jobs: SimpleQueue[Job | None], idle: threading.Semaphore) -> None:
    while _work_once(jobs):
        idle.release()


def _work_once(jobs: SimpleQueue[Job | None]) -> bool:
    """In a function of its own, so that a thread that waits holds nothing of its last job."""
    job = jobs.get()
    if job is None:
        # The other threads of the executor end, too.
        jobs.put(None)
        return False
    job()
    return True

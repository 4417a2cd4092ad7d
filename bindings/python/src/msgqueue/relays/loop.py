"""What relays with a client for asyncio have in common: a thread that runs its event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, TypeVar

from .. import _threads
from .base import Connection, Form, Relay
from .problems import UnreachableError
from .reasons import logger, seconds

Answer = TypeVar("Answer")

_THREAD = "msgqueue-relay-loop"
# Seconds for what is under way when a connection has ended.
_LAST_WORDS = 0.05


class LoopRelay(Relay[Connection, Form]):
    """A relay whose client runs in an event loop, on a thread of its own."""

    def __init__(self, *, timeout: float = 10.0) -> None:
        """Makes the relay; see `Relay`. The thread starts with the first connection."""
        super().__init__(timeout=timeout)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _run(self, work: Callable[[], Coroutine[Any, Any, Answer]], timeout: float) -> Answer:
        """Runs a function on the loop and waits for it, at most this many seconds."""
        with self._state:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                loop.set_exception_handler(_note_exception)
                thread = threading.Thread(target=_run_loop, args=(loop,), name=_THREAD, daemon=True)
                try:
                    _threads.start(thread)
                except RuntimeError as problem:
                    loop.close()
                    raise UnreachableError(str(problem)) from problem
                self._loop, self._thread = loop, thread
            loop = self._loop
        limited = _limited(work, timeout)
        try:
            future = asyncio.run_coroutine_threadsafe(limited, loop)
        except RuntimeError:
            limited.close()
            raise UnreachableError("the relay is closed") from None
        try:
            # wait_for ends it in time, unless the loop has ended.
            return future.result(timeout + 5)
        except (asyncio.TimeoutError, FutureTimeoutError) as problem:
            future.cancel()
            raise TimeoutError(f"no answer within {seconds(timeout)}") from problem

    def _start(self, work: Callable[[], Awaitable[object]]) -> None:
        """Starts a function on the loop; its result and its exceptions are ignored."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        quietly = _quietly(work)
        try:
            asyncio.run_coroutine_threadsafe(quietly, loop)
        except RuntimeError:
            quietly.close()

    def _finish(self) -> None:
        with self._state:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_end(loop), loop)
            thread.join(self._timeout)


async def answers_of(
    work: Sequence[Coroutine[Any, Any, object]], ended: asyncio.Future[str], timeout: float
) -> list[BaseException | None]:
    """Runs coroutines together until all end, the connection ends, or time is up. Returns the exception of each."""
    tasks = [asyncio.ensure_future(each) for each in work]
    everything = asyncio.gather(*tasks, return_exceptions=True)
    both: set[asyncio.Future[Any]] = {everything, ended}
    await asyncio.wait(both, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    if ended.done() and not everything.done():
        # The client ends them now, and says which ones it has not sent.
        await asyncio.wait(tasks, timeout=_LAST_WORDS)
    answers: list[BaseException | None] = []
    for task in tasks:
        if task.done() and not task.cancelled():
            answers.append(task.exception())
        elif ended.done():
            answers.append(ConnectionResetError(ended.result()))
        else:
            answers.append(TimeoutError(f"no answer within {seconds(timeout)}"))
    everything.cancel()
    await asyncio.gather(everything, return_exceptions=True)
    return answers


async def _limited(work: Callable[[], Coroutine[Any, Any, Answer]], timeout: float) -> Answer:
    return await asyncio.wait_for(work(), timeout)


async def _quietly(work: Callable[[], Awaitable[object]]) -> None:
    with suppress(Exception):
        await work()


def _note_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Notes what a client left behind. What concerns a message, or the connection, is in an outcome already."""
    logger.debug("the client of a relay: %s", context.get("message"), exc_info=context.get("exception"))


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Ends the loop, after what was started before has ended: connections are being closed."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    if others:
        await asyncio.wait(others, timeout=1)
    loop.stop()


class _Quiet(logging.Filter):
    """Drops what a client logs on the threads of relays, which log it once. DEBUG shows it."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != _THREAD or logger.isEnabledFor(logging.DEBUG)


_quiet = _Quiet()


def quiet(names: Sequence[str]) -> None:
    """Drops what is logged under these names on the threads of relays. What the program itself does is not affected."""
    for name in names:
        # A filter that is there already is not added again.
        logging.getLogger(name).addFilter(_quiet)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        loop.close()

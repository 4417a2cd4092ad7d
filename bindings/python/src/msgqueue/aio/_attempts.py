"""Attempts as tasks: the transport is a coroutine function, and its outcome goes to the library when the task ends."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Union

from .._failures import failure, is_expected, log_raised, outcome_of, wrong_answer
from ..enums import Verdict
from ..errors import ClosedError, ConflictError, Error, ForkedError, NotFoundError
from ..models import Delivery
from ..outcome import Outcome
from ._bridge import Bridge
from ._executor import Executor

Transport = Callable[[Delivery], Union[Awaitable[Outcome], Outcome]]
"""Sends one message: `async def`, or a plain function that does not block."""

logger = logging.getLogger("msgqueue")

# Seconds to wait for tasks that were cancelled because the queue is closed.
_CANCEL_TIMEOUT = 1.0


class Attempt:
    """One call of the transport."""

    def __init__(self, owner: Attempts, delivery: Delivery) -> None:
        self.owner = owner
        self.delivery = delivery
        self.task: asyncio.Task[object] | None = None
        self.is_latest = True
        self.is_running = True


_current: ContextVar[Attempt | None] = ContextVar("msgqueue_attempt", default=None)


class Attempts:
    """The attempts of one queue that are in progress."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bridge: Bridge) -> None:
        self._loop = loop
        self._bridge = bridge
        self._executor = Executor("msgqueue answers")
        self._latest: dict[str, Attempt] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = False

    @property
    def answers(self) -> Executor:
        """The thread that passes outcomes to the library."""
        return self._executor

    @property
    def is_inside(self) -> bool:
        """Whether the caller runs in the context of an attempt of this queue: its task, or one that the task made."""
        attempt = _current.get()
        return attempt is not None and attempt.owner is self and attempt.is_running

    def sender(self, transport: Transport | None) -> Callable[[Delivery], Outcome] | None:
        """Returns the function that the library calls: it starts a task, which answers later."""
        return None if transport is None else partial(self._post, transport)

    def _post(self, transport: Transport, delivery: Delivery) -> Outcome:
        self._bridge.post(partial(self._begin, transport, delivery))
        return Outcome.pending()

    def cancel(self) -> None:
        """Cancels the tasks when the queue is closed; their outcomes are not needed any more."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()

    async def wait_cancelled(self) -> None:
        """Waits a limited time for the cancelled tasks."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_CANCEL_TIMEOUT)

    def _begin(self, transport: Transport, delivery: Delivery) -> None:
        before = self._latest.get(delivery.id)
        if before is not None:
            # It timed out, and its message is tried again: its outcome does not count any more.
            before.is_latest = False
            if before.task is not None:
                before.task.cancel()
        attempt = Attempt(self, delivery)
        self._latest[delivery.id] = attempt
        context = copy_context()
        context.run(_current.set, attempt)
        # A task runs in a copy of the context in which it is created.
        task = context.run(self._loop.create_task, _send(transport, delivery))
        attempt.task = task
        self._tasks.add(task)
        # A callback, because a task that is cancelled before it starts runs no code of its own.
        task.add_done_callback(partial(self._end, attempt))

    def _end(self, attempt: Attempt, task: asyncio.Task[object]) -> None:
        attempt.is_running = False
        self._tasks.discard(task)
        if self._latest.get(attempt.delivery.id) is attempt:
            del self._latest[attempt.delivery.id]
        outcome = self._outcome(attempt, task)
        if attempt.is_latest and not self._is_closed and outcome.verdict is not Verdict.PENDING:
            answer = partial(_answer, self._bridge, attempt.delivery.token, outcome)
            try:
                self._executor.submit(answer)
            except RuntimeError:
                # No thread can be started: blocking the loop is better than losing the outcome.
                answer()

    def _outcome(self, attempt: Attempt, task: asyncio.Task[object]) -> Outcome:
        if task.cancelled():
            return failure("cancelled: the task of the attempt was cancelled")
        problem = task.exception()
        if problem is not None:
            outcome = outcome_of(problem)
            log_raised(problem, outcome, attempt.delivery)
            if not is_expected(outcome):
                self._loop.call_exception_handler(
                    {
                        "message": "a transport raised",
                        "exception": problem,
                        "task": task,
                        "delivery": attempt.delivery,
                    }
                )
            return outcome
        answer = task.result()
        if isinstance(answer, Outcome):
            return answer
        text = wrong_answer(answer)
        logger.error(text)
        return failure(text)


async def _send(transport: Transport, delivery: Delivery) -> object:
    answer: object = transport(delivery)
    return await answer if inspect.isawaitable(answer) else answer


def _answer(bridge: Bridge, token: int, outcome: Outcome) -> None:
    queue = bridge.queue
    if queue is None:
        return
    try:
        queue.complete(token, outcome)
    except (ConflictError, NotFoundError, ClosedError, ForkedError):
        # An answer after the time-out or after the close is refused; the attempt is recorded already.
        return
    except Error:
        logger.error("an outcome could not be passed to the library", exc_info=True)

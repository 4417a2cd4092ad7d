"""Attempts as tasks: the transport is a coroutine function, and its outcome goes to the library when the task ends."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Union

from .._failures import answers_of_batch, failure, is_expected, log_raised, outcome_of, wrong_answer
from ..enums import Verdict
from ..errors import ClosedError, Error, ForkedError
from ..models import Delivery
from ..outcome import Outcome, in_settling_order
from ..queue import MessageQueue
from ._bridge import Bridge
from ._executor import Executor

Transport = Callable[[Delivery], Union[Awaitable[Outcome], Outcome]]
"""Sends one message: `async def`, or a plain function that does not block."""

BatchAnswer = Sequence[Union[Outcome, None]]
BatchTransport = Callable[[list[Delivery]], Union[Awaitable[BatchAnswer], BatchAnswer]]
"""Sends several messages: `async def`, or a plain function that does not block."""

logger = logging.getLogger("msgqueue")

# Seconds to wait for tasks that were cancelled because the queue is closed.
_CANCEL_TIMEOUT = 1.0

# Outcomes in one call of the library. While it handles them, the loop starts the attempts that follow those before.
_MAX_ANSWERS = 16

_PENDING = Outcome.pending()


class Attempt:
    """One message in a call of the transport."""

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
        # Outcomes for the library, those of a batch together. One call passes on all that have gathered since the last.
        self._outcomes: deque[list[tuple[int, Outcome]]] = deque()
        self._is_answering = False
        self._lock = threading.Lock()

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
        return _PENDING

    def batch_sender(self, transport: BatchTransport | None) -> Callable[[list[Delivery]], list[Outcome]] | None:
        """Returns the same for a batch transport: one task sends a batch."""
        return None if transport is None else partial(self._post_batch, transport)

    def _post_batch(self, transport: BatchTransport, deliveries: list[Delivery]) -> list[Outcome]:
        self._bridge.post(partial(self._begin_batch, transport, deliveries))
        return [_PENDING] * len(deliveries)

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
        self._start([self._register(delivery)], _send(transport, delivery), self._end)

    def _begin_batch(self, transport: BatchTransport, deliveries: list[Delivery]) -> None:
        attempts = [self._register(delivery) for delivery in deliveries]
        self._start(attempts, _send_batch(transport, deliveries), self._end_batch)

    def _register(self, delivery: Delivery) -> Attempt:
        before = self._latest.get(delivery.id)
        if before is not None:
            # It timed out, and its message is tried again: its outcome does not count any more.
            before.is_latest = False
            if before.task is not None:
                before.task.cancel()
        attempt = self._latest[delivery.id] = Attempt(self, delivery)
        return attempt

    def _start(
        self,
        attempts: list[Attempt],
        send: Coroutine[object, object, object],
        end: Callable[[list[Attempt], asyncio.Task[object]], None],
    ) -> None:
        # A task runs in a copy of the context in which it is created.
        before_it = _current.set(attempts[0])
        try:
            task = self._loop.create_task(send)
        finally:
            _current.reset(before_it)
        for attempt in attempts:
            attempt.task = task
        self._tasks.add(task)
        # A callback, because a task that is cancelled before it starts runs no code of its own.
        task.add_done_callback(partial(end, attempts))

    def _end(self, attempts: list[Attempt], task: asyncio.Task[object]) -> None:
        self._finish(attempts, [self._outcome(attempts[0], task)], task)

    def _end_batch(self, attempts: list[Attempt], task: asyncio.Task[object]) -> None:
        self._finish(attempts, self._outcomes_of_batch(attempts, task), task)

    def _finish(self, attempts: list[Attempt], outcomes: list[Outcome], task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        answers = []
        for attempt, outcome in zip(attempts, outcomes):
            attempt.is_running = False
            if self._latest.get(attempt.delivery.id) is attempt:
                del self._latest[attempt.delivery.id]
            if attempt.is_latest and not self._is_closed and outcome.verdict is not Verdict.PENDING:
                answers.append((attempt.delivery.token, outcome))
        if answers:
            self._answer(in_settling_order(answers))

    def _answer(self, answers: list[tuple[int, Outcome]]) -> None:
        with self._lock:
            self._outcomes.append(answers)
            if self._is_answering:
                return
            self._is_answering = True
        try:
            self._executor.submit(self._pass_on)
        except RuntimeError:
            # No thread can be started: blocking the loop is better than losing the outcome.
            self._pass_on()

    def _pass_on(self) -> None:
        """Passes outcomes to the library until there are none."""
        while True:
            with self._lock:
                waiting = self._outcomes
                answers: list[tuple[int, Outcome]] = []
                while waiting and len(answers) < _MAX_ANSWERS:
                    answers += waiting.popleft()
                self._is_answering = bool(answers)
            if not answers:
                return
            queue = self._bridge.queue
            if queue is not None:
                _complete(queue, answers)

    def _failure(self, attempts: list[Attempt], task: asyncio.Task[object]) -> Outcome | None:
        """Returns the outcome of a task that was cancelled or raised; None: it has a result."""
        if task.cancelled():
            return failure("cancelled: the task of the attempt was cancelled")
        problem = task.exception()
        if problem is None:
            return None
        outcome = outcome_of(problem, len(attempts))
        log_raised(problem, outcome, *(attempt.delivery for attempt in attempts))
        if not is_expected(outcome):
            self._loop.call_exception_handler(
                {
                    "message": "a transport raised",
                    "exception": problem,
                    "task": task,
                    "delivery": attempts[0].delivery,
                }
            )
        return outcome

    def _outcomes_of_batch(self, attempts: list[Attempt], task: asyncio.Task[object]) -> list[Outcome]:
        failed = self._failure(attempts, task)
        if failed is not None:
            return [failed] * len(attempts)
        return answers_of_batch(task.result(), [attempt.delivery for attempt in attempts])

    def _outcome(self, attempt: Attempt, task: asyncio.Task[object]) -> Outcome:
        failed = self._failure([attempt], task)
        if failed is not None:
            return failed
        answer = task.result()
        if isinstance(answer, Outcome):
            return answer
        text = wrong_answer(answer)
        logger.error(text)
        return failure(text)


async def _send(transport: Transport, delivery: Delivery) -> object:
    answer: object = transport(delivery)
    return await answer if inspect.isawaitable(answer) else answer


async def _send_batch(transport: BatchTransport, deliveries: list[Delivery]) -> object:
    # The transport may change its list.
    answers: object = transport(list(deliveries))
    return await answers if inspect.isawaitable(answers) else answers


def _complete(queue: MessageQueue, answers: list[tuple[int, Outcome]]) -> None:
    try:
        # An answer after the time-out is refused; the attempt is recorded already. So the results do not matter.
        queue.complete_batch(answers)
    except (ClosedError, ForkedError):
        # After the close the same.
        return
    except Error:
        logger.error("outcomes could not be passed to the library", exc_info=True)

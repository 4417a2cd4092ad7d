"""Calls from C into Python: trampolines for transports, for batch transports, for events, and for drains that ended.

C gets these functions, which live as long as the module, and a number as their context. The number identifies the
queue's callables. A closure could be collected while C still refers to it.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import addressof, c_uint32, sizeof
from functools import partial
from typing import Any, Union

from . import _abi, _convert
from ._failures import answers_of_batch, described, failure, log_raised, outcome_of, wrong_answer
from ._poll_threads import PollThreads
from .enums import Verdict
from .events import Event
from .models import Delivery, Report
from .outcome import Outcome, _sent

Transport = Callable[[Delivery], Outcome]
BatchTransport = Callable[[list[Delivery]], Sequence[Union[Outcome, None]]]
EventHandler = Callable[[Event], object]

logger = logging.getLogger("msgqueue")

# An outcome and its verdict, as words of 4 bytes.
_OUTCOME_WORDS = sizeof(_abi.Outcome) // 4
_VERDICT = _abi.Outcome.verdict.offset // 4

_numbers = itertools.count(1)
_registry: dict[int, Callbacks] = {}
# What to call when a drain has ended, by its number; each is called once.
_drains: dict[int, Callable[[Report], object]] = {}
# What to call when a wait for a message has ended, with the result and the message in C, by its number.
_waits: dict[int, Callable[[int, Any], object]] = {}


class _Running(threading.local):
    """The numbers of the queues whose callbacks run on this thread, and the exception that ended one of them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.interruption: BaseException | None = None


_running = _Running()


class Callbacks:
    """The callables of one queue, and the number that identifies them in C."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.transport: Transport | None = None
        self.batch_transport: BatchTransport | None = None
        self.on_event: EventHandler | None = None
        self.followers: list[Callable[[], object]] = []
        """What is called after each event, and when no other follows."""
        self.poll_threads: PollThreads | None = None
        """None: the callbacks run on the thread that polls."""
        self.deferred: deque[tuple[list[int], Callable[[], list[Outcome]]]] = deque()
        """The tokens of attempts that were deferred because of Ctrl-C, and the function that makes them."""
        _registry[self.number] = self

    def forget(self) -> None:
        """Releases the callables when no call follows any more. A call that is still running has its own references."""
        _registry.pop(self.number, None)
        self.transport = self.batch_transport = self.on_event = None
        self.wake_followers()

    def wake_followers(self) -> None:
        """Tells those who wait for changes that there may be some."""
        for wake in tuple(self.followers):
            wake()

    @property
    def is_running_here(self) -> bool:
        """Whether this thread is inside one of these callbacks."""
        return self.number in _running.numbers

    def enter(self) -> None:
        """Marks the beginning of a callback on this thread."""
        _running.numbers.append(self.number)
        if self.poll_threads is not None:
            self.poll_threads.callback_began()

    def leave(self) -> None:
        """Marks its end."""
        if self.poll_threads is not None:
            self.poll_threads.callback_ended()
        _running.numbers.pop()


def _call_transport(context: int, delivery: Any, out: Any) -> int:  # noqa: ANN401 - ctypes pointers
    outcome = _send(_registry.get(context), delivery[0])
    if outcome.verdict is not Verdict.PENDING:
        outcome._write(out[0])
    # If the lines above raise, ctypes returns 0, which is UNKNOWN: a failure, never success.
    return outcome.verdict


def _call_batch_transport(context: int, deliveries: Any, count: int, outcomes: Any) -> None:  # noqa: ANN401 - pointers
    # If this raises, the outcomes stay UNKNOWN, as C made them: failures, never success.
    _write_all(_send_batch(_registry.get(context), deliveries, count), outcomes)


def _call_event_handler(context: int, event: Any) -> None:  # noqa: ANN401 - a ctypes pointer
    _deliver(_registry.get(context), event[0])


def _call_drained(context: int, source: Any) -> None:  # noqa: ANN401 - a ctypes pointer
    done = _drains.pop(context, None)
    if done is None:
        return
    try:
        done(_convert.report(source[0]))
    except Exception:
        logger.error("reporting the end of a drain failed", exc_info=True)


def _call_waited(context: int, result: int, message: Any) -> None:  # noqa: ANN401 - a ctypes pointer
    done = _waits.pop(context, None)
    if done is None:
        return
    try:
        done(result, message)
    except Exception:
        logger.error("reporting the outcome of a message failed", exc_info=True)


# msgq_transport_fn, msgq_batch_transport_fn, msgq_event_fn, msgq_drained_fn and msgq_waited_fn of every queue.
transport_trampoline = _abi.TransportFunction(_call_transport)
batch_transport_trampoline = _abi.BatchTransportFunction(_call_batch_transport)
event_trampoline = _abi.EventFunction(_call_event_handler)
drained_trampoline = _abi.DrainedFunction(_call_drained)
waited_trampoline = _abi.WaitedFunction(_call_waited)


def expect_drain(done: Callable[[Report], object]) -> int:
    """Returns a context with which `drained_trampoline` calls `done`, once."""
    number = next(_numbers)
    _drains[number] = done
    return number


def forget_drain(number: int) -> None:
    """Removes a context that the library did not accept."""
    _drains.pop(number, None)


def expect_wait(done: Callable[[int, Any], object]) -> int:
    """Returns a context with which `waited_trampoline` calls `done`, once."""
    number = next(_numbers)
    _waits[number] = done
    return number


def forget_wait(number: int) -> None:
    """Removes a context that the library did not accept."""
    _waits.pop(number, None)


def call_guarded(function: Callable[..., int], *arguments: object) -> int:
    """Calls a function of the library that may run callbacks on this thread. Call `raise_interruption` after it.

    Ctrl-C while the library waits is raised at the first instruction of the next callback, before any `try` there.
    Without this hook ctypes would print it and go on.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    before = sys.unraisablehook
    sys.unraisablehook = partial(_unraisable, before)
    try:
        return function(*arguments)
    finally:
        sys.unraisablehook = before


def _unraisable(before: Callable[[Any], object], report: Any) -> None:  # noqa: ANN401 - the type is not public
    ours = (_call_transport, _call_batch_transport, _call_event_handler, _call_drained, _call_waited)
    if isinstance(report.exc_value, KeyboardInterrupt) and report.object in ours:
        _running.interruption = report.exc_value
    else:
        before(report)


def raise_interruption() -> None:
    """Raises what interrupted a callback on this thread, KeyboardInterrupt or SystemExit, after the library returned.

    An exception cannot pass through the library.
    """
    problem, _running.interruption = _running.interruption, None
    if problem is not None:
        raise problem


def _send(callbacks: Callbacks | None, source: _abi.Delivery) -> Outcome:
    transport = callbacks.transport if callbacks is not None else None
    if callbacks is None or transport is None:
        # The transport was removed after the library had decided to call it.
        return Outcome.offline(text="the transport was removed")
    try:
        delivery = _convert.delivery(source)
    except Exception as problem:
        logger.error("a message could not be read", exc_info=True)
        return failure(described(problem))
    return _now_or_later(callbacks, [delivery.token], lambda: [_attempt(callbacks, transport, delivery)])[0]


def _send_batch(callbacks: Callbacks | None, first: Any, count: int) -> list[Outcome]:  # noqa: ANN401 - a pointer
    transport = callbacks.batch_transport if callbacks is not None else None
    if callbacks is None or transport is None:
        return [Outcome.offline(text="the transport was removed")] * count
    try:
        deliveries = _convert.deliveries(first, count)
    except Exception as problem:
        logger.error("a message could not be read", exc_info=True)
        return [failure(described(problem))] * count
    tokens = [delivery.token for delivery in deliveries]
    return _now_or_later(callbacks, tokens, partial(_attempt_batch, callbacks, transport, deliveries))


def _write_all(answers: list[Outcome], target: Any) -> None:  # noqa: ANN401 - a ctypes pointer
    """Fills the outcomes of a batch."""
    first, plain = answers[0], _sent()
    if (first is plain or first.verdict is Verdict.PENDING) and answers.count(first) == len(answers):
        # The other fields stay as C made them. ctypes would make an object for each of the outcomes.
        words = (c_uint32 * (len(answers) * _OUTCOME_WORDS)).from_address(addressof(target[0]))
        verdicts = memoryview(words).cast("B").cast("I")[_VERDICT::_OUTCOME_WORDS]
        verdicts[:] = memoryview(array("I", [first.verdict]) * len(answers))
        return
    for index, outcome in enumerate(answers):
        if outcome is plain or outcome.verdict is Verdict.PENDING:
            target[index].verdict = outcome.verdict
        else:
            outcome._write(target[index])


def _now_or_later(callbacks: Callbacks, tokens: list[int], send: Callable[[], list[Outcome]]) -> list[Outcome]:
    threads = callbacks.poll_threads
    if threads is None and _running.interruption is not None:
        # After Ctrl-C the library starts further attempts before it returns. The caller must not wait for receivers.
        callbacks.deferred.append((tokens, send))
        return [Outcome.pending()] * len(tokens)
    if threads is not None and not threads.polls_here and threads.answer_later(tokens, send):
        # No thread was polling at this moment, so the library called on the thread that drains. Its time-out must not
        # depend on a receiver.
        return [Outcome.pending()] * len(tokens)
    return send()


def _attempt(callbacks: Callbacks, transport: Transport, delivery: Delivery) -> Outcome:
    """Calls the transport. Returns an outcome, also when that raises."""
    callbacks.enter()
    try:
        outcome: object = transport(delivery)
        if isinstance(outcome, Outcome):
            return outcome
        text = wrong_answer(outcome)
        logger.error(text)
        return failure(text)
    except BaseException as problem:  # noqa: BLE001 - logged; raised after the library has returned
        outcome = outcome_of(problem)
        log_raised(problem, outcome, delivery)
        _keep_interruption(callbacks, problem)
        return outcome
    finally:
        callbacks.leave()


def _attempt_batch(callbacks: Callbacks, transport: BatchTransport, deliveries: list[Delivery]) -> list[Outcome]:
    """Calls the batch transport. Returns an outcome for each delivery, also when that raises."""
    callbacks.enter()
    try:
        # The transport may change its list.
        return answers_of_batch(transport(list(deliveries)), deliveries)
    except BaseException as problem:  # noqa: BLE001 - logged; raised after the library has returned
        outcome = outcome_of(problem, len(deliveries))
        log_raised(problem, outcome, *deliveries)
        _keep_interruption(callbacks, problem)
        return [outcome] * len(deliveries)
    finally:
        callbacks.leave()


def _deliver(callbacks: Callbacks | None, event: _abi.Event) -> None:
    if callbacks is None:
        return
    callbacks.wake_followers()
    handler = callbacks.on_event
    if handler is None:
        return
    callbacks.enter()
    try:
        handler(_convert.event(event))
    except BaseException as problem:
        logger.error("an event handler raised", exc_info=True)
        _keep_interruption(callbacks, problem)
    finally:
        callbacks.leave()


def _keep_interruption(callbacks: Callbacks, problem: BaseException) -> None:
    """Keeps KeyboardInterrupt and SystemExit for the caller, where callbacks run on the caller's thread."""
    if callbacks.poll_threads is None and isinstance(problem, (KeyboardInterrupt, SystemExit)):
        _running.interruption = problem

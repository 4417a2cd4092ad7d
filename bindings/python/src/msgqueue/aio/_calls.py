"""Runs the calls of a queue on its threads, and makes async methods of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import ClosedError
from ..queue import MessageQueue
from ._session import Session

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")
_Call = TypeVar("_Call", bound=Callable[..., object])


class Calls:
    """Runs calls of the polled queue that an `aio.MessageQueue` opens."""

    def __init__(self) -> None:
        self.session: Session | None = None

    @property
    def opened(self) -> Session:
        """The session of the open queue.

        Raises:
            ClosedError: The queue is not open.
        """
        if self.session is None:
            raise ClosedError("the queue is not open: use `async with`, or await open()")
        return self.session

    async def read(self, call: Callable[[MessageQueue], T]) -> T:
        """Runs a call that changes nothing."""
        session = self.opened
        return await session.reads.run(partial(call, session.queue))

    async def change(self, call: Callable[[MessageQueue], T]) -> T:
        """Runs a call that changes the queue, after the changes that were requested before it."""
        session = self.opened
        return await session.changes.run(partial(call, session.queue))

    async def read_long(self, call: Callable[[MessageQueue], T]) -> T:
        """Like `read`, for a call that holds the library's lock for long."""
        session = self.opened
        return await session.run_long(session.reads, call)

    async def change_long(self, call: Callable[[MessageQueue], T]) -> T:
        """Like `change`, for a call that holds the library's lock for long."""
        session = self.opened
        return await session.run_long(session.changes, call)

    async def answer(self, call: Callable[[MessageQueue], T]) -> T:
        """Runs a call that answers an attempt, without waiting for changes."""
        session = self.opened
        return await session.attempts.answers.run(partial(call, session.queue))


class _Caller(Protocol):
    _calls: Calls


def reads(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns the async form of a method of `MessageQueue` that changes nothing.

    Like the functions below: it has the documentation and the signature of the method.
    """
    return _asynchronous(Calls.read, method)


def changes(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns the async form of a method of `MessageQueue` that changes the queue."""
    return _asynchronous(Calls.change, method)


def enqueues(method: Callable[Concatenate[Any, P], str]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, str]]:
    """Returns the async form of `MessageQueue.enqueue`. Calls that wait at the same time share commits."""

    @wraps(method)
    async def call(self: _Caller, /, *arguments: P.args, **named: P.kwargs) -> str:
        session = self._calls.opened
        return await session.changes.enqueue(session.queue, arguments, named)

    return _named(call, method.__name__)


def reads_long(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns the async form of a method that reads and holds the library's lock for long."""
    return _asynchronous(Calls.read_long, method)


def changes_long(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns the async form of a method that changes the queue and holds the library's lock for long."""
    return _asynchronous(Calls.change_long, method)


def answers(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns the async form of a method that answers an attempt."""
    return _asynchronous(Calls.answer, method)


def _asynchronous(
    run: Callable[[Calls, Callable[[MessageQueue], T]], Coroutine[Any, Any, T]],
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    name = method.__name__

    @wraps(method)
    async def call(self: _Caller, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await run(self._calls, lambda queue: getattr(queue, name)(*arguments, **named))

    return _named(call, name)


def _named(call: _Call, name: str) -> _Call:
    call.__module__, call.__qualname__ = "msgqueue.aio.queue", f"MessageQueue.{name}"
    return call

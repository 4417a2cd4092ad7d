"""How the methods of a queue reach the threads that make its calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ..errors import ClosedError
from ..queue import MessageQueue
from ._home import Home

T = TypeVar("T")


class Calls:
    """Makes calls of the queue behind one `aio.MessageQueue`, which is open or not."""

    def __init__(self) -> None:
        self.home: Home | None = None

    @property
    def opened(self) -> Home:
        """The open queue.

        Raises:
            ClosedError: It is not open.
        """
        if self.home is None:
            raise ClosedError("the queue is not open: use `async with`, or await open()")
        return self.home

    async def read(self, call: Callable[[MessageQueue], T]) -> T:
        """Makes a call that changes nothing."""
        home = self.opened
        return await home.reads.run(partial(call, home.queue))

    async def change(self, call: Callable[[MessageQueue], T]) -> T:
        """Makes a call that changes something, after those that were asked for before."""
        home = self.opened
        return await home.changes.run(partial(call, home.queue))

    async def read_long(self, call: Callable[[MessageQueue], T]) -> T:
        """As `read`, for a call that keeps the library busy."""
        home = self.opened
        return await home.run_long(home.reads, call)

    async def change_long(self, call: Callable[[MessageQueue], T]) -> T:
        """As `change`, for a call that keeps the library busy."""
        home = self.opened
        return await home.run_long(home.changes, call)

    async def answer(self, call: Callable[[MessageQueue], T]) -> T:
        """Makes a call that answers an attempt, which must not wait for changes."""
        home = self.opened
        return await home.attempts.answers.run(partial(call, home.queue))

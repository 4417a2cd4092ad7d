"""How the methods of a queue reach the threads that make its calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ..errors import ClosedError
from ..queue import MessageQueue
from ._home import Home

T = TypeVar("T")


class Base:
    """What the parts of `aio.MessageQueue` share."""

    _home: Home | None = None

    @property
    def _at_home(self) -> Home:
        if self._home is None:
            raise ClosedError("the queue is not open: use `async with`, or await open()")
        return self._home

    async def _read(self, call: Callable[[MessageQueue], T]) -> T:
        home = self._at_home
        return await home.reads.run(partial(call, home.queue))

    async def _change(self, call: Callable[[MessageQueue], T]) -> T:
        home = self._at_home
        return await home.changes.run(partial(call, home.queue))

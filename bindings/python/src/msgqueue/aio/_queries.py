"""The calls that read a queue, with `await`."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable

from ..enums import Status
from ..models import Attempt, Conversation, Counts, Explanation, Message, State
from ..statistics import Statistics
from ._calls import Calls


class Queries:
    """The reading calls of `aio.MessageQueue`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get(self, id: str) -> Message:
        """See `MessageQueue.get`."""
        return await self._calls.read(lambda queue: queue.get(id))

    async def attempts(self, id: str) -> builtins.list[Attempt]:
        """See `MessageQueue.attempts`."""
        return await self._calls.read(lambda queue: queue.attempts(id))

    async def explain(self, id: str) -> Explanation:
        """See `MessageQueue.explain`."""
        return await self._calls.read(lambda queue: queue.explain(id))

    async def list(
        self,
        conversation: str | None,
        status: Status | Iterable[Status] | None,
        limit: int,
        after: int | None,
        newest_first: bool,
        bodies: bool,
    ) -> builtins.list[Message]:
        """See `MessageQueue.list`."""
        return await self._calls.read(
            lambda queue: queue.list(conversation, status, limit, after, newest_first, bodies)
        )

    async def counts(self, conversation: str | None) -> Counts:
        """See `MessageQueue.counts`."""
        return await self._calls.read(lambda queue: queue.counts(conversation))

    async def conversations(self, before: int, limit: int) -> builtins.list[Conversation]:
        """See `MessageQueue.conversations`."""
        return await self._calls.read(lambda queue: queue.conversations(before, limit))

    async def stats(self) -> Statistics:
        """See `MessageQueue.stats`."""
        return await self._calls.read(lambda queue: queue.stats())

    async def prometheus(self) -> str:
        """See `MessageQueue.prometheus`."""
        return await self._calls.read(lambda queue: queue.prometheus())

    async def state(self) -> State:
        """See `MessageQueue.state`."""
        return await self._calls.read(lambda queue: queue.state())

    async def banner(self, conversation: str | None) -> str:
        """See `MessageQueue.banner`."""
        return await self._calls.read(lambda queue: queue.banner(conversation))

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """See `MessageQueue.backup`."""
        await self._calls.read_long(lambda queue: queue.backup(path))

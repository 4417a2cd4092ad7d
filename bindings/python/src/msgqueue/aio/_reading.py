"""What a queue can be asked, with `await`."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable

from ..enums import Status
from ..models import Attempt, Conversation, Counts, Explanation, Message, State
from ..statistics import Statistics
from ._base import Base


class Reading(Base):
    """The methods of `msgqueue.MessageQueue` that change nothing; arguments and errors are described there."""

    async def get(self, id: str) -> Message:
        """One message. Errors: NotFoundError, CorruptError."""
        return await self._read(lambda queue: queue.get(id))

    async def attempts(self, id: str) -> builtins.list[Attempt]:
        """The ledger of one message: its attempts, oldest first. Errors: NotFoundError, CorruptError."""
        return await self._read(lambda queue: queue.attempts(id))

    async def explain(self, id: str) -> Explanation:
        """The one reason why a message is not sent yet. Errors: NotFoundError, CorruptError."""
        return await self._read(lambda queue: queue.explain(id))

    async def list(
        self,
        conversation: str | None = None,
        status: Status | Iterable[Status] | None = None,
        limit: int = 50,
        after: int | None = None,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> builtins.list[Message]:
        """A page of messages in the order of sending."""
        return await self._read(lambda queue: queue.list(conversation, status, limit, after, newest_first, bodies))

    async def counts(self, conversation: str | None = None) -> Counts:
        """Messages by status, of one conversation or (None) of all."""
        return await self._read(lambda queue: queue.counts(conversation))

    async def conversations(self, before: int = 0, limit: int = 50) -> builtins.list[Conversation]:
        """A page of conversations, the one with the newest message first."""
        return await self._read(lambda queue: queue.conversations(before, limit))

    async def stats(self) -> Statistics:
        """What the queue has done since it was opened."""
        return await self._read(lambda queue: queue.stats())

    async def prometheus(self) -> str:
        """The statistics and the counts, as Prometheus reads them (text format 0.0.4)."""
        return await self._read(lambda queue: queue.prometheus())

    async def state(self) -> State:
        """The state of the queue as a whole, and why nothing is being sent now."""
        return await self._read(lambda queue: queue.state())

    async def banner(self, conversation: str | None = None) -> str:
        """One line about the queue or one conversation for a person; "" when there is nothing to say."""
        return await self._read(lambda queue: queue.banner(conversation))

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a consistent copy of the store to the new file `path`, while the queue goes on."""
        home = self._at_home
        await home.run_long(home.reads, lambda queue: queue.backup(path))

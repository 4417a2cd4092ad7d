"""The calls that change a queue, with `await`.

They take effect in the order in which they were made, also when nobody waited for one before the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._arguments import Body, Time
from ..enums import Connectivity, Lifecycle, Link, Status
from ..models import Draft
from ..outcome import Outcome
from ._calls import Calls


class Commands:
    """The changing calls of `aio.MessageQueue`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # ---------------------------------------------------------------- messages in

    async def enqueue(
        self,
        body: Body,
        conversation: str,
        metadata: Mapping[str, str] | None,
        id: str | None,
        not_before: Time | None,
        expires_at: Time | None,
        unmetered_only: bool,
    ) -> str:
        """See `MessageQueue.enqueue`."""
        return await self._calls.change(
            lambda queue: queue.enqueue(
                body,
                conversation=conversation,
                metadata=metadata,
                id=id,
                not_before=not_before,
                expires_at=expires_at,
                unmetered_only=unmetered_only,
            )
        )

    async def enqueue_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> list[str]:
        """See `MessageQueue.enqueue_batch`."""
        # Here, as what makes the drafts may belong to this thread.
        given = drafts if isinstance(drafts, (Draft, Mapping)) else list(drafts)
        return await self._calls.change_long(lambda queue: queue.enqueue_batch(given))

    async def record(
        self, body: Body, sender: str, conversation: str, metadata: Mapping[str, str] | None, id: str | None
    ) -> str:
        """See `MessageQueue.record`."""
        return await self._calls.change(
            lambda queue: queue.record(body, sender=sender, conversation=conversation, metadata=metadata, id=id)
        )

    # ---------------------------------------------------------------- one message

    async def edit(self, id: str, body: Body) -> None:
        """See `MessageQueue.edit`."""
        await self._calls.change(lambda queue: queue.edit(id, body))

    async def delete(self, id: str) -> None:
        """See `MessageQueue.delete`."""
        await self._calls.change(lambda queue: queue.delete(id))

    async def retry(self, id: str) -> None:
        """See `MessageQueue.retry`."""
        await self._calls.change(lambda queue: queue.retry(id))

    async def send_now(self, id: str) -> None:
        """See `MessageQueue.send_now`."""
        await self._calls.change(lambda queue: queue.send_now(id))

    async def mark(self, id: str, status: Status) -> None:
        """See `MessageQueue.mark`."""
        await self._calls.change(lambda queue: queue.mark(id, status))

    # ---------------------------------------------------------------- many messages

    async def clear(self, conversation: str | None) -> None:
        """See `MessageQueue.clear`."""
        await self._calls.change_long(lambda queue: queue.clear(conversation))

    async def retry_all(self, conversation: str | None) -> int:
        """See `MessageQueue.retry_all`."""
        return await self._calls.change_long(lambda queue: queue.retry_all(conversation))

    async def pause(self, conversation: str | None) -> None:
        """See `MessageQueue.pause`."""
        await self._calls.change(lambda queue: queue.pause(conversation))

    async def resume(self, conversation: str | None) -> None:
        """See `MessageQueue.resume`."""
        await self._calls.change(lambda queue: queue.resume(conversation))

    async def complete(self, token: int, outcome: Outcome) -> None:
        """See `MessageQueue.complete`."""
        await self._calls.answer(lambda queue: queue.complete(token, outcome))

    # ---------------------------------------------------------------- environment

    async def set_connectivity(self, connectivity: Connectivity, link: Link, metered: bool) -> None:
        """See `MessageQueue.set_connectivity`."""
        await self._calls.change(lambda queue: queue.set_connectivity(connectivity, link, metered))

    async def start_monitor(self) -> None:
        """See `MessageQueue.start_monitor`."""
        await self._calls.change(lambda queue: queue.start_monitor())

    async def stop_monitor(self) -> None:
        """See `MessageQueue.stop_monitor`."""
        await self._calls.change(lambda queue: queue.stop_monitor())

    async def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """See `MessageQueue.set_lifecycle`."""
        await self._calls.change(lambda queue: queue.set_lifecycle(lifecycle))

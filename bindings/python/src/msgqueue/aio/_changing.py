"""What a queue can be told, with `await`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._arguments import Body, Time
from ..enums import Connectivity, Lifecycle, Link, Status
from ..models import Draft
from ..outcome import Outcome
from ._base import Base


class Changing(Base):
    """The methods of `msgqueue.MessageQueue` that change something; arguments and errors are described there.

    They take effect in the order in which they were called, also when nobody waited for one before the next. One that
    is cancelled while it is under way may have been done or not: who must know gives the message an id, and looks.
    """

    # ---------------------------------------------------------------- messages in

    async def enqueue(
        self,
        body: Body,
        *,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
        not_before: Time | None = None,
        expires_at: Time | None = None,
        unmetered_only: bool = False,
    ) -> str:
        """Stores one message as queued and returns its id; it then survives a power cut."""
        return await self._change(
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
        """Stores messages in this order, all or none, and returns their ids: for many, this is the quick way."""
        # Here, as what makes the drafts may belong to this thread.
        given = drafts if isinstance(drafts, (Draft, Mapping)) else list(drafts)
        home = self._at_home
        return await home.run_long(home.changes, lambda queue: queue.enqueue_batch(given))

    async def record(
        self,
        body: Body,
        *,
        sender: str,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
    ) -> str:
        """Puts somebody else's message into the history and returns its id."""
        return await self._change(
            lambda queue: queue.record(body, sender=sender, conversation=conversation, metadata=metadata, id=id)
        )

    # ---------------------------------------------------------------- one message

    async def edit(self, id: str, body: Body) -> None:
        """Replaces the body of a queued or failed message, which keeps its id and its place."""
        await self._change(lambda queue: queue.edit(id, body))

    async def delete(self, id: str) -> None:
        """Removes one message for good, whatever its status, from disk too."""
        await self._change(lambda queue: queue.delete(id))

    async def retry(self, id: str) -> None:
        """Tries a failed message again, now, under the same id, in its old place. Does not wait for the outcome."""
        await self._change(lambda queue: queue.retry(id))

    async def send_now(self, id: str) -> None:
        """Sends one queued message now, whatever stands before it. Does not wait for the outcome."""
        await self._change(lambda queue: queue.send_now(id))

    async def mark(self, id: str, status: Status) -> None:
        """A receipt came: Status.DELIVERED or Status.READ."""
        await self._change(lambda queue: queue.mark(id, status))

    # ---------------------------------------------------------------- many messages

    async def clear(self, conversation: str | None = None) -> None:
        """Removes the queued and failed messages of one conversation or (None) of all."""
        home = self._at_home
        await home.run_long(home.changes, lambda queue: queue.clear(conversation))

    async def retry_all(self, conversation: str | None = None) -> int:
        """Puts all failed messages of one conversation or (None) of all back to queued and sends them; their number."""
        home = self._at_home
        return await home.run_long(home.changes, lambda queue: queue.retry_all(conversation))

    async def pause(self, conversation: str | None = None) -> None:
        """Starts nothing more, in one conversation or (None) at all, until `resume`."""
        await self._change(lambda queue: queue.pause(conversation))

    async def resume(self, conversation: str | None = None) -> None:
        """Ends a pause of the same scope, or one that an unauthorized answer began."""
        await self._change(lambda queue: queue.resume(conversation))

    async def complete(self, token: int, outcome: Outcome) -> None:
        """Answers an attempt whose transport returned `Outcome.pending()`.

        An `async def` transport seldom needs it: it may take its time and return the outcome itself.
        """
        home = self._at_home
        queue = home.queue
        await home.attempts.answers.run(lambda: queue.complete(token, outcome))

    # ---------------------------------------------------------------- the world

    async def set_connectivity(
        self, connectivity: Connectivity, link: Link = Link.OTHER, metered: bool = False
    ) -> None:
        """Tells how the world is. Errors: ConflictError (a monitor tells it)."""
        await self._change(lambda queue: queue.set_connectivity(connectivity, link, metered))

    async def start_monitor(self) -> None:
        """Lets the kernel tell instead (Linux), beginning with how things are now."""
        await self._change(lambda queue: queue.start_monitor())

    async def stop_monitor(self) -> None:
        """Ends it; what was known last stays true until `set_connectivity`."""
        await self._change(lambda queue: queue.stop_monitor())

    async def set_lifecycle(self, lifecycle: Lifecycle) -> None:
        """Tells where the program is; a queue begins in the foreground."""
        await self._change(lambda queue: queue.set_lifecycle(lifecycle))

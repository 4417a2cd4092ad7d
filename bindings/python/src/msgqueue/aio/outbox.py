"""An outbox in the program's PostgreSQL database, for asyncio."""

from __future__ import annotations

import builtins
import ctypes
import sys
import threading
from collections.abc import Awaitable, Iterable, Mapping
from types import TracebackType
from typing import Any

from .. import _abi
from .._arguments import Body, Duration, Time
from .._handovers import HandOver
from .._outbox.rows import made
from .._outbox.steps import run_async
from ..enums import Result
from ..errors import ConflictError, Error
from ..models import Draft
from ..outbox import LIMIT, collection_limit, log_uncollected, rows_of
from .queue import MessageQueue


class Outbox:
    """Messages in the program's own database, written in its own transaction: `msgqueue.Outbox` with `await`.

        outbox = aio.Outbox(connection, queue)
        await outbox.create()
        async with outbox:
            await connection.execute("INSERT INTO orders VALUES(%s)", ("7",))
            await outbox.put("order 7", conversation="7")

    The connection is a `psycopg.AsyncConnection` of psycopg 3 (the extra `postgresql`), the queue a
    `msgqueue.aio.MessageQueue`. A collection that is cancelled loses nothing, and the next one goes on.
    """

    def __init__(self, connection: Any, queue: MessageQueue | None = None) -> None:  # noqa: ANN401 - see there
        """Opens and reads nothing.

        Args:
            connection: Of psycopg. What wraps one, as SQLAlchemy does, is not accepted.
            queue: As for `msgqueue.Outbox`.
        """
        psycopg: Any = sys.modules.get("psycopg")
        if psycopg is None or not isinstance(connection, psycopg.AsyncConnection):
            raise TypeError(
                "connection must be a psycopg.AsyncConnection, not "
                f"{type(connection).__module__}.{type(connection).__name__}"
            )
        from .._outbox.postgresql import Postgresql

        self._host = Postgresql(connection)
        self._queue = None if queue is None else _require_queue(queue)
        self._collects = threading.Lock()

    @property
    def schema(self) -> str:
        """As of `msgqueue.Outbox`."""
        return self._host.text_of_schema

    async def create(self) -> None:
        """As `msgqueue.Outbox.create`."""
        await run_async(self._host.create())

    async def put(
        self,
        body: Body,
        *,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
        not_before: Time | None = None,
        delay: Duration | None = None,
        expires_at: Time | None = None,
        unmetered_only: bool = False,
        replace_key: str | None = None,
        priority: int = 0,
        time: Time | None = None,
        expiry: Duration | None = None,
    ) -> str:
        """Writes a message in the program's transaction. It is sent only if that commits.

        Args:
            body: As for `msgqueue.Outbox.put`.
            conversation: As for `msgqueue.Outbox.put`.
            metadata: As for `msgqueue.Outbox.put`.
            id: As for `msgqueue.Outbox.put`.
            not_before: As for `msgqueue.Outbox.put`.
            delay: As for `msgqueue.Outbox.put`.
            expires_at: As for `msgqueue.Outbox.put`.
            unmetered_only: As for `msgqueue.Outbox.put`.
            replace_key: As for `msgqueue.Outbox.put`.
            priority: As for `msgqueue.Outbox.put`.
            time: As for `msgqueue.Outbox.put`.
            expiry: As for `msgqueue.Outbox.put`.

        Returns:
            The id.

        Raises:
            Error: As `msgqueue.Outbox.put`.
        """
        row = made(
            body,
            conversation=conversation,
            metadata=metadata,
            id=id,
            not_before=not_before,
            delay=delay,
            expires_at=expires_at,
            unmetered_only=unmetered_only,
            replace_key=replace_key,
            priority=priority,
            time=time,
            expiry=expiry,
        )
        return await run_async(self._host.put_one(row))

    async def put_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[str]:
        """Writes messages in the program's transaction, in this order, all or none.

        Args:
            drafts: Drafts, or dicts of the arguments of `put` with "body" among them.

        Returns:
            The ids.

        Raises:
            Error: As `msgqueue.Outbox.put_batch`.
        """
        return await run_async(self._host.put_all(rows_of(drafts)))

    async def collect(self, queue: MessageQueue | None = None, *, limit: int = LIMIT) -> int:
        """Moves committed rows into a queue.

        Args:
            queue: As for the outbox; None: that of the outbox.
            limit: As for `msgqueue.Outbox.collect`.

        Returns:
            How many rows were moved or refused. 0: there are none.

        Raises:
            Error: As `msgqueue.Outbox.collect`.
        """
        target = self._queue if queue is None else _require_queue(queue)
        if target is None:
            raise TypeError("a collection needs a queue: give it to Outbox or to collect")
        return await self._collect(target, collection_limit(limit))

    async def _collect(self, queue: MessageQueue, limit: int) -> int:
        from .._outbox.collecting import collect

        if not self._collects.acquire(blocking=False):
            raise ConflictError("another task collects from this outbox")
        try:
            return await run_async(collect(self._host, _Calls(queue), limit))
        finally:
            self._collects.release()

    async def __aenter__(self) -> Outbox:
        await run_async(self._host.enter_block())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await run_async(self._host.leave_block(problem is None))
        if problem is not None or self._queue is None:
            return
        try:
            await self._collect(self._queue, LIMIT)
        except (Error, self._host.errors) as failure:
            log_uncollected(failure)


class _Calls:
    """The calls of a collection, of a queue for asyncio."""

    def __init__(self, queue: MessageQueue) -> None:
        self._queue = queue
        self.handed_over = queue.handed_over
        self.hand_over_done = queue.hand_over_done

    def take_over_array(
        self, hand_over: HandOver, array: ctypes.Array[_abi.Draft], count: int
    ) -> Awaitable[builtins.list[Result]]:
        return self._queue._calls.change_long(lambda queue: queue._handovers.take_over_array(hand_over, array, count))


def _require_queue(queue: object) -> MessageQueue:
    if not isinstance(queue, MessageQueue):
        raise TypeError(f"queue must be a msgqueue.aio.MessageQueue, not {type(queue).__name__}")
    return queue

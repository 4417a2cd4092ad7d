"""An outbox: messages that are put into the program's own transaction, in its own database."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _arguments, _drafts
from ._arguments import Body, Duration, Time
from ._outbox.rows import is_plain, made, made_plain, whole
from ._outbox.steps import run
from .errors import ConflictError, Error, InvalidError
from .models import Draft

if TYPE_CHECKING:
    import builtins

    from ._outbox.host import Host
    from .control import Client
    from .queue import MessageQueue

__all__ = ["Outbox"]

_logger = logging.getLogger("msgqueue")

#: The number of rows that a collection takes over at most, unless it is given.
LIMIT = 10_000
_MOST = 1_000_000


class Outbox:
    """Messages in the program's own database, written in its own transaction: both exist, or neither.

        connection = sqlite3.connect("shop.db")
        outbox = Outbox(connection, queue)
        outbox.create()
        with outbox:
            connection.execute("INSERT INTO orders VALUES(?)", ("7",))
            outbox.put("order 7", conversation="7")

    `put` inserts a row into the table `msgq_outbox` on the program's connection, so it takes effect exactly when the
    program's transaction commits. `collect` moves committed rows into a queue, in the order of their numbers, each
    exactly once whatever step a crash interrupts. Rows of one conversation have the order in which they were committed.

    The connection is one of `sqlite3`, in any mode of transactions, or a `psycopg.Connection` of psycopg 3 (the extra
    `postgresql`); for `psycopg.AsyncConnection` see `msgqueue.aio.Outbox`. The program opens it and closes it. The
    outbox opens no file and no connection, and sets no hook, function or factory of it.

    One queue collects from a database. A program that runs in several processes writes from all of them, and collects
    in the one that has the queue open.

    A block `with outbox:` is a transaction: it begins (SQLite: BEGIN IMMEDIATE), is rolled back by an exception, and
    otherwise is committed; then the outbox collects into its queue. A failure of this collection is a warning in the
    log, because the transaction is committed, and the next collection takes the rows over. Without a block the program
    begins and commits as always, and calls `collect` after it.

    PostgreSQL: `put` takes an advisory lock on its conversation until the end of the transaction, so that a later
    transaction of the same conversation has a later number. Transactions that put into several conversations in
    different orders can deadlock, which PostgreSQL reports to one of them; `put_batch` takes its locks in one order.

    Threads: those that the connection permits. One collection of an outbox runs at a time.
    """

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - see there
        queue: MessageQueue | Client | None = None,
    ) -> None:
        """Opens and reads nothing.

        Args:
            connection: Of `sqlite3` or psycopg. What wraps one, as SQLAlchemy and Django do, is not accepted.
            queue: Into which `collect` and a block move messages. A `control.Client` where another process has the
                queue open: a block asks it to collect (`EventKind.COLLECT`). None: a block does neither.
        """
        self._host = _host(connection)
        self._queue, self._owner = _parts(queue)
        self._collects = threading.Lock()

    @property
    def schema(self) -> str:
        """The statements that make the tables, for the migrations of the program; they may be run again.

        The program's account needs no other rights than those to these tables.
        """
        return self._host.text_of_schema

    def create(self) -> None:
        """Makes the tables if they are not there: in the program's transaction, or in one of its own.

        Raises:
            CorruptError: Other tables of these names are there.
            TooNewError: A later version of the library made them.
        """
        run(self._host.create())

    def put(
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

        Without a transaction it is one of its own, or begins one, as any INSERT on the connection. Like that, it
        changes SQLite's `last_insert_rowid()`; `Cursor.lastrowid` of the program's own cursors stays.

        Args:
            body: As for `MessageQueue.enqueue`, at most 256 MiB. One over the queue's `limit_body` becomes a failed
                message; so do other values that only the queue refuses.
            conversation: As for `MessageQueue.enqueue`.
            metadata: As for `MessageQueue.enqueue`, at most 16 MiB.
            id: As for `MessageQueue.enqueue`. No id is used twice, also not after its message was sent.
            not_before: As for `MessageQueue.enqueue`.
            delay: As for `MessageQueue.enqueue`, but it becomes a time by the system's clock now.
            expires_at: As for `MessageQueue.enqueue`.
            unmetered_only: As for `MessageQueue.enqueue`.
            replace_key: As for `MessageQueue.enqueue`.
            priority: As for `MessageQueue.enqueue`.
            time: As for `MessageQueue.enqueue`. None: now.
            expiry: As for `MessageQueue.enqueue`, but it becomes a time by the system's clock now.

        Returns:
            The id.

        Raises:
            InvalidError: An argument is out of range.
            TooLargeError: The body or the metadata is larger than any queue keeps.
            DuplicateError: The id is in the outbox already. Nothing changed, and the transaction can be used.
            NotFoundError: The tables are not there.
            CorruptError: They are others.
            TooNewError: A later version of the library made them.
            Exception: The driver's own errors, unchanged: the database is locked, read-only or full. SQLite reports at
                once that it is locked when the transaction has read before its first write; BEGIN IMMEDIATE waits.
        """
        # What most messages are: nothing is said but the body and the conversation.
        if (
            metadata is None
            and id is None
            and not_before is None
            and delay is None
            and expires_at is None
            and unmetered_only is False
            and replace_key is None
            and priority == 0
            and time is None
            and expiry is None
            and is_plain(body, conversation)
        ):
            plain = made_plain(body, conversation)
            return plain[0] if self._host.put_plain(plain) else run(self._host.put_one(whole(plain)))
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
        return row[0] if self._host.put_at_once(row) else run(self._host.put_one(row))

    def put_batch(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[str]:
        """Writes messages in the program's transaction, in this order, all or none.

        Args:
            drafts: Drafts, or dicts of the arguments of `put` with "body" among them.

        Returns:
            The ids.

        Raises:
            Error: As `put`. An error about an argument names the draft by its index, from 0.
        """
        return run(self._host.put_all(rows_of(drafts)))

    def collect(self, queue: MessageQueue | None = None, *, limit: int = LIMIT) -> int:
        """Moves committed rows into a queue.

        Works in rounds of at most 1,000 rows and 16 MiB, each a transaction of its own on the connection. Its commits
        survive power loss, whatever the connection's setting of `synchronous` or `synchronous_commit` is. (With
        `fsync = off` of PostgreSQL nothing survives it for certain.) With nothing to do it writes nothing.
        A row whose body or metadata exceed a limit of the queue becomes a failed message. A row that cannot be a
        message at all stays, with the reason in its column `refused`, and is not read again until that is NULL.

        Args:
            queue: As for the outbox; None: that of the outbox.
            limit: Rows at most, 1 to 1,000,000. Fewer are moved when the queue has no room for all.

        Returns:
            How many rows were moved or refused. 0: there are none.

        Raises:
            ConflictError: The connection is inside a transaction, or another collector is at work: in this process,
                or with PostgreSQL in another one.
            FullError: The queue has no room for the first row.
            NotFoundError: The tables are not there.
            CorruptError: They are others, or the queue's list of the hand-over is damaged.
            TooNewError: A later version of the library made them.
            Exception: The driver's own errors, unchanged. Whatever was raised, nothing is lost, and the next call goes
                on.
        """
        target = self._queue if queue is None else _require_queue(queue)
        if target is None:
            raise TypeError("a collection needs a queue: give it to Outbox or to collect")
        return self._collect(target, collection_limit(limit))

    def _collect(self, queue: MessageQueue, limit: int) -> int:
        from ._outbox.collecting import collect

        if not self._collects.acquire(blocking=False):
            raise ConflictError("another thread collects from this outbox")
        try:
            return run(collect(self._host, queue._handovers, limit))
        finally:
            self._collects.release()

    # ---------------------------------------------------------------- a block

    def __enter__(self) -> Outbox:
        run(self._host.enter_block())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._host.leave_block(problem is None))
        if problem is not None:
            return
        try:
            if self._owner is not None:
                self._owner.call("request_collect")
            elif self._queue is not None:
                with self._host.outside_transactions():
                    self._collect(self._queue, LIMIT)
        except (Error, self._host.errors) as failure:
            log_uncollected(failure)


def log_uncollected(problem: Exception) -> None:
    """Logs why the rows of a transaction that is committed were not collected yet."""
    _logger.warning("the messages of a committed transaction stay in the outbox until the next collection: %s", problem)


def rows_of(drafts: Iterable[Draft | Mapping[str, Any]]) -> list[Any]:
    """Returns the rows of several messages."""
    return _drafts.each(drafts, "put_batch", lambda draft: made(**vars(draft)))


def collection_limit(limit: int) -> int:
    """Returns a limit that is in its range."""
    number = _arguments.whole("limit", limit)
    if not 1 <= number <= _MOST:
        raise InvalidError(f"limit must be 1 to {_MOST}, got {number}")
    return number


def _parts(queue: object) -> tuple[MessageQueue | None, Client | None]:
    """Returns the queue, or the connection to its owner. Without one of these its module need not be imported."""
    control: Any = sys.modules.get("msgqueue.control")
    if control is not None and isinstance(queue, control.Client):
        return None, queue
    return None if queue is None else _require_queue(queue), None


def _require_queue(queue: object) -> MessageQueue:
    from .queue import MessageQueue

    if not isinstance(queue, MessageQueue):
        raise TypeError(f"queue must be a MessageQueue, not {type(queue).__name__}")
    return queue


def _host(connection: object) -> Host:
    """Returns what knows the database. The modules of the drivers are imported already if there is a connection."""
    sqlite3: Any = sys.modules.get("sqlite3")
    if sqlite3 is not None and isinstance(connection, sqlite3.Connection):
        from ._outbox.sqlite import Sqlite

        return Sqlite(connection)
    psycopg: Any = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        from ._outbox.postgresql import Postgresql

        return Postgresql(connection)
    kind = f"{type(connection).__module__}.{type(connection).__name__}"
    if psycopg is not None and isinstance(connection, psycopg.AsyncConnection):
        kind += ": use msgqueue.aio.Outbox"
    raise TypeError(f"connection must be a sqlite3.Connection or a psycopg.Connection, not {kind}")

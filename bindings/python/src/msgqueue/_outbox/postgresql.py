"""An outbox in a PostgreSQL database that the program connected to with psycopg 3."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from typing import Any, TypeVar

from .._options import LARGEST_BODY, LARGEST_METADATA
from ..errors import ConflictError, CorruptError, NotFoundError
from .host import PAGE_BYTES, TEXT_READ, Host, names
from .rows import COLUMNS, New, Stored, encoded
from .steps import Steps

T = TypeVar("T")

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS msgq_outbox(
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  conversation text NOT NULL,
  body bytea NOT NULL,
  metadata bytea,
  not_before_ms bigint,
  expires_at_ms bigint,
  time_ms bigint NOT NULL,
  priority integer NOT NULL DEFAULT 0,
  replace_key text,
  unmetered_only integer NOT NULL DEFAULT 0,
  refused text
)""",
    # Finds the rows that wait without reading those that were refused.
    "CREATE INDEX IF NOT EXISTS msgq_outbox_waiting ON msgq_outbox(number) WHERE refused IS NULL",
    """CREATE TABLE IF NOT EXISTS msgq_outbox_store(
  collected integer NOT NULL DEFAULT 0,
  version integer NOT NULL,
  source text NOT NULL
)""",
    """INSERT INTO msgq_outbox_store(version, source)
SELECT 1, replace(gen_random_uuid()::text, '-', '') WHERE NOT EXISTS (SELECT 1 FROM msgq_outbox_store)""",
)

_TEXT, _BYTES, _INTEGER, _LONG = "text", "bytea", "integer", "bigint"
_COLUMNS = {
    "msgq_outbox_store": {"collected": _INTEGER, "version": _INTEGER, "source": _TEXT},
    "msgq_outbox": {
        "number": _LONG,
        "id": _TEXT,
        "conversation": _TEXT,
        "body": _BYTES,
        "metadata": _BYTES,
        "not_before_ms": _LONG,
        "expires_at_ms": _LONG,
        "time_ms": _LONG,
        "priority": _INTEGER,
        "replace_key": _TEXT,
        "unmetered_only": _INTEGER,
        "refused": _TEXT,
    },
}

# The classes of the advisory locks: the first numbers of the pairs. "msgq" in ASCII, of conversations; "msgc", of
# collectors (0) and of those who make the tables (1). They never change: programs of several versions run together.
_CONVERSATIONS = 0x6D736771
_COLLECTORS = 0x6D736763

# The row gets its number after the lock of its conversation, which lasts until the end of the transaction. So of two
# transactions of one conversation the one that commits later has the higher number.
_PUT = (
    f"WITH locked AS (SELECT pg_advisory_xact_lock({_CONVERSATIONS}, %s::integer)) "
    f"INSERT INTO msgq_outbox({names()}) "
    "SELECT " + ", ".join("%s::" + _COLUMNS["msgq_outbox"][column] for column in COLUMNS) + " FROM locked "
    "WHERE (SELECT version FROM msgq_outbox_store LIMIT 1) = 1 "
    "ON CONFLICT (id) DO NOTHING RETURNING number"
)


def _value(column: str) -> str:
    kind = _COLUMNS["msgq_outbox"][column]
    largest = {"body": LARGEST_BODY, "metadata": LARGEST_METADATA}
    if column in largest:
        return f"CASE WHEN octet_length({column}) <= {largest[column]} THEN {column} END"
    return f"left({column}, {TEXT_READ})" if kind == _TEXT else column


# The sizes are known without reading the values.
_PAGE = (
    "SELECT number, "
    + ", ".join(_value(column) for column in COLUMNS)
    + ", body_size, metadata_size FROM (SELECT *, octet_length(body) AS body_size, "
    "octet_length(metadata) AS metadata_size, sum(coalesce(octet_length(body), 0)::bigint + "
    "coalesce(octet_length(metadata), 0)) OVER (ORDER BY number) AS total "
    "FROM (SELECT * FROM msgq_outbox WHERE refused IS NULL ORDER BY number LIMIT %s) AS rows) AS sized "
    f"WHERE total - coalesce(body_size, 0) - coalesce(metadata_size, 0) < {PAGE_BYTES} ORDER BY number"
)
_TEXTS = (1, 2, 9)


class Postgresql(Host):
    """A connection of psycopg. Its calls return their values or, if it is asynchronous, awaitables of them."""

    schema = _SCHEMA
    columns = _COLUMNS

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - its module is not installed everywhere
        self._psycopg = importlib.import_module("psycopg")
        self.errors = self._psycopg.Error
        self._connection = connection
        is_async = isinstance(connection, self._psycopg.AsyncConnection)
        self._make_cursor = self._psycopg.AsyncCursor if is_async else self._psycopg.Cursor
        # Whether the session has the lock of collectors, as far as is known.
        self._may_be_locked = False
        self._idle: list[Any] = []

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Steps[list[Any]]:
        """Executes a statement."""
        cursor = self._cursor()
        yield cursor.execute(sql, parameters)
        # In a pipeline the description comes only with the rows.
        has_rows = sql.startswith("SELECT") or cursor.description
        rows: list[Any] = (yield cursor.fetchall()) if has_rows else []
        # It would keep the rows.
        yield cursor.close()
        return rows

    def _insert(self, parameters: Sequence[Any]) -> Steps[list[Any]]:
        """Executes `_PUT` with a cursor that was used before, which is faster. Tasks do not share one."""
        cursor = self._idle.pop() if self._idle else self._cursor()
        yield cursor.execute(_PUT, parameters)
        rows: list[Any] = yield cursor.fetchall()
        self._idle.append(cursor)
        return rows

    def _cursor(self) -> Any:  # noqa: ANN401
        """Returns a cursor whose rows are tuples, with the loaders of psycopg for the types of the tables."""
        cursor = self._make_cursor(self._connection, row_factory=self._psycopg.rows.tuple_row)
        types = self._psycopg.types
        for name, loaders in (
            ("text", (types.string.TextLoader, types.string.TextBinaryLoader)),
            ("bytea", (types.string.ByteaLoader, types.string.ByteaBinaryLoader)),
            ("bool", (types.bool.BoolLoader, types.bool.BoolBinaryLoader)),
            ("int4", (types.numeric.IntLoader, types.numeric.Int4BinaryLoader)),
            ("int8", (types.numeric.IntLoader, types.numeric.Int8BinaryLoader)),
        ):
            for loader in loaders:
                cursor.adapters.register_loader(name, loader)
        for kind, dumpers in (
            (str, (types.string.StrBinaryDumper, types.string.StrDumper)),
            (bytes, (types.string.BytesDumper, types.string.BytesBinaryDumper)),
            (int, (types.numeric.IntBinaryDumper, types.numeric.IntDumper)),
        ):
            for dumper in dumpers:
                cursor.adapters.register_dumper(kind, dumper)
        return cursor

    # ---------------------------------------------------------------- transactions

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or a statement runs, or the connection is lost: then its commit says so."""
        return bool(self._connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE)

    def require_no_transaction(self, what: str) -> None:
        """Raises ConflictError inside a transaction or a pipeline of the program."""
        if not self._connection.closed:
            self._require_no_pipeline(what)
            super().require_no_transaction(what)

    def _require_no_pipeline(self, what: str) -> None:
        """Raises ConflictError inside a pipeline, where nothing tells whether a transaction has ended."""
        if self._connection.info.pipeline_status != self._psycopg.pq.PipelineStatus.OFF:
            raise ConflictError(f"{what} is not possible inside a pipeline")

    def begin(self) -> Steps[None]:
        """Begins a transaction. Without autocommit the connection does that itself."""
        if self._connection.autocommit:
            yield from self.execute("BEGIN")

    def commit(self) -> Steps[None]:
        """Commits."""
        yield self._connection.commit()

    def rollback(self) -> Steps[None]:
        """Rolls back, unless the connection is lost."""
        if not self._connection.closed:
            yield self._connection.rollback()

    def own_transaction(self, work: Steps[T]) -> Steps[T]:
        """Runs steps in a transaction whose isolation and encoding do not depend on the program."""
        return self.transaction(self._prepared(work))

    def _prepared(self, work: Steps[T]) -> Steps[T]:
        yield from self.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        # All texts can be read in UTF-8. The stronger `remote_apply` is left.
        yield from self.execute(
            "SELECT set_config('client_encoding', 'UTF8', true), set_config('synchronous_commit', "
            "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"
        )
        return (yield from work)

    # ---------------------------------------------------------------- the tables

    def _create(self) -> Steps[None]:
        self._require_no_pipeline("making the tables")
        yield from self.execute(f"SELECT pg_advisory_xact_lock({_COLLECTORS}, 1)")
        yield from super()._create()

    def _store_rows(self) -> Steps[list[tuple[object, object]]]:
        rows = yield from self.execute("SELECT version, source FROM msgq_outbox_store LIMIT 2")
        return [(version, _text(source)) for version, source in rows]

    def _found_columns(self, table: str) -> Steps[dict[str, tuple[str, bool]]]:
        rows = yield from self.execute(
            "SELECT attname::text, format_type(atttypid, NULL)::text, EXISTS (SELECT 1 FROM pg_index "
            "WHERE indrelid = attrelid AND indisprimary AND indkey::text = attnum::text) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s::text) AND attnum > 0 AND NOT attisdropped",
            (table,),
        )
        return {_text(name): (_text(kind), is_key) for name, kind, is_key in rows}

    # ---------------------------------------------------------------- putting

    def put(self, row: New) -> Steps[bool]:
        """Inserts a row."""
        try:
            rows = yield from self._insert((lock_of(row[1]), *row))
        except UnicodeEncodeError as problem:
            raise self._unencodable(problem) from None
        except self._psycopg.errors.UndefinedTable as problem:
            raise NotFoundError(f"{_line(problem)}: call Outbox.create, or run Outbox.schema") from problem
        except (
            self._psycopg.errors.UndefinedColumn,
            self._psycopg.errors.DatatypeMismatch,
            self._psycopg.errors.InvalidColumnReference,
            self._psycopg.errors.WrongObjectType,
        ) as problem:
            raise CorruptError(f"the tables of the outbox are others: {_line(problem)}") from problem
        return bool(rows)

    def _unencodable(self, problem: UnicodeEncodeError) -> Exception:
        error: Exception = self._psycopg.DataError(
            f"the client_encoding of the connection, {problem.encoding}, has no character "
            f"U+{ord(problem.object[problem.start]):04X}; connect with client_encoding=UTF8"
        )
        return error

    def put_all(self, rows: Sequence[New]) -> Steps[list[str]]:
        """Inserts rows, all or none, also inside a transaction of the program."""
        if self._connection.autocommit:
            self._require_no_pipeline("a batch with autocommit")
        is_own = self._connection.autocommit and not self.in_transaction
        return (yield from self.transaction(self._put_locked(rows)) if is_own else self._put_saved(rows))

    def _put_saved(self, rows: Sequence[New]) -> Steps[list[str]]:
        yield from self.execute("SAVEPOINT msgq_outbox")
        try:
            ids = yield from self._put_locked(rows)
        except BaseException:
            if not self._connection.closed:
                yield from self.execute("ROLLBACK TO msgq_outbox")
                yield from self.execute("RELEASE msgq_outbox")
            raise
        yield from self.execute("RELEASE msgq_outbox")
        return ids

    def _put_locked(self, rows: Sequence[New]) -> Steps[list[str]]:
        """Takes the locks in one order, so that two calls do not wait for each other."""
        for lock in sorted({lock_of(row[1]) for row in rows}):
            yield from self.execute(f"SELECT pg_advisory_xact_lock({_CONVERSATIONS}, %s::integer)", (lock,))
        return (yield from self._put_each(rows))

    # ---------------------------------------------------------------- collecting

    def enter(self) -> Steps[None]:
        """Takes the lock of collectors, which the session has until `leave`."""
        if self._may_be_locked:
            yield from self._unlock()
        self._may_be_locked = True
        ((is_locked,),) = yield from self.transaction(self.execute(f"SELECT pg_try_advisory_lock({_COLLECTORS}, 0)"))
        self._may_be_locked = is_locked
        if not is_locked:
            raise ConflictError("another connection collects from this database")

    def leave(self) -> Steps[None]:
        """Releases it, also when the task is cancelled, or the program is interrupted, in the middle of that."""
        if not self._may_be_locked or self._connection.closed:
            return
        try:
            yield from self._unlock()
        except BaseException:
            if self._may_be_locked and not self._connection.closed:
                yield from self._unlock()
            raise

    def _unlock(self) -> Steps[None]:
        """Releases the lock, if the session has it."""
        unlock = (
            f"SELECT pg_advisory_unlock({_COLLECTORS}, 0) WHERE EXISTS (SELECT 1 FROM pg_locks WHERE "
            f"locktype = 'advisory' AND classid = {_COLLECTORS} AND objid = 0 AND objsubid = 2 "
            "AND pid = pg_backend_pid() "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
        )
        yield from self.transaction(self.execute(unlock))
        self._may_be_locked = False

    def look(self) -> Steps[tuple[str, bool]]:
        """Returns the source, and whether there are rows."""
        return (yield from self.own_transaction(self._look()))

    def _look(self) -> Steps[tuple[str, bool]]:
        source = yield from self.source()
        rows = yield from self.execute("SELECT 1 FROM msgq_outbox WHERE refused IS NULL LIMIT 1")
        return source, bool(rows)

    def page(self, limit: int) -> Steps[list[Stored]]:
        """Reads rows."""
        rows = yield from self.execute(_PAGE, (limit,))
        return [_as_utf_8(row) for row in rows]

    def forget(self, ids: Sequence[str]) -> Steps[None]:
        """Deletes rows by id."""
        for start in range(0, len(ids), _BATCH):
            batch = list(ids[start : start + _BATCH])
            yield from self.execute("DELETE FROM msgq_outbox WHERE id = ANY(%s::text[])", (batch,))

    def delete(self, numbers: Sequence[int]) -> Steps[None]:
        """Deletes rows by number."""
        for start in range(0, len(numbers), _BATCH):
            batch = list(numbers[start : start + _BATCH])
            yield from self.execute("DELETE FROM msgq_outbox WHERE number = ANY(%s::bigint[])", (batch,))

    def has_any(self, numbers: Sequence[int], ids: Sequence[str]) -> Steps[bool]:
        """Looks for rows."""
        found = yield from self.execute(
            "SELECT 1 FROM msgq_outbox WHERE refused IS NULL AND "
            "(number = ANY(%s::bigint[]) OR id = ANY(%s::text[])) LIMIT 1",
            (list(numbers), list(ids)),
        )
        return bool(found)

    def refuse(self, number: int, reason: str) -> Steps[None]:
        """Marks a row."""
        yield from self.execute("UPDATE msgq_outbox SET refused = %s::text WHERE number = %s::bigint", (reason, number))


_BATCH = 1000


def lock_of(conversation: str) -> int:
    """Returns the number of the advisory lock of a conversation: the same in every process and every version."""
    return int.from_bytes(hashlib.sha256(conversation.encode()).digest()[:4], "big", signed=True)


def _text(value: Any) -> Any:  # noqa: ANN401
    """Returns a text. Without an encoding (`SQL_ASCII`) psycopg returns bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _as_utf_8(row: Stored) -> Stored:
    values = list(row)
    for place in _TEXTS:
        values[place] = encoded(values[place])
    return tuple(values)


def _line(problem: Exception) -> str:
    return str(problem).partition("\n")[0]

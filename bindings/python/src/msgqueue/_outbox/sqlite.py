"""An outbox in a SQLite database that the program opened with the module `sqlite3`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._options import LARGEST_BODY, LARGEST_METADATA
from ..errors import ConflictError, CorruptError
from .host import PAGE_BYTES, TEXT_READ, Host
from .rows import COLUMNS, WRONG, New, Plain, Stored, encoded
from .steps import Steps

if TYPE_CHECKING:
    import sqlite3

#: The level EXTRA of `synchronous`: with a rollback journal only its commits flush the removal of the journal.
_EXTRA = 3
_BATCH = 500
# How the texts of errors begin that are about the tables.
_TABLE_ERRORS = ("no such", "table ", "cannot modify", "ON CONFLICT", "NOT NULL constraint failed: msgq_outbox.id")

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS main.msgq_outbox(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  conversation TEXT NOT NULL,
  body BLOB NOT NULL,
  metadata BLOB,
  not_before_ms INTEGER,
  expires_at_ms INTEGER,
  time_ms INTEGER NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0,
  replace_key TEXT,
  unmetered_only INTEGER NOT NULL DEFAULT 0,
  refused TEXT
)""",
    # Finds the rows that wait without reading those that were refused.
    """CREATE INDEX IF NOT EXISTS main.msgq_outbox_waiting ON msgq_outbox(number) WHERE refused IS NULL""",
    """CREATE TABLE IF NOT EXISTS main.msgq_outbox_store(
  collected INTEGER NOT NULL DEFAULT 0,
  version INTEGER NOT NULL,
  source TEXT NOT NULL
)""",
    """INSERT INTO main.msgq_outbox_store(version, source)
SELECT 1, lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM main.msgq_outbox_store)""",
)

_TEXT, _BLOB, _INTEGER = "TEXT", "BLOB", "INTEGER"
_COLUMNS = {
    "msgq_outbox_store": {"collected": _INTEGER, "version": _INTEGER, "source": _TEXT},
    "msgq_outbox": {
        "number": _INTEGER,
        "id": _TEXT,
        "conversation": _TEXT,
        "body": _BLOB,
        "metadata": _BLOB,
        "not_before_ms": _INTEGER,
        "expires_at_ms": _INTEGER,
        "time_ms": _INTEGER,
        "priority": _INTEGER,
        "replace_key": _TEXT,
        "unmetered_only": _INTEGER,
        "refused": _TEXT,
    },
}


def _insertion(columns: Sequence[str]) -> str:
    # One statement for all cases: nothing is inserted when the id is there, and when the tables are of another version
    # the id is NULL, which they do not permit. With VALUES it is faster than with SELECT.
    return (
        f"INSERT INTO main.msgq_outbox({', '.join(columns)}) "
        "VALUES((SELECT ? FROM main.msgq_outbox_store WHERE version = 1), "
        f"{', '.join('?' * (len(columns) - 1))}) ON CONFLICT(id) DO NOTHING"
    )


_PUT = _insertion(COLUMNS)
_PUT_PLAIN = _insertion(("id", "conversation", "body", "time_ms"))


def _value(column: str) -> str:
    """Returns an expression that reads a column without the program's text factory and converters.

    A text is read as the bytes in which the database has it. A value of another type is read as `WRONG`.
    """
    kind = _COLUMNS["msgq_outbox"][column]
    largest = {"body": LARGEST_BODY, "metadata": LARGEST_METADATA}
    if kind == _TEXT:
        # `substr` makes NULL of an empty BLOB.
        value = f"CASE {column} WHEN '' THEN x'' ELSE substr(CAST({column} AS BLOB), 1, {TEXT_READ}) END"
    elif column in largest:
        value = f"CASE WHEN length({column}) <= {largest[column]} THEN {column} END"
        return f"CASE typeof({column}) WHEN 'blob' THEN {value} END"
    else:
        value = column
    return f"CASE typeof({column}) WHEN '{kind.lower()}' THEN {value} WHEN 'null' THEN NULL ELSE {WRONG} END"


def _number(column: str) -> str:
    """Returns the same for a number, whose wrong types must not look like one."""
    return f"CASE typeof({column}) WHEN 'integer' THEN {column} WHEN 'null' THEN NULL ELSE x'' END"


_PAGE = (
    "SELECT +number, "
    + ", ".join(
        _number(column) if kind == _INTEGER else _value(column)
        for column, kind in _COLUMNS["msgq_outbox"].items()
        if column in COLUMNS
    )
    + ", CASE typeof(body) WHEN 'blob' THEN length(body) END"
    + ", CASE typeof(metadata) WHEN 'blob' THEN length(metadata) WHEN 'null' THEN NULL ELSE -1 END"
    + " FROM main.msgq_outbox WHERE refused IS NULL ORDER BY number LIMIT ?"
)
# Only a primary key can be AUTOINCREMENT.
_IS_NUMBERED = (
    "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND lower(name) = 'msgq_outbox' "
    "AND instr(upper(sql), 'AUTOINCREMENT')"
)
# The places of the texts in a row of it.
_TEXTS = (1, 2, 9)


class Sqlite(Host):
    """A connection of `sqlite3`. Its calls return their values, so no step is yielded to a driver."""

    schema = _SCHEMA
    # A temporary table of this name must not take its place.
    store = "main.msgq_outbox_store"
    columns = _COLUMNS

    def __init__(self, connection: sqlite3.Connection) -> None:
        module: Any = sys.modules["sqlite3"]
        self.errors = module.Error
        self._connection: Any = connection
        self._make_cursor: Callable[[Any], Any] = module.Cursor
        self._put = self._cursor()
        # The level to put back after a collection.
        self._synchronous: int | None = None

    def _cursor(self) -> Any:  # noqa: ANN401 - a cursor without the types of the module
        """Returns a cursor whose rows are tuples."""
        cursor = self._make_cursor(self._connection)
        cursor.row_factory = None
        return cursor

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Steps[list[Any]]:
        """Executes a statement."""
        rows: list[Any] = yield self._cursor().execute(sql, parameters).fetchall()
        return rows

    # ---------------------------------------------------------------- transactions

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; always, with `autocommit=False`."""
        return bool(self._connection.in_transaction)

    @property
    def _is_always_in_transaction(self) -> bool:
        """Whether the next transaction begins when one ends (`autocommit=False` of Python 3.12)."""
        return getattr(self._connection, "autocommit", None) is False

    def require_no_transaction(self, what: str) -> None:
        """Raises ConflictError inside a transaction of the program."""
        if self._is_always_in_transaction:
            raise ConflictError(
                f"{what} is not possible inside a transaction, and with autocommit=False there is always one: commit "
                "it and set connection.autocommit = True before, or use another connection"
            )
        super().require_no_transaction(what)

    def begin(self) -> Steps[None]:
        """Begins a transaction and takes the lock for writing."""
        yield from self.execute("BEGIN IMMEDIATE")

    def commit(self) -> Steps[None]:
        """Commits."""
        yield from self.execute("COMMIT")

    def rollback(self) -> Steps[None]:
        """Rolls back. SQLite has done that itself after some errors."""
        if self.in_transaction:
            yield from self.execute("ROLLBACK")

    # ---------------------------------------------------------------- a block

    def enter_block(self) -> Steps[None]:
        """Begins the program's transaction; with `autocommit=False` there is one."""
        if not self._is_always_in_transaction:
            yield from super().enter_block()

    def leave_block(self, is_kept: bool) -> Steps[None]:
        """Ends the program's transaction."""
        if not self._is_always_in_transaction:
            yield from super().leave_block(is_kept)
        elif is_kept:
            try:
                yield self._connection.commit()
            except BaseException:
                yield self._connection.rollback()
                raise
        else:
            yield self._connection.rollback()

    @contextmanager
    def outside_transactions(self) -> Iterator[None]:
        """Turns `autocommit` on meanwhile, where it is False."""
        is_off = self._is_always_in_transaction
        if is_off:
            self._connection.autocommit = True
        try:
            yield
        finally:
            if is_off:
                self._connection.autocommit = False

    # ---------------------------------------------------------------- the tables

    def source(self) -> Steps[str]:
        """Checks the tables. Rows are deleted by number, so no number may be used twice."""
        source = yield from super().source()
        if not (yield from self.execute(_IS_NUMBERED)):
            raise CorruptError("the column number of msgq_outbox is not AUTOINCREMENT")
        return source

    def _store_rows(self) -> Steps[list[tuple[object, object]]]:
        rows = yield from self.execute(
            "SELECT CASE typeof(version) WHEN 'integer' THEN version END, "
            "CASE typeof(source) WHEN 'text' THEN CAST(source AS BLOB) END FROM main.msgq_outbox_store LIMIT 2"
        )
        encoding = yield from self._encoding()
        return [(version, _text(source, encoding)) for version, source in rows]

    def _encoding(self) -> Steps[str]:
        """Returns the encoding of the database's texts."""
        # As a number, because a text would pass through the program's text factory.
        rows = yield from self.execute(
            "SELECT CASE encoding WHEN 'UTF-16le' THEN 1 WHEN 'UTF-16be' THEN 2 ELSE 0 END FROM pragma_encoding"
        )
        return ("utf-8", "utf-16-le", "utf-16-be")[rows[0][0]]

    def _found_columns(self, table: str) -> Steps[dict[str, tuple[str, bool]]]:
        rows = yield from self.execute(
            "SELECT CAST(name AS BLOB), CAST(type AS BLOB), pk + 0 FROM pragma_table_info(?, 'main')", (table,)
        )
        encoding = yield from self._encoding()
        return {_text(name, encoding): (_text(kind, encoding), key == 1) for name, kind, key in rows}

    # ---------------------------------------------------------------- putting

    def put_plain(self, row: Plain) -> bool:
        """Inserts a row with the defaults of the other columns."""
        return self._insert(_PUT_PLAIN, row)

    def put_at_once(self, row: New) -> bool:
        """Inserts a row."""
        return self._insert(_PUT, row)

    def _insert(self, sql: str, row: Sequence[object]) -> bool:
        try:
            self._put.execute(sql, row)
        except self.errors as problem:
            if str(problem).startswith(_TABLE_ERRORS):
                return False
            raise
        return bool(self._put.rowcount == 1)

    def put(self, row: New) -> Steps[bool]:
        """Inserts a row."""
        try:
            self._put.execute(_PUT, row)
        except self.errors as problem:
            # A clear error when the tables are the cause.
            if str(problem).startswith(_TABLE_ERRORS):
                yield from self.source()
            raise
        return bool(self._put.rowcount == 1)

    def put_all(self, rows: Sequence[New]) -> Steps[list[str]]:
        """Inserts rows, all or none, also inside a transaction of the program."""
        connection = self._connection
        if not connection.in_transaction:
            is_implicit = getattr(connection, "autocommit", -1) == -1 and connection.isolation_level is not None
            if not is_implicit:
                return (yield from self.transaction(self._put_each(rows)))
            # As the module does before an INSERT.
            yield from self.execute(f"BEGIN {connection.isolation_level}")
        yield from self.execute("SAVEPOINT msgq_outbox")
        try:
            ids = yield from self._put_each(rows)
        except BaseException:
            if self.in_transaction:
                yield from self.execute("ROLLBACK TO msgq_outbox")
                yield from self.execute("RELEASE msgq_outbox")
            raise
        yield from self.execute("RELEASE msgq_outbox")
        return ids

    # ---------------------------------------------------------------- collecting

    def enter(self) -> Steps[None]:
        """Sets the level EXTRA, which is possible outside a transaction only."""
        ((level,),) = yield from self.execute("PRAGMA main.synchronous")
        if level < _EXTRA:
            self._synchronous = level
            yield from self.execute(f"PRAGMA main.synchronous = {_EXTRA}")

    def leave(self) -> Steps[None]:
        """Puts the level back."""
        level, self._synchronous = self._synchronous, None
        if level is not None:
            yield from self.execute(f"PRAGMA main.synchronous = {level}")

    def look(self) -> Steps[tuple[str, bool]]:
        """Returns the source, and whether there are rows."""
        source = yield from self.source()
        rows = yield from self.execute("SELECT 1 FROM main.msgq_outbox WHERE refused IS NULL LIMIT 1")
        return source, bool(rows)

    def page(self, limit: int) -> Steps[list[Stored]]:
        """Reads rows, and ends the statement: an open one would keep the program's log from being reset."""
        encoding = yield from self._encoding()
        cursor = self._cursor().execute(_PAGE, (limit,))
        rows: list[Stored] = []
        size = 0
        for row in cursor:
            rows.append(row)
            size += len(row[3] or b"") + len(row[4] or b"")
            if size >= PAGE_BYTES:
                break
        cursor.close()
        if encoding != "utf-8":
            rows = [_as_utf_8(row, encoding) for row in rows]
        return rows

    def forget(self, ids: Sequence[str]) -> Steps[None]:
        """Deletes rows by id."""
        if ids:
            yield self._cursor().executemany("DELETE FROM main.msgq_outbox WHERE id = ?", [(id,) for id in ids])

    def delete(self, numbers: Sequence[int]) -> Steps[None]:
        """Deletes rows by number."""
        for start in range(0, len(numbers), _BATCH):
            batch = numbers[start : start + _BATCH]
            places = ", ".join("?" * len(batch))
            yield from self.execute(f"DELETE FROM main.msgq_outbox WHERE number IN ({places})", batch)

    def has_any(self, numbers: Sequence[int], ids: Sequence[str]) -> Steps[bool]:
        """Looks for rows."""
        for column, values in (("number", numbers), ("id", ids)):
            for start in range(0, len(values), _BATCH):
                batch = values[start : start + _BATCH]
                condition = f"{column} IN ({', '.join('?' * len(batch))}) AND refused IS NULL LIMIT 1"
                if (yield from self.execute(f"SELECT 1 FROM main.msgq_outbox WHERE {condition}", batch)):
                    return True
        return False

    def refuse(self, number: int, reason: str) -> Steps[None]:
        """Marks a row."""
        yield from self.execute("UPDATE main.msgq_outbox SET refused = ? WHERE number = ?", (reason, number))


def _text(value: bytes | None, encoding: str) -> Any:  # noqa: ANN401 - `WRONG` if it is not valid
    if value is None:
        return None
    try:
        return value.decode(encoding)
    except UnicodeDecodeError:
        return WRONG


def _as_utf_8(row: Stored, encoding: str) -> Stored:
    values = list(row)
    for place in _TEXTS:
        if isinstance(values[place], bytes):
            values[place] = encoded(_text(values[place], encoding))
    return tuple(values)

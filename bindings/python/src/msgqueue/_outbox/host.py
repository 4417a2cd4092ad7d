"""What both databases have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, TypeVar

from ..errors import ConflictError, CorruptError, DuplicateError, NotFoundError, TooNewError
from .rows import COLUMNS, New, Plain, Stored, whole
from .steps import Steps

T = TypeVar("T")

VERSION = 1
#: Rows of one round end at this many bytes of bodies and metadata, but a round has one row at least.
PAGE_BYTES = 16 << 20
#: The first characters of a text are enough to see that it is too long.
TEXT_READ = 1024


class Host(ABC):
    """A connection of the program, which the program opened and closes."""

    #: The statements that make the tables.
    schema: ClassVar[Sequence[str]]
    #: The table with one row, as statements name it.
    store: ClassVar[str] = "msgq_outbox_store"
    #: The columns of the tables, with the type of each.
    columns: ClassVar[dict[str, dict[str, str]]]
    #: The base class of the errors of the driver.
    errors: type[Exception]

    # ---------------------------------------------------------------- the driver

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Steps[list[Any]]:
        """Executes a statement and returns its rows as tuples, whatever factories the connection has."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether the program has a transaction open on the connection."""

    @abstractmethod
    def begin(self) -> Steps[None]:
        """Begins a transaction that can write."""

    @abstractmethod
    def commit(self) -> Steps[None]:
        """Commits it."""

    @abstractmethod
    def rollback(self) -> Steps[None]:
        """Rolls it back, if the database has not done that already."""

    def _begun(self) -> Steps[None]:
        """Begins a transaction that can write, or leaves none when that is interrupted."""
        try:
            yield from self.begin()
        except self.errors:
            # None has begun.
            raise
        except BaseException:
            yield from self.rollback()
            raise

    def transaction(self, work: Steps[T]) -> Steps[T]:
        """Runs steps in a transaction."""
        yield from self._begun()
        try:
            result = yield from work
            yield from self.commit()
        except BaseException:
            yield from self.rollback()
            raise
        return result

    def own_transaction(self, work: Steps[T]) -> Steps[T]:
        """Runs steps in a transaction of a collection."""
        return self.transaction(work)

    def require_no_transaction(self, what: str) -> None:
        """Raises ConflictError inside a transaction of the program."""
        if self.in_transaction:
            raise ConflictError(f"{what} is not possible inside a transaction: commit it before")

    # ---------------------------------------------------------------- a block

    def enter_block(self) -> Steps[None]:
        """Begins the program's transaction."""
        self.require_no_transaction("a block")
        yield from self._begun()

    def leave_block(self, is_kept: bool) -> Steps[None]:
        """Ends the program's transaction, if it did not do that itself."""
        if not self.in_transaction:
            return
        if is_kept:
            try:
                yield from self.commit()
            except BaseException:
                yield from self.rollback()
                raise
        else:
            yield from self.rollback()

    def outside_transactions(self) -> AbstractContextManager[None]:
        """A block in which the connection begins no transaction by itself, directly after a commit."""
        return nullcontext()

    # ---------------------------------------------------------------- the tables

    @property
    def text_of_schema(self) -> str:
        """The statements that make the tables."""
        return ";\n".join(self.schema) + ";\n"

    def create(self) -> Steps[None]:
        """Makes the tables that are missing: in the program's transaction, or in one of its own."""
        yield from self._create() if self.in_transaction else self.transaction(self._create())

    def _create(self) -> Steps[None]:
        for statement in self.schema:
            yield from self.execute(statement)
        yield from self.source()

    def source(self) -> Steps[str]:
        """Checks the tables and returns the name of this database as a source of hand-overs.

        Raises:
            NotFoundError: They are not there.
            CorruptError: They are others, or damaged.
            TooNewError: A later version made them.
        """
        yield from self._check_columns("msgq_outbox_store")
        rows = yield from self._store_rows()
        if len(rows) != 1:
            raise CorruptError(f"the table msgq_outbox_store has {len(rows)} rows, not one")
        version, source = rows[0]
        _check_version(version)
        yield from self._check_columns("msgq_outbox")
        if not isinstance(source, str) or not source:
            raise CorruptError("the source in msgq_outbox_store is not a text")
        return source

    @abstractmethod
    def _store_rows(self) -> Steps[list[tuple[object, object]]]:
        """Returns version and source of the first rows of msgq_outbox_store."""

    @abstractmethod
    def _found_columns(self, table: str) -> Steps[dict[str, tuple[str, bool]]]:
        """Returns the type of each column, and whether it is the primary key. Empty: there is no such table."""

    def _check_columns(self, table: str) -> Steps[None]:
        found = yield from self._found_columns(table)
        if not found:
            raise NotFoundError(f"the table {table} does not exist: call Outbox.create, or run Outbox.schema")
        for name, wanted in self.columns[table].items():
            kind, is_key = found.get(name, (None, False))
            if kind is None:
                raise CorruptError(f"the table {table} has no column {name}: it is not of this library")
            if kind.lower() != wanted.lower():
                raise CorruptError(f"the column {name} of {table} has the type {kind}, not {wanted}")
            if name == "number" and not is_key:
                raise CorruptError(f"the column number of {table} is not the primary key")

    # ---------------------------------------------------------------- putting

    @abstractmethod
    def put(self, row: New) -> Steps[bool]:
        """Inserts a row. Returns False if none was inserted: an id that is there, or another version."""

    def put_plain(self, row: Plain) -> bool:
        """Does the same with a row of which the other columns have their defaults."""
        return self.put_at_once(whole(row))

    def put_at_once(self, row: New) -> bool:
        """Inserts a row without steps, which take time. Returns False if none was inserted: `put_one` says why."""
        return False

    def put_one(self, row: New) -> Steps[str]:
        """Inserts a row and returns its id."""
        if not (yield from self.put(row)):
            yield from self.source()
            raise DuplicateError(f"id {row[0]} is in the outbox already")
        return row[0]

    @abstractmethod
    def put_all(self, rows: Sequence[New]) -> Steps[list[str]]:
        """Inserts rows, all or none."""

    def _put_each(self, rows: Sequence[New]) -> Steps[list[str]]:
        for row in rows:
            yield from self.put_one(row)
        return [row[0] for row in rows]

    # ---------------------------------------------------------------- collecting

    @abstractmethod
    def enter(self) -> Steps[None]:
        """Prepares the connection for commits that survive power loss, and excludes other collectors."""

    @abstractmethod
    def leave(self) -> Steps[None]:
        """Undoes `enter`."""

    @abstractmethod
    def look(self) -> Steps[tuple[str, bool]]:
        """Returns the source, and whether there are rows to collect. Leaves no transaction open."""

    @abstractmethod
    def page(self, limit: int) -> Steps[list[Stored]]:
        """Reads the first rows that are not refused."""

    @abstractmethod
    def forget(self, ids: Sequence[str]) -> Steps[None]:
        """Deletes rows by id, in bounded batches."""

    @abstractmethod
    def delete(self, numbers: Sequence[int]) -> Steps[None]:
        """Deletes rows by number, in bounded batches."""

    @abstractmethod
    def has_any(self, numbers: Sequence[int], ids: Sequence[str]) -> Steps[bool]:
        """Whether the table has one of these rows that is not refused."""

    @abstractmethod
    def refuse(self, number: int, reason: str) -> Steps[None]:
        """Marks a row, which is not read again."""

    def touch(self) -> Steps[None]:
        """Writes something, so that the commit flushes those before it. Writing the same would write nothing."""
        table = self.store
        yield from self.execute(f"UPDATE {table} SET collected = CASE collected WHEN 0 THEN 1 ELSE 0 END")


def _check_version(version: object) -> None:
    if not isinstance(version, int) or version < 1:
        raise CorruptError(f"the version in msgq_outbox_store is {version!r:.40}, not a number")
    if version > VERSION:
        raise TooNewError(f"a later version of the library made the tables of the outbox: {version}, not {VERSION}")


def names(prefix: str = "") -> str:
    """Returns the names of the columns that `put` writes."""
    return ", ".join(prefix + name for name in COLUMNS)

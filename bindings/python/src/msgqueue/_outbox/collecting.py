"""A collection: the rows of an outbox become messages of a queue, each exactly once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

from .. import _abi
from .._handovers import HandOver
from ..enums import Result
from ..errors import ConflictError, FullError
from .host import Host
from .rows import Stored, fill, wrong_id
from .steps import Steps

#: Rows of one round. A round holds the lock of the database once.
_ROUND = 1000
_KEPT = frozenset((Result.OK, Result.DUPLICATE))


class Queue(Protocol):
    """The calls of a queue that a collection needs. Each returns a value, or an awaitable of it."""

    def handed_over(self, source: str) -> Any:  # noqa: ANN401
        """As `MessageQueue.handed_over`."""

    def take_over_array(self, hand_over: HandOver, array: ctypes.Array[_abi.Draft], count: int) -> Any:  # noqa: ANN401
        """As `MessageQueue.take_over`, of the first drafts of an array."""

    def hand_over_done(self, hand_over: HandOver) -> Any:  # noqa: ANN401
        """As `MessageQueue.hand_over_done`."""


class _Changes:
    """What the next transaction writes."""

    def __init__(self) -> None:
        self.known: list[str] = []
        """The ids of rows that the queue has, as its list says."""
        self.numbers: list[int] = []
        """The rows that the last round took over."""
        self.refused: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self.numbers) + len(self.refused)

    def write(self, host: Host) -> Steps[None]:
        """Writes them."""
        for number, reason in self.refused:
            yield from host.refuse(number, reason)
        yield from host.delete(self.numbers)
        yield from host.forget(self.known)
        numbers = self.numbers + [number for number, _ in self.refused]
        if (numbers or self.known) and (yield from host.has_any(numbers, self.known)):
            # It would be collected again.
            raise ConflictError("the outbox: a trigger keeps a row that was collected as it is")


class _Page:
    """Rows that were read: their drafts, and those that are none."""

    def __init__(self, rows: Sequence[Stored]) -> None:
        self.drafts = (_abi.Draft * len(rows))()
        self.numbers: list[int] = []
        self.refused: list[tuple[int, str]] = []
        for row in rows:
            reason = fill(self.drafts[len(self.numbers)], row)
            if reason is None:
                self.numbers.append(row[0])
            else:
                self.refused.append((row[0], reason))


class _Collection:
    def __init__(self, host: Host, queue: Queue, limit: int) -> None:
        self._host = host
        self._queue = queue
        self._limit = limit
        self._handed: HandOver
        self._moved = 0
        self._full: FullError | None = None

    def run(self) -> Steps[int]:
        """Runs it.

        The commit before `take_over` flushes the commits of the rows: it survives power loss, it writes, and the rows
        were read in its transaction, so that it comes after theirs. The one after it deletes them, before the queue
        forgets their ids.
        """
        source, has_rows = yield from self._host.look()
        self._handed = yield self._queue.handed_over(source)
        changes = _Changes()
        changes.known = _kept(self._handed)
        if not changes.known and not has_rows:
            return 0
        while True:
            rows = yield from self._host.own_transaction(self._exchange(changes))
            if changes.known or changes.numbers:
                yield self._queue.hand_over_done(self._handed)
            if not rows:
                break
            changes = yield from self._take_over(_Page(rows))
            self._moved += len(changes)
        if self._full is not None and not self._moved:
            raise self._full
        return self._moved

    def _exchange(self, changes: _Changes) -> Steps[list[Stored]]:
        """Deletes the rows that the queue has, and reads the next ones."""
        yield from self._host.touch()
        yield from changes.write(self._host)
        count = 0 if self._full else min(self._limit - self._moved, _ROUND)
        return (yield from self._host.page(count)) if count else []

    def _take_over(self, page: _Page) -> Steps[_Changes]:
        changes = _Changes()
        changes.refused = page.refused
        results = yield from self._offer(page)
        changes.numbers = [number for number, result in zip(page.numbers, results) if result in _KEPT]
        left = [index for index, result in enumerate(results) if result not in _KEPT]
        if left:
            # The reasons are in the list that is read again. Everything that stands in it as kept is deleted, because
            # `hand_over_done` forgets that, also what another collector has taken over meanwhile.
            self._handed = yield self._queue.handed_over(self._handed.source)
            changes.known = _kept(self._handed)
            changes.refused = changes.refused + self._reasons(page, left, results)
        return changes

    def _offer(self, page: _Page) -> Steps[list[Result]]:
        """Takes over the drafts, or as many of them, from the first on, as a queue that is nearly full takes."""
        count = len(page.numbers)
        while count:
            try:
                results: list[Result] = yield self._queue.take_over_array(self._handed, page.drafts, count)
            except FullError as problem:
                self._full = problem
                count //= 2
            else:
                return results
        return []

    def _reasons(self, page: _Page, left: Sequence[int], results: Sequence[Result]) -> list[tuple[int, str]]:
        known = {draft.id: draft.text for draft in self._handed.drafts if draft.result is not Result.OK}
        found = []
        for index in left:
            id = page.drafts[index].id.decode(errors="replace")
            # An invalid id stands escaped in the list.
            reason = wrong_id(id) or known.get(id, f"the queue cannot keep it: {results[index].name}")
            found.append((page.numbers[index], reason))
        return found


def collect(host: Host, queue: Queue, limit: int) -> Steps[int]:
    """Takes over at most `limit` rows. Returns how many rows there are less to read."""
    host.require_no_transaction("a collection")
    try:
        yield from host.enter()
        return (yield from _Collection(host, queue, limit).run())
    finally:
        yield from host.leave()


def _kept(handed: HandOver) -> list[str]:
    return [draft.id for draft in handed.drafts if draft.result is Result.OK]

"""A collection: the rows of an outbox become messages of a queue, each exactly once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

from .. import _abi
from .._handovers import HandOver
from ..enums import Result
from ..errors import FullError
from .host import Host
from .rows import Stored, fill, wrong_id
from .steps import Steps

_KEPT = frozenset((Result.OK, Result.DUPLICATE))


class Queue(Protocol):
    """The calls of a queue that a collection needs. Each returns a value, or an awaitable of it."""

    def handed_over(self, source: str) -> Any:  # noqa: ANN401
        """As `MessageQueue.handed_over`."""

    def take_over_array(self, hand_over: HandOver, array: ctypes.Array[_abi.Draft], count: int) -> Any:  # noqa: ANN401
        """As `MessageQueue.take_over`, of the first drafts of an array."""

    def hand_over_done(self, hand_over: HandOver) -> Any:  # noqa: ANN401
        """As `MessageQueue.hand_over_done`."""


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


def collect(host: Host, queue: Queue, limit: int) -> Steps[int]:
    """Takes over at most `limit` rows. Returns how many rows there are less to read.

    The commit before `take_over` flushes the commits of the rows: it is durable, it writes, and the rows were read in
    it, so that it comes after theirs. The commit after it deletes them, durably, before the queue forgets their ids.
    """
    host.require_no_transaction("a collection")
    try:
        yield from host.enter()
        source, has_rows = yield from host.look()
        handed: HandOver = yield queue.handed_over(source)
        known = _kept(handed)
        if not known and not has_rows:
            return 0
        page = _Page((yield from host.transaction(_first(host, known, limit))))
        if known:
            yield queue.hand_over_done(handed)
        return (yield from _move(host, queue, handed, page))
    finally:
        yield from host.leave()


def _first(host: Host, known: Sequence[str], limit: int) -> Steps[list[Stored]]:
    """Deletes what the queue has since a collection was interrupted, and reads the next rows."""
    yield from host.touch()
    yield from host.forget(known)
    return (yield from host.page(limit))


def _move(host: Host, queue: Queue, handed: HandOver, page: _Page) -> Steps[int]:
    full: FullError | None = None
    try:
        results = yield from _take_over(queue, handed, page)
    except FullError as problem:
        # What can never be taken over is marked all the same.
        full, results = problem, []
    gone = [number for number, result in zip(page.numbers, results) if result in _KEPT]
    left = [index for index, result in enumerate(results) if result not in _KEPT]
    refused = page.refused
    known: list[str] = []
    if left:
        # The reasons are in the list that is read again. Everything that stands in it as kept is deleted, because
        # `hand_over_done` forgets that, also what another collector has taken over meanwhile.
        handed = yield queue.handed_over(handed.source)
        known = _kept(handed)
        refused = refused + _reasons(handed, page, left, results)
    if gone or refused:
        yield from host.transaction(_second(host, gone, known, refused))
    if gone:
        yield queue.hand_over_done(handed)
    if full is not None and not refused:
        raise full
    return len(gone) + len(refused)


def _take_over(queue: Queue, handed: HandOver, page: _Page) -> Steps[list[Result]]:
    """Takes over the drafts, or as many of them, from the first on, as a queue that is nearly full takes."""
    count = len(page.numbers)
    while count:
        try:
            results: list[Result] = yield queue.take_over_array(handed, page.drafts, count)
        except FullError:
            if count == 1:
                raise
            count //= 2
        else:
            return results
    return []


def _reasons(handed: HandOver, page: _Page, left: Sequence[int], results: Sequence[Result]) -> list[tuple[int, str]]:
    known = {draft.id: draft.text for draft in handed.drafts if draft.result is not Result.OK}
    found = []
    for index in left:
        id = page.drafts[index].id.decode(errors="replace")
        # An invalid id stands escaped in the list.
        reason = wrong_id(id) or known.get(id, f"the queue cannot keep it: {results[index].name}")
        found.append((page.numbers[index], reason))
    return found


def _second(host: Host, gone: Sequence[int], known: Sequence[str], refused: Sequence[tuple[int, str]]) -> Steps[None]:
    for number, reason in refused:
        yield from host.refuse(number, reason)
    yield from host.delete(gone)
    yield from host.forget(known)


def _kept(handed: HandOver) -> list[str]:
    return [draft.id for draft in handed.drafts if draft.result is Result.OK]

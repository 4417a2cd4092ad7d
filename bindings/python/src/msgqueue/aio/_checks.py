"""Checks and salvages stores on a separate thread, so that the loop does not wait for the disk."""

from __future__ import annotations

import os
from collections.abc import Callable

from .. import checking
from ..models import CheckReport
from ._executor import Executor


async def check(path: str | os.PathLike[str]) -> CheckReport:
    """Checks a store, as `msgqueue.check`.

    Cancelled after it began, it runs to its end.

    Args:
        path: The store's file.

    Raises:
        Error: As `msgqueue.check`.
    """
    return await _run(lambda: checking.check(path))


async def salvage(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> CheckReport:
    """Writes every whole message of a store to a new one, as `msgqueue.salvage`.

    Cancelled after it began, it runs to its end: the new store may appear later.

    Args:
        source: The store's file.
        target: The new file.

    Raises:
        Error: As `msgqueue.salvage`.
    """
    return await _run(lambda: checking.salvage(source, target))


async def _run(call: Callable[[], CheckReport]) -> CheckReport:
    executor = Executor("msgqueue check")
    try:
        return await executor.run(call)
    finally:
        executor.stop()

"""Runs generators of steps: each yields what a call returned, and gets its value."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]


def run(steps: Steps[T]) -> T:
    """Runs steps whose calls return their values."""
    try:
        value = next(steps)
        while True:
            value = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(steps: Steps[T]) -> T:
    """Runs steps whose calls return awaitables."""
    try:
        awaitable = next(steps)
        while True:
            try:
                value = await awaitable
            except BaseException as problem:  # noqa: BLE001 - it is raised where the step is
                awaitable = steps.throw(problem)
            else:
                awaitable = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result

"""Results of C are freed exactly once, also when copying them into Python fails."""

from __future__ import annotations

import gc
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import Connectivity, MessageQueue, _convert

# Functions that allocate a result, and those that free it.
FREED_BY = {
    "msgq_get": "msgq_message_free",
    "msgq_attempts": "msgq_attempts_free",
    "msgq_list": "msgq_list_free",
    "msgq_conversations": "msgq_conversations_free",
    "msgq_stats_text": "msgq_text_free",
    "msgq_stats_text_all": "msgq_text_free",
    "msgq_banner": "msgq_text_free",
}

CALLS: list[tuple[str, str, Callable[[MessageQueue], object]]] = [
    ("get", "message", lambda queue: queue.get("the-id")),
    ("attempts", "attempt", lambda queue: queue.attempts("the-id")),
    ("list", "message", lambda queue: queue.list()),
    ("conversations", "conversation", lambda queue: queue.conversations()),
    ("prometheus", "owned_text", lambda queue: queue.prometheus()),
    ("banner", "owned_text", lambda queue: queue.banner()),
]


class Watched:
    """The library with counted calls."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._lib, name)

        def call(*arguments: object) -> object:
            self.calls[name] += 1
            return function(*arguments)

        return call

    def is_even(self) -> bool:
        """Returns whether there were results and all of them were freed."""
        made = Counter(FREED_BY[name] for name in self.calls.elements() if name in FREED_BY)
        freed = Counter(name for name in self.calls.elements() if name in FREED_BY.values())
        return made == freed and bool(made)


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    """Returns a queue with a message that failed once, so that every query has something to copy."""

    def explode(_: object) -> Any:
        raise ValueError("no")

    queue = opened(transport=explode, direct=False)
    queue.enqueue("hello", id="the-id", conversation="ana", metadata={"k": "v"})
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    return queue


@pytest.mark.parametrize(("call"), [call for _, _, call in CALLS], ids=[name for name, _, _ in CALLS])
def test_results_are_freed_after_copying(queue: MessageQueue, call: Callable[[MessageQueue], object]) -> None:
    watched = Watched(queue._handle.lib)
    queue._handle.lib = watched  # type: ignore[assignment]
    assert call(queue)
    assert watched.is_even()


@pytest.mark.parametrize(
    ("reader", "call"), [(reader, call) for _, reader, call in CALLS], ids=[name for name, _, _ in CALLS]
)
def test_results_are_freed_when_copying_fails(
    queue: MessageQueue,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
    call: Callable[[MessageQueue], object],
) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    watched = Watched(queue._handle.lib)
    queue._handle.lib = watched  # type: ignore[assignment]
    monkeypatch.setattr(_convert, reader, fail)
    with pytest.raises(MemoryError):
        call(queue)
    assert watched.is_even()


def resident() -> int:
    """Returns the resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_repeated_queries_leak_no_memory(queue: MessageQueue) -> None:
    def ask(times: int) -> int:
        for _ in range(times):
            for _, _, call in CALLS:
                call(queue)
            queue.explain("the-id")
            queue.stats()
        gc.collect()
        return resident()

    before = ask(300)
    # Without freeing, the texts of Prometheus alone would need more.
    assert ask(2000) - before < 2 << 20

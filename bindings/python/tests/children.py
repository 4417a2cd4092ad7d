"""What child processes of the tests run; importable, as those that are spawned need it."""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401 - a child forked while a thread imports it (getaddrinfo does) hangs in the import lock
import os
import threading
from typing import Any

from msgqueue import Error, MessageQueue, Mode, Outcome, aio
from sender import HttpTransport

MESSAGES = 5

# The queue of the parent, for forked children.
inherited: list[MessageQueue] = []


def send_own(store: str, port: int, said: Any) -> None:
    """Opens a new store and sends from it."""
    with MessageQueue(store, HttpTransport(port), mode=Mode.MANUAL, direct=False) as queue:
        for number in range(MESSAGES):
            queue.enqueue(str(number), conversation=store)
        said.put(queue.drain().sent)


def send_own_by_asyncio(store: str, port: int, said: Any) -> None:
    """Does the same with asyncio, in a new loop."""

    async def main() -> None:
        http = HttpTransport(port)

        async def transport(delivery: Any) -> Outcome:
            return await asyncio.get_running_loop().run_in_executor(None, http, delivery)

        async with aio.MessageQueue(store, transport, mode=Mode.MANUAL, direct=False) as queue:
            for number in range(MESSAGES):
                await queue.enqueue(str(number), conversation=store)
            said.put((await queue.drain()).sent)

    asyncio.run(main())


def use_inherited(_: str, __: int, said: Any) -> None:
    """Uses the queue of the parent; every call is refused."""
    (queue,) = inherited
    answers = []
    for call in (lambda: queue.enqueue("child"), queue.counts, queue.drain, queue.poll, queue.close):
        try:
            answers.append(repr(call()))
        except Error as problem:
            answers.append(problem.name)
    said.put(answers)


def open_files() -> list[str]:
    """Returns the targets of the descriptors of this process, except the one used to list them."""
    folder = "/proc/self/fd"
    found = []
    for name in os.listdir(folder):  # noqa: PTH208 - the names, before they are gone
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"{folder}/{name}"))  # noqa: PTH115
    return sorted(name for name in found if not name.endswith("/fd"))


class Busy:
    """Enqueues in the background, so that forks happen during calls of the library."""

    def __init__(self, queue: MessageQueue) -> None:
        self.ids: list[str] = []
        self._queue = queue
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> list[str]:
        self._ended.set()
        self._thread.join()
        return self.ids

    def _run(self) -> None:
        while not self._ended.wait(0.002):
            self.ids.append(self._queue.enqueue("busy", conversation=str(len(self.ids) % 3)))


if __name__ == "__main__":
    print("\n".join(open_files()))

"""The option `wait`: an opening waits for the owner of the store, and a program can be replaced while it is in use."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from conftest import Opener
from msgqueue import InvalidError, LockedError, MessageQueue, aio
from receiver import Receiver
from sender import HttpTransport
from support import Program, program

RESTARTS = 50
WRITERS = 3
# Seconds.
HOUR = 3600.0
PROMPTLY = 5.0

# Owns the store, enqueues from several threads and sends, until it gets SIGTERM.
GENERATION = """
    import signal, sys, threading, time
    from msgqueue import MessageQueue
    from sender import HttpTransport

    store, port, number, writers = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    replaced = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: replaced.set())
    accepted = [[] for _ in range(writers)]

    def write(writer):
        times = accepted[writer]
        while not replaced.is_set():
            queue.enqueue("hello", id=f"{writer}-{int(number):03}-{len(times):05}", conversation=str(writer))
            times.append(time.monotonic())
            time.sleep(0.005)

    print("waiting", flush=True)
    with MessageQueue(store, HttpTransport(port), max_in_flight=writers, wait=3600) as queue:
        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
        for thread in threads:
            thread.start()
        while not all(accepted):
            time.sleep(0.001)
        print("open", flush=True)
        for thread in threads:
            thread.join()
    times = sorted(time for times in accepted for time in times)
    print(len(times), times[0], times[-1], flush=True)
"""


class Reign(NamedTuple):
    """What a process enqueued while it owned the store: how many, and the times of the first and the last."""

    messages: int
    first: float
    last: float


def replace(owner: Program) -> Reign:
    """Ends a process, which hands the store over to the one that waits."""
    owner.signal(signal.SIGTERM)
    count, first, last = owner.line().split()
    assert owner.wait() == 0
    return Reign(int(count), float(first), float(last))


def test_T9_fifty_rolling_restarts_under_load_lose_and_double_nothing(
    store: Path, receiver: Receiver, http: HttpTransport, opened: Opener
) -> None:
    reigns: list[Reign] = []
    owner: Program | None = None
    with ExitStack() as programs:
        for number in range(RESTARTS + 1):
            # Each process is started, and waits, while the one before it is in use.
            heir = programs.enter_context(program(GENERATION, store, receiver.port, number, WRITERS))
            assert heir.line() == "waiting"
            if owner is not None:
                reigns.append(replace(owner))
            assert heir.line() == "open"
            owner = heir
        assert owner is not None
        reigns.append(replace(owner))
    queue = opened(transport=http, max_in_flight=WRITERS)
    deadline = time.monotonic() + 60
    while (counts := queue.counts()).queued + counts.sending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (counts.queued, counts.sending, counts.failed) == (0, 0, 0)
    received = Counter(receiver.ids)
    assert sum(reign.messages for reign in reigns) == len(received)
    assert set(received.values()) == {1}
    for writer in range(WRITERS):
        of_one = [id for id in receiver.ids if id.startswith(f"{writer}-")]
        assert of_one == sorted(of_one)
    gaps = sorted(after.first - before.last for before, after in zip(reigns, reigns[1:]))
    assert len(gaps) == RESTARTS
    # From the last message that one process accepted to the first of the next. In between it waits for its attempts.
    print(f"{len(received)} messages; gaps: median {median(gaps) * 1000:.0f} ms, longest {gaps[-1] * 1000:.0f} ms")
    assert median(gaps) < 1.0


def test_T9_a_wait_ends_with_locked(store: Path, opened: Opener) -> None:
    opened()
    begun = time.monotonic()
    with pytest.raises(LockedError, match="this process"):
        MessageQueue(store, wait=0.5)
    assert 0.5 <= time.monotonic() - begun < PROMPTLY


@pytest.mark.parametrize("wait", [-0.001, 86400.001, 1e12])
def test_T9_a_wait_out_of_range_is_invalid(opened: Opener, wait: float) -> None:
    with pytest.raises(InvalidError, match="wait must be 0 s to 1 d"):
        opened(wait=wait)


WAITING = """
    import sys
    from msgqueue import MessageQueue

    print("waiting", flush=True)
    try:
        MessageQueue(sys.argv[1], wait=3600)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_T9_ctrl_c_ends_a_wait(store: Path, opened: Opener) -> None:
    opened().enqueue("hello")
    with program(WAITING, store) as waiting:
        assert waiting.line() == "waiting"
        time.sleep(0.3)
        begun = time.monotonic()
        waiting.signal(signal.SIGINT)
        assert waiting.line() == "interrupted"
        assert time.monotonic() - begun < PROMPTLY
        assert waiting.wait() == 0


def test_T9_a_cancelled_opening_of_a_loop_waits_no_longer(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(aio.MessageQueue(store, wait=HOUR).open(), 0.3)
            # The thread that waited gives up before its next try.
            await asyncio.sleep(0.5)
        queue = aio.MessageQueue(store)
        await queue.open()
        await queue.close()

    asyncio.run(main())


def test_T9_an_opening_of_a_loop_waits_and_does_not_block_it(store: Path) -> None:
    async def main() -> None:
        first = await aio.MessageQueue(store).open()
        await first.enqueue("hello", id="a")
        waiting = asyncio.ensure_future(aio.MessageQueue(store, wait=HOUR).open())
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await first.close()
        second = await waiting
        assert (await second.get("a")).body == b"hello"
        await second.close()

    asyncio.run(main())

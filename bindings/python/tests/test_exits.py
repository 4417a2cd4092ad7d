"""Programs that end during callbacks and calls: the interpreter exits cleanly, and no message is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgqueue import MessageQueue, Mode, Status
from support import environment

EXITS = 1000 if os.environ.get("MSGQ_SOAK") else 80
# Processes at a time: as many as small machines have processors.
BESIDE = 2
MESSAGES = 6

START = """
    import contextlib, sys, time
    from msgqueue import ClosedError, MessageQueue, Outcome, RetryPolicy

    folder, moment = sys.argv[1], float(sys.argv[2])
    options = {"max_in_flight": 3, "retry": RetryPolicy(ladder=[0.001, 0.001, 0.001])}
    drafts = [{"body": "hello", "conversation": str(n % 4), "id": str(n)} for n in range(6)]

    def busily(seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pass
"""

# What each program is doing when the main thread ends; none closes its queue.
WAYS = {
    "a transport sleeps": """
        def send(delivery):
            time.sleep(30)
        queue = MessageQueue(folder, send, **options)
        queue.enqueue_batch(drafts)
        time.sleep(moment)
    """,
    "transports come back at any moment": """
        def send(delivery):
            time.sleep(moment * (1 + delivery.attempt))
            return Outcome.sent()
        queue = MessageQueue(folder, send, on_event=lambda event: event.kind, **options)
        queue.enqueue_batch(drafts)
        time.sleep(moment)
    """,
    "transports compute": """
        def send(delivery):
            busily(0.05)
            return Outcome.retry()
        queue = MessageQueue(folder, send, **options)
        queue.enqueue_batch(drafts)
        time.sleep(moment)
    """,
    "an event handler runs": """
        def hear(event):
            busily(0.02) if moment > 0.01 else time.sleep(0.02)
        queue = MessageQueue(folder, lambda _: Outcome.sent(), on_event=hear, **options)
        queue.enqueue_batch(drafts)
        time.sleep(moment)
    """,
    "a thread polls": """
        import threading
        def serve():
            with contextlib.suppress(ClosedError):
                while True:
                    queue.poll()
        queue = MessageQueue(folder, lambda _: Outcome.sent(), on_event=lambda _: None, polled=True, **options)
        threading.Thread(target=serve, daemon=True).start()
        queue.enqueue_batch(drafts)
        time.sleep(moment)
    """,
    "an exception ends the program": """
        def send(delivery):
            time.sleep(moment)
            return Outcome.sent()
        queue = MessageQueue(folder, send, **options)
        queue.enqueue_batch(drafts)
        time.sleep(moment)
        sys.exit(0)
    """,
    "tasks are pending": """
        import asyncio
        from msgqueue import aio
        async def send(delivery):
            await asyncio.sleep(30)
        async def main():
            global queue
            queue = await aio.MessageQueue(folder, send, on_event=lambda _: None, **options).open()
            await queue.enqueue_batch(drafts)
            await asyncio.sleep(moment)
        asyncio.run(main())
    """,
    "calls are under way": """
        import asyncio
        from msgqueue import aio
        async def send(delivery):
            await asyncio.sleep(moment)
            return Outcome.sent()
        async def main():
            queue = await aio.MessageQueue(folder, send, on_event=lambda _: None, **options).open()
            await queue.enqueue_batch(drafts)
            asyncio.ensure_future(queue.drain())
            asyncio.ensure_future(queue.enqueue("one more"))
            await asyncio.sleep(moment)
        asyncio.run(main())
    """,
    "a loop runs on a daemon thread": """
        import asyncio, threading
        from msgqueue import aio
        async def send(delivery):
            await asyncio.sleep(0.001)
            return Outcome.sent()
        stored = threading.Event()
        async def main():
            global queue
            queue = await aio.MessageQueue(folder, send, on_event=lambda _: None, **options).open()
            await queue.enqueue_batch(drafts)
            stored.set()
            await asyncio.sleep(30)
        threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
        stored.wait(20)
        time.sleep(moment)
    """,
    "another thread closes": """
        import threading
        def send(delivery):
            time.sleep(0.02)
            return Outcome.sent()
        queue = MessageQueue(folder, send, on_event=lambda _: None, **options)
        queue.enqueue_batch(drafts)
        threading.Thread(target=queue.close, daemon=True).start()
        time.sleep(moment)
    """,
}


def end(way: str, store: Path, moment: float) -> str:
    """Returns what is wrong with the end of a program; "" when nothing is."""
    code = textwrap.dedent(START) + textwrap.dedent(WAYS[way])
    command = [sys.executable, "-c", code, str(store), str(moment)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    said = f"{way} at {moment}: {ended.returncode}\n{ended.stderr}"
    if ended.returncode != 0 or "Fatal Python error" in ended.stderr:
        return said
    with MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
        there = {message.id for message in queue.list(status=Status, limit=1000)}
    missing = [str(number) for number in range(MESSAGES) if str(number) not in there]
    return f"{said}\n{missing} are missing" if missing else ""


def test_Q12_R9_interpreters_exit_cleanly_during_callbacks_and_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(20)
    moments = [round(chance.choice([0, 0.001, 0.01, 0.04]) * chance.random(), 5) for _ in range(EXITS)]
    ways = list(WAYS)
    with ThreadPoolExecutor(BESIDE) as pool:
        problems = pool.map(
            lambda number: end(ways[number % len(ways)], tmp_path / f"{number}.db", moments[number]), range(EXITS)
        )
        assert [problem for problem in problems if problem] == []


# The first handler that is registered is the last that runs: the library's own have run before it.
LAST = """
    import atexit, sys, threading

    def open_elsewhere():
        try:
            MessageQueue(sys.argv[1], lambda _: Outcome.sent())
        except RuntimeError as problem:
            print(problem)

    def last():
        other = threading.Thread(target=open_elsewhere)
        other.start()
        other.join()
        if sys.version_info < (3, 12):  # Later versions start no thread at the end.
            with MessageQueue(sys.argv[2], lambda _: Outcome.sent()) as queue:
                print(queue.wait(queue.enqueue("hello")).status.name)

    atexit.register(last)
    from msgqueue import MessageQueue, Outcome
"""


def test_Q12_at_the_end_only_the_main_thread_starts_threads_of_the_library(tmp_path: Path) -> None:
    """A thread that is created and has not begun when the interpreter ends crashes it: CPython before 3.11.4."""
    command = [sys.executable, "-c", textwrap.dedent(LAST), str(tmp_path / "1.db"), str(tmp_path / "2.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert ended.returncode == 0, ended.stderr
    refused, *others = ended.stdout.splitlines()
    assert refused == "can't start a thread: the interpreter is ending"
    assert others == (["SENT"] if sys.version_info < (3, 12) else [])

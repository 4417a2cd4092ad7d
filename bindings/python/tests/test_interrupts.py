"""Ctrl-C on the main thread ends a drain and a close at once, and nothing is lost."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from msgqueue import MessageQueue, Mode, Status
from support import Program, program

# Seconds. Half a second is promised; a loaded machine may be slow to run the process.
PROMPTLY = 5.0

DRAINING = """
    import sys, threading, time
    from msgqueue import ConflictError, MessageQueue, Mode, Outcome, Status

    store, polled, how = sys.argv[1], sys.argv[2] == "polled", sys.argv[3]
    release = threading.Event()
    tokens, calls = [], []

    def send(delivery):
        tokens.append(delivery.token)
        calls.append(delivery.id)
        if len(calls) == 1:
            print("sending", flush=True)
        if how == "pending":
            return Outcome.pending()
        release.wait(60)
        return Outcome.sent()

    options = dict(mode=Mode.MANUAL, direct=False, max_in_flight=2, attempt_timeout=60)
    queue = MessageQueue(store, send, polled=polled, **options)
    ids = [queue.enqueue(str(number), conversation=str(number % 3)) for number in range(9)]
    try:
        queue.drain()
        print("drained", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""

# The queue is used after Ctrl-C: everything is sent once.
GOING_ON = """
    release.set()
    queue.enqueue("more", conversation="more")
    while queue.counts().sent < 10:
        if how == "pending":
            for token in list(tokens):
                tokens.remove(token)
                try:
                    queue.complete(token, Outcome.sent())
                except ConflictError:
                    pass  # Ctrl-C arrived during the transport
        if polled:
            queue.poll(0.05)
        else:
            time.sleep(0.01)
        if not queue.state().draining:
            # What the drain left: an interrupted attempt, and the last message when it ended before.
            queue.retry_all()
            queue.drain(timeout=0.05)
    print(queue.counts().sent, [queue.get(id).status.name for id in ids].count("SENT"), flush=True)
    queue.close()
    print("closed", flush=True)
"""

CLOSING = """
    release.set()
    queue.close(timeout=30)
    print("closed", flush=True)
"""


def interrupt(child: Program) -> float:
    """Returns the seconds until the program reports the interrupt."""
    assert child.line() == "sending"
    # The main thread waits in the library now, or soon will.
    start = time.monotonic()
    child.signal(signal.SIGINT)
    assert child.line() == "interrupted"
    return time.monotonic() - start


@pytest.mark.parametrize("how", ["blocking", "pending"])
@pytest.mark.parametrize("kind", ["threads", "polled"])
def test_Q7_ctrl_c_ends_a_drain_and_the_queue_stays_usable(store: Path, kind: str, how: str) -> None:
    with program(DRAINING + GOING_ON, store, kind, how) as child:
        assert interrupt(child) < PROMPTLY
        assert child.line() == "10 9"
        assert child.line() == "closed"
        assert child.wait() == 0


@pytest.mark.parametrize("kind", ["threads", "polled"])
def test_Q7_after_ctrl_c_in_a_drain_nothing_is_lost_by_a_close(store: Path, kind: str) -> None:
    with program(DRAINING + CLOSING, store, kind, "blocking") as child:
        assert interrupt(child) < PROMPTLY
        assert child.line() == "closed"
        assert child.wait() == 0
    with MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
        messages = queue.list(status=Status)
        assert len(messages) == 9
        assert {message.status for message in messages} <= {Status.QUEUED, Status.FAILED, Status.SENT}
        assert len([message for message in messages if message.status is Status.FAILED]) <= 2


def test_ctrl_c_ends_a_waiting_close(store: Path) -> None:
    code = """
        import sys, threading
        from msgqueue import MessageQueue, Outcome

        release = threading.Event()

        def send(delivery):
            release.wait(60)
            return Outcome.sent()

        queue = MessageQueue(sys.argv[1], send, attempt_timeout=60)
        id = queue.enqueue("hello")
        while queue.counts().sending == 0:
            pass
        try:
            print("sending", flush=True)
            queue.close(None)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        release.set()
        queue.close(30)
        print("closed" if queue.closed else "open", flush=True)
    """
    with program(code, store) as child:
        assert interrupt(child) < PROMPTLY
        assert child.line() == "closed"
        assert child.wait() == 0
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        assert [message.status for message in queue.list(status=Status)] == [Status.SENT]


def test_a_block_ended_by_ctrl_c_closes_the_queue(store: Path) -> None:
    code = """
        import sys, threading
        from msgqueue import MessageQueue, Mode, Outcome

        def send(delivery):
            print("sending", flush=True)
            return Outcome.pending()

        try:
            with MessageQueue(sys.argv[1], send, mode=Mode.MANUAL, direct=False, attempt_timeout=1) as queue:
                queue.enqueue("hello")
                queue.drain()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(queue.closed, flush=True)
    """
    with program(code, store) as child:
        interrupt(child)
        assert child.line() == "True"
        assert child.wait() == 0

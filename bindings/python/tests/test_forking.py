"""Forked and spawned processes, also inside a callback, and what they inherit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import Status
from receiver import Receiver
from support import run

# Later versions of Python warn when a process with threads forks, as these tests do.
QUIET = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}

BESIDE = """
    import json, multiprocessing, sys, time
    import children
    from msgqueue import MessageQueue, Mode
    from sender import HttpTransport

    def main():
        folder, port, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
        context = multiprocessing.get_context(method)
        queue = MessageQueue(folder + "/outbox.db", HttpTransport(port), max_in_flight=2)
        busy = children.Busy(queue)
        said = context.SimpleQueue()
        sent, codes = [], []
        for number, target in enumerate([children.send_own, children.send_own_by_asyncio] * 3):
            child = context.Process(target=target, args=(f"{folder}/child{number}.db", port, said))
            child.start()
            # The parent opens another queue at the same time.
            with MessageQueue(f"{folder}/own{number}.db", HttpTransport(port), mode=Mode.MANUAL, direct=False) as own:
                own.enqueue("own", conversation="own")
                own.drain()
            child.join(30)
            codes.append(child.exitcode)
            sent.append(said.get())
        ids = busy.stop()
        deadline = time.monotonic() + 30
        while queue.counts().sent < len(ids) and time.monotonic() < deadline:
            time.sleep(0.01)
        queue.close()
        print(json.dumps({"codes": codes, "sent": sent, "ids": ids}))

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_send_from_their_own_stores_and_do_not_affect_the_parent_s_queue(
    opened: Opener, tmp_path: Path, receiver: Receiver, method: str
) -> None:
    ended = run(BESIDE, tmp_path, receiver.port, method, **QUIET)
    assert (ended.returncode, ended.stderr) == (0, "")
    report = json.loads(ended.stdout)
    assert report["codes"] == [0] * 6
    assert report["sent"] == [5] * 6
    assert len(report["ids"]) > 5
    received = receiver.ids
    assert len(received) == len(set(received)) == len(report["ids"]) + 6 * 5 + 6
    for number in range(6):
        conversation = str(tmp_path / f"child{number}.db")
        texts = [request.text for request in receiver.received if request.conversation == conversation]
        assert texts == ["0", "1", "2", "3", "4"]
    queue = opened()
    assert all(queue.get(id).status is Status.SENT for id in report["ids"])


INHERITED = """
    import json, multiprocessing, sys
    import children
    from msgqueue import Connectivity, MessageQueue, Outcome

    context = multiprocessing.get_context("fork")
    polled = sys.argv[2] == "polled"
    queue = MessageQueue(sys.argv[1], lambda _: Outcome.sent(), on_event=lambda _: None, polled=polled)
    queue.set_connectivity(Connectivity.OFFLINE)
    children.inherited.append(queue)
    busy = children.Busy(queue)
    answers, codes = [], []
    for _ in range(5):
        said = context.SimpleQueue()
        child = context.Process(target=children.use_inherited, args=("", 0, said))
        child.start()
        child.join(20)
        codes.append(child.exitcode)
        answers.append(said.get())
    ids = busy.stop()
    there = [each.id for each in queue.list(limit=1000)]
    print(json.dumps({"codes": codes, "answers": answers, "ids": ids, "there": there}))
    queue.close()
"""


@pytest.mark.parametrize("kind", ["polled", "threads"])
def test_a_child_that_uses_its_parent_s_queue_is_refused(store: Path, kind: str) -> None:
    ended = run(INHERITED, store, kind, **QUIET)
    assert (ended.returncode, ended.stderr) == (0, "")
    report = json.loads(ended.stdout)
    assert report["codes"] == [0] * 5
    poll = "MSGQ_FORKED" if kind == "polled" else "MSGQ_CONFLICT"
    assert report["answers"] == [["MSGQ_FORKED", "MSGQ_FORKED", "MSGQ_FORKED", poll, "MSGQ_FORKED"]] * 5
    assert report["ids"] == report["there"]


IN_CALLBACK = """
    import json, os, sys, time
    from msgqueue import ForkedError, MessageQueue, Outcome

    parent, codes = os.getpid(), []

    def transport(delivery):
        child = os.fork()
        if child == 0:
            # The call returns in the child, too, into a queue of the parent.
            return Outcome.reject(text="the child said so")
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return Outcome.sent()

    polled = sys.argv[2] == "polled"
    queue = MessageQueue(sys.argv[1], transport, polled=polled, on_event=lambda _: None)
    for number in range(5):
        queue.enqueue(str(number), id=str(number))
    deadline = time.monotonic() + 30
    while queue.counts().sent < 5 and time.monotonic() < deadline:
        try:
            queue.poll(0.05) if polled else time.sleep(0.01)
        except ForkedError:
            # In poll the child gets ForkedError, and continues.
            assert os.getpid() != parent
            os._exit(9)
    assert os.getpid() == parent
    print(json.dumps({"codes": codes, "attempts": [len(queue.attempts(str(number))) for number in range(5)]}))
    queue.close()
"""


@pytest.mark.parametrize("kind", ["polled", "threads"])
def test_a_child_forked_inside_a_transport_may_return_from_it(store: Path, opened: Opener, kind: str) -> None:
    ended = run(IN_CALLBACK, store, kind, **QUIET)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    report = json.loads(ended.stdout)
    # A poll thread that returns into a queue of another process ends. It is the only thread of the child.
    assert report["codes"] == [9 if kind == "polled" else 0] * 5
    assert report["attempts"] == [1] * 5
    queue = opened()
    assert all(queue.get(str(number)).status is Status.SENT for number in range(5))
    assert all(queue.attempts(str(number))[0].text == "" for number in range(5))


DESCRIPTORS = """
    import asyncio, json, subprocess, sys
    import children
    from msgqueue import MessageQueue, Outcome, aio

    def inherited():
        command = [sys.executable, children.__file__]
        listing = subprocess.run(command, close_fds=False, capture_output=True, text=True, check=True).stdout
        # The pipes are those of this subprocess.
        return [line for line in listing.splitlines() if not line.startswith("pipe:")]

    async def main(folder):
        before = inherited()
        callables = {"transport": lambda _: Outcome.sent(), "on_event": lambda _: None}
        threads = MessageQueue(folder + "/threads.db", **callables)
        polled = MessageQueue(folder + "/polled.db", polled=True, **callables)
        queue = await aio.MessageQueue(folder + "/aio.db", **callables).open()
        threads.start_monitor()
        polled.start_monitor()
        await queue.start_monitor()
        await queue.enqueue("hello")
        print(json.dumps({"before": before, "after": inherited(), "own": children.open_files()}))
        threads.close()
        polled.close()
        await queue.close()

    asyncio.run(main(sys.argv[1]))
"""


def test_no_descriptor_is_inherited_by_a_started_program(tmp_path: Path) -> None:
    ended = run(DESCRIPTORS, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    report = json.loads(ended.stdout)
    assert sum(name.endswith(".db") for name in report["own"]) >= 3
    assert report["after"] == report["before"]


IMPORTING = """
    import os, sys, threading, time
    import msgqueue

    assert "dataclasses" not in sys.modules
    begun = threading.Event()

    class Slow:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "dataclasses":
                begun.set()
                time.sleep(1)

    sys.meta_path.insert(0, Slow)
    # As a thread of a queue does for its first event.
    thread = threading.Thread(target=lambda: msgqueue.Draft(b"parent"))
    thread.start()
    begun.wait()
    child = os.fork()
    made = msgqueue.Draft(b"both")
    if child == 0:
        os._exit(0)
    thread.join()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_that_is_forked_while_a_thread_makes_the_first_value_makes_its_own() -> None:
    ended = run(IMPORTING, **QUIET)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "0\n")

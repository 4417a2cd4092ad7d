"""Programs that live a moment: what `import msgqueue` and the first message cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Modules of the standard library that took two thirds of the time of the import.
EXPENSIVE = ("dataclasses", "inspect", "tempfile", "pathlib", "urllib.parse", "asyncio", "json")

PROGRAM = """
import sys

before = set(sys.modules)
from msgqueue import MessageQueue

with MessageQueue(sys.argv[1]) as queue:
    queue.enqueue("hello", conversation="ana")
print(*(name for name in sys.argv[2:] if name in sys.modules and name not in before))
"""


def run(program: str, *arguments: str) -> str:
    # Without `site`, which may import these modules.
    paths = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}\n"
    command = [sys.executable, "-S", "-c", paths + program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_F12_a_program_that_enqueues_imports_no_expensive_module(tmp_path: Path) -> None:
    assert run(PROGRAM, str(tmp_path / "outbox.db"), *EXPENSIVE) == ""


def test_F12_values_are_data_classes_before_their_first_use() -> None:
    program = """
import dataclasses, inspect, msgqueue

assert dataclasses.is_dataclass(msgqueue.Report)
assert [entry.name for entry in dataclasses.fields(msgqueue.Prompt)][:2] == ["messages", "bytes"]
assert list(inspect.signature(msgqueue.RecordedDraft).parameters)[:2] == ["body", "sender"]
draft = msgqueue.Draft("hello", id="a")
assert dataclasses.replace(draft, id="b") == msgqueue.Draft("hello", id="b") != draft
assert hash(draft) == hash(msgqueue.Draft("hello", id="a"))
assert repr(draft).startswith("Draft(body='hello', conversation='', metadata=None, id='a'")
try:
    draft.id = "c"
except dataclasses.FrozenInstanceError:
    print("frozen")
"""
    assert run(program) == "frozen"


def test_F12_values_are_made_by_many_threads_at_once() -> None:
    program = """
import threading, msgqueue

start, failures = threading.Barrier(8), []
def make():
    start.wait()
    try:
        assert [msgqueue.Draft("hello").body, msgqueue.BatchOptions().max_messages] == ["hello", 100]
    except BaseException as problem:
        failures.append(problem)
threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failures)
"""
    for _ in range(5):
        assert run(program) == "[]"


def test_F12_a_value_can_be_unpickled_in_a_new_process() -> None:
    made = run('import msgqueue, pickle; print(pickle.dumps(msgqueue.Draft("hello")).hex())')
    program = (
        'import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])) == __import__("msgqueue").Draft("hello"))'
    )
    assert run(program, made) == "True"
    program = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])))"
    assert run(program, made).startswith("Draft(body='hello'")


def test_F12_an_interrupted_first_use_leaves_no_broken_class() -> None:
    program = """
import dataclasses, sys
from msgqueue._values import Value, dataclass, field

def run(places, action):
    '''Makes a class, and at this place of its making does the action. Returns whether the place was reached.'''
    @dataclass(frozen=True)
    class Example(Value):
        '''Documented, as all values are.'''
        number: int
        text: str = "x"
        items: list = field(default_factory=list)

    left = places
    def each(frame, event, argument):
        nonlocal left
        if event == "line" and frame.f_code.co_filename.endswith(("_values.py", "dataclasses.py")):
            left -= 1
            if left == 0:
                sys.settrace(None)
                action(Example)
        return each

    sys.settrace(each)
    try:
        Example(1)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    for _ in range(2):
        assert Example(1) == Example(number=1) != Example(1, "y")
        assert repr(Example(2)).endswith("Example(number=2, text='x', items=[])"), repr(Example(2))
        assert hash(dataclasses.replace(Example(1), items=())) == hash(Example(1, items=()))
        assert dataclasses.asdict(Example(1)) == {"number": 1, "text": "x", "items": []}
        try:
            Example(1).number = 2
        except dataclasses.FrozenInstanceError:
            pass
        else:
            raise AssertionError("not frozen")
    return left <= 0

def interrupt(kind):
    raise KeyboardInterrupt

def handle(kind):
    assert kind(1) == kind(1)

for action in (interrupt, handle):
    places = 1
    while run(places, action):
        places += 1
    print(places > 300)
"""
    assert run(program) == "True\nTrue"

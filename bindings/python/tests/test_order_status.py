"""T8: the orders of a host's database learn "sent" exactly once, with a kill at every step."""

from __future__ import annotations

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from msgqueue import Change, DuplicateError, MessageQueue, Mode, Outcome

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCES = Path(__file__).parents[1] / "src"
ORDERS = 2

# Sends the orders and marks them, and is killed before its n-th step: each statement of the host's database, each
# commit, each call of the queue. An effect is a row without a key, so that one that happened twice shows. The database
# is a file, or the address of a server of PostgreSQL.
PROGRAM = """
import os, signal, sqlite3, sys
sys.path[:0] = sys.argv[1:3]
import order_status
from msgqueue import ChangeKind, MessageQueue, Mode, Outcome, Status

store, database, last = sys.argv[3], sys.argv[4], int(sys.argv[5])
steps = 0

def step():
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)

class Stepping:
    def __init__(self, target, names):
        self._target, self._names = target, names
    def __getattr__(self, name):
        value = getattr(self._target, name)
        if name == "cursor":
            return lambda: Stepping(value(), ("execute",))
        if name not in self._names:
            return value
        def call(*arguments, **named):
            step()
            result = value(*arguments, **named)
            step()
            return result
        return call

class Orders(order_status.OrderStatus):
    def _mark(self, change):
        super()._mark(change)
        if change.kind is ChangeKind.STATUS and change.status is Status.SENT:
            self._execute(f"INSERT INTO effects(id) VALUES({self._parameter})", change.id)

if database.startswith("host="):
    import psycopg
    target, parameter = psycopg.connect(database), "%s"
else:
    target, parameter = sqlite3.connect(database), "?"
connection = Stepping(target, ("commit", "rollback", "execute"))
orders = Orders(connection, parameter)
# As small as a page can be, so that there are many commits.
apply = orders.apply
orders.apply = lambda queue: apply(queue, 2)
queue = MessageQueue(store, lambda delivery: Outcome.sent(), direct=False, mode=Mode.MANUAL, keep_changes=1000)
order_status.send_orders(Stepping(queue, ("enqueue", "drain", "changes")), connection, orders)
queue.close()
"""


def run(store: Path, database: Path | str, last: int) -> bool:
    """Returns whether the program was killed at this step."""
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        [*words, str(SOURCES), str(EXAMPLES), str(store), str(database), str(last)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        env=os.environ,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def example() -> Any:
    """Imports the example."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module("order_status")
    finally:
        sys.path.remove(str(EXAMPLES))


def fill(connection: Any, parameter: str) -> None:
    """Makes the tables of the host, with new orders."""
    example().OrderStatus(connection, parameter).create()
    connection.execute("CREATE TABLE effects(id TEXT)")
    for number in range(ORDERS):
        insert = f"INSERT INTO orders(id, body, state) VALUES({parameter}, 'hello', 'new')"
        connection.execute(insert, (f"order-{number}",))
    connection.commit()


def prepare(database: Path) -> None:
    """Makes the host's database in SQLite."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode = WAL")
    fill(connection, "?")
    connection.close()


def check(connection: Any, step: int) -> None:
    """Checks that each effect has happened once."""
    effects = connection.execute("SELECT id FROM effects ORDER BY id").fetchall()
    states = connection.execute("SELECT DISTINCT state FROM orders").fetchall()
    assert effects == [(f"order-{number}",) for number in range(ORDERS)], f"killed at step {step}"
    assert states == [("sent",)], f"killed at step {step}"


def kill_at_every_step(folder: Path, prepared: Callable[[Path], Path | str], connect: Callable[[Any], Any]) -> int:
    """Kills the program at each step, some of them also in the run after it. Returns the number of steps."""
    step = 0
    is_killed = True
    while is_killed:
        step += 1
        place = folder / str(step)
        place.mkdir()
        store, database = place / "outbox.db", prepared(place)
        is_killed = run(store, database, step)
        if is_killed and step % 3 == 0:
            # A second kill, somewhere in what the first one left.
            run(store, database, 1 + step // 2)
        assert not run(store, database, 0)
        connection = connect(database)
        check(connection, step)
        connection.close()
    return step


def test_T8_an_order_is_marked_as_sent_once_whatever_step_is_killed(tmp_path: Path) -> None:
    def prepared(folder: Path) -> Path:
        prepare(folder / "orders.db")
        return folder / "orders.db"

    assert kill_at_every_step(tmp_path, prepared, sqlite3.connect) > 30


@pytest.mark.parametrize("step", [12, 32])
def test_T8_a_follower_that_missed_changes_lists_again(tmp_path: Path, step: int) -> None:
    store, database = tmp_path / "outbox.db", tmp_path / "orders.db"
    prepare(database)
    assert run(store, database, step)
    # A kill comes before the first token is stored, or after.
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT token IS NULL FROM order_feed").fetchall() == [(step == 12,)]
    connection.close()
    # The queue was used without keep_changes, so the token is of another history.
    with MessageQueue(store, lambda _: Outcome.sent(), mode=Mode.MANUAL, direct=False) as queue:
        for number in range(ORDERS):
            with suppress(DuplicateError):
                queue.enqueue("hello", conversation="orders", id=f"order-{number}")
        queue.drain()
    assert not run(store, database, 0)
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT DISTINCT state FROM orders").fetchall() == [("sent",)]
    connection.close()


def test_T8_a_second_follower_applies_nothing_twice(tmp_path: Path) -> None:
    store, database = tmp_path / "outbox.db", tmp_path / "orders.db"
    prepare(database)
    first, second = (sqlite3.connect(database) for _ in range(2))
    marked: list[str] = []

    class Counting(example().OrderStatus):  # type: ignore[misc]
        def _mark(self, change: Change) -> None:
            marked.append(change.token)
            super()._mark(change)

    with MessageQueue(store, lambda _: Outcome.sent(), mode=Mode.MANUAL, direct=False, keep_changes=1000) as queue:
        one, two = Counting(first), Counting(second)
        assert one.apply(queue) == 1  # It stores the first token.
        queue.enqueue("hello", conversation="orders", id="order-0")
        queue.drain()
        token = two._token()
        page = queue.changes(token)
        assert one.apply(queue) == 3
        two._commit(token, page.next, page.changes)
        assert two.apply(queue) == 0
    assert len(marked) == len(set(marked)) == 3
    first.close()
    second.close()


@pytest.mark.parametrize("words", [("outbox.db", "orders.db")])
def test_T8_the_example_runs(tmp_path: Path, words: tuple[str, str]) -> None:
    prepare(tmp_path / words[1])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "order_status.py"), *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert done.stdout.splitlines() == [f"order-{number} sent" for number in range(ORDERS)]

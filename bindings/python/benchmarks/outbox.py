"""Measures the outbox in SQLite beside bare insertions of the same rows, in interleaved rounds.

python benchmarks/outbox.py [--seconds S] [--messages N]
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "src")]

from msgqueue import MessageQueue, Mode, Outbox  # noqa: E402
from msgqueue._outbox.rows import new_id  # noqa: E402

BODY = b"x" * 200
ROUNDS = 10


def put_rates(folder: Path, level: str, messages: int, seconds: float) -> tuple[float, float]:
    """Returns the messages per second of bare insertions, and of puts, in transactions of so many messages."""
    connection = sqlite3.connect(folder / f"{level}-{messages}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {level}")
    outbox = Outbox(connection)
    outbox.create()
    insert = "INSERT INTO msgq_outbox(id, conversation, body, time_ms) VALUES(?, ?, ?, ?)"

    def bare() -> None:
        now = time.time_ns() // 1_000_000
        # Random ids would make the insertions of the index slower.
        connection.execute(insert, (new_id(now), "ana", BODY, now))

    def rate(work: Callable[[], object]) -> float:
        count, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + seconds / ROUNDS:
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(messages):
                work()
            connection.execute("COMMIT")
            count += messages
        return count / (time.perf_counter() - begin)

    bares, puts = [], []
    for _ in range(ROUNDS):
        bares.append(rate(bare))
        puts.append(rate(lambda: outbox.put(BODY, conversation="ana")))
    connection.close()
    return statistics.median(bares), statistics.median(puts)


def collect_rate(folder: Path, messages: int) -> float:
    """Returns how many messages a collection moves in a second."""
    connection = sqlite3.connect(folder / "collect.db")
    connection.execute("PRAGMA journal_mode = WAL")
    with MessageQueue(folder / "queue.db", mode=Mode.MANUAL, direct=False) as queue:
        outbox = Outbox(connection, queue)
        outbox.create()
        outbox.put_batch({"body": BODY, "conversation": str(number % 100)} for number in range(messages))
        connection.commit()
        begin = time.perf_counter()
        moved = outbox.collect(limit=messages)
        seconds = time.perf_counter() - begin
    connection.close()
    return moved / seconds


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure")
    parser.add_argument("--messages", type=int, default=50_000, help="that are collected")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for level in ("FULL", "NORMAL"):
            for messages in (1, 100):
                bare, put = put_rates(Path(folder), level, messages, options.seconds)
                what = f"put, synchronous {level}, {messages} in a transaction"
                print(f"{what:45} {put:8.0f}/s, bare {bare:8.0f}/s, ratio {put / bare:.2f}")
        print(f"collect {collect_rate(Path(folder), options.messages):.0f}/s")


if __name__ == "__main__":
    main()

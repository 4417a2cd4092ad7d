"""Measures the Python binding beside peers that are installed, in interleaved rounds, and merges the figures of C.

    python3 bindings/python/benchmarks/run.py [--seconds S] [--rounds N] [--bench PROGRAM] [--output FILE]
        [--directory DIRECTORY] [--only NAME]... [--deepest N]

The workloads: W1 one thread, W2 8 threads, W3 batches of 1,000, W4 a drain. A cold sample begins with a new store, a
warm one follows it in the same store. With --bench, the program `msgqueue-bench`, it also measures without Python, and
the series for the plots: `swift build -c release -Xswiftc -static-stdlib --product msgqueue-bench`.

The report is JSON; `plot.py` draws it. Peers: pip install huey litequeue persist-queue redis (and a redis-server).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from contenders import BATCH, Contender, by_threads, installed  # noqa: E402

WORKS = {
    "W1": "one thread, one message at a time",
    "W2": "8 threads, one message at a time each",
    "W3": f"batches of {BATCH:,}",
    "W4": "a drain",
}
THREADS = 8
# Messages of a drain, per second of measuring.
DRAIN_RATE = 3000
BARE = "sqlite3"


def sample(contender: Contender, work: str, seconds: float) -> float | None:
    """Returns messages per second; None: the contender does not support the workload."""
    if work == "W2":
        # A loop of asyncio belongs to one thread.
        return None if contender.name == "msgqueue.aio" else by_threads(contender.put, THREADS, seconds)
    if work == "W4":
        count = max(round(seconds * DRAIN_RATE), 1)
        elapsed = contender.drain(count)
        return None if elapsed is None else count / elapsed
    count = 0
    began = time.perf_counter()
    while True:
        if work == "W1":
            contender.put()
            count += 1
        elif contender.put_batch():
            count += BATCH
        else:
            return None
        if time.perf_counter() >= began + seconds:
            break
    return count / (time.perf_counter() - began)


def measure(kinds: list[type[Contender]], seconds: float, rounds: int, base: Path) -> list[dict[str, Any]]:
    """Returns a row for each workload and contender, with the medians of its cold and its warm samples."""
    rows = []
    for work in WORKS:
        cold: dict[str, list[float]] = {kind.name: [] for kind in kinds}
        warm: dict[str, list[float]] = {kind.name: [] for kind in kinds}
        for number in range(rounds):
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                directory = Path(tempfile.mkdtemp(prefix="msgqueue-bench-", dir=base))
                contender = kind(directory)
                try:
                    for samples in (cold, warm):
                        rate = sample(contender, work, seconds)
                        if rate is None:
                            break
                        samples[kind.name].append(rate)
                finally:
                    contender.close()
                    shutil.rmtree(directory, ignore_errors=True)
        for kind in kinds:
            if warm[kind.name]:
                rows.append(
                    {
                        "work": work,
                        "contender": kind.name,
                        "cold_per_second": round(statistics.median(cold[kind.name]), 1),
                        "per_second": round(statistics.median(warm[kind.name]), 1),
                        "ratio_to_sqlite3": round(
                            statistics.median(a / b for a, b in zip(warm[kind.name], warm[BARE])), 3
                        ),
                        "samples": [round(rate, 1) for rate in warm[kind.name]],
                    }
                )
                show(rows[-1])
    return rows


def show(row: dict[str, Any]) -> None:
    """Prints one row for a person."""
    print(
        f"{row['work']}  {row['contender']:14} cold {row['cold_per_second']:>10,.0f}/s"
        f"  warm {row['per_second']:>10,.0f}/s  {row['ratio_to_sqlite3']:6.2f} x {BARE}",
        file=sys.stderr,
    )


def run_bench(program: str, arguments: list[str]) -> Any:  # noqa: ANN401 - JSON
    """Returns the report of `msgqueue-bench`."""
    done = subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def machine() -> dict[str, Any]:
    """Describes where it was measured."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "processor": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


def positive(text: str) -> float:
    """Reads a positive number of the command line."""
    number = float(text)
    if not 0 < number <= 600:
        raise argparse.ArgumentTypeError("must be more than 0 and at most 600")
    return number


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=positive, default=1.0, help="length of each sample (default: 1)")
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 1001), metavar="N", default=5, help="samples (default: 5)"
    )
    parser.add_argument("--bench", metavar="PROGRAM", help="the program msgqueue-bench, for the figures without Python")
    parser.add_argument("--deepest", type=int, default=1_000_000, help="messages queued at most (default: 1000000)")
    parser.add_argument("--output", type=Path, help="where the JSON goes (default: results/benchmark.json)")
    parser.add_argument("--directory", type=Path, help="a directory on the disk to measure (default: the working one)")
    parser.add_argument("--only", action="append", help="this contender; may be repeated (sqlite3 always takes part)")
    given = parser.parse_args()
    kinds = installed()
    names = [kind.name for kind in kinds]
    for name in given.only or []:
        if name not in names:
            parser.error(f"{name} is not installed; there are {', '.join(names)}")
    if given.only:
        kinds = [kind for kind in kinds if kind.name in {*given.only, BARE}]
    base = given.directory or Path.cwd()
    report: dict[str, Any] = {"machine": machine(), "seconds": given.seconds, "rounds": given.rounds}
    report["python"] = measure(kinds, given.seconds, given.rounds, base)
    if given.bench:
        common = ["--seconds", str(given.seconds), "--rounds", str(given.rounds), "--directory", str(base)]
        report["c"] = run_bench(given.bench, [*common, "--json"])["results"]
        report["series"] = run_bench(given.bench, ["series", *common, "--deepest", str(given.deepest)])
    output = given.output or HERE / "results" / "benchmark.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(output)


if __name__ == "__main__":
    main()

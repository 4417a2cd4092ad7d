"""Runs the workers in pairs, in alternating order, and prints medians and ratios."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

WORKS = {
    "W1": "one thread, durable enqueue",
    "W2": "8 threads, durable enqueue",
    "W3": "batches of 1,000",
    "W4": "drain, one in flight; bare: delete",
}


@dataclass(frozen=True)
class Sample:
    """The measurements of one worker."""

    rate: float
    bytes_each: float
    flushes_each: float
    cpu_each: float


@dataclass(frozen=True)
class Side:
    """A library with the worker built for its header, or bare SQLite."""

    name: str
    worker: Path
    library: str


def run(side: Side, work: str, count: int, depth: int, flush: int, base: Path) -> Sample:
    """Runs one worker in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=base))
    try:
        command = [str(side.worker), work, side.library, str(directory), str(count), str(depth), str(flush)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except subprocess.CalledProcessError as error:
        sys.exit(f"{side.name}, {work}: {error.stderr.strip()}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    seconds, operations, written, flushes, cpu = (float(word) for word in text.split())
    return Sample(operations / seconds, written / operations, flushes / operations, cpu / operations)


def calibrate(bare: Side, work: str, seconds: float, flush: int, base: Path) -> int:
    """Returns the number of operations for which bare SQLite takes about `seconds`."""
    trial = {"W3": 20000}.get(work, 2000)
    rate = run(bare, work, trial, 0, flush, base).rate
    step = 1000
    return max(step, round(rate * seconds / step) * step)


def ratio(samples: dict[str, list[Sample]], over: str, under: str) -> float:
    """Returns the median of the ratios of the pairs."""
    pairs = zip(samples[over], samples[under], strict=True)
    return statistics.median(first.rate / second.rate for first, second in pairs)


def measure(work: str, sides: list[Side], pairs: int, seconds: float, depth: int, flush: int, base: Path) -> None:
    """Runs one workload on all sides and prints a line for each."""
    count = calibrate(sides[-1], work, seconds, flush, base)
    samples: dict[str, list[Sample]] = {side.name: [] for side in sides}
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else reversed(sides):
            samples[side.name].append(run(side, work, count, depth, flush, base))
    each = f"{max(count, depth)} each" if work == "W4" else f"{count} each, beside {depth}"
    print(f"{work}  {WORKS[work]} ({each})")
    for side in sides:
        own = samples[side.name]
        rates = sorted(sample.rate for sample in own)
        middle = statistics.median(rates)
        low, high = rates[len(rates) // 4], rates[-1 - len(rates) // 4]
        line = (
            f"  {side.name:5} {middle:10,.0f}/s ({low:,.0f} to {high:,.0f})"
            f"  {statistics.median(sample.bytes_each for sample in own):8,.0f} B"
            f"  {statistics.median(sample.flushes_each for sample in own):6.3f} flushes"
            f"  {statistics.median(sample.cpu_each for sample in own) * 1e6:7.1f} us CPU each"
        )
        if side.name != "bare":
            line += f"  {ratio(samples, side.name, 'bare'):5.2f} x bare"
        print(line)
    if len(sides) == 3:
        print(f"  A / B  {ratio(samples, 'A', 'B'):5.3f}")
    sys.stdout.flush()


def main() -> None:
    """Reads the command line from Tests/bench/run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", nargs=3, action="append", required=True, metavar=("NAME", "WORKER", "LIBRARY"))
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--flush", type=int, default=0, choices=range(1000), metavar="US")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--work", action="append", choices=sorted(WORKS))
    given = parser.parse_args()
    sides = [Side(name, Path(worker), library) for name, worker, library in given.side]
    print(f"{given.pairs} pairs in {given.directory} on {os.cpu_count()} processors")
    for work in given.work or sorted(WORKS):
        measure(work, sides, given.pairs, given.seconds, given.depth, given.flush, given.directory)


if __name__ == "__main__":
    main()

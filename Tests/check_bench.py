"""Runs the benchmark product for a short time and checks its report: each contender has a figure for each workload that
it supports. Checks that the article of the simulation kit contains the current table of recoveries.

python3 Tests/check_bench.py PROGRAM
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ARTICLE = (
    Path(__file__).resolve().parent.parent / "Sources/MsgQueueSimulation/MsgQueueSimulation.docc/MsgQueueSimulation.md"
)

STORING = {"queue", "SQLite", "SQLite, group commit", "raw file", "raw file, group commit"}
THREADS = (1, 2, 4, 8, 16)
REMOVING = {name for name in STORING if "file" not in name}


def check_series(series: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Checks that each series has its rows, and that no figure is 0."""
    wanted = {
        "threads": {(name, count) for name in STORING - {"raw file", "raw file, group commit"} for count in THREADS},
        "depth": {(name, depth) for name in ("queue", "SQLite") for depth in (0, 1000)},
        "in_flight": {("W4", 1), ("W4b", 16)},
        "latency": {("F8", "queue")} | {(work, name) for work in ("W8", "W8 spaced") for name in ("queue", "SQLite")},
    }
    found = {
        "threads": {(row["contender"], row["threads"]) for row in series["threads"]},
        "depth": {(row["contender"], row["depth"]) for row in series["depth"]},
        "in_flight": {(row["work"], row["in_flight"]) for row in series["in_flight"]},
        "latency": {(row["work"], row["contender"]) for row in series["latency"]},
    }
    problems = [f"series {name}: {found[name]}" for name in wanted if found[name] != wanted[name]]
    measures = ("per_second", "microseconds", "samples", "p50_microseconds", "p99_microseconds", "max_microseconds")
    for name, rows in series.items():
        problems += [f"{name}: {row}" for row in rows for measure in measures if row.get(measure, 1) <= 0]
    return problems


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.argv[1], "--seconds", "0.05", "--rounds", "1", "--json", "--directory", directory]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        report = json.loads(done.stdout)
        command[1:1] = ["series"]
        command.remove("--json")
        done = subprocess.run([*command, "--deepest", "1000"], check=True, capture_output=True, text=True, timeout=120)
        series = json.loads(done.stdout)
        left = subprocess.run(["ls", "-A", directory], check=True, capture_output=True, text=True).stdout
    problems = [f"files left in the directory: {left}"] if left else []
    for work in ("W1", "W2", "W3", "W4"):
        rows = {row["contender"]: row for row in report["results"] if row["work"] == work}
        if set(rows) != (REMOVING if work == "W4" else STORING):
            problems.append(f"{work} has figures for {sorted(rows)}")
        problems += [
            f"{work} {name}: {row}" for name, row in rows.items() if row["per_second"] <= 0 or not row["samples"]
        ]
    problems += check_series(series)
    refused = subprocess.run([sys.argv[1], "--rounds", "0"], capture_output=True, text=True)
    if refused.returncode != 2 or "--rounds" not in refused.stderr:
        problems.append(f"--rounds 0 ended with {refused.returncode}: {refused.stderr}")
    recovery = subprocess.run([sys.argv[1], "recovery"], check=True, capture_output=True, text=True, timeout=300).stdout
    if f"-->\n\n{recovery}\n<!--" not in ARTICLE.read_text(encoding="utf-8"):
        problems.append(f"the article does not contain the table\n{recovery}")
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"{len(report['results'])} figures; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

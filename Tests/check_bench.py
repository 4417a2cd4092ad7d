"""Runs the benchmark product for a short time and checks its report: each contender has a figure for each workload that
it supports. Checks that the article of the simulation kit contains the current table of recoveries.

python3 Tests/check_bench.py PROGRAM
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ARTICLE = (
    Path(__file__).resolve().parent.parent / "Sources/MsgQueueSimulation/MsgQueueSimulation.docc/MsgQueueSimulation.md"
)

STORING = {"queue", "SQLite", "SQLite, group commit", "raw file", "raw file, group commit"}
REMOVING = {name for name in STORING if "file" not in name}


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.argv[1], "--seconds", "0.05", "--rounds", "1", "--json", "--directory", directory]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        report = json.loads(done.stdout)
        left = subprocess.run(["ls", "-A", directory], check=True, capture_output=True, text=True).stdout
    problems = [f"files left in the directory: {left}"] if left else []
    for work in ("W1", "W2", "W3", "W4"):
        rows = {row["contender"]: row for row in report["results"] if row["work"] == work}
        if set(rows) != (REMOVING if work == "W4" else STORING):
            problems.append(f"{work} has figures for {sorted(rows)}")
        problems += [
            f"{work} {name}: {row}" for name, row in rows.items() if row["per_second"] <= 0 or not row["samples"]
        ]
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

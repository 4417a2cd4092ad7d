"""The benchmark scripts run, and their plots are valid XML. The figures themselves are not checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from msgqueue._library import library
from support import BINDING

BENCHMARKS = BINDING / "benchmarks"


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MSGQUEUE_LIBRARY": library()._name}
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def series() -> dict[str, Any]:
    """Returns series as `msgqueue-bench series` prints them."""
    latency = {"samples": 9, "p50_microseconds": 120.5, "p99_microseconds": 900.0, "max_microseconds": 4000.0}
    return {
        "threads": [
            {"contender": name, "threads": threads, "per_second": threads * rate}
            for name, rate in (("queue", 6000.0), ("SQLite, group & more", 5000.0))
            for threads in (1, 2, 4, 8, 16)
        ],
        "depth": [
            {"contender": name, "depth": depth, "microseconds": 150.25}
            for name in ("queue", "SQLite")
            for depth in (0, 1000, 1000000)
        ],
        "in_flight": [{"work": "W4b", "in_flight": 16, "per_second": 1.0}],
        "latency": [
            {"work": "F8", "contender": "queue", **latency},
            {"work": "W8", "contender": "queue", **latency},
            {"work": "W8", "contender": "SQLite", **latency},
        ],
    }


def test_the_benchmark_measures_every_workload_and_leaves_no_files(tmp_path: Path) -> None:
    place, output = tmp_path / "stores", tmp_path / "report.json"
    place.mkdir()
    only = ("--only", "msgqueue", "--only", "msgqueue.aio")
    short = ("--seconds", 0.02, "--rounds", 1)
    done = run("run.py", *short, *only, "--directory", place, "--output", output)
    assert done.returncode == 0, done.stderr
    report = json.loads(output.read_text())
    measured = {(row["work"], row["contender"]) for row in report["python"]}
    expected = {(work, name) for work in ("W1", "W2", "W3", "W4") for name in ("msgqueue", "msgqueue.aio", "sqlite3")}
    assert measured == expected - {("W2", "msgqueue.aio")}
    for row in report["python"]:
        assert min(row["per_second"], row["cold_per_second"], row["ratio_to_sqlite3"]) > 0
    assert list(place.iterdir()) == []
    done = run("plot.py", output)
    assert done.returncode == 1
    assert "run.py --bench" in done.stderr


def test_the_figures_of_another_program_are_merged_and_can_be_drawn(tmp_path: Path) -> None:
    program, output = tmp_path / "bench", tmp_path / "report.json"
    figures = {"results": [{"work": "W1", "contender": "queue", "per_second": 1.0}]}
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"print(json.dumps({series()!r} if sys.argv[1] == 'series' else {figures!r}))\n"
    )
    program.chmod(0o700)
    short = ("--seconds", 0.01, "--rounds", 1, "--only", "sqlite3")
    done = run("run.py", *short, "--bench", program, "--directory", tmp_path, "--output", output)
    assert done.returncode == 0, done.stderr
    report = json.loads(output.read_text())
    assert (report["c"], report["series"]) == (figures["results"], series())
    done = run("plot.py", output)
    assert done.returncode == 0, done.stderr


def test_plots_are_valid_and_show_every_contender(tmp_path: Path) -> None:
    machine = {"date": "2026-01-01", "processors": 2, "system": "Linux <1> & more"}
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"machine": machine, "series": series()}))
    done = run("plot.py", report, "--output", tmp_path / "plots")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["depth.svg", "latency.svg", "threads.svg"]
    for path in (tmp_path / "plots").iterdir():
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        if path.name == "threads.svg":
            assert {"queue", "SQLite, group & more"} <= set(words)
        if path.name == "latency.svg":
            assert {"0.12 ms", "0.90 ms", "4.00 ms"} <= set(words)


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--rounds", "0"], ["--only", "nothing"]])
def test_wrong_arguments_of_the_benchmark_are_refused(arguments: list[str]) -> None:
    assert run("run.py", *arguments).returncode == 2


def test_the_benchmark_of_the_outbox_runs() -> None:
    ended = run("outbox.py", "--seconds", 0.1, "--messages", 50)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("ratio") == 4
    assert "collect " in ended.stdout

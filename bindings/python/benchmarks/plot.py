"""Draws the series of a benchmark report as SVG: throughput by threads, latencies, and the cost of an enqueue by depth.

    python3 bindings/python/benchmarks/plot.py [REPORT] [--output DIRECTORY]

REPORT is what `run.py --bench` wrote (default: results/benchmark.json). The files are threads.svg, latency.svg and
depth.svg, beside the report unless another directory is given. They fit light and dark pages.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 150, 64, 56

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.note { fill: #59636e; font-size: 12px; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.line { fill: none; stroke-width: 2.5; }
.s0 { stroke: #0969da; } .f0 { fill: #0969da; }
.s1 { stroke: #bc4c00; } .f1 { fill: #bc4c00; }
.s2 { stroke: #57606a; stroke-dasharray: 6 4; } .f2 { fill: #57606a; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.note { fill: #9198a1; }
.grid { stroke: #3d444d; }
.s0 { stroke: #4493f8; } .f0 { fill: #4493f8; }
.s1 { stroke: #f0883e; } .f1 { fill: #f0883e; }
.s2 { stroke: #9198a1; } .f2 { fill: #9198a1; }
}
"""

Row = dict[str, Any]


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """Returns a text element."""
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attribute}>{escape(words)}</text>'


def page(title: str, note: str, height: int, elements: Sequence[str]) -> str:
    """Returns a whole SVG file."""
    head = [text(16, 28, title, kind="title"), text(16, 48, note, kind="note")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">\n<style>{STYLE}</style>\n'
        + "\n".join([*head, *elements])
        + "\n</svg>\n"
    )


def ticks(most: float) -> list[float]:
    """Returns about five round numbers from 0 to at least `most`."""
    raw = max(most, 1e-9) / 4
    unit = 10 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw)
    return [step * number for number in range(math.ceil(most / step) + 1)]


def short(number: float) -> str:
    """Formats a number of an axis."""
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:g}"


def lines(title: str, note: str, axis: str, places: Sequence[str], series: dict[str, list[float]]) -> str:
    """Returns a line chart. Each series has a value for each place of the horizontal axis."""
    marks = ticks(max(value for values in series.values() for value in values))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(index: int) -> float:
        return LEFT + 16 + index * (right - LEFT - 32) / max(len(places) - 1, 1)

    def y(value: float) -> float:
        return bottom - value / marks[-1] * (bottom - TOP - 8)

    parts = []
    for mark in marks:
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y(mark):.1f}" x2="{right}" y2="{y(mark):.1f}"/>')
        parts.append(text(LEFT - 8, y(mark) + 4, short(mark), anchor="end"))
    parts += [text(x(index), bottom + 20, place, anchor="middle") for index, place in enumerate(places)]
    parts.append(text((LEFT + right) / 2, bottom + 42, axis, anchor="middle", kind="note"))
    labels = spread({name: y(values[-1]) for name, values in series.items()})
    for number, (name, values) in enumerate(series.items()):
        points = " ".join(f"{x(index):.1f},{y(value):.1f}" for index, value in enumerate(values))
        parts.append(f'<polyline class="line s{number}" points="{points}"/>')
        parts += [
            f'<circle class="f{number}" cx="{x(index):.1f}" cy="{y(value):.1f}" r="3.5"/>'
            for index, value in enumerate(values)
        ]
        parts.append(text(right + 4, labels[name] + 4, name, kind=f"f{number}"))
    return page(title, note, HEIGHT, parts)


def spread(heights: dict[str, float]) -> dict[str, float]:
    """Moves labels apart that would overlap."""
    result: dict[str, float] = {}
    last = -math.inf
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        last = max(height, last + 17)
        result[name] = last
    return result


def bars(title: str, note: str, rows: Sequence[tuple[str, float, int]], show: Callable[[float], str]) -> str:
    """Returns horizontal bars: for each row its name, its value and the number of its colour."""
    left, right, step = 250, WIDTH - 90, 30
    most = max(value for _, value, _ in rows) or 1.0
    parts = []
    for index, (name, value, colour) in enumerate(rows):
        top = TOP + 8 + index * step
        width = max(value / most * (right - left), 1)
        parts.append(text(left - 10, top + 14, name, anchor="end"))
        parts.append(f'<rect class="f{colour}" x="{left}" y="{top}" width="{width:.1f}" height="19" rx="3"/>')
        parts.append(text(left + width + 8, top + 14, show(value)))
    return page(title, note, TOP + 8 + len(rows) * step + 16, parts)


def by(rows: Sequence[Row], place: str, value: str) -> tuple[list[str], dict[str, list[float]]]:
    """Returns the places of the horizontal axis, and the values of each contender."""
    places = sorted({row[place] for row in rows})
    series: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row[place]):
        series.setdefault(str(row["contender"]), []).append(float(row[value]))
    return [f"{number:,}" for number in places], series


def milliseconds(microseconds: float) -> str:
    """Formats a duration."""
    return f"{microseconds / 1000:.2f} ms"


def draw(report: Row) -> dict[str, str]:
    """Returns the plots by the names of their files."""
    series, machine = report["series"], report["machine"]
    where = f"{machine['date']}, {machine['processors']} processors, {machine['system']}; bodies of 256 bytes"
    places, rates = by(series["threads"], "threads", "per_second")
    depths, costs = by(series["depth"], "depth", "microseconds")
    found = {(row["work"], row["contender"]): row for row in series["latency"]}
    draining, queue, bare = found["F8", "queue"], found["W8", "queue"], found["W8", "SQLite"]
    rows = [
        ("enqueue during a drain: p50", draining["p50_microseconds"], 0),
        ("p99", draining["p99_microseconds"], 0),
        ("longest", draining["max_microseconds"], 0),
        ("enqueue to transport: p50", queue["p50_microseconds"], 1),
        ("SQLite to a waiting thread: p50", bare["p50_microseconds"], 2),
    ]
    return {
        "threads.svg": lines("Durable messages per second, by threads", where, "threads", places, rates),
        "latency.svg": bars("Latency, with 64 attempts in flight and idle", where, rows, milliseconds),
        "depth.svg": lines(
            "Microseconds per durable enqueue, by depth", where, "messages queued before", depths, costs
        ),
    }


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="?", default=HERE / "results" / "benchmark.json")
    parser.add_argument("--output", type=Path, help="a directory (default: that of the report)")
    given = parser.parse_args()
    report = json.loads(given.report.read_text(encoding="utf-8"))
    if "series" not in report:
        sys.exit(f"{given.report} has no series: measure with run.py --bench")
    output = given.output or given.report.parent
    output.mkdir(parents=True, exist_ok=True)
    for name, content in draw(report).items():
        (output / name).write_text(content, encoding="utf-8")
        print(output / name)


if __name__ == "__main__":
    main()

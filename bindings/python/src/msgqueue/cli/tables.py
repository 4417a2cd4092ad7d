"""The output of commands: tables and lines for people, objects of JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from itertools import chain, islice
from typing import Any

from .terminal import columns_of, cut, escaped, is_terminal, padded, styled, width

# Rows of a table that decide how wide its columns are.
WIDTHS_OF = 1000
STATUS_STYLES = {
    "failed": "red",
    "sending": "yellow",
    "queued": "cyan",
    "sent": "green",
    "delivered": "green",
    "read": "green",
}


def write(text: str) -> None:
    """Writes text to standard output as UTF-8, whatever the locale is."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))


def line(text: object) -> None:
    """Writes a text of another program, escaped, and a line feed."""
    write(escaped(str(text)) + "\n")


def objects(rows: Iterable[dict[str, Any]]) -> None:
    """Writes one object of JSON per line. On a terminal every character outside ASCII is escaped."""
    is_escaped = is_terminal(sys.stdout)
    for row in rows:
        write(json.dumps(row, ensure_ascii=is_escaped, separators=(",", ":")) + "\n")


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], style: Callable[[str], str | None] = lambda _: None
) -> None:
    """Writes a table, while the rows are read. The last column is cut to the width of the terminal.

    The first WIDTHS_OF rows decide how wide the columns are. A later text that is wider is not cut: it moves the rest
    of its row.

    Args:
        heads: The names of the columns; in capitals on the screen.
        rows: The texts, which are escaped here.
        style: Returns the colour for the text of the second column.
    """
    source = iter(rows)
    first = [[escaped(cell) for cell in row] for row in islice(source, WIDTHS_OF)]
    titles = [head.upper() for head in heads]
    widths = [max(columns_of(row[place]) for row in (titles, *first)) for place in range(len(heads))]
    room = width()
    write(styled(_fitted(titles, widths, room), "bold").rstrip() + "\n")
    for cells in chain(first, ([escaped(cell) for cell in row] for row in source)):
        line = _fitted(cells, widths, room)
        write(_colored(line, cells, widths[0], style(cells[1])).rstrip() + "\n")


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Writes names and values, one pair per line; empty values are left out."""
    shown = [(escaped(name), value) for name, value in rows if value]
    room = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        write(f"{styled(padded(name, room), 'dim')}  {escaped(value)}\n")


def instant(milliseconds: object) -> str:
    """Returns a time of the protocol in local time; "" for none."""
    if not isinstance(milliseconds, int) or not milliseconds:
        return ""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def duration(milliseconds: object) -> str:
    """Returns a duration in words; "" for none."""
    if not isinstance(milliseconds, int) or milliseconds < 0:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def size(count: object) -> str:
    """Returns a number of bytes."""
    if not isinstance(count, int):
        return ""
    number = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return f"{count} bytes" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return ""


def plural(count: int, noun: str) -> str:
    """Returns "1 message", "2 messages"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _fitted(cells: Sequence[str], widths: Sequence[int], room: int | None) -> str:
    line = "  ".join((*map(padded, cells[:-1], widths), cells[-1]))
    return line if room is None else cut(line, room)


def _colored(line: str, cells: Sequence[str], first_width: int, style: str | None) -> str:
    """Colours the second column, if it was not cut."""
    start = len(padded(cells[0], first_width)) + 2
    end = start + len(cells[1])
    if not style or line[start:end] != cells[1]:
        return line
    return line[:start] + styled(cells[1], style) + line[end:]

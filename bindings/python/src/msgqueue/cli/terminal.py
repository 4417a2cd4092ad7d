"""What is written to the terminal: escaped text, widths, colours, questions and progress."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from contextlib import suppress
from typing import TextIO, cast

from .._escaping import escaped as escaped

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_NARROWEST = 40
_USUAL = 80


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def width() -> int | None:
    """Returns the columns of the terminal of standard output; None: it is none, and lines may have any length."""
    if not is_terminal(sys.stdout):
        return None
    try:
        columns = max(int(os.environ.get("COLUMNS", "")), 0)
    except ValueError:
        columns = 0
    with suppress(OSError):
        columns = columns or os.get_terminal_size(sys.stdout.fileno()).columns
    # A terminal whose size nobody has set has 0 columns.
    return max(columns or _USUAL, _NARROWEST)


def has_colors(stream: TextIO) -> bool:
    """Whether colours are used: on a terminal, without NO_COLOR."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    """Returns the text in a colour of standard output, if it has colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and has_colors(sys.stdout) else text


def columns_of(text: str) -> int:
    """Returns the columns that an escaped text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut(text: str, room: int) -> str:
    """Returns the text, cut to that many columns."""
    if columns_of(text) <= room:
        return text
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > room - 1:
            return text[:index] + "…"
    return text


def padded(text: str, room: int) -> str:
    """Returns the text with spaces up to that many columns."""
    return text + " " * max(room - columns_of(text), 0)


def replace_closed_streams() -> None:
    """Puts a stream that fails in the place of a standard stream that is closed, so that no other file gets its number.

    Reading standard input and writing to standard output then fail as on a closed descriptor; standard error is
    discarded.
    """
    # Typed as never None, but they are when the descriptor was closed.
    if (sys.stdin or None) is None:
        sys.stdin = _stream(os.O_WRONLY, "r")
    if (sys.stdout or None) is None:
        sys.stdout = _stream(os.O_RDONLY, "w")
    if (sys.stderr or None) is None:
        sys.stderr = _stream(os.O_WRONLY, "w")


def _stream(flags: int, mode: str) -> TextIO:
    # Not closed at the end, as the standard streams are not.
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8", closefd=False))


def discard(stream: TextIO) -> None:
    """Discards what the stream still has, and everything that will be written to it."""
    # The interpreter would flush it at its end, and complain.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_error(text: str) -> None:
    """Writes to standard error. A failure, for example a full disk, does not stop the command."""
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def note(text: str) -> None:
    """Writes a line to standard error."""
    write_error(f"msgq: {escaped(text)}\n")


def confirmed(question: str) -> bool | None:
    """Asks on the terminal. None: there is no terminal to ask on."""
    if not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
        return None
    write_error(f"{escaped(question)} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Progress:
    """A line on standard error that is overwritten; nothing, unless that is a terminal."""

    _INTERVAL = 0.1

    def __init__(self, is_quiet: bool) -> None:
        self._is_shown = not is_quiet and is_terminal(sys.stderr)
        self._last = 0.0
        self._is_dirty = False

    def show(self, text: str) -> None:
        """Shows the text, at most ten times a second."""
        now = time.monotonic()
        if self._is_shown and now - self._last >= self._INTERVAL:
            self._last = now
            self._is_dirty = True
            write_error(f"\r\x1b[K{escaped(text)}")

    def end(self) -> None:
        """Removes the line."""
        if self._is_dirty:
            self._is_dirty = False
            write_error("\r\x1b[K")


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

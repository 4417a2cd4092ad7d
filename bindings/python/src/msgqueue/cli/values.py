"""The values of arguments: times, bodies, metadata, statuses."""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from .._options import LARGEST_BODY
from ..enums import FailureKind
from .exits import UsageError

STATUSES = ("queued", "sending", "sent", "delivered", "read", "failed")
KINDS = tuple(kind.name.lower() for kind in FailureKind if kind)
_GROUPS = {
    "all": list(STATUSES),
    "unsent": ["queued", "sending", "failed"],
    "history": ["sent", "delivered", "read"],
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FROM_NOW = re.compile(r"\+([0-9]{1,10})([smhd])\Z")
_NUMBER = re.compile(r"[+-]?[0-9]+\Z")
_MAX = 2**63 - 1


def statuses(given: list[str] | None, default: str = "unsent") -> list[str]:
    """Returns the statuses that the words name, separated by commas or in several arguments."""
    found: list[str] = []
    for word in ",".join(given or [default]).split(","):
        name = word.strip().lower()
        if name not in _GROUPS and name not in STATUSES:
            raise UsageError(f"{word!r} is not a status; use {', '.join((*STATUSES, *_GROUPS))}")
        found += _GROUPS.get(name, [name])
    return sorted(set(found), key=STATUSES.index)


def span(text: str | None) -> int | None:
    """Returns a time from now in milliseconds: "+90s", "+10m", "+2h", "+1d"; None: the text is not of this form."""
    relative = _FROM_NOW.match(text or "")
    return int(relative.group(1)) * _UNITS[relative.group(2)] * 1000 if relative else None


def start_and_expiry(start: str | None, expiry: str | None) -> dict[str, int | None]:
    """Returns the fields of a draft for --not-before and --expires. Times from now are sent as durations."""
    delay, life = span(start), span(expiry)
    fields: dict[str, int | None] = {"delay_ms": delay} if delay else {"not_before_ms": instant(start, "--not-before")}
    if life is None or (start is not None and delay is None):
        return {**fields, "expires_at_ms": instant(expiry, "--expires")}
    if life <= (delay or 0):
        raise UsageError("--expires must be later than --not-before, and later than now")
    return {**fields, "expiry_ms": life - (delay or 0)}


def instant(text: str | None, name: str) -> int | None:
    """Returns a time in milliseconds since 1970: "+90s", "+10m", "+2h", "+1d", or ISO 8601."""
    if text is None:
        return None
    relative = span(text)
    if relative is not None:
        return round(time.time() * 1000) + relative
    try:
        # Before Python 3.11 a Z is not accepted.
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        milliseconds = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{name}: {text!r} is not a time; use +10m (s, m, h, d) or 2026-12-31T09:00") from None
    if milliseconds <= 0:
        raise UsageError(f"{name} must be after 1970")
    return milliseconds


def number(text: str, least: int = 0, most: int = _MAX) -> int:
    """Returns a whole number in a range."""
    try:
        # int() also reads spaces, underscores and the digits of other scripts.
        value = int(text) if _NUMBER.match(text) else None
    except ValueError:
        # More digits than int() reads.
        value = None
    if value is None:
        raise UsageError(f"{text!r} is not a whole number") from None
    if not least <= value <= most:
        raise UsageError(f"{value} is out of range: {least} to {most}")
    return value


def metadata(given: list[str] | None) -> dict[str, str] | None:
    """Returns the pairs of KEY=VALUE arguments."""
    found: dict[str, str] = {}
    for each in given or []:
        key, separator, value = each.partition("=")
        if not separator or not key:
            raise UsageError(f"{each!r} must have the form KEY=VALUE")
        if key in found:
            raise UsageError(f"the metadata contains the key {key} twice")
        found[key] = value
    return found or None


def headers(given: list[str] | None, files: list[str] | None, variables: list[str] | None) -> dict[str, str]:
    """Returns the pairs of "NAME: VALUE" from arguments, and from the lines of files and environment variables."""
    lines = [(each, f"{each!r}") for each in given or []]
    for file in files or []:
        with Path(file).open("rb") as stream:
            lines += _header_lines(_limited(stream, file), file)
    for variable in variables or []:
        if variable not in os.environ:
            raise UsageError(f"the environment has no variable {variable}")
        lines += _header_lines(os.fsencode(os.environ[variable]), f"the variable {variable}")
    found = {}
    for line, place in lines:
        name, separator, value = line.partition(":")
        if not separator:
            raise UsageError(f"{place} must have the form 'NAME: VALUE'")
        found[name.strip()] = value.strip()
    return found


def _header_lines(data: bytes, source: str) -> list[tuple[str, str]]:
    """Returns the lines that are not blank, each with what an error calls it: the values are secrets."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{source} is not UTF-8") from None
    # Only these end a line: another control character stays in the value, which is then refused.
    lines = enumerate(re.split("\r\n|\n", text), 1)
    return [(line, f"line {number} of {source}") for number, line in lines if line.strip(" \t")]


def body(text: str | None, file: str | None) -> bytes:
    """Returns the body from an argument, from standard input ("-"), or from a file."""
    if (text is None) == (file is None):
        raise UsageError("give the body once: as an argument, as - (standard input), or by --file")
    if file is not None:
        with Path(file).open("rb") as stream:
            return _limited(stream, file)
    if text == "-":
        return _limited(sys.stdin.buffer, "standard input")
    # The bytes of the argument as they were given, whatever they are.
    return os.fsencode(text or "")


def _limited(stream: BinaryIO, name: str) -> bytes:
    data = stream.read(LARGEST_BODY + 1)
    if len(data) > LARGEST_BODY:
        raise UsageError(f"{name} has more than {LARGEST_BODY} bytes, the largest body of a message")
    return data

"""Prints the lines of a log of `Tests/run` that name what failed, in the log's order.

    python3 Tests/failures.py LOG [CODE]

CODE is the exit code of the step. At most LINES lines of at most WIDTH characters are printed, preferably those
that name a test.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

LINES = 20
WIDTH = 240
# Lines of a log without any name of a failure that are printed instead.
_LAST = 5
# Reasons of one test of the C runner.
_REASONS = 2

# Lines that name a test or a finding.
_NAMES = re.compile(
    r" *FAILED .|(FAIL|ERROR|PROBLEM:|Would reformat|NOT INSTALLED|test hangs:) ?."
    r"|(.*: )?(fatal )?error: .|.*Fatal error: .|Fatal Python error: ."
    r"|.*\.py:\d+:\d+: [A-Z]+\d+ |[A-Z]{1,4}\d{2,4} (\[\*\] )?\S.*[^.]$"
    r"|(WARNING|SUMMARY): \w+Sanitizer: ."
    # Of a test in Python that hangs: the time limit, and the frame of the test.
    r"|Timeout \(\d+:\d\d:\d\d\)!|  File \".*\", line \d+ in test_\w+$"
    r"|==\d+== (Invalid|Conditional jump|Use of uninit|Syscall param|Mismatched|Source and dest)"
)
# What the library logs while a test runs: a test that passes causes such lines, too.
_LOGGED = re.compile(r"msgqueue: (error|warning|info|debug): ")
# Lines that say more about it.
_MORE = re.compile(
    r"[\w.]+(Error|Exception|Warning|Exit|Expired|Interrupt)(: .*)?$"
    r"|(Segmentation fault|Aborted|Killed|Terminated)\b|.*\(core dumped\)|Tests/[\w/]+: ."
    r"|.*undefined reference to |==\d+== +definitely lost: [1-9]| +--> \S+:\d+:\d+$|.*: No such file or directory$"
)
# Totals.
_TOTALS = re.compile(r"(.*\D)?[1-9][\d,]* (failed|errors?|problems?|findings?)\b")
_SWIFT = re.compile(r"\S+ (?:Test|Suite) (?P<name>.+?) (?P<what>recorded an issue|failed after) ")
_REASON = re.compile(r"  \S+:\d+: .|  the process of the test ended ")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def failures(lines: Iterable[str]) -> list[str]:
    """Returns the lines to print."""
    found: list[tuple[int, int, str]] = []
    last: list[str] = []
    reasons: list[tuple[int, str]] = []
    issues: set[str] = set()
    omitted = 0

    def take(rank: int, place: int, text: str) -> None:
        nonlocal omitted
        found.append((rank, place, text))
        if len(found) > 50 * LINES:
            found.sort()
            omitted += len(found) - LINES
            del found[LINES:]

    for place, line in enumerate(lines):
        text = _plain(line)
        if not text.strip() or _LOGGED.match(text):
            continue
        last = [*last[1 - _LAST :], text]
        swift = _SWIFT.match(text)
        if text.startswith(("ok   ", "SKIP ")):
            reasons.clear()
        elif text.startswith("FAIL "):
            take(0, place, text)
            for where, reason in reasons[:_REASONS]:
                take(1, where, reason)
            reasons.clear()
        elif _REASON.match(text):
            # The C runner writes the reasons before the name of the test.
            reasons.append((place, text))
            del reasons[100:]
        elif swift:
            is_known = swift["name"] in issues
            issues.add(swift["name"])
            take(1 if is_known else 0, place, text)
        elif _NAMES.match(text):
            take(0, place, text)
        elif _MORE.match(text):
            take(1, place, text)
        elif _TOTALS.match(text):
            take(2, place, text)
    # Of a test that never ended.
    for where, reason in reasons[:_REASONS]:
        take(1, where, reason)
    if not found:
        return last
    found.sort()
    omitted += max(len(found) - LINES, 0)
    shown = [text for _, _, text in sorted(found[:LINES], key=lambda each: each[1])]
    return [*shown, f"(and {omitted} more lines)"] if omitted else shown


def _plain(line: str) -> str:
    text = _ESCAPES.sub("", line.rstrip("\r\n"))
    text = "".join(each if each.isprintable() else " " for each in text).rstrip()
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def main() -> int:
    code = sys.argv[2] if len(sys.argv) > 2 else ""
    if code in ("124", "137"):
        print("the step was stopped at its time limit, or was killed")
    elif code:
        print(f"exit code {code}")
    try:
        with Path(sys.argv[1]).open(encoding="utf-8", errors="replace") as log:
            found = failures(log)
    except OSError as problem:
        found = [f"{sys.argv[1]}: {problem.strerror}"]
    for text in found:
        sys.stdout.buffer.write(f"{text}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())

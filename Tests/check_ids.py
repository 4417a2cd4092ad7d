"""Prints each row of the acceptance list with its tests, and fails when a row has none.

    python3 Tests/check_ids.py

A test shows a row when its name begins with the row's id: Q4_…, test_Q4_…, or H1_Q14_… for two of them.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The rows of the acceptance list: Q offline queue, R retry, H history, M background sync, A automatic queue, X beyond,
# D disk and operator, F flow after an outage, I installation and inspection, B batches and brokers.
LAST = {"Q": 24, "R": 17, "H": 14, "M": 16, "A": 13, "X": 16, "D": 17, "F": 8, "I": 9, "B": 9}
IDS = [f"{letter}{number}" for letter, last in LAST.items() for number in range(1, last + 1)]

# The rows that are not promised yet, with the reason. They are shown as open, even if tests of a part of them exist.
OPEN: dict[str, str] = {
    "I9": "the list shows of every message what it waits for",
    "Q22": "the count of a standing prompt follows the queue",
    "X15": "what explain says of every queued message is what then happens",
    "X16": "the simulation runs the engine itself",
}

# Of each language: its name, the folder and files of its tests, and the pattern of a test in the source.
SOURCES = [
    ("C", "Tests/C", "*.c", r"^TEST(?:_ALONE|_NETWORK|_CLOCK)?\((\w+)\)"),
    ("HTTP", "Tests/http", "*.c", r"^TEST(?:_ALONE)?\((\w+)\)"),
    ("Python", "bindings/python/tests", "*.py", r"^\s*(?:async )?def (test_\w+)\("),
    ("package", "Tests/packages", "*.py", r"^def (test_\w+)\("),
    ("browser", "Tests/console", "*.py", r"^def (test_\w+)\("),
    ("framework", "Tests/frameworks", "test_*.py", r"^def (test_\w+)\("),
    ("relay", "Tests/relays", "test_*.py", r"^def (test_\w+)\("),
    ("Swift", "Tests", "MsgQueue*Tests/**/*.swift", r"\bfunc (\w+)\("),
]


def tests() -> Iterator[tuple[str, str]]:
    """Yields language and name of every test."""
    for language, folder, pattern, name in SOURCES:
        for path in sorted((ROOT / folder).glob(pattern)):
            for found in re.findall(name, path.read_text(encoding="utf-8"), flags=re.MULTILINE):
                yield language, found


def ids_of(name: str) -> list[str]:
    """Returns the ids at the beginning of the name of a test."""
    prefix = re.match(r"(?:test_)?((?:[QRHMAXDFIB]\d+_)*)", name)
    return prefix.group(1).split("_")[:-1] if prefix else []


def main() -> int:
    shown: dict[str, list[tuple[str, str]]] = {id: [] for id in IDS}
    problems: list[str] = []
    for language, name in tests():
        for id in ids_of(name):
            if id in shown:
                shown[id].append((language, name))
            else:
                problems.append(f"{name} ({language}): there is no row {id}")

    # The runners of the C tests refuse two tests of one name, too; this check needs no build.
    names = Counter(name for language, name in tests() if language in ("C", "HTTP"))
    problems += [f"{name} (C) occurs {count} times" for name, count in names.items() if count > 1]

    for id, found in shown.items():
        count = ", ".join(f"{sum(language == of for language, _ in found)} {of}" for of, *_ in SOURCES)
        state = "OPEN" if id in OPEN else "ok" if found else "NONE"
        print(f"{id:4} {state:4}  {count}{f'   {OPEN[id]}' if id in OPEN else ''}")
        for language, name in found:
            print(f"             {language:6}  {name}")
        if state == "NONE":
            problems.append(f"{id} has no test")

    for problem in problems:
        print(f"FAIL {problem}")
    rows = [id for id in IDS if id not in OPEN and shown[id]]
    twice = sum(len({language for language, _ in shown[id]}) > 1 for id in rows)
    print(
        f"{len(rows)} of {len(IDS)} rows have tests, {twice} of them in two languages or more; "
        f"open: {', '.join(sorted(OPEN))}; {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

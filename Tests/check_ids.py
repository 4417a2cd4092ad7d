"""Prints each row of requirements.md with its tests, and fails when a row has none.

    python3 Tests/check_ids.py

A test shows a row when its name begins with the row's id: Q4_…, test_Q4_…, or H1_Q14_… for two of them.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.md"


def requirements() -> dict[str, bool]:
    """Returns each id with whether its row is only planned, in the order of the document."""
    rows = re.findall(
        r"^\| ([A-Z]\d+) \| .+ \| (planned|) ?\|$", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    ids = [id for id, _ in rows]
    if len(ids) != len(set(ids)) or len(ids) < 140:
        sys.exit(f"{REQUIREMENTS}: {len(ids)} rows, {len(set(ids))} different ones")
    return {id: state == "planned" for id, state in rows}


# Of each language: its name, the folder and files of its tests, and the pattern of a test in the source.
SOURCES = [
    ("C", "Tests/C", "*.c", r"^TEST(?:_ALONE|_LONG|_NETWORK|_CLOCK)?\((\w+)\)"),
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


def ids_of(name: str, letters: str) -> list[str]:
    """Returns the ids at the beginning of the name of a test. Ids of other letters are no requirements."""
    prefix = re.match(rf"(?:test_)?((?:[{letters}]\d+_)*)", name)
    return prefix.group(1).split("_")[:-1] if prefix else []


def main() -> int:
    required = requirements()
    letters = "".join({id[0]: None for id in required})
    planned = [id for id, is_planned in required.items() if is_planned]
    shown: dict[str, list[tuple[str, str]]] = {id: [] for id in required}
    problems: list[str] = []
    for language, name in tests():
        for id in ids_of(name, letters):
            if id in shown:
                shown[id].append((language, name))
            else:
                problems.append(f"{name} ({language}): there is no row {id}")

    # The runners of the C tests refuse two tests of one name, too; this check needs no build.
    names = Counter(name for language, name in tests() if language in ("C", "HTTP"))
    problems += [f"{name} (C) occurs {count} times" for name, count in names.items() if count > 1]

    for id, found in shown.items():
        count = ", ".join(f"{sum(language == of for language, _ in found)} {of}" for of, *_ in SOURCES)
        state = "planned" if id in planned else "ok" if found else "NONE"
        print(f"{id:4} {state:7}  {count}")
        for language, name in found:
            print(f"             {language:6}  {name}")
        if state == "NONE":
            problems.append(f"{id} has no test")

    for problem in problems:
        print(f"FAIL {problem}")
    rows = [id for id in required if id not in planned and shown[id]]
    twice = sum(len({language for language, _ in shown[id]}) > 1 for id in rows)
    print(
        f"{len(rows)} of {len(required)} rows have tests, {twice} of them in two languages or more; "
        f"planned: {', '.join(planned)}; {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

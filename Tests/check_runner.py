"""Checks that the runner of the C tests reports each failure, crash and hang, and runs the tests after it.

    python3 Tests/check_runner.py [--valgrind] DIRECTORY

DIRECTORY holds libmsgqueue.so. The tests are those of C/broken. With --valgrind they run under valgrind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUPPORT = ROOT / "Tests" / "C" / "support"

# What the runner says of each test, in this order, and what it must print before that.
EXPECTED = [
    ("ok  ", "passes_first", ""),
    ("FAIL", "fails_while_a_transport_runs", "scene.queue == NULL"),
    ("ok  ", "passes_after_a_failure", ""),
    ("FAIL", "fails_and_continues", "tests_of_this_process == -1"),
    ("FAIL", "crashes", "  the process of the test was ended by signal 11"),
    ("FAIL", "aborts", "  the process of the test was ended by signal 6"),
    ("FAIL", "exits", "  the process of the test ended with exit code 0"),
    ("FAIL", "hangs", "test hangs: hangs"),
    ("SKIP", "is_skipped", "it cannot run"),
    ("ok  ", "passes_after_a_skip", ""),
    ("FAIL", "fails_in_a_fork", "tests_of_this_process == 0"),
    ("ok  ", "passes_in_a_fork", ""),
    ("FAIL", "crashes_alone", "  the process of the test ended with exit code -1"),
    ("ok  ", "passes_last", ""),
]
TOTAL = "5 passed, 8 failed, 1 skipped"


def build(directory: Path, library: Path) -> Path:
    (directory / "libmsgqueue.so.0").symlink_to(library / "libmsgqueue.so")
    (directory / "libmsgqueue.so").symlink_to(library / "libmsgqueue.so")
    program = directory / "broken"
    sources = [ROOT / "Tests" / "C" / "broken" / "broken.c", *sorted(SUPPORT.glob("*.c"))]
    subprocess.run(
        [
            "gcc", "-std=c11", "-D_GNU_SOURCE", "-g", "-pthread", "-Wall", "-Wextra", "-Werror",
            "-I", ROOT / "Include", "-I", SUPPORT, *sources, "-o", program,
            "-L", directory, f"-Wl,-rpath,{directory}", "-lmsgqueue", "-lsqlite3", "-lm",
        ],
        check=True,
    )  # fmt: skip
    return program


def problems(lines: list[str], *, is_whole: bool) -> list[str]:
    """Compares what was printed with what must be. Tests in processes of their own do not run under valgrind."""
    found, place = [], 0
    expected = [each for each in EXPECTED if is_whole or each[1] != "crashes_alone"]
    for verdict, name, reason in expected:
        end = next((index for index, line in enumerate(lines) if line.startswith(f"{verdict} {name}")), None)
        if end is None or end < place:
            found.append(f"{name} is not reported in its place as '{verdict.strip()}'")
            continue
        if reason and not any(reason in line for line in lines[place:end]):
            found.append(f"{name} is reported without '{reason.strip()}'")
        place = end
    count = sum(line.startswith(("ok ", "FAIL ", "SKIP ")) for line in lines)
    if count != len(expected):
        found.append(f"{count} tests are reported instead of {len(expected)}")
    if lines[-1:] != [TOTAL if is_whole else TOTAL.replace("8 failed", "7 failed")]:
        found.append(f"the last line is {lines[-1:]}")
    return found


def main() -> int:
    library, under = Path(sys.argv[-1]).resolve(), []
    if "--valgrind" in sys.argv:
        under = ["--here", "--under", "valgrind --quiet --error-exitcode=99 --child-silent-after-fork=yes"]
    with tempfile.TemporaryDirectory() as directory:
        program = build(Path(directory), library)
        done = subprocess.run(
            [program, *under],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300, check=False,
            env={**os.environ, "TMPDIR": directory, "SWIFT_BACKTRACE": "enable=no"},
        )  # fmt: skip
    found = problems(done.stdout.splitlines(), is_whole=not under)
    if done.returncode != 1:
        found.append(f"the exit code is {done.returncode}, not 1")
    if found:
        print(done.stdout)
    for each in found:
        print(f"PROBLEM: the runner of the C tests: {each}")
    print(f"the runner of the C tests reports what fails: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

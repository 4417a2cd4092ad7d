"""Checks failures.py with a log of each kind of step in which something failed."""

from __future__ import annotations

import sys

import failures

# The kind of step, and its log. The lines that begin with "> " must be printed, without that, and no others.
LOGS = {
    "c": """\
msgqueue: error: /tmp/msgq-x/outbox.db: message 4 is damaged: its body has the wrong size
  test_a.c:1: a reason of a test that was repeated and passed
ok   Q1_one (3 ms)
>   test_send.c:41: count is 3, expected 4
>   test_send.c:42: strcmp(a, b) == 0
  test_send.c:43: a third reason
> FAIL Q2_two (12 ms)
ok   Q3_three (1 ms)
> FAIL Q4_four (2 ms)
"""
    + "ok   Q5_five (1 ms)\n" * 400
    + "> 402 passed, 2 failed, 0 skipped\n",
    "c, which does not compile": """\
Tests/C/test_a.c: In function 'x':
> Tests/C/test_a.c:3:5: error: unknown type name 'y'
    3 |     y z;
""",
    "c, with a test that hangs": "ok   Q1_one (3 ms)\n\n> test hangs: Q2_two\n",
    "c, without a library": "> Tests/C/run: no libmsgqueue.so in build; Tests/run builds it\n",
    "pytest": """\
..F.E
=== FAILURES ===
    assert 1 == 2
E   assert 1 == 2
=== short test summary info ===
> FAILED tests/test_a.py::test_I4_one - assert 1 == 2
> ERROR tests/test_b.py::test_I4_two - OSError: full
> 1 failed, 3 passed, 1 error in 2.00s
""",
    "pytest, with a test that hangs": """\
..
> Timeout (0:02:00)!
Thread 0x00007f2b (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
>   File "/checkout/Tests/relays/test_a.py", line 12 in test_B3_one
  File "/usr/lib/python3.11/site-packages/pluggy/_callers.py", line 121 in _multicall
""",
    "swift": """\
◇ Test one() started.
> ✘ Test one() recorded an issue at ATests.swift:9:5: Expectation failed: (a → 1) == 2
> ✘ Test one() failed after 0.001 seconds with 1 issue.
✔ Test two() passed after 0.001 seconds.
> ✘ Test run with 2 tests failed after 0.1 seconds with 1 issue.
""",
    "swift, which does not compile": """\
[1/9] Compiling A
> Sources/A.swift:1:2: error: cannot find 'x' in scope
> error: fatalError
""",
    "swift, which crashes": """\
◇ Test one() started.
> A/B.swift:3: Fatal error: Index out of range
> error: Exited with unexpected signal code 5
""",
    "tsan": """\
> WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 8
> SUMMARY: ThreadSanitizer: data race A.swift:1 in f
""",
    "tsan-c": "seed 1, 15 seconds\n> PROBLEM: a message was sent twice (1, 2)\n> 1 problems\n",
    "valgrind": """\
> ==7== Invalid read of size 4
==7==    at 0x1: f
> ==7==    definitely lost: 48 bytes in 1 blocks
==7==    definitely lost: 0 bytes in 0 blocks
""",
    "format": "> Sources/A.swift:1:1: error: [Indentation] unindent by 2 spaces\n",
    "ids": "Q1   done  3\nQ19  done  3\n> FAIL Q9 has no test in C\n> 1 problem\n",
    "faults": """\
alloc: seed 1
>   FAILED alloc: --seed 1 --case 3: message m1 was lost
>   alloc: 9 passed, 1 failed
iofail: 9 passed, 0 failed
""",
    "ruff": """\
> F401 [*] `os` imported but unused
>  --> src/a.py:1:8
> Found 1 error.
> Would reformat: src/b.py
""",
    "ruff, in short": "> src/a.py:1:8: F401 [*] `os` imported but unused\n",
    "mypy": '> src/a.py:3: error: Name "x" is not defined  [name-defined]\n> Found 1 error in 1 file\n',
    "readme": "> FAIL README.md:12 printed\n1\ninstead of\n2\n> 9 examples in c, 1 problems\n",
    "demo": """\
Building
Traceback (most recent call last):
  File "demo.py", line 3, in <module>
> AssertionError: 2 arrived
""",
    "a crash": '> Tests/run: line 9: 77 Segmentation fault      (core dumped) "$tests"\n',
    "a log that names nothing": "1\n\n2\n> 3\n> 4\n> 5\n\n> 6\n> 7\n\n",
    "an empty log": "",
    "many failures": "".join(
        f"  a.c:{number}: no\n{'> ' if number < failures.LINES else ''}FAIL T{number} (1 ms)\n" for number in range(30)
    )
    + "0 passed, 30 failed, 0 skipped\n> (and 41 more lines)\n",
    "very many failures": "".join(
        f"{'> ' if number < failures.LINES else ''}FAILED T{number}\n" for number in range(5000)
    )
    + "> (and 4980 more lines)\n",
}
# What may not reach a terminal: a line, and what is printed of it.
LINES = {
    "FAIL a\x1b[2J\x07b": "FAIL a b",
    "\x1b[1ma.swift:1:2: \x1b[31merror:\x1b[0m no": "a.swift:1:2: error: no",
    "FAIL " + "x" * 999: "FAIL " + "x" * (failures.WIDTH - 6) + "…",
}


def main() -> int:
    problems = 0
    for kind, marked in LOGS.items():
        lines = marked.splitlines()
        expected = [line[2:] for line in lines if line.startswith("> ")]
        log = [line[2:] if line.startswith("> ") else line for line in lines if "more lines)" not in line]
        problems += is_wrong(kind, failures.failures(log), expected)
    for line, expected_line in LINES.items():
        problems += is_wrong("a line", failures.failures([line]), [expected_line])
    print(f"{len(LOGS)} logs; {problems} problems")
    return 1 if problems else 0


def is_wrong(kind: str, found: list[str], expected: list[str]) -> bool:
    if found != expected:
        print(f"FAIL {kind}: printed {found} instead of {expected}")
    return found != expected


if __name__ == "__main__":
    sys.exit(main())

"""Compares the layout of the header with the recorded layout: the size of every struct, the offset and size of every
field, the number of every enumerator and constant. Programs built with an older header depend on them.

    python3 Tests/check_header.py            fails when something was changed, was removed, or is not recorded
    python3 Tests/check_header.py --write    records additions; refuses changes
"""

import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "Include" / "msgqueue.h"
RECORD = ROOT / "Tests" / "fixtures" / "layout.txt"
FIRST_LINE = "# Written by Tests/check_header.py --write: struct size; field offset size; enumerator number."
RULE = "Programs built with an older header would break: fields are only appended, numbers never change."

Layout = dict[str, tuple[int, ...]]


def declarations() -> str:
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)


def layout() -> Layout:
    """Returns the size of every struct, offset and size of every field, and the number of everything else."""
    text, lines = declarations(), []
    for name, body in re.findall(r"typedef struct (\w+) \{([^}]*)\} \w+;", text):
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in re.findall(r"(\w+)(?:\[\w+\])?;", body):
            place = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
            lines.append(f'printf("{name}.{field} %zu %zu\\n", {place});')
    for body in re.findall(r"typedef enum \w+ \{([^}]*)\} \w+;", text):
        for name in re.findall(r"\b(MSGQ_\w+)(?=[\s=,]|$)", body):
            lines.append(f'printf("{name} %d\\n", (int){name});')
    for name in ("MSGQ_ID_SIZE", "MSGQ_LOG_SIZE", "MSGQ_OFFLINE_REASON_SIZE", "MSGQ_STATUS_NONE"):
        lines.append(f'printf("{name} %d\\n", (int){name});')
    return read(printed(lines))


def printed(lines: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="msgq-layout-") as name:
        source, program = Path(name, "layout.c"), Path(name, "layout")
        body = "\n".join(lines)
        source.write_text(f'#include <stdio.h>\n#include "msgqueue.h"\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
        subprocess.run(["gcc", "-std=c11", f"-I{HEADER.parent}", str(source), "-o", str(program)], check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def read(text: str) -> Layout:
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: tuple(int(number) for number in numbers) for name, *numbers in rows}


def broken(recorded: Layout, now: Layout) -> list[str]:
    """Returns the changes that break programs built with the recorded layout."""
    found = []
    for name, numbers in recorded.items():
        present = now.get(name)
        if present is None:
            found.append(f"{name} was removed")
        elif is_struct(name) and f"{name}.struct_size" in recorded:
            if present < numbers:
                found.append(f"{name} has {present[0]} bytes, fewer than {numbers[0]}")
        elif present != numbers:
            found.append(f"{name} was {numbers}, is {present}")
    for name in sorted(now.keys() - recorded.keys()):
        owner = name.partition(".")[0]
        # A new field in the former padding at the end would be read from older programs, which do not initialise it.
        if "." in name and owner in recorded and now[name][0] < recorded[owner][0]:
            found.append(f"{name} has offset {now[name][0]}, inside the {recorded[owner][0]} bytes of an older {owner}")
    return found


def is_struct(name: str) -> bool:
    return name.startswith("msgq_") and "." not in name


def main() -> int:
    if struct.calcsize("P") != 8:
        print("skipped: the recorded layout is for 64-bit machines")
        return 0
    recorded = read(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    now = layout()
    problems = [f"{problem}. {RULE}" for problem in broken(recorded, now)]
    if not problems and "--write" in sys.argv[1:]:
        rows = [" ".join([name, *map(str, numbers)]) for name, numbers in now.items()]
        RECORD.write_text("\n".join([FIRST_LINE, *rows]) + "\n", encoding="utf-8")
        recorded = now
    changed = [name for name, numbers in now.items() if recorded.get(name) != numbers]
    if changed and not problems:
        problems.append(f"not recorded: {', '.join(changed)}; run `python3 Tests/check_header.py --write`")
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"{len(now)} sizes, offsets and numbers; {len(problems)} problems")
    return 1 if problems or len(now) < 300 else 0


if __name__ == "__main__":
    sys.exit(main())

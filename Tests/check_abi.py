"""Compares the interface of the header with that of the recorded header, as abidiff sees it: functions, the types of
their parameters, structs, enumerations. check_header.py compares numbers; this finds a parameter of another type, too.

    python3 Tests/check_abi.py [HEADER]

abidiff compares libraries: both headers are compiled into libraries of empty functions. Programs that were built with
the recorded header must run, so functions, fields at the end of a struct and enumerators may be added, and no more.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check_header import HEADER, ROOT

RECORDED = ROOT / "Tests" / "fixtures" / "msgqueue-0.2.h"
VERSION_SCRIPT = ROOT / "Include" / "msgqueue.map"


def declarations(header: Path) -> str:
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)


def functions(header: Path) -> list[tuple[str, str, str]]:
    """Returns result type, name and parameters of each function."""
    pattern = r"^((?!typedef\b)\w[\w ]*[ *])(msgq_\w+)\(([^;{}]*)\);"
    found = re.findall(pattern, declarations(header), flags=re.MULTILINE)
    return [(result.strip(), name, parameters) for result, name, parameters in found]


def structs(header: Path) -> dict[str, list[str]]:
    """Returns the fields of each struct."""
    found = re.findall(r"typedef struct (\w+) \{([^}]*)\} \w+;", declarations(header))
    return {name: [" ".join(field.split()) for field in body.split(";")[:-1]] for name, body in found}


def grown(recorded: Path, header: Path) -> list[str]:
    """Returns the structs that have new fields after the recorded ones. That is allowed."""
    old, new = structs(recorded), structs(header)
    return [name for name in old if name in new and new[name] != old[name] == new[name][: len(old[name])]]


def stub(header: Path, directory: Path) -> Path:
    """Compiles a library of empty functions with debug information."""
    directory.mkdir()
    (directory / "msgqueue.h").write_bytes(header.read_bytes())
    bodies = [
        f"{result} {name}({parameters}) {{{'' if result == 'void' else ' return 0; '}}}"
        for result, name, parameters in functions(header)
    ]
    source, library = directory / "stub.c", directory / "libmsgqueue.so"
    source.write_text('#include "msgqueue.h"\n' + "\n".join(bodies) + "\n", encoding="utf-8")
    flags = ["-std=c11", "-g", "-shared", "-fPIC", f"-Wl,--version-script={VERSION_SCRIPT}"]
    subprocess.run(["gcc", *flags, f"-I{directory}", str(source), "-o", str(library)], check=True)
    return library


def broken(recorded: Path, header: Path) -> str:
    """Returns what abidiff reports about changes that break a program; "" if there are none."""
    with tempfile.TemporaryDirectory(prefix="msgq-abi-") as name:
        directory = Path(name)
        allowed = directory / "allowed"
        # An enumerator at the end is no change to abidiff; a function is not, by the option below.
        rules = [f"[suppress_type]\n  name = {struct}\n" for struct in grown(recorded, header)]
        allowed.write_text("".join(rules), encoding="utf-8")
        old, new = stub(recorded, directory / "old"), stub(header, directory / "new")
        command = ["abidiff", "--suppressions", str(allowed), "--no-added-syms", "--no-show-locs", str(old), str(new)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    # The exit code has bits: 1 and 2 errors, 4 a change, 8 one that is certainly incompatible.
    if done.returncode & 3:
        raise SystemExit(f"abidiff failed: {done.stdout}{done.stderr}")
    return done.stdout if done.returncode else ""


def main() -> int:
    header = Path(sys.argv[1]) if len(sys.argv) > 1 else HEADER
    report = broken(RECORDED, header)
    if report:
        print(report)
        print(f"FAIL programs that were built with {RECORDED.name} would break")
    print(f"{len(functions(RECORDED))} functions compared; {1 if report else 0} problems")
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())

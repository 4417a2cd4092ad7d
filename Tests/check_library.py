"""Checks the exports, dependencies and size of the release library, and that the lists of functions agree: header,
library, the table of the Python binding, and the C tests, which must call every function.

    python3 Tests/check_library.py LIBRARY
"""

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 11 * 1024 * 1024
NEWEST_GLIBC = (2, 34)
VERSION_NODE = "MSGQUEUE_0"


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def without_comments(source: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", source, flags=re.DOTALL)


def header_functions() -> set[str]:
    source = without_comments((ROOT / "Include" / "msgqueue.h").read_text())
    source = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", " ", source, flags=re.MULTILINE)
    # A name followed by "(*" is the result type of a function pointer, not a prototype.
    return set(re.findall(r"\b(msgq_\w+)\s*\((?!\s*\*)", source))


def exported(library: str) -> set[str]:
    # The table may contain local symbols, too, which programs cannot link to.
    lines = output("nm", "-D", "--defined-only", "--extern-only", library).splitlines()
    # The version node itself is an absolute symbol.
    return {line.split()[-1].split("@")[0] for line in lines if line.strip() and line.split()[-2] != "A"}


def symbol_versions(library: str) -> set[str]:
    """Returns the version nodes of the exported symbols."""
    lines = output("nm", "-D", "--defined-only", "--extern-only", "--with-symbol-versions", library).splitlines()
    names = [line.split()[-1] for line in lines if line.split()[-2] != "A"]
    return {name.rpartition("@")[2] for name in names}


def newest_glibc(library: str) -> tuple[int, int]:
    found = re.findall(r"@GLIBC_(\d+)\.(\d+)", output("nm", "-D", "--undefined-only", library))
    return max((int(major), int(minor)) for major, minor in found)


def python_functions() -> set[str]:
    """Returns the keys of the table FUNCTIONS, read from the source."""
    for path in sorted((ROOT / "bindings" / "python" / "src" / "msgqueue").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            named = any(isinstance(target, ast.Name) and target.id == "FUNCTIONS" for target in targets)
            if named and isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
                return {str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)}
    return set()


def called_by_the_c_tests() -> set[str]:
    sources = "\n".join(without_comments(path.read_text()) for path in (ROOT / "Tests" / "C").glob("**/*.c"))
    return set(re.findall(r"\b(msgq_\w+)\s*\(", sources))


def stripped_size(library: str) -> int:
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, library], check=True)
        return Path(stripped.name).stat().st_size


def differences(what: str, expected: set[str], found: set[str]) -> list[str]:
    lists = [("missing", expected - found), ("unexpected", found - expected)]
    return [f"{what}: {word} {', '.join(sorted(names))}" for word, names in lists if names]


def main() -> int:
    library = sys.argv[1]
    header = header_functions()
    dynamic = output("readelf", "-d", library)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    sonames = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    size = stripped_size(library)

    problems = differences("exports of the library compared with the header", header, exported(library))
    problems += differences("FUNCTIONS of the Python binding compared with the header", header, python_functions())
    problems += differences("calls of the C tests compared with the header", header, called_by_the_c_tests() & header)
    if sonames != ["libmsgqueue.so.0"]:
        problems.append(f"the soname is {sonames}, expected libmsgqueue.so.0")
    if symbol_versions(library) != {VERSION_NODE}:
        problems.append(f"the functions have the versions {sorted(symbol_versions(library))}, expected {VERSION_NODE}")
    if newest_glibc(library) > NEWEST_GLIBC:
        problems.append(f"needs glibc {newest_glibc(library)}, newer than {NEWEST_GLIBC}")
    swift = [name for name in needed if name.startswith(("libswift", "lib_Swift", "libFoundation", "libdispatch"))]
    if swift:
        problems.append(f"needs {', '.join(swift)}: the Swift runtime must be linked statically")
    # Symbols that are not exported are in the table of a library that was not stripped.
    symbols = output("nm", "-a", library)
    if "8MsgQueue" not in symbols:
        problems.append("has no symbol table, so that its content cannot be checked")
    foundation = re.search(r"\S*(?:18MsgQueueFoundation|10Foundation|20FoundationEssentials)\S*", symbols)
    if foundation:
        problems.append(f"contains Foundation: {foundation[0]}")
    if size > MOST_BYTES:
        problems.append(f"has {size} bytes stripped, more than {MOST_BYTES}")

    for problem in problems:
        print(f"FAIL {problem}")
    print(f"needs {' '.join(needed)}")
    print(f"{len(header)} functions in each list; {size / 1048576:.1f} MiB stripped; {len(problems)} problems")
    return 1 if problems or not header else 0


if __name__ == "__main__":
    sys.exit(main())

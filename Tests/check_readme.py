"""Runs the code in README.md: every block of C, Python and Swift is a whole program, and a block of plain text right
after one is what it prints. With Swift, also the code in the simulation kit's article.

    python3 Tests/check_readme.py c|python|swift

C and Python run against .build/release. Swift is built in a package of its own that depends on this one by path, as any
package would.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / ".build" / "release"
BUILD = ROOT / ".build-tests"
# Each language's first block is its introduction in the README, and short enough to be taken in at a glance.
MOST_LINES = 15

MANIFEST = """// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "scratch",
    dependencies: [.package(name: "libmsgqueue", path: "{root}")],
    targets: [
{targets}
    ],
    swiftLanguageModes: [.v6]
)
"""
PRODUCTS = ", ".join(f'.product(name: "{name}", package: "libmsgqueue")' for name in ("MsgQueue", "MsgQueueSimulation"))
README = ROOT / "README.md"
ARTICLE = ROOT / "Sources/MsgQueueSimulation/MsgQueueSimulation.docc/MsgQueueSimulation.md"


class Example(NamedTuple):
    """A block of code and what it is to print (None: not said)."""

    name: str
    code: str
    expected: str | None
    # It opens a store of its own.
    has_store: bool


def examples(language: str) -> list[Example]:
    found = []
    for document in [README, ARTICLE] if language == "swift" else [README]:
        blocks = re.findall(
            r"^```(\w*)\n(.*?)^```\n(\s*```text\n(.*?)^```)?", document.read_text(), re.MULTILINE | re.DOTALL
        )
        found += [
            (code, expected if said else None, document == README)
            for name, code, said, expected in blocks
            if name == language
        ]
    return [Example(f"{language}{number}", *example) for number, example in enumerate(found, 1)]


def run(command: list[str], directory: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def run_c(example: Example, directory: Path) -> str:
    source, program = directory / f"{example.name}.c", directory / example.name
    source.write_text(example.code)
    # The soname is what a linked program asks for at run time.
    for name in ("libmsgqueue.so", "libmsgqueue.so.0"):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(LIBRARY / "libmsgqueue.so")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", f"-I{ROOT / 'Include'}"]
    run(["gcc", *flags, str(source), "-o", str(program), f"-L{directory}", "-lmsgqueue"], directory)
    return run([str(program)], directory, LD_LIBRARY_PATH=str(directory))


def run_python(example: Example, directory: Path) -> str:
    source = directory / f"{example.name}.py"
    source.write_text(example.code)
    variables = {
        "PYTHONPATH": str(ROOT / "bindings" / "python" / "src"),
        "MSGQUEUE_LIBRARY": str(LIBRARY / "libmsgqueue.so"),
    }
    return run([sys.executable, "-W", "error", str(source)], directory, **variables)


def build_swift(found: list[Example]) -> Path:
    """One scratch package for all of them: the dependency is built once."""
    package = BUILD / "scratch"
    for example in found:
        sources = package / "Sources" / example.name
        sources.mkdir(parents=True, exist_ok=True)
        (sources / "main.swift").write_text(example.code)
    targets = "\n".join(
        f'        .executableTarget(name: "{example.name}", dependencies: [{PRODUCTS}]),' for example in found
    )
    (package / "Package.swift").write_text(MANIFEST.format(root=ROOT, targets=targets))
    run(["swift", "build"], package)
    return package / ".build" / "debug"


def main() -> int:
    language = sys.argv[1]
    found = examples(language)
    problems = [] if found else [f"there is no example in {language}"]
    if found and len(found[0].code.splitlines()) > MOST_LINES:
        problems.append(f"the first example in {language} has more than {MOST_LINES} lines")
    programs = build_swift(found) if language == "swift" else None
    for example in found:
        with tempfile.TemporaryDirectory(prefix="msgq-readme-") as name:
            directory = Path(name)
            if programs is not None:
                printed = run([str(programs / example.name)], directory)
            else:
                printed = run_c(example, directory) if language == "c" else run_python(example, directory)
            if example.has_store and not list(directory.glob("*.db")):
                problems.append(f"{example.name} left no store")
        if example.expected is not None and printed != example.expected:
            problems.append(f"{example.name} printed\n{printed}instead of\n{example.expected}")
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"{len(found)} examples in {language}, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

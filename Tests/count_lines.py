"""Counts the lines of code of each layer of the engine, without blank lines and comments.

    python3 Tests/count_lines.py [COMMIT]

COMMIT: of that commit instead of the files as they are.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = "Sources/MsgQueue"


def count(text: str) -> int:
    """Returns the number of lines that are neither blank nor only a comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


def files(commit: str | None) -> dict[str, str]:
    """Returns the texts of the engine's files by path."""
    if commit is None:
        return {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / ENGINE).rglob("*.swift")}

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    names = git("ls-tree", "-r", "--name-only", commit, ENGINE).splitlines()
    return {name: git("show", f"{commit}:{name}") for name in names if name.endswith(".swift")}


def main() -> int:
    layers: Counter[str] = Counter()
    for name, text in files(sys.argv[1] if len(sys.argv) > 1 else None).items():
        parts = Path(name).relative_to(ENGINE).parts
        layers[parts[0] if len(parts) > 1 else "(the Swift API)"] += count(text)
    for layer, lines in sorted(layers.items()):
        print(f"{lines:7,} {layer}")
    print(f"{layers.total():7,} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compiles each layer of the engine with nothing but the layers below it, so that none uses what stands above.

    python3 Tests/check_layers.py

`ALLOWED` says what each layer may use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "Sources"
ENGINE = SOURCES / "MsgQueue"

# The layers that each layer may use. The Swift API (API, and the files in no folder) may use all of them.
PURE = ["Model", "Rules"]
STORE = [*PURE, "Scheduling", "Platform"]
ALLOWED = {
    "Model": [],
    "Rules": ["Model"],
    "Scheduling": PURE,
    "Platform": ["Model"],
    "Wire": PURE,
    "Storage": STORE,
    "Connectivity": ["Model", "Platform"],
    "Engine": [*STORE, "Storage", "Connectivity"],
    "Async": [*STORE, "Storage", "Connectivity", "Engine"],
    "Control": [*STORE, "Storage", "Connectivity", "Engine", "Wire"],
}
# The public enumerations of the model are nested in these types, which for the layers below the API are only names.
NAMES = "public enum MessageQueue { public enum Attempt {}; public enum Report {}; public enum Explanation {} }\n"


def resources() -> str:
    """Returns the folder of the compiler's own libraries."""
    target = subprocess.run(["swiftc", "-print-target-info"], capture_output=True, text=True, check=True).stdout
    return str(json.loads(target)["paths"]["runtimeResourcePath"])


def files(layer: str) -> list[str]:
    """Returns the files of a layer."""
    return sorted(str(file) for file in (ENGINE / layer).rglob("*.swift"))


def errors(layer: str, below: list[str], names: Path, macros: str) -> list[str]:
    """Returns what the compiler says about a layer that sees only the layers below it."""
    command = ["swiftc", "-frontend", "-typecheck", "-module-name", "MsgQueue", "-package-name", "libmsgqueue"]
    command += ["-swift-version", "6", "-parse-as-library", "-plugin-path", macros]
    for module in ("CSQLite", "CPlatform"):
        command += ["-I", str(SOURCES / module)]
    for file in files(layer):
        command += ["-primary-file", file]
    command += [file for other in below for file in files(other)]
    result = subprocess.run([*command, str(names)], capture_output=True, text=True, check=False)
    found = [line for line in result.stderr.splitlines() if ": error:" in line and not line.startswith(" ")]
    if result.returncode != 0 and not found:
        found = result.stderr.splitlines()[-5:]
    return sorted(set(found))


def main() -> int:
    folders = {folder.name for folder in ENGINE.iterdir() if folder.is_dir() and any(folder.rglob("*.swift"))}
    failed = sorted(folders ^ {*ALLOWED, "API"})
    for layer in failed:
        print(f"{layer} is a folder of {ENGINE} or in ALLOWED, but not in both")
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "Names.swift"
        names.write_text(NAMES)
        macros = f"{resources()}/host/plugins"
        for layer, below in ALLOWED.items():
            if found := errors(layer, below, names, macros):
                failed.append(layer)
                print(f"{layer}, which may use {', '.join(below) or 'no other layer'}:", *found, sep="\n  ")
    print(f"{len(ALLOWED) - len(failed)} passed, {len(failed)} failed: layers that use only the layers below them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

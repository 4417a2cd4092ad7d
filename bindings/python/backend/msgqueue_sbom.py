"""The bill of materials of the wheel: what is linked into the library, as CycloneDX has it."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

NAME = "msgqueue.cdx.json"


def written(library: Path, sqlite: Path, version: str, seconds: int) -> str:
    """Returns the document.

    Args:
        library: The library with SQLite and the Swift runtime inside.
        sqlite: The archive from which SQLite was linked.
        version: That of the package.
        seconds: The time of the build, since 1970.
    """
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "library",
                "bom-ref": "msgqueue",
                "name": "msgqueue",
                "version": version,
                "purl": f"pkg:pypi/msgqueue@{version}",
            },
        },
        "components": [
            {
                "type": "library",
                "bom-ref": "libmsgqueue",
                "name": "libmsgqueue",
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(library.read_bytes()).hexdigest()}],
            },
            _sqlite(library, sqlite),
            {"type": "library", "bom-ref": "swift", "name": "Swift runtime", "version": _swift()},
        ],
        "dependencies": [
            {"ref": "msgqueue", "dependsOn": ["libmsgqueue"]},
            {"ref": "libmsgqueue", "dependsOn": ["sqlite", "swift"]},
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _sqlite(library: Path, archive: Path) -> dict[str, Any]:
    function = ctypes.CDLL(str(library)).msgq_sqlite_version
    function.restype = ctypes.c_char_p
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": "sqlite",
        "name": "SQLite",
        "version": function().decode(),
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(archive.read_bytes()).hexdigest()}],
    }
    # The package of the system has fixes that the version of SQLite does not show.
    shown = _output("dpkg-query", "--search", str(archive.resolve()))
    package = shown.partition(": ")[0] if shown else None
    found = _output("dpkg-query", "--show", "-f", "${Package} ${Version} ${Architecture}", package) if package else None
    if found:
        name, version, machine = found.split()
        component["purl"] = f"pkg:deb/debian/{name}@{version}?arch={machine}"
    else:
        component["purl"] = f"pkg:generic/sqlite@{component['version']}"
    return component


def _swift() -> str:
    found = re.search(r"Swift version (\S+)", _output("swift", "--version") or "")
    return found[1] if found else "unknown"


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None

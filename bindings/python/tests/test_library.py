"""How the library is found, and the errors when it is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

import msgqueue
from msgqueue import LibraryError, _library
from support import BINDING, TESTS


def test_the_environment_variable_names_the_only_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "nothing.so"
    monkeypatch.setenv("MSGQUEUE_LIBRARY", str(missing))
    with pytest.raises(LibraryError, match=r"MSGQUEUE_LIBRARY names .*nothing\.so"):
        _library._load()


def test_another_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = find_library("c")
    assert other is not None
    monkeypatch.setenv("MSGQUEUE_LIBRARY", other)
    with pytest.raises(LibraryError, match=f"{other} has no function msgq_"):
        _library._load()


def test_a_missing_library_names_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MSGQUEUE_LIBRARY", raising=False)
    monkeypatch.setattr(_library, "_candidates", lambda: iter(["/no/such/libmsgqueue.so", "libno-such-msgqueue.so.0"]))
    with pytest.raises(LibraryError) as caught:
        _library._load()
    assert isinstance(caught.value, ImportError)
    for named in ("MSGQUEUE_LIBRARY", "/no/such/libmsgqueue.so", "libno-such-msgqueue.so.0"):
        assert named in str(caught.value)


def test_the_search_goes_from_the_package_outwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "bindings" / "python" / "src" / "msgqueue"
    monkeypatch.setattr(_library, "__file__", str(package / "_library.py"))
    assert list(_library._candidates()) == [
        str(package / "libmsgqueue.so.0"),
        str(tmp_path / ".build" / "release" / "libmsgqueue.so"),
        "libmsgqueue.so.0",
    ]


def test_a_missing_library_names_every_place_and_what_to_do(tmp_path: Path) -> None:
    package = tmp_path / "a" / "b" / "c" / "msgqueue"
    shutil.copytree(Path(msgqueue.__file__).parent, package)
    ended = subprocess.run(
        [sys.executable, "-c", "import msgqueue; msgqueue.library_version()"],
        cwd=package.parent,
        # One that may be installed on this machine must not be found.
        env={"LD_LIBRARY_PATH": str(not_a_library(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    error = ended.stderr.partition("LibraryError: ")[2]
    for place in (package / "libmsgqueue.so.0", tmp_path / ".build" / "release" / "libmsgqueue.so"):
        assert f"  {place}: cannot open shared object file" in error
    assert "\n  libmsgqueue.so.0: " in error
    assert "install a wheel" in error
    assert "MSGQUEUE_LIBRARY" in error


def not_a_library(directory: Path) -> Path:
    """Returns a directory with a file of the library's name that the loader refuses."""
    (directory / "libmsgqueue.so.0").write_text("not a library")
    return directory


@pytest.mark.parametrize(("number", "fits"), [(200, True), (201, True), (199, False), (300, False), (10000, False)])
def test_an_incompatible_version_is_refused(number: int, fits: bool) -> None:
    if fits:
        _library._require_version("libmsgqueue.so", number)
    else:
        with pytest.raises(LibraryError, match=r"libmsgqueue.so is version \d+\.\d+\.\d+; this package needs 0\.2\.0"):
            _library._require_version("libmsgqueue.so", number)


def test_the_package_is_imported_without_a_library(tmp_path: Path) -> None:
    """Enumerations, errors and outcomes are available; only opening a queue needs the library."""
    shutil.copytree(Path(msgqueue.__file__).parent, tmp_path / "msgqueue")
    code = "import msgqueue; print(msgqueue.Outcome.sent().verdict.name)\nmsgqueue.MessageQueue('never.db')"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"MSGQUEUE_LIBRARY": str(tmp_path / "nothing.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "SENT\n"
    assert "LibraryError" in ended.stderr
    assert ended.returncode == 1
    assert not (tmp_path / "never.db").exists()


def test_the_package_has_no_dependency() -> None:
    assert "dependencies = []" in (BINDING / "pyproject.toml").read_text()
    assert (TESTS.parent / "src" / "msgqueue" / "py.typed").exists()

"""What the tests share: an installed prefix, the Debian packages, the wheel, and environments without Swift."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / "bindings" / "python"
LIBRARY = ROOT / ".build" / "release" / "libmsgqueue.so"
# check_header.py, check_library.py, check_abi.py
sys.path.insert(0, str(ROOT / "Tests"))


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, fails: bool = False) -> str:
    """Runs a command and returns what it printed. With `fails` it must end with an error."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode != 0) == fails, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def without_swift(**variables: str | Path) -> dict[str, str]:
    """Returns an environment in which no Swift, no library and no Python package of this project is found."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "PATH": path_without_swift(), **{name: str(value) for name, value in variables.items()}}


@cache
def path_without_swift() -> str:
    """Returns the PATH without Swift; in the place of a directory of the system that has it, one with links."""
    path = []
    for directory in map(Path, os.environ["PATH"].split(":")):
        if not (directory / "swift").exists():
            path.append(directory)
        elif (directory / "sh").exists():
            path.append(linked_without_swift(directory))
    found = ":".join(map(str, path))
    assert shutil.which("swift", path=found) is None
    return found


def linked_without_swift(directory: Path) -> Path:
    links = ROOT / ".build-tests" / "without-swift" / str(directory).replace("/", "-")
    shutil.rmtree(links, ignore_errors=True)
    links.mkdir(parents=True)
    for program in directory.iterdir():
        if not program.name.startswith("swift"):
            (links / program.name).symlink_to(program)
    return links


def in_a_bare_system(command: Sequence[str | Path], *, has_sqlite: bool) -> list[str]:
    """Returns a command that runs another one where there is no Swift, no compiler and, unless wanted, no SQLite.

    Their files are covered in a mount namespace of its own. Skips the test when the system does not permit that.
    """
    covered = [found for tool in ("swift", "swiftc", "gcc", "cc") if (found := shutil.which(tool))]
    if not has_sqlite:
        loader = run("ldconfig", "-p", env={**os.environ, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"})
        covered += re.findall(r"libsqlite3\.so\.0 .*=> (\S+)", loader)
    files = dict.fromkeys(Path(path).resolve() for path in covered)
    script = "".join(f"mount --bind /dev/null '{file}' && " for file in files) + 'exec "$@"'
    wrapped = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if subprocess.run([*wrapped, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted")
    return [*wrapped, *map(str, command)]


def in_a_copy_of_the_system(script: str, directory: Path) -> str:
    """Runs a shell script as root in a copy of this system, which it may change, and returns what it printed.

    The copy is an overlay in a mount namespace of its own. It contains the checkout and `directory`, where the script
    begins. Skips the test when the system does not permit that.
    """
    top = directory / "copy"
    top.mkdir()
    mounts = f"""
        mount -t tmpfs tmpfs '{top}'
        mkdir '{top}/changes' '{top}/work' '{top}/root'
        mount -t overlay overlay -o 'lowerdir=/,upperdir={top}/changes,workdir={top}/work' '{top}/root'
        mount --rbind /proc '{top}/root/proc'
        mount --rbind /dev '{top}/root/dev'
        for directory in '{ROOT}' '{directory}'; do
            mkdir -p "{top}/root$directory"
            mount --bind "$directory" "{top}/root$directory"
        done
        exec chroot '{top}/root' sh -ec "$1"
    """
    wrapped = ["unshare", "--mount", "sh", "-ec", mounts, "sh"]
    if subprocess.run([*wrapped, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("overlays in mount namespaces are not permitted")
    path = f"{without_swift()['PATH']}:/usr/sbin:/sbin"
    return run(*wrapped, f"cd '{directory}'\n{script}", env=without_swift(PATH=path))


def readme_program() -> str:
    """Returns the first program in C of the README; it prints PRINTED."""
    found = re.search(r"^```c\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def files_of_the_page() -> set[str]:
    """Returns the paths of the files of the review page in the Python package."""
    folder = PYTHON / "src" / "msgqueue" / "console" / "static"
    return {f"msgqueue/console/static/{path.name}" for path in folder.iterdir()}


PRINTED = "to ana: hello\n"


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory in which libmsgqueue is installed."""
    directory = tmp_path_factory.mktemp("install") / "prefix"
    run(ROOT / "bindings" / "c" / "install", env=without_swift(PREFIX=directory))
    return directory


@pytest.fixture(scope="session")
def debian_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the Debian packages."""
    directory = tmp_path_factory.mktemp("debian")
    run(ROOT / "bindings" / "c" / "deb" / "build", directory, env=without_swift())
    return directory


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel that pip builds, with the tools that it installs for that."""
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--wheel-dir", directory, PYTHON)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """Returns the Python of a fresh virtual environment with nothing but the wheel."""
    directory = tmp_path_factory.mktemp("venv") / "venv"
    run(sys.executable, "-m", "venv", directory)
    python = directory / "bin" / "python"
    run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", wheel, env=without_swift())
    return python

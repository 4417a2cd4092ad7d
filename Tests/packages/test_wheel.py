"""The wheel: what pip builds, what is in it, and that it works where there is nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import zipfile
from pathlib import Path

import check_library
import pytest
from conftest import PYTHON, ROOT, files_of_the_page, in_a_bare_system, run, without_swift

# A program of a user, in a directory of its own.
PROGRAM = """
from msgqueue import MessageQueue, Mode, Outcome, library_version
with MessageQueue("outbox.db", lambda delivery: Outcome.sent(text=delivery.text), mode=Mode.MANUAL) as queue:
    ids = queue.enqueue_batch([{"body": "hello"}, {"body": "again", "conversation": "ana"}])
    remaining = queue.drain().remaining
    print(remaining, queue.counts().sent, queue.get(ids[1]).conversation, library_version())
"""
PRINTED = "0 2 ana 0.2.0\n"


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the library in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (inside,) = (name for name in archive.namelist() if ".so" in name)
        assert inside == "msgqueue/libmsgqueue.so.0"
        return Path(archive.extract(inside, tmp_path_factory.mktemp("library")))


def test_I2_the_wheel_is_for_manylinux_2_34_and_every_python(wheel: Path) -> None:
    machine = os.uname().machine
    assert wheel.name.endswith(f"-py3-none-manylinux_2_34_{machine}.whl")
    shown = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    assert f'is consistent with the following platform tag: "manylinux_2_34_{machine}"' in shown
    assert "libsqlite3" not in shown


def test_I2_the_library_in_the_wheel_is_complete_and_contains_sqlite(library: Path) -> None:
    assert check_library.exported(str(library)) == check_library.header_functions()
    assert check_library.symbol_versions(str(library)) == {check_library.VERSION_NODE}
    assert check_library.newest_glibc(str(library)) <= (2, 34)
    needed = set(re.findall(r"\(NEEDED\).*\[(lib.*)\]", run("readelf", "-d", library)))
    assert needed <= {"libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6"}
    # No symbol of SQLite can be taken from, or given to, another library of the process.
    assert "sqlite3" not in run("nm", "--dynamic", library)
    assert "SQLite format 3" in run("strings", library)


def test_I2_I5_the_files_of_the_review_page_are_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert files_of_the_page() <= set(archive.namelist())


def member(wheel: Path, name: str) -> bytes:
    """Returns the file of the wheel's metadata with this name."""
    with zipfile.ZipFile(wheel) as archive:
        (found,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
        return archive.read(found)


def test_I2_the_wheel_says_what_is_linked_into_its_library(wheel: Path, environment: Path, library: Path) -> None:
    document = json.loads(member(wheel, "sboms/msgqueue.cdx.json"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    components = {each["name"]: each for each in document["components"]}
    assert list(components) == ["libmsgqueue", "SQLite", "Swift runtime"]
    versions = "import msgqueue; print(msgqueue.library_version(), msgqueue.sqlite_version())"
    shown = run(environment, "-c", versions, env=without_swift()).split()
    assert [components[name]["version"] for name in ("libmsgqueue", "SQLite")] == shown
    assert re.fullmatch(r"\d+\.\d+.*", components["Swift runtime"]["version"])
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    assert components["libmsgqueue"]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_I2_the_links_of_the_page_lead_from_anywhere_to_files_of_the_checkout(wheel: Path) -> None:
    headers, _, page = member(wheel, "METADATA").decode().partition("\n\n")
    urls = dict(re.findall(r"^Project-URL: (\w+), (\S+)$", headers, re.MULTILINE))
    assert set(urls) == {"Repository", "Documentation", "Changelog"}
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", page) if not link.startswith("#")]
    base = f"{urls['Repository']}/blob/HEAD/"
    assert len(links) > 2
    for link in [*links, urls["Documentation"], urls["Changelog"]]:
        assert link.startswith(base)
        assert (ROOT / link.removeprefix(base).partition("#")[0]).is_file()


def test_I2_a_wheel_that_is_built_again_has_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    moment = int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    with zipfile.ZipFile(wheel) as archive:
        # Without SOURCE_DATE_EPOCH the files have the time of the last commit; a zip file has even seconds.
        times = {each.date_time for each in archive.infolist()}
    assert times == {time.gmtime(moment - moment % 2)[:6]}
    built = []
    for name in ("one", "two"):
        settings = without_swift(SOURCE_DATE_EPOCH="1700000000")
        pip_wheel(tmp_path / name, "--config-settings", "library=none", env=settings)
        (path,) = (tmp_path / name).iterdir()
        built.append(path.read_bytes())
        time.sleep(2)
    assert built[0] == built[1]
    with zipfile.ZipFile(path) as archive:
        assert {each.date_time for each in archive.infolist()} == {time.gmtime(1700000000)[:6]}
        assert not any("sboms" in each for each in archive.namelist())


def test_I2_the_wheel_works_in_an_environment_without_swift(environment: Path, tmp_path: Path) -> None:
    assert run(environment, "-W", "error", "-c", PROGRAM, cwd=tmp_path, env=without_swift()) == PRINTED
    where = "import msgqueue._library as l; print(next(l._candidates()))"
    assert str(environment.parent.parent) in run(environment, "-c", where, cwd=tmp_path, env=without_swift())


def test_I2_the_wheel_works_without_swift_compiler_and_sqlite_on_the_system(environment: Path, tmp_path: Path) -> None:
    nothing = """
import ctypes
try:
    ctypes.CDLL("libsqlite3.so.0")
    raise SystemExit("SQLite is there")
except OSError:
    pass
"""
    command = in_a_bare_system([environment, "-c", nothing + PROGRAM], has_sqlite=False)
    assert run(*command, cwd=tmp_path, env=without_swift()) == PRINTED


def test_I4_the_wheel_installs_the_command(environment: Path, tmp_path: Path) -> None:
    command = environment.with_name("msgq")
    run(environment, "-c", PROGRAM, cwd=tmp_path, env=without_swift())
    assert '"body":"again"' in run(command, "export", "outbox.db", "-q", cwd=tmp_path, env=without_swift())
    module: list[str | Path] = [environment, "-m", "msgqueue"]
    assert run(*module, "--version", cwd=tmp_path, env=without_swift()).startswith("msgq 0.2.0 (libmsgqueue 0.2.0, ")


def test_I2_another_sqlite_of_the_program_is_not_used(environment: Path, tmp_path: Path) -> None:
    """The loader takes a function of the program, or of an earlier library, before that of a shared library."""
    (tmp_path / "other.c").write_text(
        "#include <stdlib.h>\nint sqlite3_open_v2(void) { abort(); }\nint sqlite3_step(void) { abort(); }\n"
    )
    run("gcc", "-shared", "-fPIC", tmp_path / "other.c", "-o", tmp_path / "other.so")
    settings = without_swift(LD_PRELOAD=tmp_path / "other.so")
    assert run(environment, "-c", PROGRAM, cwd=tmp_path, env=settings) == PRINTED


def test_I2_D1_the_sqlite3_of_python_does_not_release_the_lock_on_the_store(environment: Path, tmp_path: Path) -> None:
    """Two copies of SQLite in one process: the second one's close releases POSIX locks of the first."""
    code = """
import sqlite3, subprocess, sys
from contextlib import closing
from pathlib import Path
from msgqueue import MessageQueue

OTHER = '''
from msgqueue import LockedError, MessageQueue
try:
    MessageQueue("outbox.db")
    print("opened")
except LockedError as error:
    print("locked", error.detail)
'''

def refused(after):
    said = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True, check=True).stdout
    assert said.startswith("locked"), (after, said)

with MessageQueue("outbox.db") as queue:
    queue.enqueue("one")
    refused("opening")
    with closing(sqlite3.connect("outbox.db", timeout=0)) as plain:
        try:
            plain.execute("SELECT count(*) FROM message").fetchall()
            raise SystemExit("the store is not locked")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), error
    refused("a connection that found the store locked")
    for how in ("immutable=1", "nolock=1&mode=ro"):
        with closing(sqlite3.connect(f"file:outbox.db?{how}", uri=True)) as plain:
            try:
                plain.execute("SELECT count(*) FROM sqlite_master").fetchall()
            except sqlite3.OperationalError as error:
                # Without locks SQLite cannot read a store with a log.
                assert how.startswith("nolock"), error
        refused(how)
    Path("outbox.db").read_bytes()
    refused("reading the file")
    queue.enqueue("two")
with closing(sqlite3.connect("outbox.db")) as plain:
    count, = plain.execute("SELECT count(*) FROM message").fetchone()
    print(count, *plain.execute("PRAGMA integrity_check").fetchone())
copies = {line.split()[-1] for line in open("/proc/self/maps") if "sqlite3" in line or "libmsgqueue" in line}
assert any("libmsgqueue" in copy for copy in copies) and any("sqlite3" in copy for copy in copies), copies
"""
    assert run(environment, "-c", code, cwd=tmp_path, env=without_swift()) == "2 ok\n"


def test_I2_the_types_of_the_installed_package_are_complete(environment: Path, tmp_path: Path) -> None:
    search = {**without_swift(), "PATH": f"{environment.parent}:{os.environ['PATH']}"}
    # An empty directory: in the checkout the sources would be checked instead of the installed package.
    report = run(sys.executable, "-m", "basedpyright", "--verifytypes", "msgqueue", cwd=tmp_path, env=search)
    assert "Type completeness score: 100%" in report
    assert int(re.findall(r'Symbols exported by "msgqueue": (\d+)', report)[0]) > 500


def pip_wheel(directory: Path, *options: str, env: dict[str, str] | None = None, fails: bool = False) -> str:
    """Builds a wheel with the tools of the tests, without installing any."""
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-build-isolation"]
    return run(*command, *options, "--wheel-dir", directory, PYTHON, env=env, fails=fails)


def test_I2_without_swift_pip_says_in_one_sentence_what_to_do(tmp_path: Path) -> None:
    said = pip_wheel(tmp_path, env=without_swift(), fails=True)
    assert "msgqueue: building libmsgqueue needs Swift 6.3 or later, and there is none in the PATH: install it" in said
    assert "or install a wheel of msgqueue, which needs neither Swift nor a compiler." in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_I2_an_archive_of_the_python_files_says_what_it_lacks(tmp_path: Path) -> None:
    code = "import sys; from msgqueue_build import build_sdist; print(build_sdist(sys.argv[1]))"
    backend = {**os.environ, "PYTHONPATH": str(PYTHON / "backend"), "PYTHONDONTWRITEBYTECODE": "1"}
    archive = tmp_path / run(sys.executable, "-c", code, tmp_path, cwd=PYTHON, env=backend).split()[-1]
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    said = run(*command, "--wheel-dir", tmp_path / "wheel", archive, fails=True)
    assert "msgqueue: the sources of libmsgqueue are not in " in said
    assert "run pip in a checkout of the whole project, or install a wheel of msgqueue" in said
    run(*command, "--wheel-dir", tmp_path / "wheel", "--config-settings", "library=none", archive, env=without_swift())
    assert [path.name.partition("-py3-")[2] for path in (tmp_path / "wheel").iterdir()] == ["none-any.whl"]


def test_I2_an_older_swift_is_named(tmp_path: Path) -> None:
    swift = tmp_path / "bin" / "swift"
    swift.parent.mkdir()
    swift.write_text("#!/bin/sh\necho 'Swift version 6.2.1 (swift-6.2.1-RELEASE)'\n")
    swift.chmod(0o755)
    settings = without_swift()
    settings["PATH"] = f"{swift.parent}:{settings['PATH']}"
    assert "needs Swift 6.3 or later, and this is 6.2: install it" in pip_wheel(
        tmp_path / "out", env=settings, fails=True
    )


def test_I2_a_wheel_without_the_library_needs_no_swift(tmp_path: Path) -> None:
    pip_wheel(tmp_path, "--config-settings", "library=none", env=without_swift())
    (built,) = tmp_path.iterdir()
    assert built.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built) as archive:
        assert not any(".so" in name for name in archive.namelist())
        assert "msgqueue/py.typed" in archive.namelist()
    assert "library is 'built' (the default) or 'none', not 'some'" in pip_wheel(
        tmp_path / "none", "--config-settings", "library=some", fails=True
    )


def test_I2_a_missing_sqlite_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "libsqlite3.a"
    said = pip_wheel(tmp_path, "--config-settings", f"sqlite={missing}", fails=True)
    assert f"msgqueue: the setting sqlite is not the absolute path of a file: {missing}" in said
    # A compiler that finds no static library answers with its name.
    gcc = tmp_path / "bin" / "gcc"
    gcc.parent.mkdir()
    gcc.write_text("#!/bin/sh\necho libsqlite3.a\n")
    gcc.chmod(0o755)
    said = pip_wheel(tmp_path, env={**os.environ, "PATH": f"{gcc.parent}:{os.environ['PATH']}"}, fails=True)
    assert (
        "msgqueue: the static library of SQLite is missing (Debian: apt-get install libsqlite3-dev), or install" in said
    )


def test_I2_the_build_leaves_nothing_in_the_checkout(wheel: Path) -> None:
    assert wheel.exists()
    assert not (PYTHON / "build").exists()
    assert list((ROOT / "bindings").rglob("*.so*")) == []


def test_I2_the_pypi_page_begins_with_pip_install(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        page = archive.read(metadata).decode().partition("\n\n")[2]
    assert page.index("pip install msgqueue") < page.index("```python")

"""bindings/c/deb/build: the Debian packages, built without Swift."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import PRINTED, ROOT, files_of_the_page, in_a_copy_of_the_system, readme_program, run, without_swift

NAMES = ("libmsgqueue-dev", "libmsgqueue0", "msgqueue")


def package(directory: Path, name: str) -> Path:
    (found,) = directory.glob(f"{name}_*.deb")
    return found


def field(deb: Path, name: str) -> str:
    return run("dpkg-deb", "--field", deb, name).strip()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, debian_packages: Path) -> Path:
    """Returns a directory into which all three packages are unpacked."""
    directory = tmp_path_factory.mktemp("unpacked")
    for name in NAMES:
        run("dpkg-deb", "--extract", package(debian_packages, name), directory)
    return directory


def test_I1_lintian_finds_no_error_but_the_missing_licence(debian_packages: Path) -> None:
    assert sorted(field(path, "Package") for path in debian_packages.iterdir()) == sorted(NAMES)
    command = [
        "lintian",
        "--allow-root",
        "--fail-on",
        "none",
        "--no-tag-display-limit",
        *map(str, debian_packages.iterdir()),
    ]
    found = re.findall(r"^E: (\S+): (\S+)", run(*command), re.MULTILINE)
    assert sorted(found) == [(name, "no-copyright-file") for name in sorted(NAMES)]


def test_I1_the_packages_name_what_they_need(debian_packages: Path) -> None:
    library = package(debian_packages, "libmsgqueue0")
    needed = {each.split()[0] for each in field(library, "Depends").split(",")}
    assert needed == {"libc6", "libgcc-s1", "libsqlite3-0", "libstdc++6"}
    version = field(library, "Version")
    assert field(package(debian_packages, "libmsgqueue-dev"), "Depends") == f"libmsgqueue0 (= {version})"
    assert "libmsgqueue0 (>= " in field(package(debian_packages, "msgqueue"), "Depends")
    assert field(package(debian_packages, "msgqueue"), "Architecture") == "all"


def test_I1_a_program_is_built_with_the_packages_and_runs(unpacked: Path, tmp_path: Path) -> None:
    triplet = run("dpkg-architecture", "-q", "DEB_HOST_MULTIARCH").strip()
    libraries = unpacked / "usr" / "lib" / triplet
    settings = without_swift(PKG_CONFIG_LIBDIR=libraries / "pkgconfig", PKG_CONFIG_SYSROOT_DIR=unpacked)
    flags = run("pkg-config", "--cflags", "--libs", "msgqueue", env=settings).split()
    # pkg-config leaves out the directories of the system.
    flags += [f"-I{unpacked}/usr/include", f"-L{libraries}"]
    (tmp_path / "outbox.c").write_text(readme_program(), encoding="utf-8")
    run("gcc", "outbox.c", "-o", "outbox", *flags, cwd=tmp_path, env=settings)
    assert (
        run(tmp_path / "outbox", cwd=tmp_path, env={"PATH": "/nowhere", "LD_LIBRARY_PATH": str(libraries)}) == PRINTED
    )
    assert shutil.which("man") is None or "msgqueue" in run(
        "man",
        "--local-file",
        unpacked / "usr" / "share" / "man" / "man3" / "msgqueue.3.gz",
        env=without_swift(MANPAGER="cat"),
    )


def test_I1_the_python_package_finds_the_library_of_the_system(unpacked: Path, tmp_path: Path) -> None:
    triplet = run("dpkg-architecture", "-q", "DEB_HOST_MULTIARCH").strip()
    modules = unpacked / "usr" / "lib" / "python3" / "dist-packages"
    settings = without_swift(
        PYTHONPATH=modules, LD_LIBRARY_PATH=unpacked / "usr" / "lib" / triplet, PYTHONDONTWRITEBYTECODE="1"
    )
    code = """
from importlib.metadata import version
import msgqueue
with msgqueue.MessageQueue("outbox.db") as queue:
    queue.enqueue("hello")
print(msgqueue.__file__, msgqueue.library_version(), version("msgqueue"))
"""
    version = version_of_header()
    assert (
        run(sys.executable, "-c", code, cwd=tmp_path, env=settings)
        == f"{modules}/msgqueue/__init__.py {version} {version}\n"
    )


def test_I4_the_package_has_the_command_with_its_manual_page(unpacked: Path, tmp_path: Path) -> None:
    triplet = run("dpkg-architecture", "-q", "DEB_HOST_MULTIARCH").strip()
    settings = without_swift(
        PYTHONPATH=unpacked / "usr" / "lib" / "python3" / "dist-packages",
        LD_LIBRARY_PATH=unpacked / "usr" / "lib" / triplet,
        PYTHONDONTWRITEBYTECODE="1",
    )
    command: list[str | Path] = [sys.executable, unpacked / "usr" / "bin" / "msgq"]
    code = "from msgqueue import MessageQueue; MessageQueue('outbox.db').close()"
    run(sys.executable, "-c", code, cwd=tmp_path, env=settings)
    assert run(*command, "enqueue", "outbox.db", "hello", "--id", "a", "-q", cwd=tmp_path, env=settings) == "a\n"
    assert '"body":"hello"' in run(*command, "export", "outbox.db", "-q", cwd=tmp_path, env=settings)
    share = unpacked / "usr" / "share"
    assert "retry-all" in (share / "bash-completion" / "completions" / "msgq").read_text()
    assert (share / "zsh" / "vendor-completions" / "_msgq").read_text().startswith("#compdef msgq\n")
    assert "-a retry-all" in (share / "fish" / "vendor_completions.d" / "msgq.fish").read_text()
    assert shutil.which("man") is None or "retry-all" in run(
        "man", "--local-file", share / "man" / "man1" / "msgq.1.gz", env=without_swift(MANPAGER="cat")
    )


def test_I1_I5_the_files_of_the_review_page_are_in_the_package(unpacked: Path) -> None:
    modules = unpacked / "usr" / "lib" / "python3" / "dist-packages"
    assert files_of_the_page() <= {str(path.relative_to(modules)) for path in modules.rglob("*") if path.is_file()}


def version_of_header() -> str:
    header = (ROOT / "Include" / "msgqueue.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define MSGQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


def test_I1_dpkg_installs_the_packages_and_removes_them(debian_packages: Path, tmp_path: Path) -> None:
    (tmp_path / "outbox.c").write_text(readme_program(), encoding="utf-8")
    for path in debian_packages.iterdir():
        shutil.copy(path, tmp_path)
    script = """
        dpkg --force-unsafe-io --install ./*.deb >/dev/null
        gcc outbox.c $(pkg-config --cflags --libs msgqueue) -o outbox
        ./outbox
        man -w msgqueue
        /usr/bin/python3 -c 'import msgqueue; print(msgqueue.__file__, msgqueue.library_version())'
        msgq --version | cut -d, -f1
        man -w msgq
        man -w msgq_open msgq_list_free
        ls /usr/lib/python3/dist-packages/msgqueue/__pycache__ | grep -c '^queue\\..*\\.pyc$'
        dpkg --purge msgqueue libmsgqueue-dev libmsgqueue0 >/dev/null
        find /usr -name '*msgqueue*'
    """
    module = "/usr/lib/python3/dist-packages/msgqueue/__init__.py"
    expected = [PRINTED.strip(), "/usr/share/man/man3/msgqueue.3.gz", f"{module} {version_of_header()}"]
    expected += [f"msgq {version_of_header()} (libmsgqueue {version_of_header()}", "/usr/share/man/man1/msgq.1.gz"]
    expected += ["/usr/share/man/man3/msgq_open.3.gz", "/usr/share/man/man3/msgq_list_at.3.gz", "1"]
    assert in_a_copy_of_the_system(script, tmp_path).splitlines() == expected


def test_I1_nothing_of_the_build_is_in_the_packages(debian_packages: Path) -> None:
    for name in NAMES:
        listed = run("dpkg-deb", "--contents", package(debian_packages, name))
        assert "__pycache__" not in listed
        assert str(ROOT) not in listed
        owners = set(re.findall(r"^\S+ (\S+)", listed, re.MULTILINE))
        assert owners == {"root/root"}

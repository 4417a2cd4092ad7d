"""bindings/c/install: the library, pkg-config, CMake, the manual page, and that they can be removed."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from pathlib import Path

import pytest
from check_library import header_functions
from conftest import PRINTED, ROOT, in_a_bare_system, in_a_copy_of_the_system, readme_program, run, without_swift

INSTALL = ROOT / "bindings" / "c" / "install"
HEADER = (ROOT / "Include" / "msgqueue.h").read_text(encoding="utf-8")
VERSION = ".".join(re.findall(r"#define MSGQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER))
FILES = {
    "include/msgqueue.h",
    "lib/cmake/msgqueue/msgqueueConfig.cmake",
    "lib/cmake/msgqueue/msgqueueConfigVersion.cmake",
    "lib/libmsgqueue.so",
    "lib/libmsgqueue.so.0",
    f"lib/libmsgqueue.so.{VERSION}",
    "lib/pkgconfig/msgqueue.pc",
    *(f"share/man/man3/{name}.3" for name in ("msgqueue", *header_functions())),
    "share/msgqueue/http.c",
    "share/msgqueue/http.h",
    "share/msgqueue/outbox.c",
    "share/msgqueue/outbox.h",
}


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_I1_everything_is_in_its_place(prefix: Path) -> None:
    assert files(prefix) == FILES
    assert str((prefix / "lib" / "libmsgqueue.so").readlink()) == "libmsgqueue.so.0"
    assert str((prefix / "lib" / "libmsgqueue.so.0").readlink()) == f"libmsgqueue.so.{VERSION}"


def test_I1_the_installed_library_needs_no_swift_and_no_place_of_its_own(prefix: Path) -> None:
    dynamic = run("readelf", "-d", prefix / "lib" / "libmsgqueue.so.0")
    needed = set(re.findall(r"\(NEEDED\).*\[(lib.*)\]", dynamic))
    assert needed <= {
        "libsqlite3.so.0",
        "libm.so.6",
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libc.so.6",
    }
    assert "RUNPATH" not in dynamic
    assert "RPATH" not in dynamic
    assert ".symtab" not in run("readelf", "-S", "--wide", prefix / "lib" / "libmsgqueue.so.0")


def test_I1_pkg_config_builds_a_program_that_runs_without_swift(prefix: Path, tmp_path: Path) -> None:
    environment = without_swift(PKG_CONFIG_PATH=prefix / "lib" / "pkgconfig")
    assert run("pkg-config", "--modversion", "msgqueue", env=environment) == f"{VERSION}\n"
    flags = run("pkg-config", "--cflags", "--libs", "msgqueue", env=environment).split()
    (tmp_path / "outbox.c").write_text(readme_program(), encoding="utf-8")
    run("gcc", "-std=c11", "outbox.c", "-o", "outbox", *flags, cwd=tmp_path, env=environment)
    for name in ("epoll", "small"):
        example = ROOT / "bindings" / "c" / "examples" / f"{name}.c"
        run("gcc", "-std=c11", example, "-o", name, *flags, cwd=tmp_path, env=environment)
    started = {"PATH": "/nowhere", "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert run(tmp_path / "outbox", cwd=tmp_path, env=started) == PRINTED
    assert run(tmp_path / "small", cwd=tmp_path, env=started).endswith("all checks passed\n")
    assert f"{prefix}/lib/libmsgqueue.so.0" in run(
        "ldd", tmp_path / "outbox", env={**environment, **started, "PATH": environment["PATH"]}
    )


def test_I1_B2_the_http_transport_is_built_with_pkg_config(prefix: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    sources = run("pkg-config", "--variable=sources", "msgqueue", env=environment).strip()
    flags = run("pkg-config", "--cflags", "--libs", "msgqueue", "libcurl", env=environment).split()
    (tmp_path / "outbox.c").write_text(
        "#include <http.h>\n#include <stdio.h>\n"
        "int main(void) { msgq_http_set_transport(NULL, NULL); return puts(msgq_http_error_detail()) < 0; }\n"
    )
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    files = ["outbox.c", f"{sources}/http.c", f"-I{sources}"]
    run("gcc", *strict, *files, "-o", "outbox", *flags, "-pthread", cwd=tmp_path)
    started = {"PATH": "/nowhere", "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert run(tmp_path / "outbox", cwd=tmp_path, env=started) == "options is NULL\n"


OUTBOX_PROGRAM = """
#include <outbox.h>
#include <stdio.h>
int main(void) {
  sqlite3 *database = NULL;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char id[MSGQ_ID_SIZE];
  if (sqlite3_open(":memory:", &database) != SQLITE_OK) return 1;
  if (msgq_outbox_put(database, &draft, id) != MSGQ_NOT_FOUND) return 2;
  if (sqlite3_exec(database, msgq_outbox_schema(), NULL, NULL, NULL) != SQLITE_OK) return 3;
  if (msgq_outbox_put(database, &draft, id) != MSGQ_OK) return 4;
  puts(msgq_outbox_error_detail());
  return sqlite3_close(database);
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_I1_T6_the_outbox_is_built_with_pkg_config(prefix: Path, tmp_path: Path, language: str) -> None:
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    sources = run("pkg-config", "--variable=sources", "msgqueue", env=environment).strip()
    flags = run("pkg-config", "--cflags", "--libs", "msgqueue", "sqlite3", env=environment).split()
    (tmp_path / "shop.c").write_text(OUTBOX_PROGRAM, encoding="utf-8")
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{sources}"]
    run("gcc", "-std=c11", *strict, "-c", f"{sources}/outbox.c", "-o", "outbox.o", *flags, cwd=tmp_path)
    run("gcc", "-x", language, *strict, "-c", "shop.c", "-o", "shop.o", *flags, cwd=tmp_path)
    run("gcc", "shop.o", "outbox.o", "-o", "shop", *flags, "-lstdc++", "-pthread", cwd=tmp_path)
    started = {"PATH": "/nowhere", "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert run(tmp_path / "shop", cwd=tmp_path, env=started).startswith("the database has no outbox")


PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(outbox C)
find_package(msgqueue {version} REQUIRED)
find_package(msgqueue {version} REQUIRED)
add_executable(outbox outbox.c)
target_link_libraries(outbox PRIVATE msgqueue::msgqueue)
find_package(CURL REQUIRED)
find_package(Threads REQUIRED)
add_library(http STATIC ${{msgqueue_SOURCES}}/http.c)
target_include_directories(http PUBLIC ${{msgqueue_SOURCES}})
target_link_libraries(http PUBLIC msgqueue::msgqueue CURL::libcurl Threads::Threads)
find_package(SQLite3 REQUIRED)
add_library(host_outbox STATIC ${{msgqueue_SOURCES}}/outbox.c)
target_include_directories(host_outbox PUBLIC ${{msgqueue_SOURCES}})
target_link_libraries(host_outbox PUBLIC msgqueue::msgqueue SQLite::SQLite3 Threads::Threads)
"""


def cmake(directory: Path, prefix: Path, version: str, *, fails: bool = False) -> str:
    directory.mkdir()
    (directory / "outbox.c").write_text(readme_program(), encoding="utf-8")
    (directory / "CMakeLists.txt").write_text(PROJECT.format(version=version), encoding="utf-8")
    environment = without_swift(CMAKE_PREFIX_PATH=prefix)
    return run("cmake", "-S", directory, "-B", directory / "build", cwd=directory, env=environment, fails=fails)


def test_I1_cmake_builds_a_program_that_runs_without_swift_also_after_the_prefix_moved(
    prefix: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    cmake(tmp_path / "project", moved, "0.2")
    # With http.c and outbox.c, from the directory that the package names.
    run("cmake", "--build", "build", cwd=tmp_path / "project", env=without_swift())
    program = tmp_path / "project" / "build" / "outbox"
    # CMake gives programs in the build directory the path of the library.
    assert run(program, cwd=tmp_path, env={"PATH": "/nowhere"}) == PRINTED


def test_I1_a_program_runs_where_swift_is_not_installed(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "outbox.c").write_text(readme_program(), encoding="utf-8")
    flags = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lmsgqueue"]
    run("gcc", "-std=c11", "outbox.c", "-o", "outbox", *flags, cwd=tmp_path, env=without_swift())
    command = in_a_bare_system([tmp_path / "outbox"], has_sqlite=True)
    assert run(*command, cwd=tmp_path, env=without_swift(LD_LIBRARY_PATH=prefix / "lib")) == PRINTED


@pytest.mark.parametrize("version", ["0.1", "0.3", "1.0", "0.2.99"])
def test_I1_cmake_refuses_another_version(prefix: Path, tmp_path: Path, version: str) -> None:
    said = " ".join(cmake(tmp_path / "project", prefix, version, fails=True).split())
    assert f'"msgqueue" that is compatible with requested version "{version}"' in said


def test_I1_the_manual_page_has_every_function_and_no_fault(prefix: Path) -> None:
    page = prefix / "share" / "man" / "man3" / "msgqueue.3"
    shown = without_swift(LC_ALL="C.UTF-8", MANWIDTH="120", MANPAGER="cat")
    text = run("man", "--warnings", "--local-file", page, env=shown)
    # A warning of groff begins with the name of the program or of the file.
    assert re.findall(r"^.*(?:warning|error): .*$", text, re.MULTILINE) == []
    assert re.findall(r"^NAME\n +msgqueue - (.*)$", text, re.MULTILINE) == [
        "embeddable, durable, offline-first outbound message queue"
    ]
    declared = header_functions()
    assert len(declared) > 60
    assert [name for name in declared if not re.search(rf"\b{name}\(", text)] == []
    titles = re.findall(r"^ \* -{10,} 1\. (.*)$|^/\* -{10,} \d+\. (.*?) \*/$", HEADER, re.MULTILINE)
    assert len(titles) == 18
    for title in titles:
        assert f"\n{''.join(title).upper()}\n" in text
    assert textwrap.indent(readme_program(), " " * 7) in text


def test_I1_every_function_has_a_manual_page(prefix: Path) -> None:
    manual = prefix / "share" / "man"
    pages = {name: (manual / "man3" / f"{name}.3").read_text(encoding="utf-8") for name in header_functions()}
    # A function without a comment of its own is on the page of what it belongs to.
    places = {name: (re.findall(r"^\.so man3/(\w+)\.3\n$", page) or [name])[0] for name, page in pages.items()}
    for name, place in places.items():
        title, _, synopsis = pages[place].partition("\n.SH NAME\n")[2].partition("\n.SH SYNOPSIS\n")
        names, _, summary = title.partition(" \\- ")
        assert name in names.split(", "), name
        assert summary, name
        assert re.search(rf"\b{name}\(", synopsis.partition("\n.SH DESCRIPTION\n")[0]), name
    together = {name: place for name, place in places.items() if name != place}
    assert together["msgq_message_free"] == "msgq_get"
    assert together["msgq_filter_init"] == "msgq_options_init"
    # One process for all pages, because each takes a third of a second.
    files = [manual / "man3" / f"{name}.3" for name in places if name not in together]
    text = run(
        "groff", "-k", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=120n", *files, env=without_swift(LC_ALL="C.UTF-8")
    )
    assert re.findall(r"^.*(?:warning: |error: ).*$", text, re.MULTILINE) == []
    assert text.count("\nSEE ALSO\n") == len(files)
    shown = without_swift(LC_ALL="C.UTF-8", MANWIDTH="120", MANPAGER="cat", MANPATH=manual)
    assert "Free it with msgq_message_free." in run("man", "--warnings", "msgq_message_free", env=shown)
    # The comment of the function, the options, and the types that these use.
    opened = run("man", "--warnings", "msgq_open", env=shown)
    assert "Opens the store in the file `path`, or makes it" in opened
    assert "uint64_t limit_messages;" in opened
    assert "MSGQ_ON_FULL_DROP_OLDEST /*" in opened
    assert "} msgq_statistics;" in pages["msgq_stats"]


def test_I1_the_readme_installs_into_a_private_directory(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (text for text in re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S) if "PKG_CONFIG_PATH" in text)
    (tmp_path / "outbox.c").write_text(readme_program(), encoding="utf-8")
    commands = block.replace("bindings/c/install", f"'{INSTALL}'")
    script = f"set -e\n{commands}\nman -w msgq_open msgqueue"
    home = tmp_path / "home"
    said = run("bash", "-c", script, cwd=tmp_path, env=without_swift(HOME=home)).splitlines()
    manual = home / ".local" / "share" / "man" / "man3"
    assert said[1:] == [PRINTED.strip(), f"{manual}/msgq_open.3", f"{manual}/msgqueue.3"]


def test_I1_the_readme_builds_with_the_flags_of_the_scripts() -> None:
    """With other flags, `bindings/c/install` and `bindings/demo` would build the library again."""
    of_each = [
        re.findall(r"swift build (-c release .*--product msgqueue)\b(?!-)", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("README.md", "bindings/setup.sh")
    ]
    assert of_each[0] == of_each[1]
    assert len(of_each[0]) == 1


def test_I1_installed_into_usr_local_it_is_found_without_any_variable(tmp_path: Path) -> None:
    (tmp_path / "outbox.c").write_text(readme_program(), encoding="utf-8")
    script = f"""
        mkdir -p /usr/local/include /usr/local/lib/pkgconfig
        '{INSTALL}' >/dev/null
        gcc outbox.c -lmsgqueue -o outbox
        ./outbox
        pkg-config --modversion msgqueue
        '{INSTALL}' --uninstall >/dev/null
        find /usr/local -name '*msgqueue*'
        ls -d /usr/local/include /usr/local/lib/pkgconfig
        ldconfig -p | grep -c msgqueue || true
    """
    expected = [PRINTED.strip(), VERSION, "/usr/local/include", "/usr/local/lib/pkgconfig", "0"]
    assert in_a_copy_of_the_system(script, tmp_path).splitlines() == expected


def test_I1_uninstall_leaves_nothing(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    run(INSTALL, env=without_swift(PREFIX=prefix))
    run(INSTALL, "--uninstall", env=without_swift(PREFIX=prefix))
    assert list(prefix.rglob("*")) == []


def test_I1_install_replaces_an_older_version_and_uninstall_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    prefix, libdir = tmp_path / "prefix", tmp_path / "prefix" / "lib" / "x86_64-linux-gnu"
    libdir.mkdir(parents=True)
    (libdir / "libmsgqueue.so.0.1.9").touch()
    (prefix / "include").mkdir()
    (prefix / "include" / "other.h").touch()
    settings = without_swift(PREFIX=prefix, LIBDIR=libdir)
    run(INSTALL, env=settings)
    run(INSTALL, env=settings)
    assert not (libdir / "libmsgqueue.so.0.1.9").exists()
    assert files(prefix) - {"include/other.h"} == {name.replace("lib/", "lib/x86_64-linux-gnu/", 1) for name in FILES}
    cmake(tmp_path / "project", prefix, "0.2")
    run(INSTALL, "--uninstall", env=settings)
    assert files(prefix) == {"include/other.h"}
    assert [path.name for path in prefix.iterdir()] == ["include"]


def test_I1_a_stage_is_put_before_every_path(tmp_path: Path) -> None:
    run(INSTALL, env=without_swift(PREFIX="/usr", DESTDIR=tmp_path))
    assert files(tmp_path) == {f"usr/{name}" for name in FILES}
    assert "prefix=/usr\n" in (tmp_path / "usr" / "lib" / "pkgconfig" / "msgqueue.pc").read_text(encoding="utf-8")
    run(INSTALL, "--uninstall", env=without_swift(PREFIX="/usr", DESTDIR=tmp_path))
    assert files(tmp_path) == set()


@pytest.mark.parametrize("variables", [{"PREFIX": "relative"}, {"PREFIX": "/a|b"}, {"LIBDIR": "lib"}])
def test_I1_install_refuses_a_path_that_it_cannot_use(tmp_path: Path, variables: dict[str, str]) -> None:
    environment = without_swift(DESTDIR=tmp_path, **variables)
    assert "not a usable absolute path" in run(INSTALL, env=environment, fails=True)
    assert list(tmp_path.iterdir()) == []


def test_I1_install_refuses_an_unknown_option(tmp_path: Path) -> None:
    assert "unknown option --remove" in run(INSTALL, "--remove", env=without_swift(DESTDIR=tmp_path), fails=True)
    assert list(tmp_path.iterdir()) == []

"""Builds products on a machine without libcurl, as a package manager would: MsgQueue and MsgQueueOutbox need nothing
of it and print no warning, MsgQueueHTTP says what to install. MsgQueue is built by the commands in README.md that make
its documentation.

    python3 Tests/check_products.py

The header of libcurl is hidden in a mount namespace. Where the system permits none, a header that cannot be compiled is
found before it, and what MsgQueueHTTP says is not tested.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_readme import README, released

TO_INSTALL = "apt install libcurl4-openssl-dev"


def documentation_commands() -> list[str]:
    """Returns the commands of the README that make the documentation."""
    blocks: list[str] = re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "docc convert" in block]
    return list(block.splitlines())


def of_product(name: str, commands: list[str]) -> str:
    """Returns the command of the README that builds MsgQueue for another product. Other flags would build all again."""
    (build,) = [command for command in commands if command.startswith("swift build --product MsgQueue ")]
    return build.replace("--product MsgQueue ", f"--product {name} ")


def curl_directories() -> list[Path]:
    return [path for path in (Path("/usr/include/curl"), *Path("/usr/include").glob("*/curl")) if path.is_dir()]


def hide(directories: list[Path]) -> list[str] | None:
    """Returns what goes before a command that must not see these directories; None: the system does not permit that."""
    mounts = "".join(f"mount -t tmpfs none {shlex.quote(str(path))} && " for path in directories)
    prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{mounts}exec "$@"', "sh"]
    try:
        works = subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return None
    return prefix if works else None


def output(command: list[str], directory: Path, path: Path) -> tuple[int, str]:
    # pkg-config finds only SQLite.
    done = subprocess.run(
        ["env", f"PKG_CONFIG_LIBDIR={path}", *command],
        cwd=directory,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=900,
    )
    return done.returncode, done.stdout


def only_sqlite(directory: Path) -> None:
    """Copies what pkg-config knows of SQLite."""
    found = subprocess.run(
        ["pkg-config", "--variable", "pcfiledir", "sqlite3"], check=False, capture_output=True, text=True
    )
    if found.returncode == 0:
        shutil.copy(Path(found.stdout.strip()) / "sqlite3.pc", directory)


def main() -> int:
    checkout = released()
    shutil.rmtree(checkout / ".build" / "symbols", ignore_errors=True)
    problems = []
    with tempfile.TemporaryDirectory(prefix="msgq-products-") as name:
        path = Path(name)
        only_sqlite(path)
        prefix = hide(curl_directories())
        (path / "curl").mkdir()
        (path / "curl" / "curl.h").write_text("#error hidden\n")
        commands = documentation_commands()
        for line in [*commands, of_product("MsgQueueOutbox", commands)]:
            command = shlex.split(line)
            if command[:2] == ["swift", "build"]:
                command += ["--disable-index-store"]
                command += ["-Xcc", f"-I{path}"] if prefix is None else []
            if command[:2] == ["docc", "convert"]:
                command += ["--warnings-as-errors"]
            code, printed = output([*(prefix or []), *command], checkout, path)
            if code != 0 or "warning" in printed.lower():
                problems.append(f"{line}\nended with {code} and printed\n{printed}")
        pages = list((checkout / ".build" / "MsgQueue.doccarchive" / "data").rglob("*.json"))
        if len(pages) < 100:
            problems.append(f"the documentation has {len(pages)} pages")
        said = "not tested: no mount namespace"
        if prefix is not None:
            command = [*shlex.split(of_product("MsgQueueHTTP", commands)), "--disable-index-store"]
            code, printed = output([*prefix, *command], checkout, path)
            said = "says what to install" if code != 0 and TO_INSTALL in printed else ""
            if not said:
                problems.append(f"MsgQueueHTTP does not say what to install:\n{printed}")
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"MsgQueue without libcurl: {len(pages)} pages; MsgQueueHTTP: {said}; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""A PostgreSQL server that the tests start on a free port of 127.0.0.1, and end by process id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PYTHON_TESTS = Path(__file__).resolve().parents[2] / "bindings" / "python" / "tests"

# A connection, or something of the driver, which is not installed where the types are checked.
Client = Any
psycopg: Client = pytest.importorskip("psycopg")


def programs() -> Path | None:
    """Returns the folder of the newest server that is installed; Debian has one for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class Server:
    """A server with databases of its own. As root it runs as another user, because it refuses to run as root."""

    def __init__(self) -> None:
        found = programs()
        if found is None:
            pytest.skip("postgresql is not installed")
        self._programs = found
        # Not in pytest's folder, which other users cannot read.
        self._folder = Path(tempfile.mkdtemp(prefix="msgqueue-postgresql-"))
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self._folder, "postgres", "postgres")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._log = self._folder / "log"
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "--pgdata", self._data, "--auth", "trust", "--username", "tests", "--encoding", "UTF8")
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, name: str, *arguments: object) -> None:
        command = [str(self._programs / name), *map(str, arguments)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
            cwd=self._folder,
            **self._user,
        )
        assert done.returncode == 0, done.stderr

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            # What is committed asynchronously stays in memory for as long as possible.
            "wal_writer_delay": "10s",
            "wal_writer_flush_after": 0,
            "deadlock_timeout": "200ms",
            "shared_buffers": "16MB",
        }
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._data), *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment(), cwd=self._folder, **self._user
            )
        end = time.monotonic() + 120
        while True:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.address("postgres")).close()
                return
            assert time.monotonic() < end, self._log.read_text()[-2000:]
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends the server: with SIGINT in order, with SIGQUIT at once."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(timeout=60)

    def crash(self) -> None:
        """Ends the server at once, which loses what it has not flushed, and starts it again."""
        self.stop(signal.SIGQUIT)
        self.start()

    def end(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder)

    def address(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=tests dbname={database}"

    def database(self, options: str = "") -> str:
        """Makes a database and returns its address."""
        self._databases += 1
        name = f"tests{self._databases}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {options}")
        return self.address(name)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture
def address(server: Server) -> str:
    """The address of a database of the test's own."""
    return server.database()

"""The programs of Sources/Documentation/Outbox.md for psycopg, SQLAlchemy and Django run as they stand there."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from postgresql import PYTHON_TESTS, address, psycopg, server

# The fixtures.
__all__ = ["address", "server"]

PAGE = Path(__file__).resolve().parents[2] / "Sources" / "Documentation" / "Outbox.md"
PROGRAMS = dict(re.findall(r"^```py\n# (\S+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
SENT = "to ana: two chairs\nto ben: a table\n"


def run(folder: Path, name: str, database: str, change: tuple[str, str] = ("", "")) -> subprocess.CompletedProcess[str]:
    assert change[0] in PROGRAMS[name]
    program = folder / name
    program.write_text(PROGRAMS[name].replace(*change) if change[0] else PROGRAMS[name], encoding="utf-8")
    return subprocess.run(
        [sys.executable, program],
        cwd=folder,
        env={"PYTHONPATH": str(PYTHON_TESTS.parent / "src"), "DATABASE": database, **library()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def library() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in ("MSGQUEUE_LIBRARY", "PATH")}


def test_T2_the_program_for_psycopg(address: str, tmp_path: Path) -> None:
    ended = run(tmp_path, "shop.py", address)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", SENT)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("name", ["sqlalchemy_shop.py", "django_shop.py"])
def test_T1_T2_the_recipes(request: pytest.FixtureRequest, tmp_path: Path, name: str, database: str) -> None:
    """Also: what is rolled back leaves neither the order nor the message."""
    if database == "sqlite":
        place = str(tmp_path / "shop.db")
        where = {"ENGINE": "django.db.backends.sqlite3", "NAME": place, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
        url = f"sqlite:///{place}"
    else:
        address = request.getfixturevalue("address")
        parts = dict(part.split("=") for part in address.split())
        where = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": parts["host"],
            "PORT": parts["port"],
            "USER": parts["user"],
            "NAME": parts["dbname"],
        }
        url = f"postgresql+psycopg://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    given = json.dumps(where) if name.startswith("django") else url
    end = "conversation=customer)\n"
    failing = run(tmp_path, name, given, (end, f"{end}            assert customer == 'ana'\n"))
    assert failing.returncode == 1
    assert "AssertionError" in failing.stderr
    table = "shop_order" if name.startswith("django") else "orders"
    if database == "sqlite":
        host = sqlite3.connect(tmp_path / "shop.db")
        counts = [host.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in (table, "msgq_outbox")]
        host.execute(f"DROP TABLE {table}")
        host.close()
    else:
        with psycopg.connect(request.getfixturevalue("address")) as connection:
            counts = [
                connection.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in (table, "msgq_outbox")
            ]
            connection.execute(f"DROP TABLE {table}")
    # Django has collected the first one, SQLAlchemy comes to it at the end.
    assert counts == [1, 0 if name.startswith("django") else 1]
    ended = run(tmp_path, name, given)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert failing.stdout + ended.stdout == "to ana: two chairs\n" + SENT

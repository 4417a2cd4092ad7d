"""T8 with Debian's PostgreSQL: the recipe that marks orders as sent is killed at every step, and the server crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgresql import Client, Server, address, psycopg, server
from test_order_status import ORDERS, check, fill, kill_at_every_step, run

# The fixtures.
__all__ = ["address", "server"]


def prepare(address: str) -> None:
    """Makes the host's tables again, with new orders."""
    with psycopg.connect(address) as connection:
        connection.execute("DROP TABLE IF EXISTS orders, order_feed, effects")
        fill(connection, "%s")


def test_T8_an_order_in_postgresql_is_marked_as_sent_once_whatever_step_is_killed(address: str, tmp_path: Path) -> None:
    def prepared(_: Path) -> str:
        prepare(address)
        return address

    assert kill_at_every_step(tmp_path, prepared, psycopg.connect) > 30


def test_T8_a_crash_of_the_server_repeats_what_it_lost_and_nothing_else(
    server: Server, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token and its effects are of one transaction, so a commit that the server loses takes both back."""
    for step in (15, 25, 35):
        prepare(address)
        store = tmp_path / f"{step}.db"
        with monkeypatch.context() as lazily:
            lazily.setenv("PGOPTIONS", "-c synchronous_commit=off")
            run(store, address, step)
        server.crash()
        assert not run(store, address, 0)
        connection: Client = psycopg.connect(address)
        check(connection, step)
        assert connection.execute("SELECT count(*) FROM effects").fetchone() == (ORDERS,)
        connection.close()

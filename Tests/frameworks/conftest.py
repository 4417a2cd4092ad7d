"""A PostgreSQL server for all tests that need one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON_TESTS = Path(__file__).resolve().parents[2] / "bindings" / "python" / "tests"
sys.path[:0] = [str(PYTHON_TESTS), str(PYTHON_TESTS.parent / "src")]

from postgresql import Server  # noqa: E402 - it imports the package


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture
def address(server: Server) -> str:
    """The address of a database of the test's own."""
    return server.database()

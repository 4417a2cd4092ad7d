"""A12: the defaults in the documentation are those of the library."""

from __future__ import annotations

from defaults import table, written


def test_A12_the_table_of_defaults_matches_the_library() -> None:
    """`python tests/defaults.py` writes the table."""
    assert written() == table()

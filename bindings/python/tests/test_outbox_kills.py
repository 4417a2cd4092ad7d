"""A program is killed at every step from the put of a message to the end of its collection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from killed import FATES
from support import TESTS, environment

#: The commands of one message are at least so many.
STEPS = 20


def killed(*arguments: object) -> int:
    """Returns at how many steps the program was killed."""
    ended = subprocess.run(
        [sys.executable, TESTS / "killed.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment(),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout.split()[-1])


@pytest.mark.parametrize("fate", FATES)
def test_T1_T3_a_message_is_neither_lost_nor_doubled_nor_back(tmp_path: Path, fate: str) -> None:
    """Also when the queue remembers no ids."""
    assert killed("sqlite-normal", tmp_path, fate, 0) >= STEPS


@pytest.mark.parametrize("fate", ["queued", "deleted"])
def test_T1_T3_the_same_with_ids_remembered_and_synchronous_full(tmp_path: Path, fate: str) -> None:
    assert killed("sqlite-full", tmp_path, fate, 86400) >= STEPS

"""The examples of the documentation run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import msgqueue
import msgqueue.aio
from receiver import Receiver
from support import BINDING, environment, run


def test_the_offline_example_sends_its_messages(tmp_path: Path, receiver: Receiver) -> None:
    example = BINDING / "examples" / "offline.py"
    assert len(example.read_text().splitlines()) <= 20
    code = f"import runpy\nrunpy.run_path({str(example)!r}, run_name='__main__')"
    ended = run(code, tmp_path / "outbox.db", receiver.port)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert receiver.texts == [f"hello {number}" for number in range(1, 6)]
    # Events and the report are printed by different threads: their order may vary.
    report = "Report(stop=<Stop.EMPTY: 0>, sent=5, failed=0, discarded=0, remaining=0, remaining_failed=0, put_back=0)"
    assert report in ended.stdout
    assert ended.stdout.count("from_status=SENDING, to_status=SENT") == 5


def test_T1_the_shop_example_sends_its_orders(tmp_path: Path) -> None:
    example = BINDING / "examples" / "shop.py"
    code = f"import runpy\nrunpy.run_path({str(example)!r}, run_name='__main__')"
    ended = run(code, tmp_path / "shop.db", tmp_path / "queue.db")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "to ana: order 1\nto ana: order 2\nto ana: order 3\n"


# Every block of Python in the README is a whole program; a block of plain text after it is its output.
README = re.findall(
    r"^```python\n(.*?)^```\n(?:\s*```text\n(.*?)^```)?", (BINDING / "README.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(("code", "expected"), README, ids=[str(number) for number in range(1, len(README) + 1)])
def test_the_examples_of_the_readme_run(tmp_path: Path, code: str, expected: str) -> None:
    assert len(code.splitlines()) <= 20
    script = tmp_path / "readme.py"
    script.write_text(code)
    ended = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    if expected:
        assert ended.stdout == expected
    else:
        assert "sending hello!" in ended.stdout
        assert "Report(stop=<Stop.EMPTY: 0>, sent=1" in ended.stdout


def test_importing_a_module_runs_nothing(tmp_path: Path) -> None:
    """Documentation tools and type checkers import every module, `msgqueue.__main__` among them."""
    code = """
        import importlib, os, pkgutil, sys
        import msgqueue
        os.chdir(sys.argv[1])
        sys.argv[1:] = ["enqueue", "outbox.db", "x", "--create"]
        for module in pkgutil.walk_packages(msgqueue.__path__, "msgqueue."):
            importlib.import_module(module.name)
        print("msgqueue.__main__" in sys.modules)
    """
    ended = run(code, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_can_be_imported() -> None:
    assert sorted(msgqueue.__all__) == sorted(set(msgqueue.__all__))
    assert all(hasattr(msgqueue, name) for name in msgqueue.__all__)
    assert all(hasattr(msgqueue.aio, name) for name in msgqueue.aio.__all__)

"""What the documentation shows is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgqueue
from receiver import Receiver
from support import BINDING, environment, run


def test_the_offline_example_sends_what_it_composed(tmp_path: Path, receiver: Receiver) -> None:
    example = BINDING / "examples" / "offline.py"
    assert len(example.read_text().splitlines()) <= 20
    code = f"import runpy\nrunpy.run_path({str(example)!r}, run_name='__main__')"
    ended = run(code, tmp_path / "outbox.db", receiver.port)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert receiver.texts == [f"hello {number}" for number in range(1, 6)]
    # Events are printed by another thread than the report: their lines may mix.
    assert "Report(stop=<Stop.EMPTY: 0>, sent=5, failed=0, discarded=0, remaining=0)" in ended.stdout
    assert ended.stdout.count("from_status=SENDING, to_status=SENT") == 5


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (BINDING / "README.md").read_text(), re.DOTALL)
    script = tmp_path / "readme.py"
    script.write_text(code)
    ended = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "sending hello!" in ended.stdout
    assert "Report(stop=<Stop.EMPTY: 0>, sent=1" in ended.stdout


def test_every_public_name_is_there() -> None:
    assert sorted(msgqueue.__all__) == sorted(set(msgqueue.__all__))
    assert all(hasattr(msgqueue, name) for name in msgqueue.__all__)

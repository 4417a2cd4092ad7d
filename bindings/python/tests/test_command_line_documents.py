"""I4: the transcripts of msgq in the documentation."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from command_line import command
from msgqueue.cli import exits
from support import PROJECT, environment

PAGES = ("README.md", "Sources/Documentation/CommandLine.md")


@pytest.mark.parametrize("page", PAGES)
def test_I4_the_transcripts_are_what_msgq_prints(page: str, tmp_path: Path) -> None:
    (transcript,) = re.findall(r"```console\n(.*?)```", (PROJECT / page).read_text(encoding="utf-8"), re.DOTALL)
    program = shlex.join(str(word) for word in command())
    printed = ""
    for line in re.findall(r"^\$ (.*)$", transcript, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", f'msgq() {{ {program} "$@"; }}\n{line}'],
            cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=60, check=False, env=environment(),
        )  # fmt: skip
        printed += f"$ {line}\n{done.stdout}"
    assert printed == transcript


def test_I4_the_exit_codes_are_documented() -> None:
    page = (PROJECT / "Sources/Documentation/CommandLine.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE))
    assert {int(code): text.replace("`", "") for code, text in rows.items()} == exits.TEXTS

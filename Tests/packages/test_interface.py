"""Programs that were built with an older header run with the new library, and a change that breaks them is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_abi import RECORDED, broken, functions
from check_header import HEADER
from check_library import header_functions
from conftest import ROOT, run


def test_I6_a_program_built_with_the_recorded_header_runs_with_the_installed_library(
    prefix: Path, tmp_path: Path
) -> None:
    (tmp_path / "msgqueue.h").symlink_to(RECORDED)
    source = ROOT / "Tests" / "C" / "built_with_0_2.c"
    run("gcc", "-std=c11", f"-I{tmp_path}", source, "-o", tmp_path / "program", f"-L{prefix / 'lib'}", "-lmsgqueue")
    settings = {"PATH": "/nowhere", "LD_LIBRARY_PATH": str(prefix / "lib")}
    run(tmp_path / "program", tmp_path / "outbox.db", cwd=tmp_path, env=settings)


def test_I6_the_header_breaks_no_program_built_with_the_recorded_one() -> None:
    assert {name for _, name, _ in functions(HEADER)} == header_functions()
    assert broken(RECORDED, HEADER) == ""


BREAKING = {
    "a function removed": ("\nvoid msgq_text_free(char *text);\n", "\n"),
    "a parameter of another type": (
        "int64_t timeout_ms, msgq_closed_fn closed,",
        "int32_t timeout_ms, msgq_closed_fn closed,",
    ),
    "a parameter more": ("msgq_text_free(char *text);", "msgq_text_free(char *text, int more);"),
    "a result of another type": ("\nsize_t msgq_list_size(", "\nint msgq_list_size("),
    "a field inserted": (
        "  uint64_t attempts;\n  uint64_t sent;",
        "  uint64_t more;\n  uint64_t attempts;\n  uint64_t sent;",
    ),
    "a smaller field": ("  uint64_t sent_bytes;", "  uint32_t sent_bytes;"),
    "a field of another type": ("  double jitter;", "  int64_t jitter;"),
    "a field at the end of a struct in another": (
        "} msgq_standing_prompt;",
        "  uint64_t more;\n} msgq_standing_prompt;",
    ),
    "an enumerator inserted": ("  MSGQ_BUSY, ", "  MSGQ_MORE, MSGQ_BUSY, "),
    "a callback of another type": (
        "msgq_closed_fn)(void *context, msgq_result result)",
        "msgq_closed_fn)(msgq_result result)",
    ),
}


@pytest.mark.parametrize("change", BREAKING)
def test_I6_a_change_that_breaks_programs_is_found(tmp_path: Path, change: str) -> None:
    assert broken(RECORDED, changed(tmp_path, *BREAKING[change])) != ""


ADDING = {
    "a function": (
        "\nvoid msgq_text_free(char *text);",
        "\nvoid msgq_more(int value);\nvoid msgq_text_free(char *text);",
    ),
    "a field at the end": ("} msgq_statistics;", "  uint64_t more;\n} msgq_statistics;"),
    "an enumerator at the end": ("  MSGQ_INTERNAL ", "  MSGQ_INTERNAL, MSGQ_MORE "),
}


@pytest.mark.parametrize("addition", ADDING)
def test_I6_additions_are_allowed(tmp_path: Path, addition: str) -> None:
    assert broken(RECORDED, changed(tmp_path, *ADDING[addition])) == ""


def changed(directory: Path, before: str, after: str) -> Path:
    """Returns a header in which one text is replaced."""
    text = RECORDED.read_text(encoding="utf-8")
    assert text.count(before) == 1
    header = directory / "changed.h"
    header.write_text(text.replace(before, after), encoding="utf-8")
    return header

"""The recipes of Sources/Documentation/Recipes.md: each program, and the options with which it opens its queue.

python tests/recipes.py    writes these options to Tests/fixtures/recipes.json, from which the Swift tests read them;
                           MSGQUEUE_LIBRARY names the library
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

TESTS = Path(__file__).resolve().parent
PROJECT = TESTS.parents[2]
PAGE = PROJECT / "Sources" / "Documentation" / "Recipes.md"
FIXTURE = PROJECT / "Tests" / "fixtures" / "recipes.json"
if __name__ == "__main__":
    sys.path[:0] = [str(TESTS.parent / "src")]

import msgqueue  # noqa: E402 - needs the path from above
from msgqueue import MessageQueue, _abi, _options  # noqa: E402 - as above

NAMES = ("manual", "ask", "retry", "history", "background", "automatic")

_OF_THE_PROGRAM = ("path", "transport", "on_event", "polled")
_NO_OPTIONS = ("struct_size", "callbacks", "ladder_ms", "ladder_count")


@dataclass(frozen=True)
class Recipe:
    """A program of the page with its output."""

    name: str
    code: str
    expected: str

    def run(self, directory: Path) -> tuple[str, dict[str, Any]]:
        """Runs the program in that directory. Returns its output and the options of its queue."""
        options: list[dict[str, Any]] = []

        class Recorder(MessageQueue):
            def __init__(self, path: str, *arguments: Any, **named: Any) -> None:
                bound = inspect.signature(MessageQueue).bind(path, *arguments, **named)
                options.append({name: value for name, value in bound.arguments.items() if name not in _OF_THE_PROGRAM})
                super().__init__(directory / path, *arguments, **named)

        printed = io.StringIO()
        with mock.patch.object(msgqueue, "MessageQueue", Recorder), contextlib.redirect_stdout(printed):
            exec(compile(self.code, f"Recipes.md, {self.name}", "exec"), {"__name__": "recipe"})
        (given,) = options
        return printed.getvalue(), given


def recipes() -> dict[str, Recipe]:
    """Returns the recipes by name, in the order of the page."""
    section = PAGE.read_text()
    found = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    if len(found) != len(NAMES) or section.count("```python") != len(NAMES):
        raise AssertionError(f"the page has {len(found)} recipes with output, not {len(NAMES)}")
    return {name: Recipe(name, code, expected) for name, (code, expected) in zip(NAMES, found)}


def in_c(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of msgq_options that these options change from their defaults."""
    options = _options.build(given)
    defaults = _options.library_defaults()
    fields = [name for name, *_ in _abi.Options._fields_ if name not in _NO_OPTIONS]
    found = {name: getattr(options, name) for name in fields if getattr(options, name) != getattr(defaults, name)}
    if options.ladder_count:
        found["ladder_ms"] = options.ladder_ms[: options.ladder_count]
    return found


def written() -> str:
    """Returns the fixture, generated from the page."""
    found = {}
    for name, recipe in recipes().items():
        with tempfile.TemporaryDirectory() as directory:
            _, given = recipe.run(Path(directory))
        found[name] = in_c(given)
    lines = [f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FIXTURE.write_text(written())

"""Every public call documents its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import msgqueue
from msgqueue import aio


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yields every public function, and every public method and constructor that a class defines."""
    for module in (msgqueue, aio):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            elif inspect.isclass(value) and value.__module__.startswith("msgqueue"):
                for attribute, member in vars(value).items():
                    function = member.__func__ if isinstance(member, classmethod) else member
                    is_ours = inspect.isfunction(function) and function.__module__.startswith("msgqueue")
                    if is_ours and (not attribute.startswith("_") or value.__name__ == "MessageQueue"):
                        yield f"{module.__name__}.{name}.{attribute}", function


@pytest.mark.parametrize("kind", [msgqueue.MessageQueue, aio.MessageQueue])
def test_methods_of_the_parts_are_methods_of_the_queue(kind: type) -> None:
    """For `help` and tracebacks, although the parts define most of them."""
    methods = [member for name, member in vars(kind).items() if inspect.isfunction(member) and not name.startswith("_")]
    assert len(methods) > 25
    for method in methods:
        assert (method.__module__, method.__qualname__) == (kind.__module__, f"MessageQueue.{method.__name__}")


CALLS = {name: call for name, call in public_calls() if not name.endswith("exit__")}


@pytest.mark.parametrize("name", CALLS)
def test_a_public_call_documents_its_arguments(name: str) -> None:
    if name.rpartition(".")[2].startswith("_") and not name.endswith("__init__"):
        return
    parameters = [
        each for each in inspect.signature(CALLS[name]).parameters.values() if each.name not in ("self", "cls")
    ]
    text = CALLS[name].__doc__ or ""
    assert text, name
    _, _, arguments = text.partition("Args:\n")
    documented = re.findall(r"^ +\**(\w+): ", re.split(r"\n\n", arguments)[0], re.MULTILINE)
    missing = [each.name for each in parameters if each.name not in documented]
    assert missing == []

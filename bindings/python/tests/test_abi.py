"""Compares the ctypes mirror of the header with the header, by a C compiler and by its text."""

from __future__ import annotations

import ctypes
import inspect
import re
import subprocess
from enum import IntEnum
from pathlib import Path

import pytest

import msgqueue
import msgqueue.aio
import msgqueue.simulation
from msgqueue import MessageQueue, RetryPolicy, _abi, _options, enums
from msgqueue._library import library
from msgqueue.statistics import LATENCY_BOUNDS
from support import BINDING, HEADER, PROJECT

# The prefix of the names of each enumeration in the header.
PREFIXES: dict[str, type[IntEnum]] = {
    "MSGQ_": enums.Result,
    "MSGQ_STATUS_": enums.Status,
    "MSGQ_CHANGE_": enums.ChangeKind,
    "MSGQ_FAILURE_": enums.FailureKind,
    "MSGQ_MODE_": enums.Mode,
    "MSGQ_BACKOFF_": enums.Backoff,
    "MSGQ_EXHAUSTED_": enums.Exhausted,
    "MSGQ_CALLBACKS_": enums.Callbacks,
    "MSGQ_FINAL_": enums.FinalFailure,
    "MSGQ_REFUSED_": enums.Refused,
    "MSGQ_ON_FULL_": enums.OnFull,
    "MSGQ_ORDER_": enums.ListOrder,
    "MSGQ_LIFECYCLE_": enums.Lifecycle,
    "MSGQ_REASON_": enums.Reason,
    "MSGQ_ARRIVAL_": enums.Arrival,
    "MSGQ_ATTEMPT_": enums.AttemptOutcome,
    "MSGQ_VERDICT_": enums.Verdict,
    "MSGQ_STOP_": enums.Stop,
    "MSGQ_CONNECTIVITY_": enums.Connectivity,
    "MSGQ_LINK_": enums.Link,
    "MSGQ_EVENT_": enums.EventKind,
    "MSGQ_LOG_": enums.LogLevel,
}


def without_comments() -> str:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    return re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.DOTALL | re.MULTILINE)


def prototypes() -> dict[str, str]:
    """Returns the name and the parameters of every function."""
    found = re.findall(
        r"^(?!typedef)[a-z][\w ]*?[ *](msgq_\w+)\((.*?)\);", without_comments(), re.DOTALL | re.MULTILINE
    )
    return dict(found)


def structures() -> dict[str, list[str]]:
    """Returns the fields of every transparent structure, in order."""
    text = without_comments()
    bodies = dict(re.findall(r"^typedef struct (\w+) \{([^}]*)\} \w+;", text, re.MULTILINE))
    bodies.update(
        (f"struct {name}", body) for name, body in re.findall(r"^struct (\w+) \{([^}]*)\};", text, re.MULTILINE)
    )
    return {name: re.findall(r"(\w+)(?:\[\w+\])?;", body) for name, body in bodies.items()}


def enumerations() -> dict[str, list[str]]:
    """Returns the enumerators of every enumeration, in order."""
    return {
        name: re.findall(r"\bMSGQ_\w+", re.sub(r"=[^,}]*", "", body))
        for name, body in re.findall(r"typedef enum (\w+) \{([^}]*)\} \w+;", without_comments())
    }


def run_c(tmp_path: Path, lines: list[str]) -> list[str]:
    """Compiles and runs a C program with the header and these lines. Returns its output."""
    source, binary = tmp_path / "check.c", tmp_path / "check"
    body = "\n".join(lines)
    source.write_text(f'#include <stdio.h>\n#include "msgqueue.h"\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", f"-I{HEADER.parent}", source, "-o", binary], check=True)
    return subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_function_of_the_header_has_a_prototype() -> None:
    assert len(prototypes()) > 30
    assert sorted(_abi.FUNCTIONS) == sorted(prototypes())


@pytest.mark.parametrize("name", sorted(_abi.FUNCTIONS))
def test_prototypes_take_as_many_arguments_as_the_header_says(name: str) -> None:
    # A function pointer among the parameters has only one parameter, so every comma separates two of the function.
    parameters = prototypes()[name].strip()
    count = 0 if parameters == "void" else parameters.count(",") + 1
    assert len(_abi.FUNCTIONS[name][1]) == count


def test_the_library_exports_every_function() -> None:
    for name in _abi.FUNCTIONS:
        assert getattr(library(), name)


def test_structures_have_the_fields_of_the_header_in_its_order() -> None:
    assert {name: [field[0] for field in kind._fields_] for name, kind in _abi.STRUCTURES.items()} == structures()


def test_statistics_arrays_have_spare_room() -> None:
    assert len(_abi.Statistics().failures) == 32 > len(enums.FailureKind)
    assert len(_abi.Statistics().latencies) == 16 > len(LATENCY_BOUNDS)


def test_structures_have_the_layout_of_the_header(tmp_path: Path) -> None:
    lines, mirror = [], []
    for name, kind in _abi.STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        mirror.append(f"{name} {ctypes.sizeof(kind)}")
        for field, *_ in kind._fields_:
            member = f"(({name} *)0)->{field}"
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof({member}));')
            descriptor = getattr(kind, field)
            mirror.append(f"{name}.{field} {descriptor.offset} {descriptor.size}")
    assert run_c(tmp_path, lines) == mirror


def test_enumerations_have_the_names_and_numbers_of_the_header(tmp_path: Path) -> None:
    lines, mirror = [], []
    for prefix, kind in PREFIXES.items():
        for each in kind:
            lines.append(f'printf("{prefix}{each.name} %d\\n", (int){prefix}{each.name});')
            mirror.append(f"{prefix}{each.name} {each.value}")
    assert run_c(tmp_path, lines) == mirror


def test_enumerations_have_every_name_of_the_header() -> None:
    mirrored = [[f"{prefix}{each.name}" for each in kind] for prefix, kind in PREFIXES.items()]
    assert sorted(mirrored) == sorted(enumerations().values())


def test_constants_are_those_of_the_header(tmp_path: Path) -> None:
    lines = [
        'printf("%d.%d.%d\\n", MSGQ_VERSION_MAJOR, MSGQ_VERSION_MINOR, MSGQ_VERSION_PATCH);',
        'printf("%d\\n%d\\n%d\\n", MSGQ_ID_SIZE, MSGQ_STATUS_NONE, MSGQ_LOG_SIZE);',
    ]
    version = ".".join(map(str, _abi.VERSION))
    assert run_c(tmp_path, lines) == [version, str(_abi.ID_SIZE), str(_abi.STATUS_NONE), str(_abi.LOG_SIZE)]


def test_versions_agree() -> None:
    version = ".".join(map(str, _abi.VERSION))
    assert msgqueue.__version__ == version
    assert f'version = "{version}"' in (BINDING / "pyproject.toml").read_text()
    assert msgqueue.library_version() == version


def signature() -> dict[str, inspect.Parameter]:
    """Returns the parameters of MessageQueue that are options."""
    parameters = inspect.signature(MessageQueue).parameters
    others = ("path", "transport", "on_event", "polled", "batch_transport", "batch_options")
    return {name: each for name, each in parameters.items() if name not in others}


def test_the_signature_the_table_and_the_documentation_of_the_options_agree() -> None:
    assert set(signature()) == set(_options.Options.__annotations__) == {*_options.TABLE, "retry"}
    assert {name: signature()[name].default for name in _options.TABLE} == _options.defaults()
    documented = dict(
        re.findall(r"^ {12}(\w+): (.*?)(?=^ {12}\w|\Z)", MessageQueue.__init__.__doc__ or "", re.M | re.S)
    )
    for name, option in _options.TABLE.items():
        assert option.values in " ".join(documented[name].split()), name


def test_every_option_of_the_header_is_in_the_table() -> None:
    ours = {option.field for option in _options.TABLE.values()}
    of_retry = {"backoff", "exhausted", "max_retries", "ladder_ms", "ladder_count", "jitter"}
    of_retry |= {"backoff_base_ms", "backoff_factor", "backoff_cap_ms"}
    assert {name for name, *_ in _abi.Options._fields_} - ours - of_retry == {"struct_size", "callbacks"}


def options_by_default() -> _abi.Options:
    """Returns the options that MessageQueue passes to the library by default."""
    return _options.build({name: each.default for name, each in signature().items() if name != "retry"})


def policy_by_default() -> _abi.Options:
    """Returns the same with the default RetryPolicy."""
    return _options.build({"retry": RetryPolicy()})


def test_the_defaults_are_those_of_the_header(tmp_path: Path) -> None:
    names = [name for name, *_ in _abi.Options._fields_ if name != "ladder_ms"]
    lines = ["msgq_options options = MSGQ_OPTIONS_INIT;"]
    lines += [f'printf("{name} %g\\n", (double)options.{name});' for name in names]
    given = options_by_default()
    # The one difference: callbacks run in msgq_poll.
    assert given.callbacks == enums.Callbacks.POLL_TIMER
    given.callbacks = enums.Callbacks.THREAD
    assert run_c(tmp_path, lines) == [f"{name} {float(getattr(given, name)):g}" for name in names]


def test_the_library_sets_the_same_defaults() -> None:
    options = _abi.Options()
    library().msgq_options_init(options)
    given = policy_by_default()
    given.callbacks = enums.Callbacks.THREAD
    names = [name for name, *_ in _abi.Options._fields_ if name != "ladder_ms"]
    assert {name: getattr(options, name) for name in names} == {name: getattr(given, name) for name in names}
    assert not options.ladder_ms


# Functions that have no counterpart in a language with objects of its own.
MEMORY = re.compile(r"_(?:free|init|size|at)$")


def listed_names(heading: str) -> dict[str, tuple[str, str]]:
    """Returns the rows of a table in Names.md: the cells for Python and Swift of each C name."""
    text = (PROJECT / "Sources" / "Documentation" / "Names.md").read_text(encoding="utf-8")
    table = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {name: (python, swift) for names, python, swift in rows for name in re.findall(r"`(\w+)`", names)}


def swift_names() -> set[str]:
    """Returns the names of what the Swift interface declares as public."""
    folder = PROJECT / "Sources" / "MsgQueue"
    files = [
        folder / "MessageQueue.swift",
        *(file for name in ("API", "Async", "Model") for file in (folder / name).glob("*.swift")),
    ]
    declared = r"\bpublic (?:static |final |convenience )*(?:func|var|let|enum|struct|class|typealias) (\w+)"
    return {name for file in files for name in re.findall(declared, file.read_text(encoding="utf-8"))}


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)


def python_object(path: str) -> object:
    """Returns what a name of the table stands for: in the package, or of a queue. None: there is no such thing."""
    for base in (msgqueue, MessageQueue, msgqueue.Message):
        found: object = base
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    options = (*inspect.signature(MessageQueue).parameters, *inspect.signature(RetryPolicy).parameters)
    return path if path in options else None


def test_X14_the_names_that_differ_between_the_languages_are_listed() -> None:
    functions = {name: name[len("msgq_") :] for name in prototypes() if not MEMORY.search(name)}
    options = {name: re.sub("_ms$", "", name) for name in structures()["msgq_options"] if name != "struct_size"}
    swift = swift_names()
    parameters = inspect.signature(MessageQueue).parameters
    for heading, names in (("Functions", functions), ("Options", options)):
        listed = listed_names(heading)
        assert set(listed) <= set(names), set(listed) - set(names)
        for name, common in names.items():
            known = common in parameters if heading == "Options" else python_object(common) is not None
            assert name in listed or (known and camel(common) in swift), f"{name} is not in Names.md"
        for name, (python, other) in listed.items():
            for path in re.findall(r"`([A-Za-z_.]+)", python):
                assert path == "msgqueue" or python_object(path) is not None, f"{name}: {path} (Python)"
            for path in re.findall(r"`(\w+(?:\.\w+)?)", other):
                assert set(path.split(".")) <= swift, f"{name}: {path} (Swift)"

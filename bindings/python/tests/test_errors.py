"""Every result of the library has an exception."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from errno import ENOENT
from pathlib import Path

import pytest

import msgqueue
from conftest import Opener
from msgqueue import (
    DuplicateError,
    Error,
    InternalError,
    InvalidError,
    MessageQueue,
    MissingFileError,
    NotFoundError,
    PermissionDeniedError,
    Result,
    StorageError,
    TimedOutError,
    aio,
    check,
    salvage,
)
from msgqueue.errors import from_result


@pytest.mark.parametrize("result", [result for result in Result if result is not Result.OK])
def test_every_result_has_its_error(result: Result) -> None:
    error = from_result(result, "what happened")
    assert type(error) is not Error
    assert (error.code, error.name, error.detail) == (result, f"MSGQ_{result.name}", "what happened")
    assert str(error) == f"what happened (MSGQ_{result.name})"
    assert type(error).__name__ in msgqueue.__all__


def test_every_error_has_its_own_class() -> None:
    kinds = {type(from_result(result, "")) for result in Result if result is not Result.OK}
    assert len(kinds) == len(Result) - 1


def test_an_unknown_result_is_an_internal_error() -> None:
    error = from_result(99, "")
    assert type(error) is InternalError
    assert "99" in error.detail


def test_errors_inherit_from_the_built_in_exceptions() -> None:
    assert issubclass(InvalidError, ValueError)
    assert issubclass(NotFoundError, LookupError)
    assert issubclass(PermissionDeniedError, PermissionError)
    assert issubclass(StorageError, OSError)
    assert issubclass(TimedOutError, TimeoutError)
    assert issubclass(MissingFileError, InvalidError)
    assert issubclass(MissingFileError, FileNotFoundError)


def test_D17_a_missing_file_or_directory_is_a_file_not_found_error(opened: Opener, tmp_path: Path) -> None:
    directory, file = tmp_path / "none", tmp_path / "none.db"
    queue = opened()
    calls: list[tuple[Path, Callable[[], object]]] = [
        (directory, lambda: MessageQueue(directory / "outbox.db")),
        (directory, lambda: MessageQueue(directory / "outbox.db", read_only=True)),
        (directory, lambda: asyncio.run(opened_in_a_loop(directory / "outbox.db"))),
        (file, lambda: MessageQueue(file, read_only=True)),
        (file, lambda: MessageQueue(file, maintenance=True)),
        (file, lambda: check(file)),
        (file, lambda: salvage(file, tmp_path / "salvaged.db")),
        (directory, lambda: queue.backup(directory / "copy.db")),
        (directory, lambda: queue.start_control(directory / "control")),
    ]
    for missing, call in calls:
        with pytest.raises(FileNotFoundError) as caught:
            call()
        error = caught.value
        assert isinstance(error, MissingFileError)
        assert (error.errno, error.filename, error.code) == (ENOENT, str(missing), Result.INVALID)
        assert str(missing) in error.detail
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.filename) == (MissingFileError, str(error), error.filename)
    # Another argument is wrong as well, and the detail is about that one.
    with pytest.raises(InvalidError, match="max in flight") as other:
        MessageQueue(directory / "outbox.db", max_in_flight=65)
    assert not isinstance(other.value, FileNotFoundError)


def test_D17_a_missing_relative_path_is_a_file_not_found_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("none/outbox.db", "outbox.db", "./none/../outbox.db"):
        with pytest.raises(MissingFileError):
            check(path)


async def opened_in_a_loop(path: Path) -> None:
    async with aio.MessageQueue(path):
        pass


@pytest.mark.parametrize("result", [result for result in Result if result is not Result.OK])
def test_errors_can_be_pickled(result: Result) -> None:
    error = from_result(result, "what happened")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.detail, str(again)) == (type(error), error.detail, str(error))


def test_an_error_of_the_library_carries_its_detail(opened: Opener) -> None:
    queue = opened()
    queue.enqueue("one", id="the-id")
    with pytest.raises(DuplicateError) as caught:
        queue.enqueue("two", id="the-id")
    assert caught.value.code is Result.DUPLICATE
    assert caught.value.name == "MSGQ_DUPLICATE"
    assert caught.value.detail


def test_each_error_has_its_own_detail(tmp_path: Path, opened: Opener) -> None:
    queue = opened()
    with pytest.raises(NotFoundError) as first:
        queue.get("no such message")
    with pytest.raises(InvalidError) as second:
        queue.enqueue("x", id="i" * 300)
    assert first.value.detail != second.value.detail

"""Checks stores, and salvages the whole messages of damaged ones, without a queue."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from . import _abi, _arguments, _convert, _logs
from ._library import library, path_error
from .enums import Result
from .models import CheckReport


def check(path: str | os.PathLike[str]) -> CheckReport:
    """Reads a whole store and reports what is wrong with it; nothing is written.

    A damaged store is not an error: there is a report whenever its tables can be found.

    Args:
        path: The store's file.

    Raises:
        MissingFileError: There is no such file.
        PermissionDeniedError: The system, or the safety of the place, forbids it.
        LockedError: A queue has the store open.
        CorruptError: The file is not a store.
        TooNewError: A later version wrote the store.
        StorageError: An I/O error.
        LibraryError: libmsgqueue was not found.
    """
    name = _arguments.path(path)
    return _report(lambda lib, out: lib.msgq_check(name, out), name)


def salvage(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> CheckReport:
    """Writes every whole message of a store to a new store. The source is not changed.

    Messages keep their id, sequence, times, body, metadata, attempts and status. A message that was being sent counts
    as interrupted by a crash when the new store is opened. After an error there is no new file.

    Args:
        source: The store's file.
        target: The new file.

    Raises:
        ConflictError: The new file exists already.
        Error: As `check`.
    """
    names = _arguments.path(source), _arguments.path(target)
    return _report(lambda lib, out: lib.msgq_salvage(*names, out), *names)


def _report(call: Callable[[ctypes.CDLL, _abi.CheckReport], int], *paths: bytes) -> CheckReport:
    lib = library()
    _logs.begin(lib)
    out: _abi.CheckReport = _abi.sized(_abi.CheckReport)
    result = call(lib, out)
    _logs.read(lib)
    if result != Result.OK:
        raise path_error(lib, result, *paths)
    return _convert.check_report(out)

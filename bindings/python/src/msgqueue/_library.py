"""Finds libmsgqueue.so, loads it once, and declares the types of its functions."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from errno import ENOENT

from . import _abi
from .enums import Result
from .errors import Error, LibraryError, MissingFileError, from_result

ENVIRONMENT = "MSGQUEUE_LIBRARY"
_SONAME = "libmsgqueue.so.0"
_FILE = "libmsgqueue.so"

# Without a lock: one that another thread holds at a fork would never be released in the child. Loading twice is
# harmless, because the loader returns the same library again.
_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """Returns the library, which the first call loads. Any thread.

    Raises:
        LibraryError: No library that fits was found.
    """
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def last_error(lib: ctypes.CDLL, result: int) -> Error:
    """Returns the error for `result`, with the detail of this thread's last failed call."""
    return from_result(result, lib.msgq_error_detail().decode("utf-8", "replace"))


def path_error(lib: ctypes.CDLL, result: int, *paths: bytes) -> Error:
    """As `last_error`, for a call with paths of files: MissingFileError when that is why it failed."""
    error = last_error(lib, result)
    # The library has one result for every wrong argument, and only the detail says which one it is about.
    if result != Result.INVALID or not error.detail.endswith(("does not exist", os.strerror(ENOENT))):
        return error
    for name in (path.decode() for path in paths):
        for place in (os.path.dirname(name) or os.curdir, name):  # noqa: PTH120 - as the library has them
            if not os.path.exists(place):  # noqa: PTH110 - Path.exists may raise
                return MissingFileError(error.detail, place)
    return error


def library_version() -> str:
    """Returns the version of the library in use, as "0.2.0". Any thread.

    Raises:
        LibraryError: libmsgqueue was not found.
    """
    version: bytes = library().msgq_version()
    return version.decode()


def sqlite_version() -> str:
    """Returns the version of SQLite that the library uses, as "3.40.1". Any thread.

    In a wheel it is linked into the library; `sqlite3.sqlite_version` may be another one.

    Raises:
        LibraryError: libmsgqueue was not found.
    """
    version: bytes = library().msgq_sqlite_version()
    return version.decode()


def _load() -> ctypes.CDLL:
    named = os.environ.get(ENVIRONMENT)
    if named:
        # No other library in its place: that would hide the mistake.
        try:
            return _open(named)
        except OSError as problem:
            raise LibraryError(f"{ENVIRONMENT} names {named}, which does not load: {problem}") from problem
    tried = []
    for candidate in _candidates():
        try:
            return _open(candidate)
        except OSError as problem:
            reason = str(problem)
            # The loader's message begins with the file that it misses: this one, or one that this one needs.
            tried.append(f"  {reason}" if reason.startswith(candidate) else f"  {candidate}: {reason}")
    raise LibraryError(
        f"libmsgqueue was not found: install a wheel of this package, or libmsgqueue itself, or name the library with "
        f"{ENVIRONMENT}, which is not set; tried:\n" + "\n".join(tried)
    )


def _candidates() -> Iterator[str]:
    """Yields each place of the library: in a wheel, in a development tree, and where the system searches."""
    # Without `pathlib`, whose import takes longer than that of this package's modules.
    package = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
    yield os.path.join(package, _SONAME)  # noqa: PTH118
    # The package is ROOT/bindings/python/src/msgqueue.
    root = os.path.normpath(os.path.join(package, *[os.pardir] * 4))  # noqa: PTH118
    yield os.path.join(root, ".build", "release", _FILE)  # noqa: PTH118
    yield _SONAME


def _open(path: str) -> ctypes.CDLL:
    lib = ctypes.CDLL(path)
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(lib, name)
        except AttributeError:
            raise LibraryError(f"{path} has no function {name}: it is not libmsgqueue, or an older version") from None
        function.restype = result
        function.argtypes = arguments
    _require_version(path, lib.msgq_version_number())
    return lib


def _require_version(path: str, number: int) -> None:
    """Refuses a library whose interface may differ from the header that this package mirrors.

    Before 1.0 a minor version may change the interface; a patch version only adds to it.
    """
    major, minor, patch = _abi.VERSION
    found = (number // 10000, number // 100 % 100, number % 100)
    same = found[:2] == (major, minor) if major == 0 else found[0] == major
    if not same or found < (major, minor, patch):
        version = ".".join(map(str, found))
        raise LibraryError(f"{path} is version {version}; this package needs {major}.{minor}.{patch} or compatible")

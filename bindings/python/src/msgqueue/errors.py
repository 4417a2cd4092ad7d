"""The exceptions, one class per result of the library."""

from __future__ import annotations

from errno import ENOENT
from typing import ClassVar

from .enums import Result


class LibraryError(ImportError):
    """libmsgqueue.so is missing, broken, or of an incompatible version. The message names what was tried."""


class Error(Exception):
    """The base class of the exceptions of a queue.

    Attributes:
        code: The library's result.
        detail: One sentence for a developer.
    """

    code: ClassVar[Result] = Result.INTERNAL

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail

    @property
    def name(self) -> str:
        """The name of the result in the library's header, for example "MSGQ_FULL"."""
        return f"MSGQ_{self.code.name}"

    def __str__(self) -> str:
        return f"{self.detail} ({self.name})" if self.detail else self.name


class PreparationError(Exception):
    """Raised by a transport: it could not prepare this message for sending, and never will.

    The message becomes failed with `FailureKind.LOCAL`: "This message could not be prepared for sending." It is not
    retried by itself. No other exception is taken for that: a `ValueError` may also come from an answer that could not
    be read. A batch transport that raises it for a batch of several messages does not say which one it means; it
    returns `Outcome.reject(FailureKind.LOCAL)` for that message instead.
    """


class InvalidError(Error, ValueError):
    """An argument is wrong: out of range, not UTF-8, a NUL inside. A wrong type is a TypeError instead."""

    code = Result.INVALID


class MissingFileError(InvalidError, FileNotFoundError):
    """The file, or the directory in which it is to be, does not exist."""

    def __init__(self, detail: str = "", filename: str | None = None) -> None:
        super().__init__(detail)
        self.errno: int | None = ENOENT
        self.filename = filename

    def __reduce__(self) -> tuple[type[MissingFileError], tuple[str, str | None]]:
        return type(self), (self.detail, self.filename)


class NotFoundError(Error, LookupError):
    """There is no message with this id, or no attempt with this token."""

    code = Result.NOT_FOUND


class DuplicateError(Error):
    """The id is in the queue already, or was sent or replaced recently; nothing changed."""

    code = Result.DUPLICATE


class ConflictError(Error):
    """The call is not possible in this status, or at this moment."""

    code = Result.CONFLICT


class BusyError(Error):
    """The message is being sent right now."""

    code = Result.BUSY


class FullError(Error):
    """A limit on messages, bytes or file bytes is reached; nothing changed."""

    code = Result.FULL


class TooLargeError(Error):
    """The body or the metadata is over its limit; nothing changed."""

    code = Result.TOO_LARGE


class LockedError(Error):
    """Another owner, in this process or another, has the store open."""

    code = Result.LOCKED


class ClosedError(Error):
    """The queue is closed."""

    code = Result.CLOSED


class ForkedError(Error):
    """The queue belongs to the parent process; this one is a forked child of it."""

    code = Result.FORKED


class CorruptError(Error):
    """The file is not a store, or is damaged; it was left as it is."""

    code = Result.CORRUPT


class StorageError(Error, OSError):
    """Disk full, I/O error, out of memory or threads; nothing changed."""

    code = Result.STORAGE


class UnknownError(Error):
    """A sync failed: whether it is stored is not known. The same id may safely be enqueued again."""

    code = Result.UNKNOWN


class TooNewError(Error):
    """The store was written by a later version; it was left as it is."""

    code = Result.TOO_NEW


class PermissionDeniedError(Error, PermissionError):
    """The system, or the safety of the place, forbids it."""

    code = Result.PERMISSION


class TimedOutError(Error, TimeoutError):
    """The time given ran out first."""

    code = Result.TIMEOUT


class NoTransportError(Error):
    """The queue has no transport: set one first."""

    code = Result.NO_TRANSPORT


class InternalError(Error):
    """A defect of the library; please report it with its detail."""

    code = Result.INTERNAL


_CLASSES: dict[int, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidError,
        NotFoundError,
        DuplicateError,
        ConflictError,
        BusyError,
        FullError,
        TooLargeError,
        LockedError,
        ClosedError,
        ForkedError,
        CorruptError,
        StorageError,
        UnknownError,
        TooNewError,
        PermissionDeniedError,
        TimedOutError,
        NoTransportError,
        InternalError,
    )
}


def from_result(result: int, detail: str) -> Error:
    """Returns the error for a result of the library other than OK."""
    kind = _CLASSES.get(result)
    if kind is None:
        return InternalError(f"the library returned an unknown result, {result}; {detail}")
    return kind(detail)


def from_name(name: str, detail: str) -> Error:
    """Returns the error for the name of a result other than OK, without prefix, for example "NOT_FOUND"."""
    kind = next((kind for kind in _CLASSES.values() if kind.code.name == name), None)
    if kind is None:
        return InternalError(f"the library returned an unknown result, {name}; {detail}")
    return kind(detail)

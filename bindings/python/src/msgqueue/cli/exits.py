"""The exit codes of the command line, and which exception leads to which."""

from __future__ import annotations

from ..errors import (
    BusyError,
    ClosedError,
    ConflictError,
    CorruptError,
    DuplicateError,
    Error,
    InvalidError,
    LockedError,
    NotFoundError,
    NoTransportError,
    PermissionDeniedError,
    TooLargeError,
    TooNewError,
)

DONE = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
NO_STORE = 4
LOCKED = 5
NOT_NOW = 6
PERMISSION = 7
LOST = 8
HUNG_UP = 129
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

TEXTS = {
    DONE: "done",
    FAILED: "failed; also: check found damage, drain left messages or some failed, import found a wrong line",
    USAGE: "wrong arguments, or a value that is out of range",
    NOT_FOUND: "there is no message with this id",
    NO_STORE: "the file is missing, damaged, or not a store of this version",
    LOCKED: "another program has the store open, without a control socket",
    NOT_NOW: "not possible in this status, or only while the program of the queue runs",
    PERMISSION: "permission denied",
    LOST: "the program that has the store open ended, or did not answer in time, before the command was done",
    HUNG_UP: "ended by SIGHUP",
    INTERRUPTED: "interrupted (Ctrl-C)",
    BROKEN_PIPE: "the reader of standard output has ended",
    TERMINATED: "ended by SIGTERM",
}


class NoStoreError(Exception):
    """The path names no store."""


class NeedsOwnerError(Exception):
    """The command needs a program that has the queue open."""


class LostError(Exception):
    """The program that has the queue open ended during the command, or did not answer in time."""


class UsageError(Exception):
    """The arguments do not fit together."""


def code_of(problem: Exception) -> int:
    """Returns the exit code for an exception."""
    for kinds, code in _CODES:
        if isinstance(problem, kinds):
            return code
    return FAILED


def text_of(problem: Exception) -> str:
    """Returns the text of an exception for a person."""
    if isinstance(problem, Error):
        return problem.detail or problem.name
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    return str(problem) or type(problem).__name__


_CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((UsageError, InvalidError, TooLargeError), USAGE),
    ((NotFoundError,), NOT_FOUND),
    ((NoStoreError, CorruptError, TooNewError), NO_STORE),
    ((LockedError,), LOCKED),
    ((NeedsOwnerError, ConflictError, DuplicateError, BusyError, NoTransportError, ClosedError), NOT_NOW),
    ((PermissionDeniedError, PermissionError), PERMISSION),
    ((LostError,), LOST),
)

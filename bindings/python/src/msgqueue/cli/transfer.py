"""`export` and `import`: messages as lines of JSON, in the form of the control socket."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .. import control
from ..errors import DuplicateError, Error, InvalidError, NotFoundError, TooLargeError
from . import exits, tables, viewing
from .session import Session
from .terminal import Progress, note

# Requests that are written together; and the size from which one is written alone, because it may end the connection.
_BATCH = 64
_ALONE = 8 << 10
_UNSENT = ("queued", "sending", "failed")
_HISTORY = ("sent", "delivered", "read")
_INTEGERS = range(-(2**63), 2**63)
_OPTIONAL = {"not_before_ms": int, "expires_at_ms": int, "priority": int, "unmetered_only": bool}


def export(session: Session, arguments: Namespace) -> int:
    """Writes messages with their bodies."""
    progress = Progress(arguments.quiet)
    arguments.after, arguments.newest, arguments.all = 0, False, True
    arguments.status = arguments.status or ["all"]
    count = 0
    try:
        for message in viewing.messages(session, arguments, bodies=True):
            tables.objects((message,))
            count += 1
            progress.show(f"{count:,} exported")
    finally:
        progress.end()
    return exits.DONE


class Import:
    """One import: counts, and the lines that wait to be written together."""

    def __init__(self, session: Session, arguments: Namespace) -> None:
        self._session = session
        self._progress = Progress(arguments.quiet)
        self._waiting: list[tuple[int, dict[str, object]]] = []
        self.new: int = 0
        self.known: int = 0
        self.skipped: int = 0
        self.wrong: int = 0

    def run(self, lines: BinaryIO) -> None:
        """Reads every line."""
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    self._take(number, line)
                self._progress.show(f"{self.new:,} imported, {self.known:,} already there")
            self._flush()
        finally:
            self._progress.end()

    def _take(self, number: int, line: bytes) -> None:
        try:
            message = _parsed(line)
            if message.get("sender") is not None:
                self._flush()
                self._record(message)
            elif message["status"] in _HISTORY:
                self.skipped += 1
            elif len(line) > _ALONE:
                self._flush()
                self._alone(number, _draft(message))
            else:
                self._waiting.append((number, _draft(message)))
                if len(self._waiting) == _BATCH:
                    self._flush()
        except InvalidError as problem:
            # A received message with a wrong field, or a line that is none.
            self._refuse(number, problem)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        answers = self._session.batch("enqueue", [draft for _, draft in waiting])
        for (number, _), answer in zip(waiting, answers):
            self._count(number, answer)

    def _alone(self, number: int, draft: dict[str, object]) -> None:
        try:
            self._count(number, self._session.call("enqueue", **draft))
        except TooLargeError as problem:
            # A line that is longer than the owner reads ends the connection.
            self._refuse(number, problem)
            self._session.reconnect()
        except Error as problem:
            self._count(number, problem)

    def _count(self, number: int, answer: dict[str, Any] | Exception) -> None:
        if isinstance(answer, DuplicateError):
            self.known += 1
        elif isinstance(answer, (InvalidError, TooLargeError)):
            self._refuse(number, answer)
        elif isinstance(answer, Exception):
            raise answer
        else:
            self.new += 1

    def _record(self, message: dict[str, Any]) -> None:
        fields = {name: message.get(name) for name in ("conversation", "sender", "metadata")}
        try:
            self._session.call("get", message=message["id"])
            self.known += 1
            return
        except NotFoundError:
            pass
        self._session.call("record", message=message["id"], **fields, **control.body_fields(_body(message)))
        if message["status"] == "read" or message.get("read_ms"):
            self._session.call("mark", message=message["id"], status="read")
        self.new += 1

    def _refuse(self, number: int, problem: Exception) -> None:
        self.wrong += 1
        self._progress.end()
        note(f"line {number}: {exits.text_of(problem)}")


def import_(session: Session, arguments: Namespace) -> int:
    """Adds messages of an export."""
    work = Import(session, arguments)
    if arguments.source == "-":
        work.run(sys.stdin.buffer)
    else:
        with Path(arguments.source).open("rb") as file:
            work.run(file)
    counts = {"new": work.new, "known": work.known, "skipped": work.skipped, "wrong": work.wrong}
    if arguments.json:
        tables.objects((counts,))
    else:
        tables.write(
            f"{work.new:,} new, {work.known:,} already there, {work.skipped:,} sent ones skipped, "
            f"{tables.plural(work.wrong, 'wrong line')}\n"
        )
    return exits.FAILED if work.wrong else exits.DONE


def _parsed(line: bytes) -> dict[str, Any]:
    """Returns the message of a line.

    Raises:
        InvalidError: It is none.
    """
    try:
        message = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as problem:
        raise InvalidError(f"not JSON: {problem}") from None
    if not isinstance(message, dict):
        raise InvalidError("not an object")
    if not isinstance(message.get("id"), str) or not message["id"]:
        raise InvalidError("id is missing, or not a string")
    if message.get("status") not in (*_UNSENT, *_HISTORY):
        raise InvalidError("status is missing, or unknown")
    _check_texts(message)
    return message


def _check_texts(message: dict[str, Any]) -> None:
    """Refuses what cannot be written to the owner, or could be mistaken there for another line."""
    for name in ("id", "conversation", "sender"):
        _check_text(name, message.get(name))
    metadata = message.get("metadata")
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise InvalidError("metadata is not an object")
    for key, value in metadata.items():
        _check_text("a key of the metadata", key)
        if value is None:
            raise InvalidError("a value of the metadata is not a string")
        _check_text("a value of the metadata", value)


def _check_text(name: str, text: object) -> None:
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidError(f"{name} is not a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{name} is not valid Unicode") from None


def _draft(message: dict[str, Any]) -> dict[str, object]:
    """Returns the fields of `enqueue`. What the queue decided (attempts, failure, sequence) is not among them."""
    draft: dict[str, object] = {"message": message["id"], **control.body_fields(_body(message))}
    for name in ("conversation", "metadata"):
        if message.get(name):
            draft[name] = message[name]
    for name, kind in _OPTIONAL.items():
        value = message.get(name)
        if value is None:
            continue
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InvalidError(f"{name} has the wrong type")
        if kind is int and value not in _INTEGERS:
            raise InvalidError(f"{name} is out of range")
        if value:
            draft[name] = value
    return draft


def _body(message: dict[str, Any]) -> bytes:
    body = control.body_of(message)
    if body is None:
        raise InvalidError("body and body_base64 are missing")
    if message.get("body") is not None and message.get("body_base64") is not None:
        raise InvalidError("body and body_base64 must not both be given")
    return body


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of these pairs; a key that occurs twice has no meaning."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(text: str) -> Iterator[object]:
    raise ValueError(f"{text} is not a number")

"""`export` and `import`: messages as lines of JSON, in the form of the control socket."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import control
from ..errors import DuplicateError, FullError, InvalidError, NotFoundError, StorageError, TooLargeError
from . import exits, tables, viewing
from .session import Session, Way, connected, create, introduction, require_store
from .terminal import Progress, note

# Lines that are stored in one transaction, at most, and their bytes: the owner reads a request of 64 KiB, whatever its
# limits are.
_BATCH = 64
_BATCH_BYTES = 16 << 10
# The size from which a line is written alone, because it may end the connection.
_ALONE = 8 << 10
# Bytes of the longest line that is read: more than the largest body in base64 and the largest metadata, escaped, need.
LONGEST_LINE = 512 << 20
_CHUNK = 256 << 10
# How a line may begin that is a message, after blanks: an object, or a byte order mark.
_BLANKS = b" \t\r"
_BEGINS = (b"{", b"\xef")
# Seconds after which few lines are written, and after which the store is left when none is to be written.
_PATIENCE = 1.0
_UNSENT = ("queued", "sending", "failed")
_HISTORY = ("sent", "delivered", "read")
_INTEGERS = range(-(2**63), 2**63)
_OPTIONAL = {"not_before_ms": int, "expires_at_ms": int, "priority": int, "unmetered_only": bool, "time_ms": int}


def export(session: Session, arguments: Namespace) -> int:
    """Writes messages with their bodies."""
    progress = Progress(arguments.quiet)
    arguments.after, arguments.newest, arguments.all = 0, False, True
    arguments.order, arguments.after_time = "sequence", None
    arguments.status = arguments.status or ["all"]
    count = 0
    titles = viewing.titles(session)
    try:
        for message in viewing.messages(session, arguments, bodies=True):
            if title := titles.get(message["conversation"]):
                message["conversation_title"] = title
            tables.objects((message,))
            count += 1
            progress.show(f"{count:,} exported")
    finally:
        progress.end()
    return exits.DONE


class Lines:
    """The lines of a file or pipe, which can be waited for with a time limit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._input = bytearray()
        # The first byte of the input that was not searched for the end of a line.
        self._searched = 0
        # Bytes of a line that cannot be a message and is not kept.
        self._dropped = 0
        # Blanks at the beginning of a line, which are not kept.
        self._blanks = 0
        self._has_ended = False

    def next(self, timeout: float | None) -> bytes | None:
        """Returns the next line, b"" at the end, or None if it is not there within `timeout` seconds; None: waits.

        A line whose bytes keep arriving may take _PATIENCE longer.

        Raises:
            TooLargeError: The line is longer than LONGEST_LINE.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            line = self._buffered()
            if line is not None:
                return line
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not self._poll.poll(None if left is None else left * 1000):
                return None
            try:
                part = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                # Another process has read what was there.
                continue
            self._has_ended = not part
            self._input += part
            if deadline is not None and time.monotonic() > deadline + _PATIENCE and not self._is_whole():
                return None

    def _is_whole(self) -> bool:
        return self._has_ended or self._input.find(b"\n", self._searched) >= 0

    def _buffered(self) -> bytes | None:
        end = self._input.find(b"\n", self._searched)
        if end < 0 and not self._has_ended:
            # Bytes without end must not fill the memory.
            if not self._dropped and self._input and self._input[0] in _BLANKS:
                size = len(self._input)
                self._input = self._input.lstrip(_BLANKS)
                self._blanks += size - len(self._input)
            if self._dropped or (self._input and not self._input.startswith(_BEGINS)):
                # What is left of the line is no message either.
                self._dropped += len(self._input)
                self._input.clear()
            self._searched = len(self._input)
            if self._searched + self._dropped + self._blanks > LONGEST_LINE:
                raise TooLargeError(f"more than {LONGEST_LINE:,} bytes, the longest line of an import")
            return None
        end = len(self._input) if end < 0 else end + 1
        line = b"?" + bytes(self._input[:end]) if self._dropped else bytes(self._input[:end])
        del self._input[:end]
        if self._blanks and not line:
            # Blanks at the end of the input are a line too; b"" is the end.
            line = b" "
        self._searched = self._dropped = self._blanks = 0
        return line


class Import:
    """One import: counts, and the lines that wait to be written together.

    The store is reached when lines are to be written, and left when the next line is not there yet: without an owner
    other programs can open it meanwhile.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._stack = ExitStack()
        self._open: Session | None = None
        self._said = ""
        self._progress = Progress(way.quiet)
        # Each with its number; a wrong one with what is wrong, to be reported in the order of the lines.
        self._waiting: list[tuple[int, dict[str, object] | InvalidError]] = []
        self._waits_since = 0.0
        self._waiting_bytes = 0
        # When the store was opened, or lines were written, by the monotonic clock.
        self._used_at = 0.0
        # The conversation and the title of lines that are not accepted yet, by their number.
        self._proposed: dict[int, tuple[str, str]] = {}
        # Of the conversations of accepted lines: the number of the last one that has a title, and the title.
        self._titles: dict[str, tuple[int, str]] = {}
        self.new: int = 0
        self.known: int = 0
        self.skipped: int = 0
        self.wrong: int = 0
        self.blank: int = 0

    def run(self, lines: Lines) -> None:
        """Reads every line."""
        try:
            with self._stack:
                # A store that cannot be opened is reported before a line is read.
                _ = self._session
                self._read(lines)
                self._flush()
                self._set_titles()
        finally:
            self._progress.end()

    def _read(self, lines: Lines) -> None:
        number = 1
        while True:
            try:
                line = lines.next(self._patience())
            except TooLargeError as problem:
                self._flush()
                self._refuse(number, problem)
                note("the import ends there")
                return
            if line == b"":
                return
            if line is None:
                self._flush()
                self._leave()
                continue
            if line.strip(b"\n" + _BLANKS):
                self._take(number, line)
            else:
                self.blank += 1
            self._rest()
            number += 1
            self._progress.show(f"{self.new:,} imported, {self.known:,} already there")

    def _rest(self) -> None:
        """Writes lines that have waited long enough, and leaves the store when there was nothing to write for long.

        Lines that are not written (blank, sent or wrong ones) may arrive without end.
        """
        now = time.monotonic()
        if self._waiting and now - self._waits_since > _PATIENCE:
            self._flush()
        elif not self._waiting and self._open is not None and now - self._used_at > _PATIENCE:
            self._leave()

    def _patience(self) -> float | None:
        """Returns how long the next line may take before the lines that wait are written, and the store is left."""
        if self._open is not None:
            return 0
        return max(self._waits_since + _PATIENCE - time.monotonic(), 0) if self._waiting else None

    @property
    def _session(self) -> Session:
        if self._open is None:
            self._open = self._stack.enter_context(connected(replace(self._way, quiet=True)))
            said = introduction(self._open)
            if said != self._said and not self._way.quiet:
                self._progress.end()
                note(said)
            self._said = said
        self._used_at = time.monotonic()
        return self._open

    def _leave(self) -> None:
        self._open = None
        self._stack.close()

    @property
    def counts(self) -> dict[str, int]:
        """What was done, as --json has it."""
        return {name: getattr(self, name) for name in ("new", "known", "skipped", "wrong", "blank")}

    @property
    def sentence(self) -> str:
        """What was done."""
        return (
            f"{self.new:,} new, {self.known:,} already there, {self.skipped:,} sent ones skipped, "
            f"{tables.plural(self.wrong, 'wrong line')}"
            + (f", {tables.plural(self.blank, 'blank line')}" if self.blank else "")
        )

    def _take(self, number: int, line: bytes) -> None:
        try:
            message = _parsed(line)
            if title := message.get("conversation_title"):
                self._proposed[number] = (message.get("conversation") or "", title)
            if message.get("sender") is not None:
                self._flush()
                self._record(number, message)
                self._accept(number)
            elif message["status"] in _HISTORY:
                self.skipped += 1
                self._accept(number)
            elif len(line) > _ALONE:
                self._flush()
                self._alone(number, _draft(message))
            else:
                self._wait(number, _draft(message), len(line))
        except InvalidError as problem:
            # A received message with a wrong field, or a line that is none.
            if self._waiting:
                self._wait(number, problem, 0)
            else:
                self._refuse(number, problem)

    def _wait(self, number: int, line: dict[str, object] | InvalidError, size: int) -> None:
        if self._waiting_bytes + size > _BATCH_BYTES:
            self._flush()
        if not self._waiting:
            self._waits_since = time.monotonic()
        self._waiting.append((number, line))
        self._waiting_bytes += size
        if len(self._waiting) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        """Writes the lines that wait. A line that has no room ends the import, and none behind it is stored."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        are_stored = self._stores([line for _, line in waiting if isinstance(line, dict)])
        for number, line in waiting:
            if isinstance(line, InvalidError):
                self._refuse(number, line)
            elif are_stored:
                self.new += 1
                self._accept(number)
            else:
                self._alone(number, line)

    def _stores(self, drafts: list[dict[str, object]]) -> bool:
        """Stores the drafts in one transaction. Returns false if one of them was refused, and none was stored."""
        if not drafts:
            return False
        try:
            self._session.call("enqueue_batch", drafts=drafts)
        except (DuplicateError, InvalidError, TooLargeError, FullError, StorageError):
            return False
        return True

    def _alone(self, number: int, draft: dict[str, object]) -> None:
        try:
            self._session.call("enqueue", **draft)
        except DuplicateError:
            self.known += 1
        except InvalidError as problem:
            self._refuse(number, problem)
            return
        except TooLargeError as problem:
            # A line that is longer than the owner reads ends the connection.
            self._refuse(number, problem)
            self._session.reconnect()
            return
        else:
            self.new += 1
        self._accept(number)

    def _record(self, number: int, message: dict[str, Any]) -> None:
        fields = {name: message.get(name) for name in ("conversation", "sender", "metadata")}
        is_read = message["status"] == "read" or bool(message.get("read_ms"))
        try:
            known = self._session.call("get", message=message["id"])
            # An import that was interrupted may have recorded it only.
            if is_read and known.get("sender") is not None and known["status"] == "delivered":
                self._session.call("mark", message=message["id"], status="read")
            self.known += 1
            return
        except NotFoundError:
            pass
        # An export of an earlier version has no times of their own.
        if time := _draft(message).get("time_ms", message.get("created_ms")):
            fields["time_ms"] = time
        try:
            self._session.call("record", message=message["id"], **fields, **control.body_fields(_body(message)))
            if is_read:
                self._session.call("mark", message=message["id"], status="read")
            else:
                self._session.call("get", message=message["id"])
        except (DuplicateError, NotFoundError):
            # The id is remembered: of a message to send, or of a received one, for which `record` stores nothing.
            self.known += 1
        except TooLargeError as problem:
            # A line that is longer than the owner reads ends the connection.
            self._refuse(number, problem)
            self._session.reconnect()
        else:
            self.new += 1

    def _set_titles(self) -> None:
        for conversation, (number, title) in self._titles.items():
            try:
                # Of some conversations only sent messages were read, which are skipped.
                with suppress(NotFoundError):
                    self._session.call("set_title", conversation=conversation, title=title)
            except InvalidError as problem:
                self._refuse(number, problem)
            except TooLargeError as problem:
                # A line that is longer than the owner reads ends the connection.
                self._refuse(number, problem)
                self._session.reconnect()

    def _accept(self, number: int) -> None:
        """Keeps the title of a line, unless the line was refused."""
        if number in self._proposed:
            conversation, title = self._proposed.pop(number)
            # A line that is not written waits for none before it.
            if number > self._titles.get(conversation, (0, ""))[0]:
                self._titles[conversation] = (number, title)

    def _refuse(self, number: int, problem: Exception) -> None:
        self._proposed.pop(number, None)
        self.wrong += 1
        self._progress.end()
        note(f"line {number}: {exits.text_of(problem)}")


def import_(arguments: Namespace) -> int:
    """Adds messages of an export."""
    if arguments.create:
        create(arguments.store)
    require_store(arguments.store)
    work = Import(
        Way(
            arguments.store,
            writes=True,
            changes=True,
            socket=arguments.socket,
            quiet=arguments.quiet,
            wait=arguments.wait,
            hold_interrupted=arguments.hold_interrupted,
        )
    )
    try:
        if arguments.source == "-":
            work.run(Lines(sys.stdin.fileno()))
        else:
            with Path(arguments.source).open("rb", buffering=0) as file:
                work.run(Lines(file.fileno()))
    except BaseException:
        if any(work.counts.values()):
            note(f"the import did not reach the end; until then: {work.sentence}")
        raise
    if arguments.json:
        tables.objects((work.counts,))
    else:
        tables.write(f"{work.sentence}\n")
    return exits.FAILED if work.wrong else exits.DONE


def _parsed(line: bytes) -> dict[str, Any]:
    """Returns the message of a line.

    Raises:
        InvalidError: It is none.
    """
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidError("not UTF-8") from None
    try:
        message = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
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
    for name in ("id", "conversation", "conversation_title", "sender"):
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

"""A client of the control socket: looks into the queue of another program and controls it.

    from msgqueue import control

    with control.connect("outbox.db") as client:
        for message in client.call("list", limit=10)["messages"]:
            print(message["id"], message["status"])
        for event in client.events("status"):
            print(event["id"], event["to"])

The program that has the store open must have called `start_control`. Calls, fields and events are those of the
protocol, which `Sources/MsgQueue/MsgQueue.docc/ControlSocket.md` describes. This module does not need libmsgqueue.so.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Union

from . import _arguments
from ._control_line import LONGEST_GREETING, Address, Connection
from ._copying import NotCopied
from .errors import ClosedError, Error, InternalError, InvalidError, TimedOutError, from_name

__all__ = ["PROTOCOL", "Client", "Events", "NotRunningError", "body_fields", "body_of", "connect"]

PROTOCOL: Final = 1
"""The protocol that this client speaks."""

SUFFIX: Final = "-control"
"""What follows the store's path in the default path of the socket."""

_Path = Union[str, "os.PathLike[str]"]

# The calls that may take any time.
_LONG = frozenset(
    ("drain", "retry_all", "clear", "clear_failed", "delete_conversation", "mark_up_to", "backup", "check")
)


# Characters that JSON escapes by two characters, and by six.
_ESCAPED_SHORTLY = b'"\\\b\f\n\r\t'
_CONTROL = bytes(each for each in range(0x20) if each not in _ESCAPED_SHORTLY)
_LONGEST_ESCAPE = 6
# Seconds: about 30 years. A socket refuses much longer time-outs.
_LONGEST_TIMEOUT = 1e9


class NotRunningError(ClosedError, ConnectionError):
    """No program answers on the control socket: there is none, or its program has ended."""


def connect(store: _Path, *, socket: _Path | None = None, timeout: float = 30.0) -> Client:
    """Connects to the program that has a store open.

    Args:
        store: The store's file.
        socket: The path of the socket; None: the store's path with "-control" appended.
        timeout: How many seconds to wait for the connection, and for the answer of each call that ends at once.

    Raises:
        NotRunningError: No program answers there.
        BusyError: Too many clients are connected.
        PermissionDeniedError: The socket belongs to another user, or the system forbids it.
        InvalidError: It is no control socket, speaks another protocol, or serves another store; or an argument is out
            of range.
        TimedOutError: The program did not answer in time.
    """
    path = os.fspath(store)
    name = os.fspath(path) + SUFFIX if socket is None else os.fspath(socket)
    seconds = min(_arguments.milliseconds("timeout", timeout) / 1000, _LONGEST_TIMEOUT)
    try:
        if not name or b"\0" in os.fsencode(name):
            raise InvalidError("the path of the socket is empty, or contains a NUL")
    except UnicodeEncodeError:
        raise InvalidError("the path of the socket is not valid Unicode") from None
    return Client(Address(path, name, seconds))


class Client(NotCopied):
    """A connection to the program that owns a store. Made by `connect`.

    Any thread may call it. One call runs at a time: threads that must not wait for another one's `drain` use clients of
    their own.
    """

    _instead = "call msgqueue.control.connect in each process"

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._requests = 0
        self._connection, self._greeting = _greet(address)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the owner."""
        return int(self._greeting["pid"])

    @property
    def store(self) -> str:
        """The store's path, as the owner has resolved it."""
        return str(self._greeting["store"])

    @property
    def version(self) -> str:
        """The version of the owner's library."""
        return str(self._greeting["msgqueue"])

    @property
    def socket(self) -> str:
        """The path of the socket."""
        return self._address.path

    def call(self, name: str, /, **fields: object) -> dict[str, Any]:
        """Performs a call of the protocol and returns its result.

        `drain`, `retry_all`, `clear`, `clear_failed`, `delete_conversation`, `mark_up_to`, `backup` and `check` are
        waited for without limit, other calls for `timeout` seconds. After a time-out the owner may still perform the
        call.

        Args:
            name: The call.
            fields: Its fields; None is the same as none.

        Raises:
            Error: The exception of the package for the code of the answer.
            InvalidError: A field has no form in JSON.
            TimedOutError: The owner did not answer in time.
            NotRunningError: The owner has ended the connection, or it was closed here.
        """
        with self._lock:
            self._requests += 1
            request = self._requests
            limit = None if name in _LONG else self._address.timeout
            self._connection.write(_request(request, name, fields))
            while True:
                line = self._line(limit)
                # Answers of calls that were interrupted before are skipped.
                if line.get("id") == request:
                    return _result(line)
                if line.get("id") is None and "error" in line:
                    raise _error(line)

    def batch(self, name: str, requests: Sequence[Mapping[str, object]]) -> list[dict[str, Any] | Error]:
        """Performs calls of one name that end at once, and returns the result or the error of each, in their order.

        They are written together, so that consecutive `enqueue` calls share flushes of the disk. Keep the requests of
        one batch below 1 MiB and their answers too.

        Raises:
            Error: As `call`, for what concerns the connection; which of the calls were performed is not known then.
        """
        with self._lock:
            first = self._requests + 1
            self._requests += len(requests)
            lines = [_request(first + place, name, dict(fields)) for place, fields in enumerate(requests)]
            self._connection.write(b"".join(lines))
            answers: dict[int, dict[str, Any] | Error] = {}
            # Errors of requests whose id the server could not read; or of the connection, which then ends.
            nameless: list[Error] = []
            while len(answers) + len(nameless) < len(requests):
                try:
                    line = self._line(self._address.timeout)
                except NotRunningError:
                    if nameless:
                        raise nameless[-1] from None
                    raise
                place = line.get("id")
                if place is None and "error" in line:
                    nameless.append(_error(line))
                elif isinstance(place, int) and first <= place <= self._requests:
                    result = line.get("result")
                    answers[place] = result if isinstance(result, dict) else _error(line)
            # The server reads requests in their order: the errors without an id are those of the others, in order.
            left = iter(nameless)
            return [answers[place] if place in answers else next(left) for place in range(first, first + len(requests))]

    def events(self, *kinds: str, interval: float = 0.0) -> Events:
        """Subscribes to events, on a connection of their own, and returns them as they arrive.

        Every event after this call is among them. The kinds are words of the protocol, for example "status".

        Args:
            kinds: The kinds of event; none: all.
            interval: Seconds: 0 to 60. Events arrive at most once in this time, together: of the changes of one message
                only the last, and instead of more than 200 events of single messages one "resync". An owner of an
                earlier version sends each at once. 0: each at once.

        Raises:
            Error: As `connect` and `call`.
        """
        client = Client(self._address)
        try:
            client._subscribe(list(kinds) or None, _arguments.duration("interval", interval))
        except BaseException:
            client.close()
            raise
        return Events(client)

    def _subscribe(self, kinds: list[str] | None, interval: int) -> None:
        try:
            self.call("subscribe", events=kinds, interval_ms=interval or None)
        except InvalidError as problem:
            # An owner of an earlier version does not know the field.
            if not interval or "interval_ms" not in str(problem) or "unknown" not in str(problem):
                raise
            self.call("subscribe", events=kinds)

    def close(self) -> None:
        """Ends the connection. Any thread; a call that waits for its answer raises NotRunningError. May be repeated."""
        self._connection.end()
        # A thread in a call uses the descriptor until it has seen the end.
        if self._lock.acquire(blocking=False):
            try:
                self._connection.close()
            finally:
                self._lock.release()

    def _line(self, timeout: float | None) -> dict[str, Any]:
        line = self._connection.line(timeout)
        if line is None:
            raise NotRunningError(f"the owner of {self.store} ended the connection")
        return _object(line)


class Events:
    """The events of a queue, in their order. Made by `Client.events`.

    An iterator: it waits for the next event, and ends when the owner ends the connection or after `close`. Any thread;
    each event is returned once.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            event = self.next(None)
        except NotRunningError:
            raise StopIteration from None
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Returns the next event, or None if there is none for `timeout` seconds; None: waits without limit.

        The part of an event that has arrived by then is kept for the next call.

        Raises:
            InvalidError: The time is not finite.
            NotRunningError: The owner has ended the connection, or it was closed here.
        """
        deadline = None if timeout is None else time.monotonic() + _arguments.finite("timeout", timeout)
        with self._client._lock:
            while True:
                try:
                    line = self._client._line(None if deadline is None else deadline - time.monotonic())
                except TimedOutError:
                    return None
                if "event" in line:
                    return line
                if "error" in line:
                    raise _error(line)

    def close(self) -> None:
        """Ends the connection. Any thread."""
        self._client.close()


def body_fields(body: bytes) -> dict[str, str]:
    """Returns the field of a body for `enqueue` and `edit`: `body` if it is UTF-8, otherwise `body_base64`.

    UTF-8 that would be longer than base64 in JSON, because of control characters, is `body_base64` too: a request is
    limited by what the largest body needs in base64.
    """
    more = (_LONGEST_ESCAPE - 1) * _count(body, _CONTROL) + _count(body, _ESCAPED_SHORTLY)
    if more <= len(body) // 3:
        with contextlib.suppress(UnicodeDecodeError):
            return {"body": body.decode()}
    return {"body_base64": base64.b64encode(body).decode()}


def _count(body: bytes, characters: bytes) -> int:
    return len(body) - len(body.translate(None, characters))


def body_of(message: dict[str, Any]) -> bytes | None:
    """Returns the body of a message as the protocol has it; None: it was listed without its body.

    Raises:
        InvalidError: It is neither a text nor valid base64.
    """
    text, encoded = message.get("body"), message.get("body_base64")
    try:
        if isinstance(text, str):
            return text.encode()
        if isinstance(encoded, str):
            return base64.b64decode(encoded, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError) as problem:
        raise InvalidError(f"the body is not valid: {problem}") from None
    if text is not None or encoded is not None:
        raise InvalidError("the body is not a string")
    return None


def _greet(address: Address) -> tuple[Connection, dict[str, Any]]:
    """Connects, and checks what the server says of itself."""
    try:
        connection = address.connect()
    except (FileNotFoundError, NotADirectoryError, ConnectionError):
        raise NotRunningError(f"no program answers on {address.path}") from None
    try:
        try:
            line = connection.line(address.timeout, LONGEST_GREETING)
            greeting = None if line is None else _object(line)
        except InternalError:
            raise InvalidError(f"{address.path} is not the control socket of a queue") from None
        if greeting is None:
            raise NotRunningError(f"no program answers on {address.path}")
        if "error" in greeting:
            raise _error(greeting)
        _check(greeting, address)
    except BaseException:
        connection.close()
        raise
    return connection, greeting


def _check(greeting: dict[str, Any], address: Address) -> None:
    protocol = greeting.get("protocol")
    # Another protocol may have another greeting.
    if isinstance(protocol, int) and protocol != PROTOCOL:
        raise InvalidError(f"{address.path} speaks the unknown protocol {protocol}; this client knows {PROTOCOL}")
    kinds = {"msgqueue": str, "protocol": int, "store": str, "pid": int}
    if not all(isinstance(greeting.get(name), kind) for name, kind in kinds.items()):
        raise InvalidError(f"{address.path} is not the control socket of a queue")
    try:
        is_same = Path(greeting["store"]).samefile(address.store)
    except (OSError, ValueError):
        # The store was moved while it is open: its former path names no file.
        is_same = True
    if not is_same:
        raise InvalidError(f"{address.path} serves another store, {greeting['store']}")


def _request(number: int, name: str, fields: dict[str, object]) -> bytes:
    request = {"id": number, "call": name, **{field: value for field, value in fields.items() if value is not None}}
    if "id" in fields or "call" in fields:
        raise InvalidError(f"{name}: a field cannot have the name id or call")
    try:
        return json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        raise InvalidError(f"{name}: a text is not valid Unicode") from None
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidError(f"{name}: {problem}") from None


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InternalError("the server wrote a line that is not an object of JSON")
    return value


def _result(line: dict[str, Any]) -> dict[str, Any]:
    result = line.get("result")
    if isinstance(result, dict):
        return result
    raise _error(line)


def _error(line: dict[str, Any]) -> Error:
    error = line.get("error")
    if isinstance(error, dict):
        return from_name(str(error.get("code")), str(error.get("text")))
    return InternalError("the server wrote an answer without a result")

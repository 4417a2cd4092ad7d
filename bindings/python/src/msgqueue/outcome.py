"""What a transport answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from . import _abi, _arguments
from .enums import FailureKind, Verdict
from .errors import InvalidError

_TEXT_ROOM = _abi.Outcome.text.size - 1
_HEADER_ROOM = _abi.Outcome.retry_after.size - 1
_MOST_CODE = 2**31 - 1


class Headers(Protocol):
    """HTTP headers of any client: a dict, http.client's message, and others that have `items()`."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Names and values."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How an attempt went. Make it with one of the class methods.

    `text` is for a developer. It is kept with the attempt, cut after 511 bytes, and not part of any text for people.
    """

    verdict: Verdict
    kind: FailureKind = FailureKind.NONE
    code: int = 0
    text: str = ""
    retry_after: float | None = None
    """Seconds: not earlier than this from now. Capped at 7 days."""
    retry_after_queue: bool = False
    """The whole queue waits so long, not only this message."""
    retry_after_header: str = ""
    """The Retry-After header as it came: seconds or an HTTP date."""
    not_sent: bool = False
    """Verdict RETRY: the message surely did not reach the receiver; the attempt has Arrival.NO."""

    def __post_init__(self) -> None:
        """Refuses what C could not take."""
        _arguments.member("verdict", self.verdict, Verdict)
        _arguments.member("kind", self.kind, FailureKind)
        if not -_MOST_CODE <= _arguments.whole("code", self.code) <= _MOST_CODE:
            raise InvalidError(f"code is {self.code}, not in {-_MOST_CODE} to {_MOST_CODE}")
        if not isinstance(self.text, str):
            raise TypeError(f"text must be str, not {type(self.text).__name__}")
        if self.retry_after is not None:
            _arguments.milliseconds("retry_after", self.retry_after)
        _arguments.flag("retry_after_queue", self.retry_after_queue)
        _arguments.flag("not_sent", self.not_sent)
        if len(_arguments.text("retry_after_header", self.retry_after_header)) > _HEADER_ROOM:
            raise InvalidError(f"retry_after_header has more than {_HEADER_ROOM} bytes")

    @classmethod
    def sent(cls, *, code: int = 0, text: str = "") -> Outcome:
        """The receiver has the message, or had it already.

        Args:
            code: The transport's own code.
            text: For a developer.
        """
        return cls(Verdict.SENT, code=code, text=text)

    @classmethod
    def retry(
        cls,
        kind: FailureKind = FailureKind.UNKNOWN,
        *,
        code: int = 0,
        text: str = "",
        retry_after: float | None = None,
        retry_after_queue: bool = False,
        not_sent: bool = False,
    ) -> Outcome:
        """The attempt failed in a way that may pass.

        Args:
            kind: Why it failed.
            code: The transport's own code.
            text: For a developer.
            retry_after: Seconds until the next attempt, at least; None: not said.
            retry_after_queue: The whole queue waits so long, not only this message.
            not_sent: The message surely did not reach the receiver: the connection was refused, or the name not found.

        Raises:
            InvalidError: An argument is out of range.
        """
        return cls(Verdict.RETRY, _failure(kind), code, text, retry_after, retry_after_queue, not_sent=not_sent)

    @classmethod
    def reject(cls, kind: FailureKind = FailureKind.REJECTED, *, code: int = 0, text: str = "") -> Outcome:
        """The attempt failed for good.

        Args:
            kind: Why it failed.
            code: The transport's own code.
            text: For a developer.

        Raises:
            InvalidError: An argument is out of range.
        """
        return cls(Verdict.REJECT, _failure(kind), code, text)

    @classmethod
    def offline(cls, *, text: str = "") -> Outcome:
        """There is no connection: the message stays queued, uses up no retry, and a drain stops.

        Args:
            text: For a developer.
        """
        return cls(Verdict.OFFLINE, FailureKind.OFFLINE, text=text)

    @classmethod
    def pending(cls) -> Outcome:
        """The outcome follows later, by `MessageQueue.complete(delivery.token, …)`."""
        return cls(Verdict.PENDING)

    @classmethod
    def http(
        cls, status: int, headers: Headers | None = None, *, text: str = "", retry_after_queue: bool = False
    ) -> Outcome:
        """The receiver answered by HTTP; the engine decides by the status and the Retry-After header.

        2xx is sent. 408, 425, 429, 5xx and unknown ones are retried. Other 4xx are final. 409 after an attempt that may
        have arrived is retried (kind SERVER; see the option `conflict_is_sent`), otherwise final.

        Args:
            status: 100 to 999.
            headers: The response's headers; names may have any case.
            text: For a developer.
            retry_after_queue: The delay of Retry-After holds for the whole queue, not only this message.

        Raises:
            InvalidError: An argument is out of range.
        """
        if not 100 <= _arguments.whole("status", status) <= 999:
            raise InvalidError(f"status is {status}, not in 100 to 999")
        return cls(
            Verdict.HTTP,
            code=int(status),
            text=text,
            retry_after_queue=retry_after_queue,
            retry_after_header=_retry_after(headers),
        )

    def _write(self, target: _abi.Outcome) -> None:
        """Fills the structure that C gave or will be given."""
        target.verdict = self.verdict
        target.kind = self.kind
        target.code = self.code
        target.retry_after_ms = (
            -1 if self.retry_after is None else _arguments.milliseconds("retry_after", self.retry_after)
        )
        target.retry_after_queue = self.retry_after_queue
        target.retry_after = self.retry_after_header.encode()
        target.text = _fitting(self.text)
        target.not_sent = self.not_sent

    def _for_c(self) -> _abi.Outcome:
        """A structure of its own for `msgq_complete`."""
        target: _abi.Outcome = _abi.sized(_abi.Outcome)
        self._write(target)
        return target


def _failure(kind: FailureKind) -> FailureKind:
    if kind is FailureKind.NONE:
        raise InvalidError("a failure is of some kind, not NONE")
    return kind


def _retry_after(headers: Headers | None) -> str:
    for name, value in headers.items() if headers is not None else ():
        if isinstance(name, str) and name.lower() == "retry-after":
            said = str(value).strip()
            # What is longer than any date, or no ASCII, says nothing; it is the receiver's mistake, not the caller's.
            return said if len(said) <= _HEADER_ROOM and said.isascii() and said.isprintable() else ""
    return ""


def _fitting(text: str) -> bytes:
    """As UTF-8 for a C buffer. It may be anything that a receiver answered, so nothing in it is refused."""
    data = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace")
    if len(data) <= _TEXT_ROOM:
        return data
    return data[:_TEXT_ROOM].decode("utf-8", "ignore").encode()

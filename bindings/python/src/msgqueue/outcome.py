"""The outcome that a transport returns."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from . import _abi, _arguments
from ._values import Value, dataclass
from .enums import FailureKind, Status, Verdict
from .errors import InvalidError

_TEXT_SIZE = _abi.Outcome.text.size - 1
_HEADER_SIZE = _abi.Outcome.retry_after.size - 1
_MAX_CODE = 2**31 - 1
_RECEIPTS = (Status.DELIVERED, Status.READ)


class Headers(Protocol):
    """HTTP headers of any client: a dict, http.client's message, and others that have `items()`."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Returns names and values."""
        ...


@dataclass(frozen=True)
class Outcome(Value):
    """The outcome of an attempt. Make it with one of the class methods.

    `text` is for a developer. It is kept with the attempt, cut after 511 bytes (after 63 when the disk is
    full, or the files are much larger than `limit_file_bytes`), and not part of any text for people.
    """

    verdict: Verdict
    kind: FailureKind = FailureKind.NONE
    code: int = 0
    text: str = ""
    retry_after: float | None = None
    """Seconds: not earlier than this from now. Capped at 7 days."""
    retry_after_queue: bool = False
    """Delays the whole queue, not only this message."""
    retry_after_header: str = ""
    """The Retry-After header as it came: seconds or an HTTP date."""
    not_sent: bool = False
    """Verdict RETRY: the message certainly did not reach the receiver; the attempt has Arrival.NO."""
    receipt: Status | None = None
    """With a success: DELIVERED or READ, if the receiver has reported it already. Otherwise it has no meaning."""

    def __post_init__(self) -> None:
        """Checks that the fields fit into the structure of C."""
        _arguments.member("verdict", self.verdict, Verdict)
        _arguments.member("kind", self.kind, FailureKind)
        if not -_MAX_CODE <= _arguments.whole("code", self.code) <= _MAX_CODE:
            raise InvalidError(f"code must be {-_MAX_CODE} to {_MAX_CODE}, got {self.code}")
        if not isinstance(self.text, str):
            raise TypeError(f"text must be str, not {type(self.text).__name__}")
        if self.retry_after is not None:
            _arguments.milliseconds("retry_after", self.retry_after)
        _arguments.flag("retry_after_queue", self.retry_after_queue)
        _arguments.flag("not_sent", self.not_sent)
        if self.receipt is not None and _arguments.member("receipt", self.receipt, Status) not in _RECEIPTS:
            raise InvalidError(f"receipt must be DELIVERED, READ or None, got {self.receipt}")
        if len(_arguments.text("retry_after_header", self.retry_after_header)) > _HEADER_SIZE:
            raise InvalidError(f"retry_after_header must have at most {_HEADER_SIZE} bytes")

    @classmethod
    def sent(cls, *, code: int = 0, text: str = "", receipt: Status | None = None) -> Outcome:
        """The receiver has the message, or had it already.

        Args:
            code: The transport's own code.
            text: For a developer.
            receipt: Status.DELIVERED or Status.READ, if the receiver has reported that already: as `mark`.

        Raises:
            InvalidError: An argument is out of range.
        """
        # The most frequent outcome is made once.
        is_plain = cls is Outcome and type(code) is int and type(text) is str and not code and not text
        return _sent() if is_plain and receipt is None else cls(Verdict.SENT, code=code, text=text, receipt=receipt)

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
        """A retryable failure.

        Args:
            kind: Why it failed.
            code: The transport's own code.
            text: For a developer.
            retry_after: Seconds until the next attempt, at least; None: not given.
            retry_after_queue: Delays the whole queue, not only this message.
            not_sent: The message certainly did not reach the receiver: connection refused, or name not found.

        Raises:
            InvalidError: An argument is out of range.
        """
        return cls(Verdict.RETRY, _failure(kind), code, text, retry_after, retry_after_queue, not_sent=not_sent)

    @classmethod
    def reject(cls, kind: FailureKind = FailureKind.REJECTED, *, code: int = 0, text: str = "") -> Outcome:
        """A final failure.

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
        """There is no connection, or the receiver accepts no message at present; this one was not sent.

        It stays queued, uses up no retry and is not in `attempts`, and a drain stops. A queue that sends by itself
        tries again after 5 s, or when the connectivity changes.

        Args:
            text: Why, for a person: "connection refused by 127.0.0.1:4222". See `reason` of `set_connectivity`.
        """
        return cls(Verdict.OFFLINE, FailureKind.OFFLINE, text=text)

    @classmethod
    def pending(cls) -> Outcome:
        """The outcome follows later, by `MessageQueue.complete(delivery.token, …)`."""
        return cls(Verdict.PENDING)

    @classmethod
    def skipped(cls) -> Outcome:
        """Not tried: the message goes back to its place and uses up no retry.

        It is tried again at once if another attempt has ended since its own began, otherwise after one second; in the
        modes ASK and MANUAL one that a drain left waits for the next drain. A skip is no attempt: `attempts` neither
        counts nor lists it. After `retry` the message is failed as before, after `send_now` it is in its place.
        """
        return cls(Verdict.SKIPPED)

    @classmethod
    def http(
        cls,
        status: int,
        headers: Headers | None = None,
        *,
        text: str = "",
        retry_after_queue: bool = False,
        receipt: Status | None = None,
    ) -> Outcome:
        """The receiver answered by HTTP; the engine decides by the status and the Retry-After header.

        2xx is sent. 408, 425, 429, 5xx and unknown ones are retried. Other 4xx are final. 409 after an attempt that may
        have arrived is retried (kind SERVER; see the option `conflict_is_sent`), otherwise final.

        Args:
            status: 100 to 999.
            headers: The response's headers; names may have any case.
            text: For a developer.
            retry_after_queue: Retry-After delays the whole queue, not only this message.
            receipt: As for `sent`, if the status means that the receiver has the message.

        Raises:
            InvalidError: An argument is out of range.
        """
        if not 100 <= _arguments.whole("status", status) <= 999:
            raise InvalidError(f"status must be 100 to 999, got {status}")
        return cls(
            Verdict.HTTP,
            code=int(status),
            text=text,
            retry_after_queue=retry_after_queue,
            retry_after_header=_retry_after(headers),
            receipt=receipt,
        )

    def _write(self, target: _abi.Outcome) -> None:
        """Fills a structure of C."""
        target.verdict = self.verdict
        target.kind = self.kind
        target.code = self.code
        target.retry_after_ms = (
            -1 if self.retry_after is None else _arguments.milliseconds("retry_after", self.retry_after)
        )
        target.retry_after_queue = self.retry_after_queue
        target.retry_after = self.retry_after_header.encode() if self.retry_after_header else b""
        target.text = _cut(self.text) if self.text else b""
        target.not_sent = self.not_sent
        target.receipt = 0 if self.receipt is None else self.receipt

    def _for_c(self) -> _abi.Outcome:
        """Returns a structure for `msgq_complete`."""
        target: _abi.Outcome = _abi.sized(_abi.Outcome)
        self._write(target)
        return target


def in_settling_order(answers: Iterable[tuple[int, Outcome]]) -> list[tuple[int, Outcome]]:
    """Returns tokens and outcomes with those of skipped messages last: the others show whether a batch got on."""
    return sorted(answers, key=lambda answer: answer[1].verdict is Verdict.SKIPPED)


def _array_for_c(outcomes: Sequence[Outcome]) -> ctypes.Array[_abi.Outcome]:
    """Returns an array for `msgq_complete_batch`."""
    plain = _sent()
    # Writing the nine fields of each would take ten times as long.
    array = (_abi.Outcome * len(outcomes)).from_buffer(bytearray(_sent_in_c()) * len(outcomes))
    for index, outcome in enumerate(outcomes):
        if outcome is not plain:
            outcome._write(array[index])
    return array


@lru_cache(maxsize=1)
def _sent() -> Outcome:
    """Returns the outcome that most attempts have."""
    return Outcome(Verdict.SENT)


@lru_cache(maxsize=1)
def _sent_in_c() -> bytes:
    """Returns the structure of that outcome."""
    return bytes(_sent()._for_c())


def _failure(kind: FailureKind) -> FailureKind:
    if kind is FailureKind.NONE:
        raise InvalidError("the kind of a failure must not be NONE")
    return kind


def _retry_after(headers: Headers | None) -> str:
    for name, value in headers.items() if headers is not None else ():
        if isinstance(name, str) and name.lower() == "retry-after":
            text = str(value).strip()
            # A text longer than any date, or not ASCII, is the receiver's mistake, not the caller's: it is ignored.
            return text if len(text) <= _HEADER_SIZE and text.isascii() and text.isprintable() else ""
    return ""


def _cut(text: str) -> bytes:
    """Returns UTF-8 that fits into the C buffer. Accepts any text, because it may come from a receiver."""
    data = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace")
    if len(data) <= _TEXT_SIZE:
        return data
    return data[:_TEXT_SIZE].decode("utf-8", "ignore").encode()

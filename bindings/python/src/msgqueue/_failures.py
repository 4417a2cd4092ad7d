"""Turns an exception of a transport into an outcome: the kind of failure, and whether the message was sent.

Exceptions are recognised by the names of their classes, so that their packages need not be imported.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .enums import FailureKind, Verdict
from .errors import InvalidError, PreparationError
from .models import Delivery
from .outcome import Outcome

logger = logging.getLogger("msgqueue")

# Numbers of OSError that mean a failure of the connection or of the network.
_NETWORK_ERRORS = frozenset(
    getattr(errno, name)
    for name in (
        "EADDRNOTAVAIL",
        "ECONNABORTED",
        "ECONNREFUSED",
        "ECONNRESET",
        "EHOSTDOWN",
        "EHOSTUNREACH",
        "ENETDOWN",
        "ENETRESET",
        "ENETUNREACH",
        "ENONET",
        "ENOTCONN",
        "EPIPE",
        "ESHUTDOWN",
    )
    if hasattr(errno, name)
)
# The text of asyncio.open_connection when every address of a name failed with a different error.
_MULTIPLE_ERRORS = re.compile(r"Multiple exceptions: \[Errno \d+\]")

# By the top-level package and the name of a class: the kind of failure, and whether the message was certainly not sent.
# The first class in the method resolution order of an exception that is listed here decides.
_CLASSES: dict[tuple[str, str], tuple[FailureKind, bool]] = {
    # Nothing is sent without an address, or to a receiver that is not trusted.
    ("socket", "gaierror"): (FailureKind.NETWORK, True),
    ("socket", "herror"): (FailureKind.NETWORK, True),
    ("ssl", "SSLCertVerificationError"): (FailureKind.NETWORK, True),
    ("ssl", "SSLError"): (FailureKind.NETWORK, False),
    # Before Python 3.11 these are not subclasses of TimeoutError.
    ("socket", "timeout"): (FailureKind.TIMEOUT, False),
    ("asyncio", "TimeoutError"): (FailureKind.TIMEOUT, False),
    ("concurrent", "TimeoutError"): (FailureKind.TIMEOUT, False),
    ("urllib", "ContentTooShortError"): (FailureKind.NETWORK, False),
    ("urllib", "URLError"): (FailureKind.UNKNOWN, False),
    ("http", "RemoteDisconnected"): (FailureKind.NETWORK, False),
    ("http", "IncompleteRead"): (FailureKind.NETWORK, False),
    # The receiver, or a proxy, answered with something that is not HTTP.
    ("http", "BadStatusLine"): (FailureKind.SERVER, False),
    ("http", "LineTooLong"): (FailureKind.SERVER, False),
    ("http", "UnknownTransferEncoding"): (FailureKind.SERVER, False),
    ("requests", "ConnectTimeout"): (FailureKind.TIMEOUT, True),
    ("requests", "Timeout"): (FailureKind.TIMEOUT, False),
    ("requests", "ConnectionError"): (FailureKind.NETWORK, False),
    ("requests", "ChunkedEncodingError"): (FailureKind.NETWORK, False),
    ("requests", "ContentDecodingError"): (FailureKind.SERVER, False),
    ("requests", "TooManyRedirects"): (FailureKind.SERVER, False),
    # requests wraps these in exceptions of its own.
    ("urllib3", "NewConnectionError"): (FailureKind.NETWORK, True),
    ("urllib3", "ConnectTimeoutError"): (FailureKind.TIMEOUT, True),
    ("urllib3", "TimeoutError"): (FailureKind.TIMEOUT, False),
    ("urllib3", "MaxRetryError"): (FailureKind.NETWORK, False),
    ("urllib3", "ProtocolError"): (FailureKind.NETWORK, False),
    ("urllib3", "ProxyError"): (FailureKind.NETWORK, False),
    ("urllib3", "SSLError"): (FailureKind.NETWORK, False),
    ("httpx", "ConnectTimeout"): (FailureKind.TIMEOUT, True),
    ("httpx", "PoolTimeout"): (FailureKind.TIMEOUT, True),
    ("httpx", "TimeoutException"): (FailureKind.TIMEOUT, False),
    ("httpx", "ConnectError"): (FailureKind.NETWORK, True),
    ("httpx", "NetworkError"): (FailureKind.NETWORK, False),
    ("httpx", "ProxyError"): (FailureKind.NETWORK, False),
    ("httpx", "RemoteProtocolError"): (FailureKind.NETWORK, False),
    ("httpx", "DecodingError"): (FailureKind.SERVER, False),
    ("httpx", "TooManyRedirects"): (FailureKind.SERVER, False),
    # aiohttp makes errors of the system of some of these.
    ("aiohttp", "ConnectionTimeoutError"): (FailureKind.TIMEOUT, True),
    ("aiohttp", "ServerTimeoutError"): (FailureKind.TIMEOUT, False),
    ("aiohttp", "ClientConnectorError"): (FailureKind.NETWORK, True),
    ("aiohttp", "ClientConnectorCertificateError"): (FailureKind.NETWORK, True),
    ("aiohttp", "ServerConnectionError"): (FailureKind.NETWORK, False),
    ("aiohttp", "ClientOSError"): (FailureKind.NETWORK, False),
    ("aiohttp", "ClientPayloadError"): (FailureKind.NETWORK, False),
    ("aiohttp", "ClientResponseError"): (FailureKind.SERVER, False),
}
# Exceptions with a response: of urlopen, and of raise_for_status.
_RESPONSES = {
    ("urllib", "HTTPError"),
    ("requests", "HTTPError"),
    ("httpx", "HTTPStatusError"),
    ("aiohttp", "ClientResponseError"),
}
# Exceptions that wrap a more specific one.
_WRAPPERS = {
    ("urllib", "URLError"),
    ("requests", "ConnectionError"),
    ("urllib3", "MaxRetryError"),
    ("urllib3", "ProxyError"),
}
_MAX_DEPTH = 8


def outcome_of(problem: BaseException, messages: int = 1) -> Outcome:
    """Returns the outcome of an attempt, or of a batch of several messages, whose transport raised this exception."""
    text = described(problem)
    if isinstance(problem, PreparationError) and messages == 1:
        return Outcome.reject(FailureKind.LOCAL, text=text)
    response = _response(problem, text)
    if response is not None:
        return response
    kind, is_not_sent = _classify(problem)
    return Outcome(Verdict.RETRY, kind, text=text, not_sent=is_not_sent)


def outcome_of_forming(problem: BaseException) -> Outcome:
    """Returns the outcome of a message that a relay could not form: a function of the host raised this exception."""
    if isinstance(problem, PreparationError):
        return outcome_of(problem)
    if isinstance(problem, (TypeError, ValueError)):
        return Outcome.reject(text=described(problem))
    return Outcome.retry(text=described(problem), not_sent=True)


def log_raised(problem: BaseException, outcome: Outcome, delivery: Delivery, *others: Delivery) -> None:
    """Logs the exception of a transport in one line, and its traceback at level DEBUG. `others`: of the same batch."""
    level = logging.WARNING if isinstance(problem, Exception) else logging.ERROR
    kind = "" if outcome.verdict is Verdict.HTTP else f" ({outcome.kind.name})"
    what = " ".join(described(problem).split())
    message = "attempt %d of message %s failed%s: the transport raised %s"
    if others:
        message = f"a batch of {len(others) + 1} messages failed, {message}"
    logger.log(level, message, delivery.attempt, delivery.id, kind, what)
    logger.debug("the exception of attempt %d of message %s", delivery.attempt, delivery.id, exc_info=problem)


def is_expected(outcome: Outcome) -> bool:
    """Whether the exception behind this outcome is one of a network or a receiver, and not a defect."""
    return outcome.kind is not FailureKind.UNKNOWN


def failure(text: str) -> Outcome:
    """Returns the outcome of an attempt whose transport has a defect."""
    return Outcome(Verdict.RETRY, FailureKind.UNKNOWN, text=text)


def wrong_answer(answer: object) -> str:
    """Describes a return value that is not an Outcome."""
    return f"the transport returned {wrong_answer_type(answer)}, not an Outcome"


def wrong_answer_type(answer: object) -> str:
    """Describes the type of a return value."""
    return "None" if answer is None else f"an object of type {type(answer).__name__}"


def answers_of_batch(answers: object, deliveries: Sequence[Delivery]) -> list[Outcome]:
    """Returns an outcome for each delivery: a failure of kind UNKNOWN where a batch transport returned none."""
    count = len(deliveries)
    if not isinstance(answers, Sequence) or isinstance(answers, (str, bytes)) or len(answers) != count:
        what = f"{len(answers)} outcomes" if isinstance(answers, (list, tuple)) else wrong_answer_type(answers)
        text = f"the transport returned {what} for a batch of {count} messages"
        logger.error(text)
        return [failure(text)] * count
    outcomes = []
    for answer, delivery in zip(answers, deliveries):
        if isinstance(answer, Outcome):
            outcomes.append(answer)
            continue
        text = wrong_answer(answer)
        logger.error("%s for message %s", text, delivery.id)
        outcomes.append(failure(text))
    return outcomes


def described(problem: BaseException) -> str:
    """Returns the text of an exception, whatever it is."""
    name = type(problem).__name__
    try:
        return f"{name}: {problem}"
    except Exception:  # noqa: BLE001 - __str__ may raise anything
        return name


def _classify(problem: BaseException, depth: int = 0) -> tuple[FailureKind, bool]:
    """Returns the kind of failure, and whether the message was certainly not sent."""
    name = next((name for name in _names(problem) if name in _CLASSES), None)
    if name is None:
        return _classify_os_error(problem) if isinstance(problem, OSError) else (FailureKind.UNKNOWN, False)
    kind, is_not_sent = _CLASSES[name]
    inner = _wrapped(problem) if name in _WRAPPERS and depth < _MAX_DEPTH else None
    if inner is not None:
        found, is_not_sent = _classify(inner, depth + 1)
        kind = kind if found is FailureKind.UNKNOWN else found
    return kind, is_not_sent


def _classify_os_error(problem: OSError) -> tuple[FailureKind, bool]:
    if isinstance(problem, TimeoutError) or problem.errno == errno.ETIMEDOUT:
        return FailureKind.TIMEOUT, False
    if isinstance(problem, ConnectionRefusedError) or problem.errno == errno.ECONNREFUSED:
        return FailureKind.NETWORK, True
    if isinstance(problem, ConnectionError) or problem.errno in _NETWORK_ERRORS:
        return FailureKind.NETWORK, False
    if problem.errno is None and _MULTIPLE_ERRORS.match(str(problem)):
        return FailureKind.NETWORK, True
    # A file, a permission, a descriptor: not an error of the network.
    return FailureKind.UNKNOWN, False


def _names(problem: BaseException) -> Iterator[tuple[str, str]]:
    for kind in type(problem).__mro__:
        yield str(kind.__module__).partition(".")[0], kind.__name__


def _wrapped(problem: BaseException) -> BaseException | None:
    """Returns the wrapped exception, from `reason` or from the arguments."""
    candidates = (getattr(problem, "reason", None), *problem.args)
    return next((each for each in candidates if isinstance(each, BaseException) and each is not problem), None)


def _response(problem: BaseException, text: str) -> Outcome | None:
    """Returns the outcome of an exception with a response: the engine decides by its status."""
    name = next((name for name in _names(problem) if name in _RESPONSES), None)
    if name is None:
        return None
    carrier: Any = problem
    try:
        if name[0] == "urllib":
            outcome = Outcome.http(carrier.code, carrier.headers, text=text)
            carrier.close()
            return outcome
        if name[0] == "aiohttp":
            # With a cause the answer could not be read, and the status is one that aiohttp made up.
            return None if carrier.__cause__ else Outcome.http(carrier.status, carrier.headers, text=text)
        return Outcome.http(carrier.response.status_code, carrier.response.headers, text=text)
    except (AttributeError, InvalidError, OSError, TypeError):
        # The response does not have the expected form.
        return None

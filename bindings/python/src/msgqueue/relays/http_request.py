"""What the relays to HTTP servers have in common: the request, its headers, and the outcome of an answer."""

from __future__ import annotations

import errno
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union
from urllib.parse import SplitResult, urlsplit

from .. import _failures
from ..enums import FailureKind, Verdict
from ..errors import InvalidError
from ..models import Delivery
from ..outcome import Headers, Outcome
from .http_proxy import AUTHORIZATION, PROXY_UNAUTHORIZED, Proxy, ProxyError, netloc, parsed
from .reasons import logger, reason_of
from .trace_context import PARENT, STATE, trace_headers
from .webhook import Secrets, Signer

RequestHeaders = Union[Mapping[str, str], Callable[[Delivery], Mapping[str, str]]]

# Bytes of an answer that are read; a longer one ends the connection.
MAX_ANSWER = 1 << 20

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
# Visible characters, space and tab of Latin-1: nothing that could end the line.
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*\Z")
_ASCII = re.compile(r"[\t\x20-\x7e]*\Z")
_TARGET = re.compile(r"[\x21-\x7e]*\Z")
_PRINTABLE = re.compile(r"[\x20-\x7e]*\Z")
_CREDENTIALS = re.compile(r"[\x21-\x7e]+\Z")
# The headers that a relay sets itself.
_OWN = frozenset(("connection", "content-length", "host", "idempotency-key", "transfer-encoding", PARENT, STATE))
_SIGNATURE = frozenset(("webhook-id", "webhook-signature", "webhook-timestamp"))
# Statuses other than 2xx and 5xx with which the engine tries again.
_RETRIED = frozenset((408, 425, 429))
# Characters of an answer in the text of an outcome.
_MAX_TEXT = 200
# There is no way to the server: nothing was sent.
_UNREACHABLE = frozenset(
    (errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.EADDRNOTAVAIL)
)


# The outcome must reach the engine before it ends the attempt, also on a busy machine: a part of the time-out of the
# attempt, in seconds at least and at most, but never more than a quarter.
_MARGIN, _MIN_MARGIN, _MAX_MARGIN = 0.1, 0.1, 1.0
# A further request, of a batch or with a new token, is not begun with less than this part of the time left.
_LAST_BEGIN = 0.1


class Limit(NamedTuple):
    """The time of an attempt, or of a batch."""

    deadline: float
    """Of time.monotonic."""
    last_begin: float
    """When the last request may be begun, unless it is the first."""


def limit_of(deliveries: Sequence[Delivery], timeout: float | None) -> Limit:
    """Returns the time for messages that are sent together; `timeout` is that of the relay."""
    begin = time.monotonic()
    allowed = min(delivery.timeout for delivery in deliveries)
    allowed -= min(allowed / 4, _MAX_MARGIN, max(_MIN_MARGIN, allowed * _MARGIN))
    if timeout is not None:
        allowed = min(allowed, timeout)
    return Limit(begin + allowed, begin + allowed * (1 - _LAST_BEGIN))


class LateTokenError(Exception):
    """The function for the bearer token has not returned in time."""


class Answer(NamedTuple):
    """An answer whose status is known."""

    status: int
    reason: str
    headers: Headers
    body: bytes
    is_whole: bool
    """The body was read to its end."""


class Form:
    """The URL and the headers of the requests of a relay."""

    def __init__(
        self,
        url: str,
        headers: RequestHeaders | None,
        *,
        webhook_secret: Secrets | None,
        has_token: bool,
        proxy: str | None = None,
        is_ascii: bool = False,
    ) -> None:
        """Checks them.

        Raises:
            InvalidError: The URL, a header, a secret or the URL of the proxy is not valid.
        """
        parts = _split(url)
        self.is_secure: bool = parts.scheme == "https"
        self.host: str = parts.hostname or ""
        self.port: int | None = parts.port
        self.target: str = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.url: str = f"{parts.scheme}://{parts.netloc}{self.target}"
        self.proxy: Proxy | None = parsed(proxy)
        self._signer = None if webhook_secret is None else Signer(webhook_secret)
        own = {"authorization"} if has_token else set()
        if self.proxy is not None:
            own.add(AUTHORIZATION.lower())
        self._value, self._values = (_ASCII, "ASCII") if is_ascii else (_VALUE, "Latin-1")
        self._own = _OWN.union(own, _SIGNATURE if self._signer is not None else ())
        self._of_delivery = headers if callable(headers) else None
        self._headers = self._checked(headers) if isinstance(headers, Mapping) else self._checked({})
        if headers is not None and not callable(headers) and not isinstance(headers, Mapping):
            raise TypeError(f"headers must be a mapping or a function, not {type(headers).__name__}")
        self._has_warned = False

    @property
    def authority(self) -> str:
        """The server's host and port."""
        return netloc(self.host, self.port or (443 if self.is_secure else 80))

    @property
    def place(self) -> str:
        """What a connection is opened to, for texts."""
        return self.authority if self.proxy is None else self.proxy.place

    @property
    def has_tunnel(self) -> bool:
        """Whether the proxy passes the connection on (CONNECT), and reads no request."""
        return self.proxy is not None and self.is_secure

    @property
    def proxy_headers(self) -> dict[str, str]:
        """The headers that are for the proxy."""
        is_known = self.proxy is not None and self.proxy.authorization is not None
        return {AUTHORIZATION: self.proxy.authorization} if is_known else {}  # type: ignore[union-attr, dict-item]

    def headers(self, delivery: Delivery, token: str | None) -> dict[str, str]:
        """Returns the headers of a message.

        Raises:
            InvalidError: The function that makes them returned one that is not valid.
        """
        headers = self._headers if self._of_delivery is None else self._checked(self._of_delivery(delivery))
        headers = {**headers, "Idempotency-Key": idempotency_key(delivery.id), **trace_headers(delivery.metadata)}
        self._warn(delivery, headers)
        if self._signer is not None:
            headers.update(self._signer.headers(delivery.id, delivery.body, int(time.time())))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return headers if self.has_tunnel else {**headers, **self.proxy_headers}

    def _warn(self, delivery: Delivery, headers: Mapping[str, str]) -> None:
        for name in (PARENT, STATE):
            if delivery.metadata.get(name) and name not in headers and not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "the %s of message %s is not valid and was not sent; further ones are not logged", name, delivery.id
                )

    def _checked(self, headers: Mapping[str, str]) -> dict[str, str]:
        checked = {"Content-Type": "application/octet-stream"}
        for name, value in headers.items():
            if not isinstance(name, str) or not _TOKEN.match(name):
                raise InvalidError(f"{name!r} is not the name of a header")
            if name.lower() in self._own:
                raise InvalidError(f"the header {name} is set by the transport")
            if not isinstance(value, str):
                raise InvalidError(f"the value of the header {name} must be a string, not {type(value).__name__}")
            if not self._value.match(value):
                raise InvalidError(
                    f"the value of the header {name} contains a control character, or one outside {self._values}"
                )
            if name.lower() == "content-type":
                checked.pop("Content-Type", None)
            checked[name] = value
        return checked


def idempotency_key(id: str) -> str:
    """Returns the value of the header for an id: a string, or a display string, of RFC 9651."""
    if _PRINTABLE.match(id):
        escaped = id.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    encoded = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'%"' else f"%{byte:02x}"
        for byte in id.encode("utf-8", "surrogatepass")
    )
    return f'%"{encoded}"'


def tls_context(form: Form, context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Returns the context for https; None for http."""
    if not form.is_secure:
        return None
    if context is None:
        return ssl.create_default_context()
    if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
        logger.warning("the certificate of %s is not verified: the context says so", form.host)
    return context


# ---------------------------------------------------------------- outcomes


def outcome_of_answer(answer: Answer, form: Form) -> Outcome:
    """Returns the outcome of an attempt that was answered."""
    if answer.status == PROXY_UNAUTHORIZED and form.proxy is not None and not form.has_tunnel:
        return Outcome.offline(text=form.proxy.refusal(answer.status, answer.reason))
    status, is_cut = answer.status, not answer.is_whole and len(answer.body) < MAX_ANSWER
    excerpt = " ".join(answer.body.decode("utf-8", "replace").split())[:_MAX_TEXT]
    text = f"{status} {answer.reason}".strip() + (f": {excerpt}" if excerpt else "")
    if is_cut and 300 <= status < 500 and status not in _RETRIED:
        return Outcome.retry(FailureKind.NETWORK, text=f"the answer was cut: {text}")
    if not 100 <= status <= 999:
        return Outcome.retry(FailureKind.SERVER, text=f"not a status of HTTP: {text}")
    return Outcome.http(status, answer.headers, text=text)


def outcome_of_connecting(problem: BaseException, form: Form) -> Outcome:
    """Returns the outcome of an attempt that found no connection: nothing was sent."""
    if isinstance(problem, ProxyError):
        return Outcome.offline(text=str(problem))
    text = _failures.described(problem)
    causes = list(_causes(problem))
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return Outcome.retry(FailureKind.NETWORK, text=text, not_sent=True)
    away = next((each for each in causes if _is_unreachable(each)), None)
    if away is not None:
        return Outcome.offline(text=reason_of(away, form.place))
    kind = _failures.outcome_of(problem).kind
    return Outcome.retry(FailureKind.UNKNOWN if kind is FailureKind.NONE else kind, text=text, not_sent=True)


def _is_unreachable(problem: BaseException) -> bool:
    return isinstance(problem, socket.gaierror) or (isinstance(problem, OSError) and problem.errno in _UNREACHABLE)


def outcome_of_token(problem: BaseException, *, is_final: bool) -> Outcome:
    """Returns the outcome when the function that returns the bearer token raised: nothing was sent.

    `is_final`: the engine decides what refused credentials mean.
    """
    if isinstance(problem, LateTokenError):
        logger.warning("the function for the bearer token took longer than the attempt; the message is tried again")
        return Outcome.skipped()
    text = f"no bearer token: {_failures.described(problem)}"
    found = _failures.outcome_of(problem)
    if found.verdict is Verdict.REJECT:
        # PreparationError.
        return Outcome.reject(found.kind, text=text)
    if is_final and (isinstance(problem, InvalidError) or _is_final(found)):
        return Outcome.reject(FailureKind.UNAUTHORIZED, code=found.code, text=text)
    return Outcome.offline(text=text)


def _is_final(outcome: Outcome) -> bool:
    return outcome.verdict is Verdict.HTTP and 400 <= outcome.code < 500 and outcome.code not in _RETRIED


def checked_token(token: object) -> str:
    """Returns a bearer token that can stand in a header.

    Raises:
        InvalidError: It cannot. The text does not contain it.
    """
    if not isinstance(token, str) or not _CREDENTIALS.match(token):
        raise InvalidError("the function for the bearer token did not return a str of visible ASCII characters")
    return token


def is_sent(outcome: Outcome) -> bool:
    """Whether the server accepted the message."""
    return outcome.verdict is Verdict.HTTP and 200 <= outcome.code < 300


def log_refused(form: Form, delivery: Delivery) -> None:
    """Logs that a new token was refused, too."""
    logger.warning(
        "%s answered 401 to message %s with a new bearer token, too; a queue with pause_on_unauthorized is paused",
        form.host,
        delivery.id,
    )


def _causes(problem: BaseException, depth: int = 0) -> Iterator[BaseException]:
    """Yields an exception and what it was raised from, also the members of a group."""
    yield problem
    if depth >= 8:
        return
    group: Any = getattr(problem, "exceptions", ())
    inner = [problem.__cause__ or problem.__context__, getattr(problem, "os_error", None), *group]
    for each in inner:
        if isinstance(each, BaseException):
            yield from _causes(each, depth + 1)


def _split(url: str) -> SplitResult:
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    # It may have a password, which may be anywhere when a part of it is taken for the end of the host.
    shown = "the URL" if "@" in url else repr(url)
    if not _TARGET.match(url):
        # urlsplit drops line breaks.
        raise InvalidError(f"{shown} contains a character that must be percent-encoded")
    try:
        parts = urlsplit(url)
        _ = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise InvalidError(f"{shown} is not a URL of http or https") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError(f"{shown} is not a URL of http or https")
    if parts.username is not None or parts.password is not None:
        raise InvalidError("the URL must not contain a user name; use the header Authorization")
    if parts.fragment:
        raise InvalidError(f"{shown} contains a fragment")
    return parts

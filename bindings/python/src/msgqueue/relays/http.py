"""A transport that posts each message to an HTTP server."""

from __future__ import annotations

import contextlib
import contextvars
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from http.client import HTTPException, HTTPResponse

from .. import _arguments, _failures, _threads
from .._copying import NotCopied
from ..enums import Verdict
from ..errors import InvalidError
from ..models import Delivery
from ..outcome import Outcome
from .http_connection import Connection, Response, new_connection
from .http_credentials import LOOK, Credentials, is_unauthorized
from .http_request import (
    MAX_ANSWER,
    Answer,
    Form,
    LateTokenError,
    Limit,
    RequestHeaders,
    checked_token,
    idempotency_key,
    is_sent,
    limit_of,
    log_refused,
    outcome_of_answer,
    outcome_of_connecting,
    outcome_of_token,
    tls_context,
)
from .webhook import Secrets

__all__ = ["Http", "idempotency_key"]


class Http(NotCopied):
    r"""Posts the body of each message to a URL; the header Idempotency-Key is the message's id.

    The engine decides by the status of the answer as described at `Outcome.http`: 2xx is sent, 408, 425, 429 and 5xx
    are retried after Retry-After, other 4xx are final. Redirects are not followed; they count as an unknown status.
    401 is not about a message: the outcome is `Outcome.offline`, so the queue is held, uses up no retry, and tries one
    message every 5 s, until the server accepts the credentials.

    A connection that is refused, a name that does not resolve and a network that cannot be reached mean that nothing
    was sent: the outcome is `Outcome.offline`, which uses up no retry and stops a drain. Another failure to connect, a
    certificate that is not trusted and a time-out while connecting mean the same, but are retried. A connection that
    breaks later, or a time-out of the answer, is retried under the same key, because the message may have arrived. So
    is an answer whose header is cut or has no valid Content-Length, whatever its status, and an answer that is cut in
    its body, if its status would be final and is not 2xx. Answers with a status 1xx are skipped.

    The key is a string of RFC 9651 ("…" with \" and \\ escaped); of an id with characters outside ASCII a display
    string (%"…"). The metadata traceparent and tracestate are sent as headers if W3C Trace Context permits their
    values; no other metadata is sent. Connections are kept alive and reused, unless the server has sent something on
    them that no request asked for. Any thread may call it; each call uses a connection of its own.

    Proxies of the environment are not used; `proxy` names one. A proxy that cannot be reached, one that answers 407,
    and one that answers CONNECT to a server of https with another status than 2xx mean that nothing was sent:
    `Outcome.offline`. Of a server of http, the other answers of a proxy cannot be told from those of the server, and
    count as these.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: RequestHeaders | None = None,
        timeout: float | None = None,
        context: ssl.SSLContext | None = None,
        bearer: Callable[[], str] | None = None,
        webhook_secret: Secrets | None = None,
        proxy: str | None = None,
        unauthorized_is_final: bool = False,
    ) -> None:
        """Makes the transport; connects nowhere yet.

        Args:
            url: http or https, without user name and fragment. Its path and query are used as they are.
            headers: Sent with every message, for example Authorization, or a function of the delivery that returns
                them; a message for which it returns an invalid header is rejected. Content-Type is
                application/octet-stream unless it is among them.
            timeout: Seconds that an attempt may take, from connecting to the end of the answer. None, or more: the
                timeout of the attempt, less a tenth of it (at least 0.1 s, but at most a quarter; at most 1 s), so
                that the queue learns of the outcome in time. Only the system limits how long the look-up of a name
                takes.
            context: For https; None: certificates are verified against those of the system. A certificate of the
                client is given by its `load_cert_chain`.
            bearer: Returns a token for the header Authorization; called before the first message, and again when the
                server answers 401. The message is then sent again in the same attempt, once. If the answer is still
                401, or the function raises an exception, the outcome is `Outcome.offline` with that reason. Called by
                one thread at a time, which is none of the queue's. If it does not return in time, the message is
                skipped, which uses up no retry; a later attempt takes what it returns or raises.
            webhook_secret: Signs each attempt as Standard Webhooks says, in the headers webhook-id, webhook-timestamp
                and webhook-signature: whsec_ and base64 of 24 to 64 bytes; several while they are being replaced.
            proxy: http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with percent-encoded characters in USER and
                PASSWORD. To a server of https it passes a connection on (CONNECT), and sees no request.
            unauthorized_is_final: An answer 401, and a function `bearer` that raises InvalidError or a response of 4xx,
                are final failures of kind UNAUTHORIZED. Open the queue with `pause_on_unauthorized` then: it is paused
                until `resume`, and no retry is used up. Without it every message fails.

        Raises:
            InvalidError: The URL, a header, a secret, or the URL of the proxy is not valid.
        """
        self._form = Form(url, headers, webhook_secret=webhook_secret, has_token=bearer is not None, proxy=proxy)
        if timeout is not None and _arguments.finite("timeout", timeout) <= 0:
            raise InvalidError(f"timeout must be more than 0 seconds, got {timeout}")
        if bearer is not None and not callable(bearer):
            raise TypeError(f"bearer must be a function, not {type(bearer).__name__}")
        self._timeout = timeout
        is_final = _arguments.flag("unauthorized_is_final", unauthorized_is_final)
        self._credentials = Credentials(self._form.authority, is_final=is_final)
        self._context = tls_context(self._form, context)
        self._token = None if bearer is None else _Token(bearer)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []

    def __enter__(self) -> Http:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, delivery: Delivery) -> Outcome:
        """Posts one message and returns the outcome."""
        return self._send(delivery, limit_of([delivery], self._timeout))

    def batch(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Posts messages one after the other and returns one outcome for each, in their order.

        After a failure the rest of that conversation is skipped, and after `offline` everything. `timeout` limits the
        batch as a whole; messages that are not begun in nine tenths of this time are skipped.
        """
        if not deliveries:
            return []
        limit = limit_of(deliveries, self._timeout)
        outcomes = [Outcome.skipped()] * len(deliveries)
        failed: set[str] = set()
        for index, delivery in enumerate(deliveries):
            if delivery.conversation in failed:
                continue
            if index > 0 and time.monotonic() >= limit.last_begin:
                break
            outcome = outcomes[index] = self._send(delivery, limit)
            if outcome.verdict is Verdict.OFFLINE:
                break
            if not is_sent(outcome):
                failed.add(delivery.conversation)
        return outcomes

    def close(self) -> None:
        """Closes the connections that are kept. Any thread; the transport can still be called."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _send(self, delivery: Delivery, limit: Limit) -> Outcome:
        while (turn := self._credentials.begin()) is None:
            if time.monotonic() >= limit.last_begin:
                return Outcome.skipped()
            time.sleep(LOOK)
        if isinstance(turn, Outcome):
            return turn
        outcome: Outcome | None = None
        try:
            outcome = self._exchange(delivery, limit)
        finally:
            self._credentials.end(turn, outcome)
        return self._credentials.judged(outcome)

    def _exchange(self, delivery: Delivery, limit: Limit) -> Outcome:
        if self._token is None:
            return self._attempt(delivery, None, limit.deadline)
        try:
            token = self._token.get(limit.deadline)
        except Exception as problem:  # noqa: BLE001 - the function may raise anything; the outcome says what
            return outcome_of_token(problem, is_final=self._credentials.is_final)
        if time.monotonic() >= limit.last_begin:
            # The function for the token took most of the time.
            return Outcome.skipped()
        outcome = self._attempt(delivery, token, limit.deadline)
        if not is_unauthorized(outcome):
            return outcome
        try:
            another = self._token.get(limit.deadline, refused=token)
        except Exception as problem:  # noqa: BLE001 - as above
            return outcome_of_token(problem, is_final=self._credentials.is_final)
        if another != token:
            if time.monotonic() >= limit.last_begin:
                # The next attempt uses the new token.
                return Outcome.skipped()
            outcome = self._attempt(delivery, another, limit.deadline)
        if is_unauthorized(outcome) and self._credentials.is_final:
            log_refused(self._form, delivery)
        return outcome

    def _attempt(self, delivery: Delivery, token: str | None, deadline: float) -> Outcome:
        try:
            headers = self._form.headers(delivery, token)
        except Exception as problem:  # noqa: BLE001 - the function for headers may raise anything
            return _failures.outcome_of_forming(problem)
        connection = self._reusable()
        if connection is None:
            connection = new_connection(self._form, self._context)
            try:
                connection.open(deadline)
            except (OSError, ValueError) as problem:
                connection.close()
                return outcome_of_connecting(problem, self._form)
        try:
            answer, is_reusable = self._post(connection, delivery.body, headers, deadline)
        except (OSError, HTTPException, ValueError) as problem:
            connection.close()
            return _failures.outcome_of(problem)
        except BaseException:
            connection.close()
            raise
        self._return(connection, is_reusable)
        return outcome_of_answer(answer, self._form)

    def _post(
        self, connection: Connection, body: bytes, headers: dict[str, str], deadline: float
    ) -> tuple[Answer, bool]:
        connection.limit(deadline)
        connection.response_class = partial(Response, deadline)  # type: ignore[assignment]
        problem: OSError | None = None
        try:
            connection.request("POST", self._request_target, body, headers)
            connection.limit(deadline)
        except (BrokenPipeError, ConnectionResetError) as raised:
            # A server may refuse a request before it has read all of it. Its answer says why.
            problem = raised
        try:
            response = connection.getresponse()
        except (OSError, HTTPException):
            if problem is not None:
                raise problem from None
            raise
        if problem is not None and response.status < 400:
            raise problem
        answer, is_whole = _read(response)
        response.close()
        has_more = isinstance(response, Response) and response.has_more
        is_reusable = is_whole and problem is None and not response.will_close and not has_more
        return Answer(response.status, response.reason, response.headers, answer, is_whole), is_reusable

    @property
    def _request_target(self) -> str:
        is_forwarded = self._form.proxy is not None and not self._form.has_tunnel
        return self._form.url if is_forwarded else self._form.target

    def _reusable(self) -> Connection | None:
        """Takes a kept connection that the server has not ended, and to which it has sent nothing more."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not _is_readable(connection.sock):
                return connection
            connection.close()

    def _return(self, connection: Connection, is_reusable: bool) -> None:
        if is_reusable and connection.sock is not None:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()


class _Token:
    """The bearer token of a relay; one thread at a time asks for a new one."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._token: str | None = None
        self._asked: Future[str] | None = None
        """What the function returns or raises, until somebody has taken it."""

    def get(self, deadline: float, refused: str | None = None) -> str:
        """Returns the token; asks for a new one if there is none, or if this one was refused.

        Raises:
            LateTokenError: The function has not returned in time. It goes on; a later call takes what it returns.
        """
        with self._lock:
            if self._token is not None and self._token != refused:
                return self._token
            self._token = None
            if self._asked is None:
                started: Future[str] = Future()
                # The function may wait for longer than the attempt.
                context = contextvars.copy_context()
                _threads.start(
                    threading.Thread(
                        target=context.run, args=(self._ask, started), name="msgqueue-relay-token", daemon=True
                    )
                )
                self._asked = started
            asked = self._asked
        wait([asked], max(0.0, deadline - time.monotonic()))
        if not asked.done():
            raise LateTokenError
        with self._lock:
            if self._asked is asked:
                self._asked = None
                if asked.exception() is None:
                    self._token = asked.result()
        return asked.result()

    def _ask(self, asked: Future[str]) -> None:
        try:
            asked.set_result(checked_token(self._make()))
        except BaseException as problem:  # noqa: BLE001 - given to the one who waits
            asked.set_exception(problem)


def _read(response: HTTPResponse) -> tuple[bytes, bool]:
    """Returns the answer, and whether it was read to its end. The status is known: a failure of this part is none."""
    answer = bytearray()
    with contextlib.suppress(OSError, HTTPException, ValueError):
        while len(answer) < MAX_ANSWER:
            part = response.read1(1 << 16)
            if not part:
                return bytes(answer), not response.length
            answer += part
    return bytes(answer), False


def _is_readable(peer: socket.socket) -> bool:
    """Whether the server has ended the connection, or has sent what no request asked for."""
    if isinstance(peer, ssl.SSLSocket) and peer.pending():
        return True
    poll = select.poll()
    poll.register(peer, select.POLLIN)
    return bool(poll.poll(0))

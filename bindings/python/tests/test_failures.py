"""X2: an exception of a transport has a kind of failure, and says whether the message was certainly not sent."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import io
import json
import logging
import socket
import ssl
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from email.message import Message as Headers
from pathlib import Path
from typing import Any

import pytest

from async_sender import in_loop, until
from conftest import Opener
from msgqueue import (
    Arrival,
    Attempt,
    AttemptOutcome,
    Connectivity,
    Delivery,
    FailureKind,
    Outcome,
    PreparationError,
    RetryPolicy,
    Status,
    aio,
)
from receiver import Receiver
from support import wait_until

NO_RETRY = RetryPolicy(ladder=[])
NEVER = ("NETWORK", "NO")
PERHAPS = ("NETWORK", "PERHAPS")
LATE = ("TIMEOUT", "PERHAPS")
DEFECT = ("UNKNOWN", "PERHAPS")


# ---------------------------------------------------------------- receivers that fail


@contextlib.contextmanager
def refusing() -> Iterator[int]:
    """Returns a bound port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextlib.contextmanager
def serving(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """Yields a port where each connection gets this answer after its first bytes."""
    ended = threading.Event()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.02)

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except socket.timeout:
                    continue
                with connection:
                    connection.settimeout(10)
                    connection.recv(1 << 16)
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            thread.join()


def cut(connection: socket.socket) -> None:
    """Resets the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def slow() -> Iterator[int]:
    """Yields a port that answers when the test has ended."""
    over = threading.Event()
    with serving(lambda _: over.wait(20)) as port:
        try:
            yield port
        finally:
            over.set()


def cutting() -> contextlib.AbstractContextManager[int]:
    return serving(cut)


def cutting_short() -> contextlib.AbstractContextManager[int]:
    """Yields a port whose response ends before its length."""
    return serving(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"))


def speaking_nonsense() -> contextlib.AbstractContextManager[int]:
    return serving(lambda connection: connection.sendall(b"hello?\r\n\r\n"))


# ---------------------------------------------------------------- clients of the standard library


def by_socket(port: int, timeout: float) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(b"hello")
        if not connection.recv(1):
            raise ConnectionResetError("closed")


def by_http_client(port: int, timeout: float) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/", b"hello")
        connection.getresponse().read()
    finally:
        connection.close()


def by_urllib(port: int, timeout: float) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", b"hello", timeout) as response:
        response.read()


async def by_streams(port: int, timeout: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"hello")
        await writer.drain()
        await asyncio.wait_for(reader.readexactly(1), timeout)
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("closed") from None
    finally:
        writer.close()


CLIENTS = [by_socket, by_http_client, by_urllib]
FAILURES: list[Any] = [
    pytest.param(refusing, NEVER, id="refused"),
    pytest.param(cutting, PERHAPS, id="cut"),
    pytest.param(slow, LATE, id="slow"),
]


def of(attempt: Attempt) -> tuple[str, str]:
    assert attempt.outcome is AttemptOutcome.RETRY
    return attempt.kind.name, attempt.arrival.name


def attempt_with(opened: Opener, transport: Callable[[Delivery], Outcome]) -> Attempt:
    """Returns the attempt that this transport makes."""
    queue = opened(transport=transport, retry=NO_RETRY)
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).status in (Status.FAILED, Status.SENT))
    (attempt,) = queue.attempts(id)
    return attempt


def raising(problem: BaseException) -> Callable[[Delivery], Outcome]:
    def transport(_: Delivery) -> Outcome:
        raise problem

    return transport


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("receiver_of", "expected"), FAILURES)
def test_X2_a_real_failure_has_its_kind(
    opened: Opener,
    client: Callable[[int, float], None],
    receiver_of: Callable[[], contextlib.AbstractContextManager[int]],
    expected: tuple[str, str],
) -> None:
    with receiver_of() as port:

        def transport(_: Delivery) -> Outcome:
            client(port, 0.3)
            return Outcome.sent()

        assert of(attempt_with(opened, transport)) == expected


@pytest.mark.parametrize(("receiver_of", "expected"), FAILURES)
def test_X2_a_real_failure_has_its_kind_in_asyncio(
    store: Path, receiver_of: Callable[[], contextlib.AbstractContextManager[int]], expected: tuple[str, str]
) -> None:
    async def test(port: int) -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

        async def transport(_: Delivery) -> Outcome:
            await by_streams(port, 0.3)
            return Outcome.sent()

        async with aio.MessageQueue(store, transport, retry=NO_RETRY) as queue:
            id = await queue.enqueue("hello")

            async def is_failed() -> bool:
                return (await queue.get(id)).status is Status.FAILED

            await until(is_failed)
            (attempt,) = await queue.attempts(id)
            assert of(attempt) == expected
        # The loop's exception handler receives only defects.
        assert complaints == []

    with receiver_of() as port:
        in_loop(test(port))


@pytest.mark.parametrize(
    ("receiver_of", "expected"), [(cutting_short, PERHAPS), (speaking_nonsense, ("SERVER", "PERHAPS"))]
)
def test_X2_an_invalid_response_has_its_kind(
    opened: Opener, receiver_of: Callable[[], contextlib.AbstractContextManager[int]], expected: tuple[str, str]
) -> None:
    with receiver_of() as port:

        def transport(_: Delivery) -> Outcome:
            by_http_client(port, 10)
            return Outcome.sent()

        assert of(attempt_with(opened, transport)) == expected


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        (503, FailureKind.SERVER, AttemptOutcome.RETRY),
        (429, FailureKind.RATE_LIMIT, AttemptOutcome.RETRY),
        (404, FailureKind.NOT_FOUND, AttemptOutcome.REJECTED),
    ],
)
def test_X2_a_response_that_urllib_raises_counts_as_a_response(
    opened: Opener, receiver: Receiver, status: int, kind: FailureKind, outcome: AttemptOutcome
) -> None:
    receiver.answer_by(lambda _: status)

    def transport(delivery: Delivery) -> Outcome:
        headers = {"Idempotency-Key": delivery.id, "Metadata": json.dumps({})}
        request = urllib.request.Request(f"http://127.0.0.1:{receiver.port}/", delivery.body, headers)
        with urllib.request.urlopen(request, timeout=delivery.timeout):
            return Outcome.sent()

    attempt = attempt_with(opened, transport)
    assert (attempt.code, attempt.kind, attempt.outcome) == (status, kind, outcome)


# ---------------------------------------------------------------- exceptions of other packages, by stand-ins


def stand_in(module: str, name: str, *bases: type[BaseException], **attributes: object) -> Any:
    """Returns an exception class with the name of one of that package."""
    return type(name, bases or (Exception,), {"__module__": module, **attributes})


class Response:
    """A response as raise_for_status has it."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status
        self.headers = headers or {}


RequestsError = stand_in("requests.exceptions", "RequestException", OSError)
RequestsConnectionError = stand_in("requests.exceptions", "ConnectionError", RequestsError)
RequestsTimeout = stand_in("requests.exceptions", "Timeout", RequestsError)
RequestsConnectTimeout = stand_in("requests.exceptions", "ConnectTimeout", RequestsConnectionError, RequestsTimeout)
RequestsReadTimeout = stand_in("requests.exceptions", "ReadTimeout", RequestsTimeout)
RequestsSSLError = stand_in("requests.exceptions", "SSLError", RequestsConnectionError)
RequestsHTTPError = stand_in("requests.exceptions", "HTTPError", RequestsError)
RequestsMissingSchema = stand_in("requests.exceptions", "MissingSchema", RequestsError, ValueError)
Urllib3Error = stand_in("urllib3.exceptions", "HTTPError")
MaxRetryError = stand_in("urllib3.exceptions", "MaxRetryError", Urllib3Error, reason=None)
ConnectTimeoutError = stand_in("urllib3.exceptions", "ConnectTimeoutError", Urllib3Error)
NewConnectionError = stand_in("urllib3.exceptions", "NewConnectionError", ConnectTimeoutError)
NameResolutionError = stand_in("urllib3.exceptions", "NameResolutionError", NewConnectionError)
ProtocolError = stand_in("urllib3.exceptions", "ProtocolError", Urllib3Error)
HttpxError = stand_in("httpx", "HTTPError")
HttpxTimeout = stand_in("httpx", "TimeoutException", HttpxError)
HttpxNetworkError = stand_in("httpx", "NetworkError", HttpxError)
HttpxStatusError = stand_in("httpx", "HTTPStatusError", HttpxError)


def wrapped(inner: BaseException) -> BaseException:
    """Returns an exception of requests that wraps one of urllib3."""
    outer = MaxRetryError("retries")
    outer.reason = inner
    problem: BaseException = RequestsConnectionError(outer)
    return problem


def with_response(kind: Any, status: int) -> BaseException:
    problem: BaseException = kind("response")
    problem.response = Response(status)  # type: ignore[attr-defined]
    return problem


def multiple() -> OSError:
    """Returns the exception of asyncio for a name whose addresses all refuse."""
    return OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed")


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), NEVER),
        (OSError(errno.ECONNREFUSED, "refused"), NEVER),
        (multiple(), NEVER),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), NEVER),
        (ssl.SSLCertVerificationError("certificate verify failed"), NEVER),
        (urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), NEVER),
        (urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "no name")), NEVER),
        (wrapped(NewConnectionError("refused")), NEVER),
        (wrapped(NameResolutionError("no name")), NEVER),
        (stand_in("httpx", "ConnectError", HttpxNetworkError)("refused"), NEVER),
        (ConnectionResetError(errno.ECONNRESET, "reset"), PERHAPS),
        (BrokenPipeError(errno.EPIPE, "pipe"), PERHAPS),
        (OSError(errno.ENETUNREACH, "unreachable"), PERHAPS),
        (OSError(errno.EHOSTUNREACH, "no route"), PERHAPS),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), PERHAPS),
        (http.client.RemoteDisconnected("closed"), PERHAPS),
        (http.client.IncompleteRead(b"half"), PERHAPS),
        (RequestsConnectionError(ProtocolError("aborted", ConnectionResetError(104, "reset"))), PERHAPS),
        (RequestsSSLError("handshake"), PERHAPS),
        (wrapped(ProtocolError("aborted")), PERHAPS),
        (stand_in("httpx", "ReadError", HttpxNetworkError)("reset"), PERHAPS),
        (stand_in("httpx", "RemoteProtocolError", HttpxError)("disconnected"), PERHAPS),
        (TimeoutError("timed out"), LATE),
        (socket.timeout("timed out"), LATE),
        (asyncio.TimeoutError(), LATE),
        (OSError(errno.ETIMEDOUT, "timed out"), LATE),
        (urllib.error.URLError(socket.timeout("timed out")), LATE),
        (RequestsReadTimeout("slow"), LATE),
        (stand_in("httpx", "ReadTimeout", HttpxTimeout)("slow"), LATE),
        (RequestsConnectTimeout("slow"), ("TIMEOUT", "NO")),
        (stand_in("httpx", "ConnectTimeout", HttpxTimeout)("slow"), ("TIMEOUT", "NO")),
        (stand_in("httpx", "PoolTimeout", HttpxTimeout)("slow"), ("TIMEOUT", "NO")),
        (http.client.BadStatusLine("hello"), ("SERVER", "PERHAPS")),
        (with_response(RequestsHTTPError, 503), ("SERVER", "PERHAPS")),
        (with_response(HttpxStatusError, 429), ("RATE_LIMIT", "NO")),
        (with_response(HttpxStatusError, 7), DEFECT),
        (RequestsHTTPError("without a response"), DEFECT),
        (RequestsMissingSchema("no scheme"), DEFECT),
        (TypeError("a defect"), DEFECT),
        (KeyError("a defect"), DEFECT),
        (FileNotFoundError(errno.ENOENT, "no file"), DEFECT),
        (PermissionError(errno.EACCES, "forbidden"), DEFECT),
        (OSError("says nothing"), DEFECT),
        (http.client.CannotSendRequest(), DEFECT),
        (urllib.error.URLError("unknown url type: x"), DEFECT),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}" if isinstance(value, Exception) else "",
)
def test_X2_an_exception_has_its_kind(opened: Opener, problem: BaseException, expected: tuple[str, str]) -> None:
    assert of(attempt_with(opened, raising(problem))) == expected


def test_X2_a_defect_after_a_refused_connection_stays_a_defect(opened: Opener) -> None:
    def transport(_: Delivery) -> Outcome:
        try:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        except OSError:
            raise TypeError("in the handler") from None

    assert of(attempt_with(opened, transport)) == DEFECT


def test_X2_an_exception_that_wraps_itself_is_handled(opened: Opener) -> None:
    problem = urllib.error.URLError("")
    problem.reason = urllib.error.URLError(problem)
    assert of(attempt_with(opened, raising(problem))) == DEFECT


def test_X2_an_invalid_response_of_urllib_is_closed(opened: Opener) -> None:
    body = io.BytesIO(b"busy")
    problem = urllib.error.HTTPError("http://127.0.0.1/", 503, "busy", Headers(), body)
    assert of(attempt_with(opened, raising(problem))) == ("SERVER", "PERHAPS")
    assert body.closed


def test_X2_a_transport_may_report_that_it_was_not_sent(opened: Opener) -> None:
    outcome = Outcome.retry(FailureKind.NETWORK, text="no route", not_sent=True)
    assert of(attempt_with(opened, lambda _: outcome)) == NEVER
    with pytest.raises(TypeError):
        Outcome.retry(not_sent=1)  # type: ignore[arg-type]


def test_X2_complete_may_report_that_it_was_not_sent(opened: Opener) -> None:
    tokens: list[int] = []

    def transport(delivery: Delivery) -> Outcome:
        tokens.append(delivery.token)
        return Outcome.pending()

    queue = opened(transport=transport, retry=NO_RETRY)
    id = queue.enqueue("hello")
    wait_until(lambda: tokens)
    queue.complete(tokens[0], Outcome.retry(FailureKind.NETWORK, not_sent=True))
    wait_until(lambda: queue.get(id).status is Status.FAILED)
    assert [attempt.arrival for attempt in queue.attempts(id)] == [Arrival.NO]


def test_an_exception_is_one_line_in_the_log(opened: Opener, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "msgqueue")
    problem = ConnectionResetError(errno.ECONNRESET, "reset\nby\r\npeer")
    attempt_with(opened, raising(problem))
    (line,) = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert line.levelno == logging.WARNING
    assert not line.exc_info
    text = "failed (NETWORK): the transport raised ConnectionResetError: [Errno 104] reset by peer"
    assert line.getMessage().endswith(text)
    (traceback,) = [record for record in caplog.records if record.exc_info]
    assert traceback.levelno == logging.DEBUG


# ---------------------------------------------------------------- the real packages, where they are installed


@pytest.mark.parametrize("package", ["requests", "httpx"])
@pytest.mark.parametrize(("receiver_of", "expected"), FAILURES)
def test_X2_a_real_failure_of_a_package_has_its_kind(
    opened: Opener,
    package: str,
    receiver_of: Callable[[], contextlib.AbstractContextManager[int]],
    expected: tuple[str, str],
) -> None:
    client: Any = pytest.importorskip(package)
    with receiver_of() as port:

        def transport(delivery: Delivery) -> Outcome:
            client.post(f"http://127.0.0.1:{port}/", data={"body": "hello"}, timeout=0.3).raise_for_status()
            return Outcome.sent()

        assert of(attempt_with(opened, transport)) == expected


@pytest.mark.parametrize("package", ["requests", "httpx"])
def test_X2_a_response_that_a_package_raises_counts_as_a_response(
    opened: Opener, package: str, receiver: Receiver
) -> None:
    client: Any = pytest.importorskip(package)
    receiver.answer_by(lambda _: 503)

    def transport(delivery: Delivery) -> Outcome:
        headers = {"Idempotency-Key": delivery.id}
        client.post(f"http://127.0.0.1:{receiver.port}/", data={"a": "b"}, headers=headers).raise_for_status()
        return Outcome.sent()

    attempt = attempt_with(opened, transport)
    assert (attempt.code, of(attempt)) == (503, ("SERVER", "PERHAPS"))


# ---------------------------------------------------------------- messages that cannot be prepared


def test_R16_a_message_that_cannot_be_prepared_fails_for_good(opened: Opener) -> None:
    attempt = attempt_with(opened, raising(PreparationError("no such template")))
    assert (attempt.kind, attempt.outcome, attempt.arrival) == (
        FailureKind.LOCAL,
        AttemptOutcome.REJECTED,
        Arrival.NO,
    )
    assert attempt.text == "PreparationError: no such template"
    assert FailureKind.LOCAL.sentence == "This message could not be prepared for sending."


def test_R16_a_value_error_is_retried(opened: Opener) -> None:
    attempt = attempt_with(opened, raising(ValueError("an answer that is not JSON")))
    assert (attempt.kind, attempt.outcome) == (FailureKind.UNKNOWN, AttemptOutcome.RETRY)


def test_R16_a_batch_that_raises_does_not_say_which_message_it_means(opened: Opener) -> None:
    def send(deliveries: Sequence[Delivery]) -> list[Outcome]:
        raise PreparationError("one of them")

    queue = opened(batch_transport=send, retry=NO_RETRY)
    queue.set_connectivity(Connectivity.OFFLINE)
    ids = [queue.enqueue("hello", conversation=name) for name in ("ana", "ben")]
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.counts().failed == 2)
    kinds = {attempt.kind for id in ids for attempt in queue.attempts(id)}
    assert kinds == {FailureKind.UNKNOWN}


def test_R16_in_a_loop_a_message_that_cannot_be_prepared_fails_for_good(tmp_path: Path) -> None:
    async def main() -> Attempt:
        async def send(_: Delivery) -> Outcome:
            raise PreparationError("no such template")

        async with aio.MessageQueue(tmp_path / "store", transport=send, retry=NO_RETRY) as queue:
            id = await queue.enqueue("hello")
            while (await queue.get(id)).status is not Status.FAILED:
                await asyncio.sleep(0.01)
            (attempt,) = await queue.attempts(id)
            return attempt

    assert asyncio.run(main()).kind is FailureKind.LOCAL

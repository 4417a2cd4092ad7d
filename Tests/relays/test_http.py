"""B2: the relays to HTTP servers, `Http` and `AsyncHttp` with httpx and aiohttp, send the same and mean the same."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import checks
import pytest
from checks import TRACE, delivery
from http_servers import OK, REFUSED, Kind, Request, Server, in_turn
from msgqueue import (
    Arrival,
    Connectivity,
    Delivery,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
    Verdict,
    aio,
)
from msgqueue.relays import AsyncHttp, Http
from servers import Client, free_port, wait_until

SECRET = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="


@pytest.fixture(params=["Http", "httpx", "aiohttp"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    if request.param != "Http":
        pytest.importorskip(request.param)
    kind = Kind(request.param)
    yield kind
    kind.end()


def test_B2_http_requests_are_the_same(kind: Kind) -> None:
    with Server(in_turn(OK, OK)) as server:
        options: dict[str, Client] = {"headers": {"X-A": "b c"}, "webhook_secret": SECRET, "bearer": lambda: "t1"}
        with kind.relay(server.url + "&c={%7e}/..", **options) as relay:
            outcome = relay(delivery(b"\0\xff", id="1", metadata={**TRACE, "other": "x"}))
            assert (outcome.verdict, outcome.code, outcome.text) == (Verdict.HTTP, 200, "200 OK")
            assert relay(delivery(b"x" * 300_000, id="ü")).code == 200
    first, second = server.requests
    assert first.line == "POST /in?a=b&c={%7e}/.. HTTP/1.1"
    assert first.body == b"\0\xff"
    assert second.body == b"x" * 300_000
    wanted = {
        "host": f"127.0.0.1:{server.port}",
        "idempotency-key": '"1"',
        "content-type": "application/octet-stream",
        "x-a": "b c",
        "authorization": "Bearer t1",
        "webhook-id": "1",
        **TRACE,
    }
    assert wanted.items() <= first.headers.items()
    assert first.headers["webhook-signature"].startswith("v1,")
    assert "other" not in first.headers
    assert second.headers["idempotency-key"] == '%"%c3%bc"'
    # Kept alive, but not by clients that would take what a server sends unasked as the answer to the next request.
    assert (second.connection == first.connection) is (kind.name == "Http")
    # What is compressed need not be read.
    assert first.headers.get("accept-encoding", "identity") == "identity"


def test_B2_http_statuses(kind: Kind) -> None:
    statuses = (200, 201, 204, 301, 302, 307, 400, 401, 403, 404, 408, 409, 410, 413, 425, 429, 500, 503, 599)
    answers = [
        f"HTTP/1.1 {status} Reason\r\nContent-Length: 0\r\nLocation: /away\r\nRetry-After: 7\r\n\r\n".encode()
        for status in statuses
    ]
    with Server(in_turn(*answers)) as server, kind.relay(server.url, unauthorized_is_final=True) as relay:
        for status in statuses:
            outcome = relay(delivery())
            assert (outcome.verdict, outcome.code, outcome.text) == (Verdict.HTTP, status, f"{status} Reason")
            assert outcome.retry_after_header == "7"
    # Redirects were not followed.
    assert len(server.requests) == len(statuses)
    assert all(request.line.startswith("POST /in?a=b ") for request in server.requests)


def test_B2_http_cookies_are_not_kept(kind: Kind) -> None:
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    with Server(in_turn(cookie, OK)) as server, kind.relay(server.url) as relay:
        assert [relay(delivery()).code for _ in range(2)] == [200, 200]
    assert "cookie" not in server.requests[1].headers


def test_B2_http_proxies_of_the_environment_are_not_used(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with Server(in_turn(OK)) as server, kind.relay(server.url) as relay:
        assert relay(delivery()).code == 200


def test_B2_http_nobody_listens(kind: Kind) -> None:
    for url in (f"http://127.0.0.1:{free_port()}/", f"https://127.0.0.1:{free_port()}/", "http://nobody.invalid/"):
        with kind.relay(url, timeout=20) as relay:
            assert relay(delivery()).verdict is Verdict.OFFLINE, url


def test_B2_http_silence(kind: Kind) -> None:
    """Perhaps arrived, because the request was sent; not sent, because there was no connection."""
    with Server(lambda *_: None) as server, kind.relay(server.url, timeout=0.5) as relay:
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, False)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        others = [socket.socket() for _ in range(3)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        time.sleep(0.1)
        # Nobody accepts, and there is no more room for connections that wait.
        with kind.relay(f"http://127.0.0.1:{full.getsockname()[1]}/", timeout=0.5) as relay:
            outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, True)
        for other in others:
            other.close()


def test_B2_http_cut_answers(kind: Kind) -> None:
    cut = {
        b"": None,
        b"HTTP/1.1 200 OK\r\nContent-Len": None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n": None,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n": None,
        b"HTTP/1.1 422 No\r\nContent-Length: x\r\n\r\n": None,
        b"HTTP/1.1 422 No\r\nContent-Length: 9\r\n\r\npart": None,
        b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n9\r\npart": None,
        b"HTTP/1.1 202 OK\r\nContent-Length: 9\r\n\r\npart": 202,
        b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\npart": 202,
        b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\npart": 503,
        b"HTTP/1.1 422 No\r\n\r\nto the end": 422,
    }
    with Server(in_turn(*cut, close=True)) as server, kind.relay(server.url, timeout=10) as relay:
        for answer, code in cut.items():
            outcome = relay(delivery())
            found = (outcome.verdict, outcome.code, outcome.not_sent)
            assert found == ((Verdict.RETRY, 0, False) if code is None else (Verdict.HTTP, code, False)), (
                answer,
                outcome,
            )
            assert code is not None or outcome.kind in (FailureKind.NETWORK, FailureKind.SERVER), (answer, outcome)


def test_B2_http_interim_answers_are_skipped(kind: Kind) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    answer = in_turn(hints * 3 + b"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
    with Server(answer) as server, kind.relay(server.url) as relay:
        assert relay(delivery()).code == 422


RETRIED = (0, FailureKind.SERVER)
CUT = (0, FailureKind.NETWORK)
INTERIM = b"HTTP/1.1 %d X\r\n\r\n"
# As the table in Relays.md says it: what `Http`, httpx and aiohttp make of an answer. Code and kind of the outcome.
DIFFERENCES = {
    "nonsense": (b"nonsense\r\n\r\n", RETRIED, CUT, RETRIED),
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", RETRIED, CUT, RETRIED),
    "same length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab", 200, 200, RETRIED),
    "chunk 2xx": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nab", 200, 200, RETRIED),
    "chunk 4xx": (b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nab", CUT, CUT, RETRIED),
    "encoding 2xx": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\nab", 200, CUT, 200),
    "encoding 4xx": (b"HTTP/1.1 422 No\r\nTransfer-Encoding: x\r\n\r\nab", 422, CUT, 422),
    "101": (INTERIM % 101 + OK, 200, CUT, 101),
    "100, 300 times": (INTERIM % 100 * 300 + OK, 200, 200, 200),
    "103, 100 times": (INTERIM % 103 * 100 + OK, 200, 200, 200),
    "103, 101 times": (INTERIM % 103 * 101 + OK, RETRIED, 200, 200),
}


def test_B2_http_a_length_that_is_repeated_ends_the_answer() -> None:
    answer = b"HTTP/1.1 422 No\r\nContent-Length: 2, 2\r\n\r\nno"
    # The server does not end the connection.
    with Server(in_turn(answer)) as server, Http(server.url, timeout=10) as relay:
        begin = time.monotonic()
        outcome = relay(delivery())
        assert time.monotonic() - begin < 8
    assert (outcome.verdict, outcome.code, outcome.text) == (Verdict.HTTP, 422, "422 No: no")


@pytest.mark.parametrize("name", DIFFERENCES)
def test_B2_http_differences_of_the_clients(kind: Kind, name: str) -> None:
    answer, *wanted = DIFFERENCES[name]
    expected = wanted[("Http", "httpx", "aiohttp").index(kind.name)]
    with Server(in_turn(answer, close=True)) as server, kind.relay(server.url, timeout=10) as relay:
        outcome = relay(delivery())
    if isinstance(expected, int):
        assert (outcome.verdict, outcome.code) == (Verdict.HTTP, expected), outcome
    else:
        found = (outcome.code, outcome.kind)
        assert (outcome.verdict, found, outcome.not_sent) == (Verdict.RETRY, expected, False), outcome


def test_B2_http_nonsense(kind: Kind) -> None:
    for answer in (
        b"nonsense\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 1_000_000 + b"\r\n\r\n",
    ):
        with Server(in_turn(answer, close=True)) as server, kind.relay(server.url, timeout=5) as relay:
            outcome = relay(delivery())
        assert (outcome.verdict, outcome.not_sent) == (Verdict.RETRY, False), (answer[:30], outcome)
        assert outcome.kind in (FailureKind.SERVER, FailureKind.NETWORK, FailureKind.TIMEOUT), (answer[:30], outcome)


@pytest.mark.parametrize(
    ("first", "more", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nA: ", b"x", 0),
        (b"HTTP/1.1 200 OK\r\n", b"A: x\r\n", 0),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0),
        (b"HTTP/1.1 422 No\r\n\r\n", b"x", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x", 200),
    ],
    ids=["value", "header", "interim", "body", "accepted"],
)
def test_B2_http_an_answer_without_end_ends_in_time(kind: Kind, first: bytes, more: bytes, code: int) -> None:
    def answer(_: Request, peer: socket.socket) -> None:
        peer.sendall(first)
        while True:
            peer.sendall(more)
            time.sleep(0.05)

    with Server(answer) as server, kind.relay(server.url, timeout=0.6) as relay:
        begin = time.monotonic()
        outcome = relay(delivery())
        assert time.monotonic() - begin < 15
    assert outcome.code == code, outcome
    assert outcome.verdict is (Verdict.HTTP if code else Verdict.RETRY), outcome
    assert not outcome.not_sent


def test_B2_http_long_answers_are_read_in_part(kind: Kind) -> None:
    def answer(_: Request, peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 422 No\r\n\r\n")
        while True:
            peer.sendall(b"x" * 65536)

    with Server(answer) as server, kind.relay(server.url, timeout=20) as relay:
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.code) == (Verdict.HTTP, 422)


def test_B2_http_a_connection_that_the_server_closed_is_replaced(kind: Kind) -> None:
    def answer(_: Request, peer: socket.socket) -> None:
        peer.sendall(OK)
        # Without the header Connection: close.
        peer.shutdown(socket.SHUT_RDWR)

    with Server(answer) as server, kind.relay(server.url) as relay:
        for _ in range(3):
            assert relay(delivery()).code == 200
            time.sleep(0.2)
    assert [request.connection for request in server.requests] == [0, 1, 2]


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "later"])
def test_B2_http_an_answer_that_nobody_asked_for_is_not_the_next_one(kind: Kind, is_late: bool) -> None:
    bodies: list[bytes] = []

    def answer(request: Request, peer: socket.socket) -> bytes | None:
        bodies.append(request.body)
        if request.body == b"2":
            return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        if not is_late:
            return OK + OK
        peer.sendall(OK)
        time.sleep(0.05)
        peer.sendall(OK)
        # The next message on this connection would never be read.
        peer.recv(1, socket.MSG_PEEK)
        time.sleep(5)
        return None

    with Server(answer) as server, kind.relay(server.url, timeout=10) as relay:
        assert relay(delivery(b"1")).code == 200
        time.sleep(0.3)
        outcome = relay(delivery(b"2"))
    assert (outcome.verdict, outcome.code, bodies) == (Verdict.HTTP, 503, [b"1", b"2"])
    assert [request.connection for request in server.requests] == [0, 1]


def test_B2_http_a_certificate_that_does_not_verify(kind: Kind, tmp_path: Path) -> None:
    with checks.tls_listener(tmp_path) as (port, bytes_read):
        # Made by nobody known; of another host.
        trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        for host, context in (("127.0.0.1", None), ("localhost", trusting)):
            with kind.relay(f"https://{host}:{port}/", context=context, timeout=10) as relay:
                outcome = relay(delivery())
            assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, True)
            assert "certificate" in outcome.text.lower()
        assert not bytes_read


def test_B2_http_a_server_without_tls(kind: Kind) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with checks.listener(answer) as port, kind.relay(f"https://127.0.0.1:{port}/", timeout=10) as relay:
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, True), outcome


def test_B2_http_bearer_tokens(kind: Kind) -> None:
    tokens = iter(f"t{number}" for number in range(1, 9))
    answer = in_turn(OK, REFUSED, OK, REFUSED, REFUSED)
    with Server(answer) as server, kind.relay(server.url, bearer=lambda: next(tokens)) as relay:
        assert [relay(delivery()).code for _ in range(2)] == [200, 200]
        assert relay(delivery()) == Outcome.offline(text=f"127.0.0.1:{server.port} answered 401")
    used = [request.headers["authorization"] for request in server.requests]
    assert used == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2", "Bearer t3"]

    def revoked() -> str:
        raise InvalidError("revoked")

    for bearer in (revoked, lambda: "a\r\nX: y", lambda: 5):
        with Server(in_turn()) as server, kind.relay(server.url, bearer=bearer) as relay:
            outcome = relay(delivery())
        assert outcome.verdict is Verdict.OFFLINE
        assert outcome.text.startswith("no bearer token: ")
        with Server(in_turn()) as server, kind.relay(server.url, bearer=bearer, unauthorized_is_final=True) as relay:
            outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.UNAUTHORIZED)
        assert not server.requests


@pytest.mark.parametrize(("batch", "how"), [(False, "key"), (True, "token")])
def test_B2_http_401_holds_the_queue(kind: Kind, tmp_path: Path, batch: bool, how: str) -> None:
    """Wrong credentials are in no message: no retry is used up, few requests are made, and the queue goes on."""
    is_right = threading.Event()
    asked: list[float] = []

    def bearer() -> str:
        asked.append(time.monotonic())
        return f"t{len(asked)}"

    options: dict[str, Client] = {"bearer": bearer} if how == "token" else {"headers": {"Authorization": "Basic x"}}
    with (
        Server(lambda *_: OK if is_right.is_set() else REFUSED) as server,
        kind.relay(server.url, **options) as relay,
        MessageQueue(
            tmp_path / "q.db",
            retry=RetryPolicy(ladder=[]),
            max_in_flight=8,
            **({"batch_transport": relay.batch} if batch else {"transport": relay}),
        ) as queue,
    ):
        begin = time.monotonic()
        ids: list[str] = []
        # A queue that is held does not ask again for each message that is added.
        while time.monotonic() < begin + 2.5:
            ids.append(queue.enqueue(f"{len(ids)}", conversation=f"c{len(ids) % 200}"))
            time.sleep(0.01)
        # At most one a second after the first ones, which may be on their way together.
        seconds = 1 + int(time.monotonic() - begin)
        assert 0 < len(server.requests) <= (8 + seconds) * (2 if how == "token" else 1)
        assert len(asked) <= 2 * (1 + seconds)
        assert queue.state().offline_reason == f"127.0.0.1:{server.port} answered 401"
        assert {queue.get(each).status for each in ids} <= {Status.QUEUED, Status.SENDING}
        is_right.set()
        wait_until(lambda: queue.counts().queued + queue.counts().sending == 0, "the messages", 60)
        messages = [queue.get(each) for each in ids]
        assert {(each.status, each.attempts, each.retries_used) for each in messages} == {(Status.SENT, 1, 0)}


def test_B2_http_headers_of_a_function(kind: Kind) -> None:
    def headers(each: Delivery) -> dict[str, str]:
        return {"X-Topic": each.metadata["topic"]}

    with Server(in_turn(OK)) as server, kind.relay(server.url, headers=headers) as relay:
        assert relay(delivery(metadata={"topic": "a"})).code == 200
        outcome = relay(delivery(metadata={"topic": "a\r\nX: y"}))
        assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.REJECTED)
        assert relay(delivery()).not_sent
    assert server.requests[0].headers["x-topic"] == "a"


def test_B2_http_batches(kind: Kind) -> None:
    def answer(request: Request, _: socket.socket) -> bytes:
        return b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" if request.body == b"a2" else OK

    batch = [delivery(body, body[0]) for body in ("a1", "b1", "a2", "a3", "b2")]
    with Server(answer) as server, kind.relay(server.url) as relay:
        outcomes = relay.batch(batch)
        assert relay.batch([]) == []
    assert [outcome.code for outcome in outcomes] == [200, 200, 503, 0, 200]
    assert outcomes[3].verdict is Verdict.SKIPPED
    bodies = [request.body for request in server.requests]
    assert [each for each in bodies if each[:1] == b"a"] == [b"a1", b"a2"]
    assert [each for each in bodies if each[:1] == b"b"] == [b"b1", b"b2"]


# ---------------------------------------------------------------- the time-out of the attempt


def queue_of(tmp_path: Path, **options: Client) -> MessageQueue:
    """A queue whose attempts end after 2 seconds. The relay has no time-out of its own."""
    options = {"attempt_timeout": 2.0, "direct": False, "mode": Mode.MANUAL, **options}
    queue = MessageQueue(tmp_path / "queue.db", **options)
    queue.set_connectivity(Connectivity.ONLINE)
    return queue


def test_B2_http_a_message_of_a_batch_that_was_not_tried_loses_nothing(kind: Kind, tmp_path: Path) -> None:
    """The first message gets no answer: the others of its conversation are skipped before the engine ends them."""

    def answer(request: Request, _: socket.socket) -> bytes | None:
        return None if request.body == b"a0" else OK

    bodies = ["a0", "a1", "a2", "b0", "b1"]
    with Server(answer) as server, kind.relay(server.url) as relay:
        retry = RetryPolicy(ladder=[3600])
        with queue_of(tmp_path, batch_transport=relay.batch, retry=retry) as queue:
            ids = {body: queue.enqueue(body, conversation=body[0]) for body in bodies}
            queue.drain(timeout=20)
            hung = queue.get(ids["a0"])
            assert (hung.status, hung.retries_used) == (Status.QUEUED, 1)
            assert [each.arrival for each in queue.attempts(hung.id)] == [Arrival.PERHAPS]
            for body in ("a1", "a2"):
                message = queue.get(ids[body])
                assert (message.status, message.retries_used) == (Status.QUEUED, 0), message
                assert all(each.arrival is Arrival.NO for each in queue.attempts(message.id)), body
            for body in ("b0", "b1"):
                message = queue.get(ids[body])
                assert (message.status, message.retries_used) == (Status.SENT, 0), message
    received = [request.body.decode() for request in server.requests]
    assert sorted(received) == ["a0", "b0", "b1"]


def test_B2_http_the_relay_answers_before_the_engine_ends_the_attempt(kind: Kind, tmp_path: Path) -> None:
    def endless(_: Request, peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
        while True:
            peer.sendall(b"x")
            time.sleep(0.05)

    with Server(endless) as server, kind.relay(server.url) as relay, queue_of(tmp_path, transport=relay) as queue:
        id = queue.enqueue("x")
        queue.drain(timeout=20)
        assert queue.get(id).status is Status.SENT
        assert len(server.requests) == 1
    # A server that accepts the connection and says nothing: the handshake has no end.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        retry = RetryPolicy(ladder=[3600])
        with (
            kind.relay(f"https://127.0.0.1:{listener.getsockname()[1]}/") as relay,
            queue_of(tmp_path, transport=relay, retry=retry) as queue,
        ):
            id = queue.enqueue("x")
            queue.drain(timeout=20)
            assert [(each.kind, each.arrival) for each in queue.attempts(id)] == [(FailureKind.TIMEOUT, Arrival.NO)]


@pytest.mark.parametrize("refused", [False, True], ids=["first", "after 401"])
def test_B2_http_a_token_that_comes_late_uses_up_no_retry(kind: Kind, tmp_path: Path, refused: bool) -> None:
    asked = 0

    def bearer() -> str:
        nonlocal asked
        asked += 1
        if asked == (2 if refused else 1):
            # Longer than the first attempt, which skips the message for a second.
            time.sleep(3)
        return f"t{asked}"

    async def bearer_async() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, bearer)

    answer = in_turn(REFUSED, OK) if refused else in_turn(OK)
    function = bearer if kind.name == "Http" else bearer_async
    with (
        Server(answer) as server,
        kind.relay(server.url, bearer=function) as relay,
        queue_of(tmp_path, transport=relay, retry=RetryPolicy(ladder=[]), mode=Mode.AUTO) as queue,
    ):
        id = queue.enqueue("x")
        end = time.monotonic() + 40
        while (message := queue.get(id)).status is not Status.SENT and time.monotonic() < end:
            assert (message.retries_used, message.failure) == (0, None)
            time.sleep(0.05)
        assert (message.status, message.retries_used) == (Status.SENT, 0)
    used = [request.headers["authorization"] for request in server.requests]
    assert used == (["Bearer t1", "Bearer t2"] if refused else ["Bearer t1"])
    assert asked == (2 if refused else 1)


# ---------------------------------------------------------------- asyncio alone


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B2_http_asyncio_sends_a_queue(client: str, tmp_path: Path) -> None:
    """Over a real store: in order, with several conversations at a time, by single messages and by batches."""
    pytest.importorskip(client)

    async def main(server: Server, name: str) -> None:
        async with AsyncHttp(server.url, client=client, timeout=20) as relay:
            options: dict[str, Client] = (
                {"batch_transport": relay.batch} if name == "batch" else {"transport": relay, "max_in_flight": 8}
            )
            async with aio.MessageQueue(tmp_path / f"{name}.db", mode=Mode.MANUAL, direct=False, **options) as queue:
                await queue.set_connectivity(Connectivity.ONLINE)
                for number in range(80):
                    await queue.enqueue(f"{number}", conversation=f"c{number % 8}")
                report = await queue.drain()
                assert report.sent == 80

    for name in ("single", "batch"):
        with Server(lambda *_: OK) as server:
            asyncio.run(main(server, name))
        numbers = [int(request.body) for request in server.requests]
        assert sorted(numbers) == list(range(80))
        for conversation in range(8):
            mine = [number for number in numbers if number % 8 == conversation]
            assert mine == sorted(mine)


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B2_M7_http_asyncio_a_second_401_pauses_the_queue(client: str, tmp_path: Path) -> None:
    pytest.importorskip(client)
    asked = 0

    async def bearer() -> str:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return f"t{asked}"

    async def main(server: Server) -> None:
        relay = AsyncHttp(server.url, client=client, bearer=bearer, unauthorized_is_final=True)
        queue = aio.MessageQueue(tmp_path / "p.db", relay, pause_on_unauthorized=True, direct=False, mode=Mode.MANUAL)
        async with relay, queue:
            await queue.set_connectivity(Connectivity.ONLINE)
            ids = [await queue.enqueue("x", conversation=str(number)) for number in range(3)]
            await queue.drain()
            assert (await queue.state()).paused
            messages = [await queue.get(id) for id in ids]
            assert [(each.status, each.retries_used) for each in messages] == [(Status.QUEUED, 0)] * 3

    with Server(lambda *_: REFUSED) as server:
        asyncio.run(main(server))
    assert (len(server.requests), asked) == (2, 2)


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B2_http_asyncio_asks_for_one_token_at_a_time(client: str) -> None:
    pytest.importorskip(client)
    asked = 0

    async def bearer() -> str:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)
        return f"t{asked}"

    gate = threading.Barrier(8)

    def answer(request: Request, _: socket.socket) -> bytes:
        if request.headers["authorization"] != "Bearer t1":
            return OK
        gate.wait(20)
        return REFUSED

    async def main(url: str) -> list[int]:
        async with AsyncHttp(url, client=client, bearer=bearer) as relay:
            return [each.code for each in await asyncio.gather(*(relay(delivery()) for _ in range(8)))]

    with Server(answer) as server:
        assert asyncio.run(main(server.url)) == [200] * 8
    assert asked == 2


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B2_http_asyncio_a_relay_works_in_one_loop_after_the_other(client: str) -> None:
    pytest.importorskip(client)
    with Server(lambda *_: OK) as server:
        relay = AsyncHttp(server.url, client=client)

        async def once() -> int:
            try:
                return (await relay(delivery())).code
            finally:
                await relay.close()

        assert [asyncio.run(once()) for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B2_http_asyncio_cancelling_ends_the_request(client: str) -> None:
    pytest.importorskip(client)

    async def main(url: str) -> None:
        async with AsyncHttp(url, client=client) as relay:
            task = asyncio.ensure_future(relay(delivery()))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with Server(lambda *_: None) as server:
        asyncio.run(main(server.url))
    assert len(server.requests) == 1


def test_B2_http_asyncio_arguments() -> None:
    for options in ({"client": "curl"}, {"timeout": 0}, {"headers": {"A": "é"}}, {"headers": {"A": "b\r\nC: d"}}):
        with pytest.raises(InvalidError):
            AsyncHttp("http://a/", **{"client": "httpx", **options})  # type: ignore[arg-type]
    with pytest.raises(InvalidError):
        AsyncHttp("ftp://a/", client="httpx")


def test_B2_http_clients_are_imported_when_a_relay_is_made() -> None:
    code = """
import sys
import msgqueue.relays as relays
relays.Http("http://127.0.0.1/"), relays.AsyncHttp
assert not {"httpx", "aiohttp", "opentelemetry"} & set(sys.modules)
for name in ("httpx", "aiohttp"):
    sys.modules[name] = None
    try:
        relays.AsyncHttp("http://127.0.0.1/", client=name)
    except ImportError as problem:
        assert f"pip install 'msgqueue[{name}]'" in str(problem), problem
    else:
        raise AssertionError(name)
try:
    relays.AsyncHttp("http://127.0.0.1/")
except ImportError as problem:
    assert "httpx" in str(problem) and "aiohttp" in str(problem), problem
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B2_http_asyncio_exceptions_of_the_clients_have_their_kind(client: str) -> None:
    """As a transport of the program raises them: also without this relay."""
    from msgqueue import _failures

    library = pytest.importorskip(client)

    async def main(url: str) -> Client:
        if client == "httpx":
            async with library.AsyncClient(trust_env=False) as session:
                (await session.post(url)).raise_for_status()
        else:
            async with library.ClientSession() as session, session.post(url, raise_for_status=True):
                pass

    def outcome(url: str) -> Client:
        try:
            asyncio.run(main(url))
        except Exception as problem:  # noqa: BLE001 - as the client raises it
            return _failures.outcome_of(problem)
        raise AssertionError

    assert outcome(f"http://127.0.0.1:{free_port()}/").not_sent
    answers = (b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", b"", b"nonsense\r\n\r\n")
    with Server(in_turn(*answers, close=True)) as server:
        slow, cut, wrong = (outcome(server.url) for _ in answers)
    assert (slow.verdict, slow.code, slow.retry_after_header) == (Verdict.HTTP, 429, "7")
    assert (cut.kind, cut.not_sent) == (FailureKind.NETWORK, False)
    assert (wrong.verdict, wrong.not_sent) == (Verdict.RETRY, False)
    assert replace(wrong, text="").kind in (FailureKind.SERVER, FailureKind.NETWORK)

"""B2: the relay that posts messages to an HTTP server."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from conftest import Opener
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
)
from msgqueue.relays import Http
from msgqueue.relays.http import idempotency_key
from receiver import Answer, Receiver
from support import PROJECT


def delivery(body: bytes = b"hello", id: str = "id-1", timeout: float = 20.0) -> Delivery:
    return Delivery(
        id=id,
        conversation="ana",
        body=body,
        metadata={},
        attempt=1,
        token=1,
        created=datetime.now(timezone.utc),
        timeout=timeout,
    )


@contextmanager
def answering(*answers: bytes, count: int | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that reads a request and writes these bytes, for one connection after another, and then disconnects.

    A whole answer must say "Connection: close", unless it is the last: a client may send its next request on a
    connection that the server is about to close.
    """
    requests: list[bytes] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                peer, _ = listener.accept()
                with peer:
                    requests.append(read_request(peer))
                    peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], requests
        thread.join(30)


def read_request(peer: socket.socket) -> bytes:
    """Reads one request with its body."""
    head, _, body = read_head(peer).partition(b"\r\n\r\n")
    size = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < size:
        body += received(peer)
    return head + b"\r\n\r\n" + body


def read_head(peer: socket.socket) -> bytes:
    """Reads until the header is there, and perhaps more."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(peer)
    return data


def received(peer: socket.socket) -> bytes:
    data = peer.recv(65536)
    if not data:
        raise ConnectionResetError("the request ended too early")
    return data


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/in?a=b"


def test_B2_a_message_is_posted_with_its_key() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with answering(answer) as (port, requests), Http(url(port), headers={"Authorization": "Bearer x"}) as relay:
        outcome = relay(delivery(b"\x00\xff"))
    head, _, body = requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /in?a=b HTTP/1.1"
    assert {'Idempotency-Key: "id-1"', "Authorization: Bearer x", "Content-Type: application/octet-stream"} <= set(
        lines
    )
    assert body == b"\x00\xff"
    assert (outcome.verdict, outcome.code, outcome.text) == (Verdict.HTTP, 200, "200 OK: ok")


def answers() -> Iterator[tuple[str, bytes]]:
    """The rows of the table of answers: the outcome, and the bytes of the answer."""
    table = PROJECT / "Tests" / "fixtures" / "http-answers.txt"
    for line in table.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            outcome, _, answer = line.partition("\t")
            yield outcome, answer.encode().decode("unicode_escape").encode("latin-1")


def outcome_of(queue: MessageQueue, id: str) -> str:
    """The end of the only attempt of a message, as the table writes it."""
    message, [attempt] = queue.get(id), queue.attempts(id)
    if message.status is Status.SENT:
        return "sent"
    assert attempt.kind is not None
    assert attempt.code or attempt.arrival is Arrival.PERHAPS
    word = "retried" if message.status is Status.QUEUED else "failed"
    return f"{word} {attempt.kind.name.lower()} {attempt.code}".removesuffix(" 0")


def test_B2_each_answer_has_its_outcome(opened: Opener) -> None:
    """The same table in C, Python and Swift."""
    rows = list(answers())
    assert len(rows) > 80
    queue = opened(mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[3600]))
    queue.set_connectivity(Connectivity.ONLINE)
    for expected, answer in rows:
        with answering(answer) as (port, requests), Http(url(port)) as relay:
            queue.set_transport(relay)
            id = queue.enqueue("x", conversation=str(port))
            queue.drain()
            queue.set_transport(None)
        assert outcome_of(queue, id) == expected, (answer, queue.attempts(id))
        # A redirect is not followed, and nothing is sent twice.
        assert len(requests) == 1
        queue.clear()


def test_B2_401_is_final_when_the_host_says_so(receiver: Receiver, opened: Opener) -> None:
    with Http(f"http://127.0.0.1:{receiver.port}/", unauthorized_is_final=True) as relay:
        queue = opened(mode=Mode.MANUAL, direct=False, transport=relay)
        queue.set_connectivity(Connectivity.ONLINE)
        receiver.answer_next(Answer(401))
        id = queue.enqueue("x")
        queue.drain()
        assert outcome_of(queue, id) == "failed unauthorized 401"


@pytest.mark.parametrize("value", ["120", "Fri, 31 Dec 2199 23:59:59 GMT"])
def test_B2_retry_after_delays_the_next_attempt(receiver: Receiver, opened: Opener, value: str) -> None:
    receiver.answer_next(Answer(503, {"Retry-After": value}))
    with Http(f"http://127.0.0.1:{receiver.port}/") as relay:
        queue = opened(mode=Mode.MANUAL, direct=False, transport=relay, retry=RetryPolicy(ladder=[1]))
        queue.set_connectivity(Connectivity.ONLINE)
        id = queue.enqueue("x")
        queue.drain()
        message = queue.get(id)
    assert message.next_attempt is not None
    assert message.last_attempt is not None
    assert (message.next_attempt - message.last_attempt).total_seconds() >= 119


def test_B2_connections_are_reused_and_a_closed_one_is_replaced(receiver: Receiver) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with socket.socket() as listener, Http(url(0 or _bound(listener))) as relay:
        peers: list[socket.socket] = []

        def serve(count: int) -> None:
            peer, _ = listener.accept()
            peers.append(peer)
            for _ in range(count):
                read_request(peer)
                peer.sendall(answer)

        thread = threading.Thread(target=serve, args=(2,))
        thread.start()
        assert [relay(delivery()).code for _ in range(2)] == [200, 200]
        thread.join()
        peers[0].close()
        thread = threading.Thread(target=serve, args=(1,))
        thread.start()
        assert relay(delivery()).code == 200
        thread.join()
        assert len(peers) == 2
        peers[1].close()


def _bound(listener: socket.socket) -> int:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port: int = listener.getsockname()[1]
    return port


def test_B2_what_was_surely_not_sent_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as down:
        # Bound, but not listening.
        down.bind(("127.0.0.1", 0))
        outcome = Http(url(down.getsockname()[1]))(delivery())
        assert (outcome.verdict, "refused" in outcome.text) == (Verdict.OFFLINE, True)
    for name, problem, verdict in (
        ("socket", OSError(errno.ENETUNREACH, "Network is unreachable"), Verdict.OFFLINE),
        ("socket", OSError(errno.EHOSTUNREACH, "No route to host"), Verdict.OFFLINE),
        # Not a failure of the network: retried, and its delays grow.
        ("socket", OSError(errno.EMFILE, "Too many open files"), Verdict.RETRY),
        ("getaddrinfo", socket.gaierror(socket.EAI_NONAME, "Name or service not known"), Verdict.OFFLINE),
        ("getaddrinfo", socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), Verdict.OFFLINE),
    ):

        def fail(*_: object, problem: OSError = problem, **__: object) -> socket.socket:
            raise problem

        with monkeypatch.context() as patch:
            patch.setattr(socket, name, fail)
            outcome = Http("http://127.0.0.1:1/")(delivery())
        assert outcome.verdict is verdict
        assert outcome.not_sent is (verdict is Verdict.RETRY)


def test_B2_a_host_is_tried_at_all_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as down, answering(b"HTTP/1.1 204 No\r\n\r\n") as (port, _):
        down.bind(("127.0.0.1", 0))
        addresses = [("127.0.0.1", number) for number in (down.getsockname()[1], port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        with Http("http://two.example/") as relay:
            assert relay(delivery()).code == 204


def test_B2_a_time_out_after_sending_may_have_arrived(opened: Opener) -> None:
    with socket.socket() as silent, Http(url(_bound(silent))) as relay:
        outcome = relay(delivery(timeout=0.1))
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, False)
        queue = opened(mode=Mode.MANUAL, direct=False, transport=relay, attempt_timeout=0.2)
        queue.set_connectivity(Connectivity.ONLINE)
        id = queue.enqueue("x")
        queue.drain()
        assert queue.attempts(id)[0].arrival is Arrival.PERHAPS


@pytest.mark.parametrize("status", ["102 Processing", "103 Early Hints", "101 Switching Protocols"])
def test_B2_answers_before_the_final_one_are_skipped(status: str) -> None:
    interim = f"HTTP/1.1 {status}\r\nLink: </a>\r\nContent-Length: 5\r\n\r\n".encode()
    whole = interim + b"HTTP/1.1 100 Continue\r\n\r\n" + interim
    whole += b"HTTP/1.1 422 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    with answering(whole, interim) as (port, _), Http(url(port)) as relay:
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.code, outcome.text) == (Verdict.HTTP, 422, "422 No: no")
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, False)
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with answering(interim * 101 + final, interim * 100 + final) as (port, _), Http(url(port)) as relay:
        assert relay(delivery()).verdict is Verdict.RETRY
        assert relay(delivery()).code == 200


def test_B2_a_server_without_a_trusted_certificate_gets_nothing() -> None:
    plain = socket.socket()
    port = _bound(plain)

    def serve() -> None:
        peer, _ = plain.accept()
        with peer:
            # An alert in the place of a certificate.
            peer.recv(65536)
            peer.sendall(bytes((21, 3, 3, 0, 2, 2, 40)))

    thread = threading.Thread(target=serve)
    thread.start()
    relay = Http(f"https://127.0.0.1:{port}/")
    assert relay._context is not None
    assert relay._context.verify_mode is ssl.CERT_REQUIRED
    assert relay._context.check_hostname
    outcome = relay(delivery())
    thread.join()
    plain.close()
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, True)


def test_B2_wrong_urls_and_headers_are_refused() -> None:
    for wrong in (
        "",
        "x",
        "ftp://a/",
        "http://",
        "http://a:99999/",
        "http://u:p@a/",
        "http://a/b c",
        "http://a/\r\nX: 1",
        "http://a/#x",
        "HTTP//a",
        "file:///etc/passwd",
        "http://a\n.example/",
        "http://a/?q=\u00fc",
        f"http://{'a' * 64}.example/",
        "http://[::1/",
    ):
        with pytest.raises(InvalidError):
            Http(wrong)
    for name, value in {
        "A b": "x",
        "A": "x\r\nB: y",
        "B": "x\0",
        "C": "€",
        "Host": "x",
        "idempotency-key": "x",
        "": "x",
    }.items():
        with pytest.raises(InvalidError):
            Http("http://a/", headers={name: value})
    with pytest.raises(InvalidError, match="header A must be a string, not int"):
        Http("http://a/", headers={"A": 1})  # type: ignore[dict-item]
    with pytest.raises(InvalidError):
        Http("http://a/", timeout=0)
    with pytest.raises(TypeError):
        Http("http://a/", headers=["A: b"])  # type: ignore[arg-type]
    for name in ("traceparent", "TraceState"):
        with pytest.raises(InvalidError, match="set by the transport"):
            Http("http://a/", headers={name: "x"})
    with pytest.raises(TypeError):
        Http(5)  # type: ignore[arg-type]


def test_B2_the_key_of_any_id_is_one_line_and_its_own() -> None:
    assert idempotency_key("a") == '"a"'
    assert idempotency_key('a"\\') == '"a\\"\\\\"'
    assert idempotency_key("ü%") == '%"%c3%bc%25"'
    ids = ["ü", '%"%c3%bc"', "%c3%bc", "a\r\nb", "\x7f", "漢字", '"']
    keys = [idempotency_key(id) for id in ids]
    assert len(set(keys)) == len(ids)
    assert all(key.isascii() and key.isprintable() for key in keys)


def test_B2_several_threads_send_at_once(receiver: Receiver, opened: Opener) -> None:
    with Http(f"http://127.0.0.1:{receiver.port}/") as relay:
        queue = opened(mode=Mode.MANUAL, direct=False, transport=relay, max_in_flight=8)
        queue.set_connectivity(Connectivity.ONLINE)
        for number in range(40):
            queue.enqueue(str(number), conversation=f"c{number % 8}")
        assert queue.drain().sent == 40
    assert sorted(int(request.text) for request in receiver.received) == list(range(40))
    assert isinstance(relay(delivery()), Outcome)


class Trickle:
    """Servers that do not end: each connection is given to a function, on a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Trickle:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            peer.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                threading.Thread(target=self._run, args=(peer,), daemon=True).start()

    def _run(self, peer: socket.socket) -> None:
        with suppress(OSError):
            self._serve(peer)


def slowly(first: bytes, more: bytes) -> Callable[[socket.socket], None]:
    """A server that reads a request, answers, and then sends more every 50 ms, without end."""

    def serve(peer: socket.socket) -> None:
        read_request(peer)
        peer.sendall(first)
        while True:
            peer.sendall(more)
            time.sleep(0.05)

    return serve


@pytest.mark.parametrize(
    ("first", "more", "code"),
    [
        (b"", b"", 0),
        (b"HTTP/1.1 200 OK\r\nA: ", b"x", 0),
        (b"HTTP/1.1 200 OK\r\n", b"A: x\r\n", 0),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0),
        (b"HTTP/1.1 422 No\r\n\r\n", b"x", 0),
        (b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", 200),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 99999\r\n\r\n", b"x", 503),
    ],
    ids=["silence", "value", "header", "interim", "body", "chunks", "accepted", "busy"],
)
def test_B2_an_answer_without_end_ends_in_time(first: bytes, more: bytes, code: int) -> None:
    with Trickle(slowly(first, more)) as server, Http(url(server.port), timeout=0.5) as relay:
        begin = time.monotonic()
        outcome = relay(delivery())
        assert time.monotonic() - begin < 10
    assert outcome.code == code
    assert outcome.verdict is (Verdict.HTTP if code else Verdict.RETRY)
    assert not outcome.not_sent


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: x\r\n" * 1000 + b"\r\n",
    ],
    ids=["line", "lines"],
)
def test_B2_an_answer_with_too_long_a_header_is_retried(answer: bytes) -> None:
    with answering(answer) as (port, _), Http(url(port), timeout=5) as relay:
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.not_sent) == (Verdict.RETRY, False), outcome
    assert outcome.kind in (FailureKind.SERVER, FailureKind.NETWORK), outcome


def test_B2_a_long_answer_is_read_in_part() -> None:
    answer = b"HTTP/1.1 422 No\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (2 << 20)

    def serve(peer: socket.socket) -> None:
        read_request(peer)
        peer.sendall(answer)

    with Trickle(serve) as server, Http(url(server.port)) as relay:
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.code, len(outcome.text)) == (Verdict.HTTP, 422, 208)


def test_B2_a_server_that_refuses_before_the_end_of_the_body_is_heard() -> None:
    def refuse(peer: socket.socket) -> None:
        read_head(peer)
        peer.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")
        # What it did not read resets the connection.
        peer.close()

    with Trickle(refuse) as server, Http(url(server.port), timeout=5) as relay:
        outcome = relay(delivery(b"x" * (8 << 20)))
    assert (outcome.verdict, outcome.code, outcome.text) == (Verdict.HTTP, 413, "413 Content Too Large: large"), outcome


def test_B2_a_redirect_is_not_followed(receiver: Receiver) -> None:
    with Http(f"http://127.0.0.1:{receiver.port}/") as relay:
        for status in (301, 302, 303, 307, 308):
            receiver.answer_next(Answer(status, {"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"}))
            assert relay(delivery()).code == status
    assert len(receiver.received) == 5


def test_B2_retry_after_is_limited_to_seven_days(receiver: Receiver, opened: Opener) -> None:
    from msgqueue import RetryPolicy

    answers = ["Fri, 31 Dec 2199 23:59:59 GMT", "99999999999999999999", "-5", "soon", "x" * 500]
    with Http(f"http://127.0.0.1:{receiver.port}/") as relay:
        queue = opened(mode=Mode.MANUAL, direct=False, transport=relay, retry=RetryPolicy(ladder=[1]))
        queue.set_connectivity(Connectivity.ONLINE)
        for value in answers:
            receiver.answer_next(Answer(503, {"Retry-After": value}))
            id = queue.enqueue("x", conversation=value[:10])
            queue.drain(conversation=value[:10])
            message = queue.get(id)
            assert message.next_attempt is not None
            assert message.last_attempt is not None
            delay = (message.next_attempt - message.last_attempt).total_seconds()
            assert delay < 7 * 86400 + 60, value
            assert (delay > 6 * 86400) is (value is answers[0] or value is answers[1]), value


def test_B2_batches_keep_the_order_and_skip_what_follows_a_failure(receiver: Receiver) -> None:
    def at(conversation: str, body: str) -> Delivery:
        return replace(delivery(body.encode(), id=body), conversation=conversation)

    batch = [at("ana", "a1"), at("bob", "b1"), at("ana", "a2"), at("ana", "a3"), at("bob", "b2")]
    receiver.answer_by(lambda request: 503 if request.text == "a2" else 200)
    with Http(f"http://127.0.0.1:{receiver.port}/") as relay:
        outcomes = relay.batch(batch)
        assert relay.batch([]) == []
    assert [outcome.code for outcome in outcomes] == [200, 200, 503, 0, 200]
    assert outcomes[3].verdict is Verdict.SKIPPED
    assert receiver.texts == ["a1", "b1", "a2", "b2"]
    receiver.stop()
    outcomes = relay.batch(batch)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.OFFLINE] + [Verdict.SKIPPED] * 4


def test_B2_B1_a_queue_sends_its_batches_by_http(receiver: Receiver, opened: Opener) -> None:
    with Http(f"http://127.0.0.1:{receiver.port}/") as relay:
        queue = opened(mode=Mode.MANUAL, direct=False, batch_transport=relay.batch)
        queue.set_connectivity(Connectivity.ONLINE)
        queue.enqueue_bodies([str(number) for number in range(50)], conversation="ana")
        assert queue.drain().sent == 50
    assert receiver.texts == [str(number) for number in range(50)]

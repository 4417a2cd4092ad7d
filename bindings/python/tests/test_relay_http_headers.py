"""B2, B8: trace context, signatures and bearer tokens of the relay to HTTP servers."""

from __future__ import annotations

import itertools
import logging
import re
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from conftest import Opener
from msgqueue import Connectivity, Delivery, FailureKind, InvalidError, Mode, Outcome, RetryPolicy, Status, Verdict
from msgqueue.relays import Http
from msgqueue.relays.trace_context import is_parent, is_state, trace_headers
from msgqueue.relays.webhook import Signer, webhook_id
from receiver import Answer, Receiver
from support import PROJECT, wait_until
from test_relay_http import Trickle, answering, delivery, read_request, url

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
REFUSED = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def headers_of(request: bytes) -> dict[str, str]:
    """The headers of a request; each name occurs once."""
    lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return headers


# ---------------------------------------------------------------- trace context


@pytest.mark.parametrize(
    "value",
    [
        PARENT,
        "00-12345678901234567890123456789012-1234567890123456-00",
        "00-12345678901234567890123456789012-1234567890123456-ff",
        # Of a later version: the same fields, and perhaps more.
        "01-12345678901234567890123456789012-1234567890123456-01",
        "cc-12345678901234567890123456789012-1234567890123456-01-what-the-future-will-be-like",
        "fe-12345678901234567890123456789012-1234567890123456-01-",
    ],
)
def test_B8_valid_traceparents(value: str) -> None:
    assert is_parent(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        "00-12345678901234567890123456789012-1234567890123456",
        # Version: two lower-case digits, and not ff; version 00 has nothing more.
        "0-12345678901234567890123456789012-1234567890123456-01",
        "000-12345678901234567890123456789012-1234567890123456-01",
        "0G-12345678901234567890123456789012-1234567890123456-01",
        ".0-12345678901234567890123456789012-1234567890123456-01",
        "CC-12345678901234567890123456789012-1234567890123456-01",
        "ff-12345678901234567890123456789012-1234567890123456-01",
        "00-12345678901234567890123456789012-1234567890123456-01-what",
        "00-12345678901234567890123456789012-1234567890123456-01-",
        "00-12345678901234567890123456789012-1234567890123456-01.",
        "01-12345678901234567890123456789012-1234567890123456-01.what",
        # Trace id.
        "00-00000000000000000000000000000000-1234567890123456-01",
        "00-.2345678901234567890123456789012-1234567890123456-01",
        "00-1234567890123456789012345678901-1234567890123456-01",
        "00-123456789012345678901234567890123-1234567890123456-01",
        "00-ABCDEFABCDEFABCDEFABCDEFABCDEFAB-1234567890123456-01",
        # Parent id.
        "00-12345678901234567890123456789012-0000000000000000-01",
        "00-12345678901234567890123456789012-123456789012345-01",
        "00-12345678901234567890123456789012-12345678901234567-01",
        "00-12345678901234567890123456789012-123456789012345Z-01",
        # Flags.
        "00-12345678901234567890123456789012-1234567890123456-1",
        "00-12345678901234567890123456789012-1234567890123456-001",
        "00-12345678901234567890123456789012-1234567890123456-.0",
        "00-12345678901234567890123456789012-1234567890123456-0A",
        # What a header cannot carry, and digits of other alphabets.
        f"{PARENT}\n",
        f"{PARENT}\r\nX: y",
        f"{PARENT} x",
        f"{PARENT[:20]} {PARENT[20:]}",
        "cc-12345678901234567890123456789012-1234567890123456-01-\u00fc",
        "00-\u0661\u0662345678901234567890123456789012-1234567890123456-01",
        f"cc-12345678901234567890123456789012-1234567890123456-01-{'x' * 9000}",
    ],
)
def test_B8_invalid_traceparents(value: str) -> None:
    assert not is_parent(value)
    assert trace_headers({"traceparent": value, "tracestate": STATE}) == {}


@pytest.mark.parametrize(
    "value",
    [
        STATE,
        "foo=1",
        "foo=1 \t , \t bar=2, ",
        "foo=1,,bar=2",
        "foo@bar=1,1a-_*/=2",
        "z" * 256 + "=1",
        "foo=" + "v" * 256,
        "foo= !\"#$%&'()*+-./:;<>?@[]^_`{|}~",
        ",".join(f"bar{number:02}={number:02}" for number in range(32)),
    ],
)
def test_B8_valid_tracestates(value: str) -> None:
    assert is_state(value)
    assert trace_headers({"traceparent": PARENT, "tracestate": value}) == {
        "traceparent": PARENT,
        "tracestate": value.strip(" \t"),
    }


@pytest.mark.parametrize(
    "value",
    [
        "foo",
        "foo=",
        "=1",
        "foo =1",
        "FOO=1",
        "foo.bar=1",
        "_foo=1",
        "@foo=1",
        "foo=1=2",
        "foo=b\u00e4r",
        "foo=a\tb",
        "foo=1\nX: y",
        "foo=1\r\n",
        "foo=1,bar",
        "foo=1;bar=2",
        "foo=1,foo=2",
        "z" * 257 + "=1",
        "foo=" + "v" * 257,
        ",".join(f"bar{number:02}={number:02}" for number in range(33)),
        "," * 32,
    ],
)
def test_B8_invalid_tracestates_do_not_affect_the_traceparent(value: str) -> None:
    assert trace_headers({"traceparent": PARENT, "tracestate": value}) == {"traceparent": PARENT}


@pytest.mark.parametrize("value", ["a=1,a=2", "a=1,b=2,a=1", "a=1,,\ta=1", "t@v=1, t@v=1"])
def test_B2_B8_a_tracestate_with_a_key_twice_is_not_sent(value: str) -> None:
    assert trace_headers({"traceparent": PARENT, "tracestate": value}) == {"traceparent": PARENT}


def test_B8_a_tracestate_is_not_sent_alone_or_empty() -> None:
    assert trace_headers({"tracestate": STATE}) == {}
    padded = {"traceparent": f" {PARENT}\t", "tracestate": f"\t{STATE} "}
    assert trace_headers(padded) == {"traceparent": PARENT, "tracestate": STATE}
    for empty in ("", " ", ",", " , \t,"):
        assert trace_headers({"traceparent": PARENT, "tracestate": empty}) == {"traceparent": PARENT}


def test_B8_B2_the_trace_context_of_a_message_is_sent_and_no_other_metadata(caplog: pytest.LogCaptureFixture) -> None:
    with answering(OK, OK, OK) as (port, requests), Http(url(port)) as relay:
        for parent in (PARENT, "00-0-0-00", "00-1-1-00"):
            metadata = {"traceparent": parent, "tracestate": STATE, "secret": "x", "X-Y": "z\r\nA: b"}
            assert relay(replace(delivery(), metadata=metadata)).code == 200
    first, *others = (headers_of(request) for request in requests)
    assert (first["traceparent"], first["tracestate"]) == (PARENT, STATE)
    for headers in (first, *others):
        assert not {"secret", "X-Y", "A"} & set(headers)
    assert all("traceparent" not in headers and "tracestate" not in headers for headers in others)
    # Said once.
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "traceparent" in caplog.text


# ---------------------------------------------------------------- headers of a message


def test_B2_headers_may_depend_on_the_message() -> None:
    def headers(message: Delivery) -> dict[str, str]:
        return {"Content-Type": message.metadata["type"]}

    with answering(OK) as (port, requests), Http(url(port), headers=headers) as relay:
        assert relay(replace(delivery(), metadata={"type": "text/plain"})).code == 200
        for wrong in ("text/plain\r\nX: y", "text\0", "€"):
            outcome = relay(replace(delivery(), metadata={"type": wrong}))
            assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.REJECTED)
            assert "Content-Type" in outcome.text
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.UNKNOWN, True)
    assert headers_of(requests[0])["Content-Type"] == "text/plain"


# ---------------------------------------------------------------- signatures

# Made with: printf '%s' 'id-1.1700000000.{"a":1}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64
SECRET, SIGNATURE = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", "pYcwSC3jWXY+a9Fig25WlpMf6J6w9LyFSy/+tm24IA0="
ANOTHER, ITS_SIGNATURE = "whsec_ZWZnaGlqa2xtbm9wcXJzdHV2d3h5ent8", "TSZIVBlDUVDSj5zcO4jHFpCCCFsiAxvK1P1WVXlt3vQ="


def test_B2_signatures_of_known_vectors() -> None:
    headers = Signer(SECRET).headers("id-1", b'{"a":1}', 1700000000)
    assert headers == {
        "webhook-id": "id-1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,{SIGNATURE}",
    }
    both = Signer([SECRET, ANOTHER]).headers("id-1", b'{"a":1}', 1700000000)
    assert both["webhook-signature"] == f"v1,{SIGNATURE} v1,{ITS_SIGNATURE}"
    # A vector that the libraries of Standard Webhooks share.
    shared = Signer("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = shared.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def documented_verify() -> Any:
    """The function of the page that checks a signature."""
    page = (PROJECT / "Sources" / "Documentation" / "Relays.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if "def is_signed(" in each)
    names: dict[str, Any] = {}
    exec(compile(block, "Relays.md", "exec"), names)
    assert len(block[block.index("def is_signed(") :].splitlines()) <= 10
    return names["is_signed"]


def test_B2_a_receiver_checks_a_signature_in_ten_lines() -> None:
    is_signed = documented_verify()
    with answering(OK, OK, OK) as (port, requests):
        for secrets in (SECRET, [ANOTHER, SECRET], [ANOTHER]):
            with Http(url(port), webhook_secret=secrets) as relay:
                assert relay(delivery("Grüße".encode(), id="a.b c")).code == 200
    for request, is_right in zip(requests, (True, True, False)):
        headers, body = headers_of(request), request.partition(b"\r\n\r\n")[2]
        assert headers["webhook-id"] == "a%2eb%20c"
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
        assert is_signed(headers, body, SECRET) is is_right
        assert not is_signed(headers, body + b"!", SECRET)
        assert not is_signed({**headers, "webhook-id": "another"}, body, SECRET)
        assert not is_signed({**headers, "webhook-timestamp": str(int(time.time()) - 3600)}, body, SECRET)


def test_B2_an_id_makes_the_signed_content_unambiguous() -> None:
    ids = ["a", "a.1", "a%2e1", "a%252e1", "ü", "\u6f22", "a b", "a\tb", '"', "01890a5d-ac96-774b-bcce-b302099a8057"]
    found = [webhook_id(id) for id in ids]
    assert len(set(found)) == len(ids)
    assert all(re.fullmatch(r"[!-~]+", each) and "." not in each for each in found)
    assert found[-1] == ids[-1]


def test_B2_wrong_secrets_are_refused_and_not_shown() -> None:
    for wrong in (
        "",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_*&^MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_" + "QUJD" * 30,
        [],
        [SECRET, "whsk_x"],
    ):
        with pytest.raises(InvalidError) as raised:
            Http("http://a/", webhook_secret=wrong)
        assert "MfKQ" not in str(raised.value)
    with pytest.raises(TypeError, match="not bytes"):
        Http("http://a/", webhook_secret=[b"whsec_"])  # type: ignore[list-item]
    with pytest.raises(InvalidError, match="set by the transport"):
        Http("http://a/", webhook_secret=SECRET, headers={"Webhook-Id": "1"})


# ---------------------------------------------------------------- bearer tokens


class Tokens:
    """Makes the tokens t1, t2, … and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"t{self.count}"


def test_B2_a_bearer_token_is_asked_for_once_and_again_after_401() -> None:
    tokens = Tokens()
    with answering(OK, OK, REFUSED, OK, OK) as (port, requests), Http(url(port), bearer=tokens) as relay:
        assert [relay(delivery(id=id)).code for id in ("1", "2", "3", "4")] == [200] * 4
    used = [headers_of(request)["Authorization"] for request in requests]
    assert used == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]
    assert [headers_of(request)["Idempotency-Key"] for request in requests] == ['"1"', '"2"', '"3"', '"3"', '"4"']
    assert tokens.count == 2


def test_B2_M7_a_second_401_pauses_the_queue_and_uses_up_no_retry(receiver: Receiver, opened: Opener) -> None:
    tokens = Tokens()
    receiver.answer_by(lambda _: 401)
    with Http(f"http://127.0.0.1:{receiver.port}/", bearer=tokens, unauthorized_is_final=True) as relay:
        queue = opened(transport=relay, pause_on_unauthorized=True, direct=False, mode=Mode.MANUAL)
        queue.set_connectivity(Connectivity.ONLINE)
        ids = [queue.enqueue(str(number), conversation=f"c{number}") for number in range(5)]
        queue.drain()
        assert queue.state().paused
        # One message was tried, with two tokens.
        assert (len(receiver.received), tokens.count) == (2, 2)
        messages = [queue.get(id) for id in ids]
        assert [message.status for message in messages] == [Status.QUEUED] * 5
        assert [message.retries_used for message in messages] == [0] * 5
        assert messages[0].failure is not None
        assert messages[0].failure.kind is FailureKind.UNAUTHORIZED
        # A person resumes: the token in use is refused once more, and the next one is accepted.
        receiver.answer_by(lambda _: 200)
        receiver.answer_next(401)
        queue.resume()
        assert queue.drain().sent == 5
    assert tokens.count == 3
    assert len(receiver.received) == 2 + 6


def test_B2_a_function_for_tokens_that_fails_sends_nothing(opened: Opener) -> None:
    def raising(problem: Exception) -> Any:
        def bearer() -> str:
            raise problem

        return bearer

    def response(status: int) -> HTTPError:
        return HTTPError("http://a/", status, "x", {}, None)  # type: ignore[arg-type]

    # The function, and whether its failure is that of a person who must sign in.
    cases: list[tuple[Any, bool]] = [
        (raising(InvalidError("revoked")), True),
        (raising(response(400)), True),
        (raising(response(503)), False),
        (raising(ConnectionRefusedError()), False),
        (raising(TimeoutError()), False),
        (raising(KeyError("x")), False),
        (lambda: "a\r\nX: y", True),
        (lambda: "", True),
        (lambda: None, True),
    ]
    for (bearer, is_refused), is_final in itertools.product(cases, (False, True)):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            nobody.listen()
            address = url(nobody.getsockname()[1])
            with Http(address, bearer=bearer, unauthorized_is_final=is_final) as relay:
                outcome = relay(delivery())
            nobody.setblocking(False)
            with pytest.raises(BlockingIOError):
                nobody.accept()
        expected = (Verdict.OFFLINE, FailureKind.OFFLINE)
        if is_final and is_refused:
            expected = (Verdict.REJECT, FailureKind.UNAUTHORIZED)
        assert (outcome.verdict, outcome.kind) == expected, outcome
        assert outcome.text.startswith("no bearer token: ")
        assert "X: y" not in outcome.text
    # It pauses, and does not fail message after message.
    queue = opened(
        transport=Http(url(1), bearer=raising(InvalidError("revoked")), unauthorized_is_final=True),
        pause_on_unauthorized=True,
        retry=RetryPolicy(ladder=[]),
    )
    queue.set_connectivity(Connectivity.ONLINE)
    ids = [queue.enqueue("x", conversation=str(number)) for number in range(3)]
    queue.drain()
    assert queue.state().paused
    assert [queue.get(id).status for id in ids] == [Status.QUEUED] * 3


def test_B2_several_threads_ask_for_one_token() -> None:
    tokens = Tokens()
    refused = threading.Barrier(8)

    def serve(peer: socket.socket) -> None:
        while True:
            is_old = b"Bearer t1\r\n" in read_request(peer)
            if is_old:
                # All are refused together.
                refused.wait(20)
            peer.sendall(REFUSED if is_old else OK)

    outcomes: list[Outcome] = []
    with Trickle(serve) as server, Http(url(server.port), bearer=tokens) as relay:
        threads = [threading.Thread(target=lambda: outcomes.append(relay(delivery()))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [outcome.code for outcome in outcomes] == [200] * 8
    assert tokens.count == 2


def test_B2_a_token_that_comes_too_late_is_used_by_the_next_attempt(opened: Opener) -> None:
    tokens = Tokens()

    def slowly() -> str:
        token = tokens()
        time.sleep(0.7 if token == "t2" else 0)
        return token

    with answering(REFUSED, OK) as (port, requests), Http(url(port), bearer=slowly, timeout=0.6) as relay:
        queue = opened(transport=relay)
        queue.set_connectivity(Connectivity.ONLINE)
        id = queue.enqueue("x")
        wait_until(lambda: queue.get(id).status is Status.SENT)
        assert queue.get(id).retries_used == 0
    assert [headers_of(request)["Authorization"] for request in requests] == ["Bearer t1", "Bearer t2"]


def test_B2_a_bearer_function_excludes_a_header() -> None:
    with pytest.raises(InvalidError, match="set by the transport"):
        Http("http://a/", bearer=Tokens(), headers={"authorization": "x"})
    with pytest.raises(TypeError, match="bearer"):
        Http("http://a/", bearer="token")  # type: ignore[arg-type]


# ---------------------------------------------------------------- certificates


def test_B2_a_certificate_that_does_not_verify_gets_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=right.example"]
    command += ["-addext", "subjectAltName=DNS:right.example", "-keyout", str(key), "-out", str(public)]
    subprocess.run(command, check=True, capture_output=True)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(public, key)
    trusting = ssl.create_default_context(cafile=str(public))
    careless = ssl.create_default_context(cafile=str(public))
    careless.check_hostname = False
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(3):
                peer, _ = listener.accept()
                try:
                    with server_side.wrap_socket(peer, server_side=True) as secure:
                        got.append(read_request(secure))
                        secure.sendall(OK)
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        # Made by nobody known; of another host; and one that the program accepts, which is logged.
        for context, text in ((None, "self-signed"), (trusting, "IP address mismatch")):
            outcome = Http(address, context=context)(delivery())
            assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, True)
            assert text in outcome.text
        assert not got
        assert not caplog.records
        with Http(address, context=careless) as relay:
            assert relay(delivery()).code == 200
        thread.join()
    assert len(got) == 1
    assert "not verified" in caplog.text


def test_B2_an_answer_403_asks_for_no_new_token(receiver: Receiver) -> None:
    tokens = Tokens()
    receiver.answer_next(Answer(403))
    with Http(f"http://127.0.0.1:{receiver.port}/", bearer=tokens) as relay:
        assert relay(delivery()).code == 403
    assert tokens.count == 1

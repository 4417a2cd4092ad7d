"""B2: the relays to HTTP servers through a proxy, and with a certificate of the client."""

from __future__ import annotations

import base64
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import checks
import pytest
from checks import delivery
from http_servers import OK, HttpProxy, Kind, Server, in_turn
from msgqueue import (
    Connectivity,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    PreparationError,
    RetryPolicy,
    Status,
    Verdict,
)
from msgqueue.relays import AsyncHttp, Http
from servers import Client, free_port, wait_until

USER = "ana:p%40ss%2F%C3%BC"
CREDENTIALS = "ana:p@ss/ü"


@pytest.fixture(params=["Http", "httpx", "aiohttp"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    if request.param != "Http":
        pytest.importorskip(request.param)
    kind = Kind(request.param)
    yield kind
    kind.end()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of clients that trust it."""
    public, key = checks.certificate(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(public, key)
    return server, ssl.create_default_context(cafile=str(public))


def with_user(proxy: HttpProxy) -> str:
    return f"http://{USER}@127.0.0.1:{proxy.port}"


def test_B2_http_a_proxy_gets_the_whole_url(kind: Kind) -> None:
    with (
        Server(lambda *_: OK) as server,
        HttpProxy(CREDENTIALS) as proxy,
        kind.relay(server.url + "&c={%7e}/..", proxy=with_user(proxy), timeout=20) as relay,
    ):
        assert [relay(delivery(b"x" * size)).code for size in (5, 300_000)] == [200, 200]
    assert [request.line for request in proxy.requests] == [f"POST {server.url}&c={{%7e}}/.. HTTP/1.1"] * 2
    assert [len(request.body) for request in server.requests] == [5, 300_000]
    for request in server.requests:
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert "proxy-authorization" not in request.headers


def test_B2_http_a_proxy_passes_connections_of_https_on(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    context, trusting = contexts
    options: dict[str, Client] = {"context": trusting, "bearer": lambda: "secret"}
    with (
        Server(lambda *_: OK, context) as server,
        HttpProxy(CREDENTIALS) as proxy,
        kind.relay(server.url + "&c={%7e}/..", proxy=with_user(proxy), timeout=20, **options) as relay,
    ):
        assert [relay(delivery(b"x" * size)).code for size in (5, 300_000)] == [200, 200]
    assert {request.line for request in server.requests} == {"POST /in?a=b&c={%7e}/.. HTTP/1.1"}
    assert [len(request.body) for request in server.requests] == [5, 300_000]
    authority = f"127.0.0.1:{server.port}"
    for request in proxy.requests:
        assert request.line == f"CONNECT {authority} HTTP/1.1"
        assert request.headers["host"] == authority
        # The proxy learns nothing of the message.
        assert not {"authorization", "idempotency-key", "content-type"} & request.headers.keys()
    for request in server.requests:
        assert request.headers["authorization"] == "Bearer secret"
        assert "proxy-authorization" not in request.headers
    # The tunnel is kept, where connections are.
    assert len(proxy.requests) == (1 if kind.name == "Http" else 2)


def test_B2_http_a_server_behind_a_proxy_is_verified(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    with (
        Server(lambda *_: OK, contexts[0]) as server,
        HttpProxy() as proxy,
        kind.relay(server.url, proxy=proxy.url, timeout=20) as relay,
    ):
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, True), outcome
    assert "certificate" in outcome.text.lower()
    assert not server.requests


@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
def test_B2_http_a_proxy_that_wants_other_credentials(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext], is_secure: bool
) -> None:
    context, trusting = contexts if is_secure else (None, None)
    with Server(lambda *_: OK, context) as server, HttpProxy("ana:other") as proxy:
        for url in (proxy.url, with_user(proxy)):
            with kind.relay(server.url, proxy=url, context=trusting, timeout=20) as relay:
                outcome = relay(delivery())
            assert outcome.verdict is Verdict.OFFLINE, outcome
            assert outcome.text == f"the proxy 127.0.0.1:{proxy.port} answered 407 Who are you"
    assert not server.requests


def test_B2_http_a_proxy_that_wants_other_credentials_holds_the_queue(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path
) -> None:
    """No message fails and no retry is used up; when the proxy accepts them, the queue goes on by itself."""
    with Server(lambda *_: OK, contexts[0]) as server, HttpProxy("ana:other") as proxy:
        relay = Http(server.url, proxy=with_user(proxy), context=contexts[1], timeout=20)
        queue = MessageQueue(tmp_path / "q.db", relay, direct=False, retry=RetryPolicy(ladder=[]), mode=Mode.AUTO)
        with relay, queue:
            queue.set_connectivity(Connectivity.ONLINE)
            ids = [queue.enqueue("x", conversation=str(number)) for number in range(3)]
            wait_until(lambda: bool(proxy.requests), "the proxy was asked")
            reason = f"the proxy 127.0.0.1:{proxy.port} answered 407 Who are you"
            wait_until(lambda: reason in queue.explain(ids[0]).text, "the reason is explained")
            assert [queue.get(id).retries_used for id in ids] == [0, 0, 0]
            assert not server.requests
            proxy.credentials = CREDENTIALS
            wait_until(lambda: all(queue.get(id).status is Status.SENT for id in ids), "the messages are sent")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "status", ["403 Forbidden", "404 Not Found", "502 Bad Gateway", "503 Busy", "504 Late", "301 Moved"]
)
def test_B2_http_a_proxy_that_opens_no_connection_is_not_the_server(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext], status: str
) -> None:
    answer = f"HTTP/1.1 {status}\r\nRetry-After: 9\r\nLocation: /away\r\nContent-Length: 3\r\n\r\nbad".encode()
    with (
        Server(lambda *_: OK, contexts[0]) as server,
        HttpProxy(refusal=answer) as proxy,
        kind.relay(server.url, proxy=proxy.url, context=contexts[1], timeout=20) as relay,
    ):
        outcome = relay(delivery())
    assert outcome.verdict is Verdict.OFFLINE, outcome
    assert outcome.text == f"the proxy 127.0.0.1:{proxy.port} answered {status}"
    assert len(proxy.requests) == 1
    assert not server.requests


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b", b"HTTP/1.1 200 " + b"x" * 100_000],
    ids=["end", "nonsense", "cut", "long"],
)
def test_B2_http_a_proxy_that_breaks_sends_nothing(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext], answer: bytes
) -> None:
    with (
        Server(lambda *_: OK, contexts[0]) as server,
        HttpProxy(refusal=answer) as proxy,
        kind.relay(server.url, proxy=proxy.url, context=contexts[1], timeout=20) as relay,
    ):
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.not_sent) == (Verdict.RETRY, True), outcome
    assert outcome.kind in (FailureKind.NETWORK, FailureKind.SERVER), outcome
    assert not server.requests


def test_B2_http_a_silent_proxy_ends_in_time(kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with kind.relay("https://127.0.0.1:9/", proxy=url, context=contexts[1], timeout=0.5) as relay:
            begin = time.monotonic()
            outcome = relay(delivery())
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, True), outcome
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_B2_http_a_proxy_that_cannot_be_reached_is_offline(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext], scheme: str
) -> None:
    port = free_port()
    texts = {
        f"http://127.0.0.1:{port}": f"connection refused by the proxy 127.0.0.1:{port}",
        "http://proxy.invalid:3128": "the name of the proxy proxy.invalid:3128 was not found",
    }
    context = contexts[1] if scheme == "https" else None
    for proxy, text in texts.items():
        with kind.relay(f"{scheme}://127.0.0.1:9/", proxy=proxy, context=context, timeout=20) as relay:
            outcome = relay(delivery())
        assert (outcome.verdict, outcome.text) == (Verdict.OFFLINE, text)


def test_B2_http_a_server_that_answers_407_is_final(
    kind: Kind, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    refused = b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"
    with Server(lambda *_: refused) as server, kind.relay(server.url) as relay:
        assert relay(delivery()).code == 407
    with (
        Server(lambda *_: refused, contexts[0]) as server,
        HttpProxy() as proxy,
        kind.relay(server.url, proxy=proxy.url, context=contexts[1], timeout=20) as relay,
    ):
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.code) == (Verdict.HTTP, 407)


@pytest.mark.parametrize("relay", [Http, AsyncHttp])
def test_B2_http_the_url_of_a_proxy_is_checked(relay: Client) -> None:
    for wrong in (
        "",
        "127.0.0.1:3128",
        "https://u:hidden@127.0.0.1:3128",
        "socks5://127.0.0.1:1080",
        "http://u:hidden@proxy",
        "http://u:hidden@proxy:0",
        "http://u:hidden@proxy:99999",
        "http://u:hidden@proxy:1/path",
        "http://u:hidden@proxy:1?a",
        "http://u:hidden@proxy:1#a",
        "http://a%3Ab:hidden@proxy:1",
        "http://u:hidden @proxy:1",
        "http://[::1:hidden",
    ):
        with pytest.raises(InvalidError) as caught:
            relay("http://127.0.0.1:9/", proxy=wrong)
        assert "hidden" not in f"{caught.value} {caught.value.__context__ or ''}", wrong
    with pytest.raises(TypeError):
        relay("http://127.0.0.1:9/", proxy=3128)
    with pytest.raises(InvalidError, match="proxy-authorization"):
        relay("http://127.0.0.1:9/", proxy="http://[::1]:3128", headers={"proxy-authorization": "x"})


def test_B2_http_a_certificate_of_the_client(kind: Kind, tmp_path: Path) -> None:
    """`context.load_cert_chain`, with a key that has a password; also through a proxy."""
    public, key = checks.certificate(tmp_path / "server")
    mine, my_key = checks.certificate(tmp_path / "client", password="pass word")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, key)
    context.load_verify_locations(mine)
    context.verify_mode = ssl.CERT_REQUIRED
    trusting = ssl.create_default_context(cafile=str(public))
    with (
        Server(lambda *_: OK, context) as server,
        HttpProxy() as proxy,
        kind.relay(server.url, context=trusting, timeout=20) as relay,
    ):
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind) == (Verdict.RETRY, FailureKind.NETWORK), outcome
        assert not server.requests
        trusting.load_cert_chain(mine, my_key, "pass word")
        for options in ({}, {"proxy": proxy.url}):
            with kind.relay(server.url, context=trusting, timeout=20, **options) as relay:
                assert relay(delivery()).code == 200
    assert len(server.requests) == 2


def test_B2_http_204_with_a_body(kind: Kind) -> None:
    """HTTP permits no such body. It is not read as the answer to the next message; aiohttp reads no answer at all."""
    answer = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"
    refused = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    with Server(in_turn(answer, refused)) as server, kind.relay(server.url, timeout=10) as relay:
        first, second = relay(delivery()), relay(delivery())
    assert second.code == 503
    if kind.name == "aiohttp":
        assert (first.verdict, first.kind, first.not_sent) == (Verdict.RETRY, FailureKind.SERVER, False)
    else:
        assert (first.verdict, first.code) == (Verdict.HTTP, 204)
    assert [request.connection for request in server.requests] == [0, 1]


def test_B2_http_the_reason_for_being_offline_is_in_words(kind: Kind) -> None:
    port = free_port()
    texts = {
        f"http://127.0.0.1:{port}/": f"connection refused by 127.0.0.1:{port}",
        f"https://127.0.0.1:{port}/": f"connection refused by 127.0.0.1:{port}",
        "http://nobody.invalid/": "the name of nobody.invalid:80 was not found",
        "https://nobody.invalid/": "the name of nobody.invalid:443 was not found",
    }
    for url, text in texts.items():
        with kind.relay(url, timeout=20) as relay:
            outcome = relay(delivery())
        assert (outcome.verdict, outcome.text) == (Verdict.OFFLINE, text)


def test_R16_http_what_cannot_be_prepared_fails_for_good(kind: Kind) -> None:
    def raising(*_: object) -> Client:
        raise PreparationError("no such template")

    with Server(in_turn()) as server:
        for options in ({"headers": raising}, {"bearer": raising}):
            with kind.relay(server.url, **options) as relay:
                outcome = relay(delivery())
            assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.LOCAL), outcome
            assert "no such template" in outcome.text
    assert not server.requests


def test_B2_http_the_credentials_for_a_proxy_are_in_no_text(
    kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with HttpProxy("other:one") as proxy, kind.relay("http://127.0.0.1:9/", proxy=with_user(proxy)) as relay:
        outcome = relay(delivery())
        secrets = (USER, CREDENTIALS, "p@ss", "p%40ss", base64.b64encode(CREDENTIALS.encode()).decode())
        for text in (outcome.text, repr(outcome), repr(relay), caplog.text):
            assert not any(secret in text for secret in secrets), text

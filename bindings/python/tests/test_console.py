"""I5: the server of the review page, without a browser: who is let in, what is refused, and what pages are told."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from console_client import Browser
from msgqueue import (
    BusyError,
    ClosedError,
    ConflictError,
    Connectivity,
    InvalidError,
    LockedError,
    MessageQueue,
    Mode,
    NotFoundError,
    Outcome,
    Status,
    aio,
    console,
)
from msgqueue.console import Console
from msgqueue.console._access import Access
from msgqueue.console._feed import Stream
from msgqueue.console._lifecycle import Lifecycle
from msgqueue.console._session import names
from support import program, wait_until


@pytest.fixture
def queue(opened: Opener) -> MessageQueue:
    queue = opened(mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.sent())
    queue.set_connectivity(Connectivity.ONLINE)
    return queue


@pytest.fixture
def page(queue: MessageQueue) -> Iterator[Console]:
    with queue.console() as page:
        yield page


@pytest.fixture
def browser(page: Console) -> Browser:
    browser = Browser(page.url)
    assert browser.enter().status == 200
    return browser


# ---------------------------------------------------------------- access


def test_I5_an_address_admits_one_browser_once(page: Console) -> None:
    address = page.url
    assert address == page.url
    assert address.startswith(f"http://127.0.0.1:{page.port}/?token=")
    first, second = Browser(address), Browser(address)
    assert first.enter().status == 200
    assert len(first.key) >= 43
    assert first.key not in address
    refused = second.enter()
    assert refused.status == 401
    assert "key" not in refused.json
    # Another browser needs another address.
    assert page.url != address
    third = Browser(page.url)
    assert third.enter().status == 200
    assert third.call("counts") == first.call("counts")


def test_I5_an_address_that_is_fetched_in_advance_is_not_used_up(page: Console) -> None:
    early = Browser(page.url)
    path = page.url.partition(str(page.port))[2]
    assert early.get(path, Sec_Purpose="prefetch").status == 200
    assert early.get(path).status == 200
    assert early.enter().status == 200


@pytest.mark.parametrize(
    "request_", [{"token": token} for token in ("", "x", "é", "a" * 100, "\0", "\ud800", 7, None)] + [{}, [], "x", None]
)
def test_I5_a_wrong_token_is_refused(page: Console, request_: object) -> None:
    browser = Browser(page.url)
    assert browser.post("/api/enter", request_).status == 401
    assert browser.post("/api/enter", {"token": "x" * 2000}).status == 413
    assert browser.post("/api/enter", {"token": "x"}, Origin="http://evil.example").status == 403
    assert browser.post("/api/enter", {"token": "x"}, Content_Type="text/plain").status == 415
    assert browser.enter().status == 200


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Bearer x", "bearer é", "Basic {key}", "{key}", "x" * 5000])
def test_I5_nothing_of_the_queue_is_shown_without_the_key(
    page: Console, queue: MessageQueue, browser: Browser, value: str
) -> None:
    queue.enqueue("x")
    sent = value.replace("{key}", browser.key).encode().decode("latin-1")
    # The page itself has nothing of the queue in it.
    assert browser.get("/", Authorization=sent).status == 200
    assert browser.get("/api/events?store=0", Authorization=sent).status == 401
    # A cookie, which servers on other ports would receive, is neither given nor taken.
    cookie = f"msgqueue_console_{page.port}={browser.key}"
    for path in ("/api/call", "/api/session", "/api/search", "/api/address"):
        request = {"store": 0, "call": "clear", "fields": {}}
        assert browser.post(path, request, Authorization=sent, Cookie=cookie).status == 401
    assert queue.counts().queued == 1
    for answer in (browser.get("/"), browser.post("/api/session", {"store": 0}), browser.enter()):
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "[::1]"),
        *("localhost.", "127.0.0.1:x", "127.0.0.1:", "127.0.0.1:123456", "evil@127.0.0.1", "0x7f.1", "", None),
    ],
)
def test_I5_a_name_that_resolves_to_this_machine_is_refused(browser: Browser, queue: MessageQueue, host: str) -> None:
    assert browser.get("/", Host=host).status in (400, 403)
    assert browser.post("/api/call", {"store": 0, "call": "pause"}, Host=host).status in (400, 403)
    assert not queue.state().paused
    assert browser.get("/", Host=f"localhost:{browser.port}").status == 200


@pytest.mark.parametrize("host", ["127.0.0.1:9999", "localhost:9999", "LOCALHOST:1", "127.0.0.1", "localhost"])
def test_I5_the_page_works_through_a_forwarded_port(browser: Browser, host: str) -> None:
    """A program that forwards a port leaves Host and Origin as the browser has them."""
    assert browser.get("/", Host=host).status == 200
    request = {"store": 0, "call": "counts", "fields": {}}
    assert browser.post("/api/call", request, Host=host, Origin=f"http://{host}").json["result"]["queued"] == 0
    # Not from a page of another port of this machine.
    for origin in (f"http://127.0.0.1:{browser.port}", "http://127.0.0.1:1234", "http://localhost:1234"):
        assert browser.post("/api/call", request, Host=host, Origin=origin).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", None])
def test_I5_a_request_of_another_page_is_refused(browser: Browser, queue: MessageQueue, origin: str | None) -> None:
    answer = browser.post("/api/call", {"store": 0, "call": "pause", "fields": {}}, Origin=origin)
    assert answer.status == 403
    assert not queue.state().paused
    if origin is not None:
        assert browser.get("/api/events?store=0", Origin=origin).status == 403
    assert browser.post("/api/session", {}, Sec_Fetch_Site="cross-site").status == 403
    assert browser.post("/api/session", {}, Sec_Fetch_Site="same-site").status == 403
    assert browser.get("/main.js", Sec_Fetch_Site="cross-site").status == 403


def test_I5_a_form_cannot_make_a_request(browser: Browser, queue: MessageQueue) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        answer = browser.post("/api/call", {"store": 0, "call": "pause", "fields": {}}, Content_Type=kind)
        assert answer.status == 415
    assert not queue.state().paused


def test_I5_a_link_of_another_site_may_lead_to_the_address(page: Console) -> None:
    browser = Browser(page.url)
    path = page.url.partition(str(page.port))[2]
    answer = browser.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert answer.status == 200
    assert browser.enter().status == 200


def test_I5_every_answer_forbids_what_the_page_does_not_need(browser: Browser) -> None:
    answers = [browser.get("/"), browser.get("/main.js"), browser.get("/x"), browser.post("/api/session", {})]
    answers += [Browser(browser.url).get("/"), browser.get("/", Host="evil.example"), browser.request("PUT", "/")]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_I5_the_page_needs_nothing_from_elsewhere() -> None:
    for path in (Path(console.__file__).parent / "static").iterdir():
        text = path.read_text(encoding="utf-8")
        rest = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in rest, path
        assert "https:" not in rest, path
        assert "innerHTML" not in rest, path
        assert max(map(len, text.splitlines())) <= 140 or path.suffix not in (".js",), path


def test_I5_the_server_listens_on_loopback_only(page: Console) -> None:
    assert page._server.server_address[0] == "127.0.0.1"


# ---------------------------------------------------------------- requests


def test_I5_the_calls_of_the_page(browser: Browser, queue: MessageQueue) -> None:
    id = browser.call("enqueue", conversation="ana", body="grüße")["message"]
    assert queue.get(id).text == "grüße"
    assert browser.call("list")["messages"][0]["id"] == id
    assert browser.call("drain")["sent"] == 1
    assert browser.refusal("retry", message=id) == "CONFLICT"
    assert browser.call("delete", message=id) == {}
    assert browser.refusal("get", message=id) == "NOT_FOUND"


@pytest.mark.parametrize(
    "call", ["backup", "check", "mark", "subscribe", "set_lifecycle", "ping", "x", "", 7, None, []]
)
def test_I5_other_calls_are_refused(browser: Browser, call: object) -> None:
    answer = browser.post("/api/call", {"store": 0, "call": call, "fields": {"path": "/x"}})
    assert answer.status == 200
    assert answer.json["error"]["code"] == "INVALID"


@pytest.mark.parametrize(
    "request_",
    [
        {"store": 0, "call": "list", "fields": []},
        {"store": 0, "call": "list", "fields": {"id": 1}},
        {"store": 0, "call": "list", "fields": {"call": "clear"}},
        {"store": 0, "call": "list", "fields": {"x": 1}},
        {"store": 1, "call": "list"},
        {"store": -1, "call": "list"},
        {"store": True, "call": "list"},
        {"store": "0", "call": "list"},
        {"call": "list"},
        [],
        7,
        None,
    ],
)
def test_I5_a_wrong_request_is_refused(browser: Browser, request_: object) -> None:
    answer = browser.post("/api/call", request_)
    assert answer.status == 200
    assert answer.json["error"]["code"] == "INVALID"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":1}x'])
def test_I5_what_is_not_json_is_refused(browser: Browser, body: bytes) -> None:
    assert browser.post("/api/call", body).status == 400
    assert browser.call("counts")["queued"] == 0


def test_I5_too_large_a_request_is_refused_before_it_is_read(browser: Browser) -> None:
    for length in (str((8 << 20) + 1), "9" * 15):
        assert browser.post("/api/call", b"", Content_Length=length).status == 413
    for length in ("-1", "x", "9" * 30, ""):
        assert browser.post("/api/call", b"", Content_Length=length).status == 411
    assert browser.post("/api/call", b"", Transfer_Encoding="chunked").status == 411
    assert browser.get("/", Content_Length="3").status == 400
    large = browser.post("/api/call", {"store": 0, "call": "enqueue", "fields": {"body": "x" * (2 << 20)}})
    assert large.json["error"]["code"] == "TOO_LARGE"


@pytest.mark.parametrize("character", ['"', "\n", "\x01", "\u2028", "x"])
def test_I7_a_text_of_the_largest_size_is_edited_whatever_its_characters(
    browser: Browser, queue: MessageQueue, character: str
) -> None:
    id = queue.enqueue("x")
    text = character * ((1 << 20) // len(character.encode()))
    browser.call("edit", message=id, body=text)
    assert queue.get(id).text == text
    assert browser.refusal("edit", message=id, body="\ud800") == "INVALID"


@pytest.mark.parametrize(
    ("version", "expected", "length", "answers"),
    [
        ("1.1", "100-continue", 2, ["100", "200"]),
        ("1.1", "100-Continue", 2, ["100", "200"]),
        ("1.1", "100-continue \t", 2, ["100", "200"]),
        ("1.0", "100-continue", 2, ["200"]),
        ("1.1", "100-continue", 9 << 20, ["413"]),
        ("1.1", "100-continue", -1, ["411"]),
    ],
)
def test_I5_a_client_that_waits_to_be_asked_for_the_body_is_answered(
    browser: Browser, version: str, expected: str, length: int, answers: list[str]
) -> None:
    head = (
        f"POST /api/session HTTP/{version}\r\nHost: {browser.authority}\r\nAuthorization: Bearer {browser.key}\r\n"
        f"Origin: http://{browser.authority}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\nExpect: {expected}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", browser.port), timeout=20) as peer, peer.makefile("rb") as answer:
        peer.sendall(head.encode())
        if version == "1.0":
            # Such a client does not wait.
            peer.sendall(b"{}")
        for place, status in enumerate(answers):
            assert answer.readline().split()[1].decode() == status
            if place < len(answers) - 1:
                assert answer.readline() == b"\r\n"
                peer.sendall(b"{}")


@pytest.mark.parametrize(
    "lines",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
)
def test_I5_what_is_not_a_request_of_a_browser_is_refused(browser: Browser, lines: bytes) -> None:
    with socket.create_connection(("127.0.0.1", browser.port), timeout=20) as peer:
        peer.sendall(lines)
        answer = peer.makefile("rb").read()
    assert b'{"error": {"code": "REFUSED"' in answer
    assert browser.call("counts")["queued"] == 0


@pytest.fixture
def strangers(page: Console) -> Iterator[list[socket.socket]]:
    """100 connections of somebody without access, more than the server keeps."""
    with ExitStack() as resources:
        yield [resources.enter_context(_connected(page.port)) for _ in range(100)]


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def test_I5_strangers_do_not_keep_a_browser_out(
    page: Console, browser: Browser, strangers: list[socket.socket]
) -> None:
    # Also one that comes later, and has its address still to redeem.
    assert browser.get("/").status == 200
    other = Browser(page.url)
    assert other.enter().status == 200
    assert other.call("counts")["queued"] == 0
    wait_until(lambda: len(page._server.connections) <= 32)
    assert sum(not _is_ended(stranger) for stranger in strangers) <= 32
    # A request that does not end is not waited for either.
    began = time.monotonic()
    with _connected(page.port) as slow:
        with suppress(OSError):
            while time.monotonic() < began + 40:
                slow.sendall(b"G")
                time.sleep(0.1)
        assert time.monotonic() < began + 30
    wait_until(lambda: all(map(_is_ended, strangers)))
    wait_until(lambda: len(page._server.connections) == 0)


def test_I5_strangers_do_not_end_the_connections_of_a_browser(page: Console, browser: Browser) -> None:
    request = f"GET /icon.svg HTTP/1.1\r\nHost: {browser.authority}\r\n\r\n".encode()
    with ExitStack() as resources:
        streams = [resources.enter_context(browser.events()) for _ in range(3)]
        own = resources.enter_context(_connected(page.port))
        own.sendall(
            f"GET / HTTP/1.1\r\nHost: {browser.authority}\r\nAuthorization: Bearer {browser.key}\r\n\r\n".encode()
        )
        assert own.recv(12) == b"HTTP/1.1 200"
        # What anybody may read makes nobody a guest.
        strangers = [resources.enter_context(_connected(page.port)) for _ in range(100)]
        for stranger in strangers:
            with suppress(OSError):
                stranger.sendall(request)
        wait_until(lambda: sum(_is_ended(stranger) for stranger in strangers) >= 68)
        for stream in streams:
            stream.wait_for("opened")
        assert not _is_ended(own)


def test_I5_the_pages_of_a_browser_are_bounded(page: Console, browser: Browser) -> None:
    with ExitStack() as resources:
        streams = [resources.enter_context(browser.events()) for _ in range(40)]
        assert {stream.status.split()[1] for stream in streams} == {b"200", b"503"}
        assert len(page._server.connections) <= 64
        assert browser.get("/").status == 503
        assert browser.post("/api/session", {}).status == 503
        for stream in streams:
            if b"200" in stream.status:
                stream.wait_for("opened")
    wait_until(lambda: _answers(browser))


def _is_ended(peer: socket.socket) -> bool:
    """Whether the server has ended a connection. What it has sent is read."""
    peer.setblocking(False)
    try:
        while peer.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _answers(browser: Browser) -> bool:
    try:
        return browser.get("/").status == 200
    except OSError:
        return False


# ---------------------------------------------------------------- search


def test_I5_search_finds_bodies_metadata_and_names(browser: Browser, queue: MessageQueue) -> None:
    queue.enqueue("Grüße an alle", id="a", conversation="ana")
    queue.enqueue("x", id="b", conversation="ana", metadata={"trace": "SOMETHING"})
    queue.enqueue(b"\xff\x00something", id="c", conversation="ben")
    queue.record("hello", conversation="ben", sender="somebody", id="d")
    queue.enqueue("a.c", id="e", conversation="regex")

    def found(text: str, **fields: object) -> list[str]:
        result = browser.post("/api/search", {"store": 0, "text": text, **fields}).json["result"]
        assert result["next"] is None
        return [message["id"] for message in result["messages"]]

    assert found("GRÜSSE") == []
    assert found("GRÜ") == ["a"]
    assert found("some") == ["d", "b"]
    assert found("ana") == ["b", "a"]
    assert found("some", conversation="ana") == ["b"]
    assert found(".") == ["e"]
    for text in ("", "x" * 201, 7, None):
        answer = browser.post("/api/search", {"store": 0, "text": text})
        assert answer.json["error"]["code"] == "INVALID"


def test_I5_a_long_search_goes_on_where_it_ended(browser: Browser, queue: MessageQueue) -> None:
    queue.enqueue_bodies(["needle" if index % 100 == 0 else "hay" for index in range(12_000)], conversation="ana")
    found = searched = rounds = 0
    after: int | None = 0
    while after is not None:
        result = browser.post("/api/search", {"store": 0, "text": "needle", "after": after}).json["result"]
        assert len(result["messages"]) <= 50
        found += len(result["messages"])
        searched += result["searched"]
        after = result["next"]
        rounds += 1
    assert (found, searched) == (120, 12_000)
    assert rounds >= 3


# ---------------------------------------------------------------- events


def test_I5_pages_are_told_what_happens(browser: Browser, queue: MessageQueue) -> None:
    with browser.events() as stream, browser.events() as other:
        stream.wait_for("opened")
        other.wait_for("opened")
        queue.enqueue("x", id="x")
        assert stream.wait_for("status", id="x")["to"] == "queued"
        assert other.wait_for("status", id="x")["to"] == "queued"
        queue.set_connectivity(Connectivity.OFFLINE)
        stream.wait_for("connectivity", connectivity="offline")
    # When the last page is gone the owner has no subscriber any more.
    with browser.events() as stream:
        stream.wait_for("opened")
        queue.set_connectivity(Connectivity.ONLINE)
        stream.wait_for("connectivity", connectivity="online")


def test_I5_a_page_that_is_loaded_again_is_not_told_that_the_queue_was_closed(page: Console) -> None:
    feed = page._sessions[0].feed
    for _ in range(30):
        with feed.opened() as stream:
            events: list[dict[str, object]] = []
            while not events:
                events = stream.take(20) or []
            assert events == [{"event": "opened"}]


def test_I5_events_of_many_messages_become_few() -> None:
    stream = Stream()
    for index in range(100):
        for status in ("queued", "sending", "sent"):
            stream.add({"event": "status", "id": str(index), "to": status})
            stream.add({"event": "edited", "id": str(index)})
            stream.add({"event": "summary", "n": index})
    events = stream.take(0) or []
    assert len(events) == 201
    assert all(event["to"] == "sent" for event in events if event["event"] == "status")
    assert stream.take(0) == []
    stream.add({"event": "paused"})
    for index in range(10_000):
        stream.add({"event": "status", "id": str(index), "to": "queued"})
    events = stream.take(0) or []
    assert len(events) <= 301
    assert {"event": "resync"} in events
    assert {"event": "paused"} in events
    stream.close()
    assert stream.take(10) is None


def test_I5_a_closed_queue_is_said_and_found_again(opened: Opener, store: Path) -> None:
    queue = opened()
    queue.start_control()
    queue.enqueue("x")
    with queue.console() as page:
        browser = Browser(page.url)
        browser.enter()
        with browser.events() as stream:
            stream.wait_for("opened")
            queue.close()
            stream.wait_for("closed")
            assert browser.refusal("counts") == "CLOSED"
            again = opened()
            assert again.counts().queued == 1
            again.start_control()
            stream.wait_for("opened")
            assert browser.call("counts")["queued"] == 1


@contextmanager
def no_descriptor_left(page: Console) -> Iterator[None]:
    """Lets this process open no further descriptor."""
    wait_until(lambda: not page._server.connections)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.close(last)


def _wait_for(stream: Stream, kind: str) -> dict[str, Any]:
    """Returns the next event of that kind."""
    while True:
        events = stream.take(20)
        assert events, f"no event {kind}"
        found = [event for event in events if event["event"] == kind]
        if found:
            return found[0]


def test_I5_without_a_descriptor_the_events_come_later(page: Console, queue: MessageQueue) -> None:
    feed = page._sessions[0].feed
    with ExitStack() as resources:
        with no_descriptor_left(page):
            stream = resources.enter_context(feed.opened())
            assert "Too many open files" in _wait_for(stream, "closed")["text"]
        _wait_for(stream, "opened")
        queue.enqueue("x", id="x")
        assert _wait_for(stream, "status")["id"] == "x"


def test_I5_without_a_descriptor_a_browser_waits(page: Console, browser: Browser) -> None:
    with socket.socket() as peer:
        peer.settimeout(20)
        with no_descriptor_left(page):
            # The kernel accepts it; the server cannot, and must not end.
            peer.connect(("127.0.0.1", page.port))
            time.sleep(0.5)
        peer.sendall(
            f"GET / HTTP/1.1\r\nHost: {browser.authority}\r\nAuthorization: Bearer {browser.key}\r\n\r\n".encode()
        )
        assert peer.recv(12) == b"HTTP/1.1 200"


def test_I5_a_drain_that_goes_on_does_not_keep_the_page_waiting(opened: Opener) -> None:
    tokens: list[int] = []

    def send(delivery: object) -> Outcome:
        tokens.append(delivery.token)  # type: ignore[attr-defined]
        return Outcome.pending()

    queue = opened(mode=Mode.MANUAL, direct=False, transport=send)
    queue.set_connectivity(Connectivity.ONLINE)
    queue.enqueue("x")
    with queue.console() as page:
        browser = Browser(page.url)
        browser.enter()
        with browser.events() as stream:
            stream.wait_for("opened")
            assert browser.call("drain")["stop"] == "started"
            assert browser.call("state")["draining"] is True
            queue.complete(tokens[0], Outcome.sent())
            assert stream.wait_for("drain_finished")["report"]["sent"] == 1


def test_I5_a_drain_while_offline_sends_nothing(browser: Browser, queue: MessageQueue) -> None:
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("x", id="x")
    report = browser.call("drain")
    assert (report["stop"], report["sent"], report["failed"]) == ("offline", 0, 0)
    assert queue.get("x").status is Status.QUEUED


# ---------------------------------------------------------------- lifecycle


def _is_in(queue: MessageQueue, lifecycle: str) -> Callable[[], bool]:
    return lambda: queue.state().lifecycle.name == lifecycle


def test_I5_M9_pages_drive_the_lifecycle_only_where_told(queue: MessageQueue) -> None:
    with queue.console() as plain:
        browser = Browser(plain.url)
        browser.enter()
        with browser.events() as stream:
            stream.wait_for("opened")
        assert _is_in(queue, "FOREGROUND")()
    with queue.console(drives_lifecycle=True) as driving:
        # There is no page yet.
        wait_until(_is_in(queue, "BACKGROUND"))
        browser = Browser(driving.url)
        browser.enter()
        with browser.events():
            wait_until(_is_in(queue, "FOREGROUND"))
            with browser.events() as second:
                second.wait_for("opened")
            time.sleep(3)
            assert _is_in(queue, "FOREGROUND")()
        wait_until(_is_in(queue, "BACKGROUND"))
        with browser.events():
            wait_until(_is_in(queue, "FOREGROUND"))
        wait_until(_is_in(queue, "BACKGROUND"))
    assert _is_in(queue, "FOREGROUND")()


def test_I5_M9_a_browser_that_is_killed_leads_to_the_background(queue: MessageQueue) -> None:
    code = """
        import signal
        import sys
        from console_client import Browser
        browser = Browser(sys.argv[1])
        browser.enter()
        with browser.events() as stream:
            stream.wait_for("opened")
            print("open", flush=True)
            signal.pause()
    """
    with queue.console(drives_lifecycle=True) as page, program(code, page.url) as killed:
        assert killed.line() == "open"
        wait_until(_is_in(queue, "FOREGROUND"))
        killed.signal(signal.SIGKILL)
        wait_until(_is_in(queue, "BACKGROUND"))


def test_I5_M9_a_program_that_is_started_again_is_told_the_lifecycle(opened: Opener, store: Path) -> None:
    code = """
        import sys
        from msgqueue import console
        console.run(sys.argv[1], open_browser=False, drives_lifecycle=True)
    """

    def begin() -> MessageQueue:
        queue = opened()
        queue.start_control()
        return queue

    queue = begin()
    with program(code, store) as process:
        browser = Browser(process.line())
        wait_until(_is_in(queue, "BACKGROUND"))
        queue.close()
        queue = begin()
        wait_until(_is_in(queue, "BACKGROUND"))
        browser.enter()
        with browser.events():
            wait_until(_is_in(queue, "FOREGROUND"))
            queue.close()
            queue = begin()
            # It begins there, and is hidden while nobody runs it.
            queue.close()
        time.sleep(4)
        queue = begin()
        wait_until(_is_in(queue, "BACKGROUND"))
        process.signal(signal.SIGTERM)
        process.wait()
        assert _is_in(queue, "FOREGROUND")()


class _Owner:
    """A store whose owner refuses calls for a while, and its feed."""

    path = "/a\x1b[2J.db"

    def __init__(self) -> None:
        self.told: list[object] = []
        self.problem: Exception | None = None
        self.restart: Callable[[], None] = lambda: None

    def call(self, name: str, fields: dict[str, object]) -> None:
        assert name == "set_lifecycle"
        self.told.append(fields["lifecycle"])
        if self.problem is not None:
            raise self.problem

    @contextmanager
    def watched(self, opened: Callable[[], None]) -> Iterator[None]:
        self.restart = opened
        yield


@pytest.mark.parametrize("problem", [BusyError("too many \x1b[2J"), OSError(24, "Too many open files")])
def test_I5_M9_a_lifecycle_that_is_not_taken_is_reported_and_told_again(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    owner: Any = _Owner()
    owner.problem = problem
    lifecycle = Lifecycle(owner, owner)
    # Tried again, and reported once.
    wait_until(lambda: len(owner.told) >= 3)
    owner.problem = None
    count = len(owner.told)
    wait_until(lambda: len(owner.told) > count)
    with lifecycle.shown():
        wait_until(lambda: owner.told[-1] == "foreground")
        # Loaded again: the queue stays where it is.
        shown = owner.told.count("foreground")
        with lifecycle.shown():
            pass
        owner.restart()
        wait_until(lambda: owner.told.count("foreground") > shown)
    assert owner.told[-1] == "foreground"
    wait_until(lambda: owner.told[-1] == "background")
    owner.problem = problem
    lifecycle.end()
    assert owner.told[-1] == "foreground"
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert texts[0].startswith("review page: /a\\x1b[2J.db could not be put into the background: ")
    assert texts[0].endswith("; it is tried again")
    assert "could not be put into the foreground" in texts[1]
    assert "\x1b" not in "".join(texts)


def test_I5_M9_the_end_does_not_wait_long_for_an_owner_that_does_not_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msgqueue.console._lifecycle._END", 0.2)
    owner: Any = _Owner()
    answers = threading.Event()
    told = owner.call

    def call(name: str, fields: dict[str, object]) -> None:
        told(name, fields)
        answers.wait(60)

    owner.call = call
    lifecycle = Lifecycle(owner, owner)
    wait_until(lambda: owner.told == ["background"])
    started = time.monotonic()
    lifecycle.end()
    assert time.monotonic() - started < 30
    texts = [record.getMessage() for record in caplog.records]
    assert [text.rpartition(": ")[2] for text in texts] == ["no answer within 0.2 s (MSGQ_TIMEOUT)"]
    answers.set()
    lifecycle._thread.join(60)
    # It was given up.
    assert owner.told == ["background"]


# ---------------------------------------------------------------- begin and end


def test_I5_a_console_of_a_queue_uses_a_private_socket(queue: MessageQueue, store: Path) -> None:
    with queue.console() as page:
        socket_path = Path(page._sessions[0].store.connect().socket)
        assert socket_path.parent != store.parent
        assert stat.S_IMODE(socket_path.parent.stat().st_mode) == 0o700
    assert not socket_path.parent.exists()
    page.close()
    with pytest.raises(OSError):  # noqa: PT011 - refused
        socket.create_connection(("127.0.0.1", page.port), timeout=5).close()
    # It does not stop what it did not start.
    queue.start_control()
    with queue.console():
        pass
    assert store.with_name("outbox.db-control").exists()


def _shows_the_queue(page: Console) -> bool:
    browser = Browser(page.url)
    browser.enter()
    return "queued" in browser.call("counts")


def test_I5_the_end_of_a_console_leaves_the_others_of_its_queue(queue: MessageQueue) -> None:
    first, second = queue.console(), queue.console()
    directory = Path(first._sessions[0].store.connect().socket).parent
    first.close()
    assert _shows_the_queue(second)
    with queue.console() as third:
        second.close()
        assert _shows_the_queue(third)
    assert not directory.exists()
    with queue.console() as fourth:
        assert _shows_the_queue(fourth)


def test_I5_a_console_follows_the_control_socket_of_its_queue(queue: MessageQueue, store: Path) -> None:
    other = store.with_name("other")
    with queue.console() as page:
        assert _shows_the_queue(page)
        # What cannot be started leaves the console as it is.
        with pytest.raises(InvalidError):
            queue.start_control(store.with_name("missing") / "socket")
        assert _shows_the_queue(page)
        queue.start_control(other)
        assert _shows_the_queue(page)
        assert other.exists()
        with pytest.raises(ConflictError):
            queue.start_control()
        queue.stop_control()
        assert not other.exists()
        assert _shows_the_queue(page)
        queue.stop_control()
        assert _shows_the_queue(page)
        queue.start_control()
    assert store.with_name("outbox.db-control").exists()


def test_I5_a_closed_queue_has_no_console(opened: Opener) -> None:
    for start in (False, True):
        queue = opened()
        if start:
            queue.start_control()
        queue.close()
        with pytest.raises(ClosedError):
            queue.console()


def test_I5_a_closed_console_has_no_address(queue: MessageQueue) -> None:
    page = queue.console()
    address, port = page.url, page.port
    page.close()
    for _ in range(2):
        with pytest.raises(ClosedError, match="the console is closed"):
            _ = page.url
        page.close()
    assert page.port == port
    assert f":{port}/" in address


def test_I5_a_port_that_is_taken_is_refused(queue: MessageQueue) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError):  # noqa: PT011 - EADDRINUSE
            queue.console(taken.getsockname()[1])
    with queue.console() as page:
        assert page.port > 0


@pytest.mark.parametrize("is_used", [True, False])
def test_I5_other_users_do_not_see_the_token_in_the_arguments_of_the_browser(
    queue: MessageQueue, store: Path, tmp_path: Path, is_used: bool
) -> None:
    queue.start_control()
    log, script, place = tmp_path / "log", tmp_path / "browser", tmp_path / "temporary"
    place.mkdir()
    script.write_text(
        f"#!/bin/sh\necho noise; echo noise >&2\n"
        f"tr '\\0' ' ' < /proc/$PPID/cmdline > {log}.new; echo \"$@\" >> {log}.new; mv {log}.new {log}\n"
    )
    script.chmod(0o700)
    code = """
        import os, sys
        from msgqueue import console
        os.environ.update(DISPLAY=":0", BROWSER=sys.argv[2], TMPDIR=sys.argv[3])
        sys.stderr = sys.stdout
        os.dup2(1, 2)
        console.run(sys.argv[1])
        print("end", flush=True)
    """
    with program(code, store, script, place) as process:
        assert process.line().startswith(f"{store}: open in process ")
        address = process.line()
        wait_until(log.exists)
        token = address.partition("token=")[2]
        assert len(token) >= 43
        words = log.read_text().split()
        assert token not in log.read_text()
        page = Path(words[-1][len("file://") :])
        assert page.parent.parent == place
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert f'content="0;url={address}"' in page.read_text()
        if is_used:
            browser = Browser(address)
            assert browser.post("/api/enter", {"token": f"{token}x"}).status == 401
            assert page.exists()
            assert browser.enter().status == 200
            assert not page.parent.exists()
        process.signal(signal.SIGTERM)
        # Nothing of what the browser wrote.
        assert process.line() == "end"
        assert process.wait() == 0
    assert list(place.iterdir()) == []


def test_I5_without_a_browser_the_address_is_still_shown(store: Path, tmp_path: Path) -> None:
    MessageQueue(store).close()
    code = """
        import os, sys
        from msgqueue import console
        os.environ.update(DISPLAY=":0")
        sys.executable = "/nowhere"
        sys.stdout.reconfigure(line_buffering=True)
        sys.stderr = sys.stdout
        console.run(sys.argv[1])
    """
    with program(code, store) as process:
        assert "opened by this program" in process.line()
        browser = Browser(process.line())
        assert process.line().startswith("no browser could be started: ")
        assert browser.enter().status == 200
        process.signal(signal.SIGTERM)


def test_I5_the_name_of_a_store_cannot_control_the_terminal(opened: Opener, tmp_path: Path) -> None:
    code = """
        import sys
        from msgqueue import console
        sys.stderr.reconfigure(encoding="utf-8")
        sys.stderr = sys.stdout
        console.run(sys.argv[1:], open_browser=False)
    """
    name = "a\x1b[2J\nb\r\u202e\x9b"
    owned, free = opened(tmp_path / f"{name}1.db"), opened(tmp_path / f"{name}2.db")
    owned.start_control()
    free.close()
    with program(code, tmp_path / f"{name}1.db", tmp_path / f"{name}2.db") as process:
        lines = [process.line() for _ in range(3)]
        for number, line in enumerate(lines[:2], 1):
            assert line.startswith(f"{tmp_path}/a\\x1b[2J\\nb\\r\\u202e\\x9b{number}.db: open")
        assert lines[2].startswith("http://127.0.0.1:")
        process.signal(signal.SIGINT)
        assert process.wait() == 0


@pytest.mark.parametrize("port", [-1, 65536, 70000, 2**64, "x", "8080", True, 8080.0, None, b"1"])
def test_I5_a_wrong_port_is_refused_before_anything_begins(opened: Opener, store: Path, port: Any) -> None:
    queue = opened()
    threads = set(threading.enumerate())
    problem = InvalidError if type(port) is int else TypeError
    with pytest.raises(problem, match=r"^port must be "):
        queue.console(port)
    with pytest.raises(problem, match=r"^port must be "):
        console.run(store, port=port, open_browser=False)
    assert set(threading.enumerate()) <= threads
    # No control socket was started: one of another path can be.
    queue.start_control(store.with_name("other"))


def test_I5_with_asyncio(store: Path) -> None:
    import asyncio

    async def main() -> None:
        async with aio.MessageQueue(store) as queue:
            page = await queue.console()
            browser = Browser(page.url)
            await asyncio.to_thread(browser.enter)
            await queue.enqueue("x")
            assert (await asyncio.to_thread(browser.call, "counts"))["queued"] == 1
            await asyncio.to_thread(page.close)

    asyncio.run(main())


RUN = """
    import sys
    from msgqueue import console
    print(console.run(sys.argv[1], open_browser=False), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_I5_run_serves_the_queue_of_another_program_until_it_is_interrupted(
    queue: MessageQueue, store: Path, number: int
) -> None:
    queue.start_control()
    with program(RUN, store) as process:
        browser = Browser(process.line())
        assert browser.enter().status == 200
        id = browser.call("enqueue", body="x")["message"]
        assert queue.get(id).text == "x"
        session = browser.post("/api/session", {"store": 0}).json["result"]
        assert session["stores"] == [{"name": "outbox.db", "path": str(store), "is_opened_here": False}]
        process.signal(number)
        assert process.line() == "0"
        assert process.wait() == 0


def test_I5_run_opens_a_store_that_nobody_has(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
        queue.enqueue("x", id="x")
        queue.enqueue("y", id="y")
    with program(RUN, store) as process:
        browser = Browser(process.line())
        browser.enter()
        assert browser.post("/api/session", {"store": 0}).json["result"]["stores"][0]["is_opened_here"] is True
        assert [message["id"] for message in browser.call("list")["messages"]] == ["x", "y"]
        assert browser.refusal("drain") == "NO_TRANSPORT"
        browser.call("edit", message="x", body="z")
        browser.call("delete", message="y")
        process.signal(signal.SIGINT)
        assert process.wait() == 0
    with MessageQueue(store, read_only=True) as queue:
        assert [message.text for message in queue.list()] == ["z"]


def test_I5_a_failed_message_of_a_store_that_nobody_has_is_put_back_into_the_queue(store: Path) -> None:
    with MessageQueue(store, lambda _: Outcome.reject(code=400), mode=Mode.MANUAL, keep_sent=0) as queue:
        queue.enqueue("x", id="x")
        queue.drain()
        assert queue.get("x").status is Status.FAILED
    with program(RUN, store) as process:
        browser = Browser(process.line())
        browser.enter()
        assert browser.call("retry", message="x") == {}
        assert browser.call("get", message="x")["status"] == "queued"
        process.signal(signal.SIGINT)
        assert process.wait() == 0
    with MessageQueue(store, read_only=True) as queue:
        assert queue.get("x").status is Status.QUEUED


def test_I5_run_shows_several_stores(opened: Opener, tmp_path: Path) -> None:
    first, second = opened(tmp_path / "first.db"), opened(tmp_path / "second.db")
    for queue in (first, second):
        queue.start_control()
    second.enqueue("x")
    code = """
        import sys
        from msgqueue import console
        console.run(sys.argv[1:], open_browser=False)
    """
    with program(code, tmp_path / "first.db", tmp_path / "second.db") as process:
        browser = Browser(process.line())
        browser.enter()
        counts = [
            browser.post("/api/call", {"store": number, "call": "counts", "fields": {}}).json["result"]["queued"]
            for number in (0, 1)
        ]
        assert counts == [0, 1]


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (["/a/x.db"], ["x.db"]),
        (["/a/x.db", "/a/y.db"], ["x.db", "y.db"]),
        (["/a/x.db", "/b/x.db", "/b/y.db"], ["a/x.db", "b/x.db", "y.db"]),
        (["/a/one/x.db", "/b/one/x.db", "/b/two/x.db"], ["a/one/x.db", "b/one/x.db", "two/x.db"]),
        (["/x.db", "/a/x.db", "/b/a/x.db"], ["/x.db", "/a/x.db", "b/a/x.db"]),
        (["/a/x.db", "/a/x.db"], ["x.db", "x.db"]),
    ],
)
def test_I5_stores_with_equal_file_names_are_told_apart(paths: list[str], shown: list[str]) -> None:
    assert names(paths) == shown


def test_I5_run_refuses_what_it_cannot_reach(queue: MessageQueue, store: Path, tmp_path: Path) -> None:
    with pytest.raises(LockedError):
        console.run(store)
    with pytest.raises(NotFoundError):
        console.run(tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()


def test_I5_the_answer_is_json(browser: Browser) -> None:
    answer = browser.post("/api/session", {"store": 0})
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.body)["result"]["version"]


# ---------------------------------------------------------------- neighbours


def test_I5_at_the_usual_port_the_host_has_none() -> None:
    access = Access(80)
    assert access.address().startswith("http://127.0.0.1:80/?token=")
    for host in ("127.0.0.1", "LOCALHOST", "127.0.0.1:80"):
        headers = Message()
        headers["Host"] = host
        headers["Origin"] = f"http://{host.lower()}"
        assert access.refusal(headers, needs_origin=True) is None


def test_I5_an_invalid_address_is_refused_with_an_answer(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    assert browser.get("http://[").status == 400
    assert browser.post("http://[", {}).status == 400
    for store in ("%C2%B2", "9" * 5000):
        assert browser.get(f"/api/events?store={store}").status == 404
    assert not caplog.records


def test_I5_a_forked_child_that_closes_the_console_leaves_it_to_its_parent(page: Console, browser: Browser) -> None:
    child = os.fork()
    if child == 0:
        try:
            page._server.close()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert browser.get("/").status == 200


def test_I5_a_search_takes_time_in_proportion_to_the_text(browser: Browser, queue: MessageQueue) -> None:
    queue.enqueue("a" * 1_000_000)
    began = time.perf_counter()
    result = browser.post("/api/search", {"store": 0, "text": "a" * 199 + "b"}).json["result"]
    assert (result["messages"], result["searched"]) == ([], 1)
    # Character by character it takes 200 times as long: the search for one letter bounds it on any machine.
    took = time.perf_counter() - began
    began = time.perf_counter()
    browser.post("/api/search", {"store": 0, "text": "b"})
    assert took < 20 * (time.perf_counter() - began) + 0.2

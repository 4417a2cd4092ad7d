"""Who has access to the page in a browser: the tab that was given an address, and no server on another port."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import Opener, Shower
from page import Page


class Neighbour(ThreadingHTTPServer):
    """A server of somebody else on another port of this machine, which notes what it receives."""

    daemon_threads = True

    def __init__(self) -> None:
        self.received: list[str] = []
        super().__init__(("127.0.0.1", 0), NeighbourHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class NeighbourHandler(BaseHTTPRequestHandler):
    server: Neighbour

    def do_GET(self) -> None:
        self.server.received.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing."""


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    server = Neighbour()
    yield server
    server.shutdown()
    server.server_close()


class Forwarder:
    """Forwards a port to another one, as `ssh -L` does."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(65536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        self._listener.close()


def test_I5_a_server_on_another_port_receives_nothing_of_the_access(
    opened: Opener, show: Shower, page: Page, neighbour: Neighbour
) -> None:
    queue = opened()
    queue.enqueue("text", conversation="ana")
    show(queue)
    page.see(".row .preview", "text")
    own = page.driver.current_url
    key = page.script('return sessionStorage.getItem("key")')
    assert len(key) >= 43
    for host in ("127.0.0.1", "localhost"):
        page.driver.get(f"http://{host}:{neighbour.server_port}/")
        assert page.script("return sessionStorage.length") == 0
    assert neighbour.received
    assert not [each for each in neighbour.received if key in each or "Cookie" in each]
    assert page.driver.get_cookies() == []
    # The tab still has access when it comes back, also after a reload; its events come.
    page.driver.get(own)
    page.see(".row .preview", "text")
    page.driver.refresh()
    page.see(".row .preview", "text")
    queue.enqueue("more", conversation="ana")
    page.see(".row .preview", "more")


def test_I5_another_tab_has_no_access_and_is_told_how_to_get_it(opened: Opener, show: Shower, page: Page) -> None:
    page.expected_errors = ["401"]
    queue = opened()
    show(queue)
    page.see("h1", "Queue (0)")
    first, own = page.driver.current_window_handle, page.driver.current_url
    page.driver.switch_to.new_window("tab")
    try:
        page.driver.get(own)
        page.see("h1", "No access")
        page.see(".empty p", lambda text: "“Another browser or tab”" in text)
    finally:
        page.driver.close()
        page.driver.switch_to.window(first)


def test_I5_the_page_works_through_a_forwarded_port(opened: Opener, page: Page) -> None:
    queue = opened(online=False)
    queue.enqueue("text", conversation="ana")
    with queue.console() as console:
        forwarder = Forwarder(console.port)
        try:
            page.driver.get(console.url.replace(f":{console.port}/", f":{forwarder.port}/"))
            page.see(".row .preview", "text")
            assert f":{forwarder.port}/" in page.driver.current_url
            queue.enqueue("more", conversation="ana")
            page.see(".row .preview", "more")
            page.press("Pause", ".view-head")
            page.until(lambda: queue.state().paused)
            page.leave()
        finally:
            forwarder.close()

"""What the tests of the review page share: a browser, queues, and a transport that answers as a test says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from selenium import webdriver

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = ROOT / ".build" / "release"
sys.path.insert(0, str(ROOT / "bindings" / "python" / "src"))
os.environ.setdefault("MSGQUEUE_LIBRARY", str(LIBRARY / "libmsgqueue.so"))

from msgqueue import Connectivity, Link, MessageQueue, Mode  # noqa: E402
from msgqueue.console import Console  # noqa: E402
from page import Page  # noqa: E402 - needs the path
from transport import Transport  # noqa: E402

HEADLESS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-default-apps", "--mute-audio"),
)


class Opener(Protocol):
    """Opens a queue, by default in mode manual without direct sending, online."""

    def __call__(self, path: Path | None = None, *, online: bool = True, **options: Any) -> MessageQueue: ...


class Shower(Protocol):
    """Opens the review page of a queue in the browser."""

    def __call__(self, queue: MessageQueue, hash: str = "", **options: Any) -> Page: ...


def start_browser() -> webdriver.Chrome:
    """Starts a headless Chromium with a profile of its own."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium is not None, "chromium is not installed"
    assert driver is not None, "chromium-driver is not installed"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in HEADLESS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_script_timeout(60)
    return browser


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Returns the browser that all tests use one after the other."""
    browser = start_browser()
    yield browser
    browser.quit()


@pytest.fixture
def page(browser: webdriver.Chrome) -> Iterator[Page]:
    """Returns an empty page of 1440 by 900 points. What the browser reports as an error fails the test."""
    page = Page(browser)
    page.size(1440, 900)
    yield page
    page.leave()
    assert page.errors() == []


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
def transport() -> Iterator[Transport]:
    transport = Transport()
    yield transport
    transport.release()


@pytest.fixture
def opened(store: Path, transport: Transport) -> Iterator[Opener]:
    queues: list[MessageQueue] = []

    def opener(path: Path | None = None, *, online: bool = True, **options: Any) -> MessageQueue:
        given = {"mode": Mode.MANUAL, "direct": False, "transport": transport, "online_debounce": 0.0, **options}
        queue = MessageQueue(path or store, **given)
        queues.append(queue)
        queue.set_connectivity(Connectivity.ONLINE if online else Connectivity.OFFLINE, Link.WIFI)
        return queue

    yield opener
    transport.release()
    for queue in queues:
        queue.close(timeout=20)


@pytest.fixture
def show(page: Page, opened: Opener) -> Iterator[Shower]:
    """Returns a function that opens the page of a queue. It depends on `opened`, to end before the queues do."""
    consoles: list[Console] = []

    def shower(queue: MessageQueue, hash: str = "", **options: Any) -> Page:
        console = queue.console(**options)
        consoles.append(console)
        page.open(console, hash)
        return page

    yield shower
    page.leave()
    for console in consoles:
        console.close()


@pytest.fixture(scope="session")
def c_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the program host.c, compiled."""
    program = tmp_path_factory.mktemp("host") / "host"
    source = Path(__file__).with_name("host.c")
    library = Path(os.environ["MSGQUEUE_LIBRARY"])
    # The program needs the soname; the build makes the file without the number.
    (program.parent / "libmsgqueue.so.0").symlink_to(library)
    command = [
        "gcc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'Include'}",
        str(source),
        "-o",
        str(program),
    ]
    subprocess.run([*command, str(library), f"-Wl,-rpath,{program.parent}"], check=True, timeout=120)
    return program

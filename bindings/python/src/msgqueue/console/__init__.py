"""The review page: a web page on this machine that shows a queue, and controls it.

    from msgqueue import console

    console.run("outbox.db")            # as `msgq console outbox.db`: serves until it is interrupted

    with queue.console() as page:       # inside the program that has the queue open
        print(page.url)

The page works through the control socket, so that it shows the queue of any program of the same user that called
`start_control`. The server listens on 127.0.0.1 only, and uses the standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType, TracebackType
from typing import Union

from .. import _arguments
from .._escaping import escaped
from ..errors import ClosedError, InvalidError
from ._desktop import Redirect, has_desktop, start_browser
from ._server import Server
from ._session import Session, reached
from ._store import Store

__all__ = ["Console", "run"]

_Path = Union[str, "os.PathLike[str]"]

# They end `run` in order, as Ctrl-C does.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Console:
    """The server of the review page, which runs until `close`. Made by `MessageQueue.console`.

    Any thread may use it.
    """

    def __init__(self, sessions: Sequence[Session], port: int, drives_lifecycle: bool, resources: ExitStack) -> None:
        self._sessions = sessions
        self._server = Server(sessions, port, drives_lifecycle)
        self._resources = resources

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address to open in a browser.

        Its token admits one tab of a browser, once. After that a new address is returned, for another tab or browser.

        Raises:
            ClosedError: The console is closed, so that no address leads to it.
        """
        if self._server.is_closed:
            raise ClosedError("the console is closed")
        return self._server.access.address()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1; after `close` the one that it had."""
        return self._server.port

    def close(self) -> None:
        """Ends the server, and disconnects the pages. A second call does nothing."""
        self._server.close()
        for session in self._sessions:
            session.close()
        self._resources.close()


def run(
    store: _Path | Sequence[_Path], *, port: int = 0, open_browser: bool = True, drives_lifecycle: bool = False
) -> int:
    """Serves the review page of a store, or of several, until it is interrupted by Ctrl-C, SIGTERM or SIGHUP.

    Prints the address to open, alone on a line, on standard output. A store that a program has open is reached through
    its control socket. One that nobody has open is opened here, and then nothing is sent: what is retried is queued.

    Args:
        store: The store's file, or several of them.
        port: The port on 127.0.0.1, 0 to 65535; 0: a free one.
        open_browser: Opens the address in the browser of the desktop, if there is one. The browser gets the name of a
            temporary file that leads to the address.
        drives_lifecycle: The queue is in the foreground while a page that shows it is visible, otherwise in the
            background.

    Returns:
        The exit status: 0.

    Raises:
        InvalidError: No store is given, or the port is out of range.
        LockedError: A program has the store open and has not called `start_control`.
        Error: The store cannot be opened; see `MessageQueue`.
        OSError: The port is taken.
    """
    _arguments.unsigned("port", port, bits=16)
    _arguments.flag("open_browser", open_browser)
    _arguments.flag("drives_lifecycle", drives_lifecycle)
    paths = [store] if isinstance(store, (str, os.PathLike)) else list(store)
    if not paths:
        raise InvalidError("no store was given")
    with ExitStack() as resources, _interrupted() as wait:
        sessions = [resources.enter_context(reached(os.fspath(path))) for path in paths]
        for session in sessions:
            print(session.described, file=sys.stderr)
        _serve_until(wait, sessions, port, open_browser, drives_lifecycle, _print_address)
    return 0


def _serve_session(
    session: Session, *, port: int, open_browser: bool, drives_lifecycle: bool, say: Callable[[str], None]
) -> None:
    """Serves the review page of a store that was reached until it is interrupted, as `run`, and closes the session.

    Args:
        session: The store.
        port: The port.
        open_browser: As for `run`.
        drives_lifecycle: As for `run`.
        say: Is given the address.
    """
    try:
        with _interrupted() as wait:
            _serve_until(wait, [session], port, open_browser, drives_lifecycle, say)
    finally:
        session.close()


def _print_address(address: str) -> None:
    print(address, flush=True)


def _serve_until(
    wait: Callable[[], None],
    sessions: Sequence[Session],
    port: int,
    open_browser: bool,
    drives_lifecycle: bool,
    say: Callable[[str], None],
) -> None:
    with ExitStack() as resources, Console(sessions, port, drives_lifecycle, ExitStack()) as console:
        address = console.url
        say(address)
        if open_browser and has_desktop():
            _show(console, address, resources)
        wait()


def _serve(store: Store, port: int, drives_lifecycle: bool, resources: ExitStack) -> Console:
    """Returns the console of an open queue. `resources` are released when it is closed, also after an error."""
    with resources:
        session = Session(store, os.getpid())
        resources.callback(session.close)
        console = Console([session], port, drives_lifecycle, kept := ExitStack())
        kept.push(resources.pop_all())
    return console


def _show(console: Console, address: str, resources: ExitStack) -> None:
    """Opens the address in the browser of the desktop. Without success it is still on the terminal."""
    try:
        redirect = Redirect(address)
        resources.callback(redirect.remove)
        console._server.access.when_used(redirect.remove)
        start_browser(redirect.address)
    except OSError as problem:
        print(escaped(f"no browser could be started: {problem}"), file=sys.stderr)


@contextmanager
def _interrupted() -> Iterator[Callable[[], None]]:
    """Gives a function that waits for Ctrl-C, SIGTERM or SIGHUP, which also ends the block in order."""
    is_main = threading.current_thread() is threading.main_thread()

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, end) for number in (_ENDING if is_main else ())}
    try:
        with suppress(KeyboardInterrupt):
            yield threading.Event().wait  # type: ignore[misc]
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

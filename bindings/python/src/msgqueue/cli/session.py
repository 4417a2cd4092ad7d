"""The way to a store: the control socket of its owner, or one of this process, which then opens the store itself."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .. import control
from .._options import LARGEST_BODY, LARGEST_METADATA
from ..errors import Error, InternalError, InvalidError, LockedError, PermissionDeniedError, TimedOutError
from .exits import LostError, NeedsOwnerError, NoStoreError
from .terminal import note

if TYPE_CHECKING:
    from ..models import Delivery
    from ..outcome import Outcome
    from ..queue import MessageQueue

T = TypeVar("T")

# Seconds between two tries to open a store that another program has open.
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25
# Seconds for a connection to the owner, and for the answer of each call that ends at once.
_ANSWER_TIME = 30.0
# Seconds that an attempt in flight has to end after Ctrl-C.
_LAST_ATTEMPT = 0.3


class Session:
    """A store that can be called."""

    def __init__(self, store: str, client: control.Client, *, has_owner: bool) -> None:
        self.store: str = store
        self.has_owner: bool = has_owner
        self._client = client

    def call(self, name: str, /, **fields: object) -> dict[str, Any]:
        """Performs a call of the protocol."""
        return self._client.call(name, **fields)

    @property
    def socket(self) -> str:
        """The path of the socket."""
        return self._client.socket

    @property
    def pid(self) -> int:
        """The process that has the store open."""
        return self._client.pid

    def events(self, *kinds: str) -> control.Events:
        """Subscribes to events."""
        return self._client.events(*kinds)

    def reconnect(self) -> None:
        """Connects again, after the server ended the connection because of a request."""
        path = self._client.socket
        self._client.close()
        self._client = control.connect(self.store, socket=path, timeout=_ANSWER_TIME)

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()


def require_store(store: str) -> None:
    """Refuses a path that names no file, with a sentence that says what is there.

    Raises:
        NoStoreError: There is no regular file.
    """
    try:
        mode = os.stat(store).st_mode  # noqa: PTH116 - the path may not be valid text
    except (FileNotFoundError, NotADirectoryError):
        raise NoStoreError(f"{store} does not exist") from None
    except ValueError as problem:
        raise InvalidError(f"{store!r}: {problem}") from None
    if stat.S_ISDIR(mode):
        raise NoStoreError(f"{store} is a directory; give the file of the store in it")
    if not stat.S_ISREG(mode):
        raise NoStoreError(f"{store} is not a regular file")


def create(store: str) -> None:
    """Makes an empty store, unless there is something at the path."""
    if os.path.lexists(store):
        return
    from ..enums import Mode
    from ..queue import MessageQueue

    # LockedError: another program has made it just now.
    with suppress(LockedError):
        MessageQueue(store, mode=Mode.MANUAL, direct=False).close()


@dataclass(frozen=True)
class Way:
    """How a command wants to reach a store."""

    store: str
    """The store's file."""
    writes: bool = False
    """The store is opened for writing, if it is opened here."""
    changes: bool = False
    """The command changes something."""
    socket: str | None = None
    """The control socket of the owner; None: the default. If it is given, an owner must run."""
    quiet: bool = False
    """Does not say how the store was reached."""
    wait: float = 0
    """How many seconds to wait while another program has the store open without a control socket."""
    needs_owner: str | None = None
    """Why the command is not possible without an owner."""
    transport: Callable[[Delivery], Outcome] | None = None
    """Sends, if the store is opened here."""
    hold_interrupted: bool = False
    """The option of that name, if the store is opened here."""


@contextmanager
def connected(way: Way) -> Iterator[Session]:
    """Connects to the owner of a store, or opens the store when nobody has it.

    Raises:
        LockedError: Another program has the store open, and serves no control socket.
        NeedsOwnerError: No program has it open, and the command needs one.
        LostError: The owner did not answer in time, or ended inside the block.
    """
    require_store(way.store)
    with ExitStack() as stack:
        session = when_unlocked(lambda: _reached(stack, way), way.wait)
        stack.callback(session.close)
        if not way.quiet:
            note(introduction(session))
        try:
            yield session
        except (control.NotRunningError, TimedOutError) as problem:
            raise _lost(session, way, problem) from None
        except Error:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            # The commands read the fields of answers, which another program has written.
            what = f"{type(problem).__name__}: {problem}"
            raise InternalError(f"an answer on {session.socket} has not the form of the protocol: {what}") from problem


_ADVICE = (
    "it serves no control socket: let it call start_control (msgq_control_start, startControl), or end it; "
    "if it ends soon, give --wait SECONDS"
)


def when_unlocked(call: Callable[[], T], wait: float, advice: str = _ADVICE) -> T:
    """Returns what the call does, and repeats it for `wait` seconds while another program has the store open.

    Raises:
        LockedError: It still has; the text says what to do.
    """
    deadline = time.monotonic() + wait
    pause = _FIRST_PAUSE
    while True:
        try:
            return call()
        except LockedError as problem:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LockedError(f"{problem.detail}, and {advice}") from None
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)


def _reached(stack: ExitStack, way: Way) -> Session:
    """Connects to the owner, or opens the store. LockedError: another program has it open without a control socket."""
    session = _to_owner(way)
    if session is not None:
        return session
    if way.needs_owner is None:
        with ExitStack() as opening:
            session = _opened(opening, way)
            stack.push(opening.pop_all())
        return session
    from ..queue import MessageQueue

    try:
        MessageQueue(way.store, read_only=True).close()
    except LockedError:
        raise
    except Error:
        # A store that cannot be read has no owner.
        pass
    raise NeedsOwnerError(f"no program has {way.store} open with a control socket, and {way.needs_owner}")


def _lost(session: Session, way: Way, problem: Error) -> LostError:
    who = f"the program that has {way.store} open (process {session.pid})"
    what = f"{who} did not answer: {problem.detail}" if isinstance(problem, TimedOutError) else f"{who} ended first"
    unknown = "; whether the change was made is not known: look with msgq list or show before you repeat it"
    return LostError(what + (unknown if way.changes else ""))


def _close(queue: MessageQueue, kind: type[BaseException] | None, *_: object) -> None:
    """Closes the queue. If the command has failed or was interrupted, that is what is reported."""
    is_interrupted = kind is not None and not issubclass(kind, Exception)
    try:
        if is_interrupted:
            queue.close(_LAST_ATTEMPT)
        else:
            queue.close()
    except Error:
        if kind is None:
            raise


def introduction(session: Session) -> str:
    """Says how the store was reached."""
    if session.has_owner:
        return f"owner: pid {session.pid}, through {session.socket}"
    return opened(session.store)


def opened(store: str) -> str:
    """Says that the store was opened here."""
    return f"opened {store}: no other program has it open"


def _to_owner(way: Way) -> Session | None:
    try:
        client = control.connect(way.store, socket=way.socket, timeout=_ANSWER_TIME)
        return Session(way.store, client, has_owner=True)
    except TimedOutError as problem:
        unsent = "; no change was sent to it on this connection"
        who = f"the program that has {way.store} open"
        raise LostError(f"{who} did not answer: {problem.detail}{unsent if way.changes else ''}") from None
    except control.NotRunningError:
        if way.socket is not None:
            raise NeedsOwnerError(f"no program answers on {way.socket}") from None
        return None


def _opened(stack: ExitStack, way: Way) -> Session:
    from ..enums import Connectivity
    from ..queue import MessageQueue
    from ..retry import RetryPolicy

    if way.writes:
        # A ladder keeps a message that failed for a moment queued; the default of maintenance would make it failed.
        queue = MessageQueue(
            way.store,
            maintenance=True,
            transport=way.transport,
            retry=RetryPolicy(ladder=[5, 30, 120]),
            hold_interrupted=way.hold_interrupted,
            limit_body=LARGEST_BODY,
            limit_metadata=LARGEST_METADATA,
        )
    else:
        queue = MessageQueue(way.store, read_only=True, limit_body=LARGEST_BODY, limit_metadata=LARGEST_METADATA)
    stack.push(partial(_close, queue))
    if way.transport is not None:
        queue.set_connectivity(Connectivity.ONLINE)
    try:
        path = queue._control.private_socket(stack)
    except Error:
        raise
    except OSError as problem:
        raise PermissionDeniedError(f"no directory for temporary files: {problem}") from None
    return Session(way.store, control.connect(way.store, socket=path), has_owner=False)

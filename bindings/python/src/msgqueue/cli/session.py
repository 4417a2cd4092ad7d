"""The way to a store: the control socket of its owner, or one of this process, which then opens the store itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import control
from .._options import LARGEST_BODY, LARGEST_METADATA
from ..errors import Error, InternalError, InvalidError, LockedError, PermissionDeniedError
from .exits import NeedsOwnerError, NoStoreError
from .terminal import note

if TYPE_CHECKING:
    from ..models import Delivery
    from ..outcome import Outcome
    from ..queue import MessageQueue

# When another program opens or closes the store at this moment, it is tried again.
_TRIES = 3


class Session:
    """A store that can be called."""

    def __init__(self, store: str, client: control.Client, *, has_owner: bool) -> None:
        self.store: str = store
        self.has_owner: bool = has_owner
        self._client = client

    def call(self, name: str, /, **fields: object) -> dict[str, Any]:
        """Performs a call of the protocol."""
        return self._client.call(name, **fields)

    def batch(self, name: str, requests: list[dict[str, object]]) -> list[dict[str, Any] | Exception]:
        """Performs calls of one name together. Returns the result or the error of each."""
        return list(self._client.batch(name, requests))

    @property
    def socket(self) -> str:
        """The path of the socket."""
        return self._client.socket

    def events(self, *kinds: str) -> control.Events:
        """Subscribes to events."""
        return self._client.events(*kinds)

    def reconnect(self) -> None:
        """Connects again, after the server ended the connection because of a request."""
        path = self._client.socket
        self._client.close()
        self._client = control.connect(self.store, socket=path)

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

    MessageQueue(store, mode=Mode.MANUAL, direct=False).close()


@contextmanager
def connected(
    store: str,
    *,
    writes: bool,
    socket: str | None = None,
    quiet: bool = False,
    needs_owner: str | None = None,
    transport: Callable[[Delivery], Outcome] | None = None,
    hold_interrupted: bool = False,
) -> Iterator[Session]:
    """Connects to the owner of a store, or opens the store when nobody has it.

    Args:
        store: The store's file.
        writes: The command changes something; otherwise the store is opened for reading only.
        socket: The control socket of the owner; None: the default. If it is given, an owner must run.
        quiet: Does not say which of the two it was.
        needs_owner: Why the command is not possible without an owner.
        transport: Sends, if the store is opened here.
        hold_interrupted: The option of that name, if the store is opened here.
    """
    require_store(store)
    with ExitStack() as stack:
        session = _to_owner(store, socket)
        for tries in range(_TRIES):
            if session is not None or needs_owner:
                break
            try:
                session = _opened(stack, store, writes=writes, transport=transport, hold_interrupted=hold_interrupted)
            except LockedError as problem:
                session = _to_owner(store, socket)
                if session is None and tries == _TRIES - 1:
                    raise _without_socket(problem) from None
        if session is None:
            _refuse_locked(store)
            raise NeedsOwnerError(f"no program has {store} open with a control socket, and {needs_owner}")
        stack.callback(session.close)
        if not quiet:
            note(_introduction(session))
        try:
            yield session
        except Error:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            # The commands read the fields of answers, which another program has written.
            what = f"{type(problem).__name__}: {problem}"
            raise InternalError(f"an answer on {session.socket} has not the form of the protocol: {what}") from problem


def _refuse_locked(store: str) -> None:
    """Refuses a store that another program has open without a control socket."""
    from ..queue import MessageQueue

    try:
        MessageQueue(store, read_only=True).close()
    except LockedError as problem:
        raise _without_socket(problem) from None
    except Error:
        # A store that cannot be read has no owner.
        pass


def _without_socket(problem: LockedError) -> LockedError:
    return LockedError(
        f"{problem.detail}, and it serves no control socket: let it call start_control "
        "(msgq_control_start, startControl), or end it first"
    )


def _close(queue: MessageQueue, kind: type[BaseException] | None, *_: object) -> None:
    """Closes the queue. If the command has failed or was interrupted, that is what is reported."""
    try:
        queue.close()
    except Error:
        if kind is None:
            raise


def _introduction(session: Session) -> str:
    client = session._client
    if session.has_owner:
        return f"owner: pid {client.pid}, through {client.socket}"
    return f"opened {session.store}: no other program has it open"


def _to_owner(store: str, socket: str | None) -> Session | None:
    try:
        return Session(store, control.connect(store, socket=socket), has_owner=True)
    except control.NotRunningError:
        if socket is not None:
            raise NeedsOwnerError(f"no program answers on {socket}") from None
        return None


def _opened(
    stack: ExitStack,
    store: str,
    *,
    writes: bool,
    transport: Callable[[Delivery], Outcome] | None,
    hold_interrupted: bool,
) -> Session:
    from ..enums import Connectivity
    from ..queue import MessageQueue
    from ..retry import RetryPolicy

    if writes:
        # A ladder keeps a message that failed for a moment queued; the default of maintenance would make it failed.
        queue = MessageQueue(
            store,
            maintenance=True,
            transport=transport,
            retry=RetryPolicy(ladder=[5, 30, 120]),
            hold_interrupted=hold_interrupted,
            limit_body=LARGEST_BODY,
            limit_metadata=LARGEST_METADATA,
        )
    else:
        queue = MessageQueue(store, read_only=True, limit_body=LARGEST_BODY, limit_metadata=LARGEST_METADATA)
    stack.push(partial(_close, queue))
    if transport is not None:
        queue.set_connectivity(Connectivity.ONLINE)
    try:
        path = queue._control.private_socket(stack)
    except Error:
        raise
    except OSError as problem:
        raise PermissionDeniedError(f"no directory for temporary files: {problem}") from None
    return Session(store, control.connect(store, socket=path), has_owner=False)

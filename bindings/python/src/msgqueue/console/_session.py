"""How a console reaches a store: through its owner's control socket, or by opening it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .._escaping import escaped
from .._options import LARGEST_BODY, LARGEST_METADATA
from ..control import NotRunningError
from ..errors import NotFoundError, PermissionDeniedError
from ..queue import MessageQueue
from ._feed import Feed
from ._store import Store


class Session:
    """A store that the console shows, and its events."""

    def __init__(self, store: Store, owner: int | None) -> None:
        """Begins to watch the store.

        Args:
            store: The store.
            owner: The process that has it open. None: no other program has; the console opened it, and sends nothing.
        """
        self.store = store
        self.owner = owner
        self.feed = Feed(store)

    @property
    def described(self) -> str:
        """Who has the store open, in an escaped line for the terminal."""
        path = escaped(self.store.path)
        if self.owner is None:
            return f"{path}: opened by this program; no other program can open it meanwhile"
        return f"{path}: open in process {self.owner}"

    def close(self) -> None:
        """Ends all connections to the store."""
        self.store.close()
        self.feed.close()


def names(paths: Sequence[str]) -> list[str]:
    """Returns what a person calls each store: the end of its path that none of the others has."""
    return [_name(Path(path), [Path(other) for other in paths if other != path]) for path in paths]


def _name(path: Path, others: Sequence[Path]) -> str:
    ends = (Path(*path.parts[-length:]) for length in range(1, len(path.parts)))
    shown = (end for end in ends if all(other.parts[-len(end.parts) :] != end.parts for other in others))
    return str(next(shown, path))


@contextmanager
def reached(path: str) -> Iterator[Session]:
    """Gives a session with a store, whoever has it open.

    Raises:
        NotFoundError: There is no such file.
        LockedError: A program has the store open and serves no control socket.
        Error: The store cannot be opened.
    """
    path = str(Path(path).absolute())
    store = Store(path)
    try:
        with store.connect() as client:
            owner = client.pid
    except NotRunningError:
        with _opened_here(path) as session:
            yield session
        return
    session = Session(store, owner)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def _opened_here(path: str) -> Iterator[Session]:
    """Opens a store that nobody has open, without a transport, so that nothing of it changes by itself."""
    if not Path(path).exists():
        raise NotFoundError(f"there is no store {path}")
    with ExitStack() as resources:
        queue = resources.enter_context(_queue(path))
        session = Session(Store(path, queue._control.private_socket(resources)), None)
        try:
            yield session
        finally:
            session.close()


def _queue(path: str) -> MessageQueue:
    """Opens the store for changes or, on a disk that is read-only, for reading."""
    try:
        return MessageQueue(path, maintenance=True, limit_body=LARGEST_BODY, limit_metadata=LARGEST_METADATA)
    except PermissionDeniedError:
        return MessageQueue(path, read_only=True, limit_body=LARGEST_BODY, limit_metadata=LARGEST_METADATA)

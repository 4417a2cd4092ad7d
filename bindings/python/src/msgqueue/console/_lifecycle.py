"""The lifecycle of a queue that follows whether a page is visible, for a console that was told to drive it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .._escaping import escaped
from ..control import NotRunningError
from ..errors import Error, TimedOutError
from ._feed import Feed
from ._store import Store

logger = logging.getLogger("msgqueue")

# Seconds without a visible page before the background: a page that is loaded again, or connects again, is back sooner.
_GRACE: Final = 2.0
# Seconds before a call that failed is made again.
_RETRY: Final = 1.0
# Seconds that the owner has at the end.
_END: Final = 10.0


class Lifecycle:
    """Keeps a queue in the foreground while a page is visible, and in the background otherwise.

    A page takes events while it is visible, and only then. The end of its connection shows that it was hidden or
    closed, and also that its browser was killed.
    """

    def __init__(self, store: Store, feed: Feed) -> None:
        """Begins in the background, as there is no page yet."""
        self._store = store
        self._feed = feed
        self._changed = threading.Condition()
        self._pages = 0
        # When the queue may be put into the background, by the monotonic clock.
        self._hidden_at = 0.0
        # What the owner was told; None: nothing yet, or the call failed.
        self._told: str | None = None
        self._is_ended = False
        # `end` has reported that the owner does not answer.
        self._is_left = False
        self._thread = threading.Thread(target=self._run, name="msgqueue console lifecycle", daemon=True)
        self._thread.start()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Counts a visible page to the end of the block."""
        with self._changed:
            self._pages += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._pages -= 1
                self._hidden_at = time.monotonic() + _GRACE
                self._changed.notify_all()

    def end(self) -> None:
        """Leaves the queue in the foreground, where it began.

        Waits at most 10 seconds for an owner that does not answer.
        A call that is not answered by then ends with the connections of the store.
        """
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        self._thread.join(_END)
        if self._thread.is_alive():
            self._is_left = True
            logger.warning("%s", self._failure("foreground", TimedOutError(f"no answer within {_END:g} s")))

    def _leave(self) -> None:
        if self._is_left:
            return
        try:
            self._set("foreground")
        except NotRunningError:
            # A queue that is closed begins in the foreground when it is opened again.
            return
        except (Error, OSError) as problem:
            if not self._is_left:
                logger.warning("%s", self._failure("foreground", problem))

    def _run(self) -> None:
        with self._feed.watched(self._forget):
            reported = ""
            while True:
                lifecycle = self._next()
                if lifecycle is None:
                    break
                try:
                    self._set(lifecycle)
                    reported = ""
                except (Error, OSError) as problem:
                    failure = self._failure(lifecycle, problem)
                    if failure != reported and not self._is_left:
                        logger.warning("%s; it is tried again", failure)
                    reported = failure
                    with self._changed:
                        self._changed.wait_for(lambda: self._is_ended, _RETRY)
                        self._told = None
        self._leave()

    def _forget(self) -> None:
        """Tells the owner again: it was restarted, or is reached for the first time."""
        with self._changed:
            self._told = None
            self._changed.notify_all()

    def _next(self) -> str | None:
        """Waits until the owner must be told something, and returns that; None: the end."""
        with self._changed:
            while not self._is_ended:
                left = self._hidden_at - time.monotonic()
                wanted = "foreground" if self._pages > 0 else "background" if left <= 0 else self._told
                if wanted is not None and wanted != self._told:
                    # Noted before the call: an owner that is restarted meanwhile is told again.
                    self._told = wanted
                    return wanted
                self._changed.wait(left if self._pages == 0 and left > 0 else None)
            return None

    def _set(self, lifecycle: str) -> None:
        self._store.call("set_lifecycle", {"lifecycle": lifecycle})

    def _failure(self, lifecycle: str, problem: Exception) -> str:
        return escaped(f"review page: {self._store.path} could not be put into the {lifecycle}: {problem}")

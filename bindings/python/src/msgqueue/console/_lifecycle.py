"""Which pages are visible, for a console that drives the lifecycle of the queue."""

from __future__ import annotations

import contextlib
import threading

from ..errors import Error
from ._store import Store


class Lifecycle:
    """Puts a queue into the background when the last visible page is hidden, and back when one is shown."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._visible: set[str] = set()

    def report(self, page: str, is_visible: bool) -> None:
        """Notes whether a page is visible; tells the queue when the first one is shown, or the last one hidden."""
        with self._lock:
            was_shown = bool(self._visible)
            if is_visible:
                self._visible.add(page)
            else:
                self._visible.discard(page)
            if bool(self._visible) != was_shown:
                self._set("foreground" if self._visible else "background")

    def end(self) -> None:
        """Leaves the queue in the foreground, where it began."""
        with self._lock:
            self._set("foreground")

    def _set(self, lifecycle: str) -> None:
        # A queue that is closed begins in the foreground when it is opened again.
        with contextlib.suppress(Error):
            self._store.call("set_lifecycle", {"lifecycle": lifecycle})

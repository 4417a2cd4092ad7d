"""The events of a queue, read once and given to every open page in batches of bounded size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..control import Events
from ..errors import Error
from ._store import Json, Store

# Seconds between two tries to reach a queue that was closed.
_RETRY: Final = 0.5
# Seconds that `close` waits for the thread, which may be connecting to an owner that does not answer.
_END: Final = 1.0
# Events that wait for one page; with more, the page lists again.
_ROOM: Final = 300
# Events of single messages, which a page does not need when it lists again.
_OF_MESSAGES: Final = frozenset(("status", "deleted", "discarded", "replaced", "edited"))
# Events of which the latest one says everything.
_LATEST: Final = frozenset(
    ("summary", "connectivity", "drain_progress", "prompt", "prompt_changed", "prompt_withdrawn")
)


class Stream:
    """The events that wait for one page. Several about the same thing become one, so that a slow page stays current."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[object, Json] = {}
        self._count = 0
        self._is_closed = False

    def add(self, event: Json) -> None:
        """Adds an event; replaces an earlier one about the same thing."""
        with self._changed:
            self._count += 1
            key = self._key(event)
            self._waiting.pop(key, None)
            self._waiting[key] = event
            if len(self._waiting) > _ROOM:
                kept = {key: each for key, each in self._waiting.items() if each["event"] not in _OF_MESSAGES}
                self._waiting = dict(list(kept.items())[-_ROOM:])
                self._waiting["resync"] = {"event": "resync"}
            self._changed.notify_all()

    def _key(self, event: Json) -> object:
        kind = event["event"]
        if kind in ("status", "edited"):
            return kind, event["id"]
        if kind == "resync":
            return kind
        if kind in _LATEST:
            return "prompt" if kind.startswith("prompt") else kind
        return self._count

    def take(self, timeout: float) -> list[Json] | None:
        """Returns what waits, an empty list after `timeout` seconds without events, or None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed, timeout)
            if self._is_closed:
                return None
            events = list(self._waiting.values())
            self._waiting.clear()
            return events

    def close(self) -> None:
        """Ends the stream."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class Feed:
    """Subscribes to a queue while pages are open, and again when the queue was closed and is back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._streams: set[Stream] = set()
        self._watchers: list[Callable[[], None]] = []
        self._events: Events | None = None
        # The subscription was ended because the last page was closed.
        self._is_idle = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="msgqueue console events", daemon=True)
        self._thread.start()

    @contextmanager
    def opened(self) -> Iterator[Stream]:
        """Gives a stream of the events from now on.

        Its first event is "opened" when the queue is subscribed to, or "closed" when it cannot be reached.
        """
        stream = Stream()
        with self._changed:
            if self._events is not None:
                stream.add({"event": "opened"})
            self._streams.add(stream)
            if self._is_closed:
                stream.close()
            self._changed.notify_all()
        try:
            yield stream
        finally:
            with self._changed:
                self._streams.discard(stream)
                self._rest()

    @contextmanager
    def watched(self, opened: Callable[[], None]) -> Iterator[None]:
        """Subscribes also without a page, and calls `opened` each time that the queue was subscribed to."""
        with self._changed:
            self._watchers.append(opened)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._watchers.remove(opened)
                self._rest()

    @property
    def _is_wanted(self) -> bool:
        return bool(self._streams or self._watchers)

    def _rest(self) -> None:
        """Ends the subscription when nobody needs it."""
        if not self._is_wanted and self._events is not None:
            self._is_idle = True
            self._events.close()

    def close(self) -> None:
        """Ends the streams and the subscription."""
        with self._changed:
            self._is_closed = True
            for stream in self._streams:
                stream.close()
            if self._events is not None:
                self._events.close()
            self._changed.notify_all()
        self._thread.join(_END)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_closed)
                if self._is_closed:
                    return
                self._is_idle = False
            problem = self._follow()
            if problem is not None:
                self._publish({"event": "closed", "text": problem})
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, _RETRY)

    def _follow(self) -> str | None:
        """Passes events on while there are pages. Returns why the owner cannot be reached, or None."""
        try:
            with self._store.events() as events:
                with self._changed:
                    if self._is_closed or not self._is_wanted:
                        return None
                    self._events = events
                    watchers = list(self._watchers)
                for opened in watchers:
                    opened()
                self._publish({"event": "opened"})
                for event in events:
                    if event["event"] == "unsubscribed":
                        # The pages list again when the subscription is back.
                        return None
                    self._publish(event)
        except (Error, OSError) as problem:
            return str(problem)
        finally:
            with self._changed:
                self._events = None
        return None if self._is_idle else "the queue was closed"

    def _publish(self, event: Json) -> None:
        with self._changed:
            for stream in self._streams:
                stream.add(event)

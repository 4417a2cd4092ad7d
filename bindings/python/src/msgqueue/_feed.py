"""The changes of messages that the queue keeps."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

from . import _arguments, _convert
from ._handle import Handle
from ._registration import Registration
from .errors import ClosedError
from .models import Change, ChangePage


class Feed:
    """The calls of `MessageQueue` that read changes."""

    def __init__(self, handle: Handle, registration: Registration, read_only: bool) -> None:
        self._handle = handle
        self._registration = registration
        self._read_only = read_only

    def changes(self, after: str | None = None, limit: int = 50) -> ChangePage:
        """Returns changes of messages in the order in which they were committed, with the option `keep_changes`.

        Each change of a status is one change, and so is a message that is replaced, discarded, deleted or pruned. Only
        changes that survive a power cut are returned: those that are not flushed yet are flushed before, so no token is
        ever ahead of the store. Store the token of the last change that you have processed, best by the same
        transaction of your own database as its effect, and go on from it after a restart. Works also with `read_only`,
        on a closed store.

        Args:
            after: A token; None: before the oldest change that is kept.
            limit: 1 to 1000.

        Raises:
            ConflictError: Not all changes after the token are there. It is older than what is kept, or of another
                history of the store: an older copy of its files was restored, it was salvaged, or it was changed
                without `keep_changes`. Keep the `oldest` token of a page without `after`, list the messages, then go on
                from that token.
            InvalidError: `keep_changes` is 0, or the text is no token.
        """
        token = _arguments.optional_text("after", after)
        most = _arguments.unsigned("limit", limit, least=1, values="1 to 1000")
        handle, lib = self._handle, self._handle.lib
        page = ctypes.c_void_p()
        handle.check(lib.msgq_changes(handle.pointer, token, most, page))
        try:
            entry, size = lib.msgq_changes_at, lib.msgq_changes_size(page)
            return ChangePage(
                changes=tuple(_convert.change(entry(page, index)[0]) for index in range(size)),
                next=lib.msgq_changes_next(page).decode(),
                oldest=lib.msgq_changes_oldest(page).decode(),
            )
        finally:
            lib.msgq_changes_free(page)

    def follow_changes(self, after: str | None = None, limit: int = 50) -> Iterator[Change]:
        """Iterates over changes, and waits for new ones. It ends when the queue is closed.

        With `read_only` it ends after the last change. In a queue with `polled`, another thread must poll. Ctrl-C ends
        the wait.

        Args:
            after: As for `changes`.
            limit: How many changes are read at once: 1 to 1000.

        Raises:
            Error: As `changes`.
        """
        # The first page is read here, so that a wrong token is an error of this call.
        page = self.changes(after, limit)
        return self._follow(page, limit)

    def _follow(self, page: ChangePage, limit: int) -> Iterator[Change]:
        yield from page.changes
        if self._read_only:
            while page.changes:
                page = self.changes(page.next, limit)
                yield from page.changes
            return
        news = threading.Event()
        try:
            with self._registration.following(news.set):
                while True:
                    news.clear()
                    page = self.changes(page.next, limit)
                    yield from page.changes
                    if not page.changes:
                        news.wait()
        except ClosedError:
            return

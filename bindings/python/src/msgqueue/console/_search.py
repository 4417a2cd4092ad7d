"""Searches for a text in messages, page by page, because the queue has no index of texts."""

from __future__ import annotations

import time
from typing import Final

from ._store import Json, Store

LONGEST: Final = 200
"""The longest text to search for, in characters."""

# One call ends after this many seconds or matches; the page goes on from there.
_SECONDS: Final = 0.3
_MATCHES: Final = 50
_PAGE: Final = 500
# Characters of an excerpt before and behind the match.
_BEFORE: Final = 40
_BEHIND: Final = 120


def search(store: Store, text: str, conversation: str | None, after: int) -> Json:
    """Searches from the newest message on, or from before the sequence `after`.

    Bodies that are text, metadata, ids, conversations and senders are searched, without regard to case.

    Returns:
        `messages`, each with an `excerpt`; `searched`, the number of messages; and `next`, the value of `after` with
        which the search goes on, or None at the end.
    """
    sought = text.lower()
    deadline = time.monotonic() + _SECONDS
    found: list[Json] = []
    searched = 0
    while True:
        page = store.call(
            "list",
            {
                "conversation": conversation,
                "statuses": ["queued", "sending", "sent", "delivered", "read", "failed"],
                "newest_first": True,
                "bodies": True,
                "after": after,
                "limit": _PAGE,
            },
        )
        for message in page["messages"]:
            searched += 1
            after = message["sequence"]
            excerpt = _excerpt(message, sought)
            if excerpt is not None:
                message.pop("body", None)
                found.append({**message, "excerpt": excerpt})
                if len(found) == _MATCHES:
                    return {"messages": found, "searched": searched, "next": after}
        if page["next"] is None:
            return {"messages": found, "searched": searched, "next": None}
        after = page["next"]
        if time.monotonic() > deadline:
            return {"messages": found, "searched": searched, "next": after}


def _excerpt(message: Json, sought: str) -> str | None:
    """Returns the text around the first match, or None without one. `sought` is in lower case."""
    body = message.get("body") or ""
    others = [message["id"], message["conversation"], message["sender"] or ""]
    others += [f"{key}: {value}" for key, value in message["metadata"].items()]
    for text in (body, *others):
        # A search for a plain text takes time in proportion to the text; one by a pattern may take much more.
        place = text.lower().find(sought)
        if place >= 0:
            start, end = max(place - _BEFORE, 0), place + len(sought) + _BEHIND
            return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
    return None

"""What a page may ask for: requests in JSON, decoded and performed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from .. import __version__
from ..control import body_fields
from ..errors import Error, InvalidError
from ._access import Access
from ._lifecycle import Lifecycle
from ._search import LONGEST, search
from ._session import Session, names
from ._store import Json

# The calls of the control socket that a page may make: none that writes other files, or marks messages.
_CALLS: Final = frozenset(
    (
        *("list", "get", "explain", "attempts", "counts", "conversations", "conversation"),
        *("failures", "waiting", "stats", "minutes", "state", "banner"),
        *("drain", "retry", "retry_all", "send_now", "edit", "delete", "clear", "clear_failed", "pause", "resume"),
        *("enqueue", "withdraw_prompt"),
    )
)


class Requests:
    """Performs the requests of pages."""

    def __init__(self, sessions: Sequence[Session], access: Access, drives_lifecycle: bool) -> None:
        self.sessions = sessions
        self._access = access
        self._lifecycles = (
            {session: Lifecycle(session.store, session.feed) for session in sessions} if drives_lifecycle else {}
        )

    def perform(self, path: str, request: object) -> Json:
        """Performs a request and returns its answer: {"result": …}, or {"error": {"code", "text"}}.

        Raises:
            KeyError: There is no such path.
        """
        perform = {
            "/api/call": self._call,
            "/api/search": self._search,
            "/api/session": self._session,
            "/api/address": self._address,
        }[path]
        try:
            if not isinstance(request, dict):
                raise InvalidError("a request must be an object")
            return {"result": perform(request)}
        except Error as problem:
            return {"error": {"code": problem.code.name, "text": problem.detail}}

    def session(self, number: object) -> Session:
        """Returns the session with a number.

        Raises:
            InvalidError: There is none.
        """
        if type(number) is not int or not 0 <= number < len(self.sessions):
            raise InvalidError("there is no such store")
        return self.sessions[number]

    def shown(self, session: Session) -> AbstractContextManager[None]:
        """Returns the block in which a page that shows a store is visible."""
        lifecycle = self._lifecycles.get(session)
        return nullcontext() if lifecycle is None else lifecycle.shown()

    def close(self) -> None:
        """Ends what the pages began."""
        for lifecycle in self._lifecycles.values():
            lifecycle.end()

    def _call(self, request: Json) -> Json:
        name, fields = request.get("call"), request.get("fields", {})
        if not isinstance(name, str) or name not in _CALLS:
            raise InvalidError("the page may not make this call")
        if not isinstance(fields, dict):
            raise InvalidError("fields must be an object")
        if isinstance(fields.get("body"), str):
            # In the shortest form: the owner reads requests that are as long as the largest body needs.
            with suppress(UnicodeEncodeError):
                fields = {**fields, "body": None, **body_fields(fields["body"].encode())}
        return self.session(request.get("store")).store.call(name, fields)

    def _search(self, request: Json) -> Json:
        text = _text(request, "text")
        if not 0 < len(text) <= LONGEST:
            raise InvalidError(f"the text must have 1 to {LONGEST} characters")
        conversation = None if request.get("conversation") is None else _text(request, "conversation")
        after = request.get("after", 0)
        if type(after) is not int or after < 0:
            raise InvalidError("after must be a sequence")
        return search(self.session(request.get("store")).store, text, conversation, after)

    def _session(self, request: Json) -> Json:
        shown = names([session.store.path for session in self.sessions])
        return {
            "version": __version__,
            "stores": [
                {"name": name, "path": session.store.path, "is_opened_here": session.owner is None}
                for name, session in zip(shown, self.sessions)
            ],
        }

    def _address(self, request: Json) -> Json:
        return {"address": self._access.address()}


def _text(request: Json, name: str) -> str:
    value: Any = request.get(name)
    if not isinstance(value, str):
        raise InvalidError(f"{name} must be a string")
    return value

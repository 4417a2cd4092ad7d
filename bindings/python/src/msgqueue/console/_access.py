"""Who may use the server: browsers that were given an address, with requests of the page itself."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from email.message import Message
from typing import Final

_BYTES: Final = 32
# Browsers that may use the server; the earliest is forgotten.
_BROWSERS: Final = 64
_HTTP: Final = 80


class Access:
    """The token in the address, the cookies that were given for it, and the checks of a request's origin."""

    def __init__(self, port: int) -> None:
        # Cookies belong to a host and not to a port: two consoles need two names.
        self._cookie = f"msgqueue_console_{port}"
        self._authorities = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
        if port == _HTTP:
            # Browsers leave out the usual port.
            self._authorities += ["127.0.0.1", "localhost"]
        self._lock = threading.Lock()
        self._token: str | None = None
        self._sessions: list[str] = []
        self._used: list[Callable[[], None]] = []

    def address(self) -> str:
        """Returns an address whose token was not used yet."""
        with self._lock:
            if self._token is None:
                self._token = secrets.token_urlsafe(_BYTES)
            return f"http://{self._authorities[0]}/?token={self._token}"

    def when_used(self, perform: Callable[[], None]) -> None:
        """Performs something, once, when the token of the present address is used."""
        with self._lock:
            if self._token is not None:
                self._used.append(perform)
                return
        perform()

    def redeem(self, token: str) -> str | None:
        """Exchanges a token, which is void then, for the value of Set-Cookie; None: the token is not valid."""
        with self._lock:
            if self._token is None or not secrets.compare_digest(token.encode(), self._token.encode()):
                return None
            self._token = None
            session = secrets.token_urlsafe(_BYTES)
            self._sessions = [*self._sessions[1 - _BROWSERS :], session]
            used, self._used = self._used, []
        for perform in used:
            perform()
        return f"{self._cookie}={session}; Path=/; HttpOnly; SameSite=Strict"

    def admits(self, cookies: str) -> bool:
        """Whether the header Cookie has a cookie that was given for a token."""
        # Other servers of 127.0.0.1 have cookies here, too, of any form.
        pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
        given = [value.encode() for name, _, value in pairs if name == self._cookie]
        with self._lock:
            return any(secrets.compare_digest(value, each.encode()) for value in given for each in self._sessions)

    def is_own(self, headers: Message) -> bool:
        """Whether a request has one Host, an address of this server."""
        return [host.lower() for host in headers.get_all("Host") or []] in [[each] for each in self._authorities]

    def refusal(self, headers: Message, *, needs_origin: bool) -> str | None:
        """Returns why a request is not from a page of this server, or None.

        A name that resolves to 127.0.0.1 (DNS rebinding) has another Host. A page of another site has another Origin.
        """
        if not self.is_own(headers):
            return "this server answers only requests to its own address"
        origins = headers.get_all("Origin") or []
        allowed = [f"http://{authority}" for authority in self._authorities]
        if (needs_origin and not origins) or any(origin not in allowed for origin in origins):
            return "the request comes from another page"
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return "the request comes from another site"
        return None

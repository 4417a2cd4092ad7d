"""Who may use the server: browsers that were given an address, with requests of the page itself."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable
from email.message import Message
from typing import Final

_BYTES: Final = 32
# Browsers that may use the server; the earliest is forgotten.
_BROWSERS: Final = 64
# The names of this machine that no name server decides about. The port may be another one: that of an SSH client which
# forwards it.
_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?", re.IGNORECASE)
_SCHEME: Final = "bearer"


class Access:
    """The token in the address, the keys that were given for it, and the checks of a request's origin.

    A key is sent in the header Authorization, and kept by the browser for the page's origin: unlike a cookie, no server
    on another port of the machine receives it.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._token: str | None = None
        self._keys: list[str] = []
        self._used: list[Callable[[], None]] = []

    def address(self) -> str:
        """Returns an address whose token was not used yet."""
        with self._lock:
            if self._token is None:
                self._token = secrets.token_urlsafe(_BYTES)
            return f"http://127.0.0.1:{self._port}/?token={self._token}"

    def when_used(self, perform: Callable[[], None]) -> None:
        """Performs something, once, when the token of the present address is used."""
        with self._lock:
            if self._token is not None:
                self._used.append(perform)
                return
        perform()

    def redeem(self, token: str) -> str | None:
        """Exchanges a token, which is void then, for a key; None: the token is not valid."""
        with self._lock:
            if self._token is None or not secrets.compare_digest(_bytes(token), self._token.encode()):
                return None
            self._token = None
            key = secrets.token_urlsafe(_BYTES)
            self._keys = [*self._keys[1 - _BROWSERS :], key]
            used, self._used = self._used, []
        for perform in used:
            perform()
        return key

    def admits(self, authorization: str) -> bool:
        """Whether the header Authorization has a key that was given for a token."""
        scheme, _, key = authorization.partition(" ")
        given = _bytes(key)
        with self._lock:
            return scheme.lower() == _SCHEME and any(
                secrets.compare_digest(given, each.encode()) for each in self._keys
            )

    def is_own(self, headers: Message) -> bool:
        """Whether a request has one Host, a name of this machine."""
        hosts = headers.get_all("Host") or []
        return len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None

    def refusal(self, headers: Message, *, needs_origin: bool) -> str | None:
        """Returns why a request is not from a page of this server, or None.

        A name that resolves to 127.0.0.1 (DNS rebinding) has another Host. A page of another site, or of another port
        of this machine, has another Origin.
        """
        if not self.is_own(headers):
            return "this server answers only requests to its own address"
        origins = headers.get_all("Origin") or []
        own = f"http://{headers['Host']}".lower()
        if (needs_origin and not origins) or any(origin.lower() != own for origin in origins):
            return "the request comes from another page"
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return "the request comes from another site"
        return None


def _bytes(text: str) -> bytes:
    # JSON can name halves of characters, which have no bytes in UTF-8.
    return text.encode(errors="surrogatepass")

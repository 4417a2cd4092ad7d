"""The proxy of the relays to HTTP servers."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import InvalidError

PROXY_UNAUTHORIZED = 407
AUTHORIZATION = "Proxy-Authorization"

_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")


class ProxyError(ConnectionError):
    """The proxy answered, and opened no connection to the server: nothing was sent to it."""


class Proxy(NamedTuple):
    """A proxy, as it was given by its URL."""

    host: str
    port: int
    authorization: str | None
    """The value of the header Proxy-Authorization."""

    @property
    def netloc(self) -> str:
        """The host and the port, without user name and password."""
        return netloc(self.host, self.port)

    @property
    def place(self) -> str:
        """The proxy in texts."""
        return f"the proxy {self.netloc}"

    def refusal(self, status: int, reason: str) -> str:
        """Returns the text for an answer of the proxy that is not one of the server."""
        return f"{self.place} answered {status} {reason}".strip()


def netloc(host: str, port: int) -> str:
    """Returns a host and a port as they stand in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parsed(url: str | None) -> Proxy | None:
    """Returns the proxy of a URL; None: there is none. No text contains the URL, which may have a password.

    Raises:
        InvalidError: The URL is not valid.
    """
    if url is None:
        return None
    if not isinstance(url, str):
        raise TypeError(f"proxy must be str, not {type(url).__name__}")
    if not _VISIBLE.match(url):
        raise InvalidError("the URL of the proxy contains a character that must be percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname
    except ValueError:
        raise InvalidError("the URL of the proxy is not valid") from None
    if parts.scheme != "http" or not host:
        raise InvalidError("the URL of the proxy must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT")
    if not port:
        raise InvalidError(f"the URL of the proxy {host} has no port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidError(f"the URL of the proxy {netloc(host, port)} must not have a path, a query or a fragment")
    if parts.username is None:
        return Proxy(host, port, None)
    user, password = unquote(parts.username), unquote(parts.password or "")
    if ":" in user:
        raise InvalidError(f"the user name for the proxy {netloc(host, port)} must not contain a colon")
    return Proxy(host, port, "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())

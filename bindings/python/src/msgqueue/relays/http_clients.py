"""The clients of `AsyncHttp`: httpx and aiohttp, without what they add by themselves (redirects, cookies, proxies)."""

from __future__ import annotations

import importlib
import io
import ssl
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any

from ..errors import InvalidError
from .http_request import MAX_ANSWER, Answer, Form

# Longer bodies are given to aiohttp as a file, which it sends in parts.
_LARGE = 1 << 16


class Phase:
    """How far a request got."""

    def __init__(self) -> None:
        self.is_connected = False
        self.answer: Answer | None = None
        """The answer without its body, when its header is there."""
        self.body: bytearray = bytearray()
        """What was read of the body."""

    def cut(self) -> Answer | None:
        """Returns an answer whose body is not whole."""
        return None if self.answer is None else self.answer._replace(body=bytes(self.body))


class Client(ABC):
    """A client with its connections, in one event loop."""

    @abstractmethod
    async def post(self, body: bytes, headers: dict[str, str], phase: Phase) -> Answer:
        """Posts a body and reads the answer. An exception: there was no status."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the client; requests that are under way fail."""


class _Httpx(Client):
    def __init__(self, library: Any, form: Form, context: ssl.SSLContext) -> None:  # noqa: ANN401 - see _NAMES
        self._library = library
        self._form = form
        # The transport of httpx without its client, which would add headers, keep cookies and read the environment.
        # Without reuse: h11 keeps what follows an answer, and would take it as the answer to the next request.
        limits = library.Limits(max_connections=None, max_keepalive_connections=0)
        self._transport = library.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits)

    async def post(self, body: bytes, headers: dict[str, str], phase: Phase) -> Answer:
        async def trace(event: str, _: object) -> None:
            if event.endswith(".send_request_headers.started"):
                phase.is_connected = True

        request = self._library.Request(
            "POST",
            self._form.url,
            headers={**headers, "Connection": "close"},
            content=body,
            # httpx would normalise the path of the URL.
            extensions={"target": self._form.target.encode("ascii"), "trace": trace, "timeout": {}},
        )
        response = await self._transport.handle_async_request(request)
        reason = response.extensions.get("reason_phrase", b"").decode("latin-1")
        answer = phase.answer = Answer(response.status_code, reason, response.headers, b"", False)
        is_whole = False
        try:
            async for part in response.stream:
                phase.body += part
                if len(phase.body) >= MAX_ANSWER:
                    break
            else:
                is_whole = True
        except self._library.HTTPError:
            # The status is known: a failure of this part is none.
            pass
        finally:
            await response.stream.aclose()
        return answer._replace(body=bytes(phase.body), is_whole=is_whole)

    async def close(self) -> None:
        await self._transport.aclose()


class _Aiohttp(Client):
    def __init__(self, library: Any, form: Form, context: ssl.SSLContext) -> None:  # noqa: ANN401 - see _NAMES
        self._library = library
        self._form = form
        traces = library.TraceConfig()
        traces.on_connection_create_end.append(_connected)
        self._session = library.ClientSession(
            # Without reuse: aiohttp keeps what a server sends to a connection that no request uses, and would take it
            # as the answer to the next request.
            connector=library.TCPConnector(ssl=context, limit=0, force_close=True),
            cookie_jar=library.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=library.ClientTimeout(total=None, sock_connect=None),
            trace_configs=[traces],
        )
        self._url = importlib.import_module("yarl").URL(form.url, encoded=True)

    async def post(self, body: bytes, headers: dict[str, str], phase: Phase) -> Answer:
        request = self._session.post(
            self._url,
            data=body if len(body) < _LARGE else io.BytesIO(body),
            headers=headers,
            allow_redirects=False,
            trace_request_ctx=phase,
        )
        async with request as response:
            answer = phase.answer = Answer(response.status, response.reason or "", response.headers, b"", False)
            is_whole = False
            try:
                while len(phase.body) < MAX_ANSWER:
                    part = await response.content.readany()
                    if not part:
                        is_whole = True
                        break
                    phase.body += part
            except (self._library.ClientError, OSError):
                # The status is known: a failure of this part is none.
                pass
            if not is_whole:
                response.close()
            return answer._replace(body=bytes(phase.body), is_whole=is_whole)

    async def close(self) -> None:
        await self._session.close()


async def _connected(_session: object, context: SimpleNamespace, _parameters: object) -> None:
    context.trace_request_ctx.is_connected = True


_KINDS: dict[str, type[_Httpx] | type[_Aiohttp]] = {"httpx": _Httpx, "aiohttp": _Aiohttp}
NAMES = tuple(_KINDS)


def imported(name: str | None) -> tuple[str, Any]:
    """Returns the name of a client and its library; None: the first one that is installed.

    Raises:
        ImportError: It is not installed, or neither is.
        InvalidError: There is no client of this name.
    """
    if name is not None and name not in NAMES:
        raise InvalidError(f"client must be one of {', '.join(NAMES)}, got {name!r}")
    problem: ImportError | None = None
    for each in NAMES if name is None else (name,):
        try:
            return each, importlib.import_module(each)
        except ImportError as raised:
            problem = raised
    missing = " or ".join(f"pip install 'msgqueue[{each}]'" for each in (NAMES if name is None else (name,)))
    raise ImportError(f"{name or ' and '.join(NAMES)} not installed; {missing} installs it") from problem


def new_client(name: str, library: Any, form: Form, context: ssl.SSLContext | None) -> Client:  # noqa: ANN401
    """Returns a client for the event loop that runs."""
    # Without https the context is never used, and trusts nobody.
    return _KINDS[name](library, form, context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

"""The clients of `AsyncHttp`: httpx and aiohttp, without what they add by themselves (redirects, cookies, proxies)."""

from __future__ import annotations

import importlib
import io
import ssl
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any

from ..errors import InvalidError
from .http_proxy import ProxyError
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
        proxy = None
        if form.proxy is not None:
            headers = form.proxy_headers if form.has_tunnel else {}
            proxy = library.Proxy(f"http://{form.proxy.netloc}", headers=headers)
        self._transport = library.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits, proxy=proxy)
        self._url = _exact_url(library, form)

    async def post(self, body: bytes, headers: dict[str, str], phase: Phase) -> Answer:
        async def trace(event: str, info: dict[str, Any]) -> None:
            # The request to a proxy is traced, too.
            if event.endswith(".send_request_headers.started") and info["request"].method != b"CONNECT":
                phase.is_connected = True

        request = self._library.Request(
            "POST",
            self._form.url,
            headers={**headers, "Connection": "close"},
            content=body,
            extensions={"trace": trace, "timeout": {}},
        )
        request.url = self._url
        try:
            response = await self._transport.handle_async_request(request)
        except self._library.ProxyError as problem:
            assert self._form.proxy is not None
            # The text is the status and its reason.
            raise ProxyError(f"{self._form.proxy.place} answered {problem}".strip()) from None
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


def _exact_url(library: Any, form: Form) -> Any:  # noqa: ANN401 - as above
    """Returns the URL of a form with its path as it is: httpx would normalise it.

    The extension "target" would do that, too, but replaces the target of the request to a proxy.
    """
    target = form.target.encode("ascii")
    return type("ExactUrl", (library.URL,), {"raw_path": property(lambda _: target)})(form.url)


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
        url = importlib.import_module("yarl").URL
        self._url = url(form.url, encoded=True)
        self._proxy = None if form.proxy is None else url(f"http://{form.proxy.netloc}")

    async def post(self, body: bytes, headers: dict[str, str], phase: Phase) -> Answer:
        request = self._session.post(
            self._url,
            data=body if len(body) < _LARGE else io.BytesIO(body),
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
            # aiohttp adds to them.
            proxy_headers=self._form.proxy_headers if self._form.has_tunnel else None,
            trace_request_ctx=phase,
        )
        try:
            response = await request
        except self._library.ClientHttpProxyError as problem:
            assert self._form.proxy is not None
            raise ProxyError(self._form.proxy.refusal(problem.status, problem.message)) from None
        async with response:
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

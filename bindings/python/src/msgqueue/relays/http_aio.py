"""A transport of `msgqueue.aio` that posts each message to an HTTP server."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Union

from .. import _arguments, _failures
from .._copying import NotCopied
from ..enums import FailureKind, Verdict
from ..errors import InvalidError
from ..models import Delivery
from ..outcome import Outcome
from .http_clients import Client, Phase, imported, new_client
from .http_credentials import LOOK, Credentials, is_unauthorized
from .http_request import (
    Form,
    LateTokenError,
    Limit,
    RequestHeaders,
    checked_token,
    is_sent,
    limit_of,
    log_refused,
    outcome_of_answer,
    outcome_of_connecting,
    outcome_of_token,
    tls_context,
)
from .webhook import Secrets

AsyncBearer = Callable[[], Union[str, Awaitable[str]]]


class AsyncHttp(NotCopied):
    """`Http` for asyncio, with httpx or aiohttp: the same arguments, headers and outcomes.

    It belongs to the event loop in which it is called first. Each call opens a connection of its own and closes it:
    the clients do not reject an answer that a server sends unasked to a connection that is kept, and would take it as
    the answer to the next message. Answers with a status 1xx are skipped as the client does. Values of headers must be
    ASCII.

        async with AsyncHttp("https://example.org/messages") as relay:
            async with aio.MessageQueue("outbox.db", transport=relay) as queue:
                await queue.enqueue("hello")
    """

    def __init__(
        self,
        url: str,
        *,
        headers: RequestHeaders | None = None,
        timeout: float | None = None,
        context: ssl.SSLContext | None = None,
        bearer: AsyncBearer | None = None,
        webhook_secret: Secrets | None = None,
        client: str | None = None,
        proxy: str | None = None,
        unauthorized_is_final: bool = False,
    ) -> None:
        """Makes the transport; connects nowhere yet.

        Args:
            url: As for `Http`.
            headers: As for `Http`.
            timeout: As for `Http`; it limits the look-up of the name, too.
            context: As for `Http`.
            bearer: As for `Http`; may be an `async def`.
            webhook_secret: As for `Http`.
            client: "httpx" or "aiohttp"; None: the first one that is installed.
            proxy: As for `Http`.
            unauthorized_is_final: As for `Http`.

        Raises:
            InvalidError: The URL, a header, a secret, the name of the client or the URL of the proxy is not valid.
            ImportError: The client is not installed.
        """
        self._form = Form(
            url, headers, webhook_secret=webhook_secret, has_token=bearer is not None, proxy=proxy, is_ascii=True
        )
        if timeout is not None and _arguments.finite("timeout", timeout) <= 0:
            raise InvalidError(f"timeout must be more than 0 seconds, got {timeout}")
        if bearer is not None and not callable(bearer):
            raise TypeError(f"bearer must be a function, not {type(bearer).__name__}")
        self._timeout = timeout
        is_final = _arguments.flag("unauthorized_is_final", unauthorized_is_final)
        self._credentials = Credentials(self._form.authority, is_final=is_final)
        self._context = tls_context(self._form, context)
        self._bearer = bearer
        self._token: str | None = None
        self._name, self._library = imported(client)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._asked: asyncio.Task[str] | None = None
        """What the function for tokens returns or raises, until somebody has taken it."""

    async def __aenter__(self) -> AsyncHttp:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __call__(self, delivery: Delivery) -> Outcome:
        """Posts one message and returns the outcome."""
        return await self._send(delivery, limit_of([delivery], self._timeout))

    async def batch(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Posts messages and returns one outcome for each, in their order.

        Conversations are sent in parallel, the messages of each one after the other; after a failure the rest of that
        conversation is skipped. `timeout` limits the batch as a whole; messages that are not begun in nine tenths of
        this time are skipped.
        """
        if not deliveries:
            return []
        limit = limit_of(deliveries, self._timeout)
        outcomes = [Outcome.skipped()] * len(deliveries)
        conversations: dict[str, list[int]] = {}
        for index, delivery in enumerate(deliveries):
            conversations.setdefault(delivery.conversation, []).append(index)

        async def send(indexes: list[int]) -> None:
            for place, index in enumerate(indexes):
                if place > 0 and time.monotonic() >= limit.last_begin:
                    return
                outcomes[index] = await self._send(deliveries[index], limit)
                if not is_sent(outcomes[index]):
                    return

        await asyncio.gather(*(send(indexes) for indexes in conversations.values()))
        return outcomes

    async def close(self) -> None:
        """Ends the client; requests that are under way fail. The transport can still be called."""
        client, self._client = self._client, None
        asked, self._asked = self._asked, None
        if asked is not None and self._loop is asyncio.get_running_loop():
            asked.cancel()
        if client is not None:
            await client.close()

    async def _send(self, delivery: Delivery, limit: Limit) -> Outcome:
        while (turn := self._credentials.begin()) is None:
            if time.monotonic() >= limit.last_begin:
                return Outcome.skipped()
            await asyncio.sleep(LOOK)
        if isinstance(turn, Outcome):
            return turn
        outcome: Outcome | None = None
        try:
            outcome = await self._exchange(delivery, limit)
        finally:
            self._credentials.end(turn, outcome)
        return self._credentials.judged(outcome)

    async def _exchange(self, delivery: Delivery, limit: Limit) -> Outcome:
        if self._bearer is None:
            return await self._attempt(delivery, None, limit.deadline)
        try:
            token = await self._current(limit.deadline, None)
        except Exception as problem:  # noqa: BLE001 - the function may raise anything; the outcome says what
            return outcome_of_token(problem, is_final=self._credentials.is_final)
        if time.monotonic() >= limit.last_begin:
            # The function for the token took most of the time.
            return Outcome.skipped()
        outcome = await self._attempt(delivery, token, limit.deadline)
        if not is_unauthorized(outcome):
            return outcome
        try:
            another = await self._current(limit.deadline, token)
        except Exception as problem:  # noqa: BLE001 - as above
            return outcome_of_token(problem, is_final=self._credentials.is_final)
        if another != token:
            if time.monotonic() >= limit.last_begin:
                # The next attempt uses the new token.
                return Outcome.skipped()
            outcome = await self._attempt(delivery, another, limit.deadline)
        if is_unauthorized(outcome) and self._credentials.is_final:
            log_refused(self._form, delivery)
        return outcome

    async def _current(self, deadline: float, refused: str | None) -> str:
        """Returns the token; asks for a new one if there is none, or if this one was refused.

        Raises:
            LateTokenError: The function has not returned in time. It goes on; a later call takes what it returns.
        """
        self._prepare()
        if self._token is not None and self._token != refused:
            return self._token
        self._token = None
        if self._asked is None:
            self._asked = asyncio.ensure_future(self._ask())
        asked = self._asked
        # The function may wait for longer than the attempt. What is cancelled here does not end it.
        await asyncio.wait([asked], timeout=max(0.0, deadline - time.monotonic()))
        if not asked.done():
            raise LateTokenError
        if self._asked is asked:
            self._asked = None
            if not asked.cancelled() and asked.exception() is None:
                self._token = asked.result()
        if asked.cancelled():
            # The relay was closed.
            raise LateTokenError
        return asked.result()

    async def _ask(self) -> str:
        assert self._bearer is not None
        made = self._bearer()
        return checked_token(await made if inspect.isawaitable(made) else made)

    async def _attempt(self, delivery: Delivery, token: str | None, deadline: float) -> Outcome:
        try:
            headers = self._form.headers(delivery, token)
        except Exception as problem:  # noqa: BLE001 - the function for headers may raise anything
            return _failures.outcome_of_forming(problem)
        if not any(name.lower() == "accept-encoding" for name in headers):
            # As http.client asks for: the text of an answer is read as it comes.
            headers["Accept-Encoding"] = "identity"
        client, phase = self._prepare(), Phase()
        try:
            answer = await asyncio.wait_for(
                client.post(delivery.body, headers, phase), max(0.001, deadline - time.monotonic())
            )
        except (asyncio.TimeoutError, TimeoutError):
            cut = phase.cut()
            if cut is not None:
                return outcome_of_answer(cut, self._form)
            what = "no answer in time" if phase.is_connected else "no connection in time"
            return Outcome.retry(FailureKind.TIMEOUT, text=what, not_sent=not phase.is_connected)
        except Exception as problem:  # noqa: BLE001 - a client may raise anything
            if not phase.is_connected:
                return outcome_of_connecting(problem, self._form)
            found = _failures.outcome_of(problem)
            if found.verdict is Verdict.HTTP:
                # What could not be read is no answer.
                return Outcome.retry(FailureKind.SERVER, text=found.text)
            return Outcome.retry(found.kind, text=found.text)
        return outcome_of_answer(answer, self._form)

    def _prepare(self) -> Client:
        """Returns the client of this loop. Of a loop that has ended, nothing can be used any more."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client, self._asked = loop, None, None
        if self._client is None:
            self._client = new_client(self._name, self._library, self._form, self._context)
        return self._client

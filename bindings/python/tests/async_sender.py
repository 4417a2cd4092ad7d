"""What the tests of the asyncio queue share: a transport that speaks HTTP, waiting for a condition, running a test."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from msgqueue import Delivery, FailureKind, Outcome
from support import TIMEOUT

T = TypeVar("T")


class AsyncHttpTransport:
    """Posts each message over a new connection to a port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __call__(self, delivery: Delivery) -> Outcome:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as problem:
            return Outcome.retry(FailureKind.NETWORK, text=str(problem))
        try:
            writer.write(_request(delivery))
            await writer.drain()
            status = int((await reader.readline()).split()[1])
            while (await reader.readline()).strip():
                pass
            return Outcome.http(HTTPStatus(status))
        finally:
            writer.close()


def _request(delivery: Delivery) -> bytes:
    headers = {
        "Host": "127.0.0.1",
        "Content-Length": str(len(delivery.body)),
        "Idempotency-Key": quote(delivery.id),
        "Conversation": quote(delivery.conversation),
        "Attempt": str(delivery.attempt),
        "Metadata": json.dumps(delivery.metadata),
    }
    lines = ["POST /messages HTTP/1.0", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + delivery.body


async def until(condition: Callable[[], object], *, timeout: float = TIMEOUT) -> None:
    """Waits until the condition, a plain or a coroutine function, is true; fails when it is not in time."""
    deadline = time.monotonic() + timeout
    while True:
        said = condition()
        if await said if isinstance(said, Awaitable) else said:
            return
        assert time.monotonic() < deadline, f"not within {timeout} s: {condition}"
        await asyncio.sleep(0.005)


def in_loop(test: Coroutine[Any, Any, T]) -> T:
    """Runs a test in a loop in debug mode, which reports slow callbacks and tasks that are never awaited."""

    async def bounded() -> T:
        return await asyncio.wait_for(test, 60)

    return asyncio.run(bounded(), debug=True)


class Complaints:
    """Collects what a loop's exception handler receives."""

    def __init__(self) -> None:
        self.contexts: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.contexts.append(context))

    @property
    def problems(self) -> list[BaseException]:
        return [context["exception"] for context in self.contexts]

"""The transport that the tests send with: real HTTP to a port of 127.0.0.1."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote

from msgqueue import Delivery, FailureKind, Outcome


class HttpTransport:
    """Posts each message. A `timeout` in seconds replaces the timeout of the delivery, to exceed it."""

    def __init__(self, port: int, *, timeout: float | None = None) -> None:
        self._port = port
        self._timeout = timeout

    def __call__(self, delivery: Delivery) -> Outcome:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=self._timeout or delivery.timeout)
        try:
            connection.request("POST", "/messages", delivery.body, _headers(delivery))
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
            return Outcome.http(response.status, response.headers, text=text)
        except socket.timeout as problem:
            return Outcome.retry(FailureKind.TIMEOUT, text=str(problem))
        except (OSError, HTTPException) as problem:
            return Outcome.retry(FailureKind.NETWORK, text=f"{type(problem).__name__}: {problem}")
        finally:
            connection.close()


def _headers(delivery: Delivery) -> dict[str, str]:
    return {
        "Idempotency-Key": quote(delivery.id),
        "Conversation": quote(delivery.conversation),
        "Attempt": str(delivery.attempt),
        "Metadata": json.dumps(delivery.metadata),
    }

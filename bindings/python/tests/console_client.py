"""A client of the server of the review page, as a browser is one, but with any headers."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """Keeps the key that it is given."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = urlsplit(url).port or 0
        self.key = ""

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
        """Makes a request. Headers are given with underscores; None leaves one out."""
        sent = {
            "Host": self.authority,
            "Authorization": f"Bearer {self.key}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None and "Content-Length" not in sent:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.request("GET", path, None, **headers)

    def post(self, path: str, value: object, **headers: str | None) -> Answer:
        """Posts JSON as the page does."""
        given: dict[str, str | None] = {"Origin": f"http://{self.authority}", "Content_Type": "application/json"}
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.request("POST", path, body, **{**given, **headers})

    def enter(self) -> Answer:
        """Exchanges the token of the address for a key."""
        answer = self.post("/api/enter", {"token": parse_qs(urlsplit(self.url).query)["token"][0]})
        if answer.status == 200:
            self.key = answer.json["result"]["key"]
        return answer

    def call(self, name: str, /, **fields: object) -> Any:
        """Returns the result of a call."""
        answer = self.post("/api/call", {"store": 0, "call": name, "fields": fields})
        assert "result" in answer.json, answer
        return answer.json["result"]

    def refusal(self, name: str, /, **fields: object) -> str:
        """Returns the code of the error of a call."""
        code: str = self.post("/api/call", {"store": 0, "call": name, "fields": fields}).json["error"]["code"]
        return code

    def events(self) -> Stream:
        return Stream(self)


class Stream:
    """The server-sent events that a page receives."""

    def __init__(self, browser: Browser) -> None:
        self._socket = socket.create_connection(("127.0.0.1", browser.port), timeout=20)
        request = f"GET /api/events?store=0 HTTP/1.1\r\nHost: {browser.authority}\r\n"
        request += f"Authorization: Bearer {browser.key}\r\n\r\n"
        self._socket.sendall(request.encode())
        self._input = self._socket.makefile("rb")
        self.status = self._input.readline()
        while self._input.readline().strip():
            pass
        self.all: list[dict[str, Any]] = []

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def batch(self) -> list[dict[str, Any]] | None:
        """Returns the next batch of events; None at the end."""
        while True:
            line = self._input.readline()
            if not line:
                return None
            if line.startswith(b"data: "):
                events: list[dict[str, Any]] = json.loads(line[6:])
                self.all += events
                return events

    def wait_for(self, kind: str, **members: object) -> dict[str, Any]:
        """Returns the first event of that kind with these members."""
        while True:
            events = self.batch()
            assert events is not None, f"the stream ended before {kind}"
            for event in events:
                if event["event"] == kind and all(event.get(name) == value for name, value in members.items()):
                    return event

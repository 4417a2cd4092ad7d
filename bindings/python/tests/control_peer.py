"""A client of the control socket, as another program is one."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Peer:
    """A connection to the control socket of a queue."""

    def __init__(self, path: Path | str, *, greeted: bool = True) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(30)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._input = self._socket.makefile("rb")
        self._requests = 0
        self.events: list[Line] = []
        self.greeting = self.line() if greeted else None

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def line(self) -> Line | None:
        """Returns the next line; None when the server has disconnected."""
        try:
            text = self._input.readline()
        except ConnectionResetError:
            return None
        if not text:
            return None
        line: Line = json.loads(text)
        return line

    def answer(self, call: str, **fields: Any) -> Line:
        self._requests += 1
        self.write(json.dumps({"id": self._requests, "call": call, **fields}).encode() + b"\n")
        while True:
            line = self.line()
            assert line is not None, "disconnected"
            if "event" not in line:
                assert line["id"] == self._requests
                return line
            self.events.append(line)

    def call(self, name: str, **fields: Any) -> Line:
        """Returns the result of a call."""
        answer = self.answer(name, **fields)
        assert "result" in answer, answer
        result: Line = answer["result"]
        return result

    def refusal(self, name: str, **fields: Any) -> str:
        """Returns the code of the error of a call."""
        code: str = self.answer(name, **fields)["error"]["code"]
        return code

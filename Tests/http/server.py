"""An HTTP server for the tests of bindings/c/http.c. The path of a request says what the server does with it.

    python3 server.py LOG [CERTIFICATE KEY CLIENT]

Prints its ports on 127.0.0.1 (plain, one that closes every connection at once, one that never accepts, one that
refuses, a proxy, TLS or 0, TLS for those with the certificate CLIENT or 0), writes a line to LOG for each request that
it has read, and ends when its standard input ends.

    /status/CODE            that status; a query a=b&… gives headers of the answer
    /sequence/NAME/CODE,…   one status after the other for requests with this NAME; the last one again and again
    /token/GOOD             200 with "Authorization: Bearer GOOD", otherwise 401
    /raw/HEX                these bytes, then the end of the connection
    /cut/line, header, body the connection ends when so much of the request was read; reset/… by RST
    /reused                 200; the second request on a connection gets no answer, and the connection ends
    /extra/KIND?COUNT       when COUNT requests are there: 200, and 30 ms later an answer that nobody asked for:
                            200; another status, and the end of the connection; half: only the end of what is
                            sent; joined: 200 in one piece with the first body. Then it writes "unasked" to LOG
    /leave                  200; the connection ends after it without a warning
    /slow/MILLISECONDS      200 after this time
    /hang                   no answer
    /drip                   a header that does not end, one byte every 20 ms
    /long                   a line of the header with 1 MB
    /lines/COUNT            200 with so many lines of 1,000 bytes in its header
    /endless                200 with a body that does not end

The user name for the proxy says what the proxy does; it writes a line to LOG that begins with "proxy":

    none                    what a proxy does
    ana                     the same, if the password is "p@ss/ü"; otherwise it answers 407
    status-CODE             answers with that status
    raw-HEX                 these bytes, then the end of the connection
    hang                    no answer
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import parse_qsl

LOCK = threading.Lock()
COUNTS: dict[str, int] = {}
CONNECTIONS = [0]
BARRIERS: dict[int, threading.Barrier] = {}


class Peer:
    """One connection."""

    def __init__(self, connection: socket.socket, log: IO[str]) -> None:
        self.connection = connection
        self.log = log
        self.data = b""
        self.requests = 0
        with LOCK:
            CONNECTIONS[0] += 1
            self.number = CONNECTIONS[0]

    def read_until(self, end: bytes) -> bytes:
        while end not in self.data:
            part = self.connection.recv(65536)
            if not part:
                raise ConnectionError
            self.data += part
        found, _, self.data = self.data.partition(end)
        return found

    def read_body(self, size: int) -> bytes:
        parts = [self.data]
        left = size - len(self.data)
        while left > 0:
            part = self.connection.recv(min(left, 1 << 20))
            if not part:
                raise ConnectionError
            parts.append(part)
            left -= len(part)
        body = b"".join(parts)
        body, self.data = body[:size], body[size:]
        return body

    def answer(self, status: int, headers: dict[str, str] | None = None) -> None:
        lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        lines += ["Content-Length: 2", "", "ok"] if status != 204 else ["", ""]
        self.connection.sendall("\r\n".join(lines).encode())

    def serve(self) -> None:
        while True:
            line = self.read_until(b"\r\n").decode()
            _, path, _ = line.split(" ")
            kind, _, rest = path[1:].partition("/")
            if kind in ("cut", "reset") and rest == "line":
                return self.end(kind)
            head = self.read_until(b"\r\n\r\n").decode("latin-1")
            fields = head.split("\r\n")
            if kind in ("cut", "reset") and rest == "header":
                return self.end(kind)
            size = next(int(field[15:]) for field in fields if field.lower().startswith("content-length:"))
            body = self.read_body(size)
            self.requests += 1
            zeros = body.count(0)
            shown = body[:32].hex()
            fields = [f"connection={self.number}", f"request={self.requests}", line, *fields]
            with LOCK:
                self.log.write("\t".join([*fields, f"size={size}", f"zeros={zeros}", f"body={shown}"]) + "\n")
                self.log.flush()
            if kind in ("cut", "reset"):
                return self.end(kind)
            if not self.act(kind, rest, fields):
                return None

    def end(self, kind: str) -> None:
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def add_extra(self, kind: str) -> None:
        if kind == "joined":
            self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            time.sleep(0.03)
            self.connection.sendall(b"okHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        self.answer(200)
        time.sleep(0.03)
        if kind == "half":
            self.connection.shutdown(socket.SHUT_WR)
        else:
            self.answer(int(kind), {"Connection": "close"} if kind != "200" else None)

    def act(self, kind: str, rest: str, fields: list[str]) -> bool:
        """Answers a request. Returns whether the connection goes on."""
        if kind == "status":
            code, _, query = rest.partition("?")
            self.answer(int(code), dict(parse_qsl(query)))
        elif kind == "sequence":
            name, _, codes = rest.partition("/")
            with LOCK:
                index = COUNTS.get(name, 0)
                COUNTS[name] = index + 1
            every = codes.split(",")
            self.answer(int(every[min(index, len(every) - 1)]))
        elif kind == "token":
            self.answer(200 if f"Authorization: Bearer {rest}" in fields else 401)
        elif kind == "raw":
            self.connection.sendall(bytes.fromhex(rest))
            return False
        elif kind == "reused":
            if self.requests > 1:
                return False
            self.answer(200)
        elif kind == "extra":
            rest, _, peers = rest.partition("?")
            with LOCK:
                barrier = BARRIERS.setdefault(int(peers), threading.Barrier(int(peers)))
            barrier.wait()
            self.add_extra(rest)
            with LOCK:
                self.log.write("unasked\n")
                self.log.flush()
            return rest in ("200", "joined", "half")
        elif kind == "leave":
            self.answer(200)
            return False
        elif kind == "slow":
            time.sleep(int(rest) / 1000)
            self.answer(200)
        elif kind == "hang":
            self.connection.recv(1)
            return False
        elif kind == "drip":
            self.connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while True:
                self.connection.sendall(b"x")
                time.sleep(0.02)
        elif kind == "long":
            self.connection.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n")
            return False
        elif kind == "lines":
            self.connection.sendall(b"HTTP/1.1 200 OK\r\n" + int(rest) * (b"X: " + b"x" * 995 + b"\r\n") + b"\r\n")
            return False
        elif kind == "endless":
            self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                self.connection.sendall(b"y" * 65536)
        return True


class ProxyPeer(Peer):
    """A connection of the proxy."""

    def serve(self) -> None:
        while True:
            line = self.read_until(b"\r\n").decode()
            fields = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            body = self.read_body(int(headers.get("content-length", "0")))
            with LOCK:
                self.log.write("\t".join(["proxy", f"connection={self.number}", line, *fields, ""]) + "\n")
                self.log.flush()
            kind, _, password = base64.b64decode(headers.get("proxy-authorization", "")[6:]).decode().partition(":")
            method, target, _ = line.split(" ")
            if kind.startswith("raw-"):
                return self.connection.sendall(bytes.fromhex(kind[4:]))
            if kind == "hang":
                self.connection.recv(1)
                return None
            if kind.startswith("status-") or (kind == "ana" and password != "p@ss/ü"):
                self.answer(int(kind[7:] or 407), {"Proxy-Authenticate": "Basic"})
                continue
            authority, _, path = target.partition("//")[2].partition("/") if method != "CONNECT" else (target, "", "")
            host, _, port = authority.rpartition(":")
            with socket.create_connection((host, int(port))) as other:
                if method == "CONNECT":
                    self.connection.sendall(b"HTTP/1.1 200 Connection established\r\nContent-Length: 9\r\n\r\n")
                    threading.Thread(target=pump, args=(other, self.connection), daemon=True).start()
                    return pump(self.connection, other)
                kept = [field for field in fields if not field.lower().startswith("proxy-")]
                other.sendall("\r\n".join([f"{method} /{path} HTTP/1.1", *kept, "", ""]).encode("latin-1") + body)
                # Every answer of the server but those of /status ends with the connection.
                self.connection.sendall(read_answer(other))


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def read_answer(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\nok"):
        part = connection.recv(65536)
        if not part:
            break
        data += part
    return data


def serve(connection: socket.socket, log: IO[str], context: ssl.SSLContext | None, kind: type[Peer] = Peer) -> None:
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            kind(connection, log).serve()
    except (OSError, ValueError):
        # The client has ended the connection.
        connection.close()


def listen(
    listener: socket.socket, log: IO[str], context: ssl.SSLContext | None = None, kind: type[Peer] = Peer
) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, log, context, kind), daemon=True).start()


def close_at_once(listener: socket.socket) -> None:
    while True:
        listener.accept()[0].close()


def bound(backlog: int | None) -> socket.socket:
    """A socket with a port of its own. Without a backlog it does not listen, and connections are refused."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    if backlog is not None:
        listener.listen(backlog)
    return listener


def main() -> None:
    log = Path(sys.argv[1]).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
    plain, closing, silent, refusing, proxy = bound(1024), bound(1024), bound(1024), bound(None), bound(1024)
    ports = [each.getsockname()[1] for each in (plain, closing, silent, refusing, proxy)]
    threading.Thread(target=listen, args=(proxy, log, None, ProxyPeer), daemon=True).start()
    threading.Thread(target=listen, args=(plain, log), daemon=True).start()
    threading.Thread(target=close_at_once, args=(closing,), daemon=True).start()
    for has_client in (False, True) if len(sys.argv) > 4 else ():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        if has_client:
            context.load_verify_locations(sys.argv[4])
            context.verify_mode = ssl.CERT_REQUIRED
        secure = bound(1024)
        ports.append(secure.getsockname()[1])
        threading.Thread(target=listen, args=(secure, log, context), daemon=True).start()
    ports += [0] * (7 - len(ports))
    print(*ports, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()

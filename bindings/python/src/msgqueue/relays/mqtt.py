"""A transport that publishes each message to a broker of MQTT 5."""

from __future__ import annotations

import math
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .base import Relay
from .problems import RejectedError, RetryableError, UnauthorizedError, UnavailableError
from .reasons import seconds
from .targets import Target, address_of, checked_target, for_target, headers_of, text_of

# What a string of MQTT must not contain, or what brokers refuse in it.
_REFUSED = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_WILDCARDS = re.compile("[+#]")
_LONGEST_TEXT = 65535
_LARGEST = 268_435_455
# Messages that wait for their acknowledgement, unless the broker permits fewer.
_IN_FLIGHT = 1000
# Properties of MQTT 5.
_CORRELATION_DATA = b"\x09"
_USER_PROPERTY = b"\x26"
# Reason codes of MQTT 5.
_NO_SUBSCRIBER = 0x10
_UNAUTHORIZED = (0x86, 0x87, 0x8C)
_REJECTED = (0x90, 0x95, 0x99)
_QUOTA = 0x97


class _Properties:
    """The properties of a message, packed. paho's own class takes longer for this than for all the rest."""

    def __init__(self, headers: Sequence[tuple[str, str]], id: str) -> None:
        parts = [_CORRELATION_DATA, _packed("the id", id)]
        for name, value in headers:
            parts += (_USER_PROPERTY, _packed("a user property", name), _packed("a user property", value))
        data = b"".join(parts)
        self._data = _packed_length(len(data)) + data

    def pack(self) -> bytes:
        """What the client asks for."""
        return self._data


class _Message(NamedTuple):
    topic: str
    body: bytes
    properties: _Properties


class _Connection:
    """A client, and what its callbacks reported."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - a client of paho
        self.client = client
        self.largest = _LARGEST
        self.in_flight = _IN_FLIGHT
        self.changed = threading.Condition()
        self.code: Any = None
        self.ended = ""
        self.answers: dict[int, Any] = {}
        # The messages for which a call waits: each call has a set of those that are not acknowledged yet.
        self.waiting: dict[int, set[int]] = {}

    def codes(self, numbers: Sequence[int], timeout: float) -> list[Any]:
        """Waits until these messages are acknowledged or the connection has ended; returns their reason codes."""
        with self.changed:
            left = {number for number in numbers if number not in self.answers}
            self.waiting.update(dict.fromkeys(left, left))
            self.changed.wait_for(lambda: self.ended or not left, max(0.0, timeout))
            for number in left:
                self.waiting.pop(number, None)
            return [self.answers.pop(number, None) for number in numbers]

    def acknowledged(self, number: int, code: Any) -> None:  # noqa: ANN401 - of paho
        """Notes the reason code of a message."""
        _acknowledge_at_once(self.client)
        with self.changed:
            self.answers[number] = code
            left = self.waiting.pop(number, None)
            if left is not None:
                left.discard(number)
                if not left:
                    self.changed.notify_all()


class Mqtt(Relay[_Connection, _Message]):
    """Publishes messages with QoS 1.

    The message's id is the correlation data and the user property msgq-id; msgq-conversation (unless it is "") and the
    metadata are user properties, too.

    The broker's PUBACK says that the broker has accepted the message. Whether it is on disk, or kept at all, depends
    on the broker: mosquitto writes its file at intervals and when it is stopped, and drops a message for which there is
    no subscriber. MQTT does not remove duplicates: consumers must, by the id.

    The client of paho sends unacknowledged messages again after it reconnects. This relay makes a new client for each
    connection, with a clean session, so only the queue sends again.
    """

    library = "paho.mqtt.client"
    extra = "mqtt"

    def __init__(
        self,
        url: str,
        topic: Target,
        *,
        client_id: str = "",
        retain: bool = False,
        require_subscriber: bool = False,
        context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Makes the relay; connects nowhere yet.

        Args:
            url: mqtt://host:1883 or mqtts://host:8883 (TLS), with user name and password.
            topic: The topic, or a function of the delivery that returns it. Without wildcards, not beginning with $.
            client_id: "": the broker chooses one. Two connections with one id end each other.
            retain: The broker keeps the last message of each topic for new subscribers.
            require_subscriber: A message for which the broker reports no subscriber does not count as sent: the queue
                is held until there is one. If a function names the topic, the message is retried with kind NOT_FOUND.
            context: For mqtts; None: certificates are verified against those of the system.
            timeout: Seconds that connecting and the acknowledgement may take together.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: paho-mqtt is not installed.
        """
        super().__init__(timeout=timeout)
        parts, self._host, self._port = address_of(url, {"mqtt": 1883, "mqtts": 8883})
        self._user, self._password = parts.username, parts.password
        self._context = (context or ssl.create_default_context()) if parts.scheme == "mqtts" else None
        self._topic = checked_target("topic", topic, _check_topic)
        self._client_id = client_id
        self._retain = retain
        self._require_subscriber = require_subscriber
        # What the broker permitted last.
        self._in_flight = _IN_FLIGHT

    def _form(self, connection: _Connection, delivery: Delivery) -> _Message:
        topic = self._topic
        if not isinstance(topic, str):
            # A topic that is the same for all messages was checked by the constructor.
            topic = text_of(topic, delivery)
            _check_topic(topic)
        properties = _Properties(headers_of(delivery), delivery.id)
        size = len(topic.encode()) + len(properties.pack()) + len(delivery.body) + 9
        if size > connection.largest:
            raise RejectedError(f"the message is larger than the limit of the broker ({connection.largest} bytes)")
        return _Message(topic, delivery.body, properties)

    def _open(self, timeout: float) -> _Connection:
        end = time.monotonic() + timeout
        connection = self._connect(timeout)
        if connection.in_flight < connection.client.max_inflight_messages:
            # The client accepts no other limit while it is connected, and does not know the broker's.
            self._in_flight = connection.in_flight
            self._shut(connection)
            connection = self._connect(max(0.01, end - time.monotonic()))
        return connection

    def _connect(self, timeout: float) -> _Connection:
        end = time.monotonic() + timeout
        library = self._client
        client = library.Client(
            library.CallbackAPIVersion.VERSION2,
            self._client_id,
            protocol=library.MQTTv5,
            reconnect_on_failure=False,
        )
        connection = _Connection(client)
        client.on_connect = lambda _client, _data, _flags, code, properties: _on_connect(connection, code, properties)
        client.on_disconnect = lambda _client, _data, _flags, code, _: self._on_disconnect(connection, code)
        client.on_publish = lambda _client, _data, number, code, _: connection.acknowledged(number, code)
        if self._user is not None:
            client.username_pw_set(unquote(self._user), unquote(self._password or ""))
        if self._context is not None:
            client.tls_set_context(self._context)
        client.connect_timeout = timeout
        client.max_inflight_messages = self._in_flight
        # The connection is lost when nothing arrives for one and a half of this; it also limits the handshake of TLS.
        client.connect(self._host, self._port, keepalive=max(1, math.ceil(timeout)), clean_start=True)
        client.loop_start()
        with connection.changed:
            connection.changed.wait_for(lambda: connection.ended or connection.code is not None, end - time.monotonic())
        if connection.code is None or connection.code.is_failure or connection.ended:
            # The client ends a silent connection at about the same time; that is silence, too.
            is_late = time.monotonic() >= end
            try:
                raise self._refusal(connection, timeout, is_late=is_late)
            finally:
                self._shut(connection)
        return connection

    def _refusal(self, connection: _Connection, timeout: float, *, is_late: bool) -> BaseException:
        if connection.code is not None and connection.code.is_failure:
            text = f"the broker refused the connection: {connection.code}"
            return UnavailableError(text)
        if connection.ended and not is_late:
            return UnavailableError(connection.ended)
        return TimeoutError(f"no answer within {seconds(timeout)}")

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        sent = [
            connection.client.publish(each.topic, each.body, 1, self._retain, properties=each.properties)
            for each in messages
        ]
        codes = connection.codes([each.mid for each in sent], timeout)
        return [self._answer(connection, code, timeout) for code in codes]

    def _answer(self, connection: _Connection, code: Any, timeout: float) -> BaseException | None:  # noqa: ANN401 - of paho
        if code is None:
            return (
                ConnectionResetError(connection.ended)
                if connection.ended
                else TimeoutError(f"no PUBACK within {seconds(timeout)}")
            )
        text = f"the broker answered: {code}"
        if code.value == _NO_SUBSCRIBER and self._require_subscriber:
            return for_target(self._topic, text, RetryableError(FailureKind.NOT_FOUND, text, not_sent=True))
        if not code.is_failure:
            return None
        if code.value in _UNAUTHORIZED:
            return for_target(self._topic, text, UnauthorizedError(text))
        if code.value in _REJECTED:
            return RejectedError(text)
        if code.value == _QUOTA:
            return UnavailableError(text)
        return RetryableError(FailureKind.SERVER, text, not_sent=True)

    def _on_disconnect(self, connection: _Connection, code: Any) -> None:  # noqa: ANN401 - of paho
        with connection.changed:
            connection.ended = f"the connection ended: {code}"
            connection.changed.notify_all()
        self._look.set()

    def _shut(self, connection: _Connection) -> None:
        with connection.changed:
            connection.ended = connection.ended or "the connection was closed"
            connection.changed.notify_all()
        with suppress(Exception):
            connection.client.disconnect()
        # The thread of the client ends when it reads the end of the connection.
        with suppress(OSError, AttributeError):
            connection.client.socket().shutdown(socket.SHUT_RD)
        # They hold the connection, which holds the client. Without them the client ends with its thread, and closes its
        # sockets, without the garbage collector.
        client = connection.client
        client.on_connect = client.on_disconnect = client.on_publish = None

    @property
    def _place(self) -> str:
        return f"{self._host}:{self._port}"

    def _has_ended(self, connection: _Connection) -> bool:
        return bool(connection.ended)


def _acknowledge_at_once(client: Any) -> None:  # noqa: ANN401 - of paho
    """Makes the system acknowledge what it received. A broker with Nagle's algorithm waits for that, up to 40 ms."""
    with suppress(OSError, AttributeError):
        client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _on_connect(connection: _Connection, code: Any, properties: Any) -> None:  # noqa: ANN401 - of paho
    with connection.changed:
        connection.largest = min(_LARGEST, getattr(properties, "MaximumPacketSize", _LARGEST))
        connection.in_flight = min(_IN_FLIGHT, getattr(properties, "ReceiveMaximum", _IN_FLIGHT))
        connection.code = code
        connection.changed.notify_all()


def _packed(name: str, text: str) -> bytes:
    """Returns a text as MQTT sends it: its length, and UTF-8."""
    if _REFUSED.search(text):
        raise InvalidError(f"{name} contains a character that MQTT does not permit: {text!r}")
    data = text.encode()
    if len(data) > _LONGEST_TEXT:
        raise InvalidError(f"{name} is longer than {_LONGEST_TEXT} bytes")
    return struct.pack(">H", len(data)) + data


def _packed_length(number: int) -> bytes:
    """Returns a number as MQTT sends lengths: seven bits in a byte, the lowest first."""
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def _check_topic(topic: str) -> None:
    if not topic or _WILDCARDS.search(topic) or topic.startswith("$"):
        raise InvalidError(f"the topic must not be empty, contain + or #, or begin with $, got {topic!r}")
    _packed("the topic", topic)

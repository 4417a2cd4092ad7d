"""A transport that produces each message to a topic of Kafka."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .base import Relay
from .problems import (
    RejectedError,
    RetryableError,
    TogetherError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UnusableError,
)
from .reasons import seconds
from .targets import Target, checked_target, for_target, headers_of, text_of

_log = logging.getLogger("msgqueue.kafka")
# A host name, or an address, perhaps after a protocol and before a port.
_SERVER = re.compile(r"\s*(?:[A-Za-z_]+://)?(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\s*\Z")
# Options that the relay sets, and their other names.
_OWN = {
    "bootstrap.servers",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.idempotence",
    "error_cb",
    "logger",
    "message.timeout.ms",
    "metadata.broker.list",
    "on_delivery",
    "topic.metadata.propagation.max.ms",
    "transactional.id",
}
# Seconds for a look at brokers of which one ended its connection.
_LOOK = 0.2
# Milliseconds that a topic which is being made may take until the brokers know it.
_LONGEST_PROPAGATION = 2000
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_AWAY = re.compile(r"[Cc]onnect to .* failed")
# The names of error codes of librdkafka and of Kafka.
# The broker refuses a batch of records, of all that were produced together, because of one of them.
_TOGETHER = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG", "INVALID_RECORD")
_UNAVAILABLE = (
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "_AUTHENTICATION",
    "NOT_ENOUGH_REPLICAS",
    "KAFKA_STORAGE_ERROR",
    "BROKER_NOT_AVAILABLE",
    "LEADER_NOT_AVAILABLE",
    "THROTTLING_QUOTA_EXCEEDED",
    "POLICY_VIOLATION",
)
_NOT_FOUND = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
# The last two: another call closed the connection.
_NETWORK = ("_TRANSPORT", "_RESOLVE", "_SSL", "_PURGE_QUEUE", "_PURGE_INFLIGHT")
# The brokers, or librdkafka itself, accept nothing more of this producer.
_UNUSABLE = (
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "PRODUCER_FENCED",
    "UNKNOWN_PRODUCER_ID",
    "_FATAL",
    "_FENCED",
    "_GAPLESS_GUARANTEE",
)
_LATE = ("_MSG_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "REQUEST_TIMED_OUT")


class _Message(NamedTuple):
    topic: str
    key: bytes | None
    body: bytes
    headers: list[tuple[str, bytes]]


class _Health:
    """What a producer reported about its connections.

    The producer holds this by its callback, and this does not hold the producer: a producer ends, with its threads and
    its connections, when the last call lets go of it, and does not wait for the garbage collector.
    """

    def __init__(self) -> None:
        # The first one, apart from "all brokers are down". There may be any number of them while the producer lives.
        self.problem: Any = None
        self.is_down = False
        # A connection ended. librdkafka may open no other one, and find out nothing, until there is a message.
        self.is_doubtful = False

    def failed(self, problem: Any) -> None:  # noqa: ANN401 - of the client
        """Notes an error that concerns no message."""
        is_away = problem.name() == "_ALL_BROKERS_DOWN"
        if is_away or problem.fatal():
            self.is_down = True
        self.is_doubtful = True
        if not is_away and self.problem is None:
            self.problem = problem


class _Connection(NamedTuple):
    producer: Any
    health: _Health


class Kafka(Relay[_Connection, _Message]):
    """Produces messages with an idempotent producer and acks=all.

    The key is the conversation, so that a conversation is in one partition; without a conversation all messages are in
    one. The headers are msgq-id, msgq-conversation (unless it is "") and the metadata.

    Within `timeout` librdkafka sends a message again by itself, which the brokers recognise. After that the queue sends
    it again, with a new producer or a new sequence number, and Kafka stores it twice if the first attempt arrived.

    If the brokers do not accept the producer any more, for example with OUT_OF_ORDER_SEQUENCE_NUMBER, its messages are
    sent again at once by a new one, at most twice. Only then a retry of the queue is used up.
    """

    library = "confluent_kafka"
    extra = "kafka"

    def __init__(
        self,
        servers: str,
        topic: Target,
        *,
        options: Mapping[str, object] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Makes the relay; connects nowhere yet.

        Args:
            servers: host:port of some brokers, separated by commas.
            topic: The topic, or a function of the delivery that returns it.
            options: More options of librdkafka, for example security.protocol. bootstrap.servers, enable.idempotence,
                message.timeout.ms and the callbacks are not among them. With a log_level, what librdkafka logs goes to
                the logger msgqueue.kafka.
            timeout: Seconds that connecting and the acknowledgement may take together: 1 s or more.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: confluent-kafka is not installed.
        """
        super().__init__(timeout=timeout)
        if timeout < 1:
            raise InvalidError(f"timeout must be 1 second or more, got {timeout}")
        if not isinstance(servers, str) or not all(map(_SERVER.match, servers.split(","))):
            raise InvalidError(f"servers must be host:port of some brokers, separated by commas, got {servers!r}")
        own = sorted(_OWN & set(options or {}))
        if own:
            raise InvalidError(f"the relay itself sets {', '.join(own)}")
        milliseconds = int(timeout * 1000)
        self._options: dict[str, Any] = {
            "partitioner": "murmur2",
            "linger.ms": 0,
            "socket.timeout.ms": milliseconds,
            "socket.connection.setup.timeout.ms": max(1000, milliseconds),
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            # For more than half of the time. Then the error of the broker is reported, and not only that time was up.
            "retries": 4 + int(timeout * 0.5),
            # The relay logs why there is no connection, once.
            "log_level": 0,
            **(options or {}),
            "enable.idempotence": True,
            "message.timeout.ms": milliseconds,
            # For so long librdkafka waits for a topic that does not exist. Its default is longer than the time of a
            # message, which would end without a reason.
            "topic.metadata.propagation.max.ms": min(milliseconds // 2, _LONGEST_PROPAGATION),
        }
        try:
            # Without servers it connects nowhere; it tells whether it knows the options.
            self._client.Producer(self._options, logger=_log)
        except self._client.KafkaException as problem:
            raise InvalidError(f"options: {problem.args[0].str()}") from None
        except (TypeError, ValueError) as problem:
            raise InvalidError(f"options: {problem}") from None
        self._options["bootstrap.servers"] = servers
        self._topic = checked_target("topic", topic, _check_topic)

    def _form(self, connection: _Connection, delivery: Delivery) -> _Message:
        topic = self._topic
        if not isinstance(topic, str):
            # A topic that is the same for all messages was checked by the constructor.
            topic = text_of(topic, delivery)
            _check_topic(topic)
        headers = [(name, value.encode()) for name, value in headers_of(delivery)]
        return _Message(topic, delivery.conversation.encode() or None, delivery.body, headers)

    def _open(self, timeout: float) -> _Connection:
        end = time.monotonic() + timeout
        health = _Health()
        producer = self._client.Producer({**self._options, "error_cb": health.failed}, logger=_log)
        while True:
            try:
                producer.list_topics(timeout=max(0.01, min(0.2, end - time.monotonic())))
            except self._client.KafkaException as problem:
                producer.poll(0)
                if health.problem is not None:
                    raise self._failure(health.problem, not_sent=True) from None
                if time.monotonic() >= end:
                    raise TimeoutError(f"no answer within {seconds(timeout)}: {problem}") from None
            else:
                producer.poll(0)
                health.is_down = health.is_doubtful = False
                return _Connection(producer, health)

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        end = time.monotonic() + timeout
        late = TimeoutError(f"no answer within {seconds(timeout)}")
        answers: list[BaseException | None] = [late] * len(messages)
        # The places that are answered. Another thread's poll may call back, too.
        done: list[int] = []

        def deliver(place: int, message: _Message) -> None:
            def reported(problem: Any, _: object) -> None:  # noqa: ANN401 - of the client
                answers[place] = None if problem is None else self._failure(problem)
                done.append(place)

            try:
                connection.producer.produce(
                    message.topic, message.body, message.key, headers=message.headers, on_delivery=reported
                )
            except self._client.KafkaException as problem:
                # The client itself refuses this message.
                found = self._failure(problem.args[0], not_sent=True)
                answers[place] = RejectedError(str(found)) if isinstance(found, TogetherError) else found
                done.append(place)
            except BufferError as problem:
                answers[place] = RetryableError(FailureKind.RATE_LIMIT, str(problem), not_sent=True)
                done.append(place)

        for place, message in enumerate(messages):
            deliver(place, message)
        while len(done) < len(messages) and time.monotonic() < end:
            connection.producer.poll(0.02)
        return list(answers)

    def _translate(self, problem: BaseException) -> BaseException:
        # A call of a producer that has failed for good.
        return self._failure(problem.args[0]) if isinstance(problem, self._client.KafkaException) else problem

    def _failure(self, problem: Any, *, not_sent: bool = False) -> BaseException:  # noqa: ANN401 - of the client
        name, text = problem.name(), f"{problem.name()}: {problem.str()}"
        if name in _TOGETHER:
            return TogetherError(text)
        if name in ("TOPIC_EXCEPTION", "_INVALID_ARG"):
            return RejectedError(text)
        if name in _UNAVAILABLE:
            return UnavailableError(text)
        if name == "TOPIC_AUTHORIZATION_FAILED":
            return for_target(self._topic, text, UnauthorizedError(text))
        if name in _NOT_FOUND:
            return for_target(self._topic, text, RetryableError(FailureKind.NOT_FOUND, text, not_sent=True))
        if name in _UNUSABLE:
            return UnusableError(text)
        if name in _LATE:
            return TimeoutError(text)
        if name == "_RESOLVE" and not_sent:
            return socket.gaierror(text)
        if name == "_TRANSPORT" and not_sent and _AWAY.search(text):
            return ConnectionRefusedError(text) if "refused" in text else UnreachableError(text)
        kind = FailureKind.NETWORK if name in _NETWORK else FailureKind.SERVER
        return RetryableError(kind, text, not_sent=not_sent)

    def _shut(self, connection: _Connection) -> None:
        connection.health.is_down = True
        # What is left is not sent later; the outcome of a message in flight is unknown.
        connection.producer.purge(blocking=False)

    @property
    def _place(self) -> str:
        return str(self._options["bootstrap.servers"])

    def _has_ended(self, connection: _Connection) -> bool:
        return connection.health.is_down

    def _is_alive(self, connection: _Connection) -> bool:
        producer, health = connection
        producer.poll(0)
        if health.is_doubtful and not health.is_down:
            health.is_doubtful = False
            try:
                producer.list_topics(timeout=_LOOK)
            except self._client.KafkaException:
                # A broker that is slow is no reason to end the connection.
                health.is_doubtful = True
            producer.poll(0)
        return not health.is_down


def _check_topic(topic: str) -> None:
    if not _TOPIC.match(topic) or topic in (".", ".."):
        raise InvalidError(f"the topic must have 1 to 249 of the characters A-Z a-z 0-9 . _ -, got {topic!r}")

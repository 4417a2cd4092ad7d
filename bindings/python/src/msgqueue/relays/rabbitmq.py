"""A transport that publishes each message to RabbitMQ."""

from __future__ import annotations

import asyncio
import importlib
import re
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .base import RejectedError, RetryableError, Target, UnauthorizedError, checked_target, headers_of, text_of
from .loop import LoopRelay, answers_of

_LONGEST_NAME = 255
# The headers of a message must fit into one frame of the protocol, of 128 KiB.
_LARGEST_HEADERS = 120_000
_TOO_LARGE = re.compile(r"message size \d+ (?:is )?larger than configured max size (\d+)")


class _Message(NamedTuple):
    queue: str
    size: int
    message: Any


class _Connection:
    """A connection with one channel, and what its callbacks reported."""

    def __init__(self) -> None:
        self.link: Any = None
        self.channel: Any = None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.problem: BaseException | None = None
        self.declared: set[str] = set()

    def end(self, problem: object) -> None:
        if not self.ended.done():
            self.problem = problem if isinstance(problem, BaseException) else None
            self.ended.set_result(f"the connection ended: {problem}")


class RabbitMq(LoopRelay[_Connection, _Message]):
    """Publishes messages with publisher confirms.

    A message is persistent; its message_id is the message's id. The headers are msgq-id, msgq-conversation (unless it
    is "") and the metadata. The relay declares each queue as a durable quorum queue.

    RabbitMQ confirms a message when the queue has it: a quorum queue when a majority of its nodes have written it to
    disk. A message that no queue takes is returned and retried with kind NOT_FOUND; one that a full queue refuses is
    retried with kind RATE_LIMIT. RabbitMQ does not remove duplicates: consumers must, by the id.
    """

    library = "aio_pika"
    extra = "rabbitmq"

    def __init__(
        self,
        url: str,
        queue: Target,
        *,
        exchange: str = "",
        declare: bool = True,
        context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        **options: Any,  # noqa: ANN401 - those of aio_pika.connect
    ) -> None:
        """Makes the relay; connects nowhere yet.

        Args:
            url: amqp:// or amqps:// (TLS), with user name, password and virtual host.
            queue: The queue, or a function of the delivery that returns it; with an exchange: the routing key.
            exchange: Where to publish; "": directly to the queue.
            declare: Declares each queue as a durable quorum queue before its first message. Not with an exchange.
            context: For amqps; None: certificates are verified against those of the system.
            timeout: Seconds that connecting and the confirm may take together.
            **options: Passed to `aio_pika.connect`.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: aio-pika is not installed.
        """
        super().__init__(timeout=timeout)
        if not url.startswith(("amqp://", "amqps://")):
            raise InvalidError(f"{url!r} is not a URL of amqp or amqps")
        self._url = url
        self._errors: Any = importlib.import_module("aiormq.exceptions")
        self._queue = checked_target("queue", queue, _check_name)
        self._exchange = exchange
        self._declare = declare and not exchange
        self._options = options
        if url.startswith("amqps:"):
            self._options = {"ssl_context": context or ssl.create_default_context(), **options}
        # RabbitMQ does not announce its limit; it is learned from the first message that is too large.
        self._largest: int | None = None

    def _form(self, connection: _Connection, delivery: Delivery) -> _Message:
        queue = text_of(self._queue, delivery)
        _check_name(queue)
        headers = headers_of(delivery)
        for name, _ in headers:
            _check_name(name)
        if sum(len(name.encode()) + len(value.encode()) + 6 for name, value in headers) > _LARGEST_HEADERS:
            raise RejectedError(f"the headers are larger than {_LARGEST_HEADERS} bytes")
        self._check_size(len(delivery.body))
        message = self._client.Message(
            delivery.body,
            headers=dict(headers),
            message_id=delivery.id if len(delivery.id.encode()) <= _LONGEST_NAME else None,
            delivery_mode=self._client.DeliveryMode.PERSISTENT,
        )
        return _Message(queue, len(delivery.body), message)

    def _check_size(self, size: int) -> None:
        if self._largest is not None and size > self._largest:
            raise RejectedError(f"the message is larger than the limit of RabbitMQ ({self._largest} bytes)")

    def _open(self, timeout: float) -> _Connection:
        return self._run(self._connect(timeout), timeout)

    async def _connect(self, timeout: float) -> _Connection:
        connection = _Connection()

        def ended(_sender: object, problem: BaseException | None = None) -> None:
            connection.end(problem)
            self._look.set()

        options = {"heartbeat": 10, **self._options}
        link = connection.link = await self._client.connect(self._url, timeout=timeout, **options)
        try:
            link.close_callbacks.add(ended)
            connection.channel = await link.channel(publisher_confirms=True, on_return_raises=True)
            connection.channel.close_callbacks.add(ended)
        except BaseException:
            self._start(link.close())
            raise
        return connection

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        work = answers_of([self._publish(connection, each, timeout) for each in messages], connection.ended, timeout)
        answers = self._run(work, timeout + 1)
        found = _TOO_LARGE.search(" ".join(map(str, [connection.problem, *answers])))
        if found is None:
            return answers
        # RabbitMQ closed the channel because of one of them.
        self._largest = int(found.group(1))
        return [self._judged(each, answer) for each, answer in zip(messages, answers)]

    def _judged(self, message: _Message, answer: BaseException | None) -> BaseException | None:
        if answer is None:
            return None
        try:
            self._check_size(message.size)
        except RejectedError as problem:
            return problem
        return ConnectionResetError("the channel ended because of another message")

    async def _publish(self, connection: _Connection, message: _Message, timeout: float) -> None:
        channel = connection.channel
        if self._declare and message.queue not in connection.declared:
            await channel.declare_queue(message.queue, durable=True, arguments={"x-queue-type": "quorum"})
            connection.declared.add(message.queue)
        exchange = channel.default_exchange
        if self._exchange:
            exchange = await channel.get_exchange(self._exchange, ensure=False)
        await exchange.publish(message.message, message.queue, mandatory=True, timeout=timeout)

    def _translate(self, problem: BaseException) -> BaseException:
        errors, text = self._errors, str(problem)
        refused = (errors.AuthenticationError, errors.ProbableAuthenticationError, errors.ChannelAccessRefused)
        if isinstance(problem, refused) or "ACCESS_REFUSED" in text:
            return UnauthorizedError(text)
        if isinstance(problem, errors.PublishError):
            return RetryableError(FailureKind.NOT_FOUND, f"no queue takes the message: {text}", not_sent=True)
        if isinstance(problem, errors.DeliveryError):
            return RetryableError(FailureKind.RATE_LIMIT, f"the queue refused the message: {text}", not_sent=True)
        if isinstance(problem, errors.ChannelNotFoundEntity):
            return RetryableError(FailureKind.NOT_FOUND, text)
        if isinstance(problem, (asyncio.TimeoutError, TimeoutError)):
            return TimeoutError(text)
        if isinstance(problem, (ssl.SSLError, errors.IncompatibleProtocolError)):
            return RetryableError(FailureKind.NETWORK, text)
        if isinstance(problem, errors.ConnectionClosed):
            return ConnectionResetError(text)
        if isinstance(problem, errors.AMQPConnectionError):
            return self._cause(problem) or RetryableError(FailureKind.NETWORK, text)
        if isinstance(problem, (errors.AMQPError, errors.ChannelInvalidStateError)):
            return RetryableError(FailureKind.NETWORK, text)
        return problem

    def _cause(self, problem: BaseException | None) -> BaseException | None:
        """Returns the exception of the system behind one of the client, which may be wrapped several times."""
        for _ in range(8):
            if problem is None:
                break
            if isinstance(problem, OSError) and not isinstance(problem, self._errors.AMQPError):
                return problem
            problem = problem.__cause__ or problem.__context__
        return None

    def _shut(self, connection: _Connection) -> None:
        self._start(connection.link.close())

    def _has_ended(self, connection: _Connection) -> bool:
        return connection.ended.done() or connection.link.is_closed


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > _LONGEST_NAME or "\0" in name:
        raise InvalidError(f"the name of a queue or header must have 1 to {_LONGEST_NAME} bytes, got {name!r}")

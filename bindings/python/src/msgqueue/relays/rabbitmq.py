"""A transport that publishes each message to RabbitMQ."""

from __future__ import annotations

import asyncio
import importlib
import re
import ssl
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .loop import LoopRelay, answers_of, quiet
from .problems import (
    RejectedError,
    RetryableError,
    SkippedError,
    TogetherError,
    UnauthorizedError,
    UnavailableError,
)
from .targets import Target, address_of, check_options, checked_target, for_target, headers_of, text_of

# The client logs each failed attempt to connect here.
_LOGGERS = ("aiormq.connection", "aiormq.channel", "aio_pika.channel")
# Options of the client that the relay sets, and those that the client reads besides the parameters of a connection.
_OWN = (
    *("connection_class", "host", "login", "loop", "password", "port", "ssl", "timeout", "url", "virtualhost"),
    # Of the class that connects again by itself.
    *("fail_fast", "reconnect_interval"),
)
_KNOWN = (
    *("auth", "cadata", "cafile", "capath", "certfile", "client_properties", "heartbeat", "keyfile", "name"),
    *("no_verify_ssl", "ssl_context", "ssl_options"),
)
_LONGEST_NAME = 255
# The headers of a message must fit into one frame of the protocol, of 128 KiB.
_LARGEST_HEADERS = 120_000
_ALARM = "RabbitMQ takes no messages because of an alarm: it is short of memory or of disk space"
_TOO_LARGE = re.compile(r"message size \d+ (?:is )?larger than configured max size (\d+)")


class _Message(NamedTuple):
    queue: str
    body: bytes
    properties: Any


class _Connection:
    """A connection, the channel that publishes, and what its callbacks reported."""

    def __init__(self) -> None:
        self.link: Any = None
        self.channel: Any = None
        # The same channel, of the library that `aio_pika` uses.
        self.underlay: Any = None
        # The end of the link, and the end of the channel, which the link survives.
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.channel_ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.problem: BaseException | None = None
        # What was published on the channel and has no answer.
        self.unanswered: set[object] = set()
        # The queues, and the exchange, that the server has for sure.
        self.known: set[str] = set()

    def end(self, problem: object) -> None:
        if not self.ended.done():
            self.ended.set_result(_ending("connection", problem))
        self.end_channel(problem)

    def end_channel(self, problem: object) -> None:
        if not self.channel_ended.done():
            self.problem = problem if isinstance(problem, BaseException) else None
            self.channel_ended.set_result(_ending("channel", problem))

    async def open_channel(self) -> None:
        """Opens the channel that publishes."""
        self.problem, self.unanswered = None, set()
        ended = self.channel_ended = asyncio.get_running_loop().create_future()
        channel = self.channel = await self.link.channel(publisher_confirms=True, on_return_raises=True)
        self.underlay = await channel.get_underlay_channel()

        def closed(_sender: object, problem: BaseException | None = None) -> None:
            if self.channel_ended is ended:
                self.end_channel(problem)

        channel.close_callbacks.add(closed)

    def is_blocked(self) -> bool:
        """Whether the server takes no messages because of an alarm: it is short of memory, or of disk space."""
        waiting = self.link.transport.connection.ready()
        try:
            waiting.send(None)
        except StopIteration:
            return False
        finally:
            waiting.close()
        return True

    async def blocked(self) -> None:
        """Waits until the server reports an alarm."""
        while not self.is_blocked():
            await asyncio.sleep(0.02)


class RabbitMq(LoopRelay[_Connection, _Message]):
    """Publishes messages with publisher confirms.

    A message is persistent; its message_id is the message's id. The headers are msgq-id, msgq-conversation (unless it
    is "") and the metadata. The relay declares each queue as a durable quorum queue.

    RabbitMQ confirms a message when the queue has it: a quorum queue when a majority of its nodes have written it to
    disk. While there is no such queue or exchange, the queue is full, or RabbitMQ takes no messages because of an alarm
    (memory, disk), this queue is held and no retry is used up. If a function names the queue, a message that no queue
    takes is retried with kind NOT_FOUND, and one that a full queue refuses with kind RATE_LIMIT. RabbitMQ does not
    remove duplicates: consumers must, by the id.
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
            **options: Passed to `aio_pika.connect`, for example heartbeat.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: aio-pika is not installed.
        """
        super().__init__(timeout=timeout)
        quiet(_LOGGERS)
        _, host, port = address_of(url, {"amqp": 5672, "amqps": 5671})
        self._url = url
        self._address = f"{host}:{port}"
        self._errors: Any = importlib.import_module("aiormq.exceptions")
        self._queue = checked_target("queue", queue, _check_name)
        self._exchange = exchange
        self._declare = declare and not exchange
        parameters = getattr(self._client.connection.Connection, "PARAMETERS", ())
        check_options(options, own=_OWN, known={*_KNOWN, *(each.name for each in parameters)})
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
            b"",
            headers=dict(headers),
            message_id=delivery.id if len(delivery.id.encode()) <= _LONGEST_NAME else None,
            delivery_mode=self._client.DeliveryMode.PERSISTENT,
        )
        return _Message(queue, delivery.body, message.properties)

    def _check_size(self, size: int) -> None:
        if self._largest is not None and size > self._largest:
            raise RejectedError(f"the message is larger than the limit of RabbitMQ ({self._largest} bytes)")

    def _open(self, timeout: float) -> _Connection:
        return self._run(lambda: self._connect(timeout), timeout)

    async def _connect(self, timeout: float) -> _Connection:
        connection = _Connection()

        def ended(_sender: object, problem: BaseException | None = None) -> None:
            connection.end(problem)
            self._look.set()

        options = {"heartbeat": 10, **self._options}
        make = self._client.connection.Connection

        def made(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - of the client
            connection.link = make(*arguments, **named)
            return connection.link

        try:
            link = await self._client.connect(self._url, timeout=timeout, connection_class=made, **options)
            link.close_callbacks.add(ended)
            await connection.open_channel()
            await self._probe(connection)
        except BaseException:
            # The client leaves open what it opened, and one that could not connect.
            if connection.link is not None:
                self._start(connection.link.close)
            raise
        return connection

    async def _probe(self, connection: _Connection) -> None:
        """Publishes a message that no queue takes: RabbitMQ says only then whether it has an alarm."""
        nothing = self._client.Message(b"")
        publish = connection.channel.default_exchange.publish(nothing, f"msgq-{uuid.uuid4()}", mandatory=False)
        blocked, published = asyncio.ensure_future(connection.blocked()), asyncio.ensure_future(publish)
        try:
            await asyncio.wait((published, blocked, connection.channel_ended), return_when=asyncio.FIRST_COMPLETED)
            if published.done() or connection.channel_ended.done():
                # The user may be permitted to publish elsewhere only, which closed the channel.
                if connection.channel.is_closed and not connection.ended.done():
                    await connection.open_channel()
                return
            raise UnavailableError(_ALARM)
        finally:
            blocked.cancel()
            published.cancel()
            await asyncio.gather(blocked, published, return_exceptions=True)

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        answers = self._run(lambda: self._publish_all(connection, messages, timeout), timeout + 1)
        found = _TOO_LARGE.search(" ".join(map(str, [connection.problem, *answers])))
        if found is None:
            return answers
        # RabbitMQ closed the channel because of one of them, and stored nothing that was published later.
        self._largest = int(found.group(1))
        is_after = False
        judged: list[BaseException | None] = []
        for message, answer in zip(messages, answers):
            judged.append(self._judged_size(message, answer, is_after=is_after))
            is_after = is_after or isinstance(judged[-1], RejectedError)
        return judged

    async def _publish_all(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        if connection.is_blocked():
            raise UnavailableError(_ALARM)
        if connection.channel.is_closed:
            await connection.open_channel()
        problems = {queue: await self._problem_of(connection, queue) for queue in {each.queue for each in messages}}
        sent = [each for each in messages if problems[each.queue] is None]
        ended = connection.channel_ended
        found = await answers_of([self._publish(connection, each) for each in sent], ended, timeout)
        answers = iter([self._answer_of(connection, each, answer) for each, answer in zip(sent, found)])
        return [next(answers) if problems[each.queue] is None else problems[each.queue] for each in messages]

    def _answer_of(
        self, connection: _Connection, message: _Message, answer: BaseException | None
    ) -> BaseException | None:
        """Returns what a message's answer means, if the server ended the channel."""
        errors = self._errors
        if isinstance(answer, errors.PublishError) and self._declare:
            # Somebody has deleted the queue.
            connection.known.discard(message.queue)
        refusals = (errors.ChannelNotFoundEntity, errors.ChannelAccessRefused)
        found = (each for each in (connection.problem, answer) if isinstance(each, refusals))
        refusal: BaseException | None = next(found, None)
        if refusal is None or answer is None or isinstance(answer, (errors.DeliveryError, SkippedError)):
            return answer
        connection.known.discard(self._exchange)
        if len(connection.unanswered) == 1:
            return refusal
        # The server has read one of them after the exchange or the permission was gone, perhaps not the first.
        return ConnectionResetError(f"the channel ended: {refusal}")

    async def _problem_of(self, connection: _Connection, queue: str) -> BaseException | None:
        """Returns why messages cannot be published for a queue; None: they can."""
        name = self._exchange or (queue if self._declare else "")
        if not name or name in connection.known:
            return None
        try:
            # An error closes the channel, but not the one that publishes.
            async with connection.link.channel() as channel:
                if self._exchange:
                    await channel.get_exchange(name, ensure=True)
                else:
                    await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        except self._errors.ChannelAccessRefused as problem:
            return for_target(self._name_of(queue), str(problem), UnauthorizedError(str(problem)))
        except self._errors.ChannelNotFoundEntity as problem:
            return UnavailableError(str(problem))
        except self._errors.AMQPChannelError as problem:
            text = str(problem)
            return for_target(self._name_of(queue), text, RetryableError(FailureKind.SERVER, text, not_sent=True))
        connection.known.add(name)
        return None

    def _name_of(self, queue: str) -> Target:
        """Returns what names where messages go, which is the same for all with an exchange."""
        return queue if self._exchange else self._queue

    def _judged_size(self, message: _Message, answer: BaseException | None, *, is_after: bool) -> BaseException | None:
        if answer is None or isinstance(answer, SkippedError):
            return answer
        try:
            self._check_size(len(message.body))
        except RejectedError as problem:
            return problem
        text = "the channel ended because of another message"
        return TogetherError(text) if is_after else ConnectionResetError(text)

    async def _publish(self, connection: _Connection, message: _Message) -> None:
        if connection.channel.is_closed:
            raise SkippedError("the channel ended before the message was sent")
        unanswered, publication = connection.unanswered, object()
        unanswered.add(publication)
        try:
            # `publish` of an exchange would wait, before the next message, until the socket has taken this one.
            await connection.underlay.basic_publish(
                message.body,
                exchange=self._exchange,
                routing_key=message.queue,
                properties=message.properties,
                mandatory=True,
                wait=False,
            )
        except self._errors.ChannelInvalidStateError:
            # The client has written nothing of it.
            unanswered.discard(publication)
            raise SkippedError("the channel ended before the message was sent") from None
        except self._errors.DeliveryError:
            unanswered.discard(publication)
            raise
        unanswered.discard(publication)

    def _translate(self, problem: BaseException) -> BaseException:
        errors, text = self._errors, str(problem)
        if isinstance(problem, errors.ChannelAccessRefused):
            return for_target(self._queue, text, UnauthorizedError(text))
        refused = (errors.AuthenticationError, errors.ProbableAuthenticationError, errors.ConnectionNotAllowed)
        if isinstance(problem, refused) or "ACCESS_REFUSED" in text or "NOT_ALLOWED" in text:
            return UnavailableError(text)
        if isinstance(problem, errors.PublishError):
            text = "no queue takes the message"
            return for_target(self._queue, text, RetryableError(FailureKind.NOT_FOUND, text, not_sent=True))
        if isinstance(problem, errors.DeliveryError):
            text = "the queue refused the message; it may be full"
            return for_target(self._queue, text, RetryableError(FailureKind.RATE_LIMIT, text, not_sent=True))
        if isinstance(problem, errors.ChannelNotFoundEntity):
            return UnavailableError(text)
        if isinstance(problem, errors.InvalidFrameError) and "Connection.OpenOk" in text:
            # The client drops what the server said.
            host = unquote(urlsplit(self._url).path.removeprefix("/")) or "/"
            return UnavailableError(
                f"the server refused the virtual host {host!r}: there is none, or the user may not use it"
            )
        if isinstance(problem, (asyncio.TimeoutError, TimeoutError)):
            return TimeoutError(text)
        if isinstance(problem, (ssl.SSLError, errors.IncompatibleProtocolError)):
            return RetryableError(FailureKind.NETWORK, text)
        if isinstance(problem, errors.ConnectionClosed):
            return ConnectionResetError(text)
        if isinstance(problem, errors.AMQPConnectionError):
            return self._cause(problem) or ConnectionResetError(text)
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
        self._start(connection.link.close)

    @property
    def _place(self) -> str:
        return self._address

    def _has_ended(self, connection: _Connection) -> bool:
        return connection.ended.done() or connection.link.is_closed


def _ending(what: str, problem: object) -> str:
    return f"the {what} ended" if problem is None else f"the {what} ended: {problem}"


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > _LONGEST_NAME or "\0" in name:
        raise InvalidError(f"the name of a queue or header must have 1 to {_LONGEST_NAME} bytes, got {name!r}")

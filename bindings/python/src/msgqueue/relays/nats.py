"""A transport that publishes each message to a stream of NATS JetStream."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from .. import _arguments
from .._failures import described
from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .loop import LoopRelay
from .problems import RejectedError, RetryableError, SkippedError, UnauthorizedError, UnavailableError
from .reasons import logger, seconds
from .targets import Target, check_options, checked_target, for_target, headers_of, split_url, text_of

_DAY = 86400.0
_SCHEMES = ("nats", "tls", "ws", "wss")
# Options of the client that the relay sets.
_OWN = (
    "allow_reconnect",
    "closed_cb",
    "connect_timeout",
    "disconnected_cb",
    "error_cb",
    "max_reconnect_attempts",
    "reconnect_time_wait",
    "reconnect_to_server_handler",
    "reconnected_cb",
    "servers",
)
_SUBJECT = re.compile(r"[^\s.*>\x00-\x1f\x7f]+(\.[^\s.*>\x00-\x1f\x7f]+)*\Z")
_NAME = re.compile(r"[!-9;-~]+\Z")
_BREAK = re.compile("[\r\n\0]")
# The client makes lower case of what the server says. The server quotes the subject.
_VIOLATION = re.compile(r'permissions violation for publish to "((?:[^"\\]|\\["\\])*)"', re.IGNORECASE)
# How a stream says that it stored a message, so far. Reading JSON takes three times as long.
_STORED = re.compile(rb'\{"stream":"([\w-]+)", ?"seq":[0-9]+(?:, ?"duplicate": ?true)?\}\Z')
# Codes of JetStream: the message is larger than the stream permits.
_TOO_LARGE = 10054
# These: the server or the account takes no messages at all (resources, storage, JetStream is off or not ready).
_UNAVAILABLE = (10002, 10008, 10023, 10028, 10039, 10047, 10074, 10076)


class _Message(NamedTuple):
    conversation: str
    subject: str
    body: bytes
    headers: dict[str, str]


class _Batch:
    """The messages of one call, and the answers to them. Each message of a conversation follows the answer to another.

    An answer is None, or why the message was not stored.
    """

    def __init__(self, messages: Sequence[_Message]) -> None:
        self.messages = messages
        self.answers: list[BaseException | None] = [None] * len(messages)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The places of the messages that wait for an answer, and the subjects of these.
        self.waiting: dict[int, str] = {}
        # The first place of each conversation; for the place of a message, that of the next one of its conversation.
        self.firsts: list[int] = []
        self._next: dict[int, int] = {}
        lasts: dict[str, int] = {}
        for place, message in enumerate(messages):
            before = lasts.get(message.conversation)
            if before is None:
                self.firsts.append(place)
            else:
                self._next[before] = place
            lasts[message.conversation] = place
        self._conversations = len(lasts)

    def answer(self, place: int, answer: BaseException | None) -> int | None:
        """Notes the answer to a message that was published. Returns the place of the message to publish now."""
        self.answers[place] = answer
        del self.waiting[place]
        following = self._next.get(place)
        if answer is None and following is not None:
            return following
        while following is not None:
            self.answers[following] = SkippedError()
            following = self._next.get(following)
        self._conversations -= 1
        if not self._conversations and not self.done.done():
            self.done.set_result(None)
        return None


class _Connection:
    """A client, and what its callbacks reported."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.client: Any = None
        # The answers come to subjects that begin with this; by their subject, the batch and the place of a message.
        self.inbox = ""
        self.published = 0
        self.waiting: dict[str, tuple[_Batch, int]] = {}
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.problem: BaseException | None = None
        # By a subject of messages in lower case: the inboxes of those that were published and not answered, also when
        # nobody waits for the answer any more; and what the server said when it refused some of them, which it does
        # at most once for each of these.
        self.unanswered: dict[str, set[str]] = {}
        self.refusals: dict[str, list[str]] = {}
        # What the server said last when it refused something else. There may be any number of these.
        self.unclear = ""

    def wait(self, batch: _Batch, place: int) -> str:
        """Notes that a message is being published. Returns the subject to which its answer comes."""
        inbox = f"{self.inbox}{self.published}"
        self.published += 1
        self.waiting[inbox] = (batch, place)
        batch.waiting[place] = inbox
        self.unanswered.setdefault(batch.messages[place].subject.lower(), set()).add(inbox)
        return inbox

    def answered(self, inbox: str) -> tuple[_Batch, int] | None:
        """Notes that a message was answered. Returns its batch and its place, if its batch waits for it."""
        found = self.waiting.pop(inbox, None)
        if found is not None:
            batch, place = found
            subject = batch.messages[place].subject.lower()
            inboxes = self.unanswered.get(subject, set())
            inboxes.discard(inbox)
            if not inboxes:
                self.unanswered.pop(subject, None)
                # What the server refused beside was none of these.
                self.refusals.pop(subject, None)
            elif subject in self.refusals:
                self._settle(subject)
        return found

    def refused(self, text: str) -> None:
        """Notes that the server refused a message. It says the subject, but not which message."""
        found = _VIOLATION.search(text)
        subject = "" if found is None else re.sub(r"\\(.)", r"\1", found.group(1)).lower()
        if subject not in self.unanswered:
            # It is none of the messages, also not of those that are published on this subject later.
            self.unclear = text
            return
        self.refusals.setdefault(subject, []).append(text)
        self._settle(subject)

    def refusal(self, subject: str) -> str:
        """Returns what the server refused and may be a message of this subject; "": nothing."""
        texts = self.refusals.get(subject.lower())
        return texts[-1] if texts else self.unclear

    def _settle(self, subject: str) -> None:
        """Answers the messages of a subject when as many were refused as have no answer: it is these."""
        inboxes = self.unanswered.get(subject)
        if not inboxes or len(self.refusals[subject]) < len(inboxes):
            return
        text = self.refusals.pop(subject)[-1]
        del self.unanswered[subject]
        for inbox in inboxes:
            batch, place = self.waiting.pop(inbox, (None, 0))
            if batch is not None:
                batch.answer(place, for_target(self.target, text, UnauthorizedError(text)))

    def end(self, text: str) -> None:
        if not self.ended.done():
            self.ended.set_result(text)


class Nats(LoopRelay[_Connection, _Message]):
    """Publishes messages to JetStream, which acknowledges each when a stream has stored it.

    The headers are Nats-Msg-Id (the message's id), msgq-id, msgq-conversation (unless it is "") and the metadata. A
    value must not contain a line break. An id or a conversation with white space at its ends is rejected; the client
    removes it from the ends of a value of the metadata.

    JetStream removes a message whose id it received within the stream's duplicate window: 2 minutes unless it is
    configured. A message that is sent again later, because the connection was lost in the moment of its
    acknowledgement, is stored twice. The relay logs a warning when the window is shorter than `longest_gap`.

    While no stream stores the subject, or the stream is full, the queue is held and no retry is used up. If a function
    names the subject, such a message is retried, with kind NOT_FOUND or SERVER.
    """

    library = "nats"
    extra = "nats"
    keeps_order = True

    def __init__(
        self,
        servers: str | Sequence[str],
        subject: Target,
        *,
        longest_gap: float = _DAY,
        timeout: float = 10.0,
        **options: Any,  # noqa: ANN401 - those of nats.connect
    ) -> None:
        """Makes the relay; connects nowhere yet.

        Args:
            servers: nats:// or tls://, with user name and password; several for a cluster.
            subject: The subject, or a function of the delivery that returns it.
            longest_gap: Seconds between an attempt with an unknown outcome and the next one that the duplicate window
                of the stream should cover: as long as this program may be offline.
            timeout: Seconds that connecting and the acknowledgement may take together.
            **options: Passed to `nats.connect`, for example user_credentials. What concerns reconnecting, time-outs and
                errors is not among them.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: nats-py is not installed.
        """
        super().__init__(timeout=timeout)
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        if not self._servers:
            raise InvalidError("servers must not be empty")
        self._places = ", ".join(map(_checked_server, self._servers))
        self._subject = checked_target("subject", subject, _check_subject)
        self._gap = _arguments.finite("longest_gap", longest_gap)
        check_options(options, own=_OWN, known=inspect.signature(self._client.NATS.connect).parameters)
        self._options = options
        self._is_secure = "tls" in options or any(each.startswith("tls:") for each in self._servers)
        self._known: set[str] = set()

    def _form(self, connection: _Connection, delivery: Delivery) -> _Message:
        subject = self._subject
        if not isinstance(subject, str):
            # A subject that is the same for all messages was checked by the constructor.
            subject = text_of(subject, delivery)
            _check_subject(subject)
        headers = {"Nats-Msg-Id": delivery.id, **dict(headers_of(delivery))}
        for name in delivery.metadata:
            if not _NAME.match(name) or name.lower().startswith("nats-"):
                raise RejectedError(f"{name!r} cannot be the name of a header of NATS")
        for what, text in (("id", delivery.id), ("conversation", delivery.conversation)):
            # The client would send it without that.
            if text != text.strip():
                raise RejectedError(f"the {what} must not have white space at its ends for NATS, got {text!r}")
        values = "".join(headers.values())
        if _BREAK.search(values):
            raise RejectedError("a header of NATS must not contain a line break")
        names = sum(map(len, headers)) + 4 * len(headers)
        size = len(delivery.body) + 12 + names + (len(values) if values.isascii() else len(values.encode()))
        if size > connection.client.max_payload:
            raise RejectedError(f"the message is larger than the limit of NATS ({connection.client.max_payload} bytes)")
        return _Message(delivery.conversation, subject, delivery.body, headers)

    def _open(self, timeout: float) -> _Connection:
        return self._run(lambda: self._connect(timeout), timeout)

    async def _connect(self, timeout: float) -> _Connection:
        connection = _Connection(self._subject)

        async def disconnected() -> None:
            connection.end("the connection to NATS was lost")
            # One that was never open does not hasten the next attempt.
            if self._connection is connection:
                self._look.set()

        async def failed(problem: Exception) -> None:
            connection.problem = problem
            if "permissions violation for publish" in str(problem).lower():
                connection.refused(str(problem))

        options = {
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "connect_timeout": timeout,
            "ping_interval": 10,
            "max_outstanding_pings": 2,
            "pending_size": 64 * 1024 * 1024,
            **self._options,
            "disconnected_cb": disconnected,
            "closed_cb": disconnected,
            "error_cb": failed,
        }
        if self._is_secure:
            options.setdefault("tls", ssl.create_default_context())
        client = connection.client = self._client.NATS()

        async def replied(message: Any) -> None:  # noqa: ANN401 - a message of the client
            found = connection.answered(message.subject)
            if found is not None:
                batch, place = found
                following = batch.answer(place, self._answer(connection, message))
                if following is not None:
                    await _publish(connection, batch, following)

        try:
            await client.connect(servers=self._servers, **options)
            # The client uses TLS only when the server asks for it.
            if self._is_secure and not (client._server_info.get("tls_required") or options.get("tls_handshake_first")):
                raise ssl.SSLError("the server does not use TLS")
            connection.inbox = f"{client.new_inbox()}."
            await client.subscribe(f"{connection.inbox}*", cb=replied)
        except BaseException as problem:
            # The client leaves open what it opened. CancelledError: time is up.
            self._start(client.close)
            if isinstance(problem, self._client.errors.NoServersError):
                raise connection.problem or ConnectionRefusedError("no server") from None
            raise
        return connection

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        return self._run(lambda: self._publish_all(connection, messages, timeout), timeout + 1)

    async def _publish_all(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> list[BaseException | None]:
        """Publishes messages, and waits until all are answered, the connection ends, or time is up."""
        batch = _Batch(messages)
        try:
            for place in batch.firsts:
                await _publish(connection, batch, place)
            both: set[asyncio.Future[Any]] = {batch.done, connection.ended}
            await asyncio.wait(both, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for subject in batch.waiting.values():
                connection.waiting.pop(subject, None)
        for place in list(batch.waiting):
            ended = connection.ended.done()
            text = f"no answer within {seconds(timeout)}"
            refusal = connection.refusal(messages[place].subject)
            if refusal:
                text += f"; the server refused a message: {refusal}"
            batch.answer(place, ConnectionResetError(connection.ended.result()) if ended else TimeoutError(text))
        return batch.answers

    def _answer(self, connection: _Connection, message: Any) -> BaseException | None:  # noqa: ANN401 - of the client
        """Returns why a stream did not store a message; None: it did."""
        errors = self._client.js.errors
        if message.headers and message.headers.get("Status") == "503":
            return cast(BaseException, errors.NoStreamResponseError())
        stored = _STORED.match(message.data)
        if stored is not None:
            self._note_stream(connection, stored[1].decode())
            return None
        try:
            answer = json.loads(message.data)
            if "error" in answer:
                # It raises the error.
                errors.APIError.from_error(answer["error"])
            name = answer["stream"]
        except errors.APIError as problem:
            return cast(BaseException, problem)
        except Exception as problem:  # noqa: BLE001 - it may be anything
            return RetryableError(FailureKind.SERVER, f"an unexpected answer of the server: {described(problem)}")
        self._note_stream(connection, name)
        return None

    def _note_stream(self, connection: _Connection, name: str) -> None:
        """Notes the name of a stream that stored a message."""
        if name not in self._known:
            self._known.add(name)
            self._start(lambda: self._check_window(connection, name))

    async def _check_window(self, connection: _Connection, name: str) -> None:
        try:
            stream = connection.client.jetstream(timeout=self._timeout)
            window = (await stream.stream_info(name)).config.duplicate_window or 0
        except Exception as problem:  # noqa: BLE001 - a warning only
            logger.warning("the duplicate window of the stream %s could not be read: %s", name, problem)
            return
        if window < self._gap:
            text = (
                "the stream %s removes duplicates within %g s, but this program may be offline for %g s: "
                "set its duplicate_window, or remove duplicates by the header Nats-Msg-Id where messages are consumed"
            )
            logger.warning(text, name, window, self._gap)

    def _is_late(self, problem: BaseException | None) -> bool:
        return isinstance(problem, (TimeoutError, asyncio.TimeoutError, self._client.errors.TimeoutError))

    def _translate(self, problem: BaseException) -> BaseException:
        errors, streams = self._client.errors, self._client.js.errors
        text = str(problem)
        if isinstance(problem, errors.AuthorizationError) or "authorization violation" in text.lower():
            return UnavailableError(text)
        if self._is_late(problem):
            return TimeoutError(text)
        if isinstance(problem, streams.NoStreamResponseError):
            text = "no stream stores the subject"
            return for_target(self._subject, text, RetryableError(FailureKind.NOT_FOUND, text, not_sent=True))
        if isinstance(problem, streams.APIError):
            text = str(problem.description or problem)
            if problem.err_code == _TOO_LARGE:
                return RejectedError(text)
            if problem.err_code in _UNAVAILABLE:
                return UnavailableError(text)
            return for_target(self._subject, text, RetryableError(FailureKind.SERVER, text, not_sent=True))
        if isinstance(
            problem, (errors.ConnectionClosedError, errors.StaleConnectionError, errors.OutboundBufferLimitError)
        ):
            return ConnectionResetError(text)
        if isinstance(problem, errors.Error):
            return RetryableError(FailureKind.SERVER, text)
        return problem

    def _shut(self, connection: _Connection) -> None:
        self._start(connection.client.close)

    @property
    def _place(self) -> str:
        return self._places

    def _has_ended(self, connection: _Connection) -> bool:
        return connection.ended.done() or not connection.client.is_connected


async def _publish(connection: _Connection, batch: _Batch, place: int) -> None:
    """Publishes a message of a batch."""
    message, inbox = batch.messages[place], connection.wait(batch, place)
    try:
        await connection.client.publish(message.subject, message.body, inbox, message.headers)
    except Exception as problem:  # noqa: BLE001 - the client may raise anything; the others are sent
        if connection.answered(inbox):
            batch.answer(place, problem)


def _checked_server(server: str) -> str:
    """Checks the URL of a server, and returns its host and port."""
    parts = split_url(server if "://" in server else f"nats://{server}")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise InvalidError("the URL of a server must be nats://host or tls://host")
    return f"{parts.hostname}:{parts.port or 4222}"


def _check_subject(subject: str) -> None:
    if not _SUBJECT.match(subject):
        raise InvalidError(
            f"the subject must be words without spaces and wildcards, separated by dots, got {subject!r}"
        )

"""A transport that adds each message to a Redis stream, once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _arguments
from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .base import (
    RejectedError,
    Relay,
    RetryableError,
    SkippedError,
    Target,
    UnauthorizedError,
    checked_target,
    headers_of,
    text_of,
)

# Adds messages in one round trip; an id that was added before is not added again. After the first failure of a
# conversation its later messages are not tried. Returns the number of each message that was not added, from 1, and why.
# KEYS: the streams. ARGV: seconds to remember ids, length of the stream (0: no limit), then strings with the messages:
# the number of the stream in KEYS, the number of fields and values, and these, each after its length. The client needs
# several times as long for an argument as for a text in a string.
_SCRIPT = """
local problems, failed, formats, number = {}, {}, {}, 0
for place = 3, #ARGV do
  local data, at = ARGV[place], 1
  while at <= #data do
    local key, count, answer
    key, count, at = struct.unpack('>I4I4', data, at)
    formats[count] = formats[count] or '>' .. string.rep('I4c0', count)
    local texts = {struct.unpack(formats[count], data, at)}
    at = table.remove(texts)
    local stream, conversation = KEYS[key], texts[3] == 'msgq-conversation' and texts[4] or ''
    local seen = stream .. ':seen:' .. texts[2]
    if failed[conversation] then
      answer = 'skipped'
    elseif redis.call('EXISTS', seen) == 0 then
      local added
      if ARGV[2] == '0' then
        added = redis.pcall('XADD', stream, '*', unpack(texts))
      else
        added = redis.pcall('XADD', stream, 'MAXLEN', '~', ARGV[2], '*', unpack(texts))
      end
      if type(added) == 'table' and added.err then
        answer, failed[conversation] = added.err, true
      else
        redis.call('SET', seen, added, 'EX', ARGV[1])
      end
    end
    number = number + 1
    if answer then
      problems[#problems + 1], problems[#problems + 2] = number, answer
    end
  end
end
return problems
"""
BODY = b"msgq-body"
_WEEK = 7 * 86400.0
_LARGEST = 512 * 1024 * 1024
# Fields and values that a script can pass to a command, with some to spare.
_MOST_TEXTS = 7000
# Bytes of an argument of the script, unless one message is larger.
_ARGUMENT = 1024 * 1024
_pack = struct.Struct(">I").pack


class _Message(NamedTuple):
    stream: str
    data: bytes


class _Connection(NamedTuple):
    client: Any
    script: Any
    largest: int


class RedisStream(Relay[_Connection, _Message]):
    """Adds messages to a stream with XADD.

    An entry has the fields msgq-id, msgq-conversation (unless it is ""), the metadata, and msgq-body. A script adds an
    entry and remembers its id (the key STREAM:seen:ID, which expires) in one step, so a message that is sent again is
    not added again while its id is remembered. Redis Cluster is not supported.

    With `appendfsync always` in the configuration of Redis an acknowledged message survives a crash and power loss.
    With the default (`everysec`) up to about a second of acknowledged messages may be lost.

    A Redis that is full (maxmemory), loading or a read-only replica is retried. A stream name that is another type of
    key is a final failure, and so is a message that is larger, with its headers, than proto-max-bulk-len, or has more
    than 3,499 headers.
    """

    library = "redis"
    extra = "redis"
    keeps_order = True

    def __init__(
        self,
        url: str,
        stream: Target,
        *,
        remember: float = _WEEK,
        max_length: int = 0,
        timeout: float = 10.0,
        **options: Any,  # noqa: ANN401 - those of redis.Redis
    ) -> None:
        """Makes the relay; connects nowhere yet.

        Args:
            url: redis://, rediss:// (TLS) or unix://, with user name and password, as `redis.Redis.from_url` reads it.
            stream: The name of the stream, or a function of the delivery that returns it.
            remember: Seconds for which the id of an added message is remembered: 1 s to 10 years.
            max_length: Entries that the stream keeps, about; older ones are deleted. 0: all.
            timeout: Seconds that connecting and the answer to a batch may take together.
            **options: Passed to `redis.Redis.from_url`, for example ssl_ca_certs.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: redis is not installed.
        """
        super().__init__(timeout=timeout)
        self._stream = checked_target("stream", stream)
        if not 1 <= _arguments.finite("remember", remember) <= 3650 * 86400:
            raise InvalidError(f"remember must be 1 second to 10 years, got {remember}")
        self._remember = int(remember)
        self._max_length = _arguments.unsigned("max_length", max_length)
        retry = self._client.retry.Retry(self._client.backoff.NoBackoff(), 0)
        pool = self._client.ConnectionPool.from_url
        try:
            self._pool: Any = lambda limit: pool(
                url, **{"retry": retry, "socket_timeout": limit, "socket_connect_timeout": limit, **options}
            )
            self._pool(timeout)
        except (TypeError, ValueError) as problem:
            raise InvalidError(f"{problem}") from None

    def _form(self, connection: _Connection, delivery: Delivery) -> _Message:
        stream = text_of(self._stream, delivery)
        if not stream:
            raise RejectedError("the name of the stream is empty")
        texts = [each.encode() for pair in headers_of(delivery) for each in pair]
        texts += (BODY, delivery.body)
        if len(texts) > _MOST_TEXTS:
            raise RejectedError(f"the message has more than {_MOST_TEXTS // 2 - 1} headers")
        # Redis closes the connection when an argument is too large.
        if sum(map(len, texts)) + 4 * len(texts) + 8 > connection.largest:
            raise RejectedError(f"the message is larger than the limit of Redis ({connection.largest} bytes)")
        parts = [_pack(len(texts))]
        for text in texts:
            parts += (_pack(len(text)), text)
        return _Message(stream, b"".join(parts))

    def _open(self, timeout: float) -> _Connection:
        client = self._client.Redis(connection_pool=self._pool(timeout))
        try:
            client.ping()
            try:
                found = client.config_get("proto-max-bulk-len")
            except self._client.exceptions.ResponseError:
                # The user may not read the configuration.
                found = {}
            largest = int(found.get("proto-max-bulk-len", _LARGEST))
            return _Connection(client, client.register_script(_SCRIPT), largest)
        except BaseException:
            client.close()
            client.connection_pool.disconnect()
            raise

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        streams = {stream: number for number, stream in enumerate(dict.fromkeys(each.stream for each in messages), 1)}
        arguments: list[Any] = [self._remember, self._max_length]
        parts: list[bytes] = []
        size, limit = 0, min(_ARGUMENT, connection.largest)
        for stream, data in messages:
            if size + len(data) + 4 > limit and parts:
                arguments.append(b"".join(parts))
                parts, size = [], 0
            parts += (_pack(streams[stream]), data)
            size += len(data) + 4
        problems = connection.script(keys=list(streams), args=[*arguments, b"".join(parts)])
        answers: list[BaseException | None] = [None] * len(messages)
        for number, problem in zip(problems[::2], problems[1::2]):
            answers[number - 1] = self._answer(problem)
        return answers

    def _answer(self, problem: bytes | str) -> BaseException:
        text = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else problem
        if text == "skipped":
            return SkippedError()
        # Redis puts the code of an error first.
        if "WRONGTYPE" in text:
            return RejectedError(text)
        return self._failure(text)

    def _failure(self, text: str) -> BaseException:
        if any(code in text for code in ("NOPERM", "NOAUTH", "WRONGPASS")):
            return UnauthorizedError(text)
        return RetryableError(FailureKind.SERVER, text, not_sent=True)

    def _translate(self, problem: BaseException) -> BaseException:
        errors = self._client.exceptions
        if isinstance(problem, (errors.AuthenticationError, errors.NoPermissionError)):
            return UnauthorizedError(str(problem))
        if isinstance(problem, errors.TimeoutError):
            return TimeoutError(str(problem))
        if isinstance(problem, errors.BusyLoadingError):
            return RetryableError(FailureKind.SERVER, str(problem), not_sent=True)
        if isinstance(problem, errors.ConnectionError):
            cause = problem.__cause__ or problem.__context__
            return cause if isinstance(cause, OSError) else ConnectionError(str(problem))
        if isinstance(problem, errors.InvalidResponse):
            return RetryableError(FailureKind.SERVER, str(problem))
        if isinstance(problem, errors.ResponseError):
            return self._failure(str(problem))
        return problem

    def _shut(self, connection: _Connection) -> None:
        connection.client.connection_pool.disconnect()

    def _is_alive(self, connection: _Connection) -> bool:
        try:
            connection.client.ping()
        except Exception:  # noqa: BLE001 - whatever it is, the connection is opened again
            return False
        return True

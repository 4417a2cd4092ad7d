"""A transport that adds each message to a Redis stream, once."""

from __future__ import annotations

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
# conversation its later messages are not tried. ARGV: seconds to remember ids, length of the stream (0: no limit),
# then for each message its id, conversation, number of fields and values, and these. KEYS: the stream of each message.
_SCRIPT = """
local answers, failed, at = {}, {}, 3
for number, stream in ipairs(KEYS) do
  local id, conversation, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local answer, seen = 'ok', stream .. ':seen:' .. id
  if failed[conversation] then
    answer = 'skipped'
  elseif redis.call('EXISTS', seen) == 0 then
    local command = {'XADD', stream}
    if ARGV[2] ~= '0' then
      command[3], command[4], command[5] = 'MAXLEN', '~', ARGV[2]
    end
    command[#command + 1] = '*'
    for field = at + 3, at + 2 + count do command[#command + 1] = ARGV[field] end
    local added = redis.pcall(unpack(command))
    if type(added) == 'table' and added.err then
      answer, failed[conversation] = added.err, true
    else
      redis.call('SET', seen, added, 'EX', ARGV[1])
    end
  end
  answers[number], at = answer, at + 3 + count
end
return answers
"""
BODY = "msgq-body"
_WEEK = 7 * 86400.0
_LARGEST = 512 * 1024 * 1024


class _Message(NamedTuple):
    stream: str
    arguments: list[Any]


class _Connection(NamedTuple):
    client: Any
    largest: int


class RedisStream(Relay[_Connection, _Message]):
    """Adds messages to a stream with XADD.

    An entry has the fields msgq-id, msgq-conversation (unless it is ""), the metadata, and msgq-body. A script adds an
    entry and remembers its id (the key STREAM:seen:ID, which expires) in one step, so a message that is sent again is
    not added again while its id is remembered. Redis Cluster is not supported.

    With `appendfsync always` in the configuration of Redis an acknowledged message survives a crash and power loss.
    With the default (`everysec`) up to about a second of acknowledged messages may be lost.

    A Redis that is full (maxmemory), loading or a read-only replica is retried. A stream name that is another type of
    key is a final failure.
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
        fields = [each for pair in headers_of(delivery) for each in pair] + [BODY, delivery.body]
        stream = text_of(self._stream, delivery)
        if not stream:
            raise RejectedError("the name of the stream is empty")
        # Redis closes the connection when one value is too large.
        if max(len(each) for each in fields) > connection.largest:
            raise RejectedError(f"the body or a header is larger than the limit of Redis ({connection.largest} bytes)")
        return _Message(stream, [delivery.id, delivery.conversation, len(fields), *fields])

    def _open(self, timeout: float) -> _Connection:
        client = self._client.Redis(connection_pool=self._pool(timeout))
        try:
            client.ping()
            try:
                found = client.config_get("proto-max-bulk-len")
            except self._client.exceptions.ResponseError:
                # The user may not read the configuration.
                found = {}
            return _Connection(client, int(found.get("proto-max-bulk-len", _LARGEST)))
        except BaseException:
            client.close()
            client.connection_pool.disconnect()
            raise

    def _send(
        self, connection: _Connection, messages: Sequence[_Message], timeout: float
    ) -> Sequence[BaseException | None]:
        arguments: list[Any] = [self._remember, self._max_length]
        for message in messages:
            arguments += message.arguments
        script = connection.client.register_script(_SCRIPT)
        return [self._answer(each) for each in script(keys=[each.stream for each in messages], args=arguments)]

    def _answer(self, answer: bytes | str) -> BaseException | None:
        text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
        if text == "ok":
            return None
        if text == "skipped":
            return SkippedError()
        # Redis puts the code of an error first.
        if "WRONGTYPE" in text or "too many" in text.lower():
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

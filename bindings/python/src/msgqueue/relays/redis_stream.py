"""A transport that adds each message to a Redis stream, once."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from .. import _arguments
from ..enums import FailureKind
from ..errors import InvalidError
from ..models import Delivery
from .base import Relay
from .problems import RejectedError, RetryableError, SkippedError, UnauthorizedError, UnavailableError
from .targets import CONVERSATION, ID, Target, check_options, checked_target, for_target, headers_of, split_url, text_of

# Adds messages in one round trip; an id that was added before is not added again. SET with XX changes nothing, because
# there is no such key, but Redis checks whether the user may set it: an entry whose id cannot be remembered is not
# added. If the id cannot be remembered nevertheless, the entry is deleted again, before anybody can read it. The id
# must not be remembered before: if neither the entry could be added nor the id be forgotten, the message would be lost.
# After the first failure of a conversation its later messages are not tried. Returns three values for each message that
# was not added: its number, from 1, why, and 1 if its entry may be in the stream nevertheless, else 0. Each command
# reports its error, so that the script goes on.
# ARGV: seconds to remember ids, length of the stream (0: no limit), the number of streams, their names, then strings
# with the messages: the number of the stream, the number of fields and values, and these, each after its length. The
# client needs several times as long for an argument as for a text in a string. The streams are not in KEYS: Redis would
# refuse the whole script because of one that the user may not use.
_SCRIPT = """
local problems, failed, formats, number, streams = {}, {}, {}, 0, tonumber(ARGV[3])
local function run(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    return nil, answer.err
  end
  return answer
end
for place = 4 + streams, #ARGV do
  local data, at = ARGV[place], 1
  while at <= #data do
    local key, count, known, added, remembered, deleted, problem
    local kept = 0
    key, count, at = struct.unpack('>I4I4', data, at)
    formats[count] = formats[count] or '>' .. string.rep('I4c0', count)
    local texts = {struct.unpack(formats[count], data, at)}
    at = table.remove(texts)
    local stream, conversation = ARGV[3 + key], texts[3] == 'msgq-conversation' and texts[4] or ''
    local seen = stream .. ':seen:' .. texts[2]
    if failed[conversation] then
      problem = 'skipped'
    else
      known, problem = run('EXISTS', seen)
      if known == 0 then
        known, problem = run('SET', seen, '', 'XX')
      end
      if known == false then
        if ARGV[2] == '0' then
          added, problem = run('XADD', stream, '*', unpack(texts))
        else
          added, problem = run('XADD', stream, 'MAXLEN', '~', ARGV[2], '*', unpack(texts))
        end
        if added then
          remembered, problem = run('SET', seen, added, 'EX', ARGV[1])
          if not remembered then
            deleted = run('XDEL', stream, added)
            kept = deleted == 1 and 0 or 1
          end
        end
      end
      failed[conversation] = problem ~= nil
    end
    number = number + 1
    if problem then
      problems[#problems + 1], problems[#problems + 2], problems[#problems + 3] = number, problem, kept
    end
  end
end
return problems
"""
# What Redis says of an error that ended a script. Messages may have been added before.
_INSIDE = re.compile(r"user_script|error running script|script killed", re.IGNORECASE)
_REFUSED = re.compile(r"NOPERM|[Tt]he user executing the script can't")
# What Redis answers to every message until somebody, or time, mends it.
_UNAVAILABLE = re.compile(
    r"\b(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOAUTH|NOREPLICAS|OOM|READONLY|TRYAGAIN|WRONGPASS)\b"
    r"|max number of clients"
)
_SCHEMES = ("redis", "rediss", "unix")
# Options of the client that the relay sets: it repeats nothing, and has the time-out of the relay.
_OWN = ("retry", "retry_on_error", "retry_on_timeout", "socket_connect_timeout", "socket_timeout")
BODY = b"msgq-body"
_WEEK = 7 * 86400.0
_LARGEST = 512 * 1024 * 1024
# Fields and values that a script can pass to a command, with some to spare.
_MOST_TEXTS = 7000
# Bytes of an argument of the script, unless one message is larger.
_ARGUMENT = 1024 * 1024
_pack = struct.Struct(">I").pack


def _counted(text: bytes) -> bytes:
    return _pack(len(text)) + text


# The names that most messages have, each after its length.
_NAMES = {name: _counted(name.encode()) for name in (ID, CONVERSATION)}
_BODY_NAME = _counted(BODY)


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
    not added again while its id is remembered. The name of a stream must not contain ":seen:" or end in ":seen", so
    that each key belongs to one stream and one id. Redis Cluster is not supported.

    With an ACL the user needs the commands PING, SCRIPT LOAD, EVALSHA, EXISTS, XADD, SET and XDEL (and SELECT for
    another database than 0), for the keys STREAM and STREAM:seen:*. A message that is not permitted, or whose id must
    not be remembered, is not added. XDEL is needed only if Redis permits an id to be set and fails to set it: the entry
    is deleted again in the same step, or else stays and is added again by the next attempt.

    With `appendfsync always` in the configuration of Redis an acknowledged message survives a crash and power loss.
    With the default (`everysec`) up to about a second of acknowledged messages may be lost.

    While Redis is full (maxmemory), loading, a read-only replica, or refuses the user, the queue is held and no retry
    is used up. The same goes for a stream that the user may not use, or whose name is another type of key; if a
    function names the stream, such a message fails. A message that is larger, with its headers, than
    proto-max-bulk-len, or has more than 3,499 headers, is rejected.
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
            **options: Passed to `redis.Redis.from_url`, for example ssl_ca_certs. What concerns repetitions and
                time-outs is not among them.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: redis is not installed.
        """
        super().__init__(timeout=timeout)
        self._stream = checked_target("stream", stream, _check_stream)
        if not 1 <= _arguments.finite("remember", remember) <= 3650 * 86400:
            raise InvalidError(f"remember must be 1 second to 10 years, got {remember}")
        self._remember = int(remember)
        self._max_length = _arguments.unsigned("max_length", max_length)
        retry = self._client.retry.Retry(self._client.backoff.NoBackoff(), 0)
        parts = split_url(url)
        if parts.scheme not in _SCHEMES:
            raise InvalidError(f"the URL must be {' or '.join(f'{scheme}://' for scheme in _SCHEMES)}")
        # What stands in the URL is an option, too.
        names = {*options, *parse_qs(parts.query, keep_blank_values=True)}
        check_options(names, own=_OWN, known=names)
        pool = self._client.ConnectionPool.from_url
        self._pool: Any = lambda limit: pool(
            url, **{"retry": retry, "socket_timeout": limit, "socket_connect_timeout": limit, **options}
        )
        try:
            made = self._pool(timeout)
            # It is not opened: the client tells whether it knows the options.
            made.make_connection()
        except (TypeError, ValueError, self._client.exceptions.RedisError) as problem:
            # The text of the client may quote the URL.
            text = str(problem) if isinstance(problem, TypeError) and options else "a value of the URL is not valid"
            raise InvalidError(f"options: {text}") from None
        self._address = made.connection_kwargs

    def _form(self, connection: _Connection, delivery: Delivery) -> _Message:
        stream = self._stream
        if not isinstance(stream, str):
            # A stream that is the same for all messages was checked by the constructor.
            stream = text_of(stream, delivery)
            _check_stream(stream)
        headers = headers_of(delivery)
        count = 2 * len(headers) + 2
        if count > _MOST_TEXTS:
            raise RejectedError(f"the message has more than {_MOST_TEXTS // 2 - 1} headers")
        body = delivery.body
        parts = [_pack(count)]
        for name, value in headers:
            data = value.encode()
            parts += (_NAMES.get(name) or _counted(name.encode()), _pack(len(data)), data)
        parts += (_BODY_NAME, _pack(len(body)), body)
        data = b"".join(parts)
        # Redis closes the connection when an argument is too large. An argument begins with the number of the stream.
        if len(data) + 4 > connection.largest:
            raise RejectedError(f"the message is larger than the limit of Redis ({connection.largest} bytes)")
        return _Message(stream, data)

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
        arguments: list[Any] = [self._remember, self._max_length, len(streams), *streams]
        parts: list[bytes] = []
        size, limit = 0, min(_ARGUMENT, connection.largest)
        for stream, data in messages:
            if size + len(data) + 4 > limit and parts:
                arguments.append(b"".join(parts))
                parts, size = [], 0
            parts += (_pack(streams[stream]), data)
            size += len(data) + 4
        problems = connection.script(args=[*arguments, b"".join(parts)])
        answers: list[BaseException | None] = [None] * len(messages)
        for number, problem, is_kept in zip(problems[::3], problems[1::3], problems[2::3]):
            answers[number - 1] = self._answer(problem, is_kept=bool(is_kept))
        return answers

    def _answer(self, problem: bytes | str, *, is_kept: bool) -> BaseException:
        text = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else problem
        if text == "skipped":
            return SkippedError()
        # Redis puts the code of an error first.
        if "WRONGTYPE" in text:
            return for_target(self._stream, text, RejectedError(text))
        return self._failure(text, not_sent=not is_kept)

    def _failure(self, text: str, *, not_sent: bool) -> BaseException:
        is_refused = _REFUSED.search(text) is not None
        if is_refused and not_sent:
            return for_target(self._stream, text, UnauthorizedError(text))
        if not_sent and _UNAVAILABLE.search(text):
            return UnavailableError(text)
        # A final failure would say that the message was not sent.
        return RetryableError(FailureKind.UNAUTHORIZED if is_refused else FailureKind.SERVER, text, not_sent=not_sent)

    def _translate(self, problem: BaseException) -> BaseException:
        errors = self._client.exceptions
        if isinstance(problem, errors.AuthenticationError):
            return UnavailableError(str(problem))
        if isinstance(problem, errors.NoPermissionError):
            # The script itself: the client leaves out the code.
            return for_target(self._stream, str(problem), UnauthorizedError(str(problem)))
        if isinstance(problem, errors.TimeoutError):
            return TimeoutError(str(problem))
        if isinstance(problem, errors.BusyLoadingError):
            return UnavailableError(str(problem))
        if isinstance(problem, errors.ConnectionError):
            if _UNAVAILABLE.search(str(problem)):
                return UnavailableError(str(problem))
            cause = problem.__cause__ or problem.__context__
            return cause if isinstance(cause, OSError) else ConnectionError(str(problem))
        if isinstance(problem, errors.InvalidResponse):
            return RetryableError(FailureKind.SERVER, str(problem))
        if isinstance(problem, errors.ResponseError):
            return self._failure(str(problem), not_sent=not _INSIDE.search(str(problem)))
        return problem

    @property
    def _place(self) -> str:
        found = self._address
        return str(found["path"]) if "path" in found else f"{found.get('host', 'localhost')}:{found.get('port', 6379)}"

    def _shut(self, connection: _Connection) -> None:
        connection.client.connection_pool.disconnect()

    def _arrived(self, connection: _Connection, deliveries: Sequence[Delivery]) -> Sequence[bool] | None:
        names = (f"{text_of(self._stream, each)}:seen:{each.id}" for each in deliveries)
        # One command for each, as the script: a user may be permitted some of the keys.
        return [connection.client.exists(name) == 1 for name in names]

    def _is_alive(self, connection: _Connection) -> bool:
        try:
            connection.client.ping()
        except Exception:  # noqa: BLE001 - whatever it is, the connection is opened again
            return False
        return True


def _check_stream(stream: str) -> None:
    if not stream:
        raise InvalidError("the name of the stream must not be empty")
    if ":seen:" in stream or stream.endswith(":seen"):
        raise InvalidError(f"the name of a stream must not contain ':seen:' or end in ':seen', got {stream!r}")

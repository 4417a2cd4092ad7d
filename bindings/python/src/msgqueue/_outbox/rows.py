"""Rows of an outbox: made of the arguments of `put`, and made drafts of a hand-over."""

from __future__ import annotations

import ctypes
import os
import re
import time
from typing import Any, Optional

from .. import _abi, _drafts
from .._arguments import Body
from .._options import LARGEST_BODY, LARGEST_METADATA
from ..errors import InvalidError, TooLargeError

#: What `put` writes, in the order of `COLUMNS`.
New = tuple[str, str, bytes, Optional[bytes], Optional[int], Optional[int], int, int, Optional[str], int]
#: The same for a message that has nothing but these: id, conversation, body, time.
Plain = tuple[str, str, bytes, int]
COLUMNS = (
    "id",
    "conversation",
    "body",
    "metadata",
    "not_before_ms",
    "expires_at_ms",
    "time_ms",
    "priority",
    "replace_key",
    "unmetered_only",
)
#: What a collection reads: the number, `COLUMNS`, and the sizes of body and metadata.
Stored = tuple[Any, ...]

_MOST_PAIRS = 1024
_LONGEST_NAME = 255
_LAST_TIME = 253_402_300_799_999
_LONGEST_DURATION = 3653 * 86_400_000
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


class _Values:
    """Stands for the structure that the arguments of `enqueue` are written to, and has its zeros."""

    id: bytes | None = None
    conversation = b""
    body = b""
    metadata: Any = None
    metadata_count = 0
    not_before_ms = expires_at_ms = delay_ms = expiry_ms = time_ms = 0
    priority = 0
    unmetered_only = False
    replace_key: bytes | None = None


def made(body: Body, **fields: Any) -> New:  # noqa: ANN401 - as `enqueue` declares them
    """Returns the row of a message; the arguments are those of `enqueue`.

    Raises:
        InvalidError: No queue would take it.
        TooLargeError: No queue would keep it.
    """
    given: Any = _Values()
    _drafts.fill(given, body, **fields)
    id, conversation, replace_key = fields.get("id"), fields.get("conversation", ""), fields.get("replace_key")
    if len(given.body) > LARGEST_BODY:
        raise TooLargeError(f"the body has {len(given.body)} bytes; the limit is {LARGEST_BODY} bytes")
    if not -100 <= given.priority <= 100:
        raise InvalidError(f"the priority must be -100 to 100, got {given.priority}")
    if given.time_ms > _LAST_TIME:
        raise InvalidError("the time must be in the years 1970 to 9999")
    now = _now()
    not_before_ms, expires_at_ms = _times(given, now)
    return (
        new_id(now) if id is None else _id(id),
        _name("conversation", conversation),
        given.body,
        _metadata(given) if given.metadata_count else None,
        not_before_ms,
        expires_at_ms,
        given.time_ms or now,
        given.priority,
        _name("replace_key", replace_key) if replace_key else None,
        1 if given.unmetered_only else 0,
    )


def is_plain(body: object, conversation: object) -> bool:
    """Whether the texts need neither a check nor a conversion. This is much faster than both."""
    return (
        type(body) is bytes
        and len(body) <= LARGEST_BODY
        and type(conversation) is str
        and conversation.isascii()
        # No control character.
        and conversation.isprintable()
        and len(conversation) <= _LONGEST_NAME
    )


def made_plain(body: Any, conversation: str) -> Plain:  # noqa: ANN401 - bytes, as `is_plain` says
    """Returns the row of a message that has only these."""
    now = _now()
    return new_id(now), conversation, body, now


def whole(row: Plain) -> New:
    """Returns all columns of such a row."""
    id, conversation, body, now = row
    return id, conversation, body, None, None, None, now, 0, None, 0


def new_id(now: int) -> str:
    """Returns a new UUIDv7."""
    # 4 bits of the version, 12 of chance, 2 of the variant, 62 of chance.
    chance = int.from_bytes(os.urandom(10), "big")
    number = now << 80 | 7 << 76 | chance >> 68 << 64 | 2 << 62 | chance & (1 << 62) - 1
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _now() -> int:
    return time.time_ns() // 1_000_000


def wrong_id(id: str) -> str | None:
    """Returns what is wrong with an id; None: nothing."""
    if "\ufffd" in id:
        return "the id is not valid UTF-8"
    try:
        _id(id)
    except InvalidError as problem:
        return problem.detail
    return None


def _id(id: str) -> str:
    if not id:
        raise InvalidError("the id must not be empty")
    return _name("id", id)


def _name(what: str, value: str) -> str:
    if len(value) > _LONGEST_NAME or (not value.isascii() and len(value.encode()) > _LONGEST_NAME):
        raise InvalidError(f"the {what} has {len(value.encode())} bytes; the limit is {_LONGEST_NAME} bytes")
    found = _CONTROL.search(value)
    if found:
        raise InvalidError(f"the {what} contains the control character U+{ord(found[0]):04X}")
    return value


def _metadata(given: _Values) -> bytes:
    """Returns each key and each value with a zero byte behind it."""
    if given.metadata_count > _MOST_PAIRS:
        raise TooLargeError(f"the message has {given.metadata_count} metadata pairs; the limit is {_MOST_PAIRS}")
    parts = [part for pair in given.metadata for part in (pair.key, pair.value)]
    if not all(parts[::2]):
        raise InvalidError("a metadata key must not be empty")
    joined = b"\0".join(parts) + b"\0"
    size = len(joined) - len(parts)
    if size > LARGEST_METADATA:
        raise TooLargeError(f"the metadata has {size} bytes; the limit is {LARGEST_METADATA} bytes")
    return joined


def _times(given: _Values, now: int) -> tuple[int | None, int | None]:
    """Returns the start and the expiry of a message as points in time."""
    if not (given.delay_ms or given.expiry_ms or given.not_before_ms or given.expires_at_ms):
        return None, None
    for name, duration in (("delay", given.delay_ms), ("expiry", given.expiry_ms)):
        if duration > _LONGEST_DURATION:
            raise InvalidError(f"{name} must be at most 10 years")
    start = now + given.delay_ms if given.delay_ms else given.not_before_ms
    expires_at = (start or now) + given.expiry_ms if given.expiry_ms else given.expires_at_ms
    if expires_at and expires_at <= start:
        raise InvalidError("the message must expire after its not-before time")
    return start or None, expires_at or None


# ---------------------------------------------------------------- of a collection


def fill(target: _abi.Draft, row: Stored) -> str | None:
    """Writes a stored row to a zeroed draft of a hand-over. Somebody may have written the row by hand.

    Returns:
        None, or why the row is none of this schema; then nothing was written.
    """
    _, id, conversation, body, metadata, not_before, expires_at, composed, priority, key, unmetered, size, pairs = row
    if body is None:
        return "body is NULL or of another type" if size is None else _too_large("body", size, LARGEST_BODY)
    if metadata is None and pairs is not None:
        return "metadata is of another type" if pairs < 0 else _too_large("metadata", pairs, LARGEST_METADATA)
    for name, text, is_optional in (
        ("id", id, False),
        ("conversation", conversation, False),
        ("replace_key", key, True),
    ):
        if not isinstance(text, bytes) and not (is_optional and text is None):
            return f"{name} is {'' if is_optional else 'NULL or '}of another type, or is not valid Unicode"
        if text is not None and b"\0" in text:
            return f"{name} contains a NUL"
    for name, number, is_optional in (
        ("not_before_ms", not_before, True),
        ("expires_at_ms", expires_at, True),
        ("time_ms", composed, False),
        ("priority", priority, False),
        ("unmetered_only", unmetered, False),
    ):
        if not isinstance(number, int) and not (is_optional and number is None):
            return f"{name} is {'' if is_optional else 'NULL or '}of another type"
    if not -(2**31) <= priority < 2**31:
        return f"the priority must be -100 to 100, got {priority}"
    if unmetered not in (0, 1):
        return "unmetered_only is not 0 or 1"
    if metadata and not _fill_metadata(target, metadata):
        return "metadata are not pairs of a key and a value, each followed by a zero byte"
    target.struct_size = _DRAFT_SIZE
    target.id = id
    target.conversation = conversation
    target.body = body
    target.body_size = len(body)
    target.time_ms = composed
    if not_before is not None:
        target.not_before_ms = not_before
    if expires_at is not None:
        target.expires_at_ms = expires_at
    if priority:
        target.priority = priority
    if key is not None:
        target.replace_key = key
    if unmetered:
        target.unmetered_only = True
    return None


_DRAFT_SIZE = ctypes.sizeof(_abi.Draft)


def _fill_metadata(target: _abi.Draft, metadata: bytes) -> bool:
    parts = metadata.split(b"\0")
    if parts.pop() or len(parts) % 2:
        return False
    pairs = (_abi.Pair * (len(parts) // 2))()
    for index, pair in enumerate(pairs):
        pair.key, pair.value = parts[2 * index], parts[2 * index + 1]
    target.metadata = pairs
    target.metadata_count = len(pairs)
    return True


def _too_large(name: str, size: int, limit: int) -> str:
    return f"{name} has {size} bytes; the limit is {limit} bytes"


#: Stands for a value of another type than its column's.
WRONG = 0


def encoded(text: Any) -> Any:  # noqa: ANN401 - what a driver returns
    """Returns a text of a driver as UTF-8, and `WRONG` for one that is not valid Unicode."""
    if not isinstance(text, str):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        return WRONG

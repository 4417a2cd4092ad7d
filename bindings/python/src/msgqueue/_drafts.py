"""Writes drafts for C.

Strings and bodies are not copied: C gets the addresses of the Python objects, which the ctypes structure keeps alive.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import _abi, _arguments
from .errors import InvalidError, TooLargeError
from .models import Draft, RecordedDraft

_Kind = TypeVar("_Kind", Draft, RecordedDraft)
_Made = TypeVar("_Made")

_SIZE = ctypes.sizeof(_abi.Draft)
# A UUID in the memory for an id.
_MADE_ID = struct.Struct(f"36s{_abi.ID_SIZE - 36}x")


def fill(
    target: _abi.Draft,
    body: object,
    *,
    conversation: object = "",
    metadata: Mapping[str, str] | None = None,
    id: object = None,
    not_before: object = None,
    delay: object = None,
    expires_at: object = None,
    unmetered_only: object = False,
    replace_key: object = None,
    priority: object = 0,
    time: object = None,
    expiry: object = None,
) -> None:
    """Fills a zeroed draft from the arguments of `MessageQueue.enqueue`.

    Sets only the given fields, because each assignment costs time in every enqueue.
    """
    target.struct_size = _SIZE
    data = _arguments.body(body)
    target.body = data
    target.body_size = len(data)
    if conversation != "":
        target.conversation = _arguments.text("conversation", conversation)
    if metadata is not None:
        _fill_metadata(target, metadata)
    if id is not None:
        target.id = _arguments.text("id", id)
    if not_before is not None:
        _arguments.exclude("not_before", not_before, "delay", delay)
        target.not_before_ms = _arguments.moment("not_before", not_before)
    elif delay is not None:
        target.delay_ms = _arguments.duration("delay", delay)
    if expires_at is not None:
        _arguments.exclude("expires_at", expires_at, "expiry", expiry)
        target.expires_at_ms = _arguments.moment("expires_at", expires_at)
    elif expiry is not None:
        target.expiry_ms = _arguments.duration("expiry", expiry)
    if unmetered_only is not False:
        target.unmetered_only = _arguments.flag("unmetered_only", unmetered_only)
    if replace_key is not None:
        target.replace_key = _arguments.text("replace_key", replace_key)
    if priority != 0:
        target.priority = _arguments.signed("priority", priority, values="-100 to 100")
    if time is not None:
        target.time_ms = _arguments.moment("time", time)


def change(body: object, metadata: Mapping[str, str] | None, time: object = None) -> _abi.Draft:
    """Returns a draft that changes a stored message. Without metadata it leaves them as they are."""
    draft = _abi.Draft()
    fill(draft, body, metadata=metadata, time=time)
    return draft


def array(drafts: Iterable[Draft | Mapping[str, Any]], call: str = "enqueue_batch") -> ctypes.Array[_abi.Draft]:
    """Returns an array for msgq_enqueue_batch. An error names the draft by its index, from 0."""
    if isinstance(drafts, (Draft, Mapping)):
        raise TypeError(f"{call} needs an iterable of drafts; for one message use enqueue")

    def put(target: _abi.Draft, _: int, given: object) -> None:
        message = _draft(given)
        fill(
            target,
            message.body,
            conversation=message.conversation,
            metadata=message.metadata,
            id=message.id,
            not_before=message.not_before,
            delay=message.delay,
            expires_at=message.expires_at,
            unmetered_only=message.unmetered_only,
            replace_key=message.replace_key,
            priority=message.priority,
            time=message.time,
            expiry=message.expiry,
        )

    return _filled(list(drafts), put)


def recorded(
    drafts: Iterable[RecordedDraft | Mapping[str, Any]],
) -> tuple[ctypes.Array[_abi.Draft], ctypes.Array[ctypes.c_char_p]]:
    """Returns the arrays of drafts and senders for msgq_record_batch. An error names the draft by its index, from 0."""
    if isinstance(drafts, (RecordedDraft, Mapping)):
        raise TypeError("record_batch needs an iterable of drafts; for one message use record")
    given = list(drafts)
    senders = (ctypes.c_char_p * len(given))()

    def put(target: _abi.Draft, index: int, given: object) -> None:
        draft = _given(RecordedDraft, given)
        fill(
            target,
            draft.body,
            conversation=draft.conversation,
            metadata=draft.metadata,
            id=draft.id,
            time=draft.time,
        )
        senders[index] = _arguments.optional_text("sender", draft.sender)

    return _filled(given, put), senders


def each(drafts: Iterable[Draft | Mapping[str, Any]], call: str, make: Callable[[Draft], _Made]) -> list[_Made]:
    """Returns what is made of each draft. An error names the draft by its index, from 0."""
    if isinstance(drafts, (Draft, Mapping)):
        raise TypeError(f"{call} needs an iterable of drafts; for one message use {call.partition('_')[0]}")
    made: list[_Made] = []
    _for_each(list(drafts), lambda _, given: made.append(make(_draft(given))))
    return made


def _filled(given: list[Any], put: Callable[[_abi.Draft, int, object], None]) -> ctypes.Array[_abi.Draft]:
    result = (_abi.Draft * len(given))()
    _for_each(given, lambda index, draft: put(result[index], index, draft))
    return result


def _for_each(given: list[Any], put: Callable[[int, object], None]) -> None:
    for index, draft in enumerate(given):
        try:
            put(index, draft)
        except (InvalidError, TooLargeError) as problem:
            raise type(problem)(f"draft {index}: {problem.detail}") from None
        except TypeError as problem:
            raise TypeError(f"draft {index}: {problem}") from None


def bodies(given: Iterable[Any]) -> list[bytes]:
    """Returns bodies as bytes. An error names the body by its index, from 0."""
    if isinstance(given, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError("enqueue_bodies needs an iterable of bodies; for one message use enqueue")
    result = list(given)
    # Most often they are bytes already, which is found out without a loop in Python.
    if not set(map(type, result)) <= {bytes}:
        for index, body in enumerate(result):
            try:
                result[index] = _arguments.body(body)
            except InvalidError as problem:
                raise InvalidError(f"body {index}: {problem.detail}") from None
            except TypeError as problem:
                raise TypeError(f"body {index}: {problem}") from None
    return result


def made_ids(ids: ctypes.Array[Any]) -> list[str]:
    """Reads ids that the library made: UUIDs."""
    return [text.decode("ascii") for (text,) in _MADE_ID.iter_unpack(ids)]


def _draft(given: object) -> Draft:
    return _given(Draft, given)


def _given(kind: type[_Kind], given: object) -> _Kind:
    if isinstance(given, kind):
        return given
    if isinstance(given, Mapping):
        return kind(**given)
    raise TypeError(f"a draft must be a {kind.__name__} or a dict, not {type(given).__name__}")


def _fill_metadata(target: _abi.Draft, metadata: object) -> None:
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of str to str, not {type(metadata).__name__}")
    # The address is not NULL, also without pairs: in a change that removes them all.
    pairs = (_abi.Pair * max(len(metadata), 1))()
    for pair, (key, value) in zip(pairs, metadata.items()):
        pair.key = _arguments.text("a metadata key", key)
        pair.value = _arguments.text("a metadata value", value)
    target.metadata = pairs
    target.metadata_count = len(metadata)

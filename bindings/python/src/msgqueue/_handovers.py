"""The calls that take messages over from another durable place."""

from __future__ import annotations

import builtins
import ctypes
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi, _arguments, _convert, _drafts
from ._handle import Handle
from .enums import Result
from .models import Draft, Handed


class HandOver:
    """What another durable place (a source) has handed over to the queue and was not forgotten; see `handed_over`."""

    def __init__(self, lib: ctypes.CDLL, pointer: ctypes.c_void_p, source: str) -> None:
        self._pointer = pointer
        weakref.finalize(self, lib.msgq_handed_over_free, pointer)
        self.source = source
        """The source."""
        entry, size = lib.msgq_handed_over_at, lib.msgq_handed_over_size(pointer)
        self.drafts: tuple[Handed, ...] = tuple(_convert.handed(entry(pointer, index)[0]) for index in range(size))
        """First what the queue has (OK), then what could not be kept."""

    def __repr__(self) -> str:
        return f"<HandOver of {self.source!r}, {len(self.drafts)} drafts>"


class HandOvers:
    """The calls of `MessageQueue` for hand-overs."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def handed_over(self, source: str) -> HandOver:
        """Returns what a source has handed over and was not forgotten. Earlier lists of it can no longer be used.

        A source is another durable place with messages for this queue, such as a table of the program's own database.
        Two stores cannot commit together, so the queue remembers the ids that it has taken over until the source has
        deleted its rows:

        1. `handed_over`. Delete those rows of the source whose `result` is OK, durably, then `hand_over_done`.
        2. Read rows of the source, and `take_over`.
        3. Delete the rows whose result is OK or DUPLICATE, durably, then `hand_over_done`.

        Whatever step a crash interrupts, each message is taken over exactly once, also when it was sent or deleted
        meanwhile, whatever `remember_ids` says.

        Args:
            source: 1 to 255 bytes without control characters. It uses no id twice, and none of another source.

        Raises:
            CorruptError: The list is damaged.
        """
        pointer = ctypes.c_void_p()
        handle = self._handle
        handle.check(handle.lib.msgq_handed_over(handle.pointer, _arguments.text("source", source), pointer))
        return HandOver(handle.lib, pointer, source)

    def take_over(self, hand_over: HandOver, drafts: Iterable[Draft | Mapping[str, Any]]) -> builtins.list[Result]:
        """Stores up to 1,000,000 drafts in this order, and in the same transaction their ids as the open hand-over.

        Each draft has an id. On return all of that survives a power cut. A draft that `enqueue` refuses for good,
        because it is over `limit_body` or `limit_metadata` or another value is invalid, is in the queue as failed, kind
        LOCAL, with its whole body and metadata; `retry` raises TooLargeError while it is over `limit_body`.

        Args:
            hand_over: What `handed_over` returned last for the source.
            drafts: Drafts, or dicts of the arguments of `enqueue` with "body" among them.

        Returns:
            What became of each. OK: the queue has it, or its id is in the open hand-over already. DUPLICATE: the queue
            has a message of this id (enqueued or recorded), or remembers one, or it is that of a draft before it. No
            message was stored; the id is in the open hand-over from then on. INVALID, TOO_LARGE: it cannot be kept
            whole (an invalid id or conversation, a body over 256 MiB or over `limit_bytes` or `limit_file_bytes`,
            metadata over 16 MiB); it stands in the list of `handed_over` until `hand_over_forget`. Keep its row, and
            mark it, so that it is not read again.

        Raises:
            ConflictError: Another call of `handed_over` for the source came later. Begin again with that.
            FullError: The queue is full; none is stored.
            InvalidError: A draft has no id, or a value that C cannot express; none is stored.
        """
        array = _drafts.array(drafts, "take_over")
        return self.take_over_array(hand_over, array, len(array))

    def take_over_array(
        self, hand_over: HandOver, array: ctypes.Array[_abi.Draft], count: int
    ) -> builtins.list[Result]:
        """Stores the first drafts of an array for C as `take_over` does."""
        results = (ctypes.c_int * count)()
        handle = self._handle
        handle.check(handle.lib.msgq_take_over(handle.pointer, _pointer(hand_over), array, count, results))
        return [Result(result) for result in results]

    def hand_over_done(self, hand_over: HandOver) -> None:
        """Forgets the ids of the open hand-over: those in the list, and those taken over with it since.

        Call it when the source has deleted these rows, and its commit survives a power cut. The list can be used again.

        Args:
            hand_over: What `handed_over` returned last for the source.

        Raises:
            ConflictError: Another call of `handed_over` for the source came later.
        """
        self._handle.check(self._handle.lib.msgq_hand_over_done(self._handle.pointer, _pointer(hand_over)))

    def hand_over_forget(self, source: str, id: str | None = None) -> None:
        """Forgets drafts that could not be kept.

        Args:
            source: As for `handed_over`.
            id: One draft, by its id in the list; None: all of the source.

        Raises:
            NotFoundError: There is no draft with this id.
        """
        name, key = _arguments.text("source", source), _arguments.optional_text("id", id)
        self._handle.check(self._handle.lib.msgq_hand_over_forget(self._handle.pointer, name, key))

    def request_collect(self) -> None:
        """Asks the program to take over what waits in its own places: reports an event of kind COLLECT.

        Call it after the commit that put messages there; requests that come while the event waits to be delivered share
        it. A process that does not own the queue asks through the control socket.
        """
        self._handle.check(self._handle.lib.msgq_request_collect(self._handle.pointer))


def _pointer(hand_over: HandOver) -> ctypes.c_void_p:
    if not isinstance(hand_over, HandOver):
        raise TypeError(f"hand_over must be a HandOver, not {type(hand_over).__name__}")
    return hand_over._pointer

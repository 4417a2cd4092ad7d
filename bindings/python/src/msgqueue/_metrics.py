"""The statistics of several queues as one text."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import _convert
from ._library import last_error, library
from .enums import Result

if TYPE_CHECKING:
    from .queue import MessageQueue


def prometheus(queues: Iterable[MessageQueue]) -> str:
    """Returns the statistics and the counts of several queues in the Prometheus text format 0.0.4.

    Each metric occurs once, as the format requires. Each sample has the label `queue` with the path of the store.
    Closed queues are left out, so that a collector can outlive its queues; without an open one the text is empty.

    Args:
        queues: The queues, at most 1000.

    Raises:
        InvalidError: A queue occurs twice.
    """
    given = [queue._handle for queue in queues]
    lib = library()
    out = ctypes.c_void_p()
    while True:
        handles = [handle for handle in given if not handle.is_closed]
        pointers = (ctypes.c_void_p * len(handles))(*[handle.pointer for handle in handles])
        result = lib.msgq_stats_text_all(pointers, len(handles), out)
        if result == Result.OK:
            break
        # Another thread may have closed one meanwhile.
        if not (result == Result.CLOSED and any(handle.is_closed for handle in handles)):
            raise last_error(lib, result)
    try:
        return _convert.owned_text(out)
    finally:
        lib.msgq_text_free(out)

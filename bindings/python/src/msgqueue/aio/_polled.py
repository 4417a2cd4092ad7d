"""The queue of an event loop."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from .._callbacks import BatchTransport, EventHandler, Transport
from ..models import BatchOptions
from ..queue import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Options


class PolledQueue(MessageQueue):
    """Its callbacks run where the loop polls. A thread of the library does what is due, which may use the disk."""

    _has_timer = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        transport: Transport | None = None,
        *,
        cancelled: threading.Event,
        on_event: EventHandler | None = None,
        batch_transport: BatchTransport | None = None,
        batch_options: BatchOptions | None = None,
        **options: Unpack[Options],
    ) -> None:
        """As `MessageQueue`. Once `cancelled` is set, it waits no longer for the lock of the store."""
        self._cancelled = cancelled
        super().__init__(
            path,
            transport,
            on_event=on_event,
            batch_transport=batch_transport,
            batch_options=batch_options,
            polled=True,
            **options,
        )

    def _is_cancelled(self) -> bool:
        return self._cancelled.is_set()

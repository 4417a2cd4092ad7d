"""A queue whose clock moves only when a test moves it.

    queue = SimulatedQueue(path, transport, start=datetime(2030, 1, 1, tzinfo=timezone.utc))
    queue.enqueue("hello", conversation="ana")
    queue.advance(timedelta(minutes=3))

It is the library itself over a real file: only the clock and what is random are simulated. So a test of retries over
minutes or of expiry over days takes milliseconds, and gives the same result each time.
"""

from __future__ import annotations

import ctypes
import os
from datetime import datetime
from typing import TYPE_CHECKING

from . import _abi, _arguments, _convert
from ._arguments import Duration, Time
from ._callbacks import BatchTransport, EventHandler, Transport, call_guarded, raise_interruption
from .models import BatchOptions
from .queue import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Options


class SimulatedQueue(MessageQueue):
    """A `MessageQueue` for tests, with a clock of its own that stands still between calls.

    The clock moves in `advance`, and in calls that wait (`poll`, `drain`, `wait`, `send`, `close`): they do not wait,
    the clock moves to what is due next, or to their timeout. Callbacks run in these calls, on the thread that makes
    them. Use the queue on one thread.

    `fileno` tells callbacks, not that something is due. `start_monitor` raises ConflictError: report connectivity with
    `set_connectivity`. `msgqueue.words.relative_time` counts from the system's time; pass it `now`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        transport: Transport | None = None,
        *,
        start: Time | None = None,
        seed: int = 0,
        on_event: EventHandler | None = None,
        batch_transport: BatchTransport | None = None,
        batch_options: BatchOptions | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens the store in a file, or makes it.

        Args:
            path: As of `MessageQueue`. Each opening counts as a boot of its own.
            transport: As of `MessageQueue`. `advance` inside it moves the clock, as a receiver that takes long does.
            start: What the clock shows first: seconds since 1970, or a datetime with a time zone, to the end of the
                year 9999. None: the present time.
            seed: Determines what is random, as the delays of retries and the ids: 0 to 2**64 - 1.
            on_event: As of `MessageQueue`.
            batch_transport: As of `MessageQueue`.
            batch_options: As of `MessageQueue`.
            **options: As of `MessageQueue`, without `polled`, which it always is.

        Raises:
            InvalidError: `start`, `seed` or an option is out of range.
            Error: As of `MessageQueue`.
        """
        if "polled" in options:
            raise TypeError("a SimulatedQueue is always polled")
        self._start = _arguments.moment("start", start)
        self._seed = _arguments.unsigned("seed", seed, bits=64)
        # The callbacks follow when the queue knows its clock.
        super().__init__(path, polled=True, **options)
        handle = self._handle
        handle.waits = False
        try:
            if on_event is not None:
                self.set_event_handler(on_event)
            if transport is not None:
                self.set_transport(transport)
            if batch_transport is not None:
                self.set_batch_transport(batch_transport, batch_options)
        except BaseException:
            self._finalizer.detach()
            handle.close_quietly()
            raise

    def __enter__(self) -> SimulatedQueue:
        return self

    @property
    def now(self) -> datetime:
        """What the clock shows.

        Raises:
            ClosedError: The queue is closed.
        """
        return self.advance(0)

    def advance(self, time: Duration) -> datetime:
        """Lets time pass: stops at each moment at which something is due, performs it, and runs the callbacks.

        Inside a callback only the clock moves. KeyboardInterrupt and SystemExit in a callback are raised from here.

        Args:
            time: Seconds or a timedelta: 0 to 3650 days. 0 runs nothing; `poll(0)` runs what is due now.

        Returns:
            What the clock shows at the end.

        Raises:
            InvalidError: `time` is out of range.
            ClosedError: The queue is closed.
        """
        return _convert.moment(self._advance(_arguments.duration("time", time)))

    def _advance(self, time: int) -> int:
        handle, now = self._handle, ctypes.c_int64()
        result = call_guarded(handle.lib.msgq_advance, handle.pointer, time, now)
        raise_interruption()
        handle.check(result)
        return now.value

    def _open(self, lib: ctypes.CDLL, name: bytes, options: _abi.Options, pointer: ctypes.c_void_p) -> int:
        result: int = lib.msgq_open_simulated(name, options, self._start, self._seed, pointer)
        return result

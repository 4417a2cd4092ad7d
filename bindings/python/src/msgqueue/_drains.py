"""Drains: calls that send what is due and wait until that is done."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

from . import _abi, _arguments, _convert, _interruptible
from ._callbacks import call_guarded, drained_trampoline, expect_drain, forget_drain, raise_interruption
from ._handle import Handle
from ._poll_threads import PollThreads
from ._queries import Queries
from .enums import Result, Stop
from .errors import StorageError
from .models import Counts, Report

# Milliseconds between two checks for signals while the main thread polls.
_SIGNAL_INTERVAL = 200
# Seconds to wait for the report of a drain after its own timeout.
_REPORT_GRACE = 0.2


def drain_options(batch: object, timeout: object, conversation: object, include_failed: object) -> _abi.DrainOptions:
    """Converts the arguments of `MessageQueue.drain` for C."""
    options: _abi.DrainOptions = _abi.sized(
        _abi.DrainOptions,
        _arguments.unsigned("batch", batch, bits=31),
        _arguments.timeout("timeout", timeout),
        _arguments.optional_text("conversation", conversation),
        _arguments.flag("include_failed", include_failed),
    )
    return options


class Drains:
    """The drains of one queue."""

    def __init__(self, handle: Handle, queries: Queries) -> None:
        self._handle = handle
        self._queries = queries

    def drain(
        self,
        batch: int = 0,
        timeout: float | None = None,
        conversation: str | None = None,
        *,
        include_failed: bool = False,
    ) -> Report:
        """Sends what is due, in order, and returns when nothing is due any more.

        The events of the drain have been delivered when it returns. Only one drain runs at a time. A second call that
        asks for the same, or for one conversation while all are drained, joins the first and gets the same report; any
        other, also one with another `include_failed`, begins its drain when the first has ended.
        Inside a callback it only starts one (Stop.STARTED). Do not
        hold a lock that a callback takes.

        On a polled queue this call runs the callbacks itself when no other thread polls, and waits for one that it
        runs.

        On the main thread Ctrl-C ends the call by KeyboardInterrupt within half a second. Nothing is lost: attempts in
        flight end as usual, and the drain continues until it is done or the queue is paused or closed; on a polled
        queue it continues in the next `poll`.

        Args:
            batch: Attempts at most, without due retries, up to 2147483647; 0: as the option `drain_batch`.
            timeout: Seconds after which it returns what was done until then (Stop.TIMEOUT), also when it joined another
                drain or an event handler does not return. The drain starts no attempt after the latest timeout of the
                calls that joined it. None: without end.
            conversation: Only its messages are sent and counted; None: all.
            include_failed: First puts the failed messages back to queued, as `retry_all` does, and sends them with the
                others. While offline or paused they stay failed.

        Returns:
            What was done, and why the drain stopped.

        Raises:
            InvalidError: An argument is out of range.
            NoTransportError: The queue has no transport.
        """
        options = drain_options(batch, timeout, conversation, include_failed)
        threads = self._handle.poll_threads
        if threads is not None and threads.answers_here:
            # Inside a transport that this package called. The drain waits for this attempt: waiting for the drain here
            # would block both until the time-out.
            return self._start(threads, options, conversation)
        if self._handle.callbacks.is_running_here:
            return self._wait(options)
        if threads is not None:
            _ = self._handle.pointer
            return _interruptible.run(lambda: self._wait(options), f"{self._handle.name} drain")
        if self._handle.waits and options.timeout_ms != 0 and threading.current_thread() is threading.main_thread():
            return self._poll(options)
        return self._wait(options)

    def start(self, options: _abi.DrainOptions, done: Callable[[Report], object]) -> None:
        """Starts a drain, or joins the current one.

        Args:
            options: What to drain.
            done: Receives the report where callbacks run, after the events of the drain were reported, or in `close`.

        Raises:
            NoTransportError: The queue has no transport.
        """
        context = expect_drain(done)
        handle = self._handle
        result = handle.lib.msgq_drain_async(handle.pointer, options, drained_trampoline, context)
        if result != Result.OK:
            forget_drain(context)
        handle.check(result)

    def _wait(self, options: _abi.DrainOptions) -> Report:
        """Makes the library's own call, which waits without checking for signals."""
        handle = self._handle
        out: _abi.Report = _abi.sized(_abi.Report)
        result = call_guarded(handle.lib.msgq_drain, handle.pointer, options, out)
        raise_interruption()
        if result != Result.TIMEOUT:
            # The report says TIMEOUT, too. An exception would withhold it from the caller.
            handle.check(result)
        return _convert.report(out)

    def _poll(self, options: _abi.DrainOptions) -> Report:
        """Runs the callbacks on this thread until the drain ends, and checks for signals between them."""
        reports: list[Report] = []
        ended = threading.Event()

        def done(report: Report) -> None:
            reports.append(report)
            ended.set()

        deadline = None if options.timeout_ms < 0 else time.monotonic() + options.timeout_ms / 1000 + _REPORT_GRACE
        self.start(options, done)
        handle, ran = self._handle, ctypes.c_size_t()
        while not reports:
            if deadline is not None and time.monotonic() >= deadline:
                # A callback on another thread does not return. The library has the report so far.
                options.timeout_ms = 0
                return self._wait(options)
            if handle.others_poll:
                ended.wait(_SIGNAL_INTERVAL / 1000)
                continue
            result = handle.poll(_SIGNAL_INTERVAL, ran)
            if result == Result.CLOSED:
                # The thread that closes the queue reports the end of the drain.
                ended.wait(_REPORT_GRACE)
            if not reports:
                handle.check(result)
        return reports[0]

    def _start(self, threads: PollThreads, options: _abi.DrainOptions, conversation: str | None) -> Report:
        counts = self._queries.counts(conversation)
        if not threads.drain_later(options):
            raise StorageError("no thread left for a drain")
        return started(counts)


def started(counts: Counts) -> Report:
    """Returns the report of a drain that was only started, when there were so many messages."""
    return Report(
        Stop.STARTED,
        sent=0,
        failed=0,
        discarded=0,
        remaining=counts.queued + counts.sending,
        remaining_failed=counts.failed,
    )

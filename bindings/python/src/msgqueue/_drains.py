"""Drains: sending what is due, and waiting for the end of that."""

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
from .models import Report

# Milliseconds between two looks for signals while the main thread polls.
_ATTENTION = 200
# Seconds for the end of a drain to be reported after its own timeout.
_REPORT_PATIENCE = 0.2


def drain_options(batch: object, timeout: object, conversation: object) -> _abi.DrainOptions:
    """The arguments of `MessageQueue.drain` for C."""
    options: _abi.DrainOptions = _abi.sized(
        _abi.DrainOptions,
        _arguments.unsigned("batch", batch),
        _arguments.timeout("timeout", timeout),
        _arguments.optional_text("conversation", conversation),
    )
    return options


class Drains:
    """The drains of one queue."""

    def __init__(self, handle: Handle, queries: Queries) -> None:
        self._handle = handle
        self._queries = queries

    def run(self, batch: int, timeout: float | None, conversation: str | None) -> Report:
        """See `MessageQueue.drain`."""
        options = drain_options(batch, timeout, conversation)
        threads = self._handle.poll_threads
        if threads is not None and threads.answers_here:
            # In a callback, as the library would see if it had called on this thread: waiting here for the drain that
            # waits for this very attempt would hold both until the time-out.
            return self._start(threads, options, conversation)
        if self._handle.callbacks.is_running_here:
            return self._wait(options)
        if threads is not None:
            _ = self._handle.pointer
            return _interruptible.run(lambda: self._wait(options), f"{self._handle.name} drain")
        if options.timeout_ms != 0 and threading.current_thread() is threading.main_thread():
            return self._poll(options)
        return self._wait(options)

    def start(self, options: _abi.DrainOptions, done: Callable[[Report], object]) -> None:
        """Starts a drain, or joins the one that runs.

        Args:
            options: What to drain.
            done: Gets the report where callbacks run, after the events of the drain were told, or in `close`.

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
        """Makes the library's own call, which waits without looking for signals."""
        handle = self._handle
        out: _abi.Report = _abi.sized(_abi.Report)
        result = call_guarded(handle.lib.msgq_drain, handle.pointer, options, out)
        raise_interruption()
        if result != Result.TIMEOUT:
            # The report says TIMEOUT, too; an exception would only take from the caller what was done until then.
            handle.check(result)
        return _convert.report(out)

    def _poll(self, options: _abi.DrainOptions) -> Report:
        """Runs the callbacks on this thread until the drain ends, and looks for signals between them."""
        reports: list[Report] = []
        ended = threading.Event()

        def done(report: Report) -> None:
            reports.append(report)
            ended.set()

        deadline = None if options.timeout_ms < 0 else time.monotonic() + options.timeout_ms / 1000 + _REPORT_PATIENCE
        self.start(options, done)
        handle, ran = self._handle, ctypes.c_size_t()
        while not reports:
            if deadline is not None and time.monotonic() >= deadline:
                # A callback on another thread does not return. What was done until then is known to the library.
                options.timeout_ms = 0
                return self._wait(options)
            if handle.others_poll:
                ended.wait(_ATTENTION / 1000)
                continue
            result = handle.poll(_ATTENTION, ran)
            if result == Result.CLOSED:
                # The thread that closes the queue reports the end of the drain.
                ended.wait(_REPORT_PATIENCE)
            if not reports:
                handle.check(result)
        return reports[0]

    def _start(self, threads: PollThreads, options: _abi.DrainOptions, conversation: str | None) -> Report:
        counts = self._queries.counts(conversation)
        if not threads.drain_later(options):
            raise StorageError("no thread is left to drain on")
        return Report(
            Stop.STARTED,
            sent=0,
            failed=0,
            discarded=0,
            remaining=counts.queued + counts.sending,
            remaining_failed=counts.failed,
        )

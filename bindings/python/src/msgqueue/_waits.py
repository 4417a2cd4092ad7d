"""Calls that wait for the outcome of a message."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import Any

from . import _abi, _arguments, _convert, _interruptible
from ._arguments import Body, Duration, Time
from ._callbacks import call_guarded, expect_wait, forget_wait, raise_interruption, waited_trampoline
from ._commands import Commands
from ._handle import Handle
from .enums import Result
from .errors import ConflictError
from .models import Message

# Milliseconds between two checks for signals while the main thread polls.
_SIGNAL_INTERVAL = 200


class Waits:
    """The waits of one queue for outcomes."""

    def __init__(self, handle: Handle, commands: Commands) -> None:
        self._handle = handle
        self._commands = commands

    def wait(self, id: str, timeout: float | None = None) -> Message:
        """Waits for the first outcome of a message since it was enqueued, and returns the message as it is then.

        It returns at once when there was an outcome before, and when nothing will send the message now: it waits for
        the connection, for the end of a pause, for a time, for a transport, for a person, or behind a message that
        waits for one of these. While an attempt of the message is made, it waits for the outcome of that one.
        `send_now`, `retry`, `retry_all` and `drain(include_failed=True)` begin a new wait for an outcome.

        `status` says what happened. SENT, DELIVERED, READ: it was sent. FAILED: it failed, `failure` says why. QUEUED:
        it was not sent; `explanation` says what it waits for, `failure` why an attempt failed that will be repeated.

        A message that has left the store (discarded, replaced, deleted, or sent with `keep_sent=0`) has its outcome,
        too, if it was waited for at that time or is one of the last 4,096 messages that were sent or left the store in
        this process. Its explanation is GONE, unless it was sent, and little else is known of it.

        On a polled queue this call runs the callbacks itself when no other thread polls. On the main thread Ctrl-C ends
        the call by KeyboardInterrupt within half a second; the message stays where it is.

        Args:
            id: The message.
            timeout: Seconds after which it returns the message as it is then: SENDING, or QUEUED with the explanation
                NEXT, BEHIND, RATE or RETRYING. None: without end.

        Raises:
            NotFoundError: There is no such message, or it is gone and its outcome is not known.
            CorruptError: The message is damaged.
            ConflictError: Called inside a callback of the queue.
            ClosedError: The queue is closed, or was closed while this waited.
        """
        name, limit = _arguments.text("id", id), _arguments.timeout("timeout", timeout)
        self._check()
        return self._wait(name, limit)

    def send(
        self,
        body: Body,
        *,
        conversation: str = "",
        metadata: Mapping[str, str] | None = None,
        id: str | None = None,
        not_before: Time | None = None,
        delay: Duration | None = None,
        expires_at: Time | None = None,
        unmetered_only: bool = False,
        replace_key: str | None = None,
        priority: int = 0,
        time: Time | None = None,
        expiry: Duration | None = None,
        timeout: float | None = None,
    ) -> Message:
        """Stores one message as `enqueue` does, and waits for its outcome as `wait` does.

        Whatever ends the wait, the message is stored and will be sent like any other.

        Args:
            body: As for `enqueue`.
            conversation: As for `enqueue`.
            metadata: As for `enqueue`.
            id: As for `enqueue`.
            not_before: As for `enqueue`.
            delay: As for `enqueue`.
            expires_at: As for `enqueue`.
            unmetered_only: As for `enqueue`.
            replace_key: As for `enqueue`.
            priority: As for `enqueue`.
            time: As for `enqueue`.
            expiry: As for `enqueue`.
            timeout: As for `wait`.

        Returns:
            The message, which was sent, has failed, or is queued with an explanation.

        Raises:
            Error: As `enqueue`; then nothing was stored.
            ConflictError: Called inside a callback of the queue; then nothing was stored.
            ClosedError: The queue is closed, or was closed while this waited; the message may be stored.
        """
        limit = _arguments.timeout("timeout", timeout)
        self._check()
        made = self._commands.enqueue(
            body,
            conversation=conversation,
            metadata=metadata,
            id=id,
            not_before=not_before,
            delay=delay,
            expires_at=expires_at,
            unmetered_only=unmetered_only,
            replace_key=replace_key,
            priority=priority,
            time=time,
            expiry=expiry,
        )
        return self._wait(made.encode(), limit)

    def start(self, id: bytes, timeout_ms: int, done: Callable[[Message | BaseException], object]) -> None:
        """Begins a wait.

        Args:
            id: The message.
            timeout_ms: Milliseconds; negative: without end.
            done: Receives the message or the error where callbacks run, or in `close`.
        """
        handle = self._handle

        def ended(result: int, message: Any) -> None:  # noqa: ANN401 - a ctypes pointer
            try:
                if result != Result.TIMEOUT:
                    handle.check(result)
                found: Message | BaseException = _convert.message(message[0])
            except Exception as problem:  # noqa: BLE001 - raised where the caller waits
                found = problem
            done(found)

        context = expect_wait(ended)
        result = handle.lib.msgq_wait_async(handle.pointer, id, timeout_ms, waited_trampoline, context)
        if result != Result.OK:
            forget_wait(context)
        handle.check(result)

    def _check(self) -> None:
        """Refuses a wait that its own callback would have to end."""
        handle, threads = self._handle, self._handle.poll_threads
        if handle.callbacks.is_running_here or (threads is not None and threads.answers_here):
            raise ConflictError("a callback cannot wait for the outcome of a message of its own queue")

    def _wait(self, id: bytes, timeout_ms: int) -> Message:
        handle = self._handle
        if handle.poll_threads is not None:
            _ = handle.pointer
            return _interruptible.run(lambda: self._wait_here(id, timeout_ms), f"{handle.name} wait")
        if timeout_ms != 0 and threading.current_thread() is threading.main_thread():
            return self._poll(id, timeout_ms)
        return self._wait_here(id, timeout_ms)

    def _wait_here(self, id: bytes, timeout_ms: int) -> Message:
        """Makes the library's own call, which waits without checking for signals."""
        handle = self._handle
        found = ctypes.POINTER(_abi.Message)()
        result = call_guarded(handle.lib.msgq_wait, handle.pointer, id, timeout_ms, found)
        try:
            raise_interruption()
            if result != Result.TIMEOUT:
                # The message says more; an exception would withhold it from the caller.
                handle.check(result)
            return _convert.message(found[0])
        finally:
            handle.lib.msgq_message_free(found)

    def _poll(self, id: bytes, timeout_ms: int) -> Message:
        """Runs the callbacks on this thread until the wait ends, and checks for signals between them."""
        found: list[Message | BaseException] = []
        ended = threading.Event()

        def done(value: Message | BaseException) -> None:
            found.append(value)
            ended.set()

        self.start(id, timeout_ms, done)
        handle, ran = self._handle, ctypes.c_size_t()
        while not found:
            if handle.others_poll:
                ended.wait(_SIGNAL_INTERVAL / 1000)
                continue
            result = handle.poll(_SIGNAL_INTERVAL, ran)
            if result == Result.CLOSED:
                # The thread that closes the queue reports the end.
                ended.wait(_SIGNAL_INTERVAL / 1000)
            if not found:
                handle.check(result)
        value = found[0]
        if isinstance(value, BaseException):
            raise value
        return value

"""Registers the transport and the event handler with C, and starts the threads that run them, if any."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import _abi, _arguments
from ._callbacks import (
    BatchTransport,
    EventHandler,
    Transport,
    batch_transport_trampoline,
    event_trampoline,
    transport_trampoline,
)
from ._handle import Handle
from ._library import last_error
from .enums import Result
from .errors import InvalidError
from .models import BatchOptions

_NO_TRANSPORT = _abi.TransportFunction()
_NO_BATCH_TRANSPORT = _abi.BatchTransportFunction()
_NO_HANDLER = _abi.EventFunction()
# Python's reference counts keep callables alive. C could run a release function on a thread of the library, and none of
# those may enter Python.
_NO_RELEASE = _abi.ReleaseFunction()
# A queue has one function that sends.
_REPLACES = {"transport": "batch_transport", "batch_transport": "transport"}


class Registration:
    """The transport and the event handler of one queue."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        # C and Python must have the same callable, also when two threads set one.
        self._lock = threading.Lock()

    def set_transport(self, transport: Transport | None) -> None:
        """Sets the function that sends messages. A call in progress continues with the function it began with.

        It is called with a Delivery, on a thread of this package or in `poll`, and returns an Outcome within
        `delivery.timeout` seconds. An exception is a failure: time-outs and network errors of the standard library,
        `requests`, `httpx` and `aiohttp` have their kind, responses of `urllib.error.HTTPError` and `raise_for_status`
        count as responses, any other exception and any other return value is of kind UNKNOWN. It is logged in one line,
        with the traceback at level DEBUG, and the message is retried as after any failure.

        Args:
            transport: The function; None removes it.

        Raises:
            PermissionDeniedError: The queue was opened with `read_only`.
        """
        function = _NO_TRANSPORT if transport is None else transport_trampoline
        self._set("transport", transport, self._handle.lib.msgq_set_transport, function)

    def set_batch_transport(self, transport: BatchTransport | None, options: BatchOptions | None = None) -> None:
        """Sets a function that sends several messages in one call, in place of any transport.

        `set_transport` replaces it, and the other way round. It is called with a list of Delivery and returns a list
        with an Outcome for each, in the same order. The messages of one conversation are in order and next to each
        other, and none of that conversation is sent by another call before each of them has an outcome. To keep the
        order, the transport stops a conversation at its first failure and returns `Outcome.skipped()` for the rest of
        it. A batch begins in commits of up to 256 messages, and its outcomes are stored in commits of 64, between which
        other calls run. `retry` and `send_now` make a batch of one message.

        An exception is a failure of every message of the batch, with the kind as in `set_transport`; so is a list of
        another length, of kind UNKNOWN. None in the place of an Outcome is a failure of that message.

        Args:
            transport: The function; None removes it.
            options: The limits of a batch; None: BatchOptions().

        Raises:
            InvalidError: An option is out of range.
            PermissionDeniedError: The queue was opened with `read_only`.
        """
        limits = _batch_options(options if options is not None else BatchOptions())
        function = _NO_BATCH_TRANSPORT if transport is None else batch_transport_trampoline
        self._set("batch_transport", transport, self._handle.lib.msgq_set_batch_transport, function, limits)

    def set_event_handler(self, handler: EventHandler | None) -> None:
        """Sets the function that receives events.

        It gets one event at a time, in the order in which things happened, each after it is on disk. An exception that
        it raises is logged under "msgqueue".

        Args:
            handler: The function; None removes it.
        """
        function = _NO_HANDLER if handler is None and not self._handle.callbacks.followers else event_trampoline
        self._set("on_event", handler, self._handle.lib.msgq_set_event_handler, function)

    @contextmanager
    def following(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake` after each event, and when the queue is closed. It must not wait."""
        handle, callbacks = self._handle, self._handle.callbacks
        callbacks.followers.append(wake)
        try:
            if handle.poll_threads is not None:
                handle.poll_threads.start()
            with self._lock:
                handle.check(
                    handle.lib.msgq_set_event_handler(handle.pointer, event_trampoline, callbacks.number, _NO_RELEASE)
                )
            yield
        finally:
            callbacks.followers.remove(wake)

    def _set(self, name: str, target: object, register: Callable[..., int], function: object, *more: object) -> None:
        require_callable(name, target)
        pointer = self._handle.pointer
        callbacks = self._handle.callbacks
        with self._lock:
            before = getattr(callbacks, name)
            if target is not None:
                if self._handle.poll_threads is not None:
                    self._handle.poll_threads.start()
                # C may call as soon as it is registered, so a new target is set before that, and an old one removed
                # after it.
                setattr(callbacks, name, target)
            result = register(pointer, function, callbacks.number, _NO_RELEASE, *more)
            if result != Result.OK:
                setattr(callbacks, name, before)
                raise last_error(self._handle.lib, result)
            setattr(callbacks, name, target)
            if name in _REPLACES:
                # C has forgotten the other one too.
                setattr(callbacks, _REPLACES[name], None)


def _batch_options(options: BatchOptions) -> _abi.BatchOptions:
    if not isinstance(options, BatchOptions):
        raise TypeError(f"options must be BatchOptions, not {type(options).__name__}")
    for name, value, least, most in (
        ("max_messages", options.max_messages, 1, 1_000),
        ("max_bytes", options.max_bytes, 1, 1 << 30),
        ("max_batches", options.max_batches, 0, 64),
    ):
        if not least <= _arguments.whole(name, value) <= most:
            raise InvalidError(f"{name} must be {least} to {most}, got {value}")
    limits: _abi.BatchOptions = _abi.sized(
        _abi.BatchOptions, options.max_messages, ctypes.sizeof(_abi.Delivery), ctypes.sizeof(_abi.Outcome)
    )
    limits.max_bytes = options.max_bytes
    limits.linger_ms = _arguments.milliseconds("linger", options.linger)
    limits.single_conversation = _arguments.flag("single_conversation", options.single_conversation)
    limits.max_batches = options.max_batches
    return limits


def require_callable(name: str, target: object) -> None:
    """Raises TypeError for a target that cannot be called, or that is an async function."""
    if target is None:
        return
    if not callable(target):
        raise TypeError(f"{name} must be callable, not {type(target).__name__}")
    # Imported here, because it takes a tenth of the time of `import msgqueue`.
    from inspect import iscoroutinefunction

    if iscoroutinefunction(target):
        raise TypeError(f"{name} is an async function; this queue needs a plain one")

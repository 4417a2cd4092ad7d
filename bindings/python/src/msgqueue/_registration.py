"""Registers the transport and the event handler with C, and starts the threads that they run on, if any."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable

from . import _abi
from ._callbacks import EventHandler, Transport, event_trampoline, transport_trampoline
from ._handle import Handle
from ._library import last_error
from .enums import Result

_NO_TRANSPORT = _abi.TransportFunction()
_NO_HANDLER = _abi.EventFunction()
# Callables live as long as Python says. C could run a release function on a thread of its own, and none of those may
# enter Python.
_NO_RELEASE = _abi.ReleaseFunction()


class Registration:
    """The transport and the event handler of one queue."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        # C and Python must agree on who is called, also when two threads set it.
        self._lock = threading.Lock()

    def set_transport(self, transport: Transport | None) -> None:
        """See `MessageQueue.set_transport`."""
        function = _NO_TRANSPORT if transport is None else transport_trampoline
        self._set("transport", transport, self._handle.lib.msgq_set_transport, function)

    def set_event_handler(self, handler: EventHandler | None) -> None:
        """See `MessageQueue.set_event_handler`."""
        function = _NO_HANDLER if handler is None else event_trampoline
        self._set("on_event", handler, self._handle.lib.msgq_set_event_handler, function)

    def _set(self, name: str, target: object, register: Callable[..., int], function: object) -> None:
        require_callable(name, target)
        pointer = self._handle.pointer
        callbacks = self._handle.callbacks
        with self._lock:
            before = getattr(callbacks, name)
            if target is not None:
                if self._handle.poll_threads is not None:
                    self._handle.poll_threads.start()
                # Before C is told, as it may call at once; what is taken away goes only after C knows.
                setattr(callbacks, name, target)
            result = register(pointer, function, callbacks.number, _NO_RELEASE)
            if result != Result.OK:
                setattr(callbacks, name, before)
                raise last_error(self._handle.lib, result)
            setattr(callbacks, name, target)


def require_callable(name: str, target: object) -> None:
    """TypeError for what could not be called, or would only answer with a coroutine."""
    if target is None:
        return
    if not callable(target):
        raise TypeError(f"{name} must be callable, not {type(target).__name__}")
    if inspect.iscoroutinefunction(target):
        raise TypeError(f"{name} is an async function; this queue calls plain ones")

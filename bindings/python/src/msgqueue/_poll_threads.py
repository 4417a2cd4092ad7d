"""The Python threads that run a queue's callbacks.

The library's own threads never enter Python: one that did while the interpreter shuts down would crash or hang it.
Instead these threads wait in msgq_poll, where the library runs callbacks on them. They are daemons, so that a transport
that hangs cannot keep the process alive; closing the queue ends them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable

from . import _abi, _logs
from .enums import Result, Verdict
from .outcome import Outcome

logger = logging.getLogger("msgqueue")

_WITHOUT_END = -1
_PAUSE_AFTER_ERROR = 1.0
# Transports that hang beyond their time-out keep their threads. So many may do so before others have to wait.
_HANGING = 16


class _Place(threading.local):
    """Whose thread this is, and what for."""

    polls: PollThreads | None = None
    answers: PollThreads | None = None


_place = _Place()


class PollThreads:
    """Polls one queue, with one thread more than there are callbacks running.

    So events are delivered and other conversations sent while a transport blocks.
    """

    def __init__(self, lib: ctypes.CDLL, pointer: int, name: str, max_in_flight: int) -> None:
        self._lib = lib
        self._pointer = pointer
        self._name = name
        # One per attempt, one for events.
        self._most = max_in_flight + 1 + _HANGING
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._callbacks = 0
        self._is_short = False
        self._is_logged = False

    def start(self) -> None:
        """Starts the first thread, unless it was. RuntimeError when the system has none left."""
        with self._lock:
            if not self._threads:
                self._add()
                self._is_logged = _logs.listen(self._lib)

    def callback_began(self) -> None:
        """A callback runs on one of the threads, or on one that drains or closes."""
        with self._lock:
            self._callbacks += 1
            if 0 < len(self._threads) <= self._callbacks and len(self._threads) < self._most:
                try:
                    self._add()
                except RuntimeError:
                    # The system, or an interpreter that is ending, gives no more: those that there are serve.
                    if not self._is_short:
                        logger.warning("%s: no further thread can be started", self._name)
                    self._is_short = True

    def callback_ended(self) -> None:
        """A callback returned."""
        if os.getpid() != self._process:
            # The callback forked and this is the child: another thread may have held the lock, and is not here.
            return
        with self._lock:
            self._callbacks -= 1

    @property
    def polls_here(self) -> bool:
        """Whether this is one of the threads that poll."""
        return _place.polls is self

    @property
    def answers_here(self) -> bool:
        """Whether this thread makes an attempt for `answer_later`: in a callback, but the library does not know it."""
        return _place.answers is self

    def answer_later(self, token: int, send: Callable[[], Outcome]) -> bool:
        """Makes an attempt on a thread of its own, which then tells the library; False when there is none to be had."""
        return self._detach("sender", lambda: self._answer(token, send))

    def drain_later(self, options: _abi.DrainOptions) -> bool:
        """Drains on a thread of its own; False when there is none to be had."""
        return self._detach("drain", lambda: self._lib.msgq_drain(self._pointer, options, None))

    def end_log(self) -> None:
        """The queue is closed: nobody waits for its log lines any more."""
        with self._lock:
            is_logged, self._is_logged = self._is_logged, False
        if is_logged:
            _logs.unlisten()

    def join(self, timeout: float) -> None:
        """Waits for the threads to end, at most so many seconds; they end once the queue is closed."""
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0))

    def _add(self) -> None:
        name = f"{self._name} {len(self._threads) + 1}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _detach(self, what: str, run: Callable[[], object]) -> bool:
        try:
            threading.Thread(target=run, name=f"{self._name} {what}", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        _place.polls = self
        while True:
            result = self._lib.msgq_poll(self._pointer, _WITHOUT_END, None)
            if result == Result.OK:
                continue
            if result in (Result.CLOSED, Result.FORKED):
                return
            # It should not be; but giving up would leave the queue dumb, and trying at once would spin.
            logger.error("%s: msgq_poll answered %d", self._name, result)
            time.sleep(_PAUSE_AFTER_ERROR)

    def _answer(self, token: int, send: Callable[[], Outcome]) -> None:
        _place.answers = self
        outcome = send()
        if outcome.verdict is Verdict.PENDING:
            return
        # What comes after the time-out or the close is refused, and rightly so: the ledger has its line.
        result = self._lib.msgq_complete(self._pointer, token, outcome._for_c())
        if result not in (Result.OK, Result.CONFLICT, Result.CLOSED):
            logger.error("%s: msgq_complete answered %d", self._name, result)

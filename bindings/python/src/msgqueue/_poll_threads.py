"""The Python threads that run a queue's callbacks.

The library's own threads never enter Python, because that could crash or hang the interpreter while it shuts down.
These threads wait in msgq_poll, where the library runs callbacks on them. They are daemons, so that a transport that
hangs cannot keep the process alive. Closing the queue ends them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable

from . import _abi, _logs, _threads
from .enums import Result, Verdict
from .outcome import Outcome, _array_for_c, in_settling_order

logger = logging.getLogger("msgqueue")

_WITHOUT_END = -1
# Seconds until the next poll after one that failed.
_RETRY_DELAY = 1.0
# Additional threads for transports that hang beyond their time-out. With more of them others have to wait.
_MAX_HUNG_CALLS = 16


class _Role(threading.local):
    """The queue that this thread polls, or for which it makes an attempt."""

    polls: PollThreads | None = None
    answers: PollThreads | None = None


_role = _Role()


def complete(lib: ctypes.CDLL, pointer: int, answers: Iterable[tuple[int, Outcome]]) -> int:
    """Passes outcomes to the library, without those that follow later. Returns the result of the call."""
    final = in_settling_order(answer for answer in answers if answer[1].verdict is not Verdict.PENDING)
    tokens = (ctypes.c_uint64 * len(final))(*(token for token, _ in final))
    result: int = lib.msgq_complete_batch(pointer, tokens, _array_for_c([each for _, each in final]), len(final), None)
    return result


class PollThreads:
    """Polls one queue, with one thread more than callbacks are running.

    So events are delivered, and other conversations are sent, while a transport blocks.
    """

    def __init__(self, lib: ctypes.CDLL, pointer: int, name: str, max_in_flight: int) -> None:
        self._lib = lib
        self._pointer = pointer
        self._name = name
        # One per attempt, one for events.
        self._max_threads = max_in_flight + 1 + _MAX_HUNG_CALLS
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._callbacks = 0
        self._is_out_of_threads = False
        self._is_logged = False

    def start(self) -> None:
        """Starts the first thread, once.

        Raises:
            RuntimeError: The system has no thread left, or the interpreter is ending.
        """
        with self._lock:
            if not self._threads:
                self._add()
                self._is_logged = _logs.listen(self._lib)

    def callback_began(self) -> None:
        """Counts a callback that begins, on any thread, and adds a thread when all are in use."""
        with self._lock:
            self._callbacks += 1
            if 0 < len(self._threads) <= self._callbacks and len(self._threads) < self._max_threads:
                try:
                    self._add()
                except RuntimeError:
                    # None is left, or the interpreter is ending. The existing threads have to do.
                    if not self._is_out_of_threads:
                        logger.warning("%s: no further thread can be started", self._name)
                    self._is_out_of_threads = True

    def callback_ended(self) -> None:
        """Counts a callback that returned."""
        if os.getpid() != self._process:
            # The callback forked, and this is the child: a thread that does not exist here may hold the lock.
            return
        with self._lock:
            self._callbacks -= 1

    @property
    def polls_here(self) -> bool:
        """Whether this thread is one of those that poll."""
        return _role.polls is self

    @property
    def answers_here(self) -> bool:
        """Whether this thread makes an attempt for `answer_later`. To the library it is not inside a callback then."""
        return _role.answers is self

    def answer_later(self, tokens: list[int], send: Callable[[], list[Outcome]]) -> bool:
        """Makes attempts on a new thread, which then passes the outcomes to the library.

        Returns False when no thread can be started.
        """
        return self._detach("sender", lambda: self._answer(tokens, send))

    def drain_later(self, options: _abi.DrainOptions) -> bool:
        """Drains on a new thread. Returns False when none can be started."""
        return self._detach("drain", lambda: self._lib.msgq_drain(self._pointer, options, None))

    def end_log(self) -> None:
        """Stops logging for this queue when it is closed."""
        with self._lock:
            is_logged, self._is_logged = self._is_logged, False
        if is_logged:
            _logs.unlisten()

    def join(self, timeout: float) -> None:
        """Waits at most `timeout` seconds for the threads, which end when the queue is closed."""
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0))

    def _add(self) -> None:
        name = f"{self._name} {len(self._threads) + 1}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        _threads.start(thread)
        self._threads.append(thread)

    def _detach(self, what: str, run: Callable[[], object]) -> bool:
        try:
            _threads.start(threading.Thread(target=run, name=f"{self._name} {what}", daemon=True))
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        _role.polls = self
        while True:
            result = self._lib.msgq_poll(self._pointer, _WITHOUT_END, None)
            if result == Result.OK:
                continue
            if result in (Result.CLOSED, Result.FORKED):
                return
            # Not expected. Ending the thread would end all callbacks, and polling again at once could spin.
            logger.error("%s: msgq_poll returned %d", self._name, result)
            time.sleep(_RETRY_DELAY)

    def _answer(self, tokens: list[int], send: Callable[[], list[Outcome]]) -> None:
        _role.answers = self
        # An answer after the time-out or after the close is refused; the attempt is recorded already.
        result = complete(self._lib, self._pointer, zip(tokens, send()))
        if result not in (Result.OK, Result.CLOSED):
            logger.error("%s: msgq_complete_batch returned %d", self._name, result)

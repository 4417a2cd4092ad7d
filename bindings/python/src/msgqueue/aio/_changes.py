"""The thread that makes the changes of a queue, where messages that wait at the same time share a commit."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Iterator
from typing import Any

from .. import _abi, _drafts
from ..errors import CorruptError, DuplicateError, FullError, InvalidError, StorageError, TooLargeError
from ..queue import MessageQueue
from ._executor import Executor, Job, call_on_loop, set_exception, set_result

# The messages and the bytes of bodies in one commit: the library's lock is held meanwhile.
_MAX_MESSAGES = 256
_MAX_BYTES = 1 << 20

# After these a batch has changed nothing, and some of its messages may be the cause.
_REFUSALS = (CorruptError, DuplicateError, FullError, InvalidError, StorageError, TooLargeError)


class Changes(Executor):
    """Runs changes in the order of the calls. Consecutive calls of `enqueue` that wait are made together."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The job that was submitted last, if it takes more messages.
        self._group: _Group | None = None
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        """As `Executor.submit`. Messages that are enqueued later are stored after the job."""
        self._group = None
        super().submit(job)

    async def enqueue(self, queue: MessageQueue, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
        """Calls `queue.enqueue` with these arguments, after the changes that were requested before.

        Cancelled before the message is taken for a commit, it is not stored. Cancelled later, it may be.
        """
        loop = asyncio.get_running_loop()
        message = _Message(loop.create_future(), arguments, named)
        if self._group is None or not self._group.add(message):
            group = _Group(loop, queue, self._lock, message)
            self.submit(group.run)
            self._group = group
        return await message.answer


class _Message:
    """One call of `enqueue`."""

    __slots__ = ("answer", "arguments", "named", "result")

    def __init__(self, answer: asyncio.Future[str], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.answer = answer
        self.arguments = arguments
        self.named = named
        self.result: str | BaseException = ""

    @property
    def size(self) -> int:
        """The length of the body, or 0 when it is not in the usual place or of a wrong type."""
        body = self.arguments[0] if self.arguments else None
        return len(body) if isinstance(body, (bytes, str)) else 0


class _Group:
    """Messages of consecutive calls."""

    __slots__ = ("_lock", "_loop", "_queue", "_waiting")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, queue: MessageQueue, lock: threading.Lock, first: _Message
    ) -> None:
        self._loop = loop
        self._queue = queue
        self._lock = lock
        self._waiting: list[_Message] | None = [first]

    def add(self, message: _Message) -> bool:
        """Adds a message. Returns False when the group is being stored already."""
        with self._lock:
            if self._waiting is None:
                return False
            self._waiting.append(message)
            return True

    def run(self) -> None:
        """Stores the messages in the order of the calls, and answers the calls."""
        with self._lock:
            waiting, self._waiting = self._waiting or [], None
        for messages in _parts(waiting):
            _store(self._queue, messages)
            call_on_loop(self._loop, _answer, messages)


def _parts(waiting: list[_Message]) -> Iterator[list[_Message]]:
    """Divides messages into those of a commit each, without those that are cancelled by then."""
    part: list[_Message] = []
    size = 0
    for message in waiting:
        if part and (len(part) == _MAX_MESSAGES or size + message.size > _MAX_BYTES):
            yield part
            part, size = [], 0
        if not message.answer.cancelled():
            part.append(message)
            size += message.size
    if part:
        yield part


def _store(queue: MessageQueue, messages: list[_Message]) -> None:
    """Stores messages in this order, and sets the result of each. An error of one is not one of the others."""
    if len(messages) == 1:
        _store_one(queue, messages[0])
    elif not _store_together(queue, messages):
        middle = len(messages) // 2
        _store(queue, messages[:middle])
        _store(queue, messages[middle:])


def _store_one(queue: MessageQueue, message: _Message) -> None:
    try:
        message.result = queue.enqueue(*message.arguments, **message.named)
    except BaseException as problem:  # noqa: BLE001 - raised in the task that awaits the call
        message.result = problem


def _store_together(queue: MessageQueue, messages: list[_Message]) -> bool:
    """Stores messages in one commit. Returns False when nothing was stored because of some of them."""
    drafts = (_abi.Draft * len(messages))()
    try:
        for draft, message in zip(drafts, messages):
            _drafts.fill(draft, *message.arguments, **message.named)
    except BaseException:  # noqa: BLE001 - raised again when the message is stored alone
        return False
    try:
        ids = queue._commands.enqueue_array(drafts)
    except _REFUSALS:
        return False
    except BaseException as problem:  # noqa: BLE001 - raised in the tasks that await the calls
        # The queue is closed, or the messages may be stored: then a second call would store them twice.
        for message in messages:
            # Each task adds its own traceback.
            message.result = copy.copy(problem)
    else:
        for message, id in zip(messages, ids):
            message.result = id
    return True


def _answer(messages: list[_Message]) -> None:
    for message in messages:
        if isinstance(message.result, BaseException):
            set_exception(message.answer, message.result)
        else:
            set_result(message.answer, message.result)

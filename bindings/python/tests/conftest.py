"""A store file, a receiver, and queues that are closed at the end."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - a child forked while a thread imports it (getaddrinfo does) hangs in the import lock
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from msgqueue import MessageQueue
from receiver import Receiver
from sender import HttpTransport


class Opener(Protocol):
    """Opens a queue on the test's store, with the options of MessageQueue."""

    def __call__(self, path: Path | None = None, **options: Any) -> MessageQueue: ...


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.stop()


@pytest.fixture
def http(receiver: Receiver) -> HttpTransport:
    return HttpTransport(receiver.port)


@pytest.fixture
def opened(store: Path, receiver: Receiver) -> Iterator[Opener]:
    queues: list[MessageQueue] = []

    def opener(path: Path | None = None, **options: Any) -> MessageQueue:
        queue = MessageQueue(path or store, **options)
        queues.append(queue)
        return queue

    yield opener
    receiver.open_gates()
    for queue in queues:
        queue.close(timeout=20)

"""F7: the size of the file."""

from __future__ import annotations

from pathlib import Path

from conftest import Opener
from msgqueue import MessageQueue, Mode, Outcome
from support import wait_until


def test_F7_the_file_becomes_shorter_while_the_queue_is_idle(opened: Opener, store: Path) -> None:
    def reopened() -> MessageQueue:
        return opened(transport=lambda _: Outcome.sent(), mode=Mode.MANUAL, direct=False, keep_sent=50)

    queue = reopened()
    empty = queue.stats()
    queue.enqueue_batch({"body": b"x" * 500, "conversation": str(number % 20)} for number in range(3000))
    queue.close()  # copies everything from the log to the file
    queue = reopened()
    full = queue.stats()
    assert full.file_bytes == store.stat().st_size
    assert full.file_bytes > empty.file_bytes + 3000 * 500
    queue.drain()
    assert queue.counts().sent <= 55
    wait_until(lambda: queue.stats().file_bytes < full.file_bytes / 4)
    stats = queue.stats()
    assert stats.free_bytes < stats.file_bytes
    wait_until(lambda: store.stat().st_size < full.file_bytes / 4)
    assert "msgqueue_file_bytes{" in queue.prometheus()

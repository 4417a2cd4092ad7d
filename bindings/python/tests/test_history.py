"""H: history, readable offline."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    ConflictError,
    Connectivity,
    DuplicateError,
    InvalidError,
    Message,
    MessageQueue,
    Mode,
    Reason,
    RetryPolicy,
    Status,
    aio,
)
from receiver import Receiver
from sender import HttpTransport
from support import program, wait_until


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_H1_sent_messages_stay_readable_after_a_restart_and_offline(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    ids = [queue.enqueue(str(number), conversation="ana", metadata={"n": str(number)}) for number in range(3)]
    assert queue.drain().sent == 3
    queue.close()
    receiver.stop()

    queue = opened(mode=Mode.MANUAL)
    queue.set_connectivity(Connectivity.OFFLINE)
    messages = queue.list("ana", status=Status)
    assert [message.id for message in messages] == ids
    assert [message.metadata for message in messages] == [{"n": "0"}, {"n": "1"}, {"n": "2"}]
    assert all(message.status is Status.SENT and message.sent is not None for message in messages)


def test_H1_old_history_is_pruned_but_never_queued_or_failed_messages(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    receiver.answer_by(lambda request: 400 if request.text == "failed" else 200)
    for text in ("sent", "failed"):
        queue.enqueue(text)
    queue.drain()
    queue.mark(queue.record("received", sender="ben"), Status.READ)
    queue.enqueue("queued")
    queue.close()
    time.sleep(0.05)
    queue = opened(mode=Mode.MANUAL, keep_sent=0, keep_sent_for=0.01)
    wait_until(lambda: texts(queue.list(status=Status)) == ["failed", "queued"])


def test_H2_recorded_messages_complete_a_conversation(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    queue.enqueue("how are you?", conversation="ana")
    queue.drain()
    id = queue.record(b"fine\0thanks", sender="ana", conversation="ana", metadata={"k": "v"}, id="theirs")
    queue.enqueue("good", conversation="ana")
    assert id == "theirs"
    message = queue.get(id)
    assert (message.sender, message.conversation, message.status) == ("ana", "ana", Status.DELIVERED)
    assert (message.body, message.metadata, message.attempts) == (b"fine\0thanks", {"k": "v"}, 0)
    assert texts(queue.list("ana", status=Status)) == ["how are you?", "fine\0thanks", "good"]
    assert [message.sender for message in queue.list("ana", status=Status)] == [None, "ana", None]
    assert queue.drain().sent == 1
    assert receiver.texts == ["how are you?", "good"]


def test_H2_recording_a_message_twice_stores_it_once(opened: Opener) -> None:
    queue = opened()
    assert queue.record("hello", sender="ana", id="theirs") == "theirs"
    queue.mark("theirs", Status.READ)
    before = queue.get("theirs")
    assert queue.record("another", sender="eve", conversation="elsewhere", id="theirs") == "theirs"
    assert queue.get("theirs") == before
    assert queue.counts().received == 1
    with pytest.raises(DuplicateError):
        queue.enqueue("ours", id="theirs")


def test_H2_the_id_of_a_message_to_send_cannot_be_recorded(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    id = queue.enqueue("ours")
    with pytest.raises(DuplicateError):
        queue.record("theirs", sender="ana", id=id)
    assert texts(queue.list(status=Status)) == ["ours"]
    with pytest.raises(InvalidError):
        queue.record("theirs", sender="")


def test_H2_a_recorded_message_gets_an_id_and_can_only_be_marked_read_or_deleted(
    opened: Opener, http: HttpTransport
) -> None:
    queue = opened(transport=http)
    ids = [queue.record(text, sender="ana") for text in ("one", "two")]
    assert len(set(ids)) == 2
    for call in (queue.retry, queue.send_now, lambda id: queue.edit(id, "other words")):
        with pytest.raises(ConflictError):
            call(ids[0])
    assert queue.explain(ids[0]).code is Reason.NONE
    queue.mark(ids[0], Status.READ)
    counts = queue.counts()
    assert (counts.received, counts.unread) == (2, 1)
    assert (counts.sent, counts.delivered, counts.read, counts.queued) == (0, 0, 0, 0)
    queue.delete(ids[1])
    assert queue.counts().unread == 0


def long_conversation(queue: MessageQueue, length: int) -> list[str]:
    """Fills one conversation with sent and recorded messages by turns, and another one between them."""
    written = []
    for number in range(length):
        if number % 2:
            queue.record(str(number), sender="ana", conversation="ana")
        else:
            queue.enqueue(str(number), conversation="ana")
        queue.enqueue(f"other {number}", conversation="ben")
        written.append(str(number))
    return written


@pytest.mark.parametrize("newest_first", [True, False])
def test_H3_a_conversation_is_paged_backwards_and_forwards_offline(opened: Opener, newest_first: bool) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    written = long_conversation(queue, 25)
    pages: list[list[str]] = []
    after = None
    while page := queue.list("ana", status=Status, limit=10, after=after, newest_first=newest_first):
        pages.append(texts(page))
        after = page[-1].sequence
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [each for page in pages for each in page] == (written[::-1] if newest_first else written)


def test_H3_paging_may_change_its_direction(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    long_conversation(queue, 9)
    newest = queue.list("ana", status=Status, limit=3, newest_first=True)
    older = queue.list("ana", status=Status, limit=3, newest_first=True, after=newest[-1].sequence)
    assert texts(older) == ["5", "4", "3"]
    assert texts(queue.list("ana", status=Status, after=older[0].sequence)) == ["6", "7", "8"]


def test_H4_conversations_are_listed_by_their_newest_message(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[]))
    receiver.answer_by(lambda request: 400 if request.text == "bad" else 200)
    for text, conversation in (("good", "ana"), ("bad", "ana"), ("good", "ben")):
        queue.enqueue(text, conversation=conversation)
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.record("unread", sender="cleo", conversation="cleo")
    read = queue.record("read", sender="cleo", conversation="cleo")
    queue.mark(read, Status.READ)
    last = queue.enqueue("newest " * 100, conversation="ana")

    ana, cleo, ben = queue.conversations()
    assert [each.name for each in (ana, cleo, ben)] == ["ana", "cleo", "ben"]
    assert (ana.counts.queued, ana.counts.failed, ana.counts.sent, ana.counts.unread) == (1, 1, 1, 0)
    assert (cleo.counts.received, cleo.counts.unread, cleo.counts.queued) == (2, 1, 0)
    assert ana.counts == queue.counts("ana")
    assert (ana.last.id, ana.last.body, ana.last.body_size) == (last, None, 700)
    assert ana.last.preview == ("newest " * 100)[:100]
    assert abs(datetime.now(timezone.utc) - ana.last.created) < timedelta(minutes=1)
    assert (cleo.last.id, cleo.last.sender, cleo.last.status) == (read, "cleo", Status.READ)
    assert (ben.last.preview, ben.last.status) == ("good", Status.SENT)

    queue.record("hello again", sender="ben", conversation="ben")
    assert [each.name for each in queue.conversations()] == ["ben", "ana", "cleo"]


def test_H4_conversations_are_listed_page_by_page(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.conversations() == []
    queue.enqueue_batch({"body": "x", "conversation": f"c{number % 25}"} for number in range(100))
    pages: list[list[str]] = []
    before = 0
    while page := queue.conversations(before=before, limit=10):
        pages.append([each.name for each in page])
        before = page[-1].last.sequence
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [each for page in pages for each in page] == [f"c{number}" for number in reversed(range(25))]


def test_H4_a_conversation_disappears_with_its_last_message(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    first, second = queue.enqueue("1", conversation="ana"), queue.enqueue("2", conversation="ana")
    queue.delete(second)
    (ana,) = queue.conversations()
    assert ana.last.id == first
    queue.delete(first)
    assert queue.conversations() == []


CONVERSE_AND_DIE = """
    import signal, sys
    from msgqueue import Connectivity, MessageQueue, Mode, Status
    from sender import HttpTransport

    queue = MessageQueue(sys.argv[1], transport=HttpTransport(int(sys.argv[2])), mode=Mode.MANUAL, direct=False)
    queue.enqueue("sent", conversation="ana")
    queue.enqueue("refused", conversation="ana")
    queue.drain()
    queue.record("received", sender="ana", conversation="ana", id="theirs")
    queue.record("seen", sender="ana", conversation="ana", id="seen")
    queue.mark("seen", Status.READ)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("queued", conversation="ana")
    queue.enqueue("other", conversation="ben")
    print("ready", flush=True)
    signal.pause()
"""


def test_H5_history_and_conversations_survive_kill_9(opened: Opener, store: Path, receiver: Receiver) -> None:
    receiver.answer_next(200, 400)
    with program(CONVERSE_AND_DIE, store, receiver.port) as child:
        assert child.line() == "ready"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    receiver.stop()
    queue = opened(mode=Mode.MANUAL)
    queue.set_connectivity(Connectivity.OFFLINE)
    whole = queue.list("ana", status=Status)
    assert texts(whole) == ["sent", "refused", "received", "seen", "queued"]
    assert [message.status for message in whole] == [
        Status.SENT,
        Status.FAILED,
        Status.DELIVERED,
        Status.READ,
        Status.QUEUED,
    ]
    assert texts(queue.list("ana", status=Status, newest_first=True)) == texts(whole)[::-1]
    ben, ana = queue.conversations()
    assert (ben.name, ben.last.preview) == ("ben", "other")
    assert (ana.counts.queued, ana.counts.failed, ana.counts.sent) == (1, 1, 1)
    assert (ana.counts.received, ana.counts.unread) == (2, 1)
    assert queue.record("received", sender="ana", conversation="ana", id="theirs") == "theirs"
    assert queue.counts("ana").received == 2


def test_H13_a_conversation_is_deleted_with_its_history(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    receiver.answer_by(lambda request: 400 if request.text == "failed" else 200)
    for text in ("sent", "failed"):
        queue.enqueue(text, conversation="ana")
    queue.enqueue("other", conversation="ben")
    queue.drain()
    queue.record("received", conversation="ana", sender="ana")
    queue.enqueue("queued", conversation="ana")
    assert queue.delete_conversation("ana") == 4
    assert [conversation.name for conversation in queue.conversations()] == ["ben"]
    assert queue.delete_conversation("nobody") == 0
    with pytest.raises(TypeError, match="conversation"):
        queue.delete_conversation(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidError):
        queue.delete_conversation("x" * 300)
    assert texts(queue.list(status=Status)) == ["other"]


def test_H13_failed_messages_are_cleared(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    receiver.answer_by(lambda request: 400)
    for conversation in ("ana", "ana", "ben"):
        queue.enqueue("text", conversation=conversation)
    queue.drain()
    queue.enqueue("queued", conversation="ana")
    assert queue.clear_failed("ana") == 2
    assert queue.counts().failed == 1
    assert queue.clear_failed() == 1
    assert texts(queue.list()) == ["queued"]


def test_H13_the_asyncio_queue_deletes_a_conversation(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            await queue.enqueue("a", conversation="ana")
            await queue.enqueue("b", conversation="ben")
            assert await queue.delete_conversation("ana") == 1
            assert await queue.clear_failed() == 0
            assert (await queue.counts()).queued == 1

    asyncio.run(main())

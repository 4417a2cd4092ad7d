"""F5: messages with a replace key, and F6: a full queue that drops its oldest messages."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    Draft,
    DuplicateError,
    EventKind,
    FailureKind,
    FullError,
    InvalidError,
    MessageQueue,
    Mode,
    NotFoundError,
    OnFull,
    Outcome,
    RetryPolicy,
    Status,
    aio,
)
from receiver import Receiver
from sender import HttpTransport
from support import Events, program, wait_until


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.ERROR, logger="msgqueue"):
        yield


def unsent(queue: MessageQueue) -> list[str]:
    return [message.text for message in queue.list()]


def test_F5_a_message_takes_the_place_of_the_queued_one_of_its_key(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, on_event=events)
    queue.enqueue("before", conversation="ana")
    old = queue.enqueue("at 1", conversation="ana", replace_key="position")
    queue.enqueue("behind", conversation="ana")
    place = queue.get(old).sequence
    new = queue.enqueue("at 2", conversation="ana", replace_key="position", metadata={"n": "2"})
    assert unsent(queue) == ["before", "at 2", "behind"]
    message = queue.get(new)
    assert (message.sequence, message.metadata, message.attempts) == (place, {"n": "2"}, 0)
    assert new != old
    with pytest.raises(NotFoundError):
        queue.get(old)
    with pytest.raises(NotFoundError):
        queue.retry(old)
    with pytest.raises(NotFoundError):
        queue.edit(old, "x")
    with pytest.raises(DuplicateError):
        queue.enqueue("again", id=old)
    replaced = events.wait_for(EventKind.REPLACED)
    assert (replaced.id, replaced.text, replaced.conversation) == (old, new, "ana")
    assert queue.counts("ana").queued == 3
    statistics = queue.stats()
    assert (statistics.enqueued, statistics.replaced, statistics.discarded) == (4, 1, 0)
    assert re.search(r"^msgqueue_replaced_total\{[^}]*\} 1$", queue.prometheus(), re.MULTILINE)
    queue.drain()
    assert receiver.texts == ["before", "at 2", "behind"]


def test_F5_the_key_belongs_to_the_conversation_and_empty_means_none(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False)
    for text, conversation, key in [
        ("a", "ana", "k"),
        ("b", "ben", "k"),
        ("c", "ana", "K"),
        ("d", "ana", ""),
        ("e", "ana", None),
        ("f", "ana", "k"),
        ("g", "ana", "ключ"),
        ("h", "ana", "ключ"),
    ]:
        queue.enqueue(text, conversation=conversation, replace_key=key)
    assert unsent(queue) == ["f", "b", "c", "d", "e", "h"]
    for wrong in ("x" * 256, "a\nb"):
        with pytest.raises(InvalidError, match=r"replace.key"):
            queue.enqueue("x", replace_key=wrong)
    with pytest.raises(TypeError):
        queue.enqueue("x", replace_key=1)  # type: ignore[arg-type]


def test_F5_one_that_is_being_sent_is_left(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.AUTO, online_debounce=0)
    with receiver.holding() as gate:
        first = queue.enqueue("1", conversation="ana", replace_key="k")
        wait_until(lambda: receiver.texts == ["1"])
        second = queue.enqueue("2", conversation="ana", replace_key="k")
        third = queue.enqueue("3", conversation="ana", replace_key="k")
        assert queue.get(first).status is Status.SENDING
        with pytest.raises(NotFoundError):
            queue.get(second)
        gate.open()
        wait_until(lambda: queue.get(third).status is Status.SENT)
    assert receiver.texts == ["1", "3"]


def test_F5_a_delay_is_not_inherited_and_a_failed_message_stays(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[600]))
    old = queue.enqueue("1", conversation="ana", replace_key="k")
    receiver.answer_next(503)
    assert queue.drain().remaining == 1
    assert queue.get(old).next_attempt is not None
    new = queue.enqueue("2", conversation="ana", replace_key="k")
    assert (queue.get(new).next_attempt, queue.get(new).retries_used, queue.attempts(new)) == (None, 0, [])
    receiver.answer_next(422)
    assert queue.drain().failed == 1
    queue.enqueue("3", conversation="ana", replace_key="k")
    assert unsent(queue) == ["2", "3"]


@pytest.mark.parametrize("count", [5, 201])
def test_F5_of_a_batch_the_last_one_wins(opened: Opener, count: int) -> None:
    events = Events()
    queue = opened(mode=Mode.MANUAL, direct=False, on_event=events)
    drafts = [
        Draft(str(number), conversation="ana", replace_key="k" if number % 2 == 0 else None) for number in range(count)
    ]
    ids = queue.enqueue_batch(drafts)
    odd = [str(number) for number in range(1, count, 2)]
    assert [message.text for message in queue.list(limit=count)] == [str(count - 1), *odd]
    assert queue.counts("ana").queued == len(odd) + 1
    assert len(set(ids)) == count
    wait_until(lambda: len(events.all(EventKind.REPLACED)) == count // 2)
    assert [event.id for event in events.all(EventKind.REPLACED)] == ids[0 : count - 1 : 2]
    assert [event.text for event in events.all(EventKind.REPLACED)] == ids[2::2]
    with pytest.raises(DuplicateError):
        queue.enqueue_batch([{"body": "x", "id": ids[0]}])


REPLACING = """
    import sys
    from msgqueue import MessageQueue, Mode
    queue = MessageQueue(sys.argv[1], mode=Mode.MANUAL, direct=False)
    queue.enqueue("first", conversation="ana")
    number = 0
    while True:
        queue.enqueue_batch([
            {"body": f"{number} {key}", "conversation": "ana", "replace_key": key} for key in ("a", "b")
        ])
        print(number, flush=True)
        number += 1
"""


def test_F5_replacements_survive_kill_9(store: Path, opened: Opener) -> None:
    for run in range(3):
        store.unlink(missing_ok=True)
        with program(REPLACING, store) as writer:
            for _ in range(5 + 10 * run):
                last = int(writer.line())
            writer.signal(9)
            writer.wait()
        queue = opened(mode=Mode.MANUAL, direct=False)
        messages = queue.list()
        numbers = {int(message.text.split()[0]) for message in messages[1:]}
        # Both or none of a batch, and at least what was acknowledged.
        assert len(messages) == 3
        assert len(numbers) == 1
        assert numbers.pop() >= last
        assert [message.sequence for message in messages] == [1, 2, 3]
        queue.close()


def test_F5_F6_asyncio(store: Path) -> None:
    async def test() -> None:
        sent = []

        async def transport(delivery: object) -> Outcome:
            sent.append(delivery.body)  # type: ignore[attr-defined]
            return Outcome.sent()

        async with aio.MessageQueue(
            store,
            transport,
            mode=Mode.MANUAL,
            direct=False,
            limit_messages=2,
            on_full=OnFull.DROP_OLDEST,
            limit_file_bytes=16 << 20,
        ) as queue:
            await queue.enqueue("oldest", conversation="ben")
            await queue.enqueue("1", conversation="ana", replace_key="k")
            await queue.enqueue("2", conversation="ana", replace_key="k")
            await queue.enqueue_batch([Draft("3", conversation="ana", replace_key="k"), Draft("last")])
            await queue.drain()
        assert sent == [b"3", b"last"]

    asyncio.run(test())


def test_F6_a_full_queue_refuses_by_default_or_drops_the_oldest(opened: Opener, tmp_path: Path) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, limit_messages=2)
    queue.enqueue_batch([{"body": "a"}, {"body": "b"}])
    with pytest.raises(FullError):
        queue.enqueue("c")
    assert unsent(queue) == ["a", "b"]
    events = Events()
    queue = opened(
        tmp_path / "dropping.db",
        mode=Mode.MANUAL,
        direct=False,
        limit_messages=2,
        on_full=OnFull.DROP_OLDEST,
        on_event=events,
    )
    first = queue.enqueue("a", conversation="ana")
    queue.enqueue("b", conversation="ben")
    queue.enqueue("c", conversation="ben")
    assert unsent(queue) == ["b", "c"]
    event = events.wait_for(EventKind.DISCARDED)
    assert event.failure is not None
    assert (event.id, event.conversation, event.failure.kind) == (first, "ana", FailureKind.DROPPED)
    assert FailureKind.DROPPED.sentence
    statistics = queue.stats()
    assert (statistics.discarded, statistics.failures[FailureKind.DROPPED]) == (1, 1)
    with pytest.raises(FullError):
        queue.enqueue_batch([{"body": str(number)} for number in range(3)])
    assert unsent(queue) == ["b", "c"]


def test_F6_one_that_is_being_sent_or_failed_is_not_dropped(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    queue = opened(
        transport=http, mode=Mode.MANUAL, direct=False, limit_messages=2, on_full=OnFull.DROP_OLDEST, remember_ids=0
    )
    receiver.answer_next(422)
    failed = queue.enqueue("failed")
    queue.drain()
    with receiver.holding() as gate:
        sending = queue.enqueue("sending", conversation="ana")
        queue.send_now(sending)
        wait_until(lambda: receiver.texts == ["failed", "sending"])
        with pytest.raises(FullError):
            queue.enqueue("more")
        assert {failed, sending} == {message.id for message in queue.list()}
        gate.open()
        wait_until(lambda: queue.get(sending).status is Status.SENT)
    queue.enqueue("a")
    queue.enqueue("b")
    assert unsent(queue) == ["failed", "b"]


@pytest.mark.parametrize("on_full", OnFull)
def test_F6_the_files_stay_below_their_limit(opened: Opener, store: Path, on_full: OnFull) -> None:
    limit = 3 << 20
    queue = opened(mode=Mode.MANUAL, direct=False, limit_file_bytes=limit, on_full=on_full)
    log = store.with_name(store.name + "-wal")
    refused = 0
    for _ in range(60):
        try:
            queue.enqueue_batch([{"body": "x" * 1500} for _ in range(30)])
        except FullError:
            refused += 1
        assert store.stat().st_size + log.stat().st_size <= limit
    assert queue.counts().queued > 500
    assert (refused == 0) == (on_full is OnFull.DROP_OLDEST)
    with pytest.raises(FullError):
        queue.enqueue_batch([{"body": "x" * 100_000} for _ in range(40)])
    queue.clear()
    queue.enqueue("there is room again")


def test_F6_wrong_options(opened: Opener) -> None:
    cases: list[tuple[str, Any, type[Exception]]] = [
        ("limit_file_bytes", -1, InvalidError),
        ("limit_file_bytes", 2**63, InvalidError),
        ("limit_file_bytes", 1.5, TypeError),
        ("on_full", 1, TypeError),
        ("on_full", "drop", TypeError),
    ]
    for name, wrong, error in cases:
        with pytest.raises(error, match=name):
            opened(**{name: wrong})

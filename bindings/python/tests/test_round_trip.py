"""Every valid message is read and delivered as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msgqueue import Connectivity, Delivery, Draft, MessageQueue, Mode, Outcome
from support import wait_until

# Without control characters, which the library refuses in names.
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=60)
STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=100)
METADATA = st.dictionaries(STRINGS.filter(bool), STRINGS, max_size=8)
BODIES = st.binary(max_size=5000) | st.text(st.characters(exclude_categories=["Cs"]), max_size=2000)
MOMENTS = st.datetimes(datetime(2100, 1, 1), datetime(9000, 1, 1), timezones=st.just(timezone.utc))
DRAFTS = st.builds(
    Draft,
    body=BODIES,
    conversation=NAMES,
    metadata=st.none() | METADATA,
    not_before=st.none() | MOMENTS,
    unmetered_only=st.booleans(),
)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageQueue]:
    with MessageQueue(tmp_path_factory.mktemp("round-trip") / "outbox.db", mode=Mode.MANUAL) as queue:
        queue.set_connectivity(Connectivity.OFFLINE)
        yield queue


def as_bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def same(queue: MessageQueue, id: str, draft: Draft) -> None:
    message = queue.get(id)
    assert (message.id, message.body) == (id, as_bytes(draft.body))
    assert message.body_size == len(as_bytes(draft.body))
    assert message.conversation == draft.conversation
    assert message.metadata == dict(draft.metadata or {})
    assert message.unmetered_only == draft.unmetered_only
    if isinstance(draft.not_before, datetime):
        assert message.not_before is not None
        assert timedelta(0) <= draft.not_before - message.not_before < timedelta(milliseconds=1)
    else:
        assert message.not_before is None


@settings(max_examples=150, deadline=None)
@given(DRAFTS)
def test_a_message_is_read_as_it_was_enqueued(queue: MessageQueue, draft: Draft) -> None:
    id = queue.enqueue(
        draft.body,
        conversation=draft.conversation,
        metadata=draft.metadata,
        not_before=draft.not_before,
        unmetered_only=draft.unmetered_only,
    )
    same(queue, id, draft)


@settings(max_examples=50, deadline=None)
@given(st.lists(DRAFTS, max_size=20))
def test_a_batch_is_read_as_it_was_enqueued(queue: MessageQueue, drafts: list[Draft]) -> None:
    ids = queue.enqueue_batch(drafts)
    assert len(ids) == len(drafts)
    for id, draft in zip(ids, drafts):
        same(queue, id, draft)


@settings(max_examples=50, deadline=None)
@given(first=BODIES, second=BODIES)
def test_an_edited_body_is_read_as_it_was_written(queue: MessageQueue, first: str | bytes, second: str | bytes) -> None:
    id = queue.enqueue(first)
    queue.edit(id, second)
    assert queue.get(id).body == as_bytes(second)


@settings(max_examples=50, deadline=None)
@given(draft=DRAFTS, sender=NAMES.filter(bool))
def test_a_recorded_message_is_read_as_it_was_recorded(queue: MessageQueue, draft: Draft, sender: str) -> None:
    id = queue.record(draft.body, sender=sender, conversation=draft.conversation, metadata=draft.metadata)
    message = queue.get(id)
    assert (message.sender, message.conversation, message.body) == (sender, draft.conversation, as_bytes(draft.body))
    assert message.metadata == dict(draft.metadata or {})
    newest = queue.conversations(limit=1)[0]
    assert (newest.name, newest.last.id, newest.last.sender) == (draft.conversation, id, sender)


@settings(max_examples=30, deadline=None)
@given(body=BODIES, conversation=NAMES, metadata=METADATA)
def test_a_delivery_carries_what_was_enqueued(
    tmp_path_factory: pytest.TempPathFactory, body: str | bytes, conversation: str, metadata: dict[str, str]
) -> None:
    taken: list[Delivery] = []

    def transport(delivery: Delivery) -> Outcome:
        taken.append(delivery)
        return Outcome.sent()

    with MessageQueue(tmp_path_factory.mktemp("delivery") / "outbox.db", transport=transport) as queue:
        id = queue.enqueue(body, conversation=conversation, metadata=metadata)
        wait_until(lambda: queue.counts().sent == 1)
    (delivery,) = taken
    assert (delivery.id, delivery.body) == (id, as_bytes(body))
    assert (delivery.conversation, delivery.metadata) == (conversation, metadata)


def test_a_batch_may_be_empty_and_is_kept_in_order(tmp_path: Path) -> None:
    texts = [str(number) for number in range(500)]
    with MessageQueue(tmp_path / "outbox.db") as queue:
        assert queue.enqueue_batch([]) == []
        ids = queue.enqueue_batch({"body": text, "conversation": "ana"} for text in texts)
        assert len(set(ids)) == 500
        assert [message.text for message in queue.list("ana", limit=500)] == texts


def test_a_large_body_is_stored_completely(tmp_path: Path) -> None:
    body = bytes(range(256)) * (1 << 16)
    with MessageQueue(tmp_path / "outbox.db", limit_body=1 << 24) as queue:
        id = queue.enqueue(body)
        assert queue.get(id).body == body

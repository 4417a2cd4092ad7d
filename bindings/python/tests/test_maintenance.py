"""I4: the option maintenance, for tools that change a store while its program does not run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    Connectivity,
    Delivery,
    InvalidError,
    MessageQueue,
    Mode,
    NoTransportError,
    Outcome,
    Refused,
    Status,
)


def reject(_: Delivery) -> Outcome:
    return Outcome.reject(code=400)


def test_I4_a_failed_message_is_put_back_in_its_place_without_a_transport(store: Path, opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, transport=reject)
    queue.set_connectivity(Connectivity.ONLINE)
    first, second = queue.enqueue("1", conversation="ana"), queue.enqueue("2", conversation="ben")
    assert queue.drain().failed == 2
    third = queue.enqueue("3", conversation="ana")
    queue.close()
    with MessageQueue(store, maintenance=True) as tool:
        tool.retry(first)
        assert tool.retry_all() == 1
        assert [message.id for message in tool.list()] == [first, second, third]
        assert {message.status for message in tool.list()} == {Status.QUEUED}
        assert tool.explain(first).text.startswith("The store is open for maintenance.")
        with pytest.raises(NoTransportError):
            tool.send_now(first)
    with MessageQueue(store, read_only=True) as reader:
        assert reader.counts().queued == 3


def test_I4_an_opening_for_maintenance_sends_and_discards_nothing_by_itself(store: Path, opened: Opener) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, direct=False) as queue:
        queue.enqueue("late", id="late", expires_at=time.time() + 0.05)
        queue.enqueue("1", id="1", conversation="ana")
    tool = opened(
        maintenance=True,
        transport=reject,
        mode=Mode.AUTO,
        direct=True,
        refused=Refused.DISCARD,
        keep_sent=0,
        online_debounce=0.0,
    )
    tool.set_connectivity(Connectivity.ONLINE)
    tool.enqueue("2", id="2", conversation="ben")
    time.sleep(0.2)
    assert [message.status for message in tool.list()] == [Status.QUEUED] * 3
    # A drain is a request: it tries the two, and fails the one that is too late.
    assert tool.drain().failed == 3
    assert tool.counts().failed == 3


def test_I4_maintenance_makes_no_store(store: Path) -> None:
    with pytest.raises(InvalidError, match="does not exist"):
        MessageQueue(store, maintenance=True)
    assert not store.exists()

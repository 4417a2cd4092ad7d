"""Stores that builds of layouts 2 and 3 wrote: they are read, and upgraded when they are opened, with all messages."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import msgqueue
from conftest import Opener
from msgqueue import MessageQueue, Mode, Status

FIXTURES = Path(__file__).parents[3] / "Tests" / "fixtures"


def expected() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FIXTURES / "layout2.json").read_text())
    return content


def compare(queue: MessageQueue) -> None:
    known = expected()
    counts = queue.counts()
    for name, count in known["counts"].items():
        assert getattr(counts, name) == count, name
    messages = queue.list(status=list(Status), limit=1000)
    assert [message.id for message in messages] == [known["id"] for known in known["messages"]]
    for message, was in zip(messages, known["messages"], strict=True):
        for name in ("conversation", "sender", "body_size", "preview", "metadata", "sequence", "attempts", "priority"):
            assert getattr(message, name) == was[name], (message.id, name)
        assert message.text == was["body"]
        assert message.status.name == was["status"]
        assert (message.failure.kind.name if message.failure else None) == (was["failure"] or {}).get("kind")
        for name in ("created", "edited", "sent", "not_before", "expires_at", "delivered_at", "read_at"):
            time = getattr(message, name)
            assert (time.isoformat() if time else None) == was[name], (message.id, name)
        tried = [(a.number, a.outcome.name, a.kind.name, a.code, a.text) for a in queue.attempts(message.id)]
        assert tried == [(a["number"], a["outcome"], a["kind"], a["code"], a["text"]) for a in was["tried"]]
    assert [[c.name, c.last.id] for c in queue.conversations()] == known["conversations"]


def layout(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version


@pytest.mark.parametrize("earlier", [2, 3])
def test_D17_a_store_of_an_earlier_layout_is_upgraded_with_all_of_its_messages(
    store: Path, opened: Opener, earlier: int
) -> None:
    shutil.copy(FIXTURES / f"layout{earlier}.db", store)
    assert layout(store) == earlier
    for _ in range(2):
        queue = opened(mode=Mode.MANUAL, keep_sent_for=None)
        compare(queue)
        queue.close()
        assert layout(store) == 4
        report = msgqueue.check(store)
        assert report.whole == len(expected()["messages"])
        assert report.damaged == report.missing == 0
        assert "no damage found" in report.text


@pytest.mark.parametrize("earlier", [2, 3])
def test_D17_a_store_of_an_earlier_layout_is_read_checked_and_salvaged_as_it_is(
    store: Path, opened: Opener, earlier: int
) -> None:
    shutil.copy(FIXTURES / f"layout{earlier}.db", store)
    before = store.read_bytes()
    queue = opened(read_only=True)
    compare(queue)
    queue.close()
    assert "no damage found" in msgqueue.check(store).text
    salvaged = store.with_name("salvaged.db")
    assert "no damage found" in msgqueue.salvage(store, salvaged).text
    assert store.read_bytes() == before
    queue = opened(salvaged, mode=Mode.MANUAL, keep_sent_for=None)
    compare(queue)
    queue.close()


def test_D17_a_newer_layout_is_refused_untouched(store: Path, opened: Opener) -> None:
    opened().close()
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 5")
        connection.commit()
    before = store.read_bytes()
    for call in (lambda: opened(), lambda: opened(read_only=True), lambda: msgqueue.check(store)):
        with pytest.raises(msgqueue.TooNewError, match="layout 5"):
            call()
    assert store.read_bytes() == before

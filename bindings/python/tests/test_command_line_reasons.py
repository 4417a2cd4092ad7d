"""I4, X1: what the command line says of a message that is not sent: its own text, and what it waits for."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from command_line import msgq
from msgqueue import Connectivity, MessageQueue, Mode, Outcome, RetryPolicy, Status
from support import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def test_I4_a_list_shows_the_text_of_a_failed_message_and_its_failure(store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.reject(code=422)) as queue:
        queue.set_connectivity(Connectivity.ONLINE)
        queue.enqueue("the invoice of March", id="a")
        queue.enqueue("x" * 90, id="b")
        queue.enqueue(b"\xff", id="c")
        queue.drain()
    sentence = "The server did not accept this message. You can change it and retry."
    rows = {line.split()[0]: line for line in msgq("list", store).lines}
    assert rows["a"].endswith(f"  the invoice of March: {sentence}")
    assert rows["b"].endswith(f"  {'x' * 31}…: {sentence}")
    assert rows["c"].endswith(f": {sentence}")


def test_X1_without_an_owner_the_cause_is_told_before_the_program(store: Path) -> None:
    later = datetime.now(timezone.utc) + timedelta(hours=5)
    retry = RetryPolicy(ladder=[3600])
    with MessageQueue(store, transport=lambda _: Outcome.http(503), mode=Mode.AUTO, retry=retry) as queue:
        queue.enqueue("x", conversation="retry", id="tried")
        queue.set_connectivity(Connectivity.ONLINE)
        wait_until(lambda: (queue.get("tried").attempts, queue.get("tried").status) == (1, Status.QUEUED))
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.enqueue("x", conversation="ana", id="scheduled", not_before=later)
        queue.enqueue("x", conversation="retry", id="behind")
        queue.enqueue("x", conversation="ben", id="first")
    end = "No program has the store open.\n"

    def said(id: str) -> str:
        return msgq("explain", store, id).text

    # Each with the reason first, then that nothing is sent from here.
    assert said("first") == end
    assert said("behind").startswith("Another message of this conversation goes first. ")
    assert said("behind").endswith(" Before it: tried.\n")
    assert said("scheduled").startswith("It is scheduled to be sent in 5 h. ")
    assert said("tried").startswith("The last attempt failed. It is tried again in ")
    assert msgq("explain", store, "scheduled", "--json").rows[0]["reason"] == "scheduled"

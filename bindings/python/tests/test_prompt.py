"""Q22: the prompt of mode ASK."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from conftest import Opener
from control_peer import Peer
from msgqueue import (
    ClosedError,
    Connectivity,
    Event,
    EventKind,
    MessageQueue,
    Mode,
    Outcome,
    PermissionDeniedError,
    aio,
)
from support import wait_until


def test_Q22_no_withdraws_the_prompt(opened: Opener) -> None:
    events: list[Event] = []
    queue = opened(
        transport=lambda _: Outcome.sent(),
        on_event=events.append,
        mode=Mode.ASK,
        online_debounce=0,
        prompt_timeout=3600,
        initial_connectivity=Connectivity.OFFLINE,
    )
    queue.withdraw_prompt()
    queue.enqueue("hello")
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.state().prompt is not None
    queue.withdraw_prompt()
    assert queue.state().prompt is None
    wait_until(lambda: [event.kind for event in events].count(EventKind.PROMPT_WITHDRAWN) == 1)
    assert queue.counts().queued == 1
    queue.close()
    with pytest.raises(ClosedError):
        queue.withdraw_prompt()
    with MessageQueue(queue.path, read_only=True) as reader, pytest.raises(PermissionDeniedError):
        reader.withdraw_prompt()


def test_Q22_no_for_asyncio_and_from_outside(store: Path) -> None:
    async def test() -> None:
        queue = aio.MessageQueue(
            store,
            lambda _: Outcome.sent(),
            mode=Mode.ASK,
            online_debounce=0,
            prompt_timeout=3600,
            initial_connectivity=Connectivity.OFFLINE,
        )
        async with queue:
            await queue.start_control()
            await queue.enqueue("hello")
            await queue.set_connectivity(Connectivity.ONLINE)
            assert (await queue.state()).prompt is not None
            await queue.withdraw_prompt()
            assert (await queue.state()).prompt is None
            await queue.set_connectivity(Connectivity.OFFLINE)
            await queue.set_connectivity(Connectivity.ONLINE)
            assert (await queue.state()).prompt is not None
            with Peer(Path(f"{store}-control")) as peer:
                assert await asyncio.to_thread(peer.call, "withdraw_prompt") == {}
                assert await asyncio.to_thread(peer.call, "withdraw_prompt") == {}
            assert (await queue.state()).prompt is None
            assert (await queue.counts()).queued == 1

    asyncio.run(test())

"""Q22: the prompt of mode ASK."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
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
    Prompt,
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


def test_Q22_the_prompt_follows_the_queue(opened: Opener) -> None:
    events: list[Event] = []
    queue = opened(
        transport=lambda _: Outcome.sent(),
        on_event=events.append,
        mode=Mode.ASK,
        direct=False,
        online_debounce=0,
        prompt_timeout=3600,
        initial_connectivity=Connectivity.OFFLINE,
    )

    def asked(kind: EventKind) -> list[Prompt]:
        return [event.prompt for event in events if event.kind is kind and event.prompt is not None]

    queue.enqueue("hello")
    queue.enqueue("later", not_before=datetime.now(timezone.utc) + timedelta(hours=1))
    queue.enqueue("hello", conversation="paused")
    queue.pause("paused")
    queue.set_connectivity(Connectivity.ONLINE)
    before = queue.state()
    assert before.prompt is not None
    assert (before.prompt.messages, before.prompt.failed, before.prompt.conversations) == (1, 0, 1)
    queue.enqueue("hello")
    wait_until(lambda: [prompt.messages for prompt in asked(EventKind.PROMPT_CHANGED)] == [2])
    after = queue.state()
    assert after.prompt == asked(EventKind.PROMPT_CHANGED)[0]
    assert after.prompt.text == "Connected. Auto-send 2 queued messages?"
    assert after.prompt_expires == before.prompt_expires
    assert queue.drain().sent == 2
    assert len(asked(EventKind.PROMPT)) == 1
    assert queue.counts().queued == 2


def test_Q22_a_prompt_for_failed_messages_too(opened: Opener) -> None:
    answers = [Outcome.reject(code=400)]
    queue = opened(
        transport=lambda _: answers.pop() if answers else Outcome.sent(),
        mode=Mode.ASK,
        online_debounce=0,
        prompt_timeout=3600,
        prompt_for_failed=True,
        initial_connectivity=Connectivity.OFFLINE,
    )
    queue.enqueue("fails")
    queue.set_connectivity(Connectivity.ONLINE)
    assert queue.drain().failed == 1
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.set_connectivity(Connectivity.ONLINE)
    prompt = queue.state().prompt
    assert prompt is not None
    assert (prompt.messages, prompt.failed) == (0, 1)
    assert prompt.text == "Connected. Auto-send 1 failed message?"
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("hello")
    queue.set_connectivity(Connectivity.ONLINE)
    prompt = queue.state().prompt
    assert prompt is not None
    assert prompt.text == "Connected. Auto-send 1 queued and 1 failed message?"
    report = queue.drain(include_failed=True)
    assert (report.sent, report.put_back) == (prompt.messages + prompt.failed, 1)


def test_Q22_the_prompt_follows_for_asyncio_and_from_outside(store: Path) -> None:
    async def test() -> None:
        queue = aio.MessageQueue(
            store,
            lambda _: Outcome.sent(),
            mode=Mode.ASK,
            direct=False,
            online_debounce=0,
            prompt_timeout=3600,
            prompt_for_failed=True,
            initial_connectivity=Connectivity.OFFLINE,
        )
        async with queue:
            await queue.start_control()
            await queue.enqueue("hello")
            events = queue.events()
            with Peer(Path(f"{store}-control")) as peer:
                await asyncio.to_thread(peer.call, "subscribe", events=["prompt", "prompt_changed"])
                await queue.set_connectivity(Connectivity.ONLINE)
                first = (await asyncio.to_thread(peer.call, "state"))["prompt"]
                assert (first["messages"], first["failed"]) == (1, 0)
                await queue.enqueue("hello")
                async for event in events:
                    if event.kind is EventKind.PROMPT_CHANGED:
                        assert event.prompt is not None
                        assert event.prompt.messages == 2
                        break
                then = (await asyncio.to_thread(peer.call, "state"))["prompt"]
                assert then["messages"] == 2
                assert then["expires_ms"] == first["expires_ms"]
                assert [(event["event"], event["prompt"]["messages"]) for event in peer.events] == [
                    ("prompt", 1),
                    ("prompt_changed", 2),
                ]
            assert (await queue.drain(include_failed=True)).sent == 2

    asyncio.run(test())

"""Q20: the state of the queue; Q19: the banner of one conversation; texts that promise only what happens."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from conftest import Opener
from msgqueue import (
    ClosedError,
    Connectivity,
    Delivery,
    EventKind,
    InvalidError,
    Lifecycle,
    Link,
    MessageQueue,
    Mode,
    Outcome,
    Reason,
    Result,
    RetryPolicy,
    State,
    aio,
    control,
    sqlite_version,
)
from receiver import Receiver
from sender import HttpTransport
from support import Events, wait_until


def test_Q20_the_state_agrees_with_the_events(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    state = queue.state()
    assert state == State(
        connectivity=Connectivity.UNKNOWN,
        link=Link.NONE,
        metered=False,
        lifecycle=Lifecycle.FOREGROUND,
        mode=Mode.MANUAL,
        paused=False,
        paused_conversations=0,
        draining=False,
        in_flight=0,
        has_transport=False,
        prompt=None,
        prompt_expires=None,
        storage=Result.OK,
        storage_trouble=False,
        reason=Reason.NO_TRANSPORT,
        until=None,
        text="Sending is not set up yet.",
        sqlite_version=sqlite_version(),
    )
    with pytest.raises(FrozenInstanceError):
        state.paused = True  # type: ignore[misc]
    queue.set_transport(lambda _: Outcome.sent())
    queue.set_connectivity(Connectivity.ONLINE, Link.CELLULAR, metered=True)
    queue.set_lifecycle(Lifecycle.BACKGROUND)
    queue.pause("ana")
    state = queue.state()
    assert (state.connectivity, state.link, state.metered) == (Connectivity.ONLINE, Link.CELLULAR, True)
    assert (state.lifecycle, state.paused, state.paused_conversations) == (Lifecycle.BACKGROUND, False, 1)
    assert (state.has_transport, state.reason) == (True, Reason.NONE)
    queue.pause()
    assert (queue.state().paused, queue.state().reason) == (True, Reason.PAUSED)
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.state().reason is Reason.OFFLINE


def test_Q20_the_prompt_is_the_one_of_its_event(opened: Opener, http: HttpTransport) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.ASK, online_debounce=0, prompt_timeout=3600, on_event=events)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("1", conversation="ana")
    queue.enqueue("22", conversation="ben")
    assert queue.state().prompt is None
    queue.set_connectivity(Connectivity.ONLINE)
    state = queue.state()
    assert state.prompt == events.wait_for(EventKind.PROMPT).prompt
    assert state.prompt is not None
    assert (state.prompt.messages, state.prompt.bytes, state.prompt.conversations) == (2, 3, 2)
    now = datetime.now(timezone.utc)
    assert state.prompt_expires is not None
    assert now + timedelta(seconds=3500) < state.prompt_expires <= now + timedelta(seconds=3600)
    assert (state.reason, state.text) == (Reason.PERSON, "Waiting for your confirmation.")
    queue.drain()
    state = queue.state()
    assert (state.prompt, state.prompt_expires, state.reason) == (None, None, Reason.NONE)


def test_Q20_an_expired_prompt_is_not_in_the_state(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.ASK, online_debounce=0, prompt_timeout=0.05)
    queue.set_connectivity(Connectivity.OFFLINE)
    queue.enqueue("hello")
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.state().prompt is None)
    assert queue.state().text == "Waiting for you to send 1 message."


def test_Q20_the_state_can_be_read_inside_a_transport(opened: Opener) -> None:
    seen: list[State] = []

    def send(_: Delivery) -> Outcome:
        seen.append(queue.state())
        return Outcome.sent()

    queue = opened(mode=Mode.MANUAL, direct=False)
    queue.enqueue("hello")
    queue.set_transport(send)
    queue.drain()
    (state,) = seen
    assert (state.draining, state.in_flight, state.reason) == (True, 1, Reason.SENDING)
    assert not queue.state().draining


def test_Q20_the_state_is_available_after_events_were_lost(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, mode=Mode.ASK, online_debounce=0)
    held, let_go = threading.Event(), threading.Event()
    kinds: list[EventKind] = []

    def handler(event: object) -> None:
        kinds.append(event.kind)  # type: ignore[attr-defined]
        held.set()
        let_go.wait(20)

    queue.set_connectivity(Connectivity.OFFLINE)
    queue.set_event_handler(handler)
    queue.enqueue("first")
    held.wait(20)
    queue.enqueue_batch({"body": "x", "conversation": str(number % 2)} for number in range(12_000))
    queue.set_connectivity(Connectivity.ONLINE)
    state = queue.state()
    let_go.set()
    wait_until(lambda: EventKind.RESYNC in kinds)
    assert state.prompt is not None
    assert state.prompt.messages == 12_001


def test_Q20_the_state_has_the_time_of_the_next_retry(opened: Opener) -> None:
    queue = opened(transport=lambda _: Outcome.retry(), retry=RetryPolicy(ladder=[3600]))
    id = queue.enqueue("hello")
    wait_until(lambda: queue.get(id).next_attempt)
    state = queue.state()
    due = queue.get(id).next_attempt
    assert state.reason is Reason.RETRYING
    assert state.until is not None
    assert due is not None
    assert abs(state.until - due) < timedelta(seconds=1)
    assert state.text.startswith("The last attempt failed. The next one is in ")


def test_Q20_a_read_only_queue_has_a_state(opened: Opener, store: Path) -> None:
    with MessageQueue(store, mode=Mode.MANUAL) as queue:
        queue.enqueue("hello")
    reader = opened(read_only=True)
    state = reader.state()
    assert (state.reason, state.has_transport) == (Reason.NO_TRANSPORT, False)
    assert state.text == "The store is open for reading only. Nothing is sent from it."
    reader.close()
    with pytest.raises(ClosedError):
        reader.state()


def test_Q2_Q19_the_banner_of_one_conversation(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, mode=Mode.MANUAL, direct=False)
    receiver.answer_next(400)
    queue.enqueue("bad", conversation="ben")
    queue.drain()
    queue.set_connectivity(Connectivity.OFFLINE)
    for name in ("ana", "ana", "ben"):
        queue.enqueue("hello", conversation=name)
    assert queue.banner() == "You're offline. 3 messages queued. 1 message failed."
    assert queue.banner("ana") == "You're offline. 2 messages queued."
    assert queue.banner(conversation="ben") == "You're offline. 1 message queued. 1 message failed."
    assert queue.banner("nobody") == "You're offline."
    queue.set_connectivity(Connectivity.ONLINE)
    queue.pause("ana")
    assert queue.banner("ana") == "Sending is paused. 2 messages queued."
    assert queue.banner() == "3 messages queued. 1 message failed."


@pytest.mark.parametrize(
    ("mode", "banner", "explanation"),
    [
        (
            Mode.AUTO,
            "You're offline. Messages will send when connected.",
            "You're offline. It will be sent when connected.",
        ),
        (Mode.ASK, "You're offline.", "You're offline. Waiting for you to send it."),
        (Mode.MANUAL, "You're offline.", "You're offline. Waiting for you to send it."),
    ],
)
def test_H7_the_texts_depend_on_the_mode(
    opened: Opener, http: HttpTransport, mode: Mode, banner: str, explanation: str
) -> None:
    queue = opened(transport=http, mode=mode)
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.banner() == queue.state().text == banner
    id = queue.enqueue("hello")
    assert queue.explain(id).text == explanation
    promise = " It will be sent when connected." if mode is Mode.AUTO else ""
    assert queue.banner() == queue.state().text == f"You're offline. 1 message queued.{promise}"


def test_Q2_A7_the_summary_can_be_read_at_any_time(opened: Opener, http: HttpTransport) -> None:
    events = Events()
    queue = opened(transport=http, mode=Mode.MANUAL, on_event=events)
    queue.set_connectivity(Connectivity.OFFLINE)
    for name in ("ana", "ben", "ana"):
        queue.enqueue("hello", conversation=name)
    event = events.wait_for(EventKind.SUMMARY, lambda event: event.counts is not None and event.counts.queued == 3)
    assert (queue.state().connectivity, queue.counts()) == (event.connectivity, event.counts)
    assert queue.state().connectivity.label == "Offline"
    assert (queue.counts("ana").queued, queue.counts("ben").queued) == (2, 1)
    assert queue.banner() == "You're offline. 3 messages queued."


def test_A7_connectivity_has_labels() -> None:
    assert [each.label for each in Connectivity] == ["Unknown", "Offline", "Online"]


def test_Q20_state_and_banner_in_asyncio(store: Path) -> None:
    async def test() -> None:
        async with aio.MessageQueue(store, mode=Mode.MANUAL) as queue:
            await queue.set_connectivity(Connectivity.OFFLINE)
            await queue.enqueue("hello", conversation="ana")
            state = await queue.state()
            assert (state.connectivity, state.mode, state.reason) == (
                Connectivity.OFFLINE,
                Mode.MANUAL,
                Reason.NO_TRANSPORT,
            )
            assert await queue.banner("ana") == "You're offline. 1 message queued."
            assert await queue.banner(conversation="ben") == "You're offline."

    asyncio.run(test())


def test_X1_only_messages_within_the_batch_are_explained_by_offline(opened: Opener, http: HttpTransport) -> None:
    queue = opened(transport=http, direct=False, online_debounce=0, drain_batch=1)
    queue.set_connectivity(Connectivity.OFFLINE)
    assert queue.banner() == "You're offline."
    ids = [queue.enqueue("hello", conversation=name) for name in "abc"]
    assert [queue.explain(each).text for each in ids] == [
        "You're offline. It will be sent when connected.",
        "You're offline. It will be sent in its turn when the queue runs.",
        "You're offline. It will be sent in its turn when the queue runs.",
    ]
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: queue.counts().sent == 1 and queue.state().in_flight == 0)
    assert queue.state().text == "2 messages queued. Sending resumes the next time the queue runs."
    assert queue.explain(ids[1]).text == "It will be sent the next time the queue runs."
    assert queue.explain(ids[2]).text == "It will be sent in its turn when the queue runs."


def test_X1_a_delay_of_the_queue_is_explained_instead_of_an_earlier_retry(opened: Opener) -> None:
    def send(delivery: Delivery) -> Outcome:
        return Outcome.http(503) if delivery.conversation == "a" else Outcome.offline()

    queue = opened(transport=send, online_debounce=0, retry=RetryPolicy(ladder=[2]))
    message = queue.enqueue("hello", conversation="a")
    wait_until(lambda: queue.explain(message).code is Reason.RETRYING)
    queue.enqueue("hello", conversation="b")
    wait_until(lambda: queue.state().reason is Reason.HOLDING)
    assert queue.explain(message).code is Reason.HOLDING


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.MANUAL])
def test_Q20_the_reason_is_person_only_when_a_drain_would_send(opened: Opener, mode: Mode) -> None:
    queue = opened(transport=lambda _: Outcome.sent(), mode=mode, direct=False, online_debounce=0)

    def reasons(message: str) -> tuple[Reason, Reason]:
        return queue.state().reason, queue.explain(message).code

    later = queue.enqueue("hello", conversation="later", not_before=datetime.now(timezone.utc) + timedelta(hours=3))
    assert reasons(later) == (Reason.SCHEDULED, Reason.SCHEDULED)
    assert queue.state().text == "The next message will be ready to send in 3 h."
    queue.pause("later")
    assert reasons(later) == (Reason.PAUSED, Reason.PAUSED)
    wifi = queue.enqueue("hello", conversation="wifi", unmetered_only=True)
    queue.set_connectivity(Connectivity.ONLINE, metered=True)
    queue.resume("later")
    queue.delete(later)
    assert reasons(wifi) == (Reason.METERED, Reason.METERED)
    ready = queue.enqueue("hello", conversation="ready")
    assert reasons(ready)[1] is Reason.PERSON
    queue.set_connectivity(Connectivity.ONLINE)
    for _ in range(70):
        queue.enqueue("hello", conversation="many")
    if mode is Mode.MANUAL:
        assert queue.state().text == "72 messages queued. Waiting for you to start sending."
    for name in ("wifi", "ready", "many"):
        queue.pause(name)
    if mode is Mode.MANUAL:
        assert queue.state().text == "72 messages queued."


def test_Q2_the_banner_counts_as_sending_only_messages_that_are_sent_now(opened: Opener) -> None:
    let_go = threading.Event()

    def send(_: Delivery) -> Outcome:
        let_go.wait(60)
        return Outcome.sent()

    queue = opened(transport=send, max_in_flight=1, direct=False, online_debounce=0)
    queue.pause("quiet")
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    for _ in range(2):
        queue.enqueue("hello", conversation="later", not_before=tomorrow)
        queue.enqueue("hello", conversation="quiet")
    for _ in range(3):
        queue.enqueue("hello", conversation="now")
    wait_until(lambda: queue.state().in_flight == 1)
    try:
        assert queue.banner() == "Sending 3 messages… 4 messages queued."
        queue.set_connectivity(Connectivity.OFFLINE)
        assert queue.banner() == "You're offline. Sending 1 message… 6 messages queued."
        assert queue.state().text == "1 message is being sent."
    finally:
        let_go.set()


def test_Q20_paused_conversations_without_messages_are_no_reason(opened: Opener) -> None:
    queue = opened(transport=lambda _: Outcome.sent(), direct=False, online_debounce=0)
    for number in range(40):
        queue.pause(f"p{number}")
    queue.set_connectivity(Connectivity.ONLINE, metered=True)
    message = queue.enqueue("hello", unmetered_only=True)
    wait_until(lambda: queue.state().reason is not Reason.NEXT)
    assert (queue.state().reason, queue.explain(message).code) == (Reason.METERED, Reason.METERED)


def test_Q20_the_reason_for_being_offline(opened: Opener) -> None:
    texts = ["TLS expected by nats://ana:secret@127.0.0.1:4222", ""]
    queue = opened(mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.offline(text=texts[0]))
    events = Events()
    queue.set_event_handler(events)
    id = queue.enqueue("hello", conversation="ana")
    assert queue.state().offline_reason is None
    queue.set_connectivity(Connectivity.OFFLINE, reason="connection refused by 127.0.0.1:4222")
    assert queue.state().offline_reason == "connection refused by 127.0.0.1:4222"
    assert queue.explain(id).text.startswith("You're offline: connection refused by 127.0.0.1:4222. ")
    events.wait_for(EventKind.CONNECTIVITY, lambda event: event.text == "connection refused by 127.0.0.1:4222")
    queue.set_connectivity(Connectivity.ONLINE, reason="none")
    assert queue.state().offline_reason is None
    queue.drain()
    assert queue.state().offline_reason == "TLS expected by nats://127.0.0.1:4222"
    texts.pop(0)
    queue.drain()
    assert queue.state().offline_reason is None
    with pytest.raises(InvalidError):
        queue.set_connectivity(Connectivity.OFFLINE, reason="a\0b")
    with pytest.raises(TypeError):
        queue.set_connectivity(Connectivity.OFFLINE, reason=5)  # type: ignore[arg-type]


def test_Q20_D13_the_reason_for_being_offline_is_logged_once(opened: Opener, caplog: pytest.LogCaptureFixture) -> None:
    queue = opened(mode=Mode.MANUAL, direct=False, transport=lambda _: Outcome.offline(text="refused"))
    queue.enqueue("hello")
    for _ in range(3):
        queue.drain()
        queue.set_connectivity(Connectivity.OFFLINE, reason="refused")
    wait_until(lambda: "not connected: refused" in caplog.text)
    assert caplog.text.count("not connected: refused") == 1


def test_I1_the_state_names_the_version_of_sqlite(opened: Opener, store: Path) -> None:
    queue = opened(mode=Mode.MANUAL)
    version = queue.state().sqlite_version
    assert re.fullmatch(r"3\.\d+\.\d+", version)
    assert version == sqlite_version()
    queue.start_control()
    with control.connect(store) as client:
        assert client.call("state")["sqlite_version"] == version

"""R6: each allowed change of status, observed as an event."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from conftest import Opener
from msgqueue import Connectivity, Delivery, Event, EventKind, Outcome, RetryPolicy, Status, enums

ALLOWED = {
    (None, Status.QUEUED),
    (Status.QUEUED, Status.SENDING),
    (Status.QUEUED, Status.FAILED),
    (Status.QUEUED, Status.SENT),
    (Status.SENDING, Status.SENT),
    (Status.SENDING, Status.QUEUED),
    (Status.SENDING, Status.FAILED),
    (Status.FAILED, Status.SENDING),
    (Status.FAILED, Status.QUEUED),
    (Status.FAILED, Status.SENT),
    (Status.SENT, Status.DELIVERED),
    (Status.SENT, Status.READ),
    (Status.DELIVERED, Status.READ),
}


def test_R6_every_allowed_change_of_status_happens_and_no_other(opened: Opener) -> None:
    received: list[Event] = []
    tokens: list[int] = []
    answers = {
        "refused": [Outcome.reject(), Outcome.reject()],
        "busy": [Outcome.http(503)],
        "late": [Outcome.pending()],
        "late after failure": [Outcome.reject(), Outcome.pending()],
    }

    def send(delivery: Delivery) -> Outcome:
        tokens.append(delivery.token)
        left = answers.get(delivery.text, [])
        return left.pop(0) if left else Outcome.sent()

    queue = opened(
        transport=send,
        on_event=received.append,
        polled=True,
        online_debounce=0,
        attempt_timeout=0.05,
        on_demand_timeout=0.05,
        retry=RetryPolicy(ladder=[600]),
    )

    def changes(id: str | None = None) -> list[tuple[Status | None, Status | None]]:
        return [
            (event.from_status, event.to_status)
            for event in received
            if event.kind is EventKind.STATUS and id in (None, event.id)
        ]

    def poll_until(condition: Callable[[], bool]) -> None:
        for _ in range(1000):
            if condition():
                return
            queue.poll(0.05)
        raise AssertionError(f"not reached; the changes are {changes()}")

    def put(text: str, becomes: Status) -> str:
        id = queue.enqueue(text, conversation=text)
        poll_until(lambda: (Status.SENDING, becomes) in changes(id))
        return id

    for receipts in ([Status.DELIVERED, Status.READ, Status.DELIVERED], [Status.READ]):
        sent = put("hello", Status.SENT)
        for receipt in receipts:
            queue.mark(sent, receipt)

    refused = put("refused", Status.FAILED)
    queue.retry(refused)
    poll_until(lambda: changes(refused).count((Status.SENDING, Status.FAILED)) == 2)
    assert queue.retry_all() == 1
    poll_until(lambda: queue.get(refused).status is Status.SENT)

    put("busy", Status.QUEUED)

    late = put("late", Status.QUEUED)
    queue.complete(tokens[-1], Outcome.sent())
    poll_until(lambda: (Status.QUEUED, Status.SENT) in changes(late))

    failed = put("late after failure", Status.FAILED)
    queue.retry(failed)
    poll_until(lambda: changes(failed).count((Status.SENDING, Status.FAILED)) == 2)
    queue.complete(tokens[-1], Outcome.sent())
    poll_until(lambda: (Status.FAILED, Status.SENT) in changes(failed))

    queue.set_connectivity(Connectivity.OFFLINE)
    expires = datetime.now(timezone.utc) + timedelta(seconds=0.1)
    expired = queue.enqueue("expires", conversation="expires", expires_at=expires)
    poll_until(lambda: (Status.QUEUED, Status.FAILED) in changes(expired))

    assert set(changes()) == ALLOWED


def test_X14_members_of_every_enumeration_are_true_except_none() -> None:
    enumerations = [
        kind
        for kind in vars(enums).values()
        if isinstance(kind, type) and issubclass(kind, enum.IntEnum) and list(kind)
    ]
    assert {Status, EventKind, Connectivity} < set(enumerations)
    for member in (member for kind in enumerations for member in kind):
        assert bool(member) is (member.name != "NONE"), member


def test_X14_a_recorded_message_has_its_event(opened: Opener) -> None:
    received: list[Event] = []
    queue = opened(on_event=received.append, polled=True)
    queue.record("fine", sender="Ana", conversation="ana", id="hers")
    queue.record("fine", sender="Ana", conversation="ana", id="hers")
    queue.mark("hers", Status.READ)
    queue.poll(0)
    changes = [(event.id, event.from_status, event.to_status) for event in received if event.kind is EventKind.STATUS]
    assert changes == [("hers", None, Status.DELIVERED), ("hers", Status.DELIVERED, Status.READ)]

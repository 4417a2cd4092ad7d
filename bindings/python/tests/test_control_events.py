"""I3: events of the control socket that arrive together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import InvalidError, Mode, control


def test_I3_events_with_an_interval_arrive_together(opened: Opener, store: Path) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.start_control()
    with control.connect(store) as client, client.events("status", "resync", interval=0.1) as events:
        queue.enqueue("first", conversation="ana")
        # All events of one commit arrive at once.
        queue.enqueue_batch([{"body": "hello", "conversation": "ana", "id": f"m{number}"} for number in range(999)])
        queue.enqueue("hello", conversation="ana", id="last")
        count = lost = 0
        while count + lost < 1_001:
            event = next(events)
            if event["event"] == "resync":
                lost += event["lost_events"]
            else:
                count += 1
        assert lost > 0
    with control.connect(store) as client, pytest.raises(InvalidError, match="interval"):
        client.events(interval=61)


def test_I3_an_owner_of_an_earlier_version_sends_each_event_at_once(opened: Opener, store: Path) -> None:
    queue = opened(mode=Mode.MANUAL)
    queue.start_control()
    with control.connect(store) as client:
        asked = []
        call = client.call

        def earlier(name: str, /, **fields: object) -> dict[str, Any]:
            asked.append(fields)
            if fields.get("interval_ms") is not None:
                raise InvalidError("subscribe: unknown field interval_ms")
            return call(name, **fields)

        client.call = earlier  # type: ignore[method-assign]
        client._subscribe(["status"], 100)
        assert asked == [{"events": ["status"], "interval_ms": 100}, {"events": ["status"]}]

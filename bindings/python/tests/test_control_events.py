"""I3: events of the control socket that arrive together."""

from __future__ import annotations

import json
import os
import socket
import threading
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


def test_I3_half_an_event_of_a_stopped_owner_does_not_block_for_ever(store: Path) -> None:
    store.touch()
    greeting = {"msgqueue": "0.2.0", "protocol": control.PROTOCOL, "store": str(store), "pid": os.getpid()}
    owners: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{store}-control")
        listener.listen()

        def own() -> None:
            for after in (b"", b'{"id":1,"result":{}}\n{"event":"sta'):
                owners.append(listener.accept()[0])
                owners[-1].sendall(json.dumps(greeting).encode() + b"\n" + after)

        owner = threading.Thread(target=own)
        owner.start()
        with control.connect(store, timeout=20) as client, client.events("status") as events:
            owner.join()
            # Without the time limit it would wait until here, and raise.
            watchdog = threading.Timer(5, owners[1].shutdown, (socket.SHUT_RDWR,))
            watchdog.start()
            assert events.next(0.1) is None
            assert events.next(0) is None
            watchdog.cancel()
            owners[1].sendall(b'tus"}\n{"event":"status","id":"m"}\n')
            assert [events.next(20), events.next(0)] == [{"event": "status"}, {"event": "status", "id": "m"}]
    for each in owners:
        each.close()

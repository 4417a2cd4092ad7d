"""One outbox of the proof: sends messages through a relay until all are sent, and prints how that went.

sender.py STORE NAME, and in the environment variable SENDER where to send to.
"""

from __future__ import annotations

import json
import os
import sys
import time

import brokers
from msgqueue import Arrival, MessageQueue, RetryPolicy, Status

CONVERSATIONS = 4


# Seconds between two messages, and messages that are enqueued while the broker is being ended.
PAUSE = 0.005
AHEAD = 30


def main(store: str, name: str) -> None:
    end = time.monotonic() + 100
    spec = json.loads(os.environ["SENDER"])
    count = spec["messages"]
    relay = getattr(brokers, spec["broker"]).relay_to(spec["port"], spec["target"], timeout=5)
    retry = RetryPolicy(ladder=[0.2] * 60)
    sending = (
        {"batch_transport": relay.batch} if spec["batch"] else {"transport": relay, "max_in_flight": CONVERSATIONS}
    )
    with relay, MessageQueue(store, retry=retry, online_debounce=0.05, **sending) as queue:
        relay.attach(queue)
        ids = [f"{name}-{number}" for number in range(count)]
        parts = [count * (number + 1) // (spec["ends"] + 1) for number in range(spec["ends"])]
        for number, id in enumerate(ids):
            queue.enqueue(f"body {number}", conversation=f"{name}/{number % CONVERSATIONS}", id=id)
            if number in parts:
                print("part", flush=True)
            if number - AHEAD in parts:
                # The broker ended meanwhile.
                assert sys.stdin.readline() == "ended\n"
            time.sleep(PAUSE)
        while queue.counts().sent < count:
            assert time.monotonic() < end, f"{queue.state()} {queue.counts()}"
            time.sleep(0.05)
        repeated = sum(
            1
            for id in ids
            if queue.get(id).attempts > 1
            for attempt in queue.attempts(id)[:-1]
            if attempt.arrival is not Arrival.NO
        )
        assert all(queue.get(id).status is Status.SENT for id in ids)
    print(json.dumps({"repeated": repeated}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

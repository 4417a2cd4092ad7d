"""A program of the stories, which sends to Redis. It prints what it did and waits for a line before it goes on.

storyteller.py PART STORE PORT STREAM REMEMBER
"""

from __future__ import annotations

import sys
import time

from msgqueue import Arrival, Connectivity, MessageQueue, RetryPolicy, Status
from msgqueue.relays import RedisStream
from servers import wait_until

CONVERSATIONS = 5


def said(what: str) -> None:
    print(what, flush=True)


def add(queue: MessageQueue, first: int, end: int) -> list[str]:
    return [
        queue.enqueue(f"body {number}", conversation=f"c{number % CONVERSATIONS}", id=f"id-{number}")
        for number in range(first, end)
    ]


def loses_the_broker(queue: MessageQueue, relay: RedisStream) -> None:
    """Sends 10 messages; the answer to the next one is lost; then the broker is away, and 29 more are enqueued."""
    add(queue, 0, 10)
    wait_until(lambda: queue.counts().sent == 10, "the first messages")
    said("sent")
    sys.stdin.readline()
    add(queue, 10, 11)
    wait_until(lambda: [each.arrival for each in queue.attempts("id-10")][:1] == [Arrival.PERHAPS], "a lost answer")
    said("unknown")
    sys.stdin.readline()
    # Not before: its look at the connection could take that from the message.
    relay.attach(queue)
    wait_until(lambda: queue.state().connectivity is Connectivity.OFFLINE, "offline")
    ids = add(queue, 11, 40)
    assert all(queue.get(id).status is Status.QUEUED for id in ids)
    said("offline")


def finds_no_broker(queue: MessageQueue, relay: RedisStream) -> None:
    """Starts without a broker, enqueues 20 more messages, and waits to be killed."""
    relay.attach(queue)
    wait_until(lambda: queue.state().connectivity is Connectivity.OFFLINE, "offline")
    add(queue, 40, 60)
    said("offline")
    sys.stdin.readline()


def sends_a_backlog(queue: MessageQueue, _: RedisStream) -> None:
    """Says each id when it is on disk, and then sends them all, if it is not killed before."""
    queue.set_connectivity(Connectivity.OFFLINE)
    for id in add(queue, 0, 200):
        said(id)
    said("enqueued")
    queue.set_connectivity(Connectivity.ONLINE)
    number = 200
    while queue.counts().queued:
        # Messages of today are enqueued while the backlog is sent.
        (id,) = add(queue, number, number + 1)
        number += 1
        said(id)
        time.sleep(0.01)
    said("all sent")
    sys.stdin.readline()


def main(part: str, store: str, port: str, stream: str, remember: str) -> None:
    relay = RedisStream(f"redis://127.0.0.1:{port}/0", stream, remember=float(remember), timeout=2)
    retry = RetryPolicy(ladder=[0.5] * 60)
    # Slow enough that the middle of the backlog is not missed.
    rate = 250 if part == "sends_a_backlog" else 0
    with relay, MessageQueue(store, relay, retry=retry, online_debounce=0.05, rate_per_second=rate) as queue:
        globals()[part](queue, relay)


if __name__ == "__main__":
    main(*sys.argv[1:])

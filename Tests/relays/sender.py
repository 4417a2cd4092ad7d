"""One outbox of the proof: sends messages through a relay until all are sent.

sender.py STORE NAME, and in the environment variable SENDER where to send to and how much. Reads from standard input
how many messages it may have enqueued, and prints how many are sent, one number a line. Started again after it was
killed, it goes on with its store.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import Any

import brokers
from msgqueue import BatchOptions, Draft, MessageQueue, RetryPolicy

CONVERSATIONS = 16
# Messages that are enqueued in one transaction.
STEP = 50
# Seconds between two reports.
PAUSE = 0.01


class Allowance:
    """How many messages may be enqueued: the last number on standard input."""

    def __init__(self) -> None:
        self.messages = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.messages = int(line)


def message_id(name: str, number: int) -> str:
    return f"{name}-{number}"


def draft(name: str, number: int) -> Draft:
    return Draft(f"body {number}", f"{name}/{number % CONVERSATIONS}", id=message_id(name, number))


def main(store: str, name: str) -> None:
    logging.basicConfig(level=logging.INFO)
    allowance = Allowance()
    spec = json.loads(os.environ["SENDER"])
    count = spec["messages"]
    relay = getattr(brokers, spec["broker"]).relay_to(spec["port"], spec["target"], timeout=5)
    sending = {"batch_transport": relay.batch} if spec["batch"] else {"transport": relay}
    options: dict[str, Any] = {"online_debounce": 0.05, "keep_sent": None, "max_in_flight": CONVERSATIONS}
    if spec["batches"]:
        # Each of some conversations, so that the next one has others.
        options["batch_options"] = BatchOptions(max_messages=CONVERSATIONS // 2, max_batches=spec["batches"])
    retry = RetryPolicy(base=0.1, factor=1, max_retries=1000)
    with relay, MessageQueue(store, retry=retry, **options, **sending) as queue:
        relay.attach(queue)
        counts = queue.counts()
        enqueued = counts.sent + counts.queued + counts.sending
        while True:
            counts = queue.counts()
            assert not counts.failed, f"{counts.failed} messages failed"
            print(counts.sent, flush=True)
            if counts.sent == count:
                return
            while enqueued < allowance.messages:
                end = min(enqueued + STEP, allowance.messages)
                queue.enqueue_batch([draft(name, number) for number in range(enqueued, end)])
                enqueued = end
            time.sleep(PAUSE)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""A program whose broker is away: 5 s with one message. Prints what everything logs.

Arguments: the name of the relay, and the port; "restarts": until standard input ends, with a message for each line.
"""

from __future__ import annotations

import gc
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

from brokers import KafkaMock, Mosquitto, NatsServer, Rabbit, Redis
from msgqueue import MessageQueue, Status


def main() -> None:
    name, port, *how = sys.argv[1:]
    warnings.simplefilter("always")
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
    kinds = (KafkaMock, Mosquitto, NatsServer, Rabbit, Redis)
    kind = next(kind for kind in kinds if kind.__name__ == name)
    target, timeout = (how[1], 5) if how else ("t", 1)
    with (
        tempfile.TemporaryDirectory() as folder,
        kind.relay_to(int(port), target, timeout=timeout) as relay,
        MessageQueue(Path(folder, "q"), batch_transport=relay.batch) as queue,
    ):
        relay.attach(queue)
        if how:
            for line in sys.stdin:
                id = queue.enqueue(line.strip())
                while queue.get(id).status is not Status.SENT:
                    time.sleep(0.02)
                print("sent", flush=True)
        else:
            queue.enqueue("hello")
            time.sleep(5)
    del relay
    gc.collect()
    time.sleep(0.5)
    gc.collect()


main()

"""A program whose broker is away: 5 s with one message. Prints what everything logs.

Arguments: the name of the relay, and the port.
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
from msgqueue import MessageQueue


def main() -> None:
    name, port = sys.argv[1], int(sys.argv[2])
    warnings.simplefilter("always")
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
    kinds = (KafkaMock, Mosquitto, NatsServer, Rabbit, Redis)
    relay = next(kind for kind in kinds if kind.__name__ == name).relay_to(port, "t", timeout=1)
    with tempfile.TemporaryDirectory() as folder, relay, MessageQueue(Path(folder, "q"), transport=relay) as queue:
        relay.attach(queue)
        queue.enqueue("hello")
        time.sleep(5)
    del relay
    gc.collect()
    time.sleep(0.5)
    gc.collect()


main()

"""Messages per second through the relays, beside the bare clients; not a test, because it depends on the machine.

    python speed.py [--messages 20000] [--rounds 3] [--conversations 256] [--batch 200] [--in-flight 2 …] [BROKER …]

Each round measures the bare client, then the relay, for each broker, so that all meet the same load. Both are connected
before. The relay sends a filled outbox in one drain, which ends when the last message is recorded as sent. The bare
client publishes the same messages from memory and waits for the same acknowledgements, with many in flight and without
an outbox: it does not keep the order of a conversation after a failure, and for Redis it does not remove duplicates.
The median of the rounds counts, and that of the processor time of this process for one message, with the queue: on a
busy machine it varies less. With several values of --in-flight (`max_batches`) each round measures the relay with each
of them.
"no broker" is a batch transport that does nothing: the upper limit of any relay.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import brokers
from checks import new_target
from msgqueue import BatchOptions, Connectivity, Delivery, Draft, MessageQueue, Mode, Outcome, Status
from servers import Broker, Client

BODY = b"x" * 256
NAMES: dict[str, Callable[[Path], Broker]] = {
    "redis": brokers.Redis,
    "nats": brokers.NatsServer,
    "mqtt": brokers.Mosquitto,
    "kafka": brokers.KafkaMock,
    "rabbitmq": brokers.Rabbit,
}
# Messages of a bare client that wait for their acknowledgement.
WINDOW = 1000


class Spent(NamedTuple):
    """The time that sending took, and the processor time of this process."""

    seconds: float
    processor: float


class Watch:
    """Measures from now on."""

    def __init__(self) -> None:
        self._begin = Spent(time.monotonic(), time.process_time())

    def read(self) -> Spent:
        return Spent(time.monotonic() - self._begin.seconds, time.process_time() - self._begin.processor)


def bare_redis(broker: Broker, target: str, count: int) -> Spent:
    client = broker.load("redis").Redis(port=broker.port)
    client.ping()
    watch = Watch()
    for first in range(0, count, WINDOW):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, min(first + WINDOW, count)):
            pipeline.xadd(target, {"msgq-id": f"{target}-{number}", "msgq-body": BODY})
        pipeline.execute()
    return watch.read()


def bare_nats(broker: Broker, target: str, count: int) -> Spent:
    async def publish(stream: Client) -> Spent:
        watch = Watch()
        for first in range(0, count, WINDOW):
            numbers = range(first, min(first + WINDOW, count))
            headers = [{"Nats-Msg-Id": f"{target}-{number}"} for number in numbers]
            futures = [await stream.publish_async(target, BODY, headers=each) for each in headers]
            await asyncio.gather(*futures)
        return watch.read()

    assert isinstance(broker, brokers.NatsServer)
    spent: Spent = broker.run(publish)
    return spent


def bare_mqtt(broker: Broker, target: str, count: int) -> Spent:
    mqtt = broker.load("paho.mqtt.client")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.max_inflight_messages_set(WINDOW)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        while not client.is_connected():
            time.sleep(0.01)
        watch = Watch()
        for each in [client.publish(target, BODY, 1) for _ in range(count)]:
            each.wait_for_publish()
        return watch.read()
    finally:
        client.disconnect()
        client.loop_stop()


def bare_kafka(broker: Broker, target: str, count: int) -> Spent:
    options = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "enable.idempotence": True, "linger.ms": 0}
    producer = broker.load("confluent_kafka").Producer(options)
    producer.list_topics(timeout=10)
    failed: list[Client] = []

    def reported(problem: Client, _: Client) -> None:
        if problem is not None:
            failed.append(problem)

    watch = Watch()
    for number in range(count):
        producer.produce(target, BODY, str(number % 256), on_delivery=reported)
        producer.poll(0)
    producer.flush()
    assert not failed, failed[0]
    return watch.read()


def bare_rabbitmq(broker: Broker, target: str, count: int) -> Spent:
    aio_pika = broker.load("aio_pika")

    async def publish(channel: Client) -> Spent:
        persistent = aio_pika.DeliveryMode.PERSISTENT
        watch = Watch()
        for first in range(0, count, WINDOW):
            messages = [
                aio_pika.Message(BODY, message_id=f"{target}-{number}", delivery_mode=persistent)
                for number in range(first, min(first + WINDOW, count))
            ]
            await asyncio.gather(*(channel.default_exchange.publish(each, target) for each in messages))
        return watch.read()

    assert isinstance(broker, brokers.Rabbit)
    spent: Spent = broker.run(publish)
    return spent


BARE: dict[str, Callable[[Broker, str, int], Spent]] = {
    "redis": bare_redis,
    "nats": bare_nats,
    "mqtt": bare_mqtt,
    "kafka": bare_kafka,
    "rabbitmq": bare_rabbitmq,
}


def nothing(deliveries: list[Delivery]) -> list[Outcome]:
    return [Outcome.sent()] * len(deliveries)


def through_queue(send: Client, folder: Path, count: int, conversations: int, batch: int, in_flight: int) -> Spent:
    """Fills an outbox, and measures until all of it is sent. Before that, one message opens the connection."""
    options = BatchOptions(max_messages=batch, max_batches=in_flight)
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        MessageQueue(f"{place}/outbox.db", mode=Mode.MANUAL, online_debounce=0) as queue,
    ):
        queue.set_batch_transport(send, options)
        assert queue.wait(queue.enqueue(BODY)).status is Status.SENT
        # What is enqueued while the queue is online would be sent at once.
        queue.set_connectivity(Connectivity.OFFLINE)
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            queue.enqueue_batch([Draft(BODY, f"c{number % conversations}") for number in numbers])
        queue.set_connectivity(Connectivity.ONLINE)
        watch = Watch()
        assert queue.drain().sent == count
        return watch.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--conversations", type=int, default=256)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[2], help="batches in flight")
    parser.add_argument("brokers", nargs="*", default=list(NAMES))
    chosen = parser.parse_args()
    rates: dict[str, list[float]] = {}
    efforts: dict[str, list[float]] = {}

    def note(name: str, spent: Spent) -> None:
        rates.setdefault(name, []).append(chosen.messages / spent.seconds)
        efforts.setdefault(name, []).append(spent.processor / chosen.messages * 1e6)

    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder = Path(place)
        running: dict[str, Broker] = {}
        try:
            for name in chosen.brokers:
                (folder / name).mkdir()
                running[name] = NAMES[name](folder / name)
                running[name].start()
            shape = (folder, chosen.messages, chosen.conversations, chosen.batch)
            for _ in range(chosen.rounds):
                for in_flight in chosen.in_flight:
                    note(f"no broker {in_flight}", through_queue(nothing, *shape, in_flight))
                for name, broker in running.items():
                    target = new_target()
                    broker.prepare(target)
                    note(f"{name} bare", BARE[name](broker, target, chosen.messages))
                    for in_flight in chosen.in_flight:
                        target = new_target()
                        broker.prepare(target)
                        with broker.relay(target, **({"longest_gap": 0} if name == "nats" else {})) as relay:
                            note(f"{name} {in_flight}", through_queue(relay.batch, *shape, in_flight))
        finally:
            for broker in running.values():
                broker.end()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(json.dumps({name: [round(value) for value in values] for name, values in rates.items()}))
    for in_flight in chosen.in_flight:
        print(f"{in_flight} batches in flight, no broker: {medians[f'no broker {in_flight}']:,.0f} messages/s")
        for name in chosen.brokers:
            relay, bare = medians[f"{name} {in_flight}"], medians[f"{name} bare"]
            effort, least = (statistics.median(efforts[f"{name} {each}"]) for each in (in_flight, "bare"))
            print(
                f"{name:9} relay {relay:8,.0f} messages/s, bare client {bare:8,.0f}, ratio {relay / bare:.2f};"
                f" processor time {effort:.0f} and {least:.0f} µs"
            )


if __name__ == "__main__":
    main()

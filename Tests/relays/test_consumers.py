"""B3 to B7: the consumers of the documentation drop duplicates. (That of RabbitMQ: in test_rabbitmq.py.)"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from brokers import KafkaMock, Mosquitto, NatsServer, Redis
from checks import delivery, new_target
from msgqueue import Outcome
from servers import Broker, Client, started

PAGE = Path(__file__).resolve().parents[2] / "Sources" / "Documentation" / "Relays.md"


class Enough(BaseException):
    """Ends a consumer."""


def documented(name: str) -> dict[str, Client]:
    """Runs the block of the page that defines a function."""
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if f"def {name}(" in each)
    names: dict[str, Client] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return names


def check(broker: Broker, folder: Path, name: str, consume: Callable[[Client, str], object]) -> None:
    """Sends a message three times, and one that ends the consumer."""
    once, function = documented("once")["once"], documented(name)[name]
    target = new_target()
    broker.prepare(target)
    message = delivery("work", id="1")
    for each in (message, message, message, delivery("end", id="2")):
        # A relay that was started again has forgotten what it sent; a broker may remember it.
        with broker.relay(target) as relay:
            assert relay(each) == Outcome.sent()
    database = sqlite3.connect(folder / "results.db")
    done: list[bytes] = []
    received: list[str] = []

    def handle(id: str, body: bytes) -> None:
        received.append(id)
        once(database, id, lambda _: done.append(body))
        if body == b"end":
            raise Enough

    with pytest.raises(Enough):
        consume(lambda *arguments: function(*arguments, target, handle), target)
    assert done == [b"work", b"end"]
    assert len(received) == (2 if broker.deduplicates else 4)
    database.close()


def test_B3_mqtt_consumer(tmp_path: Path) -> None:
    pytest.importorskip("paho.mqtt.client")
    broker = started(Mosquitto, tmp_path)
    try:
        # The durable session begins before the first message.
        broker.prepare = lambda target: subscribe(broker, target)  # type: ignore[method-assign]
        check(broker, tmp_path, "consume_mqtt", lambda run, _: run("127.0.0.1", broker.port))
    finally:
        broker.kill()


def subscribe(broker: Broker, target: str) -> None:
    class Subscribed(BaseException):
        pass

    names = documented("consume_mqtt")
    made: list[Client] = []
    kind = names["mqtt"].Client

    def make(*arguments: Client, **options: Client) -> Client:
        client = kind(*arguments, **options)

        def ended(*_: Client) -> None:
            raise Subscribed

        client.on_subscribe = ended
        made.append(client)
        return client

    names["mqtt"].Client = make
    try:
        with pytest.raises(Subscribed):
            names["consume_mqtt"]("127.0.0.1", broker.port, target, print)
    finally:
        names["mqtt"].Client = kind
    made[0].disconnect()


def test_B7_kafka_consumer(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    broker = started(KafkaMock, tmp_path)
    assert isinstance(broker, KafkaMock)
    try:
        check(broker, tmp_path, "consume_kafka", lambda run, _: run(f"127.0.0.1:{broker.port}"))
    finally:
        broker.end()


def test_B4_nats_consumer(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    broker = started(NatsServer, tmp_path)
    try:
        check(broker, tmp_path, "consume_nats", lambda run, _: asyncio.run(run(f"nats://127.0.0.1:{broker.port}")))
    finally:
        broker.kill()


def test_B5_redis_consumer(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    broker = started(Redis, tmp_path)
    try:
        check(broker, tmp_path, "consume_redis", lambda run, _: run(f"redis://127.0.0.1:{broker.port}/0"))
    finally:
        broker.kill()


def test_B3_B4_B5_B6_B7_relays_import_no_client_until_one_is_made() -> None:
    """And say in one sentence what is missing."""
    import subprocess
    import sys

    code = """
import sys
import msgqueue.relays as relays
clients = {"paho", "nats", "redis", "aio_pika", "aiormq", "confluent_kafka"}
relays.Kafka, relays.Mqtt, relays.Nats, relays.RabbitMq, relays.RedisStream
assert not clients & {name.partition(".")[0] for name in sys.modules}
for name in ("paho", "paho.mqtt", "paho.mqtt.client", "nats", "redis", "aio_pika", "confluent_kafka"):
    sys.modules[name] = None
for make, extra in (
    (lambda: relays.Kafka("127.0.0.1", "t"), "kafka"),
    (lambda: relays.Mqtt("mqtt://127.0.0.1", "t"), "mqtt"),
    (lambda: relays.Nats("nats://127.0.0.1", "t"), "nats"),
    (lambda: relays.RabbitMq("amqp://127.0.0.1", "t"), "rabbitmq"),
    (lambda: relays.RedisStream("redis://127.0.0.1", "t"), "redis"),
):
    try:
        make()
    except ImportError as problem:
        assert f"pip install 'msgqueue[{extra}]'" in str(problem), problem
    else:
        raise AssertionError(extra)
"""
    subprocess.run([sys.executable, "-c", code], check=True)

"""Ready-made transports.

from msgqueue import MessageQueue, RetryPolicy
from msgqueue.relays import RedisStream

relay = RedisStream("redis://127.0.0.1:6379/0", "orders")
retry = RetryPolicy(base=5, cap=3600, max_retries=20)
with relay, MessageQueue("outbox.db", batch_transport=relay.batch, retry=retry, pause_on_unauthorized=True) as queue:
    relay.attach(queue)
    queue.enqueue("hello")

`Http` sends to an HTTP server, one message at a time; give the queue `transport=relay` and `max_in_flight`.

`AsyncHttp` is the same for `msgqueue.aio`. It and the relays to brokers import the library of their client when the
first one is made. After `attach(queue)` a relay to a broker reports the state of its connection to the queue.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .http import Http

if TYPE_CHECKING:
    from .base import Relay
    from .http_aio import AsyncHttp
    from .kafka import Kafka
    from .mqtt import Mqtt
    from .nats import Nats
    from .rabbitmq import RabbitMq
    from .redis_stream import RedisStream

# Where each name is defined. A module is imported when its name is used first.
_MODULES = {
    "AsyncHttp": "http_aio",
    "Kafka": "kafka",
    "Mqtt": "mqtt",
    "Nats": "nats",
    "RabbitMq": "rabbitmq",
    "RedisStream": "redis_stream",
    "Relay": "base",
}

__all__ = ["AsyncHttp", "Http", "Kafka", "Mqtt", "Nats", "RabbitMq", "RedisStream", "Relay"]


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)

"""The queue for asyncio: the interface of `msgqueue`, with `await`.

    import asyncio
    from msgqueue import Outcome, aio

    async def send(delivery):
        response = await post(delivery.body, key=delivery.id)
        return Outcome.http(response.status, response.headers)

    async def main():
        async with aio.MessageQueue("outbox.db", transport=send) as queue:
            await queue.enqueue("hello", conversation="ana")
            print(await queue.drain())

    asyncio.run(main())

Works with any loop that has `add_reader` (asyncio's own on Linux, uvloop). `import msgqueue` alone does not import
asyncio.
"""

from .._options import Options
from ._attempts import BatchTransport, Transport
from ._checks import check, salvage
from ._events import EventReader
from ._metrics import prometheus
from .outbox import Outbox
from .queue import MessageQueue

__all__ = [
    "BatchTransport",
    "EventReader",
    "MessageQueue",
    "Options",
    "Outbox",
    "Transport",
    "check",
    "prometheus",
    "salvage",
]

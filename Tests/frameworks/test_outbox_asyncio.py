"""The outbox in a PostgreSQL database, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgqueue import ConflictError, DuplicateError, InvalidError, Mode, Outbox, aio
from postgresql import Client, address, psycopg, server

# The fixtures.
__all__ = ["address", "server"]

Work = Callable[[Any, aio.MessageQueue], Awaitable[None]]


def run(address: str, folder: Path, work: Work, **options: Client) -> None:
    """Runs a test with a connection, whose tables are there, and a queue."""

    async def main() -> None:
        async with (
            await psycopg.AsyncConnection.connect(address, **options) as host,
            aio.MessageQueue(folder / "queue.db", mode=Mode.MANUAL, direct=False) as queue,
        ):
            outbox = aio.Outbox(host)
            assert outbox.schema.startswith("CREATE TABLE IF NOT EXISTS msgq_outbox(")
            await outbox.create()
            await outbox.create()
            await host.execute("CREATE TABLE orders(name text)")
            await host.commit()
            await work(host, queue)

    asyncio.run(main())


async def bodies(queue: aio.MessageQueue) -> list[bytes | None]:
    return [message.body for message in await queue.list(limit=1000)]


@pytest.mark.parametrize("autocommit", [False, True])
def test_T2_asyncio_order_and_message_exist_both_or_neither(address: str, tmp_path: Path, autocommit: bool) -> None:
    async def work(host: Client, queue: aio.MessageQueue) -> None:
        outbox = aio.Outbox(host, queue)

        async def failing() -> None:
            async with outbox:
                await host.execute("INSERT INTO orders VALUES('neither')")
                await outbox.put("neither")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        async with outbox:
            await host.execute("INSERT INTO orders VALUES('both')")
            assert await outbox.put("both", id="a", conversation="c", metadata={"k": "v"}) == "a"
            with pytest.raises(DuplicateError):
                await outbox.put("again", id="a")
            with pytest.raises(InvalidError):
                await outbox.put("bad", id="")
            with pytest.raises(ConflictError):
                await outbox.collect()
        assert (await (await host.execute("SELECT name FROM orders")).fetchall()) == [("both",)]
        await host.commit()
        assert await bodies(queue) == [b"both"]
        assert (await queue.get("a")).metadata == {"k": "v"}
        assert await outbox.put_batch({"body": str(number)} for number in range(3))
        await host.commit()
        assert await outbox.collect(limit=2) == 2
        assert await aio.Outbox(host).collect(queue) == 1
        assert await outbox.collect() == 0
        assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    run(address, tmp_path, work, autocommit=autocommit)


def test_T2_asyncio_tasks_share_a_transaction(address: str, tmp_path: Path) -> None:
    async def work(host: Client, queue: aio.MessageQueue) -> None:
        outbox = aio.Outbox(host, queue)
        await asyncio.gather(*(outbox.put(str(number), conversation=str(number % 3)) for number in range(30)))
        await host.commit()
        results = await asyncio.gather(outbox.collect(), outbox.collect(), return_exceptions=True)
        assert results[0] == 30
        assert isinstance(results[1], ConflictError)
        assert sorted(int(body or b"") for body in await bodies(queue)) == list(range(30))

    run(address, tmp_path, work)


def test_T3_asyncio_a_cancelled_collection_loses_nothing(address: str, tmp_path: Path) -> None:
    async def work(host: Client, queue: aio.MessageQueue) -> None:
        outbox = aio.Outbox(host, queue)
        for delay in range(12):
            await outbox.put_batch({"body": f"{delay}-{number}"} for number in range(20))
            await host.commit()
            task = asyncio.ensure_future(outbox.collect(limit=7))
            await asyncio.sleep(0.002 * delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        while await outbox.collect():
            pass
        found = await bodies(queue)
        assert len(found) == len(set(found)) == 240

    run(address, tmp_path, work)


def test_T5_asyncio_wrong_arguments_are_type_errors(address: str, tmp_path: Path) -> None:
    async def work(host: Client, queue: aio.MessageQueue) -> None:
        with pytest.raises(TypeError, match="AsyncConnection"):
            aio.Outbox(object())
        with pytest.raises(TypeError, match=r"msgqueue\.aio\.MessageQueue"):
            aio.Outbox(host, "queue")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="needs a queue"):
            await aio.Outbox(host).collect()
        with pytest.raises(TypeError, match=r"msgqueue\.aio\.Outbox"):
            Outbox(host)

    run(address, tmp_path, work)

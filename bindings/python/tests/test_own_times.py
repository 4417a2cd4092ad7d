"""The messages' own times and the titles of conversations."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from async_sender import in_loop
from conftest import Opener
from msgqueue import InvalidError, ListOrder, Mode, NotFoundError, Outcome, Status, aio

DAY = timedelta(days=1)


def test_H10_a_message_has_the_time_that_its_sender_gave(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    week = datetime.now(timezone.utc).replace(microsecond=0) - 7 * DAY
    queue.record("newest", sender="eve", conversation="ana", id="newest")
    queue.record("last week", sender="eve", conversation="ana", id="week", time=week)
    queue.enqueue("later", conversation="ben", id="later", time=(week + DAY).timestamp())
    queue.enqueue_batch([{"body": "a", "conversation": "ben", "id": "batch", "time": week - DAY}])
    (many,) = queue.enqueue_bodies([b"b"], conversation="ben", time=week - 2 * DAY)
    assert queue.get("week").time == week
    assert queue.get("later").time == week + DAY
    newest = queue.get("newest")
    assert newest.time == newest.created

    found = [m.id for m in queue.list(status=Status, order=ListOrder.TIME)]
    assert found == [many, "batch", "week", "later", "newest"]
    first = queue.list(status=Status, order=ListOrder.TIME, newest_first=True, limit=2)
    assert [m.id for m in first] == ["newest", "later"]
    rest = queue.list(
        status=Status, order=ListOrder.TIME, newest_first=True, after=first[-1].sequence, after_time=first[-1].time
    )
    assert [m.id for m in rest] == ["week", "batch", many]
    assert [m.id for m in queue.list(status=Status)] == ["newest", "week", "later", "batch", many]

    (page,) = queue.conversations_by_time(limit=1)
    assert (page.name, page.last.id) == ("ana", "newest")
    (page,) = queue.conversations_by_time(after=page.last)
    assert (page.name, page.last.id) == ("ben", "later")
    assert queue.conversations_by_time(after=page.last) == []


def test_H10_send_stores_the_time_of_the_message(opened: Opener) -> None:
    queue = opened(transport=lambda _: Outcome.sent())
    week = datetime.now(timezone.utc).replace(microsecond=0) - 7 * DAY
    assert queue.send("hello", time=week, timeout=30).time == week
    with pytest.raises(InvalidError):
        queue.send("hello", time=-1)
    assert queue.counts().sent == 1


def test_H10_H14_a_queue_of_asyncio_has_times_and_titles(store: Path) -> None:
    week = datetime.now(timezone.utc).replace(microsecond=0) - 7 * DAY

    async def send(_: object) -> Outcome:
        return Outcome.sent()

    async def test() -> None:
        async with aio.MessageQueue(store, send) as queue:
            assert (await queue.send("hello", conversation="ana", id="sent", time=week, timeout=30)).time == week
            await queue.record("older", sender="eve", conversation="ana", id="older", time=week - DAY)
            await queue.record("now", sender="eve", conversation="ben", id="now")
            await queue.enqueue_batch([{"body": "a", "conversation": "ben", "id": "batch", "time": week - 2 * DAY}])
            pages = [await queue.list(status=Status, order=ListOrder.TIME, newest_first=True, limit=2)]
            last = pages[0][-1]
            pages.append(
                await queue.list(
                    status=Status, order=ListOrder.TIME, newest_first=True, after=last.sequence, after_time=last.time
                )
            )
            assert [[message.id for message in page] for page in pages] == [["now", "sent"], ["older", "batch"]]
            await queue.set_title("ana", "Ana")
            (first,) = await queue.conversations_by_time(limit=1)
            assert (first.name, first.title, first.last.id) == ("ben", None, "now")
            (second,) = await queue.conversations_by_time(after=first.last)
            assert (second.name, second.title, second.last.id) == ("ana", "Ana", "sent")
            with pytest.raises(NotFoundError):
                await queue.set_title("nobody", "x")
            with pytest.raises(InvalidError):
                await queue.list(after_time=5)

    in_loop(test())


def test_H10_times_and_cursors_are_checked(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    with pytest.raises(InvalidError):
        queue.enqueue("x", time=-1)
    with pytest.raises(InvalidError):
        queue.record("x", sender="eve", time=253402300800)
    with pytest.raises(InvalidError):
        queue.list(after_time=5)
    with pytest.raises(InvalidError):
        queue.list(order=ListOrder.TIME, after=5)
    with pytest.raises(TypeError):
        queue.conversations_by_time(after=5)  # type: ignore[arg-type]


def test_H14_a_title_is_listed_with_its_conversation(opened: Opener) -> None:
    queue = opened(mode=Mode.MANUAL)
    with pytest.raises(NotFoundError):
        queue.set_title("ana", "Ana")
    queue.enqueue("x", conversation="ana")
    assert [c.title for c in queue.conversations()] == [None]
    queue.set_title("ana", "Ana Märia")
    assert [c.title for c in queue.conversations()] == ["Ana Märia"]
    queue.set_title("ana", "")
    assert [c.title for c in queue.conversations_by_time()] == [None]

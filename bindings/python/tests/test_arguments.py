"""Wrong arguments are refused before they reach C, and nothing is stored."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from msgqueue import (
    Draft,
    DuplicateError,
    Exhausted,
    InvalidError,
    MessageQueue,
    Outcome,
    RetryPolicy,
    Status,
    TooLargeError,
)

SURROGATE = "lone \ud800 surrogate"
NUL = "cut\0off"
NAIVE = datetime(2030, 1, 1)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Any]:
    """An untyped queue, so that wrong types can be passed. At the end nothing may have been stored."""
    with MessageQueue(tmp_path / "outbox.db") as queue:
        yield queue
        assert queue.list(status=Status) == []


WRONG_VALUES: list[tuple[str, Callable[[Any], object]]] = [
    ("surrogate in body", lambda queue: queue.enqueue(SURROGATE)),
    ("surrogate in conversation", lambda queue: queue.enqueue("x", conversation=SURROGATE)),
    ("surrogate in id", lambda queue: queue.enqueue("x", id=SURROGATE)),
    ("surrogate in key", lambda queue: queue.enqueue("x", metadata={SURROGATE: "v"})),
    ("surrogate in value", lambda queue: queue.enqueue("x", metadata={"k": SURROGATE})),
    ("NUL in conversation", lambda queue: queue.enqueue("x", conversation=NUL)),
    ("NUL alone in conversation", lambda queue: queue.enqueue("x", conversation="\0")),
    ("NUL in id", lambda queue: queue.enqueue("x", id=NUL)),
    ("NUL in key", lambda queue: queue.enqueue("x", metadata={NUL: "v"})),
    ("NUL in value", lambda queue: queue.enqueue("x", metadata={"k": NUL})),
    ("empty id", lambda queue: queue.enqueue("x", id="")),
    ("empty key", lambda queue: queue.enqueue("x", metadata={"": "v"})),
    ("long id", lambda queue: queue.enqueue("x", id="i" * 256)),
    ("long conversation", lambda queue: queue.enqueue("x", conversation="c" * 256)),
    ("control character in id", lambda queue: queue.enqueue("x", id="a\nb")),
    ("control character in conversation", lambda queue: queue.enqueue("x", conversation="a\x7fb")),
    ("NaN", lambda queue: queue.enqueue("x", not_before=math.nan)),
    ("infinite", lambda queue: queue.enqueue("x", expires_at=math.inf)),
    ("negative time", lambda queue: queue.enqueue("x", not_before=-1)),
    ("zero time", lambda queue: queue.enqueue("x", expires_at=0)),
    ("huge time", lambda queue: queue.enqueue("x", not_before=1e300)),
    ("huge whole time", lambda queue: queue.enqueue("x", not_before=10**400)),
    ("naive datetime", lambda queue: queue.enqueue("x", not_before=NAIVE)),
    ("datetime before 1970", lambda queue: queue.enqueue("x", expires_at=datetime(1969, 1, 1, tzinfo=timezone.utc))),
    ("second draft of a batch", lambda queue: queue.enqueue_batch([{"body": "x"}, {"body": "y", "id": NUL}])),
    ("lone surrogate in a body of several", lambda queue: queue.enqueue_bodies(["x", "\ud800"])),
    ("conversation of bodies", lambda queue: queue.enqueue_bodies(["x"], conversation="a\nb")),
    ("negative delay", lambda queue: queue.enqueue("x", delay=-1)),
    ("negative timedelta", lambda queue: queue.enqueue("x", delay=timedelta(microseconds=-1))),
    ("huge delay", lambda queue: queue.enqueue("x", delay=1e300)),
    ("delay NaN", lambda queue: queue.enqueue("x", delay=math.nan)),
    ("negative expiry", lambda queue: queue.enqueue("x", expiry=timedelta(microseconds=-1))),
    ("expiry over 10 years", lambda queue: queue.enqueue("x", expiry=timedelta(days=3654))),
    ("the longest delay", lambda queue: queue.enqueue("x", delay=timedelta.max)),
    ("the longest expiry", lambda queue: queue.enqueue("x", expiry=timedelta.max)),
    ("delay over 10 years", lambda queue: queue.enqueue_bodies(["x"], delay=timedelta(days=3654))),
    ("delay after the expiry", lambda queue: queue.enqueue("x", delay=3600, expires_at=time.time() + 60)),
    ("time of bodies", lambda queue: queue.enqueue_bodies(["x"], not_before=-1)),
    ("NUL in get", lambda queue: queue.get(NUL)),
    ("NUL in delete", lambda queue: queue.delete(NUL)),
    ("NUL in retry", lambda queue: queue.retry(NUL)),
    ("NUL in send_now", lambda queue: queue.send_now(NUL)),
    ("NUL in attempts", lambda queue: queue.attempts(NUL)),
    ("NUL in explain", lambda queue: queue.explain(NUL)),
    ("NUL in a sender", lambda queue: queue.record("x", sender=NUL)),
    ("surrogate in a sender", lambda queue: queue.record("x", sender=SURROGATE)),
    ("empty sender", lambda queue: queue.record("x", sender="")),
    ("long sender", lambda queue: queue.record("x", sender="s" * 256)),
    ("control character in a sender", lambda queue: queue.record("x", sender="a\nb")),
    ("surrogate in a recorded body", lambda queue: queue.record(SURROGATE, sender="ana")),
    ("NUL in a sender of several", lambda queue: queue.record_batch([{"body": "x"}, {"body": "y", "sender": NUL}])),
    ("NUL in an id of several receipts", lambda queue: queue.mark_batch(["a", NUL], Status.READ)),
    ("NUL in mark_up_to", lambda queue: queue.mark_up_to(NUL, Status.READ)),
    ("empty id of a recorded message", lambda queue: queue.record("x", sender="ana", id="")),
    ("NUL in edit", lambda queue: queue.edit(NUL, "x")),
    ("NUL in update", lambda queue: queue.update(NUL, "x")),
    ("NUL in mark", lambda queue: queue.mark(NUL, Status.READ)),
    ("NUL in list", lambda queue: queue.list(NUL)),
    ("NUL in counts", lambda queue: queue.counts(NUL)),
    ("NUL in banner", lambda queue: queue.banner(NUL)),
    ("NUL in clear", lambda queue: queue.clear(NUL)),
    ("NUL in pause", lambda queue: queue.pause(NUL)),
    ("NUL in resume", lambda queue: queue.resume(NUL)),
    ("NUL in backup", lambda queue: queue.backup(NUL)),
    ("empty backup path", lambda queue: queue.backup("")),
    ("limit 0", lambda queue: queue.list(limit=0)),
    ("limit over 1000", lambda queue: queue.list(limit=1001)),
    ("limit beyond C", lambda queue: queue.list(limit=2**32 + 1)),
    ("negative after", lambda queue: queue.list(after=-1)),
    ("after beyond C", lambda queue: queue.list(after=2**64)),
    ("no conversations", lambda queue: queue.conversations(limit=0)),
    ("conversations over 1000", lambda queue: queue.conversations(limit=1001)),
    ("conversations before a negative", lambda queue: queue.conversations(before=-1)),
    ("conversations before what cannot be", lambda queue: queue.conversations(before=2**63)),
    ("conversations before what C cannot hold", lambda queue: queue.conversations(before=2**64)),
    ("no status", lambda queue: queue.list(status=[])),
    ("negative batch", lambda queue: queue.drain(batch=-1)),
    ("batch beyond C", lambda queue: queue.drain(batch=2**32)),
    ("negative timeout", lambda queue: queue.drain(timeout=-0.1)),
    ("timeout NaN", lambda queue: queue.drain(timeout=math.nan)),
    ("close timeout negative", lambda queue: queue.close(timeout=-1)),
    ("close timeout infinite", lambda queue: queue.close(timeout=math.inf)),
    ("negative token of several", lambda queue: queue.complete_batch([(-1, Outcome.sent())])),
    ("pending among outcomes", lambda queue: queue.complete_batch([(1, Outcome.sent()), (2, Outcome.pending())])),
    ("negative token", lambda queue: queue.complete(-1, Outcome.sent())),
    ("token beyond C", lambda queue: queue.complete(2**64, Outcome.sent())),
    ("complete with pending", lambda queue: queue.complete(1, Outcome.pending())),
]


@pytest.mark.parametrize("call", [call for _, call in WRONG_VALUES], ids=[name for name, _ in WRONG_VALUES])
def test_a_wrong_value_is_an_invalid_error(queue: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidError) as caught:
        call(queue)
    assert caught.value.detail


WRONG_TYPES: list[tuple[str, Callable[[Any], object]]] = [
    ("body None", lambda queue: queue.enqueue(None)),
    ("body number", lambda queue: queue.enqueue(7)),
    ("body bytearray", lambda queue: queue.enqueue(bytearray(b"x"))),
    ("conversation None", lambda queue: queue.enqueue("x", conversation=None)),
    ("conversation bytes", lambda queue: queue.enqueue("x", conversation=b"ana")),
    ("conversation 0", lambda queue: queue.enqueue("x", conversation=0)),
    ("metadata list", lambda queue: queue.enqueue("x", metadata=[("k", "v")])),
    ("metadata number", lambda queue: queue.enqueue("x", metadata={"k": 1})),
    ("metadata key", lambda queue: queue.enqueue("x", metadata={b"k": "v"})),
    ("id number", lambda queue: queue.enqueue("x", id=7)),
    ("time string", lambda queue: queue.enqueue("x", not_before="tomorrow")),
    ("delay string", lambda queue: queue.enqueue("x", delay="1h")),
    ("delay bool", lambda queue: queue.enqueue("x", delay=True)),
    ("delay as a datetime", lambda queue: queue.enqueue("x", delay=datetime.now(timezone.utc))),
    ("delay and time", lambda queue: queue.enqueue("x", delay=1, not_before=time.time() + 1)),
    ("expiry string", lambda queue: queue.enqueue("x", expiry="1h")),
    ("expiry and time", lambda queue: queue.enqueue("x", expiry=1, expires_at=time.time() + 1)),
    ("time bool", lambda queue: queue.enqueue("x", expires_at=True)),
    ("flag number", lambda queue: queue.enqueue("x", unmetered_only=1)),
    ("flag 0", lambda queue: queue.enqueue("x", unmetered_only=0)),
    ("batch of strings", lambda queue: queue.enqueue_batch(["x"])),
    ("batch of one draft", lambda queue: queue.enqueue_batch(Draft("x"))),
    ("batch with an unknown word", lambda queue: queue.enqueue_batch([{"body": "x", "colour": "red"}])),
    ("batch without a body", lambda queue: queue.enqueue_batch([{"conversation": "ana"}])),
    ("bodies of one message", lambda queue: queue.enqueue_bodies(b"x")),
    ("bodies as one text", lambda queue: queue.enqueue_bodies("x")),
    ("bodies as one bytearray", lambda queue: queue.enqueue_bodies(bytearray(b"x"))),
    ("bodies as a dict", lambda queue: queue.enqueue_bodies({"body": "x"})),
    ("bytearray among bodies", lambda queue: queue.enqueue_bodies([b"x", bytearray(b"y")])),
    ("bodies that are no iterable", lambda queue: queue.enqueue_bodies(7)),
    ("conversation of bodies as bytes", lambda queue: queue.enqueue_bodies([b"x"], conversation=b"ana")),
    ("get bytes", lambda queue: queue.get(b"id")),
    ("edit None", lambda queue: queue.edit("id", None)),
    ("update None", lambda queue: queue.update("id", None)),
    ("mark number", lambda queue: queue.mark("id", 4)),
    ("explain bytes", lambda queue: queue.explain(b"id")),
    ("banner bytes", lambda queue: queue.banner(b"ana")),
    ("record without a sender", lambda queue: queue.record("x")),
    ("record from None", lambda queue: queue.record("x", sender=None)),
    ("record body None", lambda queue: queue.record(None, sender="ana")),
    ("conversations before None", lambda queue: queue.conversations(before=None)),
    ("conversations limit bool", lambda queue: queue.conversations(limit=True)),
    ("list status number", lambda queue: queue.list(status=5)),
    ("list status numbers", lambda queue: queue.list(status=[5])),
    ("list limit float", lambda queue: queue.list(limit=5.0)),
    ("list limit bool", lambda queue: queue.list(limit=True)),
    ("list bodies", lambda queue: queue.list(bodies=None)),
    ("drain batch", lambda queue: queue.drain(batch="5")),
    ("drain timeout", lambda queue: queue.drain(timeout="5")),
    ("close timeout", lambda queue: queue.close(timeout="5")),
    ("connectivity bool", lambda queue: queue.set_connectivity(True)),
    ("link number", lambda queue: queue.set_connectivity(2, 1)),
    ("lifecycle number", lambda queue: queue.set_lifecycle(1)),
    ("pause bytes", lambda queue: queue.pause(b"ana")),
    ("complete several with None", lambda queue: queue.complete_batch([(1, None)])),
    ("complete tokens alone", lambda queue: queue.complete_batch([1, 2])),
    ("complete None", lambda queue: queue.complete(1, None)),
    ("transport string", lambda queue: queue.set_transport("http://127.0.0.1")),
    ("handler number", lambda queue: queue.set_event_handler(7)),
    ("backup None", lambda queue: queue.backup(None)),
    ("backup bytes", lambda queue: queue.backup(b"copy.db")),
]


@pytest.mark.parametrize("call", [call for _, call in WRONG_TYPES], ids=[name for name, _ in WRONG_TYPES])
def test_a_wrong_type_is_a_type_error(queue: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError) as caught:
        call(queue)
    assert str(caught.value)


def test_an_async_transport_is_refused(queue: Any) -> None:
    async def send(_: object) -> Outcome:
        return Outcome.sent()

    with pytest.raises(TypeError, match="async"):
        queue.set_transport(send)


def test_an_error_in_a_batch_names_the_draft(queue: Any) -> None:
    with pytest.raises(InvalidError, match="draft 1: id contains a NUL"):
        queue.enqueue_batch([{"body": "x"}, {"body": "y", "id": NUL}])
    with pytest.raises(TypeError, match="draft 2: body must be str or bytes"):
        queue.enqueue_batch([{"body": "x"}, Draft("y"), {"body": 3}])
    with pytest.raises(InvalidError, match="body 1: body is not valid Unicode"):
        queue.enqueue_bodies([b"x", "\ud800"])
    with pytest.raises(TypeError, match="body 2: body must be str or bytes"):
        queue.enqueue_bodies(["x", b"y", 3])
    with pytest.raises(TooLargeError, match="body 1: the body has 1048577 bytes"):
        queue.enqueue_bodies([b"x", bytes(1024 * 1024 + 1)])


REFUSED_DRAFTS: list[tuple[type[Exception], dict[str, Any], str]] = [
    (InvalidError, {"priority": 101}, "the priority must be -100 to 100"),
    (InvalidError, {"priority": 2**31}, "priority must be -100 to 100"),
    (InvalidError, {"conversation": "c" * 256}, "conversation has more than 255 bytes"),
    (InvalidError, {"replace_key": "\n"}, "the replace key contains the control character"),
    (InvalidError, {"metadata": {"": "v"}}, "a metadata key must not be empty"),
    (TooLargeError, {"metadata": {str(number): "" for number in range(1025)}}, "metadata_count must be at most 1024"),
    (TooLargeError, {"body": bytes(1024 * 1024 + 1)}, "the body has 1048577 bytes"),
    (DuplicateError, {"id": "1"}, "id 1 occurs twice in the batch"),
    (DuplicateError, {"id": "0"}, "id 0 is already in the store"),
]


@pytest.mark.parametrize(("error", "fields", "detail"), REFUSED_DRAFTS, ids=[detail for _, _, detail in REFUSED_DRAFTS])
def test_the_library_names_the_draft_of_a_batch_too(
    tmp_path: Path, error: type[Exception], fields: dict[str, Any], detail: str
) -> None:
    # More than the library decodes at a time.
    drafts = [{"body": "x", "id": "1"}, *({"body": "x"} for _ in range(1999)), {"body": "y", **fields}]
    with MessageQueue(tmp_path / "outbox.db") as queue:
        queue.enqueue("first", id="0")
        with pytest.raises(error, match=f"^draft 2000: {detail}"):
            queue.enqueue_batch(drafts)
        if fields.get("id") != "1":
            with pytest.raises(error, match=f"^{detail}"):
                queue.enqueue(**{"body": "y", **fields})
        assert queue.counts().queued == 1


WRONG_RANGES: list[tuple[str, dict[str, Any]]] = [
    ("max_in_flight must be 1 to 64, got -1", {"max_in_flight": -1}),
    ("limit_body must be 1 byte to 256 MiB, got -1", {"limit_body": -1}),
    ("limit_metadata must be 0 to 16 MiB, got -1", {"limit_metadata": -1}),
    ("drain_batch must be 0 to 2147483647, got 2147483648", {"drain_batch": 2**31}),
    ("attempt_timeout must be 0.001 s to 1 day, got -1", {"attempt_timeout": -1}),
    ("trigger_interval must be 0.001 s to 1 day, or None, got 0", {"trigger_interval": 0}),
    ("expiry must be 0.001 s to 10 years, or None, got 0", {"expiry": 0}),
    ("ramp_up must be 0 s to 1 day, got -1", {"ramp_up": -1}),
    ("max_retries must be 0 to 1000, got -1", {"retry": RetryPolicy(max_retries=-1)}),
    ("base must be 0.001 s to 7 days, got -1", {"retry": RetryPolicy(base=-1)}),
    ("a delay of the ladder must be 0 s to 7 days, got -1", {"retry": RetryPolicy(ladder=[5, -1])}),
    ("base must be more than 0", {"retry": RetryPolicy(base=0)}),
    ("cap must be more than 0", {"retry": RetryPolicy(cap=0)}),
]


@pytest.mark.parametrize(("detail", "options"), WRONG_RANGES, ids=[detail for detail, _ in WRONG_RANGES])
def test_an_error_names_the_range_of_the_option(tmp_path: Path, detail: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match=f"^{detail}"):
        MessageQueue(tmp_path / "outbox.db", **options)


@pytest.mark.parametrize("limit", [0, 1001, 2**32])
def test_an_error_names_the_range_of_an_argument(queue: Any, limit: int) -> None:
    for call in (queue.list, queue.conversations):
        with pytest.raises(InvalidError, match=f"limit must be 1 to 1000, got {limit}"):
            call(limit=limit)
    with pytest.raises(InvalidError, match="batch must be 0 to 2147483647, got 4294967296"):
        queue.drain(batch=2**32)


WRONG_OPTIONS: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"mode": 0}),
    (TypeError, {"retry": [5, 30]}),
    (TypeError, {"direct": 1}),
    (TypeError, {"transport": "send"}),
    (TypeError, {"on_event": 7}),
    (TypeError, {"final_failure": 1}),
    (TypeError, {"strict_order": None}),
    (TypeError, {"pause_on_unauthorized": 0}),
    (TypeError, {"unmetered_only": "yes"}),
    (TypeError, {"send_in_background": 1}),
    (TypeError, {"keep_sent": 1.5}),
    (TypeError, {"remember_ids": None}),
    (InvalidError, {"keep_sent": -1}),
    (InvalidError, {"keep_sent_for": -1}),
    (InvalidError, {"trigger_interval": math.nan}),
    (InvalidError, {"trigger_interval": 2 * 86400}),
    (InvalidError, {"trigger_interval": 0}),
    (InvalidError, {"expiry": 0}),
    (InvalidError, {"expiry": -1}),
    (InvalidError, {"expiry": 11 * 366 * 86400}),
    (TypeError, {"max_in_flight": "4"}),
    (TypeError, {"max_in_flight": True}),
    (TypeError, {"attempt_timeout": None}),
    (TypeError, {"retry": RetryPolicy(exhausted=0)}),  # type: ignore[arg-type]
    (InvalidError, {"max_in_flight": 0}),
    (InvalidError, {"attempt_timeout": 0}),
    (InvalidError, {"on_demand_timeout": 0}),
    (InvalidError, {"prompt_timeout": 0}),
    (InvalidError, {"limit_body": 0}),
    (InvalidError, {"retry": RetryPolicy(base=0)}),
    (InvalidError, {"retry": RetryPolicy(factor=0)}),
    (InvalidError, {"retry": RetryPolicy(base=1, cap=0)}),
    (InvalidError, {"max_in_flight": -1}),
    (InvalidError, {"max_in_flight": 2**32 + 1}),
    (InvalidError, {"attempt_timeout": -1}),
    (InvalidError, {"attempt_timeout": math.nan}),
    (InvalidError, {"online_debounce": math.inf}),
    (InvalidError, {"limit_bytes": 2**64}),
    (InvalidError, {"retry": RetryPolicy(ladder=[5, -1])}),
    (InvalidError, {"retry": RetryPolicy(ladder=[math.nan])}),
    (InvalidError, {"retry": RetryPolicy(ladder=[1] * 65)}),
    (InvalidError, {"retry": RetryPolicy(ladder=[8 * 86400])}),
    (InvalidError, {"retry": RetryPolicy(factor=math.inf)}),
    (InvalidError, {"retry": RetryPolicy(factor=0.5)}),
    (InvalidError, {"retry": RetryPolicy(base=10, cap=1)}),
    (InvalidError, {"retry": RetryPolicy(jitter=1.5)}),
    (InvalidError, {"retry": RetryPolicy(max_retries=-1)}),
    (InvalidError, {"retry": RetryPolicy(max_retries=1001)}),
]


@pytest.mark.parametrize(("error", "options"), WRONG_OPTIONS, ids=[str(options) for _, options in WRONG_OPTIONS])
def test_a_wrong_option_opens_nothing(tmp_path: Path, error: type[Exception], options: dict[str, Any]) -> None:
    store = tmp_path / "outbox.db"
    with pytest.raises(error):
        MessageQueue(store, **options)
    assert not store.exists()


def test_A12_a_base_above_the_default_cap_raises_the_cap(tmp_path: Path) -> None:
    MessageQueue(tmp_path / "outbox.db", retry=RetryPolicy(base=7200)).close()
    with pytest.raises(InvalidError, match=r"cap must be 2 h to 7 d, got 1 h"):
        MessageQueue(tmp_path / "other.db", retry=RetryPolicy(base=7200, cap=3600))


@pytest.mark.parametrize("path", ["", "a\0b", "a\ud800b"])
def test_a_wrong_path_is_an_invalid_error(path: str) -> None:
    with pytest.raises(InvalidError):
        MessageQueue(path)


@pytest.mark.parametrize("path", [None, 7, b"outbox.db"])
def test_a_path_of_a_wrong_type_is_a_type_error(path: Any) -> None:
    with pytest.raises(TypeError):
        MessageQueue(path)


def test_a_ladder_with_a_base_is_refused() -> None:
    with pytest.raises(InvalidError):
        RetryPolicy(ladder=[1], base=1)
    with pytest.raises(TypeError):
        RetryPolicy(ladder="5")  # type: ignore[arg-type]


def test_a_policy_copies_its_ladder() -> None:
    delays = [1.0, 2.0]
    policy = RetryPolicy(ladder=delays, exhausted=Exhausted.DISCARD)
    delays.append(3.0)
    assert policy.ladder == (1.0, 2.0)
    assert policy.retries == 2


def test_names_are_compared_byte_by_byte(tmp_path: Path) -> None:
    """Two spellings of one accented letter are two names, because a receiver compares idempotency keys as bytes."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    with MessageQueue(tmp_path / "outbox.db") as queue:
        queue.enqueue("1", id=composed, conversation=composed, metadata={composed: "1", decomposed: "2"})
        queue.enqueue("2", id=decomposed, conversation=decomposed)
        assert [message.text for message in queue.list(composed)] == ["1"]
        assert queue.get(decomposed).text == "2"
        assert queue.get(composed).metadata == {composed: "1", decomposed: "2"}
        assert queue.counts(decomposed).queued == 1

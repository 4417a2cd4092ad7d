"""X9: statistics."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import (
    ClosedError,
    Connectivity,
    FailureKind,
    InvalidError,
    MessageQueue,
    Mode,
    RetryPolicy,
    Statistics,
    Status,
    aio,
    prometheus,
)
from msgqueue.statistics import LATENCY_BOUNDS
from receiver import Receiver
from sender import HttpTransport
from support import wait_until

ANSWERS = {"good": [200], "busy": [503, 429, 200], "bad": [400], "gone": [404], "broken": [500, 500, 500]}


def worked(opened: Opener, receiver: Receiver) -> tuple[Statistics, str]:
    """Sends seven messages, three of which fail. Returns the statistics."""
    queue = opened(transport=HttpTransport(receiver.port), mode=Mode.AUTO, retry=RetryPolicy(ladder=[0.02, 0.02]))
    answers = {text: list(codes) for text, codes in ANSWERS.items()}
    receiver.answer_by(lambda request: answers[request.text].pop(0) if request.text != "good" else 200)
    words = ["good", "good", "busy", "bad", "gone", "good", "broken"]
    queue.enqueue_batch({"body": word, "conversation": str(index)} for index, word in enumerate(words))
    wait_until(lambda: (queue.counts().sent, queue.counts().failed) == (4, 3))
    return queue.stats(), queue.prometheus()


def test_X9_statistics_count_events(opened: Opener, receiver: Receiver) -> None:
    stats, _ = worked(opened, receiver)
    assert (stats.enqueued, stats.sent, stats.failed, stats.discarded) == (7, 4, 3, 0)
    assert stats.attempts == len(receiver.received) == 11
    assert stats.retried == 4
    assert stats.sent_bytes == len("goodgoodgoodbusy")
    assert (stats.enqueued_per_minute, stats.sent_per_minute) == (7, 4)
    assert abs(datetime.now(timezone.utc) - stats.opened) < timedelta(minutes=1)


def test_X9_failures_are_counted_by_kind(opened: Opener, receiver: Receiver) -> None:
    stats, _ = worked(opened, receiver)
    assert list(stats.failures) == list(FailureKind)[1:]
    assert {kind: count for kind, count in stats.failures.items() if count} == {
        FailureKind.SERVER: 4,
        FailureKind.RATE_LIMIT: 1,
        FailureKind.REJECTED: 1,
        FailureKind.NOT_FOUND: 1,
    }


def test_X9_latencies_are_counted_in_classes(opened: Opener, receiver: Receiver) -> None:
    stats, _ = worked(opened, receiver)
    assert tuple(stats.latencies) == LATENCY_BOUNDS
    assert sum(stats.latencies.values()) == 4
    assert 0 < stats.latency_max <= stats.latency_sum <= 4 * stats.latency_max
    longest = stats.latency(1)
    assert longest is not None
    assert longest >= stats.latency_max
    middle = stats.latency(0.5)
    assert middle is not None
    assert middle <= longest


def test_X9_the_statistics_of_a_new_queue_are_zero(opened: Opener) -> None:
    stats = opened().stats()
    assert (stats.enqueued, stats.attempts, stats.sent, stats.retried, stats.failed, stats.discarded) == (0,) * 6
    assert not any(stats.failures.values())
    assert stats.latency(0.5) is None


def with_latencies(**counts: int) -> Statistics:
    """Returns statistics of messages in the latency classes of 10 ms, 1 s and the last one."""
    latencies = dict.fromkeys(LATENCY_BOUNDS, 0)
    latencies[0.01], latencies[1.0], latencies[math.inf] = counts["quick"], counts["slow"], counts["late"]
    zeros: dict[str, Any] = dict.fromkeys(
        ("sent_per_minute", "enqueued_per_minute", "enqueued", "attempts", "sent", "sent_bytes"), 0
    )
    zeros.update(dict.fromkeys(("retried", "failed", "discarded", "replaced"), 0))
    return Statistics(
        opened=datetime.now(timezone.utc),
        **zeros,
        failures={},
        latencies=latencies,
        latency_sum=0.0,
        latency_max=7200.0,
        file_bytes=0,
        free_bytes=0,
    )


@pytest.mark.parametrize(
    ("share", "seconds"), [(0, 0.01), (0.5, 0.01), (0.51, 1.0), (0.9, 1.0), (0.91, 7200.0), (1, 7200.0)]
)
def test_X9_a_share_of_the_latencies(share: float, seconds: float) -> None:
    assert with_latencies(quick=5, slow=4, late=1).latency(share) == seconds


def test_X9_a_share_must_be_0_to_1() -> None:
    stats = with_latencies(quick=1, slow=0, late=0)
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidError):
            stats.latency(wrong)
    with pytest.raises(TypeError):
        stats.latency("half")  # type: ignore[arg-type]


def samples_of_all(text: str) -> dict[str, dict[str, float]]:
    """Parses the text as a scraper does, and returns the samples by queue; those of a metric follow its type."""
    found: dict[str, dict[str, float]] = {}
    introduced: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, _ = line.split(" ", 3)
            assert (word, name) not in introduced
            introduced.append((word, name))
            continue
        parsed = re.fullmatch(r'(\w+)\{queue="((?:[^"\\]|\\["\\n])*)",?(.*)\} (\S+)', line)
        assert parsed, line
        metric, queue, labels, value = parsed.groups()
        name = f"{metric}{{{labels}}}" if labels else metric
        for suffix in ("_bucket", "_sum", "_count"):
            metric = metric.removesuffix(suffix)
        assert introduced[-2:] == [("HELP", metric), ("TYPE", metric)], line
        of_queue = found.setdefault(queue, {})
        assert name not in of_queue
        of_queue[name] = float(value)
    return found


def samples(text: str) -> dict[str, float]:
    """Returns the samples of the only queue."""
    (found,) = samples_of_all(text).values()
    return found


def test_X9_prometheus_has_the_same_numbers(opened: Opener, receiver: Receiver) -> None:
    stats, text = worked(opened, receiver)
    assert text.endswith("\n")
    read = samples(text)
    totals = ("enqueued", "attempts", "sent", "sent_bytes", "failed", "discarded")
    assert {name: read[f"msgqueue_{name}_total"] for name in totals} == {name: getattr(stats, name) for name in totals}
    assert read["msgqueue_retries_total"] == stats.retried
    for kind, count in stats.failures.items():
        assert read[f'msgqueue_failures_total{{kind="{kind.name.lower()}"}}'] == count
    reached = 0
    for bound, count in stats.latencies.items():
        reached += count
        label = "+Inf" if math.isinf(bound) else str(bound)
        assert read[f'msgqueue_latency_seconds_bucket{{le="{label}"}}'] == reached
    assert read["msgqueue_latency_seconds_count"] == 4
    assert read["msgqueue_latency_seconds_sum"] == pytest.approx(stats.latency_sum)


def test_X9_prometheus_has_the_counts(opened: Opener) -> None:
    queue = opened()
    queue.set_connectivity(Connectivity.OFFLINE)
    for _ in range(3):
        queue.enqueue("12345")
    queue.record("theirs", sender="ana")
    read = samples(queue.prometheus())
    counts = queue.counts()
    for status in Status:
        word = status.name.lower()
        assert read[f'msgqueue_messages{{status="{word}"}}'] == getattr(counts, word)
    assert read['msgqueue_messages{status="received"}'] == 1
    assert read["msgqueue_unsent_bytes"] == 15


def test_X9_queues_of_one_process_have_separate_samples(store: Path) -> None:
    hostile = store.with_name('a "b"\\\n.db')
    with MessageQueue(store) as first, MessageQueue(hostile) as second:
        first.set_connectivity(Connectivity.OFFLINE)
        first.enqueue("one")
        queued = 'msgqueue_messages{status="queued"}'
        of_each = {**samples_of_all(first.prometheus()), **samples_of_all(second.prometheus())}
        of_both = samples_of_all(prometheus([first, second]))
        assert [read[queued] for read in of_each.values()] == [1, 0]
        escaped = str(hostile).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        assert list(of_both) == [str(store), escaped]
        assert [read[queued] for read in of_both.values()] == [1, 0]
        assert {path: set(read) for path, read in of_both.items()} == {
            path: set(read) for path, read in of_each.items()
        }
        assert prometheus([]) == ""
        with pytest.raises(InvalidError):
            prometheus([first, second, first])
    with MessageQueue(store) as third:
        third.enqueue("two")
        # A collector that outlives some of its queues, or all of them.
        assert list(samples_of_all(prometheus([first, third, second]))) == [str(store)]
    assert prometheus([first, second, third]) == ""
    with pytest.raises(ClosedError):
        third.prometheus()


def test_X9_a_queue_that_is_closed_during_a_scrape_is_left_out(store: Path) -> None:
    stop = threading.Event()
    with MessageQueue(store) as first:
        queues = [first]

        def scrape() -> None:
            while not stop.is_set():
                assert str(store) in samples_of_all(prometheus(queues))

        with ThreadPoolExecutor() as pool:
            scraping = pool.submit(scrape)
            for number in range(20):
                queues[1:] = [MessageQueue(store.with_name(f"{number}.db"))]
                time.sleep(0.002)
                queues[1].close()
            stop.set()
            scraping.result(20)


def test_X9_queues_of_one_loop_have_separate_samples(store: Path) -> None:
    async def main() -> None:
        async with aio.MessageQueue(store) as first, aio.MessageQueue(store.with_name("second.db")) as second:
            of_both = samples_of_all(await aio.prometheus([first, second]))
            assert [Path(path).name for path in of_both] == [store.name, "second.db"]
            assert await aio.prometheus([]) == ""
            unopened = aio.MessageQueue(store.with_name("third.db"))
            assert list(samples_of_all(await aio.prometheus([unopened, second]))) == [str(store.with_name("second.db"))]
            with pytest.raises(InvalidError):
                await aio.prometheus([second, second])
        assert await aio.prometheus([first, second, unopened]) == ""

    asyncio.run(main())

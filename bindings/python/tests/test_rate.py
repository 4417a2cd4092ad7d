"""F: the limit of the rate, and the ramp after an outage, measured at an HTTP receiver."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from async_sender import AsyncHttpTransport, in_loop
from conftest import Opener
from msgqueue import Connectivity, Delivery, InvalidError, MessageQueue, Mode, Outcome, Reason, RetryPolicy, aio
from receiver import Answer, Receiver
from sender import HttpTransport
from support import wait_until

# A request may take this much longer to the receiver than another one: every window is counted as if it were longer.
TOLERANCE = 0.3


def arrivals(receiver: Receiver) -> list[float]:
    """The arrival times of all requests, sorted."""
    return sorted(request.at for request in list(receiver.received))


def check_windows(times: Sequence[float], opened: float, *, rate: float, burst: int) -> None:
    """Checks every window between two requests, and exactly those from the opening, when the allowance is empty."""
    for last, end in enumerate(times):
        assert last + 1 <= rate * (end - opened), f"{last + 1} requests in {end - opened} s"
        for first, start in enumerate(times[:last]):
            count = last - first + 1
            assert count <= rate * (end - start + TOLERANCE) + burst, f"{count} requests in {end - start} s"


def most_of_ramp(rate: float, ramp: float, seconds: float) -> float:
    """The most attempts that begin in the first seconds after an outage."""
    return 1 + seconds + (rate - 1) * min(seconds, ramp) ** 2 / (2 * ramp) + rate * max(seconds - ramp, 0)


def test_F3_the_receiver_never_sees_more_than_the_rate_in_any_window(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    before = time.monotonic()
    queue = opened(
        transport=http,
        rate_per_second=50,
        rate_burst=4,
        max_in_flight=4,
        online_debounce=0,
        retry=RetryPolicy(ladder=[0.02] * 8),
    )
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(30):
        queue.enqueue(str(number), conversation=str(number % 7))
    receiver.answer_next(*[500] * 7)
    queue.set_connectivity(Connectivity.ONLINE)
    for number in range(30, 50):
        queue.enqueue(str(number), conversation=f"live {number}")
    queue.drain()
    wait_until(lambda: queue.counts().sent == 50)
    times = arrivals(receiver)
    assert len(times) == 57
    check_windows(times, before, rate=50, burst=4)


def test_F3_without_a_rate_nothing_is_limited(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, rate_burst=3)
    for number in range(20):
        queue.enqueue(str(number))
    wait_until(lambda: queue.counts().sent == 20)


def test_F3_a_wait_is_explained(opened: Opener, http: HttpTransport, receiver: Receiver) -> None:
    queue = opened(transport=http, rate_per_second=0.02)
    id = queue.enqueue("hello")
    explanation = queue.explain(id)
    assert explanation.code is Reason.RATE
    assert explanation.text == "The rate of 1 in 50 s permits the next attempt in 50 s."
    assert queue.state().reason is Reason.RATE
    assert explanation.until is not None
    assert 40 < explanation.until.timestamp() - time.time() <= 51
    assert receiver.received == []


@pytest.mark.parametrize("rate", [-1, 1_000_001, math.nan, math.inf])
def test_F3_a_rate_out_of_range_is_refused(store: Path, rate: float) -> None:
    with pytest.raises(InvalidError):
        MessageQueue(store, rate_per_second=rate)
    with pytest.raises(InvalidError, match="ramp up needs a rate"):
        MessageQueue(store, ramp_up=1)
    with pytest.raises(InvalidError):
        MessageQueue(store, rate_per_second=1, rate_burst=2**32)
    assert not store.exists()


def test_F4_the_rate_ramps_up_after_an_outage_and_gives_way_to_429_and_503(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    rate, ramp = 100.0, 4.0
    queue = opened(
        transport=http,
        rate_per_second=rate,
        rate_burst=10,
        ramp_up=ramp,
        max_in_flight=8,
        online_debounce=0,
        retry=RetryPolicy(ladder=[0.01] * 5),
    )
    queue.set_connectivity(Connectivity.OFFLINE)
    for number in range(40):
        queue.enqueue(str(number), conversation=str(number))
    receiver.answer_next(503, 429, 503)
    queue.set_connectivity(Connectivity.ONLINE)
    wait_until(lambda: len(receiver.received) >= 4)
    times = arrivals(receiver)
    # It begins at 1 per second, which the refusals do not lower further.
    for start, end in zip(times[:3], times[1:4]):
        assert end - start > 1 - TOLERANCE
    wait_until(lambda: queue.counts().sent == 40)
    times = arrivals(receiver)
    assert len(times) == 43
    # The first success ends the outage: the ramp begins again.
    for number, at in enumerate(times[3:]):
        assert number + 1 <= most_of_ramp(rate, ramp, at - times[3] + TOLERANCE)
    assert receiver.most_at_once <= 1 + 7 * (times[-1] - times[3] + TOLERANCE) / ramp


def test_F4_retry_after_for_the_whole_queue_is_followed_by_a_ramp(
    opened: Opener, http: HttpTransport, receiver: Receiver
) -> None:
    def transport(delivery: Delivery) -> Outcome:
        outcome = http(delivery)
        return dataclasses.replace(outcome, retry_after_queue=bool(outcome.retry_after_header))

    queue = opened(transport=transport, rate_per_second=200, rate_burst=20, ramp_up=30)
    receiver.answer_next(Answer(429, {"Retry-After": "1"}))
    for number in range(5):
        queue.enqueue(str(number), conversation=str(number))
    wait_until(lambda: len(receiver.received) >= 3)
    wait_until(lambda: queue.counts().sent >= 3)
    limited = next(request.at for request in receiver.received)
    later = [at for at in arrivals(receiver) if at > limited]
    assert later[0] - limited > 1 - TOLERANCE
    for number, at in enumerate(later):
        assert number + 1 <= most_of_ramp(200, 30, at - later[0] + TOLERANCE)


def test_F3_F4_aio_keeps_the_rate_and_the_ramp(store: Path, receiver: Receiver) -> None:
    async def run() -> float:
        before = time.monotonic()
        queue = aio.MessageQueue(
            store,
            AsyncHttpTransport(receiver.port),
            rate_per_second=40,
            rate_burst=2,
            ramp_up=1,
            max_in_flight=4,
            mode=Mode.MANUAL,
            direct=False,
        )
        async with queue:
            await queue.pause()
            for number in range(25):
                await queue.enqueue(str(number), conversation=str(number))
            await queue.resume()
            report = await queue.drain()
            assert report.sent == 25
        return before

    before = in_loop(run())
    times = arrivals(receiver)
    check_windows(times, before, rate=40, burst=2)
    for number, at in enumerate(times):
        assert number + 1 <= most_of_ramp(40, 1, at - times[0] + TOLERANCE)

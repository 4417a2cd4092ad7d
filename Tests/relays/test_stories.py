"""Two stories from trackers, with a real broker: three days offline, and a power cut in the middle of the backlog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from brokers import Redis
from checks import new_target
from msgqueue import Arrival, MessageQueue, RetryPolicy, Status
from msgqueue.relays import RedisStream
from servers import Proxy, Received, started, wait_until

pytest.importorskip("redis")

HERE = Path(__file__).resolve().parent
FAULTS = HERE.parent / "faults"
DAY = 86400


class RedisOfThen(Redis):
    """A server whose clock differs from that of the machine."""

    clock: Path
    offset = 0

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **at(self.clock, self.offset)}


def at(clock: Path, offset: int) -> dict[str, str]:
    """The environment of a program that runs `-offset` seconds ago."""
    return {"LD_PRELOAD": str(clock), "CLOCK_OFFSET": str(offset)} if offset else {}


def compiled(folder: Path, name: str, *arguments: str) -> Path:
    output = folder / name
    subprocess.run(["gcc", "-std=c11", "-O2", *arguments, "-o", str(output)], check=True, cwd=HERE)
    return output


class Teller:
    """A storyteller.py process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hears(self, wanted: str) -> list[str]:
        """Reads until it says this; returns what it said before."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            if line.strip() == wanted:
                return lines
            lines.append(line.strip())
        raise AssertionError(f"it ended before {wanted!r}; its last lines: {lines[-3:]}")

    def continues(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ends(self) -> None:
        """Waits for its end by itself."""
        assert self.process.wait(60) == 0

    def is_killed(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(60)


@contextmanager
def teller(environment: Mapping[str, str], *arguments: object) -> Iterator[Teller]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "storyteller.py"), *map(str, arguments)],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Teller(process)
        finally:
            if process.poll() is None:
                process.kill()


def in_order(received: list[Received]) -> bool:
    """Whether the first copies of each conversation are in order."""
    firsts = list(dict.fromkeys((each.conversation, int(each.id.removeprefix("id-"))) for each in received))
    conversations = {conversation for conversation, _ in firsts}
    numbers = {name: [number for of, number in firsts if of == name] for name in conversations}
    return all(each == sorted(each) for each in numbers.values())


@pytest.mark.parametrize(("remembered", "copies"), [(7 * DAY, 1), (1 * DAY, 2)], ids=["7 days", "1 day"])
def test_B5_A1_three_days_offline_then_back(tmp_path: Path, remembered: int, copies: int) -> None:
    """Everything arrives in order under its id. A second copy arrives only where the broker has forgotten the first.

    The clocks of the programs and of the server are set back; the last part runs today.
    """
    clock = compiled(tmp_path, "clock.so", "-shared", "-fPIC", "clock.c")
    RedisOfThen.clock, RedisOfThen.offset = clock, -3 * DAY
    broker = started(RedisOfThen, tmp_path / "redis")
    assert isinstance(broker, RedisOfThen)
    store, stream = tmp_path / "outbox.db", new_target()
    try:
        with Proxy(broker.port) as proxy:
            arguments = ("loses_the_broker", store, proxy.port, stream, remembered)
            with teller(at(clock, -3 * DAY), *arguments) as program:
                program.hears("sent")
                # What the broker answers is lost from now on: it has the next message, and the sender cannot know.
                proxy.is_silent = True
                program.continues()
                program.hears("unknown")
                # The sender may have given up before the broker has read the message.
                wait_until(lambda: broker.client().xlen(stream) == 11, "the message whose answer is lost")
                broker.kill()
                proxy.cut()
                program.continues()
                program.hears("offline")
                program.ends()
        # A day and a half later the program is started again, and the machine crashes.
        with teller(at(clock, -3 * DAY // 2), "finds_no_broker", store, broker.port, stream, remembered) as program:
            program.hears("offline")
            program.is_killed()

        # Today.
        retry = RetryPolicy(ladder=[0.5] * 60)
        relay = RedisStream(f"redis://127.0.0.1:{broker.port}/0", stream, remember=remembered, timeout=5)
        with relay, MessageQueue(store, relay, retry=retry, online_debounce=0.05) as queue:
            relay.attach(queue)
            wait_until(lambda: queue.counts().queued == 50, "the end of the first look at the broker")
            first, unknown = queue.get("id-11"), queue.get("id-10")
            age = datetime.now(timezone.utc) - first.created
            assert timedelta(days=2.9) < age < timedelta(days=3.1)
            assert first.attempts == 0
            assert unknown.status is Status.QUEUED
            queue.enqueue("body 60", conversation="c0", id="id-60")
            RedisOfThen.offset = 0
            broker.start()
            wait_until(lambda: queue.counts().sent == 61, "the backlog")
            assert all(queue.get(f"id-{number}").attempts == 1 for number in range(11, 61))
            attempts = queue.attempts("id-10")
            # It is known that this one may have arrived before; the last attempt has its answer.
            assert attempts[0].arrival is Arrival.PERHAPS
            assert attempts[-1].arrival is Arrival.YES
        received = broker.received(stream, 61)
    finally:
        broker.kill()
    counts = Counter(each.id for each in received)
    assert set(counts) == {f"id-{number}" for number in range(61)}
    assert counts.pop("id-10") == copies
    assert set(counts.values()) == {1}
    assert all(each.body.decode() == f"body {each.id.removeprefix('id-')}" for each in received)
    assert in_order(received)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    broker = started(Redis, tmp_path_factory.mktemp("redis"))
    assert isinstance(broker, Redis)
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim that records writes, and the program that makes the files of a power cut."""
    folder = tmp_path_factory.mktemp("tools")
    common = ("-D_GNU_SOURCE", "-pthread", "-I", str(HERE.parents[1] / "Include"))
    compiled(folder, "shim.so", *common, "-shared", "-fPIC", str(FAULTS / "shim.c"))
    sources = [str(FAULTS / name) for name in ("model.c", "ledger.c", "files.c")]
    compiled(folder, "power_cut", *common, "power_cut.c", *sources)
    return folder


# What reaches the disk of the writes since the last flush (a number of enum image_kind), and when the power is cut.
CUTS = {"nothing": (0, 60), "prefix": (2, 100), "sectors": (4, 20), "garbage": (6, 150)}
if os.environ.get("MSGQ_SOAK"):
    CUTS |= {"nothing-at-first": (0, 1), "everything": (1, 20), "writes": (3, 40), "blocks": (5, 120)}


@pytest.mark.parametrize(("kind", "sent"), CUTS.values(), ids=CUTS.keys())
def test_B5_Q3_a_power_cut_in_the_middle_of_the_backlog(
    redis: Redis, tools: Path, tmp_path: Path, kind: int, sent: int
) -> None:
    """After `sent` messages of 200 the power is cut; what is on the disk is relayed to the broker: none is lost."""
    folder, image, trace, stream = tmp_path / "disk", tmp_path / "image", tmp_path / "trace", new_target()
    folder.mkdir()
    recording = {
        "LD_PRELOAD": str(tools / "shim.so"),
        "FAULT_DIRECTORY": str(folder.resolve()),
        "FAULT_TRACE": str(trace),
    }
    client = redis.client()
    with teller(recording, "sends_a_backlog", folder / "outbox.db", redis.port, stream, 7 * DAY) as program:
        promised = program.hears("enqueued")
        wait_until(lambda: client.xlen(stream) >= sent, "the middle of the backlog")
        program.is_killed()
        assert program.process.stdout is not None
        promised += [line.strip() for line in program.process.stdout if line.startswith("id-") and line.endswith("\n")]
    arrived = client.xlen(stream)
    assert sent <= arrived < len(promised), "the backlog was sent before the power was cut"
    command = [str(tools / "power_cut"), str(trace), str(kind), str(kind + sent), str(image)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    relay = RedisStream(f"redis://127.0.0.1:{redis.port}/0", stream, timeout=10)
    with relay, MessageQueue(image / "outbox.db", relay, online_debounce=0.05) as queue:
        relay.attach(queue)
        wait_until(lambda: queue.counts().queued + queue.counts().sending == 0, report)
        assert all(queue.get(id).status is Status.SENT for id in promised), report
    received = redis.received(stream, len(promised))
    ids = [each.id for each in received]
    assert set(promised) <= set(ids), f"{report}: {sorted(set(promised) - set(ids))}"
    # One that was on disk when the power was cut need not have been promised.
    assert len(set(ids) - set(promised)) <= 1, report
    assert len(ids) == len(set(ids)), report
    assert in_order(received), report

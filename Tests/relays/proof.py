"""The proof of B9: outboxes in processes of their own send while the broker and they themselves are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from checks import new_target
from msgqueue import Arrival, AttemptOutcome, MessageQueue
from sender import message_id
from servers import Broker, Received

SENDER = Path(__file__).resolve().parent / "sender.py"
IS_SOAK = bool(os.environ.get("MSGQ_SOAK"))
# Seconds that one step may take, from one kill to the next, on the slowest machine.
PATIENCE = 600.0


class Size(NamedTuple):
    """How large a proof is."""

    messages: int
    kills: int
    """Of the broker, and as many of senders."""
    senders: int = 8


FULL = Size(100_000, 10)
SHORT_MESSAGES = 5_000


class Outbox:
    """A process with an outbox of its own."""

    def __init__(self, folder: Path, name: str, spec: dict[str, object]) -> None:
        self.name = name
        self.store = folder / f"{name}.db"
        self.sent = 0
        self.kills = 0
        self._log = folder / f"{name}.log"
        self._environment = {**os.environ, "SENDER": json.dumps(spec)}
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, allowed: int) -> None:
        with self._log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [sys.executable, str(SENDER), str(self.store), self.name],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()
        self.allow(allowed)

    def allow(self, messages: int) -> None:
        """Says how many messages it may have enqueued from now on."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{messages}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # It has ended: `has_ended` says how.
            pass

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self.forget()

    def has_ended(self) -> bool:
        """Whether it has sent everything. An end for another reason is a failure."""
        assert self._process is not None
        code = self._process.poll()
        assert code in (None, 0), f"{self.name} ended with {code}:\n{self._log.read_text()[-3000:]}"
        return code == 0

    def forget(self) -> None:
        """Waits for its end."""
        if self._process is not None:
            self._process.wait()
            if self._reader is not None:
                self._reader.join()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            self._process = None

    def repeated(self) -> int:
        """How many messages the relay has sent again within one attempt, as it says."""
        return sum(
            map(int, re.findall(r":(\d+) messages that were not answered are sent again", self._log.read_text()))
        )

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                self.sent = int(line)


def proof(broker: Broker, folder: Path, size: Size | None = None, *, batch: bool = True, batches: int = 0) -> str:
    """Sends messages from several outboxes while the broker and senders are killed and started again.

    `batches`: how many are in flight, as `max_batches`. Then compares what consumers received with what was enqueued.
    Returns a report of one line.
    """
    size = size or (FULL if IS_SOAK else Size(SHORT_MESSAGES, broker.short_kills))
    begin = time.monotonic()
    target = new_target("proof")
    broker.prepare(target)
    count = size.messages // size.senders
    spec: dict[str, object] = {"broker": type(broker).__name__, "port": broker.port, "target": target}
    spec |= {"messages": count, "batch": batch, "batches": batches}
    outboxes = [Outbox(folder, f"s{number}", spec) for number in range(size.senders)]
    try:
        _run(broker, outboxes, count, size.kills)
    finally:
        for outbox in outboxes:
            outbox.kill()
    sent = time.monotonic()
    received = broker.received(target, count * size.senders)
    check_received(received, [outbox.name for outbox in outboxes], count)
    reasons, unknown = _copies(broker, outboxes, received, count)
    copies = len(received) - count * size.senders
    assert copies == sum(reasons.values())
    if broker.deduplicates:
        assert copies == 0
    way = f"in batches{f', {batches} in flight' if batches else ''}" if batch else "one by one"
    why = "".join(f", {number} {reason}" for reason, number in sorted(reasons.items()))
    return (
        f"{type(broker).__name__}, {way}: {size.senders} outboxes, "
        f"{count * size.senders} messages, {size.kills} kills of the broker, {sum(each.kills for each in outboxes)} of "
        f"senders, in {sent - begin:.0f} s: 0 lost, in order, {copies} copies{why}; "
        f"{unknown} attempts with unknown outcome"
    )


def _run(broker: Broker, outboxes: list[Outbox], count: int, kills: int) -> None:
    """Lets the outboxes send all messages. A kill comes when half of what is allowed until then is sent.

    More is allowed after the kill and before the new start, so that messages are enqueued meanwhile.
    """
    steps = 2 * kills + 1
    allowed = [count * (step + 1) // steps for step in range(steps)]
    for outbox in outboxes:
        outbox.start(allowed[0])
    for step in range(2 * kills):
        before = allowed[step - 1] if step else 0
        enough = len(outboxes) * (before + allowed[step]) // 2
        _wait(outboxes, partial(_have_sent, outboxes, enough), f"step {step}")
        if step % 2 == 0:
            broker.interrupt(partial(_allow, outboxes, allowed[step + 1]))
        else:
            victim = outboxes[step // 2 % len(outboxes)]
            victim.kill()
            victim.kills += 1
            _allow([outbox for outbox in outboxes if outbox is not victim], allowed[step + 1])
            victim.start(allowed[step + 1])
    _wait(outboxes, lambda: all([each.has_ended() for each in outboxes]), "the end")
    for outbox in outboxes:
        outbox.forget()
        assert outbox.sent == count


def _allow(outboxes: list[Outbox], messages: int) -> None:
    for outbox in outboxes:
        outbox.allow(messages)


def _have_sent(outboxes: list[Outbox], messages: int) -> bool:
    return sum(outbox.sent for outbox in outboxes) >= messages


def _wait(outboxes: list[Outbox], condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}; sent: {[each.sent for each in outboxes]}"
        for outbox in outboxes:
            outbox.has_ended()
        time.sleep(0.005)


def check_received(received: list[Received], names: list[str], count: int) -> None:
    """Nothing is lost, and the first copies of a conversation are in order."""
    firsts: dict[str, Received] = {}
    for each in received:
        firsts.setdefault(each.id, each)
    wanted = {message_id(name, number) for name in names for number in range(count)}
    assert set(firsts) == wanted, f"{len(wanted - set(firsts))} lost: {sorted(wanted - set(firsts))[:10]}"
    by_conversation: dict[str, list[int]] = {}
    for each in firsts.values():
        number = int(each.id.rpartition("-")[2])
        assert each.body == f"body {number}".encode()
        by_conversation.setdefault(each.conversation, []).append(number)
    for conversation, numbers in by_conversation.items():
        assert numbers == sorted(numbers), f"{conversation} is not in order"


def _copies(broker: Broker, outboxes: list[Outbox], received: list[Received], count: int) -> tuple[Counter[str], int]:
    """Returns the reasons of the copies, and how many attempts had an unknown outcome.

    Each copy beyond the first must belong to an attempt, recorded in the outbox, whose outcome is unknown, or to a
    message that the relay sent again itself after a call of several, which it logs.
    """
    copies = Counter(each.id for each in received)
    reasons: Counter[str] = Counter()
    total = 0
    for outbox in outboxes:
        repeated = outbox.repeated()
        with MessageQueue(outbox.store, read_only=True) as queue:
            for id in (message_id(outbox.name, number) for number in range(count)):
                more = copies[id] - 1
                if not more and queue.get(id).attempts == 1:
                    continue
                unknown = [each.outcome for each in queue.attempts(id)[:-1] if each.arrival is not Arrival.NO]
                total += len(unknown)
                if more > len(unknown) and broker.client_repeats:
                    reasons["because the client repeated them by itself"] += more - len(unknown)
                    more = len(unknown)
                if more > len(unknown) and repeated > 0:
                    reasons["because the relay sent them again one at a time"] += 1
                    repeated -= 1
                    more -= 1
                assert more <= len(unknown), f"{id} arrived {copies[id]} times: {queue.attempts(id)}"
                if more:
                    reasons[_reason(unknown)] += more
    return reasons, total


def _reason(outcomes: list[AttemptOutcome]) -> str:
    """Says why these attempts of a message may have arrived although they did not count as sent."""
    killed = sum(outcome is AttemptOutcome.UNKNOWN for outcome in outcomes)
    if killed == len(outcomes):
        return "because a sender was killed"
    return "because of a kill of a sender or the broker" if killed else "because the answer was lost with the broker"

"""Random states of a queue in simulated time, reached by public calls and outcomes. A seed always gives the same."""

from __future__ import annotations

import contextlib
import random
import resource
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from msgqueue import (
    BatchOptions,
    Connectivity,
    Delivery,
    Draft,
    Error,
    Event,
    EventKind,
    FailureKind,
    FinalFailure,
    Lifecycle,
    Mode,
    OnFull,
    Outcome,
    Refused,
    RetryPolicy,
    Status,
    TimedOutError,
)
from msgqueue.models import Explanation, Message
from msgqueue.simulation import SimulatedQueue

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
TICK = timedelta(milliseconds=1)

# For each option, values that are not its default. Not here: read_only and maintenance, with which nothing is sent.
OPTIONS: dict[str, Sequence[Any]] = {
    "mode": [Mode.ASK, Mode.MANUAL],
    "retry": [
        RetryPolicy(ladder=[5, 30, 120], jitter=0),
        RetryPolicy(ladder=[0.2], max_retries=50, jitter=0.5),
        RetryPolicy(ladder=[]),
        RetryPolicy(base=1, factor=3, cap=100, max_retries=4, jitter=1),
    ],
    "final_failure": [FinalFailure.BLOCK],
    "refused": [Refused.DISCARD],
    "strict_order": [False],
    "pause_on_unauthorized": [True],
    "unmetered_only": [True],
    "send_in_background": [True],
    "direct": [False],
    "hold_interrupted": [True],
    "durable_outcomes": [True],
    "conflict_is_sent": [True],
    "refuse_lost_tail": [True],
    "max_in_flight": [1, 2, 16],
    "attempt_timeout": [0.3, 5, 600],
    "on_demand_timeout": [0.5, 700],
    "prompt_timeout": [0.5, 20],
    "online_debounce": [0, 3, 40],
    "drain_batch": [1, 3, 10],
    "trigger_interval": [None, 7, 90],
    "expiry": [2, 60],
    "keep_sent": [0, 3],
    "keep_sent_for": [0, 60],
    "remember_ids": [0],
    "limit_messages": [20],
    "limit_bytes": [400],
    "limit_body": [50],
    "limit_metadata": [100],
    "on_full": [OnFull.DROP_OLDEST],
    "limit_file_bytes": [1 << 24],
    "rate_per_second": [0.2, 3, 50],
    "rate_burst": [2, 10],
    "ramp_up": [4, 60],
    "live_share": [0, 0.5, 1],
    "soonest_expiry_first": [True],
    "initial_connectivity": [Connectivity.OFFLINE, Connectivity.ONLINE],
    "prompt_for_failed": [True],
}
BATCHES = [
    BatchOptions(max_messages=3),
    BatchOptions(max_messages=10, linger=2),
    BatchOptions(max_messages=5, single_conversation=True, linger=0.5),
    BatchOptions(max_messages=4, max_batches=2, max_bytes=30),
]
# What a host does, and how often.
ACTIONS = {
    "enqueue": 30,
    "advance": 18,
    "end": 18,
    "connect": 5,
    "meter": 3,
    "live": 3,
    "pause": 2,
    "resume": 4,
    "retry": 3,
    "send_now": 4,
    "retry_all": 4,
    "delete": 2,
    "edit": 2,
    "transport": 0.6,
    "drain": 4,
    "clear": 0.3,
    "withdraw": 1,
    "disk": 0.5,
    "reopen": 0.7,
}


class World:
    """A queue in a state, and what it called. `answer`: what the transport answers from now on; None: at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.answer: Outcome | None = None
        #: The attempts without an outcome: id by token.
        self.open: dict[int, str] = {}
        #: When each message was called (simulated).
        self.calls: list[tuple[datetime, str]] = []
        #: When a message was sent, failed or left the store.
        self.ended: dict[str, datetime] = {}
        self.log: list[str] = []
        self.metered = False
        chance = self.random
        self.changed = {name: chance.choice(values) for name, values in OPTIONS.items() if chance.random() < 0.12}
        if "ramp_up" in self.changed:
            # It needs a rate.
            self.changed.setdefault("rate_per_second", 3)
        batch = self.random.choice(BATCHES) if self.random.random() < 0.25 else None
        self._path = folder / f"{seed}.db"
        self.queue = self._opened(START)
        self._batch = batch
        self.names = [f"c{number}" for number in range(self.random.choice([1, 2, 5, 20]))]
        self._most = self.random.choice([5, 15, 40, 200])
        self._made = 0
        self.is_full = False
        self.attach()
        for _ in range(self.random.randint(3, 60)):
            self._step()
        while self._made < 5:
            with contextlib.suppress(Error):
                self._put(5)
        self._say("settle")
        while self.queue.poll(0):
            pass

    # ---------------------------------------------------------------- what the host does

    def _opened(self, start: datetime) -> SimulatedQueue:
        queue = SimulatedQueue(self._path, start=start, seed=self.seed, **self.changed)
        queue.set_event_handler(self._note)
        return queue

    def attach(self) -> None:
        """Sets the transport."""
        if self._batch is not None:
            self.queue.set_batch_transport(self._call_batch, self._batch)
        else:
            self.queue.set_transport(self._call)

    def _note(self, event: Event) -> None:
        is_end = event.kind is not EventKind.STATUS or event.to_status in (Status.FAILED, Status.SENT)
        if event.id and is_end and not self.queue.closed:
            self.ended[event.id] = self.queue.now

    def _call_batch(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        return [self._call(each) for each in deliveries]

    def _call(self, delivery: Delivery) -> Outcome:
        now = self.queue.now
        self.calls.append((now, delivery.id))
        outcome = self.answer
        if outcome is None:
            # The same in each run, whatever was called before.
            chance = random.Random(f"{self.seed} {delivery.id} {delivery.attempt} {len(self.calls)}")
            if chance.random() < 0.03:
                self.queue.drain(chance.choice([0, 2]), conversation=chance.choice([None, *self.names]))
            if chance.random() < 0.1:
                # The receiver takes long: what is due meanwhile is done afterwards.
                self.queue.advance(chance.choice([0.1, 20]))
            outcome = _outcome(chance)
        self._say(f"{delivery.id} attempt {delivery.attempt}: {_text(outcome)}")
        if outcome == Outcome.pending():
            self.open[delivery.token] = delivery.id
        return outcome

    def complete(self, token: int, outcome: Outcome) -> None:
        """Ends an attempt."""
        self.open.pop(token)
        # It may have timed out, or its message may be gone.
        with contextlib.suppress(Error):
            self.queue.complete(token, outcome)

    def set_online(self, is_online: bool) -> None:
        """Sets the connectivity."""
        self.queue.set_connectivity(
            Connectivity.ONLINE if is_online else Connectivity.OFFLINE, metered=is_online and self.metered
        )

    def fill(self, is_full: bool) -> None:
        """Lets the file system refuse writes, or accept them again."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (0 if is_full else hard, hard))
        self.is_full = is_full

    def close(self) -> None:
        """Closes the queue."""
        if self.is_full:
            self.fill(False)
        self.queue.set_transport(None)
        # Attempts are open.
        with contextlib.suppress(TimedOutError):
            self.queue.close(timeout=0)

    def _say(self, text: str) -> None:
        self.log.append(f"{(self.queue.now - START).total_seconds():.3f} {text}")

    def _step(self) -> None:
        action = self.random.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        try:
            getattr(self, f"_{action}")()
        except Error as problem:
            self._say(f"  {type(problem).__name__}: {problem}")

    # ---------------------------------------------------------------- random steps

    def _call_with(self, name: str, call: Callable[[Any], object], argument: str | None) -> None:
        self._say(f"{name} {argument}")
        call(argument)

    def _name(self) -> str:
        return self.random.choice(self.names)

    def _where(self) -> str | None:
        return self.random.choice([None, self._name(), self._name()])

    def _id(self) -> str:
        return f"m{self.random.randrange(max(1, self._made))}"

    def _enqueue(self) -> None:
        self._put(self.random.randint(1, max(6, self._most // 8)))

    def _advance(self) -> None:
        time = self.random.choice([0.001, 0.1, 0.5, 1, 5, 30, 200])
        self._say(f"advance {time}")
        self.queue.advance(time)

    def _end(self) -> None:
        if not self.open:
            return
        token, outcome = self.random.choice(sorted(self.open)), _outcome(self.random)
        if outcome != Outcome.pending():
            self._say(f"{self.open[token]} ends: {_text(outcome)}")
            self.complete(token, outcome)

    def _connect(self) -> None:
        is_online = self.random.random() < 0.7
        self._say(f"online {is_online}")
        self.set_online(is_online)

    def _meter(self) -> None:
        self.metered = not self.metered
        self._say(f"online, metered {self.metered}")
        self.set_online(True)

    def _live(self) -> None:
        lifecycle = self.random.choice(list(Lifecycle))
        self._say(lifecycle.name)
        self.queue.set_lifecycle(lifecycle)

    def _pause(self) -> None:
        self._call_with("pause", self.queue.pause, self._where())

    def _resume(self) -> None:
        self._call_with("resume", self.queue.resume, self._where())

    def _retry(self) -> None:
        self._call_with("retry", self.queue.retry, self._id())

    def _send_now(self) -> None:
        self._call_with("send now", self.queue.send_now, self._id())

    def _delete(self) -> None:
        self._call_with("delete", self.queue.delete, self._id())

    def _edit(self) -> None:
        id = self._id()
        self._say(f"edit {id}")
        self.queue.edit(id, "edited")

    def _retry_all(self) -> None:
        self._call_with("retry all", self.queue.retry_all, self._where())

    def _transport(self) -> None:
        is_gone = self.random.random() < 0.4
        self._say("no transport" if is_gone else "a transport")
        if is_gone:
            self.queue.set_transport(None)
        else:
            self.attach()

    def _drain(self) -> None:
        time, batch = self.random.choice([0, 0.001, 2]), self.random.choice([0, 0, 2])
        where, failed = self._where(), self.random.random() < 0.3
        self._say(f"drain {where}, batch {batch}, failed {failed}, {time} s")
        self.queue.drain(batch, time, where, include_failed=failed)

    def _clear(self) -> None:
        self._call_with("clear", self.queue.clear, self._name())

    def _withdraw(self) -> None:
        self._say("withdraw the prompt")
        self.queue.withdraw_prompt()

    def _disk(self) -> None:
        self._say(f"full {not self.is_full}")
        self.fill(not self.is_full)

    def _reopen(self) -> None:
        self._say("reopen")
        now = self.queue.now
        self.close()
        self.open.clear()
        self.queue = self._opened(now)
        self.attach()

    def _put(self, count: int) -> None:
        chance = self.random
        count = min(count, self._most - self._made)
        drafts: list[Draft] = []
        for _ in range(count):
            more: dict[str, Any] = {}
            if chance.random() < 0.15:
                more["not_before"] = self.queue.now + timedelta(seconds=chance.choice([0.5, 3, 40, 3000]))
            if chance.random() < 0.15:
                more["expires_at"] = self.queue.now + timedelta(seconds=chance.choice([1, 10, 100, 4000]))
            if chance.random() < 0.1:
                more["unmetered_only"] = True
            if chance.random() < 0.1:
                more["priority"] = chance.choice([-3, 1, 9])
            if chance.random() < 0.05:
                more["replace_key"] = chance.choice("xy")
            drafts.append(Draft("hello", chance.choice(self.names), id=f"m{self._made + len(drafts)}", **more))
        if drafts:
            self._made += len(drafts)
            for each in drafts:
                times = f"not before {each.not_before}, expires {each.expires_at}"
                self._say(f"put {each.id} {each.conversation}, {times}, unmetered {each.unmetered_only}")
            self.queue.enqueue_batch(drafts)

    # ---------------------------------------------------------------- what the queue says

    def queued(self) -> list[Message]:
        """The queued messages."""
        return self.queue.list(status=Status.QUEUED, limit=1000, bodies=False, reasons=True)

    def reasons(self) -> dict[str, Explanation]:
        """What every queued message waits for."""
        return {each.id: self.queue.explain(each.id) for each in self.queued()}


def _text(outcome: Outcome) -> str:
    return f"{outcome.verdict.name} {outcome.kind.name} {outcome.retry_after}"


def _outcome(chance: random.Random) -> Outcome:
    kind = chance.choice([FailureKind.SERVER, FailureKind.NETWORK, FailureKind.TIMEOUT, FailureKind.RATE_LIMIT])
    return chance.choices(
        [
            Outcome.pending(),
            Outcome.sent(),
            Outcome.retry(kind, not_sent=chance.random() < 0.3),
            Outcome.retry(kind, retry_after=chance.choice([0.5, 20, 300]), retry_after_queue=chance.random() < 0.4),
            Outcome.reject(chance.choice([FailureKind.REJECTED, FailureKind.UNAUTHORIZED])),
            Outcome.offline(),
            Outcome.skipped(),
            Outcome.http(chance.choice([409, 429, 503, 400])),
        ],
        [40, 25, 12, 6, 5, 3, 4, 3],
    )[0]

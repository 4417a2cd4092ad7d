"""X15: in random states, what `explain` says of every queued message is what then happens."""

from __future__ import annotations

import contextlib
import faulthandler
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from msgqueue import Connectivity, Delivery, Error, FailureKind, Lifecycle, Mode, Outcome, Reason, Status, Stop
from msgqueue.models import Explanation, Message
from msgqueue.simulation import SimulatedQueue
from random_states import OPTIONS, START, TICK, World

SOAK = bool(os.environ.get("MSGQ_SOAK"))
STATES = 10_000 if SOAK else 200
# Nothing of the queue itself ends these.
LASTING = {Reason.OFFLINE, Reason.METERED, Reason.PAUSED, Reason.NO_TRANSPORT, Reason.PERSON, Reason.BLOCKED}
# They end at `until`.
TIMED = {Reason.RETRYING, Reason.SCHEDULED, Reason.HOLDING, Reason.RATE, Reason.STORAGE}
# EXPIRED is over before a call of the same thread can see it.
WAITS = LASTING | TIMED | {Reason.NEXT, Reason.BEHIND, Reason.TRIGGER}
FAR = timedelta(hours=2)
STOPS = 50


class Checker:
    """Checks one state. `problems` is empty when all is well."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.problems: list[str] = []
        self.counts: Counter[Reason] = Counter()
        self.changed: set[str] = set()
        self.log: list[str] = []

    def run(self) -> None:
        """Checks everything."""
        with self._world() as world:
            first = world.reasons()
            self.log, self.changed = world.log, set(world.changed)
            self.counts.update(each.code for each in first.values())
            self._let_time_pass(world)
        if "mode" in self.changed:
            with self._world() as world:
                self._prompt(world)
        holders = sorted({each.behind or "" for each in first.values() if each.code is Reason.BEHIND})
        for reason, end in (
            (Reason.OFFLINE, lambda world: world.set_online(True)),
            (Reason.METERED, self._unmeter),
            (Reason.PAUSED, self._resume),
            (Reason.NO_TRANSPORT, lambda world: world.attach()),
            (Reason.PERSON, lambda world: world.queue.drain(2**31 - 1)),
            (Reason.TRIGGER, self._trigger),
            (Reason.NEXT, self._answer),
            (Reason.BEHIND, lambda world: self._remove_holders(world, holders)),
            (Reason.BLOCKED, lambda world: world.queue.clear_failed()),
        ):
            named = {id: each for id, each in first.items() if each.code is reason and each.until is None}
            if named:
                with self._world() as world:
                    if world.reasons() != first:
                        self.problems.append("the same seed gave another state")
                    self._end(world, named, reason, end)

    @contextlib.contextmanager
    def _world(self) -> Iterator[World]:
        world = World(self.folder, self.seed)
        try:
            yield world
        finally:
            world.close()
            for each in self.folder.glob(f"{self.seed}.db*"):
                each.unlink()

    def _agree(self, world: World) -> dict[str, Explanation]:
        """The reasons in lists are those of `explain`, and a time that is named is yet to come."""
        now = world.queue.now
        claims = world.reasons()
        for number, message in enumerate(world.queued()):
            if number < 5 and world.queue.wait(message.id, 0).explanation != claims[message.id]:
                self._fail(world, f"wait says of {message.id} something else than explain: {claims[message.id]}")
            if message.explanation != claims[message.id]:
                self._fail(world, f"list says of {message.id} {message.explanation}, explain {claims[message.id]}")
        for id, each in claims.items():
            if each.until is not None and each.until <= now:
                self._fail(world, f"{id}: {each.code.name} until {_s(each.until)}, which has passed")
            if each.code in TIMED and each.until is None:
                self._fail(world, f"{id}: {each.code.name} without a time")
        return claims

    def _let_time_pass(self, world: World) -> None:
        """Nothing is called, and no attempt is answered. What is said at each moment is checked at the next one."""
        world.answer = Outcome.pending()
        last = world.queue.now + FAR
        for _ in range(STOPS):
            claims, state = self._agree(world), world.queue.state()
            world.calls.clear()
            now = world.queue.now
            times = [each.until for each in claims.values() if each.until is not None]
            end = min([each for each in times if each < last], default=last)
            world.queue.advance(end - now)
            while world.queue.poll(0):
                pass
            # With PAUSED, conversations may be paused of many.
            if world.calls and (state.paused or state.reason in {Reason.OFFLINE, Reason.NO_TRANSPORT}):
                self._fail(world, f"the queue was {state.reason.name}, but {world.calls[0]} was sent")
            self._compare(world, claims, end)
            if end == last:
                return

    def _compare(self, world: World, claims: dict[str, Explanation], end: datetime) -> None:
        """Compares what was said with what happened since."""
        done: set[str] = set()
        for time, id in world.calls:
            done.add(id)
            each = claims.get(id)
            if each is None:
                continue
            if each.code in LASTING:
                self._fail(world, f"{id}: was {each.code.name}, but is sent at {_s(time)}")
            if each.until is not None and each.code is not Reason.NEXT and time < each.until - TICK:
                self._fail(world, f"{id}: was {each.code.name} until {_s(each.until)}, but is sent at {_s(time)}")
            if each.code is Reason.BEHIND and each.behind in claims and each.behind not in done:
                if each.behind in world.ended and world.ended[each.behind] <= time:
                    continue
                self._fail(world, f"{id}: was behind {each.behind}, but is sent before it at {_s(time)}")
        for id, each in claims.items():
            if each.until != end or id in done:
                continue
            with contextlib.suppress(Error):
                later = world.queue.explain(id)
                if later.code is each.code and later.until == each.until:
                    self._fail(world, f"{id}: was {each.code.name} until {_s(end)}, and is it then")

    def _prompt(self, world: World) -> None:
        """The prompt asks about what a yes sends."""
        self._answer(world)
        world.queue.advance(0.3)
        state, now = world.queue.state(), world.queue.now
        if state.prompt is None or world.is_full or any(self._has_time(each, now) for each in world.queued()):
            return
        world.answer = Outcome.sent()
        report = world.queue.drain(include_failed="prompt_for_failed" in world.changed)
        if report.sent != state.prompt.messages + state.prompt.failed:
            self._fail(world, f"asked about {state.prompt}, sent {report}")

    @staticmethod
    def _has_time(message: Message, now: datetime) -> bool:
        """Whether time changes what a drain does with it."""
        times = (message.not_before, message.explanation.until if message.explanation else None)
        return message.expires_at is not None or any(each is not None and each > now for each in times)

    def _fail(self, world: World, text: str) -> None:
        self.problems.append(f"at {_s(world.queue.now)}: {text}")

    def _end(self, world: World, named: dict[str, Explanation], reason: Reason, end: Callable[[World], object]) -> None:
        """Ends what is named. All attempts succeed."""
        world.answer = Outcome.sent()
        world.calls.clear()
        if reason is not Reason.STORAGE and world.is_full:
            world.fill(False)
            world.queue.advance(120)
        try:
            end(world)
        except Error as problem:
            self.problems.append(f"what ends {reason.name}: {type(problem).__name__}: {problem}")
            return
        while world.queue.poll(0):
            pass
        called = {id for _, id in world.calls}
        for id, each in named.items():
            if id in called:
                continue
            try:
                message = world.queue.get(id)
            except Error:
                continue
            if message.status is not Status.QUEUED:
                continue
            later = world.queue.explain(id)
            if reason is Reason.TRIGGER and later.code is Reason.TRIGGER and world.calls:
                continue
            if later.code is reason and later.behind == each.behind and later.until is None:
                self._fail(
                    world, f"{id}: {reason.name} ({each.text}) was ended, and is what it waits for: {later.text}"
                )

    @staticmethod
    def _unmeter(world: World) -> None:
        world.metered = False
        world.set_online(True)

    @staticmethod
    def _resume(world: World) -> None:
        world.queue.resume()
        for name in world.names:
            world.queue.resume(name)

    @staticmethod
    def _trigger(world: World) -> None:
        while world.open:
            world.complete(next(iter(world.open)), Outcome.sent())
        while world.queue.poll(0):
            pass
        world.queue.set_lifecycle(Lifecycle.BACKGROUND)
        world.queue.set_lifecycle(Lifecycle.FOREGROUND)

    @staticmethod
    def _answer(world: World) -> None:
        """All attempts succeed, also those that begin then."""
        world.answer = Outcome.sent()
        while True:
            count = len(world.calls)
            while world.open:
                world.complete(next(iter(world.open)), Outcome.sent())
            # Longer than a batch waits for more messages.
            world.queue.advance(3)
            if len(world.calls) == count and not world.open:
                return

    def _remove_holders(self, world: World, holders: Iterable[str]) -> None:
        self._answer(world)
        for id in holders:
            # It may have been sent.
            with contextlib.suppress(Error):
                world.queue.delete(id)


def test_X15_what_explain_says_of_every_queued_message_is_what_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if SOAK:
        # It takes longer than a test that hangs.
        faulthandler.cancel_dump_traceback_later()
    reasons: Counter[Reason] = Counter()
    options: Counter[str] = Counter()
    for seed in range(1, STATES + 1):
        checker = Checker(tmp_path, seed)
        checker.run()
        assert not checker.problems, "\n".join([f"seed {seed}", *checker.log, *checker.problems])
        reasons.update(checker.counts)
        options.update(checker.changed)
    with capsys.disabled():
        told = ", ".join(f"{each.name} {reasons[each]}" for each in sorted(reasons))
        print(f"\n{STATES} states, {reasons.total()} explanations: {told}")
    seldom = {each for each in WAITS if reasons[each] < (100 if SOAK else 1)}
    assert not seldom
    if SOAK:
        assert not {each for each in OPTIONS if options[each] < STATES / 20}


def test_X15_A2_in_the_background_a_message_that_has_become_due_goes_before_later_ones(tmp_path: Path) -> None:
    calls: list[Delivery] = []

    def transport(delivery: Delivery) -> Outcome:
        calls.append(delivery)
        return Outcome.pending()

    with SimulatedQueue(tmp_path / "queue.db", transport, max_in_flight=1, start=START) as queue:
        queue.set_connectivity(Connectivity.OFFLINE)
        queue.enqueue("1", conversation="ana", id="scheduled", delay=10)
        queue.set_lifecycle(Lifecycle.BACKGROUND)
        queue.set_connectivity(Connectivity.ONLINE)
        queue.enqueue("2", conversation="ben", id="first")
        queue.enqueue("3", conversation="ana", id="later")
        queue.advance(1)
        assert [each.id for each in calls] == ["first"]
        assert queue.explain("later").code is Reason.NEXT
        queue.advance(10)
        assert queue.explain("scheduled").code is Reason.TRIGGER
        assert queue.explain("later").behind == "scheduled"
        queue.complete(calls[0].token, Outcome.sent())
        queue.advance(1)
        assert [each.id for each in calls] == ["first"]
        queue.set_lifecycle(Lifecycle.FOREGROUND)
        queue.advance(1)
        queue.complete(calls[1].token, Outcome.sent())
        queue.advance(1)
        queue.complete(calls[2].token, Outcome.sent())
    assert [each.id for each in calls] == ["first", "scheduled", "later"]


def test_X15_messages_that_were_put_back_wait_for_each_other_and_for_the_receiver(tmp_path: Path) -> None:
    tokens: dict[str, int] = {}

    def transport(delivery: Delivery) -> Outcome:
        tokens[delivery.id] = delivery.token
        return Outcome.reject() if delivery.id in ("2", "3") else Outcome.pending()

    path = tmp_path / "queue.db"
    with SimulatedQueue(path, transport, mode=Mode.MANUAL, direct=False, max_in_flight=1, start=START) as queue:
        for number in range(1, 5):
            queue.enqueue("hello", conversation="ben" if number == 4 else "ana", id=str(number))
        for id in ("2", "3", "4"):
            queue.send_now(id)
            queue.advance(1)
        assert queue.retry_all() == 2
        # They overtake what was queued.
        assert queue.explain("1").code is Reason.PERSON
        assert queue.explain("2").code is Reason.NEXT
        assert queue.explain("3").behind == "2"
        held = Outcome.retry(FailureKind.RATE_LIMIT, retry_after=60, retry_after_queue=True)
        queue.complete(tokens["4"], held)
        queue.poll(0)
        assert queue.explain("2").code is Reason.HOLDING
        assert queue.explain("3").behind == "2"


def test_X15_messages_of_a_drain_that_begins_after_another_wait_for_nobody(tmp_path: Path) -> None:
    calls: list[Delivery] = []

    def transport(delivery: Delivery) -> Outcome:
        calls.append(delivery)
        if len(calls) == 1:
            assert queue.drain(conversation="ana").stop is queue.drain().stop is Stop.STARTED
        return Outcome.pending()

    with SimulatedQueue(tmp_path / "queue.db", transport, mode=Mode.MANUAL, direct=False, start=START) as queue:
        for name in ("ana", "ben"):
            queue.enqueue("hello", conversation=name, id=name)
        assert queue.explain("ben").code is Reason.PERSON
        queue.send_now("ana")
        queue.poll(0)
        assert queue.explain("ben").code is Reason.NEXT
        queue.complete(calls[0].token, Outcome.sent())
        queue.poll(0)
        assert [each.id for each in calls] == ["ana", "ben"]
        queue.complete(calls[1].token, Outcome.sent())


def _s(time: datetime) -> str:
    return time.strftime("%H:%M:%S.%f")[:-3]

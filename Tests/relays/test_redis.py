"""B5: Redis Streams."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import checks
import pytest
from brokers import Redis
from checks import delivery, new_target
from msgqueue import BatchOptions, Delivery, Draft, FailureKind, MessageQueue, Mode, Outcome, Verdict
from msgqueue.relays import redis_stream
from proof import Size, proof
from servers import started

pytest.importorskip("redis")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    broker = started(Redis, tmp_path_factory.mktemp("redis"))
    assert isinstance(broker, Redis)
    yield broker
    broker.kill()


def test_F11_redis_a_batch_that_is_stored_takes_few_calls(broker: Redis) -> None:
    messages = [delivery(conversation=str(number)) for number in range(200)]
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    with broker.relay(new_target()) as relay:
        assert relay(delivery()) == Outcome.sent()
        sys.setprofile(count)
        try:
            outcomes = relay.batch(messages)
        finally:
            sys.setprofile(None)
    assert outcomes == [Outcome.sent()] * 200
    # Of functions of Python and C. It was 39 for each message, and is 25.
    assert calls < 200 * 30


def test_F11_redis_the_next_batch_of_other_conversations_is_sent_meanwhile(broker: Redis, tmp_path: Path) -> None:
    target, together, lock = new_target(), threading.Barrier(2), threading.Lock()
    running: list[set[str]] = []
    shared: list[set[str]] = []
    calls = itertools.count()
    with broker.relay(target) as relay:

        def send(deliveries: list[Delivery]) -> list[Outcome]:
            conversations = {each.conversation for each in deliveries}
            with lock:
                shared.extend(conversations & others for others in running)
                running.append(conversations)
            if next(calls) < 2:
                # Each of the first two calls returns only if the other one has begun.
                together.wait(30)
            try:
                answers: list[Outcome] = relay.batch(deliveries)
                return answers
            finally:
                with lock:
                    running.remove(conversations)

        two = BatchOptions(max_messages=10, max_batches=2)
        with MessageQueue(
            tmp_path / "outbox.db", batch_transport=send, batch_options=two, mode=Mode.MANUAL, direct=False
        ) as queue:
            queue.enqueue_batch([Draft(str(number), f"c{number % 40}", id=f"id-{number}") for number in range(400)])
            assert queue.drain().sent == 400
    assert shared
    assert not any(shared)
    checks.in_order(broker, target, 400)


def test_B5_redis_relay_is_not_copied(broker: Redis) -> None:
    checks.is_not_copied(broker)


def test_B5_B8_redis_id_conversation_metadata_and_trace_context_travel(broker: Redis) -> None:
    checks.headers_travel(broker)


def test_B5_redis_adds_a_message_once(broker: Redis) -> None:
    checks.same_id_twice(broker)


def test_B5_redis_keeps_the_order_of_a_conversation_in_a_batch(broker: Redis) -> None:
    checks.order_in_a_batch(broker)


def test_B5_redis_stream_by_a_function(broker: Redis) -> None:
    checks.target_by_function(broker)


def test_B5_redis_body_over_the_limit_is_rejected(broker: Redis) -> None:
    checks.too_large(broker, 2 << 20)


def test_B5_redis_nobody_listens(broker: Redis) -> None:
    checks.nobody_listens(broker)


def test_B5_redis_that_is_away_is_one_line_in_the_log(broker: Redis) -> None:
    checks.logs_one_line(broker)


def test_B5_redis_server_without_tls(broker: Redis) -> None:
    checks.without_tls(broker)


def test_B5_redis_that_dies_and_comes_back_is_one_line_for_each_change(broker: Redis) -> None:
    checks.logs_one_line_for_each_restart(broker)


def test_B5_redis_name_not_found(broker: Redis) -> None:
    checks.name_not_found(broker)


def test_B5_redis_nonsense(broker: Redis) -> None:
    checks.nonsense(broker)


def test_B5_redis_silence(broker: Redis) -> None:
    checks.silence(broker)


def test_B5_redis_connection_that_ends_leaves_nothing(broker: Redis) -> None:
    checks.nothing_is_left(broker)


def test_B5_redis_silence_while_connecting_is_offline(broker: Redis, tmp_path: Path) -> None:
    checks.silence_is_offline(broker, tmp_path)


def test_B5_redis_silence_after_sending(broker: Redis) -> None:
    checks.silence_after_sending(broker)


def test_B5_redis_cut_after_sending(broker: Redis) -> None:
    checks.cut_after_sending(broker)


def test_B5_redis_connection_that_another_call_closes(broker: Redis) -> None:
    checks.closed_by_another_call(broker)


def test_B5_redis_certificate_that_is_not_trusted(broker: Redis, tmp_path: Path) -> None:
    checks.unverified_tls(broker, tmp_path)


def test_B5_redis_that_refuses_is_left_alone_until_there_is_a_message(broker: Redis) -> None:
    with broker.relay("t", user="nobody:wrong") as relay:
        before = broker.client().info("stats")["total_connections_received"]
        # What the thread of `attach` does every second.
        assert [relay._watch() for _ in range(5)] == [True] * 5
        relay(delivery())
        # The last one, and those that ask.
        assert broker.client().info("stats")["total_connections_received"] - before <= 4


@pytest.mark.parametrize("retries", [2, 0])
@pytest.mark.parametrize("batch", [True, False])
def test_B5_redis_only_the_message_that_ends_the_connection_fails(
    broker: Redis, tmp_path: Path, batch: bool, retries: int
) -> None:
    checks.only_the_culprit_fails(broker, tmp_path, batch=batch, retries=retries)


def test_B5_redis_only_the_message_that_gets_no_answer_fails(broker: Redis, tmp_path: Path) -> None:
    checks.only_the_culprit_fails(broker, tmp_path, retries=0, silent=True)


def test_B5_redis_away_and_back(broker: Redis, tmp_path: Path) -> None:
    checks.away_and_back(broker, tmp_path)


def test_B5_redis_error_in_the_middle_of_a_batch(broker: Redis) -> None:
    """A stream name that is another type of key: final. The rest of that conversation is not tried."""
    good, bad = new_target(), new_target()
    broker.client().set(bad, "a string")
    with broker.relay(lambda each: bad if each.text == "bad" else good) as relay:
        bodies = (("1", "ana"), ("bad", "ana"), ("2", "ana"), ("1", "bob"), ("2", "bob"))
        outcomes = relay.batch([delivery(body, conversation) for body, conversation in bodies])
    assert [outcomes[0], outcomes[3], outcomes[4]] == [Outcome.sent()] * 3
    assert outcomes[1].verdict is Verdict.REJECT
    assert checks.is_skipped(outcomes[2])
    assert [(each.conversation, each.body) for each in broker.received(good, 3)] == [
        ("ana", b"1"),
        ("bob", b"1"),
        ("bob", b"2"),
    ]


def user_without(broker: Redis, *commands: str, keys: str = "~*") -> str:
    """Makes a user who may not use these commands. Returns the name and the password for a relay."""
    name = new_target("user")
    broker.client().execute_command("ACL", "SETUSER", name, "on", ">right", keys, "+@all", *(f"-{c}" for c in commands))
    return f"{name}:right"


def test_B5_redis_user_with_the_documented_permissions(broker: Redis) -> None:
    target = new_target()
    commands = ("ping", "script|load", "evalsha", "exists", "xadd", "set", "xdel")
    rules = ["on", ">right", f"~{target}", f"~{target}:seen:*", "-@all", *(f"+{command}" for command in commands)]
    broker.client().execute_command("ACL", "SETUSER", target, *rules)
    broker.client().script_flush()
    message = delivery()
    with broker.relay(target, user=f"{target}:right") as relay:
        assert [relay(message), relay(message)] == [Outcome.sent()] * 2
    assert [each.id for each in broker.received(target, 1)] == [message.id]


@pytest.mark.parametrize("command", ["exists", "xadd", "set", "evalsha"])
def test_B5_redis_command_that_is_not_permitted(broker: Redis, command: str) -> None:
    """The message is certainly not in the stream, however often it is tried."""
    target = new_target()
    with broker.relay(target, user=user_without(broker, command)) as relay:
        for _ in range(3):
            one, behind, other = relay.batch([delivery("1"), delivery("2"), delivery("1", "bob")])
            assert one.verdict is Verdict.OFFLINE, one
            # The first one found out for all.
            assert checks.is_skipped(behind)
            assert checks.is_skipped(other)
    assert broker.received(target, 0) == []
    with broker.relay(target) as relay:
        message = delivery("1")
        assert [relay(message), relay(message)] == [Outcome.sent()] * 2
    assert [each.body for each in broker.received(target, 1)] == [b"1"]


def test_B5_redis_entry_that_could_neither_be_remembered_nor_deleted_is_not_added(broker: Redis) -> None:
    target = new_target()
    with broker.relay(target, user=user_without(broker, "set", "xdel")) as relay:
        for _ in range(3):
            outcome, behind = relay.batch([delivery("1"), delivery("2")])
            assert outcome.verdict is Verdict.OFFLINE, outcome
            assert checks.is_skipped(behind)
    assert broker.received(target, 0) == []


def test_B5_redis_user_who_may_only_set_is_told_so_for_each_attempt(broker: Redis) -> None:
    """An id is not remembered before its message is added: it would never be added."""
    target = new_target()
    message = delivery("1")
    with broker.relay(target, user=user_without(broker, "xadd", "xdel", "del")) as relay:
        for _ in range(3):
            outcome = relay(message)
            assert outcome.verdict is Verdict.OFFLINE, outcome
    with broker.relay(target) as relay:
        assert relay(message) == Outcome.sent()
    assert [each.body for each in broker.received(target, 1)] == [b"1"]


@pytest.mark.parametrize("may_delete", [True, False])
def test_B5_redis_id_that_cannot_be_remembered_after_all(
    broker: Redis, monkeypatch: pytest.MonkeyPatch, may_delete: bool
) -> None:
    """The entry is deleted again. If it cannot be deleted, the outcome must not say that it is not in the stream."""
    script, end = redis_stream._SCRIPT, "'EX', ARGV[1])"
    assert script.count(end) == 1
    monkeypatch.setattr(redis_stream, "_SCRIPT", script.replace(end, "'EX', 'never')"))
    target = new_target()
    with broker.relay(target, user=user_without(broker, *(() if may_delete else ("xdel",)))) as relay:
        outcome, behind = relay.batch([delivery("1"), delivery("2")])
    expected = (Verdict.RETRY, FailureKind.SERVER, may_delete)
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == expected, outcome
    assert checks.is_skipped(behind)
    assert [each.body for each in broker.received(target, 0 if may_delete else 1)] == ([] if may_delete else [b"1"])


def test_B5_redis_stream_that_is_not_permitted(broker: Redis) -> None:
    """Other streams in the same batch are permitted."""
    target = new_target()
    user = user_without(broker, keys=f"~{target}*")
    with broker.relay(lambda each: "other" if each.text == "bad" else target, user=user) as relay:
        outcomes = relay.batch(
            [delivery("1", "ana"), delivery("bad", "bob"), delivery("2", "bob"), delivery("3", "cem")]
        )
    assert [outcomes[0], outcomes[3]] == [Outcome.sent()] * 2
    assert (outcomes[1].verdict, outcomes[1].kind) == (Verdict.REJECT, FailureKind.UNAUTHORIZED), outcomes[1]
    assert checks.is_skipped(outcomes[2])
    assert [each.body for each in broker.received(target, 2)] == [b"1", b"3"]


def test_B5_redis_keys_of_ids_that_are_not_permitted(broker: Redis) -> None:
    target = new_target()
    with broker.relay(target, user=user_without(broker, keys=f"~{target}")) as relay:
        outcome = relay(delivery())
    assert outcome.verdict is Verdict.OFFLINE, outcome
    assert broker.received(target, 0) == []


def test_B5_redis_error_that_ends_the_script(broker: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages before the error are in the stream: the outcome must not say that they are not."""
    script = redis_stream._SCRIPT
    end = "number = number + 1"
    assert script.count(end) == 1
    monkeypatch.setattr(redis_stream, "_SCRIPT", script.replace(end, f"{end} if number == 1 then nothing() end"))
    target = new_target()
    with broker.relay(target) as relay:
        outcomes = relay.batch([delivery("1"), delivery("2", "bob"), delivery("3", "cem")])
    expected = [(Verdict.RETRY, FailureKind.SERVER, False)] * 3
    assert [(each.verdict, each.kind, each.not_sent) for each in outcomes] == expected, outcomes
    assert broker.received(target, 0) != []


def test_B5_redis_streams_whose_keys_of_ids_could_collide(broker: Redis) -> None:
    """The id "seen:x" of the stream t and the id "x" of the stream t:seen would have the same key."""
    target = new_target()
    for name in (f"{target}:seen", f"{target}:seen:", f"{target}:seen:more"):
        with pytest.raises(ValueError, match=":seen"):
            broker.relay(name)
    with broker.relay(lambda each: each.text) as relay:
        assert relay(delivery(target, id="seen:x")) == Outcome.sent()
        for name in (f"{target}:seen", f"{target}:seen:more", ""):
            outcome = relay(delivery(name, id="x"))
            assert outcome.verdict is Verdict.REJECT, outcome
            assert ":seen" in outcome.text or not name
        # None of these has a key of another one.
        for name, id in ((target, ":x"), (f"{target}:", "x"), (f"{target}:seenx", "x"), (f"{target}:se", "en:x")):
            before = broker.client().xlen(name)
            assert relay(delivery(name, id=id)) == Outcome.sent()
            assert broker.client().xlen(name) == before + 1


def test_B5_redis_remembers_ids_for_a_time(broker: Redis) -> None:
    target = new_target()
    message = delivery()
    with broker.relay(target, remember=3600) as relay:
        assert relay(message) == Outcome.sent()
    left = broker.client().ttl(f"{target}:seen:{message.id}")
    assert 3500 < left <= 3600


def test_B5_redis_batch_larger_than_an_argument(broker: Redis) -> None:
    """More than the server accepts in one argument, in several streams: each message arrives, in order."""
    targets = [new_target("u"), new_target("v")]
    deliveries = [delivery(f"{number}".ljust(400_000), f"c{number % 2}") for number in range(12)]
    with broker.relay(lambda each: targets[int(each.conversation[1])]) as relay:
        assert relay.batch(deliveries) == [Outcome.sent()] * 12
        assert relay.batch(deliveries) == [Outcome.sent()] * 12
    for place, target in enumerate(targets):
        bodies = [int(each.body) for each in broker.received(target, 6)]
        assert bodies == list(range(place, 12, 2))


def test_B5_redis_message_of_the_largest_size(broker: Redis) -> None:
    """The limit counts the body and the headers together."""
    target = new_target()
    with broker.relay(target) as relay:
        assert relay(delivery(b"x" * ((2 << 20) - 200))) == Outcome.sent()
        assert relay(delivery(b"x" * (2 << 20))).verdict is Verdict.REJECT


def test_B5_redis_many_headers(broker: Redis) -> None:
    target = new_target()
    most = {f"h{number}": "" for number in range(3497)}
    with broker.relay(target) as relay:
        outcomes = relay.batch(
            [
                delivery("most", "ana", metadata=most),
                delivery("more", "bob", metadata={**most, "one": "more"}),
                delivery("none", "bob"),
                delivery("other", "cem"),
            ]
        )
    assert outcomes[0] == outcomes[3] == Outcome.sent()
    assert outcomes[1].verdict is Verdict.REJECT
    assert "headers" in outcomes[1].text
    assert checks.is_skipped(outcomes[2])
    first, other = broker.received(target, 2)
    assert (first.body, other.body) == (b"most", b"other")
    assert most.items() <= first.headers.items()


def test_B5_redis_length_of_the_stream(broker: Redis) -> None:
    target = new_target()
    with broker.relay(target, max_length=100) as relay:
        assert relay.batch([delivery(conversation=f"{number}") for number in range(1000)]) == [Outcome.sent()] * 1000
    # Redis deletes whole blocks of 100 entries.
    assert 100 <= broker.client().xlen(target) <= 200


def test_B5_redis_arguments(broker: Redis) -> None:
    for options in ({"remember": 0}, {"timeout": 0}, {"max_length": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            broker.relay("t", **options)
    with pytest.raises(ValueError, match="stream"):
        broker.relay("")


def test_B5_B9_redis_proof(broker: Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = proof(broker, tmp_path)
    with capsys.disabled():
        print(f"\n{report}")


def test_F11_B9_redis_proof_with_two_batches_in_flight(
    broker: Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = proof(broker, tmp_path, Size(1500, 2), batches=2)
    with capsys.disabled():
        print(f"\n{report}")


def test_B5_B9_redis_proof_one_by_one(broker: Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = proof(broker, tmp_path, Size(600, 2), batch=False)
    with capsys.disabled():
        print(f"\n{report}")

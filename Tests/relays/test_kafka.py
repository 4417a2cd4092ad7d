"""B7: Kafka, by the mock cluster of librdkafka."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import checks
import pytest
from brokers import KafkaMock
from checks import delivery, new_target
from msgqueue import Draft, FailureKind, MessageQueue, Outcome, RetryPolicy, Status, Verdict, relays
from proof import proof
from servers import Client, started, wait_until

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaMock]:
    broker = started(KafkaMock, tmp_path_factory.mktemp("kafka"))
    assert isinstance(broker, KafkaMock)
    yield broker
    broker.end()


def test_B7_B8_kafka_id_conversation_metadata_and_trace_context_travel(broker: KafkaMock) -> None:
    checks.headers_travel(broker)


def test_B7_kafka_consumers_see_the_id_of_a_message_that_is_sent_twice(broker: KafkaMock) -> None:
    checks.same_id_twice(broker)


def test_B7_kafka_keeps_the_order_of_a_conversation_in_a_batch(broker: KafkaMock) -> None:
    checks.order_in_a_batch(broker)


def test_B7_kafka_topic_by_a_function(broker: KafkaMock) -> None:
    checks.target_by_function(broker)


def test_B7_kafka_body_over_the_limit_is_rejected(broker: KafkaMock) -> None:
    checks.too_large(broker, 1_000_000)


def test_B7_kafka_nobody_listens(broker: KafkaMock) -> None:
    checks.nobody_listens(broker)


def test_B7_kafka_that_is_away_is_one_line_in_the_log(broker: KafkaMock) -> None:
    checks.logs_one_line(broker)


def test_B7_kafka_server_without_tls(broker: KafkaMock) -> None:
    checks.without_tls(broker)


def test_B7_kafka_that_dies_and_comes_back_is_one_line_for_each_change(broker: KafkaMock) -> None:
    checks.logs_one_line_for_each_restart(broker)


def test_B7_kafka_name_not_found(broker: KafkaMock) -> None:
    checks.name_not_found(broker)


def test_B7_kafka_nonsense(broker: KafkaMock) -> None:
    checks.nonsense(broker)


def test_B7_kafka_silence(broker: KafkaMock) -> None:
    checks.silence(broker)


def test_B7_kafka_connection_that_ends_leaves_nothing(broker: KafkaMock) -> None:
    checks.nothing_is_left(broker)


def test_B7_kafka_silence_after_sending(broker: KafkaMock) -> None:
    """The answer comes too late: perhaps arrived; sent again under the same id."""
    target, message = new_target(), delivery("perhaps")
    with broker.relay(target, timeout=1.5) as relay:
        assert relay(delivery("before")) == Outcome.sent()
        broker.say("delay 4000")
        try:
            outcome = relay(message)
        finally:
            broker.say("delay 0")
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, False), outcome
    with broker.relay(target) as relay:
        assert relay(message) == Outcome.sent()
        assert relay(delivery("after")) == Outcome.sent()
    bodies = [each.body for each in broker.received(target, 3)]
    assert list(dict.fromkeys(bodies)) == [b"before", b"perhaps", b"after"]
    assert len(bodies) in (3, 4)


def test_B7_kafka_connection_that_another_call_closes(broker: KafkaMock) -> None:
    checks.closed_by_another_call(broker)
    with broker.relay(new_target()) as relay:
        connection = relay._connected(time.monotonic() + 10)
        broker.stop()
        try:
            threading.Timer(0.5, relay._lost, [connection]).start()
            answer = relay._send(connection, [relay._form(connection, delivery())], 10)[0]
            outcome = relay._judged(answer, connection, has_company=False).outcome
        finally:
            broker.start()
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, False), outcome


def test_B7_kafka_errors_of_an_open_connection_take_no_memory(
    broker: KafkaMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Problem:
        def __init__(self, number: int) -> None:
            self.text = f"{number}" * 1024

        def name(self) -> str:
            return "_TRANSPORT"

        def fatal(self) -> bool:
            return False

    with broker.relay(new_target()) as relay:
        make, reports = relay._client.Producer, []

        def noted(options: dict[str, Client], **more: Client) -> Client:
            reports.append(options["error_cb"])
            return make(options, **more)

        monkeypatch.setattr(relay._client, "Producer", noted)
        assert relay(delivery("before")) == Outcome.sent()
        tracemalloc.start()
        try:
            for number in range(2000):
                reports[0](Problem(number))
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert left < 1 << 20, left
        assert relay(delivery("after")) == Outcome.sent()


def test_B7_kafka_error_that_the_client_repeats_is_one_message(broker: KafkaMock) -> None:
    """NOT_LEADER_FOR_PARTITION: librdkafka asks for the leader and sends again; the brokers recognise it."""
    target = new_target()
    with broker.relay(target) as relay:
        assert relay(delivery("1")) == Outcome.sent()
        broker.say("fail 6 3")
        assert relay(delivery("2")) == Outcome.sent()
    assert [each.body for each in broker.received(target, 2)] == [b"1", b"2"]


@pytest.mark.parametrize("code", [45, 47, 49, 90])
def test_B7_kafka_producer_that_the_brokers_do_not_accept_any_more_is_replaced(
    broker: KafkaMock, tmp_path: Path, code: int
) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
    with broker.relay(new_target()) as relay:
        assert relay(delivery("before")) == Outcome.sent()
        never = RetryPolicy(ladder=[])
        for number, how in enumerate(({"transport": relay}, {"batch_transport": relay.batch})):
            broker.say(f"fail {code} 1")
            with MessageQueue(tmp_path / f"{number}.db", retry=never, **how) as queue:
                ids = queue.enqueue_batch([Draft(f"{each}", conversation=f"{each}") for each in range(3)])
                wait_until(lambda: queue.counts().queued + queue.counts().sending == 0, "the messages")
                assert {queue.get(each).status for each in ids} == {Status.SENT}
                assert {queue.get(each).attempts for each in ids} == {1}
        broker.say(f"fail {code} 3")
        outcome = relay(delivery("after"))
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NETWORK, False), outcome


def test_B7_kafka_certificate_that_is_not_trusted(broker: KafkaMock, tmp_path: Path) -> None:
    checks.unverified_tls(broker, tmp_path)


def test_B7_kafka_one_topic_that_is_not_permitted(broker: KafkaMock) -> None:
    """TOPIC_AUTHORIZATION_FAILED. The mock knows no passwords."""
    target = new_target()
    with broker.relay(lambda _: target) as relay:
        assert relay(delivery()) == Outcome.sent()
        broker.say("fail 29 1")
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.UNAUTHORIZED), outcome


def test_B7_kafka_message_too_large_for_the_broker(broker: KafkaMock) -> None:
    """MSG_SIZE_TOO_LARGE of the broker, whose limit is below that of the client."""
    with broker.relay(new_target()) as relay:
        assert relay(delivery()) == Outcome.sent()
        broker.say("fail 10 1")
        assert relay(delivery()).verdict is Verdict.REJECT


def test_B7_kafka_batch_of_records_that_is_too_large_is_sent_one_by_one(broker: KafkaMock) -> None:
    """The broker refuses the records of a request together, although none of the messages is too large."""
    target = new_target()
    with broker.relay(target) as relay:
        assert relay(delivery("before")) == Outcome.sent()
        broker.say("fail 10 1")
        outcomes = relay.batch([delivery(f"{number}", f"c{number}") for number in range(300)])
    assert outcomes == [Outcome.sent()] * 300
    assert len(broker.received(target, 301)) == 301


def test_B7_kafka_away_and_back(broker: KafkaMock, tmp_path: Path) -> None:
    checks.away_and_back(broker, tmp_path)


def test_B7_kafka_topics(broker: KafkaMock) -> None:
    for topic in ("a*", "#", "", "a\0", "a b", "..", "x" * 250):
        with pytest.raises(ValueError, match="topic"):
            broker.relay(topic)
        with broker.relay(lambda each: each.text) as relay:
            assert relay(delivery(topic)).verdict is Verdict.REJECT


def test_B7_kafka_arguments() -> None:
    for servers in ("", "h:abc", "a,,b", "http://h/", "h:1:2", None):
        with pytest.raises(ValueError, match="servers"):
            relays.Kafka(servers, "t")  # type: ignore[arg-type]
    for own in (
        "enable.idempotence",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "bootstrap.servers",
        "error_cb",
        "delivery.report.only.error",
        "topic.metadata.propagation.max.ms",
    ):
        with pytest.raises(ValueError, match=own):
            relays.Kafka("h:1", "t", options={own: "1"})
    for options in ({"no.such.option": 1}, {"security.protocol": "none"}, {"acks": 0}, {"linger.ms": "x"}):
        with pytest.raises(ValueError, match="options"):
            relays.Kafka("h:1", "t", options=options)
    for servers in ("h", "h:1", "h:1, [::1]:2", "PLAINTEXT://h:1"):
        relays.Kafka(servers, "t").close()


def test_B7_B9_kafka_proof(broker: KafkaMock, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = proof(broker, tmp_path)
    with capsys.disabled():
        print(f"\n{report}")

"""B3: MQTT 5."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import checks
import pytest
from brokers import Mosquitto
from checks import delivery, new_target
from msgqueue import Draft, FailureKind, InvalidError, MessageQueue, Outcome, RetryPolicy, Status, Verdict, relays
from proof import proof
from servers import Proxy, started, wait_until

pytest.importorskip("paho.mqtt.client")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = started(Mosquitto, tmp_path_factory.mktemp("mqtt"))
    assert isinstance(broker, Mosquitto)
    yield broker
    broker.kill()


def test_B3_B8_mqtt_id_conversation_metadata_and_trace_context_travel(broker: Mosquitto) -> None:
    checks.headers_travel(broker)


def test_B3_mqtt_consumers_see_the_id_of_a_message_that_is_sent_twice(broker: Mosquitto) -> None:
    checks.same_id_twice(broker)


def test_B3_mqtt_keeps_the_order_of_a_conversation_in_a_batch(broker: Mosquitto) -> None:
    checks.order_in_a_batch(broker)


def test_B3_mqtt_topic_by_a_function(broker: Mosquitto) -> None:
    checks.target_by_function(broker)


def test_B3_mqtt_body_over_the_limit_is_rejected(broker: Mosquitto) -> None:
    checks.too_large(broker, 65536)


def test_B3_mqtt_nobody_listens(broker: Mosquitto) -> None:
    checks.nobody_listens(broker)


def test_B3_mqtt_that_is_away_is_one_line_in_the_log(broker: Mosquitto) -> None:
    checks.logs_one_line(broker)


def test_B3_mqtt_server_without_tls(broker: Mosquitto) -> None:
    checks.without_tls(broker)


def test_B3_mqtt_that_dies_and_comes_back_is_one_line_for_each_change(broker: Mosquitto) -> None:
    checks.logs_one_line_for_each_restart(broker)


def test_B3_mqtt_name_not_found(broker: Mosquitto) -> None:
    checks.name_not_found(broker)


def test_B3_mqtt_nonsense(broker: Mosquitto) -> None:
    checks.nonsense(broker)


def test_B3_mqtt_silence(broker: Mosquitto) -> None:
    checks.silence(broker)


def test_B3_mqtt_connection_that_ends_leaves_nothing(broker: Mosquitto) -> None:
    checks.nothing_is_left(broker)


def test_B3_mqtt_silence_while_connecting_is_offline(broker: Mosquitto, tmp_path: Path) -> None:
    checks.silence_is_offline(broker, tmp_path)


def test_B3_mqtt_silence_that_is_noticed_late_is_silence(broker: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine the client ends the silent connection before the relay sees that time is up."""

    class Late(threading.Condition):
        def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> object:  # type: ignore[override]
            super().wait_for(predicate, timeout)
            return super().wait_for(predicate, 10)

    monkeypatch.setattr("threading.Condition", Late)
    checks.silence(broker)


def test_B3_mqtt_silence_after_sending(broker: Mosquitto) -> None:
    checks.silence_after_sending(broker)


def test_B3_mqtt_cut_after_sending(broker: Mosquitto) -> None:
    checks.cut_after_sending(broker)


def test_B3_mqtt_connection_that_another_call_closes(broker: Mosquitto) -> None:
    checks.closed_by_another_call(broker)


def test_B3_mqtt_certificate_that_is_not_trusted(broker: Mosquitto, tmp_path: Path) -> None:
    checks.unverified_tls(broker, tmp_path)


@pytest.mark.parametrize("retries", [2, 0])
@pytest.mark.parametrize("batch", [True, False])
def test_B3_mqtt_only_the_message_that_ends_the_connection_fails(
    broker: Mosquitto, tmp_path: Path, batch: bool, retries: int
) -> None:
    checks.only_the_culprit_fails(broker, tmp_path, batch=batch, retries=retries)


def test_B3_mqtt_only_the_message_that_gets_no_answer_fails(broker: Mosquitto, tmp_path: Path) -> None:
    checks.only_the_culprit_fails(broker, tmp_path, retries=0, silent=True)


def test_B3_mqtt_a_call_that_another_one_joined_is_not_the_reason(broker: Mosquitto) -> None:
    checks.ends_for_a_call_that_was_joined(broker)


def test_B3_mqtt_away_and_back(broker: Mosquitto, tmp_path: Path) -> None:
    checks.away_and_back(broker, tmp_path)


def test_B3_mqtt_topics(broker: Mosquitto) -> None:
    for topic in ("a/+", "#", "", "a\0", "a\n", "$SYS/a"):
        with pytest.raises(ValueError, match="topic"):
            broker.relay(topic)
        with broker.relay(lambda each: each.text) as relay:
            assert relay(delivery(topic)).verdict is Verdict.REJECT


def test_B3_mqtt_urls() -> None:
    for url in ("mqtt://h:abc", "mqtt://", "http://h", "h", "mqtt://[h", "mqtt://u:secret@h:99999"):
        with pytest.raises(InvalidError, match="URL") as raised:
            relays.Mqtt(url, "t")
        assert "secret" not in str(raised.value)


def test_B3_mqtt_headers_that_cannot_be_sent(broker: Mosquitto) -> None:
    target = new_target()
    broker.prepare(target)
    with broker.relay(target) as relay:
        for metadata in ({"a": "b\nc: d"}, {"a": "\0"}, {"a\r": "c"}, {"a": "x" * 70000}):
            outcome = relay(delivery(metadata=metadata))
            assert outcome.verdict is Verdict.REJECT, metadata
        assert relay(delivery("good")) == Outcome.sent()
    assert [each.body for each in broker.received(target, 1)] == [b"good"]


def test_B3_mqtt_headers_of_every_length(broker: Mosquitto) -> None:
    """MQTT writes the length of the properties in one to four bytes."""
    target = new_target()
    broker.prepare(target)
    sizes = (0, 1, 126, 127, 128, 200, 16_200, 16_383, 16_384, 60_000)
    with broker.relay(target) as relay:
        outcomes = relay.batch([delivery(conversation="", metadata={"a": "x" * size}) for size in sizes])
    assert outcomes == [Outcome.sent()] * len(sizes)
    assert [len(each.headers["a"]) for each in broker.received(target, len(sizes))] == list(sizes)


class Narrow(Mosquitto):
    """Permits three unacknowledged messages."""

    more = "max_inflight_messages 3"


def test_B3_mqtt_has_no_more_in_flight_than_the_broker_permits(tmp_path: Path) -> None:
    narrow = started(Narrow, tmp_path)
    try:
        target = new_target()
        narrow.prepare(target)
        with narrow.relay(target) as relay:
            deliveries = [delivery(f"{number}", f"c{number}") for number in range(50)]
            for _ in range(2):
                assert relay.batch(deliveries) == [Outcome.sent()] * 50
                assert relay._connection.client.max_inflight_messages == 3
        assert len(narrow.received(target, 100)) == 100
    finally:
        narrow.kill()


class Small(Mosquitto):
    """Answers a message over its limit with an error, and ends the connection."""

    more = "message_size_limit 1000"


def test_B3_mqtt_message_over_the_limit_of_the_server_fails_alone(tmp_path: Path) -> None:
    small = started(Small, tmp_path / "server")
    try:
        target = new_target()
        small.prepare(target)
        with small.relay(target) as relay:
            how = {"batch_transport": relay.batch, "retry": RetryPolicy(ladder=[0, 0])}
            with MessageQueue(tmp_path / "small.db", **how) as queue:
                drafts = [Draft("x" * (5000 if number == 10 else 10), conversation=f"{number}") for number in range(20)]
                ids = queue.enqueue_batch(drafts)
                wait_until(lambda: queue.counts().queued + queue.counts().sending == 0, "the messages")
                messages = [queue.get(each) for each in ids]
        assert [number for number, each in enumerate(messages) if each.status is not Status.SENT] == [10]
        assert {each.retries_used for number, each in enumerate(messages) if number != 10} == {0}
        received = [each.id for each in small.received(target, 19)]
        assert set(received) == set(ids) - {ids[10]}
    finally:
        small.kill()


class Restricted(Mosquitto):
    """With a list of rights. (In Debian's version such a server drops messages for sessions that it restored.)"""

    def command(self) -> list[str]:
        rights = self.folder / "rights"
        rights.write_text("topic readwrite #\ntopic deny denied\n")
        self.more = f"acl_file {rights}"
        return super().command()


def test_B3_mqtt_topic_that_is_not_permitted(broker: Mosquitto, tmp_path: Path) -> None:
    restricted = started(Restricted, tmp_path)
    try:
        with restricted.relay(lambda _: "denied") as relay:
            outcome = relay(delivery())
    finally:
        restricted.kill()
    assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.UNAUTHORIZED), outcome


def test_B3_mqtt_no_subscriber(broker: Mosquitto) -> None:
    target = new_target()
    with broker.relay(target) as relay:
        assert relay(delivery()) == Outcome.sent()
    with broker.relay(lambda _: target, require_subscriber=True) as relay:
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NOT_FOUND, True)
        broker.prepare(target)
        assert relay(delivery("2")) == Outcome.sent()
    assert [each.body for each in broker.received(target, 1)] == [b"2"]


def test_B3_mqtt_client_does_not_send_again(broker: Mosquitto) -> None:
    """After a lost connection paho would send unacknowledged messages again by itself."""
    target = new_target()
    broker.prepare(target)
    with Proxy(broker.port) as proxy, broker.relay(target, port=proxy.port, timeout=1) as relay:
        assert relay(delivery("first")) == Outcome.sent()
        proxy.is_silent_both = True
        assert relay(delivery("before")).verdict is not Verdict.SENT
        proxy.is_silent_both = False
        proxy.cut()
        assert relay(delivery("after")) == Outcome.sent()
    assert [each.body for each in broker.received(target, 2)] == [b"first", b"after"]


def test_B3_B9_mqtt_proof(broker: Mosquitto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = proof(broker, tmp_path)
    with capsys.disabled():
        print(f"\n{report}")

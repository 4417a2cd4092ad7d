"""B4: NATS JetStream."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import checks
import pytest
from brokers import NatsServer
from checks import delivery, new_target
from msgqueue import FailureKind, InvalidError, Outcome, Verdict, relays
from msgqueue.relays import nats
from proof import proof
from servers import Client, Proxy, started, wait_until

pytest.importorskip("nats")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    broker = started(NatsServer, tmp_path_factory.mktemp("nats"))
    assert isinstance(broker, NatsServer)
    yield broker
    broker.kill()


def test_B4_B8_nats_id_conversation_metadata_and_trace_context_travel(broker: NatsServer) -> None:
    checks.headers_travel(broker)


def test_B4_nats_adds_a_message_once(broker: NatsServer) -> None:
    checks.same_id_twice(broker)


def test_B4_nats_keeps_the_order_of_a_conversation_in_a_batch(broker: NatsServer) -> None:
    checks.order_in_a_batch(broker)


def test_B4_nats_subject_by_a_function(broker: NatsServer) -> None:
    checks.target_by_function(broker)


def test_B4_nats_body_over_the_limit_is_rejected(broker: NatsServer) -> None:
    checks.too_large(broker, 64 * 1024)


def test_B4_nats_nobody_listens(broker: NatsServer) -> None:
    checks.nobody_listens(broker)


def test_B4_nats_that_is_away_is_one_line_in_the_log(broker: NatsServer) -> None:
    checks.logs_one_line(broker)


def test_B4_nats_that_dies_and_comes_back_is_one_line_for_each_change(broker: NatsServer) -> None:
    checks.logs_one_line_for_each_restart(broker)


def test_B4_nats_name_not_found(broker: NatsServer) -> None:
    checks.name_not_found(broker)


def test_B4_nats_nonsense(broker: NatsServer) -> None:
    checks.nonsense(broker)


def test_B4_nats_silence(broker: NatsServer) -> None:
    checks.silence(broker)


def test_B4_nats_connection_that_ends_leaves_nothing(broker: NatsServer) -> None:
    checks.nothing_is_left(broker)


def test_B4_nats_silence_while_connecting_is_offline(broker: NatsServer, tmp_path: Path) -> None:
    checks.silence_is_offline(broker, tmp_path)


def test_B4_nats_silence_after_sending(broker: NatsServer) -> None:
    checks.silence_after_sending(broker)


def test_B4_nats_cut_after_sending(broker: NatsServer) -> None:
    checks.cut_after_sending(broker)


def test_B4_nats_connection_that_another_call_closes(broker: NatsServer) -> None:
    checks.closed_by_another_call(broker)


def test_B4_nats_certificate_that_is_not_trusted(broker: NatsServer, tmp_path: Path) -> None:
    checks.unverified_tls(broker, tmp_path, tls_handshake_first=True)


@pytest.mark.parametrize("retries", [2, 0])
@pytest.mark.parametrize("batch", [True, False])
def test_B4_nats_only_the_message_that_ends_the_connection_fails(
    broker: NatsServer, tmp_path: Path, batch: bool, retries: int
) -> None:
    checks.only_the_culprit_fails(broker, tmp_path, batch=batch, retries=retries)


def test_B4_nats_only_the_message_that_gets_no_answer_fails(broker: NatsServer, tmp_path: Path) -> None:
    checks.only_the_culprit_fails(broker, tmp_path, retries=0, silent=True)


def test_B4_nats_a_call_that_another_one_joined_is_not_the_reason(broker: NatsServer) -> None:
    checks.ends_for_a_call_that_was_joined(broker)


def test_B4_nats_away_and_back(broker: NatsServer, tmp_path: Path) -> None:
    checks.away_and_back(broker, tmp_path)


def test_B4_nats_subjects(broker: NatsServer) -> None:
    for subject in ("a.*", "a.>", "a b", ".a", "a..b", "a.", "", "a\nb"):
        with pytest.raises(ValueError, match="subject"):
            broker.relay(subject)
        with broker.relay(lambda each: each.text) as relay:
            assert relay(delivery(subject)).verdict is Verdict.REJECT


def test_B4_nats_urls() -> None:
    for url in ("http://h", "nats://h:abc", "nats://", "", "nats://u:secret@[h"):
        with pytest.raises(InvalidError, match="URL") as raised:
            relays.Nats(url, "t")
        assert "secret" not in str(raised.value)
    for url in ("h", "h:1", "nats://h", "tls://u:p@h:1", "wss://h"):
        relays.Nats(url, "t").close()


def test_B4_nats_headers_that_cannot_be_sent(broker: NatsServer) -> None:
    target = new_target()
    broker.prepare(target)
    with broker.relay(target) as relay:
        for metadata in ({"a": "b\nc: d"}, {"a": "\r"}, {"a b": "c"}, {"a:": "c"}, {"": "c"}, {"Nats-Rollup": "all"}):
            outcome = relay(delivery(metadata=metadata))
            assert outcome.verdict is Verdict.REJECT, metadata
        assert relay(delivery("good")) == Outcome.sent()
    assert [each.body for each in broker.received(target, 1)] == [b"good"]


def test_B4_nats_message_over_the_limit_of_the_stream(broker: NatsServer) -> None:
    target = new_target()
    broker.run(lambda stream: stream.add_stream(name=target, subjects=[target], max_msg_size=2000))
    with broker.relay(target) as relay:
        assert relay(delivery("x" * 3000)).verdict is Verdict.REJECT
        assert relay(delivery("x" * 1000)) == Outcome.sent()


def test_B4_nats_error_in_the_middle_of_a_batch(broker: NatsServer) -> None:
    """The rest of the conversation is not published; other conversations are, in order."""
    target = new_target()
    broker.run(lambda stream: stream.add_stream(name=target, subjects=[target], max_msg_size=2000))
    bodies = [("a1", "ana"), ("x" * 3000, "ana"), ("a3", "ana"), ("a4", "ana"), ("b1", "bob"), ("b2", "bob")]
    with broker.relay(target) as relay:
        outcomes = relay.batch([delivery(body, conversation) for body, conversation in bodies])
    assert [outcomes[0], *outcomes[4:]] == [Outcome.sent()] * 3
    assert outcomes[1].verdict is Verdict.REJECT
    assert all(checks.is_skipped(each) for each in outcomes[2:4])
    received = [each.body for each in broker.received(target, 3)]
    assert sorted(received) == [b"a1", b"b1", b"b2"]
    assert received.index(b"b1") < received.index(b"b2")


def test_B4_nats_message_behind_one_without_an_answer_is_not_published(broker: NatsServer) -> None:
    for is_cut in (False, True):
        target = new_target()
        broker.prepare(target)
        with Proxy(broker.port) as proxy, broker.relay(target, port=proxy.port, timeout=1.5) as relay:
            assert relay(delivery("0")) == Outcome.sent()
            proxy.is_silent = True
            if is_cut:
                threading.Timer(0.5, proxy.cut).start()
            one, two, three = relay.batch([delivery("1"), delivery("2"), delivery("3")])
        kind = FailureKind.NETWORK if is_cut else FailureKind.TIMEOUT
        assert (one.verdict, one.kind, one.not_sent) == (Verdict.RETRY, kind, False), one
        assert checks.is_skipped(two)
        assert checks.is_skipped(three)
        assert {each.body for each in broker.received(target, 1)} <= {b"0", b"1"}


def test_B4_nats_no_stream_for_one_subject_is_retried(broker: NatsServer) -> None:
    target = new_target()
    with broker.relay(lambda _: target) as relay:
        outcome = relay(delivery())
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.NOT_FOUND, True)
        broker.prepare(target)
        assert relay(delivery()) == Outcome.sent()


def test_B4_nats_subject_that_is_not_permitted(broker: NatsServer) -> None:
    with broker.relay(lambda _: "denied", timeout=1) as relay:
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.kind) == (Verdict.REJECT, FailureKind.UNAUTHORIZED), outcome


def test_B4_nats_refusal_in_one_batch_is_charged_to_its_message(broker: NatsServer) -> None:
    """An unanswered message of another subject is not refused."""
    target = new_target()
    broker.run(lambda stream: stream.add_stream(name=target, subjects=[target], no_ack=True))
    with broker.relay(lambda each: "denied" if each.text == "bad" else target, timeout=1.5) as relay:
        bad, behind, good = relay.batch([delivery("bad", "x"), delivery("behind", "x"), delivery("good", "y")])
    assert (bad.verdict, bad.kind) == (Verdict.REJECT, FailureKind.UNAUTHORIZED), bad
    assert checks.is_skipped(behind)
    assert (good.verdict, good.kind, good.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, False), good


def test_B4_nats_refusal_in_one_of_two_batches_is_charged_to_its_message(broker: NatsServer) -> None:
    """A second call that ends while the first one waits does not take the refusal away."""
    target = new_target()
    broker.prepare(target)
    outcomes: list[Outcome] = []
    with broker.relay(lambda each: "denied" if each.text == "bad" else target, timeout=3) as relay:
        assert relay(delivery("before")) == Outcome.sent()
        first = threading.Thread(target=lambda: outcomes.append(relay(delivery("bad", "x"))))
        first.start()
        for number in range(10):
            assert relay(delivery(f"good {number}", "y")) == Outcome.sent()
            time.sleep(0.02)
        first.join()
    assert [(each.verdict, each.kind) for each in outcomes] == [(Verdict.REJECT, FailureKind.UNAUTHORIZED)], outcomes


def test_B4_nats_refusal_of_a_subject_that_differs_only_in_case(broker: NatsServer) -> None:
    """The client makes lower case of the subject in the refusal."""
    broker.run(lambda stream: stream.add_stream(name="Denied", subjects=["Denied"], duplicate_window=3600))
    with broker.relay(lambda each: each.text, timeout=3) as relay:
        outcomes = relay.batch([delivery(text, f"{place}") for place, text in enumerate(("Denied", "denied") * 20)])
    assert outcomes[::2] == [Outcome.sent()] * 20
    assert {(each.verdict, each.kind) for each in outcomes[1::2]} == {(Verdict.REJECT, FailureKind.UNAUTHORIZED)}


def test_B4_nats_refusal_without_a_subject_is_charged_to_no_message(broker: NatsServer) -> None:
    with Proxy(broker.port) as proxy, broker.relay("t", port=proxy.port, timeout=1) as relay:
        relay._connected(time.monotonic() + 5)
        proxy.is_silent = True
        connection = relay._connection
        text = "nats: permissions violation for publish"
        threading.Timer(0.3, lambda: relay._start(partial(connection.client._error_cb, RuntimeError(text)))).start()
        outcome = relay(delivery())
    assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, False), outcome
    assert text in outcome.text


def test_B4_nats_refusals_of_no_message_take_no_memory(broker: NatsServer) -> None:
    """Neither those whose subject cannot be read, nor those of subjects that the relay does not publish on."""
    target = new_target()
    broker.prepare(target)
    kilobyte = "x" * 1024

    async def refuse(report: Client, texts: list[str]) -> None:
        for text in texts:
            await report(RuntimeError(f"nats: permissions violation for publish{text}"))

    with broker.relay(target) as relay:
        assert relay(delivery("before")) == Outcome.sent()
        report = relay._connection.client._error_cb
        tracemalloc.start()
        try:
            for number in range(5000):
                texts = [f" {number} {kilobyte}", f' to "{number}.{kilobyte}"']
                relay._run(partial(refuse, report, texts), 5)
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert left < 1 << 20, left
        assert relay(delivery("after")) == Outcome.sent()


def test_B4_nats_refusal_of_no_message_is_not_charged_to_a_later_one() -> None:
    """The server refuses a message at once, and says so before it answers later ones of the same subject."""

    async def answers() -> list[BaseException | None]:
        connection = nats._Connection("t")
        connection.refused('nats: permissions violation for publish to "t"')
        batch = nats._Batch([nats._Message(f"{number}", "t", b"", {}) for number in range(3)])
        inboxes = [connection.wait(batch, place) for place in batch.firsts]
        for place, inbox in enumerate(inboxes):
            assert connection.answered(inbox) == (batch, place)
            batch.answer(place, None)
        assert batch.done.done()
        return batch.answers

    assert asyncio.run(answers()) == [None] * 3


def test_B4_nats_ids_and_conversations_that_the_client_would_change_are_rejected(broker: NatsServer) -> None:
    """Without their white space two ids are one, and JetStream keeps only one of the messages."""
    target = new_target()
    broker.prepare(target)
    with broker.relay(target) as relay:
        assert relay(delivery(id="x y")) == Outcome.sent()
        for changed in ("x y ", "\u00a0x y", "\tx y", "x y\u2028", " "):
            for outcome in (relay(delivery(id=changed)), relay(delivery(conversation=changed))):
                assert outcome.verdict is Verdict.REJECT, (changed, outcome)
                assert "white space" in outcome.text
    assert [each.id for each in broker.received(target, 1)] == ["x y"]


def test_B4_nats_warns_of_a_duplicate_window_that_is_too_short(
    broker: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    short, long = new_target(), new_target()
    broker.run(lambda stream: stream.add_stream(name=short, subjects=[short]))
    broker.prepare(long)
    with caplog.at_level("WARNING", "msgqueue"), broker.relay(lambda each: each.text, longest_gap=3600) as relay:
        assert [relay(delivery(target)) for target in (short, long, short)] == [Outcome.sent()] * 3
        wait_until(lambda: caplog.records, "the warning")
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 1
    assert short in texts[0]
    assert "120 s" in texts[0]
    assert "duplicate_window" in texts[0]


def test_B4_nats_server_without_tls_is_refused(broker: NatsServer) -> None:
    with broker.relay("t", tls=True) as relay:
        outcome = relay(delivery())
    assert outcome.verdict is Verdict.OFFLINE, outcome
    assert "TLS" in outcome.text


def test_F11_nats_usual_answers_are_not_read_as_json(broker: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    target = new_target()
    broker.prepare(target)
    calls: list[bytes] = []

    def counted(data: bytes) -> Client:
        calls.append(data)
        return json.loads(data)

    monkeypatch.setattr(nats, "json", SimpleNamespace(loads=counted))
    messages = [delivery(str(number), conversation=str(number)) for number in range(50)]
    with broker.relay(target, longest_gap=0) as relay:
        for _ in range(2):
            # The second time each is a duplicate.
            assert {each.verdict for each in relay.batch(messages)} == {Verdict.SENT}
    assert calls == []


def understood(relay: Client, answer: bytes) -> Client:
    return relay._answer(SimpleNamespace(), SimpleNamespace(headers=None, data=answer))


@pytest.mark.parametrize(
    ("answer", "is_stored"),
    [
        (b'{"stream":"S", "seq":1}', True),
        (b'{"stream":"S","seq":1,"duplicate": true}', True),
        (b'{"stream":"S", "seq":1, "domain":"hub"}', True),
        (b'{"type":"x","stream":"S"}', True),
        ('{"stream":"\N{SNOWMAN}", "seq":1}'.encode(), True),
        (b'{"error":{"code":503,"err_code":10077,"description":"full"},"stream":"S","seq":0}', False),
        (b'{"stream":"S", "seq":1}{}', False),
        (b'{"stream":"S", "seq":1', False),
        (b'{"stream":"S", "seq":1}\n', True),
        (b'{"seq":1}', False),
        (b"", False),
    ],
)
def test_F11_B4_nats_every_form_of_an_answer_is_understood(answer: bytes, is_stored: bool) -> None:
    with relays.Nats("nats://127.0.0.1:9", "target") as relay:
        problem = understood(relay, answer)
        assert (problem is None) == is_stored
        assert relay._known == ({"\N{SNOWMAN}" if b"\xe2" in answer else "S"} if is_stored else set())


def test_B4_B9_nats_proof(broker: NatsServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = proof(broker, tmp_path)
    with capsys.disabled():
        print(f"\n{report}")

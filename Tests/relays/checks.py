"""What every relay must do. The tests of each broker call these checks."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest
from msgqueue import (
    Connectivity,
    Delivery,
    Draft,
    FailureKind,
    MessageQueue,
    Outcome,
    PreparationError,
    RetryPolicy,
    Status,
    Verdict,
)
from msgqueue.relays.loop import LoopRelay
from servers import Broker, Client, Proxy, free_port, wait_until

HERE = Path(__file__).resolve().parent
TRACE = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
}


def delivery(
    body: bytes | str = "hello",
    conversation: str = "ana",
    id: str | None = None,
    metadata: dict[str, str] | None = None,
    timeout: float = 30.0,
) -> Delivery:
    data = body.encode() if isinstance(body, str) else body
    now = datetime.now(timezone.utc)
    return Delivery(id or str(uuid.uuid4()), conversation, data, metadata or {}, 1, 1, now, timeout)


def new_target(name: str = "t") -> str:
    return f"{name}{uuid.uuid4().hex[:12]}"


def is_skipped(outcome: Outcome) -> bool:
    return outcome.verdict is Verdict.SKIPPED


# ---------------------------------------------------------------- what is sent


def headers_travel(broker: Broker) -> None:
    target = new_target()
    broker.prepare(target)
    with broker.relay(target) as relay:
        first = delivery("héllo\0".encode(), "ana", metadata={**TRACE, "name": "Żółw"})
        assert relay(first) == Outcome.sent()
        assert relay(delivery(b"", "")) == Outcome.sent()
    # They may be in different partitions.
    one, two = sorted(broker.received(target, 2), key=lambda each: not each.body)
    assert (one.id, one.conversation, one.body) == (first.id, "ana", first.body)
    assert {**TRACE, "name": "Żółw"}.items() <= one.headers.items()
    assert (two.conversation, two.body) == ("", b"")


def is_not_copied(broker: Broker) -> None:
    with broker.relay(new_target()) as relay:
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"cannot be copied or pickled, .* make one in each process"):
                way(relay)


def same_id_twice(broker: Broker) -> None:
    target = new_target()
    broker.prepare(target)
    message = delivery()
    with broker.relay(target) as relay:
        assert [relay(message), relay(message)] == [Outcome.sent()] * 2
        assert relay(delivery("end")) == Outcome.sent()
    ids = [each.id for each in broker.received(target, 2 if broker.deduplicates else 3)]
    assert Counter(ids)[message.id] == (1 if broker.deduplicates else 2)


def order_in_a_batch(broker: Broker) -> None:
    """After a message that fails, the rest of its conversation is not tried; other conversations are sent."""
    target = new_target()
    broker.prepare(target)
    bad = delivery("bad", "ana", metadata={"msgq-id": "reserved"})
    deliveries = [
        delivery("a1", "ana"),
        delivery("b1", "bob"),
        bad,
        delivery("a3", "ana"),
        delivery("b2", "bob"),
        delivery("a4", "ana"),
    ]
    with broker.relay(target) as relay:
        outcomes = relay.batch(deliveries)
        assert [each.verdict for each in outcomes[:3]] == [Verdict.SENT, Verdict.SENT, Verdict.REJECT]
        assert "msgq-" in outcomes[2].text
        assert is_skipped(outcomes[3])
        assert outcomes[4] == Outcome.sent()
        assert is_skipped(outcomes[5])
        assert relay.batch([]) == []
    bodies = [each.body.decode() for each in broker.received(target, 3)]
    assert sorted(bodies) == ["a1", "b1", "b2"]
    assert bodies.index("b1") < bodies.index("b2")


def target_by_function(broker: Broker) -> None:
    targets = [new_target("u"), new_target("v")]
    for target in targets:
        broker.prepare(target)

    def name(each: Delivery) -> str:
        if each.text == "unknown":
            raise PreparationError("no such target")
        return targets[int(each.text)]

    with broker.relay(name) as relay:
        assert relay.batch([delivery("1", "ana"), delivery("0", "bob")]) == [Outcome.sent()] * 2
        wrong = relay(delivery("2"))
        unknown = relay(delivery("unknown"))
    assert unknown == Outcome.reject(FailureKind.LOCAL, text="PreparationError: no such target")
    assert wrong.verdict is Verdict.RETRY or wrong.verdict is Verdict.REJECT
    assert [each.body for target in targets for each in broker.received(target, 1)] == [b"0", b"1"]


def too_large(broker: Broker, limit: int) -> None:
    target = new_target()
    broker.prepare(target)
    with broker.relay(target) as relay:
        outcomes = relay.batch([delivery(b"x" * (limit + 1)), delivery("after"), delivery("other", "bob")])
        assert outcomes[0].verdict is Verdict.REJECT, outcomes[0]
        assert "larg" in outcomes[0].text.lower() or "max" in outcomes[0].text.lower(), outcomes[0]
        assert is_skipped(outcomes[1])
        assert outcomes[2] == Outcome.sent(), outcomes[2]
        assert relay(delivery("next")) == Outcome.sent()
    assert sorted(each.body for each in broker.received(target, 2)) == [b"next", b"other"]


# ---------------------------------------------------------------- connections that fail


def nobody_listens(broker: Broker) -> None:
    port = free_port()
    with broker.relay("t", port=port, timeout=5) as relay:
        outcomes = relay.batch([delivery(), delivery(conversation="bob")])
        # The first one found out for all.
        assert [each.verdict for each in outcomes] == [Verdict.OFFLINE, Verdict.SKIPPED], outcomes
        assert outcomes[0].text == f"connection refused by 127.0.0.1:{port}"


def logs_one_line(broker: Broker) -> None:
    """While the broker is away its client prints and logs nothing, and the relay logs one line for each change."""
    with ExitStack() as stack:
        answers = (None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n")
        ports = [free_port(), *(stack.enter_context(listener(answer)) for answer in answers)]
        command = [sys.executable, str(HERE / "offline.py"), type(broker).__name__]
        pipe = subprocess.PIPE
        programs = [subprocess.Popen([*command, f"{port}"], stdout=pipe, stderr=pipe, cwd=HERE) for port in ports]
        texts = [program.communicate(timeout=60) for program in programs]
    assert [(program.returncode, errors) for program, (_, errors) in zip(programs, texts)] == [(0, b"")] * 4, texts
    for port, answer, (output, _) in zip(ports, ("nobody", *answers), texts):
        lines = output.decode().splitlines()
        assert len(lines) == 1, (answer, lines)
        assert lines[0].startswith("msgqueue WARNING"), lines
        assert "not connected: " in lines[0], lines
        assert f":{port}" in lines[0], lines


def logs_one_line_for_each_restart(broker: Broker, *, rounds: int = 3) -> None:
    """A broker that dies under an open connection, and comes back: one line in the log for each change, no more."""
    target = new_target()
    broker.prepare(target)
    with Proxy(broker.port) as proxy:
        # The client of Kafka connects to the address that a broker tells it.
        port = broker.port if broker.servers > 1 else proxy.port
        command = [sys.executable, str(HERE / "offline.py"), type(broker).__name__, f"{port}", "restarts", target]
        pipe = subprocess.PIPE
        program = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=HERE)
        lines: list[str] = []

        def read() -> None:
            assert program.stdout is not None
            for line in map(bytes.decode, program.stdout):
                # NATS: that the stream forgets ids too soon.
                if "removes duplicates within" not in line:
                    lines.append(line)

        reader = threading.Thread(target=read)
        reader.start()

        def wait_for(count: int) -> None:
            wait_until(lambda: len(lines) >= count, f"line {count} after {lines}")

        def send() -> None:
            assert program.stdin is not None
            program.stdin.write(b"hello\n")
            program.stdin.flush()

        try:
            send()
            wait_for(1)
            for number in range(rounds):
                proxy.close() if port == proxy.port else broker.stop()
                wait_for(3 * number + 2)
                # Long enough for several attempts to connect.
                time.sleep(3)
                send()
                proxy.open() if port == proxy.port else broker.start()
                wait_for(3 * number + 4)
            assert program.stdin is not None
            assert program.stderr is not None
            program.stdin.close()
            errors = program.stderr.read()
            program.wait(60)
            reader.join()
        finally:
            program.kill()
    assert (program.returncode, errors) == (0, b""), errors.decode()
    rest = lines[1:]
    assert len(rest) == 3 * rounds, lines
    for number in range(rounds):
        away, *back = rest[3 * number : 3 * number + 3]
        assert away.startswith("msgqueue WARNING"), lines
        assert "not connected: " in away, lines
        assert {each.split()[0] for each in back} == {"msgqueue", "sent"}, lines
        assert any(each.startswith("msgqueue INFO") and "connected again" in each for each in back), lines


def name_not_found(broker: Broker) -> None:
    with broker.relay("t", host="nobody.invalid", timeout=20) as relay:
        outcome = relay(delivery())
        assert outcome.verdict is Verdict.OFFLINE
        assert outcome.text == f"the name of nobody.invalid:{broker.port} was not found", outcome.text


def nonsense(broker: Broker) -> None:
    """A server of another protocol answers with nonsense: nothing was sent, and no retry is used up."""
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"\xff" * 64) as port:
        with broker.relay("t", port=port, timeout=3) as relay:
            outcome = relay(delivery())
        assert outcome.verdict is Verdict.OFFLINE, outcome
        assert outcome.text.startswith(f"127.0.0.1:{port}: "), outcome


def silence(broker: Broker) -> None:
    """A server accepts the connection and never answers: the attempt ends in time, and the message was not sent."""
    with listener(b"") as port, broker.relay("t", port=port, timeout=1) as relay:
        begin = time.monotonic()
        outcome = relay(delivery())
        assert time.monotonic() - begin < 10
        assert outcome.verdict is Verdict.OFFLINE, outcome
        assert "no answer while connecting" in outcome.text, outcome


def nothing_is_left(broker: Broker) -> None:
    """A connection that failed or was closed leaves no threads and no descriptors, without the garbage collector."""

    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))

    def wait_for(before: tuple[int, int], what: str) -> None:
        try:
            wait_until(lambda: all(map(operator.le, held(), before)), what, 10)
        except AssertionError:
            pytest.fail(f"{what}: {held()} threads and descriptors instead of {before}")

    gc.collect()
    gc.disable()
    try:
        for answer in (None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
            with listener(answer) as port:
                start = held()
                with broker.relay("t", port=port, timeout=1) as relay:
                    assert relay(delivery()).verdict is not Verdict.SENT
                    # The thread of the relay stays.
                    kept = (start[0] + 1, start[1] + 3) if isinstance(relay, LoopRelay) else start
                    wait_for(kept, f"a failed attempt to connect, with the answer {answer!r}")
                    for _ in range(3):
                        assert relay(delivery()).verdict is not Verdict.SENT
                    wait_for(kept, f"four failed attempts to connect, with the answer {answer!r}")
                wait_for(start, f"a relay that never connected, with the answer {answer!r}")
        target = new_target()
        broker.prepare(target)
        start = held()
        with broker.relay(target) as relay:
            assert relay(delivery()) == Outcome.sent()
            threads, descriptors = held()
            for _ in range(3):
                relay._lost(relay._connection)
                assert relay(delivery()) == Outcome.sent()
            # The client chooses some of the servers that it connects to by chance.
            wait_for((threads, descriptors + broker.servers - 1), "three connections that were lost")
        wait_for(start, "a relay that was connected")
    finally:
        gc.enable()


def silence_is_offline(broker: Broker, folder: Path) -> None:
    """A broker that does not answer while the relay connects is away: further messages are not tried."""
    target = new_target()
    broker.prepare(target)
    with Proxy(broker.port) as proxy, broker.relay(target, port=proxy.port, timeout=1) as relay:
        proxy.is_silent = True
        with MessageQueue(folder / "silent.db", relay, retry=RetryPolicy(ladder=[0])) as queue:
            relay.attach(queue)
            wait_until(lambda: queue.state().connectivity is Connectivity.OFFLINE, "offline")
            assert queue.state().offline_reason
            ids = [queue.enqueue(str(number)) for number in range(3)]
            proxy.is_silent = False
            wait_until(lambda: all(queue.get(each).status is Status.SENT for each in ids), "the messages")
            assert [queue.get(each).attempts for each in ids] == [1, 1, 1]


def silence_after_sending(broker: Broker) -> None:
    """The answer to a message does not arrive: perhaps arrived; sent again under the same id."""

    def lose(_: Proxy, send: Callable[[], Outcome]) -> None:
        outcome = send()
        assert (outcome.verdict, outcome.kind, outcome.not_sent) == (Verdict.RETRY, FailureKind.TIMEOUT, False), outcome

    _lose_an_answer(broker, 2, lose)


def cut_after_sending(broker: Broker) -> None:
    """The connection ends before the answer: perhaps arrived; sent again under the same id."""

    def lose(proxy: Proxy, send: Callable[[], Outcome]) -> None:
        threading.Timer(0.5, proxy.cut).start()
        begin = time.monotonic()
        outcome = send()
        assert time.monotonic() - begin < 9, "the end of the connection was not seen"
        assert (outcome.verdict, outcome.not_sent) == (Verdict.RETRY, False), outcome
        assert outcome.kind in (FailureKind.NETWORK, FailureKind.SERVER), outcome

    _lose_an_answer(broker, 10, lose)


def _lose_an_answer(broker: Broker, timeout: float, lose: Callable[[Proxy, Callable[[], Outcome]], None]) -> None:
    """Has `lose` send a message through a proxy that drops the answers; then sends it again, and another one."""
    target = new_target()
    broker.prepare(target)
    message = delivery("perhaps")
    with Proxy(broker.port) as proxy, broker.relay(target, port=proxy.port, timeout=timeout) as relay:
        assert relay(delivery("before")) == Outcome.sent()
        proxy.is_silent = True
        lose(proxy, lambda: relay(message))
        proxy.is_silent = False
        assert relay(message) == Outcome.sent()
        assert relay(delivery("after")) == Outcome.sent()
    received = broker.received(target, 3 if broker.deduplicates else 4)
    copies = Counter(each.id for each in received)[message.id]
    assert copies == 1 if broker.deduplicates else copies in (1, 2)
    firsts = list(dict.fromkeys(each.body for each in received))
    assert firsts == [b"before", b"perhaps", b"after"]


def closed_by_another_call(broker: Broker) -> None:
    """Another call closes the connection, and the client raises what it likes: it is the network, perhaps arrived."""
    target = new_target()
    broker.prepare(target)
    with broker.relay(target) as relay:
        send = relay._send

        def close_and_raise(connection: Client, _messages: Client, _timeout: float) -> Client:
            relay._lost(connection)
            raise ValueError("I/O operation on closed file")

        def close_and_return(connection: Client, _messages: Client, _timeout: float) -> Client:
            relay._lost(connection)
            return [ValueError("I/O operation on closed file")]

        for end in (close_and_raise, close_and_return):
            relay._send = end
            outcome = relay(delivery())
            expected = (Verdict.RETRY, FailureKind.NETWORK, False)
            assert (outcome.verdict, outcome.kind, outcome.not_sent) == expected, outcome
            assert "closed file" in outcome.text
        relay._send = send
        assert relay(delivery()) == Outcome.sent()


def unverified_tls(broker: Broker, folder: Path, **options: Client) -> None:
    """A certificate that is not trusted is an error, and nothing is sent."""
    with tls_listener(folder) as (port, bytes_read):
        with broker.relay("t", port=port, tls=True, timeout=5, **options) as relay:
            outcome = relay(delivery())
        assert outcome.verdict is Verdict.OFFLINE, outcome
        assert "certificate" in outcome.text.lower() or "ssl" in outcome.text.lower(), outcome
        assert not bytes_read


def without_tls(broker: Broker) -> None:
    """A server that does not use TLS, although the relay does: nothing is sent."""
    with broker.relay("t", tls=True, timeout=5) as relay:
        outcome = relay(delivery())
    assert outcome.verdict is Verdict.OFFLINE, outcome
    assert outcome.text.startswith(f"127.0.0.1:{broker.port}"), outcome


class ConnectionEndedError(Exception):
    """The broker ended the connection during an attempt, which uses up a retry: not the fault that is tested."""


def holds(
    broker: Broker, relay: Client, folder: Path, text: str, mend: Callable[[], object], *, count: int = 300
) -> list[str]:
    """A fault that is in no message holds the queue: no retry is used up, and nothing fails.

    Sending goes on by itself when `mend` has ended the fault. Returns the ids.
    """
    reasons: list[str] = []

    def batch(deliveries: Sequence[Delivery]) -> list[Outcome]:
        outcomes: list[Outcome] = relay.batch(deliveries)
        reasons.extend(each.text for each in outcomes if each.verdict is Verdict.OFFLINE)
        return outcomes

    path = folder / f"{uuid.uuid4().hex}.db"
    with relay, MessageQueue(path, batch_transport=batch, retry=RetryPolicy(ladder=[0])) as queue:
        relay.attach(queue)
        ids = queue.enqueue_batch([Draft(f"{number}", conversation=f"c{number % 7}") for number in range(count)])
        wait_until(lambda: reasons, "a refusal", 30)
        # Long enough for messages that would use up their retries.
        time.sleep(1)
        messages = [queue.get(each) for each in ids]
        assert {each.status for each in messages} <= {Status.QUEUED, Status.SENDING}, reasons[-1]
        tried = [each for each in messages if each.retries_used or each.attempts > (each.status is Status.SENDING)]
        texts = {each.failure.text if each.failure else "" for each in tried}
        if tried and all("the connection ended" in each for each in texts):
            raise ConnectionEndedError
        assert not tried, [(each.attempts, each.retries_used, each.failure) for each in tried[:3]]
        assert text in reasons[0], reasons[0]
        mend()
        wait_until(lambda: queue.counts().queued + queue.counts().sending == 0, "the messages", 60)
        messages = [queue.get(each) for each in ids]
        assert {(each.status, each.attempts, each.retries_used) for each in messages} == {(Status.SENT, 1, 0)}
    return ids


def in_order(broker: Broker, target: str, count: int) -> None:
    """A consumer received each message once, in the order of its conversation."""
    received = broker.received(target, count)
    assert len(received) == count
    for conversation in {each.conversation for each in received}:
        numbers = [int(each.body) for each in received if each.conversation == conversation]
        assert numbers == sorted(numbers)


def ends_for_a_call_that_was_joined(broker: Broker) -> None:
    """The connection ends during two calls, of which one began later: neither message is taken for the reason."""
    target = new_target()
    broker.prepare(target)
    outcomes: dict[str, Outcome] = {}
    with Proxy(broker.port) as proxy, broker.relay(target, port=broker.behind(proxy), timeout=20) as relay:
        assert relay(delivery("0")) == Outcome.sent()
        proxy.is_silent = True

        def send(name: str) -> None:
            outcomes[name] = relay(delivery(name, name))

        calls = [threading.Thread(target=send, args=(name,)) for name in ("1", "2")]
        for call in calls:
            call.start()
            time.sleep(0.3)
        proxy.is_silent = False
        proxy.cut()
        for call in calls:
            call.join()
    assert outcomes == {"1": Outcome.sent(), "2": Outcome.sent()}
    assert {each.body for each in broker.received(target, 3)} == {b"0", b"1", b"2"}


def only_the_culprit_fails(
    broker: Broker, folder: Path, *, batch: bool = True, retries: int = 2, silent: bool = False
) -> None:
    """A message that ends the connection, whatever is sent beside it, fails. The others are sent, without a retry.

    `silent`: instead, the connection has no answer from then on.
    """
    target, culprit = new_target(), 31
    broker.prepare(target)
    options = {"timeout": 2} if silent else {}
    with Proxy(broker.port) as proxy, broker.relay(target, port=broker.behind(proxy), **options) as relay:
        proxy.poison, proxy.poison_is_silent = b"poison", silent
        how = {"batch_transport": relay.batch} if batch else {"transport": relay, "max_in_flight": 16}
        path = folder / f"{uuid.uuid4().hex}.db"
        with MessageQueue(path, retry=RetryPolicy(ladder=[0] * retries), **how) as queue:
            ids = queue.enqueue_batch(
                [
                    Draft("poison" if number == culprit else f"{number}", conversation=f"c{number % 20}")
                    for number in range(60)
                ]
            )
            wait_until(lambda: queue.counts().queued + queue.counts().sending == 0, "the messages", 90)
            messages = [queue.get(each) for each in ids]
    failed = [number for number, each in enumerate(messages) if each.status is not Status.SENT]
    assert failed == [culprit], [(number, messages[number].failure) for number in failed]
    assert messages[culprit].attempts == retries + 1, messages[culprit]
    used = {number: each.retries_used for number, each in enumerate(messages) if each.retries_used}
    assert used == ({culprit: retries} if retries else {})
    received = Counter(each.id for each in broker.received(target, 59))
    assert set(received) == set(ids) - {ids[culprit]}
    assert max(received.values()) <= 2, received


def away_and_back(broker: Broker, folder: Path) -> None:
    """A broker that is away is offline: no retry is used, and its return wakes the queue."""
    target = new_target()
    broker.prepare(target)
    with broker.relay(target, timeout=5) as relay, MessageQueue(folder / "away.db", relay) as queue:
        relay.attach(queue)
        first = queue.enqueue("1")
        wait_until(lambda: queue.get(first).status is Status.SENT, "the first message")
        wait_until(lambda: queue.state().connectivity is Connectivity.ONLINE, "online")
        broker.stop(broker.ending)
        wait_until(lambda: queue.state().connectivity is Connectivity.OFFLINE, "offline")
        ids = [queue.enqueue(str(number)) for number in (2, 3, 4)]
        assert [queue.get(each).status for each in ids] == [Status.QUEUED] * 3
        broker.start()
        wait_until(lambda: all(queue.get(each).status is Status.SENT for each in ids), "the backlog")
        assert [queue.get(each).retries_used for each in ids] == [0, 0, 0]
        assert [queue.get(each).attempts for each in ids] == [1, 1, 1]
    assert [each.body for each in broker.received(target, 4)] == [b"1", b"2", b"3", b"4"]


# ---------------------------------------------------------------- servers that fail


@contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """Accepts connections, answers each with `answer`, and reads until the peer closes. None: closes it at once."""
    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(peer: socket.socket) -> None:
            try:
                if answer:
                    peer.sendall(answer)
                while answer is not None and peer.recv(65536):
                    pass
            except OSError:
                pass
            finally:
                peer.close()

        def accept() -> None:
            while True:
                try:
                    peer = server.accept()[0]
                except OSError:
                    return
                peers.append(peer)
                threading.Thread(target=serve, args=(peer,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for peer in peers:
                peer.close()


def certificate(folder: Path, password: str = "") -> tuple[Path, Path]:
    """Makes a self-signed certificate for 127.0.0.1, and its key, encrypted if there is a password."""
    folder.mkdir(exist_ok=True)
    key, public = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(public)]
    command += ["-passout", f"pass:{password}"] if password else ["-nodes"]
    subprocess.run(command, check=True, capture_output=True)
    return public, key


@contextmanager
def tls_listener(folder: Path) -> Iterator[tuple[int, list[bytes]]]:
    """A TLS server with a certificate that nobody trusts; yields its port and what it read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder))
    bytes_read: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    peer = server.accept()[0]
                except OSError:
                    return
                try:
                    with context.wrap_socket(peer, server_side=True) as secure:
                        data = secure.recv(65536)
                        if data:
                            bytes_read.append(data)
                except OSError:
                    pass

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1], bytes_read
        finally:
            server.shutdown(socket.SHUT_RDWR)

"""B3 to B7: faults of a broker that are in no message hold the queue, in every relay, and end by themselves.

Each function makes one row of the table in Relays.md true: it starts a server of its own and returns the fault. One
test for each broker runs all of its rows. Those of RabbitMQ, whose server is slow to start, are in test_rabbitmq.py.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import checks
import pytest
from brokers import KafkaMock, Mosquitto, NatsServer, Redis
from checks import delivery, new_target
from msgqueue import Outcome
from servers import Broker, Client, started, wait_until


class Fault(NamedTuple):
    """A fault that has begun."""

    relay: Client
    #: A part of the reason.
    text: str
    #: Ends the fault.
    mend: Callable[[], object]
    #: How many messages a consumer receives.
    received: int = 300


def hold(broker: Broker, folder: Path, begin: Callable[[Client, str], Fault]) -> None:
    target = new_target()
    fault = begin(broker, target)
    checks.holds(broker, fault.relay, folder, fault.text, fault.mend)
    checks.in_order(broker, target, fault.received)


def server(kind: type[Broker], folder: Path) -> Broker:
    """A server that is not started, or skips the tests that need it."""
    if not kind.is_installed():
        pytest.skip(f"{kind.program} is not installed")
    folder.mkdir()
    return kind(folder)


# ---------------------------------------------------------------- Redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Broker]:
    pytest.importorskip("redis")
    broker = started(Redis, tmp_path / "server")
    yield broker
    broker.kill()


def redis_setting(text: str, **values: str) -> Callable[[Redis, str], Fault]:
    """A fault that settings of Redis make."""

    def begin(broker: Redis, target: str) -> Fault:
        client, names = broker.client(), {name.replace("_", "-"): value for name, value in values.items()}
        client.ping()
        before = {name: client.config_get(name)[name] for name in names}
        for name, value in names.items():
            client.config_set(name, value)
        # On this connection, which was made before.
        mend = lambda: [client.config_set(name, value) for name, value in before.items()]  # noqa: E731
        return Fault(broker.relay(target), text, mend)

    return begin


def redis_rights(text: str, *before: str, after: str) -> Callable[[Redis, str], Fault]:
    """A fault of a user's rights."""

    def begin(broker: Redis, target: str) -> Fault:
        change = partial(broker.client().execute_command, "ACL", "SETUSER", target)
        change("on", "+@all", *before)
        return Fault(broker.relay(target, user=f"{target}:right"), text, lambda: change(after))

    return begin


def redis_replica(broker: Redis, target: str) -> Fault:
    client = broker.client()
    client.execute_command("CONFIG", "SET", "replica-serve-stale-data", "yes")
    client.replicaof("127.0.0.1", "1")
    return Fault(broker.relay(target), "READONLY", lambda: client.replicaof("NO", "ONE"))


def redis_file(broker: Redis, target: str) -> Fault:
    """It cannot write its file: a directory of that name is in its place."""
    client = broker.client()
    client.config_set("appendonly", "no")
    client.config_set("save", "1 1")
    (broker.folder / "dump.rdb").mkdir()
    (broker.folder / "dump.rdb" / "x").touch()
    client.set("a", "b")
    client.bgsave()
    wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "the failure")
    mend = partial(client.config_set, "stop-writes-on-bgsave-error", "no")
    return Fault(broker.relay(target), "MISCONF", mend)


def redis_orphan(broker: Redis, target: str) -> Fault:
    """A replica without its master, which does not answer with old data."""
    client = broker.client()
    client.execute_command("CONFIG", "SET", "replica-serve-stale-data", "no")
    client.replicaof("127.0.0.1", "1")
    return Fault(broker.relay(target), "Link with MASTER is down", lambda: client.replicaof("NO", "ONE"))


def redis_script(broker: Redis, target: str) -> Fault:
    """A script does not end."""
    client = broker.client()
    client.config_set("lua-time-limit", 50)

    def run() -> None:
        with suppress(Exception):
            broker.client().eval("while true do end", 0)

    threading.Thread(target=run, daemon=True).start()

    def is_busy() -> bool:
        try:
            client.ping()
        except Exception as problem:  # noqa: BLE001 - of the client
            return "BUSY" in str(problem) or "busy" in str(problem)
        return False

    wait_until(is_busy, "the script")
    return Fault(broker.relay(target), "BUSY", lambda: broker.client().script_kill())


def redis_type(broker: Redis, target: str) -> Fault:
    broker.client().set(target, "a string")
    return Fault(broker.relay(target), "WRONGTYPE", lambda: broker.client().delete(target))


REDIS: dict[str, Callable[[Redis, str], Fault]] = {
    "wrong password": redis_rights("invalid username-password", ">other", "~*", after=">right"),
    "password that is required now": redis_setting("already authenticated", requirepass="secret"),
    "out of memory": redis_setting("OOM", maxmemory="1"),
    "read-only replica": redis_replica,
    "too few replicas": redis_setting("NOREPLICAS", min_replicas_to_write="1"),
    "cannot write its file": redis_file,
    "stream that the user may not use": redis_rights("can't", ">right", "~nothing", after="~*"),
    "stream whose name is another type": redis_type,
    "replica without its master": redis_orphan,
    "script that does not end": redis_script,
    "too many clients": redis_setting("max number of clients", maxclients="1"),
}


@pytest.mark.parametrize("name", REDIS)
def test_B5_redis_faults_hold_the_queue(redis: Broker, tmp_path: Path, name: str) -> None:
    hold(redis, tmp_path, REDIS[name])


# ---------------------------------------------------------------- NATS


class Changeable(NatsServer):
    """Its configuration is changed while it runs, and may be without JetStream at first."""

    password = "wrong"
    more = "jetstream: enabled"
    limits = ""
    most = "100MB"

    def command(self) -> list[str]:
        self.write()
        return [self.program, "--config", str(self.folder / "server.conf")]

    def write(self) -> None:
        (self.folder / "server.conf").write_text(
            f"""
            listen: 127.0.0.1:{self.port}
            jetstream {{ store_dir: "{self.folder}", max_mem: 10MB, max_file: {self.most} }}
            accounts {{ A: {{ {self.more}, users: [
              {{ user: a, password: a {self.limits} }}, {{ user: b, password: {self.password} }}
            ] }} }}
            no_auth_user: a
            """
        )

    def begin(self, *targets: str, **values: str) -> None:
        """Starts it with these values, and with streams."""
        for name, value in values.items():
            setattr(self, name, value)
        self.start()
        for target in targets:
            self.prepare(target)

    def change(self, **values: str) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        self.write()
        assert self.process is not None
        subprocess.run([self.program, "--signal", f"reload={self.process.pid}"], check=True, capture_output=True)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Broker]:
    pytest.importorskip("nats")
    broker = server(Changeable, tmp_path / "server")
    yield broker
    broker.kill()


def nats_password(broker: Changeable, target: str) -> Fault:
    broker.begin(target)
    return Fault(broker.relay(target, user="b:right"), "uthoriz", lambda: broker.change(password="right"))


def nats_no_stream(broker: Changeable, target: str) -> Fault:
    broker.begin()
    return Fault(broker.relay(target), "no stream stores the subject", lambda: broker.prepare(target))


def nats_rights(broker: Changeable, target: str) -> Fault:
    broker.begin(target, limits=f', permissions: {{ publish: {{ deny: ["{target}"] }} }}')
    return Fault(broker.relay(target, timeout=2), "ermissions violation", lambda: broker.change(limits=""))


def nats_without_jetstream(broker: Changeable, target: str) -> Fault:
    broker.begin(more="jetstream: disabled")

    def is_prepared() -> bool:
        try:
            broker.prepare(target)
        except Exception:  # noqa: BLE001 - JetStream is not ready
            return False
        return True

    def mend() -> None:
        broker.change(more="jetstream: enabled")
        wait_until(is_prepared, "JetStream")

    return Fault(broker.relay(target), "no stream stores the subject", mend)


def nats_full_stream(broker: Changeable, target: str) -> Fault:
    broker.begin()

    def limited(most: int) -> Callable[[Client], Client]:
        api = broker.load("nats").js.api
        config = api.StreamConfig(
            name=target, subjects=[target], max_msgs=most, discard=api.DiscardPolicy.NEW, duplicate_window=3600
        )
        return lambda stream: stream.update_stream(config) if most > 3 else stream.add_stream(config)

    broker.run(limited(3))
    filled = [delivery(f"{number}", "before") for number in range(3)]
    with broker.relay(target) as relay:
        assert relay.batch(filled) == [Outcome.sent()] * 3
    mend = lambda: broker.run(limited(10_000))  # noqa: E731
    return Fault(broker.relay(target), "maximum messages exceeded", mend, 303)


def nats_full_storage(broker: Changeable, target: str) -> Fault:
    """The account may store no more."""
    other = new_target()
    broker.begin(target, other, more="jetstream: { max_file: 1MB, max_mem: 0, max_streams: 5 }")
    with broker.relay(other) as relay:
        for size in (60_000, 1000, 1):
            while relay(delivery(b"x" * size)) == Outcome.sent():
                pass
    mend = lambda: broker.run(lambda stream: stream.delete_stream(other))  # noqa: E731
    return Fault(broker.relay(target), "resource", mend)


def nats_full_server(broker: Changeable, target: str) -> Fault:
    """The server may store no more."""
    other = new_target()
    broker.begin(target, other, most="1MB")
    with broker.relay(other) as relay:
        for size in (60_000, 1000, 1):
            while relay(delivery(b"x" * size)) == Outcome.sent():
                pass
    mend = lambda: broker.run(lambda stream: stream.delete_stream(other))  # noqa: E731
    return Fault(broker.relay(target), "resource", mend)


NATS: dict[str, Callable[[Changeable, str], Fault]] = {
    "wrong password": nats_password,
    "no stream": nats_no_stream,
    "subject that the user may not use": nats_rights,
    "without JetStream": nats_without_jetstream,
    "full stream": nats_full_stream,
    "full storage": nats_full_storage,
    "full server": nats_full_server,
}


@pytest.mark.parametrize("name", NATS)
def test_B4_nats_faults_hold_the_queue(nats: Broker, tmp_path: Path, name: str) -> None:
    hold(nats, tmp_path, NATS[name])


# ---------------------------------------------------------------- MQTT


class Guarded(Mosquitto):
    """Lists of passwords and of rights, which it reads again when it is told."""

    rights = "topic readwrite #\n"

    def command(self) -> list[str]:
        (self.folder / "rights").write_text(self.rights)
        self.more = f"acl_file {self.folder / 'rights'}"
        return super().command()

    def change(self, password: str = "", rights: str = "") -> None:
        if password:
            command = ["mosquitto_passwd", "-b", str(self.folder / "passwords"), "late", password]
            subprocess.run(command, check=True, capture_output=True)
            rights = rights or f"{self.rights}user late\ntopic readwrite #\n"
        if rights:
            (self.folder / "rights").write_text(rights)
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[Broker]:
    pytest.importorskip("paho.mqtt.client")
    broker = server(Guarded, tmp_path / "server")
    yield broker
    broker.kill()


def mqtt_password(broker: Guarded, target: str) -> Fault:
    broker.start()
    broker.prepare(target)
    return Fault(broker.relay(target, user="late:right"), "Not authorized", lambda: broker.change(password="right"))


def mqtt_rights(broker: Guarded, target: str) -> Fault:
    broker.rights = f"topic readwrite #\ntopic deny {target}\n"
    broker.start()
    broker.prepare(target)
    return Fault(broker.relay(target), "Not authorized", lambda: broker.change(rights="topic readwrite #\n"))


def mqtt_no_subscriber(broker: Guarded, target: str) -> Fault:
    broker.start()
    relay = broker.relay(target, require_subscriber=True)
    return Fault(relay, "No matching subscribers", lambda: broker.prepare(target))


MQTT: dict[str, Callable[[Guarded, str], Fault]] = {
    "wrong password": mqtt_password,
    "topic that the user may not use": mqtt_rights,
    "no subscriber": mqtt_no_subscriber,
}


@pytest.mark.parametrize("name", MQTT)
def test_B3_mqtt_faults_hold_the_queue(mqtt: Broker, tmp_path: Path, name: str) -> None:
    try:
        hold(mqtt, tmp_path, MQTT[name])
    except checks.ConnectionEndedError:
        # At times mosquitto 2.0.11 denies a message and ends the connection without the answer, on every connection
        # until it is started again. To the relay each message looks like one that ends the connection.
        assert "Bad socket read/write" in mqtt.log.read_text()
        mqtt.kill()
        other = server(Guarded, tmp_path / "other")
        try:
            hold(other, tmp_path, MQTT[name])
        finally:
            other.kill()


# ---------------------------------------------------------------- Kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka")
    broker = started(KafkaMock, tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.end()


KAFKA = {
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "KAFKA_STORAGE_ERROR": 56,
    "NOT_ENOUGH_REPLICAS": 19,
    "POLICY_VIOLATION": 44,
    "THROTTLING_QUOTA_EXCEEDED": 89,
    "TOPIC_AUTHORIZATION_FAILED": 29,
}


@pytest.mark.parametrize("name", KAFKA)
def test_B7_kafka_faults_hold_the_queue(kafka: KafkaMock, tmp_path: Path, name: str) -> None:
    """The mock answers so to every request, until it is told otherwise."""

    def begin(broker: KafkaMock, target: str) -> Fault:
        broker.say(f"fail {KAFKA[name]} 100000")
        return Fault(broker.relay(target), name, lambda: broker.say("mend"))

    try:
        hold(kafka, tmp_path, begin)
    finally:
        kafka.say("mend")


def test_B7_kafka_topic_that_does_not_exist_holds_the_queue(kafka: KafkaMock, tmp_path: Path) -> None:
    """The brokers make no topics by themselves (auto.create.topics.enable=false)."""

    def begin(broker: KafkaMock, target: str) -> Fault:
        broker.say(f"topic {target} 3")
        return Fault(broker.relay(target), "UNKNOWN_TOPIC", lambda: broker.say(f"topic {target} 0"))

    hold(kafka, tmp_path, begin)

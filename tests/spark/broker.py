"""A real Apache Kafka for tests: one node, broker and controller at once (KRaft), on loopback, for as long as it is needed."""

from __future__ import annotations

import base64
import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.spark.maven import Dependency, Unavailable, fetched, java

VERSION = "4.1.0"

_SERVER = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
"""


def jars() -> Path:
    """The directory with the jars of the broker. Raises :class:`Unavailable`."""
    return fetched(f"kafka-{VERSION}", [Dependency("org.apache.kafka", "kafka_2.13", VERSION)])


@attrs.frozen
class Record:
    """A record to send, or one that was read."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


@attrs.frozen
class Broker:
    """A broker that runs. ``address``: host and port; ``node``: its process, which tests may kill."""

    address: str
    node: Node = attrs.field(eq=False, repr=False)

    def create(self, topic: str, partitions: int) -> str:
        """Make a topic; its address for ``--input`` and ``--output``."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result(30)
        until = time.monotonic() + 30
        while topic not in admin.list_topics(timeout=30).topics and time.monotonic() < until:
            time.sleep(0.05)  # the broker knows it a moment later
        return f"kafka://{self.address}/{topic}"

    def topics(self, prefix: str) -> list[str]:
        """The topics whose names begin so."""
        from confluent_kafka.admin import AdminClient

        known = AdminClient({"bootstrap.servers": self.address}).list_topics(timeout=30).topics
        return sorted(name for name in known if name.startswith(f"{prefix}-"))

    def forgets(self, prefix: str) -> bool:
        """Wait until there is no topic whose name begins so; False when there still is one after many questions."""
        return any(not self.topics(prefix) for _ in range(100))

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_partitions([NewPartitions(topic, partitions)]).values():
            made.result(30)

    def remove(self, topic: str) -> None:
        """Delete a topic."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.address})
        admin.delete_topics([topic])[topic].result(30)

    def remake(self, topic: str, partitions: int) -> None:
        """Delete a topic, and make one of the same name."""
        from confluent_kafka import KafkaException

        self.remove(topic)
        for _ in range(100):
            try:
                self.create(topic, partitions)
            except KafkaException:  # it is gone a moment later
                continue
            return
        raise AssertionError(f"{topic} could not be made anew")

    def send(self, topic: str, records: Iterable[Record], *, transaction: bool | None = None) -> None:
        """Send records, in order. ``transaction``: inside one, which is committed or (False) aborted."""
        from confluent_kafka import Producer

        settings: dict[str, str | int] = {"bootstrap.servers": self.address, "enable.idempotence": "true"}
        if transaction is not None:
            settings["transactional.id"] = uuid.uuid4().hex
        producer = Producer(settings)
        if transaction is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        for one in records:
            producer.produce(topic, one.value, one.key, one.partition, headers=list(one.headers))
        assert producer.flush(30) == 0
        if transaction is not None:
            (producer.commit_transaction if transaction else producer.abort_transaction)(30)

    def read(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        settings: dict[str, str | bool] = {"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
        found: list[Record] = []
        try:
            for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
                consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
                while True:
                    message = consumer.poll(30)
                    assert message is not None
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        break
                    assert error is None, error
                    headers = tuple((name, value or b"") for name, value in message.headers() or ())
                    found.append(Record(message.value(), message.key(), partition, headers))
        finally:
            consumer.close()
        return found


@contextmanager
def running() -> Iterator[Broker]:
    """A broker with a directory of its own; both are gone afterwards, also when the tests are killed.

    Raises :class:`Unavailable` where there is none to be had.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        raise Unavailable("confluent-kafka is not installed")
    with tempfile.TemporaryDirectory(prefix="tracetypes-kafka-") as scratch:
        node: Node | None = None
        try:
            for _ in range(3):  # somebody else may have taken the ports meanwhile
                node = Node(str(jars() / "*"), Path(scratch), *free_ports())
                node.format()
                node.start()
                if answers(node.address):
                    break
                node.kill()
            else:
                log = (Path(scratch) / "log").read_text(errors="replace")
                raise AssertionError(f"Kafka did not start:\n{log[-2000:]}")
            yield Broker(node.address, node)
        finally:
            if node is not None:
                node.kill()


@attrs.define(eq=False)
class Node:
    """The process of a broker, and the directory where its records outlive it."""

    classes: str
    scratch: Path
    port: int
    controller: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def format(self) -> None:
        """Begin with nothing."""
        shutil.rmtree(self.scratch / "logs", ignore_errors=True)
        config = self.scratch / "server.properties"
        config.write_text(_SERVER.format(port=self.port, controller=self.controller, logs=self.scratch / "logs"))
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")  # no dash at its front
        words = [java(), "-cp", self.classes, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
        subprocess.run(words, check=True, capture_output=True, timeout=120)

    def start(self) -> None:
        """Start a broker, which is killed when our end of its standard input is closed, as it is when we die."""
        words = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", self.classes, "kafka.Kafka"]
        watched = '"$@" & read line; kill -9 $!; wait $! 2>/dev/null'
        with (self.scratch / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", watched, "sh", *words, str(self.scratch / "server.properties")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """With -9, if it runs."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(30)
            self.process = None

    def restart(self) -> None:
        """Kill it and start it again at once. It answers some seconds later."""
        self.kill()
        self.start()


def answers(address: str, seconds: int = 60) -> bool:
    """Wait until a broker answers; False when it does not within these seconds."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    for _ in range(seconds):
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            continue
        else:
            return True
    return False


def free_ports() -> tuple[int, int]:
    """Two ports on loopback that nobody uses now."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]

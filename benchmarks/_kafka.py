"""What benchmarks over topics share: records at a steady rate, from a process of their own; the other side's connector."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeAlias

from tests.spark.broker import Broker
from tests.spark.maven import Unavailable, java

CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
"""Spark's connector. There is none for 4.3 yet: that for 4.2 runs on it, with the newest part of it that is published."""


def connector() -> str:
    """The jars of Spark's connector, with commas between, from Maven Central into the user's cache."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    (ivy,) = (Path(spark.origin).parent / "jars").glob("ivy-*.jar")
    there = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tracetypes" / "spark-sql-kafka-4.2.0"
    there.mkdir(parents=True, exist_ok=True)
    for group, name, version in CONNECTOR:
        jar = there / f"{name}-{version}.jar"
        if jar.exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            words = [java(), "-jar", str(ivy), "-cache", scratch, "-confs", "default", "-notransitive"]
            words += ["-dependency", group, name, version, "-retrieve", f"{there}/[artifact]-[revision].[ext]"]
            process = subprocess.run(words, capture_output=True, text=True, timeout=600)
        if process.returncode or not jar.exists():
            raise Unavailable(f"{name} {version} cannot be fetched from Maven Central")
    return ",".join(sorted(map(str, there.glob("*.jar"))))


def create(broker: Broker, topic: str, partitions: int, **config: str) -> str:
    """Make a topic; its address."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        made.result(30)
    return f"kafka://{broker.address}/{topic}"


Ticks: TypeAlias = tuple[float, float]


def produce(
    servers: str, topic: str, partitions: int, keys: int, rate: float, seconds: float, seed: int, ticks: Ticks | None
) -> None:
    """``rate`` records a second, for so long; ``seconds``: 0 for ``rate`` records at once.

    A record is ``{"key": 0..keys-1, "value": 0..999, "ts": milliseconds}``; ``ts`` is the time at which it is sent, or that of
    ``ticks``: the first one's in seconds, and how many there are in a second. The partitions take turns.
    """
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 2,
            "log_level": 0,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    chance = random.Random(seed)
    values = [(chance.randrange(keys), chance.randrange(1_000)) for _ in range(100_003)]
    count, start, total = 0, time.time(), round(rate * max(seconds, 1))
    while count < total:
        now = time.time()
        due = total if not seconds else min(total, int((now - start) * rate))
        ts = round(now * 1_000)
        for number in range(count, min(due, count + 20_000)):
            key, value = values[number % len(values)]
            if ticks is not None:
                ts = round((ticks[0] + number / ticks[1]) * 1_000)
            record = b'{"key":%d,"value":%d,"ts":%d}' % (key, value, ts)
            producer.produce(topic, record, partition=number % partitions)
        count = min(due, count + 20_000)
        producer.poll(0)
        if seconds:
            time.sleep(0.005)
        else:
            producer.flush()
    producer.flush()


@contextmanager
def producing(
    broker: Broker,
    topic: str,
    *,
    partitions: int,
    keys: int,
    rate: float,
    seconds: float,
    seed: int = 1,
    ticks: Ticks | None = None,
) -> Iterator[BaseProcess]:
    """:func:`produce` in a process of its own, which is ended with the block."""
    process = multiprocessing.get_context("spawn").Process(
        target=produce, args=(broker.address, topic, partitions, keys, rate, seconds, seed, ticks), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def backlog(
    broker: Broker, topic: str, *, partitions: int, keys: int, records: int, ticks: Ticks | None = None
) -> None:
    """Records at once, of the time at which they are sent or with times of their own."""
    with producing(broker, topic, partitions=partitions, keys=keys, rate=records, seconds=0, ticks=ticks) as process:
        process.join()


def committed_records(servers: str, topic: str, until: float) -> Iterator[tuple[float, bytes | None, bytes | None]]:
    """Committed records as they come, up to a moment: when they were received, key and value."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while time.time() < until:
            for message in consumer.consume(1_000, timeout=0.01):
                if message.error() is None:
                    yield time.time(), message.key(), message.value()
    finally:
        consumer.close()


def last_line(path: Path) -> dict[str, object]:
    """The last JSON object of a file of lines; empty where there is none yet."""
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return json.loads(lines[-1]) if lines else {}

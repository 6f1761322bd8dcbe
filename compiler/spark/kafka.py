"""Topics of Kafka as sources and as the sink.

As sources: Spark plans which offsets a micro-batch reads, and the workers read them.

Spark only keeps the offsets (a Python data source whose rows are ranges of offsets, one a partition), as it only lists Parquet
files; a worker reads its range with librdkafka. A partition is a part of the source with a frontier of its own, and its records
are in the order of their offsets, so that late rows and blocks do not depend on how micro-batches are cut. A run that does not
follow its inputs reads up to the offsets that hold when it starts.

As the sink: the driver sends the rows of a micro-batch in one transaction, which also commits the number of the batch as an
offset of a group of the run's own. A batch whose transaction went through is not sent again, whatever became of our own record.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tracetypes.compiler.connectors.text import AT_ONCE, Dialect, Fit, columns_of_json, decoded, fit_of_json
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import Taken
from tracetypes.compiler.spark.scan import End, Scan, in_columns
from tracetypes.compiler.spark.wire import settle, told
from tracetypes.compiler.store.input_identity import InputIdentity
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Csv, Kafka, Parquet, Row, of_bytes, record_writer
from tracetypes.markers import InBand, Marker
from tracetypes.records import Record
from tracetypes.redaction import conceal
from tracetypes.sources import record_reader

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

__all__ = [
    "Address",
    "TopicInput",
    "TopicReader",
    "TopicScan",
    "TopicSink",
    "Transactions",
    "Watch",
    "is_topic",
    "records",
    "require_client",
]

SCHEME = "kafka://"

PATIENCE = 60.0
"""Seconds without an answer after which a broker counts as gone."""

PARTING = 10.0
"""Seconds that a broker has to abort a transaction that failed. The next start aborts it anyhow."""

PAUSE = 0.1
"""Seconds before a topic without new records is asked again."""

POLLED = 10_000
"""Records that a worker takes from the client at once."""

C = TypeVar("C")
T = TypeVar("T")

RANGE = "partition int, start bigint, until bigint, parts int, idle boolean"


# ------------------------------------------------------------------------------------------------ addresses


def is_topic(address: str) -> bool:
    """Does an ``--input`` or ``--output`` name a topic?"""
    return address.startswith(SCHEME)


def require_client() -> None:
    """Raises :class:`UsageError` ``TT401`` where the client is not installed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise UsageError("TT401", "confluent_kafka is not installed", fix="pip install 'tracetypes[kafka]'")


@attrs.frozen
class Address:
    """``kafka://host:port,host:port/topic``. ``config``: a file of settings for librdkafka, ``name=value`` a line, which every
    worker must have. ``records``: of a micro-batch at most. ``idle``: seconds without a record after which nobody waits for a
    partition, None: everybody does."""

    text: str
    servers: str
    topic: str
    config: str | None = None
    records: int | None = None
    idle: float | None = None

    @classmethod
    def of(cls, text: str) -> Address:
        """From text. Raises :class:`UsageError` ``TT402``, and ``TT401`` where the client is not installed."""
        parts = urlsplit(text)
        topic, options = unquote(parts.path.strip("/")), dict(parse_qsl(parts.query, keep_blank_values=True))
        config, records, idle = (options.pop(name, None) for name in ("config", "records", "idle"))
        wrong = (records and not _is_count(records)) or (idle is not None and not _is_span(idle))
        if not parts.netloc or not topic or "/" in topic or options or wrong:
            raise UsageError(
                "TT402",
                f"{text} is no address of a topic",
                fix="write kafka://HOST:PORT/TOPIC, with ?config=FILE, ?records=N or ?idle=SECONDS behind it if need be",
            )
        require_client()
        return cls(text, parts.netloc, topic, config, int(records) if records else None, float(idle) if idle else None)

    def settings(self) -> dict[str, Any]:
        """What every client is told. Raises :class:`UsageError` ``TT402`` when the file of settings cannot be read."""
        # A client that bootstraps again when all brokers are away gives up the broker of its transaction, and waits for it for
        # ever: librdkafka 2.11 to 2.16. Without that it goes on when the broker is back.
        settings: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "log_level": 0,
            "metadata.recovery.strategy": "none",
        }
        if self.config is None:
            return settings
        try:
            lines = Path(self.config).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise UsageError(
                "TT402", f"{self.config}: {error.strerror}", fix="give a file of settings that can be read"
            ) from error
        pairs = [line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#")]
        for name, _, value in pairs:
            conceal(f"{name.strip()}={value.strip()}")
        return settings | {name.strip(): value.strip() for name, _, value in pairs}

    def client(self, kind: Callable[[dict[str, Any]], C], more: Mapping[str, Any]) -> C:
        """A client of a kind, with ``more`` settings. Raises :class:`UsageError` ``TT402`` that names a setting that it does
        not take."""
        from confluent_kafka import KafkaException

        try:
            return kind({**self.settings(), **more})
        except (KafkaException, TypeError, ValueError) as error:
            raise UsageError(
                "TT402",
                f"{self.config or self.text}: {_why(error)}",
                fix="give settings of librdkafka, name=value a line",
            ) from error

    @contextmanager
    def trouble(self, *, writing: bool = False) -> Iterator[None]:
        """Inside, what the client raises becomes one of our errors."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise (self.unwritable if writing else self.unreadable)(_why(error)) from error

    def unreadable(self, why: str) -> RunError:
        """The error for a topic that cannot be read."""
        return RunError(
            "TT208",
            f"{self.text} cannot be read: {why}",
            fix="see whether the broker runs and has the topic, then run again",
        )

    def unwritable(self, why: str) -> RunError:
        """The error for a topic that cannot be written."""
        return RunError("TT209", f"{self.text} cannot be written: {why}", fix="see the cause; run again to go on")

    def changed(self, why: str) -> RunError:
        """The error for a topic that is no longer what a run began with."""
        return RunError(
            "TT218",
            f"{self.text} has changed since the run began: {why}",
            fix="give another --checkpoint and output to start anew",
        )


def _why(error: Exception) -> str:
    """What the client says."""
    cause = error.args[0] if error.args else error
    return cause.str() if hasattr(cause, "str") else str(cause)


PLAINTEXT = re.compile(r"connecting to a PLAINTEXT broker|supported mechanisms: *(\(|$)")
"""What librdkafka says of a broker that speaks neither TLS nor SASL, asked for it."""


@attrs.frozen
class Described:
    """A topic as a broker tells of it. ``id``: what the broker calls it; when it is made anew, that is another."""

    id: str
    partitions: tuple[int, ...]


class Watch:
    """Asks a broker about a topic, over one connection. ``writing``: for a sink."""

    def __init__(self, address: Address, *, writing: bool = False) -> None:
        from confluent_kafka.admin import AdminClient

        self.address, self.writing = address, writing
        self.errors: deque[str] = deque(maxlen=1)
        self.admin = address.client(AdminClient, {"error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        if error.code() != error._ALL_BROKERS_DOWN:
            self.errors.append(error.str())

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Inside, what the client raises becomes one of our errors, with what it has heard of the broker last."""
        from confluent_kafka import KafkaException

        self.errors.clear()
        try:
            yield
        except KafkaException as error:
            self.admin.poll(0)
            why = ": ".join([_why(error), *self.errors])
            if PLAINTEXT.search(why):
                why += ". The broker speaks plaintext there, and security.protocol asks for another protocol"
            raise (self.address.unwritable if self.writing else self.address.unreadable)(why) from error

    def offsets(self, partitions: Sequence[int], *, first: bool = False) -> dict[int, int]:
        """The end of each partition, behind the last record that is committed; or with ``first`` its beginning."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if first else OffsetSpec.latest()
        asked = {TopicPartition(self.address.topic, partition): spec for partition in partitions}

        def ask(left: float) -> dict[int, int]:
            answers = self.admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=min(left, PATIENCE / 2)
            )
            return {place.partition: answer.result(PATIENCE).offset for place, answer in answers.items()}

        with self.trouble():
            return patiently(ask)

    def topic(self) -> Described:
        """The topic. Raises :class:`RunError` ``TT208`` or ``TT209`` when there is no such topic."""
        found = self.described()
        if found is None:
            why = "the broker knows no such topic"
            raise self.address.unwritable(why) if self.writing else self.address.unreadable(why)
        return found

    def described(self) -> Described | None:
        """The topic; None when it is not there."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        def ask(left: float) -> Described | None:
            asked = TopicCollection([self.address.topic])
            told = self.admin.describe_topics(asked, request_timeout=min(left, PATIENCE / 2))[self.address.topic]
            try:
                about = told.result(PATIENCE)
            except KafkaException as error:
                if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                    return None
                raise
            return Described(str(about.topic_id), tuple(sorted(one.id for one in about.partitions)))

        with self.trouble():
            return patiently(ask)

    def create(self, settings: dict[str, str]) -> None:
        """Make the topic, with one partition. Raises :class:`RunError` ``TT209``."""
        from confluent_kafka.admin import NewTopic

        made = NewTopic(self.address.topic, 1, config=settings)
        with self.trouble():
            self.admin.create_topics([made], request_timeout=PATIENCE / 2)[self.address.topic].result(PATIENCE)

    def remove(self, before: int) -> None:
        """Remove the records of the only partition before an offset. A broker that is busy or away may do so the next time."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        place = TopicPartition(self.address.topic, 0, before)
        with self.trouble():
            try:
                for told in self.admin.delete_records([place], request_timeout=PATIENCE / 2).values():
                    told.result(PATIENCE)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise

    def delete(self) -> None:
        """Remove the topic."""
        with self.trouble():
            self.admin.delete_topics([self.address.topic], request_timeout=PATIENCE / 2)[self.address.topic].result(
                PATIENCE
            )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _is_span(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


# -------------------------------------------------------------------------------------------------- driver


class TopicInput:
    """A topic as the input of a source. ``bounded``: up to the offsets that hold now."""

    def __init__(self, spark: SparkSession, leaf: FromSource, text: str, *, bounded: bool) -> None:
        self.spark, self.address = spark, Address.of(text)
        record_reader(leaf.source, leaf.layout)  # raises for formats that records do not have
        if self.address.idle is not None and isinstance(leaf.source.markers, InBand):
            raise UsageError(
                "TT402",
                f"{text}: source {leaf.source.name!r} has markers in band, which no clock can stand for",
                fix="leave idle= out, and send each marker to every partition",
            )
        watch = Watch(self.address)
        topic = watch.topic()
        self.id, self.until = topic.id, watch.offsets(topic.partitions) if bounded else None

    @property
    def identity(self) -> InputIdentity:
        """Which topic it is."""
        return InputIdentity("topic", self.address.topic, self.id)

    @property
    def at_once(self) -> bool:
        """Does one micro-batch take all that there is?"""
        return self.address.records is None

    def frame(self) -> DataFrame:
        """A row for each range of offsets."""
        self.spark.dataSource.register(Topic)
        reader = self.spark.readStream.format(Topic.name()).option("address", self.address.text).option("id", self.id)
        return reader.option("until", json.dumps(self.until)).load()


class Topic(DataSource):
    """Ranges of the offsets of a topic, for Spark."""

    @classmethod
    def name(cls) -> str:
        """By which Spark knows it."""
        return "tracetypes-topic"

    def schema(self) -> str:
        """Of its rows."""
        return RANGE

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Called by Spark."""
        until = json.loads(self.options["until"])
        ends = None if until is None else {int(partition): end for partition, end in until.items()}
        return TopicReader(Address.of(self.options["address"]), ends, self.options["id"])


@attrs.frozen
class Place:
    """The next offset of each partition, and which partitions are idle. In Spark's log ``{"0": 17, "1": 4, "idle": [1]}``: what
    was decided by the clock stands there, and is the same whenever a micro-batch is done again."""

    next: dict[int, int]
    idle: frozenset[int] = frozenset()

    @classmethod
    def of(cls, logged: Mapping[str, Any]) -> Place:
        """From Spark's log."""
        return cls({int(p): at for p, at in logged.items() if p != "idle"}, frozenset(logged.get("idle", ())))

    @property
    def logged(self) -> dict[str, Any]:
        """For Spark's log."""
        offsets = {str(partition): at for partition, at in sorted(self.next.items())}
        return {**offsets, "idle": sorted(self.idle)} if self.idle else offsets


class Silence:
    """Which partitions have sent nothing for some seconds, while others went on after their last record. By the clock of this
    machine, from when it first looked."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.known: dict[int, int] = {}
        self.since: dict[int, float] = {}
        self.look: dict[int, int] = {}
        """At which look a partition was last found to have grown."""
        self.looks = 0

    def of(self, known: Mapping[int, int], start: Mapping[int, int]) -> set[int]:
        """The partitions that are silent. ``known``: their ends; ``start``: what has been read of them."""
        now = time.monotonic()
        self.looks += 1
        for partition, end in known.items():
            before = self.known.get(partition)
            if before is None or end != before:
                self.since[partition] = now
            if end > (start[partition] if before is None else before):
                self.look[partition] = self.looks
        self.known = dict(known)
        last = max(self.look.values(), default=0)
        return {
            partition
            for partition, since in self.since.items()
            if now - since >= self.patience and self.look.get(partition, 0) < last
        }


class Range(InputPartition):
    """Offsets of one partition, from ``start`` and before ``until``; of an idle one, none."""

    def __init__(self, partition: int, start: int, until: int, parts: int, idle: bool) -> None:
        self.row = (partition, start, until, parts, idle)


class TopicReader(DataSourceStreamReader):
    """Tells Spark which offsets there are; see :class:`Place`. ``id``: of the topic that the run began with."""

    def __init__(self, address: Address, until: Mapping[int, int] | None, id: str) -> None:
        self.address, self.until, self.id = address, until, id
        self.silence = None if address.idle is None else Silence(address.idle)

    def __reduce__(self) -> tuple[Any, ...]:  # without the connection
        return TopicReader, (self.address, self.until, self.id)

    @cached_property
    def watch(self) -> Watch:
        """The connection, where Spark plans micro-batches."""
        return Watch(self.address)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins: the records that there are."""
        return told(lambda: Place(self.watch.offsets(self.partitions_of_topic(), first=True)).logged)

    def partitions_of_topic(self) -> tuple[int, ...]:
        """Its partitions. Raises :class:`RunError` ``TT218`` when it is another topic."""
        topic = self.watch.described()
        if topic is None:
            raise self.address.changed("it is gone")
        if topic.id != self.id:
            raise self.address.changed("it was removed and made anew")
        return topic.partitions

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends."""
        return told(lambda: self.end(Place.of(start)).logged)

    def end(self, place: Place) -> Place:
        """The same as a place."""
        start = place.next
        if (
            self.until is not None
            and start.keys() == self.until.keys()
            and all(start[p] >= self.until[p] for p in start)
        ):
            return place
        partitions = self.partitions_of_topic()
        for before in (start, start if self.until is None else self.until):
            if set(partitions) != set(before):
                raise self.address.changed(f"it had {len(before)} partitions and has {len(partitions)}")
        known, first = self.watch.offsets(partitions), self.watch.offsets(partitions, first=True)
        for partition, at in start.items():
            if not first[partition] <= at <= known[partition]:
                held = f"it holds those from {first[partition]} to {known[partition]}"
                raise self.address.changed(f"the next record of partition {partition} was {at}, and {held}")
        ends = {p: max(at, known[p] if self.until is None else min(known[p], self.until[p])) for p, at in start.items()}
        if self.address.records is not None:
            share = max(1, self.address.records // len(ends))
            ends = {partition: min(end, start[partition] + share) for partition, end in ends.items()}
        idle: set[int] = set()
        if self.silence is not None:
            # Who was idle is so until it sends something: the clock of an earlier process is not known.
            silent = self.silence.of(known, start) | place.idle
            idle = {partition for partition in silent if known[partition] == start[partition]}
        found = Place(ends, frozenset(idle))
        if found == place:
            time.sleep(PAUSE)  # Spark would ask again at once
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
        """A task for each partition with new records, or that is idle."""
        before, after = Place.of(start).next, Place.of(end)
        return [
            Range(partition, at, after.next[partition], len(before), partition in after.idle)
            for partition, at in before.items()
            if after.next[partition] > at or partition in after.idle
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int, int, bool]]:
        """The range itself: :class:`TopicScan` reads the records."""
        assert isinstance(partition, Range)
        yield partition.row
        settle()


# ------------------------------------------------------------------------------------------------- workers


class TopicScan(Scan):
    """Records. In: ``partition``, ``start``, ``until``, how many partitions there are: ``parts``, and whether this one is
    ``idle``."""

    def __init__(self, end: End, address: Address) -> None:
        super().__init__(end)
        self.address, self.parts, self.idle = address, 1, False

    def part_of(self, piece: Piece) -> tuple[int, int, bool]:
        """A partition is a part."""
        return piece[0], self.parts, self.idle

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Reads the records of each range."""
        row_of = record_reader(self.leaf.source, self.leaf.layout)
        format = self.leaf.source.format if isinstance(self.leaf.source.format, Kafka) else Kafka()

        def one(message: Message) -> Taken:
            row = row_of(message.key(), message.value(), message.headers() or ())
            return Taken(row, partial(shown, message))

        together = self.together(read, format, one)

        def take(partition: int, start: int, until: int) -> Iterator[Taken | Chunk]:
            held: list[Message] = []
            for message in records(self.address, partition, start, until):
                if any(name == format.marker for name, _ in message.headers() or ()):
                    yield from together(held)
                    yield one(message)
                    held = []
                else:
                    held.append(message)
                    if len(held) == AT_ONCE:
                        yield from together(held)
                        held = []
            yield from together(held)

        for batch in batches:
            for row in batch.to_pylist():
                self.parts, self.idle = row["parts"], row["idle"]
                taken = iter(()) if self.idle else take(row["partition"], row["start"], row["until"])
                yield (row["partition"], row["start"], 0), taken

    def together(
        self, read: Callable[[Any, Any], Row], format: Kafka, one: Callable[[Message], Taken]
    ) -> Callable[[Sequence[Message]], Iterator[Taken | Chunk]]:
        """Takes records that are no markers."""
        layout = self.leaf.layout.zoned(format.zone)
        if not isinstance(layout.value, Record) or not layout.opened or format.headers:
            return lambda messages: map(one, messages)
        names = [name for name, _ in layout.value.fields]
        fits = [fit_of_json(schema) for _, schema in layout.value.fields]
        if layout.keyed:
            fits = [Fit(lambda cells: None, lambda raw: of_bytes(layout.key, raw, ".key")), *fits]

        def cells(messages: Sequence[Message]) -> tuple[list[int], list[list[Any]]]:
            kept, columns = columns_of_json([decoded(message.value()) for message in messages], names)
            if layout.keyed:
                columns = [[messages[at].key() for at in kept], *columns]
            return kept, columns

        return in_columns(self.leaf, read, Dialect(cells, fits, one), self.verifier)


def records(address: Address, partition: int, start: int, until: int) -> Iterator[Message]:
    """The committed records of a range of offsets."""
    from confluent_kafka import KafkaError, TopicPartition

    final = (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTHENTICATION,
    )
    with address.trouble(), _consumer(address) as consumer:
        consumer.assign([TopicPartition(address.topic, partition, start)])
        following, silent, trouble = start, 0.0, ""
        while following < until:
            # The client waits until it has that many: never for more than there are, unless offsets are missing.
            asked = time.monotonic()
            messages = consumer.consume(min(POLLED, until - following), timeout=0.25)
            silent += time.monotonic() - asked
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    if message.partition() != partition or offset < following:
                        continue
                    silent = 0.0
                    following = offset if error is not None else offset + 1
                    if error is None and offset < until:
                        yield message
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise address.changed(f"the records of partition {partition} from {following} are gone")
                elif error.fatal() or error.code() in final:
                    raise address.unreadable(error.str())
                else:
                    trouble = f": {error.str()}"  # the client tries again by itself
            if silent > PATIENCE:
                raise address.unreadable(f"no answer for {PATIENCE:.0f} seconds{trouble}")


_CONSUMERS: dict[str, Consumer] = {}
"""What this process keeps for the next range of the same broker, with its connections."""


@contextmanager
def _consumer(address: Address) -> Iterator[Consumer]:
    """A client without partitions. It is kept, unless something went wrong inside."""
    from confluent_kafka import Consumer

    known = json.dumps(address.settings(), sort_keys=True)
    consumer: Consumer = _CONSUMERS.pop(known, None) or address.client(
        Consumer,
        {
            "group.id": "tracetypes",  # nobody joins it: partitions are assigned by hand
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        },
    )
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    if known in _CONSUMERS:
        consumer.close()
    else:
        _CONSUMERS[known] = consumer


def shown(message: Message) -> str:
    """A record for the reject output."""
    text = {name: None if raw is None else raw.decode("utf-8", "backslashreplace") for name, raw in _raw(message)}
    place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    return json.dumps({**place, **text}, ensure_ascii=False)


def _raw(message: Message) -> list[tuple[str, bytes | None]]:
    return [("key", message.key()), ("value", message.value())]


# ---------------------------------------------------------------------------------------------------- sink


class TopicSink:
    """A topic that the rows of a sink go to, each micro-batch once."""

    def __init__(self, plan: Plan, text: str, run: str) -> None:
        self.plan, self.address, self.run = plan, Address.of(text), run
        if isinstance(plan.sink.format, Csv | Parquet):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: records of a topic are not {type(plan.sink.format).__name__}",
                fix="declare format=kafka(...) or no format: records are JSON",
            )
        self.format = plan.sink.format if isinstance(plan.sink.format, Kafka) else Kafka()
        self.write = record_writer(self.format, plan.layout)
        self.partitions = Watch(self.address, writing=True).topic().partitions
        self.transactions = Transactions(self.address, f"tracetypes-{run}-{plan.sink.name}", self.partitions[0])

    def put(self, batch: int, items: Iterable[tuple[int, int, Any, Any]], markers: Sequence[int]) -> None:
        """Send a batch, unless it was sent before. ``items``: end of block, position, key and value of each."""
        records = [(end, position, *self.write(key, value)) for end, position, key, value in items]
        # The same order whenever the batch is sent, so that a record's number means the same.
        records.sort(key=lambda one: (one[0], one[1], one[2] or b"", one[3] or b"", one[4]))
        told = markers if self.format.markers else ()
        self.transactions.once(batch, lambda producer: self.send(producer, batch, records, told))

    def send(self, producer: Producer, batch: int, records: Sequence[Any], markers: Sequence[int]) -> None:
        """Records, and each marker behind its block."""
        sink, waiting = self.plan.sink, list(markers)
        # Without keys the order of an ordered stream is that of one partition.
        alone = {"partition": self.partitions[0]} if self.plan.edge.ordered and not self.plan.layout.keyed else {}
        for number, (end, position, key, value, headers) in enumerate(records):
            while waiting and waiting[0] < end:
                self.mark(producer, waiting.pop(0))
            named = [*headers, ("tracetypes-id", f"{self.run}/{batch}/{number}".encode())]
            if sink.marker is not None:
                named.append((sink.marker, _instant(end)))
            if sink.position is not None:
                named.append((sink.position, str(position).encode()))
            self.produce(producer, value=value, key=key, headers=named, **alone)
        for marker in waiting:
            self.mark(producer, marker)

    def mark(self, producer: Producer, marker: int) -> None:
        """A marker to every partition."""
        for partition in self.partitions:
            self.produce(producer, partition=partition, headers=[(self.format.marker, _instant(marker))])

    def produce(self, producer: Producer, **record: Any) -> None:
        """A record."""
        produce(producer, self.address.topic, **record)


class Transactions:
    """Sends the micro-batches of a run to a topic, each once. ``name``: by which the broker knows whoever sends for this run, and
    the group whose offset in ``partition`` is the number of the next micro-batch."""

    def __init__(self, address: Address, name: str, partition: int) -> None:
        self.address, self.partition = address, partition
        self.name = name.encode("ascii", "backslashreplace").decode()  # the client takes no others

    @cached_property
    def producer(self) -> Producer:
        """The only one that writes for this run: an earlier one that still lives is shut out, its transaction aborted."""
        from confluent_kafka import Producer

        settings = {
            "transactional.id": self.name,
            "transaction.timeout.ms": 600_000,
            "partitioner": "murmur2_random",  # as of Java's clients: a key goes where they would send it
        }
        producer = self.address.client(Producer, settings)
        patiently(producer.init_transactions)
        return producer

    @cached_property
    def group(self) -> Consumer:
        """The group whose offset is the number of the next batch. It never reads."""
        from confluent_kafka import Consumer

        settings = {"group.id": self.name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        return self.address.client(Consumer, settings)

    def once(self, batch: int, send: Callable[[Producer], None]) -> None:
        """Send a batch, unless it was sent before. Raises :class:`RunError` ``TT209``, also when the broker has not answered for
        :data:`PATIENCE` and :data:`PARTING`. Whether the batch went through then is asked when it is sent again."""
        from confluent_kafka import KafkaException, TopicPartition

        with self.address.trouble(writing=True):
            producer = self.producer
            if self.holds(batch):
                return
            place = TopicPartition(self.address.topic, self.partition)
            producer.begin_transaction()
            try:
                send(producer)
                delivered(producer)
                place.offset = batch + 1
                group = self.group.consumer_group_metadata()
                patiently(lambda left: producer.send_offsets_to_transaction([place], group, left))
                patiently(producer.commit_transaction)
            except KafkaException:
                with suppress(KafkaException):  # the first error says more
                    producer.abort_transaction(PARTING)
                raise

    def holds(self, batch: int) -> bool:
        """Was a batch sent? Raises :class:`RunError` ``TT209``."""
        from confluent_kafka import TopicPartition

        with self.address.trouble(writing=True):
            place = TopicPartition(self.address.topic, self.partition)
            (known,) = patiently(lambda left: self.group.committed([place], left))
            return bool(known.offset > batch)

    def put(self, batch: int, records: Iterable[Mapping[str, Any]]) -> None:
        """Send records as a batch, unless it was sent before."""

        def send(producer: Producer) -> None:
            for record in records:
                produce(producer, self.address.topic, **record)

        self.once(batch, send)


def produce(producer: Producer, topic: str, **record: Any) -> None:
    """Send a record, when there is room for it."""
    while True:
        try:
            producer.produce(topic, **record)
        except BufferError:
            delivered(producer, some=True)
        else:
            return


def delivered(producer: Producer, *, some: bool = False) -> None:
    """Wait until all records are delivered, or ``some``. Raises KafkaException when none was for :data:`PATIENCE`."""
    from confluent_kafka import KafkaError, KafkaException

    left, until = len(producer), time.monotonic() + PATIENCE
    while left:
        if some:
            producer.poll(PAUSE)
        else:
            producer.flush(PAUSE)
        after = len(producer)
        if after < left:
            if some:
                return
            until = time.monotonic() + PATIENCE
        elif time.monotonic() > until:
            raise KafkaException(
                KafkaError(KafkaError._TIMED_OUT, f"the broker took no record for {PATIENCE:.0f} seconds")
            )
        left = after


def patiently(call: Callable[[float], T]) -> T:
    """What a call gives that is told how many seconds are left of :data:`PATIENCE`. It is tried again where the broker is busy
    with itself, such as at the first transaction of its life, or with a topic that was made a moment ago."""
    from confluent_kafka import KafkaError, KafkaException

    busy = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call(max(PAUSE, until - time.monotonic()))
        except KafkaException as error:
            cause = error.args[0] if error.args else None
            again = isinstance(cause, KafkaError) and (cause.retriable() or cause.code() in busy)
            if not again or time.monotonic() > until:
                raise
            time.sleep(PAUSE)


def _instant(micros: int) -> bytes:
    return Marker(micros).datetime.isoformat().encode()

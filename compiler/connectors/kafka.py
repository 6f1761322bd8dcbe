"""Topics of Kafka: addresses, what a broker says of a topic, and records of a partition."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from tracetypes.compiler.connectors.fences import fenced
from tracetypes.errors import RunError, UsageError
from tracetypes.redaction import conceal

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

__all__ = [
    "PARTING",
    "PATIENCE",
    "PAUSE",
    "PLAINTEXT",
    "POLLED",
    "SCHEME",
    "Address",
    "C",
    "Described",
    "T",
    "Watch",
    "patiently",
    "records",
    "require_client",
    "shown",
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


_CONSUMERS: dict[str, Consumer] = {}
"""What this process keeps for the next range of the same broker, with its connections."""

C = TypeVar("C")


T = TypeVar("T")


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
        from confluent_kafka import KafkaError, KafkaException

        try:
            yield
        except KafkaException as error:
            shut_out = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
            if writing and isinstance(error.args[0], KafkaError) and error.args[0].code() in shut_out:
                raise fenced(self.text, "it has started since, and has shut this one out") from error
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

HANDSHAKE = re.compile(r"closed by peer .*SSL_HANDSHAKE")
"""What it says now and then of the same broker, and of others that break off."""


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
        known = bool(self.errors) and PLAINTEXT.search(self.errors[-1])  # a later error says less
        if error.code() != error._ALL_BROKERS_DOWN and not known:
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
            elif HANDSHAKE.search(why):
                why += ". The broker may speak plaintext there, and security.protocol asks for another protocol"
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


def _raw(message: Message) -> list[tuple[str, bytes | None]]:
    return [("key", message.key()), ("value", message.value())]

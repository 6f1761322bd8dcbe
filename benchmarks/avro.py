"""Records of a topic as Avro with a schema in a registry, beside the same records as JSON: rows a second and core.

    python -m benchmarks.avro [--rows N] [--runs N] [--broker]

Records that are in memory become columns of a source, on one thread, warm; medians of the processor time. That is what a worker
does with records that the client has given it; the broker and the client are not in it, and cost both sides the same.
``plain``: seven fields. ``mixed``: times, floats of 16 and 17 digits, an optional text that is not ASCII. ``wide``: twenty
fields, of which the source names seven. ``fastavro``: the same records read one by one by fastavro into dicts, and nothing else
done. The registry is a fake on loopback, which is asked once.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import fastavro

from benchmarks._compare import say
from tests.fake_registry import FakeRegistry, fake_registry
from tests.spark.broker import running
from tracetypes import Dataflow, U, check, every
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_records import RecordReader
from tracetypes.compiler.connectors.registered_records import TopicSchemas
from tracetypes.compiler.plan.plan import FromSource, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.foreign_schemas import schema_text
from tracetypes.schemas import schema_of

MICROS = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@attrs.frozen
class Plain:
    key: int
    ts: int
    user: str
    page: str
    amount: float
    ok: bool
    count: int


@attrs.frozen
class Mixed:
    key: int
    ts: int
    at: dt.datetime
    user: str
    note: str | None
    amount: float
    size: float | None


SHAPES: dict[str, type[Any]] = {"plain": Plain, "mixed": Mixed, "wide": Plain}


@attrs.frozen
class Message:
    """A record of Kafka, as the client gives it."""

    raw: bytes

    def key(self) -> None:
        """None."""

    def value(self) -> bytes:
        """The bytes."""
        return self.raw

    def headers(self) -> None:
        """None."""


def row(shape: str, n: int, some: random.Random) -> dict[str, Any]:
    """A row of a shape."""
    if shape == "mixed":
        at = EPOCH + dt.timedelta(days=20_000, milliseconds=n)
        note = None if n % 7 == 0 else "naïve café" if n % 7 == 1 else f"note {n % 50}"
        size = some.random() * 100 if n % 3 else None
        return {"key": n % 100, "ts": n, "at": at, "user": f"user {n % 1000}", "note": note, "amount": some.random(), "size":
        size}
    plain = {
        **{"key": n % 100, "ts": n, "user": f"user {n % 1000}", "page": f"/page/{n % 97}"},
        **{"amount": round(some.random() * 100, 2), "ok": n % 2 == 0, "count": n % 12},
    }
    if shape == "wide":
        plain |= {f"more{at}": f"text {n % 31}" if at % 2 else n * at for at in range(13)}
    return plain


def schema(shape: str) -> Any:
    """The writer's schema."""
    made = json.loads(schema_text(schema_of(SHAPES[shape]), "avro"))
    if shape == "wide":
        made["fields"] += [{"name": f"more{at}", "type": "string" if at % 2 else "long"} for at in range(13)]
    return made


def leaf_of(shape: str) -> FromSource:
    """The source of a flow."""
    flow = Dataflow("avro")
    cls: Any = SHAPES[shape]
    flow.sink("out", flow.source("rows", U[int, cls], key=lambda r: r.key, markers=every(seconds=60, time=lambda r: r.ts)))
    (link,) = links(plan(check(flow)).stages[0].region)
    assert isinstance(link, SourceLink)
    return link.leaf


def seconds(call: Callable[[], Any], runs: int) -> float:
    """The median of its processor time, warm."""
    times = []
    for _ in range(runs + 1):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    return statistics.median(times[1:])


def compare(shape: str, rows: int, runs: int, registry: FakeRegistry) -> None:
    """Both sides of a shape."""
    some, leaf, writer = random.Random(7), leaf_of(shape), schema(shape)
    number = registry.add(f"{shape}-value", writer)
    made, parsed = [row(shape, n, some) for n in range(rows)], fastavro.parse_schema(writer)
    texts = [Message(json.dumps(one, default=dt.datetime.isoformat).encode()) for one in made]
    coded = [Message(b"\0" + number.to_bytes(4, "big") + payload(parsed, one)) for one in made]
    there = Address.of(f"kafka://broker:1/{shape}?value=avro&registry={registry.url}")
    schemas = TopicSchemas.of(there, None, leaf.layout, "source 'rows'")
    readers = {"json": (RecordReader(leaf, there), texts), "avro": (RecordReader(leaf, there, schemas=schemas), coded)}

    def read(kind: str) -> int:
        reader, messages = readers[kind]
        return sum(len(one.stamps) if isinstance(one, Chunk) else 1 for part in parts(messages) for one in reader.together(part))

    def by_hand() -> None:
        for one in coded:
            fastavro.schemaless_reader(io.BytesIO(one.raw[5:]), parsed, None)

    assert {kind: read(kind) for kind in readers} == dict.fromkeys(readers, rows)
    took = {kind: seconds(lambda kind=kind: read(kind), runs) for kind in readers} | {"fastavro": seconds(by_hand, runs)}  # type: ignore[misc]
    say(
        benchmark="avro",
        shape=shape,
        rows=rows,
        **{f"{kind}_rows_per_second": round(rows / one) for kind, one in took.items()},
        avro_beside_json=round(took["json"] / took["avro"], 2),
        avro_beside_fastavro=round(took["fastavro"] / took["avro"], 2),
        bytes_of_avro_beside_json=round(sum(len(one.raw) for one in coded) / sum(len(one.raw) for one in texts), 2),
    )


def compare_with_broker(rows: int, runs: int, registry: FakeRegistry) -> None:
    """The records of ``plain`` in topics of a real broker: with what its client costs."""
    from confluent_kafka import Producer

    some, leaf, writer = random.Random(7), leaf_of("plain"), schema("plain")
    number = registry.add("in-avro-value", writer)
    made, parsed = [row("plain", n, some) for n in range(rows)], fastavro.parse_schema(writer)
    front = b"\0" + number.to_bytes(4, "big")
    raws = {"json": [json.dumps(one).encode() for one in made], "avro": [front + payload(parsed, one) for one in made]}
    took: dict[str, float] = {}
    with running() as broker:
        for kind, sent in raws.items():
            producer = Producer({"bootstrap.servers": broker.address, "queue.buffering.max.messages": 2 * rows})
            text = broker.create(f"in-{kind}", 1)
            for one in sent:
                producer.produce(f"in-{kind}", one, partition=0)
            producer.flush()
            there = Address.of(f"{text}?value=avro&registry={registry.url}" if kind == "avro" else text)
            reader = RecordReader(leaf, there, schemas=TopicSchemas.of(there, None, leaf.layout, "source 'rows'"))
            took[kind] = seconds(lambda reader=reader: sum(1 for _ in reader.read(0, 0, rows)), runs)  # type: ignore[misc]
    say(
        benchmark="avro with a broker",
        shape="plain",
        rows=rows,
        **{f"{kind}_rows_per_second": round(rows / one) for kind, one in took.items()},
        avro_beside_json=round(took["json"] / took["avro"], 2),
    )


def payload(parsed: Any, one: dict[str, Any]) -> bytes:
    """A row of Avro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, one)
    return out.getvalue()


def parts(messages: Sequence[Message]) -> Any:
    """As many as a worker looks at together."""
    return (messages[at : at + 50_000] for at in range(0, len(messages), 50_000))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--broker", action="store_true", help="also from a real broker, which is started")
    given = parser.parse_args()
    with fake_registry() as registry:
        for shape in given.shapes.split(","):
            compare(shape, given.rows, given.runs, registry)
        if given.broker:
            compare_with_broker(given.rows, given.runs, registry)


if __name__ == "__main__":
    main()

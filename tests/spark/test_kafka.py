"""Kafka against a real broker: keys, partitions, headers, markers, transactions; cut into micro-batches in several ways."""

from __future__ import annotations

import ast
import ctypes
import gc
import importlib.util
import io
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.fake_registry import FakeRegistry, fake_registry
from tests.spark import dags
from tests.spark.broker import Broker, Record, answers, running
from tests.spark.flows import TEN, Named, Reading, Sum, here, ts_of
from tests.spark.maven import Unavailable
from tests.spark.support import Cli, differences, rows_at_sink, side_outputs, write_lines
from tests.spark.test_asides import together
from tests.spark.test_changed import Changing, Mended, shared
from tests.spark.test_dags import Job
from tests.spark.test_exactly_once import Crash, crashing
from tracetypes import ROW_POSITION, Dataflow, O, RunError, U, Unit, UsageError, check, every, in_band, interpret, kafka
from tracetypes.arrangement import Arranged, arrange_parts, streams_of
from tracetypes.compiler.columns.batches import Batch as Encoded
from tracetypes.compiler.columns.batches import rows
from tracetypes.compiler.connectors import kafka as topics_of_kafka
from tracetypes.compiler.connectors import kafka_records
from tracetypes.compiler.connectors.kafka_clients import RANGE_CLIENTS, STAYING, RangeClient
from tracetypes.compiler.connectors.kafka_sink import TopicSink, Transactions
from tracetypes.compiler.connectors.kafka_topic import Watch, free_id
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.messages import Message, Rows, StageProgress
from tracetypes.compiler.spark.channels import reader_of
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.kafka import TopicInput
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.run import Batch, collect, run
from tracetypes.compiler.spark.wire import SentError
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.output_interface import SideOutputs
from tracetypes.compiler.store.outputs import FileOutput, MemoryOutput, open_output
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.starts import next_start
from tracetypes.compiler.store.topic_channel import KIND, ChannelSplits, TopicChannel, Topics
from tracetypes.sources import record_reader
from tracetypes.trace import Element, Trace, closed


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker for the tests of this module."""
    try:
        with running() as one:
            yield one
    except Unavailable as why:
        pytest.skip(str(why))


# ---------------------------------------------------------------------------------------------------- flows


def summing() -> Dataflow:
    """Readings summed by the record's key, which is not the reading's id: that comes from a header."""
    flow = Dataflow("sums")
    markers = every(seconds=10, time=ts_of, delay=10)
    rows = flow.source("readings", U[str, Reading], markers=markers, format=kafka(headers=["id"]))
    flow.sink("sums", rows.through(Sum()), marker="at")
    return flow


def passing() -> Dataflow:
    """The same without an operator: rows go straight to the sink."""
    flow = Dataflow("passing")
    markers = every(seconds=10, time=ts_of, delay=10)
    flow.sink("out", flow.source("readings", U[str, Reading], markers=markers, format=kafka(headers=["id"])))
    return flow


def passing_files() -> Dataflow:
    """The same of what may lie in files too."""
    flow = Dataflow("passing")
    flow.sink("out", flow.source("readings", U[Unit, Reading], markers=TEN))
    return flow


def ordered(markers: Any = TEN) -> Dataflow:
    """The order of a key is that of the offsets."""
    flow = Dataflow("ordered")
    rows = flow.source("readings", O[str, Reading], markers=markers, ordered_by=ROW_POSITION)
    flow.sink("out", rows.through(Named()), marker="at", position="nth")
    return flow


topic_sums = summing()
topic_passing = passing_files()
MODULE = "tests.spark.test_kafka"

# ------------------------------------------------------------------------------------------------------ data


def record(key: str, ts: int, watts: int, partition: int) -> Record:
    """A reading whose id is in a header."""
    value = json.dumps({"ts": ts, "watts": watts}).encode()
    return Record(value, key.encode(), partition, (("id", f"id of {key}".encode()),))


def whole(key: str, ts: int, watts: int, partition: int) -> Record:
    """A reading that is all value."""
    return Record(json.dumps({"id": key, "ts": ts, "watts": watts}).encode(), key.encode(), partition)


def marker(ts: object, partition: int) -> Record:
    """A marker, or a heartbeat."""
    return Record(None, None, partition, (("tracetypes-marker", str(ts).encode()),))


def disorder(partitions: int, count: int) -> list[Record]:
    """Records whose times lie apart from partition to partition, some late, some not to be read."""
    chance = random.Random(7)
    clocks = [at * 70 for at in range(partitions)]
    sent: list[Record] = []
    for at in range(count):
        partition = chance.randrange(partitions)
        clocks[partition] += chance.randrange(4)
        sent.append(record(chance.choice("abcde"), clocks[partition] - chance.choice((0, 0, 0, 5, 40)), at, partition))
    bad = [
        Record(b"{", b"k", 1),
        Record(b'{"ts": 1, "watts": 2}', b"k", 1),
        Record(b'{"ts": 1, "watts": 2}', None, 0, (("id", b"x"),)),
        Record(None, b"k", 2, (("id", b"x"),)),
        marker("soon", 0),
    ]
    for one in [*bad, *[marker(at, partitions - 1) for at in (100, 150, 400)]]:
        sent.insert(chance.randrange(len(sent)), one)
    return sent


def defined(flow: Dataflow, records: Sequence[Record], partitions: int, *, drain: bool = True) -> Any:
    """What the interpreter says of records: MRG of what each partition sends."""
    checked = check(flow)
    arranged: dict[str, Arranged] = {}
    for source in checked.graph.sources:
        read = record_reader(source, checked.layout(source))
        parts = [[read(r.key, r.value, r.headers) for r in records if r.partition == at] for at in range(partitions)]
        arranged[source.name] = arrange_parts(source, parts, drain=drain)
    traces = interpret(checked, streams_of(arranged), complete=drain)
    (trace,) = traces.values()
    result: tuple[Trace[Element], dict[str, Arranged]] = (trace if drain else closed(trace)), arranged
    return result


# ----------------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize(
    ("flow", "most"),
    [pytest.param(*case, marks=pytest.mark.repeated) for case in ((summing, None), (summing, 30), (passing, 45))],
)
def test_the_answer_does_not_depend_on_micro_batches(
    spark: SparkSession, broker: Broker, flow: Any, most: int | None
) -> None:
    sent = disorder(3, 120)
    topic = f"{flow.__name__}-{most}"
    address = broker.create(topic, 3)
    broker.send(topic, sent)
    planned = plan(check(flow()), parallelism=2, key_groups=4)
    batches: list[Batch] = []
    options = "" if most is None else f"?records={most}"
    answer = collect(spark, planned, {"readings": address + options}, on_batch=batches.append).answer
    expected = defined(flow(), sent, 3)
    assert differences(flow(), answer, expected) == []
    assert len(answer.late) > 5
    assert len(batches) > (2 if most else 0)
    texts = [json.loads(text) for _, _, text in answer.rejects]
    (broken,) = [text for text in texts if text["value"] == "{"]
    at = [one.value for one in sent if one.partition == 1].index(b"{")
    assert broken == {"topic": topic, "partition": 1, "offset": at, "key": "k", "value": "{"}


@pytest.mark.repeated
def test_late_records_and_rejects_are_streams(spark: SparkSession, broker: Broker) -> None:
    """The topic is read once for each: three readings in one plan, each partition with a progress of its own in each."""
    sent = disorder(3, 120)
    address = broker.create("side_outputs", 3)
    broker.send("side_outputs", sent)
    flow = together(key=None, format=kafka(headers=["id"]))
    answer = collect(
        spark, plan(check(flow), parallelism=2, key_groups=4), {"readings": f"{address}?records=45"}
    ).answer
    assert differences(flow, answer, defined(flow, sent, 3)) == []
    assert len(answer.late) > 5


@pytest.mark.repeated
def test_a_run_goes_on_where_it_was(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Bounded runs read what is there when they start. What was not committed by a transaction is not there."""
    flow = ordered(in_band())
    address = broker.create("on", 2)
    planned = plan(check(flow), parallelism=2, key_groups=4)
    output = MemoryOutput(planned)
    first = [whole("a", 1, 5, 0), whole("b", 2, 6, 1), marker(10, 0), whole("a", 3, 8, 0), marker(10, 1), marker(15, 0)]
    then = [
        whole("b", 20, 1, 1),
        whole("a", 20, 2, 0),
        marker(15, 1),
        marker(20, 0),
        whole("a", 24, 3, 0),
        marker(9, 1),
    ]
    broker.send("on", first, transaction=True)
    broker.send("on", [whole("a", 1, 1000, 0), marker(1000, 1)], transaction=False)
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    run(spark, planned, {"readings": address}, output, drain=False, **options)
    assert differences(flow, output.answer, defined(flow, first, 2, drain=False)) == []
    broker.send("on", then, transaction=True)
    run(spark, planned, {"readings": address + "?records=4"}, output, **options)
    assert differences(flow, output.answer, defined(flow, [*first, *then], 2)) == []


@pytest.mark.repeated
def test_offsets_are_an_order(spark: SparkSession, broker: Broker) -> None:
    sent = [whole("abc"[at % 3], at // 4, at * at % 17, at % 3 % 2) for at in range(60)]
    address = broker.create("order", 2)
    broker.send("order", sent)
    planned = plan(check(ordered()), parallelism=2, key_groups=4)
    answer = collect(spark, planned, {"readings": f"{address}?records=20"}).answer
    assert differences(ordered(), answer, defined(ordered(), sent, 2)) == []


@pytest.mark.repeated
def test_records_that_come_later_are_followed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    address = broker.create("followed", 1)
    broker.send("followed", [whole("a", 1, 1, 0), marker(10, 0)])
    output = MemoryOutput(plan(check(ordered(in_band()))))
    more = iter([[whole("a", 11, 2, 0), marker(20, 0)]])

    def told(batch: Batch) -> None:
        for records in more:
            broker.send("followed", records)
            return
        raise RunError("TT214", "that is enough", fix="none")

    with pytest.raises(RunError, match="that is enough"):
        run(spark, output.plan, {"readings": address}, output, checkpoint=str(tmp_path), follow=True, on_batch=told)
    sent = [whole("a", 1, 1, 0), marker(10, 0), whole("a", 11, 2, 0), marker(20, 0)]
    assert differences(ordered(), output.answer, defined(ordered(in_band()), sent, 1, drain=False)) == []


def given_up_and_gone_on(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    topic: str,
    flow: Dataflow,
    late: Sequence[Record],
    *,
    marker_at: int,
) -> None:
    """Partition 1 is silent until the run gives it up, and is stopped. A run whose own clock would decide nothing does the
    micro-batch in which that was decided again, and goes on with what then comes: ``late``, and more."""
    address = broker.create(topic, 2)
    first = [record("a", 1, 1, 0), record("a", 45, 2, 0)]
    broker.send(topic, first)
    output = MemoryOutput(plan(check(flow), parallelism=2, key_groups=4))

    def told(batch: Batch) -> None:
        if batch.markers:
            raise RunError("TT214", "that is enough", fix="none")

    options: dict[str, Any] = {"checkpoint": str(tmp_path)}
    with pytest.raises(RunError, match="that is enough"):
        run(spark, output.plan, {"readings": f"{address}?idle=1"}, output, follow=True, on_batch=told, **options)
    then = [*late, record("b", 41, 8, 1), record("a", 70, 16, 0)]
    broker.send(topic, then)
    run(spark, output.plan, {"readings": f"{address}?idle=1000"}, output, **options)
    assert len(output.answer.late) == 1
    assert differences(flow, output.answer, defined(flow, [*first, marker(marker_at, 1), *then], 2)) == []


@pytest.mark.repeated
def test_a_silent_partition_is_given_up_and_that_is_not_decided_again(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    late = [record("b", 5, 4, 1)]
    given_up_and_gone_on(spark, broker, tmp_path, "silent", summing(), late, marker_at=30)


@pytest.mark.repeated
def test_late_records_are_a_stream_where_a_silent_partition_was_given_up(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Each reading of the topic gives it up at the same place, and what came of it too late is told of as a stream."""
    flow = together(key=None, format=kafka(headers=["id"]))
    late = [record("b", 5, 4, 1), Record(b"{", b"k", 1)]
    given_up_and_gone_on(spark, broker, tmp_path, "silent-late", flow, late, marker_at=40)


def test_TT402_markers_in_band_are_waited_for(spark: SparkSession, broker: Broker) -> None:
    address, planned = broker.create("marked-idle", 1), plan(check(ordered(in_band())))
    with pytest.raises(UsageError, match="has markers in band, which no clock can stand for") as refused:
        collect(spark, planned, {"readings": f"{address}?idle=1"})
    assert refused.value.code == "TT402"


def test_ranges_are_read_by_one_client(broker: Broker) -> None:
    address = topics_of_kafka.Address.of(broker.create("ranges", 2))
    broker.send("ranges", [record(f"{at // 2}", at, at, at % 2) for at in range(200)])

    def found(partition: int, start: int, until: int) -> list[tuple[int, bytes | None]]:
        return [(m.offset(), m.key()) for m in kafka_records.records(address, partition, start, until)]

    def wanted(start: int, until: int) -> list[tuple[int, bytes]]:
        return [(at, str(at).encode()) for at in range(start, until)]

    assert found(0, 0, 3) == wanted(0, 3)
    kept = set(RANGE_CLIENTS.idle)
    assert found(1, 40, 100) == wanted(40, 100)
    assert found(0, 3, 50) == wanted(3, 50)
    assert found(0, 1, 2) == wanted(1, 2)
    assert set(RANGE_CLIENTS.idle) == kept
    together = [kafka_records.records(address, partition, 0, 2) for partition in (0, 1)]
    assert [next(one).partition() for one in (*together, *together)] == [0, 1, 0, 1]  # two at once
    assert [list(one) for one in together] == [[], []]
    both = set(RANGE_CLIENTS.idle)
    assert both >= kept
    for _ in range(2):
        together = [kafka_records.records(address, partition, 0, 2) for partition in (0, 1)]
        assert [next(one).partition() for one in (*together, *together)] == [0, 1, 0, 1]
        assert [list(one) for one in together] == [[], []]
    assert set(RANGE_CLIENTS.idle) == both  # and none was made for it again
    next(kafka_records.records(address, 0, 0, 50))  # somebody who gives up
    assert found(0, 0, 100) == wanted(0, 100)
    with pytest.raises(RunError, match="from 7000 are gone"):
        found(0, 7_000, 7_001)
    assert found(1, 99, 100) == wanted(99, 100)


Staying: TypeAlias = Callable[[str, int], topics_of_kafka.Address]


@pytest.fixture
def staying(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Staying]:
    """Makes topics, on a machine so fast that nothing comes too late. Nobody stays there at the end."""
    monkeypatch.setattr(kafka_records, "SOON", 20)
    made: list[topics_of_kafka.Address] = []

    def make(name: str, partitions: int) -> topics_of_kafka.Address:
        made.append(topics_of_kafka.Address.of(broker.create(name, partitions)))
        return made[-1]

    yield make
    for one in made:
        RANGE_CLIENTS.leave(one)


@pytest.mark.repeated
@pytest.mark.parametrize("transactions", ["none", "some"])
def test_a_client_stays_behind_its_range(broker: Broker, staying: Staying, transactions: str) -> None:
    """It goes on without being assigned anew, and skips nothing. Not behind the end of a transaction, which is no record."""
    name = f"staying-{transactions}"
    address = staying(name, 2)
    assigned: list[tuple[str, int, int]] = []
    real = RangeClient.assign

    def assign(self: RangeClient, *place: Any) -> None:
        assigned.append(place)
        real(self, *place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RangeClient, "assign", assign)
        chance, ends = random.Random(1), {0: 0, 1: 0}
        for at in range(30):
            partition, count = chance.randrange(2), chance.randrange(1, 9)
            batch = [Record(b"x", f"{ends[partition] + n}".encode(), partition) for n in range(count)]
            in_transaction = transactions == "some" and chance.random() < 0.3
            broker.send(name, batch, transaction=True if in_transaction else None)
            start, until = ends[partition], ends[partition] + count + in_transaction
            found = [m.offset() for m in kafka_records.records(address, partition, start, until, stays=True)]
            assert found == list(range(start, start + count)), at
            ends[partition] = until
    beginnings = [(name, 0, 0), (name, 1, 0)]
    assert sorted(assigned) == beginnings if transactions == "none" else set(beginnings) < set(assigned)
    stay = {one.at for one in RANGE_CLIENTS.idle if one.at is not None and one.at[0] == name}
    assert stay <= {(name, partition, end) for partition, end in ends.items()}
    assert len(stay) == 2 or transactions == "some"
    RANGE_CLIENTS.leave(address)
    assert not any(one.at is not None and one.at[0] == name for one in RANGE_CLIENTS.idle)


def test_no_more_clients_stay_than_it_pays(broker: Broker, staying: Staying) -> None:
    """The ranges of the others are read by one that stays nowhere."""
    count = STAYING + 3
    address = staying("staying-many", count)
    broker.send("staying-many", [Record(b"x", b"0", partition) for partition in range(count)])
    for _ in range(2):
        for partition in range(count):
            assert len(list(kafka_records.records(address, partition, 0, 1, stays=True))) == 1
    stay = [one.at for one in RANGE_CLIENTS.idle if one.at is not None and one.at[0] == "staying-many"]
    assert sorted(stay) == [("staying-many", partition, 1) for partition in range(STAYING)]
    RANGE_CLIENTS.leave(address)
    assert not any(one.at is not None and one.at[0] == "staying-many" for one in RANGE_CLIENTS.idle)


def test_a_client_that_stays_where_nothing_comes_is_assigned_anew(
    broker: Broker, staying: Staying, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = staying("staying-on", 1)
    broker.send("staying-on", [Record(b"x", b"0", 0)])
    assert len(list(kafka_records.records(address, 0, 0, 1, stays=True))) == 1
    (client,) = [one for one in RANGE_CLIENTS.idle if one.at == ("staying-on", 0, 1)]
    client.consumer.unassign()
    monkeypatch.setattr(kafka_records, "SOON", 0.02)
    broker.send("staying-on", [Record(b"x", b"1", 0)])
    assert [m.key() for m in kafka_records.records(address, 0, 1, 2)] == [b"1"]


@pytest.mark.repeated
def test_a_topic_that_has_changed_is_refused(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    address = broker.create("grown", 1)
    broker.send("grown", [record("a", 1, 1, 0)])
    planned = plan(check(summing()))
    options: dict[str, Any] = {"checkpoint": str(tmp_path), "drain": False}
    run(spark, planned, {"readings": address}, MemoryOutput(planned), **options)
    broker.grow("grown", 2)
    with pytest.raises(RunError) as error:
        run(spark, planned, {"readings": address}, MemoryOutput(planned), **options)
    assert error.value.code == "TT218"
    assert error.value.message == f"{address} has changed since the run began: it had 1 partitions and has 2"


@pytest.mark.repeated
def test_TT218_an_input_is_another_than_the_run_began_with(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Another topic, files, a table or a topic of the same name, each with records behind the place where the run is."""
    address, other = broker.create("began-here", 1), broker.create("began-there", 1)
    records = [record("a", at, at, 0) for at in range(5)]
    for topic in ("began-here", "began-there"):
        broker.send(topic, records)
    write_lines(tmp_path / "files" / "a.jsonl", [])
    write_deltalake(tmp_path / "table", pa.Table.from_pylist([{"id": "a", "ts": 1, "watts": 1}]))
    planned, output = plan(check(passing_files())), MemoryOutput(plan(check(passing_files())))

    def go(given: str, checkpoint: str) -> None:
        where = str(tmp_path / checkpoint)
        run(spark, planned, {"readings": given}, output, checkpoint=where, drain=False)

    files, table = str(tmp_path / "files"), f"delta:{tmp_path / 'table'}"
    go(address, "one")
    go(table, "two")
    named = {
        address: "topic began-here",
        other: "topic began-there",
        files: "files",
        table: f"the table in {table[6:]}",
    }
    for given, checkpoint in [(other, "one"), (files, "one"), (table, "one"), (address, "two"), (files, "two")]:
        with pytest.raises(RunError) as error:
            go(given, checkpoint)
        began = named[address if checkpoint == "one" else table]
        assert error.value.code == "TT218"
        assert error.value.message == f"source 'readings': it began with {began}, and is given {named[given]}"
    broker.remake("began-here", 1)
    broker.send("began-here", records * 2)
    with pytest.raises(RunError, match=r"'readings': topic began-here is another one .*: it was removed and made anew"):
        go(address, "one")


@pytest.mark.repeated
def test_TT218_a_topic_is_made_anew_while_it_is_followed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    address = broker.create("remade", 1)
    broker.send("remade", [record("a", 1, 1, 0)])
    planned = plan(check(summing()))

    def told(batch: Batch) -> None:
        assert batch.number == 0
        broker.remake("remade", 1)
        broker.send("remade", [record("b", at, 1, 0) for at in range(3)])

    with pytest.raises(RunError) as error:
        run(
            spark,
            planned,
            {"readings": address},
            MemoryOutput(planned),
            checkpoint=str(tmp_path),
            follow=True,
            on_batch=told,
        )
    assert error.value.code == "TT218"
    assert error.value.message.endswith("has changed since the run began: it was removed and made anew")


def test_TT218_a_partition_is_added_before_the_first_micro_batch(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = broker.create("early", 1)
    broker.send("early", [record("a", 1, 1, 0)])
    planned = plan(check(summing()))
    frame, more = TopicInput.frame, [2]

    def grows(self: TopicInput) -> Any:
        while more:
            broker.grow("early", more.pop())
        return frame(self)

    monkeypatch.setattr(TopicInput, "frame", grows)
    with pytest.raises(RunError, match="it had 1 partitions and has 2") as error:
        run(spark, planned, {"readings": address}, MemoryOutput(planned), checkpoint=str(tmp_path), drain=False)
    assert error.value.code == "TT218"


@pytest.mark.repeated
def test_a_transaction_goes_on_when_its_broker_was_killed_and_is_back(broker: Broker) -> None:
    sent = Transactions(topics_of_kafka.Address.of(broker.create("killed", 1)), "killed", 0)
    sent.put(0, [{"value": b"0", "partition": 0}])

    def send(producer: Any) -> None:
        producer.produce("killed", value=b"1", partition=0)
        assert producer.flush(30) == 0
        broker.node.restart()

    sent.once(1, send)
    sent.put(1, [{"value": b"again", "partition": 0}])
    assert [one.value for one in broker.read("killed")] == [b"0", b"1"]


@pytest.mark.repeated
@pytest.mark.parametrize("flushed", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_TT209_a_transaction_ends_when_its_broker_is_gone(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, flushed: bool
) -> None:
    """Nothing of it is seen, and the batch is sent again."""
    address = topics_of_kafka.Address.of(broker.create(topic := f"gone-{flushed}", 1))
    sent = Transactions(address, topic, 0)
    sent.put(0, [{"value": b"0", "partition": 0}])

    def send(producer: Any) -> None:
        producer.produce(topic, value=b"1", partition=0)
        if flushed:
            assert producer.flush(30) == 0
        broker.node.kill()
        monkeypatch.setattr(topics_of_kafka, "PATIENCE", 1.0)
        monkeypatch.setattr(topics_of_kafka, "PARTING", 0.1)

    with monkeypatch.context(), pytest.raises(RunError) as error:
        sent.once(1, send)
    monkeypatch.undo()
    broker.node.start()
    assert answers(broker.address)
    assert error.value.code == "TT209"
    sent = Transactions(address, topic, 0)
    sent.put(1, [{"value": b"1", "partition": 0}])
    assert [one.value for one in broker.read(topic)] == [b"0", b"1"]


def marking() -> Dataflow:
    """A sink that tells its markers, its blocks and its places."""
    flow = Dataflow("marking")
    rows = flow.source("readings", O[str, Reading], markers=in_band(), ordered_by=ROW_POSITION)
    flow.sink("out", rows, marker="at", position="nth", format=kafka(headers=["id"], markers=True))
    return flow


def test_a_batch_is_sent_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka import KafkaException

    address = broker.create("sent", 2)
    planned = plan(check(marking()))
    sink = TopicSink(planned, address, "run")
    sink.put(0, [], [])
    assert not sink.transactions.holds(0)  # nothing to send, so no transaction
    items = [
        (20_000_000, 0, "b", Reading("x", 12, 3)),
        (10_000_000, 1, "a", Reading("y", 2, 2)),
        (10_000_000, 0, "a", Reading("y", 1, 1)),
    ]

    def broken(*_: object) -> None:
        raise KafkaException("lost")

    mark = sink.mark
    monkeypatch.setattr(sink, "mark", broken)
    with pytest.raises(RunError) as error:
        sink.put(1, items, [10_000_000, 20_000_000])
    assert error.value.code == "TT209"
    monkeypatch.setattr(sink, "mark", mark)
    assert broker.read("sent") == []
    sink.put(1, items, [10_000_000, 20_000_000])
    assert sink.transactions.holds(1)
    sink.put(1, items, [])
    again = TopicSink(planned, address, "run")
    again.put(1, items[:1], [])
    again.put(2, [(30_000_000, 0, "a", Reading("z", 25, 4))], [30_000_000])
    with pytest.raises(RunError):
        sink.put(3, items, [])  # another one writes for this run now
    found = broker.read("sent")
    marks = [(one.partition, dict(one.headers)["tracetypes-marker"]) for one in found if one.value is None]
    assert marks == [(p, f"1970-01-01T00:00:{s}+00:00".encode()) for p in (0, 1) for s in (10, 20, 30)]
    a = [one for one in found if one.key == b"a"]
    assert [json.loads(one.value or b"") for one in a] == [{"ts": t, "watts": w} for t, w in ((1, 1), (2, 2), (25, 4))]
    assert dict(a[1].headers) == {
        "id": b"y",
        "tracetypes-id": b"run/1/1",
        "at": b"1970-01-01T00:00:10+00:00",
        "nth": b"1",
    }
    assert len(found) == len(marks) + 4


def test_who_has_sent_the_micro_batch_before_does_not_ask_the_broker(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only at first, and for one that it may have sent."""
    sent = Transactions(topics_of_kafka.Address.of(broker.create("asked", 1)), "asked", 0)
    asked: list[int] = []
    real = Transactions.last

    def last(self: Transactions) -> tuple[int, int | None]:
        answer = real(self)
        asked.append(answer[0])
        return answer

    monkeypatch.setattr(Transactions, "last", last)
    for batch in (0, 1, 1, 3, 3):
        sent.put(batch, [{"value": str(batch).encode()}])
    assert asked == [-1, 1, 3]
    assert [one.value for one in broker.read("asked")] == [b"0", b"1", b"3"]


def test_TT209_the_older_driver_of_a_run_is_shut_out(broker: Broker, tmp_path: Path) -> None:
    """Two on one checkpoint, past its locks; and two with a copy of it."""
    address, planned = broker.create("fenced", 1), plan(check(marking()))

    def driver(checkpoint: str, begun: int) -> TopicSink:
        made = TopicSink(planned, address, "run")
        (tmp_path / checkpoint).mkdir(exist_ok=True)
        made.transactions.begin(next_start(tmp_path / checkpoint, begun))
        return made

    def send(sink: TopicSink, batch: int) -> None:
        sink.put(batch, [(10_000_000, 0, "a", Reading("a", 1, batch))], [])

    first = driver("one", -1)
    send(first, 0)
    second = driver("one", 0)
    send(second, 0)
    with pytest.raises(RunError, match=r"TT209 .* is written by another driver of the same run: it has started since"):
        send(first, 1)
    send(second, 1)
    with pytest.raises(RunError, match=r"TT209 .*: its last writer is a start that is not known here"):
        first.transactions.holds(1)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    send(second, 2)
    with pytest.raises(RunError, match="it holds micro-batch 2 of the run, which this checkpoint has not begun"):
        driver("copy", 1)
    send(driver("copy", 2), 3)
    with pytest.raises(RunError, match=r"TT209 .*: its last writer is a start that is not known here"):
        driver("one", 3)
    values = [json.loads(one.value or b"")["watts"] for one in broker.read("fenced")]
    assert values == [0, 1, 2, 3]


def test_TT218_a_sink_is_another_than_the_run_began_with(broker: Broker, tmp_path: Path) -> None:
    began, planned = broker.create("sink-began", 1), plan(check(marking()))
    late, rejects = str(tmp_path / "late"), str(tmp_path / "rejects")

    def go(address: str) -> None:
        kept = RunStore(claim(tmp_path / "checkpoint", planned, SparkLog))
        kept.begin(open_output(planned, address, kept.run, late, rejects), "out")

    go(broker.create("sink-other", 1))  # nothing was read yet
    go(began)
    offsets = tmp_path / "checkpoint" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    go(began)
    for other, named in (
        (f"kafka://{broker.address}/sink-other", "topic sink-other"),
        (str(tmp_path / "out"), "files"),
    ):
        with pytest.raises(RunError, match=rf"TT218 sink 'out': it began with topic sink-began, and is given {named}"):
            go(other)
    broker.remake("sink-began", 1)
    with pytest.raises(
        RunError, match=r"TT218 sink 'out': topic sink-began is another one .*: it was removed and made anew"
    ):
        go(began)


def test_TT209_the_topic_of_a_sink_is_deleted_while_a_run_writes(broker: Broker, tmp_path: Path) -> None:
    """Deleted, or deleted and made anew: no micro-batch goes into another topic than those before it."""
    planned = plan(check(marking()))
    for again in (False, True):
        topic = f"sink-gone-{again}"
        sink = TopicSink(planned, broker.create(topic, 1), "run")
        (tmp_path / topic).mkdir()
        sink.transactions.begin(next_start(tmp_path / topic, -1))
        sink.put(0, [(10_000_000, 0, "a", Reading("a", 1, 0))], [])
        if again:
            broker.remake(topic, 1)
        else:
            broker.remove(topic)
        with pytest.raises(RunError, match=topic) as error:
            sink.put(1, [(20_000_000, 0, "a", Reading("a", 2, 1))], [])
        assert error.value.code == ("TT218" if again else "TT209")


@pytest.mark.repeated
def test_from_topic_to_topic(cli: Cli, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes between a transaction and our own record of it: the batch is not sent again."""
    sent = disorder(3, 60)
    given, taken = broker.create("here", 3), broker.create("there", 2)
    broker.send("here", sent)
    words = ["run", f"{__name__}:topic_sums", "-i", f"readings={given}?records=30", "-o", f"sums={taken}"]
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--key-groups", "2"]
    commit = RunStore.commit

    def dies(self: RunStore, batch: int, record: dict[str, Any]) -> None:
        if batch == 1:
            raise OSError("the end")
        commit(self, batch, record)

    monkeypatch.setattr(RunStore, "commit", dies)
    assert cli(*words).code == 1
    monkeypatch.undo()
    before = len(broker.read("there"))
    assert before > 0
    assert cli(*words).code == 0
    trace, arranged = defined(topic_sums, sent, 3)
    found = Counter(
        json.dumps(
            {**json.loads(one.value or b""), "key": (one.key or b"").decode(), "at": dict(one.headers)["at"].decode()},
            sort_keys=True,
        )
        for one in broker.read("there")
    )
    assert found == rows_at_sink(topic_sums, trace)
    late = side_outputs(tmp_path / "checkpoint" / "_late", "readings")
    assert len(late) == len(arranged["readings"].late)


@pytest.mark.parametrize("line", ["security.protocl=SASL_SSL", "security.protocol=SASL", "no such line"])
def test_TT402_a_setting_that_no_client_takes(cli: Cli, tmp_path: Path, line: str) -> None:
    config = tmp_path / "kafka.conf"
    config.write_text(f"# of our broker\n{line}\n")
    ran = cli(
        "run",
        f"{__name__}:topic_sums",
        *("-i", f"readings=kafka://127.0.0.1:1/t?config={config}", "-o", f"sums={tmp_path / 'out'}"),
    )
    assert ran.code == 2
    assert f"tracetypes: TT402 {config}: " in ran.err
    assert f'"{line.partition("=")[0]}"' in ran.err


SASL = "sasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n"


@pytest.mark.repeated
@pytest.mark.parametrize(
    "lines",
    [f"security.protocol=SASL_PLAINTEXT\n{SASL}", f"security.protocol=SASL_SSL\n{SASL}", "security.protocol=SSL\n"],
)
@pytest.mark.parametrize("writing", [False, True])
def test_a_broker_speaks_plaintext(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, writing: bool
) -> None:
    monkeypatch.setattr(topics_of_kafka, "PATIENCE", 6.0)
    (tmp_path / "kafka.conf").write_text(lines)
    address = topics_of_kafka.Address.of(f"kafka://{broker.address}/t?config={tmp_path / 'kafka.conf'}")
    with pytest.raises(RunError, match=r"The broker (speaks|may speak) plaintext there, and security") as error:
        Watch(address, writing=writing).topic()
    assert error.value.code == ("TT209" if writing else "TT208")


def test_a_topic_that_is_not_there(cli: Cli, broker: Broker, tmp_path: Path) -> None:
    address = f"kafka://{broker.address}/missing"
    ran = cli("run", f"{__name__}:topic_sums", "-i", f"readings={address}", "-o", f"sums={tmp_path}")
    assert ran.code == 1
    assert f"tracetypes: TT208 {address} cannot be read: " in ran.err
    there = broker.create("there-is", 1)
    ran = cli(
        "run", f"{__name__}:topic_sums", "-i", f"readings={there}", "-o", f"sums={address}", "--checkpoint", tmp_path
    )
    assert ran.code == 1
    assert f"tracetypes: TT209 {address} cannot be written: " in ran.err


def test_each_topic_is_made_in_one_place() -> None:
    """All tests of a module have one broker: a second topic of a name would fail, in whichever of the two comes second."""
    names: Counter[str] = Counter()
    for backend in ("spark", "local"):
        for call in ast.walk(ast.parse((Path(__file__).parent.parent / backend / "test_kafka.py").read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "create":
                names.update(one.value for one in call.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str))
    assert len(names) > 20
    assert [name for name, times in names.items() if times > 1] == []


def test_questions_to_a_broker_leave_nothing(broker: Broker) -> None:
    """The client keeps the id of each topic that it has described."""
    watch = Watch(topics_of_kafka.Address.of(broker.create("described", 2)))

    def objects() -> int:
        for _ in range(100):
            watch.topic()
            watch.offsets((0, 1))
        gc.collect()
        return len(gc.get_objects())

    objects()
    before = objects()
    assert objects() < before + 50


@pytest.mark.parametrize(("version", "kept"), [("2.16.1", 0), ("2.11.0", 0), ("99.0.0", 1)])
def test_only_a_reference_that_is_too_many_is_given_back(monkeypatch: pytest.MonkeyPatch, version: str, kept: int) -> None:
    """And only that of a client that is known to keep one."""
    client = pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(client, "version", lambda: version)
    about = SimpleNamespace(topic_id=client.Uuid(1, 2))
    counts = [sys.getrefcount(about.topic_id)]
    free_id(about)
    counts.append(sys.getrefcount(about.topic_id))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(about.topic_id))
    free_id(about)
    counts.append(sys.getrefcount(about.topic_id))
    assert [count - counts[0] for count in counts] == [0, 0, kept]


POINTS: dict[str, tuple[Any, str, bool, int]] = {
    "a channel is about to be sent": (Transactions, "once", True, 1),
    "a channel has been sent, nothing was committed": (Transactions, "once", False, 1),
    "a sink is about to be written": (FileOutput, "take", True, 2),
    "a batch is committed, Spark does not know": (RunStore, "commit", False, 4),
    "what was taken has been removed": (TopicChannel, "remove", False, 5),
}


@pytest.mark.repeated
@pytest.mark.parametrize(
    "point", [p if "has been sent" in p else pytest.param(p, marks=pytest.mark.nightly) for p in POINTS]
)
def test_channels_are_topics(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The trace at every sink is the same, also when the process ends around a transaction; and nothing is left."""
    prefix = f"in-{list(POINTS).index(point)}"
    job = Job(spark, tmp_path, dags.diamond(), files=2, channels=Topics.of(f"kafka://{broker.address}/{prefix}"))
    owner, name, first, after = POINTS[point]
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, crashing(after, getattr(owner, name), first=first))
        with pytest.raises((Crash, RunError)) as crashed:
            job()
    assert "Crash" in f"{crashed.type.__name__} {crashed.value}"
    run = json.loads((tmp_path / "checkpoint/channels.json").read_text())["run"]
    topics = [f"{prefix}-{run}-{channel}" for channel in job.program.channels]
    assert broker.topics(prefix) == sorted(topics)
    held = sum(len(broker.read(topic)) for topic in topics)
    assert held > 0 or "about to be sent" in point
    with pytest.raises(RunError, match="has its channels in topics"):  # where its channels are not
        Job(spark, tmp_path, dags.diamond(), files=2)()
    job()
    job.is_right()
    assert broker.forgets(prefix)


@pytest.mark.nightly
def test_a_run_with_topics_goes_on_at_another_parallelism(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, dags.diamond(), files=2, channels=Topics.of(f"kafka://{broker.address}/wide"))
    job.at_several_parallelisms()
    job.is_right()
    assert broker.forgets("wide")


@pytest.mark.repeated
def test_a_graph_changes_whose_channel_is_a_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """An operator before the channel that changes nothing here: the trace at both sinks is that of either graph."""
    job = Changing(spark, tmp_path, shared("a", "b"))
    job.channels = Topics.of(f"kafka://{broker.address}/changed")
    job.more(2)
    job(2)
    mended = Mended(10**9)
    job.change(shared("a", "b", links=[mended]))
    job.more()
    assert job(2, drain=True) == [
        f"goes on; changed: query Sum, stage 0, from source readings: was nothing, is {mended!r}"
    ]
    job.is_right()
    assert broker.forgets("changed")


def progress(markers: list[int], *, complete: bool = False) -> Message:
    """What the last stage tells."""
    none: dict[str, int] = {}
    return Message(
        0,
        StageProgress(
            stage=0, markers=markers, complete=complete, newest={}, seen={}, rows=0, read=none, late=none, rejects=none
        ),
    )


def test_a_channel_as_a_topic(broker: Broker, tmp_path: Path) -> None:
    """Rows are cut into records, taken with their markers, in parts, and removed."""
    planned = plan(check(marking()))
    address = Topics.of(f"kafka://{broker.address}").address("1a2b", "2-Größe")
    assert address.topic == "tracetypes-1a2b-2-Gr--e"
    channel = TopicChannel("2-Größe", address, tmp_path)
    output = channel.output(planned, "3c4d", SideOutputs(tmp_path / "late", tmp_path / "rejects", "3c4d"))
    big = "x" * 300_000
    items = [("a", Reading(big + str(at), at, at)) for at in range(6)]
    batch = rows(planned.layout, Encoded([k for k, _ in items], [v for _, v in items], [7] * 6, [0] * 6))
    sent = [Message(0, Rows(batch)), progress([7])]
    output.take(sent, 0, {})
    output.take([progress([])], 1, {})  # nothing to say
    output.take(sent, 0, {})
    output.take([progress([8], complete=True)], 2, {})
    found = broker.read(address.topic)
    assert [dict(one.headers)[KIND] for one in found] == [b"rows"] * (len(found) - 2) + [b"markers"] * 2
    assert all(len(one.value or b"") < 1_000_000 for one in found)
    assert len(found) >= 4
    reader = SplitStreamReader(ChannelSplits("2-Größe", address, 2, channel.id))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    taken = [
        one for part in reader.partitions(start, end) for (line,) in reader.read(part) for one in read(channel, line)
    ]
    texts = [text for one in taken if not isinstance(one, dict) for text in one.column("id").to_pylist()]
    assert sorted(texts) == [value.id for _, value in items]
    markers = [one for one in taken if isinstance(one, dict)]
    assert markers == [
        {"batch": 0, "markers": [[7, 8, 1]], "complete": False, "silence": []},
        {"batch": 2, "markers": [[8, 9, 1]], "complete": True, "silence": []},
    ]
    assert ChannelSplits("c", address, 3, channel.id).splits({"next": 2}, {"next": 62}) == [
        (json.dumps({"start": at, "until": at + 20}),) for at in (2, 22, 42)
    ]
    offsets = [None, {"logOffset": 3}, {**end, "channel": "other"}, end]
    write_lines(tmp_path / "spark/offsets/0", ["v1", "{}", *("-" if one is None else json.dumps(one) for one in offsets)])
    write_lines(tmp_path / "spark/commits/0", ["v1"])
    assert reader_of(channel).places(SparkLog(tmp_path)) == [end["next"]]
    channel.remove(end["next"] - 2)
    assert len(broker.read(address.topic)) == 1
    with pytest.raises(SentError, match="the next record of partition 0 was 0, and it holds those from"):
        reader.latestOffset(start, ReadAllAvailable())


def read(channel: TopicChannel, line: str) -> list[Any]:
    return list(channel.contents.read(json.loads(line)))


def test_TT218_a_topic_that_is_not_that_of_the_channel(broker: Broker, tmp_path: Path) -> None:
    topics = Topics.of(f"kafka://{broker.address}/odd")

    def refused(name: str, note: str = "") -> str:
        with pytest.raises(RunError) as error:
            TopicChannel("1-Sum", topics.address("run", name), tmp_path / (note or name))
        assert error.value.code == "TT218"
        return error.value.message.partition("since the run began: ")[2]

    broker.create("odd-run-used", 1)
    broker.send("odd-run-used", [Record(b"{}")])
    assert refused("used") == "it holds records that are not of this run"
    broker.create("odd-run-wide", 2)
    assert refused("wide") == "it has 2 partitions, and a channel has one"
    mine = TopicChannel("1-Sum", topics.address("run", "mine"), tmp_path / "mine")
    TopicChannel("1-Sum", topics.address("run", "mine"), tmp_path / "mine")
    broker.send("odd-run-mine", [Record(b"{}")])
    with pytest.raises(RunError, match="record 0 was not sent by this run"):
        read(mine, '{"start": 0, "until": 1}')
    broker.create("odd-run-other", 1)
    assert refused("other", "mine") == "it was removed and made anew"
    assert refused("nowhere", "mine") == "it is gone"


def test_channels_without_a_broker(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_of_kafka, "PATIENCE", 1.0)
    (tmp_path / "in.jsonl").write_text("")
    words = ["run", "tests.spark.dags:two_sinks_flow", "-i", f"readings={tmp_path / 'in.jsonl'}"]
    words += ["-o", f"sums={tmp_path / 's'}", "-o", f"large={tmp_path / 'l'}", "--channels"]
    ran = cli(*words, "kafka://127.0.0.1:1/of")
    assert ran.code == 1
    assert "tracetypes: TT209 kafka://127.0.0.1:1/of-" in ran.err
    for bad in ("channels", "kafka://", "kafka://host:1/a/b", "kafka://host:1/a?records=3", "kafka://host:1/\u00e4"):
        ran = cli(*words, bad)
        assert ran.code == 2
        assert f"TT402 {bad} is no place for channels" in ran.err


def test_without_a_client(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ran = cli("run", here("sums"), "-i", "readings=kafka://host:1/topic", "-o", f"sums={tmp_path}")
    assert ran.code == 2
    assert "TT401 confluent_kafka is not installed" in ran.err
    assert "pip install 'tracetypes[kafka]'" in ran.err


@pytest.mark.parametrize("address", ["kafka://", "kafka://host:1", "kafka://host:1/a/b", "kafka://h:1/t?records=-1"])
def test_no_address_of_a_topic(cli: Cli, tmp_path: Path, address: str) -> None:
    ran = cli("run", here("sums"), "-i", f"readings={address}", "-o", f"sums={tmp_path}")
    assert ran.code == 2
    assert f"TT402 {address} is no address of a topic" in ran.err


# ------------------------------------------------------------------------------------- schemas in a registry


READING = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "id", "type": "string"}, {"name": "ts", "type": "long"}, {"name": "watts", "type": "int"}],
}


def as_avro(number: int, one: Record) -> Record:
    """A reading that is all value, with the id of its schema in front."""
    import fastavro

    out = io.BytesIO()
    out.write(b"\0" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(READING), json.loads(one.value or b""))
    return attrs.evolve(one, value=out.getvalue())


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A fake one."""
    with fake_registry() as fake:
        yield fake


def test_records_with_schemas_in_a_registry(spark: SparkSession, broker: Broker, registry: FakeRegistry) -> None:
    """They are the same rows as JSON; what cannot be decoded is a reject with topic, partition and offset."""
    number = registry.add("avro-value", READING)
    chance = random.Random(5)
    sent = [whole(chance.choice("abc"), at // 3, at, chance.randrange(2)) for at in range(900)]
    address = broker.create("avro", 2)
    broker.send("avro", [as_avro(number, one) for one in sent])
    broker.send("avro", [Record(b"{}", b"k", 0), Record(b"\0\0\0\0\1", b"k", 1)])
    planned = plan(check(passing_files()), parallelism=2, key_groups=4)
    there = f"{address}?value=avro&registry={registry.url}"
    answer = collect(spark, planned, {"readings": there}).answer
    expected, _ = defined(passing_files(), sent, 2)
    assert answer.trace == expected
    places = [json.loads(text) for _, _, text in answer.rejects]
    ends = [sum(one.partition == partition for one in sent) for partition in (0, 1)]
    found = sorted((one["topic"], one["partition"], one["offset"]) for one in places)
    assert found == [("avro", 0, ends[0]), ("avro", 1, ends[1])]


@pytest.mark.repeated
def test_nothing_is_lost_while_a_registry_is_away(
    spark: SparkSession, broker: Broker, registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that meets an id that it does not know ends, and the next one goes on from there."""
    number = registry.add("away-value", READING)
    later = registry.add("other-value", READING)
    address = broker.create("away", 1)
    first = [whole("a", at, at, 0) for at in range(5)]
    then = [whole("b", 10 + at, at, 0) for at in range(5)]
    broker.send("away", [as_avro(number, one) for one in first])
    there = {"readings": f"{address}?config={tmp_path / 'settings'}&value=avro"}
    (tmp_path / "settings").write_text(f"schema.registry.url={registry.url}\n")
    output = MemoryOutput(plan(check(passing_files()), parallelism=1, key_groups=2))
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    run(spark, output.plan, there, output, drain=False, **options)
    broker.send("away", [as_avro(later, one) for one in then])
    patience = topics_of_kafka.PATIENCE
    monkeypatch.setattr(topics_of_kafka, "PATIENCE", 0.3)
    registry.stop()
    with pytest.raises(RunError, match=r"TT208 .*schema registry"):
        run(spark, output.plan, there, output, drain=False, **options)
    monkeypatch.setattr(topics_of_kafka, "PATIENCE", patience)
    registry.start()
    run(spark, output.plan, there, output, **options)
    assert differences(passing_files(), output.answer, defined(passing_files(), [*first, *then], 1)) == []


@pytest.mark.repeated
def test_a_source_reads_the_avro_that_a_sink_sent(cli: Cli, broker: Broker, registry: FakeRegistry, tmp_path: Path) -> None:
    """By the command line; and JSON with a schema in the same way."""
    lines = [json.dumps({"id": "abc"[at % 3], "ts": at, "watts": at}) for at in range(40)]
    write_lines(tmp_path / "in.jsonl", lines)
    for kind in ("avro", "json_schema"):
        address = broker.create(f"sent-{kind}", 2)
        there = f"{address}?value={kind}&registry={registry.url}"
        out, more = tmp_path / f"{kind}.jsonl", ("--checkpoint", tmp_path / f"checkpoint-{kind}")
        ran = cli("run", f"{MODULE}:topic_passing", "-i", f"readings={tmp_path / 'in.jsonl'}", "-o", f"out={there}", *more)
        assert ran.code == 0, ran.err
        ran = cli("run", f"{MODULE}:topic_passing", "-i", f"readings={there}", "-o", f"out={out}")
        assert ran.code == 0, ran.err
        found = [line for path in sorted(out.glob("part-*")) for line in path.read_text().splitlines()]
        assert sorted(map(json.loads, found), key=lambda one: one["ts"]) == list(map(json.loads, lines))
        assert registry.subjects[f"sent-{kind}-value"][0].kind == ("AVRO" if kind == "avro" else "JSON")

"""A dataflow as DataFrames: static ones, streams, what is refused, and what Spark's own query reports."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.bags import defined
from tests.spark.flows import Reading
from tests.spark.support import rows_of
from tracetypes import (
    ROW_POSITION,
    Dataflow,
    EmitValue,
    Marker,
    O,
    OpKeyedOrdered,
    RunError,
    TraceTypesError,
    U,
    Unit,
    UsageError,
    check,
    cli,
    every,
    in_band,
    merge,
    stdlib,
)
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.spark.bag_tasks import judged
from tracetypes.compiler.spark.transform import ROCKSDB, STORE
from tracetypes.errors import from_text
from tracetypes.gates import sequence
from tracetypes.spark import transform

COLUMNS = "id string, ts long, watts int"


def totals(delay: int = 5, name: str = "totals", **more: Any) -> Dataflow:
    """The sum of each meter in windows of 20 s, which close with markers every 10 s."""
    flow = Dataflow("totals")
    markers = every(seconds=10, delay=delay, time=lambda r: r.ts, **more)
    meters = flow.source("meters", U[str, Reading], key=lambda r: r.id, markers=markers)
    total: stdlib.Aggregate[Reading, Any, int] = stdlib.sum(of=lambda r: r.watts, to=int)
    flow.sink(name, meters.through(stdlib.tumbling(total, size=20, period=10)), marker="at")
    return flow


def half(meter: str, watts: int) -> int:
    return watts % 2


def in_utc(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).isoformat()


def rows_in(frame: DataFrame, only: str | None = None) -> Counter[str]:
    """The rows of a DataFrame as those of a sink; ``only``: of frames with outcomes, those of one."""
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    mine = [row for row in rows if only is None or row["_outcome"] == only]
    plain = [{name: value for name, value in row.items() if not name.startswith("_")} for row in mine]
    return Counter(json.dumps(row, sort_keys=True, default=in_utc) for row in plain)


def wanted(flow: Dataflow, bags: Sequence[Sequence[Reading]], *, drain: bool) -> tuple[Counter[str], int]:
    """The rows at the sink by the definition, and the number of late rows."""
    checked = check(flow)
    expected = defined(checked, {"meters": bags}, drain=drain)
    (sink,) = checked.graph.sinks
    return rows_of(checked, sink, expected.trace), sum(expected.late.values())


@pytest.fixture
def plain(spark: SparkSession) -> SparkSession:
    """A session with Spark's own settings, in another time zone."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    return session


def frame(session: SparkSession, rows: Sequence[Reading]) -> DataFrame:
    return session.createDataFrame([(row.id, row.ts, row.watts) for row in rows], COLUMNS).repartition(2)


BAGS = [
    [Reading("a", 3, 1), Reading("b", 31, 2), Reading("a", 1, 4), Reading("c", 25, 8)],
    [Reading("a", 12, 16), Reading("b", 29, 32), Reading("c", 66, 64), Reading("a", 40, 128)],
    [Reading("a", 41, 256), Reading("a", 71, 512), Reading("b", 55, 1024), Reading("b", 2, 2048)],
]


def test_static_frames(plain: SparkSession) -> None:
    rows = [row for bag in BAGS for row in bag]
    with_null = frame(plain, rows).unionAll(plain.sql("SELECT 'a' AS id, 5L AS ts, CAST(NULL AS INT) AS watts"))
    found = transform(totals(), {"meters": with_null.select("watts", "id", "ts")})
    assert list(found) == ["totals"]
    assert found["totals"].columns == ["key", "value", "at"]
    outcomes = found.outcomes("totals").cache()
    expected, late = wanted(totals(), [rows], drain=True)
    assert late == 0
    assert rows_in(outcomes, "row") == expected
    (reject,) = outcomes.where("_outcome <> 'row'").collect()
    assert (reject["_outcome"], reject["_source"], reject["_count"]) == ("reject", "meters", 1)
    assert json.loads(reject["_row"]) == {"id": "a", "ts": 5, "watts": None}
    assert "watts" in reject["_reason"]


def test_columns_that_nobody_reads_do_not_reach_python(plain: SparkSession) -> None:
    flow = Dataflow("counts")
    markers = every(seconds=10, time=lambda r: r.ts)
    meters = flow.source("meters", U[str, Reading], key=lambda r: r.id, markers=markers)
    flow.sink("counts", meters.through(stdlib.aggregate(stdlib.count())), marker="at")
    rows = [row for bag in BAGS for row in bag]
    with_null = frame(plain, rows).unionAll(plain.sql("SELECT 'a' AS id, 5L AS ts, CAST(NULL AS INT) AS watts"))
    found = transform(flow, {"meters": with_null})
    expected, _ = wanted(flow, [rows], drain=True)
    assert rows_in(found["counts"]) == expected
    scans = [scan for scan in plan_of(found["counts"]).splitlines() if "BagScan" in scan]
    assert all("_gap" in scan and "_2" not in scan for scan in scans)
    assert not any("_gap" in scan for scan in plan_of(found.outcomes("counts")).splitlines())


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def write(directory: Path, bags: Sequence[Sequence[Reading]], first: int = 0) -> None:
    """Each bag as a file of its own, in order."""
    directory.mkdir(exist_ok=True)
    for at, bag in enumerate(bags, first):
        path = directory / f"{at}.json"
        path.write_text("".join(json.dumps({"id": row.id, "ts": row.ts, "watts": row.watts}) + "\n" for row in bag))
        os.utime(path, (1_000_000 + at, 1_000_000 + at))


def stream(session: SparkSession, directory: Path) -> DataFrame:
    reader = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    return reader.json(str(directory)).repartition(2)


def answered(frame: DataFrame, path: Path) -> list[Any]:
    """Run a query until its input is taken; the metrics that it observed."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(path / "out"))
    )
    query.awaitTermination()
    return [metrics for one in query.recentProgress for metrics in (one.observedMetrics or {}).values()]


METERS, SLOWER = totals(), totals(delay=6)


def test_streams_restart_and_count_late_rows(
    plain: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = totals()
    write(tmp_path / "in", BAGS[:2])
    metrics = answered(transform(flow, {"meters": stream(plain, tmp_path / "in")})["totals"], tmp_path)
    write(tmp_path / "in", BAGS[2:], first=2)
    plain.conf.set("spark.sql.files.maxPartitionBytes", "20")
    metrics += answered(transform(flow, {"meters": stream(plain, tmp_path / "in")})["totals"], tmp_path)
    expected, late = wanted(flow, BAGS, drain=False)
    got = plain.read.parquet(str(tmp_path / "out"))
    assert rows_in(got) == expected
    assert late == 4
    assert sum(one["late"] for one in metrics) == sum(one["late.meters"] for one in metrics) == late
    assert sum(one["rows"] for one in metrics) == sum(expected.values())
    write(tmp_path / "in", BAGS[2:], first=3)
    other = transform(totals(delay=6), {"meters": stream(plain, tmp_path / "in")})["totals"]
    with pytest.raises(StreamingQueryException) as raised:  # another flow behind the same checkpoint
        answered(other, tmp_path)
    error = from_text(str(raised.value))
    assert error is not None
    assert error.code == "TT211"
    shown_by_the_command_line(str(tmp_path / "checkpoint"), capsys)


def shown_by_the_command_line(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``tracetypes state`` of the checkpoint that the flow of meters has left."""

    def state(*words: str) -> tuple[int, str]:
        code = cli.main(["state", checkpoint, *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    code, said = state("tests.spark.test_transform:METERS")
    assert code == 0
    assert "in 16 key groups, closed up to #60" in said
    assert "open blocks, by their end: #80" in said
    code, said = state("tests.spark.test_transform:METERS", "--key", "c", "--json")
    assert code == 0
    assert {json.loads(line)["key"] for line in said.splitlines()} == {"c"}
    code, said = state("tests.spark.test_transform:SLOWER")
    assert code == 1
    assert "TT211" in said
    for words, wanted in [((), "is the checkpoint of a query of Spark"), (("--stage", "7"), "has no stage 7")]:
        code, said = state(*(["tests.spark.test_transform:METERS"] if words else []), *words)
        assert code == 2
        assert f"TT408 {checkpoint} {wanted}" in said


@pytest.mark.nightly
def test_an_operator_waits_for_a_source_that_it_does_not_read(plain: SparkSession, tmp_path: Path) -> None:
    flow = Dataflow("apart")
    markers = every(seconds=10, time=lambda r: r.ts)
    one, other = (flow.source(name, U[str, Reading], key=lambda r: r.id, markers=markers) for name in ("a", "b"))
    counts = one.through(stdlib.aggregate(stdlib.count()))
    watts = other.through(stdlib.map_values(lambda r: r.watts, to=int))
    flow.sink("out", merge(counts, watts).through(stdlib.aggregate(stdlib.sum(of=int, to=int))), marker="at")
    bags = {
        "a": [[Reading("x", 5, 0), Reading("x", 45, 0)], [Reading("x", 12, 0), Reading("x", 3, 0)]],
        "b": [[Reading("y", 1, 7), Reading("y", 11, 5)], [Reading("y", 62, 0)]],
    }
    for name, some in bags.items():
        write(tmp_path / name, some)
    plain.conf.set(STORE, ROCKSDB)
    metrics = answered(transform(flow, {name: stream(plain, tmp_path / name) for name in bags}, key_groups=3)["out"], tmp_path)
    checked = check(flow)
    expected = defined(checked, bags, drain=False)
    (sink,) = checked.graph.sinks
    assert rows_in(plain.read.parquet(str(tmp_path / "out"))) == rows_of(checked, sink, expected.trace)
    assert expected.late == {("a", 10_000_000): 1}
    assert sum(one["late.a"] for one in metrics) == sum(one["late"] for one in metrics) == 1


@pytest.mark.nightly
def test_late_rows_and_two_stateful_operators(plain: SparkSession, tmp_path: Path) -> None:
    flow = Dataflow("twice")
    markers = every(seconds=10, delay=5, time=lambda r: r.ts)
    meters = flow.source("meters", U[str, Reading], key=lambda r: r.id, markers=markers)
    total: stdlib.Aggregate[Reading, Any, int] = stdlib.sum(of=lambda r: r.watts, to=int)
    sums = meters.through(stdlib.tumbling(total, size=20, period=10))
    flow.sink("counts", sums.through(stdlib.key_by(half)).through(stdlib.aggregate(stdlib.count())))
    bags = [BAGS[0], BAGS[1] + BAGS[2]]
    write(tmp_path / "in", bags)
    inputs = {"meters": stream(plain, tmp_path / "in")}
    with pytest.raises(UsageError, match="RocksDB only"):
        transform(flow, inputs)
    plain.conf.set(STORE, ROCKSDB)
    answered(transform(flow, inputs, late="rows", key_groups=3).outcomes("counts"), tmp_path)
    expected, late = wanted(flow, bags, drain=False)
    outcomes = plain.read.parquet(str(tmp_path / "out"))
    assert rows_in(outcomes, "row") == expected
    rows = outcomes.where("_outcome = 'late'").collect()
    texts = [json.loads(row["_row"]) for row in rows]
    assert len(texts) == late == sum(row["_count"] for row in rows)
    assert {"key": "b", "value": {"id": "b", "ts": 2, "watts": 2048}} in texts
    assert all("was already sent" in row["_reason"] for row in rows)


def test_flows_without_keyed_operators(plain: SparkSession) -> None:
    flow = Dataflow("watts")
    meters = flow.source("meters", U[str, Reading], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("watts", meters.through(stdlib.map_values(lambda r: r.watts, to=int)))
    found = transform(flow, {"meters": frame(plain, BAGS[0])})["watts"]
    assert sorted(tuple(row) for row in found.collect()) == [("a", 1), ("a", 4), ("b", 2), ("c", 8)]


@attrs.frozen
class Change(OpKeyedOrdered[str, Reading, int, int]):
    """The change of each reading since the one before it."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: EmitValue[int]) -> int:
        emit(value.watts - state)
        return value.watts

    def on_marker(self, state: int, key: str, marker: Marker, emit: EmitValue[int]) -> int:
        return state


def test_a_column_has_the_order(plain: SparkSession) -> None:
    flow = Dataflow("changes")
    markers = every(seconds=10, time=lambda r: r.ts)
    meters = flow.source("meters", O[str, Reading], key=lambda r: r.id, ordered_by=ROW_POSITION, markers=markers)
    flow.sink("changes", meters.through(Change()))
    rows = [Reading("ab"[at % 2], at // 12, 7 * at % 13) for at in range(60)]
    numbers = [(row.id, row.ts, row.watts, 3 * at) for at, row in enumerate(rows)]
    frame = plain.createDataFrame(numbers, f"{COLUMNS}, place long").orderBy("watts").repartition(3)
    found = transform(flow, {"meters": frame}, position={"meters": "place"})["changes"]
    assert rows_in(found) == wanted(flow, [rows], drain=True)[0]
    with pytest.raises(UsageError, match=r"TT430 .*position of its rows"):
        transform(flow, {"meters": frame})
    with pytest.raises(UsageError, match="TT402 position= has 'meters', which is not ordered by ROW_POSITION"):
        transform(totals(), {"meters": frame}, position={"meters": "place"})
    with pytest.raises(RunError, match="TT203 the DataFrame of source 'meters' has no column 'offset'; it has 'id'"):
        transform(flow, {"meters": frame}, position={"meters": "offset"})
    with pytest.raises(RunError, match="TT203 position= of 'meters': the column 'id' is string, expected int"):
        transform(flow, {"meters": frame}, position={"meters": "id"})


def test_parts_and_idle_sources(plain: SparkSession, tmp_path: Path) -> None:
    flow = Dataflow("two")
    markers = every(seconds=10, time=lambda r: r.ts)
    one, other = (flow.source(name, U[str, Reading], key=lambda r: r.id, markers=markers) for name in ("a", "b"))
    flow.sink("counts", merge(one, other).through(stdlib.aggregate(stdlib.count())), marker="at")
    bags = [[("x", 5, 0), ("x", 8, 1)], [("x", 35, 0), ("x", 12, 1)], [("x", 61, 0), ("x", 25, 1)]]
    write(tmp_path / "a", [[Reading(*row) for row in bag] for bag in bags])
    write(tmp_path / "b", [[Reading("y", 3, 0)]])
    inputs = {name: stream(plain, tmp_path / name) for name in ("a", "b")}
    found = transform(flow, inputs, parts={"a": "watts"}, idle={"b": 0.001}, key_groups=3)["counts"]
    metrics = answered(found, tmp_path)
    rows = plain.read.parquet(str(tmp_path / "out")).selectExpr("key", "value", "unix_seconds(at)").collect()
    assert sorted(map(tuple, rows)) == [("x", 1, 20), ("x", 2, 10), ("y", 1, 10)]
    assert sum(one["late"] for one in metrics) == 0


# --------------------------------------------------------------------------------------------- what is refused


def refusal(code: str, call: Callable[[], object]) -> str:
    with pytest.raises(TraceTypesError) as raised:
        call()
    assert isinstance(raised.value, UsageError | RunError)
    assert raised.value.code == code
    return f"{raised.value.message}; {raised.value.fix}"


def source_of(**more: Any) -> Dataflow:
    flow = Dataflow("refused")
    edge = more.pop("edge", U[Unit, Reading])
    more = {"markers": every(seconds=10, time=lambda r: r.ts)} | more
    stream = flow.source("meters", edge, **more)
    flow.sink("out", stream)
    return flow


def test_what_is_refused(plain: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    rows = frame(plain, BAGS[0])
    streaming = stream(plain, tmp_path / "in")

    def refused(code: str, flow: Dataflow, given: Any, **more: Any) -> str:
        return refusal(code, lambda: transform(flow, given if isinstance(given, dict) else {"meters": given}, **more))

    two = Dataflow("two")
    one, other = (two.source(name, U[Unit, Reading], markers=every(seconds=10, time=lambda r: r.ts)) for name in ("a", "b"))
    two.sink("out", merge(one, other))
    assert "'no'" in refused("TT402", totals(), {"meters": rows, "no": rows})
    assert "'b' has no input" in refused("TT402", two, {"a": rows})
    assert "is a list" in refused("TT402", totals(), {"meters": []})
    assert "two sessions" in refused("TT402", two, {"a": rows, "b": frame(plain.newSession(), BAGS[0])})
    assert "static DataFrame beside the stream of 'a'" in refused("TT402", two, {"a": streaming, "b": rows})
    assert "late is 'some'" in refused("TT402", totals(), rows, late="some")
    assert "key_groups" in refused("TT402", totals(), rows, key_groups=0)
    assert "in band" in refused("TT430", source_of(markers=in_band(is_marker=lambda r: r.ts < 0, time=lambda r: r.ts)), rows)
    ordered = source_of(edge=O[str, Reading], key=lambda r: r.id, ordered_by=ROW_POSITION)
    assert "position of its rows" in refused("TT430", ordered, rows)
    assert "per=" in refused("TT430", source_of(markers=every(seconds=1, time=lambda r: r.ts, per=lambda r: r.id)), rows)
    closing = source_of(markers=every(seconds=1, time=lambda r: r.ts, closes_after=5))
    assert "closes_after=" in refused("TT430", closing, streaming)
    assert list(transform(closing, {"meters": rows})) == ["out"]
    gated = Dataflow("gated")
    meters = gated.source("meters", U[str, Reading], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
    gated.sink("out", meters.gate(sequence(2)).through(stdlib.aggregate(stdlib.count())))
    assert "is a gate" in refused("TT430", gated, rows)
    late = Dataflow("late")
    source = late.source("meters", U[str, Reading], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
    late.sink("out", source.late())
    assert "late as a stream" in refused("TT430", late, rows)
    assert "no such source" in refused("TT402", totals(), rows, parts={"m": "id"})
    assert "no column 'part'; it has 'id'" in refused("TT203", totals(), rows, parts={"meters": "part"})
    assert "no such source" in refused("TT402", totals(), rows, idle={"m": 1})
    assert "idle= of 'meters' is 0" in refused("TT402", totals(), rows, idle={"meters": 0})
    plain.conf.set(STORE, ROCKSDB)
    table = {str(at): at for at in range(100_000)}
    large = Dataflow("large")
    meters = large.source("meters", U[str, Reading], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
    named = meters.through(stdlib.enrich(table, by=lambda k, r: k, combine=lambda r, found: found, to=int))
    sums = named.through(stdlib.aggregate(stdlib.count())).through(stdlib.key_by(half))
    large.sink("out", sums.through(stdlib.aggregate(stdlib.count())))
    monkeypatch.setattr("tracetypes.compiler.spark.transform.THRESHOLD", "spark.as.it.is")  # ours is set in this session
    assert "as broadcasts" in refused("TT431", large, streaming)
    text = refused("TT203", totals(), rows.selectExpr("id", "CAST(ts AS STRING) AS ts", "watts"))
    assert "the DataFrame of source 'meters'" in text
    assert "'ts' is string, expected int" in text
    assert "no column 'watts'; it has 'id', 'ts'" in refused("TT203", totals(), rows.select("id", "ts"))


def test_a_difference_stops_the_query() -> None:
    def differing() -> Iterator[object]:
        yield 1
        raise Difference("0 Price", "on_item", "('a', 1)", "2", "3")

    messages = judged(differing())
    assert next(messages) == 1
    with pytest.raises(RunError, match="is 2 as columns, and 3 in Python") as raised:
        next(messages)
    assert raised.value.code == "TT240"

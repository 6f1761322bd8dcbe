"""Delta tables as sources and sinks, and what is left of a crash between the files and the commit."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession

from tests.spark import flows
from tests.spark.support import defined, row, rows_at_sink, side_outputs
from tests.spark.test_exactly_once import Crash, crashing
from tracetypes import Dataflow, Item, OpStateless, RunError, U, Unit, check, every, parquet
from tracetypes.check import Checked
from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.connectors.delta import Log
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.connectors.delta_splits import TableSplits
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import Batch, collect, run
from tracetypes.compiler.store import staging
from tracetypes.compiler.store.outputs import open_output
from tracetypes.compiler.store.run_store import RunStore


def readings(first: int, *, late: bool) -> list[dict[str, Any]]:
    """Rows of a version, out of order, with late ones among them."""
    some = [{"id": "abc"[n % 3], "ts": first + n - n % 4, "watts": n} for n in range(20)]
    return [*some, {"id": "b", "ts": -40, "watts": 1}] if late else some


class Job:
    """A dataflow from one table to another, as often as it takes."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark, self.path = spark, path
        self.source, self.sink = path / "source", path / "sink"
        self.checked: Checked = check(flows.delayed)
        self.plan = plan(self.checked, parallelism=2, key_groups=3)
        self.lines: list[str] = []

    def grow(self, first: int, *, late: bool = False) -> None:
        """Another version, partitioned by id: the order of its files stands in the log."""
        rows = readings(first, late=late)
        write_deltalake(self.source, pa.Table.from_pylist(rows), mode="append", partition_by=["id"])
        log = sorted((self.source / "_delta_log").glob("*.json"))[-1].read_text().splitlines()
        order = [one["add"]["partitionValues"]["id"] for one in map(json.loads, log) if "add" in one]
        self.lines += [row(**one) for id in order for one in rows if one["id"] == id]

    def __call__(
        self, *, drain: bool = True, files_per_step: int | None = 4, home: Path | None = None, **options: Any
    ) -> Summary:
        home = home or self.path
        late, rejects = str(home / "late"), str(home / "rejects")
        return run(
            self.spark,
            self.plan,
            {"readings": f"delta:{self.source}"},
            lambda name: open_output(self.plan, f"delta:{self.sink}", name, late, rejects),
            checkpoint=str(home / "checkpoint"),
            files_per_step=files_per_step,
            drain=drain,
            **options,
        )

    def is_right(self, *, drain: bool = True, home: Path | None = None) -> None:
        trace, arranged = defined(self.checked, {"readings": self.lines}, drain=drain)
        table = DeltaTable(self.sink).to_pyarrow_table().to_pylist()
        found = Counter(json.dumps(one | {"at": one["at"].isoformat()}, sort_keys=True) for one in table)
        assert found == rows_at_sink(self.checked, trace)
        assert len(side_outputs((home or self.path) / "late", "readings")) == len(arranged["readings"].late) > 0


@pytest.mark.repeated
def test_from_table_to_table_with_versions_that_come_later(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two runs, a compaction between them; a crash each where the files are moved and where the commit is done."""
    monkeypatch.setattr(staging, "INLINE", 0)
    job = Job(spark, tmp_path)
    job.grow(0)
    job.grow(20, late=True)
    with monkeypatch.context() as broken:
        broken.setattr(TableSink, "commit", crashing(0, TableSink.commit, first=True))
        with pytest.raises((Crash, RunError), match="Crash"):
            job(drain=False)
    assert list(job.sink.glob("part-*"))
    assert not DeltaTable(job.sink).file_uris()
    job(drain=False)
    job.is_right(drain=False)
    DeltaTable(job.source).optimize.compact()
    job.grow(40)
    with monkeypatch.context() as broken:
        broken.setattr(RunStore, "commit", crashing(0, RunStore.commit, first=True))
        with pytest.raises((Crash, RunError), match="Crash"):
            job()
    job()
    job.is_right()
    names = {Path(uri).name for uri in DeltaTable(job.sink).file_uris()}
    assert {part.name for part in job.sink.glob("part-*")} == names
    log = (line for part in (job.sink / "_delta_log").glob("*.json") for line in part.read_text().splitlines())
    added = [action["add"]["path"] for action in map(json.loads, log) if "add" in action]
    assert sorted(added) == sorted(names)  # no batch was committed twice


@pytest.mark.repeated
def test_versions_that_come_later_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    """The next version is written when the last one has been answered, until there were three."""
    job = Job(spark, tmp_path)
    job.grow(0)
    rows = [20, 41, 61]  # with a late one from the second version on

    def told(batch: Batch) -> None:
        seen.append(batch.rows)
        if sum(seen) == rows[0]:
            rows.pop(0)
            if not rows:
                raise RunError("TT214", "that is enough", fix="none")
            job.grow(20 * (3 - len(rows)), late=len(rows) == 2)

    seen: list[int] = []
    with pytest.raises(RunError, match="that is enough"):
        job(follow=True, on_batch=told)
    job.is_right(drain=False)


@pytest.mark.parametrize("gone", [1, 2])
@pytest.mark.parametrize("follow", [False, True])
def test_TT208_a_hole_in_the_log_is_not_its_end(tmp_path: Path, gone: int, follow: bool) -> None:
    """With a checkpoint behind it, so that the table can be opened; in the middle, and at the last version."""
    for first in (0, 20, 40):
        write_deltalake(tmp_path, pa.Table.from_pylist(readings(first, late=False)), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{gone:020d}.json").unlink()
    table = DeltaTable(tmp_path)
    reader = TableSplits(Log(tmp_path), str(table.metadata().id), None if follow else table.version(), None)
    start = reader.begin()
    with pytest.raises(RunError, match=f"version {gone} of .* is missing in its log, which goes on to") as error:
        reader.end(start)
    assert error.value.code == "TT208"


def test_TT218_the_log_no_longer_has_the_version_that_comes_next(tmp_path: Path) -> None:
    """As a clean-up behind a checkpoint leaves it: what was to be read next is gone, and later versions are there."""
    for first in (0, 20, 40):
        write_deltalake(tmp_path, pa.Table.from_pylist(readings(first, late=False)), mode="append")
    table = DeltaTable(tmp_path)
    table.create_checkpoint()
    reader = TableSplits(Log(tmp_path), str(table.metadata().id), table.version(), None)
    start = reader.begin()
    assert reader.end(start)["version"] == 3
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert reader.end({**start, "version": 2})["version"] == 3
    with pytest.raises(RunError, match=r"TT218 .*: its log begins with version 2, and version 1 comes next"):
        reader.end({**start, "version": 1})


@attrs.frozen
class Timed:
    """A row with a time."""

    at: dt.datetime
    watts: int


def timed(zone: str | None) -> Dataflow:
    """Rows of a table whose format declares a zone, or none."""
    flow = Dataflow("timed")
    rows = flow.source("rows", U[Unit, Timed], markers=every(seconds=60, time=lambda r: r.at), format=parquet(zone=zone))
    flow.sink("out", rows)
    return flow


@pytest.mark.repeated
def test_times_of_a_table_that_have_no_zone(spark: SparkSession, tmp_path: Path) -> None:
    """They are of the zone that the format declares, also in a version to come; TT203 without that, or in a partition."""
    noon = dt.datetime(2026, 7, 1, 12)
    rows = pa.table({"at": [noon, noon], "watts": [1, 2]})
    write_deltalake(tmp_path / "table", rows.slice(0, 1))
    write_deltalake(tmp_path / "table", rows.slice(1, 1), mode="append")
    write_deltalake(tmp_path / "parts", rows, partition_by=["at"])

    def go(zone: str | None, table: str) -> list[Timed]:
        planned = plan(check(timed(zone)))
        found = collect(spark, planned, {"rows": f"delta:{tmp_path / table}"}).answer.trace.items
        return [one.value for one in found if isinstance(one, Item)]

    assert {one.at for one in go("Europe/Berlin", "table")} == {noon.replace(hour=10, tzinfo=dt.UTC)}
    with pytest.raises(RunError, match=r"TT203 .*times without a zone[\s\S]*format=parquet\(zone=") as refused:
        go(None, "table")
    with pytest.raises(RunError, match=r"TT203 .*the partition column 'at' has times without a zone") as refused:
        go("Europe/Berlin", "parts")
    assert "zone=" not in str(refused.value)


@pytest.mark.repeated
def test_TT218_a_table_is_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    """While it is followed, with more versions than it had; and between two runs. The same of the sink's."""
    job = Job(spark, tmp_path)
    job.grow(0, late=True)

    def remake() -> None:
        shutil.rmtree(job.source)
        for first in (20, 40, 60):
            job.grow(first)

    with pytest.raises(RunError, match=f"{job.source} has changed since the run began: it was removed and") as error:
        job(follow=True, on_batch=lambda batch: remake())
    assert error.value.code == "TT218"
    with pytest.raises(RunError, match=r"'readings': the table in .* is another one than it began with") as error:
        job(drain=False)
    assert error.value.code == "TT218"
    shutil.rmtree(job.sink)
    with pytest.raises(RunError, match=r"sink 'sums': the table in .* is another one than it began with") as error:
        job(drain=False)
    assert error.value.code == "TT218"
    assert not (job.sink / "_delta_log").exists()


@pytest.mark.repeated
def test_TT218_a_table_is_removed_while_it_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.grow(0, late=True)
    with pytest.raises(RunError, match="has changed since the run began: its log is gone") as error:
        job(follow=True, on_batch=lambda batch: shutil.rmtree(job.source))
    assert error.value.code == "TT218"


@pytest.mark.repeated
@pytest.mark.parametrize("again", [False, True], ids=["removed", "made anew"])
def test_the_table_of_a_sink_is_removed_while_the_run_goes_on(
    spark: SparkSession, tmp_path: Path, again: bool
) -> None:
    """No row goes where the rows before it are not."""
    job = Job(spark, tmp_path)
    job.grow(0, late=True)

    def told(batch: Batch) -> None:
        schema = DeltaTable(job.sink).schema()
        shutil.rmtree(job.sink / "_delta_log")
        if again:
            DeltaTable.create(job.sink, schema)
        job.grow(20)

    with pytest.raises(RunError, match=f"{job.sink}") as error:
        job(follow=True, on_batch=told)
    assert error.value.code == "TT218"
    assert len(list(job.sink.glob("_delta_log/*.json"))) == again


@pytest.mark.repeated
def test_TT209_the_older_of_two_runs_is_shut_out(spark: SparkSession, tmp_path: Path) -> None:
    """While a run follows, another one goes on from a copy of its checkpoint, to the same table: the first stops at its next
    micro-batch, and the table holds each row once."""
    job, copy = Job(spark, tmp_path), tmp_path / "copy"
    job.grow(0, late=True)

    def told(batch: Batch) -> None:
        shutil.copytree(job.path / "checkpoint", copy / "checkpoint")
        shutil.copytree(job.path / "late", copy / "late")
        metadata = copy / "checkpoint" / "spark" / "metadata"  # one JVM does not run a query twice
        metadata.write_text(json.dumps({"id": str(uuid.uuid4())}))
        metadata.with_name(".metadata.crc").unlink()
        job.grow(20)
        job(home=copy)
        assert not refused
        refused.append(len(job.lines))
        write_deltalake(job.source, pa.Table.from_pylist(readings(90, late=False)), mode="append")

    refused: list[int] = []
    with pytest.raises(RunError, match=r"TT209 .*is written by another driver of the same run: it has started since"):
        job(follow=True, on_batch=told, files_per_step=None)
    assert refused
    job.is_right(home=copy)


@attrs.frozen
class Maybe:
    """A row whose name may be missing."""

    name: str | None
    watts: int


@attrs.frozen
class Naming(OpStateless[str, flows.Reading, str, Maybe]):
    """Every second reading has no name."""

    def on_item(self, key: str, value: flows.Reading, emit: Callable[[str, Maybe], None]) -> None:
        emit(key, Maybe(None if value.watts % 2 else value.id, value.watts))


def naming() -> Dataflow:
    flow = Dataflow("naming")
    rows = flow.source("readings", U[str, flows.Reading], markers=flows.TEN, key=lambda reading: reading.id)
    flow.sink("out", rows.through(Naming()))
    return flow


COLUMNS = {"key": "string", "name": "string", "watts": "long"}


def table_of_others(path: Path, *, never_null: Sequence[str] = ()) -> DeltaTable:
    fields = [Field(name, PrimitiveType(kind), nullable=name not in never_null) for name, kind in COLUMNS.items()]
    return DeltaTable.create(path, schema=Schema(fields))


def test_TT209_a_table_of_others_asks_something_of_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    planned = plan(check(naming()))

    def sink(name: str) -> TableSink:
        made = TableSink(planned, f"delta:{tmp_path / name}", "run")
        made.holds(0)
        return made

    def refused(name: str) -> str:
        with pytest.raises(RunError) as error:
            sink(name)
        assert error.value.code == "TT209"
        return error.value.message

    table_of_others(tmp_path / "checked").alter.add_constraint({"some": "watts < 10"})
    assert refused("checked").endswith("what a sink does not check: CHECK constraint some: watts < 10")
    table_of_others(tmp_path / "null", never_null=["name"])
    assert refused("null").endswith("column name is NOT NULL, and the sink may have None there")
    table_of_others(tmp_path / "kept", never_null=["watts", "key"])
    mine = sink("kept")
    DeltaTable(tmp_path / "kept").alter.add_constraint({"later": "watts < 10"})
    with pytest.raises(RunError, match="CHECK constraint later"):
        mine.holds(1)


@pytest.mark.repeated
def test_TT219_a_run_stops_before_a_version_that_removes_rows(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.grow(0, late=True)
    DeltaTable(job.source).delete("id = 'a'")
    with pytest.raises(RunError, match=r"version 1 of .* removes rows \(DELETE\)") as refused:
        job(drain=False)
    assert refused.value.code == "TT219"

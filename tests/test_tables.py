"""Delta tables without Spark: what a log says, where a stream over it stands, what is refused, what a sink commits."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark import flows
from tracetypes import RunError, UsageError, check
from tracetypes.compiler.connectors import delta_splits
from tracetypes.compiler.connectors.delta import Log, Place, open_table, path_of
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.connectors.delta_splits import TableSplits
from tracetypes.compiler.connectors.parquet_row_groups import value_in_log
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.wire import SentError
from tracetypes.errors import from_text


def rows(*ids: str) -> pa.Table:
    """Readings."""
    return pa.table({"id": list(ids), "ts": pa.array([1] * len(ids), pa.int64()), "watts": pa.array([2] * len(ids))})


def grown(path: Path, versions: int = 3, **options: Any) -> Log:
    """A table of so many versions; from the second one on each has two files where it is partitioned by id."""
    for version in range(versions):
        write_deltalake(path, rows("a", "b") if version else rows("a"), mode="append", **options)
    return Log(path)


def reader(log: Log, until: int | None = None, most: int | None = None) -> SplitStreamReader:
    """As Spark would ask it."""
    return SplitStreamReader(TableSplits(log, str(open_table(log.table).metadata().id), until, most))


def table_of(reader: SplitStreamReader) -> str:
    """Its id."""
    assert isinstance(reader.splits, TableSplits)
    return reader.splits.table


def read(reader: SplitStreamReader, start: dict[str, Any]) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """The files of the next micro-batch, by version and number, and where it ends."""
    end = reader.latestOffset(start, ReadAllAvailable())
    return [one.row[1:3] for one in reader.partitions(start, end)], end


def test_files_come_in_the_order_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_splits, "PAUSE", 0)
    log = grown(tmp_path / "t", partition_by=["id"])
    every = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]
    whole = reader(log)
    assert whole.initialOffset() == {"table": table_of(whole), "version": 0, "file": 0}
    found, end = read(whole, whole.initialOffset())
    assert found == every
    assert read(whole, end) == ([], end)
    for most in (1, 2, 3, 5):
        stepwise, place, steps = reader(log, most=most), whole.initialOffset(), []
        while found := read(stepwise, place)[0]:
            assert len(found) <= most
            steps += found
            _, place = read(stepwise, place)
        assert steps == every
    assert read(reader(log, until=1), whole.initialOffset())[0] == every[:3]


def test_new_versions_come_behind_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_splits, "PAUSE", 0)
    log = grown(tmp_path / "t")
    _, end = read(reader(log), reader(log).initialOffset())
    write_deltalake(tmp_path / "t", rows("c"), mode="append")
    assert read(reader(log), end)[0] == [(3, 0)]


def test_partition_values_and_paths_come_from_the_log(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows("a b", "é%"), partition_by=["id"])
    for added in Log(tmp_path / "t").added(0):
        assert Path(added.path).is_file()
        assert added.partition["id"] in ("a b", "é%")


def test_compaction_says_nothing_new(tmp_path: Path) -> None:
    log = grown(tmp_path / "t")
    DeltaTable(tmp_path / "t").optimize.compact()
    assert log.added(3) == []
    assert read(reader(log), reader(log).initialOffset())[0] == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.delete("id = 'a'"), "(DELETE)"),
        (lambda t: t.update({"watts": "3"}, predicate="id = 'b'"), "(UPDATE)"),
        (lambda t: write_deltalake(t, rows("x"), mode="overwrite"), "(WRITE)"),
    ],
)
def test_TT219_a_version_that_removes_rows(tmp_path: Path, change: Callable[[DeltaTable], Any], said: str) -> None:
    log = grown(tmp_path / "t")
    change(DeltaTable(tmp_path / "t"))
    with pytest.raises(SentError) as refused:
        read(reader(log), reader(log).initialOffset())
    error = from_text(str(refused.value))
    assert isinstance(error, RunError)
    assert error.code == "TT219"
    assert f"version 3 of {tmp_path / 't'} removes rows {said}" in str(error)
    assert read(reader(log, until=2), reader(log).initialOffset())[0] == [(0, 0), (1, 0), (2, 0)]


def test_TT219_rows_that_a_vector_deletes(tmp_path: Path) -> None:
    log = grown(tmp_path / "t", 1)
    lines = [json.loads(line) for line in log.entry(0).read_text().splitlines()]
    for line in lines:
        line.get("add", {})["deletionVector"] = {"storageType": "u"}
    log.entry(1).write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(RunError, match=r"version 1 of .* removes rows"):
        log.added(1)


def test_TT218_and_TT208_a_log_that_is_not_whole(tmp_path: Path) -> None:
    log = grown(tmp_path / "t")
    with pytest.raises(SentError, match=r"TT218.*it was removed and made anew"):
        SplitStreamReader(TableSplits(log, "other", None, None)).latestOffset(
            {"table": "other", "version": 1, "file": 0}, ReadAllAvailable()
        )
    whole = reader(log)
    log.entry(0).unlink()
    with pytest.raises(SentError, match=r"TT218.*its log begins with version 1, and version 0 comes next"):
        whole.latestOffset({"table": table_of(whole), "version": 0, "file": 1}, ReadAllAvailable())
    with pytest.raises(SentError, match=r"TT208.*begins with version 1: the order of its first files is gone"):
        whole.initialOffset()
    log.entry(2).write_text("{")
    with pytest.raises(RunError, match=r"version 2 of .* cannot be read"):
        log.added(2)


def test_TT208_tables_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read as a Delta table") as refused:
        open_table(tmp_path)
    assert refused.value.code == "TT208"
    log = grown(tmp_path / "t")
    asked = (
        log.entry(0)
        .read_text()
        .replace(
            '"minReaderVersion":1,"minWriterVersion":2}}\n',
            '"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["typeWidening"],"writerFeatures":["typeWidening"]}}\n',
        )
    )
    log.entry(0).write_text(asked)
    with pytest.raises(RunError, match=r"asks its readers for (\w+)|cannot be read as a Delta table"):
        open_table(tmp_path / "t")


@pytest.mark.parametrize("address", ["delta:", "delta:s3://bucket/t"])
def test_TT402_addresses(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of a table") as refused:
        path_of(address)
    assert refused.value.code == "TT402"


def test_TT401_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="deltalake is not installed") as refused:
        path_of("delta:t")
    assert refused.value.code == "TT401"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", pa.int64(), 5),
        ("x", pa.string(), "x"),
        ("", pa.string(), None),
        (None, pa.int64(), None),
        ("true", pa.bool_(), True),
        ("1.5", pa.float64(), 1.5),
        ("2020-01-02", pa.date32(), "2020-01-02"),
        ("2020-01-02T03:04:05Z", pa.string(), "2020-01-02T03:04:05Z"),
        ("2020-01-02 03:04:05.5", pa.timestamp("us", "UTC"), "2020-01-02 03:04:05.500000+00:00"),
        ("2020-01-02T03:04:05.500000Z", pa.timestamp("us", "UTC"), "2020-01-02 03:04:05.500000+00:00"),
    ],
)
def test_values_of_partitions(text: str | None, kind: Any, value: Any) -> None:
    found = value_in_log(text, kind)
    assert found.type == kind
    assert found.as_py() == value or str(found.as_py()) == value


def test_TT203_a_partition_value_of_another_type() -> None:
    with pytest.raises(RunError, match="the partition value 'x' is no int64") as refused:
        value_in_log("x", pa.int64())
    assert refused.value.code == "TT203"


# ---------------------------------------------------------------------------------------------------- sink


def sink(path: Path) -> TableSink:
    """Of a run."""
    return TableSink(plan(check(flows.delayed)), f"delta:{path}", "run")


def test_a_batch_is_committed_once(tmp_path: Path) -> None:
    one = sink(tmp_path / "t")
    assert not one.holds(0)
    pq.write_table(pa.table([[]] * len(one.schema), schema=one.schema), tmp_path / "t/part-0.parquet")
    one.commit(3, [tmp_path / "t/part-0.parquet"])
    for again in (one, sink(tmp_path / "t")):
        assert [again.holds(batch) for batch in (2, 3, 4)] == [True, True, False]
    other = TableSink(plan(check(flows.delayed)), f"delta:{tmp_path / 't'}", "another")
    assert not other.holds(0)


def test_TT209_tables_that_a_sink_cannot_write(tmp_path: Path) -> None:
    grown(tmp_path / "t")
    with pytest.raises(
        RunError, match=r"is a table of id string, ts long, watts long; the sink has .*at timestamp"
    ) as no:
        sink(tmp_path / "t").holds(0)
    assert no.value.code == "TT209"
    made = sink(tmp_path / "made")
    made.holds(0)
    shutil.rmtree(tmp_path / "made")
    DeltaTable.create(tmp_path / "made", schema=made.schema, partition_by=["id"])
    with pytest.raises(RunError, match="in partitions by id"):
        sink(tmp_path / "made").holds(0)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written") as failed:
        sink(tmp_path / "file/t").holds(0)
    assert failed.value.code == "TT209"


def test_places_are_what_spark_keeps() -> None:
    assert Place(1, 2)._asdict() == {"version": 1, "file": 2}

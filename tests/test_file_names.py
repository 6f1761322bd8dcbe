"""The name of its file as a column of a row: ``source(..., file_name=...)``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tracetypes
from tracetypes import CheckFailed, Dataflow, RunError, U, Unit, UsageError, check, every, text_lines
from tracetypes.compiler.connectors.registry import refuse_file_name


@attrs.frozen
class Reading:
    sensor: str
    ts: int


def flow_of(edge: Any = U[Unit, Reading], *, file_name: str | None = "sensor", **options: Any) -> Dataflow:
    """Rows go straight to the sink."""
    flow = Dataflow("readings")
    markers = every(seconds=10, time=lambda row: row.ts, delay=1_000)
    flow.sink("out", flow.source("readings", edge, markers=markers, file_name=file_name, **options))
    return flow


def write(path: Path, times: range) -> None:
    """A file without a column for its sensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"ts": at} for at in times]
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(one) + "\n" for one in rows))
        case ".csv":
            path.write_text("ts\n" + "".join(f"{one['ts']}\n" for one in rows))
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case _:
            with path.open("wb") as file:
                schema = {"type": "record", "name": "Row", "fields": [{"name": "ts", "type": "long"}]}
                fastavro.writer(file, fastavro.parse_schema(schema), rows)


def run(flow: Dataflow, place: Any) -> list[Any]:
    """The rows of a run on the local backend."""
    rows: list[Any] = []
    tracetypes.run(flow, {"readings": place if isinstance(place, list) else str(place)}, {"out": rows}, backend="local")
    return sorted(rows, key=repr)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "avro"])
def test_a_row_knows_its_file(tmp_path: Path, ending: str) -> None:
    """Without the folder; small files are read together all the same."""
    for sensor in range(3):
        write(tmp_path / "in" / f"x={sensor}" / f"sensor {sensor}.{ending}", range(sensor, 300))
    expected = [Reading(f"sensor {sensor}.{ending}", at) for sensor in range(3) for at in range(sensor, 300)]
    assert run(flow_of(), tmp_path / "in") == sorted(expected, key=repr)
    with pytest.raises(RunError, match="TT203") if ending != "jsonl" else _nothing():
        assert run(flow_of(file_name=None), tmp_path / "in") == []  # a line of JSON without the field is a reject


class _nothing:
    """A context that expects no error."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_a_key_may_be_the_name(tmp_path: Path) -> None:
    @attrs.frozen
    class Row:
        ts: int

    for sensor in "ab":
        write(tmp_path / "in" / f"{sensor}.csv", range(3))
    assert run(flow_of(U[str, Row], file_name="key"), tmp_path / "in") == [(f"{s}.csv", Row(at)) for s in "ab" for at in range(3)]


def test_the_file_wins(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"ts": 1, "sensor": "mine"}\n{"ts": 2}\n')
    assert run(flow_of(), tmp_path / "in.jsonl") == [Reading("in.jsonl", 2), Reading("mine", 1)]


@pytest.mark.parametrize("name", ["ts", "nothing"])
def test_TT119_no_column_of_text(name: str) -> None:
    with pytest.raises(CheckFailed, match=r"(?s)TT119.*file_name"):
        check(flow_of(file_name=name))
    with pytest.raises(CheckFailed, match=r"(?s)TT119.*file_name"):
        check(flow_of(U[Unit, str], file_name="value", format=text_lines()))


def test_TT402_an_input_that_has_no_files() -> None:
    with pytest.raises(UsageError, match=r"TT402 .*file_name"):
        run(flow_of(), [Reading("a", 1)])
    (source,) = check(flow_of()).graph.sources
    for address in ("kafka://host:1/topic", "delta:table", "-"):
        with pytest.raises(UsageError, match="TT402"):
            refuse_file_name(source, address)
    refuse_file_name(source, "s3://bucket/in")

"""Files of a sink that are compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest

import tracetypes
from tracetypes import Dataflow, RunError, U, Unit, UsageError, csv, every, json_lines, parquet
from tracetypes.formats import Csv, JsonLines, ending_of, sink_format


@attrs.frozen
class Order:
    shop: str
    ts: int


ORDERS = [Order(f"shop é {n % 7}", n) for n in range(500)]


def flow_of(format: Any) -> Dataflow:
    """Rows go straight to the sink."""
    flow = Dataflow("orders")
    rows = flow.source("orders", U[Unit, Order], markers=every(seconds=10, time=lambda order: order.ts))
    flow.sink("out", rows, format=format)
    return flow


def written(place: Path, format: Any) -> list[Path]:
    """The files of a run."""
    tracetypes.run(flow_of(format), {"orders": ORDERS}, {"out": str(place)}, backend="local")
    return sorted(place.glob("part-*"))


@pytest.mark.parametrize(
    ("format", "ending", "magic"),
    [
        (json_lines(compression="gzip"), ".jsonl.gz", b"\x1f\x8b"),
        (json_lines(compression="zstd"), ".jsonl.zst", b"\x28\xb5\x2f\xfd"),
        (csv(compression="gzip", separator=";"), ".csv.gz", b"\x1f\x8b"),
        (csv(compression="zstd"), ".csv.zst", b"\x28\xb5\x2f\xfd"),
    ],
)
def test_text_is_compressed(tmp_path: Path, format: Any, ending: str, magic: bytes) -> None:
    """A source reads it, and the same rows are the same bytes."""
    files = written(tmp_path / "one", format)
    assert files
    assert all(one.name.endswith(ending) and one.read_bytes().startswith(magic) for one in files)
    again = written(tmp_path / "two", format)
    assert [one.read_bytes() for one in files] == [one.read_bytes() for one in again]
    flow, rows = flow_of(None), list[Order]()
    if isinstance(format, Csv):
        flow = Dataflow("orders")
        markers = every(seconds=10, time=lambda order: order.ts)
        flow.sink("out", flow.source("orders", U[Unit, Order], markers=markers, format=csv(separator=format.separator)))
    else:
        assert sorted(tracetypes.read(tmp_path / "one", Order), key=lambda one: one.ts) == ORDERS
    tracetypes.run(flow, {"orders": str(tmp_path / "one")}, {"out": rows}, backend="local")
    assert sorted(rows, key=lambda one: one.ts) == ORDERS


@pytest.mark.parametrize("compression", ["snappy", "gzip", "zstd", "none"])
def test_parquet_is_compressed(tmp_path: Path, compression: Any) -> None:
    (file, *_) = written(tmp_path / "out", parquet(compression=compression))
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert {group.column(at).compression.lower() for at in range(2)} == {{"none": "uncompressed"}.get(compression, compression)}
    assert sorted(tracetypes.read(tmp_path / "out", Order), key=lambda one: one.ts) == ORDERS


def test_the_name_of_an_output_says_it_too(tmp_path: Path) -> None:
    assert sink_format("out.jsonl.gz", None) == json_lines(compression="gzip")
    assert sink_format("out.csv.zst", None) == csv(compression="zstd")
    assert sink_format("out.parquet.gz", None) == parquet()
    assert sink_format("out.csv.gz", json_lines()) == JsonLines()
    assert ending_of(sink_format("out.jsonl.bz2", None)) == "jsonl"
    files = written(tmp_path / "out.jsonl.zst", None)
    assert {"".join(one.suffixes) for one in files} == {".jsonl.zst"}


def test_TT115_other_compressions() -> None:
    calls: list[Any] = [csv, json_lines, parquet]
    for call in calls:
        with pytest.raises(UsageError, match="TT115"):
            call(compression="lzo")


def test_TT207_what_is_sent_is_not_compressed(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"TT207 .*not compressed"):
        tracetypes.run(
            flow_of(json_lines(compression="gzip")),
            {"orders": ORDERS},
            {"out": "tcp://127.0.0.1:9"},
            backend="local",
            checkpoint=str(tmp_path / "checkpoint"),
        )

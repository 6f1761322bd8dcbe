"""The least event time of a file: by statistics where they tell it, else by reading, always the same."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracetypes import Dataflow, RunError, U, Unit, check, csv, every, json_lines, parquet
from tracetypes.compiler.connectors import least_time as module
from tracetypes.compiler.connectors.least_time import least_time
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.plan.planner import plan
from tracetypes.formats import Csv, Format, Parquet, format_of
from tracetypes.markers import TimeUnit


@attrs.frozen
class Counted:
    ts: int


@attrs.frozen
class Timed:
    ts: dt.datetime


def leaf(
    of: type[Any], format: Format | None = None, time: Callable[[Any], Any] = lambda value: value.ts, unit: TimeUnit = "s"
) -> FromSource:
    """A source as a plan reads it."""
    flow = Dataflow("least")
    flow.sink("out", flow.source("in", U[Unit, of], markers=every(seconds=1, time=time, unit=unit), format=format))  # type: ignore[valid-type]
    return plan(check(flow)).sources[0]


@pytest.fixture
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a file is read."""
    monkeypatch.setattr(module, "_rows_of_parquet", lambda *_: pytest.fail("it is read"))


@pytest.mark.parametrize(("unit", "micros"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.int8()])
@pytest.mark.usefixtures("nothing_is_read")
def test_statistics_tell_it_of_numbers(tmp_path: Path, kind: Any, unit: TimeUnit, micros: int) -> None:
    path = str(tmp_path / "in.parquet")
    pq.write_table(pa.table({"ts": pa.array([5, None, -3, 9, 7], kind), "more": [0.5] * 5}), path, row_group_size=2)
    assert least_time(leaf(Counted, unit=unit), Parquet(), None, path) == -3 * micros


EARLY = dt.datetime(2024, 1, 1, 5, 0, 0, 250_000)
MICROS = round(EARLY.replace(tzinfo=dt.UTC).timestamp() * 1_000_000)


def write_times(path: Path, unit: str, zone: str | None, **options: Any) -> str:
    kind = pa.timestamp(unit, zone)
    times = pa.array([dt.datetime(2024, 1, 2), EARLY.replace(microsecond=0 if unit == "s" else 250_000)], kind)
    pq.write_table(pa.table({"ts": times}), path, **options)
    return str(path)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.usefixtures("nothing_is_read")
def test_statistics_tell_it_of_times(tmp_path: Path, unit: str, zone: str) -> None:
    path = write_times(tmp_path / "in.parquet", unit, zone)
    assert least_time(leaf(Timed), Parquet(), None, path) == MICROS


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "options",
    [
        {"use_deprecated_int96_timestamps": True},
        {"coerce_timestamps": "us", "allow_truncated_timestamps": True},
        {"write_statistics": False},
    ],
)
def test_other_files_are_read(tmp_path: Path, unit: str, options: dict[str, Any]) -> None:
    path = write_times(tmp_path / "in.parquet", unit, "UTC", **options)
    assert least_time(leaf(Timed), Parquet(), None, path) == MICROS - (250_000 if unit == "s" else 0)


def test_so_are_those_whose_zone_the_format_declares(tmp_path: Path) -> None:
    path, format = write_times(tmp_path / "in.parquet", "us", None), parquet(zone="Europe/Berlin")
    assert least_time(leaf(Timed, format), format, None, path) == MICROS - 3_600_000_000


def test_so_are_those_whose_time_is_computed(tmp_path: Path) -> None:
    path = str(tmp_path / "in.parquet")
    pq.write_table(pa.table({"ts": [1, 3, 2]}), path)
    assert least_time(leaf(Counted, time=lambda value: -value.ts), Parquet(), None, path) == -3_000_000
    opaque: Callable[[Any], Any] = lambda value: int(str(-value.ts))  # noqa: E731
    assert least_time(leaf(Counted, time=opaque), Parquet(), None, path) == -3_000_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.jsonl", b'{"ts":7}\nno row\n{"ts":3}\n{"ts":5}\n'),
        ("in.csv", b"ts\n7\n3\nno row\n"),
        ("in.jsonl.gz", gzip.compress(b'{"ts":7}\n{"ts":3}\n', mtime=0)),
    ],
)
def test_text_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    path, format = str(tmp_path / name), format_of(name, None)
    header = ["ts"] if isinstance(format, Csv) else None
    assert least_time(leaf(Counted), format, header, path) == 3_000_000


def test_a_file_of_other_columns_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("other\n3\n")
    with pytest.raises(RunError, match="TT203"):
        least_time(leaf(Counted), csv(), ["ts"], str(tmp_path / "in.csv"))


def test_there_may_be_none(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("no row\n\n")
    pq.write_table(pa.table({"ts": pa.array([], pa.int64())}), tmp_path / "in.parquet")
    for name in ("in.jsonl", "gone.jsonl"):
        assert least_time(leaf(Counted), json_lines(), None, str(tmp_path / name)) is None
    assert least_time(leaf(Counted), Parquet(), None, str(tmp_path / "in.parquet")) is None

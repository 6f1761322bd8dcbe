"""A column of a Parquet file holds exactly the values that a schema has for it, or it is refused with the reason."""

from __future__ import annotations

import datetime as dt
import tempfile
import zoneinfo
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, RunError, U, Unit, check, every, parquet
from tracetypes.compiler.columns.arrow import from_array, has_gaps
from tracetypes.compiler.connectors import parquet_row_groups
from tracetypes.compiler.connectors.parquet import check_file, open_parquet
from tracetypes.compiler.plan.plan import SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.scan import End, ParquetScan
from tracetypes.compiler.store.staging import SEND
from tracetypes.formats import Layout
from tracetypes.records import INT_MAX, UnitValue
from tracetypes.schemas import schema_of


@attrs.frozen
class Inner:
    """A time inside a record."""

    at: dt.datetime


def record(kind: Any) -> Any:
    """A record with one field."""
    return make_dataclass("One", [("value", kind)], frozen=True)


def read(kind: Any, path: Path, zone: str | None) -> tuple[list[Any], bool]:
    """The values of the only column of a file, and whether a row is a reject: a value does not fit, or is missing where something
    must be. Raises :class:`RunError`."""
    flow = Dataflow("one column")
    time: Any = lambda value: 0  # noqa: E731
    one: Any = record(kind)
    flow.sink("out", flow.source("rows", U[Unit, one], markers=every(seconds=1, time=time), format=parquet(zone=zone)))
    planned = plan(check(flow))
    (link,) = links(planned.stages[0].region)
    assert isinstance(link, SourceLink)
    scan = ParquetScan(End(planned, planned.stages[0], link, [0], SEND))
    schema = schema_of(kind)
    whole = [(group.column(0), group.misfits(0)) for group in scan.tables(str(path), 0, 1)]
    columns = [column for column, _ in whole]
    gaps = any(has_gaps(schema, column) or misfits is not None for column, misfits in whole)
    return [] if gaps else [value for column in columns for value in from_array(schema, column)], gaps


def first(kind: Any, path: Path, zone: str | None) -> None:
    """What is looked at before a run. Raises :class:`RunError`."""
    with open_parquet(str(path)) as file:
        check_file(Layout(UnitValue(), schema_of(record(kind))), parquet(zone=zone), file, "a file")


def instant(count: int, per_second: int, tz: str | None, zone: str | None) -> dt.datetime | None:
    """The time that so many ticks stand for; None where it is none, or between two microseconds."""
    micros, rest = divmod(count * 10**6, per_second)
    if rest:
        return None
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
    if tz is not None:
        return utc
    local = utc.replace(tzinfo=zoneinfo.ZoneInfo(zone or "UTC"))
    early, late = (local.replace(fold=fold).astimezone(dt.UTC) for fold in (0, 1))
    return early if early == late else None


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS = st.integers(600_000_000, 1_900_000_000) | st.sampled_from(
    [int(dt.datetime(2024, month, day, 2, 30, tzinfo=dt.UTC).timestamp()) for month, day in ((3, 31), (10, 27))]
)


@pytest.mark.parametrize("kind", [dt.datetime, dt.datetime | None, list[dt.datetime], Inner], ids=str)
@given(
    seconds=st.lists(SECONDS, max_size=3),
    unit=st.sampled_from(list(UNITS)),
    finer=st.sampled_from([0, 0, 1, 999, 1000, 123_456_000, 123_456_789]),
    tz=st.sampled_from([None, None, "UTC", "America/New_York"]),
    zone=st.sampled_from([None, "UTC", "Europe/Berlin"]),
    categories=st.booleans(),
)
def test_times_are_exact_or_rejects(
    kind: Any, seconds: list[int], unit: str, finer: int, tz: str | None, zone: str | None, categories: bool
) -> None:
    """Any unit, with and without a zone, in lists and records: no file says what another one would not."""
    per_second = UNITS[unit]
    counts = [one * per_second + finer * per_second // 10**9 for one in seconds]
    column = pa.array(counts, pa.int64()).cast(pa.timestamp(unit, tz))
    if kind == list[dt.datetime]:
        column = pa.ListArray.from_arrays(pa.array(range(len(counts) + 1), pa.int32()), column)
    elif kind is Inner:
        column = pa.StructArray.from_arrays([column], names=["at"])
    elif categories:
        column = column.dictionary_encode()
    wanted = [instant(count, per_second, tz, zone) for count in counts]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "in.parquet")
        pq.write_table(pa.table({"value": column}), path)
        if tz is None and zone is None:
            for look in (first, read):
                if look is first or counts:
                    with pytest.raises(RunError, match=r"(?s)TT203.*'value'.*times without a zone.*zone="):
                        look(kind, path, zone)
            return
        first(kind, path, zone)
        if None in wanted:
            assert read(kind, path, zone) == ([], True)
            return
        found, _ = read(kind, path, zone)
    of: dict[Any, Any] = {list[dt.datetime]: lambda at: [at], Inner: Inner}
    assert found == [of.get(kind, lambda at: at)(at) for at in wanted]


def test_INT96_is_in_utc_whatever_the_source_declares(tmp_path: Path) -> None:
    """It is what Spark and Impala write, for instants beyond the nanoseconds of 64 bits too."""
    times = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (1, 1900, 2024, 9999)]
    column = pa.array(times, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"value": column}), tmp_path / "in.parquet", use_deprecated_int96_timestamps=True)
    for zone in (None, "UTC", "Europe/Berlin"):
        first(dt.datetime, tmp_path / "in.parquet", zone)
        assert read(dt.datetime, tmp_path / "in.parquet", zone) == (times, False)


NOTHING = [int, float, str, bytes, bool, dt.datetime, dt.date, list[int], Inner]


@pytest.mark.parametrize("kind", NOTHING, ids=str)
def test_a_column_of_nothing_but_nulls(tmp_path: Path, kind: Any) -> None:
    """Pandas writes it without a type: None where that may be, and a reject for each row where not."""
    pd.DataFrame({"value": [None, None]}).to_parquet(tmp_path / "in.parquet")
    assert pq.read_schema(tmp_path / "in.parquet").field("value").type == pa.null()
    for one in (kind, kind | None):
        first(one, tmp_path / "in.parquet", None)
    assert read(kind, tmp_path / "in.parquet", None) == ([], True)
    assert read(kind | None, tmp_path / "in.parquet", None) == ([None, None], False)


INTEGERS = st.lists(
    st.integers(0, 127) | st.sampled_from([0, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]), max_size=3
)


@given(INTEGERS, st.sampled_from([pa.int8(), pa.int32(), pa.uint32(), pa.uint64()]), st.booleans())
def test_integers_are_exact_or_rejects(numbers: list[int], type: Any, categories: bool) -> None:
    numbers = [number for number in numbers if number < 2 ** (type.bit_width - pa.types.is_signed_integer(type))]
    column = pa.array(numbers, type)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "in.parquet")
        pq.write_table(pa.table({"value": column.dictionary_encode() if categories else column}), path)
        first(int, path, None)
        if max(numbers, default=0) > INT_MAX:
            assert read(int, path, None) == ([], True)
        else:
            assert read(int, path, None) == (numbers, False)


NEW_YEAR = dt.datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
PANDAS: dict[str, tuple[Any, Any, list[Any]]] = {
    "categories": (str, pd.Series(["x", "y"], dtype="category"), ["x", "y"]),
    "integers with gaps": (int | None, pd.array([1, None], dtype="Int64"), [1, None]),
    "days": (dt.date, pd.Series([dt.date(2024, 1, 1)]), [dt.date(2024, 1, 1)]),
    "small floats": (float, pd.Series([1.5, 2.0], dtype="float32"), [1.5, 2.0]),
    "text with gaps": (str | None, pd.array(["a", None], dtype="string"), ["a", None]),
    "NaN": (float | None, pd.Series([1.0, float("nan")]), [1.0, None]),
    "records": (Inner, pd.Series([{"at": pd.Timestamp(NEW_YEAR)}]), [Inner(NEW_YEAR)]),
    "lists": (list[int], pd.Series([[1], [2, 3]]), [[1], [2, 3]]),
    "no types": (int | None, pd.Series([None]), [None]),
    "times": (dt.datetime, pd.Series([pd.Timestamp(NEW_YEAR)]), [NEW_YEAR]),
}


@pytest.mark.parametrize("what", list(PANDAS))
def test_what_pandas_writes_by_default(tmp_path: Path, what: str) -> None:
    kind, series, values = PANDAS[what]
    pd.DataFrame({"value": series}).to_parquet(tmp_path / "in.parquet")
    first(kind, tmp_path / "in.parquet", None)
    assert read(kind, tmp_path / "in.parquet", None) == (values, False)


@pytest.mark.parametrize("kind", [int, dt.date, str, dt.datetime, list[int], Inner], ids=str)
def test_TT203_durations_are_nothing_of_ours(tmp_path: Path, kind: Any) -> None:
    """Their storage is that of integers. The message names the real type."""
    pd.DataFrame({"value": pd.to_timedelta([1, 2], unit="s")}).to_parquet(tmp_path / "in.parquet")
    for look in (first, read):
        with pytest.raises(RunError, match=r"TT203.*duration\[ns\], expected"):
            look(kind, tmp_path / "in.parquet", "UTC")


@pytest.mark.parametrize(("distinct", "opened"), [(False, 1), (True, 2)])
def test_a_file_is_opened_again_only_for_texts_that_do_not_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distinct: bool, opened: int
) -> None:
    texts = [f"a rather long text {n if distinct else n % 3}" for n in range(40_000)]
    pq.write_table(pa.table({"value": texts}), tmp_path / "one.parquet")
    opens: list[str] = []

    def opening(path: str, *ranges: Any, **options: Any) -> Any:
        opens.append(path)
        return open_parquet(path, *ranges, **options)

    monkeypatch.setattr(parquet_row_groups, "open_parquet", opening)
    assert read(str, tmp_path / "one.parquet", None) == (texts, False)
    assert len(opens) == opened

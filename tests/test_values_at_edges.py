"""Values at the edges of their types: each is read as it is, or its row is a reject, by rows and by columns."""

from __future__ import annotations

import datetime as dt
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, U, UInt64, Unit, csv, decimal, every, json_lines, parquet
from tracetypes.check import check
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.local_times import instants_of
from tracetypes.compiler.connectors.parquet_row_groups import RowGroups, tables
from tracetypes.compiler.connectors.source_rows import parsed_row, row_taker, taker
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.plan import FromSource, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.conformance import instant_in
from tracetypes.parsing import text_parser
from tracetypes.schemas import schema_of
from tracetypes.sources import reader

REJECT = "reject"


@dataclass(frozen=True)
class Late:
    ts: int
    v: int


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@cache
def leaf_of(kind: Any, format: Any, times: Any = "exact") -> FromSource:
    flow = Dataflow("edges")
    cls: Any = make_dataclass("One", [("ts", int), ("v", kind)], frozen=True)
    flow.sink(
        "out",
        flow.source("rows", U[Unit, cls], markers=every(seconds=1, time=lambda r: r.ts), format=format, times=times),
    )
    planned = plan(check(flow))
    (link,) = links(planned.stages[0].region)
    assert isinstance(link, SourceLink)
    return link.leaf


def found(kind: Any, rows: Any) -> list[Any]:
    values: list[Any] = []
    for one in rows:
        if isinstance(one, Chunk):
            values += from_array(schema_of(kind), one.column(("value", "v")))
        else:
            values.append(REJECT if one.row.kind == "reject" else one.row.value.v)
            assert one.row.kind != "reject" or one.row.reason
            assert one.show()
    return values


def of_text(kind: Any, texts: list[str], format: Any, times: Any = "exact") -> list[Any]:
    """What lines give, together and each by itself, in order."""
    leaf = leaf_of(kind, format, times)
    whole, *singles = [taken(leaf, raws) for raws in (texts, *([text] for text in texts))]
    single = [value for one in singles for value in found(kind, one)]
    assert sorted(map(repr, found(kind, whole))) == sorted(map(repr, single))
    assert [repr(value) for value in found(kind, by_rows(leaf, texts))] == [repr(value) for value in single]
    return single


def taken(leaf: FromSource, texts: list[str]) -> Iterator[Any]:
    """Lines as a source reads them: as columns if that can be."""
    format: Any = leaf.source.format
    lines = TextReader(leaf, format, ["ts", "v"], reader(leaf.source).read)
    return lines.of_text("".join(f"{text}\n" for text in texts).encode(), 0, SplitNotes())


def by_rows(leaf: FromSource, texts: list[str]) -> Iterator[TakenRow]:
    """Each line by itself: what the others must give."""
    format: Any = leaf.source.format
    parse, read = text_parser(format, leaf.layout, ["ts", "v"]), reader(leaf.source).read
    return (TakenRow(parsed_row(text.encode(), parse, read), partial(str, text)) for text in texts)


def of_column(kind: Any, column: Any, zone: str | None = None, times: Any = "exact", int96: bool = False) -> list[Any]:
    """What a column of Parquet gives."""
    leaf = leaf_of(kind, parquet(zone=zone), times)
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch, "one.parquet"))
        pq.write_table(
            pa.table({"ts": pa.array([0] * len(column), pa.int64()), "v": column}),
            path,
            use_deprecated_int96_timestamps=int96,
        )
        read = reader(leaf.source).read
        values = [value for table in tables(leaf, path) for value in found(kind, taker(leaf, read)(table))]
        groups = [
            part for table in tables(leaf, path) for part in (table.parts if isinstance(table, RowGroups) else [table])
        ]
        assert repr(values) == repr([value for group in groups for value in found(kind, row_taker(leaf, read)(group))])
    return values


NANOS = (
    st.integers(-(2**62), 2**62) | st.integers(-3_000, 3_000) | st.sampled_from([-1, 999, 1000, -1000, 1_000_000_001])
)


def time_of(nanos: int, times: str) -> Any:
    micros, rest = divmod(nanos, 1000)
    return REJECT if rest and times == "exact" else EPOCH + dt.timedelta(microseconds=micros)


@given(st.lists(NANOS, min_size=1, max_size=4), st.sampled_from(["exact", "truncate"]), st.integers(7, 9))
def test_digits_of_times(nanos: list[int], times: str, digits: int) -> None:
    """In text, in nanoseconds, and in INT96."""
    want = [time_of(one, times) for one in nanos]
    assert of_column(dt.datetime, pa.array(nanos, pa.timestamp("ns", "UTC")), times=times) == want
    assert of_column(dt.datetime, pa.array(nanos, pa.timestamp("ns", "UTC")), times=times, int96=True) == want
    lists = of_column(
        list[dt.datetime], pa.array([[one, 0] for one in nanos], pa.list_(pa.timestamp("ns", "UTC"))), times=times
    )
    assert lists == [one if one == REJECT else [one, EPOCH] for one in want]
    cut = [one - one % 10 ** (9 - digits) for one in nanos]
    texts = [f"{time_of(one, 'truncate'):%Y-%m-%dT%H:%M:%S}.{one % 10**9:09d}"[: 20 + digits] + "Z" for one in cut]
    want = [time_of(one, times) for one in cut]
    assert of_text(dt.datetime, [json.dumps({"ts": 0, "v": text}) for text in texts], json_lines(), times) == want
    assert of_text(dt.datetime, [f"0,{text}" for text in texts], csv(), times) == want


EDGES = [
    0,
    1,
    -1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**53 + 2,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64 - 2**11,
    2**64 - 1,
]
INTEGERS = st.lists(st.sampled_from(EDGES) | st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=4)
RANGES: dict[Any, Any] = {
    int: lambda one: one if -(2**63) <= one < 2**63 else REJECT,
    UInt64: lambda one: one if 0 <= one < 2**64 else REJECT,
    float: lambda one: float(one) if int(float(one)) == one else REJECT,
}


@given(
    INTEGERS,
    st.sampled_from(list(RANGES)),
    st.sampled_from([pa.int64(), pa.uint64(), pa.decimal128(22, 2), pa.int32()]),
)
def test_integers(numbers: list[int], kind: Any, type: Any) -> None:
    """Of every width and sign, and as decimals. In text they are what the type has."""
    least, most = (-(2**63), 2**64 - 1) if pa.types.is_decimal(type) else (0, 2**64 - 1)
    if pa.types.is_signed_integer(type):
        least, most = -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1
    inside = [one for one in numbers if least <= one <= most] or [0]
    if kind is not float or not pa.types.is_decimal(type):
        assert of_column(kind, pa.array(inside, type)) == [RANGES[kind](one) for one in inside]
    want = [float(one) if kind is float else RANGES[kind](one) for one in numbers]
    assert of_text(kind, [json.dumps({"ts": 0, "v": one}) for one in numbers], json_lines()) == want
    assert of_text(kind, [f"0,{one}" for one in numbers], csv()) == want


@given(st.lists(st.decimals(-(10**19), 10**19, places=3), min_size=1, max_size=4))
def test_decimals_for_integers_and_for_fewer_digits(numbers: list[Any]) -> None:
    column = pa.array(numbers, pa.decimal128(23, 3))
    whole = [int(one) if one == int(one) and -(2**63) <= one < 2**63 else REJECT for one in numbers]
    assert of_column(int, column) == whole
    money: Any = Annotated[type(numbers[0]), decimal(22, 2)]
    assert of_column(money, column) == [one if one * 100 == int(one * 100) else REJECT for one in numbers]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400, "1e308", "1e-400", "0.1", "9007199254740993"])
def test_numerals_for_floats(text: str) -> None:
    want = REJECT if math.isinf(float(text)) else float(text)
    assert of_text(float, [f'{{"ts": 0, "v": {text}}}'] * 2, json_lines()) == [want] * 2
    assert of_text(float, [f"0,{text}"] * 2, csv()) == [want] * 2
    assert of_text(list[float], [f'{{"ts": 0, "v": [{text}]}}'], json_lines()) == [want if want == REJECT else [want]]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_floats_by_name(text: str) -> None:
    for line in (f'{{"ts": 0, "v": {text}}}', f'{{"ts": 0, "v": "{text}"}}'):
        assert repr(of_text(float, [line], json_lines())) == repr([float(text)])


@given(st.sampled_from([2**62, -(2**62), 253_402_300_800_000_000, 253_402_300_799_999_999]), st.booleans())
def test_times_beyond_the_years_of_python(micros: int, optional: bool) -> None:
    kind: Any = dt.datetime | None if optional else dt.datetime
    want = EPOCH + dt.timedelta(microseconds=micros) if micros == 253_402_300_799_999_999 else REJECT
    assert of_column(kind, pa.array([micros, 0], pa.timestamp("us", "UTC"))) == [want, EPOCH]


LOCAL = st.integers(-(62 * 10**15), 253 * 10**15) | st.integers(2_140_000_000_000_000, 3_000_000_000_000_000)


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
    st.lists(LOCAL, min_size=1),
)
def test_local_times_follow_the_rules_of_text(zone: str, local: list[int]) -> None:
    local += [one - one % 86_400_000_000 for one in local]
    instants, doubtful = instants_of(zone, np.array(local, np.int64))
    for one, micros, doubt in zip(local, instants.tolist(), doubtful.tolist(), strict=True):
        try:
            instant = instant_in(zone, (EPOCH + dt.timedelta(microseconds=one)).replace(tzinfo=None))
        except OverflowError:
            instant = None
        assert (None if doubt else EPOCH + dt.timedelta(microseconds=micros)) == instant
    spring = int(
        (dt.datetime(2040, 3, 25, 2, tzinfo=dt.UTC) - EPOCH).total_seconds()
    )  # clocks are put forward by an hour
    around = np.array([spring - 1, spring, spring + 3599, spring + 3600], np.int64) * 1_000_000
    assert instants_of("Europe/Berlin", around)[1].tolist() == [False, True, True, False]


MOST = 253_402_300_799
TIMES = [0, MOST, MOST - 10, MOST - 9, 1_700_000_000_000, -62_135_596_800, -62_135_596_801, 2**62]


@given(st.lists(st.sampled_from(TIMES), min_size=1, max_size=4))
def test_event_times_whose_blocks_no_marker_ends(seconds: list[int]) -> None:
    """A block ends within the years 1 to 9999, or the row is a reject, by rows and by columns."""
    flow = Dataflow("times")
    flow.sink(
        "out", flow.source("rows", U[Unit, Late], markers=every(seconds=10, time=lambda r: r.ts), format=json_lines())
    )
    (link,) = links(plan(check(flow)).stages[0].region)
    assert isinstance(link, SourceLink)
    rows = [json.dumps({"ts": one, "v": at}) for at, one in enumerate(seconds)]
    want = [at if -62_135_596_800 <= one < MOST - 9 else REJECT for at, one in enumerate(seconds)]
    assert found(int, by_rows(link.leaf, rows)) == want
    assert sorted(map(str, found(int, taken(link.leaf, rows)))) == sorted(map(str, want))


def test_milliseconds_for_seconds_get_an_advice() -> None:
    how = every(seconds=10, time=lambda t: t)
    with pytest.raises(ValueError, match='declare unit="ms" if these are milliseconds'):
        how.time_of(1_700_000_000_000)

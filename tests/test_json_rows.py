"""Lines of JSON that are written a column at a time have the bytes that Python's ``json`` gives row by row."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.connectors.json_rows import json_lines

UTC = dt.UTC
FLOATS = st.one_of(
    st.floats(),
    st.integers(0, 2**64 - 1).map(lambda bits: float(struct.unpack("d", struct.pack("Q", bits))[0])),
    st.integers(-(10**18), 10**18).map(float),
    st.integers(-(10**12), 10**12).map(lambda n: n / 1000),
    st.sampled_from([0.0, -0.0, 1e-4, math.nextafter(1e-4, 0), 1e9, math.nextafter(1e9, 0), 1e16, 5e-324, math.inf, -math.inf]),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\/\n\r\t\0\x1f\x7f\u2028é')) | st.just("plain")
TIMES = st.datetimes(timezones=st.just(UTC)) | st.sampled_from(
    [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
)
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pa.float64(), FLOATS),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), TEXTS),
    "time": (pa.timestamp("us", "UTC"), TIMES),
    "list": (pa.list_(pa.string()), st.lists(TEXTS, max_size=2)),
    "struct": (STRUCT, st.builds(lambda a, b: {"a": a, "b": b}, st.integers(0, 3), TEXTS)),
    "date": (pa.date32(), st.dates()),
}


def shown(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case dt.datetime():
            return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case dt.date():
            return value.isoformat()
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def by_hand(rows: list[dict[str, Any]]) -> bytes:
    dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return "".join(dumps({name: shown(value) for name, value in row.items()}) + "\n" for row in rows).encode()


@given(st.data())
def test_lines_have_the_bytes_of_json(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    names = [f'{kind}"{at}' for at, kind in enumerate(kinds)]
    row = st.fixed_dictionaries({name: st.none() | KINDS[kind][1] for name, kind in zip(names, kinds, strict=True)})
    rows = [{name: one[name] for name in names} for one in data.draw(st.lists(row, max_size=6))]
    schema = pa.schema([(name, KINDS[kind][0]) for name, kind in zip(names, kinds, strict=True)])
    whole = pa.RecordBatch.from_pylist([*rows, *rows], schema=schema)
    start = data.draw(st.integers(0, len(rows)))
    assert bytes(json_lines(whole.slice(start, len(rows)))) == by_hand([*rows, *rows][start : start + len(rows)])


EDGES = [0.0, -0.0, 1.0, 1e-4, 9.9e-5, 3.6e-5, 1e-7, 1e9, 1e10, 15421488221.25, 107463481534181.95, 1e16, 1e22, 5e-324]


@pytest.mark.parametrize("most", [1.5, 1e20])
@pytest.mark.parametrize("x", [*EDGES, math.nan, math.inf, -math.inf, *(-x for x in EDGES), None])
def test_floats_that_arrow_writes_otherwise(x: float | None, most: float) -> None:
    """Beside floats that it writes as Python does, and beside others."""
    batch = pa.RecordBatch.from_pylist([{"x": one} for one in (x, most, most)], schema=pa.schema([("x", pa.float64())]))
    assert bytes(json_lines(batch)) == by_hand([{"x": one} for one in (x, most, most)])


def test_every_character_below_128() -> None:
    for one in map(chr, range(128)):
        rows = [{"text": text} for text in (one, "plain", None)]
        assert bytes(json_lines(pa.RecordBatch.from_pylist(rows, schema=pa.schema([("text", pa.string())])))) == by_hand(rows)


def test_many_rows() -> None:
    start = dt.datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"key": f"k{n}", "n": n, "x": n / 7, "t": start + dt.timedelta(seconds=n)} for n in range(5000)]
    schema = pa.schema([("key", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("t", pa.timestamp("us", "UTC"))])
    assert bytes(json_lines(pa.RecordBatch.from_pylist(rows, schema=schema))) == by_hand(rows)

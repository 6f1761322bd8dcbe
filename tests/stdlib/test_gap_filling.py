"""Gaps that are filled by each method, by steps and by the calendar, against DuckDB; laws; deployments."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import Dataflow, Item, U, UsageError, check, every, interpret_rows, sort, stdlib
from tracetypes.stdlib.gap_filling import CalendarFill, Fill
from tracetypes.testing import check_deployments, check_laws

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")
ts: Any = stdlib
METHODS = ("linear", "last", "next", "null")


@attrs.frozen
class Reading:
    key: str
    at: int
    x: float | None


def at_of(reading: Reading) -> int:
    return reading.at


def x_of(reading: Reading) -> float:
    return reading.x or 0.0


def made(before: Reading, at: int, x: float | None) -> Reading:
    return Reading(before.key, at, x)


def read(keys: str, times: Any) -> Any:
    readings = st.builds(Reading, st.sampled_from(keys), times, st.integers(-9, 9).map(float))
    return st.lists(readings, max_size=10, unique_by=lambda reading: (reading.key, reading.at))


def flow_of(seconds: int, **how: Any) -> Dataflow:
    flow = Dataflow("filled")
    markers = every(seconds=seconds, time=at_of, delay=1000 * seconds)
    rows = flow.source("rows", U[str, Reading], markers=markers, key=lambda reading: reading.key)
    number = {} if how["method"] == "null" else {"number": x_of}
    flow.sink("out", rows.through(sort(by=at_of)).through(ts.interpolate(time=at_of, make=made, **number, **how)))
    return flow


def filled(rows: Sequence[Reading], seconds: int = 5, **how: Any) -> list[tuple[str, int, float | None]]:
    found = interpret_rows(check(flow_of(seconds, **how)), {"rows": list(rows)})[0]["out"].items
    return sorted((one.value.key, one.value.at, one.value.x) for one in found if isinstance(one, Item))


@functools.cache
def database() -> Any:
    return duckdb.connect()


NUMBERS = {"linear": "x + (t - since) * (y - x) / (until - since)", "last": "x", "next": "y", "null": "NULL"}


def asked(rows: Sequence[Reading], method: str, times: str, max_gap: int) -> list[tuple[str, int, float | None]]:
    """What DuckDB says. ``times``: the times that lie between two readings."""
    columns = {"key": [row.key for row in rows], "t": [row.at for row in rows], "x": [row.x for row in rows]}
    kinds = pa.schema({"key": pa.string(), "t": pa.int64(), "x": pa.float64()})
    database().register("rows", pa.table(columns, schema=kinds))
    following = "lead({}) OVER (PARTITION BY key ORDER BY t)"
    pairs = f"SELECT key, t AS since, x, {following.format('t')} AS until, {following.format('x')} AS y FROM rows"
    between = f"SELECT *, unnest({times}) AS t FROM ({pairs}) WHERE until - since <= {max_gap}"
    sql = f"""SELECT key, t, x FROM rows UNION ALL
              SELECT key, t, {NUMBERS[method]} FROM ({between}) WHERE t > since AND t < until"""
    return sorted(database().execute(sql).fetchall())


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=some(15))
@given(rows=read("ab", st.integers(-40, 40)), step=st.integers(1, 7), max_gap=st.none() | st.integers(0, 40))
def test_steps_are_those_of_duckdb(method: str, rows: list[Reading], step: int, max_gap: int | None) -> None:
    wanted = asked(rows, method, f"range(since, until, {step})", 10_000 if max_gap is None else max_gap)
    assert rounded(filled(rows, method=method, step=step, max_gap=max_gap)) == rounded(wanted)


HOUR = 3600
SUNDAY = int(dt.datetime(2026, 3, 29, tzinfo=dt.UTC).timestamp())
MIDNIGHTS = [int(dt.datetime(2026, 3, day, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) for day in range(24, 32)]


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=some(15))
@given(rows=read("a", st.integers(-40, 24).map(lambda hour: SUNDAY + hour * HOUR)))
def test_days_are_those_of_duckdb(method: str, rows: list[Reading]) -> None:
    wanted = asked(rows, method, str(MIDNIGHTS), 40 * HOUR)
    found = filled(rows, HOUR, method=method, every="day", zone="Europe/Berlin", max_gap=40 * HOUR)
    assert rounded(found) == rounded(wanted)


def rounded(rows: list[tuple[str, int, float | None]]) -> list[tuple[str, int, float | None]]:
    return [(key, at, x if x is None else round(x, 9) + 0.0) for key, at, x in rows]


def test_a_second_reading_of_one_time() -> None:
    """It is not emitted, but the next gap begins with it."""
    rows = [Reading("a", 1, 1.0), Reading("a", 1, 2.0), Reading("a", 3, 5.0)]
    assert filled(rows, method="last") == [("a", 1, 1.0), ("a", 2, 2.0), ("a", 3, 5.0)]


@pytest.mark.parametrize("method", METHODS[1:])
def test_laws_and_deployments(method: Any) -> None:
    ones = st.builds(Reading, st.just("a"), st.integers(0, 30), st.none())
    ops: list[Any] = [Fill(at_of, x_of, made, method, 2, 9), CalendarFill(at_of, x_of, made, method, "month", "UTC", "s")]
    for op in ops:
        check_laws(op, types=(str, Reading), items=st.tuples(st.just("a"), ones), max_examples=some(15))
    assert check_deployments(flow_of(5, method=method), rows={"rows": read("ab", st.integers(-40, 40))}, max_examples=some(10))


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"method": "first"}, "method='first'"),
        ({"method": "last"}, "no number, which 'last' needs"),
        ({}, "no number, which 'linear' needs"),
        ({"number": 3}, "is no function"),
        ({"number": x_of, "every": "hour"}, "every='hour'"),
        ({"number": x_of, "every": "day", "zone": "Mars"}, "zone='Mars'"),
        ({"number": x_of, "every": "day", "step": 2}, "both step and every"),
        ({"number": x_of, "step": 0}, "step is 0"),
    ],
)
def test_what_cannot_be_meant(how: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        ts.interpolate(time=at_of, make=made, **how)
    assert caught.value.code == "TT121"
    assert text in caught.value.message
    assert caught.value.fix

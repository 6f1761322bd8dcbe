"""Aggregates of the standard library against DuckDB: the definition over random rows, by key and block."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stdlib.small import Event, told
from tracetypes import desc, stdlib
from tracetypes.stdlib import Counted, Line, Ranked

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")
ts: Any = stdlib


def x_of(event: Event) -> int:
    return event.x


def half(event: Event) -> float:
    return event.x / 2


def ts_of(event: Event) -> int:
    return event.ts


def third_of(event: Event) -> int:
    return event.x % 3


def odd(event: Event) -> bool:
    return event.ts % 2 != 0


def rare(event: Event) -> bool:
    return event.x > 5


ODD, RARE = "FILTER (ts % 2 != 0)", "FILTER (x > 5)"
THIRD, NAN = "((x % 3 + 3) % 3)", "'nan'::DOUBLE"
AGGREGATES: dict[str, tuple[Any, str]] = {
    "count": (ts.count(where=odd), f"count(*) {ODD}"),
    "sum": (ts.sum(x_of, where=rare), f"coalesce(sum(x) {RARE}, 0)::BIGINT"),
    "sum of floats": (ts.sum(half, where=odd), f"coalesce(sum(x / 2) {ODD}, 0)"),
    "fast_sum": (ts.fast_sum(half, where=odd), f"coalesce(sum(x / 2) {ODD}, 0)"),
    "mean": (ts.mean(x_of, where=rare), f"avg(x) {RARE}"),
    "variance": (ts.variance(x_of, population=True, where=rare), f"var_pop(x) {RARE}"),
    "stddev": (ts.stddev(half, population=True, where=odd), f"stddev_pop(x / 2) {ODD}"),
    "covariance": (ts.covariance(half, ts_of, population=True), "covar_pop(x / 2, ts)"),
    "correlation": (ts.correlation(half, ts_of), f"coalesce(corr(x / 2, ts), {NAN})"),
    "regression": (
        ts.regression(ts_of, half),
        f"[coalesce(regr_slope(x / 2, ts), {NAN}), coalesce(regr_intercept(x / 2, ts), {NAN})]",
    ),
    "median": (ts.median(half, where=odd), f"median(x / 2) {ODD}"),
    "exact_quantile": (ts.exact_quantile(0.3, half), "quantile_cont(x / 2, 0.3)"),
    "bit_and": (ts.bit_and(x_of), "bit_and(x)"),
    "bit_or": (ts.bit_or(x_of, where=rare), f"bit_or(x) {RARE}"),
    "bit_xor": (ts.bit_xor(x_of), "bit_xor(x)"),
    "mode": (
        ts.mode(third_of),
        f"list_sort([{{'n': -e.value::BIGINT, 'm': e.key}} FOR e IN map_entries(histogram({THIRD}))])[1].m",
    ),
    "histogram": (ts.histogram(third_of), f"[[e.key, e.value] FOR e IN list_sort(map_entries(histogram({THIRD})))]"),
    "collect_set": (ts.collect_set(x_of, where=odd), f"coalesce(list_sort(list(DISTINCT x) {ODD}), [])"),
    "top_distinct": (ts.top_distinct(2, x_of), "list_reverse_sort(list(DISTINCT x))[:2]"),
    "min": (ts.min(x_of, where=odd), f"min(x) {ODD}"),
    "max": (ts.max(x_of, where=rare), f"max(x) {RARE}"),
    "last": (ts.last(by=lambda e: (e.ts, e.x), where=odd), f"arg_max(struct_pack(key, ts, x), (ts, x)) {ODD}"),
    "top": (ts.top(2, by=lambda e: (e.x, e.ts), where=odd), f"coalesce(max(struct_pack(x, ts, key), 2) {ODD}, [])"),
    "first": (ts.first(by=lambda e: (e.x, e.ts)), "arg_min(struct_pack(key, ts, x), (x, ts))"),
    "first, ties": (ts.first(by=x_of, ties=True), "list(struct_pack(key, ts, x) ORDER BY ts DESC) FILTER (worst = 1)"),
    "last by desc": (ts.last(by=lambda e: (desc(e.x), e.ts)), "arg_max(struct_pack(key, ts, x), (-x, ts))"),
    "last, ties": (ts.last(by=x_of, ties=True), "list(struct_pack(key, ts, x) ORDER BY ts DESC) FILTER (best = 1)"),
    "collect": (ts.collect(x_of, where=odd), f"coalesce(list(x ORDER BY x) {ODD}, [])"),
    "collect by": (ts.collect(x_of, by=lambda e: desc(e.ts)), "list(x ORDER BY ts DESC, x)"),
    "top, ties": (ts.top(3, by=x_of, ties=True), "list(struct_pack(key, ts, x) ORDER BY x DESC, ts DESC) FILTER (best <= 3)"),
    "ranks": (
        ts.top(3, by=x_of, ties=True, ranks=True),
        "list({'rank': best, 'value': struct_pack(key, ts, x)} ORDER BY x DESC, ts DESC) FILTER (best <= 3)",
    ),
    "count_distinct": (ts.count_distinct(x_of, where=rare), f"count(DISTINCT x) {RARE}"),
}
"""Each with what SQL says for it. Rows with equal keys, times and numbers are equal."""


@functools.cache
def database() -> Any:
    return duckdb.connect()


def asked(sql: str, rows: Sequence[Event], table: str = "FROM rows") -> dict[tuple[int, str], Any]:
    """What DuckDB answers of a table for each block of five seconds and key."""
    columns = {name: [getattr(row, name) for row in rows] for name in ("key", "ts", "x")}
    kinds = pa.schema({"key": pa.string(), "ts": pa.int64(), "x": pa.int64()})
    database().register("rows", pa.table(columns, schema=kinds))
    blocks = f"SELECT *, (floor(ts / 5)::BIGINT + 1) * 5 AS block FROM ({table})"
    of_all = "rank() OVER (PARTITION BY block, key ORDER BY x {})"
    ranked = f"SELECT *, {of_all.format('DESC')} AS best, {of_all.format('')} AS worst FROM ({blocks})"
    answer = database().execute(f"SELECT block, key, {sql} FROM ({ranked}) GROUP BY block, key").fetchall()
    return {(block, key): shown(value) for block, key, value in answer}


def shown(value: Any) -> Any:
    """An answer of either side; ``Event`` by its fields."""
    match value:
        case Event(key=key, ts=ts, x=x):
            return key, ts, x
        case Line(slope=slope, intercept=intercept):
            return [shown(slope), shown(intercept)]
        case Counted(value=one, count=count):
            return [one, count]
        case Ranked(rank=rank, value=one) | {"rank": rank, "value": one}:
            return rank, shown(one)
        case dict():
            return value["key"], value["ts"], value["x"]
        case list():
            return [shown(one) for one in value]
        case float():
            return round(value, 9) + 0.0 if math.isfinite(value) else str(value)
        case _:
            return value


EVENTS = st.lists(st.builds(Event, st.sampled_from("ab"), st.integers(-12, 12), st.integers(-9, 9)), max_size=25)


def agree(name: str, rows: list[Event]) -> None:
    aggregate, sql = AGGREGATES[name]
    found = told(lambda events: events.through(ts.aggregate(aggregate)), rows)
    assert {at: shown(value) for at, (value,) in found.items()} == asked(sql, rows)


@pytest.mark.parametrize("name", AGGREGATES)
@settings(max_examples=15)
@given(EVENTS)
def test_aggregates_are_those_of_duckdb(name: str, rows: list[Event]) -> None:
    agree(name, rows)


@settings(max_examples=15)
@given(EVENTS)
def test_exploded_lists_are_those_of_duckdb(rows: list[Event]) -> None:
    def twice(event: Event) -> list[int]:
        return [event.x] * (event.x % 3)

    exploded = ts.explode(twice, combine=lambda event, x: [event.ts, x], to=list[int])
    found = told(lambda events: events.through(exploded), rows)
    flat = "SELECT key, ts, unnest(list_resize([]::BIGINT[], ((x % 3) + 3) % 3, x)) AS x FROM rows"
    assert {at: sorted(pairs) for at, pairs in found.items()} == asked("list([ts, x] ORDER BY ts, x)", rows, flat)


@pytest.mark.nightly
@pytest.mark.parametrize("name", AGGREGATES)
@settings(max_examples=1000)
@given(EVENTS)
def test_many_aggregates_are_those_of_duckdb(name: str, rows: list[Event]) -> None:
    agree(name, rows)

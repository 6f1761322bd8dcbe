"""Frames over the items of a key, and ranks in a window, against DuckDB; laws; deployments; moments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stdlib.small import EVENTS, ROWS, Event, source, told
from tests.strategies import some
from tracetypes import CheckFailed, Dataflow, UsageError, check, sort, stdlib
from tracetypes.compiler.plan.explain import keyed_runs
from tracetypes.compiler.plan.planner import plan
from tracetypes.stdlib import current, first_value, frame, lag, lead, over
from tracetypes.stdlib.frames import FixedOver, Over
from tracetypes.testing import check_deployments, check_laws

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")
ts: Any = stdlib


def second(event: Event) -> int:
    return event.ts


def x_of(event: Event) -> int:
    return event.x


@attrs.frozen
class Row:
    ts: int
    before: int | None
    second_before: int | None
    behind: int | None
    second_behind: int | None
    rows: int
    mean: float
    largest: int
    of_all: int
    first: int
    first_of_two: int
    last: Event


def columns(n: int, span: int, wait: int) -> dict[str, Any]:
    return {
        "ts": current(second),
        "before": lag(x_of),
        "second_before": lag(x_of, 2),
        "behind": lead(x_of, wait=wait, time=second),
        "second_behind": lead(x_of, 2, wait=wait, time=second),
        "rows": frame(ts.sum(x_of), rows=n),
        "mean": frame(ts.mean(x_of), seconds=span, time=second),
        "largest": frame(ts.max(x_of), rows=n),
        "of_all": frame(ts.count()),
        "first": first_value(x_of),
        "first_of_two": first_value(x_of, seconds=span, time=second),
        "last": current(),
    }


SQL = """SELECT key, ts, lag(x) OVER w, lag(x, 2) OVER w, lead(x) OVER w, lead(x, 2) OVER w,
                sum(x) OVER (w ROWS {n} PRECEDING)::BIGINT, avg(x) OVER (w RANGE {span} PRECEDING),
                max(x) OVER (w ROWS {n} PRECEDING), count(*) OVER (w ROWS UNBOUNDED PRECEDING), first_value(x) OVER w,
                first_value(x) OVER (w RANGE {span} PRECEDING)
         FROM rows WINDOW w AS (PARTITION BY key ORDER BY ts)"""


@functools.cache
def database() -> Any:
    return duckdb.connect()


def asked(rows: Sequence[Event], sql: str) -> list[tuple[Any, ...]]:
    kinds = pa.schema({"key": pa.string(), "ts": pa.int64(), "x": pa.int64()})
    given_ = {name: [getattr(row, name) for row in rows] for name in ("key", "ts", "x")}
    database().register("rows", pa.table(given_, schema=kinds))
    return sorted(map(rounded, database().execute(sql).fetchall()))


def rounded(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(round(one, 9) + 0.0 if isinstance(one, float) else one for one in row)


DISTINCT = st.lists(EVENTS, max_size=14, unique_by=lambda event: (event.key, event.ts))


@settings(max_examples=some(60))
@given(rows=DISTINCT, n=st.integers(0, 4), span=st.sampled_from([0, 3, 20, 200]))
def test_columns_are_those_of_duckdb(rows: list[Event], n: int, span: int) -> None:
    op = over(Row, **columns(n, span, 500))
    found = told(lambda events: events.through(sort(by=second)).through(op), rows)
    answers = [(key, *attrs.astuple(one, recurse=False)) for (_, key), ones in found.items() for one in ones]
    assert sorted(rounded(one[:-1]) for one in answers) == asked(rows, SQL.format(n=n, span=span))
    assert all(one[-1] in rows for one in answers)


@attrs.frozen
class Fixed:
    ts: int
    before: int | None
    third_before: int | None
    rows: int
    largest: int
    of_all: float
    first: int
    first_of_rows: int


FIXED = """SELECT key, ts, lag(x) OVER w, lag(x, 3) OVER w, sum(x) OVER (w ROWS {n} PRECEDING)::BIGINT,
                  max(x) OVER (w ROWS {n} PRECEDING), avg(x) OVER w, first_value(x) OVER w,
                  first_value(x) OVER (w ROWS {n} PRECEDING)
           FROM rows WINDOW w AS (PARTITION BY key ORDER BY ts)"""


@settings(max_examples=some(40))
@given(rows=DISTINCT, n=st.sampled_from([0, 1, 2, 5, 30]))
def test_columns_of_few_rows_are_those_of_duckdb(rows: list[Event], n: int) -> None:
    columns: dict[str, Any] = {
        "ts": current(second),
        "before": lag(x_of),
        "third_before": lag(x_of, 3),
        "rows": frame(ts.sum(x_of), rows=n),
        "largest": frame(ts.max(x_of), rows=n),
        "of_all": frame(ts.mean(x_of)),
        "first": first_value(x_of),
        "first_of_rows": first_value(x_of, rows=n),
    }
    op: Any = over(Fixed, **columns)
    assert type(op) is (Over if n == 30 else FixedOver)
    found = told(lambda events: events.through(sort(by=second)).through(op), rows)
    answers = [(key, *attrs.astuple(one, recurse=False)) for (_, key), ones in found.items() for one in ones]
    assert sorted(map(rounded, answers)) == asked(rows, FIXED.format(n=n))


@settings(max_examples=some(60))
@given(rows=st.lists(EVENTS, max_size=25), n=st.integers(1, 5))
def test_ranks_are_those_of_duckdb(rows: list[Event], n: int) -> None:
    """Rows that tie and are equal have any order."""
    found = told(lambda events: events.through(ts.aggregate(ts.window_ranks(x_of, tiles=n))), rows)
    answers = [
        (block, key, *(one.value.ts, one.value.x, one.row, one.rank, one.dense_rank, one.percent_rank, one.cume_dist, one.tile))
        for (block, key), [ones] in found.items()
        for one in ones
    ]
    blocks = "SELECT *, (floor(ts / 5)::BIGINT + 1) * 5 AS block FROM rows"
    sql = f"""SELECT block, key, ts, x, row_number() OVER (w, ts), rank() OVER w, dense_rank() OVER w, percent_rank() OVER w,
                     cume_dist() OVER w, ntile({n}) OVER (w, ts)
              FROM ({blocks}) WINDOW w AS (PARTITION BY block, key ORDER BY x)"""
    sql = sql.replace("OVER (w, ts)", "OVER (PARTITION BY block, key ORDER BY x, ts)")
    assert sorted(map(rounded, answers)) == asked(rows, sql)


@attrs.frozen
class Pair:
    now: int
    behind: int | None


def test_when_leads_are_told() -> None:
    """Blocks of five seconds: with the next item, or behind what it waits for."""
    op = over(Pair, now=current(second), behind=lead(x_of, wait=7, time=second))
    rows = [Event("a", 1, 1), Event("a", 3, 2), Event("a", 12, 3), Event("b", 4, 4)]
    found = told(lambda events: events.through(sort(by=second)).through(op), rows)
    assert found == {
        (5, "a"): [Pair(1, 2)],
        (15, "a"): [Pair(3, 3)],
        (20, "a"): [Pair(12, None)],
        (15, "b"): [Pair(4, None)],
    }
    # At second 15 the item of 3 no longer waits.
    late = [Event("a", 3, 2), Event("a", 16, 3)]
    found = told(lambda events: events.through(sort(by=second)).through(op), late)
    assert found[15, "a"] == [Pair(3, None)]


@attrs.frozen
class Plain:
    n: int
    before: int | None
    mean: float
    behind: int | None


def plain(**more: Any) -> dict[str, Any]:
    return {
        "n": frame(ts.sum(x_of), rows=2),
        "before": lag(x_of, 2),
        "mean": frame(ts.mean(x_of), seconds=9, time=second),
        "behind": lead(x_of, wait=4, time=second),
        **more,
    }


def test_laws_and_deployments() -> None:
    checked = Over[Any, Any, Any](Plain, tuple(plain()), tuple(plain().values()))
    ones = st.builds(Event, st.just("a"), st.integers(0, 30), st.integers(-9, 9))
    check_laws(checked, types=(str, Event), items=st.tuples(st.just("a"), ones), max_examples=some(20), time=second)
    flow = Dataflow("deployed")
    flow.sink("out", source(flow).through(sort(by=second)).through(over(Plain, **plain())))
    assert str(check(flow).types[flow.graph.sinks[0].id]) == "O[str, Plain]"
    assert check_deployments(flow, rows={"events": ROWS}, max_examples=some(15))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: over(Plain, n=frame(ts.count())), "over was given n for Plain, which has n, before, mean, behind"),
        (lambda: over(Plain, **plain(n=3)), "n=3, which is no column"),
        (lambda: over(Plain, **plain(n=lag(x_of))), "Plain.n cannot hold None"),
        (lambda: over(Plain, **plain(n=frame(ts.mean(x_of)))), "Plain.n cannot hold float"),
        (lambda: over(int, n=current()), "which has no fields"),
        (lambda: lag(x_of, 0), "n is 0"),
        (lambda: lag(3), "of=3"),  # type: ignore[arg-type]
        (lambda: lead(x_of, wait=-1, time=second), "wait"),
        (lambda: frame(ts.count(), rows=2, seconds=3), "both rows and seconds"),
        (lambda: frame(ts.count(), seconds=3), "seconds and time go together"),
        (lambda: frame(ts.count(), rows=-1), "rows is -1"),
        (lambda: frame(3), "is no aggregate"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant(make: Any, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.code == "TT121"
    assert text in caught.value.message
    assert caught.value.fix


def test_types_follow_from_the_stream() -> None:
    flow = Dataflow("typed")
    ordered = source(flow).through(sort(by=second))
    op: Any = over(Plain, **plain(n=frame(ts.sum(lambda e: e.x))))
    flow.sink("out", ordered.through(op))
    assert str(check(flow).types[flow.graph.sinks[0].id]) == "O[str, Plain]"
    wrong: Any = over(Plain, **plain(n=frame(ts.sum(to=int))))
    flow = Dataflow("wrong")
    flow.sink("out", source(flow).through(sort(by=second)).through(wrong))
    with pytest.raises(CheckFailed):
        check(flow)


def test_frames_of_few_rows_run_over_columns() -> None:
    flow = Dataflow("fast")
    op: Any = over(Pair, now=frame(ts.sum(x_of), rows=16), behind=lag(x_of, 6))
    flow.sink("out", source(flow).through(sort(by=second)).through(op))
    (one,) = ordered_runs(flow)
    assert one.native, one.reason
    (other,) = ordered_runs(slow())
    assert other.reason is not None
    assert "over" in other.reason


def slow() -> Dataflow:
    flow = Dataflow("slow")
    op: Any = over(Pair, now=frame(ts.sum(x_of), rows=17), behind=lag(x_of))
    flow.sink("out", source(flow).through(sort(by=second)).through(op))
    return flow


def ordered_runs(flow: Dataflow) -> list[Any]:
    """How the operator behind the sort runs."""
    return [one for stage in plan(check(flow)).stages for one in keyed_runs(stage) if one.name == "over"]

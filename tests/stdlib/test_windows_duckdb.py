"""All kinds of windows against DuckDB: the definition and the adversary over random rows, in disorder, to the end of the input.

DuckDB gets the rows that are not late. Which these are a few lines of Python say (:func:`in_time`)."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stdlib.small import Event
from tracetypes import Checked, Dataflow, Item, Stream, U, check, every, interpret_rows, merge, sort
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.stdlib import count, count_window, max, session, sliding, struct, sum, time_window, tumbling
from tracetypes.stdlib.sessions import Session
from tracetypes.stdlib.windows import Windowed

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")

BEHIND = 12
"""How many seconds the own time of a row lies behind its time at most."""


@attrs.frozen
class Stats:
    """What each window is asked for."""

    rows: int
    total: int
    most: int


def second(event: Event) -> int:
    return event.ts


def own_second(event: Event) -> int:
    return event.ts - event.x % (BEHIND + 1)


def x_of(event: Event) -> int:
    return event.x


STATS = struct(Stats, rows=count(), total=sum(of=x_of), most=max(of=x_of))


@attrs.frozen
class Setting:
    """A window over one source or two, in seconds; ``sql`` gives key, start, end, rows, total and most of each window."""

    period: int
    delay: int
    sources: int
    windows: Callable[[Stream[Any]], Stream[Any]]
    sql: str


BY_TIME = "SELECT key, start, start + {size}, count(*), sum(x), max(x) FROM ({starts}) GROUP BY ALL"
IN_ORDER = "OVER (PARTITION BY key ORDER BY ts, x ROWS BETWEEN {before} PRECEDING AND CURRENT ROW)"


def buckets(size: int, offset: int, time: str) -> str:
    """Windows that follow one another, by DuckDB's own function."""
    moment = "make_timestamp(({}) * 1000000)"
    begin = f"time_bucket(to_seconds({size}), {moment.format(time)}, {moment.format(offset)})"
    return BY_TIME.format(size=size, starts=f"SELECT *, epoch({begin})::BIGINT AS start FROM rows")


def hops(size: int, slide: int, offset: int) -> str:
    """Windows that overlap: each start of a hop that lies near, with all rows from there on."""
    first = (-200 - size) // slide * slide + offset
    joined = f"range({first}, 400, {slide}) AS hop(start) ON ts >= start AND ts < start + {size}"
    return BY_TIME.format(size=size, starts=f"SELECT * FROM rows JOIN {joined}")


def tumbling_windows(chance: random.Random, period: int) -> tuple[Any, str]:
    size, offset = chance.randint(1, 8) * period, chance.randint(-9, 9) * period
    return tumbling(STATS, size=size, offset=offset, ends=True), buckets(size, offset, "ts")


def dividing(chance: random.Random, period: int) -> tuple[Any, str]:
    slide, offset = chance.randint(1, 4) * period, chance.randint(-9, 9) * period
    size = slide * chance.randint(2, 5)
    return sliding(STATS, size=size, slide=slide, offset=offset, ends=True), hops(size, slide, offset)


def not_dividing(chance: random.Random, period: int) -> tuple[Any, str]:
    slide = chance.randint(2, 7)
    size = slide * chance.randint(0, 3) + chance.randint(1, slide - 1)
    method: Any = chance.choice([None, "two stacks"])
    windows = sliding(STATS, size=size * period, slide=slide * period, ends=True, method=method)
    return windows, hops(size * period, slide * period, 0)


def at_every_marker(chance: random.Random, period: int) -> tuple[Any, str]:
    panes = chance.choice([1, 2, 3, 10, 70])
    return sliding(STATS, panes=panes, ends=True), hops(panes * period, period, 0)


def sessions(chance: random.Random, period: int) -> tuple[Any, str]:
    gap = chance.choice([0, 1, 2, 5, 13, 40])
    begun = "SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY key ORDER BY ts), 1000) > {gap} AS begins FROM rows"
    numbered = (
        f"SELECT *, count_if(begins) OVER (PARTITION BY key ORDER BY ts) AS number FROM ({begun.format(gap=gap)})"
    )
    sql = f"SELECT key, min(ts), max(ts), count(*), sum(x), max(x) FROM ({numbered}) GROUP BY key, number"
    windows = session(STATS, gap=gap, time=second)
    return (lambda events: events.through(sort(by=second)).through(windows)), sql


def own_times(chance: random.Random, period: int) -> tuple[Any, str]:
    size, offset = chance.choice([1, 3, 11, 40]), chance.randint(-30, 30)
    windows = time_window(STATS, size=size, offset=offset, time=own_second, grace=BEHIND, ends=True)
    sql = buckets(size, offset, f"ts - ((x % {BEHIND + 1}) + {BEHIND + 1}) % {BEHIND + 1}")
    return (lambda events: events.through(sort(by=second)).through(windows)), sql


def counts(chance: random.Random, period: int) -> tuple[Any, str]:
    items = chance.randint(1, 6)
    numbered = "SELECT *, row_number() OVER (PARTITION BY key ORDER BY ts, x) - 1 AS place FROM rows"
    sql = f"""SELECT key, NULL, NULL, count(*), sum(x), max(x) FROM ({numbered})
              GROUP BY key, place // {items} HAVING count(*) = {items}"""
    windows = count_window(STATS, items=items)
    return (lambda events: events.through(sort(by=second)).through(windows)), sql


def last_items(chance: random.Random, period: int) -> tuple[Any, str]:
    items, slide = chance.randint(1, 8), chance.choice([1, 1, 2, 3, 5])
    told = ", ".join(f"{what} {IN_ORDER.format(before=items - 1)}" for what in ("count(*)", "sum(x)", "max(x)"))
    number = "row_number() OVER (PARTITION BY key ORDER BY ts, x)"
    sql = f"SELECT key, NULL, NULL, {told} FROM rows QUALIFY {number} % {slide} = 0"
    windows = count_window(STATS, items=items, slide=slide)
    return (lambda events: events.through(sort(by=second)).through(windows)), sql


KINDS = {
    "tumbling": tumbling_windows,
    "sliding, slide divides size": dividing,
    "sliding, it does not": not_dividing,
    "sliding at every marker": at_every_marker,
    "session": sessions,
    "time_window": own_times,
    "count_window": counts,
    "count_window, slide": last_items,
}


@functools.cache
def setting_of(kind: str, number: int) -> tuple[Setting, Checked, Program]:
    """The same every time; compiled once."""
    chance = random.Random(f"{kind} {number}")
    period, delay, sources = chance.choice([1, 2, 5, 7]), chance.choice([0, 6, 20]), chance.choice([1, 1, 2])
    setting = Setting(period, delay, sources, *KINDS[kind](chance, period))
    flow = Dataflow("windows")
    markers = every(seconds=period, delay=delay, time=second)
    streams = [flow.source(f"s{n}", U[str, Event], markers=markers, key=lambda e: e.key) for n in range(sources)]
    flow.sink("out", setting.windows(merge(*streams) if sources > 1 else streams[0]))
    checked = check(flow)
    return setting, checked, program(checked, parallelism=chance.randint(1, 3), key_groups=chance.randint(3, 5))


def in_time(rows: Sequence[Event], period: int, delay: int) -> list[Event]:
    """Rows whose block ends behind all markers that rows before them have caused."""
    kept, newest = [], -(10**9)
    for row in rows:
        if (row.ts // period + 1) * period > (newest - delay) // period * period:
            kept.append(row)
        newest = row.ts if row.ts > newest else newest
    return kept


def shown(item: Item) -> tuple[Any, ...]:
    """An item of the answer as DuckDB gives it."""
    times: tuple[int | None, int | None] = None, None
    match item.value:
        case Windowed(start=start, end=end, value=stats) | Session(start=start, end=end, value=stats):
            times = (round(start.timestamp()), round(end.timestamp()))
        case stats:
            pass
    return item.key, *times, stats.rows, stats.total, stats.most


@functools.cache
def database() -> Any:
    return duckdb.connect()


def wanted(sql: str, rows: Sequence[Event]) -> Counter[tuple[Any, ...]]:
    """What DuckDB answers."""
    columns = {name: [getattr(row, name) for row in rows] for name in ("key", "ts", "x")}
    kinds = pa.schema({"key": pa.string(), "ts": pa.int64(), "x": pa.int64()})
    database().register("rows", pa.table(columns, schema=kinds))
    return Counter(database().execute(sql).fetchall())


ROW = st.tuples(st.builds(Event, st.sampled_from("abc"), st.integers(-40, 90), st.integers(-9, 9)), st.integers(0, 25))
ROWS = (
    st.integers(0, 40)
    .flatmap(lambda size: st.lists(ROW, min_size=size, max_size=size))
    .map(lambda drawn: [row for row, _ in sorted(drawn, key=lambda one: one[0].ts + one[1])])
)
"""Rows in the order in which they come: some 25 s behind others that are newer."""


def agree(kind: str, number: int, parts: Sequence[list[Event]], seed: int) -> int:
    """The definition and the adversary give what DuckDB gives. How many windows that were."""
    setting, checked, compiled = setting_of(kind, number)
    rows = {f"s{n}": parts[n] for n in range(setting.sources)}
    known = [row for part in rows.values() for row in in_time(part, setting.period, setting.delay)]
    expected = wanted(setting.sql, known)
    defined = interpret_rows(checked, rows)[0]["out"]
    assert Counter(shown(one) for one in defined.items if isinstance(one, Item)) == expected
    assert simulate_program(compiled, rows, seed=seed)["out"].trace == defined
    return expected.total()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(st.integers(0, 2), st.tuples(ROWS, ROWS), st.integers(0, 2**32))
def test_windows_are_those_of_duckdb(kind: str, number: int, parts: Sequence[list[Event]], seed: int) -> None:
    agree(kind, number, parts, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=1000)
@given(st.integers(0, 49), st.tuples(ROWS, ROWS), st.integers(0, 2**32))
def test_many_windows_are_those_of_duckdb(kind: str, number: int, parts: Sequence[list[Event]], seed: int) -> None:
    agree(kind, number, parts, seed)

"""All kinds of joins against DuckDB: the definition and the adversary over random rows, in disorder, to the end of the input.

DuckDB gets the rows that are not late, and says of each answer at which marker it comes."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stdlib.small import Event, by_marker
from tracetypes import Checked, Dataflow, Stream, U, check, every, interpret_rows, sort
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.stdlib import AsOf, Joined, asof_join, equi_join, interval_join, session_join, table_join, window_join
from tracetypes.stdlib.asof_joins import Direction
from tracetypes.stdlib.join_kinds import How
from tracetypes.stdlib.table_joins import TableHow

windows: Any = pytest.importorskip("tests.stdlib.test_windows_duckdb")
duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")

second, own_second, BEHIND = windows.second, windows.own_second, windows.BEHIND


@attrs.frozen
class Setting:
    """A join of two sources, in seconds; ``sql`` gives the marker, the key, and time and x of the left and of the right item."""

    period: int
    delay: int
    join: Callable[[Stream[Any], Stream[Any]], Stream[Any]]
    sql: str


Kind = Callable[[random.Random, int], tuple[Callable[[Any, Any], Stream[Any]], str]]

PAIRS = """SELECT {until}, coalesce(l.key, r.key), l.ts, l.x, r.ts, r.x
           FROM ({sides[0]}) l {kind} JOIN ({sides[1]}) r ON {on}"""
LEFTS = "SELECT {until}, l.key, l.ts, l.x, NULL, NULL FROM ({sides[0]}) l {kind} JOIN ({sides[1]}) r ON {on}"


def joined(how: str, sides: Sequence[str], on: str, until: str) -> str:
    """A join of DuckDB."""
    return (LEFTS if how in ("semi", "anti") else PAIRS).format(kind=how, sides=sides, on=on, until=until)


def in_windows(how: Any) -> Kind:
    """Joins in windows by blocks."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        size, offset = chance.randint(1, 8) * period, chance.randint(-9, 9) * period
        begin = f"(ts - {offset} - ((ts - {offset}) % {size} + {size}) % {size} + {offset})"
        sides = [f"SELECT *, {begin} AS start FROM {side}" for side in ("lefts", "rights")]
        only = "l.start" if how in ("semi", "anti") else "coalesce(l.start, r.start)"
        sql = joined(how, sides, "l.key = r.key AND l.start = r.start", f"{only} + {size}")
        panes = chance.random() < 0.3
        given: dict[str, Any] = {"panes": size // period} if panes else {"size": size}
        ordered = chance.random() < 0.3

        def join(left: Any, right: Any) -> Any:
            some = left.through(sort(by=second)) if ordered else left
            return window_join(some, right, offset=offset, how=how, **given)

        return join, sql

    return kind


def in_sliding_windows(how: Any) -> Kind:
    """Joins in windows by blocks that overlap, or have gaps."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        size, slide, offset = (chance.randint(*most) * period for most in ((1, 6), (1, 4), (-9, 9)))
        first = (-200 - size) // slide * slide + offset
        hops = f"range({first}, 400, {slide}) AS hop(start) ON ts >= start AND ts < start + {size}"
        sides = [f"SELECT * FROM {side} JOIN {hops}" for side in ("lefts", "rights")]
        only = "l.start" if how in ("semi", "anti") else "coalesce(l.start, r.start)"
        sql = joined(how, sides, "l.key = r.key AND l.start = r.start", f"{only} + {size}")
        panes = chance.random() < 0.3
        given: dict[str, Any] = (
            {"panes": size // period, "slide": slide // period} if panes else {"size": size, "slide": slide}
        )
        return (lambda left, right: window_join(left, right, offset=offset, how=how, **given)), sql

    return kind


def in_own_windows(how: Any) -> Kind:
    """Joins in windows by the times of the items."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        size, offset = chance.choice([1, 3, 11, 40]), chance.randint(-30, 30)
        own = f"(ts - ((x % {BEHIND + 1}) + {BEHIND + 1}) % {BEHIND + 1} - {offset})"
        begin = f"({own} - ({own} % {size} + {size}) % {size} + {offset})"
        sides = [f"SELECT *, {begin} AS start FROM {side}" for side in ("lefts", "rights")]
        over = f"({'l.start' if how in ('semi', 'anti') else 'coalesce(l.start, r.start)'} + {size + BEHIND})"
        until = f"{over} + (({period} - {over} % {period}) % {period})"
        sql = joined(how, sides, "l.key = r.key AND l.start = r.start", until)
        times: dict[str, Any] = {"left_time": own_second, "right_time": own_second, "grace": BEHIND}
        return (lambda left, right: window_join(left, right, size=size, offset=offset, how=how, **times)), sql

    return kind


NO_ROW = "(x + 27) % 3 = 0"
"""Which changes delete a row."""


def is_no_row(event: Event) -> bool:
    return event.x % 3 == 0


def in_table(how: Any) -> Kind:
    """Items with the row of their time."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        deletes = chance.random() < 0.7
        rows = "SELECT * FROM rights QUALIFY row_number() OVER (PARTITION BY key, ts ORDER BY x DESC) = 1"
        gone = f"{NO_ROW} AND {'true' if deletes else 'false'}"
        spans = f"""SELECT *, coalesce(lead(ts) OVER (PARTITION BY key ORDER BY ts), 10000) AS until, {gone} AS gone
                    FROM ({rows})"""
        on = "l.key = r.key AND l.ts >= r.ts AND l.ts < r.until"
        until = f"l.ts - ((l.ts % {period}) + {period}) % {period} + {period}"
        sql = joined(how, ["FROM lefts", f"FROM ({spans}) WHERE NOT gone"], on, until)
        given: dict[str, Any] = {"deleted": is_no_row} if deletes else {}
        return (lambda left, right: table_join(left, right, how=how, left_time=second, table_time=second, **given)), sql

    return kind


def within_blocks(how: Any) -> Kind:
    """Items whose blocks lie near."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        blocks = chance.choice([0, 1, 2, 3, 8])
        at = f"(ts - (ts % {period} + {period}) % {period}) // {period}"
        sides = [f"SELECT *, {at} AS at, row_number() OVER () AS id FROM {side}" for side in ("lefts", "rights")]
        on = f"l.key = r.key AND abs(l.at - r.at) <= {blocks}"
        own = f"coalesce(l.at, r.at) + {blocks}"
        if how == "semi":
            sql = f"""SELECT (greatest(l.at, min(r.at)) + 1) * {period}, l.key, l.ts, l.x, NULL, NULL
                      FROM ({sides[0]}) l JOIN ({sides[1]}) r ON {on} GROUP BY l.id, l.at, l.key, l.ts, l.x"""
        elif how == "anti":
            sql = joined(how, sides, on, f"(l.at + {blocks + 1}) * {period}")
        else:
            last = f"CASE WHEN l.at IS NULL OR r.at IS NULL THEN {own} ELSE greatest(l.at, r.at) END"
            sql = joined(how, sides, on, f"({last} + 1) * {period}")
        given: dict[str, Any] = {"blocks": blocks} if chance.random() < 0.5 else {"within": blocks * period}
        return (lambda left, right: equi_join(left, right, how=how, **given)), sql

    return kind


def within_bounds(how: Any) -> Kind:
    """Items whose times lie near: an interval around the left item, or to one side of it."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        before, after = chance.choice([(0, 0), (3, 0), (0, 4), (7, 12), (30, 30), (-2, 9), (11, -3), (-4, 4)])
        on = f"l.key = r.key AND r.ts BETWEEN l.ts - {before} AND l.ts + {after}"
        alone_left = f"greatest(l.ts, l.ts + {after})"
        sides = [f"SELECT *, row_number() OVER () AS id FROM {side}" for side in ("lefts", "rights")]
        if how == "semi":
            last = block_end("greatest(l.ts, min(r.ts))", period)
            sql = f"""SELECT {last}, l.key, l.ts, l.x, NULL, NULL
                      FROM ({sides[0]}) l JOIN ({sides[1]}) r ON {on} GROUP BY l.id, l.key, l.ts, l.x"""
        elif how == "anti":
            sql = joined(how, sides, on, block_end(alone_left, period))
        else:
            alone = f"CASE WHEN r.ts IS NULL THEN {alone_left} ELSE greatest(r.ts, r.ts + {before}) END"
            last = f"CASE WHEN l.ts IS NULL OR r.ts IS NULL THEN {alone} ELSE greatest(l.ts, r.ts) END"
            sql = joined(how, sides, on, block_end(last, period))
        times: dict[str, Any] = {"left_time": second, "right_time": second}
        return (lambda left, right: interval_join(left, right, before=before, after=after, how=how, **times)), sql

    return kind


def block_end(time: str, period: int) -> str:
    """The first marker behind a time."""
    return f"{time} - (({time} % {period}) + {period}) % {period} + {period}"


def in_sessions(how: Any) -> Kind:
    """Items of one session, of both sides together."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        gap = chance.choice([0, 2, 7, 20])
        both = "SELECT *, 1 AS side FROM lefts UNION ALL SELECT *, 0 AS side FROM rights"
        new = f"SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) > {gap}, true)::INT AS new FROM ({both})"
        of = f"SELECT *, sum(new) OVER (PARTITION BY key ORDER BY ts RANGE UNBOUNDED PRECEDING) AS id FROM ({new})"
        ended = f"SELECT *, max(ts) OVER (PARTITION BY key, id) + {gap} AS until FROM ({of})"
        sides = [f"SELECT * FROM ({ended}) WHERE side = {side}" for side in (1, 0)]
        last = "l.until" if how in ("semi", "anti") else "coalesce(l.until, r.until)"
        sql = joined(how, sides, "l.key = r.key AND l.id = r.id", block_end(last, period))
        times: dict[str, Any] = {"left_time": second, "right_time": second}
        return (lambda left, right: session_join(left, right, gap=gap, how=how, **times)), sql

    return kind


def as_of(direction: str, strict: bool, how: Any) -> Kind:
    """The nearest right item on one side or on both."""

    def kind(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
        tolerance, equal = chance.choice([1, 4, 30]), "" if strict else "="
        is_after = f"r.ts >{equal if direction == 'forward' else ''} l.ts"
        near = "r.ts <> l.ts" if strict else "true"
        side = {"backward": f"r.ts <{equal} l.ts", "forward": is_after, "nearest": near}[direction]
        place = f"abs(r.ts - l.ts), {is_after}, CASE WHEN {is_after} THEN r.x ELSE -r.x END"
        last = f"CASE WHEN r.ts IS NULL THEN l.ts + {tolerance} ELSE greatest(l.ts, r.ts, 2 * l.ts - r.ts - 1) END"
        until = block_end("l.ts", period)
        if direction != "backward":
            until = f"least({block_end(f'({last})', period)}, {block_end('l.later', period)})"
        later = f"(SELECT min(ts) FROM rights n WHERE n.key = one.key AND n.ts >{equal} one.ts) AS later"
        sql = f"""SELECT {until}, l.key, l.ts, l.x, r.ts, r.x
                  FROM (SELECT *, row_number() OVER () AS id, {later} FROM lefts one) l {how} JOIN rights r
                  ON l.key = r.key AND abs(r.ts - l.ts) <= {tolerance} AND {side}
                  QUALIFY row_number() OVER (PARTITION BY l.id ORDER BY {place}) = 1"""
        given: dict[str, Any] = {"direction": direction, "strict": strict, "how": how, "tolerance": tolerance}
        return (lambda left, right: asof_join(left, right, left_time=second, right_time=second, **given)), sql

    return kind


def last_items(chance: random.Random, period: int) -> tuple[Callable[[Any, Any], Stream[Any]], str]:
    """Each later item with the last of the other side."""
    items = chance.choice([1, 2, 3, 10])
    both = "SELECT *, 0 AS side FROM rights UNION ALL SELECT *, 1 AS side FROM lefts"
    numbered = f"SELECT *, row_number() OVER (PARTITION BY key ORDER BY ts, side, x) AS place FROM ({both})"
    so_far = f"""SELECT *, sum(side) OVER ({{0}}) AS lefts, sum(1 - side) OVER ({{0}}) AS rights
                 FROM ({numbered})""".format("PARTITION BY key ORDER BY place")
    on = f"""l.key = r.key AND CASE WHEN r.place < l.place THEN r.rights > l.rights - {items}
                                    ELSE l.lefts > r.lefts - {items} END"""
    later = "greatest(l.ts, r.ts)"
    until = f"{later} - (({later} % {period}) + {period}) % {period} + {period}"
    sql = joined("inner", [f"SELECT * FROM ({so_far}) WHERE side = {side}" for side in (1, 0)], on, until)
    times: dict[str, Any] = {"left_time": second, "right_time": second}
    return (lambda left, right: equi_join(left, right, items=items, **times)), sql


KINDS: dict[str, Kind] = {
    **{f"window_join, {how}": in_windows(how) for how in get_args(How)},
    **{f"window_join, sliding, {how}": in_sliding_windows(how) for how in get_args(How)},
    **{f"window_join by own time, {how}": in_own_windows(how) for how in get_args(How)},
    **{f"table_join, {how}": in_table(how) for how in get_args(TableHow)},
    **{f"equi_join, {how}": within_blocks(how) for how in get_args(How)},
    **{f"interval_join, {how}": within_bounds(how) for how in get_args(How)},
    "equi_join of the last items": last_items,
    **{f"session_join, {how}": in_sessions(how) for how in get_args(How)},
    **{
        f"asof_join, {direction}, {'strict, ' * strict}{how}": as_of(direction, strict, how)
        for direction in get_args(Direction)
        for strict in (False, True)
        for how in ("left", "inner")
    },
}


def key_of(event: Event) -> str:
    return event.key


@functools.cache
def setting_of(kind: str, number: int) -> tuple[Setting, Checked, Program]:
    """The same every time; compiled once."""
    chance = random.Random(f"{kind} {number}")
    period, delay = chance.choice([1, 2, 5, 7]), chance.choice([0, 6, 20])
    setting = Setting(period, delay, *KINDS[kind](chance, period))
    flow = Dataflow("joins")
    markers = every(seconds=period, delay=delay, time=second)
    left, right = (flow.source(name, U[str, Event], markers=markers, key=key_of) for name in ("lefts", "rights"))
    flow.sink("out", setting.join(left, right))
    checked = check(flow)
    return setting, checked, program(checked, parallelism=chance.randint(1, 3), key_groups=chance.randint(3, 5))


def shown(value: Any) -> tuple[Any, ...]:
    """A value of the answer as DuckDB gives it."""
    sides = (value.left, value.right) if isinstance(value, Joined | AsOf) else (value, None)
    return tuple(part for one in sides for part in ((None, None) if one is None else (one.ts, one.x)))


@functools.cache
def database() -> Any:
    return duckdb.connect()


def wanted(sql: str, lefts: Sequence[Event], rights: Sequence[Event]) -> Counter[tuple[Any, ...]]:
    """What DuckDB answers."""
    kinds = pa.schema({"key": pa.string(), "ts": pa.int64(), "x": pa.int64()})
    for table, rows in (("lefts", lefts), ("rights", rights)):
        columns = {name: [getattr(row, name) for row in rows] for name in ("key", "ts", "x")}
        database().register(table, pa.table(columns, schema=kinds))
    return Counter(database().execute(sql).fetchall())


def rows_in(trace: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of an answer: marker, key, left and right."""
    for (marker, key), values in by_marker(trace.items).items():
        for value in values:
            yield marker, key, *shown(value)


def agree(kind: str, number: int, lefts: list[Event], rights: list[Event], seed: int) -> int:
    """The definition and the adversary give what DuckDB gives. How many rows that were."""
    setting, checked, compiled = setting_of(kind, number)
    rows = {"lefts": lefts, "rights": rights}
    expected = wanted(setting.sql, *(windows.in_time(part, setting.period, setting.delay) for part in rows.values()))
    defined = interpret_rows(checked, rows)[0]["out"]
    assert Counter(rows_in(defined)) == expected
    assert simulate_program(compiled, rows, seed=seed)["out"].trace == defined
    return expected.total()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3)
@given(st.integers(0, 1), windows.ROWS, windows.ROWS, st.integers(0, 2**32))
def test_joins_are_those_of_duckdb(kind: str, number: int, lefts: list[Event], rights: list[Event], seed: int) -> None:
    agree(kind, number, lefts, rights, seed)


TOGETHER = 10
"""Random inputs in one run, each with keys of its own."""


def drawn(chance: random.Random) -> list[Event]:
    """Rows in the order in which they come: some 25 s behind others that are newer."""
    rows = [
        (Event(f"{one}{chance.choice('abc')}", chance.randint(-40, 90), chance.randint(-9, 9)), chance.randint(0, 25))
        for one in range(TOGETHER)
        for _ in range(chance.randint(0, 40))
    ]
    return [row for row, _ in sorted(rows, key=lambda one: one[0].ts + one[1])]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_many_joins_are_those_of_duckdb(kind: str) -> None:
    answered = 0
    for number in range(1000 // TOGETHER):
        chance = random.Random(f"{kind} {number}")
        answered += agree(kind, number % 50, drawn(chance), drawn(chance), number)
    assert answered > 1000

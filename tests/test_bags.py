"""The micro-batches of a query of Spark's are bags: what comes of them is what the interpreter says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.bags import Bags, Placed, bare, cut, defined, fits, is_possible, rows_by_part
from tests.graphs import Case, cases, own_value
from tracetypes import (
    ROW_POSITION,
    Dataflow,
    Item,
    O,
    OperatorFailed,
    OpStateless,
    Stream,
    U,
    Unit,
    UsageError,
    check,
    every,
    interpret,
    merge,
    stdlib,
)
from tracetypes.arrangement import arrange, streams_of
from tracetypes.compiler.plan.program import whole_plan
from tracetypes.nodes import RowPosition
from tracetypes.parsing import Row
from tracetypes.trace import closed


def agrees(case: Case, *, static: bool, parts: int = 0, placed: bool = False) -> None:
    checked, chance = case.checked, random.Random(case.seed)
    layouts = {source.name: checked.layout(source) for source in checked.graph.sources}
    rows = {name: [row for row in case.rows[name] if fits(layout, row)] for name, layout in layouts.items()}
    if placed:
        ordered = {source.name for source in checked.graph.sources if isinstance(source.ordered_by, RowPosition)}
        rows |= {name: [Placed(row, 3 * at + 5) for at, row in enumerate(rows[name])] for name in ordered}
    bags = {name: [some] if static else cut(some, chance) for name, some in rows.items()}
    (sink,) = checked.graph.sinks
    shows = not static and case.seed % 2 == 1
    running = Bags(whole_plan(checked, sink, case.key_groups), chance, static, shows, parts=parts)
    answer = running.run(bags)
    expected = defined(checked, bags, drain=static, parts=parts)
    assert answer.trace == (expected.trace if static else closed(expected.trace))
    assert running.late == expected.late
    rejects = Counter((name, reason) for name, some in expected.arranged.items() for _, reason in some.rejects)
    assert Counter((source, reason) for source, reason, _ in answer.rejects) == rejects


LOOSE = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=max(settings().max_examples // 2, 1))


@LOOSE
@given(cases(most_operators=3))
def test_static_bags(case: Case) -> None:
    assume(is_possible(case))
    agrees(case, static=True)


@LOOSE
@given(cases(most_operators=3))
def test_cuts_into_micro_batches(case: Case) -> None:
    assume(is_possible(case))
    agrees(case, static=False)


@LOOSE
@given(cases(most_operators=3, most_sources=2))
def test_sources_in_parts(case: Case) -> None:
    assume(is_possible(case))
    agrees(case, static=False, parts=1 + case.seed % 3)


@LOOSE
@given(cases(most_operators=3, most_sources=2), st.booleans())
def test_sources_that_a_column_orders(case: Case, static: bool) -> None:
    """Their rows come in any order, and have the order of that column."""
    assume(is_possible(case, placed=True))
    assume(any(isinstance(source.ordered_by, RowPosition) for source in case.checked.graph.sources))
    agrees(case, static=static, placed=True)


def in_parts(rows: list[tuple[str, int]], seed: int, part: Callable[[Any, int], int]) -> None:
    """The answer to rows of a source in three parts, each with positions of its own, is that of the definition."""
    flow, chance = Dataflow("parts"), random.Random(seed)
    markers = every(seconds=10, delay=50, time=own_value)
    source = flow.source("rows", O[str, int], ordered_by=ROW_POSITION, markers=markers)
    flow.sink("out", source.through(stdlib.scan(stdlib.collect(int))))
    checked = check(flow)
    (sink,) = checked.graph.sinks
    counts = Counter[int]()
    placed = []
    for row in rows:
        counts[part(row, 3)] += 1
        placed.append(Placed(row, counts[part(row, 3)]))
    bags = {"rows": cut(placed, chance)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.bags.part_of", lambda row, parts: part(bare(row), parts))
        answer = Bags(whole_plan(checked, sink, 2), random.Random(seed), parts=3).run(bags)
        assert answer.trace == closed(defined(checked, bags, drain=False, parts=3).trace)


@LOOSE
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40)), max_size=20), st.integers(0, 99))
def test_positions_count_within_a_part(rows: list[tuple[str, int]], seed: int) -> None:
    """As offsets of a topic do."""
    in_parts(rows, seed, lambda row, parts: ord(row[0]) % parts)


def test_a_key_with_rows_in_two_parts_has_no_order() -> None:
    with pytest.raises(OperatorFailed, match="TT205"):
        in_parts([("a", at) for at in range(20)], 1, lambda row, parts: row[1] % parts)


def test_idle_sources_are_not_waited_for() -> None:
    flow = Dataflow("two")
    markers = every(seconds=10, time=own_value)
    one, other = (flow.source(name, U[str, int], markers=markers) for name in ("a", "b"))
    flow.sink("counts", merge(one, other).through(stdlib.aggregate(stdlib.count())))
    checked = check(flow)
    bags = {
        "a": [[("x", 5)], [("x", 25)], [("y", 45)], [("x", 65)], [("x", 72)]],
        "b": [[("x", 3)], [], [], [], [("x", 41), ("x", 66)]],
    }
    (sink,) = checked.graph.sinks
    running = Bags(whole_plan(checked, sink, 3), random.Random(5), idle={"b": 2})
    answer = running.run(bags)
    a, b = (
        [row for bag in bags[source.name] for row, _ in rows_by_part(checked, source, bag, 0).get(0, ())]
        for source in checked.graph.sources
    )
    beats = [Row("marker", time=seconds * 1_000_000) for seconds in (40, 60)]
    streams = {"a": a, "b": [b[0], *beats, *b[1:]]}
    arranged = {source.name: arrange(source, streams[source.name], drain=False) for source in checked.graph.sources}
    (trace,) = interpret(checked, streams_of(arranged), complete=False).values()
    assert answer.trace == closed(trace)
    assert running.late == {("b", 50_000_000): 1}
    first = {name: some[:4] for name, some in bags.items()}
    waits = Bags(whole_plan(checked, sink, 3), random.Random(5), idle={"b": 4}).run(first)
    assert not [element for element in waits.trace if isinstance(element, Item)]


WINDOWS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: stdlib.tumbling(stdlib.sum(of=int, to=int), size=30, period=10),
    "tumbling, kept values": lambda: stdlib.tumbling(stdlib.collect(int), size=30, period=10),
    "sliding": lambda: stdlib.sliding(stdlib.sum(of=int, to=int), size=30, slide=20, period=10),
    "by block": lambda: stdlib.aggregate(stdlib.sum(of=int, to=int)),
}
ROWS = st.tuples(st.sampled_from("abc"), st.integers(0, 120))


@LOOSE
@given(st.sampled_from(sorted(WINDOWS)), st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=4), st.integers(0, 99))
def test_windows_take_no_late_rows(name: str, bags: list[list[tuple[str, int]]], seed: int) -> None:
    """A row may be late although its window is open."""
    flow = Dataflow("windows")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, delay=seed % 2 * 10, time=own_value))
    flow.sink("out", rows.through(WINDOWS[name]()))
    checked = check(flow)
    (sink,) = checked.graph.sinks
    running = Bags(whole_plan(checked, sink, 1 + seed % 3), random.Random(seed))
    answer = running.run({"rows": bags})
    expected = defined(checked, {"rows": bags}, drain=False)
    assert answer.trace == closed(expected.trace)
    assert running.late == expected.late


def numbers(flow: Dataflow, name: str = "rows") -> Stream[U[str, int]]:
    return flow.source(name, U[str, int], markers=every(seconds=10, time=own_value))


def test_a_row_is_in_time_while_another_source_holds_its_block_open() -> None:
    flow = Dataflow("two")
    flow.sink("out", merge(numbers(flow, "a"), numbers(flow, "b")).through(stdlib.aggregate(stdlib.count())))
    checked = check(flow)
    (sink,) = checked.graph.sinks
    running = Bags(whole_plan(checked, sink, 3), random.Random(1))
    bags = {"a": [[("x", 5), ("x", 45)], [("x", 12), ("x", 3)], [("x", 7)]], "b": [[("y", 4)], [("y", 31)], []]}
    answer = running.run(bags)
    assert running.late == {("a", 10_000_000): 1}
    assert [element.value for element in answer.trace if isinstance(element, Item) and element.key == "x"] == [2, 1]


ENTERING = st.lists(st.tuples(st.lists(ROWS, max_size=6), st.lists(ROWS, max_size=6)), min_size=2, max_size=5)


@LOOSE
@given(ENTERING, st.sampled_from(["once", "again", "behind"]), st.integers(0, 2), st.integers(0, 99))
def test_sources_that_enter_at_different_operators(
    bags: list[tuple[list[tuple[str, int]], list[tuple[str, int]]]], shape: str, parts: int, seed: int
) -> None:
    """The first operator waits for the other source, and what is late for one reading of a source is late for each."""
    flow = Dataflow("entering")
    a, b = numbers(flow, "a"), numbers(flow, "b")
    counts = a.through(stdlib.aggregate(stdlib.count()))
    others = {"once": lambda: [b], "again": lambda: [b, a], "behind": lambda: [b.through(stdlib.aggregate(stdlib.count()))]}
    merged = [counts, *others[shape]()]
    flow.sink("out", merge(*merged).through(stdlib.aggregate(stdlib.sum(of=int, to=int))))
    checked = check(flow)
    (sink,) = checked.graph.sinks
    running = Bags(whole_plan(checked, sink, 2), random.Random(seed), shows=seed % 2 == 1, parts=parts)
    rows = {name: [one[at] for one in bags] for at, name in enumerate("ab")}
    answer = running.run(rows)
    expected = defined(checked, rows, drain=False, parts=parts)
    assert answer.trace == closed(expected.trace)
    assert running.late == expected.late


def test_an_idle_source_is_known_to_operators_that_do_not_read_it() -> None:
    flow = Dataflow("apart")
    counts = [numbers(flow, name).through(stdlib.aggregate(stdlib.count())) for name in ("a", "b")]
    flow.sink("out", merge(*counts).through(stdlib.aggregate(stdlib.sum(of=int, to=int))))
    checked = check(flow)
    (sink,) = checked.graph.sinks
    bags = {"a": [[("x", 5)], [("x", 25)], [("x", 45)]], "b": [[("y", 3)], [], []]}
    for wait, closes in ((1, 4), (9, 0)):
        answer = Bags(whole_plan(checked, sink, 3), random.Random(5), idle={"b": wait}).run(bags)
        assert len([element for element in answer.trace if not isinstance(element, Item)]) == closes


def test_a_stream_with_several_consumers_is_computed_for_each() -> None:
    """The second copy of a source tells of no rejects."""
    flow = Dataflow("diamond")
    total = numbers(flow).through(stdlib.aggregate(stdlib.sum(of=int, to=int)))
    both = merge(total.through(stdlib.aggregate(stdlib.count())), total.through(stdlib.running(stdlib.count())))
    flow.sink("out", both)
    checked = check(flow)
    (sink,) = checked.graph.sinks
    bags: dict[str, Any] = {"rows": [[("a", 1), ("b", 4), (None, 5)], [("a", 25), ("a", 11)], [("b", 47), ("a", 3)]]}
    running = Bags(whole_plan(checked, sink, 3), random.Random(1), shows=True)
    answer = running.run(bags)
    expected = defined(checked, bags, drain=False)
    assert answer.trace == closed(expected.trace)
    assert len(answer.rejects) == len(expected.arranged["rows"].rejects) == 1
    assert running.late == {("rows", 10_000_000): 1}


@attrs.frozen
class Click:
    """A row of which the flow below reads the kind and the time."""

    user: str
    kind: str
    at: int
    price: float
    note: str | None


@attrs.frozen
class Kinds(OpStateless[Unit, Click, str, int]):
    def on_item(self, key: Unit, value: Click, emit: Callable[[str, int], None]) -> None:
        if value.kind != "other":
            emit(value.kind, 1)


CLICKS = st.builds(
    Click,
    user=st.sampled_from(["ann", "bob"]),
    kind=st.sampled_from(["view", "buy", "other"]),
    at=st.integers(0, 60),
    price=st.floats(0, 9),
    note=st.none() | st.just("x"),
)


@LOOSE
@given(st.lists(st.lists(CLICKS, max_size=6), min_size=1, max_size=4), st.integers(0, 99), st.booleans())
def test_columns_that_nobody_reads_stay_behind(bags: list[list[Click]], seed: int, by_user: bool) -> None:
    """A row with a null in one of them is a reject all the same."""
    flow = Dataflow("clicks")
    markers = every(seconds=10, time=lambda click: click.at)
    chance, null = random.Random(seed), cast("str", None)
    bags = [[attrs.evolve(click, user=null) if chance.random() < 0.1 else click for click in bag] for bag in bags]
    counts: Any
    if by_user:
        clicks = flow.source("clicks", U[str, Click], key=lambda click: click.kind, markers=markers)
        counts = clicks.through(stdlib.aggregate(stdlib.sum(of=lambda click: click.at, to=int)))
    else:
        counts = flow.source("clicks", U[Unit, Click], markers=markers).through(Kinds()).through(stdlib.aggregate(stdlib.count()))
    flow.sink("out", counts)
    checked = check(flow)
    (sink,) = checked.graph.sinks
    running = Bags(whole_plan(checked, sink, 2), random.Random(seed))
    answer = running.run({"clicks": bags})
    expected = defined(checked, {"clicks": bags}, drain=False)
    assert answer.trace == closed(expected.trace)
    assert running.late == expected.late
    assert len(answer.rejects) == len(expected.arranged["clicks"].rejects)
    assert not any(bags) or running.left_out


def test_graphs_that_one_plan_cannot_have() -> None:
    flow = Dataflow("large")
    stream: Any = numbers(flow)
    for _ in range(9):
        stream = merge(stream, stream.through(stdlib.aggregate(stdlib.sum(of=int, to=int))))
    flow.sink("out", stream)
    with pytest.raises(UsageError, match="operators in one plan") as raised:
        whole_plan(check(flow), next(iter(check(flow).graph.sinks)), 3)
    assert raised.value.code == "TT430"

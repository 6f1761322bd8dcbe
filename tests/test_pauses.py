"""A pause costs what happens in it: runs of markers over empty blocks mean what their markers mean one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import test_gates as gates
from tests.graphs import Case, cases
from tests.strategies import some
from tracetypes import (
    Dataflow,
    Item,
    Marker,
    OpKeyedUnordered,
    Stream,
    U,
    check,
    elements,
    every,
    explain,
    interpret_rows,
    merge,
    sort,
)
from tracetypes import stdlib as ts
from tracetypes.bounds import ALWAYS, Bound, Observation, Time
from tracetypes.compiler.connectors.kafka_sink import without_pauses
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.runtime import empty_blocks, limits, pipeline
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.gates import at_least_once, period, sequence, time, value
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns
from tracetypes.pauses import start_after
from tracetypes.trace import Element, Trace, closed

SECOND = 1_000_000


@contextmanager
def pauses_from(count: int) -> Iterator[None]:
    """So many markers over empty blocks are a pause, for the definition and for the stages of a plan."""
    with mock.patch.object(elements, "LONG", count), mock.patch.object(limits, "PAUSE", count):
        yield


ONE_BY_ONE = 10**18


def defined(flow: Dataflow, rows: dict[str, Any], *, drain: bool = True) -> dict[str, Trace[Element]]:
    """The traces by the definition that looks at each marker; the one by runs says the same."""
    with pauses_from(ONE_BY_ONE):
        traces, sources = interpret_rows(check(flow), rows, drain=drain)
    for count in (1, 2, 5):
        with pauses_from(count):
            found, arranged = interpret_rows(check(flow), rows, drain=drain)
            assert found == traces, f"runs of {count} markers"
            for name, source in sources.items():
                for label, stream in source.streams(name).items():
                    again = arranged[name].streams(name)[label]
                    assert [*map(repr, again)] == [*map(repr, stream)], f"runs of {count} markers, {label}"  # NaN
    return traces


def agrees(flow: Dataflow, rows: dict[str, Any], seed: int = 0, **how: Any) -> dict[str, Trace[Element]]:
    """The traces; stages that take pauses give them, cut into steps anywhere."""
    traces = defined(flow, rows)
    for count in (1, 3):
        compiled = program(check(flow), parallelism=1 + seed % 3, key_groups=3)
        with pauses_from(count):
            found = simulate_program(compiled, rows, seed=seed + count, **how)
            assert {name: found[name].trace for name in traces} == traces, f"pauses from {count}, seed {seed}"
    return traces


# ------------------------------------------------------------------------------------------------- random graphs


@given(cases(), st.sampled_from([1, 2, 3]))
def test_pauses_of_random_graphs(case: Case, count: int) -> None:
    traces = defined(case.flow, case.rows, drain=case.drain)
    compiled = program(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)
    with pauses_from(count):
        answers = simulate_program(
            compiled, case.rows, seed=case.seed, steps=case.steps, pieces=case.pieces, drain=case.drain
        )
        for name, trace in traces.items():
            assert answers[name].trace == (trace if case.drain else closed(trace))


# ------------------------------------------------------------------------------------------------- the library


@attrs.frozen
class Reading:
    """A value with its time, in seconds."""

    key: str
    ts: int
    x: int


def second(reading: Reading) -> int:
    return reading.ts


def x_of(reading: Reading) -> int:
    return reading.x


def source(flow: Dataflow, name: str, seconds: int = 1) -> Stream[U[str, Reading]]:
    markers = every(seconds=seconds, time=second)
    return flow.source(name, U[str, Reading], key=lambda reading: reading.key, markers=markers)


def in_order(op: Any) -> Callable[[Any], Any]:
    return lambda stream: stream.through(sort(by=second)).through(op)


@attrs.frozen
class Turning(OpKeyedUnordered[str, Reading, str, int, int, int]):
    """The state of keys to come turns round with the blocks. It neither skips nor forgets."""

    def lift(self, key: str, value: Reading) -> int:
        return value.x

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return (state + 1 + agg) % 11

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        if new_state == 3:
            emit(key, new_state)


ONE: dict[str, Callable[[Any], Any]] = {
    "per block": lambda s: s.through(ts.aggregate(ts.count())),
    "tumbling": lambda s: s.through(ts.tumbling(ts.count(), size=4, offset=1)),
    "sliding": lambda s: s.through(ts.sliding(ts.sum(x_of, to=int), size=6, slide=4)),
    "two stacks": lambda s: s.through(ts.sliding(ts.max(x_of, to=int), size=5, method="two stacks")),
    "session": in_order(ts.session(ts.count(), gap=5, time=second)),
    "time window": in_order(ts.time_window(ts.count(), size=4, time=lambda r: r.ts - r.x % 7, grace=3, ends=True)),
    "deduplicate": in_order(ts.deduplicate(x_of, seconds=6, time=second)),
    "scan": in_order(ts.scan(ts.count())),
    "two": lambda s: s.through(sort(by=second))
    .through(ts.session(ts.count(), gap=5, time=second))
    .through(ts.tumbling(ts.count(), size=8)),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "interval": lambda a, b: ts.interval_join(a, b, before=3, after=4, left_time=second, right_time=second),
    "outer interval": lambda a, b: ts.interval_join(a, b, before=3, after=4, left_time=second, right_time=second, how="full"),
    "as of": lambda a, b: ts.asof_join(a, b, left_time=second, right_time=second, tolerance=9),
    "as of, at any time": lambda a, b: ts.asof_join(a, b, left_time=second, right_time=second),
    "table": lambda a, b: ts.table_join(a, b, left_time=second, table_time=second),
    "equi": lambda a, b: ts.equi_join(a, b, blocks=3, how="full"),
    "window": lambda a, b: ts.window_join(a, b, size=6, how="full"),
    "own windows": lambda a, b: ts.window_join(a, b, size=6, grace=2, left_time=second, right_time=second, how="full"),
}
FLOWS = [*ONE, *TWO]
ONE["turning"] = lambda s: s.through(Turning())


def flow_of(name: str) -> tuple[Dataflow, list[str]]:
    """A dataflow with one operator of the library, and its sources."""
    flow = Dataflow("pauses")
    if name in ONE:
        flow.sink("out", ONE[name](source(flow, "a")))
        return flow, ["a"]
    flow.sink("out", TWO[name](source(flow, "a"), source(flow, "b")))
    return flow, ["a", "b"]


@st.composite
def readings(draw: st.DrawFn) -> list[Reading]:
    """Rows with pauses between them."""
    time, rows = 0, list[Reading]()
    for gap in draw(st.lists(st.sampled_from([0, 0, 1, 2, 5, 9, 23, 40]), max_size=9)):
        time += gap
        rows.append(Reading(draw(st.sampled_from("abc")), time, draw(st.integers(0, 9))))
    return rows


@pytest.mark.parametrize("name", FLOWS)
@settings(max_examples=some(8))
@given(readings(), readings(), st.integers(0, 2**16))
def test_pauses_of_the_library(name: str, left: list[Reading], right: list[Reading], seed: int) -> None:
    flow, sources = flow_of(name)
    agrees(flow, dict(zip(sources, (left, right), strict=False)), seed)


@pytest.mark.parametrize("name", ["tumbling", "sliding", "two stacks"])
def test_pauses_of_columns(name: str) -> None:
    """Many keys share a block, so that their states are columns."""
    flow, _ = flow_of(name)
    rows = [Reading(f"k{n % 300}", time, n) for time in (0, 3, 50, 51, 400) for n in range(400)]
    (trace,) = agrees(flow, {"a": rows}, steps=2).values()
    assert sum(isinstance(one, Item) for one in trace) > 1_000


# ------------------------------------------------------------------------------------------------- what it costs

FAR = 10**9


@pytest.mark.parametrize("name", FLOWS)
def test_a_billion_markers_are_visited_a_few_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[Marker] = []
    visit = empty_blocks.EmptyBlocks.visit

    def counted(self: empty_blocks.EmptyBlocks, marker: Marker) -> Any:
        visits.append(marker)
        return visit(self, marker)

    monkeypatch.setattr(empty_blocks.EmptyBlocks, "visit", counted)
    flow, sources = flow_of(name)
    rows = {one: [Reading("a", 1, 1), Reading("b", 2, 2), Reading("a", FAR, 3)] for one in sources}
    traces, _ = interpret_rows(check(flow), rows)
    found = simulate_program(program(check(flow), key_groups=2), rows, seed=1)
    assert found["out"].trace == traces["out"]
    assert len(traces["out"]) > FAR
    assert len(visits) < 200


@settings(max_examples=some(8))
@given(readings(), readings(), st.integers(0, 2**16))
def test_an_operator_that_declares_nothing_runs_at_each_marker(a: list[Reading], b: list[Reading], seed: int) -> None:
    flow = Dataflow("turning")
    flow.sink("out", merge(source(flow, "a"), source(flow, "b", 3)).through(Turning()))
    agrees(flow, {"a": a, "b": b}, seed)


@given(st.integers(0, 10), st.integers(0, 300))
def test_a_state_that_repeats_is_not_computed_again(start: int, count: int) -> None:
    calls: list[int] = []

    @attrs.frozen
    class Counting(Turning):
        def update_state(self, state: int, agg: int) -> int:
            calls.append(state)
            return super().update_state(state, agg)

    assert start_after(Counting(), start, count) == (start + count) % 11
    calls.clear()
    assert start_after(Counting(), start, 10**12) == (start + 10**12) % 11
    assert len(calls) < 50


# ------------------------------------------------------------------------------------------------- broken twins


def wrongs(name: str) -> bool:
    """Does a run of a library operator differ from the definition, for some rows?"""
    flow, sources = flow_of(name)
    late = [Reading("a", 0, 0), Reading("b", 8, 0), Reading("a", 40, 6), Reading("a", 42, 6), Reading("c", 95, 1)]
    try:
        for seed in range(6):
            agrees(flow, {one: late for one in sources}, seed)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    ("name", "owner", "method"),
    [
        ("turning", empty_blocks.WhileKeys, "pass_to"),
        ("time window", empty_blocks.DueMarkers, "pass_to"),
        ("time window", empty_blocks.DueMarkers, "_catch_up"),
        ("session", empty_blocks.DueMarkers, "next"),
        ("sliding", empty_blocks.WhileKeys, "next"),
    ],
)
def test_what_is_left_out_is_made_up_for(name: str, owner: Any, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twins: a schedule that forgets the markers that were left out, or that asks for none."""
    assert not wrongs(name)
    monkeypatch.setattr(owner, method, lambda self, *args: None)
    assert wrongs(name)


def test_blocks_between_pauses_are_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: the last occupied block before the end is taken for an empty one."""
    real = pipeline.pauses
    monkeypatch.setattr(pipeline, "pauses", lambda markers, occupied, least: real(markers, occupied[:-1], least))
    assert wrongs("session")


# ------------------------------------------------------------------------------------------------- gates


@settings(max_examples=some(25))
@given(gates.FLOWS, gates.ROWS, st.sampled_from([1, 3, 20, 90]), st.booleans(), st.integers(0, 2**16))
def test_pauses_of_gates(case: gates.Latest, rows: list[Any], apart: int, drain: bool, seed: int) -> None:
    """Gates decide a pause at once where their bounds allow it."""
    spread = {"in": [(key, attrs.evolve(reading, ts=reading.ts * apart)) for key, reading in rows]}
    traces = defined(case.flow(), spread, drain=drain)
    compiled = program(check(case.flow()), parallelism=1 + seed % 3, key_groups=3)
    with pauses_from(2):
        found = simulate_program(compiled, spread, seed=seed, drain=drain)["out"].trace
        assert gates.answered(found) == gates.answered(traces["out"])


@pytest.mark.parametrize(
    ("bound", "most"),
    [
        (sequence(4), 10),
        (value(units=3, columns="ozone"), 10),
        (at_least_once(), 10),
        (period(2 * FAR), 60),
        (time(2 * FAR), 60),
        (time(2 * FAR) & sequence(2), 60),
        (time(2 * FAR) | value(units=3, columns="dust"), 60),
        (ALWAYS, 10),
    ],
    ids=str,
)
def test_a_gate_decides_a_billion_markers_at_once(bound: Bound, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[int] = []
    decide = type(bound).decide

    def counted(self: Bound, seen: Observation, state: Any) -> Any:
        decided.append(seen.marker)
        return decide(self, seen, state)

    monkeypatch.setattr(type(bound), "decide", counted)
    flow = gates.flow_of(lambda stream: stream.gate(bound, latest_by=lambda reading: reading.ts))
    readings = [gates.Reading(1.0, 1, 1), gates.Reading(2.0, 1, 20), gates.Reading(3.0, 9, 10 * FAR)]
    rows = {"in": [*zip("aba", readings, strict=True)]}
    traces, _ = interpret_rows(check(flow), rows)
    assert len(decided) < most
    decided.clear()
    assert simulate_program(program(check(flow)), rows, seed=1)["out"].trace == traces["out"]
    assert len(decided) < most


def test_a_gate_that_skips_a_change_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: a bound of time that says it never changes."""
    rows = [("a", gates.Reading(1.0, 1, 0)), ("a", gates.Reading(1.0, 1, 2_000))]
    flow = gates.flow_of(lambda stream: stream.gate(time(100)))
    with pauses_from(ONE_BY_ONE):
        traces, _ = interpret_rows(check(flow), {"in": rows})
    monkeypatch.setattr(Time, "next_change", lambda self, seen, reached: None)
    assert simulate_program(program(check(flow)), {"in": rows}, seed=1)["out"].trace != traces["out"]


# ------------------------------------------------------------------------------------------------- what is said and sent


def test_a_topic_gets_the_first_and_the_last_marker_of_a_pause() -> None:
    markers = MarkerRuns((range(0, 10**9, 10),))
    assert list(without_pauses(markers, [20, 10**6])) == [0, 10, 20, 30, 10**6 - 10, 10**6, 10**6 + 10, 10**9 - 10]
    assert list(without_pauses(markers[:5], [])) == [0, 10, 20, 30, 40]
    assert list(without_pauses(NO_MARKERS, [])) == []


def test_explain_says_what_runs_at_each_marker() -> None:
    said = "        pauses    Turning runs at each marker, also where nothing comes"
    assert [said in explain(flow_of(name)[0]).splitlines() for name in ("turning", "tumbling", "session")] == [True, False, False]

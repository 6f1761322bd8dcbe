"""Gates: what they mean, their laws, and that every deployment agrees with the definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graphs import Total
from tracetypes import (
    UNIT,
    CheckFailed,
    Dataflow,
    Item,
    Marker,
    O,
    Stream,
    U,
    UInt64,
    Unit,
    UsageError,
    check,
    decimal,
    every,
    explain,
    in_band,
    interpret,
    interpret_rows,
    merge,
    sort,
)
from tracetypes.arrangement import arrange
from tracetypes.bounds import Impact
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.gates.container import RunningContainer, Snapshot
from tracetypes.compiler.gates.kernel import GateKernel
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.trial import simulate as simulation
from tracetypes.compiler.trial.simulate import simulate_program, simulate_scripts
from tracetypes.containers import Container, apart, measured
from tracetypes.edges import EdgeType
from tracetypes.forests import Forest
from tracetypes.gate_check import opens_for_certain
from tracetypes.gates import (
    ALWAYS,
    Bound,
    Observation,
    adaptive,
    all_of,
    at_least_once,
    at_least_one,
    majority,
    period,
    sequence,
    time,
    value,
)
from tracetypes.impacts import Variation, magnitude, net_change, relative_error
from tracetypes.learned_gates import Model, Subject, feature, learned
from tracetypes.nodes import Gate, Graph
from tracetypes.parsing import Row
from tracetypes.records import String
from tracetypes.schemas import schema_of
from tracetypes.stdlib import count, tumbling
from tracetypes.trace import Element, Trace, blocks, stream_type

SECOND = 1_000_000


@attrs.frozen
class Reading:
    """What a detector says. ``ts``: seconds."""

    ozone: float
    dust: int | None
    ts: int


TICKS = every(seconds=10, time=lambda reading: reading.ts)


def even(key: str) -> bool:
    return key in ("a", "c", "e")


def flow_of(make: Callable[[Stream[U[str, Reading]]], Stream[Any]]) -> Dataflow:
    """A flow with one gate."""
    flow = Dataflow("gates")
    flow.sink("out", make(flow.source("in", U[str, Reading], markers=TICKS)))
    return flow


def elements(*some: Any) -> list[Element]:
    """Pairs as items, numbers as markers in seconds."""
    return [Marker(one * SECOND) if isinstance(one, int) else Item(*one) for one in some]


def through(
    make: Callable[[Stream[Any]], Stream[Any]], *some: Any, edge: Any = O[str, int], complete: bool = False
) -> list[Any]:
    """What a gate makes of a stream, as :func:`elements`."""
    flow = Dataflow("gates")
    source = {"ordered_by": lambda value: value} if edge == O[str, int] else {}
    stream: Stream[Any] = flow.source("in", edge, markers=in_band(is_marker=bool, time=int), **source)  # type: ignore[call-overload]
    flow.sink("out", make(stream))
    trace = interpret(check(flow), {"in": elements(*some)}, complete=complete)["out"]
    return [one.timestamp if isinstance(one, Marker) else (one.key, one.value) for one in trace.items]


# -------------------------------------------------------------------------------------------------------- equations


def test_a_holding_gate_joins_blocks() -> None:
    """``B1 # B2 #`` becomes ``(B1 + B2) #``."""
    got = through(lambda s: s.gate(sequence(3)), ("a", 1), ("b", 2), 1, ("a", 3), 2, ("a", 4), 3)
    assert got == [("a", 1), ("b", 2), ("a", 3), 2, ("a", 4)]


def test_a_container_gate_hands_on_the_latest_value_of_each_changed_key() -> None:
    got = through(lambda s: s.latest(sequence(3)), ("a", 1), ("b", 2), 1, ("a", 3), 2, ("c", 4), ("c", 5), 3, ("c", 9), 4)
    assert got[:3] == [("a", 3), ("b", 2), 2]
    assert got[3:] == [("c", 9), 4]


def test_what_was_held_comes_at_the_end_with_the_last_marker() -> None:
    make = lambda s: s.gate(sequence(100))  # noqa: E731
    some = ("a", 1), 1, ("a", 2), 2, 3
    assert through(make, *some) == [("a", 1), ("a", 2)]
    assert through(make, *some, complete=True) == [("a", 1), ("a", 2), 3]


def test_windows_behind_a_gate_close() -> None:
    """The silence behind the end of a source comes through."""
    from tracetypes.stdlib import time_window

    def windowed(gate: Bound) -> list[Item]:
        window: Any = time_window(count(), size=60, time=lambda reading: reading.ts)
        flow = flow_of(lambda s: s.through(sort(by=lambda reading: reading.ts)).gate(gate).through(window))
        rows = {"in": [("a", Reading(1.0, 0, ts)) for ts in (1, 30, 59, 61)]}
        return [one for one in interpret_rows(check(flow), rows)[0]["out"].items if isinstance(one, Item)]

    assert [item.value for item in windowed(ALWAYS)] == [3, 1]
    assert [item.value for item in windowed(sequence(1000))] == [3, 1]


def test_always_open_is_the_identity() -> None:
    some = ("a", 1), ("a", 2), 1, 2, ("b", 3), 3, ("b", 4)
    for bound in ((), (ALWAYS,), (sequence(1) | time(1),)):
        assert through(lambda s, bound=bound: s.gate(*bound), *some) == list(some)  # type: ignore[misc]
    assert through(lambda s: s.latest(), *some) == [("a", 2), 1, 2, ("b", 3), 3, ("b", 4)]


# ----------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("bound", "opened"),
    [
        (sequence(2), [2, 4, 5]),
        (sequence(percent=60), [1, 2, 4, 5]),
        (sequence(percent=50, of=4), [3, 5]),
        (sequence(1, rows=lambda key: key == "b"), [3, 5]),
        (time(2), [1, 3, 5]),
        (time(timedelta(seconds=3)), [1, 4]),
        (period(2), [1, 2, 4]),
        (at_least_once(lambda key: key == "b"), [3, 4, 5]),
        (value(units=2), [2, 3, 4]),
        (value(units=2, measure="largest"), [2, 3, 4, 5]),
        (value(percent=100), [1, 2, 3]),
        (value(percent=20, against=10.0), [2, 3, 4]),
        (value(percent=40, against=10.0, measure="largest"), [3, 4]),
        (value(units=1.5, columns=(), rows=lambda key: key == "a"), [2, 4]),
    ],
)
def test_bounds(bound: Bound, opened: list[int]) -> None:
    """Of a are written 1, then 3, then nothing, then 8, then 7; of b 4 in the third block and 6 in the fifth."""
    some = ("a", 1), 1, ("a", 3), 2, ("b", 4), 3, ("a", 8), 4, ("a", 7), ("b", 6), 5
    got = through(lambda s: s.gate(bound), *some)
    assert [one for one in got if isinstance(one, int)] == opened


def test_a_write_that_is_taken_back_counts_only_per_write() -> None:
    some = ("a", 1), 1, ("a", 9), ("a", 1), 2, 3
    assert through(lambda s: s.latest(value(units=5, measure="largest")), *some) == [("a", 1)]
    got = through(lambda s: s.gate(value(units=5, measure="largest", per_write=True)), *some, edge=O[str, int])
    assert [one for one in got if isinstance(one, int)] == [2]


def test_and_binds_more_tightly_than_or() -> None:
    one, two, three = sequence(1), time(2), value(units=3)
    assert str(one | two & three) == "sequence(1) | (time(2 s) & value(units=3))"
    assert str(all_of(one, two)) == str(one & two)
    assert all_of() is ALWAYS
    assert all_of(one) is one


@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_combinations(reached: list[bool]) -> None:
    """``majority`` is what its unfolding into ``&`` and ``|`` is."""
    bounds = [time(1) if one else time(3) for one in reached]
    seen = Observation(2 * SECOND, SECOND, SECOND, {}, lambda name: 0.0)

    def holds(bound: Bound) -> bool:
        return bound.decide(seen, bound.fresh()).reached

    assert holds(all_of(*bounds)) == all(reached)
    assert holds(at_least_one(*bounds)) == any(reached)
    assert holds(majority(*bounds)) == (2 * sum(reached) > len(reached))


def test_majority_of_four_is_three() -> None:
    assert str(majority(*[time(1)] * 4)).startswith("at least 3 of")
    assert str(majority(*[time(1)] * 3)).startswith("at least 2 of")


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        (1.0, 3.5, 2.5),
        (math.inf, math.inf, 0.0),
        (math.nan, math.nan, 0.0),
        (math.nan, 1.0, math.inf),
        (-math.inf, 1.0, math.inf),
    ],
)
def test_differences(one: float, other: float, far: float) -> None:
    assert apart(one, other) == apart(other, one) == far


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: time(0),
        lambda: time(-1),
        lambda: sequence(),
        lambda: sequence(0),
        lambda: sequence(3, percent=2),
        lambda: sequence(3, of=2),
        lambda: sequence(percent=math.nan),
        lambda: value(),
        lambda: value(units=1, percent=2),
        lambda: value(units=-1),
        lambda: value(units=1, against=2),
        lambda: value(percent=1, measure="largest"),
        lambda: value(units=1, per_write=True),
        lambda: value(units=1, columns=("a", "a")),
        lambda: value(units=1, measure="median"),  # type: ignore[arg-type]
        lambda: all_of(3),  # type: ignore[arg-type]
        lambda: time(3) & 3,  # type: ignore[operator]
        lambda: bool(time(3)),
        lambda: period(0),
    ],
)
def test_TT126_bounds_that_mean_nothing(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as raised:
        wrong()
    assert raised.value.code == "TT126"


# ------------------------------------------------------------------------------------------------------------- laws


READINGS = st.builds(
    Reading,
    st.sampled_from([0.0, -0.0, 1.0, 2.5, -7.25, 0.1, 1e300, -1e300, 3.0]),
    st.one_of(st.none(), st.integers(-5, 5)),
    st.integers(0, 120),
)
ROWS = st.lists(st.tuples(st.sampled_from("abcde"), READINGS), max_size=25)

STEP = Model(
    Subject("", ("step",), (0.1,), ((0,),), ((0,),), ((),)),
    (Forest(1, (0,), (0, -1, -1), (0.4, 0.0, 0.0), (1, -1, -1), (2, -1, -1), ((0.0,), (0.0,), (1.0,))),),
    ((0.5,),),
)
"""Has the step run when its impact is above 0.4."""


def vowel(key: str) -> bool:
    return key in "ae"


FEATURES = (feature(net_change(), "dust", rows=even), feature(relative_error(), by=vowel))

FEATURED = Model(
    Subject("", ("step",), (0.1,), ((0,),), ((0,),), (tuple(map(str, FEATURES)),)),
    (Forest(3, (0,), (1, -1, 2, -1, -1), (2.0, 0.0, 0.3, 0.0, 0.0), (1, -1, 3, -1, -1), (2, -1, 4, -1, -1),
            ((0.0,), (0.0,), (0.0,), (0.0,), (1.0,))),),
    ((0.5,),),
)
"""Has the step run when its first feature is above 2 and its second one above 0.3."""

LEAVES: list[Bound] = [
    time(30),
    period(40),
    sequence(4),
    sequence(3, rows=even),
    sequence(percent=60),
    sequence(percent=60, of=4, rows=even),
    value(units=1.5),
    value(units=3, columns="ozone", measure="largest"),
    value(percent=50, columns=("ozone", "dust")),
    value(percent=30, columns="dust", rows=even),
    value(percent=5, against=100.0),
    value(percent=5, against=100.0, measure="largest", columns="dust"),
    value(units=3, measure="largest", per_write=True, columns="ozone"),
    at_least_once(even),
    learned("step", error=0.1, columns="ozone"),
    learned("step", error=0.1, columns="ozone", model=STEP),
    learned("step", error=0.1, rows=even, accumulates=True, model=STEP),
    learned("step", error=0.1, columns="dust", impact=magnitude(), accumulates=True, model=STEP),
    learned("step", error=0.1, columns="ozone", features=FEATURES, model=FEATURED),
]


def combined(children: st.SearchStrategy[Bound]) -> st.SearchStrategy[Bound]:
    some = st.lists(children, min_size=1, max_size=3)
    return st.builds(lambda how, bounds: how(*bounds), st.sampled_from([all_of, at_least_one, majority]), some)


BOUNDS = st.recursive(st.sampled_from(LEAVES), combined, max_leaves=4)


@attrs.frozen
class Latest:
    """A flow with gates: what is drawn of it."""

    bound: Bound
    latest: bool
    ordered: bool
    behind: Bound | None

    def flow(self) -> Dataflow:
        def gates(stream: Stream[Any]) -> Stream[Any]:
            by = None if self.ordered else lambda reading: reading.ts
            if self.ordered:
                stream = stream.through(sort(by=lambda reading: -reading.ts))
            gate: Any = stream.latest if self.latest else stream.gate
            first: Stream[Any] = gate(self.bound, latest_by=by)
            if self.behind is None:
                return first
            return first.through(sort(by=lambda reading: reading.ozone)).latest(self.behind)

        return flow_of(gates)


FLOWS = st.builds(Latest, BOUNDS, st.booleans(), st.booleans(), st.one_of(st.none(), BOUNDS))


@given(FLOWS, ROWS, st.booleans(), st.integers(0, 10_000))
def test_deployments_agree_with_the_definition(
    case: Latest, rows: list[tuple[str, Reading]], drain: bool, seed: int
) -> None:
    checked = check(case.flow())
    (expected,) = interpret_rows(checked, {"in": rows}, drain=drain)[0].values()
    compiled = program(checked, parallelism=1 + seed % 3, key_groups=3 + seed % 2)
    found = simulate_program(compiled, {"in": rows}, seed=seed, drain=drain)["out"].trace
    assert answered(found) == answered(expected)


def answered(trace: Trace[Element]) -> Trace[Element]:
    """Up to the last marker."""
    last = max((at for at, one in enumerate(trace.items) if isinstance(one, Marker)), default=-1)
    return Trace(trace.type, trace.items[: last + 1])


@given(BOUNDS, st.booleans(), ROWS, st.randoms(use_true_random=False))
def test_the_output_is_a_function_of_the_trace(bound: Bound, latest: bool, rows: list[tuple[str, Reading]], chance: Any) -> None:
    """Another order of the items of a block changes nothing."""
    case = Latest(bound, latest, False, None)
    checked = check(case.flow())
    blocks_ = [rows[at : at + 4] for at in range(0, len(rows), 4)]
    outputs = []
    for _ in range(2):
        stream: list[Element] = []
        for number, block in enumerate(blocks_):
            stream += [*(Item(*pair) for pair in block), Marker((number + 1) * 10 * SECOND)]
            chance.shuffle(block)
        outputs.append(interpret(checked, {"in": stream})["out"])
    assert outputs[0] == outputs[1]


@given(BOUNDS, ROWS)
def test_a_gate_loses_nothing_and_lets_no_marker_through_that_did_not_come(bound: Bound, rows: list[tuple[str, Reading]]) -> None:
    def markers(trace: Trace[Element]) -> list[Element]:
        return [one for one in trace.items if isinstance(one, Marker)]

    plain = interpret_rows(check(flow_of(lambda s: s)), {"in": rows})[0]["out"]
    flow = flow_of(lambda s: s.gate(bound, latest_by=lambda reading: reading.ts))
    gated = interpret_rows(check(flow), {"in": rows})[0]["out"]
    assert set(markers(gated)) <= set(markers(plain))
    assert markers(gated)[-1:] == markers(plain)[-1:]
    items = [Trace(trace.type, tuple(one for one in trace.items if isinstance(one, Item))) for trace in (plain, gated)]
    assert items[0] == items[1]


@given(ROWS)
def test_the_divergence_stays_below_its_bound_while_a_gate_is_closed(rows: list[tuple[str, Reading]]) -> None:
    bound = value(units=2, columns="ozone")
    stream = interpret_rows(check(flow_of(lambda s: s.through(sort(by=lambda r: r.ts)))), {"in": rows})[0]["out"]
    schema = schema_of(Reading)
    container = Container(bound, schema)
    (divergence, elements_) = bound.measures()
    for block in blocks(stream.items):
        if block.marker is not None:
            container.take(block.items)
            if not container.decide(block.marker.micros):
                far = measured(divergence, schema, container.now, container.then, container.since, {})
                assert far < 2 * measured(elements_, schema, container.now, container.then, container.since, {})


@given(BOUNDS, ROWS, st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_running_container_measures_what_the_definition_does(
    bound: Bound, rows: list[tuple[str, Reading]], executes: list[bool]
) -> None:
    schema = schema_of(Reading)
    now: dict[str, Reading] = {}
    then: dict[str, Reading] = {}
    since: list[Item] = []
    before: dict[str, Reading] = {}
    running = RunningContainer(bound, String(), schema)
    for at, execute in zip(range(0, 24, 3), executes, strict=True):
        some = rows[at : at + 3]
        since += [Item(*pair) for pair in some]
        now.update(some)
        of_each = np.array([numbers(running.names, one) for _, one in some]).reshape(len(some), len(running.names))
        running.take(running.place(array(String(), [key for key, _ in some])), of_each)
        for measure in bound.measures():
            assert running.measured(measure) == measured(measure, schema, now, then, since, before)
        before = dict(now)
        running.mark()
        snapshot = running.at_execution()
        found = dict(zip(snapshot.keys, map(tuple, snapshot.numbers.tolist()), strict=True))
        assert found == {key: numbers(running.names, one) for key, one in then.items()}
        if execute:
            then, since = dict(now), []
            running.execute()


def numbers(names: Sequence[str], reading: Reading) -> tuple[float, ...]:
    return tuple(float(getattr(reading, name) or 0) for name in names)


# --------------------------------------------------------------------------------------------------- broken twins


def disagrees(case: Latest, rows: list[tuple[str, Reading]]) -> bool:
    checked = check(case.flow())
    (expected,) = interpret_rows(checked, {"in": rows})[0].values()
    compiled = program(checked, key_groups=3)
    return any(simulate_program(compiled, {"in": rows}, seed=seed)["out"].trace != expected for seed in range(6))


SOME = [("abcde"[at % 5], Reading(float(at * at % 7), at % 4, at * 6)) for at in range(20)]


LARGEST, AGAINST = value(units=3, columns="ozone", measure="largest"), value(percent=5, against=100.0)


def test_the_twins_that_follow_are_broken_by_what_they_break() -> None:
    for bound in (sequence(4), sequence(1000), LARGEST, AGAINST):
        assert not disagrees(Latest(bound, False, False, None), SOME)


def test_a_twin_whose_last_marker_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    step = GateKernel.step
    monkeypatch.setattr(GateKernel, "step", lambda *args, complete: step(*args, complete=False))
    assert disagrees(Latest(sequence(1000), False, False, None), SOME)


def test_a_twin_that_forgets_to_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningContainer, "execute", lambda container: None)
    assert disagrees(Latest(sequence(4), False, False, None), SOME)
    assert disagrees(Latest(LARGEST, True, True, None), SOME)


def test_a_twin_that_lets_rows_through_that_the_gate_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_through_gate", lambda plan, gate, steps, chance: steps)
    assert disagrees(Latest(sequence(4), False, False, None), SOME)


def test_a_twin_that_goes_on_with_the_container_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lambda container: Snapshot(container.numbers.keys, container.now)  # noqa: E731
    monkeypatch.setattr(RunningContainer, "at_execution", whole)
    assert disagrees(Latest(AGAINST, False, False, None), SOME)


# ---------------------------------------------------------------------------------------------------------- checks


def of_feature(impact: Impact) -> Bound:
    """A learned bound that is told one."""
    return learned("x", error=1, columns="ozone", features=[impact])


def codes(flow: Dataflow | Graph) -> list[str]:
    with pytest.raises(CheckFailed) as raised:
        check(flow)
    return [one.code for one in raised.value.violations]


def test_edges_of_gates() -> None:
    flow = Dataflow("edges")
    stream = flow.source("in", U[str, Reading], markers=TICKS)
    ordered = stream.through(sort(by=lambda reading: reading.ts))
    gates = (stream.gate(time(3)), stream.latest(time(3), latest_by=lambda reading: reading.ts), ordered.gate())
    for number, one in enumerate(gates):
        flow.sink(f"out-{number}", one)
    types = check(flow).types
    assert [types[node.id] for node in flow.graph.nodes if isinstance(node, Gate)] == [
        EdgeType(False, str, Reading),
        EdgeType(True, str, Reading),
        EdgeType(True, str, Reading),
    ]


def test_TT127_columns() -> None:
    assert codes(flow_of(lambda s: s.gate(value(units=1, columns="ozon"), latest_by=lambda r: r.ts))) == ["TT127"]
    with pytest.raises(CheckFailed, match="name the column 'ozone'"):
        check(flow_of(lambda s: s.gate(value(units=1, columns="ozon"), latest_by=lambda r: r.ts)))
    flow = Dataflow("texts")
    texts = flow.source("in", U[str, str], markers=every(seconds=1, time=len))
    flow.sink("out", texts.gate(value(units=1), latest_by=lambda text: text))
    assert codes(flow) == ["TT127"]


def nothing(*given: Any) -> Any:
    """Somebody forgot its ``return``."""
    given[0].upper()


of_two: Any = lambda key, value: True  # noqa: E731
"""A function of too many arguments."""


@attrs.frozen
class Forgets(Variation[float, float]):
    """A measure of change, as an author writes it."""

    def process_element(self, current: Any, previous: Any) -> Any:
        abs(current - (previous or 0))

    def identity(self) -> float:
        return 0.0

    def aggregate(self, a: float, b: float) -> float:
        return a + b

    def compute(self, agg: float, modified: int, total: int) -> float:
        return agg


@pytest.mark.parametrize(
    ("bound", "code", "found"),
    [
        (sequence(5, rows=nothing), "TT131", "rows returns nothing"),
        (time(3) | value(units=1, rows=nothing, columns="ozone"), "TT131", "rows returns nothing"),
        (adaptive(sequence(5, rows=nothing), sequence(50, rows=nothing)), "TT131", "rows returns nothing"),
        (at_least_once(nothing), "TT131", "rows returns nothing"),
        (sequence(5, rows=of_two), "TT132", "rows takes 2 arguments"),
        (learned("x", error=1, columns="ozone", rows=nothing), "TT131", "rows returns nothing"),
        (of_feature(feature(net_change(), "ozone", rows=nothing)), "TT131", "rows returns nothing"),
        (of_feature(feature(net_change(), "ozone", by=nothing)), "TT131", "by returns nothing"),
        (of_feature(feature(Forgets(), "ozone")), "TT131", "Forgets.process_element returns nothing"),
        (of_feature(feature(magnitude(nothing), "ozone")), "TT131", "of returns nothing"),
        (learned("x", error=1, columns="ozone", impact=Forgets()), "TT131", "Forgets.process_element returns nothing"),
        (learned("x", error=1, columns="ozone", variation=Forgets()), "TT131", "Forgets.process_element returns nothing"),
    ],
    ids=str,
)
def test_functions_of_a_bound(bound: Bound, code: str, found: str) -> None:
    """They are called with keys of the container and numbers of its values."""
    with pytest.raises(CheckFailed) as raised:
        check(flow_of(lambda s: s.gate(bound, latest_by=lambda reading: reading.ts)))
    (one,) = raised.value.violations
    assert one.code == code
    assert found in one.found


def test_functions_of_a_bound_that_return_something() -> None:
    by_area = of_feature(feature(magnitude(abs), "ozone", rows=lambda key: key > "a", by=lambda key: key[:1]))
    bounds = all_of(by_area, sequence(percent=5, rows=str.isupper), at_least_once(lambda key: key == "a"))
    check(flow_of(lambda s: s.gate(bounds, latest_by=lambda reading: reading.ts)))


@pytest.mark.parametrize(
    "bound",
    [
        sequence(percent=101),
        time(3) & sequence(percent=101),
        majority(time(3), sequence(percent=200), sequence(percent=300)),
        sequence(percent=101) | (sequence(percent=102) & time(1)),
    ],
)
def test_TT128_bounds_that_are_never_reached(bound: Bound) -> None:
    assert codes(flow_of(lambda s: s.gate(bound))) == ["TT128"]


def test_TT128_what_types_say() -> None:
    flow = Dataflow("one")
    one = flow.source("in", U[Unit, bool], markers=every(seconds=1, time=int))
    flow.sink("out", one.gate(sequence(percent=50, of=3)))
    flow.sink("flags", one.gate(value(units=1.5), latest_by=lambda flag: flag))
    flow.sink("right", one.gate(sequence(percent=50, of=2) | value(units=1), latest_by=lambda flag: flag))
    assert codes(flow) == ["TT128", "TT128"]


def test_TT128_what_may_be_reached_is_allowed() -> None:
    check(flow_of(lambda s: s.gate(sequence(percent=101) | time(1))))
    check(flow_of(lambda s: s.gate(sequence(percent=150, of=2))))


def test_TT129_the_latest_of_a_U() -> None:
    flow: Any = flow_of
    assert codes(flow(lambda s: s.latest(time(1)))) == ["TT129"]
    assert codes(flow(lambda s: s.gate(time(1) | value(units=1)))) == ["TT129"]
    check(flow(lambda s: s.gate(time(1) | sequence(3))))


def test_TT130_a_container_downstream_of_its_own_gate() -> None:
    flow = flow_of(lambda s: merge(s, s).gate(time(1)))
    nodes = list(flow.graph.nodes)
    gate = next(node for node in nodes if isinstance(node, Gate))
    at = next(at for at, node in enumerate(nodes) if node.id in gate.inputs)
    nodes[at] = attrs.evolve(nodes[at], inputs=(*nodes[at].inputs, gate.id))
    assert codes(Graph("ring", tuple(nodes))) == ["TT130"]


def test_a_gate_may_have_a_name_that_is_one() -> None:
    assert codes(flow_of(lambda s: s.gate(time(1), name="a b"))) == ["TT118"]
    assert program(check(flow_of(lambda s: s.gate(time(1), name="zones")))).channels == ("gate--zones",)


def test_what_surely_opens() -> None:
    assert opens_for_certain(time(3) | sequence(3))
    assert opens_for_certain(ALWAYS)
    assert not opens_for_certain(time(3) & sequence(3))


def test_windows_of_whole_blocks_do_not_stand_behind_a_gate() -> None:
    with pytest.raises(UsageError, match="TT121"):
        flow_of(lambda s: s.gate(time(30)).through(tumbling(count(), size=60)))


def test_one_plan_has_no_gate() -> None:
    with pytest.raises(UsageError, match="TT405"):
        plan(check(flow_of(lambda s: s.gate(time(30)))))


def test_what_lies_behind_a_gate_runs_as_often_as_markers_come_through() -> None:
    flow = Dataflow("counted")
    stream = flow.source("in", U[str, int], markers=every(seconds=10, time=lambda value: value))
    flow.sink("out", stream.gate(sequence(3)).through(Total[str]()))
    trace = interpret_rows(check(flow), {"in": [("a", at) for at in range(0, 90, 5)]})[0]["out"]
    assert len([one for one in trace.items if isinstance(one, Marker)]) == 5
    assert stream_type(EdgeType(False, str, int)) == trace.type


# ------------------------------------------------------------------------------------------------ keys and values


@attrs.frozen
class Place:
    house: int
    plug: str | None


@attrs.frozen
class Keyed:
    """A value with a field ``key``, which stays in one column."""

    key: int
    price: Annotated[Decimal, decimal(9, 2)]
    on: bool


KINDS: list[tuple[Any, list[Any], Any, Callable[[int], Any], Bound]] = [
    (int, [1, -2, 3], int, lambda at: at * at % 17, value(units=3)),
    (float, [0.5, -0.0, 0.0], float, lambda at: at * 0.1, value(percent=20)),
    (Place, [Place(1, None), Place(1, "a"), Place(2, "a")], bool, lambda at: at % 3 == 0, value(units=0.4)),
    (Unit, [UNIT], int, lambda at: at * 3 % 7, value(units=3, measure="largest")),
    (str, ["a", "b", "ü"], Keyed, lambda at: Keyed(at, Decimal(at) / 4, at % 2 == 0), value(units=1, columns="price")),
    (date, [date(2026, 1, 1), date(1960, 1, 1)], int | None, lambda at: None if at % 3 else at, value(percent=10, against=10.0)),
    (bytes, [b"", b"a"], str, str, sequence(percent=60, rows=lambda key: key == b"a")),
    (bool, [True, False], UInt64, lambda at: 2**63 + at, value(units=4)),
]


@pytest.mark.parametrize("latest", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].__name__} {kind[2]}")
def test_keys_and_values_of_all_types(kind: tuple[Any, list[Any], Any, Callable[[int], Any], Bound], latest: bool) -> None:
    key, keys, value_, make, bound = kind
    flow = Dataflow("kinds")
    edge: Any = U
    stream: Stream[Any] = flow.source("in", edge[key, value_], markers=in_band(is_marker=lambda one: False, time=lambda one: 0))
    by = (lambda one: one.on) if value_ is Keyed else (lambda one: repr(one))
    gate: Any = stream.latest if latest else stream.gate
    flow.sink("out", gate(bound, latest_by=by))
    rows: list[Element | Row] = []
    for at in range(24):
        rows.append(Row("item", keys[at * 5 % len(keys)], make(at)))
        if at % 3 == 2:
            rows.append(Row("marker", time=at * SECOND))
    checked = check(flow)
    source = checked.graph.sources[0]
    arranged = arrange(source, [row for row in rows if isinstance(row, Row)], drain=True)
    expected = interpret(checked, arranged.streams("in"))["out"]
    scripts = {"in": [[row for row in rows[at : at + 8] if isinstance(row, Row)] for at in range(0, len(rows), 8)]}
    for seed in range(3):
        found = simulate_scripts(program(checked, key_groups=3), scripts, seed=seed)["out"].trace
        assert found == expected
    assert 0 < len([one for one in expected.items if isinstance(one, Marker)]) <= 8


def test_explain_says_where_a_gate_stands_and_when_it_opens() -> None:
    text = explain(flow_of(lambda s: s.gate(sequence(3) | time(60), name="zones")), backend="local")
    assert "gate 'zones', where epochs are committed: opens at sequence(3) | time(60 s)" in text
    assert "nothing behind a gate runs while it is closed" in text

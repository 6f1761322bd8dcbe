"""Ordered operators whose states say what the last item was, over columns: what a key group emits, counts and keeps is what the
operators would.

Whole runs are compared with the interpreter. In them each epoch of a stage that runs over columns is run again, from the same
state and messages, by the operators in Python.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetypes import (
    Checked,
    Dataflow,
    EmitValue,
    Marker,
    OperatorFailed,
    OpKeyedOrdered,
    U,
    check,
    desc,
    every,
    interpret_rows,
    sort,
)
from tracetypes.compiler.analysis.ordered import LastItem, Ordered, ordered_in
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns import turns
from tracetypes.compiler.columns.column import take
from tracetypes.compiler.plan.facts import columns_in_order
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import last_item, limits, ordered_kernel
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.messages import Difference, Items, Rows, Verified
from tracetypes.compiler.runtime.ordered_base import Emitted
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.edges import EdgeType
from tracetypes.stdlib import diff, interpolate, key_by, map_values, pairwise
from tracetypes.trace import stream_type


@attrs.frozen
class Reading:
    room: str
    ts: int
    x: float
    n: int = 0
    note: str | None = None


def second(reading: Reading) -> int:
    return reading.ts


def x_of(reading: Reading) -> float:
    return reading.x


def between(reading: Reading, ts: int, x: float) -> Reading:
    return Reading(reading.room, ts, x, reading.n, "made")


def of_text(reading: Reading, ts: int, x: float) -> Reading:
    return Reading(reading.room[::-1] or str({reading.note}), ts, x)


def triple(reading: Reading, ts: int, x: float) -> Reading:
    """Python computes it beyond 64 bits on the way, columns do not."""
    return Reading(reading.room, ts, x, reading.n * 3 // 3)


def raising(reading: Reading, ts: int, x: float) -> Reading:
    return Reading(reading.room, ts, 1 / (ts % 3), reading.n)


def half_up(reading: Reading) -> float:
    return reading.x / 2


def whole(reading: Reading) -> str:
    return repr(reading)


def number_of(reading: Reading) -> int:
    return reading.n


def both(one: Reading, other: Reading) -> Reading:
    return Reading(other.room, one.ts, other.x - one.x, one.n, other.note)


Build = Callable[[Any], Any]


def interpolation(**more: Any) -> Build:
    by = more.pop("by", second)
    fill = interpolate(**{"time": second, "number": x_of, "make": between, **more})
    return lambda source: source.through(sort(by=by)).through(fill)


def then(first: Build, *ops: Any) -> Build:
    def build(source: Any) -> Any:
        stream = first(source)
        for op in ops:
            stream = stream.through(op)
        return stream

    return build


BUILDS: dict[str, Build] = {
    "every second": interpolation(),
    "steps and gaps": interpolation(step=3, max_gap=7),
    "no gap": interpolation(max_gap=0),
    "by number": interpolation(by=lambda reading: (desc(reading.x), reading.ts)),
    "ties": interpolation(by=lambda reading: reading.ts // 4),
    "beyond": interpolation(make=triple),
    "in Python behind": then(interpolation(), map_values(whole, to=str)),
    "columns behind": then(interpolation(), map_values(half_up)),
    "another stage": then(interpolation(), key_by(lambda _, reading: reading.room + "!", to=str), sort(by=second), diff(x_of)),
    "restored": then(interpolation(), diff(x_of)),
    "differences": then(lambda source: source.through(sort(by=second)), diff(x_of)),
    "pairs": then(lambda source: source.through(sort(by=second)), pairwise(both)),
    "whole numbers": interpolation(number=number_of),
}


def flow_of(build: Build) -> Checked:
    flow = Dataflow("interpolated")
    markers: Any = every(seconds=10, time=second, delay=15)
    source = flow.source("in", U[str, Reading], key=lambda reading: reading.room, markers=markers)
    flow.sink("out", build(source))
    return check(flow)


def all_in_python(one: Plan) -> Plan:
    return in_python(one, list(names_of(one).values()))


@attrs.frozen
class Compiled:
    """A dataflow and its plans: of one key group and of several, and with as many stages as can be."""

    checked: Checked
    plans: tuple[Plan, ...]

    @classmethod
    def of(cls, build: Build) -> Compiled:
        checked = flow_of(build)
        kinds = ((1, 1, True), (2, 3, True), (1, 1, False))
        return cls(checked, tuple(plan(checked, parallelism=n, key_groups=m, fuse=fuse) for n, m, fuse in kinds))

    def agrees(self, rows: list[Reading], seed: int, *, changing: bool = False) -> None:
        """A run of one of the plans tells the definition's trace. ``changing``: from one epoch on in Python, from another again
        over columns, with the states of each other."""
        expected = run_of(lambda: interpret_rows(self.checked, {"in": rows})[0]["out"])
        one = self.plans[seed % len(self.plans)]
        plans = [all_in_python(one), one, all_in_python(one)] if changing else []
        steps, pieces = 1 + seed % 5, 1 + seed % 4
        actual = run_of(lambda: simulate(one, {"in": rows}, seed=seed, steps=steps, pieces=pieces, then=plans).trace)
        assert repr(actual) == repr(expected) if isinstance(expected, OperatorFailed) else actual == expected


def run_of(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except OperatorFailed as error:
        return error


@cache
def compiled(name: str) -> Compiled:
    return Compiled.of(BUILDS[name])


# ------------------------------------------------------------------------------------------------ every epoch, twice


def lines_of(messages: list[Any]) -> dict[Any, list[str]]:
    """What messages hold, in order: rows for the sink, or for each key group of the next stage."""
    lines: dict[Any, list[str]] = {}
    for message in messages:
        match message.body:
            case Rows(batch=batch) | Items(batch=batch):
                table: Any = pa.Table.from_batches([batch])
                more = map(repr, zip(*[column.to_pylist() for column in table.columns], strict=True))
                lines.setdefault((message.group, type(message.body)), []).extend(more)
            case Verified():
                pass
            case _:
                lines.setdefault((message.group, None), []).append(repr(message.body))
    return lines


def states_of(operators: list[Any]) -> list[Any]:
    objects = [one.to_objects() if isinstance(one, OrderedState) else one for one in operators]
    return [sorted(map(repr, one.items())) if isinstance(one, dict) else one for one in objects]


@pytest.fixture(autouse=True)
def twice(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Runs epochs twice; counts those that ran over columns."""
    runs = Counter[str]()
    step, at_once = StageKernel.step, last_item.at_once
    monkeypatch.setattr(limits, "MANY", 1)
    plan_of: dict[int, Any] = {}

    def plans_of(kernel: StageKernel, one: Plan, stage: Any, *more: Any) -> None:
        init(kernel, one, stage, *more)
        plan_of[id(kernel)] = one, stage

    init = StageKernel.__init__

    def counted(ordered: Ordered, last: LastItem, items: OrderedItems, *more: Any) -> Any:
        try:
            result = at_once(ordered, last, items, *more)
        except Undefined:
            runs["refused"] += 1
            raise
        runs["columns"] += 1
        runs["items"] += items.count
        return result

    def stepped(self: StageKernel, state: Any, group: int, messages: Any) -> Iterator[Any]:
        arrivals, (one, stage) = list(messages), plan_of[id(self)]
        if not any(isinstance(each.ordered, Ordered) for each in stage.steps):
            yield from step(self, state, group, arrivals)
            return
        again = loads(dumps(state))
        other = all_in_python(one)
        python = StageKernel(other, other.stages[stage.number])
        assert all(isinstance(each.ordered, Opaque) for each in other.stages[stage.number].steps)
        expected = run_of(lambda: list(step(python, again, group, arrivals)))
        actual = run_of(lambda: list(step(self, state, group, arrivals)))
        if isinstance(expected, OperatorFailed):
            assert repr(actual) == repr(expected)
            raise actual
        yield from actual
        assert lines_of(actual) == lines_of(expected)
        assert states_of(state.operators) == states_of(again.operators)
        assert self.metrics(state, group, 0) == python.metrics(again, group, 0)

    monkeypatch.setattr(StageKernel, "__init__", plans_of)
    monkeypatch.setattr(ordered_kernel, "at_once", counted)
    monkeypatch.setattr(StageKernel, "step", stepped)
    return runs


# ------------------------------------------------------------------------------------------------ runs

FLOATS = (0.0, -0.0, 0.1, 1 / 3, -7.25, 1e16, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf)
NUMBERS = st.sampled_from((0, 1, -5, 2**40, 2**62, -(2**63)))


def readings(floats: tuple[float, ...] = FLOATS) -> st.SearchStrategy[list[Reading]]:
    """A few blocks of a few keys, out of order, some items late, some in one second."""
    rooms, notes = st.sampled_from(("a", "b", "", "é")), st.sampled_from((None, "", "é"))
    one = st.builds(Reading, rooms, st.integers(0, 20), st.sampled_from(floats), NUMBERS, notes)
    return st.lists(one, max_size=24).map(
        lambda rows: [attrs.evolve(row, ts=row.ts + 2 * at) for at, row in enumerate(rows)]
    )


SEEDS = st.integers(0, 999)


def several(function: Any) -> Any:
    return settings(max_examples=max(settings().max_examples // 4, 5))(function)


@pytest.mark.parametrize("name", BUILDS)
@several
@given(rows=readings(), seed=SEEDS, changing=st.booleans())
def test_runs(name: str, rows: list[Reading], seed: int, changing: bool) -> None:
    if name == "by number":  # the order of NaN is an error
        rows = [row for row in rows if row.x == row.x]
    compiled(name).agrees(rows, seed, changing=changing)


TAME = [Reading("ab"[at % 2], at + at % 3, at / 4, at, None if at % 3 else "note") for at in range(48)]
"""Nothing here is beyond what columns hold."""


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("seed", [0, 1, 2, 8])
def test_columns_are_used(name: str, seed: int, twice: Counter[str]) -> None:
    """A fall-back gives right answers, too."""
    one = compiled(name)
    ordered = one.plans[seed % 3].stages[0].steps[1].ordered
    assert isinstance(ordered, Ordered)
    assert ordered.last is not None
    one.agrees(TAME, seed)
    assert twice["items"] >= len(TAME)
    assert not twice["refused"]


@pytest.mark.parametrize("ts", [2**53 - 1, 2**53, -(2**53), 2**62, -(2**63), 2**63 - 1])
def test_times_that_floats_do_not_have(ts: int) -> None:
    """The source has times of its own."""
    flow = Dataflow("far")
    source = flow.source(
        "in", U[str, Reading], key=lambda reading: reading.room, markers=every(seconds=10, time=lambda r: r.n)
    )
    fill = interpolate(time=second, number=x_of, make=between, max_gap=3)
    flow.sink("out", source.through(sort(by=second)).through(fill))
    checked = check(flow)
    near = max(min(ts, 2**63 - 3), -(2**63) + 2)
    rows = [Reading("a", near + at - 2, at / 3, 5 * at) for at in (0, 1, 2, 4)] + [Reading("a", -near, 0.5, 30)]
    (expected,) = interpret_rows(checked, {"in": rows})[0].values()
    assert simulate(plan(checked), {"in": rows}, seed=1, steps=2).trace == expected


def test_errors_are_those_of_the_operator(twice: Counter[str]) -> None:
    with pytest.raises(OperatorFailed) as caught:
        simulate(Compiled.of(interpolation(make=raising)).plans[0], {"in": TAME}, seed=0)
    assert "ZeroDivisionError" in str(caught.value)
    assert not twice["columns"]


def test_NaN_has_no_place(twice: Counter[str]) -> None:
    one = Compiled.of(interpolation(by=x_of))
    rows = [attrs.evolve(row, x=math.nan if row.ts == 20 else row.x) for row in TAME]
    with pytest.raises(OperatorFailed):
        simulate(one.plans[0], {"in": rows}, seed=0, steps=1)
    assert not twice["columns"]


@pytest.mark.parametrize(
    "build",
    [
        interpolation(make=of_text),
        interpolation(time=lambda reading: {reading.ts}.pop()),
        interpolation(by=lambda reading: repr(reading)),
    ],
    ids=["make", "time", "by"],
)
def test_what_cannot_be_traced_is_left_to_the_operator(build: Build, twice: Counter[str]) -> None:
    one = Compiled.of(build)
    assert all(not columns_in_order(each.stages[0]) for each in one.plans)
    one.agrees(TAME, 0)
    assert not twice["columns"]


def test_nothing_has_changed_where_columns_cannot_tell(twice: Counter[str]) -> None:
    """Between two readings a number leaves 64 bits, which Python does not mind."""
    rows = [attrs.evolve(row, n=2**62 if row.ts == 31 else 0) for row in TAME]
    for seed in (0, 1, 2, 9, 10):
        compiled("beyond").agrees(rows, seed)
    assert twice["refused"]
    assert twice["columns"]


@attrs.frozen
class Kept(OpKeyedOrdered[str, Reading, float, float]):
    """Its state is not what every item makes of it."""

    limit: float

    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: str, value: Reading, emit: EmitValue[float]) -> float:
        emit(state)
        return value.x if value.x < self.limit else state


@attrs.frozen
class Summed(Kept):
    def on_item(self, state: float, key: str, value: Reading, emit: EmitValue[float]) -> float:
        emit(state)
        return value.x + state


@attrs.frozen
class Marked(Kept):
    def on_item(self, state: float, key: str, value: Reading, emit: EmitValue[float]) -> float:
        emit(state)
        return value.x

    def on_marker(self, state: float, key: str, marker: Marker, emit: EmitValue[float]) -> float:
        return 0.0


@pytest.mark.parametrize("op", [Kept(3.0), Summed(3.0), Marked(3.0)])
def test_states_that_say_more_than_the_last_item(op: Kept) -> None:
    takes, gives = (stream_type(EdgeType(True, str, value)) for value in (Reading, float))
    ordered = ordered_in(op, takes, gives)
    assert isinstance(ordered, Ordered)
    assert ordered.last is None
    Compiled.of(then(lambda source: source.through(sort(by=second)), op)).agrees(TAME, 1, changing=True)


@pytest.mark.parametrize("state", [{"a": (TAME[0], 0, 1)}, {"a": (TAME[0], 2**70, 1.0)}, {"a": [TAME[0], 0, 1.0]}])
def test_states_that_columns_cannot_hold(
    state: dict[str, Any], twice: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, *_) = compiled("every second").plans
    fresh, adopted, seen = StageKernel.fresh, OrderedColumns.adopted, list[bool]()

    def counted(self: OrderedColumns, *args: Any) -> Any:
        columns = adopted(self, *args)
        seen.append(columns is not None)
        return columns

    def with_state(self: StageKernel) -> Any:
        start = fresh(self)
        start.operators[1] = dict(state)
        return start

    monkeypatch.setattr(StageKernel, "fresh", with_state)
    monkeypatch.setattr(OrderedColumns, "adopted", counted)
    simulate(one, {"in": [attrs.evolve(row, room="a") for row in TAME]}, seed=0, steps=1)
    assert not seen[0]


@pytest.mark.parametrize("twin", ["the state before that", "an emission less", "states from before"])
def test_a_wrong_answer_is_found(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, pieces = last_item.at_once, last_item._Pieces

    def wrong(ordered: Ordered, last: LastItem, items: OrderedItems, keys: Any, states: Any) -> Any:
        after, out = right(ordered, last, items, keys, states)
        if twin == "an emission less":
            rows = np.arange(len(out.codes) - 1)
            return after, Emitted(out.codes[rows], out.ends[rows], take(out.values, rows))
        return (states, out) if twin == "states from before" else (after, out)

    def of_the_one_before(tree: Any, gives: Any, items: Any, inputs: Any, states: Any, before: Any) -> Any:
        return pieces(tree, gives, items, inputs, states, np.where(before > 0, before - 1, before))

    monkeypatch.setattr(ordered_kernel, "at_once", wrong)
    if twin == "the state before that":
        monkeypatch.setattr(last_item, "_Pieces", of_the_one_before)
    with pytest.raises(Difference) as caught:
        simulate(compiled("every second").plans[0], {"in": TAME}, seed=0)
    assert caught.value.operator.endswith("interpolate")
    assert caught.value.method == "on_item"


def test_loops_of_many_turns_are_cut(twice: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """More turns than fit at once: the items are done in smaller pieces."""
    monkeypatch.setattr(turns, "MOST", 40)
    monkeypatch.setattr(last_item, "FEWEST", 2)
    compiled("every second").agrees(TAME, 0)
    assert twice["items"] == len(TAME)
    assert not twice["refused"]

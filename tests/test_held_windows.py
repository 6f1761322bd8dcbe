"""Windows by the items' own times that hold their items, over columns: whole runs tell what the definition does."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, answers_differ, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, U, every, interpret_rows, sort
from tracetypes import stdlib as ts
from tracetypes.algebra import smaller
from tracetypes.compiler.analysis.blame import Opaque
from tracetypes.compiler.analysis.own_windows import TracedHeldWindows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import held_windows as kernel
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.held_windows import HeldWindows
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.ordered_base import NEVER
from tracetypes.compiler.trial.simulate import simulate


@attrs.frozen
class Reading:
    """``ts``: its time in the stream. Its own time is ``back`` seconds before that."""

    key: str
    ts: int
    back: int
    number: int
    size: float
    note: str | None = None


@attrs.frozen
class Several:
    """Of the items of a window."""

    items: int
    total: float
    last: Reading
    names: int


@attrs.frozen
class Floats:
    """Of the items of a window: what depends on their order, where no part of it is rounded apart."""

    total: float
    some: float
    least: float
    most: float
    last: Reading


def own(value: Reading) -> int:
    """Up to twenty seconds before its block."""
    return value.ts - value.back


FLOATS = st.sampled_from([0.1, 0.2, 1e16, -1e16, 3.0, -0.0, 0.0, float("nan"), float("inf"), 1 / 3])

READINGS = st.builds(
    Reading,
    st.sampled_from("abc"),
    st.integers(0, 60),
    st.sampled_from([0, 0, 0, 3, 11, 20]),
    st.integers(-9, 9),
    FLOATS,
    st.sampled_from([None, "", "x", "yy"]),
)

AGGREGATES: dict[str, Any] = {
    "collect": ts.collect(lambda r: r.size, to=float),
    "collect by": ts.collect(by=lambda r: r.number),
    "top": ts.top(2, lambda r: r.number),
    "last": ts.last(lambda r: r.number),
    "first where": ts.first(lambda r: r.number, where=lambda r: r.number > 3),
    "text": ts.min(lambda r: r.key + (r.note or ""), to=str),
    "distinct": ts.count_distinct(lambda r: r.size),
    "sketch": ts.approx_count_distinct(lambda r: r.number),
    "quantiles": ts.quantiles([0.1, 0.5, 1.0], lambda r: r.size),
    "struct": ts.struct(
        Several,
        items=ts.count(),
        total=ts.sum(lambda r: r.size, to=float),
        last=ts.last(lambda r: r.ts),
        names=ts.count_distinct(lambda r: r.note or ""),
    ),
    "floats": ts.struct(
        Floats,
        total=ts.fast_sum(lambda r: r.size),
        some=ts.fast_sum(lambda r: r.size, where=lambda r: r.number > 0),
        least=ts.min(lambda r: r.size, to=float),
        most=ts.max(lambda r: r.size, to=float),
        last=ts.last(lambda r: r.ts),
    ),
}
WINDOWS: dict[str, dict[str, Any]] = {
    "at once": {"size": 5},
    "grace": {"size": 7, "grace": 9, "ends": True},
    "offset": {"size": 4, "offset": 1, "grace": 3},
    "short": {"size": 1, "ends": True, "grace": 2},
    "long": {"size": 40},
}


def tame(count: int, seed: int = 1) -> list[Reading]:
    """Windows of several blocks, late items, and several windows that one marker ends."""
    chance, readings = random.Random(seed), list[Reading]()
    for at in range(count):
        key, back, size = chance.choice("abcdef"), chance.choice([0, 0, 2, 9, 30]), chance.random() * 10.0 ** (at % 17)
        note = chance.choice([None, "a", "b"])
        readings.append(Reading(key, at // 4 + at // 100 * 50, back, at % 7, size, note))
    return readings


@cache
def compiled(aggregate: str, windows: str) -> Plans:
    flow, markers = Dataflow("windows"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of = ts.time_window(AGGREGATES[aggregate], time=own, **WINDOWS[windows])
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    return plans_of(flow)


@cache
def joined(how: Any, windows: str) -> Plans:
    flow, markers = Dataflow("join"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left = flow.source("left", U[str, Reading], key=lambda r: r.key, markers=markers)
    right = flow.source("right", U[str, Reading], key=lambda r: r.key, markers=markers)
    times: Any = {name: value for name, value in WINDOWS[windows].items() if name != "ends"}
    flow.sink("out", ts.window_join(left, right, how=how, left_time=own, right_time=own, **times))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """One item is many here. Counts items over columns."""
    counts = count_runs(monkeypatch, HeldWindows)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


CASES = [("collect by", "grace"), ("text", "short"), ("quantiles", "offset"), ("struct", "grace"), ("floats", "grace")]
OTHERS = [*[(one, "grace") for one in AGGREGATES], *[("top", one) for one in WINDOWS if one != "grace"]]


@pytest.mark.parametrize(
    ("aggregate", "windows"),
    [*CASES, *[pytest.param(*one, marks=pytest.mark.nightly) for one in OTHERS if one not in CASES]],
)
def test_runs_over_columns_tell_the_trace_of_the_definition(aggregate: str, windows: str, columns: Counter[str]) -> None:
    plans = compiled(aggregate, windows)
    check_runs(plans, TracedHeldWindows, {"readings": st.lists(READINGS, max_size=25)}, {"readings": tame(40)}, columns)


@pytest.mark.parametrize(
    ("how", "windows"),
    [
        ("full", "grace"),
        ("semi", "grace"),
        *[pytest.param(how, "grace", marks=pytest.mark.nightly) for how in ("inner", "left", "right", "anti")],
        pytest.param("full", "short", marks=pytest.mark.nightly),
        pytest.param("inner", "long", marks=pytest.mark.nightly),
    ],
)
def test_joins_over_columns_tell_the_trace_of_the_definition(how: str, windows: str, columns: Counter[str]) -> None:
    sides = {side: st.lists(READINGS, max_size=15) for side in ("left", "right")}
    check_runs(joined(how, windows), TracedHeldWindows, sides, {"left": tame(40), "right": tame(30, 2)}, columns)


@pytest.mark.parametrize("windows", WINDOWS)
def test_tame_items_never_go_back_to_objects(
    windows: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_objects(monkeypatch)
    rows = {"readings": tame(300)}
    for aggregate in ("struct", "quantiles"):
        checked, one, _ = compiled(aggregate, windows)
        assert simulate(one, rows, seed=3, steps=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 600
    sides = {"left": tame(300), "right": tame(200, 2)}
    checked, one, _ = joined("full", windows)
    assert simulate(one, sides, seed=3, steps=3).trace == interpret_rows(checked, sides)[0]["out"]
    assert columns["items"] == 1100


def test_a_join_that_began_in_python_goes_over_to_columns(columns: Counter[str]) -> None:
    """What its aggregates hold becomes items again; those of other windows stay Python as long as they are open."""
    _, one, python = joined("full", "long")
    sides = {"left": tame(200), "right": tame(150, 2)}
    expected = interpret_rows(joined("full", "long")[0], sides)[0]["out"]
    assert simulate(python, sides, seed=3, steps=3, then=[one]).trace == expected
    assert columns["items"]


def test_items_that_are_not_needed_are_dropped(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "FEWEST", 3)
    held = list[int]()
    states: Any = HeldWindows._states

    def measured(self: Any, *args: Any) -> Any:
        after = states(self, *args)
        held.append(len(after.parts[2].values.flatten()))
        return after

    monkeypatch.setattr(HeldWindows, "_states", measured)
    rows = {"readings": tame(150)}
    most = dict[str, int]()
    for aggregate in AGGREGATES:
        held.clear()
        checked, one, _ = compiled(aggregate, "long")
        assert simulate(one, rows, seed=3, steps=9).trace == interpret_rows(checked, rows)[0]["out"], aggregate
        most[aggregate] = sum(held)
    assert most["last"] * 2 < most["collect"]
    assert most["top"] < most["collect"]


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Late items that count, keys that forget what they hold, a window that ends too early, items in another order, pairs of
    neighbouring windows, and a number before which windows are over that stays behind."""
    states: Any = HeldWindows._states
    removal, over_at, ended = HeldWindows._removal, HeldWindows._over_at, HeldWindows._ended

    def none_late(self: Any, *args: Any) -> Any:
        return np.full_like(removal(self, *args), NEVER)

    def forgetful(self: Any, *args: Any) -> Any:
        *others, stay = args
        return states(self, *others, stay[:0])

    def too_early(self: Any, numbers: Any, codes: Any, first: Any, markers: Any) -> Any:
        whole = removal(self, numbers, codes, first, markers)
        return np.where(whole == NEVER, markers[-1], whole) if markers else whole

    def behind(self: Any, marker: int) -> int:
        return over_at(self, marker) - 1

    def shifted(self: Any, *args: Any) -> Any:
        one = ended(self, *args)
        return attrs.evolve(one, of_items=np.sort(np.maximum(one.of_items - (np.arange(one.count) % 7 == 3), 0)))

    twins: list[tuple[str, Any]] = [
        ("_removal", none_late),
        ("_states", forgetful),
        ("_removal", too_early),
        ("_over_at", behind),
        ("_ended", shifted),
    ]
    rows, sides = {"readings": tame(300)}, {"left": tame(300), "right": tame(200, 2)}
    for (checked, _, _), given in ((compiled("collect", "grace"), rows), (joined("full", "grace"), sides)):
        each_row = attrs.evolve(plan(checked, key_groups=1), verify_every=1)
        simulate(each_row, given, seed=1, steps=9)
        for name, broken in twins:
            with monkeypatch.context() as patch:
                patch.setattr(HeldWindows, name, broken)
                with pytest.raises(Difference):
                    simulate(each_row, given, seed=1, steps=9)


def test_a_pause_of_a_billion_markers(columns: Counter[str]) -> None:
    flow = Dataflow("pause")
    markers = every(seconds=1, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of: Any = ts.time_window(ts.last(lambda r: r.ts), time=own, size=1, grace=30, ends=True)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    rows = [attrs.evolve(one, ts=one.ts + late) for late in (0, 10**9) for one in tame(40)]
    assert answers_differ(plans_of(flow), {"readings": rows}, 4, changing=False) is None
    assert columns["items"]


def test_floats_are_added_in_the_order_of_the_stream(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin that puts the items of a window in another order gives other sums."""
    plans, rows = compiled("floats", "grace"), {"readings": tame(60)}
    assert answers_differ(plans, rows, 2, changing=False) is None
    ended = HeldWindows._ended

    def turned(self: Any, codes: Any, numbers: Any, removal: Any, values: Any, rows: Any) -> Any:
        return ended(self, codes, numbers, removal, values, rows[::-1])

    with monkeypatch.context() as patch:
        patch.setattr(HeldWindows, "_ended", turned)
        assert answers_differ(plans, rows, 2, changing=False) is not None
    assert columns["items"]


@attrs.frozen
class Own(ts.Aggregate[Reading, float, float]):
    """The smallest number, or a sum, of one's own."""

    start: float
    least: bool

    def lift(self, value: Reading) -> float:
        return value.size

    def identity(self) -> float:
        return self.start

    def combine(self, a: float, b: float) -> float:
        return smaller(a, b) if self.least else a + b

    def result(self, agg: float) -> float:
        return agg


def beside(aggregate: Any) -> Plans:
    flow, markers = Dataflow("one"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    pair: Any = ts.both(aggregate, ts.last(lambda r: r.number), lambda a, b: a, to=float)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(ts.time_window(pair, time=own, size=5)))
    return plans_of(flow)


def test_zeros_of_both_signs_are_compared_in_python(columns: Counter[str]) -> None:
    checked, one, _ = beside(Own(float("inf"), least=True))
    for sizes in ([0.0, -0.0, 0.0], [-0.0, 0.0], [0.0, 0.0]):
        rows = {"readings": [Reading("a", at, 0, 0, size) for at, size in enumerate(sizes)]}
        assert repr(simulate(one, rows, seed=0).trace.items) == repr(interpret_rows(checked, rows)[0]["out"].items)
    assert columns["items"] == 2


def test_a_sum_of_floats_that_begins_with_something_else_stays_python() -> None:
    refused = beside(Own(-0.0, least=False))[1].stages[-1].steps[-1].ordered
    assert isinstance(refused, Opaque)
    assert refused.reason.endswith("begins a sum of floats with something else than 0.0")
    assert isinstance(beside(Own(0.0, least=False))[1].stages[-1].steps[-1].ordered, TracedHeldWindows)


def test_a_part_that_cannot_be_traced_keeps_the_window_python() -> None:
    class Texts(ts.Aggregate[Reading, str, float]):
        def lift(self, value: Reading) -> str:
            return value.key

        def identity(self) -> str:
            return ""

        def combine(self, a: str, b: str) -> str:
            return max(a, b)

        def result(self, agg: str) -> float:
            return float(hash(agg))

    refused = beside(Texts())[1].stages[-1].steps[-1].ordered
    assert isinstance(refused, Opaque)
    assert refused.reason == "`Texts` in `time_window(both(a=Texts))` combines by no sum, minimum or maximum"

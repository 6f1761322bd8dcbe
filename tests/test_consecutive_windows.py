"""Sessions and counted windows that hold their items, over columns: whole runs tell what the definition does."""

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
from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, U, every, interpret_rows, sort
from tracetypes import stdlib as ts
from tracetypes.compiler.analysis.blame import Opaque
from tracetypes.compiler.analysis.consecutive_windows import TracedConsecutive
from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.columns.column import take
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import consecutive_windows as kernel
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.consecutive_windows import ConsecutiveKernel
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.ordered_base import NEVER
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.consecutive_windows import HeldItems, HeldSession
from tracetypes.stdlib.sessions import SessionWindow


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
    fast: float
    least: float
    last: Reading
    names: int


FLOATS = st.sampled_from([0.1, 0.2, 1e16, -1e16, 3.0, -0.0, 0.0, float("nan"), float("inf"), 1 / 3])

READINGS = st.builds(
    Reading,
    st.sampled_from("abc"),
    st.integers(0, 60),
    st.sampled_from([0, 0, 0, 0, 3, 11]),
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
    "distinct": ts.count_distinct(lambda r: r.size),
    "sketch": ts.approx_count_distinct(lambda r: r.number),
    "quantiles": ts.quantiles([0.1, 0.5, 1.0], lambda r: r.size),
    "struct": ts.struct(
        Several,
        items=ts.count(),
        total=ts.sum(lambda r: r.size, to=float),
        fast=ts.fast_sum(lambda r: r.size),
        least=ts.min(lambda r: r.size, to=float),
        last=ts.last(lambda r: r.ts),
        names=ts.count_distinct(lambda r: r.note or ""),
    ),
}
WINDOWS: dict[str, Any] = {
    "sessions": lambda of: ts.session(of, gap=4, time=lambda r: r.ts),
    "no gap": lambda of: ts.session(of, gap=0, time=lambda r: r.ts),
    "long sessions": lambda of: ts.session(of, gap=40, time=lambda r: r.ts),
    "times go back": lambda of: ts.session(of, gap=4, time=lambda r: r.ts - r.back),
    "three items": lambda of: ts.count_window(of, items=3),
    "one item": lambda of: ts.count_window(of, items=1),
    "many items": lambda of: ts.count_window(of, items=50),
}


def tame(count: int, seed: int = 1) -> list[Reading]:
    """Sessions that an item ends, and such as a marker ends; some of several blocks."""
    chance, readings = random.Random(seed), list[Reading]()
    for at in range(count):
        note = chance.choice([None, "a", "b"])
        size = chance.random() * 10.0 ** (at % 17)
        readings.append(Reading(chance.choice("abcdef"), at // 4 + at // 100 * 50, 0, at % 7, size, note))
    return readings


@cache
def compiled(aggregate: str, windows: str) -> Plans:
    flow, markers = Dataflow("windows"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of = WINDOWS[windows](AGGREGATES[aggregate])
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """One item is many here. Counts items over columns."""
    counts = count_runs(monkeypatch, ConsecutiveKernel)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


CASES = [
    *[("struct", "sessions"), ("quantiles", "no gap"), ("collect by", "times go back"), ("top", "long sessions")],
    *[("struct", "three items"), ("first where", "one item"), ("sketch", "many items")],
]
OTHERS = [(one, windows) for one in AGGREGATES for windows in ("sessions", "three items")]


@pytest.mark.parametrize(
    ("aggregate", "windows"),
    [*CASES, *[pytest.param(*one, marks=pytest.mark.nightly) for one in OTHERS if one not in CASES]],
)
def test_runs_over_columns_tell_the_trace_of_the_definition(aggregate: str, windows: str, columns: Counter[str]) -> None:
    plans = compiled(aggregate, windows)
    check_runs(plans, TracedConsecutive, {"readings": st.lists(READINGS, max_size=25)}, {"readings": tame(40)}, columns)


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


@pytest.mark.parametrize("windows", ["sessions", "three items"])
def test_a_flow_goes_on_over_columns_once_aggregates_in_python_have_ended(windows: str, columns: Counter[str]) -> None:
    """What began in Python as aggregates stays Python while these are open. Then a run of few blocks is over columns."""
    checked, one, python = compiled("top", windows)
    rows = {"readings": tame(240)}
    assert simulate(python, rows, seed=3, steps=4, then=[one]).trace == interpret_rows(checked, rows)[0]["out"]
    assert simulate(one, rows, seed=3, steps=4, then=[python]).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"]


@attrs.frozen
class Opaquely(OpKeyedOrdered[str, ts.Session[list[Reading]], int, int]):
    """Stays Python, so that the states before it become objects after each epoch."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: ts.Session[list[Reading]], emit: EmitValue[int]) -> int:
        emit(hash(tuple(one.number for one in value.value)) % 97)
        return state


def test_held_items_go_to_objects_and_back(columns: Counter[str]) -> None:
    flow, markers = Dataflow("two"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of: Any = ts.session(ts.top(2, lambda r: r.number), gap=4, time=lambda r: r.ts)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of).through(Opaquely()))
    assert answers_differ(plans_of(flow), {"readings": tame(300)}, 4, changing=False) is None
    assert columns["items"] == 300


def test_items_that_are_not_needed_are_dropped(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "FEWEST", 3)
    held = list[int]()
    states: Any = ConsecutiveKernel._states

    def measured(self: Any, *args: Any) -> Any:
        after = states(self, *args)
        held.append(0 if after.valid is None and not hasattr(after, "parts") else len(after.parts[2].values.flatten()))
        return after

    monkeypatch.setattr(ConsecutiveKernel, "_states", measured)
    rows = {"readings": tame(150)}
    most = dict[str, int]()
    for aggregate in AGGREGATES:
        held.clear()
        checked, one, _ = compiled(aggregate, "long sessions")
        assert simulate(one, rows, seed=3, steps=9).trace == interpret_rows(checked, rows)[0]["out"], aggregate
        most[aggregate] = sum(held)
    assert most["last"] * 2 < most["collect"]
    assert most["top"] < most["collect"]


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that no marker ends, or one too early; items that are forgotten; an item too many, and one too few; the first time
    of another session; windows at neighbouring rows."""
    states: Any = ConsecutiveKernel._states
    of_sessions: Any = ConsecutiveKernel._ends_of_sessions
    of_counted: Any = ConsecutiveKernel._ends_of_counted
    first_times: Any = ConsecutiveKernel._first_times
    emitted: Any = ConsecutiveKernel._emitted

    def without_markers(self: Any, rows: Any, same: Any, markers: Any, first: Any) -> Any:
        return of_sessions(self, rows, same, type(markers)([]), first)

    def too_early(self: Any, rows: Any, same: Any, markers: Any, first: Any) -> Any:
        return of_sessions(self, attrs.evolve(rows, times=rows.times - 1_000_000), same, markers, first)

    def forgetful(self: Any, keys: Any, rows: Any, windows: Any, count: int) -> Any:
        return states(self, keys, rows, attrs.evolve(windows, ends=np.where(windows.ends == NEVER, 0, windows.ends)), count)

    def one_more(self: Any, rows: Any, same: Any) -> Any:
        return np.roll(of_counted(self, rows, same), 1)

    def last_as_first(self: Any, rows: Any, windows: Any) -> Any:
        return rows.times[windows.starts] if rows.count else first_times(self, rows, windows)

    def shifted(self: Any, keys: Any, rows: Any, windows: Any) -> Any:
        return emitted(self, keys, attrs.evolve(rows, values=take(rows.values, np.arange(rows.count)[::-1])), windows)

    of_gap: list[tuple[str, Any]] = [
        ("_ends_of_sessions", without_markers),
        ("_ends_of_sessions", too_early),
        ("_states", forgetful),
        ("_first_times", last_as_first),
        ("_emitted", shifted),
    ]
    of_number: list[tuple[str, Any]] = [("_ends_of_counted", one_more), ("_states", forgetful), ("_emitted", shifted)]
    rows = {"readings": tame(300)}
    for windows, twins in (("sessions", of_gap), ("three items", of_number)):
        checked, _, _ = compiled("collect", windows)
        each_row = attrs.evolve(plan(checked, key_groups=1), verify_every=1)
        simulate(each_row, rows, seed=1, steps=9)
        for name, broken in twins:
            with monkeypatch.context() as patch:
                patch.setattr(ConsecutiveKernel, name, broken)
                with pytest.raises(Difference):
                    simulate(each_row, rows, seed=1, steps=9)


def test_a_pause_of_a_billion_markers(columns: Counter[str]) -> None:
    flow = Dataflow("pause")
    markers = every(seconds=1, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of: Any = ts.session(ts.last(lambda r: r.ts), time=lambda r: r.ts, gap=30)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    rows = [attrs.evolve(one, ts=one.ts + late) for late in (0, 10**9) for one in tame(40)]
    assert answers_differ(plans_of(flow), {"readings": rows}, 4, changing=False) is None
    assert columns["items"]


def test_numbers_keep_the_states_of_before() -> None:
    """An aggregate of numbers is a state of numbers, though it could be computed of the items, too."""
    flow, markers = Dataflow("one"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of: Any = ts.session(ts.max(lambda r: r.number, to=int), gap=4, time=lambda r: r.ts)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    assert isinstance(plans_of(flow)[1].stages[-1].steps[-1].ordered, Ordered)


def test_what_cannot_be_computed_of_the_items_stays_python() -> None:
    long: Any = ts.count_window(ts.last(lambda r: r.ts), items=1 << 13)
    opaque: Any = ts.session(ts.top(2, lambda r: hash(r.note)), gap=4, time=lambda r: r.ts)
    reasons = list[str]()
    for of in (long, opaque):
        flow, markers = Dataflow("one"), every(seconds=5, time=lambda r: r.ts, delay=3)
        readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
        flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
        refused = plans_of(flow)[1].stages[-1].steps[-1].ordered
        assert isinstance(refused, Opaque)
        reasons.append(refused.reason)
    assert reasons == [
        "`count_window` holds the items of windows of more than 4,096 items",
        "`lambda` in `session(lambda)` calls hash",
    ]


def test_python_takes_states_that_columns_held() -> None:
    readings = tame(5)
    session: Any = SessionWindow(ts.top(2, lambda r: r.number), 4_000_000, lambda r: r.ts, "s")
    out = list[Any]()
    for one in (HeldSession(0, 1_000_000, readings), (0, 1_000_000, session.folded(HeldSession(0, 0, readings))[2])):
        assert session.next_due(one, "a") == 5_000_001
        out.append(session.on_item(one, "a", readings[0], out.append))
    assert out[0] == out[1]
    counted: Any = ts.item_windows.CountWindow(ts.collect(), 9)
    held = counted.on_item(HeldItems(readings), "a", readings[0], out.append)
    assert held[0] == 6

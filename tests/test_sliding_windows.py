"""The sliding ``count_window`` over columns: whole runs tell what the definition does."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import cache
from typing import Any, Final

import attrs
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, OpKeyedOrdered, U, every, interpret_rows, sort
from tracetypes import stdlib as ts
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.analysis.sliding import TracedSliding
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.sliding_windows import SlidingWindows
from tracetypes.compiler.runtime.window_states import WindowStates
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.trial.simulate import simulate


@attrs.frozen
class Row:
    """An item. ``ts``: seconds."""

    key: str
    ts: int
    whole: int
    real: float


ROWS: Final = st.builds(
    Row,
    key=st.sampled_from("abc"),
    ts=st.integers(0, 60),
    whole=st.integers(-9, 9) | st.just(2**62),
    real=st.sampled_from([0.1, 0.2, 0.3, -0.0, 0.0, 1e16, -1e16, math.inf, math.nan]) | st.floats(-5, 5),
)


def whole(row: Row) -> int:
    return row.whole


def real(row: Row) -> float:
    return row.real


AGGREGATES: dict[str, Any] = {
    "sum": ts.sum(whole),
    "exact sum": ts.sum(real),
    "fast sum": ts.fast_sum(real),
    "count": ts.count(),
    "max": ts.max(real),
    "mean": ts.mean(real),
    "variance": ts.variance(real),
    "both": ts.both(ts.min(whole), ts.fast_sum(real), lambda least, total: total + least, to=float),
}
SIZES: Final = ((3, 1), (1, 2), (2, 5), (4, 3), (7, 1))
CASES: Final = [(name, *SIZES[at % 5]) for at, name in enumerate(AGGREGATES)] + [("fast sum", *one) for one in SIZES]


@cache
def compiled(name: str, items: int, slide: int) -> Plans:
    flow, markers = Dataflow("windows"), every(seconds=5, time=lambda r: r.ts, delay=3)
    rows = flow.source("in", U[str, Row], key=lambda r: r.key, markers=markers)
    op: Any = ts.count_window(AGGREGATES[name], items=items, slide=slide)
    flow.sink("out", rows.through(sort(by=lambda r: r.ts)).through(op))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts items over columns."""
    monkeypatch.setattr(limits, "TURN", 0)
    return count_runs(monkeypatch, SlidingWindows)


@pytest.mark.parametrize(("name", "items", "slide"), CASES)
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, items: int, slide: int, columns: Counter[str]) -> None:
    plans = compiled(name, items, slide)
    check_runs(plans, TracedSliding, {"in": st.lists(ROWS, max_size=50)}, tame(60), columns)


def tame(count: int, keys: str = "abcd") -> dict[str, list[Any]]:
    chance = random.Random(1)
    return {"in": [Row(chance.choice(keys), at // 4, chance.randrange(99), chance.random()) for at in range(count)]}


@pytest.mark.parametrize("name", ["sum", "mean", "variance", "max"])
def test_tame_items_never_go_back_to_objects(name: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Key groups of another number go on, too."""
    refuse_objects(monkeypatch)
    checked, one, _ = compiled(name, 4, 3)
    one, rows = attrs.evolve(one, verify_every=0), tame(300, keys="abcdefghijklmn")
    others = [attrs.evolve(plan(checked, parallelism=1, key_groups=groups), verify_every=0) for groups in (1, 4, 2)]
    expected = interpret_rows(checked, rows)[0]["out"]
    assert simulate(one, rows, seed=3, steps=5, then=others).trace == expected
    assert columns["items"] == 300


@pytest.mark.parametrize("name", ["mean", "max", "both"])
def test_states_have_one_form(name: str) -> None:
    """As objects, as columns, and as objects again."""
    step = compiled(name, 4, 3)[1].stages[-1].steps[-1]
    form, op = step.ordered, step.operator
    assert isinstance(form, TracedSliding)
    assert isinstance(op, OpKeyedOrdered)
    states: dict[str, Any] = {}
    for row in tame(25)["in"]:
        state = states[row.key] if row.key in states else op.initial_state()
        states[row.key] = op.on_item(state, row.key, row, lambda value: None)
    columns, (first, _, third, *_) = WindowStates(form).of(states), states
    assert columns.to_objects() == states
    assert columns.of_keys(np.array([2, 0])).to_objects() == {third: states[third], first: states[first]}
    assert loads(dumps(columns)).to_objects() == states


def test_states_of_other_windows_stay_in_python() -> None:
    step = compiled("sum", 4, 3)[1].stages[-1].steps[-1]
    form: Any = step.ordered
    for state in ((3, [], [1], 1), (0, [1], [1], 1), (0, [], [1] * 5, 5), (0, [1, 2, 3], [2.0], 2), (0, [], [2**63], 1)):
        with pytest.raises(Undefined):
            WindowStates(form).of({"a": state})


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """States that are forgotten, aggregates without their first part, and a count since the last window that begins anew."""
    come, states, combined = WindowStates.to_come, SlidingWindows._states, SlidingWindows._combine

    def forgetful(self: Any, state: Any, slots: Any, keys: Any) -> Any:
        return come(self, state, np.full_like(slots, -1), keys)

    def second_only(self: Any, a: Any, b: Any, count: int) -> Any:
        return combined(self, b, b, count)

    def anew(self: Any, *args: Any) -> Any:
        after: Any = states(self, *args)
        after.states.values[:] = 0
        return after

    twins: list[tuple[Any, str, Any]] = [
        (WindowStates, "to_come", forgetful),
        (SlidingWindows, "_states", anew),
        (SlidingWindows, "_combine", second_only),
    ]
    for owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            planned = attrs.evolve(plan(compiled("sum", 4, 3)[0], key_groups=1), verify_every=20)
            with pytest.raises(Difference):
                simulate(planned, tame(400), seed=1, steps=4)

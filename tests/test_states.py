"""Blocks that are closed as columns are closed once, also where what they emit has to go on as objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tracetypes import UNIT, Checked, Dataflow, Marker, OpKeyedUnordered, U, check, every, interpret_rows
from tracetypes.algebra import greatest
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan import planner
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.trial.simulate import simulate


@attrs.frozen
class Odd:
    total: int


@attrs.frozen
class Even:
    half: int


@attrs.frozen
class Told(OpKeyedUnordered[str, int, str, Odd | Even, int, int]):
    def lift(self, key: str, value: int) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, Odd | Even], None]) -> None:
        if new_state % 2 == 1:
            emit(key, Odd(new_state))
        else:
            emit(key, Even(new_state // 2))


@pytest.mark.parametrize("seed", range(5))
def test_records_of_two_classes_in_one_step(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(limits, "MANY", 1)
    flow = Dataflow("told")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=lambda n: n))
    flow.sink("told", rows.through(Told()))
    given = [(key, n) for n in range(60) for key in ("ab" if n % 7 == 0 else "b")]
    checked = check(flow)
    made = plan(checked, key_groups=2)
    assert not isinstance(made.stages[0].steps[0].keyed, Opaque)
    assert simulate(made, {"rows": given}, seed=seed).trace == interpret_rows(checked, {"rows": given})[0]["told"]


@attrs.frozen
class Touched(Told):
    """The same for keys that have come, of which it skips the others."""

    skips_untouched = True


def test_keys_that_go_over_to_columns_and_none_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their states are written over where they lie, which is memory of Arrow's at first."""
    flow = Dataflow("told")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=lambda n: n))
    flow.sink("told", rows.through(Touched()))
    given = [("ab"[n % 2], n) for n in range(100)]
    checked = check(flow)
    made = unchecked(plan(checked, key_groups=1))
    wanted = interpret_rows(checked, {"rows": given})[0]["told"]
    for seed in range(10):
        with monkeypatch.context() as patch:
            patch.setattr(limits, "MANY", 2)
            answer = simulate(made, {"rows": given}, seed=seed, steps=8, then=[plain(checked), made])
        assert answer.trace == wanted


def unchecked(made: Plan) -> Plan:
    """The plan, for an operator that breaks a law."""
    return attrs.evolve(made, verify_every=0)


def plain(checked: Checked) -> Plan:
    """The plan that has its states as objects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "keyed_in", lambda *about: Opaque("so it shall be"))
        return unchecked(plan(checked, key_groups=1))


@attrs.frozen
class Mixed(OpKeyedUnordered[str, int, str, float, tuple[float, float], float]):
    """Its state begins as floats and goes on as ints, or the other way round. ``unit``: or it holds a Unit."""

    start: tuple[Any, Any]
    neutral: Any = 0

    def lift(self, key: str, value: int) -> float:
        return value * 200_000_001

    def identity(self) -> float:
        return self.neutral  # type: ignore[no-any-return]

    def combine(self, a: float, b: float) -> float:
        return a + b

    def initial_state(self) -> tuple[float, float]:
        return self.start

    def update_state(self, state: tuple[float, float], agg: float) -> tuple[float, float]:
        return state[1], agg

    def on_marker(
        self, new_state: tuple[float, float], key: str, marker: Marker, emit: Callable[[str, float], None]
    ) -> None:
        now = new_state[1]
        emit(key, float(now * now - (now - 1) * (now + 1)))
        emit(key, 1.0 if isinstance(now, int) else 0.0)


@attrs.frozen
class Nothing(Mixed):
    """Its state holds a Unit."""

    def update_state(self, state: tuple[Any, float], agg: float) -> tuple[Any, float]:
        return UNIT, agg


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (Mixed((0.0, 0.0)), "makes its result an int here and a float there: write 0.0"),
        (Mixed((0, 0), 0.0), "makes its result an int here and a float there: write 0.0"),
        (Nothing((UNIT, 0)), "has a state that holds a Unit"),
        (Mixed((0, 0)), None),
    ],
)
def test_states_whose_types_no_column_has(monkeypatch: pytest.MonkeyPatch, op: Mixed, why: str | None) -> None:
    """An int that became a float would be another number: of two products near 2**57 the difference is 1."""
    monkeypatch.setattr(limits, "MANY", 1)
    flow = Dataflow("mixed")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=lambda n: n))
    flow.sink("told", rows.through(op))
    given = [(key, n) for n in range(1, 40) for key in "abc"]
    checked = check(flow)
    made = unchecked(plan(checked, key_groups=2))
    step = made.stages[0].steps[0]
    reasons = [one.reason for one in (step.monoid, step.keyed) if isinstance(one, Opaque)]
    assert bool(reasons) is (why is not None)
    assert why is None or why in reasons[0]
    assert simulate(made, {"rows": given}, seed=1).trace == interpret_rows(checked, {"rows": given})[0]["told"]


@attrs.frozen
class Queued(OpKeyedUnordered[str, int, str, float, Any, "tuple[int, float | None]"]):
    """The largest of the last blocks. ``start``: its first state."""

    start: Any

    def lift(self, key: str, value: int) -> tuple[int, float | None]:
        return 1, value / 2

    def identity(self) -> tuple[int, float | None]:
        return 0, None

    def combine(self, a: tuple[int, float | None], b: tuple[int, float | None]) -> tuple[int, float | None]:
        return a[0] + b[0], greatest(a[1], b[1])

    def initial_state(self) -> Any:
        return self.start

    def update_state(self, state: Any, agg: tuple[int, float | None]) -> Any:
        return (*state[1:], agg)

    def on_marker(self, new_state: Any, key: str, marker: Marker, emit: Callable[[str, float], None]) -> None:
        most: float | None = None
        for pane in new_state:
            most = greatest(most, pane[1])
        if most is not None:
            emit(key, most)


@pytest.mark.parametrize(
    "op",
    [
        Queued(((0, None),) * 12),
        Queued(((0, None), *((1, None),) * 11)),
        Queued(((5, 2.5),) * 12),
    ],
)
def test_states_that_begin_with_nothing(monkeypatch: pytest.MonkeyPatch, op: Queued) -> None:
    monkeypatch.setattr(limits, "MANY", 1)
    flow = Dataflow("queued")
    rows = flow.source("rows", U[str, int], markers=every(seconds=1, time=lambda n: abs(n)))
    flow.sink("told", rows.through(op))
    given = [(key, -n if n % 3 else n) for n in range(1, 40) for key in ("abc" if n % 5 else "b")]
    checked = check(flow)
    made = plan(checked, key_groups=2)
    step = made.stages[0].steps[0]
    assert not isinstance(step.keyed, Opaque), step.keyed.reason
    for seed in range(3):
        assert simulate(made, {"rows": given}, seed=seed).trace == interpret_rows(checked, {"rows": given})[0]["told"]

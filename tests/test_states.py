"""Blocks that are closed as columns are closed once, also where what they emit has to go on as objects."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from tracetypes import Checked, Dataflow, Marker, OpKeyedUnordered, U, check, every, interpret_rows
from tracetypes.compiler import planner, sizes
from tracetypes.compiler.plan import Opaque, Plan
from tracetypes.compiler.planner import plan
from tracetypes.compiler.simulate import simulate


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
    monkeypatch.setattr(sizes, "MANY", 1)
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
    made = plan(checked, key_groups=1)
    wanted = interpret_rows(checked, {"rows": given})[0]["told"]
    for seed in range(10):
        with monkeypatch.context() as patch:
            patch.setattr(sizes, "MANY", 2)
            answer = simulate(made, {"rows": given}, seed=seed, steps=8, then=[plain(checked), made])
        assert answer.trace == wanted


def plain(checked: Checked) -> Plan:
    """The plan that has its states as objects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "keyed_in", lambda *about: Opaque("so it shall be"))
        return plan(checked, key_groups=1)

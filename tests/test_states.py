"""Blocks that are closed as columns are closed once, also where what they emit has to go on as objects."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from tracetypes import Dataflow, Marker, OpKeyedUnordered, U, check, every, interpret_rows
from tracetypes.compiler import kernels
from tracetypes.compiler.plan import Opaque
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
    monkeypatch.setattr(kernels, "MANY", 1)
    flow = Dataflow("told")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=lambda n: n))
    flow.sink("told", rows.through(Told()))
    given = [(key, n) for n in range(60) for key in ("ab" if n % 7 == 0 else "b")]
    checked = check(flow)
    made = plan(checked, key_groups=2)
    assert not isinstance(made.stages[0].steps[0].keyed, Opaque)
    assert simulate(made, {"rows": given}, seed=seed).trace == interpret_rows(checked, {"rows": given})[0]["told"]

"""The as-of join over columns: whole runs tell what the definition does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetypes import Checked, Dataflow, U, check, every, interpret_rows
from tracetypes.compiler.analysis.latest import TracedLatest
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import latest_join, limits
from tracetypes.compiler.runtime.latest_join import LatestJoin
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import asof_join


@attrs.frozen
class Trade:
    key: str
    ts: int
    x: float = 0.0
    note: str | None = None


@attrs.frozen
class Quote:
    key: str
    ts: int
    bid: float = 0.0
    number: int = 0
    note: str | None = None


Join = Callable[[Any, Any], Any]

JOINS: dict[str, Join] = {
    "plain": lambda left, right: asof_join(left, right, left_time=lambda r: r.ts, right_time=lambda r: r.ts),
    "within": lambda left, right: asof_join(left, right, left_time=lambda r: r.ts, right_time=lambda r: r.ts, tolerance=7),
    "in order": lambda left, right: asof_join(
        left, right, left_time=lambda r: r.ts, right_time=lambda r: r.ts, order=lambda r: r.number
    ),
    "other times": lambda left, right: asof_join(
        left, right, left_time=lambda r: r.ts - 9, right_time=lambda r: -r.number if r.number < 9 else r.ts
    ),
    "other times within": lambda left, right: asof_join(
        left, right, left_time=lambda r: r.ts - 9, right_time=lambda r: -r.number if r.number < 9 else r.ts, tolerance=3
    ),
}
"""The last two have times that are not those of the markers."""


def flow_of(name: str) -> Dataflow:
    flow, markers = Dataflow(f"join {name}"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left = flow.source("left", U[str, Trade], key=lambda r: r.key, markers=markers)
    right = flow.source("right", U[str, Quote], key=lambda r: r.key, markers=markers)
    flow.sink("out", JOINS[name](left, right))
    return flow


@cache
def compiled(name: str) -> tuple[Checked, Plan, Plan]:
    """A flow, its plan, and its plan in Python."""
    checked = check(flow_of(name))
    one = plan(checked, parallelism=2)
    return checked, one, in_python(one, list(names_of(one).values()))


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts items over columns."""
    counts = Counter[str]()
    run = LatestJoin.run

    def counted(self: LatestJoin, *args: Any) -> Any:
        out = run(self, *args)
        counts["items"] += args[1].count
        return out

    monkeypatch.setattr(LatestJoin, "run", counted)
    monkeypatch.setattr(limits, "MANY", 2)
    return counts


KEYS, TIMES, TEXTS = st.sampled_from("abc"), st.integers(0, 40), st.sampled_from([None, "", "x", "é"])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
TRADES = st.builds(Trade, KEYS, TIMES, FLOATS, TEXTS)
QUOTES = st.builds(Quote, KEYS, TIMES, FLOATS, st.sampled_from([0, 1, 7, 9, -3, 2**62, 2**63 - 1]), TEXTS)


def run_of(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", JOINS)
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, columns: Counter[str]) -> None:
    checked, one, python = compiled(name)
    assert isinstance(one.stages[-1].steps[-1].ordered, TracedLatest)

    @settings(deadline=None, max_examples=25)
    @given(st.lists(TRADES, max_size=25), st.lists(QUOTES, max_size=25), st.integers(0, 1000), st.booleans())
    def one_run(left: list[Trade], right: list[Quote], seed: int, changing: bool) -> None:
        rows: dict[str, list[Any]] = {"left": left, "right": right}
        expected = run_of(lambda: interpret_rows(checked, rows)[0]["out"])
        plans = [python, one, python, one] if changing else []
        actual = run_of(lambda: simulate(one, rows, seed=seed, steps=1 + seed % 5, pieces=1 + seed % 3, then=plans).trace)
        assert actual == expected

    one_run()
    assert columns["items"]


def tame(count: int) -> dict[str, list[Any]]:
    """Items with many ties, and keys that one side has alone."""
    chance = random.Random(1)
    left = [Trade(chance.choice("abcdef"), at // 5, chance.choice([1.0, 2.0]), chance.choice(["x", None])) for at in range(count)]
    right = [Quote(chance.choice("bcdefg"), at // 4, chance.choice([1.0, 2.0]), at % 3, "y") for at in range(count)]
    return {"left": left, "right": right}


@pytest.mark.parametrize("name", ["plain", "within", "in order"])
def test_tame_items_never_go_back_to_objects(name: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: OrderedState) -> Any:
        raise AssertionError("states become objects")

    monkeypatch.setattr(OrderedState, "to_objects", refused)
    checked, one, _ = compiled(name)
    rows = tame(300)
    assert simulate(one, rows, seed=3, steps=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 600


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The right item before the last one, and a state from before."""
    chosen, states = latest_join._chosen, LatestJoin._states

    def of_the_one_before(rights: Any, before: Any, *rest: Any) -> Any:
        return chosen(rights, np.maximum(before - 1, -1), *rest)

    def forgetful(self: Any, right: Any, rights: Any, known: Any, following: Any, before: Any, number: int) -> Any:
        states(self, right, rights, known, following, before, number)
        return before

    twins: list[tuple[Any, str, Any]] = [(latest_join, "_chosen", of_the_one_before), (LatestJoin, "_states", forgetful)]
    for owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Difference):
                simulate(plan(compiled("plain")[0], key_groups=1), tame(300), seed=1)

"""The join of the last items over columns: whole runs tell what the definition does."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, answers_differ, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, U, every, interpret_rows
from tracetypes.compiler.analysis.last_items import TracedLastItems
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import last_items_join
from tracetypes.compiler.runtime.last_items_join import LastItemsKernel
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import equi_join


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


FLOATS = st.sampled_from([0.1, -0.0, 0.0, float("nan"), 1e16])
TRADES = st.builds(Trade, st.sampled_from("abc"), st.integers(0, 40), FLOATS, st.sampled_from([None, "", "x"]))
QUOTES = st.builds(Quote, st.sampled_from("abc"), st.integers(0, 40), FLOATS, st.integers(-3, 3))


@cache
def compiled(items: int) -> Plans:
    flow, markers = Dataflow("join"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left = flow.source("left", U[str, Trade], key=lambda r: r.key, markers=markers)
    right = flow.source("right", U[str, Quote], key=lambda r: r.key, markers=markers)
    flow.sink("out", equi_join(left, right, items=items, left_time=lambda r: r.ts, right_time=lambda r: r.ts))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    return count_runs(monkeypatch, LastItemsKernel)


def tame(count: int) -> dict[str, list[Any]]:
    chance = random.Random(count)
    trades = [Trade(chance.choice("abcdefgh"), at // 5, float(at), chance.choice([None, "x"])) for at in range(count)]
    quotes = [Quote(chance.choice("abcdefgh"), at // 5, float(at), at % 3) for at in range(count)]
    return {"left": trades, "right": quotes}


@pytest.mark.parametrize("items", [1, pytest.param(3, marks=pytest.mark.nightly), pytest.param(50, marks=pytest.mark.nightly)])
def test_runs_over_columns_tell_the_trace_of_the_definition(items: int, columns: Counter[str]) -> None:
    inputs = {"left": st.lists(TRADES, max_size=15), "right": st.lists(QUOTES, max_size=15)}
    check_runs(compiled(items), TracedLastItems, inputs, tame(30), columns)


def test_tame_items_never_go_back_to_objects(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_objects(monkeypatch)
    checked, one, _ = compiled(3)
    assert simulate(one, tame(200), seed=3, steps=5).trace == interpret_rows(checked, tame(200))[0]["out"]
    assert columns["items"] > 300


def test_python_and_columns_in_turns(columns: Counter[str]) -> None:
    assert answers_differ(compiled(3), tame(150), 7, changing=True) is None
    assert columns["items"]


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that is one too short, one that is one too long, the oldest items that stay, and a partner that comes too late."""
    last = last_items_join._last
    emitted = LastItemsKernel._emitted

    def first_ones(items: int, kind: Any, side: Any) -> Any:
        return last(items, kind, attrs.evolve(side, counts=side.counts.clip(max=items)))

    def shorter(items: int, kind: Any, side: Any) -> Any:
        return last(items - 1, kind, side)

    def longer(items: int, kind: Any, side: Any) -> Any:
        return last(items + 1, kind, side)

    def too_late(self: Any, items: Any, is_left: Any, left: Any, right: Any) -> Any:
        return emitted(self, items, is_left, left, attrs.evolve(right, held=(right.held - 1).clip(min=0)))

    each_row = attrs.evolve(plan(compiled(3)[0], key_groups=1), verify_every=1)
    simulate(each_row, tame(150), seed=1, steps=9)
    twins: list[tuple[Any, str, Any]] = [
        (last_items_join, "_last", first_ones),
        (last_items_join, "_last", shorter),
        (last_items_join, "_last", longer),
        (LastItemsKernel, "_emitted", too_late),
    ]
    for owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Difference):
                simulate(each_row, tame(150), seed=1, steps=9)

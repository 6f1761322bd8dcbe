"""The interval join over columns: whole runs tell what the definition does."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any, get_args

import attrs
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, answers_differ, check_runs, count_runs, plans_of, refuse_objects
from tests.test_latest_join import QUOTES, TRADES, Quote, Trade
from tracetypes import Dataflow, U, every, interpret_rows
from tracetypes.compiler.analysis.near import TracedNear
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import interval_join as kernel
from tracetypes.compiler.runtime.interval_join import IntervalJoin
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import interval_join
from tracetypes.stdlib.join_kinds import How

HOW: Any = get_args(How)
BOUNDS = {"near": (4, 3), "behind": (9, -2), "ahead": (-2, 6), "at once": (0, 0), "long": (30, 11)}
CASES = [
    *[(how, "near", "the times of markers") for how in HOW],
    *[(how, "behind", "the times of markers") for how in ("inner", "full", "semi", "anti")],
    *[(how, "ahead", "the times of markers") for how in ("inner", "anti")],
    ("right", "at once", "the times of markers"),
    ("full", "long", "the times of markers"),
    *[(how, "near", "other times") for how in HOW],
]
"""``other times`` are not those of the markers, so they go back from block to block."""


@cache
def compiled(how: Any, bounds: str, times: str) -> Plans:
    flow, markers = Dataflow("join"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left = flow.source("left", U[str, Trade], key=lambda r: r.key, markers=markers)
    right = flow.source("right", U[str, Quote], key=lambda r: r.key, markers=markers)
    before, after = BOUNDS[bounds]
    left_time: Any = (lambda r: r.ts) if times != "other times" else lambda r: r.ts - 9
    right_time: Any = (lambda r: r.ts) if times != "other times" else lambda r: r.ts - r.number if r.number < 9 else r.ts
    joined = interval_join(left, right, how=how, before=before, after=after, left_time=left_time, right_time=right_time)
    flow.sink("out", joined)
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts items over columns."""
    return count_runs(monkeypatch, IntervalJoin)


@pytest.mark.parametrize(("how", "bounds", "times"), CASES)
def test_runs_over_columns_tell_the_trace_of_the_definition(how: str, bounds: str, times: str, columns: Counter[str]) -> None:
    plans = compiled(how, bounds, times)
    inputs = {"left": st.lists(TRADES, max_size=25), "right": st.lists(QUOTES, max_size=25)}
    check_runs(plans, TracedNear, inputs, tame(40), columns)


def tame(count: int) -> dict[str, list[Any]]:
    """Items with many ties, and keys that one side has alone."""
    chance = random.Random(1)
    left = [Trade(chance.choice("abcdef"), at // 5, chance.random(), chance.choice(["x", None])) for at in range(count)]
    right = [Quote(chance.choice("bcdefg"), at // 4, chance.random(), at % 3, "y") for at in range(count)]
    return {"left": left, "right": right}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("times", ["the times of markers", "other times"])
def test_tame_items_never_go_back_to_objects(
    how: str, times: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_objects(monkeypatch)
    checked, one, _ = compiled(how, "near", times)
    rows = tame(120)
    assert simulate(one, rows, seed=3, steps=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 240


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partner too few, states that forget what they hold, and items that count as alone although they had a partner."""
    ticks, states, lone = kernel.Ticks.find, IntervalJoin._states, kernel._lone

    def one_too_few(self: Any, codes: Any, times: Any) -> Any:
        return ticks(self, codes, times + 1)

    def forgetful(self: Any, left: Any, right: Any, number: int) -> Any:
        left, right = (attrs.evolve(one, removal=np.zeros_like(one.removal)) for one in (left, right))
        return states(self, left, right, number)

    def all_alone(side: Any) -> Any:
        return lone(attrs.evolve(side, has_partner=np.zeros_like(side.has_partner)))

    twins: list[tuple[str, Any, str, Any]] = [
        ("inner", kernel.Ticks, "find", one_too_few),
        ("semi", IntervalJoin, "_states", forgetful),
        ("full", kernel, "_lone", all_alone),
    ]
    for how, owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Difference):
                simulate(plan(compiled(how, "near", "the times of markers")[0], key_groups=1), tame(300), seed=1)


def test_keys_and_times_that_are_too_many_for_one_number(columns: Counter[str]) -> None:
    """Years between the items of many keys."""
    plans = compiled("full", "near", "the times of markers")
    year = 31_556_952
    left = [Trade(f"{key}", year * (key % 7) * 300, key, "x") for key in range(1500)]
    right = [Quote(f"{key}", year * (key % 7) * 300 + key % 4, key, key, "x") for key in range(1500)]
    assert answers_differ(plans, {"left": left, "right": right}, 0, changing=False) is None
    assert columns["items"]

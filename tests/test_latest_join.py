"""The as-of and the table join over columns: whole runs tell what the definition does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

import attrs
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, U, every, interpret_rows
from tracetypes.compiler.analysis.latest import TracedLatest
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import latest_join
from tracetypes.compiler.runtime.latest_join import LatestJoin
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import asof_join, table_join
from tracetypes.stdlib.table_joins import TableHow


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


def table_of(how: Any) -> Join:
    """A table of which rows are deleted."""
    return lambda left, right: table_join(
        left,
        right,
        how=how,
        left_time=lambda r: r.ts,
        table_time=lambda r: r.ts,
        deleted=lambda r: r.note == "x",
        order=lambda r: r.number,
    )


JOINS: dict[str, Join] = {
    "plain": lambda left, right: asof_join(left, right, left_time=lambda r: r.ts, right_time=lambda r: r.ts),
    "within": lambda left, right: asof_join(left, right, left_time=lambda r: r.ts, right_time=lambda r: r.ts, tolerance=7),
    "in order": lambda left, right: asof_join(
        left, right, left_time=lambda r: r.ts, right_time=lambda r: r.ts, order=lambda r: r.number
    ),
    "at other times": lambda left, right: asof_join(
        left, right, left_time=lambda r: r.ts - 9, right_time=lambda r: -r.number if r.number < 9 else r.ts
    ),
    "at other times within": lambda left, right: asof_join(
        left, right, left_time=lambda r: r.ts - 9, right_time=lambda r: -r.number if r.number < 9 else r.ts, tolerance=3
    ),
    "inner": lambda left, right: asof_join(
        left, right, how="inner", left_time=lambda r: r.ts, right_time=lambda r: r.ts, tolerance=7
    ),
    "strict": lambda left, right: asof_join(
        left, right, strict=True, left_time=lambda r: r.ts, right_time=lambda r: r.ts, tolerance=7
    ),
    "strict inner": lambda left, right: asof_join(
        left, right, strict=True, how="inner", left_time=lambda r: r.ts, right_time=lambda r: r.ts, order=lambda r: r.number
    ),
    "table": lambda left, right: table_join(left, right, left_time=lambda r: r.ts, table_time=lambda r: r.ts),
    "table at other times": lambda left, right: table_join(
        left,
        right,
        how="left",
        left_time=lambda r: r.ts - 9,
        table_time=lambda r: -r.number if r.number < 9 else r.ts,
        deleted=lambda r: r.note == "x",
    ),
    **{how: table_of(how) for how in get_args(TableHow)},
}
"""Those at other times have times that are not those of the markers."""


def flow_of(name: str) -> Dataflow:
    flow, markers = Dataflow(f"join {name}"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left = flow.source("left", U[str, Trade], key=lambda r: r.key, markers=markers)
    right = flow.source("right", U[str, Quote], key=lambda r: r.key, markers=markers)
    flow.sink("out", JOINS[name](left, right))
    return flow


@cache
def compiled(name: str) -> Plans:
    return plans_of(flow_of(name))


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    return count_runs(monkeypatch, LatestJoin)


KEYS, TIMES, TEXTS = st.sampled_from("abc"), st.integers(0, 40), st.sampled_from([None, "", "x", "é"])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
TRADES = st.builds(Trade, KEYS, TIMES, FLOATS, TEXTS)
QUOTES = st.builds(Quote, KEYS, TIMES, FLOATS, st.sampled_from([0, 1, 7, 9, -3, 2**62, 2**63 - 1]), TEXTS)


@pytest.mark.parametrize("name", JOINS)
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, columns: Counter[str]) -> None:
    plans = compiled(name)
    inputs = {"left": st.lists(TRADES, max_size=25), "right": st.lists(QUOTES, max_size=25)}
    check_runs(plans, TracedLatest, inputs, tame(40), columns)


def tame(count: int) -> dict[str, list[Any]]:
    """Items with many ties, and keys that one side has alone."""
    chance = random.Random(1)
    left = [Trade(chance.choice("abcdef"), at // 5, chance.choice([1.0, 2.0]), chance.choice(["x", None])) for at in range(count)]
    right = [Quote(chance.choice("bcdefg"), at // 4, chance.random(), at % 3, chance.choice("xy")) for at in range(count)]
    return {"left": left, "right": right}


@pytest.mark.parametrize("name", [name for name in JOINS if "other times" not in name])
def test_tame_items_never_go_back_to_objects(name: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_objects(monkeypatch)
    checked, one, _ = compiled(name)
    rows = tame(300)
    assert simulate(one, rows, seed=3, steps=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 600


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The right item before the last one, a state from before, and a row that is not removed."""
    chosen, states = latest_join._chosen, LatestJoin._states

    def of_the_one_before(rights: Any, before: Any, *rest: Any) -> Any:
        return chosen(rights, np.maximum(before - 1, -1), *rest)

    def forgetful(self: Any, right: Any, rights: Any, known: Any, following: Any, before: Any, number: int) -> Any:
        states(self, right, rights, known, following, before, number)
        return before

    twins: list[tuple[str, Any, str, Any]] = [
        ("plain", latest_join, "_chosen", of_the_one_before),
        ("plain", LatestJoin, "_states", forgetful),
        ("left", LatestJoin, "_deletes", lambda self, right: None),
    ]
    for join, owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Difference):
                simulate(plan(compiled(join)[0], key_groups=1), tame(300), seed=1)

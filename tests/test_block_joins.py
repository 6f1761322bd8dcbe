"""Joins in windows and within blocks over columns: whole runs tell what the definition does."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.over_columns import Plans, answers_differ, plans_of
from tests.strategies import some
from tests.test_chosen_blocks import READINGS, Reading
from tests.test_latest_join import QUOTES, TRADES, Quote, Trade
from tracetypes import Dataflow, Item, Stream, U, every, interpret_rows
from tracetypes import stdlib as ts
from tracetypes.compiler.plan.explain import keyed_runs
from tracetypes.compiler.plan.facts import joins_of
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import block_join, limits
from tracetypes.compiler.runtime.block_join import Side
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.joined_blocks import JoinByBlocks
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.state import keys_held
from tracetypes.compiler.store.key_state import _held as shown
from tracetypes.compiler.store.state_summary import keys_of
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib.join_kinds import How

HOW: Any = get_args(How)
JOINS: dict[str, Callable[..., Any]] = {
    "tumbling": lambda left, right, how: ts.window_join(left, right, size=10, how=how),
    "each block": lambda left, right, how: ts.window_join(left, right, panes=1, how=how),
    "overlapping": lambda left, right, how: ts.window_join(left, right, size=20, slide=10, how=how),
    "at each marker": lambda left, right, how: ts.window_join(left, right, panes=3, slide=1, how=how),
    "with gaps": lambda left, right, how: ts.window_join(left, right, size=10, slide=20, offset=5, how=how),
    "one block": lambda left, right, how: ts.equi_join(left, right, blocks=0, how=how),
    "near blocks": lambda left, right, how: ts.equi_join(left, right, within=10, how=how),
}
CASES = [
    *[("near blocks", how) for how in ("inner", "full", "semi", "anti")],
    *[("overlapping", how) for how in ("full", "semi")],
    *[("tumbling", how) for how in ("left", "right", "anti")],
    *[(join, "full") for join in ("each block", "with gaps", "one block")],
]


@cache
def compiled(join: str, how: Any) -> Plans:
    flow, markers = Dataflow("join"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left: Stream[Any] = flow.source("left", U[str, Trade], key=lambda r: r.key, markers=markers)
    right: Stream[Any] = flow.source("right", U[str, Quote], key=lambda r: r.key, markers=markers)
    flow.sink("out", JOINS[join](left, right, how))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts what is emitted over columns."""
    counts, close = Counter[str](), JoinByBlocks.close

    def counted(self: JoinByBlocks, *args: Any) -> Any:
        flows, after = close(self, *args)
        counts["emitted"] += flows.count
        return flows, after

    monkeypatch.setattr(JoinByBlocks, "close", counted)
    monkeypatch.setattr(limits, "MANY", 2)
    return counts


def tame(count: int) -> dict[str, list[Any]]:
    """Items with many ties, and keys that one side has alone."""
    chance = random.Random(1)
    left = [Trade(chance.choice("abcdef"), at // 2, chance.random(), chance.choice(["x", None])) for at in range(count)]
    right = [Quote(chance.choice("bcdefg"), at // 2, chance.random(), at % 3, "y") for at in range(count)]
    return {"left": left, "right": right}


@pytest.mark.parametrize(("join", "how"), CASES)
def test_runs_over_columns_tell_the_trace_of_the_definition(join: str, how: str, columns: Counter[str]) -> None:
    plans = compiled(join, how)
    assert joins_of(plans[1].stages[-1]) is not None
    assert joins_of(plans[2].stages[-1]) is None

    @settings(deadline=None, max_examples=3)
    @example(tame(40), 3, False)
    @example(tame(40), 4, True)
    @given(
        st.fixed_dictionaries({"left": st.lists(TRADES, max_size=25), "right": st.lists(QUOTES, max_size=25)}),
        st.integers(0, 1000),
        st.booleans(),
    )
    def one_run(rows: dict[str, Any], seed: int, changing: bool) -> None:
        assert answers_differ(plans, rows, seed, changing=changing) is None

    one_run()
    assert columns["emitted"]


@pytest.mark.parametrize(("join", "how"), [("near blocks", "full"), ("at each marker", "left"), ("with gaps", "right")])
def test_tame_items_never_go_back_to_objects(
    join: str, how: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("items become objects")

    monkeypatch.setattr(HeldItems, "to_objects", refused)
    checked, one, _ = compiled(join, how)
    rows = tame(120)
    expected = interpret_rows(checked, rows)[0]["out"]
    assert simulate(one, rows, seed=3, steps=3).trace == expected
    assert columns["emitted"] == sum(isinstance(one, Item) for one in expected.items)


@cache
def of_all_kinds(join: str) -> Plans:
    """Values of every kind on the right, and values that may be None by themselves on the left."""
    flow, markers = Dataflow("kinds"), every(seconds=5, time=lambda r: r.ts, delay=3)
    left = flow.source("left", U[str, Reading], key=lambda r: r.key, markers=markers)
    right = flow.source("right", U[str, Reading], key=lambda r: r.key, markers=markers)
    kind: Any = int | None
    optional: Any = left.through(ts.map_values(lambda r: None if r.n == 7 else r.n, to=kind))
    flow.sink("out", JOINS[join](optional, right, "full"))
    return plans_of(flow)


@pytest.mark.parametrize("join", ["tumbling", "near blocks"])
def test_values_of_all_kinds(join: str, columns: Counter[str]) -> None:
    plans = of_all_kinds(join)
    assert joins_of(plans[1].stages[-1]) is not None

    @settings(deadline=None, max_examples=some(10))
    @given(st.lists(READINGS, max_size=15), st.lists(READINGS, min_size=5, max_size=15), st.integers(0, 1000))
    def one_run(left: list[Any], right: list[Any], seed: int) -> None:
        assert answers_differ(plans, {"left": left, "right": right}, seed, changing=seed % 2 == 0) is None

    one_run()
    assert columns["emitted"]


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_many_windows_are_taken_some_at_a_time(how: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_join, "TOGETHER", 10)
    assert answers_differ(compiled("at each marker", how), tame(60), 1, changing=False) is None
    assert columns["emitted"]


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partner too few, a block too many, items that are forgotten too early, and partners that are."""
    between, held, given_up, windows = Side.between, JoinByBlocks._held, block_join._given_up, block_join._in_windows

    def one_too_few(self: Any, *args: Any) -> Any:
        starts, counts = between(self, *args)
        return starts, np.maximum(counts - 1, 0)

    def later(self: Any, codes: Any, first: Any, last: Any) -> Any:
        return between(self, codes, first + 1, last)

    def forgetful(self: Any, *args: Any) -> Any:
        some, kept = held(self, *args)
        left, right = (side.some(rows := np.flatnonzero(side.ages < 1), side.codes[rows]) for side in some.sides)
        return attrs.evolve(some, sides=(left, right)), kept

    def all_alone(join: Any, items: Any, side: Any, counts: Any) -> Any:
        side.paired[:] = False
        return given_up(join, items, side, counts * 0)

    def first_window(join: Any, items: Any, side: Any) -> Any:
        rows, at = windows(join, items, side)
        new = np.append(True, rows[1:] != rows[:-1])
        return rows[new], at[new]

    twins: list[tuple[str, str, Any, str, Any]] = [
        ("tumbling", "inner", Side, "between", one_too_few),
        ("near blocks", "semi", Side, "between", later),
        ("near blocks", "inner", JoinByBlocks, "_held", forgetful),
        ("at each marker", "inner", JoinByBlocks, "_held", forgetful),
        ("near blocks", "full", block_join, "_given_up", all_alone),
        ("overlapping", "left", block_join, "_in_windows", first_window),
    ]
    for join, how, owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Difference):
                simulate(plan(compiled(join, how)[0], key_groups=1), tame(150), seed=1)


@pytest.mark.parametrize("join", ["overlapping", "near blocks"])
def test_states_go_to_other_key_groups(join: str, columns: Counter[str]) -> None:
    checked, one, python = compiled(join, "full")
    expected = interpret_rows(checked, tame(80))[0]["out"]
    others = [attrs.evolve(some, key_groups=number, parallelism=1) for some, number in ((one, 3), (python, 5), (one, 1))]
    assert simulate(one, tame(80), seed=5, steps=4, then=others).trace == expected


@pytest.mark.parametrize("join", ["at each marker", "near blocks"])
def test_what_is_held_is_the_same_as_objects_and_as_columns(join: str) -> None:
    stage = compiled(join, "full")[1].stages[-1]
    op: Any = stage.steps[0].operator
    its = op._joins()
    states = {}
    for key in "ab":
        state = op.initial_state()
        for at in range(3):
            tags = [its.left(Trade(key, at)), its.right(Quote(key, at))][: 2 - (at + ord(key)) % 2]
            agg = op.identity()
            for one in tags:
                agg = op.combine(agg, op.lift(key, one))
            state = op.update_state(state, agg)
        states[key] = state

    def needed(some: dict[str, Any]) -> list[Any]:
        blocks = [(key, one) for key, state in some.items() for one in its.blocks(state) if one.age < its.reach]
        return [(key, one.age, [*one.lefts], [*one.rights], one.left_paired, one.right_paired) for key, one in blocks]

    held = pickle.loads(pickle.dumps(HeldItems.of(its, stage.takes, states, op.initial_state())))
    assert needed(held.to_objects(op, stage.takes)) == needed(states) != []
    assert keys_of(held) == ["a", "b"]
    assert keys_held(held) == 2
    of_b = [value.ts for key, _, lefts, rights, _, _ in needed(states) if key == "b" for value in (*lefts, *rights)]
    assert sorted(value["ts"] for _, value in shown(held, None)["b"]) == sorted(of_b)


def test_a_number_of_key_and_block_that_is_too_large_goes_through_python(
    columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_join, "LARGEST", 20)
    for join in ("tumbling", "near blocks"):
        assert answers_differ(compiled(join, "full"), tame(100), 2, changing=False) is None


def test_explain_says_that_joins_run_over_columns() -> None:
    for join, how in (("tumbling", "inner"), ("overlapping", "anti"), ("near blocks", "left")):
        stage = compiled(join, how)[1].stages[-1]
        assert [run.native for run in keyed_runs(stage)] == [True]
        assert [run.native for run in keyed_runs(compiled(join, how)[2].stages[-1])] == [False]

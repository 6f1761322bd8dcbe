"""Windows that overlap and are answered from their items, over columns: whole runs tell what the definition does."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.over_columns import Plans, answers_differ, plans_of
from tests.strategies import some
from tests.test_held_windows import AGGREGATES, READINGS, Reading
from tests.test_held_windows import tame as late_ones
from tracetypes import Dataflow, U, every, interpret_rows
from tracetypes import stdlib as ts
from tracetypes.compiler.plan.facts import closing_of
from tracetypes.compiler.runtime import limits, overlapping_blocks
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.overlapping_blocks import OverlappingBlocks, OverlappingWindows
from tracetypes.compiler.trial.simulate import simulate

WINDOWS: dict[str, dict[str, Any]] = {
    "panes": {"panes": 3},
    "size": {"size": 15, "slide": 10, "ends": True},
    "coarser": {"size": 40, "slide": 20},
    "offset": {"size": 30, "slide": 5, "offset": 5, "ends": True},
}


def tame(count: int) -> list[Reading]:
    """Readings without late ones, and with pauses."""
    return [attrs.evolve(one, back=0) for one in late_ones(count)]


@cache
def compiled(aggregate: str, windows: str) -> Plans:
    flow, markers = Dataflow("windows"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(ts.sliding(AGGREGATES[aggregate], **WINDOWS[windows])))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """One item is many here. Counts items that are held."""
    counts, close = Counter[str](), OverlappingWindows.close

    def counted(self: Any, held: Any, tables: Any, markers: Any) -> Any:
        out = close(self, held, tables, markers)
        counts["items"] += sum(len(ends) for ends, _, _ in tables)
        counts["held"] += len(out[1])
        return out

    monkeypatch.setattr(OverlappingWindows, "close", counted)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


CASES = [("collect by", "panes"), ("struct", "size"), ("top", "coarser"), ("quantiles", "offset")]
OTHERS = [(one, "panes") for one in AGGREGATES if one != "collect by"]


@pytest.mark.parametrize(
    ("aggregate", "windows"), [*CASES, *[pytest.param(*one, marks=pytest.mark.nightly) for one in OTHERS]]
)
def test_runs_over_columns_tell_the_trace_of_the_definition(aggregate: str, windows: str, columns: Counter[str]) -> None:
    plans = compiled(aggregate, windows)
    closing = closing_of(plans[1].stages[-1])
    assert closing is not None
    assert closing.reach

    @settings(deadline=None, max_examples=some(5))
    @example(tame(40), 8, True)
    @given(st.lists(READINGS, max_size=25), st.integers(0, 1000), st.booleans())
    def one_run(rows: list[Reading], seed: int, changing: bool) -> None:
        assert answers_differ(plans, {"readings": rows}, seed, changing=changing) is None

    one_run()
    assert columns["held"]


@pytest.mark.parametrize("windows", WINDOWS)
def test_tame_items_never_become_objects(windows: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: HeldItems, *args: Any) -> Any:
        raise AssertionError("items become aggregates")

    monkeypatch.setattr(HeldItems, "to_objects", refused)
    checked, one, _ = compiled("struct", windows)
    rows = {"readings": tame(300)}
    assert simulate(one, rows, seed=3, steps=5).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"]


def test_kmeans_of_several_blocks() -> None:
    """Its windows follow one another, so that their blocks are joined before."""
    flow, markers = Dataflow("clusters"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(ts.kmeans(lambda r: (r.size, float(r.number)), k=2, panes=3)))
    plans = plans_of(flow)
    closing = closing_of(plans[1].stages[-1])
    assert closing is not None
    assert closing.each
    for seed in range(4):
        assert answers_differ(plans, {"readings": tame(200)}, seed, changing=seed % 2 == 1) is None


def test_items_that_are_not_needed_are_dropped(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"readings": [attrs.evolve(one, key="a") for one in tame(200)]}
    held = dict[tuple[str, int], int]()
    for fewest in (3, 10_000):
        monkeypatch.setattr(overlapping_blocks, "FEWEST", fewest)
        for aggregate in ("text", "collect"):
            columns.clear()
            checked, one, _ = compiled(aggregate, "offset")
            assert simulate(one, rows, seed=3, steps=9, pieces=3).trace == interpret_rows(checked, rows)[0]["out"]
            held[aggregate, fewest] = columns["held"]
    assert held["text", 3] < held["text", 10_000]
    assert held["collect", 3] == held["collect", 10_000]


def test_dense_blocks_of_long_windows_go_on_as_aggregates(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then items of a window would be looked at again for each of its blocks."""
    monkeypatch.setattr(overlapping_blocks, "MANY_WINDOWS", 2)
    monkeypatch.setattr(overlapping_blocks, "DENSE", 2)
    became = Counter[str]()
    let_go = OverlappingBlocks._let_go

    def counted(self: Any, *, plain: bool) -> None:
        became["plain" if plain else "others"] += isinstance(self.state.operators[0], HeldItems)
        let_go(self, plain=plain)

    monkeypatch.setattr(OverlappingBlocks, "_let_go", counted)
    rows = {"readings": [attrs.evolve(one, key="a") for one in tame(200)]}
    checked, one, _ = compiled("quantiles", "offset")
    assert simulate(one, rows, seed=3, steps=9, pieces=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert became["plain"]


def test_windows_are_answered_in_parts(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapping_blocks, "TOGETHER", 7)
    for windows in WINDOWS:
        assert answers_differ(compiled("collect", windows), {"readings": tame(100)}, 2, changing=False) is None


def test_held_items_of_one_side_are_kept_and_regrouped() -> None:
    stage = compiled("collect", "panes")[1].stages[-1]
    op: Any = stage.steps[0].operator
    held = HeldItems.none(stage.takes, op.initial_state())
    assert held.to_objects(op, stage.takes) == {}
    again = pickle.loads(pickle.dumps(held))
    assert again.of_keys(np.zeros(0, np.int64)).followed_by([held]).count == 0


def test_a_wrong_answer_is_seen_by_these_tests(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that is one block too short or too long, items that are forgotten, and those that age too slowly."""
    counts, held_ = overlapping_blocks._counts, OverlappingWindows._held

    def shorter(rows: Any, ends: Any, reach: int) -> Any:
        return counts(rows, ends, reach - 1)

    def longer(rows: Any, ends: Any, reach: int) -> Any:
        return counts(rows, ends, reach + 1)

    def forgetful(self: Any, held: Any, rows: Any, last: int) -> Any:
        return held_(self, held, rows.some(np.flatnonzero(rows.blocks > 0)), last)

    def slower(self: Any, held: Any, rows: Any, last: int) -> Any:
        return held_(self, held, rows, last - 1)

    rows = {"readings": tame(200)}
    assert answers_differ(compiled("collect", "panes"), rows, 4, changing=False) is None
    twins: list[tuple[Any, str, Any]] = [
        (overlapping_blocks, "_counts", shorter),
        (overlapping_blocks, "_counts", longer),
        (OverlappingWindows, "_held", forgetful),
        (OverlappingWindows, "_held", slower),
    ]
    for owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            assert answers_differ(compiled("collect", "panes"), rows, 4, changing=False) is not None


def test_an_aggregate_that_says_nothing_of_itself_stays_python() -> None:
    class Names(ts.Aggregate[Reading, frozenset[str], int]):
        def lift(self, value: Reading) -> frozenset[str]:
            return frozenset([value.key])

        def identity(self) -> frozenset[str]:
            return frozenset()

        def combine(self, a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
            return a | b

        def result(self, agg: frozenset[str]) -> int:
            return len(agg)

    flow, markers = Dataflow("own"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(ts.sliding(Names(), panes=3)))
    assert closing_of(plans_of(flow)[1].stages[-1]) is None


def test_a_pause_of_a_million_markers(columns: Counter[str]) -> None:
    rows = [attrs.evolve(one, ts=one.ts + late) for late in (0, 5 * 10**6) for one in tame(40)]
    chance = random.Random(1)
    for windows in WINDOWS:
        assert answers_differ(compiled("top", windows), {"readings": rows}, chance.randint(0, 9), changing=False) is None

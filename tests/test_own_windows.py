"""Windows by the items' own times over columns: whole runs tell what the definition does."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow.dataset as ds
import pytest
from hypothesis import strategies as st

import tracetypes
from tests.over_columns import Plans, answers_differ, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, Item, U, check, every, interpret_rows, sort
from tracetypes import stdlib as ts
from tracetypes.algebra import smaller
from tracetypes.compiler.analysis.blame import Opaque
from tracetypes.compiler.analysis.own_windows import TracedWindows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime import own_windows as kernel
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.ordered_base import NEVER
from tracetypes.compiler.runtime.own_windows import WindowsOfItems
from tracetypes.compiler.trial.simulate import simulate


@attrs.frozen
class Reading:
    """``ts``: its time in the stream. Its own time is ``back`` seconds before that."""

    key: str
    ts: int
    back: int
    number: int
    size: float


def own(value: Reading) -> int:
    """Up to twenty seconds before its block."""
    return value.ts - value.back


FLOATS = st.sampled_from([0.1, 0.2, 1e16, -1e16, 3.0, -0.0, float("nan"), float("inf"), 1 / 3])

READINGS = st.builds(
    Reading, st.sampled_from("abc"), st.integers(0, 60), st.sampled_from([0, 0, 0, 3, 11, 20]), st.integers(-9, 9), FLOATS
)

AGGREGATES: dict[str, Any] = {
    "count": ts.count(),
    "sum": ts.sum(lambda r: r.number, to=int),
    "float": ts.sum(lambda r: r.size, to=float),
    "fast_sum": ts.fast_sum(lambda r: r.size),
    "mean": ts.mean(lambda r: r.size),
    "variance": ts.variance(lambda r: r.size),
    "min": ts.min(lambda r: r.size, to=float),
    "max": ts.max(lambda r: r.number, to=int),
    "where": ts.mean(lambda r: r.size, where=lambda r: r.number > 0),
}
WINDOWS: dict[str, dict[str, Any]] = {
    "at once": {"size": 5},
    "grace": {"size": 7, "grace": 9, "ends": True},
    "offset": {"size": 4, "offset": 1, "grace": 3},
    "short": {"size": 1, "ends": True, "grace": 2},
    "long": {"size": 40},
}


@cache
def compiled(aggregate: str, windows: str) -> Plans:
    flow, markers = Dataflow("windows"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of = ts.time_window(AGGREGATES[aggregate], time=own, **WINDOWS[windows])
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """One item is many here. Counts items over columns."""
    counts = count_runs(monkeypatch, WindowsOfItems)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


CASES = [*[(one, "grace") for one in AGGREGATES], *[("fast_sum", one) for one in WINDOWS if one != "grace"]]


@pytest.mark.parametrize(("aggregate", "windows"), CASES)
def test_runs_over_columns_tell_the_trace_of_the_definition(aggregate: str, windows: str, columns: Counter[str]) -> None:
    plans = compiled(aggregate, windows)
    check_runs(plans, TracedWindows, {"readings": st.lists(READINGS, max_size=25)}, {"readings": tame(40)}, columns)


def tame(count: int) -> list[Reading]:
    """Windows of several blocks, late items, and several windows that one marker ends."""
    chance, readings = random.Random(1), list[Reading]()
    for at in range(count):
        key, back, size = chance.choice("abcdef"), chance.choice([0, 0, 2, 9, 30]), chance.random() * 10.0 ** (at % 17)
        readings.append(Reading(key, at // 4 + at // 100 * 50, back, at % 7, size))
    return readings


@pytest.mark.parametrize("windows", WINDOWS)
def test_tame_items_never_go_back_to_objects(
    windows: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_objects(monkeypatch)
    checked, one, _ = compiled("fast_sum", windows)
    rows = {"readings": tame(300)}
    assert simulate(one, rows, seed=3, steps=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 300


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Late items that count, states that forget what they hold, a sum from its end, a window that ends too early, and a number
    before which windows are over that stays behind."""
    windows, states, add, over_at = (
        WindowsOfItems._windows,
        WindowsOfItems._states,
        kernel._add,
        WindowsOfItems._over_at,
    )

    def none_late(self: Any, *args: Any) -> Any:
        return attrs.evolve(windows(self, *args), removal=np.full_like(windows(self, *args).removal, NEVER))

    def forgetful(self: Any, some: Any, *args: Any) -> Any:
        return states(self, attrs.evolve(some, removal=np.zeros_like(some.removal)), *args)

    def before_last(part: Any, before: Any, fresh: Any, of_before: Any, groups: Any) -> Any:
        nothing = attrs.evolve(before, values=before.values * 0.0)
        after = add(part, nothing, fresh, of_before, groups)
        values = after.values.copy()
        np.add.at(values, of_before, before.values)
        return attrs.evolve(after, values=values)

    def too_early(self: Any, *args: Any) -> Any:
        whole = windows(self, *args)
        return attrs.evolve(whole, removal=np.where(whole.removal == NEVER, args[0].ends.max(initial=0), whole.removal))

    def behind(self: Any, marker: int) -> int:
        return over_at(self, marker) - 1

    twins: list[tuple[Any, str, Any]] = [
        (WindowsOfItems, "_windows", none_late),
        (WindowsOfItems, "_states", forgetful),
        (kernel, "_add", before_last),
        (WindowsOfItems, "_windows", too_early),
        (WindowsOfItems, "_over_at", behind),
    ]
    each_row = attrs.evolve(plan(compiled("fast_sum", "grace")[0], key_groups=1), verify_every=1)
    simulate(each_row, {"readings": tame(300)}, seed=1, steps=9)
    for owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Difference):
                simulate(each_row, {"readings": tame(300)}, seed=1, steps=9)


def test_a_pause_of_a_billion_markers(columns: Counter[str]) -> None:
    """Windows end at a thousand million markers of it, and nobody visits them; the keys that are done again in Python neither."""
    flow = Dataflow("pause")
    markers = every(seconds=1, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    of = ts.time_window(ts.count(), time=own, size=1, grace=30, ends=True)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(of))
    rows = [attrs.evolve(one, ts=one.ts + late) for late in (0, 10**9) for one in tame(40)]
    assert answers_differ(plans_of(flow), {"readings": rows}, 4, changing=False) is None
    assert columns["items"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_local_backend(parallelism: int, columns: Counter[str], tmp_path: Path) -> None:
    """Behind an operator that emits late, over a restart."""
    flow, markers = Dataflow("filled"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    filled = readings.through(sort(by=lambda r: (r.ts, r.number))).through(
        ts.interpolate(
            time=lambda r: r.ts, number=lambda r: r.size, make=lambda r, time, number: Reading(r.key, time, 0, 0, number)
        )
    )
    flow.sink("out", filled.through(ts.time_window(ts.fast_sum(lambda r: r.size), time=own, size=7, grace=200, ends=True)))
    rows = sorted(tame(400), key=lambda r: r.ts)
    expected = interpret_rows(check(flow), {"readings": rows})[0]["out"]
    out, source = tmp_path / "out.parquet", tmp_path / "in"
    source.mkdir()
    for number, some in enumerate((rows[:230], rows[230:])):
        text = "".join(json.dumps(attrs.asdict(one)) + "\n" for one in some)
        (source / f"{number}.jsonl").write_text(text)
        tracetypes.run(
            flow,
            inputs={"readings": str(source)},
            outputs={"out": str(out)},
            backend="local",
            checkpoint=tmp_path / "checkpoint",
            parallelism=parallelism,
            drain=number == 1,
        )
    found = Counter((one["key"], one["start"], one["value"]) for one in ds.dataset(out, format="parquet").to_table().to_pylist())
    assert found == Counter((one.key, one.value.start, one.value.value) for one in expected.items if isinstance(one, Item))
    assert columns["items"]


@attrs.frozen
class Other(ts.Aggregate[Reading, float, float]):
    """A sum of floats, or the smallest of them, of one's own."""

    start: float
    least: bool

    def lift(self, value: Reading) -> float:
        return value.size

    def identity(self) -> float:
        return self.start

    def combine(self, a: float, b: float) -> float:
        return smaller(a, b) if self.least else a + b

    def result(self, agg: float) -> float:
        return agg


def of_one(aggregate: Any) -> Plans:
    flow, markers = Dataflow("one"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(ts.time_window(aggregate, time=own, size=5)))
    return plans_of(flow)


def test_a_sum_that_begins_with_something_else_is_made_in_python() -> None:
    refused = of_one(Other(-0.0, least=False))[1].stages[-1].steps[-1].ordered
    assert isinstance(refused, Opaque)
    assert refused.reason.endswith("begins a sum of floats with something else than 0.0")
    assert isinstance(of_one(Other(0.0, least=False))[1].stages[-1].steps[-1].ordered, TracedWindows)


def test_zeros_of_both_signs_are_compared_in_python(columns: Counter[str]) -> None:
    plans = of_one(Other(float("inf"), least=True))
    for sizes in ([0.0, -0.0, 0.0], [-0.0, 0.0], [0.0, 0.0]):
        rows = [Reading("a", at, 0, 0, size) for at, size in enumerate(sizes)]
        found = simulate(plans[1], {"readings": rows}, seed=0).trace
        assert repr(found.items) == repr(interpret_rows(plans[0], {"readings": rows})[0]["out"].items)
    assert columns["items"] == 2


def test_an_aggregate_that_says_nothing_of_itself_stays_python() -> None:
    class Texts(ts.Aggregate[Reading, str, str]):
        def lift(self, value: Reading) -> str:
            return value.key

        def identity(self) -> str:
            return ""

        def combine(self, a: str, b: str) -> str:
            return min(a, b)

        def result(self, agg: str) -> str:
            return agg

    refused = of_one(Texts())[1].stages[-1].steps[-1].ordered
    assert isinstance(refused, Opaque)
    assert refused.reason.endswith("combines by no sum, minimum or maximum")

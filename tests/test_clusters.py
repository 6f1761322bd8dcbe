"""k-means of many keys at once has the bits of the definition."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import Dataflow, Stream, U, check, every, interpret_rows, stdlib
from tracetypes.compiler.columns import clusters
from tracetypes.compiler.columns.clusters import clusters_of
from tracetypes.compiler.columns.rounding import rounded_means
from tracetypes.compiler.plan.explain import keyed_runs
from tracetypes.compiler.plan.facts import closing_of
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.chosen_blocks import WholeBlocks
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import cluster

ts: Any = stdlib

TAME = st.integers(-3, 3).map(float) | st.integers(0, 9999).map(lambda n: n / 100)
WILD = st.sampled_from([1e300, -1e300, 5e-324, 1e-200, 1e160, math.inf, math.nan, 1e16, 0.1]) | st.floats(width=64)


def compared(groups: Sequence[Sequence[tuple[float, ...]]], axes: int, k: int, seed: int, iterations: int) -> int:
    """Compare all groups that are not doubtful with the definition; how many they are."""
    chance = random.Random(seed)
    draws = [chance.random() for _ in range(k)]
    points = np.array([one for group in groups for one in group], np.float64).reshape(-1, axes).T + 0.0
    of_point = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    mixed = np.random.default_rng(seed).permutation(len(of_point))
    made = clusters_of(np.ascontiguousarray(points[:, mixed]), of_point[mixed], len(groups), k, draws, iterations)
    at, sure = 0, 0
    for number, group in enumerate(groups):
        end = at + int(made.sizes[number])
        if not made.doubtful[number]:
            finite = [tuple([x + 0.0 for x in one]) for one in group if all(map(math.isfinite, one))]
            right = [(one.centre, one.points) for one in cluster(finite, k, seed=seed, iterations=iterations)]
            found = zip(map(tuple, made.centres[at:end].tolist()), made.points[at:end].tolist(), strict=True)
            assert repr(list(found)) == repr(right)
            sure += 1
        at = end
    assert at == len(made.centres) == len(made.points)
    return sure


@settings(deadline=None, max_examples=some(60))
@given(st.data(), st.integers(1, 3), st.integers(1, 5), st.integers(0, 9), st.sampled_from([1, 2, 3, 100]), st.booleans())
def test_all_groups_at_once(data: st.DataObject, axes: int, k: int, seed: int, iterations: int, wild: bool) -> None:
    point = st.tuples(*([TAME | WILD if wild else TAME] * axes))
    groups = data.draw(st.lists(st.lists(point, max_size=12), min_size=1, max_size=6))
    sure = compared(groups, axes, k, seed, iterations)
    assert wild or sure


@pytest.mark.parametrize("axes", [1, 2])
def test_numbers_with_two_digits_are_certain(axes: int) -> None:
    chance = np.random.default_rng(axes)
    groups = [
        [tuple(one) for one in np.round(chance.random((int(chance.integers(0, 40)), axes)) * 100, 2).tolist()] for _ in range(300)
    ]
    assert compared(groups, axes, 3, 1, 100) >= 299


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("k", [2, 3])
def test_ties(axes: int, k: int) -> None:
    """Points between two centres, and equal ones."""
    chance = np.random.default_rng(k)
    sizes = chance.integers(0, 12, 400)
    groups = [[tuple(one) for one in chance.integers(-2, 3, (size, axes)).astype(float).tolist()] for size in sizes.tolist()]
    assert compared(groups, axes, k, 2, 100) == 400
    assert compared(groups, axes, k, 3, 1) == 400


@settings(deadline=None, max_examples=some(200))
@given(st.lists(st.floats(-1e6, 1e6) | TAME, min_size=1, max_size=9))
@example([1.0, 2.0**-53])
@example([1.0, 1.0 + 2.0**-52])
@example([2.0**53, 1.0, 1.0, 1.0])
@example([0.1, 0.2, 0.3])
@example([float.fromhex("0x1.374161f1318bbp+52"), float.fromhex("0x1.a7b3882e8d064p+51"), 2.0**-66, 2.0**-66])
@example([2.0**42, float.fromhex("0x1.774f63599e9a8p+52"), 2.0**-77, float.fromhex("0x1.89d272438739dp+52")])
def test_means_are_rounded_once_where_that_is_certain(numbers: list[float]) -> None:
    parts = clusters._cut(np.array(numbers), len(numbers))
    exact = sum(map(Fraction, numbers)) / len(numbers)
    if parts[-1].any():
        return
    assert sum(Fraction(float(one)) for part in parts for one in part) == exact * len(numbers)
    (mean,), (sure,) = rounded_means([np.array([part.sum()]) for part in parts[:-1]], np.array([float(len(numbers))]))
    if sure:
        assert mean == float(exact)


def test_most_means_are_certain() -> None:
    chance = np.random.default_rng(1)
    numbers = np.round(chance.random((2, 10_000)) * 100, 2)
    parts = [clusters._cut(axis, 2) for axis in numbers]
    sums = [one + other for one, other in zip(*parts, strict=True)]
    means, sure = rounded_means(sums[:-1], np.full(10_000, 2.0))
    assert sure.mean() > 0.999
    for a, b, mean in zip(*numbers[:, sure].tolist(), means[sure].tolist(), strict=True):
        assert mean == float((Fraction(a) + Fraction(b)) / 2)


# ---------------------------------------------------------------------------------------------------------- runs


@attrs.frozen
class Spot:
    """A point of a plane."""

    key: str
    ts: int
    x: float
    n: int


SPOTS = st.builds(
    Spot,
    key=st.sampled_from("abc"),
    ts=st.integers(0, 20),
    x=st.sampled_from([0.0, -0.0, 1.5, 0.1, math.nan, -math.inf, 1e300]),
    n=st.integers(-2, 2) | st.just(2**63 - 1),
)


def place(spot: Spot) -> tuple[float, int]:
    """A point."""
    return spot.x, spot.n


def inverse(spot: Spot) -> list[float]:
    """A point, or an error."""
    return [6 / spot.n]


def flow_of(point: Any) -> Dataflow:
    """Clusters of each key and block."""
    flow = Dataflow("clusters")
    markers = every(seconds=5, time=lambda s: s.ts, delay=3)
    spots: Stream[Any] = flow.source("in", U[str, Spot], key=lambda s: s.key, markers=markers)
    flow.sink("out", spots.through(ts.kmeans(point, k=3, seed=4, iterations=5)))
    return flow


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts clusters over columns."""
    counts = Counter[str]()
    flows = WholeBlocks.flows

    def counted(self: WholeBlocks, flow: Any, ends: Any) -> Any:
        out = flows(self, flow, ends)
        counts["clusters"] += out.count
        return out

    monkeypatch.setattr(WholeBlocks, "flows", counted)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


def outcome_of(run: Any) -> Any:
    try:
        return run()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("point", [place, inverse])
def test_runs_over_columns_tell_the_trace_of_the_definition(point: Any, columns: Counter[str]) -> None:
    checked = check(flow_of(point))
    one = plan(checked, parallelism=2)
    assert closing_of(one.stages[-1]) is not None
    assert [run.native for run in keyed_runs(one.stages[-1])] == [True]
    python = in_python(one, list(names_of(one).values()))

    @settings(deadline=None, max_examples=some(12))
    @given(st.lists(SPOTS, max_size=40), st.integers(0, 1000), st.booleans())
    def one_run(rows: list[Spot], seed: int, changing: bool) -> None:
        then = [python, one, python, one] if changing else []
        expected = outcome_of(lambda: interpret_rows(checked, {"in": rows})[0]["out"])
        actual = outcome_of(
            lambda: simulate(one, {"in": rows}, seed=seed, steps=1 + seed % 5, pieces=1 + seed % 3, then=then).trace
        )
        assert actual == expected

    one_run()
    assert columns["clusters"]


def test_clusters_of_another_key_are_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sampled check."""
    one = attrs.evolve(plan(check(flow_of(place)), parallelism=2), verify_every=1)
    rows = {"in": [Spot("abc"[n % 3], n // 9, float(n * n % 17), n % 3) for n in range(90)]}
    simulate(one, rows, seed=1)
    right = clusters._counted

    def broken(*args: Any) -> Any:
        made = right(*args)
        return attrs.evolve(made, centres=np.roll(made.centres, 1, axis=0))

    monkeypatch.setattr(clusters, "_counted", broken)
    with pytest.raises(Difference):
        simulate(one, rows, seed=1)


def test_the_blocks_of_a_window_are_joined() -> None:
    flow = Dataflow("windows")
    spots: Stream[Any] = flow.source("in", U[str, Spot], key=lambda s: s.key, markers=every(seconds=5, time=lambda s: s.ts))
    flow.sink("out", spots.through(ts.kmeans(place, k=3, panes=2)))
    stage = plan(check(flow)).stages[-1]
    assert stage.tumbles == (10_000_000, 0)
    assert closing_of(stage) is not None

"""k-means against its own definition, trees against scikit-learn; laws and random deployments."""

from __future__ import annotations

import itertools
import math
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stdlib.small import ROWS, Event, source, told
from tests.strategies import some
from tracetypes import Dataflow, O, Stream, U, UsageError, check, every, sort
from tracetypes.stdlib import clusters
from tracetypes.stdlib.clusters import Bag, KMeans, cluster, kmeans, lloyd
from tracetypes.stdlib.trees import (
    Lagged,
    Lags,
    Predict,
    Predicted,
    RegressionTree,
    lagged,
    predict,
    single,
    train_regression_tree,
    tree_of,
)
from tracetypes.testing import check_deployments, check_laws

POINTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.5, 1.0, 5.0, 5.5, 9.0, -3.0]), st.floats(-9, 9)), min_size=1, max_size=14
)


def place(event: Event) -> tuple[float, float]:
    return float(event.x), event.ts / 10


# ------------------------------------------------------------------------------------------------- k-means


def within(points: Sequence[tuple[float, ...]], centres: Sequence[tuple[float, ...]]) -> float:
    """The sum of squared distances to the nearest centre."""
    return sum(min(math.dist(p, c) ** 2 for c in centres) for p in points)


@given(POINTS, st.integers(1, 4), st.integers(0, 3), st.randoms(use_true_random=False))
def test_clusters_do_not_depend_on_the_order_of_points(
    points: list[tuple[float, ...]], k: int, seed: int, chance: random.Random
) -> None:
    found = cluster(points, k, seed=seed)
    chance.shuffle(points)
    assert cluster(points, k, seed=seed) == found


@given(POINTS, st.integers(1, 4))
def test_clusters_are_a_fixed_point(points: list[tuple[float, ...]], k: int) -> None:
    """Each centre is the mean of the points that are nearest to it: where Lloyd's algorithm ends."""
    found = cluster(points, k, iterations=1000)
    centres = [one.centre for one in found]
    assert [one.number for one in found] == list(range(len(found)))
    assert centres == sorted(set(centres))
    assert sum(one.points for one in found) == len(points)
    for one in found:
        near = [p for p in points if math.dist(p, one.centre) <= min(math.dist(p, c) for c in centres) + 1e-9]
        assert len(near) >= one.points >= 1
        if len(near) == one.points:
            for at in range(2):
                assert math.isclose(one.centre[at], float(sum(Fraction(p[at]) for p in near) / len(near)), abs_tol=1e-9)


@given(POINTS)
def test_one_cluster_is_the_exact_mean(points: list[tuple[float, ...]]) -> None:
    (only,) = cluster(points, 1)
    assert only.centre == tuple(float(sum(Fraction(p[at]) for p in points) / len(points)) for at in range(2))


@given(st.sets(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=6))
def test_enough_clusters_hit_every_point(points: set[tuple[int, ...]]) -> None:
    """k-means++ never draws a point twice, so that as many clusters as points have no distance left."""
    floats = [tuple(map(float, p)) for p in points]
    assert within(floats, [one.centre for one in cluster(floats, len(points))]) == 0


def test_clusters_that_lie_apart_are_found() -> None:
    chance = random.Random(1)
    middles = [(0.0, 0.0), (100.0, 0.0), (0.0, 100.0)]
    points = [(x + chance.gauss(), y + chance.gauss()) for x, y in middles for _ in range(50)]
    found = cluster(points, 3, seed=3)
    assert [one.points for one in found] == [50, 50, 50]
    assert all(min(math.dist(one.centre, m) for m in middles) < 1 for one in found)


def plain_lloyd(
    points: Sequence[tuple[float, ...]], first: Sequence[tuple[float, ...]], rounds: int
) -> list[tuple[int, tuple[float, ...]]]:
    """By the words of the docstring."""
    centres = [tuple(map(float, one)) for one in first]
    for at in range(rounds + 1):
        groups: list[list[tuple[float, ...]]] = [[] for _ in centres]
        for point in points:
            apart = []
            for centre in centres:
                total = 0.0
                for a, b in zip(point, centre, strict=True):
                    total += (a - b) * (a - b)
                apart.append(total)
            groups[apart.index(min(apart))].append(point)
        moved = [
            tuple(math.fsum(point[n] for point in group) / len(group) for n in range(len(centre))) if group else centre
            for group, centre in zip(groups, centres, strict=True)
        ]
        if at == rounds or moved == centres:
            break
        centres = moved
    return [(len(group), centre) for group, centre in zip(groups, centres, strict=True) if group]


@st.composite
def placed(draw: st.DrawFn) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Points and first centres of one length."""
    number = draw(st.sampled_from([st.integers(-4, 4), st.floats(-4, 4), st.sampled_from([0.1, 0.7, 2**53, 1])]))
    point = st.tuples(*[number] * draw(st.integers(1, 4)))
    return draw(st.lists(point, min_size=1, max_size=14)), draw(st.lists(point, min_size=1, max_size=4))


@pytest.mark.parametrize("few", [0, 1_000])
@given(placed(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_lloyd_does_what_it_says(
    few: int, given: tuple[list[tuple[float, ...]], list[tuple[float, ...]]], rounds: int, chance: random.Random
) -> None:
    points, first = given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "FEW", few)
        found = lloyd(points, first, rounds)
        assert found == plain_lloyd(points, first, rounds)
        chance.shuffle(points)
        assert lloyd(points, first, rounds) == found
    assert all(type(size) is int and {*map(type, centre)} == {float} for size, centre in found)


def test_lloyd_ends_where_no_centre_moves() -> None:
    chance = random.Random(2)
    for n in (5, clusters.FEW, clusters.FEW + 1, 200):
        points = [(chance.randrange(50), chance.randrange(50), chance.randrange(50)) for _ in range(n)]
        found = lloyd(points, points[:3], 1_000)
        assert found == lloyd(points, [centre for _, centre in found], 1) == plain_lloyd(points, points[:3], 1_000)
        assert sum(size for size, _ in found) == n


def test_lloyd_without_points_and_without_centres() -> None:
    assert lloyd([], []) == []
    with pytest.raises(UsageError, match="TT121 lloyd was given 0 centres and 10 rounds"):
        lloyd([(1,)], [])
    with pytest.raises(UsageError, match="TT121 lloyd was given 1 centres and 0 rounds"):
        lloyd([(1,)], [(1,)], rounds=0)


@pytest.mark.parametrize("points", [[], [(1e308,), (-1e308,), (1e308,)], [(5e-324,), (0.0,)]])
def test_extreme_points_are_no_error(points: list[tuple[float, ...]]) -> None:
    assert sum(one.points for one in cluster(points, 2)) == len(points)


@given(ROWS, st.integers(1, 3))
def test_kmeans_tells_the_clusters_of_each_window(rows: list[Event], panes: int) -> None:
    found = told(kmeans(place, k=2, panes=panes, seed=5), rows)
    size = panes * 5
    ends = {-(-(r.ts + 1) // size) * size for r in rows}
    wanted = {}
    for end, key in itertools.product(ends, "ab"):
        points = [place(r) for r in rows if r.key == key and end - size <= r.ts < end]
        if points:
            wanted[end, key] = cluster(points, 2, seed=5)
    assert {at: sorted(c, key=lambda one: one.number) for at, c in found.items()} == wanted


def test_points_without_a_place_are_left_out() -> None:
    rows = [Event("a", 1, 0), Event("a", 2, 4)]
    found = told(kmeans(lambda e: (math.nan if e.x else 1.0,), k=3), rows)
    assert [(one.centre, one.points) for one in found[5, "a"]] == [((1.0,), 1)]


@given(st.lists(st.tuples(st.integers(0, 3)), max_size=8), st.integers(0, 8))
def test_bags_are_equal_when_their_points_are(points: list[tuple[int]], cut: int) -> None:
    one, other = Bag(), Bag()
    for point in points:
        one |= Bag((point,))
    for point in points[cut:] + points[:cut]:
        other = Bag((point,)) | other
    assert one == other
    assert Counter(one) == Counter(points)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one | Bag(((9,),)) != one


def test_a_large_bag_can_be_saved() -> None:
    bag = Bag()
    for n in range(3 * sys.getrecursionlimit()):
        bag |= Bag(((float(n),),))
    assert pickle.loads(pickle.dumps(bag)) == bag


def test_TT121_wrong_parameters_are_refused() -> None:
    for wrong in ({"k": 0}, {"k": 1, "panes": 0}, {"k": 1, "iterations": True}, {"k": 1, "period": 0}):
        some: Any = wrong
        with pytest.raises(UsageError) as caught:
            kmeans(place, **some)
        assert caught.value.code == "TT121"


# ------------------------------------------------------------------------------------------------- trees

BOXES = RegressionTree((0, 1, -2, -2, -2), (0.5, 1.5, -2.0, -2.0, -2.0), (1, 2, -1, -1, -1), (4, 3, -1, -1, -1),
                       (0.0, 0.0, 10.0, 20.0, 30.0), (False, True, False, False, False))  # fmt: skip


@pytest.mark.parametrize(
    ("features", "value"),
    [
        ((0.5, 1.5), 10.0),
        ((0.5, 1.6), 20.0),
        ((0.6, 0.0), 30.0),
        ((math.nan, 0.0), 30.0),
        ((0.0, math.nan), 10.0),
        ((-1e300, 1e300), 20.0),
    ],
)
def test_a_tree_is_walked_from_its_root(features: tuple[float, ...], value: float) -> None:
    assert BOXES.predict(features) == value


def test_features_are_compared_as_32_bit_floats() -> None:
    assert single(0.1) != 0.1
    assert math.isclose(single(0.1), 0.1, rel_tol=1e-7)
    assert single(-1e300) == -math.inf
    assert math.isnan(single(math.nan))


@pytest.mark.parametrize("seed", range(8))
def test_predictions_are_those_of_scikit_learn(seed: int) -> None:
    tree = pytest.importorskip("sklearn.tree")
    numpy = pytest.importorskip("numpy")
    chance = numpy.random.default_rng(seed)
    x = numpy.round(chance.normal(size=(300, 4)), 1 + seed % 3) * 10.0 ** chance.integers(-3, 4, size=4)
    y = x[:, 0] * x[:, 1] + chance.normal(size=300)
    if seed >= 4:
        x[chance.random(x.shape) < 0.1] = numpy.nan
    model = tree.DecisionTreeRegressor(max_depth=None if seed % 2 else 5, random_state=seed).fit(x, y)
    ours = tree_of(model)
    borders = model.tree_.threshold[numpy.isfinite(model.tree_.threshold)]
    fresh = numpy.concatenate([x, chance.permuted(x, axis=0), borders.repeat(4).reshape(-1, 4)])
    assert [ours.predict(row) for row in fresh.tolist()] == model.predict(fresh).tolist()


def test_training_is_deterministic_and_learns() -> None:
    pytest.importorskip("sklearn")
    rows = [Event("a", ts, ts % 3) for ts in range(60)]
    trained = [
        train_regression_tree(rows, features=lambda e: (e.ts % 3, e.ts), target=lambda e: e.x, max_depth=3)
        for _ in range(2)
    ]
    assert trained[0] == trained[1]
    assert [trained[0].predict((e.ts % 3, e.ts)) for e in rows] == [e.x for e in rows]
    assert pickle.loads(pickle.dumps(trained[0])) == trained[0]


def test_TT121_no_rows_and_no_tree_are_refused() -> None:
    with pytest.raises(UsageError, match="no rows") as caught:
        train_regression_tree([], features=place, target=lambda e: e.x)
    assert caught.value.code == "TT121"
    for model in ("text", pytest.importorskip("sklearn.tree").DecisionTreeRegressor()):
        with pytest.raises(UsageError, match="is no trained regression tree"):
            tree_of(model)


def test_predictions_go_with_their_items() -> None:
    found = told(predict(BOXES, place), [Event("a", 0, 0), Event("a", 20, 0), Event("b", 1, 3)])
    assert found == {
        (5, "a"): [Predicted(Event("a", 0, 0), 10.0)],
        (5, "b"): [Predicted(Event("b", 1, 3), 30.0)],
        (25, "a"): [Predicted(Event("a", 20, 0), 20.0)],
    }


@given(ROWS, st.integers(1, 4))
def test_lags_are_the_last_numbers(rows: list[Event], items: int) -> None:
    def build(events: Stream[U[str, Event]]) -> Stream[Any]:
        return events.through(sort(by=lambda e: e.ts)).through(lagged(lambda e: e.x, items=items))

    found = told(build, rows)
    for key in "ab":
        history = sorted((r for r in rows if r.key == key), key=lambda r: (r.ts, r.x))
        wanted = [
            Lagged(one, tuple(float(r.x) for r in history[at + 1 - items : at + 1]))
            for at, one in enumerate(history)
            if at + 1 >= items
        ]
        assert [one for (_, k), ones in sorted(found.items()) if k == key for one in ones] == wanted


def test_a_tree_forecasts_from_lags() -> None:
    """The whole way: lags, training on what was recorded, predicting what comes next."""
    pytest.importorskip("sklearn")
    rows = [Event("a", ts, (0, 1, 5)[ts % 3]) for ts in range(30)]

    def build(events: Stream[U[str, Event]]) -> Stream[O[str, Lagged[Event]]]:
        return events.through(sort(by=lambda e: e.ts)).through(lagged(lambda e: e.x, items=3))

    recorded = [one for ones in told(build, rows).values() for one in ones]
    tree = train_regression_tree(recorded, features=lambda r: r.numbers[:-1], target=lambda r: r.numbers[-1])
    forecasts = told(lambda e: build(e).through(predict(tree, lambda r: r.numbers[1:])), rows)
    for ones in forecasts.values():
        for one in ones:
            assert one.prediction == (0, 1, 5)[(one.item.item.ts + 1) % 3]


def test_predicting_does_not_load_scikit_learn() -> None:
    script = "import sys, tracetypes.stdlib.trees; print('sklearn' in sys.modules, 'numpy' in sys.modules)"
    fresh = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert fresh.stdout.split() == ["False", "False"]


# ------------------------------------------------------------------------------------------------- laws, deployments


@pytest.mark.parametrize(
    "op", [KMeans(place, 2, 2), Predict(BOXES, place), Lags(lambda e: e.x, 2)], ids=lambda op: type(op).__name__
)
def test_laws(op: Any) -> None:
    check_laws(op, types=(str, Event), max_examples=some(60))


@pytest.mark.parametrize("build", [kmeans(place, k=2, panes=2), predict(BOXES, place)], ids=["kmeans", "predict"])
def test_every_deployment_tells_the_same(build: Any) -> None:
    flow = Dataflow("deployed")
    events = flow.source(
        "events", U[str, Event], markers=every(seconds=5, time=lambda e: e.ts, delay=20), key=lambda e: e.key
    )
    flow.sink("out", events.through(build))
    assert check_deployments(flow, rows={"events": ROWS}, max_examples=25) > 5


def test_the_types_of_results() -> None:
    flow = Dataflow("types")
    events = source(flow)
    flow.sink("clusters", events.through(kmeans(place, k=2)))
    flow.sink("predicted", events.through(predict(BOXES, place)))
    checked = check(flow)
    assert [str(checked.types[sink.id]) for sink in checked.graph.sinks] == [
        "U[str, Cluster]",
        "U[str, Predicted[Event]]",
    ]

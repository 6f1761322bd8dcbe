"""Learning on streams: clusters of recent points, and predictions of a regression tree that was trained before.

Nothing here needs scikit-learn to run; :func:`train_regression_tree` and :func:`tree_of` do (``pip install
'tracetypes[learn]'``), once, on the author's machine.
"""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend
from tracetypes.markers import Marker
from tracetypes.stdlib.signatures import KeyedOperator, OrderedOperator, on_ordered
from tracetypes.stdlib.windows import period_of, seconds_as_micros, whole
from tracetypes.templates import Emit, EmitValue, OpKeyedOrdered, OpKeyedUnordered, OpStateless

__all__ = [
    "Bag",
    "Cluster",
    "KMeans",
    "Lagged",
    "Lags",
    "Predict",
    "Predicted",
    "RegressionTree",
    "cluster",
    "kmeans",
    "lagged",
    "lloyd",
    "predict",
    "train_regression_tree",
    "tree_of",
]

K = TypeVar("K")
V = TypeVar("V")

Point: TypeAlias = tuple[float, ...]


# ------------------------------------------------------------------------------------------------- clusters


@attrs.frozen
class Cluster:
    """A cluster: its centre, and how many points are nearer to it than to any other centre. ``number``: its place, from
    0, when the clusters of a key are sorted by their centres."""

    number: int
    centre: tuple[float, ...]
    points: int


@attrs.frozen(eq=False)
class Bag:
    """A bag of points as a tree of unions: a union costs nothing, and two bags are equal when their points are."""

    parts: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[Point]:
        pending: list[Any] = [self]
        while pending:
            one = pending.pop()
            if isinstance(one, Bag):
                pending.extend(one.parts)
            else:
                yield one

    def __or__(self, other: Bag) -> Bag:
        if not self.parts or not other.parts:
            return self if self.parts else other
        return Bag((self, other))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and sorted(self) == sorted(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        # Flat: a tree of unions would be pickled and copied by recursion, deeper than Python allows.
        return Bag, (tuple(sorted(self)),)


def cluster(points: Sequence[Point], k: int, *, seed: int = 0, iterations: int = 100) -> list[Cluster]:
    """k-means by Lloyd's algorithm (Lloyd, IEEE Trans. Inf. Theory 28, 1982), from k-means++ centres (Arthur and
    Vassilvitskii, SODA 2007).

    The same for every order of the points: they are sorted first, the random numbers are seeded, means are rounded once
    from exact sums, and of equally near centres the first one counts. All points are finite and of one length. Ends
    when no point changes its cluster, or after ``iterations`` rounds. At most ``k`` clusters, fewer where there are fewer
    different points, none of them empty; sorted by their centres.

    >>> cluster([(0.0,), (1.0,), (9.0,)], 2)
    [Cluster(number=0, centre=(0.5,), points=2), Cluster(number=1, centre=(9.0,), points=1)]
    """
    weights = sorted(Counter(points).items())
    centres = _spread([point for point, _ in weights], [n for _, n in weights], k, random.Random(seed))
    nearest: list[int] = []
    for _ in range(iterations):
        before, nearest = nearest, [_nearest(point, centres) for point, _ in weights]
        if nearest == before:
            break
        centres = [
            _mean([one for one, at in zip(weights, nearest, strict=True) if at == n]) or centre
            for n, centre in enumerate(centres)
        ]
    counts: Counter[Point] = Counter()
    for point, n in weights:
        counts[centres[_nearest(point, centres)]] += n
    return [Cluster(number, centre, counts[centre]) for number, centre in enumerate(sorted(counts))]


def _spread(points: list[Point], weights: list[int], k: int, chance: random.Random) -> list[Point]:
    """k-means++: each next centre is a point drawn by its squared distance from the centres so far."""
    if not points:
        return []
    centres = [points[_draw([float(n) for n in weights], chance)]]
    distances = [math.inf] * len(points)
    while len(centres) < min(k, len(points)):
        distances = [min(old, _distance(point, centres[-1])) for old, point in zip(distances, points, strict=True)]
        centres.append(points[_draw([d * n for d, n in zip(distances, weights, strict=True)], chance)])
    return list(dict.fromkeys(centres))


def _draw(weights: list[float], chance: random.Random) -> int:
    """An index by weight. Weights whose sum is not finite are cut down to whether they are the largest."""
    total = math.fsum(weights) if max(weights) < 1e290 else math.inf
    if not math.isfinite(total):
        largest = max(weights)
        weights = [float(w == largest) for w in weights]
        total = sum(weights)
    aim = chance.random() * total
    for at, weight in enumerate(weights):
        aim -= weight
        if aim < 0:
            return at
    return max(range(len(weights)), key=weights.__getitem__)


def _distance(one: Point, other: Point) -> float:
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += (a - b) * (a - b)
    return total


def _nearest(point: Point, centres: list[Point]) -> int:
    return min(range(len(centres)), key=lambda n: _distance(point, centres[n]))


def _mean(weighted: list[tuple[Point, int]]) -> Point | None:
    count = sum(n for _, n in weighted)
    if not count:
        return None
    return tuple(
        _exact_mean([(point[at], n) for point, n in weighted], count) + 0.0 for at in range(len(weighted[0][0]))
    )


def _exact_mean(numbers: list[tuple[float, int]], count: int) -> float:
    """Rounded once: neither order nor overflow on the way can be seen."""
    total = ExactSum()
    for number, n in numbers:
        one = ExactSum.of(number)
        total += ExactSum(one.numerator * n, one.shift)
    return total.numerator / (count << total.shift)


@attrs.frozen
class KMeans(OpKeyedUnordered[K, V, K, Cluster, tuple[Bag, ...], Bag]):
    """See :func:`kmeans`. The state is the points of the last ``panes`` blocks."""

    point: Callable[[V], Sequence[float]]
    k: int
    panes: int = 1
    period: int | None = None
    seed: int = 0
    iterations: int = 100

    def lift(self, key: K, value: V) -> Bag:
        point = tuple([float(x) + 0.0 for x in self.point(value)])
        return Bag((point,)) if all(map(math.isfinite, point)) else Bag()

    def identity(self) -> Bag:
        return Bag()

    def combine(self, a: Bag, b: Bag) -> Bag:
        return a | b

    def initial_state(self) -> tuple[Bag, ...]:
        return (Bag(),) * self.panes

    def update_state(self, state: tuple[Bag, ...], agg: Bag) -> tuple[Bag, ...]:
        return (*state[1:], agg)

    def on_marker(self, new_state: tuple[Bag, ...], key: K, marker: Marker, emit: Emit[K, Cluster]) -> None:
        if self.period is not None and marker.micros % (self.panes * self.period):
            return
        points = [point for pane in new_state for point in pane]
        for one in cluster(points, self.k, seed=self.seed, iterations=self.iterations):
            emit(key, one)


def kmeans(
    point: Callable[[V], Sequence[float]],
    *,
    k: int,
    panes: int = 1,
    period: float | None = None,
    seed: int = 0,
    iterations: int = 100,
) -> KeyedOperator[V, Cluster]:
    """The clusters of each key's points in windows that follow one another, by :func:`cluster`.

    ``point`` gives the coordinates of an item, as many for each; points with a NaN or an infinity are left out.
    ``panes`` and ``period``: the window, as in :func:`tracetypes.stdlib.windows.tumbling`. The state is all points of the
    window; a marker that ends one costs ``iterations * points * k`` at most. Equal on every deployment; other processors
    may round alike, as all that is used is IEEE 754 arithmetic.

    Raises :class:`UsageError` ``TT121`` for parameters out of range and a period that is not known.

    >>> preview(kmeans(lambda x: (x,), k=2), U[str, float], [("a", 1.0), ("a", 2.0), ("a", 8.0)])
    [[('a', Cluster(number=0, centre=(1.5,), points=2)), ('a', Cluster(number=1, centre=(8.0,), points=1))]]
    """
    for name, number in (("k", k), ("panes", panes), ("iterations", iterations)):
        whole(name, number)
    micros = None if period is None else seconds_as_micros("period", period)

    def place(upstream: Stream[U[K, V]]) -> Stream[U[K, Cluster]]:
        every = None if panes == 1 else micros or period_of(upstream)
        op: Any = KMeans(point, k, panes, every, seed, iterations)
        return extend(upstream, op)

    return place


# ------------------------------------------------------------------------------------------------- Lloyd's algorithm

FEW = 30
"""Points up to which plain Python is faster than NumPy's calls."""


def lloyd(
    points: Sequence[Sequence[float]], first: Sequence[Sequence[float]], rounds: int = 10
) -> list[tuple[int, Point]]:
    """k-means by Lloyd's algorithm from given centres: for each cluster that is not empty its size and its centre.

    ``points`` and ``first``: tuples of finite numbers, all of one length. A round gives each point to the nearest centre, of
    equally near ones to the first, and moves each centre to the mean of its points; one without points stays. Ends when no
    centre moves, or after ``rounds`` rounds; sizes are counted by the centres as they are then, which are told in the order
    of ``first``. The same for every order of the points: sums of whole numbers are exact up to 2**53, others are rounded
    once. Each round costs ``len(points) * len(first)`` distances; many points are held as columns of NumPy, three
    dimensions are fast for few points too. For centres that need not be chosen see :func:`cluster`.

    Raises :class:`UsageError` ``TT121`` for points without a centre, and for fewer than one round.

    >>> lloyd([(0, 0), (0, 2), (9, 9)], first=[(0, 0), (5, 5)])
    [(2, (0.0, 1.0)), (1, (9.0, 9.0))]
    """
    if not points:
        return []
    if not first or rounds < 1:
        raise UsageError(
            "TT121",
            f"lloyd was given {len(first)} centres and {rounds} rounds",
            fix="give one centre or more, and one round or more",
        )
    return (_lloyd_of_few if len(points) <= FEW else _lloyd_of_many)(points, first, rounds)


def _lloyd_of_few(
    given: Sequence[Sequence[float]], first: Sequence[Sequence[float]], rounds: int
) -> list[tuple[int, Point]]:
    divide = _parts_in_space if len(first[0]) == 3 else _parts
    points: list[Point] = [tuple(map(float, point)) for point in given]
    centres: list[Point] = [tuple(map(float, centre)) for centre in first]
    parts = divide(points, centres)
    for _ in range(rounds):
        centres = [_mean_of(part or [centre]) for part, centre in zip(parts, centres, strict=True)]
        before, parts = parts, divide(points, centres)
        if parts == before:
            break
    return [(len(part), centre) for part, centre in zip(parts, centres, strict=True) if part]


def _mean_of(part: list[Point]) -> Point:
    size = len(part)
    if size == 1:
        return part[0]
    return tuple([total / size for total in map(math.fsum, zip(*part, strict=True))])


def _parts(points: list[Point], centres: list[Point]) -> list[list[Point]]:
    """The points that are nearest to each centre."""
    parts: list[list[Point]] = [[] for _ in centres]
    for point in points:
        parts[_nearest(point, centres)].append(point)
    return parts


def _parts_in_space(points: list[Point], centres: list[Point]) -> list[list[Point]]:
    """The same in three dimensions, where loops over coordinates would take most of the time."""
    parts: list[list[Point]] = [[] for _ in centres]
    numbered = list(enumerate(centres))
    for point in points:
        x, y, z = point
        least, found = math.inf, 0
        for n, (a, b, c) in numbered:
            a -= x
            b -= y
            c -= z
            distance = a * a + b * b + c * c
            if distance < least:
                least, found = distance, n
        parts[found].append(point)
    return parts


def _lloyd_of_many(
    points: Sequence[Sequence[float]], first: Sequence[Sequence[float]], rounds: int
) -> list[tuple[int, Point]]:
    import numpy as np

    centres = np.array(first, np.float64)
    flat = np.fromiter(chain.from_iterable(points), np.float64, len(points) * centres.shape[1])
    axes = np.ascontiguousarray(flat.reshape(len(points), centres.shape[1]).T)
    whole_numbers = bool((axes == np.floor(axes)).all() and np.abs(axes).sum(axis=1).max() <= 2**53)
    for at in range(rounds + 1):
        distances = np.square(axes[0] - centres[:, :1])
        for axis, numbers in zip(axes[1:], centres.T[1:], strict=True):
            distances += np.square(axis - numbers[:, None])
        nearest, least = np.zeros(len(points), np.intp), distances[0]
        for n, distance in enumerate(distances[1:], 1):
            np.putmask(nearest, distance < least, n)
            np.minimum(least, distance, out=least)
        sizes = np.bincount(nearest, minlength=len(centres))
        if at == rounds:
            break
        if whole_numbers:
            sums = [np.bincount(nearest, weights=axis, minlength=len(centres)) for axis in axes]
        else:
            sums = [np.array([math.fsum(axis[nearest == n]) for n in range(len(centres))]) for axis in axes]
        moved = np.where(sizes[:, None] > 0, np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None], centres)
        if (moved == centres).all():
            break
        centres = moved
    return [(size, tuple(centre)) for size, centre in zip(sizes.tolist(), centres.tolist(), strict=True) if size]


# ------------------------------------------------------------------------------------------------- regression trees


@attrs.frozen
class RegressionTree:
    """A binary regression tree as plain tuples, a place for each node; the root is node 0.

    In node ``n`` an item whose feature ``feature[n]`` is at most ``threshold[n]`` goes on to ``left[n]``, another to
    ``right[n]``; one whose feature is NaN goes left where ``missing_left[n]``. A leaf has ``left[n] == -1``, and predicts
    ``value[n]``.
    """

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]
    missing_left: tuple[bool, ...]

    def predict(self, features: Sequence[float]) -> float:
        """The prediction for one item. Features are compared as 32-bit floats, as scikit-learn does; beyond their range
        as infinities."""
        node = 0
        while self.left[node] >= 0:
            x = single(features[self.feature[node]])
            goes_left = self.missing_left[node] if x != x else x <= self.threshold[node]
            node = self.left[node] if goes_left else self.right[node]
        return self.value[node]


def single(x: float) -> float:
    """The nearest 32-bit float, as a float."""
    try:
        nearest: float = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return nearest


@attrs.frozen
class Predicted(Generic[V]):
    """An item with what a model says of it."""

    item: V
    prediction: float


@attrs.frozen
class Predict(OpStateless[K, V, K, Predicted[V]]):
    """See :func:`predict`."""

    tree: RegressionTree
    features: Callable[[V], Sequence[float]]

    def on_item(self, key: K, value: V, emit: Emit[K, Predicted[V]]) -> None:
        emit(key, Predicted(value, self.tree.predict(self.features(value))))


def predict(
    tree: RegressionTree, features: Callable[[V], Sequence[float]]
) -> KeyedOperator[V, Predicted[V]]:
    """Each item with the tree's prediction for its ``features``, in the order in which the tree was trained.

    Costs the depth of the tree; no state. The tree comes from :func:`train_regression_tree` or :func:`tree_of`; here
    one of a single decision:

    >>> tree = RegressionTree((0, -1, -1), (2.5, 0.0, 0.0), (1, -1, -1), (2, -1, -1), (0.0, 10.0, 20.0), (False,) * 3)
    >>> preview(predict(tree, lambda x: (x,)), U[str, float], [("a", 2.0), ("a", 3.0)])
    [[('a', Predicted(item=2.0, prediction=10.0)), ('a', Predicted(item=3.0, prediction=20.0))]]
    """
    op: Any = Predict(tree, features)
    return lambda upstream: extend(upstream, op)


@attrs.frozen
class Lagged(Generic[V]):
    """An item with the numbers of the last items of its key up to itself, the oldest first."""

    item: V
    numbers: tuple[float, ...]


@attrs.frozen
class Lags(OpKeyedOrdered[K, V, Lagged[V], tuple[float, ...]]):
    """See :func:`lagged`. The state is the last numbers."""

    number: Callable[[V], float]
    items: int

    def initial_state(self) -> tuple[float, ...]:
        return ()

    def on_item(self, state: tuple[float, ...], key: K, value: V, emit: EmitValue[Lagged[V]]) -> tuple[float, ...]:
        numbers = (*state, float(self.number(value)))[-self.items :]
        if len(numbers) == self.items:
            emit(Lagged(value, numbers))
        return numbers


def lagged(number: Callable[[V], float], *, items: int) -> OrderedOperator[V, Lagged[V]]:
    """Each item with the numbers of the last ``items`` items of its key, from the first that has so many.

    What a forecast is made from: train on ``numbers[:-1]`` with the target ``numbers[-1]``, predict from
    ``numbers[1:]``. Raises :class:`UsageError` ``TT121`` for fewer than one item.

    >>> preview(lagged(lambda x: x, items=2), O[str, float], [("a", 1.0), ("a", 4.0)], [("a", 9.0)])
    [[('a', Lagged(item=4.0, numbers=(1.0, 4.0)))], [('a', Lagged(item=9.0, numbers=(4.0, 9.0)))]]
    """
    whole("items", items)
    return on_ordered(Lags(number, items))


def tree_of(trained: Any) -> RegressionTree:
    """A trained ``sklearn.tree.DecisionTreeRegressor`` of one output as plain tuples.

    Raises :class:`UsageError` ``TT121`` for another model, one that is not trained, or one of several outputs.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree_of(DecisionTreeRegressor(random_state=0).fit([[1.0], [3.0]], [10.0, 20.0])).predict((2.5,))
    20.0
    """
    inner = getattr(trained, "tree_", None)
    if inner is None or getattr(inner, "value", None) is None or inner.value.shape[1:] != (1, 1):
        raise UsageError(
            "TT121",
            f"{type(trained).__name__} is no trained regression tree of one output",
            fix="pass a DecisionTreeRegressor after fit(X, y) with one number for each row in y",
        )
    missing = getattr(inner, "missing_go_to_left", None)
    return RegressionTree(
        feature=tuple(int(f) for f in inner.feature),
        threshold=tuple(float(t) for t in inner.threshold),
        left=tuple(int(n) for n in inner.children_left),
        right=tuple(int(n) for n in inner.children_right),
        value=tuple(float(v) for v in inner.value[:, 0, 0]),
        missing_left=(False,) * inner.node_count if missing is None else tuple(bool(m) for m in missing),
    )


def train_regression_tree(
    rows: Sequence[V],
    *,
    features: Callable[[V], Sequence[float]],
    target: Callable[[V], float],
    max_depth: int | None = None,
    min_samples_leaf: int = 1,
    seed: int = 0,
) -> RegressionTree:
    """A CART regression tree (Breiman et al., 1984) that predicts ``target`` from ``features``, by scikit-learn.

    Deterministic in the rows, their order and the seed. Raises :class:`UsageError` ``TT121`` without rows, and
    ``TT401`` without scikit-learn.

    >>> tree = train_regression_tree([1, 2, 8, 9], features=lambda n: (n,), target=lambda n: 10.0 if n < 5 else 20.0)
    >>> tree.predict((3.0,)), tree.predict((7.0,))
    (10.0, 20.0)
    """
    if not rows:
        raise UsageError("TT121", "there are no rows to learn from", fix="give one row or more")
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError as error:
        raise UsageError(
            "TT401", f"training needs scikit-learn, which is not here ({error})", fix="pip install 'tracetypes[learn]'"
        ) from None
    model = DecisionTreeRegressor(max_depth=max_depth, min_samples_leaf=min_samples_leaf, random_state=seed)
    return tree_of(model.fit([list(features(row)) for row in rows], [target(row) for row in rows]))

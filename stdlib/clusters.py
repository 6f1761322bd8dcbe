"""Clusters of the recent points of a key: k-means."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend
from tracetypes.markers import Marker, Span
from tracetypes.stdlib.periods import period_of
from tracetypes.stdlib.signatures import KeyedOperator
from tracetypes.stdlib.windows import seconds_as_micros, whole
from tracetypes.summaries import Clustering, Summary, WholeBlock
from tracetypes.templates import Emit, OpKeyedUnordered

__all__ = ["FEW", "Bag", "Cluster", "KMeans", "Point", "cluster", "kmeans", "lloyd"]

K = TypeVar("K")
V = TypeVar("V")


Point: TypeAlias = tuple[float, ...]


@attrs.frozen
class Cluster:
    """A cluster: its centre, and the number of points that are nearer to it than to any other centre. ``number``: its
    place, from 0, when the clusters of a key are sorted by their centres."""

    number: int
    centre: tuple[float, ...]
    points: int


@attrs.frozen(eq=False)
class Bag:
    """A bag of points as a tree of unions. A union costs nothing, and two bags are equal if their points are."""

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

    The result is the same for every order of the points: they are sorted first, the random numbers have a seed, means
    are rounded once from exact sums, and among equally near centres the first one wins. All points must be finite and
    of one length. It ends when no point changes its cluster, or after ``iterations`` rounds. It returns at most ``k``
    clusters, fewer if there are fewer different points. No cluster is empty, and they are sorted by their centres.

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

    _word = "kmeans"
    _in_python = "keeps bags of points of any size"

    forgets_idle = True

    point: Callable[[V], Sequence[float]]
    k: int
    panes: int = 1
    period: int | None = None
    seed: int = 0
    iterations: int = 100

    def lift(self, key: K, value: V) -> Bag:
        point = self.coordinates(value)
        return Bag((point,)) if all(map(math.isfinite, point)) else Bag()

    def coordinates(self, value: V) -> Point:
        """The point of an item."""
        return tuple([float(x) + 0.0 for x in self.point(value)])

    def identity(self) -> Bag:
        return Bag()

    def combine(self, a: Bag, b: Bag) -> Bag:
        return a | b

    def initial_state(self) -> tuple[Bag, ...]:
        return (Bag(),) * self.panes

    def update_state(self, state: tuple[Bag, ...], agg: Bag) -> tuple[Bag, ...]:
        return (*state[1:], agg)

    def linger(self) -> int:
        return self.panes - 1

    def tumbles(self) -> tuple[int, int] | None:
        return None if self.period is None else (self.panes * self.period, 0)

    def _meaning_of_states(self) -> str:
        return "points of whole windows" if self.panes > 1 and self.tumbles() is not None else ""

    def on_marker(self, new_state: tuple[Bag, ...], key: K, marker: Marker, emit: Emit[K, Cluster]) -> None:
        if self.period is not None and marker.micros % (self.panes * self.period):
            return
        for one in self.clusters([point for pane in new_state for point in pane]):
            emit(key, one)

    def clusters(self, points: Sequence[Point]) -> list[Cluster]:
        """The clusters of the points of a key."""
        return cluster(points, self.k, seed=self.seed, iterations=self.iterations)

    def _whole_block(self) -> WholeBlock[V] | None:
        chance = random.Random(self.seed)
        part: Clustering[V] = Clustering(
            of=self.coordinates,
            k=self.k,
            draws=tuple([chance.random() for _ in range(self.k)]),
            iterations=self.iterations,
            clusters=self.clusters,
            to=Cluster,
        )
        return WholeBlock(Summary((part,), itemgetter(0)), self.emit_cluster, always=self.panes == 1, each=True)

    def emit_cluster(self, key: K, one: Cluster, marker: Marker, emit: Emit[K, Cluster]) -> None:
        """What is emitted of a cluster."""
        emit(key, one)


def kmeans(
    point: Callable[[V], Sequence[float]],
    *,
    k: int,
    panes: int = 1,
    period: Span | None = None,
    seed: int = 0,
    iterations: int = 100,
) -> KeyedOperator[V, Cluster]:
    """The clusters of each key's points in windows that follow one another, by :func:`cluster`.

    ``point`` returns the coordinates of an item, as many for each item. Points with a NaN or an infinity are left out.
    ``panes`` and ``period``: the window, as in :func:`tracetypes.stdlib.windows.tumbling`. The state is all points of
    the window. A marker that ends a window costs at most ``iterations * points * k``. The result is equal on every
    deployment. It uses IEEE 754 arithmetic only, so other processors should round alike.

    Raises :class:`UsageError` ``TT121`` for parameters out of range and an unknown period.

    >>> preview(kmeans(lambda x: (x,), k=2), U[str, float], [("a", 1.0), ("a", 2.0), ("a", 8.0)])
    [[('a', Cluster(number=0, centre=(1.5,), points=2)), ('a', Cluster(number=1, centre=(8.0,), points=1))]]
    """
    for name, number in (("k", k), ("panes", panes), ("iterations", iterations)):
        whole(name, number)
    micros = None if period is None else seconds_as_micros("period", period)

    def place(upstream: Stream[U[K, V]]) -> Stream[U[K, Cluster]]:
        every = None if panes == 1 else period_of(upstream, micros)
        op: Any = KMeans(point, k, panes, every, seed, iterations)
        return extend(upstream, op)

    return place


FEW = 30
"""Points up to which plain Python is faster than NumPy's calls."""


def lloyd(
    points: Sequence[Sequence[float]], first: Sequence[Sequence[float]], rounds: int = 10
) -> list[tuple[int, Point]]:
    """k-means by Lloyd's algorithm from given centres: for each cluster that is not empty its size and its centre.

    ``points`` and ``first``: tuples of finite numbers, all of one length. A round gives each point to the nearest
    centre, or to the first one among equally near centres. Then it moves each centre to the mean of its points; a
    centre without points stays. It ends when no centre moves, or after ``rounds`` rounds. The sizes are those of the
    last centres, and the clusters are in the order of ``first``. The result is the same for every order of the points:
    sums of whole numbers are exact up to 2**53, others are rounded once. Each round costs ``len(points) * len(first)``
    distances. Many points are held as columns of NumPy; three dimensions are fast for few points too. :func:`cluster`
    chooses the centres itself.

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
    some: Sequence[Sequence[float]], first: Sequence[Sequence[float]], rounds: int
) -> list[tuple[int, Point]]:
    divide = _parts_in_space if len(first[0]) == 3 else _parts
    points: list[Point] = [tuple(map(float, point)) for point in some]
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
        least, nearest = math.inf, 0
        for n, (a, b, c) in numbered:
            a -= x
            b -= y
            c -= z
            distance = a * a + b * b + c * c
            if distance < least:
                least, nearest = distance, n
        parts[nearest].append(point)
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

"""k-means of many groups of points at once, with the bits of the definition.

The definition works on one group after the other, in Python: means are exact sums that are rounded once, and centres are drawn by
random numbers that are the same for each group. Here all groups go through each step together. A mean is rounded here where that
is certainly right. A draw is decided where no rounding can matter. Groups with anything else are ``doubtful``: the caller asks
the definition for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np

from tracetypes.compiler.columns.rounding import LARGEST, MOST, SMALLEST, rounded_means
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows

__all__ = ["Clusters", "clusters_of"]

CHUNKS: Final = 3
"""Into so many parts a number is cut, of which sums are exact."""


@attrs.frozen(eq=False)
class Clusters:
    """The clusters of each group, by group, in the order of their centres. ``sizes`` (int64): how many a group has; ``centres``:
    float64, a row each; ``points`` (int64) of each; ``doubtful``: the groups (bool) that the definition has to do."""

    sizes: Any
    centres: Any
    points: Any
    doubtful: Any


@attrs.define(eq=False)
class _Points:
    """Different points of groups, by group and in order. ``at``: float64, dimensions by points; ``group``, ``weights``: of each
    point; ``parts``: what :func:`_cut` makes of the numbers of each dimension."""

    at: Any
    group: Any
    weights: Any
    parts: list[list[Any]]

    def of_groups(self, stays: Any, number: Any) -> _Points:
        """Those of some groups, under new numbers."""
        rows = np.flatnonzero(stays[self.group])
        parts = [[one[rows] for one in parts] for parts in self.parts]
        return _Points(self.at[:, rows], number[self.group[rows]], self.weights[rows], parts)


def clusters_of(points: Any, group: Any, number: int, k: int, draws: Sequence[float], iterations: int) -> Clusters:
    """The clusters of ``number`` groups. ``points``: float64, dimensions by points, without -0.0; ``group``: int64, of
    each; ``draws``: the first random numbers of the definition, ``k`` of them. Points that are not finite count for nothing."""
    finite = np.isfinite(points).all(axis=0)
    if not finite.all():
        points, group = points[:, finite], group[finite]
    some = _different(points, group, number)
    doubtful = _out_of_range(some, number)
    centres, lost = _drawn(some, number, k, draws)
    doubtful |= lost
    active, left = np.arange(number), some
    nearest: Any = None
    for _ in range(iterations):
        before, nearest = nearest, _nearest(left, centres[active])
        if before is not None:
            moved = np.zeros(len(active), np.bool_)
            moved[left.group[before != nearest]] = True
            if not moved.any():
                break
            rows, places = moved[left.group], np.cumsum(moved) - 1
            left, nearest, active = left.of_groups(moved, places), nearest[rows], active[moved]
        lost = _move(left, nearest, centres, active)
        doubtful[active[lost]] = True
    return _counted(some, centres, doubtful)


def _different(points: Any, group: Any, number: int) -> _Points:
    """Equal points of a group as one."""
    order = sorted_rows([SortKey.column(group), *(SortKey.column(_in_order(axis)) for axis in points)], len(group))
    points, group = points[:, order], group[order]
    new = np.ones(len(group), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (points[:, 1:] != points[:, :-1]).any(axis=0)
    starts = np.flatnonzero(new)
    weights = np.diff(starts, append=len(group))
    at, group = np.ascontiguousarray(points[:, starts]), group[starts]
    most = int(np.bincount(group, weights=weights, minlength=number).max(initial=1))
    return _Points(at, group, weights, [_cut(axis, most) for axis in at])


def _in_order(axis: Any) -> Any:
    """Finite floats as int64 in the same order."""
    bits = axis.view(np.int64)
    return np.where(bits < 0, ~bits ^ np.int64(-(2**63)), bits)


def _cut(numbers: Any, most: int) -> list[Any]:
    """Numbers as parts that add up to them, and what is left. Sums of ``most`` of each part are exact, in any order."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if not SMALLEST < largest < LARGEST:
        return [np.zeros_like(numbers)] * CHUNKS + [numbers]
    step, top = 51 - most.bit_length(), int(np.frexp(largest)[1])
    parts, rest = [], numbers
    for at in range(1, CHUNKS + 1):
        turn = 1.5 * 2.0 ** (top - at * step + 52)
        part = (rest + turn) - turn
        parts.append(part)
        rest = rest - part
    return [*parts, rest]


def _out_of_range(some: _Points, number: int) -> Any:
    """The groups with numbers that could not be cut, or too many points."""
    lost = np.bincount(some.group, weights=some.weights, minlength=number) >= MOST
    for parts in some.parts:
        lost[some.group[parts[-1] != 0.0]] = True
    return lost


# ------------------------------------------------------------------------------------------- the first centres


def _drawn(some: _Points, number: int, k: int, draws: Sequence[float]) -> tuple[Any, Any]:
    """The first centres by k-means++ (float64, groups by ``k`` by dimensions; NaN where a group has no more), and the groups of
    which they are not certain."""
    sizes = np.bincount(some.group, minlength=number)
    starts = np.cumsum(sizes) - sizes
    centres = np.full((number, k, len(some.at)), np.nan)
    lost = np.zeros(number, np.bool_)
    distances = np.full(len(some.group), np.inf)
    for n in range(k):
        groups = np.flatnonzero(sizes > n)
        if not len(groups):
            break
        weights = some.weights.astype(np.float64)
        if n:
            with np.errstate(over="ignore"):
                distances = np.minimum(distances, _distance(some, centres[:, n - 1]))
                weights = np.where(sizes[some.group] > n, weights * distances, 0.0)
        places, sure = _draw(weights, some.group, starts, sizes, draws[n])
        lost |= ~sure & (sizes > n)
        centres[groups, n] = some.at[:, starts[groups] + places[groups]].T
    return centres, lost


def _draw(weights: Any, group: Any, starts: Any, sizes: Any, draw: float) -> tuple[Any, Any]:
    """For each group the place at which ``draw`` lies among its weights, and whether rounding makes no difference to it."""
    number = len(sizes)
    if not weights.max(initial=0.0) < LARGEST:
        return np.zeros(number, np.int64), np.zeros(number, np.bool_)
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    before = sums[starts]
    totals = sums[starts + sizes] - before
    aims = draw * totals
    so_far = sums[1:] - before[group]
    places = np.bincount(group[so_far <= aims[group]], minlength=number)
    error = (len(weights) + 8) * 2.0**-50 * sums[-1]
    unsure = np.bincount(group[np.abs(so_far - aims[group]) <= error], minlength=number) > 0
    return np.minimum(places, np.maximum(sizes - 1, 0)), ~unsure & (places < sizes)


# ------------------------------------------------------------------------------------------------- the rounds


def _distance(some: _Points, centres: Any) -> Any:
    """Of each point from a centre of its group, in the definition's order of operations."""
    total: Any = 0.0
    for axis, numbers in zip(some.at, centres.T, strict=True):
        apart = axis - numbers[some.group]
        total = total + apart * apart
    return total


def _nearest(some: _Points, centres: Any) -> Any:
    """The number of the nearest centre of each point, the first one of several."""
    with np.errstate(over="ignore"):
        least = _distance(some, centres[:, 0])
        nearest = np.zeros(len(some.group), np.int64)
        for n in range(1, centres.shape[1]):
            distance = _distance(some, centres[:, n])
            nearer = distance < least
            nearest[nearer] = n
            least = np.where(nearer, distance, least)
    return nearest


def _move(some: _Points, nearest: Any, centres: Any, active: Any) -> Any:
    """Move the centres of the active groups to the means of their points; the groups of which these are not certain."""
    k = centres.shape[1]
    number = len(active) * k
    place = some.group * k + nearest
    counts = np.bincount(place, weights=some.weights, minlength=number)
    full = np.flatnonzero(counts)
    lost = np.zeros(number, np.bool_)
    moved = centres[active].reshape(number, -1)
    for axis, parts in enumerate(some.parts):
        sums = [np.bincount(place, weights=one * some.weights, minlength=number)[full] for one in parts[:-1]]
        means, sure = rounded_means(sums, counts[full])
        moved[full, axis] = means
        lost[full] |= ~sure
    centres[active] = moved.reshape(len(active), k, -1)
    return lost.reshape(len(active), k).any(axis=1)


def _counted(some: _Points, centres: Any, doubtful: Any) -> Clusters:
    """The clusters that have points, in the order of their centres."""
    number, k, axes = centres.shape
    place = some.group * k + _nearest(some, centres)
    counts = np.bincount(place, weights=some.weights, minlength=number * k).astype(np.int64)
    full = np.flatnonzero(counts)
    found = np.ascontiguousarray(centres.reshape(number * k, axes)[full])
    columns = [SortKey.column(full // k), *(SortKey.column(_in_order(np.ascontiguousarray(axis))) for axis in found.T)]
    order = sorted_rows(columns, len(full))
    return Clusters(np.bincount(full // k, minlength=number), found[order], counts[full][order], doubtful)

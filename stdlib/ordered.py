"""Operators on the items of a key in order: gaps filled in, differences, running results, exponential means.

All take an ``O[K, V]``, so put ``sort(by=...)`` before them. The sort gives the order within a block, and blocks follow
one another. None of them reads the clock of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from tracetypes.errors import UsageError
from tracetypes.markers import Span, Time, TimeUnit, micros_from
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.annotations import returned
from tracetypes.stdlib.open_aggregates import over_aggregates, settled
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import seconds_as_micros, typed
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = [
    "Diff",
    "EwmMean",
    "EwmMeanOverTime",
    "Interpolate",
    "Pairwise",
    "Scan",
    "diff",
    "ewm_mean",
    "pairwise",
    "scan",
]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
A = TypeVar("A")
R = TypeVar("R")


# ------------------------------------------------------------------------------------------------- interpolation


@attrs.frozen
class Interpolate(OpKeyedOrdered[K, V, V, tuple[V, int, float] | None]):
    """See :func:`~tracetypes.stdlib.interpolate`. The state is the last reading, its time and its number."""

    _word = "interpolate"

    time: Callable[[V], int]
    number: Callable[[V], float]
    make: Callable[[V, int, float], V]
    step: int = 1
    max_gap: int | None = None

    def initial_state(self) -> tuple[V, int, float] | None:
        return None

    def on_item(self, state: tuple[V, int, float] | None, key: K, value: V, emit: EmitValue[V]) -> tuple[V, int, float]:
        end, after = self.time(value), self.number(value)
        if state is None:
            emit(value)
            return value, end, after
        last, start, before = state
        gap, rise, make = end - start, after - before, self.make
        if self.max_gap is not None and gap > self.max_gap:
            emit(value)
            return value, end, after
        for passed in range(self.step, gap + 1, self.step):
            emit(make(last, start + passed, before + passed * rise / gap))
        if gap % self.step and gap > 0:
            emit(value)
        return value, end, after


# ------------------------------------------------------------------------------------------------- from item to item


@attrs.frozen
class Diff(OpKeyedOrdered[K, V, float, float | None]):
    """See :func:`diff`. The state is the last number."""

    _word = "diff"

    number: Callable[[V], float]

    def initial_state(self) -> float | None:
        return None

    def on_item(self, state: float | None, key: K, value: V, emit: EmitValue[float]) -> float:
        number = self.number(value)
        if state is not None:
            emit(number - state)
        return number


def diff(number: Callable[[V], float]) -> OrderedOperator[V, float]:
    """The difference from each item of a key to the next; nothing for the first item. For integers the exact
    difference, as a float.

    >>> preview(diff(lambda x: x), O[str, float], [("a", 1.0), ("a", 3.5)], [("a", 3.0)])
    [[('a', 2.5)], [('a', -0.5)]]
    """
    return on_ordered(Diff(number))


@attrs.frozen
class Pairwise(OpKeyedOrdered[K, V, R, V | None]):
    """See :func:`pairwise`. The state is the last item."""

    _word = "pairwise"

    function: Callable[[V, V], R]
    result: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.result}

    def initial_state(self) -> V | None:
        return None

    def on_item(self, state: V | None, key: K, value: V, emit: EmitValue[R]) -> V | None:
        if state is not None:
            emit(self.function(state, value))
        return value


def pairwise(function: Callable[[V, V], W], *, to: type[W] | None = None) -> OrderedOperator[V, W]:
    """``function(item, next item)`` for all neighbours of a key.

    ``to``: the type that the function returns, where nothing else says it. Raises :class:`UsageError` ``TT120``. Values are
    not None.

    >>> preview(pairwise(lambda one, other: other > one, to=bool), O[str, int], [("a", 1), ("a", 3), ("a", 2)])
    [[('a', True), ('a', False)]]
    """

    def made(key: Any, value: Any) -> Any:
        return Pairwise(function, returned(function, to, "pairwise", arguments=(value, value)))

    return on_ordered(settled("pairwise", made))


@attrs.frozen
class Scan(OpKeyedOrdered[K, V, R, A]):
    """See :func:`scan`. The state is the aggregate of all items so far."""

    _word = "scan"

    aggregate: Aggregate[V, A, Any]

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate)

    def initial_state(self) -> A:
        return self.aggregate.identity()

    def on_item(self, state: A, key: K, value: V, emit: EmitValue[R]) -> A:
        agg = self.aggregate.combine(state, self.aggregate.lift(value))
        result: Any = self.aggregate.result(agg)
        emit(result)
        return agg


@over_aggregates
def scan(aggregate: Aggregate[V, A, W]) -> OrderedOperator[V, W]:
    """After each item of a key, the aggregate of all its items up to that one.

    >>> preview(scan(max(to=int)), O[str, int], [("a", 1), ("a", 3), ("a", 2)])
    [[('a', 1), ('a', 3), ('a', 3)]]
    """
    return on_ordered(Scan(aggregate))


# ------------------------------------------------------------------------------------------------- exponential means


@attrs.frozen
class EwmMean(OpKeyedOrdered[K, V, float, float | None]):
    """See :func:`ewm_mean`. The state is the last mean."""

    _word = "ewm_mean"

    number: Callable[[V], float]
    alpha: float

    def initial_state(self) -> float | None:
        return None

    def on_item(self, state: float | None, key: K, value: V, emit: EmitValue[float]) -> float:
        number = float(self.number(value))
        mean = number if state is None else state + self.alpha * (number - state)
        emit(mean)
        return mean


@attrs.frozen
class EwmMeanOverTime(OpKeyedOrdered[K, V, float, tuple[int, float] | None]):
    """See :func:`ewm_mean`. The state is the last time in microseconds and the mean."""

    _word = "ewm_mean"

    number: Callable[[V], float]
    half_life: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def initial_state(self) -> tuple[int, float] | None:
        return None

    def on_item(self, state: tuple[int, float] | None, key: K, value: V, emit: EmitValue[float]) -> tuple[int, float]:
        number, time = float(self.number(value)), micros_from(self.time(value), self.unit)
        if state is None:
            emit(number)
            return time, number
        last, mean = state
        passed = max(time - last, 0)
        mean += (1.0 - 0.5 ** (passed / self.half_life)) * (number - mean)
        emit(mean)
        return last + passed, mean


def ewm_mean(
    number: Callable[[V], float],
    *,
    alpha: float | None = None,
    half_life: Span | None = None,
    time: Callable[[V], Time] | None = None,
    unit: TimeUnit = "s",
) -> OrderedOperator[V, float]:
    """The exponentially weighted mean of each key after each item. The first item is the first mean.

    ``alpha`` (over 0, up to 1): the weight of each new item, ``mean += alpha * (number - mean)``. Or ``half_life``
    (seconds or a timedelta) with ``time`` and ``unit`` as in :func:`tracetypes.every`: the old mean keeps half of its
    weight after this time, ``mean += (1 - 0.5 ** (passed / half_life)) * (number - mean)``. An item with the time of
    the one before changes nothing. The order of the stream makes the floats the same at any parallelism.

    Raises :class:`UsageError` ``TT121`` unless exactly one of the two is given, and for numbers out of range.

    >>> given = [("a", 0), ("a", 1), ("a", 3)]
    >>> preview(ewm_mean(lambda x: x, alpha=0.5), O[str, int], given)
    [[('a', 0.0), ('a', 0.5), ('a', 1.75)]]
    >>> preview(ewm_mean(lambda x: x, half_life=1, time=lambda x: x), O[str, int], given)
    [[('a', 0.0), ('a', 0.5), ('a', 2.375)]]
    """
    op: Any
    if (alpha is None) == (half_life is None):
        raise UsageError("TT121", "alpha and half_life: one of them is needed", fix="give one of them")
    if (half_life is None) != (time is None):
        raise UsageError("TT121", "half_life and time go together", fix="give both or none of them")
    if alpha is not None:
        if isinstance(alpha, bool) or not (math.isfinite(alpha) and 0 < alpha <= 1):
            raise UsageError("TT121", f"alpha is {alpha!r}", fix="give an alpha over 0, up to 1")
        op = EwmMean(number, alpha)
    elif half_life is not None and time is not None:
        op = EwmMeanOverTime(number, seconds_as_micros("half_life", half_life), time, unit)
    return on_ordered(op)

"""Medians and other quantiles, exactly: they keep all numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar, overload

import attrs

from tracetypes.stdlib.aggregates import Aggregate, Measured
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.lists import Bag
from tracetypes.stdlib.sketches import fraction
from tracetypes.stdlib.sums import Real
from tracetypes.stdlib.where import restrict_if_any
from tracetypes.summaries import ExactRanks, Summary

__all__ = ["ExactQuantile", "ExactQuantiles", "exact_quantile", "exact_quantiles", "median"]

V = TypeVar("V")
W = TypeVar("W")


@attrs.frozen
class _Numbers(Measured[V, Bag, W], Generic[V, W]):
    """All numbers, in order. NaNs are last."""

    qs: tuple[float, ...]

    def lift(self, value: V) -> Bag:
        return Bag(((_placed(self.measure(value)),),))

    def identity(self) -> Bag:
        return Bag()

    def combine(self, a: Bag, b: Bag) -> Bag:
        return a | b

    def fold(self, agg: Bag, values: Sequence[V]) -> Bag:
        return agg | Bag((tuple([_placed(number) for number in self.measures(values)]),)) if values else agg

    def at(self, agg: Bag) -> list[float]:
        """The numbers at all places."""
        numbers = [number for _, _, number in agg.whole]
        if not numbers or numbers[-1] != numbers[-1]:
            return [math.nan] * len(self.qs)
        return [_at(numbers, q * (len(numbers) - 1)) for q in self.qs]

    def _summary(self) -> Summary[V] | None:
        ranks = ExactRanks[V](of=self.of, qs=self.qs, alone=isinstance(self, ExactQuantile))
        return Summary((ranks,), itemgetter(0))


def _placed(number: float) -> tuple[bool, float, float]:
    one = float(number) + 0.0
    return (True, 0.0, one) if one != one else (False, one, one)


def _at(numbers: Sequence[float], place: float) -> float:
    rank = math.floor(place)
    between, low = place - rank, numbers[rank]
    high = low if between == 0.0 else numbers[rank + 1]
    return low if low == high else low * (1.0 - between) + high * between


@attrs.frozen
class ExactQuantile(_Numbers[V, float], Generic[V]):
    """See :func:`exact_quantile`. ``word``: the function that made it."""

    _in_python = "keeps a list of any length"

    word: str = attrs.field(default="exact_quantile", eq=False, kw_only=True)

    def _name(self) -> str:
        return self.word

    def result(self, agg: Bag) -> float:
        return self.at(agg)[0]


@attrs.frozen
class ExactQuantiles(_Numbers[V, list[float]], Generic[V]):
    """See :func:`exact_quantiles`."""

    _word = "exact_quantiles"
    _in_python = "keeps a list of any length"

    def result(self, agg: Bag) -> list[float]:
        return self.at(agg)


@overload
def exact_quantile(q: float, of: None = None) -> Aggregate[Real, Any, float]: ...
@overload
def exact_quantile(q: float, of: Callable[[V], float]) -> Aggregate[V, Any, float]: ...
@overload
def exact_quantile(
    q: float, of: None = None, *, where: Callable[[Real], bool]
) -> Aggregate[Real, Any, float | None]: ...
@overload
def exact_quantile(
    q: float, of: Callable[[V], float], *, where: Callable[[V], bool]
) -> Aggregate[V, Any, float | None]: ...
def exact_quantile(q: float, of: Any = None, *, where: Any = None) -> Any:
    """The ``q``-quantile (``q`` from 0 to 1) of numbers taken as floats, as PERCENTILE_CONT of SQL: that of rank
    ``q * (n - 1)`` of ``n``, counted from 0. Between two ranks it is between their numbers in the same proportion. NaN if any
    value is NaN.

    The state keeps all numbers; :func:`quantile` keeps a bounded sketch and is off by at most ``accuracy``. ``where``: of the
    values for which it is true; None if there is none. Raises :class:`UsageError` ``TT121``.

    >>> evaluate(exact_quantile(0.25), [1.0, 2.0, 3.0])
    1.5
    """
    one = (fraction("exact_quantile", q),)
    return restrict_if_any("exact_quantile", ExactQuantile(function_or_none("exact_quantile", of), one), where)


@overload
def exact_quantiles(qs: Iterable[float], of: None = None) -> Aggregate[Real, Any, list[float]]: ...
@overload
def exact_quantiles(qs: Iterable[float], of: Callable[[V], float]) -> Aggregate[V, Any, list[float]]: ...
@overload
def exact_quantiles(
    qs: Iterable[float], of: None = None, *, where: Callable[[Real], bool]
) -> Aggregate[Real, Any, list[float] | None]: ...
@overload
def exact_quantiles(
    qs: Iterable[float], of: Callable[[V], float], *, where: Callable[[V], bool]
) -> Aggregate[V, Any, list[float] | None]: ...
def exact_quantiles(qs: Iterable[float], of: Any = None, *, where: Any = None) -> Any:
    """Several quantiles of the same numbers, which are kept once; see :func:`exact_quantile`.

    >>> evaluate(exact_quantiles([0, 0.5, 1]), [4, 1, 3, 2])
    [1.0, 2.5, 4.0]
    """
    several = tuple(fraction("exact_quantiles", q) for q in qs)
    return restrict_if_any("exact_quantiles", ExactQuantiles(function_or_none("exact_quantiles", of), several), where)


@overload
def median(of: None = None) -> Aggregate[Real, Any, float]: ...
@overload
def median(of: Callable[[V], float]) -> Aggregate[V, Any, float]: ...
@overload
def median(of: None = None, *, where: Callable[[Real], bool]) -> Aggregate[Real, Any, float | None]: ...
@overload
def median(of: Callable[[V], float], *, where: Callable[[V], bool]) -> Aggregate[V, Any, float | None]: ...
def median(of: Any = None, *, where: Any = None) -> Any:
    """The median, exactly: ``exact_quantile(0.5, of)``.

    >>> evaluate(median(), [5, 1, 2, 4])
    3.0
    """
    return restrict_if_any("median", ExactQuantile(function_or_none("median", of), (0.5,), word="median"), where)

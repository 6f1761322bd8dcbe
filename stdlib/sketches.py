"""Aggregates that count different values, and bounded sketches of many values."""

from __future__ import annotations

import builtins
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, cast, overload

import attrs

from tracetypes.errors import UsageError
from tracetypes.records import show
from tracetypes.stdlib.aggregates import Aggregate, Measured
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.orders import hash_of, likeness_of
from tracetypes.stdlib.sums import Real
from tracetypes.stdlib.where import restrict, restrict_if_any
from tracetypes.summaries import Distinct, Registers, Summary, ValuesOfRanks

__all__ = ["approx_count_distinct", "count_distinct", "fraction", "quantile", "quantiles"]

V = TypeVar("V")
W = TypeVar("W")


@attrs.frozen(eq=False)
class Members:
    """A set in parts, each at most half as large as the one before it. Adding to a set of ``n`` costs about ``log n``
    and not ``n``, although nothing is changed in place. Two are equal if the whole sets are."""

    parts: tuple[frozenset[Any], ...] = ()

    @property
    def whole(self) -> frozenset[Any]:
        """All members."""
        return frozenset[Any]().union(*self.parts)

    def __or__(self, other: Members) -> Members:
        merged: list[frozenset[Any]] = []
        smallest, *others = sorted([*self.parts, *other.parts], key=len) or [frozenset()]
        for part in others:
            if len(part) < 2 * len(smallest):
                smallest = part | smallest
            else:
                merged.append(smallest)
                smallest = part
        merged.append(smallest)
        return Members(tuple(merged[::-1]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and self.whole == other.whole

    def __hash__(self) -> int:
        return hash(self.whole)


@attrs.frozen
class CountDistinct(Measured[V, Members, int], Generic[V]):
    """See :func:`count_distinct`."""

    _word = "count_distinct"
    _in_python = "keeps a set of any size"

    def type_arguments(self) -> Mapping[str, Any]:
        return {}

    def lift(self, value: V) -> Members:
        return Members((frozenset((likeness_of(self.measure(value)),)),))

    def identity(self) -> Members:
        return Members()

    def combine(self, a: Members, b: Members) -> Members:
        return a | b

    def _summary(self) -> Summary[V] | None:
        return Summary((Distinct(of=self.of),), itemgetter(0))

    def result(self, agg: Members) -> int:
        return len(agg.whole)


def count_distinct(
    of: Callable[[V], Any] | None = None, *, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, int]:
    """The exact number of different values. The state keeps all of them. NaNs count as one value, and so do 0.0 and
    -0.0. ``where``: of the values for which it is true.

    >>> evaluate(count_distinct(), ["a", "b", "a"])
    2
    """
    aggregate: CountDistinct[V] = CountDistinct(function_or_none("count_distinct", of))
    return restrict("count_distinct", aggregate, where)  # type: ignore[no-any-return]


_SPARSE: Final = 32


@attrs.frozen
class ApproxCountDistinct(Measured[V, tuple[int, ...] | bytes, int], Generic[V]):
    """See :func:`approx_count_distinct`.

    An element of the monoid is either the registers that are not zero, as sorted numbers ``index * 64 + rank``, while
    they are few, or all registers as bytes. The registers alone decide which of the two, so equal sketches are equal
    values.
    """

    _word = "approx_count_distinct"
    _in_python = "keeps a sketch in bytes, and columns keep numbers only"

    precision: int

    def type_arguments(self) -> Mapping[str, Any]:
        return {}

    def lift(self, value: V) -> tuple[int, ...] | bytes:
        return (self.register(self.measure(value)),)

    def register(self, value: Any) -> int:
        """The register of a value, and its rank there."""
        hashed = hash_of(likeness_of(value))
        rest = hashed >> self.precision
        rank = 65 - self.precision - rest.bit_length()
        return (hashed & ((1 << self.precision) - 1)) << 6 | rank

    def identity(self) -> tuple[int, ...] | bytes:
        return ()

    def combine(self, a: tuple[int, ...] | bytes, b: tuple[int, ...] | bytes) -> tuple[int, ...] | bytes:
        if isinstance(a, bytes) and isinstance(b, bytes):
            return bytes(map(builtins.max, a, b))
        if isinstance(b, bytes):
            a, b = b, a
        if isinstance(a, bytes):
            for one in b:
                if a[one >> 6] < one & 63:
                    return self._dense(bytearray(a), cast("tuple[int, ...]", b))
            return a
        ranks: dict[int, int] = {}
        for one in sorted((*a, *b)):  # of one index the largest rank comes last
            ranks[one >> 6] = one & 63
        if len(ranks) > _SPARSE:
            return self._dense(bytearray(1 << self.precision), (*a, *cast("tuple[int, ...]", b)))
        return tuple(index << 6 | rank for index, rank in ranks.items())

    def _dense(self, registers: bytearray, sparse: tuple[int, ...]) -> bytes:
        for one in sparse:
            index, rank = one >> 6, one & 63
            if registers[index] < rank:
                registers[index] = rank
        return bytes(registers)

    def result(self, agg: tuple[int, ...] | bytes) -> int:
        registers = agg if isinstance(agg, bytes) else self._dense(bytearray(1 << self.precision), agg)
        return self.estimate([registers.count(rank) for rank in range(66 - self.precision)])

    def _summary(self) -> Summary[V] | None:
        part: Registers[V] = Registers(
            of=self.of, precision=self.precision, register=self.register, estimate=self.estimate
        )
        return Summary((part,), itemgetter(0))

    def estimate(self, counts: Sequence[int]) -> int:
        """The number of different values, from how many registers there are of each rank."""
        # Otmar Ertl, New cardinality estimation algorithms for HyperLogLog sketches (2017), algorithm 6.
        m, most = 1 << self.precision, 64 - self.precision
        total = m * _tau(1 - counts[most + 1] / m)
        for rank in range(most, 0, -1):
            total = 0.5 * (total + counts[rank])
        total += m * _sigma(counts[0] / m)
        return round(m * m / (2 * 0.6931471805599453 * total))


def _sigma(x: float) -> float:
    """``x + sum(x**(2**k) * 2**(k-1) for k = 1, 2, ...)``."""
    if x == 1.0:
        return math.inf
    total, y = x, 1.0
    while True:
        x *= x
        before = total
        total += x * y
        y += y
        if total == before:
            return total


def _tau(x: float) -> float:
    """``(1 - x - sum((1 - x**(2**-k))**2 * 2**-k for k = 1, 2, ...)) / 3``."""
    if x in (0.0, 1.0):
        return 0.0
    total, y = 1 - x, 1.0
    while True:
        x = math.sqrt(x)
        before = total
        y *= 0.5
        total -= (1 - x) * (1 - x) * y
        if total == before:
            return total / 3


def approx_count_distinct(
    of: Callable[[V], Any] | None = None, *, precision: int = 12, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, int]:
    """The approximate number of different values: HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007) over a
    64-bit hash.

    ``precision`` from 4 to 16: ``2**precision`` bytes a sketch, and a standard error of ``1.04 / 2**(precision / 2)``,
    1.6 % for 12. The same values give the same number, whatever the order and the number of copies.
    ``where``: of the values for which it is true.

    >>> evaluate(approx_count_distinct(), [n % 50 for n in range(1000)])
    50
    """
    if type(precision) is not int or not 4 <= precision <= 16:
        raise UsageError("TT121", f"approx_count_distinct was given precision={show(precision)}", fix="pass 4 to 16")
    aggregate: Any = ApproxCountDistinct(function_or_none("approx_count_distinct", of), precision)
    return restrict("approx_count_distinct", aggregate, where)  # type: ignore[no-any-return]


Buckets = tuple[int, tuple[tuple[int, int], ...]]
"""How many NaNs, and how many values in each bucket that holds any, in the order of the buckets."""


@attrs.frozen
class _Sketch(Measured[V, Buckets, W], Generic[V, W]):
    """Counts of values in buckets: a monoid because counts add up. Each power of two is cut into ``cuts`` buckets of equal
    width, numbered in the order of their values; the number of a bucket is computed without a logarithm, whose last bit
    differs between machines."""

    accuracy: float
    cuts: int = attrs.field(init=False, repr=False)

    @cuts.default
    def _cuts(self) -> int:
        return math.ceil(0.5 / self.accuracy)

    def lift(self, value: V) -> Buckets:
        number = self.measure(value)
        if number != number:
            return 1, ()
        return 0, ((self.bucket(number), 1),)

    def identity(self) -> Buckets:
        return 0, ()

    def combine(self, a: Buckets, b: Buckets) -> Buckets:
        if len(a[1]) < len(b[1]):
            a, b = b, a
        buckets = a[1]
        if len(b[1]) > 1:
            counts = dict(buckets)
            for bucket, count in b[1]:
                counts[bucket] = counts.get(bucket, 0) + count
            buckets = tuple(sorted(counts.items()))
        elif b[1]:
            ((bucket, count),) = b[1]
            at = bisect_left(buckets, (bucket, 0))
            if at < len(buckets) and buckets[at][0] == bucket:
                buckets = (*buckets[:at], (bucket, buckets[at][1] + count), *buckets[at + 1 :])
            else:
                buckets = (*buckets[:at], (bucket, count), *buckets[at:])
        return a[0] + b[0], buckets

    def bucket(self, number: float) -> int:
        """The bucket of a number: 0 for 0.0, positive for positive ones."""
        if number == 0:
            return 0
        if math.isinf(number):
            return self._infinite if number > 0 else -self._infinite
        fraction, exponent = math.frexp(abs(number))
        cut = builtins.min(int((2 * fraction - 1) * self.cuts), self.cuts - 1)
        bucket = (exponent + 1074) * self.cuts + cut + 1
        return bucket if number > 0 else -bucket

    def middle(self, bucket: int) -> float:
        """The number that stands for a bucket."""
        if bucket == 0:
            return 0.0
        if abs(bucket) == self._infinite:
            return math.copysign(math.inf, bucket)
        exponent, cut = divmod(abs(bucket) - 1, self.cuts)
        return math.copysign(math.ldexp(0.5 + (cut + 0.5) / (2 * self.cuts), exponent - 1074), bucket)

    @property
    def _infinite(self) -> int:
        return 2100 * self.cuts

    def at(self, agg: Buckets, q: float) -> float:
        """The value of rank ``floor(q * (n - 1))``, counted from 0; NaN when there is a NaN among the values."""
        nans, buckets = agg
        if nans:
            return math.nan
        rank = math.floor(q * (builtins.sum(count for _, count in buckets) - 1))
        for bucket, count in buckets:
            rank -= count
            if rank < 0:
                return self.middle(bucket)
        return math.nan

    def _of_ranks(self, qs: tuple[float, ...], *, alone: bool) -> Summary[V]:
        part = ValuesOfRanks[V](of=self.of, cuts=self.cuts, qs=qs, alone=alone, middle=self.middle)
        return Summary((part,), itemgetter(0))


@attrs.frozen
class Quantile(_Sketch[V, float], Generic[V]):
    """See :func:`quantile`."""

    _word = "quantile"
    _in_python = "keeps a list of buckets of any length"

    q: float

    def _summary(self) -> Summary[V] | None:
        return self._of_ranks((self.q,), alone=True)

    def result(self, agg: Buckets) -> float:
        return self.at(agg, self.q)


@attrs.frozen
class Quantiles(_Sketch[V, list[float]], Generic[V]):
    """See :func:`quantiles`."""

    _word = "quantiles"
    _in_python = "keeps a list of buckets of any length"

    qs: tuple[float, ...]

    def _summary(self) -> Summary[V] | None:
        return self._of_ranks(self.qs, alone=False)

    def result(self, agg: Buckets) -> list[float]:
        return [self.at(agg, q) for q in self.qs]


@overload
def quantile(q: float, of: None = None, *, accuracy: float = 0.01) -> Aggregate[Real, Any, float]: ...
@overload
def quantile(q: float, of: Callable[[V], float], *, accuracy: float = 0.01) -> Aggregate[V, Any, float]: ...
@overload
def quantile(
    q: float, of: None = None, *, accuracy: float = 0.01, where: Callable[[Real], bool]
) -> Aggregate[Real, Any, float | None]: ...
@overload
def quantile(
    q: float, of: Callable[[V], float], *, accuracy: float = 0.01, where: Callable[[V], bool]
) -> Aggregate[V, Any, float | None]: ...
def quantile(q: float, of: Any = None, *, accuracy: float = 0.01, where: Any = None) -> Any:
    """The approximate ``q``-quantile (``q`` from 0 to 1): the value of rank ``floor(q * (n - 1))`` of ``n``, counted
    from 0, with a relative error of at most ``accuracy`` (above 2.3e-308; 0.0 and infinities are exact). NaN if any
    value is NaN. ``where``: of the values for which it is true; None if there is none.

    Bucket counts with a bound on the relative error, as in DDSketch (Masson, Rim and Lee, VLDB 2019), but with buckets
    of equal width inside each power of two, as in HdrHistogram. The sketches of Apache DataSketches do not fit here:
    KLL and REQ choose at random what to forget, so the answer is not a function of the values; t-digest depends on the
    order.

    >>> evaluate(quantile(0.5, accuracy=0.001), [1.0, 2.0, 100.0])
    2.002
    """
    _accuracy("quantile", accuracy)
    aggregate: Any = Quantile(function_or_none("quantile", of), accuracy, fraction("quantile", q))
    return restrict_if_any("quantile", aggregate, where)


@overload
def quantiles(qs: Iterable[float], of: None = None, *, accuracy: float = 0.01) -> Aggregate[Real, Any, list[float]]: ...
@overload
def quantiles(
    qs: Iterable[float], of: Callable[[V], float], *, accuracy: float = 0.01
) -> Aggregate[V, Any, list[float]]: ...
@overload
def quantiles(
    qs: Iterable[float], of: None = None, *, accuracy: float = 0.01, where: Callable[[Real], bool]
) -> Aggregate[Real, Any, list[float] | None]: ...
@overload
def quantiles(
    qs: Iterable[float], of: Callable[[V], float], *, accuracy: float = 0.01, where: Callable[[V], bool]
) -> Aggregate[V, Any, list[float] | None]: ...
def quantiles(qs: Iterable[float], of: Any = None, *, accuracy: float = 0.01, where: Any = None) -> Any:
    """Several quantiles of one sketch; see :func:`quantile`.

    >>> evaluate(quantiles([0, 1], accuracy=0.001), [1, 2, 100])
    [1.001, 100.032]
    """
    _accuracy("quantiles", accuracy)
    fractions = tuple(fraction("quantiles", q) for q in qs)
    return restrict_if_any("quantiles", Quantiles(function_or_none("quantiles", of), accuracy, fractions), where)


def _accuracy(caller: str, accuracy: object) -> None:
    if not isinstance(accuracy, float) or not 0.0001 <= accuracy <= 0.5:
        raise UsageError("TT121", f"{caller} was given accuracy={show(accuracy)}", fix="pass 0.0001 to 0.5")


def fraction(caller: str, q: object) -> float:
    """``q`` as a float from 0 to 1. Raises :class:`UsageError` ``TT121``."""
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
        raise UsageError("TT121", f"{caller} was given q={show(q)}", fix="pass a number from 0 to 1, such as 0.99")
    return float(q)

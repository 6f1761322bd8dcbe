"""The different values, how often each occurs, the most frequent one, and the largest ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast, overload

import attrs

from tracetypes.errors import UsageError
from tracetypes.records import show
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.annotations import returned
from tracetypes.stdlib.open_aggregates import settled_aggregate
from tracetypes.stdlib.orders import likeness_of, order_of
from tracetypes.stdlib.where import restrict, restrict_if_any
from tracetypes.summaries import Listing, Summary

__all__ = ["Counted", "collect_set", "histogram", "mode", "top_distinct"]

V = TypeVar("V")
W = TypeVar("W")
T = TypeVar("T")

Seen = tuple[int, Any, Any]
"""How often a value occurs, its canonical order, and the value: of those that are equal as keys, the last in that order."""


@attrs.frozen(eq=False)
class Counts:
    """How often each different value occurs, in parts, each more than twice as large as the one behind it. Adding to ``n`` values
    costs about ``log n`` and not ``n``, although nothing is changed in place. Two are equal if the whole counts are."""

    parts: tuple[Mapping[Any, Seen], ...] = ()

    @property
    def whole(self) -> list[Seen]:
        """All different values, in their canonical order."""
        return sorted(_union(self.parts).values(), key=itemgetter(1))

    def __or__(self, other: Counts) -> Counts:
        merged: list[Mapping[Any, Seen]] = []
        smallest, *others = sorted([*self.parts, *other.parts], key=len) or [{}]
        for part in others:
            if len(part) < 2 * len(smallest):
                smallest = _union((part, smallest))
            else:
                merged.append(smallest)
                smallest = part
        merged.append(smallest)
        return Counts(tuple(merged[::-1]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self._plain == other._plain

    def __hash__(self) -> int:
        return hash(tuple(self._plain))

    @property
    def _plain(self) -> list[tuple[int, Any]]:
        return [seen[:2] for seen in self.whole]


def _union(parts: Sequence[Mapping[Any, Seen]]) -> dict[Any, Seen]:
    union = dict(parts[0]) if parts else {}
    for part in parts[1:]:
        for like, (count, order, value) in part.items():
            before = union.get(like)
            if before is not None:
                count += before[0]
                if before[1] > order:
                    _, order, value = before
            union[like] = count, order, value
    return union


@attrs.frozen
class _OfCounts(Aggregate[V, Counts, W], Generic[V, W]):
    """A function of how often each value occurs. ``to``: the type of ``of(value)``."""

    of: Callable[[V], Any] | None
    to: Any

    @property
    def _item(self) -> Any:
        return V if self.of is None else self.to  # type: ignore[misc]

    def lift(self, value: V) -> Counts:
        one = value if self.of is None else self.of(value)
        return Counts(({likeness_of(one): (1, order_of(one), one)},))

    def identity(self) -> Counts:
        return Counts()

    def combine(self, a: Counts, b: Counts) -> Counts:
        return a | b

    def fold(self, agg: Counts, values: Sequence[V]) -> Counts:
        return agg | Counts((_union([self.lift(value).parts[0] for value in values]),)) if values else agg


@attrs.frozen
class CollectSet(_OfCounts[V, W], Generic[V, W]):
    """See :func:`collect_set`."""

    _word = "collect_set"
    _in_python = "keeps a set of any size"

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": list[self._item]}  # type: ignore[name-defined]

    def result(self, agg: Counts) -> W:
        return cast(W, [value for _, _, value in agg.whole])

    def _summary(self) -> Summary[V] | None:
        return Summary((Listing(of=self.of, to=self.to, distinct=True),), itemgetter(0))


@overload
def collect_set(of: None = None, *, where: Callable[[V], bool] | None = None) -> Aggregate[V, Any, list[V]]: ...


@overload
def collect_set(
    of: Callable[[V], W], *, to: type[W] | None = None, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[W]]: ...


def collect_set(of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """The list of all different values, or of what ``of`` takes from them, in their canonical order: ``array_agg(DISTINCT ...)``
    of SQL. The state keeps all of them. Values are different as in :func:`count_distinct`: NaNs are one value, and so are 0.0 and
    -0.0, of which the last in the canonical order stays. ``to`` and ``where`` as in :func:`collect`. Raises
    :class:`UsageError` ``TT120``.

    >>> evaluate(collect_set(), ["b", "a", "b"])
    ['a', 'b']
    """

    def made(value: Any) -> Any:
        return restrict("collect_set", CollectSet(of, _type("collect_set", of, to, value)), where)

    return settled_aggregate("collect_set", made)


@attrs.frozen
class Counted(Generic[T]):
    """A value of :func:`histogram` with how often it occurs."""

    value: T
    count: int


@attrs.frozen
class Histogram(_OfCounts[V, W], Generic[V, W]):
    """See :func:`histogram`."""

    _word = "histogram"
    _in_python = "keeps a count for each different value"

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": list[Counted[self._item]]}  # type: ignore[name-defined]

    def result(self, agg: Counts) -> W:
        return cast(W, [Counted(value, count) for count, _, value in agg.whole])


@overload
def histogram(of: None = None, *, where: Callable[[V], bool] | None = None) -> Aggregate[V, Any, list[Counted[V]]]: ...


@overload
def histogram(
    of: Callable[[V], W], *, to: type[W] | None = None, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[Counted[W]]]: ...


def histogram(of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """How often each different value occurs, or of what ``of`` takes from them, as a list of ``Counted(value, count)`` in the
    canonical order of the values. The state keeps all different values. For bins of numbers ``of`` gives the bin:
    ``of=lambda x: x // 10 * 10``. Different, ``to`` and ``where`` as in :func:`collect_set`. Raises
    :class:`UsageError` ``TT120``.

    >>> evaluate(histogram(lambda n: n // 10 * 10, to=int), [3, 12, 17])
    [Counted(value=0, count=1), Counted(value=10, count=2)]
    """

    def made(value: Any) -> Any:
        return restrict("histogram", Histogram(of, _type("histogram", of, to, value)), where)

    return settled_aggregate("histogram", made)


@attrs.frozen
class Mode(_OfCounts[V, W], Generic[V, W]):
    """See :func:`mode`."""

    _word = "mode"
    _in_python = "keeps a count for each different value"

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self._item}

    def result(self, agg: Counts) -> W:
        best: Seen = max(agg.whole, key=itemgetter(0))
        return cast(W, best[2])


@overload
def mode(of: None = None) -> Aggregate[V, Any, V]: ...


@overload
def mode(of: None = None, *, where: Callable[[V], bool]) -> Aggregate[V, Any, V | None]: ...


@overload
def mode(of: Callable[[V], W], *, to: type[W] | None = None) -> Aggregate[V, Any, W]: ...


@overload
def mode(
    of: Callable[[V], W], *, to: type[W] | None = None, where: Callable[[V], bool]
) -> Aggregate[V, Any, W | None]: ...


def mode(of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """The most frequent value, or of what ``of`` takes from them; of several the first in the canonical order. The state keeps
    all different values. ``where``: of the values for which it is true; None if there is none. Different and ``to`` as
    in :func:`collect_set`. Raises :class:`UsageError` ``TT120``.

    >>> evaluate(mode(), ["b", "a", "b"])
    'b'
    """

    def made(value: Any) -> Any:
        return restrict_if_any("mode", Mode(of, _type("mode", of, to, value)), where)

    return settled_aggregate("mode", made)


PlacedOnce = tuple[Any, Any, Any]
"""The canonical order of a value, what it is as a key, and the value."""


@attrs.frozen
class TopDistinct(Aggregate[V, tuple[PlacedOnce, ...], W], Generic[V, W]):
    """See :func:`top_distinct`. An element of the monoid is the largest ``k`` different values, largest first."""

    _word = "top_distinct"
    _in_python = "keeps a list of values, and columns keep numbers only"

    k: int
    of: Callable[[V], Any] | None
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": list[V] if self.of is None else list[self.to]}  # type: ignore[name-defined]

    def lift(self, value: V) -> tuple[PlacedOnce, ...]:
        one = value if self.of is None else self.of(value)
        return ((order_of(one), likeness_of(one), one),)

    def identity(self) -> tuple[PlacedOnce, ...]:
        return ()

    def combine(self, a: tuple[PlacedOnce, ...], b: tuple[PlacedOnce, ...]) -> tuple[PlacedOnce, ...]:
        if len(b) == 1 and len(a) == self.k and b[0][0] <= a[-1][0]:
            return a
        last = {like: (order, like, value) for order, like, value in sorted(a + b, key=itemgetter(0))}
        return tuple(sorted(last.values(), key=itemgetter(0), reverse=True)[: self.k])

    def result(self, agg: tuple[PlacedOnce, ...]) -> W:
        return cast(W, [value for _, _, value in agg])

    def _summary(self) -> Summary[V] | None:
        return Summary((Listing(of=self.of, to=self.to, distinct=True, largest=self.k),), itemgetter(0))


@overload
def top_distinct(
    k: int, of: None = None, *, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[V]]: ...


@overload
def top_distinct(
    k: int, of: Callable[[V], W], *, to: type[W] | None = None, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[W]]: ...


def top_distinct(k: int, of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """The ``k`` largest different values (1 or more), or of what ``of`` takes from them, largest first: TOPKDISTINCT of ksqlDB.
    Values are compared in their canonical order, which is the natural one for numbers, text and times; NaN is the largest. The
    state keeps ``k`` values. Different, ``to`` and ``where`` as in :func:`collect_set`. Raises :class:`UsageError` ``TT120``,
    ``TT121``.

    >>> evaluate(top_distinct(2), [3, 1, 3, 2])
    [3, 2]
    """
    if type(k) is not int or k < 1:
        raise UsageError("TT121", f"top_distinct was given k={show(k)}", fix="pass a whole number from 1")

    def made(value: Any) -> Any:
        return restrict("top_distinct", TopDistinct(k, of, _type("top_distinct", of, to, value)), where)

    return settled_aggregate("top_distinct", made)


def _type(caller: str, of: Any, to: Any, value: Any) -> Any:
    """The type of what ``of`` takes from values of a type."""
    return None if of is None else returned(of, to, caller, arguments=(value,))

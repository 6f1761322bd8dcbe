"""The first and the last value in an order, and the first few, with ties and ranks."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar, cast, overload

import attrs

from tracetypes.choices import Choice
from tracetypes.errors import UsageError
from tracetypes.records import (
    show,
)
from tracetypes.self_description import SelfDescribing
from tracetypes.sort_keys import Orderable, desc
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.orders import order_of, place_of
from tracetypes.stdlib.where import restrict, restrict_if_any
from tracetypes.summaries import Ranking, Summary

__all__ = ["First", "Last", "Placed", "Ranked", "Top", "first", "last", "top"]

V = TypeVar("V")

Placed = tuple[Any, Any, V]
"""A value behind its place in an order, and its place among those that are equal there."""


AtPlace = tuple[Any, V]
"""A value behind its place in an order. Ties are compared when there are some: their canonical order costs more than a sum."""


@attrs.frozen
class Last(Aggregate[V, "AtPlace[V] | None", V]):
    """See :func:`last`."""

    _word = "last"
    _in_python = "compares whole values, and columns have only the order of numbers, times and booleans"

    by: Callable[[V], Any]

    def chooses(self) -> tuple[Choice[V], ...]:
        return (Choice(self.by),)

    def lift(self, value: V) -> AtPlace[V] | None:
        return place_of(self.by(value)), value

    def identity(self) -> AtPlace[V] | None:
        return None

    def combine(self, a: AtPlace[V] | None, b: AtPlace[V] | None) -> AtPlace[V] | None:
        if a is None or b is None:
            return a or b
        return b if _is_before(a, b) else a

    def result(self, agg: AtPlace[V] | None) -> V:
        return cast("AtPlace[V]", agg)[1]


@attrs.frozen
class First(Last[V], Generic[V]):
    """See :func:`first`."""

    _word = "first"

    def chooses(self) -> tuple[Choice[V], ...]:
        return (Choice(self.by, first=True),)

    def combine(self, a: AtPlace[V] | None, b: AtPlace[V] | None) -> AtPlace[V] | None:
        if a is None or b is None:
            return a or b
        return b if _is_before(b, a) else a


def _is_before(a: AtPlace[Any], b: AtPlace[Any]) -> bool:
    """Whether one value comes before another, ties in their canonical order."""
    if a[0] == b[0]:
        return bool(order_of(a[1]) < order_of(b[1]))
    return bool(a[0] < b[0])


@overload
def last(by: Callable[[V], Orderable]) -> Aggregate[V, Any, V]: ...


@overload
def last(by: Callable[[V], Orderable], *, where: Callable[[V], bool]) -> Aggregate[V, Any, V | None]: ...


@overload
def last(
    by: Callable[[V], Orderable], *, ties: Literal[True], where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[V]]: ...


def last(by: Any, *, ties: bool = False, where: Any = None) -> Any:
    """The value that is last in the order of ``by``, such as its time. Among ties it is the last one in the canonical
    order of whole values, so that the order of arrival does not matter. ``where``: of the values for which it is true;
    None if there is none.

    ``ties=True``: the list of all values that are last, as large as they are many, in the canonical order from the last.

    >>> evaluate(last(by=lambda text: len(text)), ["ab", "b", "aa"])
    'ab'
    >>> evaluate(last(by=lambda text: len(text), ties=True), ["ab", "b", "aa"])
    ['ab', 'aa']
    """
    function_or_none("last", by)
    if _flag("last", "ties", ties):
        return restrict("last", TopWithTies(1, by, word="last"), where)
    return restrict_if_any("last", Last(by), where)


@overload
def first(by: Callable[[V], Orderable]) -> Aggregate[V, Any, V]: ...


@overload
def first(by: Callable[[V], Orderable], *, where: Callable[[V], bool]) -> Aggregate[V, Any, V | None]: ...


@overload
def first(
    by: Callable[[V], Orderable], *, ties: Literal[True], where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[V]]: ...


def first(by: Any, *, ties: bool = False, where: Any = None) -> Any:
    """The value that is first in the order of ``by``, as :func:`last`. Among ties it is the first one in the canonical
    order of whole values; with ``ties=True`` the list of all, in the canonical order from the last.

    >>> evaluate(first(by=lambda text: len(text)), ["ab", "b", "a"])
    'a'
    """
    function_or_none("first", by)
    if _flag("first", "ties", ties):
        return restrict("first", TopWithTies(1, Reverse(by), word="first"), where)
    return restrict_if_any("first", First(by), where)


@attrs.frozen
class Reverse(Generic[V]):
    """The other way round."""

    by: Callable[[V], Orderable]

    def __call__(self, value: V) -> Orderable:
        return desc(self.by(value))


@attrs.frozen
class Ranked(Generic[V]):
    """A value of :func:`top` with its rank, from 1."""

    rank: int
    value: V


@attrs.frozen
class Top(Aggregate[V, tuple["Placed[V]", ...], list[V]], Generic[V]):
    """See :func:`top`. An element of the monoid is the best ``k`` values, best first."""

    _word = "top"
    _in_python = "keeps a list of values, and columns keep numbers only"

    k: int
    by: Callable[[V], Any]

    def chooses(self) -> tuple[Choice[V], ...]:
        return (Choice(self.by, self.k),)

    def lift(self, value: V) -> tuple[Placed[V], ...]:
        return ((place_of(self.by(value)), order_of(value), value),)

    def identity(self) -> tuple[Placed[V], ...]:
        return ()

    def combine(self, a: tuple[Placed[V], ...], b: tuple[Placed[V], ...]) -> tuple[Placed[V], ...]:
        if len(b) == 1 and len(a) == self.k and b[0][:2] <= a[-1][:2]:
            return a
        return tuple(sorted(a + b, key=itemgetter(0, 1), reverse=True)[: self.k])

    def _summary(self) -> Summary[V] | None:
        (choice,) = self.chooses()
        return Summary((Ranking(choice=choice),), itemgetter(0))

    def result(self, agg: tuple[Placed[V], ...]) -> list[V]:
        return [value for _, _, value in agg]


@attrs.frozen
class TopWithTies(Top[V], Generic[V]):
    """See :func:`top`. An element of the monoid holds the values that are as good as the last of the best ``k``, too.
    ``word``: the function that made it."""

    word: str = attrs.field(default="top", eq=False, kw_only=True)

    def _name(self) -> str:
        return self.word

    def chooses(self) -> tuple[Choice[V], ...]:
        return (Choice(self.by, self.k, "all"),)

    def combine(self, a: tuple[Placed[V], ...], b: tuple[Placed[V], ...]) -> tuple[Placed[V], ...]:
        if len(b) == 1 and len(a) >= self.k and b[0][0] < a[-1][0]:
            return a
        best, end = sorted(a + b, key=itemgetter(0, 1), reverse=True), self.k
        while end < len(best) and best[end][0] == best[end - 1][0]:
            end += 1
        return tuple(best[:end])


@attrs.frozen
class TopRanked(Aggregate[V, tuple["Placed[V]", ...], list[Ranked[V]]], Generic[V]):
    """The values of a top, each with its rank."""

    top: Top[V]

    def _stands_for(self) -> SelfDescribing:
        return self.top

    def _name(self) -> str:
        return self.top._name()

    def chooses(self) -> tuple[Choice[V], ...]:
        return self.top.chooses()

    def _summary(self) -> Summary[V] | None:
        (choice,) = self.chooses()
        return Summary((Ranking(choice=choice, ranked=Ranked),), itemgetter(0))

    def lift(self, value: V) -> tuple[Placed[V], ...]:
        return self.top.lift(value)

    def identity(self) -> tuple[Placed[V], ...]:
        return ()

    def combine(self, a: tuple[Placed[V], ...], b: tuple[Placed[V], ...]) -> tuple[Placed[V], ...]:
        return self.top.combine(a, b)

    def result(self, agg: tuple[Placed[V], ...]) -> list[Ranked[V]]:
        ranked: list[Ranked[V]] = []
        for at, (place, _, value) in enumerate(agg):
            tied = at > 0 and isinstance(self.top, TopWithTies) and place == agg[at - 1][0]
            ranked.append(Ranked(ranked[-1].rank if tied else at + 1, value))
        return ranked


@overload
def top(
    k: int, by: Callable[[V], Orderable], *, ties: bool = False, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[V]]: ...


@overload
def top(
    k: int,
    by: Callable[[V], Orderable],
    *,
    ranks: Literal[True],
    ties: bool = False,
    where: Callable[[V], bool] | None = None,
) -> Aggregate[V, Any, list[Ranked[V]]]: ...


def top(k: int, by: Any, *, ties: bool = False, ranks: bool = False, where: Any = None) -> Any:
    """The ``k`` values (1 or more) with the largest ``by(value)``, largest first. Among ties those that are last in the
    canonical order of whole values win. Equal values count as often as they come. ``where``: of the values for which it
    is true.

    ``ties=True``: and all values that tie with the last of them (FETCH FIRST k ROWS WITH TIES of SQL). ``ranks=True``:
    each as ``Ranked(rank, value)``. Ranks count from 1; with ties, values that tie have the same rank (RANK of SQL),
    otherwise each has its own (ROW_NUMBER). :func:`tracetypes.stdlib.explode` makes an item of each.

    >>> evaluate(top(2, by=abs), [1, -5, 3])
    [-5, 3]
    >>> evaluate(top(2, by=abs, ties=True, ranks=True), [1, -5, 3, -3])
    [Ranked(rank=1, value=-5), Ranked(rank=2, value=3), Ranked(rank=2, value=-3)]
    """
    if type(k) is not int or k < 1:
        raise UsageError("TT121", f"top was given k={show(k)}", fix="pass a whole number from 1")
    best: Top[Any] = (TopWithTies if _flag("top", "ties", ties) else Top)(k, function_or_none("top", by))
    return restrict("top", TopRanked(best) if _flag("top", "ranks", ranks) else best, where)


def _flag(caller: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("TT121", f"{caller} was given {name}={show(value)}", fix=f"pass {name}=True, or leave it out")
    return value

"""All values, as a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar, overload

import attrs

from tracetypes.sort_keys import Orderable
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.annotations import function_or_none, returned
from tracetypes.stdlib.open_aggregates import settled_aggregate
from tracetypes.stdlib.orders import order_of, place_of
from tracetypes.stdlib.where import restrict
from tracetypes.summaries import Listing, Summary

__all__ = ["Bag", "Collect", "collect"]

V = TypeVar("V")
W = TypeVar("W")


@attrs.frozen(eq=False)
class Bag:
    """Placed values in parts, each more than twice as long as the one behind it. Adding to a bag of ``n`` costs about
    ``log n`` and not ``n``, although nothing is changed in place. Two are equal if their values are."""

    parts: tuple[tuple[Any, ...], ...] = ()

    @property
    def whole(self) -> list[Any]:
        """All values, in their order."""
        return sorted([one for part in self.parts for one in part], key=itemgetter(0, 1))

    def __or__(self, other: Bag) -> Bag:
        merged: list[tuple[Any, ...]] = []
        smallest, *others = sorted([*self.parts, *other.parts], key=len) or [()]
        for part in others:
            if len(part) < 2 * len(smallest):
                smallest = part + smallest
            else:
                merged.append(smallest)
                smallest = part
        merged.append(smallest)
        return Bag(tuple(merged[::-1]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and [one[:2] for one in self.whole] == [one[:2] for one in other.whole]

    def __hash__(self) -> int:
        return hash(tuple([one[:2] for one in self.whole]))


@attrs.frozen
class Collect(Aggregate[V, Bag, W], Generic[V, W]):
    """See :func:`collect`."""

    _word = "collect"
    _in_python = "keeps a list of any length"

    of: Callable[[V], Any] | None
    by: Callable[[V], Any] | None
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": list[V] if self.of is None else list[self.to]}  # type: ignore[name-defined]

    def placed(self, value: V) -> Any:
        """A value behind its place and its canonical order."""
        part: Any = value if self.of is None else self.of(value)
        return () if self.by is None else place_of(self.by(value)), order_of(part), part

    def lift(self, value: V) -> Bag:
        return Bag(((self.placed(value),),))

    def identity(self) -> Bag:
        return Bag()

    def combine(self, a: Bag, b: Bag) -> Bag:
        return a | b

    def result(self, agg: Bag) -> W:
        values: Any = [value for _, _, value in agg.whole]
        return values  # type: ignore[no-any-return]

    def _summary(self) -> Summary[V] | None:
        return Summary((Listing(of=self.of, to=self.to, by=self.by),), itemgetter(0))

    def fold(self, agg: Bag, values: Sequence[V]) -> Bag:
        return agg | Bag((tuple([self.placed(value) for value in values]),)) if values else agg


@overload
def collect(
    of: None = None, *, by: Callable[[V], Orderable] | None = None, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[V]]: ...


@overload
def collect(
    of: Callable[[V], W],
    *,
    to: type[W] | None = None,
    by: Callable[[V], Orderable] | None = None,
    where: Callable[[V], bool] | None = None,
) -> Aggregate[V, Any, list[W]]: ...


def collect(of: Any = None, *, to: Any = None, by: Any = None, where: Any = None) -> Any:
    """The list of all values, or of what ``of`` takes from them: ``array_agg`` of SQL. The state keeps all of them.

    The order of arrival is not a function of the values, so it is not the order of the list. Its values are in the order
    of ``by(value)``; ties, and all values without ``by``, are in their canonical order. After ``sort(by=...)`` the same
    ``by`` gives the order of the stream. ``to``: the type of what ``of`` returns, where nothing else says it.
    ``where``: of the values for which it is true. Raises :class:`UsageError` ``TT120``, ``TT121``.

    >>> evaluate(collect(), ["b", "a", "b"])
    ['a', 'b', 'b']
    >>> evaluate(collect(by=len), ["bb", "aaa", "c"])
    ['c', 'bb', 'aaa']
    """
    function_or_none("collect", by)

    def made(value: Any) -> Any:
        result = None if of is None else returned(of, to, "collect", arguments=(value,))
        return restrict("collect", Collect(of, by, result), where)

    return settled_aggregate("collect", made)

"""Places in an order: the values that an author's function may return to sort by, and one total order of them.

Python's ``<`` is not a total order of them: NaN is neither before nor after any number, ``<`` of sets is inclusion,
times of one zone compare by their clocks, and with mixed types the order of arrival decides which values are compared.
So a sort does not compare the returned values, but their places.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import attrs

from tracetypes.conformance import micros_of
from tracetypes.records import show

__all__ = ["Desc", "NoSortKey", "Orderable", "Reversed", "desc", "sort_key"]

@attrs.frozen
class Desc:
    """See :func:`desc`."""

    value: Orderable


Orderable: TypeAlias = (
    bool | int | float | Decimal | str | bytes | dt.datetime | dt.date | Sequence["Orderable"] | Desc
)
"""What has a place: numbers but NaN, then text, bytes, times with a zone, times without, days, then tuples and lists of these
item by item; and any of these the other way round (:func:`desc`). Nothing else has one: no None, no set, no object with a
``<`` of its own."""


def desc(value: Orderable) -> Desc:
    """The value for an order from the largest to the smallest: DESC of SQL, for whatever may be sorted by.

    >>> by = lambda pair: (desc(pair[0]), pair[1])
    >>> sorted([("a", 1), ("b", 2), ("b", 1)], key=lambda pair: place(by(pair)))
    [('b', 1), ('b', 2), ('a', 1)]
    """
    return Desc(value)


@attrs.frozen(order=False)
class Reversed:
    """A place that is before another where its own is behind it."""

    own: Any

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.own < self.own)

    def __le__(self, other: Reversed) -> bool:
        return bool(other.own <= self.own)

    def __gt__(self, other: Reversed) -> bool:
        return bool(other.own > self.own)

    def __ge__(self, other: Reversed) -> bool:
        return bool(other.own >= self.own)


class NoSortKey(ValueError):
    """A value has no place in an order. ``giver``: what has given it."""

    def __init__(self, value: object, giver: str = "") -> None:
        super().__init__(f"{giver and giver + ' gave '}{show(value)}{giver and ', which'} has no place in an order")


def sort_key(value: Any, *, nan: bool = False, giver: str = "") -> Any:
    """The place of a value. Places are compared with each other, and are equal for equal values. ``nan``: NaN has a
    place too, after all other numbers. ``giver``: what has given the value, for messages. Raises :class:`NoSortKey`."""
    kind = type(value)
    if kind is int or kind is str:
        return (0 if kind is int else 2), value
    match value:
        case int():
            return 0, int(value)
        case float():
            if value == value:
                return 0, float(value)
            if nan:
                return (1,)
        case Decimal() if not value.is_nan():
            return 0, value
        case str():
            return 2, str.__str__(value)
        case bytes():
            return 3, bytes(value)
        case dt.datetime() if value.tzinfo is not None:
            return 4, micros_of(value)
        case dt.datetime():
            return 5, micros_of(value.replace(tzinfo=dt.UTC))
        case dt.date():
            return 6, value.toordinal()
        case tuple() | list():
            return 7, tuple([sort_key(one, nan=nan, giver=giver) for one in value])
        case Desc():
            return 8, Reversed(sort_key(value.value, nan=nan, giver=giver))
        case _:
            pass
    raise NoSortKey(value, giver)

"""Bags of values, for operators that hold items until a marker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.stdlib.orders import order_of

__all__ = ["Bag"]

V = TypeVar("V")


@attrs.frozen(eq=False)
class Bag(Generic[V]):
    """A bag of values of one type, as a tree of unions. A union costs nothing, and two bags are equal if their values are.

    The order of the values is that of the unions: what an operator emits for them must not depend on it."""

    parts: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[V]:
        pending: list[Any] = [self]
        while pending:
            one = pending.pop()
            if isinstance(one, Bag):
                pending.extend(one.parts)
            else:
                yield one

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __or__(self, other: Bag[V]) -> Bag[V]:
        if not self.parts or not other.parts:
            return self if self.parts else other
        return Bag((self, other))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bag) or bool(self) != bool(other):
            return False
        return self.parts is other.parts or sorted(map(order_of, self)) == sorted(map(order_of, other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        # Flat: a tree of unions would be pickled and copied by recursion, deeper than Python allows.
        return Bag, (tuple(self),)

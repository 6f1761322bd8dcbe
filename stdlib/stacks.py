"""A stack that is never changed, so that a state can share it with older states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

__all__ = ["Stack", "TwoStacks", "stack_of"]

A = TypeVar("A")
X = TypeVar("X")


@attrs.frozen(eq=False)
class Stack(Generic[X]):
    """A stack that is never changed: a push makes a new top, and old tops stay as they are. It has one or more
    elements."""

    top: X
    below: Stack[X] | None
    depth: int = attrs.field(init=False)

    @depth.default
    def _depth(self) -> int:
        return 1 if self.below is None else self.below.depth + 1

    def __iter__(self) -> Iterator[X]:
        at: Stack[X] | None = self
        while at is not None:
            yield at.top
            at = at.below

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stack) or self.depth != other.depth:
            return False
        mine: Stack[Any] | None = self
        theirs: Stack[Any] | None = other
        while mine is not None and theirs is not None:
            if mine is theirs:
                return True
            if mine.top is not theirs.top and mine.top != theirs.top:
                return False
            mine, theirs = mine.below, theirs.below
        return mine is theirs

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        # Flat: a chain would be pickled and copied by recursion, deeper than Python allows.
        return stack_of, (tuple(self)[::-1],)


def stack_of(elements: tuple[X, ...]) -> Stack[X] | None:
    """The stack after pushes of these elements, in this order."""
    stack: Stack[X] | None = None
    for one in elements:
        stack = Stack(one, stack)
    return stack


TwoStacks: TypeAlias = tuple[Stack[tuple[int, A]] | None, Stack[tuple[int, A]] | None, tuple[int, A]]

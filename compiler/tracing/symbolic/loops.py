"""Loops over ranges whose bounds are not known: the body is traced for one turn that stands for all.

So a turn must not depend on another one. What it assigns is left behind as :class:`TracedLeft`, which cannot be used; it cannot
change what was made outside of it, nor take from an iterator of outside, nor leave the loop early.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, final

from tracetypes.compiler.tracing.expr import Branch, Input, Leaf, Loop, Tree
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER
from tracetypes.compiler.tracing.symbolic.exploration import explored
from tracetypes.compiler.tracing.symbolic.method_calls import MethodCalls
from tracetypes.compiler.tracing.symbolic.paths import TracePath, Undo, isa
from tracetypes.compiler.tracing.symbolic.proxies import TracedLeft, TracedRange, TracedSymbol

__all__ = ["Loops"]


@final
class _Turns:
    """What a ``for`` goes through: the turn, once for each way through the body."""

    __slots__ = ("turns",)

    def __init__(self, turns: Iterator[Any]) -> None:
        self.turns = turns

    def __iter__(self) -> Iterator[Any]:
        return self.turns


class Loops(MethodCalls):
    """``range``, and what a ``for`` does."""

    def range_of(self, args: tuple[Any, ...]) -> TracedRange:
        """``range(*args)`` of values that are not all known."""
        bounds = [self.settle(arg) for arg in args]
        if not 1 <= len(bounds) <= 3 or any(self.kind(one) not in (INTEGER, BOOLEAN) for one in bounds):
            raise TypeError("range of other numbers")
        numbers = [self.as_number(one, INTEGER) for one in bounds]
        start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
        if self.truth(self.compare("Eq", step, 0)):
            raise ValueError("the step of a range is 0")
        return TracedRange(self, start, stop, step)

    def loop(self, value: Any, yields: bool) -> Any:
        """What a ``for`` goes through. ``yields``: whether its body does."""
        if not isa(value, TracedRange):
            return self.iterate(value)
        if yields:
            self.refuse("yields in a loop over a range of values")
        if self.now.trials:
            raise Undo
        return _Turns(self.turns(value))

    def turns(self, bounds: TracedRange) -> Iterator[Any]:
        """Explore the body of a loop, which runs where this yields."""
        path = self.now
        turn = self.intern(Input(("turn", path.loops), INTEGER))
        assert isinstance(turn, Input)
        path.loops += 1

        def once(forced: tuple[bool, ...]) -> Generator[Any, None, tuple[TracePath, Leaf]]:
            inside = path.turn(forced)
            self.run = inside
            yield TracedSymbol(self, turn)
            self.run = path
            path.conditions = inside.conditions
            if inside.ended is not None:
                raise inside.ended
            return inside, Leaf(tuple(inside.emissions))

        body = yield from explored(self, once, sure=path.partial, what="takes more than {} ways in a turn of a loop")
        if isinstance(body, Leaf) and not body.emissions:
            return
        if not _emits(body):
            self.refuse("loops over a range of values, of which only an error comes")
        start, stop, step = (self.expr(one) for one in (bounds._start, bounds._stop, bounds._step))
        path.emissions.append(Loop(start, stop, step, turn, body))

    def turning(self, loop: Any) -> bool:
        """Whether a ``for`` goes through the turns of a range of values."""
        return isa(loop, _Turns)

    def left(self, name: str) -> TracedLeft:
        """What a turn leaves in a variable."""
        return TracedLeft(self, name)

    def leave(self, how: str, *loops: Any) -> None:
        """A ``break`` or ``return``, which leaves these loops."""
        if any(map(self.turning, loops)):
            self.refuse(f"leaves a loop over a range of values by {how}")


def _emits(tree: Tree) -> bool:
    if isinstance(tree, Branch):
        return _emits(tree.then) or _emits(tree.otherwise)
    return bool(tree.emissions)

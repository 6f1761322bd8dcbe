"""Operators for windows of time, made of **panes**. A pane is the aggregate of one block of a key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import gcd
from typing import Any, Literal, TypeAlias, TypeVar

import attrs

from tracetypes.choices import Choice
from tracetypes.markers import Marker
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.products import summary_of
from tracetypes.stdlib.stacks import Stack, TwoStacks, stack_of
from tracetypes.stdlib.windows import Windowed, typed, windowed
from tracetypes.summaries import WholeBlock
from tracetypes.templates import Coarser, Emit, OpKeyedUnordered

__all__ = [
    "MOST_PANES",
    "Invertible",
    "Method",
    "SlidingPanes",
    "SlidingSubtracting",
    "SlidingTwoStacks",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")
S = TypeVar("S")


Method: TypeAlias = Literal["panes", "two stacks", "subtract"]


MOST_PANES = 64
"""Up to so many panes a window is a tuple, whose panes are combined where the window ends."""


class Invertible(Aggregate[V, A, W]):
    """An aggregate whose monoid is a group: what went in can be taken out again."""

    @abstractmethod
    def subtract(self, total: A, part: A) -> A:
        """``subtract(combine(a, b), b) == a``, exactly. Counts and sums of integers do; sums of floats do not."""


@attrs.frozen
class _Windows(OpKeyedUnordered[K, V, K, R, S, tuple[int, A]]):
    """The aggregate of the last ``panes`` blocks of a key, at the markers that end a window which holds items.

    ``period``: that of the markers, in microseconds; None where it is not known, and then every marker ends a window and
    ``ends`` is not asked for. Windows begin at the multiples of ``slide * period`` plus ``offset`` microseconds. ``word``: the
    function that made it.
    """

    forgets_idle = True
    may_change = ("word",)

    aggregate: Aggregate[V, A, Any]
    panes: int
    slide: int = 1
    period: int | None = None
    ends: bool = False
    offset: int = 0
    word: str = attrs.field(default="sliding", eq=False, kw_only=True)

    def _name(self) -> str:
        return self.word

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Windowed if self.ends else None)

    def chooses(self) -> tuple[Choice[V], ...]:
        return self.aggregate.chooses()

    def lift(self, key: K, value: V) -> tuple[int, A]:
        return 1, self.aggregate.lift(value)

    def identity(self) -> tuple[int, A]:
        return 0, self.aggregate.identity()

    def combine(self, a: tuple[int, A], b: tuple[int, A]) -> tuple[int, A]:
        return a[0] + b[0], self.aggregate.combine(a[1], b[1])

    @abstractmethod
    def window(self, state: S) -> tuple[int, A]:
        """The aggregate of all panes of a state."""

    def linger(self) -> int:
        return self.panes - 1

    def tumbles(self) -> tuple[int, int] | None:
        if self.period is None or self.slide != self.panes:
            return None
        return self.panes * self.period, self.offset

    def coarser(self) -> Coarser | None:
        blocks = gcd(self.panes, self.slide)
        if self.period is None or blocks == 1:
            return None
        size = blocks * self.period
        op = attrs.evolve(self, panes=self.panes // blocks, slide=self.slide // blocks, period=size)
        return Coarser(op, blocks, size, self.offset)

    def on_marker(self, new_state: S, key: K, marker: Marker, emit: Emit[K, R]) -> None:
        start = marker.micros if self.period is None else marker.micros - self.panes * self.period
        if self.period is not None and (start - self.offset) % (self.slide * self.period):
            return
        count, agg = self.window(new_state)
        if count > 0:
            self.emit_result(key, self.aggregate.result(agg), marker, emit)

    def _whole_block(self) -> WholeBlock[V] | None:
        if self.panes != self.slide:
            return None
        return WholeBlock(self.aggregate._summary(), self.emit_result, self.panes == 1 and self.period is None)

    def _grid(self) -> tuple[int, int] | None:
        """Size and offset of the grid on which windows end, in microseconds; None where each marker ends one."""
        return None if self.period is None else (self.slide * self.period, self.panes * self.period + self.offset)

    def emit_result(self, key: K, result: Any, marker: Marker, emit: Emit[K, R]) -> None:
        """What is emitted of the result for a window."""
        if self.ends:
            start = marker.micros if self.period is None else marker.micros - self.panes * self.period
            result = windowed(start, marker.micros, result)
        emit(key, result)


@attrs.frozen
class SlidingPanes(_Windows[K, V, R, tuple[tuple[int, A], ...], A]):
    """The panes in a tuple of fixed length. Each key and marker costs a copy of it, and each emitted window ``panes`` times
    ``combine``."""

    def initial_state(self) -> tuple[tuple[int, A], ...]:
        return (self.identity(),) * self.panes

    def update_state(self, state: tuple[tuple[int, A], ...], agg: tuple[int, A]) -> tuple[tuple[int, A], ...]:
        return (*state[1:], agg)

    def _whole_block(self) -> WholeBlock[V] | None:
        if self.panes == self.slide:
            return super()._whole_block()
        if type(self) is not SlidingPanes:  # a subclass may do something else
            return None
        summary = summary_of(self.aggregate)
        if summary is None:
            return None
        return WholeBlock(summary, self.emit_result, always=False, reach=self.panes - 1, grid=self._grid())

    def window(self, state: tuple[tuple[int, A], ...]) -> tuple[int, A]:
        total = state[0]
        for pane in state[1:]:
            total = self.combine(total, pane)
        return total


@attrs.frozen
class _InStacks(_Windows[K, V, R, TwoStacks[A], A]):
    """The panes as a queue of two stacks."""

    _in_python = "keeps its panes in a list of any length"

    def initial_state(self) -> TwoStacks[A]:
        return stack_of((self.identity(),) * self.panes), None, self.identity()

    def coarser(self) -> Coarser | None:
        coarse = super().coarser()
        if coarse is None or self.panes != self.slide:
            return coarse
        # Windows that do not overlap have a single pane then, and nothing to keep in stacks.
        op: SlidingPanes[K, V, R, A] = SlidingPanes(self.aggregate, 1, 1, coarse.size, self.ends, self.offset, word=self.word)
        return attrs.evolve(coarse, op=op)


@attrs.frozen
class SlidingTwoStacks(_InStacks[K, V, R, A]):
    """A queue of panes as two stacks, for any aggregate. Each key and marker costs three times ``combine`` on average,
    whatever the number of panes.

    The first stack has the old panes, each as the aggregate of all panes from there on. The second has the new ones, beside their
    aggregate. When the first is empty, the second is turned over on it, and that marker costs ``panes`` times ``combine``.
    """

    def update_state(self, state: TwoStacks[A], agg: tuple[int, A]) -> TwoStacks[A]:
        old, new, total = state
        left, pushed = None if old is None else old.below, Stack(agg, new)
        if left is not None:
            return left, pushed, self.combine(total, agg)
        suffix = self.identity()
        for pane in pushed:
            suffix = self.combine(suffix, pane)
            left = Stack(suffix, left)
        return left, None, self.identity()

    def window(self, state: TwoStacks[A]) -> tuple[int, A]:
        old, _, total = state
        return total if old is None else self.combine(old.top, total)


@attrs.frozen
class SlidingSubtracting(_InStacks[K, V, R, A]):
    """For an :class:`Invertible` aggregate: each key and marker costs one ``combine`` and one ``subtract``. The state is a queue
    of the panes, as in :class:`SlidingTwoStacks`, and the aggregate of all of them."""

    def update_state(self, state: TwoStacks[A], agg: tuple[int, A]) -> TwoStacks[A]:
        old, new, total = state
        assert old is not None, "a window has a pane or more"
        assert isinstance(self.aggregate, Invertible)
        grown, first = self.combine(total, agg), old.top
        total = grown[0] - first[0], self.aggregate.subtract(grown[1], first[1])
        left, pushed = old.below, Stack(agg, new)
        if left is not None:
            return left, pushed, total
        for pane in pushed:
            left = Stack(pane, left)
        return left, None, total

    def window(self, state: TwoStacks[A]) -> tuple[int, A]:
        return state[2]

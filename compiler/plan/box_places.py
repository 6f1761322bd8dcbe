"""Where the boxes of a graph stand that changes while somebody looks at it.

A box keeps its place as long as it is there. One that comes stands in the first row below all boxes that it reads from, in the
free column that is nearest to them. (:mod:`tracetypes.compiler.plan.layout` draws one graph as well as it can, and may put every
box elsewhere when one comes.) An operator never reads from one that comes later, so boxes that stay never have to move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["BoxPlaces", "Place"]


class Place(NamedTuple):
    """Of a box, from 0."""

    row: int
    column: int


class BoxPlaces:
    """The places of boxes by name, from one picture to the next."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._free: dict[int, set[int]] = {}
        """Columns left of the last box of a row in which no box stands, by row."""
        self._ends: dict[int, int] = {}
        """The first column right of all boxes of a row."""

    def of(self, graph: Mapping[str, Sequence[str]]) -> dict[str, Place]:
        """The places of these boxes. ``graph``: the boxes that each reads from, which stand before it."""
        for name in [one for one in self._places if one not in graph]:
            row, column = self._places.pop(name)
            self._free.setdefault(row, set()).add(column)
        for name, inputs in graph.items():
            if name not in self._places:
                self._places[name] = self._new([self._places[one] for one in inputs])
        return {name: self._places[name] for name in graph}

    def _new(self, above: Sequence[Place]) -> Place:
        row = 1 + max((one.row for one in above), default=-1)
        wanted = round(sum(one.column for one in above) / len(above)) if above else 0
        free, end = self._free.setdefault(row, set()), self._ends.get(row, 0)
        best = min((*free, max(end, wanted)), key=lambda column: (abs(column - wanted), column))
        if best >= end:
            free.update(range(end, best))
            self._ends[row] = best + 1
        free.discard(best)
        return Place(row, best)

"""The elements of a stream in order, with long pauses as runs of markers.

:class:`Elements` is a sequence like the tuple of all of them, and takes as much memory as its items and pauses. Whoever goes
through a stream takes it in :func:`pieces`, where a pause is one piece.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Final, TypeAlias, TypeVar, final, overload

from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker

__all__ = ["Elements", "Piece", "elements", "is_long", "mark", "pieces"]

T = TypeVar("T")

LONG = 1_000
"""Markers over empty blocks from which on they are kept as a run. Fewer are elements like others."""

SHOWN: Final = 3
"""So many markers are printed of each end of a pause."""

Piece: TypeAlias = T | MarkerRuns
"""An element, or markers over empty blocks."""


def is_long(markers: MarkerRuns) -> bool:
    """Are these so many markers that they are kept as a run?"""
    return len(markers) >= LONG


def mark(stream: list[Any], markers: MarkerRuns) -> None:
    """Add markers over empty blocks to the pieces of a stream: one by one, or as one piece if they are many."""
    if is_long(markers):
        stream.append(markers)
    else:
        stream.extend(map(Marker, markers))


def pieces(stream: Iterable[T]) -> Iterator[Piece[T]]:
    """The elements of a stream, with pauses as one piece."""
    if not isinstance(stream, Elements):
        yield from stream
        return
    for part in stream.parts:
        yield from (part,) if isinstance(part, MarkerRuns) else part


def elements(stream: Iterable[Piece[T]]) -> Sequence[T]:
    """The elements of pieces. They are a tuple if no pause among them is long."""
    parts: list[tuple[T, ...] | MarkerRuns] = []
    some: list[T] = []
    for piece in stream:
        if not isinstance(piece, MarkerRuns):
            some.append(piece)
        elif not is_long(piece):
            mark(some, piece)
        else:
            parts += [tuple(some), piece] if some else [piece]
            some = []
    if not parts:
        return tuple(some)
    return Elements([*parts, tuple(some)] if some else parts)


@final
class Elements(Sequence[Any]):
    """Elements in order. ``parts``: some that follow one another, or markers over empty blocks."""

    def __init__(self, parts: Sequence[tuple[Any, ...] | MarkerRuns]) -> None:
        self.parts = tuple(parts)

    @cached_property
    def _ends(self) -> list[int]:
        """How many elements there are up to the end of each part."""
        return list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self.parts else 0

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(map(Marker, part) if isinstance(part, MarkerRuns) else part for part in self.parts)

    def __reversed__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self) - 1, -1, -1))

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            return self._cut(start, stop) if step == 1 else tuple(self[one] for one in range(start, stop, step))
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError("tuple index out of range")
        place = bisect_right(self._ends, number)
        part = self.parts[place]
        number -= self._ends[place - 1] if place else 0
        return Marker(part[number]) if isinstance(part, MarkerRuns) else part[number]

    def _cut(self, start: int, stop: int) -> Sequence[Any]:
        cut: list[Any] = []
        for part, end in zip(self.parts, self._ends, strict=True):
            begin = end - len(part)
            some = part[max(start - begin, 0) : max(stop - begin, 0)]
            cut += [some] if isinstance(some, MarkerRuns) and some else some
        return elements(cut)

    def __add__(self, other: Iterable[Any]) -> Sequence[Any]:
        return elements(chain(pieces(self), pieces(other)))

    def __radd__(self, other: Iterable[Any]) -> Sequence[Any]:
        return elements(chain(pieces(other), pieces(self)))

    def __contains__(self, element: object) -> bool:
        for part in self.parts:
            if not isinstance(part, MarkerRuns):
                if element in part:
                    return True
            elif isinstance(element, Marker) and element.micros in part:
                return True
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Elements | tuple):
            return NotImplemented
        if len(self) != len(other):
            return False
        if isinstance(other, tuple):
            return all(one == another for one, another in zip(self, other, strict=True))
        ends = sorted({*self._ends, *other._ends})
        return all(
            _same(self._part(start, stop), other._part(start, stop)) for start, stop in zip([0, *ends], ends, strict=False)
        )

    def _part(self, start: int, stop: int) -> tuple[Any, ...] | MarkerRuns:
        """Elements that lie in one part."""
        place = bisect_right(self._ends, start)
        before = self._ends[place - 1] if place else 0
        return self.parts[place][start - before : stop - before]

    def __hash__(self) -> int:
        return hash(tuple(self)) if len(self) <= 1_000 * LONG else hash((len(self), self[0], self[-1]))

    def __repr__(self) -> str:
        shown: list[str] = []
        for part in self.parts:
            if isinstance(part, MarkerRuns) and len(part) > 4 * SHOWN:
                shown += [str(Marker(one)) for one in part[:SHOWN]]
                shown += [f"... {len(part) - 2 * SHOWN:,} markers ..."]
                shown += [str(Marker(one)) for one in part[-SHOWN:]]
            else:
                shown += map(repr, map(Marker, part) if isinstance(part, MarkerRuns) else part)
        return f"({', '.join(shown)})"


def _same(one: tuple[Any, ...] | MarkerRuns, other: tuple[Any, ...] | MarkerRuns) -> bool:
    """Are these the same elements?"""
    if isinstance(one, MarkerRuns) and isinstance(other, MarkerRuns):
        return one == other
    if isinstance(one, tuple) and isinstance(other, tuple):
        return one == other
    runs, some = (other, one) if isinstance(one, tuple) else (one, other)
    return runs == [each.micros if isinstance(each, Marker) else None for each in some]

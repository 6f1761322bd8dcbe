"""Markers as runs: a pause of any length is a few numbers (design, corner 16).

A source with event time sends a marker each period, also while nothing comes. So its markers are one range, however long, and
those of a merge are the union of one for each source. :class:`MarkerRuns` is such a union: a sequence of markers, each once, in
order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge as merged
from itertools import accumulate, groupby, pairwise
from math import gcd
from typing import Final, TypeAlias, final, overload

__all__ = ["NO_MARKERS", "MarkerRuns", "ranges_of", "runs_of"]

Overlapping: TypeAlias = tuple[range, ...]
"""Ranges that overlap in time; none has all markers of another one."""

SHOWN: Final = 20
"""So many markers are printed one by one."""


def ranges_of(markers: Iterable[int]) -> tuple[range, ...]:
    """Markers in their order as ranges, as few as follow from one look at each."""
    ranges: list[range] = []
    for marker in markers:
        last = ranges[-1] if ranges else None
        if last is not None and len(last) == 1 and marker > last.start:
            ranges[-1] = range(last.start, marker + 1, marker - last.start)
        elif last is not None and len(last) > 1 and marker == last[-1] + last.step:
            ranges[-1] = range(last.start, marker + 1, last.step)
        else:
            ranges.append(range(marker, marker + 1))
    return tuple(ranges)


@final
class MarkerRuns(Sequence[int]):
    """Markers in microseconds, each once, in order: the union of ``ranges``, which may overlap."""

    def __init__(self, ranges: Iterable[range] = ()) -> None:
        self.parts = _parts([one for one in ranges if one])

    @property
    def ranges(self) -> tuple[range, ...]:
        """Ranges whose union this is."""
        return tuple(one for part in self.parts for one in part)

    @cached_property
    def _lasts(self) -> list[int]:
        """The last marker of each part."""
        return [max(one[-1] for one in part) for part in self.parts]

    @cached_property
    def _counts(self) -> list[int]:
        """How many markers there are up to the end of each part."""
        return list(accumulate(map(_size, self.parts)))

    # ------------------------------------------------------------------------------------------------ a sequence

    def __len__(self) -> int:
        return self._counts[-1] if self.parts else 0

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __iter__(self) -> Iterator[int]:
        for part in self.parts:
            if len(part) == 1:
                yield from part[0]
            else:
                yield from (marker for marker, _ in groupby(merged(*part)))

    def __contains__(self, marker: object) -> bool:
        if not isinstance(marker, int):
            return False
        at = bisect_left(self._lasts, marker)
        return at < len(self.parts) and any(marker in one for one in self.parts[at])

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> MarkerRuns: ...
    def __getitem__(self, at: int | slice) -> int | MarkerRuns:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                return runs_of(self[one] for one in range(start, stop, step))
            return self.between(self[start], self[stop - 1]) if start < stop else NO_MARKERS
        if at == -1 and self.parts:
            return self._lasts[-1]
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(at)
        place = bisect_left(self._counts, number + 1)
        part = self.parts[place]
        number -= self._counts[place - 1] if place else 0
        return part[0][number] if len(part) == 1 else _at(part, number)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MarkerRuns):
            return self.parts == other.parts or (len(self) == len(other) == len(self | other))
        if isinstance(other, list | tuple):
            return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((len(self), self[0], self[-1])) if self else 0

    def __reduce__(self) -> tuple[type[MarkerRuns], tuple[tuple[range, ...]]]:
        return MarkerRuns, (self.ranges,)

    def __repr__(self) -> str:
        if len(self) <= SHOWN:
            return f"MarkerRuns({list(self)})"
        return f"MarkerRuns({len(self):,} from {self[0]} to {self[-1]})"

    # ------------------------------------------------------------------------------------------------ times

    def __or__(self, other: MarkerRuns) -> MarkerRuns:
        """The markers of both."""
        if not other or not self:
            return self or other
        return MarkerRuns((*self.ranges, *other.ranges))

    def between(self, first: int, last: int) -> MarkerRuns:
        """The markers from ``first`` to ``last``."""
        if self.parts and first <= self[0] and self[-1] <= last:
            return self
        start = bisect_left(self._lasts, first)
        cut: list[range] = []
        for part in self.parts[start:]:
            if part[0].start > last:
                break
            cut.extend(_cut(one, first, last) for one in part)
        return MarkerRuns(cut)

    def up_to(self, last: int) -> MarkerRuns:
        """The markers up to a time."""
        return self.between(self[0], last) if self else self

    def after(self, time: int) -> MarkerRuns:
        """The markers behind a time."""
        return self.between(time + 1, self[-1]) if self else self

    def next(self, time: int) -> int | None:
        """The first marker that is not before a time."""
        at = bisect_left(self._lasts, time)
        if at == len(self.parts):
            return None
        return min(one.start + max(0, -((one.start - time) // one.step)) * one.step for one in self.parts[at] if one[-1] >= time)

    def before(self, time: int) -> int | None:
        """The last marker before a time."""
        at = bisect_left(self._lasts, time)
        if at < len(self.parts) and self.parts[at][0].start < time:
            return max(one[min((time - 1 - one.start) // one.step, len(one) - 1)] for one in self.parts[at] if one.start < time)
        return self._lasts[at - 1] if at else None

    def count(self, first: int, last: int | None = None) -> int:
        """How many markers there are from ``first`` to ``last``, or at ``first``."""
        return len(self.between(first, first if last is None else last))

    def on_grid(self, size: int, offset: int) -> MarkerRuns:
        """The markers that are multiples of ``size`` plus ``offset``."""
        return MarkerRuns(_common(one, _grid(one, size, offset)) for one in self.ranges)


# ---------------------------------------------------------------------------------------------------- arithmetic


def _parts(ranges: list[range]) -> tuple[Overlapping, ...]:
    """Ranges by time: those that overlap are one part."""
    if len(ranges) > 1:
        ranges.sort(key=lambda one: (one.start, -one[-1], one.step))
    parts: list[Overlapping] = []
    pending: list[range] = []
    end = 0
    for one in ranges:
        if pending and one.start > end:
            _add(parts, pending)
            pending = []
        end = max(end, one[-1]) if pending else one[-1]
        pending.append(one)
    if pending:
        _add(parts, pending)
    return tuple(parts)


def _add(parts: list[Overlapping], ranges: list[range]) -> None:
    """Add ranges that overlap, cut where one of them begins or ends. So a part has as many ranges as sources send at a time."""
    if len(ranges) > 1:
        ranges = _needed(ranges)
    if len(ranges) == 1:
        _append(parts, (ranges[0],))
        return
    ends = sorted({time for one in ranges for time in (one.start, one[-1] + 1)})
    active: list[range] = []
    coming = iter(ranges)
    upcoming = next(coming, None)
    for first, until in pairwise(ends):
        active = [one for one in active if one[-1] >= first]
        while upcoming is not None and upcoming.start <= first:
            active.append(upcoming)
            upcoming = next(coming, None)
        if cut := [part for one in active if (part := _cut(one, first, until - 1))]:
            _append(parts, tuple(_needed(sorted(cut, key=lambda one: one.start))))


def _append(parts: list[Overlapping], part: Overlapping) -> None:
    """Add a part, to the last one if the two are one range."""
    if len(part) == 1 and parts and len(parts[-1]) == 1:
        ((one,), (other,)) = parts[-1], part
        step = one.step if len(one) > 1 else other.step if len(other) > 1 else other.start - one.start
        if other.start == one[-1] + step and (len(other) == 1 or other.step == step):
            parts[-1] = (range(one.start, other[-1] + 1, step),)
            return
    parts.append(part)


def _needed(ranges: Sequence[range]) -> list[range]:
    """Those that are not part of another one. Ranges of one step that follow one another in a grid are one."""
    needed: list[range] = []
    for one in ranges:
        for at, other in enumerate(needed):
            if one.start in other or one.start == other[-1] + other.step:
                if one[-1] <= other[-1] and (len(one) == 1 or one.step % other.step == 0):
                    break
                if one.step == other.step or len(one) == 1:
                    needed[at] = range(other.start, max(one[-1], other[-1]) + 1, other.step)
                    break
        else:
            needed.append(one)
    return needed


def _cut(one: range, first: int, last: int) -> range:
    """The part of a range from ``first`` to ``last``."""
    start = max(0, -((one.start - first) // one.step))
    return one[start : max(0, (last - one.start) // one.step + 1)]


def _grid(one: range, size: int, offset: int) -> range:
    """The multiples of ``size`` plus ``offset`` in the time of a range."""
    first = offset - (offset - one.start) // size * size
    return range(first, one[-1] + 1, size)


def _common(one: range, other: range) -> range:
    """The markers of both, by the Chinese remainder theorem."""
    if not one or not other:
        return range(0)
    common = gcd(one.step, other.step)
    if (other.start - one.start) % common:
        return range(0)
    step = one.step // common * other.step
    times = (other.start - one.start) // common * pow(one.step // common, -1, other.step // common) % (other.step // common)
    first = one.start + times * one.step
    low, high = max(one.start, other.start), min(one[-1], other[-1])
    first += max(0, -((first - low) // step)) * step
    return range(first, high + 1, step)


def _size(ranges: Sequence[range]) -> int:
    """How many markers ranges have in all, each counted once."""
    if len(ranges) == 1:
        return len(ranges[0])
    first, *others = ranges
    both = [common for other in others if (common := _common(first, other))]
    return len(first) + _size(others) - (_size(both) if both else 0)


def _at(part: Overlapping, number: int) -> int:
    """The marker of that number in ranges that overlap."""
    low, high = part[0].start, max(one[-1] for one in part)
    while low < high:
        middle = (low + high) // 2
        cut = [some for one in part if (some := _cut(one, low, middle))]
        count = _size(cut) if cut else 0
        if count > number:
            high = middle
        else:
            low, number = middle + 1, number - count
    return low


NO_MARKERS: Final = MarkerRuns()


def runs_of(markers: Iterable[int]) -> MarkerRuns:
    """Markers in any order as runs."""
    return markers if isinstance(markers, MarkerRuns) else MarkerRuns(ranges_of(sorted(set(markers))))

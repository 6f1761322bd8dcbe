"""The interval join over columns: the partners of each item are found by positions, for all keys at once.

The items of a side, those that were held and those that come, lie sorted by key and time. The partners of an item are a range
of the other side's: those of times that are near enough, which came before it and were not removed by then. Where all items of a
key come in the order of their times, a range ends at what has come so far. Where they do not, each pair is looked at.
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.joins import value_in
from tracetypes.compiler.analysis.near import TracedNear
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, take, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.members import Member
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.join_sides import bounded, mask_of, none_of, sides_of, times_of, value_of
from tracetypes.compiler.runtime.ordered_base import NEVER, Emitted, Following, KernelOfKeys, SeenKeys
from tracetypes.compiler.runtime.ordered_states import OrderedState, list_column, list_parts
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import INT_MIN, Boolean, Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["IntervalJoin"]

LEFT: Final = 0
RIGHT: Final = 1


@final
@attrs.frozen(eq=False)
class Side:
    """The items of a side by key (``codes``), then by time, then as they came. ``ends``: of the blocks in which they came,
    ``places``: their places among all items that come, -1 for those that were held. ``removal``: the marker that removes each.
    ``rows``: where each lies in ``values``; None if only times are held. All int64. ``has_partner``: which have had one
    (bool); None if nobody asks."""

    codes: Any
    times: Any
    ends: Any
    places: Any
    removal: Any
    rows: Any
    values: Columns | None
    has_partner: Any


@final
@attrs.frozen(eq=False)
class Pairs:
    """Pairs in the order in which they are emitted: the place of the later item, and the numbers of the items within their
    :class:`Side` (all int64)."""

    places: Any
    left: Any
    right: Any


@final
class IntervalJoin(KernelOfKeys):
    """Runs an interval join over columns."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedNear, seen: SeenKeys | None = None) -> None:
        super().__init__(op, form, seen)
        self.join = form

    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""
        states = state.states if len(rows) == state.count else take(state.states, rows)
        due = np.zeros(len(rows), np.bool_)
        for side in (LEFT, RIGHT):
            lengths, waiting = self._waiting(side, states)
            times, some = _times(waiting), np.flatnonzero(lengths)
            due[some] |= times[(np.cumsum(lengths) - lengths)[some]] + (self.join.waits[side] + 1) <= markers[-1]
        return due

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted."""
        members, following = sides_of(self.join, items), Following(markers)
        left, right = (self._side(at, members[at], items, states, len(first), following) for at in (LEFT, RIGHT))
        pairs = _pairs(self.join, items, mask_of(members[LEFT].rows, items.count), left, right)
        if self.join.alone:
            pairs = _first_of_each(pairs)
        for side, rows in ((left, pairs.left), (right, pairs.right)):
            if side.has_partner is not None:
                side.has_partner[rows] = True
        return self._states(left, right, len(first)), self._emitted(items, pairs, left, right)

    def _waiting(self, side: int, states: Columns) -> tuple[Any, Columns]:
        """How many items of a side each key holds (int64), and these items."""
        assert isinstance(states, Struct)
        lists = states.parts[side]
        assert isinstance(lists, Column)
        return list_parts(self.join.lists[side], lists)

    def _side(
        self, at: int, member: Member, items: OrderedItems, states: Columns, number: int, following: Following
    ) -> Side:
        lengths, waiting = self._waiting(at, states)
        old, new, some = np.repeat(np.arange(number), lengths), member.rows, value_of(member)
        count = len(old) + len(new)
        times = np.concatenate([bounded(_times(waiting)), times_of(self.join.times[at], member)])
        codes = np.concatenate([old, items.codes[new]])
        ends = np.concatenate([np.full(len(old), INT_MIN), items.ends[new]])
        places = np.concatenate([np.full(len(old), -1), new])
        values, has_partner = None, None
        if isinstance(waiting, Struct):
            earlier_values = waiting.parts[1]
            assert earlier_values is not None
            values = concat([(earlier_values, len(old)), (some, len(new))]) if len(old) else some
        if any(self.join.outer) if not self.join.alone else at == LEFT:
            has_partner = np.zeros(count, np.bool_)
            if isinstance(waiting, Struct) and len(waiting.parts) > 2:
                assert isinstance(waiting.parts[2], Column)
                has_partner[: len(old)] = full_values(waiting.parts[2], len(old))
        removal = following.of(np.maximum(times + (self.join.waits[at] + 1), ends))
        rows = np.arange(count)
        if not _ascending(codes, times, within=False):
            rows = np.argsort(codes, kind="stable")
            if not _ascending(codes[rows], times[rows]):
                rows = np.lexsort((times, codes))
            codes, times, ends, places, removal = (one[rows] for one in (codes, times, ends, places, removal))
            has_partner = None if has_partner is None else has_partner[rows]
        return Side(codes, times, ends, places, removal, rows, values, has_partner)

    # -------------------------------------------------------------------------------------------- emissions

    def _emitted(self, items: OrderedItems, pairs: Pairs, left: Side, right: Side) -> Emitted:
        if self.join.how == "anti":
            lone = _lone(left)
            return Emitted(left.codes[lone], left.removal[lone], _values(left, lone))
        codes, ends = items.codes[pairs.places], items.ends[pairs.places]
        if self.join.alone:
            return Emitted(codes, ends, _values(left, pairs.left))
        lefts, rights = pairs.left, pairs.right
        if any(self.join.outer):
            sides = zip((left, right), self.join.outer, strict=True)
            lone_left, lone_right = (_lone(side) if outer else np.zeros(0, np.int64) for side, outer in sides)
            codes = np.concatenate([codes, left.codes[lone_left], right.codes[lone_right]])
            ends = np.concatenate([ends, left.removal[lone_left], right.removal[lone_right]])
            lefts = np.concatenate([lefts, lone_left, np.full(len(lone_right), -1)])
            rights = np.concatenate([rights, np.full(len(lone_left), -1), lone_right])
            order = np.lexsort((ends, codes))
            codes, ends, lefts, rights = codes[order], ends[order], lefts[order], rights[order]
        gives: Any = self.join.gives
        kinds = value_in(self.join.left), value_in(self.join.right)
        parts = _or_none(left, lefts, kinds[LEFT]), _or_none(right, rights, kinds[RIGHT])
        return Emitted(codes, ends, Struct(gives.cls, gives.names, parts))

    # ----------------------------------------------------------------------------------------------- states

    def _states(self, left: Side, right: Side, number: int) -> Columns:
        """The states of keys when all has been taken."""
        lists = []
        for kind, side in zip(self.join.lists, (left, right), strict=True):
            stays = side.removal == NEVER
            if self.join.alone and side.has_partner is not None:
                stays &= ~side.has_partner
            rows = np.flatnonzero(stays)
            waiting: Columns = Column(Integer(), side.times[rows])
            if side.values is not None:
                parts = [waiting, take(side.values, side.rows[rows])]
                if side.has_partner is not None and not self.join.alone:
                    parts.append(Column(Boolean(), side.has_partner[rows]))
                record: Any = kind.item
                waiting = Struct(record.cls, () if record.cls is tuple else record.names, tuple(parts))
            lists.append(list_column(kind, np.bincount(side.codes[rows], minlength=number), waiting))
        return Struct(tuple, (), tuple(lists))


def _times(waiting: Columns) -> Any:
    """The times (int64) of items that wait for a partner."""
    times = waiting.parts[0] if isinstance(waiting, Struct) else waiting
    assert isinstance(times, Column)
    return times.values


def _ascending(codes: Any, times: Any, *, within: bool = True) -> bool:
    """Do times go up within each key? Not ``within``: do keys, too?"""
    other = codes[1:] != codes[:-1] if within else codes[1:] > codes[:-1]
    return bool((other | ((times[1:] >= times[:-1]) & (codes[1:] == codes[:-1]))).all())


def _values(side: Side, rows: Any) -> Columns:
    assert side.values is not None
    return taken_later(side.values, side.rows[rows])


def _or_none(side: Side, rows: Any, kind: Any) -> Columns:
    """The values of some items of a side; None for the row -1."""
    missing = rows < 0
    if not missing.any():
        return _values(side, rows)
    if not len(side.rows):
        return none_of(kind, len(rows))
    values = _values(side, np.maximum(rows, 0))
    return attrs.evolve(values, valid=~missing if values.valid is None else values.valid & ~missing)


def _lone(side: Side) -> Any:
    """The items (int64) that are removed without a partner, by key, then by marker, then by time."""
    rows = np.flatnonzero(~side.has_partner & (side.removal < NEVER))
    codes, removal = side.codes[rows], side.removal[rows]
    return rows if _ascending(codes, removal) else rows[np.lexsort((removal, codes))]


# ------------------------------------------------------------------------------------------------------------ pairs


@final
class Ticks:
    """Finds items of a side by key and time."""

    def __init__(self, side: Side) -> None:
        self.times: Any = None
        self.least, span = 0, 1
        if len(side.times):
            self.least = int(side.times.min())
            span = int(side.times.max()) - self.least + 1
            if span >= (1 << 62) // (int(side.codes[-1]) + 2):  # a number of key and time has no 64 bits
                self.times = np.unique(side.times)
                span = len(self.times)
        self.width = span + 1
        self.numbers = self._number(side.codes, side.times)

    def _number(self, codes: Any, times: Any) -> Any:
        ticks = times - self.least if self.times is None else np.searchsorted(self.times, times)
        return codes * self.width + np.clip(ticks, 0, self.width - 1)

    def find(self, codes: Any, times: Any) -> Any:
        """The first items (int64) that are not before some keys and times."""
        return np.searchsorted(self.numbers, self._number(codes, times))


def _pairs(join: TracedNear, items: OrderedItems, is_left: Any, left: Side, right: Side) -> Pairs:
    """All pairs."""
    number, spots = items.count, np.zeros(items.count, np.int64)
    for side in (left, right):
        new = np.flatnonzero(side.places >= 0)
        spots[side.places[new]] = new
    first, last = np.zeros(number, np.int64), np.zeros(number, np.int64)
    in_order = _in_order(items, is_left, left, right, spots)
    before, after = join.waits[RIGHT], join.waits[LEFT]
    for own, other, mine, back, ahead in ((left, right, is_left, before, after), (right, left, ~is_left, after, before)):
        places = np.flatnonzero(mine)
        codes, times = items.codes[places], own.times[spots[places]]
        ticks = Ticks(other)
        first[places] = ticks.find(codes, times - back)
        if in_order:
            come = _come(other, places, items.count, codes)
            last[places] = come if ahead >= 0 else np.minimum(come, ticks.find(codes, times + (ahead + 1)))
        else:
            last[places] = ticks.find(codes, times + (ahead + 1))
    some = np.flatnonzero(last > first)
    if in_order and len(some):
        others = first[some]
        removal = np.where(is_left[some], _at(right.removal, others), _at(left.removal, others))
        in_order = bool((removal >= items.ends[some]).all())
    if in_order and join.alone:
        _limit(items, is_left, first, last)
    return _expanded(items, is_left, spots, first, last, left, right, looks=not in_order)


def _at(values: Any, rows: Any) -> Any:
    """Values at some rows, of which some lie behind the end and mean nothing."""
    return values.take(rows, mode="clip") if len(values) else np.full(len(rows), NEVER)


def _in_order(items: OrderedItems, is_left: Any, left: Side, right: Side, spots: Any) -> bool:
    """Do the items of each key come in the order of their times, behind those that wait?"""
    times = np.where(is_left, _at(left.times, spots), _at(right.times, spots))
    if not _ascending(items.codes, times):
        return False
    starts = np.flatnonzero(np.append(True, items.codes[1:] != items.codes[:-1])[: items.count])
    for side in (left, right):
        waiting = np.flatnonzero(side.places < 0)
        if len(waiting):
            last = np.searchsorted(side.codes[waiting], items.codes[starts], "right") - 1
            some = np.flatnonzero(last >= 0)
            some = some[side.codes[waiting[last[some]]] == items.codes[starts[some]]]
            if (side.times[waiting[last[some]]] > times[starts[some]]).any():
                return False
    return True


def _come(other: Side, places: Any, count: int, codes: Any) -> Any:
    """Behind the last item (int64) of another side that comes before some places, in the order of all keys."""
    new = other.places >= 0
    earlier = np.concatenate([[0], np.cumsum(mask_of(other.places[new], count))])[places]
    waiting = other.codes[~new]
    return earlier + (np.searchsorted(waiting, codes, "right") if len(waiting) else 0)


def _limit(items: OrderedItems, is_left: Any, first: Any, last: Any) -> None:
    """Leave out pairs that are not the first of a left item."""
    last[is_left] = np.minimum(last[is_left], first[is_left] + 1)
    rights = np.flatnonzero(~is_left)
    same = np.flatnonzero(items.codes[rights[1:]] == items.codes[rights[:-1]])
    first[rights[same + 1]] = np.maximum(first[rights[same + 1]], last[rights[same]])


def _expanded(
    items: OrderedItems, is_left: Any, spots: Any, first: Any, last: Any, left: Side, right: Side, *, looks: bool
) -> Pairs:
    """The pairs of ranges. ``looks``: each is looked at."""
    counts = np.maximum(last - first, 0)
    places = np.repeat(np.arange(items.count), counts)
    others = np.arange(len(places)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    of_left, own = np.repeat(is_left, counts), np.repeat(spots, counts)
    pairs = Pairs(places, np.where(of_left, own, others), np.where(of_left, others, own))
    if not looks:
        return pairs
    come = np.where(of_left, _at(right.places, others), _at(left.places, others))
    removal = np.where(of_left, _at(right.removal, others), _at(left.removal, others))
    keep = np.flatnonzero((come < places) & (removal >= items.ends[places]))
    return Pairs(places[keep], pairs.left[keep], pairs.right[keep])


def _first_of_each(pairs: Pairs) -> Pairs:
    """The first pair of each left item."""
    _, rows = np.unique(pairs.left, return_index=True)
    rows = np.sort(rows)
    return Pairs(pairs.places[rows], pairs.left[rows], pairs.right[rows])

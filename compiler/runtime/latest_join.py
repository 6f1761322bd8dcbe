"""The as-of and the table join over columns: the latest right item of each left one is found by positions, for all keys at once.

Items come by key, then in the order of the join: right before left at equal times. So the right item that counts for a left one
is the last before it, or what the key knew before; only where times go back from block to block is it an earlier one, the newest
so far.
"""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.latest import TracedLatest
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, take, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.members import Member
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.join_sides import bounded, mask_of, none_of, present_of, sides_of, times_of, value_of
from tracetypes.compiler.runtime.ordered_base import NEVER, Emitted, Following, KernelOfKeys, SeenKeys
from tracetypes.compiler.runtime.ordered_states import OrderedState, classed, merged, settled
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import INT_MIN, Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["LatestJoin"]


@final
@attrs.frozen(eq=False)
class Known:
    """What keys knew before: whether they knew something (bool), and the time of that (int64; INT_MIN for nothing)."""

    there: Any
    times: Any


@final
@attrs.frozen(eq=False)
class Rights:
    """The right items: their keys and the ends of their blocks, their times, and ``newest``: of each the row of the newest among
    those of its key so far (all int64). ``deletes``: which of them remove what is known (bool); None for none."""

    codes: Any
    ends: Any
    times: Any
    newest: Any
    deletes: Any

    def remove(self, partner: Any, own: Any) -> Any:
        """Where a right item that was chosen removes what is known (bool)."""
        return np.zeros(len(own), np.bool_) if self.deletes is None or not len(self.deletes) else own & self.deletes[partner]


@final
class LatestJoin(KernelOfKeys):
    """Runs an as-of or a table join over columns."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedLatest, seen: SeenKeys | None = None) -> None:
        super().__init__(op, form, seen)
        self.join = form

    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""
        if self.join.tolerance is None:
            return np.zeros(len(rows), np.bool_)
        states = state.states if len(rows) == state.count else take(state.states, rows)
        known = self._known(states, len(rows))
        return known.there & (known.times + (self.join.tolerance + 1) <= markers[-1])

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted."""
        number = len(first)
        known = self._known(states, number)
        left, right = sides_of(self.join, items)
        rights = self._rights(items, right, known)
        following = Following(markers)
        before = np.cumsum(mask_of(right.rows, items.count))[left.rows] - 1  # the last right row before each left one
        emitted = self._emitted(items, left, right, rights, before, known, following, states)
        return self._states(right, rights, known, following, states, number), emitted

    def _known(self, states: Columns, count: int) -> Known:
        if isinstance(states, Column):  # None in all rows
            return Known(np.zeros(count, np.bool_), np.full(count, INT_MIN))
        there = np.ones(count, np.bool_) if states.valid is None else states.valid
        (time, _) = states.parts
        assert isinstance(time, Column)
        times = np.where(there, full_values(time, count), INT_MIN)
        bounded(times[there])
        return Known(there, times)

    def _rights(self, items: OrderedItems, right: Member, known: Known) -> Rights:
        codes, ends, count = items.codes[right.rows], items.ends[right.rows], len(right.rows)
        times, newest = times_of(self.join.times[1], right), np.arange(count)
        first = np.append(True, codes[1:] != codes[:-1])[:count]
        older = np.append(False, times[1:] < times[:-1])[:count] & ~first
        older |= first & known.there[codes] & (times < known.times[codes])
        if older.any():
            if self.join.tolerance is not None or self.join.deleted is not None:
                raise Undefined(0)  # an item may be older than one that was forgotten
            order = np.argsort(times, kind="stable")
            ranks = np.empty(count, np.int64)
            ranks[order] = newest
            base = codes * count
            newest = order[np.maximum.accumulate(base + ranks) - base]
        return Rights(codes, ends, times, newest, self._deletes(right))

    def _deletes(self, right: Member) -> Any:
        """Which right items remove what is known (bool); None for none."""
        if self.join.deleted is None or not len(right.rows):
            return None
        return full_values(present_of(self.join.deleted, right), len(right.rows))

    def _forgotten(self, following: Following, times: Any, since: Any) -> Any:
        """The first marker (int64) behind which what is known since a time is no longer known."""
        if self.join.tolerance is None:
            return np.full(len(times), NEVER)
        return following.of(np.maximum(times + (self.join.tolerance + 1), since))

    def _emitted(
        self,
        items: OrderedItems,
        left: Member,
        right: Member,
        rights: Rights,
        before: Any,
        known: Known,
        following: Following,
        states: Columns,
    ) -> Emitted:
        codes, ends, times = items.codes[left.rows], items.ends[left.rows], times_of(self.join.times[0], left)
        partner, at, own = _chosen(rights, before, codes, known)
        fits = (own | known.there[codes]) & (at <= times) & ~rights.remove(partner, own)
        if self.join.tolerance is not None:
            fits &= times - np.where(fits, at, times) <= self.join.tolerance
            since = np.full(len(times), INT_MIN)
            since[own] = rights.ends[partner[own]]
            some = np.flatnonzero(fits)
            fits[some] = self._forgotten(following, at[some], since[some]) >= ends[some]
        value = value_of(left)
        if self.join.how != "left":
            some = np.flatnonzero(fits if self.join.how != "anti" else ~fits)
            codes, ends, partner, own, fits = codes[some], ends[some], partner[some], own[some], fits[some]
            value = taken_later(value, some)
            if self.join.how != "inner":
                return Emitted(codes, ends, value)
        gives: Any = self.join.gives
        values = Struct(gives.cls, gives.names, (value, self._partners(right, partner, own, fits, codes, states)))
        return Emitted(codes, ends, values)

    def _partners(self, right: Member, partner: Any, own: Any, fits: Any, codes: Any, states: Columns) -> Columns:
        """The values of the right items, None where nothing fits."""
        count, of_before = len(right.rows), np.flatnonzero(fits & ~own)
        parts = [(value_of(right), count)] if count else []
        rows = np.where(fits & own, partner, 0)
        if len(of_before):
            assert isinstance(states, Struct)
            kept = states.parts[1]
            assert kept is not None
            rows[of_before] = count + np.arange(len(of_before))
            parts.append((classed(self._kind, take(kept, codes[of_before])), len(of_before)))
        if not parts:
            return Column(None, None) if not len(rows) else none_of(self._kind, len(rows))
        values = taken_later(concat(parts), rows)
        if fits.all():
            return values
        return attrs.evolve(values, valid=fits if values.valid is None else values.valid & fits)

    @property
    def _kind(self) -> Any:
        """The schema of right values."""
        return dict(self.join.right.fields)["value"]

    def _states(
        self, right: Member, rights: Rights, known: Known, following: Following, states: Columns, number: int
    ) -> Columns:
        """The states of keys when all has been taken."""
        keys = np.arange(number)
        partner, at, own = _chosen(rights, np.searchsorted(rights.codes, keys, "right") - 1, keys, known)
        since = np.full(number, INT_MIN)
        since[own] = rights.ends[partner[own]]
        there = (own | known.there) & ~rights.remove(partner, own)
        there[there] = self._forgotten(following, at[there], since[there]) == NEVER
        fresh, kept, gone = np.flatnonzero(there & own), np.flatnonzero(there & ~own), np.flatnonzero(~there)
        rows = partner[fresh]
        new = Struct(tuple, (), (Column(Integer(), rights.times[rows]), take(value_of(right), rows)))
        kind: Any = self.join.state
        parts = [(settled(kind, new, len(fresh)), fresh), (take(states, kept), kept), (Column(None, None), gone)]
        return merged(kind, parts, number)


def _chosen(rights: Rights, before: Any, codes: Any, known: Known) -> tuple[Any, Any, Any]:
    """Which right item some keys know. ``before``: the last right row (int64) up to then, of any key; ``codes``: the keys. Gives
    its row (int64), its time (int64), and whether there is one that is not older than what the key knew before (bool)."""
    if not len(rights.codes):
        return np.zeros(len(codes), np.int64), known.times[codes], np.zeros(len(codes), np.bool_)
    row = np.maximum(before, 0)
    own = (before >= 0) & (rights.codes[row] == codes)
    row = rights.newest[row]
    times, earlier = rights.times[row], known.times[codes]
    own &= times >= earlier
    return row, np.where(own, times, earlier), own

"""Compares joins by key and block over columns with plain Python: some keys take the items of the blocks that close again, from
what they held before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, final

import numpy as np

from tracetypes.block_joins import BlockJoin
from tracetypes.canonical import canonical
from tracetypes.compiler.analysis.block_joins import TracedBlockJoin
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.column import take
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.plan.plan import Step
from tracetypes.compiler.runtime.answers import PythonEmissions
from tracetypes.compiler.runtime.block_join import Joined
from tracetypes.compiler.runtime.held_items import LEFT, RIGHT, HeldItem, blocks_of
from tracetypes.compiler.runtime.joined_blocks import ClosedJoin
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.markers import Marker
from tracetypes.templates import OpKeyedUnordered

__all__ = ["JoinCheck"]

MOST: Final = 64
"""Items that a key takes again: those of the first blocks, or where blocks are whole windows, of one. A key with more is not
looked at."""

PAIRS: Final = 256
"""Emissions of these that are compared."""

BLOCKS: Final = 1_024
"""Blocks that a key takes again."""

APART: Final = 7_919
"""How far apart the items are that are looked at for rows beside each other: they are of several keys."""

NOTHING: Final = np.zeros(0, np.int64)


@final
class JoinCheck:
    """Looks at some of the keys whose blocks close; the laws are checked on these calls, too. ``whole``: blocks are whole
    windows."""

    def __init__(self, verifier: Verifier, step: Step, its: BlockJoin, traced: TracedBlockJoin, *, whole: bool) -> None:
        assert isinstance(step.operator, OpKeyedUnordered)
        self.verifier, self.op, self.its, self.traced, self.whole = verifier, step.operator, its, traced, whole
        self.name, self.watch = verifier.names[id(step.operator)], verifier.keyed(step)
        self.emitted, self.order = PythonEmissions(step.operator, step.gives), canonical(step.gives.value)
        self.orders = [canonical(schema) for schema in traced.values]

    def __call__(self, closed: ClosedJoin) -> None:
        """Compare what some keys have done. Raises :class:`Difference`."""
        if self.watch is not None and self.watch.asks:
            return
        for side in closed.items.sides:
            rows = self.verifier.pick(f"{self.name} block", len(side)) if len(side) else None
            if rows is None:
                continue
            with self.verifier.timed():
                rows = np.unique(rows * APART % len(side))
                codes, blocks = side.codes[rows].tolist(), side.blocks[rows].tolist()
                for code, block in sorted(set(zip(codes, blocks, strict=True)) if self.whole else {(code, 0) for code in codes}):
                    self._one(closed, code, block)

    def _one(self, closed: ClosedJoin, code: int, block: int) -> None:
        """Compare one key. ``block``: the one that is looked at, where blocks are whole windows."""
        first, last = (block, block) if self.whole else (1, min(closed.items.last, BLOCKS))
        rows = [np.flatnonzero(side.codes == code) for side in closed.items.sides]
        at = np.concatenate([side.blocks[some] for side, some in zip(closed.items.sides, rows, strict=True)])
        last = _at_most(MOST, at if not self.whole else at[at == block], last)
        out = (one.blocks[some] for one, some in _emissions(closed, code, first, last))
        last = _at_most(PAIRS, np.concatenate([NOTHING, *out]), last)
        if last < first:
            return
        (key,) = values_of(take(closed.keys, np.array([code])), 1)
        held, fresh = list[HeldItem](), dict[int, list[Any]]()
        for number, (side, some) in enumerate(zip(closed.items.sides, rows, strict=True)):
            of_key = side.some(some[(side.blocks[some] <= last) & ((side.blocks[some] == block) | (not self.whole))])
            values = from_array(self.traced.values[number], of_key.values)
            for value, at_block, paired in zip(values, of_key.blocks.tolist(), of_key.paired.tolist(), strict=True):
                if at_block > 0:
                    fresh.setdefault(at_block, []).append((self.its.left, self.its.right)[number](value))
                else:
                    held.append((-at_block, number, value, paired))
        markers = closed.markers[first - 1 : last].tolist()
        op: Any = self.op
        if self.watch is not None:
            new = [(value, markers[at_block - first]) for at_block, values in fresh.items() for value in values]
            op = self.watch.of(len(new)) if new else self.watch.at_marker()
            self.watch.take(repeat(key), *([part[at] for part in new] for at in (0, 1)))
        ends, states = list[int](), list[Any]()

        def close(emit: Any) -> None:
            state = self.its.state(blocks_of(held)) if held else op.initial_state()
            for number, end in enumerate(markers, first):
                agg = op.identity()
                for value in fresh.get(number, ()):
                    agg = op.combine(agg, op.lift(key, value))
                state = op.update_state(op.initial_state() if self.whole else state, agg)

                def at_end(one: Any, value: Any, end: int = end) -> None:
                    emit(one, value)
                    ends.append(end)

                op.on_marker(state, key, Marker(end), at_end)
            states.append(state)

        raised, pairs = self.emitted.of(close)
        expected = self._in_order(zip(ends, (value for _, value in pairs), strict=False))
        whole = last == closed.items.last and not self.whole
        after, kept = (self._after(states), self._kept(closed, code)) if whole else ([], [])
        shown = partial("key {!r}, items {!r}, held {!r}".format, key, fresh, held)
        emitted = self._emitted(closed, code, first, last)
        self.verifier.compare(self.name, "on_marker", (emitted, kept), (raised, (expected, after)), shown)

    # ------------------------------------------------------------------------------------------ emissions

    def _in_order(self, emitted: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """What was emitted at some markers: in a block it has no order."""
        return sorted(emitted, key=lambda one: (one[0], self.order(one[1])))

    def _emitted(self, closed: ClosedJoin, code: int, first: int, last: int) -> list[tuple[int, Any]]:
        found = list[tuple[int, Any]]()
        for one, rows in _emissions(closed, code, first, last):
            ends = closed.markers[one.blocks[rows] - 1].tolist()
            found += zip(ends, values_of(take(one.values, rows), len(rows)), strict=True)
        return self._in_order(found)

    # --------------------------------------------------------------------------------------------- states

    def _after(self, states: Sequence[Any]) -> list[HeldItem]:
        """What is held in Python, as far as a later block needs it."""
        held = list[HeldItem]()
        for state in states:
            for one in self.its.blocks(state):
                held += [(one.age, LEFT, value, one.left_paired) for value in one.lefts]
                held += [(one.age, RIGHT, value, one.right_paired) for value in one.rights]
        return self._needed(held)

    def _kept(self, closed: ClosedJoin, code: int) -> list[HeldItem]:
        """What is held over columns."""
        held, after = list[HeldItem](), closed.after
        if after is None or code not in closed.kept:
            return held
        place = np.searchsorted(closed.kept, code)
        for number, side in enumerate(after.sides):
            rows = np.flatnonzero(side.codes == place)
            of_key = side.some(rows, side.codes[rows])
            values = from_array(self.traced.values[number], of_key.values)
            columns = of_key.ages.tolist(), repeat(number), values, of_key.paired.tolist()
            held += zip(*columns, strict=False)
        return self._needed(held)

    def _needed(self, held: Iterable[HeldItem]) -> list[HeldItem]:
        """Items in an order, without those that no later block needs, and with what matters of their partners."""
        how = self.its.how
        matters = how in ("left", "full", "semi", "anti"), how in ("right", "full")
        some = [
            (age, side, value, paired and matters[side] and not self.its.windows)
            for age, side, value, paired in held
            if age < self.its.reach
        ]
        return sorted(some, key=lambda one: (*one[:2], self.orders[one[1]](one[2]), one[3]))


def _at_most(count: int, blocks: Any, last: int) -> int:
    """The last block up to which there are at most so many of something. ``blocks``: of each (int64)."""
    return last if len(blocks) <= count else min(last, int(np.partition(blocks, count)[count]) - 1)


def _emissions(closed: ClosedJoin, code: int, first: int, last: int) -> Iterator[tuple[Joined, Any]]:
    """What was emitted for a key at the ends of some blocks: the rows (int64) of each part."""
    for one in closed.emitted:
        start, behind = np.searchsorted(one.codes, [code, code + 1]).tolist()
        blocks = one.blocks[start:behind]
        yield one, start + np.flatnonzero((blocks >= first) & (blocks <= last))

"""Open blocks as the tables in which their items came, for joins by key and block, which close them over columns.

The way of the data: items of both sides come through the exchange as they are, and wait as tables. When markers are due, what
waits for their blocks and what is held of earlier blocks becomes one table. Its rows get the numbers of their keys and blocks,
:func:`.block_join.joined` finds what is emitted at each marker, and the rows that later blocks need are held
(:class:`.held_items.HeldItems`). Where a window is one block, nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.block_joins import BlockJoin
from tracetypes.compiler.analysis.block_joins import TracedBlockJoin
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.coded_arrays import concat_arrays
from tracetypes.compiler.columns.column import Columns, take, take_coded
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.block_join import Joined, JoinItems, SideItems, joined
from tracetypes.compiler.runtime.blocks import AggregateBlock
from tracetypes.compiler.runtime.closed_blocks import Due, Flows
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.held_items import LEFT, RIGHT, HeldItems, HeldSide
from tracetypes.compiler.runtime.messages import NOWHERE, Items, Piece
from tracetypes.compiler.runtime.open_blocks import Arrived, FoldedBlocks, Placing, occupied_blocks
from tracetypes.compiler.runtime.open_tables import Tables
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import OneOf
from tracetypes.trace import StreamType

__all__ = ["ClosedJoin", "JoinByBlocks", "JoinedBlocks", "SeenJoin"]

NOTHING: Final = np.zeros(0, np.int64)

Table: TypeAlias = tuple[Any, Any, Any]
"""The ends of the blocks of items (int64), their keys and values."""


@final
@attrs.frozen(eq=False)
class ClosedJoin:
    """Blocks that a join closed. ``markers``: of these blocks (int64); ``keys``: of the ``items`` of these and earlier ones;
    ``emitted``: what was emitted; ``after``: what is held, the keys of which have the numbers ``kept``."""

    markers: Any
    keys: Columns
    items: JoinItems
    emitted: Sequence[Joined]
    after: HeldItems | None
    kept: Any


SeenJoin: TypeAlias = Callable[[ClosedJoin], None]


@final
@attrs.frozen(eq=False)
class JoinByBlocks:
    """A join. ``its``: what the operator says of itself. ``whole``: blocks are whole windows, so that nothing is held; ``pane``:
    blocks are of this size and offset, and other markers are none of the join's. ``seen`` sees what it does."""

    traced: TracedBlockJoin
    its: BlockJoin
    whole: bool
    pane: tuple[int, int] | None
    seen: SeenJoin | None

    def close(
        self, held: HeldItems | None, tables: Sequence[Table], markers: MarkerRuns
    ) -> tuple[Flows, HeldItems | None]:
        """What is emitted at some markers, and what is held then. Raises :class:`Undefined`."""
        join, grid = self.traced, self.traced.grid
        if self.whole:
            join, grid = attrs.evolve(join, reach=0, windows=True), None
            times = np.unique(np.concatenate([NOTHING, *(ends for ends, _, _ in tables)]))
        else:
            markers = markers if self.pane is None else markers.on_grid(*self.pane)
            times = np.fromiter(markers, np.int64, len(markers))
        if not len(times) or not (tables or held):
            return Flows([], 1), held
        ends = np.arange(1, len(times) + 1)
        if grid is not None:
            ends = ends[(times - grid[1]) % grid[0] == 0]
        keys, items = self._items(held, tables, times, ends)
        emitted, paired = joined(join, items)
        after, kept = (None, NOTHING) if held is None else self._held(held, keys, items, paired)
        if self.seen is not None:
            self.seen(ClosedJoin(times, keys, items, emitted, after, kept))
        flows = [(KeyedFlow.of(take_coded(keys, one.codes), one.values, len(one)), times[one.blocks - 1]) for one in emitted]
        return Flows(flows, 1), after

    def _items(self, held: HeldItems | None, tables: Sequence[Table], times: Any, ends: Any) -> tuple[Columns, JoinItems]:
        """Different keys, and their items: of each side those that are held, then those that have come."""
        fresh = [_of_side(self.traced, side, tables) for side in (LEFT, RIGHT)]
        names = [(from_arrow(self.traced.key, keys), len(keys)) for table in fresh for _, keys, _ in table]
        names += [(held.keys, held.count)] if held else []
        whole = concat(names)
        groups, start, sides = groups_of(whole, sum(count for _, count in names)), 0, list[SideItems]()
        for side, table in enumerate(fresh):
            count = sum(len(keys) for _, keys, _ in table)
            codes, paired = [groups.of_row[start : start + count].astype(np.int64)], [np.zeros(count, np.bool_)]
            blocks, values = [np.searchsorted(times, one[0]) + 1 for one in table], [one[2] for one in table]
            start += count
            if held:
                old = held.sides[side]
                codes.append(groups.of_row[-held.count :][old.codes].astype(np.int64))
                blocks.append(-old.ages)
                paired.append(old.paired)
                values.append(old.values)
            column = concat_arrays(values) if values else array(self.traced.values[side], [])
            sides.append(SideItems(np.concatenate(codes), np.concatenate([NOTHING, *blocks]), np.concatenate(paired), column))
        left, right = sides
        return take(whole, groups.any_row), JoinItems(left, right, groups.number, len(times), ends)

    def _held(self, held: HeldItems, keys: Columns, items: JoinItems, paired: tuple[Any, Any]) -> tuple[HeldItems, Any]:
        """What later blocks need, and the numbers (int64) of the keys of it."""
        there = np.zeros(items.number, np.bool_)
        rows = [np.flatnonzero(side.blocks > items.last - self.traced.reach) for side in items.sides]
        for side, some in zip(items.sides, rows, strict=True):
            there[side.codes[some]] = True
        kept, places = np.flatnonzero(there), np.cumsum(there) - 1
        left, right = (
            HeldSide(places[side.codes[some]], items.last - side.blocks[some], found[some], side.values.take(pa.array(some)))
            for side, some, found in zip(items.sides, rows, paired, strict=True)
        )
        return HeldItems(take(keys, kept), len(kept), (left, right), held.start), kept


def _of_side(join: TracedBlockJoin, side: int, tables: Sequence[Table]) -> list[Table]:
    """The items of a side. What comes from one link is of one side, so that most tables are whole."""
    assert isinstance(join.takes, OneOf)
    record = (join.left, join.right)[side]
    at, value = join.takes.members.index(record), [name for name, _ in record.fields].index("value")
    found = list[Table]()
    for ends, keys, values in tables:
        part = values.field(at)
        if part.null_count:
            mask = part.is_valid()
            rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            ends, keys, part = ends[rows], keys.filter(mask), part.filter(mask)
        if len(ends):
            found.append((ends, keys, part.field(value)))
    return found


@final
class JoinedBlocks(FoldedBlocks):
    """Holds items of open blocks as tables, and beside them what a join holds of earlier blocks: as objects, and as columns from
    the first epoch on in which many items come."""

    def __init__(
        self, takes: StreamType, state: StageState, epoch: Epoch, folded: AggregateBlock, join: JoinByBlocks
    ) -> None:
        self.join_, self.tables = join, Tables(takes, state)
        super().__init__(takes, state, epoch, folded, None)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""
        blocks, self.state.open_blocks = self.state.open_blocks, {}
        for end, sums in blocks.items():
            self.absorb(list(sums), list(sums.values()), [end] * len(sums))

    def expect(self, arrived: Sequence[Arrived]) -> None:
        """These will come: go over to columns where many items come."""
        states = self.state.operators[0]
        if self.join_.whole or not isinstance(states, UnorderedState) or states.plain:
            return
        if sum(one.count for one in arrived if isinstance(one, Items)) >= limits.MANY:
            try:
                self.state.operators[0] = HeldItems.of(self.join_.its, self.takes, states.states, states.start)
            except Undefined:
                states.plain = True

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        return self.tables.take(arrived, placing) if isinstance(arrived, Items) else super().take(arrived, placing)

    def absorb(self, keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Hold aggregates: the items that they keep."""
        its, batch = self.join_.its, Batch([], [], [])
        for key, agg, end in zip(keys, aggs, ends, strict=True):
            for tag, some in zip((its.left, its.right), its.sides(agg), strict=True):
                for value in some:
                    batch.put(key, tag(value), end, 0)
        self.tables.hold(batch)

    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        self.tables.hold(batch)

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""
        self.tables.join(pending, marker)

    def last(self) -> int:
        """The end of the last block in which there may be something."""
        return self.tables.last()

    def occupied(self, coming: Coming) -> MarkerRuns:
        """The ends of the blocks of some markers in which there may be something."""
        return occupied_blocks(self.tables.ends, coming.markers[-1])

    @property
    def at_each_marker(self) -> bool:
        """Whether the operator, which is run here, skips no marker."""
        return isinstance(self.state.operators[0], HeldItems)

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        tables, states = self.tables.ready(coming.markers[-1]), self.state.operators[0]
        held = states if isinstance(states, HeldItems) else None
        if held is not None or (self.join_.whole and sum(len(ends) for ends, _, _ in tables) >= limits.MANY):
            try:
                with np.errstate(all="ignore"):
                    due, after = self.join_.close(held, tables, coming.markers)
            except Undefined:
                if held is not None:
                    self._held_to_objects(held, plain=True)
            else:
                if after is not None:
                    self.state.operators[0] = after
                return due
        for ends, keys, values in tables:
            batch = Batch(from_array(self.takes.key, keys), from_array(self.takes.value, values), ends.tolist())
            super().hold(0, NOWHERE, batch)
        return super().close(coming)

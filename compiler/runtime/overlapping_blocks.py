"""Open blocks as the tables in which their items came, for windows that overlap and are answered from their items.

Items wait as tables. When markers are due, what waits for their blocks and what is held of earlier blocks
(:class:`.held_items.HeldItems`) becomes one table. Each item comes once for each of its windows that end, and what is emitted of
these follows as of blocks that do not overlap (:class:`.chosen_blocks.WholeBlocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.coded_arrays import concat_arrays
from tracetypes.compiler.columns.column import Columns, take, take_coded, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.columns.lists import ranges
from tracetypes.compiler.runtime.blocks import AggregateBlock
from tracetypes.compiler.runtime.chosen_blocks import WholeBlocks
from tracetypes.compiler.runtime.closed_blocks import Due, Flows
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.held_items import HeldItems, HeldSide
from tracetypes.compiler.runtime.messages import Items, Piece
from tracetypes.compiler.runtime.open_blocks import Arrived, Placing
from tracetypes.compiler.runtime.open_tables import FoldedTables, Tables
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.summaries import needed_rows
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.trace import StreamType

__all__ = ["OverlappingBlocks", "OverlappingWindows"]

TOGETHER: Final = 1 << 22
"""Items of windows, each once for each of its windows, that are answered at a time."""

FEWEST: Final = 1 << 16
"""So many items are held before some are dropped."""

DENSE: Final = 16
"""Items of a key and block, on average, from which on aggregates of blocks are combined faster than the items of many windows."""

MANY_WINDOWS: Final = 8
"""So many windows are many for an item."""

Table: TypeAlias = tuple[Any, Any, Any]
"""The ends of the blocks of items (int64), their keys and values."""


@final
@attrs.frozen(eq=False)
class Rows:
    """Items: the number of the key of each, and of its block (both int64): those that close now are 1 and more, those before are
    0, -1 and so on. ``values``: as an Arrow array; ``keys``: each once."""

    codes: Any
    blocks: Any
    values: Any
    keys: Columns

    def some(self, rows: Any) -> Rows:
        """Some of them (int64)."""
        return Rows(self.codes[rows], self.blocks[rows], self.values.take(pa.array(rows)), self.keys)


@final
@attrs.frozen(eq=False)
class OverlappingWindows:
    """What an operator emits of windows that overlap. ``blocks``: what it emits of the items of one; ``pane``: blocks are of this
    size and offset, and other markers are none of the operator's."""

    blocks: WholeBlocks
    takes: StreamType
    pane: tuple[int, int] | None

    def close(self, held: HeldItems, tables: Sequence[Table], markers: MarkerRuns) -> tuple[Flows, HeldItems]:
        """What is emitted at some markers, and what is held then. Raises :class:`Undefined`."""
        markers = markers if self.pane is None else markers.on_grid(*self.pane)
        if not len(markers) or not (tables or len(held)):
            return Flows([], 1), held
        times = np.fromiter(markers, np.int64, len(markers))
        rows = self._rows(held, tables, times)
        return self._emitted(rows, times), self._held(held, rows, len(times))

    def _rows(self, held: HeldItems, tables: Sequence[Table], times: Any) -> Rows:
        old, _ = held.sides
        names = [(from_arrow(self.takes.key, keys), len(keys)) for _, keys, _ in tables]
        names += [(held.keys, held.count)] if held.count else []
        whole = concat(names)
        groups, count = groups_of(whole, sum(count for _, count in names)), sum(len(keys) for _, keys, _ in tables)
        of_row = groups.of_row.astype(np.int64)
        blocks, values = [np.searchsorted(times, ends) + 1 for ends, _, _ in tables], [one[2] for one in tables]
        codes = [of_row[:count]]
        if held.count:
            codes.append(of_row[count:][old.codes])
            blocks.append(-old.ages)
            values.append(old.values)
        return Rows(np.concatenate(codes), np.concatenate(blocks), concat_arrays(values), take(whole, groups.any_row))

    def _emitted(self, rows: Rows, times: Any) -> Flows:
        """What is emitted of the windows that end at some markers (int64)."""
        closing, ends = self.blocks.closing, np.arange(1, len(times) + 1)
        if closing.grid is not None:
            ends = ends[(times - closing.grid[1]) % closing.grid[0] == 0]
        counts = _counts(rows, ends, closing.reach)[1]
        total = int(counts.sum())
        if total > MANY_WINDOWS * len(counts):
            self._need_few(rows, len(times))
        value, flows = from_arrow(self.takes.value, rows.values), []
        for some in np.array_split(ends, 1 + total // TOGETHER):
            if not len(some):
                continue
            first, counts = _counts(rows, some, closing.reach)
            at, of_window = np.repeat(np.arange(len(counts)), counts), some[ranges(first, counts)]
            if not len(at):
                continue
            flow = KeyedFlow.of(take_coded(rows.keys, rows.codes[at]), taken_later(value, at), len(at))
            flows += self.blocks.flows(flow, times[of_window - 1]).flows
        return Flows(flows, 1)

    def _need_few(self, rows: Rows, last: int) -> None:
        """Raises :class:`Undefined` where keys have many items in a block."""
        numbers = rows.codes * (last + self.blocks.closing.reach + 1) + (rows.blocks + self.blocks.closing.reach)
        if len(numbers) > DENSE * len(np.unique(numbers)):
            raise Undefined(0)

    def _held(self, held: HeldItems, rows: Rows, last: int) -> HeldItems:
        """What later blocks need."""
        rows = rows.some(np.flatnonzero(rows.blocks > last - self.blocks.closing.reach))
        if len(rows.codes) > FEWEST:
            flow = KeyedFlow.of(take_coded(rows.keys, rows.codes), from_arrow(self.takes.value, rows.values), len(rows.codes))
            needed = needed_rows(self.blocks.closing.parts, flow, rows.blocks, fewest=True)
            rows = rows if needed is None else rows.some(needed)
        kept, codes = np.unique(rows.codes, return_inverse=True)
        side = HeldSide(codes.astype(np.int64), last - rows.blocks, np.zeros(len(codes), np.bool_), rows.values)
        return HeldItems(take(rows.keys, kept), len(kept), (side, held.sides[1]), held.start)


def _counts(rows: Rows, ends: Any, reach: int) -> tuple[Any, Any]:
    """The first window that each item is in, and in how many it is (int64). ``ends``: the blocks at whose ends windows end."""
    first = np.searchsorted(ends, np.maximum(rows.blocks, 1))
    return first, np.maximum(np.searchsorted(ends, rows.blocks + reach, "right") - first, 0)


@final
class OverlappingBlocks(FoldedTables):
    """Holds items of open blocks as tables, and beside them the items of the last blocks. Aggregates do not become items again.
    So it begins with columns, and where there are aggregates it goes on with objects until no key has one."""

    def __init__(
        self, takes: StreamType, state: StageState, epoch: Epoch, folded: AggregateBlock, windows: OverlappingWindows
    ) -> None:
        self.windows, self.tables = windows, Tables(takes, state)
        super().__init__(takes, state, epoch, folded, None)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""
        if isinstance(columns := self.state.operators[0], ColumnState):
            self._to_objects(columns, plain=False)

    @property
    def at_each_marker(self) -> bool:
        """Whether the operator, which is run here, skips no marker."""
        return isinstance(self.state.operators[0], HeldItems)

    def expect(self, arrived: Sequence[Arrived]) -> None:
        """These will come: hold items if nothing else is held."""
        states = self.state.operators[0]
        if isinstance(states, UnorderedState) and not (states.plain or states.states or self.state.open_blocks):
            self.state.operators[0] = HeldItems.none(self.takes, states.start)

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        if self.at_each_marker and isinstance(arrived, Items):
            return self.tables.take(arrived, placing)
        self._let_go(plain=False)
        return super().take(arrived, placing)

    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        if self.at_each_marker:
            self.tables.hold(batch)
        else:
            super().hold(link, piece, batch)

    def _let_go(self, *, plain: bool) -> None:
        """Go on with objects."""
        tables, self.state.tables = self.state.tables, []
        if isinstance(held := self.state.operators[0], HeldItems):
            self._held_to_objects(held, plain=plain)
        for table in tables:
            self.hold_objects(table)

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        held = self.state.operators[0]
        if isinstance(held, HeldItems):
            tables = self.tables.ready(coming.markers[-1])
            try:
                with np.errstate(all="ignore"):
                    due, self.state.operators[0] = self.windows.close(held, tables, coming.markers)
                return due
            except Undefined:
                self.state.tables = [*tables, *self.state.tables]
                self._let_go(plain=True)
        elif self.state.tables:
            self._let_go(plain=False)
        return super().close(coming)

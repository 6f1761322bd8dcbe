"""Open blocks as the tables in which their items came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.choices import Places
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.coded_arrays import concat_arrays, plain_array, with_short_dictionaries
from tracetypes.compiler.columns.column import Columns, inputs_of, taken_later
from tracetypes.compiler.columns.concatenation import merged_columns
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.members import members_of, union_column
from tracetypes.compiler.columns.ordering import Runs, Sorter, codes_of
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import Due, Flows, Objects, OrderedItems, runs_by_block
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import Inputs, KeyedFlow
from tracetypes.compiler.runtime.frontier import NEVER
from tracetypes.compiler.runtime.messages import NOWHERE, Items, Piece
from tracetypes.compiler.runtime.open_blocks import (
    Arrived,
    FoldedBlocks,
    OpenBlocks,
    Placing,
    occupied_blocks,
)
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import OneOf, Schema
from tracetypes.trace import StreamType

__all__ = ["FoldedTables", "Place", "SortedBlocks", "TableBlocks", "Tables"]


@final
@attrs.frozen(eq=False)
class Place:
    """The function of a sort. ``trees``: of values of each schema; ``seen`` sees what each gives."""

    trees: Places
    seen: Sequence[Callable[[Inputs, Columns, int], None]]

    def of(self, kind: Schema, values: Columns, count: int) -> Columns:
        """What it gives for values. Raises :class:`Undefined`."""
        if not isinstance(kind, OneOf):
            return self._of(0, values, count)
        members = members_of(kind, values, count)
        places = [(self._of(at, one.columns, len(one.rows)), one.rows) for at, one in enumerate(members) if len(one.rows)]
        return merged_columns(places, count)

    def _of(self, at: int, values: Columns, count: int) -> Columns:
        inputs = inputs_of({"value": values})
        places = return_values(self.trees[at][1], inputs, count)
        if self.seen:
            self.seen[at](inputs, places, count)
        return places


@final
class Tables:
    """The tables of a key group: of each the ends of its items' blocks (int64), their keys and values."""

    def __init__(self, takes: StreamType, state: StageState) -> None:
        self.takes, self.state = takes, state

    def take(self, items: Items, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        ends = placing(items.coded.column("end").to_numpy())
        keys, values = (with_short_dictionaries(items.coded.column(name)) for name in ("key", "value"))
        self.state.tables.append((ends, keys, values))
        return len(ends)

    def hold(self, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        keys, values = array(self.takes.key, batch.keys), array(self.takes.value, batch.values)
        self.state.tables.append((np.array(batch.ends, np.int64), keys, values))

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""
        for at, (ends, keys, values) in enumerate(self.state.tables):
            self.state.tables[at] = (np.where(ends == pending, marker, ends), keys, values)

    @property
    def ends(self) -> list[Any]:
        """The ends of the blocks of the items of each (int64)."""
        return [ends for ends, _, _ in self.state.tables]

    def last(self) -> int:
        """The end of the last block in which there is something."""
        return max((int(ends.max()) for ends in self.ends if len(ends)), default=NEVER)

    def ready(self, last: int) -> list[tuple[Any, Any, Any]]:
        """What is held for blocks up to ``last``; it is held no longer."""
        tables, self.state.tables = self.state.tables, []
        blocks = []
        for ends, keys, values in tables:
            waits = ends > last
            first = int(np.argmax(waits)) if waits.any() else len(ends)
            if first:
                blocks.append((ends[:first], keys.slice(0, first), values.slice(0, first)))
            if first < len(ends):
                # Times are nearly in order, so these are few: the others need not be copied.
                ends, keys, values, waits = ends[first:], keys.slice(first), values.slice(first), waits[first:]
                mask = pa.array(waits)
                left = (with_short_dictionaries(one.filter(mask)) for one in (keys, values))
                self.state.tables.append((ends[waits], *left))
                if not waits.all():
                    mask = pa.array(~waits)
                    blocks.append((ends[~waits], keys.filter(mask), values.filter(mask)))
        return blocks

    def table(self, last: int) -> tuple[Any, Any, Any] | None:
        """The same as one table; None for nothing."""
        ready = self.ready(last)
        return as_one(ready) if ready else None


def as_one(tables: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    """Tables, at least one, after each other."""
    ends, keys, values = zip(*tables, strict=True)
    return np.concatenate(ends), concat_arrays(keys), concat_arrays(values)


class TableBlocks(OpenBlocks):
    """Holds items as the tables in which they came, for a stage that only closes blocks."""

    def __init__(self, takes: StreamType, state: StageState, epoch: Epoch) -> None:
        self.tables = Tables(takes, state)
        super().__init__(takes, state, epoch)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""
        blocks, self.state.open_blocks = self.state.open_blocks, {}
        for end, (keys, values) in blocks.items():
            self.tables.hold(Batch(keys, values, [end] * len(keys)))

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        if not isinstance(arrived, Items):
            raise TypeError(f"{type(arrived).__name__} come to a stage that takes items")
        return self.tables.take(arrived, placing)

    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        self.tables.hold(batch)

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""
        self.tables.join(pending, marker)

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        flows = []
        for ends, keys, values in self.tables.ready(coming.markers[-1]):
            key, value = from_arrow(self.takes.key, keys), from_arrow(self.takes.value, values)
            flows.append((KeyedFlow.of(key, value, len(ends)), ends))
        return Flows(flows, 0)

    def last(self) -> int:
        """The end of the last block in which there may be something."""
        return self.tables.last()

    def occupied(self, coming: Coming) -> MarkerRuns:
        """The ends of the blocks of some markers in which there may be something."""
        return occupied_blocks(self.tables.ends, coming.markers[-1])


class SortedBlocks(TableBlocks):
    """The same for a stage that sorts first: many blocks at once."""

    def __init__(
        self,
        takes: StreamType,
        state: StageState,
        epoch: Epoch,
        sorter: Sorter,
        place: Place | None = None,
        *,
        as_columns: bool = False,
    ) -> None:
        """``place``: what sorts items as columns. ``as_columns``: they may go on so."""
        self.sorter, self.place, self.as_columns = sorter, place, as_columns
        super().__init__(takes, state, epoch)

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers, sorted; they are held no longer. Where they cannot be sorted all at once that is left to
        the operator."""
        tables = self.tables.ready(coming.markers[-1])
        if self.place is not None and self.as_columns:
            try:
                return self._items(self.place, tables)
            except Undefined:
                pass
        return self.sorted(as_one(tables) if tables else None, coming)

    def _items(self, place: Place, tables: Sequence[tuple[Any, Any, Any]]) -> OrderedItems:
        """The items of some tables by key. Raises :class:`Undefined`."""
        takes = self.takes
        if not tables:
            none, keys, column = np.zeros(0, np.int64), array(takes.key, []), array(takes.value, [])
            return OrderedItems(from_arrow(takes.key, keys), 0, none, none, from_arrow(takes.value, column), 1)
        ends_of_each, keys_of_each, columns = zip(*tables, strict=True)
        ends, keys = np.concatenate(ends_of_each), concat_arrays(keys_of_each)
        codes = codes_of(takes.key, keys)
        if isinstance(takes.value, OneOf):
            values: Columns = union_column(takes.value, columns)
        else:
            values = from_arrow(takes.value, concat_arrays(columns))
        rows = self.sorter.rows_of_columns([codes, ends], place.of(takes.value, values, len(ends)), values)
        counts = np.bincount(codes)  # each number is that of a key
        names = from_arrow(takes.key, plain_array(keys.take(pa.array(rows[np.cumsum(counts) - counts]))))
        codes = np.repeat(np.arange(len(counts)), counts)
        return OrderedItems(names, len(counts), codes, ends[rows], taken_later(values, rows), 1)

    def sorted(self, table: tuple[Any, Any, Any] | None, coming: Coming) -> Objects:
        """The blocks of a table as objects, sorted if they can be."""
        blocks, start = ({}, 1) if table is None else self._sorted(*table)
        return Objects(((end, blocks.get(end, Runs([], [], []))) for end in coming.markers), start)

    def _sorted(self, blocks: Any, keys: Any, column: Any) -> tuple[dict[int, Runs], int]:
        """Items by block and key, and how many operators are done."""
        takes = self.takes
        codes = codes_of(takes.key, keys)
        rows = self._rows(blocks, codes, column)
        if rows is not None:
            values, done = from_array(takes.value, column.take(pa.array(rows))), 1
        else:
            values = from_array(takes.value, column)
            try:
                rows, done = self.sorter.rows([blocks, codes], values, lambda: column), 1
            except Undefined:
                rows, done = sorted_rows(map(SortKey.column, [blocks, codes]), len(codes)), 0
            values = list(map(values.__getitem__, rows.tolist()))
        blocks, codes = blocks[rows], codes[rows]
        starts = np.flatnonzero((blocks[1:] != blocks[:-1]) | (codes[1:] != codes[:-1])) + 1
        starts = np.concatenate([[0], starts])
        counts = np.diff(starts, append=len(rows)).tolist()
        keys = from_array(takes.key, keys.take(pa.array(rows[starts])))
        return runs_by_block(blocks[starts], keys, counts, values), done

    def _rows(self, blocks: Any, codes: Any, column: Any) -> Any:
        """The rows (int64) in order, found before there is any object; None where columns do not tell."""
        if self.place is None or len(codes) < limits.MANY:
            return None
        values = from_arrow(self.takes.value, column)
        try:
            return self.sorter.rows_of_columns([blocks, codes], self.place.of(self.takes.value, values, len(codes)), values)
        except Undefined:
            return None


class FoldedTables(FoldedBlocks):
    """Holds items of open blocks as tables, or aggregates by key as objects. ``tables``: of a subclass."""

    tables: Tables

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""
        self.tables.join(pending, marker)
        super().join(pending, marker)

    def last(self) -> int:
        """The end of the last block in which there may be something."""
        return max(self.tables.last(), super().last())

    def occupied(self, coming: Coming) -> MarkerRuns:
        """The ends of the blocks of some markers in which there may be something."""
        return super().occupied(coming) | occupied_blocks(self.tables.ends, coming.markers[-1])

    def hold_objects(self, table: tuple[Any, Any, Any]) -> None:
        """Hold the items of a table as objects. ``table``: the ends of their blocks (int64), their keys and values."""
        ends, keys, values = table
        batch = Batch(from_array(self.takes.key, keys), from_array(self.takes.value, values), ends.tolist())
        FoldedBlocks.hold(self, 0, NOWHERE, batch)

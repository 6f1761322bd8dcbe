"""Open blocks as the tables in which their items came, for operators whose answer follows from the items of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.summaries import Closing, keeps_all
from tracetypes.compiler.columns.column import Column, Columns, Struct, inputs_of, take
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import Emissions, run
from tracetypes.compiler.columns.groups import Groups, codes_of
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.blocks import AggregateBlock
from tracetypes.compiler.runtime.closed_blocks import Due, Flows
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import KeyedFlow, fit, fit_key
from tracetypes.compiler.runtime.messages import Items
from tracetypes.compiler.runtime.open_blocks import Arrived, Placing
from tracetypes.compiler.runtime.open_tables import FoldedTables, Tables
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.summaries import bucket_count, elements_of, needed_rows, results_of
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.markers import Marker
from tracetypes.records import INT_MAX, Integer
from tracetypes.trace import StreamType

__all__ = ["ChosenBlocks", "SeenClosing", "WholeBlocks"]

FEWEST: Final = 1 << 16
"""So many items are held before some are dropped."""

SeenClosing: TypeAlias = Callable[[KeyedFlow, Any, Groups, Sequence[Emissions]], None]
"""Sees the items of blocks, the ends of these (int64), the items by block and key, and what was emitted for each of these."""


@final
@attrs.frozen(eq=False)
class WholeBlocks:
    """What an operator emits of blocks. ``seen`` sees what it does."""

    closing: Closing
    gives: StreamType
    seen: SeenClosing | None

    @property
    def grows(self) -> bool:
        """Whether it keeps all items in any case."""
        return any(map(keeps_all, self.closing.parts))

    def flows(self, flow: KeyedFlow, ends: Any) -> Flows:
        """What is emitted of the items of some blocks. ``ends``: of the block of each item (int64). Raises :class:`Undefined`."""
        groups = Groups.of(*codes_of(ends, flow.key, flow.count))
        rows, of_row, parts = groups.any_row, np.arange(groups.number), tuple[Columns, ...]()
        if self.closing.each:
            sizes, elements = elements_of(self.closing.parts[0], flow, groups)
            of_row, parts = np.repeat(of_row, sizes), (elements,)
            rows = rows[of_row]
        else:
            parts = tuple([results_of(part, flow, groups) for part in self.closing.parts])
        ends_of, key = ends[rows], take(flow.key, rows)
        marker = Struct(Marker, ("micros",), (Column(Integer(), ends_of),))
        inputs = inputs_of({"key": key, "marker": marker, **{f"part{number}": part for number, part in enumerate(parts)}})
        flows, emissions = [], []
        for one in run(self.closing.tree, inputs, len(rows)).emissions:
            count = len(rows) if one.rows is None else len(one.rows)
            if not count:
                continue
            keys, values = fit_key(self.gives.key, one.key), fit(self.gives.value, one.value)
            flows.append((KeyedFlow.of(keys, values, count), ends_of if one.rows is None else ends_of[one.rows]))
            emissions.append(Emissions(of_row if one.rows is None else of_row[one.rows], one.number, keys, values))
        if self.seen is not None:
            self.seen(flow, ends, groups, emissions)
        return Flows(flows, 1)


@final
class ChosenBlocks(FoldedTables):
    """Holds items of open blocks as tables, where many come at once; otherwise aggregates by key, as objects. Items that are not
    needed any more are dropped while a block is open: what it holds does not grow with the time that it is open."""

    def __init__(
        self, takes: StreamType, state: StageState, epoch: Epoch, folded: AggregateBlock, blocks: WholeBlocks
    ) -> None:
        self.blocks, self.tables = blocks, Tables(takes, state)
        super().__init__(takes, state, epoch, folded, None)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""
        tables, self.state.tables = self.state.tables, []
        super().adopt()
        self.state.tables = tables

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        if isinstance(arrived, Items) and (self.state.tables or arrived.count >= limits.MANY):
            count = self.tables.take(arrived, placing)
            first, *others = map(len, self.tables.ends)
            if sum(others) > max(first, FEWEST):
                self._narrow()
            return count
        return super().take(arrived, placing)

    def _narrow(self) -> None:
        """Hold only what is needed of each block and key, in one table; all where columns do not tell, or the operator keeps
        all. Where it counts items, and keeps less than half as many numbers, aggregates are held, as objects."""
        table = self.tables.table(INT_MAX)
        assert table is not None
        flow, parts = self._flow(table), self.blocks.closing.parts
        with suppress(Undefined):
            rows = needed_rows(parts, flow, table[0], fewest=True)
            if rows is not None:
                at = pa.array(rows)
                table = table[0][rows], table[1].take(at), table[2].take(at)
            elif not self.blocks.grows and 2 * bucket_count(parts, flow, table[0]) < flow.count:
                self.hold_objects(table)
                return
        self.state.tables.append(table)

    def _flow(self, table: tuple[Any, Any, Any]) -> KeyedFlow:
        ends, keys, values = table
        return KeyedFlow.of(from_arrow(self.takes.key, keys), from_arrow(self.takes.value, values), len(ends))

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        last = coming.markers[-1]
        table = self.tables.table(last)
        if table is None:
            return super().close(coming)
        if not any(end <= last for end in self.state.open_blocks):
            with suppress(Undefined):  # then the operator tells them apart
                return self.blocks.flows(self._flow(table), table[0])
        self.hold_objects(table)
        return super().close(coming)

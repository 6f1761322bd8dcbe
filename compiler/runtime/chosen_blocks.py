"""Open blocks as the tables in which their items came, for windows that need one of their items: the last one, the smallest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

import attrs
import pyarrow as pa

from tracetypes.compiler.analysis.choices import TracedChoice
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.column import Column, Struct, inputs_of, take
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import Emissions, run
from tracetypes.compiler.columns.groups import Groups, codes_of
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.blocks import AggregateBlock
from tracetypes.compiler.runtime.choosing import one_row_each
from tracetypes.compiler.runtime.closed_blocks import Due, Flows
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import KeyedFlow, fit, fit_key
from tracetypes.compiler.runtime.messages import NOWHERE, Items
from tracetypes.compiler.runtime.open_blocks import Arrived, FoldedBlocks, Placing, occupied_blocks
from tracetypes.compiler.runtime.open_tables import Tables
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.tracing.expr import Tree, Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.records import INT_MAX, Integer
from tracetypes.trace import StreamType

__all__ = ["ChosenBlocks", "Closing", "SeenClosing"]

FEWEST: Final = 1 << 16
"""So many items are held before some are dropped."""

SeenClosing: TypeAlias = Callable[[KeyedFlow, Any, Groups, Sequence[Emissions]], None]
"""Sees the items of blocks, the ends of these (int64), the items by block and key, and what was emitted for each of these."""


@final
@attrs.frozen(eq=False)
class Closing:
    """What an operator emits of blocks. ``choice``: the item that it needs of each block and key; ``tree``: what it emits of it.
    ``seen`` sees what it does."""

    choice: TracedChoice
    tree: Tree
    gives: StreamType
    seen: SeenClosing | None

    def rows(self, flow: KeyedFlow, ends: Any) -> tuple[Groups, Any]:
        """Items by block and key, and the row (int64) of the one that is needed of each. ``ends``: of the block of each item
        (int64). Raises :class:`Undefined`."""
        groups = Groups.of(*codes_of(ends, flow.key, flow.count))
        return groups, one_row_each(self.choice, flow, groups)

    def flows(self, flow: KeyedFlow, ends: Any) -> Flows:
        """What is emitted of the items of some blocks. Raises :class:`Undefined`."""
        groups, rows = self.rows(flow, ends)
        ends_of, key = ends[rows], take(flow.key, rows)
        marker = Struct(Marker, ("micros",), (Column(Integer(), ends_of),))
        inputs = inputs_of({"key": key, "value": take(flow.value, rows), "marker": marker})
        flows, emissions = [], []
        for one in run(self.tree, inputs, groups.number).emissions:
            count = groups.number if one.rows is None else len(one.rows)
            if not count:
                continue
            keys, values = fit_key(self.gives.key, one.key), fit(self.gives.value, one.value)
            flows.append((KeyedFlow.of(keys, values, count), ends_of if one.rows is None else ends_of[one.rows]))
            emissions.append(Emissions(one.rows, one.number, keys, values))
        if self.seen is not None:
            self.seen(flow, ends, groups, emissions)
        return Flows(flows, 1)


@final
class ChosenBlocks(FoldedBlocks):
    """Holds items of open blocks as tables, where many come at once; otherwise aggregates by key, as objects. Items that are not
    needed any more are dropped while a block is open: what it holds does not grow with the time that it is open."""

    def __init__(
        self, takes: StreamType, state: StageState, epoch: Epoch, folded: AggregateBlock, closing: Closing
    ) -> None:
        self.closing, self.tables = closing, Tables(takes, state)
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
        """Hold one item of each block and key, in one table; all of them where columns do not tell."""
        table = self.tables.table(INT_MAX)
        assert table is not None
        with suppress(Undefined):
            _, rows = self.closing.rows(self._flow(table), table[0])
            at = pa.array(rows)
            table = table[0][rows], table[1].take(at), table[2].take(at)
        self.state.tables.append(table)

    def _flow(self, table: tuple[Any, Any, Any]) -> KeyedFlow:
        ends, keys, values = table
        return KeyedFlow.of(from_arrow(self.takes.key, keys), from_arrow(self.takes.value, values), len(ends))

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

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        last = coming.markers[-1]
        table = self.tables.table(last)
        if table is None:
            return super().close(coming)
        if not any(end <= last for end in self.state.open_blocks):
            with suppress(Undefined):  # then the operator tells them apart
                return self.closing.flows(self._flow(table), table[0])
        ends, keys, values = table
        batch = Batch(from_array(self.takes.key, keys), from_array(self.takes.value, values), ends.tolist())
        self.hold(0, NOWHERE, batch)
        return super().close(coming)

"""Open blocks as columns beside the states of the first operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, final

import numpy as np

from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.column import Columns
from tracetypes.compiler.columns.ordering import Pairs
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.blocks import AggregateBlock
from tracetypes.compiler.runtime.closed_blocks import Due, Flows, Objects
from tracetypes.compiler.runtime.column_states import Columnar, ColumnState
from tracetypes.compiler.runtime.emitter import joined
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.messages import Aggregates, Piece
from tracetypes.compiler.runtime.open_blocks import (
    Arrived,
    FoldedBlocks,
    Placing,
    occupied_blocks,
)
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.partial_aggregation import combined_rows
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.trace import StreamType

__all__ = ["ColumnBlocks"]


@final
class ColumnBlocks(FoldedBlocks):
    """Holds aggregates of open blocks as columns beside the states of the first operator, where both fit into columns and many
    keys share a block. ``as_columns``: what the operator emits may leave the stage as columns."""

    def __init__(
        self,
        takes: StreamType,
        state: StageState,
        epoch: Epoch,
        folded: AggregateBlock,
        columnar: Columnar,
        *,
        as_columns: bool,
    ) -> None:
        self.columnar, self.as_columns = columnar, as_columns
        super().__init__(takes, state, epoch, folded, None)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does: what of an operator can be said as columns may have changed."""
        if not (isinstance(columns := self.state.operators[0], ColumnState) and self.columnar.fits(columns)):
            super().adopt()

    def expect(self, arrived: Sequence[Arrived]) -> None:
        """These will come: go over to columns where many keys share a block."""
        by_key = self.state.operators[0]
        if not isinstance(by_key, UnorderedState) or by_key.plain:
            return
        if len(by_key.states) < limits.MANY or self.columnar.keyed.skips:
            count, blocks = 0, set[int]()
            for one in arrived:
                if isinstance(one, Aggregates):
                    count += len(one.rows)
                    blocks.update(np.unique(one.rows.ends).tolist())
            if count < limits.MANY * max(len(blocks), 1):
                return
        try:
            columns = self.columnar.from_objects(by_key.states, by_key.start, self.state.open_blocks)
        except Undefined:
            by_key.plain = True
        else:
            self.state.operators[0] = columns
            self.state.open_blocks = {}

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        columns = self.state.operators[0]
        if not isinstance(arrived, Aggregates) or not isinstance(columns, ColumnState):
            return super().take(arrived, placing)
        keyed = self.columnar.keyed
        combined = combined_rows(keyed.key, keyed.monoid, arrived.rows)
        self.columnar.hold(columns, combined.in_blocks(placing(combined.ends)))
        return len(combined)

    def absorb(self, keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Hold aggregates."""
        if not self._holds(lambda columns: self.columnar.hold_objects(columns, keys, aggs, ends)):
            super().absorb(keys, aggs, ends)

    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        if not self._holds(lambda columns: self.columnar.hold_items(columns, self.takes, batch)):
            super().hold(link, piece, batch)

    def _holds(self, hold: Callable[[ColumnState], None]) -> bool:
        """Hold something as columns, if that is how things are held. What does not fit makes them objects, for good."""
        columns = self.state.operators[0]
        if not isinstance(columns, ColumnState):
            return False
        try:
            hold(columns)
        except Undefined:
            self._to_objects(columns, plain=True)
            return False
        return True

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""
        columns = self.state.operators[0]
        if isinstance(columns, ColumnState):
            columns.open_aggregates = [
                one.in_blocks(np.where(one.ends == pending, marker, one.ends)) for one in columns.open_aggregates
            ]
        super().join(pending, marker)

    def last(self) -> int:
        """The end of the last block in which there may be something."""
        columns = self.state.operators[0]
        if not isinstance(columns, ColumnState):
            return super().last()
        return max([super().last(), *(int(one.ends.max()) for one in columns.open_aggregates if len(one))])

    def occupied(self, coming: Coming) -> MarkerRuns:
        """The ends of the blocks of some markers in which there may be something."""
        columns, occupied = self.state.operators[0], super().occupied(coming)
        if not isinstance(columns, ColumnState):
            return occupied
        return occupied | occupied_blocks((one.ends for one in columns.open_aggregates), coming.markers[-1])

    @property
    def at_each_marker(self) -> bool:
        """Whether the operator, which is run here, skips no marker."""
        columnar = self.columnar
        return isinstance(self.state.operators[0], ColumnState) and not (columnar.keyed.skips or columnar.tumbles)

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        columns = self.state.operators[0]
        if not isinstance(columns, ColumnState):
            return super().close(coming)
        emitted: dict[int, list[KeyedFlow]] = {}

        def out(end: int, key: Columns, value: Columns, count: int) -> None:
            emitted.setdefault(end, []).append(KeyedFlow.of(key, value, count))

        try:
            self.columnar.close(columns, list(coming.markers), out)
        except Undefined:
            self._to_objects(columns, plain=True)
            return super().close(coming)
        if self.as_columns:
            with suppress(Undefined):  # the blocks are closed: what they emitted goes on as objects
                return Flows(joined(emitted), 1)
        return Objects(((end, _pairs(emitted.get(end, ()))) for end in coming.markers), 1)


def _pairs(flows: Iterable[KeyedFlow]) -> Pairs:
    pairs = Pairs([], [])
    for flow in flows:
        keys, values = flow.pairs()
        pairs.keys.extend(keys)
        pairs.values.extend(values)
    return pairs

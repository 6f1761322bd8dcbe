"""What a key group of a stage holds of blocks that are open, and gives when they close.

How it holds them follows from the stage: items as objects (:class:`ObjectBlocks`), aggregates as objects (:class:`FoldedBlocks`)
or as columns beside the states of the first operator (:class:`ColumnBlocks`), or items as the tables in which they came
(:class:`TableBlocks`), for a stage that looks at no single item or sorts them all at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from tracetypes.arrangement import overlapping
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.batches import Batch, decode
from tracetypes.compiler.plan.plan import FromSource, MergeStep, Region, Stage, StatelessStep, links
from tracetypes.compiler.runtime.at_markers import AtMarkers
from tracetypes.compiler.runtime.blocks import AggregateBlock, BlockBuffer
from tracetypes.compiler.runtime.closed_blocks import Due, Objects
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.frontier import NEVER
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.messages import NOWHERE, Aggregates, Items, Partials, Piece
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import OPEN, StageState
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.nodes import Merge, RowPosition, Source
from tracetypes.trace import StreamType

__all__ = [
    "Arrived",
    "FoldedBlocks",
    "ObjectBlocks",
    "OpenBlocks",
    "Owners",
    "Placing",
    "occupied_blocks",
]

Placing: TypeAlias = Callable[[Any], Any]
"""From the ends that a piece gave its items to those of their blocks, as columns."""

Arrived: TypeAlias = Items | Aggregates | Partials
"""What comes for open blocks."""


# --------------------------------------------------------------------------------------------- what is due


def occupied_blocks(columns: Iterable[Any], last: int) -> MarkerRuns:
    """The ends up to ``last`` that are in columns of ends (int64)."""
    heads = [ends[np.append(True, ends[1:] != ends[:-1])] for ends in columns if len(ends)]
    if not heads:
        return NO_MARKERS
    ends = np.concatenate(heads)
    return runs_of(np.unique(ends[ends <= last]).tolist())


# ------------------------------------------------------------------------------------- what all of them need


@final
class Owners:
    """Which input each key of an ordered stream comes from: two of them have no order."""

    def __init__(self, stage: Stage) -> None:
        self.leaves = [link.leaf for link in links(stage.region)]
        self.merge = _ordered_merge(stage.region) if len(self.leaves) > 1 else None

    def check(self, state: StageState, link: int, part: int, keys: Sequence[Any]) -> None:
        """Keys have come from a part of the source of a link."""
        merged = self._merged(link, len(state.progress[link]))
        if merged is None:
            return
        owners, way = state.owners, part * len(self.leaves) + link
        for key in keys:
            if owners.setdefault(key, way) != way:
                raise overlapping(merged, key)

    def _merged(self, link: int, parts: int) -> Merge | Source | None:
        """What merges ordered streams before the stage, if its keys have to be checked: a merge, or a source in parts."""
        leaf = self.leaves[link]
        if isinstance(leaf, FromSource) and parts > 1 and isinstance(leaf.source.ordered_by, RowPosition):
            return leaf.source
        return self.merge


def _ordered_merge(region: Region) -> Merge | None:
    behind = (node for node in reversed(region.nodes) if not isinstance(node, StatelessStep))
    last = next(behind)
    return last.node if isinstance(last, MergeStep) else None


class OpenBlocks(ABC):
    """What a key group of a stage holds of open blocks, for one epoch. It lies in the state of the key group."""

    def __init__(self, takes: StreamType, state: StageState, epoch: Epoch) -> None:
        self.takes, self.state, self.epoch = takes, state, epoch
        self.adopt()

    @abstractmethod
    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""

    def expect(self, arrived: Sequence[Arrived]) -> None:  # noqa: B027
        """These will come: a chance to choose how to hold them."""

    @abstractmethod
    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""

    @abstractmethod
    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""

    @abstractmethod
    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""

    @abstractmethod
    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""

    @abstractmethod
    def last(self) -> int:
        """The end of the last block in which there may be something."""

    @abstractmethod
    def occupied(self, coming: Coming) -> MarkerRuns:
        """The ends of the blocks of some markers in which there may be something."""

    @property
    def at_each_marker(self) -> bool:
        """Does it run the first operator itself, at each marker, so that blocks have to be closed in their order?"""
        return False


# ------------------------------------------------------------------------------------------------- objects


class ObjectBlocks(OpenBlocks):
    """Holds blocks as objects, by end. ``owners``: of a stage that restores an order."""

    def __init__(
        self,
        takes: StreamType,
        state: StageState,
        epoch: Epoch,
        buffer: BlockBuffer,
        at_markers: AtMarkers | None,
        owners: Owners | None,
    ) -> None:
        self.buffer, self.at_markers, self.owners = buffer, at_markers, owners
        super().__init__(takes, state, epoch)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""
        tables, self.state.tables = self.state.tables, []
        for ends, keys, values in tables:
            batch = Batch(from_array(self.takes.key, keys), from_array(self.takes.value, values), ends.tolist())
            self.buffer.hold(self.state.open_blocks, 0, NOWHERE, batch)

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        match arrived:
            case Items(link, piece, table):
                batch = decode(self.takes, table)
                batch.ends = placing(np.array(batch.ends, np.int64)).tolist()
                self.hold(link, piece or NOWHERE, batch)
                return len(batch)
            case _:
                raise TypeError(f"{type(arrived).__name__} come to a stage that takes items")

    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        if self.owners is not None:
            self.owners.check(self.state, link, self.epoch.part_of.get((link, piece), 0), batch.keys)
        self.buffer.hold(self.state.open_blocks, link, piece, batch)

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""
        blocks = self.state.open_blocks
        waiting = blocks.pop(pending, None)
        if waiting is None:
            return
        if marker in blocks:
            self.buffer.unite(blocks[marker], waiting)
        else:
            blocks[marker] = waiting

    def close(self, coming: Coming) -> Due:
        """The blocks of some markers; they are held no longer."""
        return Objects(self._blocks(coming), 0)

    def last(self) -> int:
        """The end of the last block in which there may be something."""
        return OPEN if self.at_markers is not None else max(self.state.open_blocks, default=NEVER)

    def occupied(self, coming: Coming) -> MarkerRuns:
        """The ends of the blocks of some markers in which there may be something."""
        if self.at_markers is not None and (coming.sent or coming.passing):
            return coming.markers
        return runs_of(end for end in self.state.open_blocks if end <= coming.markers[-1])

    def _blocks(self, coming: Coming) -> Iterator[tuple[int, Any]]:
        blocks = self.state.open_blocks
        for end in coming.markers:
            if self.at_markers is not None:
                batch = self.at_markers.batch(end, *coming.links(end), self.epoch)
                if len(batch):
                    self.buffer.hold(blocks, 0, NOWHERE, batch)
            yield end, self.buffer.take(blocks.pop(end, None))


class FoldedBlocks(ObjectBlocks):
    """Holds the aggregates of open blocks by key, as objects."""

    def __init__(
        self, takes: StreamType, state: StageState, epoch: Epoch, folded: AggregateBlock, at_markers: AtMarkers | None
    ) -> None:
        self.folded = folded
        super().__init__(takes, state, epoch, folded, at_markers, None)

    def adopt(self) -> None:
        """Hold what another graph has held as this one does."""
        match self.state.operators[0]:
            case ColumnState() as columns:
                self._to_objects(columns, plain=False)
            case HeldItems() as held:
                self._held_to_objects(held, plain=False)
            case _:
                pass
        super().adopt()

    def _held_to_objects(self, held: HeldItems, *, plain: bool) -> None:
        self.state.operators[0] = UnorderedState(held.to_objects(self.folded.op, self.takes), held.start, plain=plain)

    def _to_objects(self, columns: ColumnState, *, plain: bool) -> None:
        states, self.state.open_blocks = columns.to_objects(self.folded.op.combine)
        self.state.operators[0] = UnorderedState(states, columns.start, plain=plain)

    def take(self, arrived: Arrived, placing: Placing) -> int:
        """Hold what has come; how many rows."""
        match arrived:
            case Partials(keys=keys, aggs=aggs, ends=ends):
                pass
            case Aggregates(rows=rows):
                keys, aggs, ends = self.folded.decode(self.takes, rows.to_arrow())
            case Items():
                return super().take(arrived, placing)
        self.absorb(keys, aggs, placing(np.array(ends, np.int64)).tolist())
        return len(ends)

    def absorb(self, keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Hold aggregates."""
        self.folded.absorb(self.state.open_blocks, keys, aggs, ends)

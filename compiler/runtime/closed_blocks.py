"""Blocks that close: what a stage holds of them, on its way to an operator of the stage or out.

As objects, block by block (:class:`Objects`); or as columns, many blocks at once: in any order, or those of an ordered stream by
block and key (:class:`Flows`), or by key and block, as ordered operators take them (:class:`OrderedItems`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, final

import attrs
import numpy as np

from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.column import Columns, take, take_coded, taken_later
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.ordering import Runs
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.runtime.blocks import Lists
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.messages import NOWHERE
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of

__all__ = ["Due", "Flows", "Objects", "OrderedItems", "runs_by_block"]


@final
@attrs.frozen(eq=False)
class Objects:
    """Blocks that close, each with its end, for the operator at ``start``."""

    blocks: Iterator[tuple[int, Any]]
    start: int


def runs_by_block(blocks: Any, keys: list[Any], counts: list[int], values: list[Any]) -> dict[int, Runs]:
    """Blocks as objects. ``blocks``: the end (int64, ascending) of each key's run; ``counts``: how many values it has."""
    tables = dict[int, Runs]()
    first = start = 0
    for last in [*(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)] if len(blocks) else []:
        end = start + sum(counts[first:last])
        tables[int(blocks[first])] = Runs(keys[first:last], counts[first:last], values[start:end])
        first, start = last, end
    return tables


@final
@attrs.frozen(eq=False)
class Flows:
    """The items of all blocks that close as columns, with the end of each, for the operator at ``start``. ``places``: of ordered
    items, which are one flow by block and key, the place (int64) of each among those of its block and key."""

    flows: list[tuple[KeyedFlow, Any]]
    start: int
    places: Any = None

    @property
    def count(self) -> int:
        """How many items there are."""
        return sum(flow.count for flow, _ in self.flows)

    @property
    def occupied(self) -> MarkerRuns:
        """The ends of the blocks that hold something."""
        return runs_of(np.unique(np.concatenate([ends for _, ends in self.flows])).tolist()) if self.flows else NO_MARKERS

    def objects(self, ends: Iterable[int]) -> Objects:
        """The same as objects."""
        if self.places is not None:
            return self._runs(ends)
        lists, aggregates = Lists(), dict[int, Any]()
        for flow, column in self.flows:
            lists.hold(aggregates, 0, NOWHERE, Batch(*flow.pairs(), column.tolist()))
        return Objects(((end, lists.take(aggregates.pop(end, None))) for end in ends), self.start)

    def _runs(self, ends: Iterable[int]) -> Objects:
        ((flow, column),) = self.flows
        starts = np.flatnonzero(self.places == 0)
        keys, counts = values_of(take(flow.key, starts), len(starts)), np.diff(starts, append=flow.count).tolist()
        blocks = runs_by_block(column[starts], keys, counts, values_of(flow.value, flow.count))
        return Objects(((end, blocks.get(end, Runs([], [], []))) for end in ends), self.start)


@final
@attrs.frozen(eq=False)
class OrderedItems:
    """Items of blocks that close, by key, then by block, then in the order of their key, for the operator at ``start``. ``keys``:
    ``number`` of them, each once; ``codes`` (int64, ascending): the key of each item; ``ends`` (int64): the end of its block;
    ``values``: as many."""

    keys: Columns
    number: int
    codes: Any
    ends: Any
    values: Columns
    start: int

    @property
    def count(self) -> int:
        """How many items there are."""
        return len(self.codes)

    @property
    def starts(self) -> Any:
        """Where the items of each key start (int64), and behind the last one where all end."""
        return np.searchsorted(self.codes, np.arange(self.number + 1))

    def flows(self) -> Flows:
        """The same by block, then by key."""
        if not self.count:
            return Flows([], self.start)
        codes, ends, values = self.codes, self.ends, self.values
        starts = np.flatnonzero(np.append(True, (ends[1:] != ends[:-1]) | (codes[1:] != codes[:-1])))
        counts = np.diff(starts, append=len(codes))
        order = stable_order(ends[starts])  # items of one block and key lie together
        if order is not None:
            starts, counts = starts[order], counts[order]
            rows = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(len(codes))
            codes, ends, values = np.repeat(codes[starts], counts), np.repeat(ends[starts], counts), taken_later(values, rows)
        places = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Flows([(KeyedFlow.of(take_coded(self.keys, codes), values, len(codes)), ends)], self.start, places)

    def objects(self, ends: Iterable[int]) -> Objects:
        """The same as objects, by block."""
        return self.flows().objects(ends)


Due: TypeAlias = Objects | Flows | OrderedItems

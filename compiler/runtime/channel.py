"""The far end of a channel: what another segment has sent in becomes messages. A reader may begin behind a marker: then blocks
up to it are left out, whatever of them comes later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc

from tracetypes.compiler.columns.batches import END, POSITION, from_rows, pairs_of_rows
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.plan.plan import ChannelLink, Stage
from tracetypes.compiler.runtime.flows import KeyedFlow, through
from tracetypes.compiler.runtime.messages import Markers, Message
from tracetypes.compiler.runtime.partitioner import Partitioner
from tracetypes.compiler.runtime.stateless import ItemPath, trees_of
from tracetypes.compiler.runtime.verification import Verifier, verified
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns, runs_of
from tracetypes.silence import Silence, cut, split_at

__all__ = ["ChannelKernel"]


class ChannelKernel:
    """The far end of a channel: rows that another query has sent in, messages to the stage's key groups out."""

    def __init__(self, stage: Stage, link: ChannelLink, key_groups: int, verifier: Verifier | None = None) -> None:
        self.leaf, self.link, self.key_groups, self.verifier = link.leaf, link, key_groups, verifier
        self.seen = None if verifier is None else verifier.along(link.path)
        sums = None if verifier is None else verifier.sums(stage)
        watch = None if verifier is None else verifier.combining(stage)
        self.partitioner = Partitioner(stage, link.number, key_groups, stage.restores, sums, watch=watch)
        self.path = ItemPath(link.path, self.partitioner.put, verifier)
        self.trees = trees_of(link.path)

    def rows(self, table: Any) -> Iterator[Message]:
        """Items of one file. ``table``: an Arrow record batch of rows, as stages send them."""
        leaf = self.leaf
        if leaf.behind is not None:
            table = table.filter(pc.greater(table.column(END), leaf.behind))
        count = table.num_rows
        if not count:
            return
        ends, positions = table.column(END).to_numpy(), table.column(POSITION).to_numpy()
        if self.verifier is not None:
            self.verifier.start(int(ends[0]), count)
        if self.trees is not None:
            messages = list[Message]()
            try:
                keys, values = pairs_of_rows(leaf.layout, table)
                key, value = from_arrow(leaf.stream.key, keys), from_arrow(leaf.stream.value, values)
                whole = KeyedFlow.of(key, value, count)
                for flow in through(self.trees, whole, self.seen):
                    at = slice(None) if flow.rows is None else flow.rows
                    messages.extend(self.partitioner.columns(None, flow, ends[at], positions[at]))
            except Undefined:
                pass  # one of the rows must be run in Python: all of them are
            else:
                yield from messages
                yield from verified(self.verifier)
                return
        batch = from_rows(leaf.layout, table)
        self.partitioner.start()
        put = self.path.put
        for key, value, end, position in zip(batch.keys, batch.values, ends.tolist(), positions.tolist(), strict=True):
            put(key, value, end, position)
        self.path.flush()
        yield from self.partitioner.messages(None)
        yield from verified(self.verifier)

    def markers(self, markers: Iterable[int], complete: bool, silence: Silence) -> Iterator[Message]:
        """What was closed with the rows."""
        runs, behind = runs_of(markers), self.leaf.behind
        if behind is not None:
            runs, silence = MarkerRuns(split_at(runs.ranges, behind)[1]), split_at(silence, behind)[1]
        message = Markers(self.link.number, runs, complete, cut(silence, self.leaf.silence))
        for group in range(self.key_groups):
            yield Message(group, message)

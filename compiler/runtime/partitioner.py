"""Items on their way to a stage, or to the sink, as messages by key group. Items are combined if that makes them fewer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, overload

import numpy as np
import pyarrow as pa

from tracetypes.canonical import stable_hash
from tracetypes.compiler.analysis.monoids import Monoid
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import Batch, rows, rows_of_columns
from tracetypes.compiler.columns.column import Columns, take
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow
from tracetypes.compiler.columns.ordering import array_of_runs
from tracetypes.compiler.columns.runs import NumberRuns, Numbers, array_of_numbers
from tracetypes.compiler.plan.facts import column_monoid, joins_of, needs_of
from tracetypes.compiler.plan.plan import Stage
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.blocks import AggregateBlock, folded_by
from tracetypes.compiler.runtime.choosing import SeenChoice
from tracetypes.compiler.runtime.chunks import scatter
from tracetypes.compiler.runtime.flows import Flow, KeyedFlow
from tracetypes.compiler.runtime.messages import Aggregates, Items, Message, Partials, Piece, Rows
from tracetypes.compiler.runtime.partial_aggregation import ArrowRows, ColumnRows, SeenSums, combine, encode_parts
from tracetypes.compiler.runtime.summaries import needed_rows
from tracetypes.compiler.runtime.watch import Watch
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.formats import Layout

__all__ = ["ObjectAggregator", "Partitioner", "Straight", "ends_of_windows"]


@overload
def ends_of_windows(ends: int, size: int, offset: int) -> int: ...


@overload
def ends_of_windows(ends: Numbers, size: int, offset: int) -> Numbers: ...


def ends_of_windows(ends: Any, size: int, offset: int) -> Any:
    """The ends of the windows or panes in which blocks lie, from the ends of the blocks."""
    if isinstance(ends, NumberRuns):
        return ends.with_values(ends_of_windows(ends.values, size, offset))
    return -((offset - ends) // size) * size + offset


class Partitioner:
    """Collects items on their way to a stage and makes messages of them, by key group."""

    def __init__(
        self,
        stage: Stage,
        link: int,
        key_groups: int,
        positioned: bool,
        sums: SeenSums | None = None,
        choosing: SeenChoice | None = None,
        watch: Watch | None = None,
    ) -> None:
        """``sums``: sees items while they are combined; ``choosing``: while those are chosen that the stage needs. ``watch``:
        checks the laws of the operator that combines them."""
        self.sums, self.choosing = sums, choosing
        self.stream, self.link, self.key_groups, self.positioned = stage.takes, link, key_groups, positioned
        self.hash = stable_hash(self.stream.key)
        self.group_of: dict[Any, int] = {}
        self.joined = stage.joined
        self.monoid = column_monoid(stage)
        joins = joins_of(stage) is not None
        folded = folded_by(stage, watch) if self.monoid is None and not joins else None
        self.folding = None if folded is None else ObjectAggregator(folded)
        self.needs = needs_of(stage)
        self.start()

    def start(self) -> None:
        """Drop what was collected."""
        self.batch = Batch([], [], [], [] if self.positioned else None)

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Add an item."""
        self.batch.put(key, value, end, position)

    def extend(self, more: Batch) -> None:
        """Add many items."""
        self.batch.extend(more)

    def columns(self, piece: Piece | None, flow: KeyedFlow, ends: Numbers, positions: Any) -> Iterator[Message]:
        """Messages of items that come as columns. Raises :class:`Undefined`, before the first message, if they must be
        taken one by one."""
        if self.joined is not None:
            ends = ends_of_windows(ends, *self.joined)
        if self.monoid is not None:
            yield from self.aggregates(self.monoid, piece, flow, flow.key, ends)
            return
        rows = None
        if self.needs and flow.count >= limits.MANY:
            with suppress(Undefined):  # then the operator gets all of them
                rows = needed_rows(self.needs, flow, ends, self.choosing)
            if rows is not None:
                flow, ends = KeyedFlow.of(take(flow.key, rows), take(flow.value, rows), len(rows)), ends.take(rows)
        schema, count = self.stream.key, flow.count
        keys, values = (to_arrow(*one, count, keep_codes=True) for one in ((schema, flow.key), (self.stream.value, flow.value)))
        columns = {"value": values, "end": pa.array(array_of_numbers(ends))}
        if self.positioned:
            columns["position"] = pa.array(positions)
        yield from self.scattered(piece, keys, columns)

    def aggregates(self, monoid: Monoid, piece: Piece | None, flow: Flow, key: Columns, ends: Numbers) -> Iterable[Message]:
        """Messages of items that are combined, of which not all columns may be read."""
        if self.joined is not None:
            ends = ends_of_windows(ends, *self.joined)
        combined = combine(monoid, flow, ends, key, self.sums)
        if self.key_groups == 1:
            rows = ColumnRows(self.stream.key, monoid, combined)
            return [Message(0, Aggregates(self.link, piece, rows))] if len(combined) else []
        keys = to_arrow(self.stream.key, combined.keys, len(combined))
        batches = scatter(self.stream.key, keys, encode_parts(monoid, combined), self.key_groups)
        return [Message(group, Aggregates(self.link, piece, ArrowRows(batch))) for group, batch in batches]

    def scattered(self, piece: Piece | None, keys: Any, columns: dict[str, Any]) -> Iterator[Message]:
        """A message to each key group that has items."""
        for group, batch in scatter(self.stream.key, keys, columns, self.key_groups):
            yield Message(group, Items(self.link, piece, batch))

    def messages(self, piece: Piece | None) -> Iterator[Message]:
        """The messages of all collected items. Drops the items."""
        batch = self.batch
        self.start()
        if not len(batch):
            return
        if self.joined is not None:
            batch.ends = ends_of_windows(np.array(batch.ends, np.int64), *self.joined).tolist()
        if (self.monoid is not None or self.needs) and len(batch) >= limits.MANY:
            try:
                yield from self.combined(piece, batch)
                return
            except Undefined:
                pass  # a number that columns cannot hold: the items go as they are
        if self.folding is not None and self.folding.pays:
            yield from self.folded(self.folding, piece, batch)
            return
        yield from self.items(piece, batch)

    def combined(self, piece: Piece | None, batch: Batch) -> Iterator[Message]:
        """The items combined as columns."""
        stream = self.stream
        keys = from_arrow(stream.key, array(stream.key, batch.keys))
        values = from_arrow(stream.value, array(stream.value, batch.values))
        flow = KeyedFlow.of(keys, values, len(batch))
        return self.columns(piece, flow, np.array(batch.ends, np.int64), None)

    def folded(self, folding: ObjectAggregator, piece: Piece | None, batch: Batch) -> Iterator[Message]:
        """The items combined as objects."""
        groups: dict[int, tuple[list[Any], list[Any], list[int]]] = {}
        for end, sums in folding.fold(batch).items():
            for key, agg in sums.items():
                keys, aggs, ends = groups.setdefault(self.group(key), ([], [], []))
                keys.append(key)
                aggs.append(agg)
                ends.append(end)
        for group, parts in groups.items():
            yield Message(group, Partials(self.link, piece, *parts))

    def group(self, key: Any) -> int:
        """The key group of a key."""
        group = self.group_of.get(key)
        if group is None:
            group = self.group_of[key] = self.hash(key) % self.key_groups
        return group

    def items(self, piece: Piece | None, batch: Batch) -> Iterator[Message]:
        """The items as they are."""
        stream = self.stream
        keys = array_of_runs(stream.key, batch.keys)
        columns = {"value": array(stream.value, batch.values), "end": pa.array(batch.ends, pa.int64())}
        if batch.positions is not None:
            columns["position"] = pa.array(batch.positions, pa.int64())
        yield from self.scattered(piece, keys, columns)


class Straight(Partitioner):
    """Makes rows of the sink from items that need not pass a stage."""

    def __init__(self, stage: Stage, layout: Layout) -> None:
        super().__init__(stage, 0, 1, False)
        self.layout = layout

    def columns(self, piece: Piece | None, flow: KeyedFlow, ends: Numbers, positions: Any) -> Iterator[Message]:
        """Rows of items that come as columns."""
        keys = to_arrow(self.stream.key, flow.key, flow.count)
        values = to_arrow(self.stream.value, flow.value, flow.count)
        ends = array_of_numbers(ends)
        for at in range(0, flow.count, limits.BATCH):
            part = slice(at, at + limits.BATCH)
            table = rows_of_columns(self.layout, keys[part], values[part], ends[part])
            yield Message(0, Rows(table))

    def messages(self, piece: Piece | None) -> Iterator[Message]:
        """The messages of all collected items. Drops the items."""
        batch = self.batch
        self.start()
        for at in range(0, len(batch), limits.BATCH):
            part = slice(at, at + limits.BATCH)
            some = Batch(batch.keys[part], batch.values[part], batch.ends[part], [0] * len(batch.keys[part]))
            yield Message(0, Rows(rows(self.layout, some)))


class ObjectAggregator:
    """Combines items by the author's own methods, as long as that makes them fewer."""

    def __init__(self, folded: AggregateBlock) -> None:
        self.buffer, self.pays = folded, True

    def fold(self, batch: Batch) -> dict[int, dict[Any, Any]]:
        """Aggregates by block and key."""
        aggregates: dict[int, Any] = {}
        self.buffer.hold(aggregates, 0, (0, 0, 0), batch)
        self.pays = 2 * sum(map(len, aggregates.values())) < len(batch)
        return aggregates

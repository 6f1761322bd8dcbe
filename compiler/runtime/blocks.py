"""The content of an open block of a stage: items, aggregates by key, or items with their positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from tracetypes.canonical import canonical
from tracetypes.compiler.analysis.monoids import Monoid
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.ordering import Pairs, Runs
from tracetypes.compiler.plan.facts import column_monoid, sums_only
from tracetypes.compiler.plan.plan import FromSource, Stage, links
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.partial_aggregation import objects, parts_of
from tracetypes.compiler.runtime.watch import Watch
from tracetypes.errors import LawBroken, OperatorFailed
from tracetypes.nodes import RowPosition
from tracetypes.operator_calls import call_operator, operator_failure
from tracetypes.sort_keys import sort_key
from tracetypes.state_check import aggregates_of
from tracetypes.templates import OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["MISSING", "AggregateBlock", "BlockBuffer", "Lists", "PositionBlock", "folded_by", "runs_of"]


class Lists:
    """Holds a block as it comes: keys and values."""

    def hold(self, aggregates: dict[int, Any], link: int, piece: Piece, batch: Batch) -> None:
        """Add items to their blocks."""
        last, pair = None, None
        for key, value, end in zip(batch.keys, batch.values, batch.ends, strict=True):
            if end != last or pair is None:
                last, pair = end, aggregates.setdefault(end, ([], []))
            pair[0].append(key)
            pair[1].append(value)

    def unite(self, one: Any, other: Any) -> None:
        """Add the items of another block to one."""
        one[0].extend(other[0])
        one[1].extend(other[1])

    def take(self, block: Any) -> Any:
        """The block as input of the first step: pairs."""
        return Pairs([], []) if block is None else Pairs(*block)


MISSING = object()
"""Stands for an aggregate that is not there; None may be one."""


def runs_of(ends: list[int]) -> list[tuple[int, int]]:
    """Start and end of each run of equal numbers."""
    if not ends:
        return []
    array = np.array(ends, np.int64)
    starts = [0, *(np.nonzero(array[1:] != array[:-1])[0] + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(ends)], strict=True))


class AggregateBlock:
    """Holds a block as its aggregates by key: for an ``OpKeyedUnordered`` that emits nothing for single items."""

    def __init__(
        self, op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], monoid: Monoid | None, watch: Watch | None = None
    ) -> None:
        """``watch``: checks the laws of the operator."""
        self.op, self.monoid, self.types, self.watch = op, monoid, aggregates_of(op), watch

    def decode(self, stream: StreamType, table: Any) -> tuple[list[Any], list[Any], list[int]]:
        """Keys, aggregates and ends of a message of aggregates."""
        if self.monoid is None:
            raise TypeError(f"{self.op} has no columns")
        aggs = objects(self.monoid, parts_of(self.monoid, table), table.num_rows)
        return from_array(stream.key, table.column("key")), aggs, table.column("end").to_numpy().tolist()

    def absorb(self, aggregates: dict[int, Any], keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Add aggregates to their blocks."""
        combine, returned = self.op.combine, self.types.returned
        key: Any = None
        try:
            last, sums = None, {}
            for key, agg, end in zip(keys, aggs, ends, strict=True):
                if end != last:
                    last, sums = end, aggregates.setdefault(end, {})
                other = sums.get(key, MISSING)
                sums[key] = agg if other is MISSING else returned("combine", key, combine(other, agg))
        except OperatorFailed:
            raise
        except Exception as error:
            raise operator_failure(self.op, "combine", f"key {key!r}, two parts of a block", error) from error

    def hold(self, aggregates: dict[int, Any], link: int, piece: Piece, batch: Batch) -> None:
        """Add items to their blocks."""
        op = self.op
        if self.watch is not None:
            op = self.watch.of(len(batch))
            self.watch.take(batch.keys, batch.values, batch.ends)
        self.fold(op, aggregates, batch)

    def fold(self, op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], aggregates: dict[int, Any], batch: Batch) -> None:
        """Add items to their blocks by ``op``, which may be the operator under watch."""
        lift, combine, identity = op.lift, op.combine, op.identity
        known, judge = self.types.known, self.types.judge
        count = 0
        try:
            for start, end in runs_of(batch.ends):
                keys, values = batch.keys[start:end], batch.values[start:end]
                sums = aggregates.setdefault(batch.ends[start], {})
                count, get = start, sums.get
                for key, lifted in zip(keys, map(lift, keys, values), strict=True):
                    if type(lifted) not in known:
                        judge("lift", key, lifted)
                    agg = get(key, MISSING)
                    agg = combine(self.types.returned("identity", key, identity()) if agg is MISSING else agg, lifted)
                    if type(agg) not in known:
                        judge("combine", key, agg)
                    sums[key] = agg
                    count += 1
        except (OperatorFailed, LawBroken):
            raise
        except Exception as error:
            key, value = batch.keys[count], batch.values[count]
            raise operator_failure(self.op, self._raising(key, value), f"item ({key!r}, {value!r})", error) from error

    def _raising(self, key: Any, value: Any) -> str:
        """Which method raised for an item. They are pure: they may be asked again."""
        for method, call in (("identity", self.op.identity), ("lift", lambda: self.op.lift(key, value))):
            try:
                call()
            except Exception:
                return method
        return "combine"

    def unite(self, one: Any, other: Any) -> None:
        """Add the aggregates of another block to one."""
        for key, agg in other.items():
            at = f"key {key!r}, two parts of a block"
            if key in one:
                agg = self.types.returned("combine", key, call_operator(self.op, "combine", at, self.op.combine, one[key], agg))
            one[key] = agg

    def take(self, block: Any) -> Any:
        """The block as input of the first step: aggregates by key."""
        return {} if block is None else block


class PositionBlock:
    """Holds a block with the position of each item, for a stage that must restore the order of an O edge."""

    def __init__(self, stage: Stage) -> None:
        whole = canonical(stage.takes.value)
        self.by: list[Callable[[Any], Any] | None] = []
        for link in links(stage.region):
            by = link.leaf.source.ordered_by if isinstance(link.leaf, FromSource) else None
            if by is None or isinstance(by, RowPosition):
                self.by.append(None)
            else:
                self.by.append(lambda v, by=by: (sort_key(by(v)), whole(v)))  # type: ignore[misc]

    def hold(self, aggregates: dict[int, Any], link: int, piece: Piece, batch: Batch) -> None:
        """Add items to their blocks."""
        by = self.by[link]
        places: Iterable[Any] = batch.positions or [0] * len(batch)
        for key, value, end, position in zip(batch.keys, batch.values, batch.ends, places, strict=True):
            order = (link, by(value)) if by is not None else (link, piece, position)
            aggregates.setdefault(end, []).append((order, key, value))

    def unite(self, one: Any, other: Any) -> None:
        """Add the items of another block to one."""
        one.extend(other)

    def take(self, block: Any) -> Any:
        """The block as input of the first step: lists of values by key, in order."""
        placed = sorted(block or (), key=itemgetter(0))
        return Runs.of([key for _, key, _ in placed], [value for _, _, value in placed])


def folded_by(stage: Stage, watch: Watch | None = None) -> AggregateBlock | None:
    """The function by which the first operator aggregates a block as it comes; None if the operator needs the items. ``watch``:
    checks its laws."""
    op = stage.steps[0].operator if stage.steps else None
    return AggregateBlock(op, column_monoid(stage), watch) if isinstance(op, OpKeyedUnordered) and sums_only(stage) else None


BlockBuffer: TypeAlias = Lists | AggregateBlock | PositionBlock

"""The aggregate of a block, and of everything up to it, for the keys that the block held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.choices import Choice
from tracetypes.markers import Marker
from tracetypes.stdlib.aggregates import Aggregate, aggregate_of, types_of
from tracetypes.stdlib.open_aggregates import over_aggregates
from tracetypes.stdlib.signatures import KeyedOperator
from tracetypes.summaries import WholeBlock
from tracetypes.templates import Emit, OpKeyedUnordered

__all__ = ["AggregatePerBlock", "Running", "Touched", "aggregate", "running"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")


Touched = tuple[int, A]
"""How many items of the block, and an aggregate."""


@attrs.frozen
class _PerBlock(OpKeyedUnordered[K, V, K, W, "Touched[A]", "Touched[A]"], Generic[K, V, W, A]):
    """Emits at each marker for the keys that the block held, and for no other."""

    skips_untouched = True

    aggregate: Aggregate[V, A, W]

    def type_arguments(self) -> Mapping[str, Any]:
        value, result = types_of(self.aggregate)
        return {"V": value, "W": result}

    def chooses(self) -> tuple[Choice[V], ...]:
        return self.aggregate.chooses()

    def lift(self, key: K, value: V) -> Touched[A]:
        return 1, self.aggregate.lift(value)

    def identity(self) -> Touched[A]:
        return 0, self.aggregate.identity()

    def combine(self, a: Touched[A], b: Touched[A]) -> Touched[A]:
        return a[0] + b[0], self.aggregate.combine(a[1], b[1])

    def initial_state(self) -> Touched[A]:
        return 0, self.aggregate.identity()

    def on_marker(self, new_state: Touched[A], key: K, marker: Marker, emit: Emit[K, W]) -> None:
        if new_state[0] > 0:
            emit(key, self.aggregate.result(new_state[1]))


@attrs.frozen
class AggregatePerBlock(_PerBlock[K, V, W, A], Generic[K, V, W, A]):
    """See :func:`aggregate`."""

    _word = "aggregate"

    def update_state(self, state: Touched[A], agg: Touched[A]) -> Touched[A]:
        return agg

    def _whole_block(self) -> WholeBlock[V] | None:
        return WholeBlock(self.aggregate._summary(), self.emit_result, True)

    def emit_result(self, key: K, result: W, marker: Marker, emit: Emit[K, W]) -> None:
        """What is emitted of the result for a block."""
        emit(key, result)


@attrs.frozen
class Running(_PerBlock[K, V, W, A], Generic[K, V, W, A]):
    """See :func:`running`."""

    _word = "running"

    def update_state(self, state: Touched[A], agg: Touched[A]) -> Touched[A]:
        return agg[0], self.aggregate.combine(state[1], agg[1])


@over_aggregates
def aggregate(agg: Aggregate[V, Any, W]) -> KeyedOperator[V, W]:
    """``U[K, V] -> U[K, W]``: the aggregate of each key and block, at the marker that ends the block. Keys without items
    in the block are silent. A tumbling window as long as the blocks.

    >>> preview(aggregate(sum(to=int)), U[str, int], [("a", 1), ("a", 2), ("b", 3)], [("a", 4)])
    [[('a', 3), ('b', 3)], [('a', 4)]]
    """
    operator: AggregatePerBlock[Any, V, W, Any] = AggregatePerBlock(aggregate_of("aggregate", agg))
    return operator


@over_aggregates
def running(aggregate: Aggregate[V, Any, W]) -> KeyedOperator[V, W]:
    """``U[K, V] -> U[K, W]``: the aggregate of all items of a key so far, at each marker whose block held one of its items.

    >>> preview(running(sum(to=int)), U[str, int], [("a", 1), ("a", 2), ("b", 3)], [("a", 4)])
    [[('a', 3), ('b', 3)], [('a', 7)]]
    """
    operator: Running[Any, V, W, Any] = Running(aggregate_of("running", aggregate))
    return operator

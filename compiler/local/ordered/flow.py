"""Operators joined to a graph without cycles: worklists, buffers, merges, and how much is in flight."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from tracetypes.compiler.local.ordered.block_order import BlockOrderBuffer
from tracetypes.compiler.local.ordered.marks import ALL, Mark
from tracetypes.compiler.local.ordered.merge import Merge
from tracetypes.compiler.local.ordered.operators import SOURCE, Edge, Kind, Operator, Order
from tracetypes.compiler.local.ordered.partitioned_worklists import HybridQueue, KeyedSharedQueue, PartitionedQueue
from tracetypes.compiler.local.ordered.primitives import Primitives, Unit
from tracetypes.compiler.local.ordered.reordering import (
    Deliver,
    LockBasedReorderingBuffer,
    NonBlockingReorderingBuffer,
    Output,
    ReorderingBuffer,
)
from tracetypes.compiler.local.ordered.worklists import PullQueue, SharedQueue, SingleQueue, Worklist

__all__ = ["Flow", "Reordering", "Scheme", "Settings"]


class Scheme(enum.Enum):
    """How a partitioned operator keeps its inputs."""

    SHARED = KeyedSharedQueue
    PARTITIONED = PartitionedQueue
    HYBRID = HybridQueue


class Reordering(enum.Enum):
    """How outputs are put in order."""

    LOCK_BASED = "lock-based"
    NON_BLOCKING = "non-blocking"


@attrs.frozen(kw_only=True)
class Settings:
    """``size``: the number of places of a non-blocking buffer."""

    scheme: Scheme = Scheme.HYBRID
    reordering: Reordering = Reordering.NON_BLOCKING
    size: int = 1024
    primitives: Primitives = attrs.field(factory=Primitives)


class Flow:
    """``operators`` from the earliest to the latest.

    *Earliest and latest.* In a chain this is the order of the operators. In any graph without cycles an operator is
    earlier the longer its longest way to an end of the graph is; among equals, as given. This is a topological order:
    each step along an edge leads to a later operator. "Latest" is then what is closest to an answer, which is what LP
    wants; "earliest" what feeds most of the graph, which is what QST wants.

    ``sinks``: where the outputs of operators without edges go, by name; one worker at a time calls each.
    ``aligned``: which marks wait at a merge for those of the other inputs. ``combine``: one of these from all.
    ``recorded``: gets, by name of operator, the inputs of a merge in the order of arrival. ``in_turn``: merges take one input
    after the other, up to an aligned mark.

    *Bounded memory.* The load of a source is the number of units in worklists, with workers, or with an output that
    waits, at all operators that can be reached from it, with what merges hold of inputs that can be reached. A source
    is not scheduled at a load of its ``budget`` or more. So behind it there are never more than its budget, and what
    becomes of one turn of it, times the largest cumulative selectivity.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        edges: Sequence[Edge],
        sinks: Mapping[str, Callable[[Sequence[Unit]], None]] | None = None,
        settings: Settings | None = None,
        *,
        aligned: Callable[[Mark], bool] = lambda mark: True,
        combine: Callable[[Sequence[Mark]], Mark] = lambda marks: marks[0],
        recorded: Mapping[str, Callable[[int], None]] | None = None,
        in_turn: bool = False,
    ) -> None:
        self.settings = settings or Settings()
        self.idle = 0
        """How many workers wait for work. Set by the scheduler."""
        self.wake: Callable[[], None] = lambda: None
        self.outgoing = {one: [edge for edge in edges if edge.source is one] for one in operators}
        self.incoming = {one: [edge for edge in edges if edge.target is one] for one in operators}
        self.operators = _from_earliest(operators, self.outgoing)
        self.merges: dict[Operator, Merge] = {}
        sinks, recorded = sinks or {}, recorded or {}
        for position, one in enumerate(self.operators):
            one.position = position
        for one in reversed(self.operators):  # what is behind it, first
            self._build(one, sinks.get(one.name, _nowhere))
            if len(self.incoming[one]) > 1:
                pairs = one.kind is Kind.PARTITIONED
                self.merges[one] = Merge(
                    len(self.incoming[one]),
                    one.worklist.put,
                    aligned=_of_pairs(aligned) if pairs else lambda unit: isinstance(unit, Mark) and aligned(unit),
                    combine=(lambda marks: (ALL, combine([mark for _, mark in marks]))) if pairs else combine,
                    recorded=recorded.get(one.name, lambda index: None),
                    primitives=self.settings.primitives,
                    in_turn=in_turn,
                )
        self.sources = [one for one in self.operators if not self.incoming[one]]
        self._reach = {one: self._reached(one) for one in self.sources}

    # ------------------------------------------------------------------------------------------------- building

    def _build(self, one: Operator, sink: Callable[[Sequence[Unit]], None]) -> None:
        deliver = self._deliver(one, sink)
        one.worklist, one.buffer, one.most = self._worklist(one, deliver)

    def _worklist(self, one: Operator, deliver: Deliver) -> tuple[Worklist, ReorderingBuffer | None, int]:
        prepared = self._prepare(one)
        process = one.process
        match one.kind:
            case Kind.SOURCE:
                return (
                    PullQueue(lambda limit: [prepared([unit]) for unit in process(limit)], one.ready, deliver),
                    None,
                    1,
                )
            case Kind.STATEFUL:
                return SingleQueue(self._prepared(one, process), deliver), None, 1
            case Kind.STATELESS:
                buffer = self._buffer(one, deliver)
                worklist = SharedQueue(self._prepared(one, process), buffer, closes=one.order is Order.BLOCKS)
                return worklist, buffer, 1_000_000
            case Kind.PARTITIONED:
                buffer = self._buffer(one, deliver)
                part = process if self._is_plain(one) else lambda partition, unit: prepared(process(partition, unit))
                make = self.settings.scheme.value
                queue = make(one.partitions, part, self._join(one), buffer, self.settings.primitives)
                return queue, buffer, one.partitions

    def _buffer(self, one: Operator, deliver: Deliver) -> ReorderingBuffer:
        settings = self.settings
        if one.order is Order.BLOCKS:
            return BlockOrderBuffer(deliver, settings.primitives)
        if settings.reordering is Reordering.LOCK_BASED:
            return LockBasedReorderingBuffer(deliver, settings.primitives)
        return NonBlockingReorderingBuffer(deliver, settings.size)

    def _is_plain(self, one: Operator) -> bool:
        edges = self.outgoing[one]
        return not edges or (len(edges) == 1 and edges[0].prepare is None)

    def _prepared(self, one: Operator, process: Callable[[Unit], Sequence[Unit]]) -> Callable[[Unit], Output]:
        if self._is_plain(one):
            return process
        prepared = self._prepare(one)
        return lambda unit: prepared(process(unit))

    def _prepare(self, one: Operator) -> Callable[[Sequence[Unit]], Output]:
        """From what an operator emits to what is delivered: a list of units; with several edges, one for each."""
        edges = self.outgoing[one]
        if self._is_plain(one):
            return lambda units: units
        ways = [edge.prepare for edge in edges]
        if len(ways) == 1:
            (way,) = ways
            assert way is not None
            return lambda units: way(units[0]) if len(units) == 1 else [ready for unit in units for ready in way(unit)]
        return lambda units: [
            units if way is None else [ready for unit in units for ready in way(unit)] for way in ways
        ]

    def _join(self, one: Operator) -> Callable[[Unit, Sequence[Output]], Output]:
        prepare, after_parts = self._prepare(one), one.after_parts
        if len(self.outgoing[one]) < 2:
            return lambda mark, outputs: [unit for output in (*outputs, prepare(after_parts(mark))) for unit in output]
        edges = range(len(self.outgoing[one]))

        def join(mark: Unit, outputs: Sequence[Output]) -> Output:
            outputs = [*(output for output in outputs if len(output)), prepare(after_parts(mark))]
            return [[unit for output in outputs for unit in output[edge]] for edge in edges]

        return join

    def _deliver(self, one: Operator, sink: Callable[[Sequence[Unit]], None]) -> Deliver:
        puts = [self._put(edge) for edge in self.outgoing[one]]
        if not puts:
            return sink
        if len(puts) == 1:
            (put,) = puts

            def deliver(output: Output) -> None:
                for unit in output:
                    put(unit)
                if self.idle:
                    self.wake()
        else:

            def deliver(output: Output) -> None:
                for put, units in zip(puts, output, strict=True):
                    for unit in units:
                        put(unit)
                if self.idle:
                    self.wake()

        return deliver

    def _put(self, edge: Edge) -> Callable[[Unit], None]:
        incoming = self.incoming[edge.target]
        if len(incoming) == 1:
            return edge.target.worklist.put
        return partial(self.merges[edge.target].put, incoming.index(edge))

    # ------------------------------------------------------------------------------------------------- load

    def _reached(self, source: Operator) -> tuple[list[Operator], list[tuple[Merge, int]]]:
        reached = {source: None}
        for one in self.operators:  # a topological order
            if one in reached:
                reached |= dict.fromkeys(edge.target for edge in self.outgoing[one])
        held = [
            (merge, index)
            for one, merge in self.merges.items()
            for index, edge in enumerate(self.incoming[one])
            if edge.source in reached
        ]
        return list(reached), held

    def load(self, source: Operator) -> int:
        """How many units are in flight behind a source."""
        operators, held = self._reach[source]
        first = 0 if source.kind is SOURCE else source.load()
        return (
            first
            + sum(one.load() for one in operators if one is not source)
            + sum(len(merge.held[index]) for merge, index in held)
        )

    def room(self, source: Operator) -> int:
        """How many units a source may still bring."""
        return source.budget - self.load(source)


def _of_pairs(aligned: Callable[[Mark], bool]) -> Callable[[Unit], bool]:
    return lambda pair: pair[0] == ALL and aligned(pair[1])


def _nowhere(units: Sequence[Unit]) -> None:
    pass


def _from_earliest(operators: Sequence[Operator], outgoing: Mapping[Operator, Sequence[Edge]]) -> list[Operator]:
    ways: dict[Operator, int] = {}

    def way(one: Operator, above: tuple[Operator, ...] = ()) -> int:
        """The length of the longest way to an end."""
        if one in above:
            raise ValueError(f"operator {one.name} is on a cycle")
        if one not in ways:
            ways[one] = max((1 + way(edge.target, (*above, one)) for edge in outgoing[one]), default=0)
        return ways[one]

    return sorted(operators, key=lambda one: -way(one))

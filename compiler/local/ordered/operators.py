"""An operator as a unit of its own for the scheduler: what it does, its worklist, its buffer, what is known of its cost."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import attrs

from tracetypes.compiler.local.ordered.primitives import Unit
from tracetypes.compiler.local.ordered.reordering import ReorderingBuffer
from tracetypes.compiler.local.ordered.worklists import Worklist

__all__ = ["SOURCE", "Edge", "Kind", "Operator", "Order"]


class Kind(enum.Enum):
    """How many workers an operator may have: the number of partitions; any; one; one."""

    PARTITIONED = "partitioned"
    STATELESS = "stateless"
    STATEFUL = "stateful"
    SOURCE = "source"


SOURCE = Kind.SOURCE
"""To look it up in the Enum takes 70 ns, which a decision of the scheduler would spend for each operator."""


class Order(enum.Enum):
    """What order the outputs of a stateless or partitioned operator are put into: that of the inputs, or only that of
    the blocks (see ``block_order`` for when this is enough)."""

    SERIAL = "serial"
    BLOCKS = "blocks"


def _only(mark: Unit) -> Sequence[Unit]:
    return (mark,)


def _none(limit: int) -> Sequence[Unit]:
    return ()


@attrs.define(eq=False, kw_only=True)
class Operator:
    """``process``: by kind. Stateless and stateful: from a unit to what it emits, the mark itself included when the unit
    is a mark. Partitioned: from a partition and a unit to what this partition emits, without the mark. Source: from a
    limit to at most so many units.

    ``after_parts``: partitioned only; called once for a mark, when all partitions have processed it, by one worker. What
    it returns follows what they emitted: the mark, at least."""

    name: str
    kind: Kind
    process: Callable[..., Sequence[Unit]] = _none
    partitions: int = 1
    order: Order = Order.SERIAL
    after_parts: Callable[[Unit], Sequence[Unit]] = _only
    ready: Callable[[], int] = lambda: 0
    """Source only: about how many units can be read."""
    budget: int = 1024
    """Of a source, or an operator that is fed from outside: how many units may be in flight behind it."""

    # Set by the flow.
    worklist: Worklist = attrs.field(init=False)
    buffer: ReorderingBuffer | None = attrs.field(init=False, default=None)
    position: int = attrs.field(init=False, default=0)
    """Among all operators, the earliest first."""

    # Set by the scheduler, under its lock.
    workers: int = attrs.field(init=False, default=0)
    most: int = attrs.field(init=False, default=1)
    """The largest number of workers at once."""
    turns: int = attrs.field(init=False, default=0)
    """How often a worker has come back from it."""
    barred: tuple[int, int, int] | None = attrs.field(init=False, default=None)
    """The stamp at which a worker found nothing that it could do."""

    # What is known of it.
    cost: float = attrs.field(init=False, default=0.0)
    """Seconds for a unit, in the last window; 0: unknown."""
    selectivity: float = attrs.field(init=False, default=1.0)
    """Units that it puts into a worklist, for each of its own, in the last window."""
    cumulative: float = attrs.field(init=False, default=1.0)
    """The same for each unit that enters the flow."""
    inflow: float = attrs.field(init=False, default=1.0)
    """Inputs for each unit that enters the flow."""
    time: float = attrs.field(init=False, default=0.0)
    """Seconds that workers have spent on it in this window."""
    done: int = attrs.field(init=False, default=0)
    """Inputs processed in this window."""
    total_time: float = attrs.field(init=False, default=0.0)
    total_done: int = attrs.field(init=False, default=0)

    def stamp(self) -> tuple[int, int, int]:
        """Changes whenever an operator on which nothing could be done may have work again."""
        return self.worklist.tail, self.turns, 0 if self.buffer is None else self.buffer.next

    def load(self) -> int:
        """How many of its inputs have not been answered: they wait, are processed, or their output waits."""
        return self.worklist.size() if self.buffer is None else self.worklist.tail - self.buffer.next


@attrs.frozen(eq=False)
class Edge:
    """``prepare``: from a unit of ``source`` to units for ``target``. To a partitioned operator it yields pairs of a
    partition and a unit, ``(ALL, mark)`` for a mark. The worker does this before it sends, so that the exit section
    only adds to queues. None: the unit itself."""

    source: Operator
    target: Operator
    prepare: Callable[[Unit], Sequence[Unit]] | None = None

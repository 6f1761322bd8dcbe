"""Markers and barriers: units that concern every partition of an operator.

The paper has no such unit. Here a mark is an input like any other, with one serial number *m*, but with a part for each
partition: it is added to every partition's queue. The output of a mark is what its parts emit, in the order of the
partitions, followed by the mark itself, once; it is sent when the last part has been processed.

Theorem. The output is that of the sequential run, in which the operator processes its inputs one after the other and a
mark is processed by all partitions.

1. *State.* The queue of a partition is first in, first out, one worker at a time processes it, and a single producer adds
   inputs in the order of their serial numbers. So when partition *p* processes its part of *m*, it has processed exactly
   the inputs of *p* before *m*. Its state is then that of the sequential run, because no input of another partition
   changes it. This holds for each *p* by itself; no moment is needed at which all partitions stand at *m*. So what
   ``on_marker`` emits for *p* is what the sequential run emits for *p*, and the states that a barrier copies are one
   consistent cut: those after all inputs before *m* and before all inputs after it.
2. *Output.* A part stores its output before it decrements ``pending``, and the decrement is atomic. So exactly one worker
   sees the last part done, and it sees all outputs. Nothing sends serial number *m* before that.
3. *Order.* The reordering buffer sends *m* after all outputs before *m* and before all outputs after it. With `typed`
   order the buffer keeps this much for marks, and only this (see ``block_order``).
4. *Downstream.* The mark leaves in the output of *m*, within the exit section, so it enters the worklist of the next
   operator at its place. By induction over a topological order every operator sees the sequential run's input. A merge
   has several producers: it puts them into one order first (see ``merge``).
5. *Progress.* No worker waits for the other parts. With a full buffer a part is refused like any input, and the input
   with the number ``next`` is never refused.

What does not keep it: the mark in one queue only (other partitions process later items before it), or in the master queue
only (whoever takes it has to wait for, or overtakes, what others still process), or sent when the first part is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracetypes.compiler.local.ordered.primitives import Primitives, Unit

__all__ = ["ALL", "Gather", "Mark"]

ALL = -1
"""Stands for every partition."""


class Mark:
    """A unit that concerns every partition, and that inputs of a merge may have in common. A driver's markers and
    barriers derive from it."""

    __slots__ = ()


class Gather:
    """The outputs of the parts of a mark, until the last part is done."""

    __slots__ = ("outputs", "pending")

    def __init__(self, partitions: int, primitives: Primitives) -> None:
        self.outputs: list[Sequence[Unit]] = [()] * partitions
        self.pending = primitives.counter(partitions)

    def add(self, partition: int, outputs: Sequence[Unit]) -> bool:
        """Store the output of one part. True for the last one."""
        self.outputs[partition] = outputs
        return self.pending.fetch_add(-1) == 1

"""Worklists: the inputs of an operator, and the loop in which a worker processes them.

One producer at a time adds inputs: a source, a merge, or the worker that sends the outputs of the operator before (in the
paper's exit section, see ``reordering``). It gives each input its serial number. Any number of workers process inputs, except in
a ``SingleQueue`` and a ``PullQueue``, which have one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tracetypes.compiler.local.ordered.marks import Mark
from tracetypes.compiler.local.ordered.primitives import Unit
from tracetypes.compiler.local.ordered.reordering import Deliver, Output, ReorderingBuffer

__all__ = ["Parked", "Process", "PullQueue", "SharedQueue", "SingleQueue", "Worklist"]

Process: TypeAlias = Callable[[Unit], Output]
"""An operator on one unit: what it emits, as it is to be delivered."""

Parked: TypeAlias = tuple[int, Output]
"""An output that its reordering buffer refused, with its number. The worker keeps it, takes other work, and sends it
again before it takes more of this operator."""


class Worklist(Protocol):
    """``tail``: how many inputs were added. ``spread``: how many more ``work`` counts, where it counts a mark once for each
    partition."""

    tail: int
    spread: int

    def put(self, unit: Unit) -> None:
        """Add an input. One producer at a time."""
        ...

    def size(self) -> int:
        """About how many inputs wait."""
        ...

    def work(self, limit: int) -> tuple[int, Parked | None]:
        """Process at most ``limit`` inputs; how many were. Never waits for inputs."""
        ...


class SingleQueue:
    """Of a stateful operator. Outputs are delivered at once, since one worker at a time is in ``work``: the scheduler
    sees to that."""

    __slots__ = ("deliver", "process", "queue", "tail")

    spread = 0

    def __init__(self, process: Process, deliver: Deliver) -> None:
        self.process, self.deliver = process, deliver
        self.queue: deque[Unit] = deque()
        self.tail = 0

    def put(self, unit: Unit) -> None:
        self.tail += 1
        self.queue.append(unit)

    def size(self) -> int:
        return len(self.queue)

    def work(self, limit: int) -> tuple[int, Parked | None]:
        queue, process, deliver = self.queue, self.process, self.deliver
        done = 0
        while done < limit and len(queue):
            deliver(process(queue.popleft()))
            done += 1
        return done, None


class PullQueue:
    """Of a source: units are read instead of added. ``read``: at most so many units; ``ready``: about how many there are.
    One worker at a time."""

    __slots__ = ("deliver", "read", "ready", "tail")

    spread = 0

    def __init__(self, read: Callable[[int], Sequence[Output]], ready: Callable[[], int], deliver: Deliver) -> None:
        self.read, self.ready, self.deliver = read, ready, deliver
        self.tail = 0

    def put(self, unit: Unit) -> None:
        raise TypeError("a source has no inputs")

    def size(self) -> int:
        return self.ready()

    def work(self, limit: int) -> tuple[int, Parked | None]:
        outputs = self.read(limit)
        for output in outputs:
            self.deliver(output)
        self.tail += len(outputs)
        return len(outputs), None


class SharedQueue:
    """Of a stateless operator: all workers take from one queue, and a reordering buffer puts the outputs in order.

    Progress with a full buffer: inputs are taken in the order of their numbers. So the input with the number ``next`` has
    been taken before any whose output is refused, its own output is never refused, and nobody waits.
    """

    __slots__ = ("buffer", "closes", "process", "queue", "tail")

    spread = 0

    def __init__(self, process: Process, buffer: ReorderingBuffer, *, closes: bool = False) -> None:
        """``closes``: the buffer wants to know of marks."""
        self.process, self.buffer, self.closes = process, buffer, closes
        self.queue: deque[tuple[int, Unit]] = deque()
        self.tail = 0

    def put(self, unit: Unit) -> None:
        serial = self.tail
        self.tail = serial + 1
        if self.closes and isinstance(unit, Mark):
            self.buffer.close(serial)
        self.queue.append((serial, unit))

    def size(self) -> int:
        return len(self.queue)

    def work(self, limit: int) -> tuple[int, Parked | None]:
        take, process, send = self.queue.popleft, self.process, self.buffer.send
        done = 0
        while done < limit:
            try:
                serial, unit = take()
            except IndexError:
                break
            output = process(unit)
            done += 1
            if not send(serial, output):
                return done, (serial, output)
        return done, None

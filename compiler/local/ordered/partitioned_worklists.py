"""Worklists of a partitioned stateful operator: three schemes (section 4).

An input is a pair of a partition and a unit; ``(ALL, mark)`` is for every partition. No two workers process one partition
at a time, and each partition processes its inputs in the order in which they were added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tracetypes.compiler.local.ordered.marks import ALL, Gather
from tracetypes.compiler.local.ordered.primitives import Lock, Primitives, Unit
from tracetypes.compiler.local.ordered.reordering import Output, ReorderingBuffer
from tracetypes.compiler.local.ordered.worklists import Parked

__all__ = ["HybridQueue", "Join", "KeyedSharedQueue", "PartitionedQueue", "ProcessPart"]

ProcessPart: TypeAlias = Callable[[int, Unit], Output]
"""A partition of an operator on a unit: what it emits. Of a mark only what this partition emits, without the mark."""

Join: TypeAlias = Callable[[Unit, Sequence[Output]], Output]
"""The output of a mark, from what each partition emits. It contains the mark once."""

_Queue: TypeAlias = deque[tuple[int, Unit, Gather | None]]
"""Inputs of one partition: number, unit, and where its output goes if it is a part of a mark."""


class HybridQueue:
    """Figure 7: a queue for each partition, and a master queue with the partitions in the order of arrival.

    A worker takes an entry from the master queue and increments the counter of its partition. If nobody has the partition, the
    worker takes it, and processes an input for each that is counted. Otherwise it has delegated the input to the
    worker that has the partition. So inputs are processed almost in the order of arrival, and nobody waits.

    In the paper the counter is also what keeps others out: only an increment from 0 lets a worker in. This needs the value
    before the increment. Python has no such operation but under a lock, which takes 280 ns for an input. Here the counter is
    a list, and its length is the value; and who has a partition has its queue in hand. Both are lists of which a worker
    only appends and pops.

    Theorem 4.1. (1) *One worker for a partition*: its place in ``parts`` holds the queue, or nothing while a worker has it.
    The worker puts the queue back when the last input it takes has been processed. (2) *In order, each once*: the queue
    of a partition is first in, first out, and only what (1) lets in takes from it. (3) *Nothing is left behind*: a
    worker that does not find the queue has incremented the counter before. Whoever has the queue then puts it back later,
    and looks at the counter after that.

    Invariant: the entries of a partition in the master queue, those in a worker's hand, and its counter together are as
    many as its inputs that have not been processed. The partition's queue is filled before the master queue, and only
    the worker that has the partition decrements. So a worker that is let in finds an input for each that is counted.

    Three things beyond the figure:

    * *The time slice bounds delegation.* A worker that has used up its slice puts as many entries back to the front of the
      master queue as were delegated to it.
    * *A full buffer.* Before a worker processes an input it tests the buffer's entry condition (``reordering``) for it.
      As ``next`` only grows, what passes here is never refused later, so no worker ends with an output in its hand. A
      worker that is refused keeps the entries and looks at the next one in the master queue; it puts them back when it
      leaves. Putting them back at once could hide the entry of the input ``next`` behind refused ones for ever.
    * *Marks.* See ``marks``: a part in every partition's queue, and an entry for each in the master queue.
    """

    __slots__ = ("buffer", "join", "master", "parts", "primitives", "process", "queues", "spread", "tail")

    def __init__(
        self, partitions: int, process: ProcessPart, join: Join, buffer: ReorderingBuffer, primitives: Primitives
    ) -> None:
        self.process, self.join, self.buffer, self.primitives = process, join, buffer, primitives
        self.queues: list[_Queue] = [deque() for _ in range(partitions)]
        self.parts: list[tuple[list[None], list[_Queue]]] = [([], [queue]) for queue in self.queues]
        """For each partition its counter, and its queue while no worker has it."""
        self.master: deque[int] = deque()
        self.tail = self.spread = 0

    def put(self, unit: Unit) -> None:
        partition, part = unit
        serial = self.tail
        self.tail = serial + 1
        if partition != ALL:
            self.queues[partition].append((serial, part, None))
            self.master.append(partition)
            return
        self.spread += len(self.queues) - 1
        self.buffer.close(serial)
        gather = Gather(len(self.queues), self.primitives)
        for queue in self.queues:
            queue.append((serial, part, gather))
        self.master.extend(range(len(self.queues)))

    def size(self) -> int:
        return len(self.master)

    def work(self, limit: int) -> tuple[int, Parked | None]:
        master, parts, buffer = self.master, self.parts, self.buffer
        take, process, send, size = master.popleft, self.process, buffer.send, buffer.size
        refused: list[int] = []
        done = 0
        while done < limit:
            try:
                partition = take()
            except IndexError:
                break
            count, free = parts[partition]
            count.append(None)
            while count:
                try:
                    queue = free.pop()
                except IndexError:
                    break  # whoever has the partition processes it
                while count:
                    if done >= limit:
                        count.pop()
                        master.appendleft(partition)
                        continue
                    serial, unit, gather = queue[0]
                    if serial - buffer.next >= size:
                        count.pop()
                        refused.append(partition)
                        continue
                    queue.popleft()
                    output = process(partition, unit)
                    if gather is None:
                        send(serial, output)
                    elif gather.add(partition, output):
                        send(serial, self.join(unit, gather.outputs))
                    done += 1
                    count.pop()
                free.append(queue)
        if refused:
            master.extendleft(reversed(refused))
        return done, None


class PartitionedQueue:
    """Figure 6: a queue for each partition; a worker takes any that nobody has.

    Order: only the holder of a partition's flag takes from its queue. Progress: as in ``HybridQueue`` an input that the
    buffer would refuse is left where it is. The input numbered ``next`` is the first of its queue, so a worker that finds
    its partition free processes it. Outputs of other partitions wait in the buffer until then, which is the weakness of
    this scheme.
    """

    __slots__ = ("buffer", "flags", "join", "primitives", "process", "queues", "spread", "start", "tail")

    def __init__(
        self, partitions: int, process: ProcessPart, join: Join, buffer: ReorderingBuffer, primitives: Primitives
    ) -> None:
        self.process, self.join, self.buffer, self.primitives = process, join, buffer, primitives
        self.queues: list[_Queue] = [deque() for _ in range(partitions)]
        self.flags = [primitives.lock() for _ in range(partitions)]
        self.start = 0
        self.tail = self.spread = 0

    def put(self, unit: Unit) -> None:
        partition, part = unit
        serial = self.tail
        self.tail = serial + 1
        if partition != ALL:
            self.queues[partition].append((serial, part, None))
            return
        self.spread += len(self.queues) - 1
        self.buffer.close(serial)
        gather = Gather(len(self.queues), self.primitives)
        for queue in self.queues:
            queue.append((serial, part, gather))

    def size(self) -> int:
        return sum(map(len, self.queues))

    def work(self, limit: int) -> tuple[int, Parked | None]:
        queues, flags, process, buffer = self.queues, self.flags, self.process, self.buffer
        size = buffer.size
        partitions = len(queues)
        first = self.start
        self.start = (first + 1) % partitions  # two workers may begin at the same one: one of them moves on
        done = 0
        for step in range(partitions):
            partition = (first + step) % partitions
            queue = queues[partition]
            flag = flags[partition]
            if not len(queue) or not flag.acquire(False):
                continue
            while done < limit and len(queue):
                serial, unit, gather = queue[0]
                if serial - buffer.next >= size:
                    break
                queue.popleft()
                output = process(partition, unit)
                if gather is None:
                    buffer.send(serial, output)
                elif gather.add(partition, output):
                    buffer.send(serial, self.join(unit, gather.outputs))
                done += 1
            flag.release()
            if done >= limit:
                break
        return done, None


class KeyedSharedQueue:
    """Figure 5: one queue for all partitions. A worker takes an input and its place in the line of the partition under
    one lock, then waits until those before it in the line are done. The baseline: workers wait for each other.

    Order: the line of a partition is in the order of the queue, because both happen under the lock. Nobody waits in a
    circle: an input waits only for inputs before it. A mark stands in the line of every partition.
    """

    __slots__ = ("buffer", "gate", "join", "last", "primitives", "process", "queue", "tail")

    spread = 0

    def __init__(
        self, partitions: int, process: ProcessPart, join: Join, buffer: ReorderingBuffer, primitives: Primitives
    ) -> None:
        self.process, self.join, self.buffer, self.primitives = process, join, buffer, primitives
        self.queue: deque[tuple[int, int, Unit]] = deque()
        self.gate = primitives.lock()
        self.last: list[Lock] = [primitives.lock() for _ in range(partitions)]
        """The lock that the last one in the line of each partition holds until it is done."""
        self.tail = 0

    def put(self, unit: Unit) -> None:
        partition, part = unit
        serial = self.tail
        self.tail = serial + 1
        if partition == ALL:
            self.buffer.close(serial)
        self.queue.append((serial, partition, part))

    def size(self) -> int:
        return len(self.queue)

    def work(self, limit: int) -> tuple[int, Parked | None]:
        queue, last, process, buffer = self.queue, self.last, self.process, self.buffer
        done = 0
        while done < limit:
            mine = self.primitives.lock()
            mine.acquire()
            with self.gate:
                if not len(queue):
                    break
                serial, partition, unit = queue.popleft()
                partitions = range(len(last)) if partition == ALL else (partition,)
                before = [last[one] for one in partitions]
                for one in partitions:
                    last[one] = mine
            try:
                for lock in before:
                    lock.acquire()
                    lock.release()
                outputs = []
                for one in partitions:
                    outputs.append(process(one, unit))
                output = self.join(unit, outputs) if partition == ALL else outputs[0]
                done += 1
                sent = buffer.send(serial, output)
            finally:
                mine.release()
            if not sent:
                return done, (serial, output)
        return done, None

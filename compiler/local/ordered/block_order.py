"""Typed order: only what the type of an edge demands is put back in order.

On an edge ``U`` the items of a block are unordered, but a mark separates blocks. On an edge ``O`` the items of one key are
ordered too. A buffer of this module keeps the order of blocks and marks, and the order in which one worker sends. So it
is enough

* for every ``U`` edge;
* for an ``O`` edge of a partitioned operator that keeps the key: all items of a key come from one partition, and its
  worker sends their outputs, one after the other, before another worker gets the partition.

An ``O`` edge of a stateless operator needs ``serial`` order: two workers may have two batches of one key.
"""

from __future__ import annotations

import sys
from collections import deque

from tracetypes.compiler.local.ordered.primitives import Primitives
from tracetypes.compiler.local.ordered.reordering import Deliver, Output

__all__ = ["BlockOrderBuffer"]


class BlockOrderBuffer:
    """Outputs in the order of their blocks; those of one block as they come. Nobody waits, as in the non-blocking buffer:
    one worker holds the flag and sends for all.

    Theorem. Let *m* be the number of the first mark that has not been sent. An output before *m* is sent when it comes;
    *m* after all outputs before it; all others after *m*. The producer registers *m* (``close``) before any input after
    *m* can be processed, so an output that finds no mark before it belongs to the open block. *m* is sent when *m* outputs
    have been sent. These are those before it, since numbers begin at 0 and are unique, and none after *m* is sent.

    Its memory is bounded by the budget of units in flight, not by a size of its own.
    """

    __slots__ = ("arrived", "deliver", "flag", "marks", "next", "size", "waiting")

    def __init__(self, deliver: Deliver, primitives: Primitives | None = None) -> None:
        self.deliver = deliver
        self.flag = (primitives or Primitives()).lock()
        self.arrived: deque[tuple[int, Output]] = deque()
        """Outputs that nobody has looked at."""
        self.waiting: dict[int, Output] = {}
        """Outputs of later blocks and of marks, by number, as they came."""
        self.marks: deque[int] = deque()
        self.next = 0
        """How many outputs were sent."""
        self.size = sys.maxsize

    def close(self, serial: int) -> None:
        """The input with this number is a mark."""
        self.marks.append(serial)

    def send(self, serial: int, output: Output) -> bool:
        arrived = self.arrived
        arrived.append((serial, output))
        while len(arrived) and self.flag.acquire(False):
            while len(arrived):
                serial, output = arrived.popleft()
                if not len(self.marks) or serial < self.marks[0]:
                    self.deliver(output)
                    self.next += 1
                else:
                    self.waiting[serial] = output
                self._send_marks()
            self.flag.release()
        return True

    def _send_marks(self) -> None:
        marks, waiting = self.marks, self.waiting
        while len(marks) and marks[0] == self.next and marks[0] in waiting:
            mark = marks[0]
            self.deliver(waiting.pop(mark))
            marks.popleft()
            self.next = mark + 1
            for serial in list(waiting):
                if not len(marks) or serial < marks[0]:
                    self.deliver(waiting.pop(serial))
                    self.next += 1

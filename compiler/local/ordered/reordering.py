"""Reordering buffers: outputs that are produced in any order leave in the order of their serial numbers (section 3).

Serial numbers begin at 0. All outputs of an input are one output here, with the input's number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from tracetypes.compiler.local.ordered.primitives import Flag, Primitives

__all__ = ["EMPTY", "Deliver", "LockBasedReorderingBuffer", "NonBlockingReorderingBuffer", "ReorderingBuffer"]

Output: TypeAlias = Any
Deliver: TypeAlias = Callable[[Output], None]
"""Sends an output downstream. Only one worker at a time is inside it: it is the paper's exit section."""


class _Empty:
    __slots__ = ()

    def __repr__(self) -> str:
        return "EMPTY"


EMPTY = _Empty()


class ReorderingBuffer(Protocol):
    """``next``: how many outputs were sent, which in serial order is the number of the next one; it never decreases.
    ``size``: an output whose number is ``next + size`` or more is refused."""

    next: int
    size: int

    def send(self, serial: int, output: Output) -> bool:
        """Add an output, and send what can be sent. False: refused, for lack of room; send it again later."""
        ...

    def close(self, serial: int) -> None:
        """The input with this number is a mark. Called by the producer before it adds the mark to a worklist."""
        ...


class LockBasedReorderingBuffer:
    """Figure 2: one lock around everything. A worker waits while another sends.

    Theorem: outputs are sent in the order of their numbers, because ``next`` and the sending are under one lock.
    """

    __slots__ = ("deliver", "lock", "next", "size", "waiting")

    def __init__(self, deliver: Deliver, primitives: Primitives | None = None) -> None:
        self.deliver = deliver
        self.lock = (primitives or Primitives()).lock()
        self.waiting: dict[int, Output] = {}
        self.next = 0
        self.size = sys.maxsize

    def send(self, serial: int, output: Output) -> bool:
        with self.lock:
            waiting = self.waiting
            if serial == self.next:
                while output is not EMPTY:
                    self.deliver(output)
                    serial += 1
                    output = waiting.pop(serial, EMPTY)
                self.next = serial
            else:
                waiting[serial] = output
        return True

    def close(self, serial: int) -> None:
        """A mark needs nothing here: every output waits for all before it."""


class NonBlockingReorderingBuffer:
    """Figure 4: a bounded circular buffer, an entry condition, and a flag that one worker holds while it sends. The entry
    condition: output *t* is added only while ``t < next + size``.

    Theorem 3.1: output *t* is sent after all outputs before it. Only the holder of the flag sends. Slot ``t % size`` is
    written for *t* only while ``next <= t < next + size``; the holder empties it before it increments ``next``. So within
    that time the slot holds either nothing or output *t*.

    Beyond the figure, an output whose turn it is skips its slot. A worker that has output *t* in its hand and sees that
    ``next`` is *t* sends it as soon as it holds the flag. ``next`` is still *t* then, because it becomes *t* + 1 only after
    output *t* was sent, and nobody else has this output. For the same reason its slot is empty.

    Progress: no worker waits for one that sends. An output that is added while another worker holds the flag is not left
    behind: either the holder sees it, or, if it had looked before, it looks again after it has released the flag. The
    output numbered ``next`` is never refused.
    """

    __slots__ = ("deliver", "flag", "next", "size", "slots")

    def __init__(self, deliver: Deliver, size: int = 1024) -> None:
        self.deliver = deliver
        self.flag: Flag = [None]
        self.size = size
        self.slots: list[Output] = [EMPTY] * size
        self.next = 0

    def send(self, serial: int, output: Output) -> bool:
        size, slots, flag = self.size, self.slots, self.flag
        if serial == self.next:
            try:
                flag.pop()
            except IndexError:
                pass  # another worker has it, and may have looked into the slot before
            else:
                self.deliver(output)
                serial += 1
                self.next = serial
                flag.append(None)
                if slots[serial % size] is not EMPTY:
                    self._send_pending()
                return True
        added = serial < self.next + size  # the entry condition; a number below `next` is never sent again
        if added:
            slots[serial % size] = output
        self._send_pending()
        return added

    def _send_pending(self) -> None:
        size, slots, flag = self.size, self.slots, self.flag
        while True:
            try:
                flag.pop()
            except IndexError:
                return
            number = self.next
            place = number % size
            output = slots[place]
            while output is not EMPTY:
                self.deliver(output)
                slots[place] = EMPTY
                number += 1
                self.next = number
                place = number % size
                output = slots[place]
            flag.append(None)
            if slots[place] is EMPTY:  # it may have come since
                return

    def close(self, serial: int) -> None:
        """A mark needs nothing here: every output waits for all before it."""

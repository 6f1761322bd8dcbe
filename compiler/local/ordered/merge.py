"""The inputs of an operator with several producers, in one order: that of their arrival, which can be recorded.

A worklist has one producer at a time. A merge gives it one: whoever holds its flag.

Alignment. A unit for which ``aligned`` is true (a barrier; a marker, where the operator wants blocks) is forwarded once,
when every input has brought its own. What an input brings after it is held until then. Barriers that are aligned cut
all inputs at one place, as in Chandy and Lamport's snapshots for channels in order.

Deadlock: an input that is held may not take the room of one that is waited for. So room is counted for each source by
what can be reached from it (``flow.Flow.load``): held units of another input do not count against a source, and
barriers need no room.

In turn. What arrives first depends on the machine. With ``in_turn`` it does not matter: an input is held until those before it
have brought their aligned mark. The interleaving is then that of a run that processes one input after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tracetypes.compiler.local.ordered.marks import ALL
from tracetypes.compiler.local.ordered.primitives import Primitives, Unit

__all__ = ["END", "Merge"]

END = object()
"""An input that puts this has ended: nobody waits for it any more."""


def _first(marks: Sequence[Unit]) -> Unit:
    return marks[0]


class Merge:
    """Theorem. What is put into the worklist is an interleaving of the inputs, each in its own order, cut at aligned
    marks: what an input brings before (after) its *n*-th aligned mark is put before (after) the *n*-th aligned mark.

    Arrivals are first in, first out, and one worker at a time, the holder of the flag, takes from them. After the
    release it looks again, so nothing is left behind. Nobody waits.

    ``recorded``: gets the index of the input of each unit, and ``ALL`` for an aligned mark, in the order of arrival.
    The sequential run that follows this record is the one whose output is kept by ``serial`` order.
    """

    __slots__ = ("aligned", "arrived", "combine", "flag", "held", "in_turn", "open", "put_down", "recorded", "stopped")

    def __init__(
        self,
        inputs: int,
        put: Callable[[Unit], None],
        *,
        aligned: Callable[[Unit], bool] = lambda unit: False,
        combine: Callable[[Sequence[Unit]], Unit] = _first,
        recorded: Callable[[int], None] = lambda index: None,
        primitives: Primitives | None = None,
        in_turn: bool = False,
    ) -> None:
        """``combine``: one mark from those of all inputs."""
        self.in_turn = in_turn
        self.put_down, self.aligned, self.combine, self.recorded = put, aligned, combine, recorded
        self.flag = (primitives or Primitives()).lock()
        self.arrived: deque[tuple[int, Unit]] = deque()
        self.held: list[deque[Unit]] = [deque() for _ in range(inputs)]
        self.stopped: dict[int, Unit] = {}
        """The aligned marks of the inputs that have brought one."""
        self.open = set(range(inputs))
        """The inputs that have not ended."""

    def put(self, index: int, unit: Unit) -> None:
        """A unit of an input. Any number of inputs at once, each by one producer at a time."""
        arrived = self.arrived
        arrived.append((index, unit))
        while len(arrived) and self.flag.acquire(False):
            while len(arrived):
                index, unit = arrived.popleft()
                if self._waits(index):
                    self.held[index].append(unit)
                else:
                    self._take(index, unit)
            self.flag.release()

    def _waits(self, index: int) -> bool:
        return index in self.stopped or (
            self.in_turn and any(one < index and one not in self.stopped for one in self.open)
        )

    def _take(self, index: int, unit: Unit) -> None:
        if unit is END:
            self.open.discard(index)
        elif self.aligned(unit):
            self.stopped[index] = unit
        else:
            self.put_down(unit)
            self.recorded(index)
            return
        if self.in_turn:
            self._take_all_held()
        while self.stopped and self.stopped.keys() >= self.open:
            marks = [self.stopped[one] for one in sorted(self.stopped)]
            self.stopped.clear()
            self.put_down(self.combine(marks))
            self.recorded(ALL)
            self._take_all_held()

    def _take_all_held(self) -> None:
        for one, held in enumerate(self.held):
            self._take_held(one, held)

    def _take_held(self, index: int, held: deque[Unit]) -> None:
        while held and not self._waits(index):
            unit = held.popleft()
            if unit is END:
                self.open.discard(index)
            elif self.aligned(unit):
                self.stopped[index] = unit
            else:
                self.put_down(unit)
                self.recorded(index)

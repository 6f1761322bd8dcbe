"""The operators of a stage while nothing comes any more: at the empty blocks behind the last item, and in the silence that they
linger for (:mod:`tracetypes.silence`).

Most markers there bring nothing. So a stage goes from one marker at which an operator may do something to the next one, and
leaves those between them out: a session with a gap of a day and markers every second is visited once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol, final

from tracetypes.compiler.columns.ordering import Pairs
from tracetypes.compiler.runtime.open_blocks import Flows, OpenBlocks
from tracetypes.compiler.runtime.operators import Flowing, OrderedRunner, Runner
from tracetypes.interpreter import call_operator
from tracetypes.markers import Marker
from tracetypes.templates import OpKeyedOrdered

__all__ = ["DueMarkers", "EmptyBlocks", "EveryMarker", "MarkerSchedule", "NoMarkers"]

BEFORE_ALL = -(2**63)
"""Before every marker."""


class MarkerSchedule(Protocol):
    """When an operator has to be visited though nothing comes: never after ``until``."""

    until: int

    def next(self) -> int | None:
        """A time before which no marker needs a visit; None where none needs one."""

    def visit(self, states: list[Any], at: int, flowing: Any, marker: Marker) -> Flowing:
        """Run the operator for a block. The arguments are those of a :data:`.Runner`."""

    def visited(self, marker: Marker) -> None:
        """The operator was run by whoever holds its open blocks."""


@final
class NoMarkers:
    """An operator that does nothing for an empty block."""

    def __init__(self, run: Runner) -> None:
        self.run, self.until = run, BEFORE_ALL

    def next(self) -> int | None:
        """None."""
        return None

    def visit(self, states: list[Any], at: int, flowing: Any, marker: Marker) -> Flowing:
        """Run the operator where something comes."""
        return self.run(states, at, flowing, marker)

    def visited(self, marker: Marker) -> None:
        """Nothing follows from it."""


@final
class EveryMarker:
    """An operator that may do something at every marker up to ``until``."""

    def __init__(self, run: Runner, until: int) -> None:
        self.run, self.until, self.last = run, until, BEFORE_ALL

    def next(self) -> int | None:
        """Directly after the last visit."""
        return self.last + 1 if self.last < self.until else None

    def visit(self, states: list[Any], at: int, flowing: Any, marker: Marker) -> Flowing:
        """Run the operator."""
        self.visited(marker)
        return self.run(states, at, flowing, marker)

    def visited(self, marker: Marker) -> None:
        """The next one follows."""
        self.last = marker.micros


@final
class DueMarkers:
    """An ordered operator that says when it is due, up to ``until``."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], run: OrderedRunner, states: dict[Any, Any], until: int
    ) -> None:
        self.op, self.run, self.states, self.until = op, run, states, until
        self.due: dict[Any, int] = {}
        """When each key is due."""
        self.queue: list[tuple[int, int, Any]] = []
        """Times and keys; what is no longer in ``due`` does not count. The number in the middle decides between equal times."""
        self.number = 0
        self.ask(states)

    def ask(self, keys: Iterable[Any]) -> None:
        """Ask the operator when these keys are due."""
        for key in keys:
            time = None
            if key in self.states:  # it was not forgotten
                time = call_operator(self.op, "next_due", f"key {key!r}", self.op.next_due, self.states[key], key)
            if time is None or time > self.until:
                self.due.pop(key, None)
                continue
            self.due[key] = time
            self.number += 1
            heappush(self.queue, (time, self.number, key))

    def next(self) -> int | None:
        """The earliest time of any key."""
        while self.queue and self.due.get(self.queue[0][2]) != self.queue[0][0]:
            heappop(self.queue)
        return self.queue[0][0] if self.queue else None

    def visit(self, states: list[Any], at: int, flowing: Any, marker: Marker) -> Flowing:
        """Run the operator for the keys that are due, and those that have items."""
        runs = flowing.by_key()
        keys = dict.fromkeys(runs.keys)
        while (time := self.next()) is not None and time <= marker.micros:
            _, _, key = heappop(self.queue)
            keys[key] = None
            self.due.pop(key, None)
        out = self.run(states, at, runs, marker, keys)
        self.ask(keys)
        return out

    def visited(self, marker: Marker) -> None:
        """Ordered operators are run here."""


@final
class EmptyBlocks:
    """A stage to which nothing comes any more. ``blocks``: may run the first operator itself."""

    def __init__(self, schedules: Sequence[MarkerSchedule], states: list[Any], blocks: OpenBlocks) -> None:
        self.schedules, self.states, self.blocks = schedules, states, blocks

    def visits(self, markers: Sequence[int], *, all_of_them: bool) -> Iterator[tuple[Marker, Flowing, list[int]]]:
        """What comes out at each marker at which something may be due, and how many items flowed to each operator and out of the
        last."""
        at = 0
        while at < len(markers):
            if not all_of_them:
                times = [time for one in self.schedules if (time := one.next()) is not None]
                at = bisect_left(markers, min(times), at) if times else len(markers)
            if at < len(markers):
                marker = Marker(markers[at])
                yield marker, *self.visit(marker)
                at += 1

    def visit(self, marker: Marker) -> tuple[Flowing, list[int]]:
        """A block through the operators: empty, but for what these emit."""
        flowing: Any = Pairs([], [])
        flowed = [0] * (len(self.schedules) + 1)
        for at, one in enumerate(self.schedules):
            if at == 0 and one.until >= marker.micros:
                due = self.blocks.close({marker.micros: set()})
                objects = due.objects([marker.micros]) if isinstance(due, Flows) else due
                ((_, flowing),) = objects.blocks
                if objects.start:
                    one.visited(marker)
                else:
                    flowing = one.visit(self.states, at, flowing, marker)
            elif len(flowing.values) or one.until >= marker.micros:
                flowing = one.visit(self.states, at, flowing, marker)
            flowed[at + 1] += len(flowing.values)
        return flowing, flowed

"""The operators of a stage at markers over empty blocks: in a pause of the input, at the markers behind the last item, and in the
silence that operators linger for (:mod:`tracetypes.silence`).

Most markers there bring nothing. So a stage goes from one marker at which an operator may do something to the next one, and
leaves those between them out: a session with a gap of a day and markers every second is visited once. What an operator does at
markers where it is not visited, but for keys to come, is made up for (:meth:`MarkerSchedule.pass_to`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Protocol, final

from tracetypes.compiler.columns.ordering import Pairs
from tracetypes.compiler.runtime.closed_blocks import Objects
from tracetypes.compiler.runtime.key_states import mark_changes
from tracetypes.compiler.runtime.open_blocks import OpenBlocks
from tracetypes.compiler.runtime.operators import Flowing, OrderedRunner, Runner
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.state import keys_held
from tracetypes.marker_runs import MarkerRuns, runs_of
from tracetypes.markers import Marker
from tracetypes.operator_calls import call_operator
from tracetypes.pauses import catch_up, start_after
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["DueMarkers", "EmptyBlocks", "EveryMarker", "MarkerSchedule", "NoMarkers", "WhileKeys"]

BEFORE_ALL: Final = -(2**63)
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

    def pass_to(self, time: int) -> None:
        """The markers before a time that were not visited are left out for good."""


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

    def pass_to(self, time: int) -> None:
        """Nothing follows from it."""


@final
class EveryMarker:
    """An ordered operator that may do something at every marker up to ``until``, as long as there are keys."""

    def __init__(self, run: Runner, states: dict[Any, Any], until: int) -> None:
        self.run, self.states, self.until, self.last = run, states, until, BEFORE_ALL

    def next(self) -> int | None:
        """Directly after the last visit."""
        return self.last + 1 if self.states and self.last < self.until else None

    def visit(self, states: list[Any], at: int, flowing: Any, marker: Marker) -> Flowing:
        """Run the operator."""
        self.visited(marker)
        return self.run(states, at, flowing, marker)

    def visited(self, marker: Marker) -> None:
        """The next one follows."""
        self.last = marker.micros

    def pass_to(self, time: int) -> None:
        """Nothing follows from it: there are no keys."""


@final
class WhileKeys:
    """An unordered operator that may do something at every marker, as long as there are keys. Then only the state of keys to come
    changes. ``markers``: those at which it runs; ``states``: of all operators, its own ``at``."""

    def __init__(
        self,
        op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any],
        run: Runner,
        states: Sequence[Any],
        at: int,
        markers: MarkerRuns,
    ) -> None:
        self.op, self.run, self.states, self.at, self.markers = op, run, states, at, markers
        self.until = markers[-1] if markers else BEFORE_ALL
        self.last = BEFORE_ALL

    def next(self) -> int | None:
        """The marker after the last visit."""
        return self.markers.next(self.last + 1) if keys_held(self.states[self.at]) else None

    def visit(self, states: list[Any], at: int, flowing: Any, marker: Marker) -> Flowing:
        """Run the operator."""
        self.pass_to(marker.micros)
        self.visited(marker)
        return self.run(states, at, flowing, marker)

    def visited(self, marker: Marker) -> None:
        """The next one follows."""
        self.last = marker.micros

    def pass_to(self, time: int) -> None:
        """Change the state of keys to come as the markers would."""
        left_out = self.markers.between(self.last + 1, time - 1)
        if left_out:
            state = self.states[self.at]
            where = f"the start of keys, {len(left_out):,} empty blocks"
            state.start = call_operator(self.op, "update_state", where, start_after, self.op, state.start, len(left_out))
            self.last = left_out[-1]


@final
class DueMarkers:
    """An ordered operator that says when it is due. ``markers``: those at which it runs."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], run: OrderedRunner, states: dict[Any, Any], markers: MarkerRuns
    ) -> None:
        self.op, self.run, self.states, self.markers = op, run, states, markers
        self.until = markers[-1] if markers else BEFORE_ALL
        self.puts_off = overrides(op, "next_emission")
        """Does the last of several markers do what all of them would, where it emits nothing?"""
        method = "next_emission" if self.puts_off else "next_due"
        self.method: tuple[str, Callable[[Any, Any], int | None]] = method, getattr(op, method)
        self.due: dict[Any, int] = {}
        """When each key is due."""
        self.queue: list[tuple[int, int, Any]] = []
        """Times and keys; what is no longer in ``due`` does not count. The number in the middle decides between equal times."""
        self.number = 0
        self.ask(states)

    def ask(self, keys: Iterable[Any]) -> None:
        """Ask the operator when these keys are due."""
        name, method = self.method
        for key in keys:
            time = None
            if key in self.states:  # it was not forgotten
                time = call_operator(self.op, name, f"key {key!r}", method, self.states[key], key)
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
        self._catch_up(keys, marker.micros)
        out = self.run(states, at, runs, marker, keys)
        self.ask(keys)
        return out

    def visited(self, marker: Marker) -> None:
        """Ordered operators are run here."""

    def pass_to(self, time: int) -> None:
        """Visit the last marker before a time, for the keys to which it matters."""
        self._catch_up(self.states, time)

    def _catch_up(self, keys: Iterable[Any], time: int) -> None:
        last = self.markers.before(time) if self.puts_off else None
        if last is not None:
            for key in keys:
                if key in self.states:
                    where = f"key {key!r}, marker {Marker(last)}"
                    state = call_operator(self.op, "on_marker", where, catch_up, self.op, self.states[key], key, Marker(last))
                    self.states[key] = state
                    mark_changes(self.states, (key,))


@final
class EmptyBlocks:
    """A stage to which nothing comes. ``blocks``: may run the first operator itself."""

    def __init__(self, schedules: Sequence[MarkerSchedule], states: list[Any], blocks: OpenBlocks) -> None:
        self.schedules, self.states, self.blocks = schedules, states, blocks

    def visits(self, markers: MarkerRuns, *, all_of_them: bool) -> Iterator[tuple[Marker, Flowing, list[int]]]:
        """What comes out at each marker at which something may be due, and how many items flowed to each operator and out of the
        last."""
        time: int | None = markers[0]
        while time is not None and (at := markers.next(time)) is not None:
            yield Marker(at), *self.visit(Marker(at))
            times = [next_ for one in self.schedules if (next_ := one.next()) is not None]
            time = at + 1 if all_of_them else max(at + 1, min(times)) if times else None
        for one in self.schedules:
            one.pass_to(markers[-1] + 1)

    def visit(self, marker: Marker) -> tuple[Flowing, list[int]]:
        """A block through the operators: empty, but for what these emit."""
        flowing: Any = Pairs([], [])
        flowed = [0] * (len(self.schedules) + 1)
        for at, one in enumerate(self.schedules):
            if at == 0 and one.until >= marker.micros:
                one.pass_to(marker.micros)
                due = self.blocks.close(Coming({}, {}).only(runs_of((marker.micros,))))
                objects = due if isinstance(due, Objects) else due.objects([marker.micros])
                ((_, flowing),) = objects.blocks
                if objects.start:
                    one.visited(marker)
                else:
                    flowing = one.visit(self.states, at, flowing, marker)
            elif len(flowing.values) or one.until >= marker.micros:
                flowing = one.visit(self.states, at, flowing, marker)
            flowed[at + 1] += len(flowing.values)
        return flowing, flowed

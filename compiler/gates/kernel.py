"""A gate in a run: the decisions for the markers of an epoch, and the rows that go on.

A gate is one place for all key groups, at the end of the segment before it, where an epoch is committed. A decision needs the
whole block, and the one for the next block depends on it: an execution resets what was counted. So the groups could decide
nothing by themselves. What they compute in parallel is all that lies before the gate; the gate adds, for each item, an entry of a
dictionary.

The rows that a closed gate holds stay where they are (:class:`Piece`). They are read once for the decision, if the bound looks at
items, and again when they go on, a table of limited size after the other. Memory holds the numbers of the container, the rows
of blocks whose markers have not come, and one block at a decision; in a container gate also the latest rows that go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.bounds import Observation, Updates
from tracetypes.compiler.columns.batches import END, POSITION
from tracetypes.compiler.gates.container import KeyNumbers, RunningContainer, Snapshot
from tracetypes.compiler.gates.ordering import LatestOrder
from tracetypes.containers import Outside, let_through, no_outside, number
from tracetypes.formats import Layout
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns
from tracetypes.nodes import Gate

__all__ = ["GateKernel", "GateLeft", "GateState", "Passed", "Piece", "TablePiece"]

STRIDE = 1 << 32
"""Positions of items in a block are smaller: positions in joined blocks are apart by it."""


class Piece(Protocol):
    """Some rows as stages send them, with the end of its block in each."""

    @property
    def first(self) -> int:
        """The first of these ends."""

    @property
    def last(self) -> int:
        """The last."""

    def ends(self) -> list[int]:
        """The ends of its blocks, each once, in order."""

    def tables(self, first: int, last: int) -> Iterator[pa.Table]:
        """The rows, in tables of limited size; of blocks that end before ``first`` or after ``last`` not necessarily."""


@attrs.frozen(eq=False)
class TablePiece:
    """Rows in memory."""

    table: pa.Table
    first: int
    last: int

    @classmethod
    def of(cls, table: pa.Table) -> TablePiece:
        """Of rows, at least one."""
        ends = pc.min_max(table.column(END))
        return cls(table, ends["min"].as_py(), ends["max"].as_py())

    def ends(self) -> list[int]:
        """The ends of its blocks, each once, in order."""
        ends: list[int] = np.unique(self.table.column(END).to_numpy()).tolist()
        return ends

    def tables(self, first: int, last: int) -> Iterator[pa.Table]:
        """All rows."""
        yield self.table


@attrs.define(eq=False)
class GateState:
    """What a gate remembers between epochs, but for its container: plain values, for JSON. ``bound``: the state of the bound.
    ``previous`` and ``execution``: the last marker, and the last one that was let through; ``markers`` and ``executions``: how
    many of each there were; ``held``: markers since the last execution."""

    bound: Any
    previous: int | None = None
    execution: int | None = None
    markers: int = 0
    executions: int = 0
    held: int = 0


@attrs.frozen(eq=False)
class GateLeft:
    """What a gate leaves to another process. ``then``: the container at the last execution, if there was one. All else of it is
    in the pieces that are held."""

    state: GateState
    then: Snapshot | None


P = TypeVar("P", bound=Piece)


@attrs.frozen(eq=False)
class Passed(Generic[P]):
    """What goes on in an epoch. ``whole``: pieces as they are. ``rows``: of others, read as they are asked for. ``rest``: the
    pieces of which rows are held."""

    whole: list[P]
    rows: Iterable[pa.Table]
    markers: MarkerRuns
    rest: list[P]


class GateKernel:
    """The gate of a plan, from one epoch to the next. ``outside``: looks at the machine."""

    def __init__(self, gate: Gate, layout: Layout, *, ordered: bool, outside: Outside = no_outside) -> None:
        self.gate, self.layout, self.ordered, self.outside = gate, layout, ordered, outside
        measures = gate.bound.measures()
        self.counts = bool(measures)
        """Does the bound look at items?"""
        self.only_counts = all(isinstance(one, Updates) and one.rows is None for one in measures)
        self.order = LatestOrder(gate, layout)
        self.container = RunningContainer(gate.bound, layout.key, layout.value)
        self.state = GateState(gate.bound.fresh())
        self.looked: dict[tuple[int, str], float] = {}
        """What the machine said in this epoch, by marker and name."""
        self.waiting: dict[int, list[pa.Table]] = {}
        """Rows of blocks whose markers have not come, by their ends. Empty if the bound does not look at items."""

    # ------------------------------------------------------------------------------------------------ decisions

    def step(self, held: Sequence[P], new: Sequence[P], markers: MarkerRuns, *, complete: bool) -> Passed[P]:
        """An epoch. ``held``: what earlier ones have held; ``complete``: the input has ended with the last marker."""
        self.looked.clear()
        if self.counts:
            self.see(new)
        before, through = self.state.execution, list[range]()
        for pause, marker in self.pauses(markers):
            through.extend(let_through(self, pause).ranges)
            if marker is not None and self.decide(marker):
                through.append(range(marker, marker + 1))
        if complete and self.state.previous is not None and self.state.previous != self.state.execution:
            self.execute(self.state.previous)
            through.append(range(self.state.previous, self.state.previous + 1))
        return self.passed(held, new, markers, MarkerRuns(through), before)

    def pauses(self, markers: MarkerRuns) -> Iterator[tuple[MarkerRuns, int | None]]:
        """Markers over empty blocks, and the one behind them whose block has rows, as far as the bound looks at them; None at the
        end."""
        rest = markers
        while rest:
            first = min(self.waiting, default=None)
            marker = None if first is None else rest.next(first)
            yield (rest, None) if marker is None else (rest.up_to(marker - 1), marker)
            rest = NO_MARKERS if marker is None else rest.after(marker)

    def see(self, pieces: Sequence[Piece]) -> None:
        """Read the rows of new pieces for the decisions."""
        for piece in pieces:
            for table in piece.tables(piece.first, piece.last):
                ends = table.column(END).to_numpy()
                for end in np.unique(ends).tolist():
                    some = table if piece.first == piece.last else table.filter(pa.array(ends == end))
                    self.waiting.setdefault(end, []).append(some)

    def left(self) -> GateLeft:
        """What another process needs to go on. Of the container it is what was there at the last execution."""
        return GateLeft(self.state, self.container.at_execution())

    def go_on(self, left: GateLeft, held: Sequence[Piece]) -> None:
        """Go on where an earlier process ended, which held some pieces."""
        self.state = left.state
        if not self.counts:
            return
        self.container = RunningContainer(self.gate.bound, self.layout.key, self.layout.value)
        if left.then is not None:
            self.container.restore(left.then)
        for end in sorted({end for piece in held for end in piece.ends()}):
            self.waiting[end] = list(_of_block(held, end))
            if self.state.previous is not None:
                self.close(self.state.previous)
        self.container.mark()

    def close(self, marker: int) -> None:
        """Take the rows up to a marker into the container."""
        for end in sorted(end for end in self.waiting if end <= marker):
            tables = self.waiting.pop(end)
            if self.state.execution is not None and end <= self.state.execution:
                continue  # these rows of a piece have gone on already
            if self.only_counts:
                self.container.count(sum(table.num_rows for table in tables))
            else:
                self.container.take(*self.items(pa.concat_tables(tables)))

    def decide(self, marker: int) -> bool:
        """Is a marker let through?"""
        gate, state = self.gate, self.state
        self.close(marker)
        measures = {one: self.container.measured(one) for one in self.container.measures}
        self.seen = Observation(marker, state.previous, state.execution, measures, partial(self.look, marker))
        decision = gate.bound.decide(self.seen, state.bound)
        state.bound, state.previous, state.markers = decision.state, marker, state.markers + 1
        self.container.mark()
        state.held += 1
        if decision.reached:
            self.execute(marker)
        return decision.reached

    def next_change(self, reached: bool) -> int | None:
        """When the bound may decide otherwise than at the last marker, if nothing comes."""
        return self.gate.bound.next_change(self.seen, reached=reached)

    def repeat(self, markers: MarkerRuns, reached: bool) -> None:
        """Some markers are decided like the last one."""
        state, count = self.state, len(markers)
        state.previous, state.markers = markers[-1], state.markers + count
        if reached:
            state.execution, state.executions = markers[-1], state.executions + count
        else:
            state.held += count

    def look(self, marker: int, name: str) -> float:
        """Look at the machine, and remember what it said."""
        value = self.looked[marker, name] = self.outside(marker, name)
        return value

    def execute(self, marker: int) -> None:
        """Let a marker through."""
        self.state.execution, self.state.executions, self.state.held = marker, self.state.executions + 1, 0
        if self.counts:
            self.container.execute()

    def items(self, table: pa.Table) -> tuple[Any, Any]:
        """The places of the keys of the rows of a block in the container, and the numbers that the bound looks at. The rows of
        each key are in the order from the first to the latest."""
        names, places = self.container.names, self.container.place(self.keys(table))
        if names and has_repeats(places):
            order = np.argsort(self.order.ranks(table), kind="stable")
            table, places = table.take(pa.array(order, pa.int64())), places[order]
        numbers = np.empty((table.num_rows, len(names)))
        for at, name in enumerate(names):
            numbers[:, at] = self.numbers(table, name)
        return places, numbers

    def keys(self, table: pa.Table) -> Any:
        """The keys of rows, as an Arrow array."""
        return table.column(0).combine_chunks() if self.layout.keyed else pa.nulls(table.num_rows)

    def numbers(self, table: pa.Table, name: str) -> Any:
        """A column of the values of rows, as numbers."""
        if self.layout.opened:
            column = table.column(self.layout.places[name])
        else:
            column = table.column(int(self.layout.keyed))
            column = pc.struct_field(column, name) if name else column
        if pa.types.is_decimal(column.type):
            return np.array([number(one) for one in column.to_pylist()])
        if column.null_count:
            column = pc.fill_null(column, False if pa.types.is_boolean(column.type) else pa.scalar(0, column.type))
        return column.to_numpy().astype(np.float64)

    # ----------------------------------------------------------------------------------------------- what goes on

    def passed(
        self, held: Sequence[P], new: Sequence[P], markers: MarkerRuns, through: MarkerRuns, before: int | None
    ) -> Passed[P]:
        """The rows up to the last marker that was let through, with the end of their joined block. ``before``: the execution
        before the epoch, up to which rows have gone on already."""
        if not through:
            return Passed([], [], NO_MARKERS, [*held, *new])
        top, all_open = through[-1], len(through) == len(markers)
        as_they_are = all_open and not self.gate.latest and not (self.ordered and held)
        whole = [one for one in new if as_they_are and one.last <= top]
        parted = [one for one in (*held, *new) if one not in whole and one.first <= top]
        rows = self.latest(parted, through, before) if self.gate.latest else self.joined(parted, through, before)
        return Passed([*whole], rows, through, [one for one in (*held, *new) if one.last > top])

    def cut(
        self, pieces: Sequence[Piece], through: MarkerRuns, before: int | None
    ) -> Iterator[tuple[pa.Table, Any, Any]]:
        """The rows of pieces that go on, the ends of their blocks, and those of their joined blocks."""
        for piece in pieces:
            for table in piece.tables(piece.first if before is None else before + 1, through[-1]):
                ends = table.column(END).to_numpy()
                some = ends <= through[-1]
                if before is not None:
                    some &= ends > before
                if not some.all():
                    table, ends = table.filter(pa.array(some)), ends[some]
                if len(ends):
                    yield table, ends, _joined_ends(through, ends)

    def joined(self, pieces: Sequence[Piece], through: MarkerRuns, before: int | None) -> Iterator[pa.Table]:
        """The rows of a holding gate."""
        places: dict[int, int] = {}
        if self.ordered:
            all_ends = {end for piece in pieces for end in piece.ends() if end <= through[-1]}
            places = {end: at for at, end in enumerate(sorted(end for end in all_ends if before is None or end > before))}
        for table, ends, new_ends in self.cut(pieces, through, before):
            positions = table.column(POSITION).to_numpy()
            if self.ordered:
                positions = np.array([places[end] for end in ends.tolist()], np.int64) * STRIDE + positions
            yield _with_places(table, new_ends, positions)

    def latest(self, pieces: Sequence[Piece], through: MarkerRuns, before: int | None) -> Iterator[pa.Table]:
        """The rows of a container gate: of each key and joined block the latest. A table at a time is in memory, and of those
        before it what may go on."""
        best: pa.Table | None = None
        for table, _, _ in self.cut(pieces, through, before):
            best = self.latest_rows(table if best is None else pa.concat_tables([best, table]), through)
        if best is not None:
            ends = best.column(END).to_numpy()
            yield _with_places(best, _joined_ends(through, ends), np.zeros(len(ends), np.int64))

    def latest_rows(self, table: pa.Table, through: MarkerRuns) -> pa.Table:
        """Of each key and joined block the latest row."""
        ends, numbers = table.column(END).to_numpy(), KeyNumbers(self.layout.key)
        keys, _ = numbers.of(self.keys(table))
        count = max(numbers.count, 1)
        _, blocks = np.unique(ends, return_inverse=True)
        if has_repeats(blocks * count + keys):
            order = np.lexsort((self.order.ranks(table), ends))[::-1]
        else:
            order = np.argsort(ends, kind="stable")[::-1]
        _, joined_blocks = np.unique(_joined_ends(through, ends), return_inverse=True)
        _, at = np.unique((joined_blocks * count + keys)[order], return_index=True)
        return table.take(pa.array(order[at], pa.int64()))


def has_repeats(numbers: Any) -> bool:
    """Whether a number (int64, from 0) is there twice."""
    if not len(numbers):
        return False
    if int(numbers.max()) < 8 * len(numbers):
        return bool(np.bincount(numbers).max() > 1)
    return len(np.unique(numbers)) < len(numbers)


def _of_block(pieces: Sequence[Piece], end: int) -> Iterator[pa.Table]:
    """The rows of a block."""
    for piece in pieces:
        if piece.first <= end <= piece.last:
            for table in piece.tables(end, end):
                some = table.filter(pa.array(table.column(END).to_numpy() == end))
                if some.num_rows:
                    yield some


def _joined_ends(through: MarkerRuns, ends: Any) -> Any:
    """The markers that end the joined blocks of rows: the first that was let through, from the end (int64) of each."""
    blocks, of_row = np.unique(ends, return_inverse=True)
    return np.array([through.next(end) for end in blocks.tolist()], np.int64)[of_row]


def _with_places(table: pa.Table, ends: Any, positions: Any) -> pa.Table:
    """The rows with other ends and positions."""
    for name, column in ((END, ends), (POSITION, positions)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(column, pa.int64()))
    return table



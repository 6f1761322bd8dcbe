"""A keyed operator over columns: the states of all keys of a group as columns, a block at a time.

For an ``OpKeyedUnordered`` whose monoid is recognised and whose ``update_state`` and ``on_marker`` could be traced. It does
what the sequential algorithm does, key by key, but for all keys at once. Whatever columns cannot hold (a number beyond 64
bits, a type that changes) raises :class:`Undefined`; the caller then goes on with objects, from the states before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import attrs
import numpy as np

from tracetypes.compiler.analysis.keyed import Keyed
from tracetypes.compiler.analysis.monoids import leaves
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.column import Column, Columns, Struct, inputs_of, scalar_at, take, take_column
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import Emissions, evaluate, return_values, run
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.plan.facts import is_on_grid
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.flows import KeyedFlow, fit, fit_key
from tracetypes.compiler.runtime.partial_aggregation import (
    Combined,
    Reduced,
    SeenSums,
    combine,
    reduce_by_key,
    structured,
)
from tracetypes.compiler.runtime.scalars import OneRow, columns_of, copied, extended, full, like, put, sliced
from tracetypes.compiler.tracing.expr import Exact, Input, Pack, Undefined, Value
from tracetypes.markers import Marker
from tracetypes.records import Integer
from tracetypes.templates import OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["ClosedKeys", "ColumnState", "Columnar", "described", "objects_of"]


# -------------------------------------------------------------------------------------------------- states


@attrs.frozen
class Shape:
    """What the scalars of columns stand for: the structures of a state and of an aggregate."""

    state: Value
    agg: Value

    @classmethod
    def of(cls, keyed: Keyed) -> Shape:
        """Of an operator."""
        return cls(keyed.state, keyed.monoid.shape)

    @property
    def text(self) -> str:
        """The same for equal shapes in every process."""
        return f"{described(self.state)} of {described(self.agg)}"


def described(value: Value) -> str:
    """A structure as text."""
    if isinstance(value, Pack):
        names = value.names or tuple(map(str, range(len(value.parts))))
        parts = ", ".join(f"{name}: {described(part)}" for name, part in zip(names, value.parts, strict=True))
        return f"{value.cls.__module__}.{value.cls.__qualname__}({parts})"
    return repr(value.kind)


@attrs.define
class ColumnState:
    """States of the keys of a group. ``keys``: ``count`` of them, a slot each; ``parts``: the scalars of the states, as long as
    ``keys``; ``start``: the state of a key that is still to come; ``open_aggregates``: those of open blocks. ``shape``: what the
    scalars stand for, as text and as a pickled :class:`Shape`, which needs the author's classes only when it is asked for."""

    keys: Columns
    count: int
    parts: list[Column]
    start: Any
    open_aggregates: list[Combined]
    shape: tuple[str, bytes]

    def to_objects(self, combine: Callable[[Any, Any], Any]) -> tuple[dict[Any, Any], dict[int, dict[Any, Any]]]:
        """States by key, and aggregates by block and key. ``combine``: the author's."""
        shape: Shape = loads(self.shape[1])
        states = dict(zip(values_of(self.keys, self.count), objects_of(shape.state, self.parts, self.count), strict=True))
        blocks: dict[int, dict[Any, Any]] = {}
        for one in self.open_aggregates:
            aggs = objects_of(shape.agg, one.parts, len(one))
            for end, key, agg in zip(one.ends.tolist(), values_of(one.keys, len(one)), aggs, strict=True):
                sums = blocks.setdefault(end, {})
                sums[key] = combine(sums[key], agg) if key in sums else agg
        return states, blocks


def objects_of(shape: Value, parts: Sequence[Column], count: int) -> list[Any]:
    """Values of a structure, from its scalars."""
    paths = [path for path, _ in leaves(shape)]
    return values_of(structured(shape, dict(zip(paths, parts, strict=True)), ()), count)


@attrs.frozen(eq=False)
class ClosedKeys:
    """Keys of a block that closed: ``count`` of them, their states before, aggregates, states after, and what they emitted."""

    count: int
    end: int
    key: Columns
    old: Columns
    agg: Columns
    new: Columns
    emitted: list[Emissions]


class Columnar:
    """Runs a :class:`Keyed`. ``sums`` and ``closed`` see what it does."""

    def __init__(
        self,
        op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any],
        keyed: Keyed,
        sums: SeenSums | None = None,
        closed: Callable[[ClosedKeys], None] | None = None,
        *,
        tumbles: bool = False,
        pane: tuple[int, int] | None = None,
    ) -> None:
        """``tumbles``: blocks are whole windows, so that no state is kept. ``pane``: they are of this size and
        offset, and other markers are none of the operator's."""
        self.tumbles, self.pane = tumbles, pane
        self.op, self.keyed, self.sums, self.closed = op, keyed, sums, closed
        self.paths = [path for path, _ in leaves(keyed.state)]
        self.kinds = [at.kind for _, at in leaves(keyed.state)]
        self.start = OneRow(keyed.state, self.kinds)
        self._neutral: list[Column] | None = None
        shape = Shape.of(keyed)
        self.shape = shape.text, dumps(shape)
        self.telling = sorted(range(len(self.kinds)), key=lambda at: isinstance(self.kinds[at], Exact))
        """The parts of a state, first the one that told most keys from idle ones the last time."""

    # ------------------------------------------------------------------------------- from and to objects

    def from_objects(self, states: dict[Any, Any], start: Any, blocks: dict[int, dict[Any, Any]]) -> ColumnState:
        """Columns for states by key. Raises :class:`Undefined` when they do not fit."""
        parts = self._scalars(list(states.values()))
        state = ColumnState(self._keys(list(states)), len(states), parts, start, [], self.shape)
        for end, sums in blocks.items():
            self.hold_objects(state, list(sums), list(sums.values()), [end] * len(sums))
        return state

    def fits(self, state: ColumnState) -> bool:
        """Are these columns such as this operator makes?"""
        return state.shape[0] == self.shape[0]

    def _keys(self, keys: list[Any]) -> Columns:
        return from_arrow(self.keyed.key, array(self.keyed.key, keys))

    def _scalars(self, states: list[Any]) -> list[Column]:
        return columns_of(self.keyed.state, self.kinds, states)

    # --------------------------------------------------------------------------------------------- blocks

    def hold(self, state: ColumnState, combined: Combined) -> None:
        """Keep aggregates for blocks that are open."""
        state.open_aggregates.append(combined)
        if len(state.open_aggregates) >= limits.PIECES:
            self._gather(state.open_aggregates)

    def _gather(self, some: list[Combined]) -> None:
        """Combine the last aggregates of open blocks, as many as are about as large together as the one before them: so few
        remain, and each row is combined a few times at most."""
        total, at = limits.BATCH // limits.PIECES, len(some)
        while at and len(some[at - 1]) <= total:
            at -= 1
            total += len(some[at])
        if len(some) - at >= limits.PIECES // 2:
            with suppress(Undefined):
                some[at:] = [self._combined(some[at:])]

    def _combined(self, some: Sequence[Combined]) -> Reduced:
        """One row for each block and key of all. Raises :class:`Undefined`."""
        if len(some) == 1 and isinstance(some[0], Reduced):
            return some[0]
        ends, counts = np.concatenate([one.ends for one in some]), [len(one) for one in some]
        keys = concat([(one.keys, len(one)) for one in some])
        columns = [
            concat([(one.parts[at], size) for one, size in zip(some, counts, strict=True)]) for at in range(len(some[0].parts))
        ]
        return reduce_by_key(self.keyed.monoid.parts, ends, keys, columns, len(ends))  # type: ignore[arg-type]

    def hold_items(self, state: ColumnState, stream: StreamType, batch: Batch) -> None:
        """Keep items. Raises :class:`Undefined` when columns cannot combine them."""
        keys = from_arrow(stream.key, array(stream.key, batch.keys))
        values = from_arrow(stream.value, array(stream.value, batch.values))
        flow = KeyedFlow.of(keys, values, len(batch))
        state.open_aggregates.append(combine(self.keyed.monoid, flow, np.array(batch.ends, np.int64), keys, self.sums))

    def hold_objects(self, state: ColumnState, keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Keep aggregates that come as objects."""
        monoid = self.keyed.monoid
        parts = columns_of(monoid.shape, [part.kind for part in monoid.parts], aggs)
        columns = from_arrow(self.keyed.key, array(self.keyed.key, keys))
        self.hold(state, Combined(np.array(ends, np.int64), columns, tuple(parts)))

    def close(self, state: ColumnState, ends: list[int], out: Callable[[int, Columns, Columns, int], None]) -> None:
        """Close blocks, in order. ``out``: takes the end, keys, values and count of what a block emits.

        Raises :class:`Undefined`; then ``state`` is as it was.
        """
        before = attrs.evolve(state, parts=[copied(part) for part in state.parts], open_aggregates=list(state.open_aggregates))
        try:
            with np.errstate(all="ignore"):
                self._close(state, ends, out)
        except Undefined:
            for field in attrs.fields(ColumnState):
                setattr(state, field.name, getattr(before, field.name))
            raise

    def _close(self, state: ColumnState, ends: list[int], out: Callable[[int, Columns, Columns, int], None]) -> None:
        keyed = self.keyed
        ends = ends if self.pane is None else [end for end in ends if is_on_grid(end, self.pane)]
        if not ends:
            return
        due = self._due(state, ends[-1])
        if self.tumbles:
            if due is not None:
                self._windows(due, ends, out)
            return
        before = state.count
        slots, starts, born = self._slots(state, due, ends)
        for number, end in enumerate(ends):
            here = slice(starts[number], starts[number + 1])
            touched = slots[here]
            count = born[number]
            if count > before:
                state.parts = [
                    extended(part, fresh, count - before)
                    for part, fresh in zip(state.parts, self._fresh(state.start), strict=True)
                ]
                before = count
            aggs = sliced(due.parts, here) if due is not None else ()
            if keyed.skips:
                rows = touched
            else:
                rows = np.arange(count)
                aggs = self._spread(aggs, touched, count)
            if len(rows):
                self._block(state, rows, aggs, end, out, whole=not keyed.skips)
            if not keyed.skips:
                state.start = self.op.update_state(state.start, self.op.identity())
        if keyed.forgets:
            self._forget(state, slots[starts[-2] :])

    def _windows(self, due: Combined, ends: list[int], out: Callable[[int, Columns, Columns, int], None]) -> None:
        """Close blocks that are whole windows: each key starts anew."""
        start = self._fresh(self.op.initial_state())
        starts = [*due.ends.searchsorted(ends).tolist(), len(due)]
        for end, first, last in zip(ends, starts, starts[1:], strict=False):
            count = last - first
            if count:
                one = due.rows(np.arange(first, last))
                parts = [take_column(part, np.zeros(count, np.int64)) for part in start]
                window = ColumnState(one.keys, count, parts, None, [], self.shape)
                self._block(window, np.arange(count), one.parts, end, out, whole=True)

    def _forget(self, state: ColumnState, touched: Any) -> None:
        """Remove the keys whose state is that of a key to come, but for those that the last block touched. Few of many stay
        until there are more: removing one moves all."""
        if state.count == len(touched):
            return
        try:
            start = self._fresh(state.start)
        except Undefined:  # then no state is that one
            return
        untouched = np.ones(state.count, np.bool_)
        untouched[touched] = False
        rows, most = np.flatnonzero(untouched), 0
        for at in list(self.telling):
            left = rows[like(take_column(state.parts[at], rows), start[at])]
            if len(rows) - len(left) > most:
                most = len(rows) - len(left)
                self.telling.remove(at)
                self.telling.insert(0, at)
            rows = left
            if not len(rows):
                return
        if len(rows) * limits.FEW >= state.count:
            untouched[:] = True
            untouched[rows] = False
            stay = np.flatnonzero(untouched)
            state.keys, state.count = take(state.keys, stay), len(stay)
            state.parts = [take_column(part, stay) for part in state.parts]

    def _due(self, state: ColumnState, last: int) -> Combined | None:
        """The aggregates of the blocks up to ``last``, one row a block and key, in the order of blocks; the rest is held."""
        due: list[Combined] = []
        left: list[Combined] = []
        for one in state.open_aggregates:
            ready = one.ends <= last
            if ready.all():
                due.append(one)
            elif not ready.any():
                left.append(one)
            else:
                due.append(one.rows(np.flatnonzero(ready)))
                left.append(one.rows(np.flatnonzero(~ready)))
        state.open_aggregates = left
        if not due:
            return None
        results = self._combined(due)
        in_order = bool((results.ends[1:] >= results.ends[:-1]).all())
        return results if in_order else results.rows(np.argsort(results.ends, kind="stable"))

    def _slots(self, state: ColumnState, due: Combined | None, ends: list[int]) -> tuple[Any, list[int], list[int]]:
        """The slot of each row of ``due``; where the rows of each block start; how many keys are known from each block on.
        New keys get slots in the order of their first block."""
        count = state.count
        if due is None:
            return np.zeros(0, np.int64), [0] * (len(ends) + 1), [count] * len(ends)
        starts = [*due.ends.searchsorted(ends).tolist(), len(due)]
        keys = concat([(state.keys, count), (due.keys, len(due))]) if count else due.keys
        groups = groups_of(keys, count + len(due))
        slot_of = groups.first
        is_new = slot_of >= count
        new = np.sort(slot_of[is_new])  # the rows with which new keys come
        slot_of[is_new] = count + np.searchsorted(new, slot_of[is_new])
        born = [count] * len(ends)
        if len(new):
            born = [count + int(n) for n in np.searchsorted(new - count, starts[1:], "left")]
            state.keys = take(keys, np.concatenate([np.arange(count), new]))
            state.count = count + len(new)
        return slot_of[groups.of_row[count:]], starts, born

    def _fresh(self, start: Any) -> list[Column]:
        return self.start.of(start)

    def _spread(self, aggs: tuple[Column, ...], touched: Any, count: int) -> tuple[Column, ...]:
        """Aggregates for all keys: the identity where nothing has come."""
        if self._neutral is None:
            neutral = evaluate(self.keyed.identity, _nothing, 1)
            self._neutral = [full(part.kind, scalar_at(neutral, part.path), 1) for part in self.keyed.monoid.parts]
        columns = []
        places = np.zeros(count, np.int64)
        places[touched] = np.arange(1, len(touched) + 1)
        for at, none in enumerate(self._neutral):
            some = [(none, 1), *([(aggs[at], len(touched))] if aggs else [])]
            columns.append(take(concat(some), places))
        return tuple(columns)  # type: ignore[arg-type]

    def _block(
        self,
        state: ColumnState,
        rows: Any,
        aggs: tuple[Column, ...],
        end: int,
        out: Callable[[int, Columns, Columns, int], None],
        *,
        whole: bool,
    ) -> None:
        keyed, count = self.keyed, len(rows)
        old = state.parts if whole else [take_column(part, rows) for part in state.parts]
        by_state = dict(zip(self.paths, old, strict=True))
        by_agg = {part.path: column for part, column in zip(keyed.monoid.parts, aggs, strict=True)}
        arguments: dict[str, Columns] = {
            "state": structured(keyed.state, by_state, ()),
            "agg": structured(keyed.monoid.shape, by_agg, ()),
        }
        results = return_values(keyed.update, _finder(arguments), count)
        new = [full(kind, scalar_at(results, path), count) for kind, path in zip(self.kinds, self.paths, strict=True)]
        state.parts = new if whole else [put(part, rows, fresh) for part, fresh in zip(state.parts, new, strict=True)]
        marker = Struct(Marker, ("micros",), (Column(Integer(), end),))
        keys = take(state.keys, rows)
        of_marker = {
            "new_state": structured(keyed.state, dict(zip(self.paths, new, strict=True)), ()),
            "key": keys,
            "marker": marker,
        }
        emissions: list[Emissions] = []
        for emitted in run(keyed.on_marker, _finder(of_marker), count).emissions:
            size = count if emitted.rows is None else len(emitted.rows)
            if size:
                key, value = fit_key(keyed.gives.key, emitted.key), fit(keyed.gives.value, emitted.value)
                out(end, key, value, size)
                emissions.append(Emissions(emitted.rows, emitted.number, key, value))
        if self.closed is not None:
            self.closed(ClosedKeys(count, end, keys, arguments["state"], arguments["agg"], of_marker["new_state"], emissions))


def _finder(arguments: dict[str, Columns]) -> Callable[[Input], Column]:
    return inputs_of(arguments)


def _nothing(leaf: Input) -> Column:
    raise LookupError(f"a constant has no inputs, and this asks for {leaf.path}")

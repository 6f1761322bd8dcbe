"""Open blocks of a stage that sorts and interpolates: both steps run over columns, for all blocks that close at once."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.interpolation import TracedInterpolation
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.column import Column, Columns, concat, full_values, inputs_of, merged_columns, take
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.ordering import Sorter, codes_of
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.answers import outcome
from tracetypes.compiler.runtime.closed_blocks import Due, Flows
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.flows import KeyedFlow, fit
from tracetypes.compiler.runtime.interpolation import Emissions, emissions_of
from tracetypes.compiler.runtime.open_tables import SortedBlocks
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.sampled_arguments import Reads
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.stateless import exactly
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.tracing.expr import Tree, Undefined
from tracetypes.conformance import conformer
from tracetypes.records import Float, Integer, Schema
from tracetypes.trace import StreamType

__all__ = ["InterpolatedBlocks", "InterpolationCheck"]


@attrs.frozen(eq=False)
class _Readings:
    """Readings in the order in which the operator takes them; behind them the readings of states, of keys that have one.

    ``count`` readings have come. ``before``: the row of the reading before, of the same key; -1 for none (int64). ``time``
    (int64) and ``number`` (float64). ``first`` and ``last``: of each key its first and its last row that has come, keys in the
    order in which they come."""

    count: int
    key: Columns
    value: Columns
    before: Any
    time: Any
    number: Any
    first: Any
    last: Any


@final
class InterpolationCheck:
    """Compares interpolation over columns with the operator, on a sample of the readings."""

    def __init__(self, verifier: Verifier, traced: TracedInterpolation, stream: StreamType) -> None:
        self.verifier, self.traced, self.stream = verifier, traced, stream
        self.name = verifier.names[id(traced.op)]
        self.asks = any(Reads.of(tree).asks for tree in traced.trees)

    def sorted(self, value: Columns, place: Columns, count: int) -> None:
        """Compare the places by which readings were sorted. Raises :class:`Difference`."""
        traced, inputs = self.traced, inputs_of({"value": value})
        self.verifier.asked(self.name, "by", traced.order, traced.place, inputs, place, count, self.stream.value)

    def emissions(self, readings: _Readings, out: Emissions, emitted: Columns) -> None:
        """Compare the states and emissions of some readings. Raises :class:`Difference`."""
        rows = None if self.asks else self.verifier.pick(f"{self.name} on_item", readings.count)
        if rows is None:
            return
        with self.verifier.timed():
            for row in rows.tolist():
                self._one(readings, out, emitted, row)

    def _one(self, readings: _Readings, out: Emissions, emitted: Columns, row: int) -> None:
        def state(at: int) -> tuple[Any, int, float]:
            (value,) = values_of(take(readings.value, np.array([at])), 1)
            return value, int(readings.time[at]), float(readings.number[at])

        places = np.arange(*np.searchsorted(out.cause, [row, row + 1]))
        last, new, (key,) = int(readings.before[row]), state(row), values_of(take(readings.key, np.array([row])), 1)
        old, emissions, fit_value = None if last < 0 else state(last), list[Any](), conformer(self.stream.value)
        raised, state_after = outcome(
            self.traced.op.on_item, old, key, new[0], lambda one: emissions.append(fit_value(one))
        )
        traced = new, values_of(take(emitted, places), len(places))
        shown = partial("state {!r}, item ({!r}, {!r})".format, old, key, new[0])
        self.verifier.compare(self.name, "on_item", traced, (raised, (state_after, emissions)), shown)


@final
class InterpolatedBlocks(SortedBlocks):
    """Holds items as the tables in which they came, for a stage that sorts and then interpolates. The state of the second
    operator is that of the interpreter: by key, a reading, its time and its number."""

    def __init__(
        self,
        takes: StreamType,
        state: StageState,
        epoch: Epoch,
        sorter: Sorter,
        traced: TracedInterpolation,
        check: InterpolationCheck | None,
    ) -> None:
        self.traced, self.check = traced, check
        super().__init__(takes, state, epoch, sorter)

    def close(self, coming: Coming) -> Due:
        """What the stage emits in the blocks of some markers, as columns; they are held no longer. Where columns cannot tell, the
        blocks, for the operators."""
        table = self.tables.table(coming.markers[-1])
        if table is not None and len(table[0]) >= 2 * limits.MANY:  # as fast as the operators from here on
            try:
                return self._interpolated(*table)
            except Undefined:
                pass
        return self.sorted(table, coming)

    def _interpolated(self, ends: Any, keys: Any, column: Any) -> Flows:
        """What comes out for the items of some blocks. Raises :class:`Undefined` before anything is changed."""
        takes, traced, count = self.takes, self.traced, len(ends)
        value, codes = from_arrow(takes.value, column), codes_of(takes.key, keys)
        time = _scalars(traced.time, value, Integer(), count)
        number = _scalars(traced.number, value, Float(), count)
        place = return_values(traced.place, inputs_of({"value": value}), count)
        if self.check is not None:
            self.check.sorted(value, place, count)
        rows = self.sorter.rows_of_columns([ends, codes], place, value)
        ends, codes, keys = ends[rows], codes[rows], keys.take(pa.array(rows))
        before, first, last = _neighbours(codes)
        key = from_arrow(takes.key, keys)
        readings = _Readings(count, key, take(value, rows), before, time[rows], number[rows], first, last)
        names = from_array(takes.key, keys.take(pa.array(first)))
        readings = self._with_states(readings, names)
        fresh = np.arange(len(readings.time)) < count
        out = emissions_of(readings.before, readings.time, readings.number, fresh, traced.its.step, traced.its.max_gap)
        emitted = self._emitted(readings, out)
        if self.check is not None:
            self.check.emissions(readings, out, emitted)
        values = from_array(takes.value, column.take(pa.array(rows[last])))
        states = zip(values, readings.time[last].tolist(), readings.number[last].tolist(), strict=True)
        self.state.operators[1].update(zip(names, states, strict=True))
        self.epoch.flowed[1] += count
        return _flows(readings, out, emitted, ends, codes)

    def _with_states(self, readings: _Readings, names: list[Any]) -> _Readings:
        """The same with the readings of the states behind them. ``names``: the keys."""
        states, value = self.state.operators[1], self.takes.value
        if type(states) is not dict or len(set(names)) < len(names):
            raise Undefined(0)
        known = [at for at, name in enumerate(names) if name in states]
        if not known:
            return readings
        olds = [states[names[at]] for at in known]
        if any(type(old) is not tuple or len(old) != 3 for old in olds):
            raise Undefined(0)
        values, times, numbers = map(list, zip(*olds, strict=True))
        if not exactly(value, values) or not exactly(Integer(), times) or not exactly(Float(), numbers):
            raise Undefined(0)
        before, more = readings.before.copy(), len(known)
        before[readings.first[known]] = readings.count + np.arange(more)
        old = from_arrow(value, array(value, values))
        return attrs.evolve(
            readings,
            value=concat([(readings.value, readings.count), (old, more)]),
            before=np.concatenate([before, np.full(more, -1)]),
            time=np.concatenate([readings.time, np.array(times, np.int64)]),
            number=np.concatenate([readings.number, np.array(numbers, np.float64)]),
        )

    def _emitted(self, readings: _Readings, out: Emissions) -> Columns:
        """The values that come out."""
        own, between = np.flatnonzero(~out.between), np.flatnonzero(out.between)
        themselves = take(readings.value, out.cause[own])
        if not len(between):
            return themselves
        reading = take(readings.value, readings.before[out.cause[between]])
        time, number = Column(Integer(), out.time), Column(Float(), out.number)
        inputs = inputs_of({"reading": reading, "time": time, "number": number})
        values = fit(self.takes.value, return_values(self.traced.make, inputs, len(between)))
        return merged_columns([(themselves, own), (values, between)], len(out.cause)) if len(own) else values


def _scalars(tree: Tree, value: Columns, kind: Schema, count: int) -> Any:
    """What a function gives for each value."""
    column = return_values(tree, inputs_of({"value": value}), count)
    if not isinstance(column, Column) or column.kind != kind or column.valid is not None:
        raise Undefined(0)
    return full_values(column, count)


def _neighbours(codes: Any) -> tuple[Any, Any, Any]:
    """Of each row the row before with its code, -1 for none; the first and the last row of each code, by the first ones."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    before = np.empty(len(order), np.int64)
    before[order[1:]] = order[:-1]
    before[first] = -1
    by_first = np.argsort(first)
    return before, first[by_first], last[by_first]


def _flows(readings: _Readings, out: Emissions, emitted: Columns, ends: Any, codes: Any) -> Flows:
    """What comes out, with ends and places. ``ends`` and ``codes``: of the readings."""
    count = len(out.cause)
    if not count:
        return Flows([], 2)
    ends, codes = ends[out.cause], codes[out.cause]
    starts = np.flatnonzero(np.append(True, (ends[1:] != ends[:-1]) | (codes[1:] != codes[:-1])))
    places = np.arange(count) - np.repeat(starts, np.diff(starts, append=count))
    return Flows([(KeyedFlow.of(take(readings.key, out.cause), emitted, count), ends)], 2, places)

"""A keyed operator over columns: the states of all keys of a group as columns, a block at a time.

For an ``OpKeyedUnordered`` whose monoid is recognised and whose ``update_state`` and ``on_marker`` could be traced. It does
what the sequential algorithm does, key by key, but for all keys at once. Whatever columns cannot hold (a number beyond 64
bits, a type that changes) raises :class:`Undefined`; the caller then goes on with objects, from the states before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.analysis.keyed import Keyed
from tracetypes.compiler.analysis.monoids import leaves
from tracetypes.compiler.analysis.pickled import dumps, loads
from tracetypes.compiler.columns.arrow import Batch, array
from tracetypes.compiler.columns.column import Column, Columns, Struct, concat, inputs_of, take
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import Emitted, evaluate, run
from tracetypes.compiler.columns.exact import Exacts
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.partial_aggregation import (
    Combined,
    KeyedFlow,
    SeenSums,
    combine,
    dtype_of,
    fit,
    fit_key,
    reduced,
    structured,
)
from tracetypes.compiler.tracing.expr import Exact, Input, Kind, Pack, Undefined, Value
from tracetypes.markers import Marker
from tracetypes.records import (
    Boolean,
    Float,
    Integer,
    Optional,
    String,
)
from tracetypes.templates import OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["Closed", "ColumnState", "Columnar"]


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
        return f"{_shown(self.state)} of {_shown(self.agg)}"


def _shown(value: Value) -> str:
    if isinstance(value, Pack):
        names = value.names or tuple(map(str, range(len(value.parts))))
        parts = ", ".join(f"{name}: {_shown(part)}" for name, part in zip(names, value.parts, strict=True))
        return f"{value.cls.__module__}.{value.cls.__qualname__}({parts})"
    return repr(value.kind)


@attrs.define
class ColumnState:
    """States of the keys of a group. ``keys``: ``count`` of them, a slot each; ``parts``: the scalars of the states, as long as
    ``keys``; ``start``: the state of a key that is still to come; ``held``: aggregates of open blocks. ``shape``: what the
    scalars stand for, as text and as a pickled :class:`Shape`, which needs the author's classes only when it is asked for."""

    keys: Columns
    count: int
    parts: list[Column]
    start: Any
    held: list[Combined]
    shape: tuple[str, bytes]

    def to_objects(self, combine: Callable[[Any, Any], Any]) -> tuple[dict[Any, Any], dict[int, dict[Any, Any]]]:
        """States by key, and aggregates by block and key. ``combine``: the author's."""
        shape: Shape = loads(self.shape[1])
        states = dict(zip(values_of(self.keys, self.count), _objects(shape.state, self.parts, self.count), strict=True))
        held: dict[int, dict[Any, Any]] = {}
        for one in self.held:
            aggs = _objects(shape.agg, one.parts, len(one))
            for end, key, agg in zip(one.ends.tolist(), values_of(one.keys, len(one)), aggs, strict=True):
                sums = held.setdefault(end, {})
                sums[key] = combine(sums[key], agg) if key in sums else agg
        return states, held


def _objects(shape: Value, parts: Sequence[Column], count: int) -> list[Any]:
    paths = [path for path, _ in leaves(shape)]
    return values_of(structured(shape, dict(zip(paths, parts, strict=True)), ()), count)


@attrs.frozen(eq=False)
class Closed:
    """Keys of a block that closed: ``count`` of them, their states before, aggregates, states after, and what they emitted."""

    count: int
    end: int
    key: Columns
    old: Columns
    agg: Columns
    new: Columns
    emitted: list[Emitted]


class Columnar:
    """Runs a :class:`Keyed`. ``sums`` and ``closed`` see what it does."""

    def __init__(
        self,
        op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any],
        keyed: Keyed,
        sums: SeenSums | None = None,
        closed: Callable[[Closed], None] | None = None,
    ) -> None:
        self.op, self.keyed, self.sums, self.closed = op, keyed, sums, closed
        self.paths = [path for path, _ in leaves(keyed.state)]
        self.kinds = [at.kind for _, at in leaves(keyed.state)]
        shape = Shape.of(keyed)
        self.shape = shape.text, dumps(shape)
        self.telling = sorted(range(len(self.kinds)), key=lambda at: isinstance(self.kinds[at], Exact))
        """The parts of a state, first the one that told most keys from idle ones the last time."""

    # ------------------------------------------------------------------------------- from and to objects

    def from_objects(self, states: dict[Any, Any], start: Any, held: dict[int, dict[Any, Any]]) -> ColumnState:
        """Columns for states by key. Raises :class:`Undefined` when they do not fit."""
        parts = self._scalars(list(states.values()))
        state = ColumnState(self._keys(list(states)), len(states), parts, start, [], self.shape)
        for end, sums in held.items():
            self.hold_objects(state, list(sums), list(sums.values()), [end] * len(sums))
        return state

    def fits(self, state: ColumnState) -> bool:
        """Are these columns such as this operator makes?"""
        return state.shape[0] == self.shape[0]

    def _keys(self, keys: list[Any]) -> Columns:
        return from_arrow(self.keyed.key, array(self.keyed.key, keys))

    def _scalars(self, states: list[Any]) -> list[Column]:
        return _columns_of(self.keyed.state, self.kinds, states)

    # --------------------------------------------------------------------------------------------- blocks

    def hold(self, state: ColumnState, keys: Any, ends: Any, parts: Sequence[Column]) -> None:
        """Keep aggregates for blocks that are open. ``keys``: an Arrow array."""
        state.held.append(Combined(ends, from_arrow(self.keyed.key, keys), tuple(parts)))

    def hold_items(self, state: ColumnState, stream: StreamType, batch: Batch) -> None:
        """Keep items. Raises :class:`Undefined` when columns cannot combine them."""
        keys = from_arrow(stream.key, array(stream.key, batch.keys))
        values = from_arrow(stream.value, array(stream.value, batch.values))
        flow = KeyedFlow.of(keys, values, len(batch))
        state.held.append(combine(self.keyed.monoid, flow, np.array(batch.ends, np.int64), keys, self.sums))

    def hold_objects(self, state: ColumnState, keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Keep aggregates that come as objects."""
        monoid = self.keyed.monoid
        parts = _columns_of(monoid.shape, [part.kind for part in monoid.parts], aggs)
        self.hold(state, array(self.keyed.key, keys), np.array(ends, np.int64), parts)

    def close(self, state: ColumnState, ends: list[int], out: Callable[[int, Columns, Columns, int], None]) -> None:
        """Close blocks, in order. ``out``: takes the end, keys, values and count of what a block emits.

        Raises :class:`Undefined`; then ``state`` is as it was.
        """
        before = attrs.evolve(state, parts=[_copied(part) for part in state.parts], held=list(state.held))
        try:
            with np.errstate(all="ignore"):
                self._close(state, ends, out)
        except Undefined:
            for field in attrs.fields(ColumnState):
                setattr(state, field.name, getattr(before, field.name))
            raise

    def _close(self, state: ColumnState, ends: list[int], out: Callable[[int, Columns, Columns, int], None]) -> None:
        keyed = self.keyed
        due = self._due(state, ends[-1])
        known = state.count
        slots, starts, born = self._slots(state, due, ends)
        for number, end in enumerate(ends):
            here = slice(starts[number], starts[number + 1])
            touched = slots[here]
            count = born[number]
            if count > known:
                state.parts = [
                    _extended(part, fresh, count - known)
                    for part, fresh in zip(state.parts, self._fresh(state.start), strict=True)
                ]
                known = count
            aggs = _sliced(due.parts, here) if due is not None else ()
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
            left = rows[_like(_taken(state.parts[at], rows), start[at])]
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
            state.parts = [_taken(part, stay) for part in state.parts]

    def _due(self, state: ColumnState, last: int) -> Combined | None:
        """The aggregates of the blocks up to ``last``, one row a block and key, in the order of blocks; the rest is held."""
        due: list[Combined] = []
        left: list[Combined] = []
        for one in state.held:
            ready = one.ends <= last
            if ready.all():
                due.append(one)
            elif not ready.any():
                left.append(one)
            else:
                due.append(_rows(one, np.flatnonzero(ready)))
                left.append(_rows(one, np.flatnonzero(~ready)))
        state.held = left
        if not due:
            return None
        ends = np.concatenate([one.ends for one in due])
        counts = [len(one) for one in due]
        keys = concat([(one.keys, len(one)) for one in due])
        columns = [
            concat([(one.parts[at], size) for one, size in zip(due, counts, strict=True)])
            for at in range(len(due[0].parts))
        ]
        made = reduced(self.keyed.monoid.parts, ends, keys, columns, len(ends))  # type: ignore[arg-type]
        return _rows(made, np.argsort(made.ends, kind="stable"))

    def _slots(self, state: ColumnState, due: Combined | None, ends: list[int]) -> tuple[Any, list[int], list[int]]:
        """The slot of each row of ``due``; where the rows of each block start; how many keys are known from each block on.
        New keys get slots in the order of their first block."""
        known = state.count
        if due is None:
            return np.zeros(0, np.int64), [0] * (len(ends) + 1), [known] * len(ends)
        starts = [*np.searchsorted(due.ends, ends, "left").tolist(), len(due)]
        keys = concat([(state.keys, known), (due.keys, len(due))]) if known else due.keys
        groups = groups_of(keys, known + len(due))
        new = np.sort(groups.first[groups.first >= known])  # the rows with which new keys come
        slot_of = groups.first.copy()
        slot_of[groups.first >= known] = known + np.searchsorted(new, groups.first[groups.first >= known])
        born = [known] * len(ends)
        if len(new):
            born = [known + int(n) for n in np.searchsorted(new - known, starts[1:], "left")]
            state.keys = take(keys, np.concatenate([np.arange(known), new]))
            state.count = known + len(new)
        return slot_of[groups.of_row[known:]], starts, born

    def _fresh(self, start: Any) -> list[Column]:
        return self._scalars([start])

    def _spread(self, aggs: tuple[Column, ...], touched: Any, count: int) -> tuple[Column, ...]:
        """Aggregates for all keys: the identity where nothing has come."""
        neutral = evaluate(self.keyed.identity, _nothing, 1)
        made = []
        places = np.zeros(count, np.int64)
        places[touched] = np.arange(1, len(touched) + 1)
        for at, part in enumerate(self.keyed.monoid.parts):
            none = _full(part.kind, _part(neutral, part.path), 1)
            some = [(none, 1), *([(aggs[at], len(touched))] if aggs else [])]
            made.append(take(concat(some), places))
        return tuple(made)  # type: ignore[arg-type]

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
        old = state.parts if whole else [_taken(part, rows) for part in state.parts]
        by_state = dict(zip(self.paths, old, strict=True))
        by_agg = {part.path: column for part, column in zip(keyed.monoid.parts, aggs, strict=True)}
        arguments: dict[str, Columns] = {
            "state": structured(keyed.state, by_state, ()),
            "agg": structured(keyed.monoid.shape, by_agg, ()),
        }
        made = run(keyed.update, _finder(arguments), count).result
        assert made is not None
        new = [_full(kind, _part(made, path), count) for kind, path in zip(self.kinds, self.paths, strict=True)]
        state.parts = new if whole else [_put(part, rows, fresh) for part, fresh in zip(state.parts, new, strict=True)]
        marker = Struct(Marker, ("micros",), (Column(Integer(), end),))
        keys = take(state.keys, rows)
        given = {
            "new_state": structured(keyed.state, dict(zip(self.paths, new, strict=True)), ()),
            "key": keys,
            "marker": marker,
        }
        shown: list[Emitted] = []
        for emitted in run(keyed.on_marker, _finder(given), count).emissions:
            size = count if emitted.rows is None else len(emitted.rows)
            if size:
                assert emitted.key is not None
                key, value = fit_key(keyed.gives.key, emitted.key), fit(keyed.gives.value, emitted.value)
                out(end, key, value, size)
                shown.append(Emitted(emitted.rows, emitted.number, key, value))
        if self.closed is not None:
            self.closed(Closed(count, end, keys, arguments["state"], arguments["agg"], given["new_state"], shown))


def _finder(arguments: dict[str, Columns]) -> Callable[[Input], Column]:
    return inputs_of(arguments)


def _nothing(given: Input) -> Column:
    raise LookupError(f"a constant has no inputs, and this asks for {given.path}")


def _columns_of(shape: Value, kinds: Sequence[Kind | None], values: list[Any]) -> list[Column]:
    """The scalars of Python values of a structure, as columns. Raises :class:`Undefined` for values of another one."""
    try:
        return [_column_of(kind, [get(v) for v in values]) for kind, get in zip(kinds, _getters(shape), strict=True)]
    except (AttributeError, IndexError, TypeError):
        raise Undefined(0) from None


def _getters(shape: Value) -> Iterator[Callable[[Any], Any]]:
    """A function for each scalar of a structure that takes it out of a value."""
    if not isinstance(shape, Pack):
        yield lambda value: value
        return
    for at, part in enumerate(shape.parts):
        outer = attrgetter(shape.names[at]) if shape.names else itemgetter(at)
        for inner in _getters(part):
            yield lambda value, outer=outer, inner=inner: inner(outer(value))  # type: ignore[misc]


def _column_of(kind: Kind | None, values: list[Any]) -> Column:
    """A column of Python scalars. Raises :class:`Undefined` for what is not of the kind."""
    if isinstance(kind, Exact):
        return Column(kind, Exacts.from_sums(values) if values else Exacts.zero(0))
    schema: Any = kind
    bare = schema.item if isinstance(schema, Optional) else schema
    wanted = {Integer: int, Float: float, Boolean: bool, String: str}.get(type(bare))
    if wanted is not None:
        allowed = {wanted, type(None)} if isinstance(schema, Optional) else {wanted}
        if not set(map(type, values)) <= allowed:
            raise Undefined(0)
    try:
        found = from_arrow(schema, array(schema, values))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise Undefined(0) from None
    assert isinstance(found, Column)
    return found


def _part(columns: Columns, path: tuple[int, ...]) -> Column:
    for step in path:
        assert isinstance(columns, Struct)
        part = columns.parts[step]
        assert part is not None
        columns = part
    assert isinstance(columns, Column)
    return columns


def _full(kind: Kind | None, column: Column, count: int) -> Column:
    """The column of that kind as an array of ``count`` rows."""
    bare: Any = kind.item if isinstance(kind, Optional) else kind
    optional = isinstance(kind, Optional)
    if column.kind is None:
        if not optional:
            raise Undefined(0)
        return Column(bare, _zeros(bare, count), np.zeros(count, np.bool_))
    if column.kind != bare or (not optional and column.valid is not None and not column.valid.all()):
        raise Undefined(0)
    values = column.values
    if isinstance(bare, Exact):
        if column.scalar:
            values = Exacts.from_sums([values]).take(np.zeros(count, np.int64))
        elif not isinstance(values, Exacts):
            values = Exacts.of(values)
    elif column.scalar:
        values = pa.repeat(values, count) if isinstance(bare, String) else np.full(count, values, dtype_of(bare))
    return Column(bare, values, column.valid)


def _zeros(kind: Kind | None, count: int) -> Any:
    if isinstance(kind, String):
        return pa.repeat("", count)
    return np.zeros(count, dtype_of(kind))


def _copied(part: Column) -> Column:
    values = part.values.copy() if isinstance(part.values, np.ndarray) else part.values
    return Column(part.kind, values, None if part.valid is None else part.valid.copy())


def _like(part: Column, one: Column) -> Any:
    """Which rows are what the only row of another column is, to the bit; False where that is not known."""
    if one.valid is not None and not one.valid[0]:
        return np.zeros(_length(part), np.bool_) if part.valid is None else ~part.valid
    values, wanted = part.values, one.values
    if isinstance(values, Exacts):
        both = Exacts.concat([values, wanted]).settled()
        found = (both.limbs[:-1] == both.limbs[-1]).all(axis=1)
        if both.specials is not None:
            found &= (both.specials[:-1] == both.specials[-1]).all(axis=1)
    elif isinstance(values, np.ndarray) and values.dtype == np.float64:
        found = np.ascontiguousarray(values).view(np.int64) == np.ascontiguousarray(wanted).view(np.int64)[0]
    elif isinstance(values, np.ndarray):
        found = values == wanted[0]
    elif isinstance(part.kind, String):
        found = pc.equal(values, wanted[0]).to_numpy(zero_copy_only=False)
    else:
        return np.zeros(_length(part), np.bool_)
    return found if part.valid is None else found & part.valid


def _taken(part: Column, rows: Any) -> Column:
    made = take(part, rows)
    assert isinstance(made, Column)
    return made


def _extended(part: Column, fresh: Column, more: int) -> Column:
    """The column with ``more`` rows of one value behind it."""
    made = concat([(part, _length(part)), (_taken(fresh, np.zeros(more, np.int64)), more)])
    assert isinstance(made, Column)
    return made


def _length(part: Column) -> int:
    return len(part.values)


def _writable(values: Any) -> Any:
    """The array, or a copy where it lies in memory of Arrow's or of a pickle."""
    return values if values.flags.writeable else values.copy()


def _put(part: Column, rows: Any, fresh: Column) -> Column:
    """The column with some rows replaced."""
    if isinstance(part.values, np.ndarray):
        values, valid = _writable(part.values), part.valid
        values[rows] = fresh.values
        if fresh.valid is not None or valid is not None:
            valid = np.ones(len(values), np.bool_) if valid is None else _writable(valid)
            valid[rows] = True if fresh.valid is None else fresh.valid
        return Column(part.kind, values, valid)
    places = np.arange(_length(part))
    places[rows] = _length(part) + np.arange(len(rows))
    made = concat([(part, _length(part)), (fresh, len(rows))])
    return _taken(made, places)  # type: ignore[arg-type]


def _rows(one: Combined, rows: Any) -> Combined:
    return Combined(one.ends[rows], take(one.keys, rows), tuple(_taken(part, rows) for part in one.parts))


def _sliced(parts: tuple[Column, ...], rows: slice) -> tuple[Column, ...]:
    indices = np.arange(rows.start, rows.stop)
    return tuple(_taken(part, indices) for part in parts)

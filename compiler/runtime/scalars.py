"""Scalars of states and aggregates, each as a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, take_column
from tracetypes.compiler.columns.concatenation import concat_column
from tracetypes.compiler.columns.conversion import column_from_arrow
from tracetypes.compiler.columns.exact_sums import ExactSums
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.columns.pending_take import array_of
from tracetypes.compiler.runtime.partial_aggregation import dtype_of
from tracetypes.compiler.tracing.expr import Exact, Kind, Pack, Undefined, Value
from tracetypes.records import Boolean, Float, Integer, ListOf, Optional, String

__all__ = ["OneRow", "column_of", "columns_of", "copied", "extended", "full", "like", "put", "sliced"]


@final
class OneRow:
    """The scalars of one Python value of a structure, as columns of one row: made again only for another value."""

    def __init__(self, shape: Value, kinds: Sequence[Kind | None]) -> None:
        self.shape, self.kinds, self.getters = shape, kinds, list(_getters(shape))
        self.last: list[Any] | None = None
        self.columns: list[Column] = []

    def of(self, value: Any) -> list[Column]:
        """The columns; nobody changes them. Raises :class:`Undefined`."""
        try:
            scalars = [get(value) for get in self.getters]
        except (AttributeError, IndexError, TypeError):
            raise Undefined(0) from None
        if self.last is None or not all(map(_identical, scalars, self.last)):
            self.columns = columns_of(self.shape, self.kinds, [value])
            self.last = scalars
        return self.columns


def _identical(one: Any, other: Any) -> bool:
    """Are two scalars alike in their column, too?"""
    return one is other or (type(one) is type(other) and type(one) is not float and bool(one == other))


def columns_of(shape: Value, kinds: Sequence[Kind | None], values: list[Any]) -> list[Column]:
    """The scalars of Python values of a structure, as columns. Raises :class:`Undefined` for values with another
    structure."""
    try:
        return [column_of(kind, [get(v) for v in values]) for kind, get in zip(kinds, _getters(shape), strict=True)]
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


def column_of(kind: Kind | None, values: list[Any]) -> Column:
    """A column of Python scalars. Raises :class:`Undefined` for what is not of the kind."""
    if isinstance(kind, Exact):
        return Column(kind, ExactSums.from_sums(values) if values else ExactSums.zero(0))
    schema: Any = kind
    bare = schema.item if isinstance(schema, Optional) else schema
    cls = {Integer: int, Float: float, Boolean: bool, String: str}.get(type(bare))
    if cls is not None:
        allowed = {cls, type(None)} if isinstance(schema, Optional) else {cls}
        if not set(map(type, values)) <= allowed:
            raise Undefined(0)
    try:
        return column_from_arrow(schema, array(schema, values))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise Undefined(0) from None


def full(kind: Kind | None, column: Column, count: int) -> Column:
    """The column of that kind as an array of ``count`` rows."""
    if type(column.kind) is type(kind) and type(kind) in _NUMBERS and column.valid is None and column.undefined is None:
        storage = array_of(column.storage)
        if type(storage) is np.ndarray:
            return column if storage is column.storage else Column(column.kind, storage)
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
            values = ExactSums.from_sums([values]).take(np.zeros(count, np.int64))
        elif not isinstance(values, ExactSums):
            values = ExactSums.of(values)
    elif column.scalar:
        values = pa.repeat(values, count) if isinstance(bare, String) else np.full(count, values, dtype_of(bare))
    return Column(bare, values, column.valid)


_NUMBERS: Final = frozenset({Boolean, Integer, Float})


def _zeros(kind: Kind | None, count: int) -> Any:
    if isinstance(kind, String):
        return pa.repeat("", count)
    return np.zeros(count, dtype_of(kind))


def copied(part: Column) -> Column:
    values = part.values.copy() if isinstance(part.values, np.ndarray) else part.values
    return Column(part.kind, values, None if part.valid is None else part.valid.copy())


def like(part: Column, one: Column) -> Any:
    """Which rows equal the only row of another column, to the bit; False if that is unknown."""
    if one.valid is not None and not one.valid[0]:
        return np.zeros(_length(part), np.bool_) if part.valid is None else ~part.valid
    values, expected = part.values, one.values
    if isinstance(values, ExactSums):
        both = ExactSums.concat([values, expected]).settled()
        alike = (both.limbs[:-1] == both.limbs[-1]).all(axis=1)
        if both.specials is not None:
            alike &= (both.specials[:-1] == both.specials[-1]).all(axis=1)
    elif isinstance(values, np.ndarray) and values.dtype == np.float64:
        alike = np.ascontiguousarray(values).view(np.int64) == np.ascontiguousarray(expected).view(np.int64)[0]
    elif isinstance(values, np.ndarray):
        alike = values == expected[0]
    elif isinstance(part.kind, ListOf) and not len(expected[0]):
        alike = pc.equal(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    elif isinstance(part.kind, String):
        alike = pc.equal(values, expected[0]).to_numpy(zero_copy_only=False)
    else:
        return np.zeros(_length(part), np.bool_)
    return alike if part.valid is None else alike & part.valid


def extended(part: Column, fresh: Column, more: int) -> Column:
    """The column with ``more`` rows of one value at its end."""
    old, one = part.storage, fresh.storage
    if isinstance(old, np.ndarray) and part.valid is None and isinstance(one, np.ndarray) and fresh.valid is None:
        return Column(part.kind, np.concatenate([old, np.full(more, one[0], old.dtype)]))
    return concat_column([(part, _length(part)), (take_column(fresh, np.zeros(more, np.int64)), more)])


def _length(part: Column) -> int:
    return len(part.values)


def _writable(values: Any) -> Any:
    """The array, or a copy where it lies in memory of Arrow's or of a pickle."""
    return values if values.flags.writeable else values.copy()


def put(part: Column, rows: Any, fresh: Column) -> Column:
    """The column with some rows replaced."""
    if isinstance(part.values, np.ndarray):
        values, valid = _writable(part.values), part.valid
        values[rows] = fresh.values
        if fresh.valid is not None or valid is not None:
            valid = np.ones(len(values), np.bool_) if valid is None else _writable(valid)
            valid[rows] = True if fresh.valid is None else fresh.valid
        return Column(part.kind, values, valid)
    if isinstance(part.values, Lists):
        part.values.put(rows, fresh.values)
        return part
    places = np.arange(_length(part))
    places[rows] = _length(part) + np.arange(len(rows))
    column = concat_column([(part, _length(part)), (fresh, len(rows))])
    return take_column(column, places)


def sliced(parts: tuple[Column, ...], rows: slice) -> tuple[Column, ...]:
    indices = np.arange(rows.start, rows.stop)
    return tuple(take_column(part, indices) for part in parts)

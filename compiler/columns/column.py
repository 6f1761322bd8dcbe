"""Columns of numpy and Arrow for the evaluation of expressions, and functions that make, split and join them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.algebra import ExactSum
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.exact_sums import ExactSums
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.columns.pending_take import PendingTake, array_of, pending, taken
from tracetypes.compiler.tracing.expr import Exact, Input, Kind
from tracetypes.conformance import micros_of
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
    is_utf8,
)

__all__ = [
    "BOOLEAN",
    "INTEGER",
    "PLAIN",
    "SHARED",
    "ZERO",
    "Column",
    "Columns",
    "Struct",
    "bare_kind",
    "column_of_struct",
    "constant",
    "either_mask",
    "exacts_of",
    "full_values",
    "inputs_of",
    "scalar_at",
    "struct_of_column",
    "take",
    "take_coded",
    "take_column",
    "taken_later",
]


@final
@attrs.frozen(eq=False)
class Column:
    """A scalar of each row.

    ``kind``: never Optional; None only for a column of None. ``values``, by kind: Boolean a bool array; Integer,
    Timestamp (microseconds) and Date (days since the epoch) int64 arrays; Float a float64 array; String and Bytes an
    Arrow array without nulls; Exact a float64 array, where each float stands for its exact sum, or :class:`ExactSums`; MapOf
    :class:`Lists`; any other schema its Arrow array, to be passed on. Or one scalar for all rows: a Python bool, int (of
    Timestamp and Date too), float, str, bytes, ``ExactSum``, ``UNIT``, or None.

    ``storage``: the values as stored, which may be :class:`DictionaryEncoded` or a :class:`PendingTake`; ``values`` are neither.

    ``valid``: a bool array of the rows that are present; None for all. ``undefined``: a bool array of the rows for
    which the expression has no value; None for none. In missing or undefined rows the content of ``values`` means
    nothing.
    """

    kind: Kind | None
    storage: Any = attrs.field(alias="values")
    valid: Any = None
    undefined: Any = None

    @property
    def values(self) -> Any:
        """The values of the rows, or one for all."""
        storage = self.storage
        return storage.plain() if isinstance(storage, DictionaryEncoded) else array_of(storage)

    @property
    def encoding(self) -> DictionaryEncoded | None:
        """The column by its entries, if computing something of each entry is less work than of each row."""
        return self.storage if isinstance(self.storage, DictionaryEncoded) and self.storage.pays else None

    @property
    def scalar(self) -> bool:
        """Whether it is one value for all rows."""
        return not isinstance(self.storage, _ARRAYS)


_ARRAYS: Final = (np.ndarray, pa.Array, ExactSums, DictionaryEncoded, PendingTake, Lists)


@final
@attrs.frozen(eq=False)
class Struct:
    """The columns of a record or tuple, named as in :class:`tracetypes.compiler.tracing.expr.Pack`. A part is None if
    it was not read; that is an error only if an expression uses it. ``valid`` as in :class:`Column`."""

    cls: type[Any]
    names: tuple[str, ...]
    parts: tuple[Columns | None, ...]
    valid: Any = None

    @property
    def read(self) -> Iterator[Columns]:
        """The parts that were read."""
        return (part for part in self.parts if part is not None)


Columns: TypeAlias = Column | Struct


SHARED: Final = 4
"""Rows for each entry of a dictionary, on average, from which on it pays to have one."""

EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()


def inputs_of(arguments: Mapping[str, Columns]) -> Callable[[Input], Column]:
    """A function that returns the inputs of :func:`evaluate` and :func:`run`, from columns by the names of arguments.

    Raises LookupError for a part that was not read.
    """

    by_name: dict[Any, Columns] = dict(arguments)

    def find(leaf: Input) -> Column:
        name, *steps = leaf.path
        column = by_name[name]
        valid = column.valid
        for step in steps:
            if not isinstance(column, Struct):
                raise LookupError(f"no columns below {leaf.path}")
            part = column.parts[step if isinstance(step, int) else column.names.index(step)]
            if part is None:
                raise LookupError(f"the field {step} was not read")
            column = part
            if column.valid is not None:
                valid = _both(valid, column.valid)
        if isinstance(column, Struct):
            return column_of_struct(attrs.evolve(column, valid=valid))
        return column if valid is column.valid else Column(column.kind, column.storage, valid, column.undefined)

    return find


def column_of_struct(struct: Struct) -> Column:
    """A struct as the input of a tree: what is asked of it is whether it is there."""
    return Column(UnitValue(), attrs.evolve(struct, valid=None), struct.valid)


def struct_of_column(column: Column) -> Struct:
    """The inverse of :func:`column_of_struct`. What is missing inside because the whole is missing counts as there."""
    struct: Struct = column.storage
    return Struct(struct.cls, struct.names, _parts(struct, column.valid, None), column.valid)


def _parts(struct: Struct, valid: Any, hidden: Any) -> tuple[Columns | None, ...]:
    """The parts of a struct that is there where ``valid`` is, and of which some rows are ``hidden`` (masks)."""
    below = hidden if valid is None else either_mask(hidden, ~valid)
    return tuple(None if one is None else _inside(one, below) for one in struct.parts)


def _inside(columns: Columns, hidden: Any) -> Columns:
    """Columns of which some rows (a mask) are hidden: they are not missing by themselves."""
    valid = columns.valid if columns.valid is None or hidden is None else columns.valid | hidden
    valid = None if valid is None or valid.all() else valid
    if isinstance(columns, Struct):
        return Struct(columns.cls, columns.names, _parts(columns, columns.valid, hidden), valid)
    return Column(columns.kind, columns.storage, valid, columns.undefined)


def _both(a: Any, b: Any) -> Any:
    """Masks: where both, None being everywhere."""
    return b if a is None else a if b is None else a & b


def either_mask(a: Any, b: Any) -> Any:
    """The mask of rows that are in one mask or the other. None is an empty mask."""
    return b if a is None else a if b is None else a | b


def scalar_at(columns: Columns | None, path: Sequence[int]) -> Column:
    """The column at a path of places within structs."""
    for step in path:
        columns = columns.parts[step] if isinstance(columns, Struct) else None
    if isinstance(columns, Column):
        return columns
    raise LookupError(f"no column at {path}")


def take(columns: Columns, rows: Any) -> Columns:
    """The rows of these numbers (an int64 array). A scalar stays a scalar."""
    if isinstance(columns, Struct):
        parts = tuple(None if part is None else take(part, rows) for part in columns.parts)
        return Struct(columns.cls, columns.names, parts, None if columns.valid is None else columns.valid[rows])
    return take_column(columns, rows)


def take_coded(columns: Columns, rows: Any) -> Columns:
    """:func:`take` for many rows of few: text becomes dictionary-encoded."""
    if isinstance(columns, Struct) and columns.valid is None:
        parts = tuple(None if part is None else take_coded(part, rows) for part in columns.parts)
        return Struct(columns.cls, columns.names, parts)
    if not isinstance(columns, Column) or not isinstance(columns.kind, String | Bytes) or columns.undefined is not None:
        return take(columns, rows)
    if columns.valid is not None or columns.scalar or SHARED * len(columns.storage) > len(rows):
        return take(columns, rows)
    return Column(columns.kind, DictionaryEncoded(rows.astype(np.int32), columns.values))


def taken_later(columns: Columns, rows: Any) -> Columns:
    """:func:`take`, but arrays are copied when somebody reads them."""
    if isinstance(columns, Struct):
        parts = tuple(None if part is None else taken_later(part, rows) for part in columns.parts)
        return Struct(columns.cls, columns.names, parts, None if columns.valid is None else columns.valid[rows])
    if isinstance(columns.storage, np.ndarray | pa.Array | PendingTake):
        valid, undefined = (None if mask is None else mask[rows] for mask in (columns.valid, columns.undefined))
        return Column(columns.kind, pending(columns.storage, rows), valid, undefined)
    return take_column(columns, rows)


def take_column(column: Column, rows: Any) -> Column:
    values, valid, undefined = column.storage, column.valid, column.undefined
    if isinstance(values, np.ndarray | pa.Array):
        values = taken(values, rows)
    elif isinstance(values, ExactSums | DictionaryEncoded | PendingTake):
        values = values.take(rows)
    elif isinstance(values, Struct):
        values = take(values, rows)
    elif isinstance(values, Lists):
        values = values.take(rows)
    return Column(
        column.kind,
        values,
        None if valid is None else valid[rows],
        None if undefined is None else undefined[rows],
    )


def full_values(column: Column, count: int) -> Any:
    """The values as an array, even if the column is a scalar or dictionary-encoded."""
    values = column.values
    if isinstance(values, _ARRAYS):
        return values
    match column.kind:
        case Boolean():
            return np.full(count, values, np.bool_)
        case Integer() | Timestamp() | Date():
            return np.full(count, values, np.int64)
        case Float():
            return np.full(count, values, np.float64)
        case String() | Bytes() as schema:
            return pa.repeat(pa.scalar(values, arrow_type(schema)), count)
        case Exact():
            return ExactSums.from_sums([values]).take(np.zeros(count, np.int64))
        case Unsigned() | DecimalOf() | EnumOf() as schema:
            return pa.repeat(pa.scalar(None if values is None else values.value, arrow_type(schema)), count)
        case _:
            return values


def exacts_of(column: Column, count: int) -> ExactSums:
    values = column.values
    if isinstance(values, ExactSums):
        return values
    return ExactSums.of(values) if isinstance(values, np.ndarray) else cast(ExactSums, full_values(column, count))


def bare_kind(kind: Kind | None) -> Kind | None:
    return kind.item if isinstance(kind, Optional) else kind


BOOLEAN: Final = Boolean()

PLAIN: Final = (Timestamp, Date)
"""Kinds whose columns hold integers."""

INTEGER: Final = Integer()

ZERO: Final[dict[Any, Any]] = {
    type(None): None,
    Boolean: False,
    Integer: 0,
    Float: 0.0,
    String: "",
    Bytes: b"",
    Timestamp: 0,
    Date: 0,
    UnitValue: UNIT,
    Exact: ExactSum(),
    # Values of these are passed on, and never computed.
    ListOf: None,
    OneOf: None,
    Record: None,
    Unsigned: None,
    DecimalOf: None,
    EnumOf: None,
    LiteralOf: None,
}


def constant(value: Any, kind: Kind | None) -> Column | None:
    """A column of one value. None if the value is not of the kind or does not fit its column."""
    if value is None:
        return Column(None, None)
    match kind:
        case Boolean() if type(value) is bool:
            return Column(kind, value)
        case Integer() if type(value) is int and INT_MIN <= value <= INT_MAX:
            return Column(kind, value)
        case Float() if type(value) is float:
            return Column(kind, value)
        case String() if type(value) is str:
            return Column(kind, value) if is_utf8(value) else None
        case Bytes() if type(value) is bytes:
            return Column(kind, value)
        case Timestamp() if type(value) is dt.datetime and value.tzinfo is dt.UTC:
            return Column(kind, micros_of(value))
        case Date() if type(value) is dt.date:
            return Column(kind, value.toordinal() - EPOCH_DAY)
        case UnitValue() if value is UNIT:
            return Column(kind, value)
        case EnumOf() if type(value) is kind.cls:
            return Column(kind, value)
        case Exact() if isinstance(value, ExactSum):
            return Column(kind, value)
        case _:
            return None

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
from tracetypes.compiler.columns.pending_take import PendingTake, array_of, pending, rows_of_one, taken
from tracetypes.compiler.tracing.expr import Exact, Input, Kind, Undefined
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
    "ZERO",
    "Column",
    "Columns",
    "Struct",
    "bare_kind",
    "column_of_struct",
    "concat",
    "concat_column",
    "constant",
    "either_mask",
    "exacts_of",
    "full_values",
    "inputs_of",
    "merged_column",
    "merged_columns",
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
    Arrow array without nulls; Exact a float64 array, where each float stands for its exact sum, or :class:`ExactSums`; any
    other schema its Arrow array, to be passed on. Or one scalar for all rows: a Python bool, int (of Timestamp and Date
    too), float, str, bytes, ``ExactSum``, ``UNIT``, or None.

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


_ARRAYS: Final = (np.ndarray, pa.Array, ExactSums, DictionaryEncoded, PendingTake)


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
        case _:
            return values


def concat(parts: Sequence[tuple[Columns, int]]) -> Columns:
    """Columns one after the other, each with its number of rows. Raises ``Undefined`` if they have different
    structures."""
    first = parts[0][0] if parts else None
    if isinstance(first, Struct) and all(isinstance(one, Struct) and _alike(one, first) for one, _ in parts):
        pieces: Any = zip(*(one.parts for one, _ in parts), strict=True)  # type: ignore[union-attr]
        counts = [count for _, count in parts]
        columns = tuple(None if None in some else concat(list(zip(some, counts, strict=True))) for some in pieces)
        return Struct(
            first.cls, first.names, columns, _masks([(one.valid, count) for one, count in parts], filler=True)
        )
    if (column := _end_to_end(parts)) is not None:
        return column
    starts = np.cumsum([0, *[count for _, count in parts]])
    placed = [(columns, np.arange(a, b)) for (columns, _), a, b in zip(parts, starts[:-1], starts[1:], strict=True)]
    return merged_columns(placed, int(starts[-1]))


def _alike(one: Struct, other: Struct) -> bool:
    return one.cls is other.cls and len(one.parts) == len(other.parts)


def concat_column(parts: Sequence[tuple[Column, int]]) -> Column:
    """:func:`concat` for columns that are not structs."""
    column = concat(parts)
    assert isinstance(column, Column)
    return column


def _end_to_end(parts: Sequence[tuple[Columns, int]]) -> Column | None:
    """Arrays of one kind, one after the other. None for columns that have others."""
    kinds = [column.kind for column, _ in parts if isinstance(column, Column) and column.kind is not None]
    if not kinds or not isinstance(kinds[0], _ARRAY_KINDS) or any(kind != kinds[0] for kind in kinds[1:]):
        return None
    kind, filled, valid, undefined = kinds[0], list[tuple[Column, int]](), list[Any](), list[Any]()
    for column, count in parts:
        if isinstance(column, Struct):
            return None
        missing = column.kind is None
        filled.append((Column(kind, ZERO[type(kind)]) if missing else column, count))
        valid.append((np.zeros(count, np.bool_) if missing else column.valid, count))
        undefined.append((column.undefined, count))
    whole: Any = rows_of_one([column.storage for column, _ in filled])
    if whole is None:
        arrays = [full_values(column, count) for column, count in filled]
        whole = np.concatenate(arrays) if type(arrays[0]) is np.ndarray else pa.concat_arrays(arrays)
    return Column(kind, whole, _masks(valid, filler=True), _masks(undefined, filler=False))


def _masks(parts: Sequence[tuple[Any, int]], *, filler: bool) -> Any:
    """Masks one after the other. ``filler``: what one that is None stands for."""
    if all(mask is None for mask, _ in parts):
        return None
    return np.concatenate([np.full(count, filler) if mask is None else mask for mask, count in parts])


def merged_columns(parts: Sequence[tuple[Columns, Any]], count: int) -> Columns:
    """One column from several, each with the rows that it is for."""
    structs = [(columns, rows) for columns, rows in parts if isinstance(columns, Struct)]
    scalars = [(columns, rows) for columns, rows in parts if isinstance(columns, Column)]
    if structs:
        first = structs[0][0]
        same = all(s.cls is first.cls and len(s.parts) == len(first.parts) for s, _ in structs)
        if not same or any(column.kind is not None for column, _ in scalars):
            raise Undefined(0)
        merged = []
        for at in range(len(first.parts)):
            pieces = [(s.parts[at], rows) for s, rows in structs]
            present = [(piece, rows) for piece, rows in pieces if piece is not None]
            merged.append(merged_columns(present, count) if len(present) == len(pieces) else None)
        return Struct(first.cls, first.names, tuple(merged), _merge_valid(parts, count))
    return merged_column(scalars, count)


def merged_column(parts: Sequence[tuple[Column, Any]], count: int) -> Column:
    """:func:`merged_columns` for columns that are not structs."""
    kinds = {column.kind for column, _ in parts if column.kind is not None}
    if not kinds:
        return Column(None, None)
    if len(kinds) > 1:
        raise Undefined(0)
    kind = kinds.pop()
    present = [(column, rows) for column, rows in parts if column.kind is not None]
    values: Any
    if isinstance(kind, UnitValue):
        values = UNIT
    elif isinstance(kind, Exact):
        exacts = ExactSums.concat([exacts_of(column, len(rows)) for column, rows in present] + [ExactSums.zero(1)])
        values = exacts.take(_places([len(rows) for _, rows in present], [rows for _, rows in present], count))
    elif isinstance(kind, Boolean | Integer | Float | Timestamp | Date):
        dtype = np.bool_ if isinstance(kind, Boolean) else np.float64 if isinstance(kind, Float) else np.int64
        values = np.zeros(count, dtype)
        for column, rows in present:
            values[rows] = column.values
    else:
        arrays = [column.values if not column.scalar else full_values(column, 1) for column, _ in present]
        filler = pa.nulls(1, arrays[0].type) if not isinstance(kind, String | Bytes) else full_values(_empty(kind), 1)
        places = _places([len(a) for a in arrays], [rows for _, rows in present], count)
        values = pa.concat_arrays([*arrays, filler]).take(pa.array(places))
    undefined = None
    if any(column.undefined is not None for column, _ in present):
        undefined = np.zeros(count, np.bool_)
        for column, rows in present:
            if column.undefined is not None:
                undefined[rows] = column.undefined
    return Column(kind, values, _merge_valid(parts, count), undefined)


def _empty(kind: String | Bytes) -> Column:
    return Column(kind, "" if isinstance(kind, String) else b"")


def _places(lengths: list[int], rows: list[Any], count: int) -> Any:
    """Where each row lies in the concatenation of arrays; those of no array at its end. An array of length one may serve
    many rows."""
    places = np.full(count, sum(lengths), np.int64)
    start = 0
    for length, which in zip(lengths, rows, strict=True):
        places[which] = start if length == 1 else np.arange(start, start + length)
        start += length
    return places


def _merge_valid(parts: Sequence[tuple[Columns, Any]], count: int) -> Any:
    if all(columns.valid is None and not _is_none(columns) for columns, _ in parts):
        covered = sum(len(rows) for _, rows in parts)
        if covered == count:
            return None
    valid = np.zeros(count, np.bool_)
    for columns, rows in parts:
        valid[rows] = False if _is_none(columns) else True if columns.valid is None else columns.valid
    return valid


def _is_none(columns: Columns) -> bool:
    return isinstance(columns, Column) and columns.kind is None


def exacts_of(column: Column, count: int) -> ExactSums:
    values = column.values
    if isinstance(values, ExactSums):
        return values
    return ExactSums.of(values) if isinstance(values, np.ndarray) else cast(ExactSums, full_values(column, count))


def bare_kind(kind: Kind | None) -> Kind | None:
    return kind.item if isinstance(kind, Optional) else kind


BOOLEAN: Final = Boolean()

_ARRAY_KINDS: Final = (Boolean, Integer, Float, Timestamp, Date, String, Bytes)

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
        case Exact() if isinstance(value, ExactSum):
            return Column(kind, value)
        case _:
            return None

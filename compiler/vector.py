"""Expressions over columns, with numpy and Arrow: the same values as :mod:`tracetypes.compiler.expr` defines, many rows a call.

Nothing here gives another value than Python would. Where an expression has none (:class:`Undefined`), or where these columns
cannot tell, :func:`evaluate` and :func:`run` raise ``Undefined`` with the number of the first such row, and the caller runs
the batch in Python.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, assert_never, cast, final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.algebra import ExactSum
from tracetypes.asked import AskedTable
from tracetypes.compiler.coded import Coded, gathered
from tracetypes.compiler.columns import arrow_type, builder, from_array, never_refuses
from tracetypes.compiler.exact import Exacts, exact_group_sums
from tracetypes.compiler.expr import Branch, Call, Const, Exact, Expr, Input, Kind, Leaf, Pack, Tree, Undefined, Value
from tracetypes.errors import CodedError
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    ListOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    datetime_of,
    micros_of,
)

__all__ = [
    "Column",
    "Columns",
    "Emitted",
    "Exacts",
    "Ran",
    "Struct",
    "Undefined",
    "arrow_inputs",
    "concat",
    "constant",
    "evaluate",
    "exact_group_sums",
    "from_arrow",
    "inputs_of",
    "run",
    "table_entries",
    "table_keys",
    "take",
    "to_arrow",
    "to_coded_arrow",
    "values_of",
]


@final
@attrs.frozen(eq=False)
class Column:
    """A scalar of each row.

    ``kind``: never Optional; None only for a column of None. ``values``, by kind: Boolean a bool array; Integer, Timestamp
    (microseconds) and Date (days since the epoch) int64 arrays; Float a float64 array; String and Bytes an Arrow array
    without nulls; Exact a float64 array, each float standing for the sum of itself, or :class:`Exacts`; any other schema
    its Arrow array, to be passed on. Or one scalar for all rows: a Python bool, int (of Timestamp and Date too), float,
    str, bytes, ``ExactSum``, ``UNIT``, or None.

    ``held``: the values as they are kept, which may be :class:`Coded`; ``values`` are never.

    ``valid``: a bool array, which rows are present; None for all. ``undefined``: a bool array, for which rows the
    expression has no value; None for none. What ``values`` holds where a row is missing or undefined means nothing.
    """

    kind: Kind | None
    held: Any = attrs.field(alias="values")
    valid: Any = None
    undefined: Any = None

    @property
    def values(self) -> Any:
        """The values of the rows, or one for all."""
        return self.held.plain() if isinstance(self.held, Coded) else self.held

    @property
    def coded(self) -> Coded | None:
        """The column by its entries, where computing something of each entry is less than doing it of each row."""
        return self.held if isinstance(self.held, Coded) and self.held.pays else None

    @property
    def scalar(self) -> bool:
        """Is it one value for all rows?"""
        return not isinstance(self.held, _ARRAYS)


_ARRAYS: Final = (np.ndarray, pa.Array, Exacts, Coded)


@final
@attrs.frozen(eq=False)
class Struct:
    """The columns of a record or tuple, as :class:`tracetypes.compiler.expr.Pack` names them. A part is None when it was
    not read; that is no error until it is used. ``valid`` as in :class:`Column`."""

    cls: type[Any]
    names: tuple[str, ...]
    parts: tuple[Columns | None, ...]
    valid: Any = None


Columns: TypeAlias = Column | Struct


@final
@attrs.frozen(eq=False)
class Emitted:
    """What one call of ``emit`` emitted. ``rows``: int64, which rows came there, ascending, None for all; ``number``: which
    emission of its row it is. The columns are as long as ``rows``."""

    rows: Any
    number: int
    key: Columns | None
    value: Columns


@final
@attrs.frozen(eq=False)
class Ran:
    """What a tree did: its emissions, and what it returned for each row (None when it returns nothing)."""

    emissions: tuple[Emitted, ...]
    result: Columns | None


# -------------------------------------------------------------------------------------------- in and out


def from_arrow(schema: Schema, array: Any) -> Columns:
    """An Arrow array of ``columns.arrow_type(schema)`` as columns. Fields that the struct does not have become missing
    parts; nulls become missing rows, also where the schema has no optional."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or not isinstance(_bare(schema), _TEXT)):
        array = array.dictionary_decode()
    valid = None
    if array.null_count and not isinstance(schema, UnitValue):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    match schema:
        case Optional(item):
            return from_arrow(item, array)
        case Record(cls, fields):
            held = {array.type.field(n).name: part for n, part in enumerate(array.flatten())}
            parts = tuple(from_arrow(inner, held[name]) if name in held else None for name, inner in fields)
            return Struct(cls, tuple(name for name, _ in fields), parts, valid)
        case UnitValue():
            return Column(schema, UNIT)
        case Boolean():
            values = (array if valid is None else pc.fill_null(array, False)).to_numpy(zero_copy_only=False)
        case Float():
            values = (array if valid is None else pc.fill_null(array, 0.0)).to_numpy()
        case Integer() | Timestamp() | Date():
            if isinstance(schema, Date):
                array = array.cast(pa.int32())
            elif isinstance(schema, Timestamp):
                array = array.cast(_TIMESTAMP)
            array = array.cast(pa.int64())
            values = (array if valid is None else pc.fill_null(array, 0)).to_numpy()
        case String() | Bytes():
            if pa.types.is_dictionary(array.type) and array.type.value_type == arrow_type(schema):
                return Column(schema, Coded.from_arrow(array), valid)
            array = array.cast(arrow_type(schema))
            values = array if valid is None else pc.fill_null(array, "" if isinstance(schema, String) else b"")
        case ListOf() | OneOf():
            values = array
        case _:
            assert_never(schema)
    return Column(schema, values, valid)


_TEXT: Final = (String, Bytes)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def to_arrow(schema: Schema, columns: Columns, count: int) -> Any:
    """The Arrow array of ``columns.arrow_type(schema)``, ``count`` rows. Integers become floats where the schema says so,
    as values do that conform. Raises ``Undefined`` when a value does not fit the schema."""
    optional = isinstance(schema, Optional)
    if isinstance(schema, Optional):
        schema = schema.item
    if not optional and columns.valid is not None and not columns.valid.all():
        raise Undefined(int(np.argmin(columns.valid)))
    missing = None if columns.valid is None else pa.array(~columns.valid)
    if isinstance(columns, Struct):
        return _struct_to_arrow(schema, columns, count, missing)
    if columns.undefined is not None and columns.undefined.any():
        raise Undefined(int(np.argmax(columns.undefined)))
    if columns.kind is None:
        if count and not optional:
            raise Undefined(0)
        return pa.nulls(count, arrow_type(schema))
    if type(columns.kind) is Integer and isinstance(schema, Float):
        columns = Column(schema, _full(columns, count).astype(np.float64))
    if columns.kind != schema:
        raise Undefined(0)
    values = _full(columns, count)
    match schema:
        case UnitValue():
            return pa.nulls(count)
        case Boolean() | Integer() | Float():
            made = pa.array(values)
        case Timestamp():
            made = pa.array(values).cast(_TIMESTAMP)
        case Date():
            made = pa.array(values.astype(np.int32)).cast(pa.date32())
        case _:
            made = values
    return made if missing is None or not len(made) else pc.if_else(missing, pa.scalar(None, made.type), made)


def to_coded_arrow(schema: Schema, columns: Columns, count: int) -> Any:
    """The same, but text that is held by its entries becomes a dictionary array."""
    if isinstance(columns, Struct) or not isinstance(columns.held, Coded) or not isinstance(schema, _TEXT):
        return to_arrow(schema, columns, count)
    plain = columns.valid is None and columns.undefined is None and columns.kind == schema
    return columns.held.to_arrow() if plain else to_arrow(schema, columns, count)


def _struct_to_arrow(schema: Schema, columns: Struct, count: int, missing: Any) -> Any:
    kind = arrow_type(schema)
    match schema:
        case OneOf(members):
            if columns.cls not in [member.cls for member in members]:
                raise Undefined(0)
            parts = [
                to_arrow(m, columns, count) if m.cls is columns.cls else pa.nulls(count, arrow_type(m)) for m in members
            ]
        case Record(cls, fields):
            if columns.cls is not cls:
                raise Undefined(0)
            given = dict(zip(columns.names, columns.parts, strict=True))
            parts = []
            for name, inner in fields:
                part = given[name]
                if part is None:
                    raise LookupError(f"the field {name} was not read")
                if columns.valid is not None:
                    # A row that is missing as a whole may be missing in its fields.
                    inner = inner if isinstance(inner, Optional | UnitValue) else Optional(inner)
                parts.append(to_arrow(inner, part, count))
        case _:
            raise Undefined(0)
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)


def values_of(columns: Columns, count: int) -> list[Any]:
    """As Python values, None where missing. Raises LookupError for a part that was not read."""
    if columns.valid is not None:
        present = np.flatnonzero(columns.valid)
        some = take(columns, present)
        made: list[Any] = [None] * count
        for row, value in zip(present.tolist(), values_of(attrs.evolve(some, valid=None), len(present)), strict=True):
            made[row] = value
        return made
    if isinstance(columns, Column):
        return _objects(columns, count)
    if any(part is None for part in columns.parts):
        raise LookupError("a field was not read")
    parts = [values_of(part, count) for part in columns.parts if part is not None]
    if not parts:
        return [columns.cls() for _ in range(count)]
    if columns.cls is tuple:
        return list(zip(*parts, strict=True))
    return builder(columns.cls, columns.names)(parts)


def _objects(column: Column, count: int) -> list[Any]:
    """As Python values; none is missing."""
    if isinstance(column.kind, _TEXT) and column.coded is not None:
        known = column.coded.entries.tolist()
        return [known[code] for code in column.coded.codes.tolist()]
    values = column.values
    if column.scalar:
        held = [values] * count
    elif isinstance(values, Exacts):
        return values.sums()
    elif isinstance(column.kind, ListOf | OneOf):
        return from_array(column.kind, values)
    else:
        held = values.tolist()
    match column.kind:
        case Timestamp():
            return [datetime_of(micros) for micros in held]
        case Date():
            return [dt.date.fromordinal(days + _EPOCH_DAY) for days in held]
        case Exact() if not column.scalar:
            return list(map(ExactSum.of, held))
        case _:
            return held


_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()


def inputs_of(arguments: Mapping[str, Columns]) -> Callable[[Input], Column]:
    """What :func:`evaluate` and :func:`run` ask for inputs, from columns by the names of arguments.

    Raises LookupError for a part that was not read.
    """

    def find(given: Input) -> Column:
        found: Columns = arguments[cast(str, given.path[0])]
        valid = found.valid
        for step in given.path[1:]:
            if not isinstance(found, Struct):
                raise LookupError(f"no columns below {given.path}")
            part = found.parts[step if isinstance(step, int) else found.names.index(step)]
            if part is None:
                raise LookupError(f"the field {step} was not read")
            found = part
            valid = _both(valid, found.valid)
        if isinstance(found, Struct):
            return Column(UnitValue(), UNIT, valid)
        return found if valid is found.valid else Column(found.kind, found.held, valid, found.undefined)

    return find


def arrow_inputs(arguments: Mapping[str, tuple[Schema, Any]]) -> Callable[[Input], Column]:
    """The same from Arrow arrays of the schemas of the arguments; only the fields that are asked for are converted."""

    def find(given: Input) -> Column:
        schema, array = arguments[cast(str, given.path[0])]
        for step in given.path[1:]:
            schema = schema.item if isinstance(schema, Optional) else schema
            place = array.type.get_field_index(step) if isinstance(schema, Record) else -1
            if place < 0 or not isinstance(schema, Record):
                raise LookupError(f"the field {step} was not read")
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            schema = dict(schema.fields)[cast(str, step)]
            array = array.flatten()[place] if array.null_count else array.field(place)
        found = from_arrow(schema, array)
        return Column(UnitValue(), UNIT, found.valid) if isinstance(found, Struct) else found

    return find


def _both(a: Any, b: Any) -> Any:
    """Masks: where both, None being everywhere."""
    return b if a is None else a if b is None else a & b


def _either(a: Any, b: Any) -> Any:
    """Masks: where one or the other, None being nowhere."""
    return b if a is None else a if b is None else a | b


def take(columns: Columns, rows: Any) -> Columns:
    """The rows of these numbers (an int64 array). A scalar stays one."""
    if isinstance(columns, Struct):
        parts = tuple(None if part is None else take(part, rows) for part in columns.parts)
        return Struct(columns.cls, columns.names, parts, None if columns.valid is None else columns.valid[rows])
    return _take(columns, rows)


def _take(column: Column, rows: Any) -> Column:
    values, valid, undefined = column.held, column.valid, column.undefined
    if isinstance(values, np.ndarray):
        values = values[rows]
    elif isinstance(values, pa.Array):
        values = values.take(pa.array(rows))
    elif isinstance(values, Exacts | Coded):
        values = values.take(rows)
    return Column(
        column.kind,
        values,
        None if valid is None else valid[rows],
        None if undefined is None else undefined[rows],
    )


def _full(column: Column, count: int) -> Any:
    """The values as an array, however they are held."""
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
            return Exacts.from_sums([values]).take(np.zeros(count, np.int64))
        case _:
            return values


def concat(parts: Sequence[tuple[Columns, int]]) -> Columns:
    """Columns behind one another, each with its number of rows. Raises ``Undefined`` when they are not of one shape."""
    starts = np.cumsum([0, *[count for _, count in parts]])
    placed = [(columns, np.arange(a, b)) for (columns, _), a, b in zip(parts, starts[:-1], starts[1:], strict=True)]
    return _merge(placed, int(starts[-1]))


def _merge(parts: Sequence[tuple[Columns, Any]], count: int) -> Columns:
    """One column from several, each with the rows that it is for."""
    structs = [(columns, rows) for columns, rows in parts if isinstance(columns, Struct)]
    scalars = [(columns, rows) for columns, rows in parts if isinstance(columns, Column)]
    if structs:
        first = structs[0][0]
        same = all(s.cls is first.cls and len(s.parts) == len(first.parts) for s, _ in structs)
        if not same or any(column.kind is not None for column, _ in scalars):
            raise Undefined(0)
        made = []
        for at in range(len(first.parts)):
            pieces = [(s.parts[at], rows) for s, rows in structs]
            known = [(piece, rows) for piece, rows in pieces if piece is not None]
            made.append(_merge(known, count) if len(known) == len(pieces) else None)
        return Struct(first.cls, first.names, tuple(made), _merge_valid(parts, count))
    kinds = {column.kind for column, _ in scalars if column.kind is not None}
    if not kinds:
        return Column(None, None)
    if len(kinds) > 1:
        raise Undefined(0)
    kind = kinds.pop()
    present = [(column, rows) for column, rows in scalars if column.kind is not None]
    values: Any
    if isinstance(kind, UnitValue):
        values = UNIT
    elif isinstance(kind, Exact):
        exacts = Exacts.concat([_exacts(column, len(rows)) for column, rows in present] + [Exacts.zero(1)])
        values = exacts.take(_places([len(rows) for _, rows in present], [rows for _, rows in present], count))
    elif isinstance(kind, Boolean | Integer | Float | Timestamp | Date):
        dtype = np.bool_ if isinstance(kind, Boolean) else np.float64 if isinstance(kind, Float) else np.int64
        values = np.zeros(count, dtype)
        for column, rows in present:
            values[rows] = column.values
    else:
        arrays = [column.values if not column.scalar else _full(column, 1) for column, _ in present]
        filler = pa.nulls(1, arrays[0].type) if not isinstance(kind, String | Bytes) else _full(_empty(kind), 1)
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


def _exacts(column: Column, count: int) -> Exacts:
    values = column.values
    if isinstance(values, Exacts):
        return values
    return Exacts.of(values) if isinstance(values, np.ndarray) else cast(Exacts, _full(column, count))


# ------------------------------------------------------------------------------------------- evaluation


def evaluate(value: Value, inputs: Callable[[Input], Column], count: int) -> Columns:
    """The columns of ``value`` for ``count`` rows. Raises ``Undefined`` with the number of the first row that has none."""
    with np.errstate(all="ignore"):
        run = _Run(inputs)
        made = _Rows(run, count, None, None, None).columns(value)
        run.settle()
        return made


def run(tree: Tree, inputs: Callable[[Input], Column], count: int) -> Ran:
    """What the tree does with ``count`` rows. Each condition and leaf sees only the rows that come to it.

    Raises ``Undefined`` with the number of the first row for which a condition or a leaf has no value.
    """
    with np.errstate(all="ignore"):
        run = _Run(inputs)
        leaves: list[tuple[Leaf, _Rows]] = []
        _walk(tree, _Rows(run, count, None, None, None), leaves)
        emissions = []
        results: list[tuple[Leaf, Columns | None, Any, int]] = []
        for leaf, rows in leaves:
            if not rows.count:
                continue
            if leaf.raises:
                run.undefined(rows.number(0))
                continue
            for number, emission in enumerate(leaf.emissions):
                key = None if emission.key is None else rows.columns(emission.key)
                emissions.append(Emitted(rows.absolute, number, key, rows.columns(emission.value)))
            made = None if leaf.result is None else rows.columns(leaf.result)
            results.append((leaf, made, rows.absolute, rows.count))
        run.settle()
    if all(leaf.result is None for leaf, _ in leaves):
        return Ran(tuple(emissions), None)
    if not results:
        first = next(leaf.result for leaf, _ in leaves if leaf.result is not None)
        return Ran((), evaluate(first, inputs, 0))
    if len(results) == 1:
        return Ran(tuple(emissions), results[0][1] or Column(None, None))
    parts = [(Column(None, None) if made is None else made, at) for _, made, at, _ in results]
    return Ran(tuple(emissions), _merge(parts, count))


def _walk(tree: Tree, rows: _Rows, leaves: list[tuple[Leaf, _Rows]]) -> None:
    while isinstance(tree, Branch):
        column = rows.checked(tree.condition)
        if tree.then is tree.otherwise:  # asked only whether it has a value
            tree = tree.then
            continue
        if column.scalar:
            tree = tree.then if column.values is True else tree.otherwise
            if not isinstance(column.values, bool):
                rows.run.undefined(rows.number(0))
                return
            continue
        chosen = column.values
        if not isinstance(column.kind, Boolean):
            rows.run.undefined(rows.number(0))
            return
        yes = np.flatnonzero(chosen)
        if len(yes) == rows.count:
            tree = tree.then
            continue
        if not len(yes):
            tree = tree.otherwise
            continue
        _walk(tree.then, rows.part(yes), leaves)
        rows, tree = rows.part(np.flatnonzero(~chosen)), tree.otherwise
    leaves.append((tree, rows))


class _Run:
    """Inputs by path, and the first row that was found undefined."""

    __slots__ = ("first", "inputs")

    def __init__(self, inputs: Callable[[Input], Column]) -> None:
        self.inputs = inputs
        self.first: int | None = None

    def undefined(self, row: int) -> None:
        if self.first is None or row < self.first:
            self.first = row

    def settle(self) -> None:
        if self.first is not None:
            raise Undefined(self.first)


class _Rows:
    """Some of the rows, and what has been computed for them."""

    __slots__ = ("absolute", "asked", "codes", "count", "given", "known", "parent", "run", "within")

    def __init__(self, run: _Run, count: int, parent: _Rows | None, within: Any, absolute: Any) -> None:
        self.run, self.count, self.parent = run, count, parent
        self.within, self.absolute = within, absolute
        self.known: dict[Any, Column] = {}
        self.given: dict[tuple[str | int, ...], Column] = {}
        self.codes: dict[int, tuple[Any, Any]] = {}
        self.asked: dict[Any, Answers] = {}

    def part(self, within: Any) -> _Rows:
        absolute = within if self.absolute is None else self.absolute[within]
        return _Rows(self.run, len(within), self, within, absolute)

    def number(self, row: int) -> int:
        return row if self.absolute is None else int(self.absolute[row])

    def columns(self, value: Value) -> Columns:
        """What is handed out: undefined rows are noted."""
        if isinstance(value, Pack):
            made = Struct(value.cls, value.names, tuple(self.columns(part) for part in value.parts))
            if value.cls is not tuple and not never_refuses(Record(value.cls, ())):
                self.construct(made)
            return made
        return self.checked(value)

    def construct(self, struct: Struct) -> None:
        """Rows for which a class with code of its own refuses the fields, or changes them, have no value here."""
        if self.run.first is not None:
            return
        fields = [values_of(part, self.count) for part in struct.parts if part is not None]
        for number, row in enumerate(zip(*fields, strict=True)):
            try:
                made = struct.cls(**dict(zip(struct.names, row, strict=True)))
                same = all(getattr(made, name) is value for name, value in zip(struct.names, row, strict=True))
            except Exception:  # the author's own
                same = False
            if not same:
                self.run.undefined(self.number(number))
                return

    def checked(self, expr: Expr) -> Column:
        column = self.column(expr)
        if column.undefined is None:
            return column
        if column.undefined.any():
            self.run.undefined(self.number(int(np.argmax(column.undefined))))
        return Column(column.kind, column.held, column.valid)

    def column(self, expr: Expr) -> Column:
        if isinstance(expr, Input):
            return self.input(expr)
        key = id(expr)
        found = self.look(key)
        if found is None:
            found = self.known[key] = _constant(expr, self.count) if isinstance(expr, Const) else self.call(expr)
        return found

    def input(self, expr: Input) -> Column:
        found = self.given.get(expr.path)
        if found is None:
            found = self.run.inputs(expr) if self.parent is None else self.taken(self.parent.input(expr))
            self.given[expr.path] = found
        return found

    def look(self, key: Any) -> Column | None:
        """What was computed here, or for more rows than these."""
        found = self.known.get(key)
        if found is None and self.parent is not None:
            found = self.parent.look(key)
            if found is not None:
                found = self.known[key] = self.taken(found)
        return found

    def taken(self, column: Column) -> Column:
        """A column of the parent for these rows. Columns that share their codes go on to share them."""
        held = column.held
        if not isinstance(held, Coded):
            return _take(column, self.within)
        if id(held.codes) not in self.codes:
            self.codes[id(held.codes)] = held.codes, held.codes[self.within]
        _, codes = self.codes[id(held.codes)]
        rest = _take(Column(column.kind, None, column.valid, column.undefined), self.within)
        return Column(column.kind, Coded(codes, held.entries), rest.valid, rest.undefined)

    def call(self, call: Call) -> Column:
        op = call.op
        if op == "is_null":
            return self.is_null(call)
        if op == "slice":
            return self.slice(call)
        if op == "if":
            condition, then, otherwise = call.args
            return self.choose(self.operand(condition), self.column(then), self.column(otherwise))
        args = [self.operand(arg) for arg in call.args]
        undefined = None
        alone = True
        for arg in args:
            if arg.undefined is not None:
                undefined = _either(undefined, arg.undefined)
            alone = alone and arg.scalar
        if call.table is not None:
            return self.table(call, args[0], undefined)
        first = args[0].kind
        act = _ACTS.get((op, type(first))) or _ACTS.get((op, None))
        if act is None or (op in _OF_ONE_KIND and any(type(arg.kind) is not type(first) for arg in args)):
            return _nothing(call.kind, self.count)
        count = self.count
        if alone:
            # Computed once, in a column of one row.
            values, new = act(call, [_full(arg, 1) for arg in args], 1)
            values = _objects(Column(_BOOLEAN if isinstance(call.kind, _PLAIN) else _bare(call.kind), values), 1)[0]
            if new is not None:
                if new[0]:
                    return _nothing(call.kind, count)
                new = None
        elif (codes := _shared(args)) is not None:
            values, new = act(call, [_of_entries(arg) for arg in args], _entry_count(args))
            values, new = Coded(codes, values), _of_rows(new, codes)
        else:
            values, new = act(call, [arg.values for arg in args], count)
        return Column(_bare(call.kind), values, None, _either(undefined, new))

    def choose(self, condition: Column, then: Column, otherwise: Column) -> Column:
        columns = (condition, then, otherwise)
        codes = _shared(columns)
        if codes is None or any(x.valid is not None or x.undefined is not None for x in (then, otherwise)):
            return _choose(*columns, self.count)
        condition_, then_, otherwise_ = (Column(x.kind, _of_entries(x)) for x in columns)
        return _spread(_choose(condition_, then_, otherwise_, _entry_count(columns)), codes, condition.undefined)

    def operand(self, expr: Expr) -> Column:
        """An argument: Python has no value for an operation on None, but comparing it, which is ``is_null``."""
        column = self.column(expr)
        if column.kind is None:
            return _nothing(None, self.count)
        if column.valid is None:
            return column
        return Column(column.kind, column.held, None, _either(column.undefined, ~column.valid))

    def slice(self, call: Call) -> Column:
        text, *bounds = call.args
        column = self.operand(text)
        if not all(isinstance(bound, Const) and (bound.value is None or type(bound.value) is int) for bound in bounds):
            return _nothing(call.kind, self.count)
        if not isinstance(column.kind, String):
            return _nothing(call.kind, self.count)
        start, stop = [bound.value for bound in bounds if isinstance(bound, Const)]
        if column.scalar:
            return Column(column.kind, column.values[start:stop], None, column.undefined)
        first, last = [None if x is None else max(min(x, 2**31), -(2**31)) for x in (start, stop)]
        coded = column.coded
        made = pc.utf8_slice_codeunits(column.values if coded is None else coded.entries, start=first or 0, stop=last)
        return Column(column.kind, made if coded is None else Coded(coded.codes, made), None, column.undefined)

    def is_null(self, call: Call) -> Column:
        column = self.column(call.args[0])
        if column.valid is not None:
            return Column(_BOOLEAN, ~column.valid, None, column.undefined)
        return Column(_BOOLEAN, column.kind is None, None, column.undefined)

    def table(self, call: Call, key: Column, undefined: Any) -> Column:
        assert call.table is not None
        arg = call.args[0]
        known = (id(call.table), arg.path if isinstance(arg, Input) else id(arg))
        if isinstance(call.table, AskedTable):
            answers = self.answers(call.table, known, key)
            if answers is None:
                return _nothing(call.kind, self.count)
            index, entries = answers.index(key.kind), answers.entries
        else:
            index, entries = _index(_Same(call.table), key.kind), partial(_entries, _Same(call.table))
        if index is None:
            return _nothing(call.kind, self.count)
        if key.scalar:
            place = index.place(key.values)
            if call.op == "has":
                return Column(_BOOLEAN, place < index.missing, None, undefined)
            if place == index.missing:
                return _nothing(call.kind, self.count)
            part = entries(call.path, _bare(call.kind))
            one = _take(part, np.array([place]))
            if one.undefined is not None and one.undefined[0]:
                return _nothing(call.kind, self.count)
            return _take(Column(one.kind, one.values, one.valid, undefined), np.zeros(self.count, np.int64))
        found = self.look(known)
        if found is None:
            held = key.coded
            texts = key.values if held is None else held.entries
            places = index.places(texts, len(texts))
            found = self.known[known] = Column(_INTEGER, places if held is None else Coded(held.codes, places))
        coded = found.coded
        places = found.values if coded is None else coded.entries
        if call.op == "has":
            made = Column(_BOOLEAN, places < index.missing)
        else:
            part = entries(call.path, _bare(call.kind))
            if coded is None and isinstance(part.held, pa.Array) and len(part.held) <= self.count:
                return _spread(part, places, undefined)
            made = _take(part, places)
        if coded is None:
            return Column(made.kind, made.held, made.valid, _either(undefined, _of_rows(made.undefined, None)))
        return _spread(made, coded.codes, undefined)

    def answers(self, table: AskedTable, known: Any, key: Column) -> Answers | None:
        """What a table says of a column of keys, asked once for these rows and all parts of them. None where it fails: it
        will fail again in Python, and be told of there."""
        rows: _Rows | None = self
        while rows is not None:
            if known in rows.asked:
                return rows.asked[known]
            rows = rows.parent
        try:
            made = Answers(table.rows(_distinct(key)))
        except CodedError:
            return None
        self.asked[known] = made
        return made


class Answers:
    """Rows that an asked table gave, as a table."""

    def __init__(self, rows: Mapping[Any, Any]) -> None:
        self.same = _Same(rows)
        self.indices: dict[Any, _Index | None] = {}
        self.columns: dict[Any, Column] = {}

    def index(self, kind: Kind | None) -> _Index | None:
        """Where a key lies."""
        if kind not in self.indices:
            self.indices[kind] = _index.__wrapped__(self.same, kind)
        return self.indices[kind]

    def entries(self, path: tuple[str | int, ...], kind: Kind | None) -> Column:
        """A column of the rows."""
        if (path, kind) not in self.columns:
            self.columns[path, kind] = _entries.__wrapped__(self.same, path, kind)
        return self.columns[path, kind]


def _distinct(key: Column) -> list[Any]:
    """The values of a column of keys, each once; those that no row has may be among them."""
    if key.scalar:
        return [key.values]
    held = key.values if key.coded is None else key.coded.entries
    array = held if isinstance(held, pa.Array) else pa.array(held)
    found: list[Any] = pc.unique(array).to_pylist()
    return [one for one in found if one is not None]


def _spread(made: Column, codes: Any, undefined: Any) -> Column:
    """A column of entries as one of rows, ``undefined`` also in other rows."""
    values = made.held if made.scalar else Coded(codes, made.held)
    valid = None if made.valid is None else gathered(made.valid, codes)
    return Column(made.kind, values, valid, _either(undefined, _of_rows(made.undefined, codes)))


def _shared(columns: Sequence[Column]) -> Any:
    """The codes that all columns have in common which are not scalars; None where computing of entries will not do."""
    coded = [column.coded for column in columns if not column.scalar]
    if not coded or coded[0] is None:
        return None
    first = coded[0]
    same = all(x is not None and x.codes is first.codes and len(x.entries) == len(first.entries) for x in coded)
    return first.codes if same else None


def _of_entries(column: Column) -> Any:
    return column.held.entries if isinstance(column.held, Coded) else column.held


def _entry_count(columns: Sequence[Column]) -> int:
    return next(len(column.held.entries) for column in columns if isinstance(column.held, Coded))


def _of_rows(mask: Any, codes: Any) -> Any:
    """A mask of entries as one of rows, None where no row is marked."""
    if mask is None or not mask.any():
        return None
    return mask if codes is None else _some(gathered(mask, codes))


def _nothing(kind: Kind | None, count: int) -> Column:
    return Column(_bare(kind), _ZERO[type(_bare(kind))], None, np.ones(count, np.bool_))


def _bare(kind: Kind | None) -> Kind | None:
    return kind.item if isinstance(kind, Optional) else kind


_BOOLEAN: Final = Boolean()
_PLAIN: Final = (Timestamp, Date)
"""Kinds whose columns hold integers."""
_INTEGER: Final = Integer()
_ZERO: Final[dict[Any, Any]] = {
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
}


def _constant(const: Const, count: int) -> Column:
    value, kind = const.value, _bare(const.kind)
    made = constant(value, kind)
    return _nothing(kind, count) if made is None else made


def constant(value: Any, kind: Kind | None) -> Column | None:
    """A column of one value; None when the value is not of the kind or does not fit its column."""
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
            return Column(kind, value) if value.isascii() or _has_utf8(value) else None
        case Bytes() if type(value) is bytes:
            return Column(kind, value)
        case Timestamp() if type(value) is dt.datetime and value.tzinfo is not None:
            return Column(kind, micros_of(value))
        case Date() if type(value) is dt.date:
            return Column(kind, value.toordinal() - _EPOCH_DAY)
        case UnitValue() if value is UNIT:
            return Column(kind, value)
        case Exact() if isinstance(value, ExactSum):
            return Column(kind, value)
        case _:
            return None


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _choose(condition: Column, then: Column, otherwise: Column, count: int) -> Column:
    if condition.scalar:
        chosen = then if condition.values is True else otherwise
        undefined = _either(condition.undefined, chosen.undefined)
        return Column(chosen.kind, chosen.held, chosen.valid, undefined)
    mask = condition.values
    yes, no = np.flatnonzero(mask), np.flatnonzero(~mask)
    undefined = condition.undefined
    if then.undefined is not None:
        undefined = _either(undefined, mask & then.undefined)
    if otherwise.undefined is not None:
        undefined = _either(undefined, ~mask & otherwise.undefined)
    # The values of an undefined column need not be of the right kind.
    valid = None
    if then.valid is not None or otherwise.valid is not None or then.kind is None or otherwise.kind is None:
        valid = np.where(mask, _present(then), _present(otherwise))
    kind = otherwise.kind if then.kind is None else then.kind
    if kind is None:
        return Column(None, None, None, undefined)
    if then.kind is not None and otherwise.kind is not None and then.kind != otherwise.kind:
        return _nothing(kind, count)
    a = then if then.kind is not None else otherwise
    b = otherwise if otherwise.kind is not None else then
    values: Any
    floats = isinstance(a.values, np.ndarray) and isinstance(b.values, np.ndarray)
    if isinstance(kind, Boolean | Integer | Float | Timestamp | Date) or (isinstance(kind, Exact) and floats):
        values = np.where(mask, a.values, b.values)
    elif isinstance(kind, String | Bytes):
        type_ = arrow_type(kind)
        values = pc.if_else(pa.array(mask), *[pa.scalar(x.values, type_) if x.scalar else x.values for x in (a, b)])
    elif a.scalar and b.scalar and a.values is b.values:
        values = a.values
    else:
        pieces = [(Column(x.kind, x.values) if x.scalar else _take(x, at), at) for x, at in ((a, yes), (b, no))]
        merged = _merge([(Column(x.kind, x.values), at) for x, at in pieces], count)
        values = cast(Column, merged).values
    return Column(kind, values, valid, undefined)


def _present(column: Column) -> Any:
    return column.kind is not None if column.valid is None else column.valid


# ------------------------------------------------------------------------------------------- operations

_Made: TypeAlias = tuple[Any, Any]
"""Values, and a mask of the rows that have none (or None)."""

_Act: TypeAlias = Callable[[Call, list[Any], int], _Made]

_SMALL: Final = 4096
"""Up to here a pass over a column costs less than the call that makes it."""

_ARITHMETIC: Final = ("add", "sub", "mul", "floordiv", "mod", "truediv", "eq", "lt", "le", "and", "or")
_OF_ONE_KIND: Final = frozenset((*_ARITHMETIC, "startswith", "endswith", "contains", "replace", "concat"))


def _bounds(values: Any) -> tuple[int, int]:
    if isinstance(values, int):
        return values, values
    if not len(values):
        return 0, 0
    return int(np.minimum.reduce(values)), int(np.maximum.reduce(values))


def _some(mask: Any) -> Any:
    return mask if mask.any() else None


def _add(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    made = a + b
    if count > _SMALL:
        (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
        if a_low + b_low >= INT_MIN and a_high + b_high <= INT_MAX:
            return made, None
    return made, _some(((a ^ made) & (b ^ made)) < 0)


def _sub(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    made = a - b
    if count > _SMALL:
        (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
        if a_low - b_high >= INT_MIN and a_high - b_low <= INT_MAX:
            return made, None
    return made, _some(((a ^ b) & (a ^ made)) < 0)


def _mul(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    made = a * b
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    products = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
    if min(products) >= INT_MIN and max(products) <= INT_MAX:
        return made, None
    about = np.abs(np.multiply(a, b, dtype=np.float64))
    undefined = about >= 2.0**64
    near = np.flatnonzero((about >= 2.0**62) & ~undefined)
    pairs = zip(_at(a, near), _at(b, near), strict=True)
    undefined[near] = [not INT_MIN <= x * y <= INT_MAX for x, y in pairs]
    return made, _some(undefined)


def _at(values: Any, rows: Any) -> list[Any]:
    return values[rows].tolist() if isinstance(values, np.ndarray) else [values] * len(rows)


def _neg(call: Call, args: list[Any], count: int) -> _Made:
    return -args[0], _some(args[0] == INT_MIN)


def _abs(call: Call, args: list[Any], count: int) -> _Made:
    return np.abs(args[0]), _some(args[0] == INT_MIN)


def _divisor(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The divisor, 1 where it is 0 or -1; where it is 0; where it is -1."""
    if isinstance(b, int):
        if b not in (0, -1):
            return b, None, None
        b = np.full(len(a), b, np.int64)
    zero, minus = _some(b == 0), _some(b == -1)
    risky = _either(zero, minus)
    return (b if risky is None else np.where(risky, 1, b)), zero, minus


def _floordiv(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    b, zero, minus = _divisor(a, b)
    made = a // b
    if minus is not None:
        made = np.where(minus, -made, made)
        zero = _either(zero, minus & (a == INT_MIN))
    return made, zero


def _mod(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    b, zero, _ = _divisor(a, b)
    return a % b, zero


def _truediv(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    zero = None
    if not isinstance(b, int):
        zero = _some(b == 0)
        if zero is not None:
            b = np.where(zero, 1, b)
    elif b == 0:
        return np.zeros(count), np.ones(count, np.bool_)
    made = np.true_divide(a, b)
    low = min(_bounds(a)[0], _bounds(b)[0])
    high = max(_bounds(a)[1], _bounds(b)[1])
    if low < -(2**53) or high > 2**53:
        # Not all operands are floats: the quotient of the rounded ones may not be the rounded quotient.
        big = np.zeros(count, np.bool_)
        for values in (a, b):
            big |= (np.asarray(values) > 2**53) | (np.asarray(values) < -(2**53))
        rows = np.flatnonzero(big)
        made[rows] = [x / y for x, y in zip(_at(a, rows), _at(b, rows), strict=True)]
    return made, zero


def _float_division(act: Callable[[Any, Any], Any]) -> _Act:
    def divide(call: Call, args: list[Any], count: int) -> _Made:
        a, b = args
        if isinstance(b, float):
            return act(a, b), None if b != 0.0 else np.ones(count, np.bool_)
        return act(a, b), _some(b == 0.0)

    return divide


def _integral(values: Any) -> _Made:
    """Floats without a fraction as integers."""
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    if fits.all():
        return values.astype(np.int64), None
    return np.where(fits, values, 0.0).astype(np.int64), ~fits


def _plain(act: Callable[..., Any]) -> _Act:
    """An operation that has a value everywhere."""

    def plain(call: Call, args: list[Any], count: int) -> _Made:
        return act(*args), None

    return plain


def _folded(act: Callable[[Any, Any], Any]) -> _Act:
    def fold(call: Call, args: list[Any], count: int) -> _Made:
        made = args[0]
        for arg in args[1:]:
            made = act(made, arg)
        return made, None

    return fold


def _mask_of(array: Any) -> Any:
    return array.to_numpy(zero_copy_only=False)


def _arrow_compare(name: str, flipped: str, schema: Schema) -> _Act:
    """Arrow compares UTF-8 bytes, which have the order of code points."""
    act, turned, type_ = getattr(pc, name), getattr(pc, flipped), arrow_type(schema)

    def compare(call: Call, args: list[Any], count: int) -> _Made:
        a, b = args
        if isinstance(a, pa.Array):
            return _mask_of(act(a, b if isinstance(b, pa.Array) else pa.scalar(b, type_))), None
        return _mask_of(turned(b, pa.scalar(a, type_))), None

    return compare


WHITE_SPACE: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What ``str.strip`` takes away."""


def _is_ascii(array: Any) -> bool:
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return True
    ends = np.frombuffer(offsets, np.int32)
    start, end = ends[array.offset], ends[array.offset + len(array)]
    return start == end or bool(np.frombuffer(data, np.int8)[start:end].min() >= 0)


def _each(call: Call, function: Callable[..., Any], args: list[Any], count: int) -> _Made:
    """Python, element by element."""
    lists = [a.tolist() if isinstance(a, np.ndarray | pa.Array) else [a] * count for a in args]
    made = [function(*row) for row in zip(*lists, strict=True)]
    match call.kind:
        case String():
            return pa.array(made, pa.string()), None
        case Boolean():
            return np.array(made, np.bool_), None
        case _:
            return np.array(made, np.int64), None


def _case(fast: Callable[[Any], Any], slow: Callable[[str], str]) -> _Act:
    def case(call: Call, args: list[Any], count: int) -> _Made:
        (array,) = args
        return (fast(array), None) if _is_ascii(array) else _each(call, slow, args, count)

    return case


def _test(fast: Callable[..., Any], slow: Callable[[str, str], bool]) -> _Act:
    def test(call: Call, args: list[Any], count: int) -> _Made:
        array, pattern = args
        if isinstance(array, pa.Array) and isinstance(pattern, str):
            return _mask_of(fast(array, pattern)), None
        return _each(call, slow, args, count)

    return test


def _replace(call: Call, args: list[Any], count: int) -> _Made:
    array, pattern, replacement = args
    if isinstance(array, pa.Array) and isinstance(pattern, str) and isinstance(replacement, str) and pattern:
        return pc.replace_substring(array, pattern, replacement), None
    return _each(call, str.replace, args, count)


def _concat(call: Call, args: list[Any], count: int) -> _Made:
    parts = [arg if isinstance(arg, pa.Array) else pa.scalar(arg, pa.string()) for arg in args]
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string())), None


def _to_str(call: Call, args: list[Any], count: int) -> _Made:
    return pc.cast(pa.array(args[0]), pa.string()), None


def _bool_to_str(call: Call, args: list[Any], count: int) -> _Made:
    return pc.if_else(pa.array(args[0]), pa.scalar("True"), pa.scalar("False")), None


_DAY: Final = 86_400_000_000
FIRST: Final = micros_of(dt.datetime.min.replace(tzinfo=dt.UTC))
LAST: Final = micros_of(dt.datetime.max.replace(tzinfo=dt.UTC))


def _add_micros(call: Call, args: list[Any], count: int) -> _Made:
    made, undefined = _add(call, args, count)
    low, high = _bounds(made)
    if low < FIRST or high > LAST:
        undefined = _either(undefined, (made < FIRST) | (made > LAST))
    return made, undefined


def _year(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _month(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1


def _day(days: Any) -> Any:
    dates = days.astype("M8[D]")
    return (dates - dates.astype("M8[M]")).astype(np.int64) + 1


def _weekday(days: Any) -> Any:
    return (days + 3) % 7


def _of_time(act: Callable[[Any], Any]) -> _Act:
    return _plain(lambda micros: act(micros // _DAY))


def _clock(unit: int, size: int) -> _Act:
    return _plain(lambda micros: micros // unit % size)


def _exact_add(call: Call, args: list[Any], count: int) -> _Made:
    kind = Exact()
    made = [_exacts(Column(kind, arg), 1) for arg in args]
    total = made[0] + made[1]
    return (total if len(total) == count else total.take(np.zeros(count, np.int64))), None


def _exact_value(call: Call, args: list[Any], count: int) -> _Made:
    (values,) = args
    if isinstance(values, Exacts):
        return values.rounded(), None
    return np.where(np.isnan(values), np.nan, values + 0.0), None


def _exact_over(call: Call, args: list[Any], count: int) -> _Made:
    values, counts = args
    sums = _exacts(Column(Exact(), values), 1)
    sums = sums if len(sums) == count else sums.take(np.zeros(count, np.int64))
    counts = np.broadcast_to(np.asarray(counts, np.int64), (count,))
    undefined = counts < 1
    made = sums.over(np.where(undefined, 1, counts))
    return made, undefined if undefined.any() else None


def _acts() -> dict[tuple[str, type[Any] | None], _Act]:
    numbers: dict[tuple[str, type[Any] | None], _Act] = {
        ("add", Integer): _add,
        ("sub", Integer): _sub,
        ("mul", Integer): _mul,
        ("neg", Integer): _neg,
        ("abs", Integer): _abs,
        ("floordiv", Integer): _floordiv,
        ("mod", Integer): _mod,
        ("truediv", Integer): _truediv,
        ("add", Float): _plain(operator.add),
        ("sub", Float): _plain(operator.sub),
        ("mul", Float): _plain(operator.mul),
        ("neg", Float): _plain(operator.neg),
        ("abs", Float): _plain(np.abs),
        ("floordiv", Float): _float_division(np.floor_divide),
        ("mod", Float): _float_division(np.remainder),
        ("truediv", Float): _float_division(np.true_divide),
        ("to_float", Integer): _plain(lambda a: a.astype(np.float64)),
        ("to_float", Boolean): _plain(lambda a: a.astype(np.float64)),
        ("to_int", Boolean): _plain(lambda a: a.astype(np.int64)),
        ("to_int", Float): lambda call, args, count: _integral(np.trunc(args[0])),
        ("round", Float): lambda call, args, count: _integral(np.rint(args[0])),
        ("not", Boolean): _plain(np.logical_not),
        ("and", Boolean): _folded(np.logical_and),
        ("or", Boolean): _folded(np.logical_or),
        ("to_str", Integer): _to_str,
        ("to_str", Boolean): _bool_to_str,
        ("to_str", String): _plain(lambda a: a),
        ("exact", Float): _plain(lambda a: a),
        ("add", Exact): _exact_add,
        ("exact_value", Exact): _exact_value,
        ("exact_over", Exact): _exact_over,
    }
    for schema in (Boolean, Integer, Float, Timestamp, Date):
        numbers["eq", schema] = _plain(np.equal)
        numbers["lt", schema] = _plain(np.less)
        numbers["le", schema] = _plain(np.less_equal)
    numbers["eq", UnitValue] = lambda call, args, count: (np.ones(count, np.bool_), None)
    for text in (String(), Bytes()):
        numbers["eq", type(text)] = _arrow_compare("equal", "equal", text)
        numbers["lt", type(text)] = _arrow_compare("less", "greater", text)
        numbers["le", type(text)] = _arrow_compare("less_equal", "greater_equal", text)
    strings: dict[str, _Act] = {
        "length": _plain(lambda a: pc.utf8_length(a).to_numpy().astype(np.int64)),
        "lower": _case(pc.ascii_lower, str.lower),
        "upper": _case(pc.ascii_upper, str.upper),
        "strip": _plain(lambda a: pc.utf8_trim(a, WHITE_SPACE)),
        "lstrip": _plain(lambda a: pc.utf8_ltrim(a, WHITE_SPACE)),
        "rstrip": _plain(lambda a: pc.utf8_rtrim(a, WHITE_SPACE)),
        "startswith": _test(pc.starts_with, str.startswith),
        "endswith": _test(pc.ends_with, str.endswith),
        "contains": _test(pc.match_substring, operator.contains),
        "replace": _replace,
        "concat": _concat,
    }
    times: dict[str, _Act] = {
        "micros": _plain(lambda a: a),
        "add_micros": _add_micros,
        "year": _of_time(_year),
        "month": _of_time(_month),
        "day": _of_time(_day),
        "weekday": _of_time(_weekday),
        "hour": _clock(3_600_000_000, 24),
        "minute": _clock(60_000_000, 60),
        "second": _clock(1_000_000, 60),
        "microsecond": _clock(1, 1_000_000),
        "date": _of_time(lambda days: days),
    }
    dates: dict[str, Callable[[Any], Any]] = {"year": _year, "month": _month, "day": _day, "weekday": _weekday}
    numbers.update({(op, String): act for op, act in strings.items()})
    numbers.update({(op, Timestamp): act for op, act in times.items()})
    numbers.update({(op, Date): _plain(act) for op, act in dates.items()})
    return numbers


_ACTS: Final = _acts()


# ----------------------------------------------------------------------------------------------- tables


class _Same:
    """A table, known by its identity: tables have no hash, and comparing them would take longer than looking up."""

    __slots__ = ("table",)

    def __init__(self, table: Any) -> None:
        self.table = table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.table is self.table

    def __hash__(self) -> int:
        return id(self.table)


class _Index:
    """Where the keys of a table lie in the order of the table. ``sorted`` and ``order``, or ``dense`` from ``low`` on: of
    Integer keys; ``array``: of String keys. ``missing``: the place of other keys, behind all of them."""

    def __init__(self, keys: dict[Any, int], text: bool, missing: int) -> None:
        self.keys = keys
        self.missing = missing
        self.text = text
        self.array = self.dense = self.sorted = self.order = None
        self.low = 0
        if text:
            self.array = pa.array(list(keys), pa.string())
            # The place behind the last one is -1 as well.
            self.order = np.array([*keys.values(), missing], np.int64)
        elif keys:
            low, high = min(keys), max(keys)
            known = np.array(list(keys), np.int64)
            order = np.array(list(keys.values()), np.int64)
            if high - low <= 4 * len(keys) + 1024:
                self.low = low
                self.dense = np.full(high - low + 2, missing, np.int64)
                self.dense[known - low] = order
            else:
                by = np.argsort(known)
                self.sorted, self.order = known[by], order[by]

    def place(self, key: Any) -> int:
        return self.keys.get(key, self.missing)

    def places(self, keys: Any, count: int) -> Any:
        """int64: the place of each key."""
        if not self.keys:
            return np.full(count, self.missing, np.int64)
        if self.text:
            # Arrow hashes all keys of the table first; Python has them hashed.
            if 6 * count < len(self.keys) + 600:
                get = self.keys.get
                missing = self.missing
                return np.array([get(key, missing) for key in keys.tolist()], np.int64)
            found = pc.index_in(keys, value_set=self.array)
            at = found.fill_null(-1).to_numpy() if found.null_count else found.to_numpy()
            assert self.order is not None
            return self.order[at]
        if self.dense is not None:
            high = self.low + len(self.dense) - 2
            inside = (keys >= self.low) & (keys <= high)
            return self.dense[np.where(inside, keys, high + 1) - self.low]
        assert self.sorted is not None
        assert self.order is not None
        at = np.minimum(np.searchsorted(self.sorted, keys), len(self.sorted) - 1)
        return np.where(self.sorted[at] == keys, self.order[at], self.missing)


def table_keys(table: Mapping[Any, Any], kind: Kind | None) -> dict[Any, int] | None:
    """The place in the table of each key that a value of ``kind`` may equal: strings, or integers (Boolean too). None:
    keys of the table may equal others in a way of their own, or the kind has no tables."""
    text = isinstance(kind, String)
    if not text and not isinstance(kind, Integer | Boolean):
        return None
    keys: dict[Any, int] = {}
    for place, key in enumerate(table):
        if type(key) is str:
            if text and (key.isascii() or _has_utf8(key)):
                keys[key] = place
        elif type(key) in (bool, int, float):
            # Equal numbers are equal keys, whatever their type.
            if not text and INT_MIN <= key <= INT_MAX and key == int(key):
                keys[int(key)] = place
        elif type(key) not in (bytes, dt.datetime, dt.date, type(None)):
            return None
    return keys


def table_entries(table: Mapping[Any, Any], path: tuple[str | int, ...], kind: Kind | None) -> list[Column | None]:
    """What the table holds at ``path``, in its order, as columns of one value; None where that is not of the kind."""
    held: list[Column | None] = []
    for value in table.values():
        try:
            for step in path:
                value = value[step] if isinstance(step, int) else getattr(value, step)
        except (AttributeError, LookupError, TypeError):
            held.append(None)
        else:
            held.append(constant(value, kind))
    return held


@lru_cache(maxsize=256)
def _index(same: _Same, kind: Kind | None) -> _Index | None:
    keys = table_keys(same.table, kind)
    return None if keys is None else _Index(keys, isinstance(kind, String), len(same.table))


@lru_cache(maxsize=1024)
def _entries(same: _Same, path: tuple[str | int, ...], kind: Kind | None) -> Column:
    """:func:`table_entries` as one column, and behind them one that is undefined."""
    held = [*table_entries(same.table, path, kind), None]
    nothing = _ZERO[type(kind)]
    values = [nothing if column is None or column.kind is None else column.values for column in held]
    valid = np.array([column is None or column.kind is not None for column in held])
    undefined = np.array([column is None for column in held])
    array: Any
    match kind:
        case Boolean():
            array = np.array(values, np.bool_)
        case Integer() | Timestamp() | Date():
            array = np.array(values, np.int64)
        case Float():
            array = np.array(values, np.float64)
        case String() | Bytes():
            array = pa.array(values, arrow_type(kind))
        case _:
            return Column(kind, nothing, None, np.ones(len(held), np.bool_))
    return Column(kind, array, None if valid.all() else valid, undefined)

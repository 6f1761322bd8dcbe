"""Columns of Parquet and of Arrow data as arrays of a schema's types, and which rows have a value that does not fit.

No value is changed. What does not fit is null in the array, and its row is named: an integer beyond 64 bits, a digit behind
the point of an integer, an integer that no float is equal to, a part of a microsecond, a local time that names no instant or two,
a time beyond the years 1 to 9999.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.column import EPOCH_DAY
from tracetypes.compiler.columns.local_times import instants_of
from tracetypes.compiler.connectors.parquet import parts_of
from tracetypes.conformance import conform, micros_of, name_of
from tracetypes.plain_data import WHOLE_MICROS, YEARS, one_instant
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["Conversion", "Fitted", "Misfits", "always_fits", "in_range", "lost_digits"]

_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_IN_MILLIS: Final = 86_400_000
_FIRST_DAY: Final = dt.date.min.toordinal() - EPOCH_DAY
_LAST_DAY: Final = dt.date.max.toordinal() - EPOCH_DAY
_FIRST: Final = micros_of(dt.datetime.min.replace(tzinfo=dt.UTC))
_LAST: Final = micros_of(dt.datetime.max.replace(tzinfo=dt.UTC))
_EXACT: Final = 2**53
"""Integers up to here are floats."""


@attrs.frozen(eq=False)
class Fitted:
    """An array of a schema's type. ``unfit``: which rows have a value that does not fit (numpy, bool), None for no row."""

    array: Any
    unfit: Any = None


@attrs.frozen(eq=False)
class Misfits:
    """The rows of a column with values that do not fit."""

    name: str
    column: Any
    schema: Schema
    conversion: Conversion
    unfit: Any

    @property
    def rows(self) -> list[int]:
        """Their numbers."""
        return np.flatnonzero(self.unfit).tolist()

    def reason(self, row: int) -> str:
        """What does not fit in a row."""
        problem = self.conversion.problem(self.column.slice(row, 1), self.schema, f".{self.name}")
        return str(problem or Mismatch(f".{self.name}", self.shown(row), WHOLE_MICROS))

    def shown(self, row: int) -> Any:
        """The value of a row as a text or a number."""
        return _shown(self.column.slice(row, 1))


def _shown(column: Any) -> Any:
    """The one value of a column, as it is in the file."""
    if pa.types.is_temporal(column.type):
        return column.cast(pa.string())[0].as_py()
    try:
        return column[0].as_py()
    except (OverflowError, ValueError):  # a time inside
        return str(column[0])


@attrs.frozen
class Conversion:
    """``zone``: of times without one. ``truncated``: times are cut to microseconds."""

    zone: str | None
    truncated: bool = False

    def of(self, column: Any, schema: Schema) -> Fitted:
        """A column whose type has no ``misfit`` as an array of the schema's type."""
        target, actual = arrow_type(schema), column.type
        match schema:
            case Timestamp() if pa.types.is_timestamp(actual):
                return self._times(column)
            case Date() if pa.types.is_date(actual):
                return _dates(column)
            case _ if actual == target and not _is_looked_into(schema):
                return Fitted(column)
            case _ if pa.types.is_null(actual) or isinstance(schema, UnitValue):
                return Fitted(pa.nulls(len(column), target))
            case _ if pa.types.is_dictionary(actual):
                return self.of(column.dictionary_decode(), schema)
            case _ if pa.types.is_run_end_encoded(actual):
                return self.of(pc.run_end_decode(column), schema)
            case _ if isinstance(actual, pa.BaseExtensionType):
                return self.of(column.storage, schema)
            case Optional(item):
                return self.of(column, item)
            case ListOf() if not (pa.types.is_list(actual) or pa.types.is_large_list(actual)):
                return self.of(column.cast(pa.large_list(actual.value_type)), schema)
            case ListOf(item):
                return self._lists(column, schema, item)
            case Record() | OneOf():
                return self._structs(column, schema)
            case _:
                return _cast(column, schema)

    def problem(self, column: Any, schema: Schema, path: str) -> Mismatch | None:
        """What does not fit in a column of one value."""
        fitted = self.of(column, schema)
        if fitted.unfit is None or not fitted.unfit.any():
            return None
        actual = column.type
        match schema:
            case Optional(item):
                return self.problem(column, item, path)
            case ListOf(item):
                items = column.cast(pa.large_list(actual.value_type)).flatten()
                parts = [(f"{path}[{at}]", items.slice(at, 1), item) for at in range(len(items))]
            case Record() | OneOf():
                there = {part.name: values for part, values in zip(actual, column.flatten(), strict=True)}
                parts = [(f"{path}.{name}", there[name], one) for name, one in parts_of(schema) if name in there]
            case _:
                return Mismatch(path, _shown(column), self._expected(column, schema))
        return next(problem for where, part, one in parts if (problem := self.problem(part, one, where)) is not None)

    def _expected(self, column: Any, schema: Schema) -> str:
        match schema:
            case Integer() | LiteralOf() | EnumOf():
                return "int that fits 64 bits"
            case Unsigned():
                return "int from 0 to 2**64 - 1"
            case Float():
                return "int that a float is equal to"
            case Date():
                return "date of the years 1 to 9999"
            case Timestamp() if column.type.unit == "ns" and not self.truncated and column.cast(pa.int64())[0].as_py() % 1000:
                return WHOLE_MICROS
            case Timestamp() if self.zone is not None and column.type.tz is None and _in_years(column):
                return one_instant(self.zone)
            case Timestamp():
                return YEARS
            case _:
                return name_of(schema)

    def _times(self, column: Any) -> Fitted:
        actual = column.type
        if actual.unit == "us" and actual.tz is not None and _in_years(column):
            return Fitted(column if actual == _TIMESTAMP else column.cast(_TIMESTAMP))
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
        if actual.unit == "ns":
            micros = numbers // 1000
            unfit = np.zeros(len(numbers), bool) if self.truncated else micros * 1000 != numbers
        else:
            factor = _MICROS[actual.unit]
            unfit = (numbers < _FIRST // factor) | (numbers > _LAST // factor)
            micros = np.where(unfit, 0, numbers) * factor
        if actual.tz is None:
            if self.zone is None:
                raise pa.ArrowInvalid("times without a zone")
            micros, doubtful = instants_of(self.zone, micros)
            unfit = unfit | doubtful
        unfit = unfit | (micros < _FIRST) | (micros > _LAST)
        return _without(unfit, column, pa.array(micros).cast(_TIMESTAMP))

    def _lists(self, column: Any, schema: ListOf, item: Schema) -> Fitted:
        lengths = column.value_lengths().fill_null(0).cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        inner = self.of(column.flatten(), item)
        lists = pa.ListArray.from_arrays(offsets, inner.array, type=arrow_type(schema), mask=column.is_null())
        return Fitted(lists, None if inner.unfit is None else _of_lists(lengths, inner.unfit))

    def _structs(self, column: Any, schema: Record | OneOf) -> Fitted:
        """Fields match by name. One that the file lacks is null."""
        target = arrow_type(schema)
        there = {part.name: values for part, values in zip(column.type, column.flatten(), strict=True)}
        parts = [
            self.of(there[name], inner) if name in there else Fitted(pa.nulls(len(column), arrow_type(inner)))
            for name, inner in parts_of(schema)
        ]
        structs = pa.StructArray.from_arrays([part.array for part in parts], fields=list(target), mask=column.is_null())
        return Fitted(structs, _any([part.unfit for part in parts]))


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def _any(masks: list[Any]) -> Any:
    some = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(some) if some else None


def _of_lists(lengths: Any, unfit: Any) -> Any:
    """Which lists have an item that does not fit."""
    lists = np.zeros(len(lengths), bool)
    lists[np.repeat(np.arange(len(lengths)), lengths.to_numpy())[unfit]] = True
    return lists


def _in_years(column: Any) -> bool:
    """Whether all times (of microseconds) or days lie in the years that Python has."""
    whole = pc.min_max(column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32()))
    least, most = whole["min"].as_py(), whole["max"].as_py()
    if least is None:
        return True
    if pa.types.is_date32(column.type):
        return bool(least >= _FIRST_DAY and most <= _LAST_DAY)
    factor = _MICROS.get(getattr(column.type, "unit", ""), 0)
    return not factor or bool(_FIRST // factor <= least and most <= _LAST // factor)


def _without(unfit: Any, column: Any, array: Any) -> Fitted:
    """An array with nulls where a column has nulls, or values that do not fit."""
    if not unfit.any():
        return Fitted(array if not column.null_count else pc.if_else(column.is_valid(), array, pa.scalar(None, array.type)))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return Fitted(pc.if_else(pa.array(valid & ~unfit), array, pa.scalar(None, array.type)), valid & unfit)


def _dates(column: Any) -> Fitted:
    if pa.types.is_date32(column.type) and _in_years(column):
        return Fitted(column)
    numbers = column.cast(pa.int64() if pa.types.is_date64(column.type) else pa.int32()).fill_null(0).to_numpy()
    step = _DAY_IN_MILLIS if pa.types.is_date64(column.type) else 1
    days = numbers // step
    unfit = (days * step != numbers) | (days < _FIRST_DAY) | (days > _LAST_DAY)
    return _without(unfit, column, pa.array(np.where(unfit, 0, days).astype(np.int32)).cast(pa.date32()))


def _cast(column: Any, schema: Schema) -> Fitted:
    """A column of scalars whose values fit if Arrow says so; otherwise each is looked at."""
    target = arrow_type(schema)
    try:
        return Fitted(column.cast(target))
    except pa.ArrowInvalid:
        fits = _fits(column, schema)
        if fits is None:
            raise
    whole = pc.if_else(pa.array(fits), column, pa.scalar(None, column.type))
    exact = not (isinstance(schema, Float) and pa.types.is_integer(column.type))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return Fitted(whole.cast(target, safe=exact), valid & ~fits)


def _fits(column: Any, schema: Schema) -> Any:
    """Which values are values of a schema. None if it is not the values that Arrow refuses."""
    actual = column.type
    match schema:
        case LiteralOf(item, _) | EnumOf(_, item):
            return _fits(column, item)
        case Float() if pa.types.is_integer(actual):
            numbers = column.fill_null(0).to_numpy()
            floats, end = numbers.astype(np.float64), float(2 ** (64 - pa.types.is_signed_integer(actual)))
            inside = floats < end
            return inside & (np.where(inside, floats, 0.0).astype(numbers.dtype) == numbers)
        case Integer() | Unsigned() if pa.types.is_integer(actual):
            numbers = column.fill_null(0).to_numpy()
            return numbers <= np.uint64(INT_MAX) if isinstance(schema, Integer) else numbers >= 0
        case Integer() | Unsigned() if pa.types.is_decimal(actual):
            least, most = (INT_MIN, INT_MAX) if isinstance(schema, Integer) else (0, UINT_MAX)
            return _each(column, lambda value: value == value.to_integral_value() and least <= value <= most)
        case DecimalOf() if pa.types.is_decimal(actual):
            return _each(column, lambda value: _is(schema, value))
        case _:
            return None


def _is(schema: Schema, value: Decimal) -> bool:
    try:
        conform(schema, value, "")
    except Mismatch:
        return False
    return True


def _each(column: Any, test: Any) -> Any:
    return np.array([value is None or test(value) for value in column.to_pylist()], bool)


def _is_looked_into(schema: Schema) -> bool:
    """Whether not every column of the schema's type is one of the schema: it has times, or fields with other names."""
    match schema:
        case Timestamp() | Date():
            return True
        case Optional(item) | ListOf(item, _):
            return _is_looked_into(item)
        case Record() if schema.renamed:
            return True
        case Record() | OneOf():
            return any(_is_looked_into(one) for _, one in parts_of(schema))
        case _:
            return False


def always_fits(actual: Any, schema: Schema) -> bool:
    """Whether every value of a column of an Arrow type fits."""
    match schema:
        case UnitValue() | Boolean() | String() | Bytes():
            return True
        case _ if pa.types.is_null(actual):
            return True
        case Optional(item) | LiteralOf(item, _) | EnumOf(_, item):
            return always_fits(actual, item)
        case Integer():
            return bool(pa.types.is_integer(actual) and not pa.types.is_uint64(actual))
        case Unsigned():
            return bool(pa.types.is_unsigned_integer(actual))
        case Float():
            return bool(pa.types.is_floating(actual) or (pa.types.is_integer(actual) and actual.bit_width <= 32))
        case DecimalOf(precision, scale) if pa.types.is_decimal(actual):
            return bool(actual.scale <= scale and actual.precision - actual.scale <= precision - scale)
        case _:
            return False


def in_range(actual: Any, schema: Schema, least: int, most: int) -> bool:
    """Whether values of a column fit that lie between two numbers of a file's statistics."""
    match schema:
        case Optional(item) | LiteralOf(item, _) | EnumOf(_, item):
            return in_range(actual, item, least, most)
        case Integer() if pa.types.is_uint64(actual):
            return 0 <= least <= most
        case Unsigned() if pa.types.is_signed_integer(actual):
            return least >= 0
        case Float() if pa.types.is_signed_integer(actual):
            return least >= -_EXACT and most <= _EXACT
        case Timestamp() if pa.types.is_timestamp(actual) and actual.tz is not None and actual.unit in _MICROS:
            factor = _MICROS[actual.unit]
            return least * factor >= _FIRST and most * factor <= _LAST
        case Date() if pa.types.is_date32(actual):
            return least >= _FIRST_DAY and most <= _LAST_DAY
        case _:
            return False


def lost_digits(coarse: Any, fine: Any) -> Any:
    """Which rows of a column of INT96 lose digits as microseconds (``coarse``). ``fine``: the same as nanoseconds, which may
    wrap. None if there are no such times."""
    kind = coarse.type
    if pa.types.is_timestamp(kind):
        micros, nanos = (one.cast(pa.int64()).fill_null(0).to_numpy() for one in (coarse, fine))
        with np.errstate(over="ignore"):
            return micros * np.int64(1000) != nanos
    if pa.types.is_struct(kind):
        return _any([lost_digits(a, b) for a, b in zip(coarse.flatten(), fine.flatten(), strict=True)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = lost_digits(coarse.flatten(), fine.flatten())
        return None if inner is None else _of_lists(coarse.value_lengths().fill_null(0), inner)
    return None

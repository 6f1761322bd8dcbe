"""Constants as columns, and one column or another by a condition."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.algebra import ExactSum
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.column import ZERO, Column, bare_kind, constant, either_mask, take_column
from tracetypes.compiler.columns.concatenation import merged_columns
from tracetypes.compiler.tracing.expr import Const, Exact, Kind
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, String, Timestamp

__all__ = ["constant_column", "if_else", "undefined_column"]


def undefined_column(kind: Kind | None, count: int) -> Column:
    return Column(bare_kind(kind), ZERO[type(bare_kind(kind))], None, np.ones(count, np.bool_))


def constant_column(const: Const, count: int) -> Column:
    value, kind = const.value, bare_kind(const.kind)
    column = constant(value, kind)
    return undefined_column(kind, count) if column is None else column


def if_else(condition: Column, then: Column, otherwise: Column, count: int) -> Column:
    if condition.scalar:
        column = then if condition.values is True else otherwise
        undefined = either_mask(condition.undefined, column.undefined)
        return Column(column.kind, column.storage, column.valid, undefined)
    mask = condition.values
    yes, no = np.flatnonzero(mask), np.flatnonzero(~mask)
    undefined = condition.undefined
    if then.undefined is not None:
        undefined = either_mask(undefined, mask & then.undefined)
    if otherwise.undefined is not None:
        undefined = either_mask(undefined, ~mask & otherwise.undefined)
    # The values of an undefined column need not be of the right kind.
    valid = None
    if then.valid is not None or otherwise.valid is not None or then.kind is None or otherwise.kind is None:
        valid = np.where(mask, _present(then), _present(otherwise))
    kind = otherwise.kind if then.kind is None else then.kind
    if kind is None:
        return Column(None, None, None, undefined)
    if then.kind is not None and otherwise.kind is not None and then.kind != otherwise.kind:
        return undefined_column(kind, count)
    a = then if then.kind is not None else otherwise
    b = otherwise if otherwise.kind is not None else then
    values: Any
    first, second = (_floats_of(x, y) for x, y in ((a, b), (b, a)))
    floats = isinstance(first, np.ndarray | float) and isinstance(second, np.ndarray | float)
    if isinstance(kind, Boolean | Integer | Float | Timestamp | Date) or (isinstance(kind, Exact) and floats):
        values = np.where(mask, first, second)
    elif isinstance(kind, String | Bytes):
        type_ = arrow_type(kind)
        values = pc.if_else(pa.array(mask), *[pa.scalar(x.values, type_) if x.scalar else x.values for x in (a, b)])
    elif a.scalar and b.scalar and a.values is b.values:
        values = a.values
    else:
        pieces = [(Column(x.kind, x.values) if x.scalar else take_column(x, at), at) for x, at in ((a, yes), (b, no))]
        merged = merged_columns([(Column(x.kind, x.values), at) for x, at in pieces], count)
        values = cast(Column, merged).values
    return Column(kind, values, valid, undefined)


def _floats_of(column: Column, other: Column) -> Any:
    """The values of a column. An empty sum beside sums of one float each is the float 0.0."""
    values = column.values
    return (
        0.0
        if isinstance(values, ExactSum) and values == ExactSum() and isinstance(other.values, np.ndarray)
        else values
    )


def _present(column: Column) -> Any:
    return column.kind is not None if column.valid is None else column.valid

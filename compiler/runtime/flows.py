"""Items as columns between a source and an exchange: through traced operators, and their columns as a schema has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import all_within
from tracetypes.compiler.columns.column import Column, Columns, Struct, column_of_struct, inputs_of
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import Emissions, run
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.records import Float, Integer, LiteralOf, OneOf, Optional, Record, Schema
from tracetypes.trace import StreamType

__all__ = ["Flow", "Inputs", "KeyedFlow", "Seen", "fit", "fit_key", "list_items", "read_by", "through", "through_one"]

Inputs: TypeAlias = Callable[[Input], Column]


@attrs.frozen(eq=False)
class Flow:
    """Items as columns. ``rows``: the row of the chunk of each item, None for one each. ``inputs``: their columns by
    the paths of ``key`` and ``value``, each read on demand."""

    count: int
    rows: Any
    inputs: Inputs


@attrs.frozen(eq=False)
class KeyedFlow(Flow):
    """A :class:`Flow` with all columns read: ``key`` and ``value`` are whole."""

    key: Columns
    value: Columns

    @classmethod
    def of(cls, key: Columns, value: Columns, count: int, rows: Any = None) -> KeyedFlow:
        """From whole columns."""
        return cls(count, rows, inputs_of({"key": key, "value": value}), key, value)

    def pairs(self) -> tuple[list[Any], list[Any]]:
        """Keys and values as objects."""
        return values_of(self.key, self.count), values_of(self.value, self.count)


def read_by(column: Callable[[tuple[str | int, ...]], Any]) -> Inputs:
    """Inputs from Arrow arrays by path, each converted once."""
    columns: dict[Input, Column] = {}

    def find(leaf: Input) -> Column:
        if (one := columns.get(leaf)) is None:
            schema: Any = leaf.kind
            values = from_arrow(schema, column(leaf.path))
            one = columns[leaf] = values if isinstance(values, Column) else column_of_struct(values)
        return one

    return find


def through(
    trees: Sequence[tuple[Tree, StreamType]], flow: KeyedFlow, seen: Seen | None = None, first: int = 0
) -> list[KeyedFlow]:
    """The output of a chain of traced stateless operators, each given with its output stream. ``seen`` sees the input
    and output of each operator; ``first``: the number of the first one.

    Raises :class:`Undefined` if a row must run in Python.
    """
    flows = [flow]
    for number, (tree, stream) in enumerate(trees, first):
        flows = [result for one in flows for result in through_one(tree, stream, one, seen, number)]
    return flows


def through_one(tree: Tree, stream: StreamType, flow: Flow, seen: Seen | None, number: int) -> list[KeyedFlow]:
    """The output of one operator."""
    results: list[KeyedFlow] = []
    emissions: list[Emissions] = []
    for emitted in run(tree, flow.inputs, flow.count).emissions:
        count = flow.count if emitted.rows is None else len(emitted.rows)
        if not count:
            continue
        key, value = fit_key(stream.key, emitted.key), fit(stream.value, emitted.value)
        rows = flow.rows
        if emitted.rows is not None:
            rows = emitted.rows if rows is None else rows[emitted.rows]
        results.append(KeyedFlow.of(key, value, count, rows))
        emissions.append(Emissions(emitted.rows, emitted.number, key, value))
    if seen is not None:
        seen(number, flow, emissions)
    return results


Seen: TypeAlias = Callable[[int, Flow, Sequence[Emissions]], None]
"""Sees the number of an operator, the items that come to it, and what it emits, fitted to its stream."""


def list_items(stream: StreamType, emitted: Any) -> KeyedFlow:
    """The items of a column of lists of pairs."""
    pairs = emitted.flatten()
    rows = np.repeat(np.arange(len(emitted)), emitted.value_lengths().to_numpy())
    key = fit_key(stream.key, from_arrow(stream.key, pairs.field("key")))
    value = fit(stream.value, from_arrow(stream.value, pairs.field("value")))
    return KeyedFlow.of(key, value, len(rows), rows)


def fit(schema: Schema, columns: Columns) -> Columns:
    """The columns converted to a schema: integers become floats if the schema is float.

    Raises :class:`Undefined` if a value does not fit.
    """
    if (
        isinstance(columns, Column)
        and (columns.kind is schema or columns.kind == schema)
        and columns.valid is None
        and columns.undefined is None
    ):
        return columns
    if isinstance(schema, Optional):
        if isinstance(columns, Column) and columns.kind is None:
            return Column(None, None)
        return fit(schema.item, columns) if columns.valid is None else _masked(schema.item, columns)
    if columns.valid is not None and not columns.valid.all():
        raise Undefined(int(np.argmin(columns.valid)))
    match schema:
        case Record(cls, fields):
            if not isinstance(columns, Struct) or columns.cls is not cls:
                raise Undefined(0)
            by_name = dict(zip(columns.names, columns.parts, strict=True))
            parts = tuple(None if by_name[name] is None else fit(inner, by_name[name]) for name, inner in fields)  # type: ignore[arg-type]
            return Struct(cls, tuple(name for name, _ in fields), parts)
        case OneOf(members):
            for member in members:
                if isinstance(columns, Struct) and columns.cls is member.cls:
                    return fit(member, columns)
            raise Undefined(0)
        case _:
            pass
    if not isinstance(columns, Column):
        raise Undefined(0)
    if isinstance(schema, Float) and isinstance(columns.kind, Integer):
        values = columns.values
        return Column(schema, values.astype(np.float64) if isinstance(values, np.ndarray) else float(values))
    if isinstance(schema, LiteralOf):
        fitted = fit(schema.item, columns)
        if isinstance(fitted, Column) and _is_within(schema, fitted):
            return fitted
        raise Undefined(0)
    if columns.kind != schema:
        raise Undefined(0)
    return Column(columns.kind, columns.storage)


def _is_within(schema: LiteralOf, column: Column) -> bool:
    """Whether a column of texts or integers has only values of a literal."""
    if column.scalar:
        return column.values in schema.values
    values = column.values if column.encoding is None else column.encoding.dictionary
    return all_within(schema, values if isinstance(values, pa.Array) else pa.array(values))


def _masked(schema: Schema, columns: Columns) -> Columns:
    fitted = fit(schema, attrs.evolve(columns, valid=None))
    return attrs.evolve(fitted, valid=columns.valid)


def fit_key(schema: Schema, columns: Columns) -> Columns:
    """:func:`fit` for keys: none is missing or NaN, and ``-0.0`` becomes ``0.0``."""
    return _zeros(fit(schema, columns), schema)


def _zeros(columns: Columns, schema: Schema) -> Columns:
    match schema:
        case Optional():
            raise Undefined(0)  # None is no key: Python says so of the right row
        case Float() if isinstance(columns, Column):
            values = columns.values + 0.0
            if np.isnan(values).any():
                raise Undefined(0)
            return Column(schema, values)
        case Record(_, fields) if isinstance(columns, Struct):
            pairs = zip(columns.parts, fields, strict=True)
            parts = tuple(part if part is None else _inside(part, inner) for part, (_, inner) in pairs)
            return Struct(columns.cls, columns.names, parts)
        case _:
            return columns


def _inside(columns: Columns, schema: Schema) -> Columns:
    """Within a key a part may be missing."""
    if isinstance(schema, Optional):
        if isinstance(columns, Column) and columns.kind is None:
            return columns
        return attrs.evolve(_zeros(attrs.evolve(columns, valid=None), schema.item), valid=columns.valid)
    return _zeros(columns, schema)

"""Items as columns between a source and an exchange: they go through traced operators and are then combined by block
and key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.monoids import Monoid, Part
from tracetypes.compiler.columns.arrow import all_within
from tracetypes.compiler.columns.column import Column, Columns, Struct, inputs_of, scalar_at, take
from tracetypes.compiler.columns.conversion import column_from_arrow, from_arrow, to_arrow, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.evaluation import Emissions, return_values, run
from tracetypes.compiler.columns.exact_sums import ExactSums, exact_group_sums
from tracetypes.compiler.columns.groups import Groups, codes_of
from tracetypes.compiler.tracing.expr import Exact, Input, Kind, Pack, Tree, Undefined, Value
from tracetypes.records import (
    UNIT,
    Boolean,
    Float,
    Integer,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    UnitValue,
)
from tracetypes.trace import StreamType

__all__ = [
    "Combined",
    "Flow",
    "Inputs",
    "KeyedFlow",
    "Seen",
    "SeenSums",
    "combine",
    "dtype_of",
    "encode_parts",
    "fit",
    "fit_key",
    "list_items",
    "objects",
    "parts_of",
    "read_by",
    "reduce_by_key",
    "reduce_part",
    "structured",
    "through",
    "through_one",
]

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
        if leaf not in columns:
            schema: Any = leaf.kind
            values = from_arrow(schema, column(leaf.path))
            columns[leaf] = values if isinstance(values, Column) else Column(UnitValue(), UNIT, values.valid)
        return columns[leaf]

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
    if isinstance(schema, Optional):
        if isinstance(columns, Column) and columns.kind is None:
            return Column(None, None)
        return (
            fit(schema.item, attrs.evolve(columns, valid=None))
            if columns.valid is None
            else _masked(schema.item, columns)
        )
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


# ------------------------------------------------------------------------------------------------ grouping


@attrs.frozen(eq=False)
class Combined:
    """Aggregates by block and key, as columns with one row for each block and key. ``parts`` in the order of the
    monoid's."""

    ends: Any
    keys: Columns
    parts: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.ends)


def combine(monoid: Monoid, flow: Flow, ends: Any, key: Columns, seen: SeenSums | None = None) -> Combined:
    """Lift the items of a flow and combine those of one block and key. ``ends``: int64, the block of each. ``seen``
    sees both.

    Raises :class:`Undefined` if a number leaves its type, or a row must run in Python.
    """
    lifted = return_values(monoid.lift, flow.inputs, flow.count)
    parts = [_part(lifted, part, flow.count) for part in monoid.parts]
    groups = Groups.of(*codes_of(ends, key, flow.count))
    columns = tuple(reduce_part(part, column, groups) for part, column in zip(monoid.parts, parts, strict=True))
    if seen is not None and flow.count:
        seen(monoid, flow, parts, groups, columns)
    return Combined(ends[groups.first], take(key, groups.first), columns)


def reduce_by_key(parts: Sequence[Part], ends: Any, key: Columns, columns: Sequence[Column], count: int) -> Combined:
    """One row for each block and key: the columns reduced as the components of the monoid say."""
    groups = Groups.of(*codes_of(ends, key, count))
    results = tuple(reduce_part(part, column, groups) for part, column in zip(parts, columns, strict=True))
    return Combined(ends[groups.first], take(key, groups.first), results)


def _part(columns: Columns, part: Part, count: int) -> Column:
    column = scalar_at(columns, part.path)
    bare: Any = part.kind.item if isinstance(part.kind, Optional) else part.kind
    if column.kind is None:
        return Column(bare, _zero(bare), np.zeros(count, np.bool_))
    if column.kind != bare:
        raise Undefined(0)
    return column


def _zero(kind: Kind) -> Any:
    return False if isinstance(kind, Boolean) else 0.0 if isinstance(kind, Float) else 0


SeenSums: TypeAlias = Callable[[Monoid, Flow, Sequence[Column], Groups, Sequence[Column]], None]
"""Sees items, the parts of what each was lifted to, which were combined, and the parts of that."""


def reduce_part(part: Part, column: Column, groups: Groups) -> Column:
    """The scalars of a component, one for each group."""
    number = groups.number
    bare: Any = column.kind
    if part.reduction == "sum" and (sums := _sums_of_entries(bare, column.encoding, groups)) is not None:
        return Column(bare, sums)
    values = column.values
    if isinstance(bare, Exact):
        if isinstance(values, ExactSums):
            return Column(bare, values.grouped(groups.of_row, number))
        if column.scalar:
            return Column(
                bare,
                ExactSums.from_sums([values]).take(np.zeros(len(groups.of_row), np.int64)).grouped(groups.of_row, number),
            )
        return Column(bare, exact_group_sums(values, groups.of_row, number))
    if part.reduction == "sum":
        return Column(bare, _sums(bare, values, column.scalar, groups))
    if column.scalar and column.valid is None:
        return Column(bare, np.full(number, values, dtype_of(bare)))
    return _extreme(part, column, groups)


def dtype_of(kind: Kind | None) -> Any:
    """The numpy type of a kind."""
    return np.bool_ if isinstance(kind, Boolean) else np.float64 if isinstance(kind, Float) else np.int64


def _sums_of_entries(kind: Kind, encoding: DictionaryEncoded | None, groups: Groups) -> Any:
    """The sums of integers that are few: how often a group has each, times what it is. None where that will not do."""
    if encoding is None or not len(encoding) or not isinstance(kind, Integer):
        return None
    counts = groups.counts(encoding)
    if counts is None:
        return None
    largest = max(abs(int(encoding.dictionary.min())), abs(int(encoding.dictionary.max())))
    # Entries that no row has may be large.
    return counts @ encoding.dictionary if largest * len(encoding) < 1 << 63 else None


def _sums(kind: Kind, values: Any, scalar: bool, groups: Groups) -> Any:
    if isinstance(kind, Float):
        weights = np.full(len(groups.of_row), values) if scalar else values
        return np.bincount(groups.of_row, weights=weights, minlength=groups.number)
    most = int(groups.sizes.max()) if len(groups.sizes) else 0
    size = abs(values) if scalar else max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    if size * most >= 1 << 63:
        raise Undefined(0)
    if scalar:
        return groups.sizes * values
    if size * most < 1 << 53:
        return np.bincount(groups.of_row, weights=values, minlength=groups.number).astype(np.int64)
    totals = np.zeros(groups.number, np.int64)
    np.add.at(totals, groups.of_row, values)
    return totals


def _extreme(part: Part, column: Column, groups: Groups) -> Column:
    kind: Any = column.kind
    smallest = part.reduction == "min"
    values = np.full(len(groups.of_row), column.values, dtype_of(kind)) if column.scalar else column.values
    at = groups.of_row
    valid = None
    if column.valid is not None:
        values, at = values[column.valid], at[column.valid]
        valid = np.bincount(at, minlength=groups.number) > 0
        valid = None if valid.all() else valid
    if isinstance(kind, Float):
        extremes = np.full(groups.number, np.inf if smallest else -np.inf)
    elif isinstance(kind, Boolean):
        values = values.astype(np.int64)
        extremes = np.full(groups.number, 1 if smallest else 0, np.int64)
    else:
        bounds = np.iinfo(np.int64)
        extremes = np.full(groups.number, bounds.max if smallest else bounds.min, np.int64)
    with np.errstate(invalid="ignore"):
        (np.minimum if smallest else np.maximum).at(extremes, at, values)
    return Column(kind, extremes.astype(np.bool_) if isinstance(kind, Boolean) else extremes, valid)


# ---------------------------------------------------------------------------------------------- messages


def encode_parts(monoid: Monoid, combined: Combined) -> dict[str, Any]:
    """The columns of a message after its keys."""
    columns = {"end": pa.array(combined.ends)}
    for number, (part, column) in enumerate(zip(monoid.parts, combined.parts, strict=True)):
        if isinstance(part.kind, Exact):
            columns[f"part{number}"] = column.values.to_arrow()
        else:
            columns[f"part{number}"] = to_arrow(part.kind, column, len(combined))
    return columns


def parts_of(monoid: Monoid, table: Any) -> tuple[Column, ...]:
    """The inverse of :func:`encode_parts`: columns from the record batch of a message."""
    parts = []
    for number, part in enumerate(monoid.parts):
        array = table.column(f"part{number}")
        if isinstance(part.kind, Exact):
            parts.append(Column(part.kind, ExactSums.from_arrow(array)))
        else:
            parts.append(column_from_arrow(part.kind, array))
    return tuple(parts)


def objects(monoid: Monoid, parts: Sequence[Column], count: int) -> list[Any]:
    """Aggregates as the author's objects."""
    by_path = {part.path: column for part, column in zip(monoid.parts, parts, strict=True)}
    return values_of(structured(monoid.shape, by_path, ()), count)


def structured(shape: Value, by_path: dict[tuple[int, ...], Column], path: tuple[int, ...]) -> Columns:
    """Columns put together to a structure; ``path``: the place in the whole."""
    if isinstance(shape, Pack):
        parts = tuple(structured(part, by_path, (*path, at)) for at, part in enumerate(shape.parts))
        return Struct(shape.cls, shape.names, parts)
    return by_path[path]

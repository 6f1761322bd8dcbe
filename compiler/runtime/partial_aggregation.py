"""Items as columns before an exchange: they are combined by block and key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.monoids import Monoid, Part
from tracetypes.compiler.columns.column import Column, Columns, Struct, scalar_at, take, take_column
from tracetypes.compiler.columns.conversion import column_from_arrow, from_arrow, to_arrow, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.exact_sums import ExactSums, exact_group_sums
from tracetypes.compiler.columns.groups import Groups, codes_of
from tracetypes.compiler.columns.runs import Numbers
from tracetypes.compiler.runtime.flows import Flow
from tracetypes.compiler.runtime.messages import AggregateRows
from tracetypes.compiler.tracing.expr import Exact, Kind, Pack, Undefined, Value
from tracetypes.records import Boolean, Float, Integer, Optional, Schema

__all__ = [
    "ArrowRows",
    "ColumnRows",
    "Combined",
    "Reduced",
    "SeenSums",
    "combine",
    "combined_rows",
    "dtype_of",
    "encode_parts",
    "objects",
    "part_of",
    "parts_of",
    "reduce_by_key",
    "reduce_part",
    "reduced_in_order",
    "structured",
]


@attrs.frozen(eq=False)
class Combined:
    """Aggregates by block and key, as columns. ``parts`` in the order of the monoid's."""

    ends: Any
    keys: Columns
    parts: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.ends)

    def in_blocks(self, ends: Any) -> Combined:
        """The same aggregates in other blocks. Two blocks may become one, and then a key may have two rows in it."""
        return Combined(ends, self.keys, self.parts)

    def rows(self, rows: Any) -> Self:
        """Some of the rows."""
        parts = tuple(take_column(part, rows) for part in self.parts)
        return attrs.evolve(self, ends=self.ends[rows], keys=take(self.keys, rows), parts=parts)


@attrs.frozen(eq=False)
class Reduced(Combined):
    """With one row for each block and key. In a checkpoint it is any :class:`Combined`."""

    def __reduce__(self) -> Any:
        return Combined, (self.ends, self.keys, self.parts)

    def in_blocks(self, ends: Any) -> Combined:
        """As above. Rows of one block stay different."""
        kind = Reduced if ends is self.ends or bool((self.ends == self.ends[:1]).all()) else Combined
        return kind(ends, self.keys, self.parts)


def combine(monoid: Monoid, flow: Flow, ends: Numbers, key: Columns, seen: SeenSums | None = None) -> Reduced:
    """Lift the items of a flow and combine those of one block and key. ``ends``: the block of each. ``seen``
    sees both.

    Raises :class:`Undefined` if a number leaves its type, or a row must run in Python.
    """
    lifted = return_values(monoid.lift, flow.inputs, flow.count)
    parts = [part_of(lifted, part, flow.count) for part in monoid.parts]
    groups = Groups.of(*codes_of(ends, key, flow.count))
    columns = tuple(reduce_part(part, column, groups) for part, column in zip(monoid.parts, parts, strict=True))
    if seen is not None and flow.count:
        seen(monoid, flow, ends, key, parts, groups, columns)
    some = groups.any_row
    return Reduced(ends.take(some), take(key, some), columns)


def reduce_by_key(parts: Sequence[Part], ends: Numbers, key: Columns, columns: Sequence[Column], count: int) -> Reduced:
    """One row for each block and key: the columns reduced as the components of the monoid say."""
    groups = Groups.of(*codes_of(ends, key, count))
    results = tuple(reduce_part(part, column, groups) for part, column in zip(parts, columns, strict=True))
    some = groups.any_row
    return Reduced(ends.take(some), take(key, some), results)


def part_of(columns: Columns, part: Part, count: int) -> Column:
    """The scalars of a component of aggregates. Raises :class:`Undefined` for those of another kind."""
    column = scalar_at(columns, part.path)
    bare: Any = part.kind.item if isinstance(part.kind, Optional) else part.kind
    if column.kind is None:
        return Column(bare, _zero(bare), np.zeros(count, np.bool_))
    if column.kind != bare:
        raise Undefined(0)
    return column


def _zero(kind: Kind) -> Any:
    return False if isinstance(kind, Boolean) else 0.0 if isinstance(kind, Float) else 0


_BITS: Final[dict[str, Any]] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}

SeenSums: TypeAlias = Callable[[Monoid, Flow, Numbers, Columns, Sequence[Column], Groups, Sequence[Column]], None]
"""Sees items, their blocks and keys, the parts of what each was lifted to, which were combined, and the parts of that."""


def reduce_part(part: Part, column: Column, groups: Groups) -> Column:
    """The scalars of a component, one for each group."""
    number = groups.number
    bare: Any = column.kind
    encoding = column.encoding
    if encoding is not None and part.reduction == "sum" and (sums := _sums_of_entries(bare, encoding, groups)) is not None:
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
    if part.reduction in _BITS:
        ufunc = _BITS[part.reduction]
        bits = np.full(number, -1 if part.reduction == "and" else 0, np.int64)
        ufunc.at(bits, groups.of_row, values)
        return Column(bare, bits)
    if column.scalar and column.valid is None:
        return Column(bare, np.full(number, values, dtype_of(bare)))
    return _extreme(part, column, groups)


def reduced_in_order(part: Part, column: Column, groups: Groups) -> Column:
    """The same with the bits of combining one row after the other: sums have them. Raises :class:`Undefined` where the order
    decides which of two zeros is the smallest or largest number."""
    if part.reduction != "sum" and isinstance(column.kind, Float):
        values = column.values
        if bool((np.signbit(values) & (values == 0.0)).any()):
            raise Undefined(0)
    return reduce_part(part, column, groups)


def dtype_of(kind: Kind | None) -> Any:
    """The numpy type of a kind."""
    return np.bool_ if isinstance(kind, Boolean) else np.float64 if isinstance(kind, Float) else np.int64


def _sums_of_entries(kind: Kind, encoding: DictionaryEncoded, groups: Groups) -> Any:
    """The sums of integers that are few: how often a group has each, times what it is. None where that will not do."""
    if not len(encoding) or not isinstance(kind, Integer):
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
    if scalar and abs(values) * len(groups.of_row) < 1 << 63:
        return groups.sizes * values
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


@attrs.frozen(eq=False)
class ArrowRows:
    """Aggregates as a record batch."""

    batch: Any

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def ends(self) -> Any:
        """The ends of the blocks (int64)."""
        return self.batch.column("end").to_numpy()

    def to_arrow(self) -> Any:
        """The batch."""
        return self.batch


@attrs.frozen(eq=False)
class ColumnRows:
    """Aggregates as columns, which never leave the process. ``key``: the schema of the keys."""

    key: Schema
    monoid: Monoid
    combined: Reduced

    def __len__(self) -> int:
        return len(self.combined)

    @property
    def ends(self) -> Any:
        """The ends of the blocks (int64)."""
        return self.combined.ends

    def to_arrow(self) -> Any:
        """A record batch of them."""
        keys, columns = to_arrow(self.key, self.combined.keys, len(self)), encode_parts(self.monoid, self.combined)
        return pa.RecordBatch.from_arrays([keys, *columns.values()], names=["key", *columns])


def combined_rows(key: Schema, monoid: Monoid, rows: AggregateRows) -> Reduced:
    """The columns of a message: some of what :func:`combine` has returned."""
    if isinstance(rows, ColumnRows):
        return rows.combined
    table = rows.to_arrow()
    return Reduced(rows.ends, from_arrow(key, table.column("key")), parts_of(monoid, table))


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
        parts = [structured(part, by_path, (*path, at)) for at, part in enumerate(shape.parts)]
        return Struct(shape.cls, shape.names, tuple(parts))
    return by_path[path]

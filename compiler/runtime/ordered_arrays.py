"""States and emissions of an ordered operator as arrays of scalars, for machine code, and back.

What is no number, such as a text, is a place in a **pool**: all columns of its kind that machine code reads, one behind the
other.
"""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.ordered_form import StateKind
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values
from tracetypes.compiler.columns.machine.trees import is_number
from tracetypes.compiler.columns.ordering import ranks
from tracetypes.compiler.columns.pending_take import taken
from tracetypes.compiler.tracing.expr import Kind, Undefined
from tracetypes.records import UNIT, Boolean, Bytes, Float, Optional, Record, String, UnitValue

__all__ = ["Pools", "Scalar", "Shape", "array_of", "built", "dtype_of", "flag_of", "name_of", "type_of"]


@attrs.frozen
class Scalar:
    """A part of a state or of what is emitted. ``path``: its places; ``kind``: without Optional."""

    path: tuple[int, ...]
    kind: Kind | None


@attrs.frozen
class Shape:
    """A structure as scalars, and the paths of its optional parts."""

    scalars: tuple[Scalar, ...]
    flags: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, kind: StateKind) -> Shape:
        """Of a kind."""
        scalars: list[Scalar] = []
        flags: list[tuple[int, ...]] = []

        def visit(one: Any, path: tuple[int, ...]) -> None:
            if isinstance(one, Optional):
                flags.append(path)
                visit(one.item, path)
            elif isinstance(one, Record):
                for at, (_, inner) in enumerate(one.fields):
                    visit(inner, (*path, at))
            elif one is not None and not isinstance(one, UnitValue):
                scalars.append(Scalar(path, one))

        visit(kind, ())
        return cls(tuple(scalars), tuple(flags))


def name_of(prefix: str, path: tuple[int, ...]) -> str:
    """The name of a part in the source."""
    return "_".join((prefix, *map(str, path)))


def type_of(kind: Kind | None) -> str:
    """The type of an array of a kind."""
    return "float64" if isinstance(kind, Float) else "uint8" if isinstance(kind, Boolean) else "int64"


def dtype_of(kind: Kind | None) -> Any:
    """The same for numpy."""
    return np.dtype(type_of(kind))


def _at(columns: Columns | None, path: tuple[int, ...]) -> Columns | None:
    """The part at a path; None where all around it is None."""
    for step in path:
        if not isinstance(columns, Struct):
            return None
        columns = columns.parts[step]
    return columns


@final
class Pools:
    """Columns of some kinds, one behind the other."""

    def __init__(self, kinds: set[Kind]) -> None:
        self.parts: dict[Kind, list[Any]] = {kind: [] for kind in kinds}
        self.counts = dict.fromkeys(kinds, 0)
        self.whole: dict[Kind, Any] = {}

    def add(self, kind: Kind, columns: Columns, count: int) -> int:
        """Add a column; where it begins."""
        if not isinstance(columns, Column) or (columns.kind is not None and columns.kind != kind):
            raise Undefined(0)
        start = self.counts[kind]
        if columns.kind is not None:
            values = full_values(columns, count)
            self.parts[kind].append(values)
            self.counts[kind] += len(values)
        return start

    def values(self, kind: Kind) -> Any:
        """All of a kind. There is one row at least, for what is None."""
        if kind not in self.whole:
            schema: Any = kind
            parts = self.parts[kind]
            if not self.counts[kind]:
                filler = {String: "", Bytes: b""}.get(type(schema))
                parts = [pa.array([filler], arrow_type(schema))]
            self.whole[kind] = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return self.whole[kind]

    def numbers(self, name: str) -> Any:
        """Numbers (int64) of texts: for ``q`` equal ones have the same, for ``r`` they are in their order."""
        texts = self.values(String())
        if name == "r":
            return ranks(texts)
        return texts.dictionary_encode().indices.to_numpy().astype(np.int64)


def array_of(states: Columns, path: tuple[int, ...], kind: Kind | None, count: int, pools: Pools) -> Any:
    """A scalar of states as an array that may be changed."""
    part = _at(states, path)
    if kind is not None and not is_number(kind):
        if not isinstance(part, Column) or part.kind is None:
            return np.zeros(count, np.int64)
        return pools.add(kind, part, count) + np.arange(count)
    if not isinstance(part, Column) or part.kind is None:
        return np.zeros(count, dtype_of(kind))
    values = np.array(full_values(part, count))
    return values.view(np.uint8) if values.dtype == np.bool_ else values


def flag_of(states: Columns, path: tuple[int, ...], count: int) -> Any:
    """Where an optional part is there, as an array that may be changed."""
    part = _at(states, path)
    if part is None or (isinstance(part, Column) and part.kind is None):
        return np.zeros(count, np.uint8)
    return np.ones(count, np.uint8) if part.valid is None else part.valid.astype(np.uint8)


def built(kind: StateKind, shape: Shape, scalars: list[Any], flags: list[Any], pools: Pools) -> Columns:
    """Columns of a structure from the arrays of its scalars and flags."""
    arrays = {one.path: (one.kind, values) for one, values in zip(shape.scalars, scalars, strict=True)}
    there = dict(zip(shape.flags, flags, strict=True))

    def build(one: StateKind, path: tuple[int, ...]) -> Columns:
        if one is None:
            return Column(None, None)
        if isinstance(one, Optional):
            valid = there[path].view(np.bool_)
            inner = build(one.item, path)
            return inner if valid.all() else attrs.evolve(inner, valid=valid) if valid.any() else Column(None, None)
        if isinstance(one, Record):
            names = () if one.cls is tuple else tuple(name for name, _ in one.fields)
            return Struct(one.cls, names, tuple(build(inner, (*path, at)) for at, (_, inner) in enumerate(one.fields)))
        if isinstance(one, UnitValue):
            return Column(one, UNIT)
        known, values = arrays[path]
        if known is not None and not is_number(known):
            return Column(known, taken(pools.values(known), values))
        return Column(known, values.view(np.bool_) if isinstance(known, Boolean) else values)

    return build(kind, ())

"""Columns of a union of records: the rows of each member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.coded_arrays import concat_arrays
from tracetypes.compiler.columns.column import Column, Columns, Struct, taken_later
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.pending_take import PendingTake
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.records import OneOf, Record

__all__ = ["Member", "UnionPieces", "members_of", "union_column"]


@final
@attrs.frozen(eq=False)
class Member:
    """The rows (int64, ascending) of a column that are of one member, and their columns."""

    record: Record
    rows: Any
    columns: Columns


@final
class UnionPieces:
    """Arrow arrays of a union, one after the other, which are taken apart into members without being put together first. Most
    pieces have rows of one member only: what comes from one link is of one side of a join.

    ``which``: the member of each row (int8); ``places``: its place among those of its member (int64); ``members``: the columns
    of each. ``all``: the rows."""

    def __init__(self, kind: OneOf, arrays: Sequence[Any]) -> None:
        self.arrays = arrays
        self.starts = np.cumsum([0, *map(len, arrays)])
        count = len(self)
        self.all = np.arange(count)
        self._whole: list[Member] | None = None
        self.which, self.places = np.full(count, -1, np.int8), np.zeros(count, np.int64)
        self.members: list[Columns] = []
        for at, record in enumerate(kind.members):
            self.members.append(self._member(at, record))
        if count and self.which.min() < 0:
            raise Undefined(0)  # a row is of no member

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _member(self, at: int, record: Record) -> Columns:
        """The columns of a member; notes its rows."""
        found, place = [], 0
        for start, whole in zip(self.starts.tolist(), self.arrays, strict=False):
            part = whole.field(at)
            if not part.null_count:
                rows: Any = slice(start, start + len(part))
            elif part.null_count == len(part):
                continue
            else:
                mask = part.is_valid()
                rows = start + np.flatnonzero(mask.to_numpy(zero_copy_only=False))
                part = part.filter(mask)
            self.which[rows] = at
            self.places[rows] = np.arange(place, place + len(part))
            place += len(part)
            found.append(part)
        return from_arrow(record, concat_arrays(found) if found else array(record, []))

    def take(self, rows: Any) -> Any:
        """Some rows (int64) as an Arrow array of the union."""
        pieces = np.searchsorted(self.starts, rows, "right") - 1
        order = np.argsort(pieces, kind="stable")
        bounds = np.searchsorted(pieces[order], np.arange(len(self.arrays) + 1))
        found = [
            whole.take(pa.array(rows[order[first:behind]] - start))
            for whole, start, first, behind in zip(self.arrays, self.starts, bounds[:-1], bounds[1:], strict=False)
            if behind > first
        ]
        if not found:
            return self.arrays[0].slice(0, 0)
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return concat_arrays(found).take(pa.array(back))

    def of(self, kind: OneOf, rows: Any) -> list[Member]:
        """The members of some rows (int64)."""
        if rows is self.all:
            if self._whole is None:
                self._whole = self._of(kind, rows)
            return self._whole
        return self._of(kind, rows)

    def _of(self, kind: OneOf, rows: Any) -> list[Member]:
        which, places = self.which[rows], self.places[rows]
        mine = [np.flatnonzero(which == at) for at in range(len(kind.members))]
        return [
            Member(record, own, taken_later(columns, places[own]))
            for record, own, columns in zip(kind.members, mine, self.members, strict=True)
        ]


def union_column(kind: OneOf, arrays: Sequence[Any]) -> Column:
    """Arrow arrays of a union, at least one, as one column. Raises :class:`Undefined` for rows that are of no member."""
    pieces = UnionPieces(kind, arrays)
    return Column(kind, PendingTake(pieces, pieces.all))


def members_of(kind: OneOf, columns: Columns, count: int) -> list[Member]:
    """The members of a union, in their order. Raises :class:`Undefined` for rows that are of none."""
    if isinstance(columns, Struct) and columns.valid is None:
        return [_member_of_all(one, columns, count) for one in kind.members]
    if not isinstance(columns, Column) or columns.kind != kind or columns.valid is not None:
        raise Undefined(0)
    whole, rows = columns.storage.rows if isinstance(columns.storage, PendingTake) else (columns.values, None)
    if not isinstance(whole, UnionPieces):
        whole = UnionPieces(kind, [whole])
    return whole.of(kind, whole.all if rows is None else rows)


def _member_of_all(record: Record, columns: Struct, count: int) -> Member:
    if record.cls is columns.cls:
        return Member(record, np.arange(count), columns)
    none = np.zeros(0, np.int64)
    return Member(record, none, from_arrow(record, array(record, [])))

"""Columns of a union of records: the rows of each member."""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Columns, Struct, taken_later
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.pending_take import PendingTake
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.records import OneOf, Record

__all__ = ["Member", "members_of"]


@final
@attrs.frozen(eq=False)
class Member:
    """The rows (int64, ascending) of a column that are of one member, and their columns."""

    record: Record
    rows: Any
    columns: Columns


def members_of(kind: OneOf, columns: Columns, count: int) -> list[Member]:
    """The members of a union, in their order. Raises :class:`Undefined` for rows that are of none."""
    if isinstance(columns, Struct) and columns.valid is None:
        return [_member_of_all(one, columns, count) for one in kind.members]
    if not isinstance(columns, Column) or columns.kind != kind or columns.valid is not None:
        raise Undefined(0)
    whole, rows = columns.storage.parts if isinstance(columns.storage, PendingTake) else (columns.values, None)
    found = []
    for at, record in enumerate(kind.members):
        part = whole.field(at)
        there = part.is_valid().to_numpy(zero_copy_only=False)
        places = np.cumsum(there) - 1
        inside = from_arrow(record, part.filter(pa.array(there)))
        mine = np.flatnonzero(there if rows is None else there[rows])
        found.append(Member(record, mine, taken_later(inside, places[mine if rows is None else rows[mine]])))
    return found


def _member_of_all(record: Record, columns: Struct, count: int) -> Member:
    if record.cls is columns.cls:
        return Member(record, np.arange(count), columns)
    none = np.zeros(0, np.int64)
    return Member(record, none, from_arrow(record, array(record, [])))

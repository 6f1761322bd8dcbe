"""The two sides of a join over columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetypes.compiler.analysis.choices import Places
from tracetypes.compiler.analysis.joins import LONGEST, JoinForm
from tracetypes.compiler.analysis.last_items import TracedLastItems
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, inputs_of, take
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.members import Member, members_of
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.tracing.expr import Tree, Undefined
from tracetypes.records import OneOf, Optional, Schema

__all__ = ["bounded", "mask_of", "none_of", "numbers_of", "present_of", "sides_of", "times_of", "value_of"]

def sides_of(join: JoinForm | TracedLastItems, items: OrderedItems) -> tuple[Member, Member]:
    """The left and the right items, each with their values."""
    assert isinstance(join.takes, OneOf)
    members = {one.record.cls: one for one in members_of(join.takes, items.values, items.count)}
    return members[join.left.cls], members[join.right.cls]


def value_of(side: Member) -> Columns:
    """What lies in the items of a side."""
    assert isinstance(side.columns, Struct)
    value = side.columns.parts[side.columns.names.index("value")]
    assert value is not None
    return value


def times_of(tree: Tree, side: Member) -> Any:
    """The times (int64) of the items of a side. Raises :class:`Undefined` where there is none."""
    count = len(side.rows)
    return bounded(full_values(present_of(tree, side), count)) if count else side.rows


def present_of(tree: Tree, side: Member) -> Column:
    """What a tree gives for the items of a side. Raises :class:`Undefined` where that is nothing."""
    return _whole(tree, side.columns, len(side.rows))


def _whole(tree: Tree, values: Columns, count: int) -> Column:
    column = return_values(tree, inputs_of({"value": values}), count)
    if not isinstance(column, Column) or column.valid is not None or column.undefined is not None:
        raise Undefined(0)
    return column


def numbers_of(takes: Schema, places: Places, values: Columns, count: int) -> Any:
    """The whole numbers (int64) that a function gives for values; ``places``: a tree for those of each schema. Raises
    :class:`Undefined` where there is none."""
    numbers = np.zeros(count, np.int64)
    sides = [(np.arange(count), values)]
    if isinstance(takes, OneOf) and count:
        sides = [(one.rows, one.columns) for one in members_of(takes, values, count)]
    for (_, tree), (rows, columns) in zip(places, sides, strict=False):
        if len(rows):
            numbers[rows] = full_values(_whole(tree, columns, len(rows)), len(rows))
    return numbers


def bounded(times: Any) -> Any:
    """Times. Raises :class:`Undefined` for those that are too far away."""
    if len(times) and (times.max() > LONGEST or times.min() < -LONGEST):
        raise Undefined(0)
    return times


def mask_of(rows: Any, count: int) -> Any:
    """Which rows (bool) are among some (int64)."""
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


def none_of(kind: Any, count: int) -> Columns:
    """A missing value in each row."""
    schema = kind if isinstance(kind, Optional) else Optional(kind)
    return take(from_arrow(schema, array(schema, [None])), np.zeros(count, np.int64))

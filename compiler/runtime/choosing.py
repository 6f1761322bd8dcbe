"""Which items of each group an operator needs that needs some only, by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracetypes.compiler.analysis.choices import TracedChoice
from tracetypes.compiler.columns.column import Column, Columns, full_values, take, take_column
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.columns.ordering import canonical_columns, place_columns
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows
from tracetypes.compiler.runtime.flows import Inputs, KeyedFlow
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.records import INT_MIN

__all__ = ["SeenChoice", "of_rows", "one_row_each", "rows_needed", "rows_where", "with_one_each"]

SeenChoice: TypeAlias = Callable[[Callable[[Any], Any], Tree, Inputs, Columns, int], None]
"""Sees a function of values, its tree, the values, what the tree gave for them, and how many they are."""


def one_row_each(choice: TracedChoice, flow: KeyedFlow, groups: Groups) -> Any:
    """The row (int64) of the one item that a choice needs of each group, in their order; some other where it needs none.

    Raises :class:`Undefined` where Python has to tell.
    """
    needed = np.zeros(flow.count, np.bool_)
    needed[rows_needed(choice, flow, groups)] = True
    rows = with_one_each(needed, groups)
    if len(rows) != groups.number:
        raise Undefined(0)
    by_group = np.empty(groups.number, np.int64)
    by_group[groups.of_row[rows]] = rows
    return by_group


def with_one_each(needed: Any, groups: Groups) -> Any:
    """The rows (int64, ascending) of a mask, and one more of each group that has none there."""
    without = np.ones(groups.number, np.bool_)
    without[groups.of_row[needed]] = False
    needed[groups.first[without]] = True
    return np.flatnonzero(needed)


def rows_where(
    where: Callable[[Any], bool], tree: Tree, inputs: Inputs, count: int, seen: SeenChoice | None = None
) -> Any:
    """The rows (int64) of the items that count. Raises :class:`Undefined` where Python has to tell."""
    counts = return_values(tree, inputs, count)
    if seen is not None:
        seen(where, tree, inputs, counts, count)
    if not isinstance(counts, Column) or counts.valid is not None:
        raise Undefined(0)
    return np.flatnonzero(full_values(counts, count))


def rows_needed(traced: TracedChoice, flow: KeyedFlow, groups: Groups, seen: SeenChoice | None = None) -> Any:
    """The rows (int64) of the items that a choice needs of each group. Raises :class:`Undefined` where Python has to tell. A row
    too many does no harm, since the operator chooses again."""
    choice, inputs, rows = traced.choice, flow.inputs, np.arange(flow.count)
    if traced.where is not None and choice.where is not None:
        rows = rows_where(choice.where, traced.where, inputs, flow.count, seen)
        inputs = of_rows(inputs, rows)
    if not len(rows):
        return rows
    by = return_values(traced.by, inputs, len(rows))
    if seen is not None:
        seen(choice.by, traced.by, inputs, by, len(rows))
    columns = _turned(place_columns(by), first=choice.first)
    group = groups.of_row[rows]
    best = _best(group, groups.number, columns, choice.count)
    if choice.ties == "all":
        return rows[best]
    rows, group = rows[best], group[best]
    columns = [column[best] for column in columns]
    if int(np.bincount(group).max()) <= choice.count:
        return rows
    if choice.ties == "canonical":
        try:
            whole = canonical_columns(take(flow.value, rows))
        except Undefined:  # the operator tells them apart
            return rows
        columns += _turned(whole, first=choice.first)
    order = _by_group(group, columns)
    return rows[order[_place_in(group[order]) < choice.count]]


def of_rows(inputs: Inputs, rows: Any) -> Inputs:
    """Of inputs some rows."""

    def find(leaf: Input) -> Column:
        return take_column(inputs(leaf), rows)

    return find


def _turned(columns: Sequence[Any], *, first: bool) -> list[Any]:
    return [~column for column in columns] if first else list(columns)


def _best(group: Any, number: int, columns: Sequence[Any], count: int) -> Any:
    """The rows of each group that are not behind the ``count``-th largest. ``columns``: int64, the first one counts most."""
    rows = np.arange(len(group))
    if count == 1:
        for column in columns:
            best = np.full(number, INT_MIN)
            np.maximum.at(best, group[rows], column[rows])
            rows = rows[column[rows] == best[group[rows]]]
        return rows
    order = _by_group(group, columns)
    ordered, place = group[order], _place_in(group[order])
    last = np.minimum(np.arange(len(order)) - place + count - 1, len(order) - 1)
    is_best = place < count
    tied = ordered[last] == ordered
    for column in columns:
        tied &= column[order][last] == column[order]
    return np.sort(order[is_best | tied])


def _by_group(group: Any, columns: Sequence[Any]) -> Any:
    """The rows by group, the best ones first."""
    return sorted_rows(map(SortKey.column, (group.astype(np.int64), *(~column for column in columns))), len(group))


def _place_in(group: Any) -> Any:
    """The place of each row among those of its group, from 0; groups are in order."""
    starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))

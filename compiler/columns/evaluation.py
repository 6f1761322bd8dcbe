"""Evaluation of trees over columns, with numpy and Arrow: the meaning of :mod:`tracetypes.compiler.tracing.expr`, many
rows at once.

No result differs from Python's. If an expression has no value (:class:`Undefined`), or if these columns cannot decide
it, :func:`evaluate` and :func:`run` raise ``Undefined`` with the number of the first such row, and the caller runs the
batch in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.compiler.columns.code_of_trees import code_of, learn, plain_result
from tracetypes.compiler.columns.column import Column, Columns
from tracetypes.compiler.columns.concatenation import merged_columns
from tracetypes.compiler.columns.expressions import Rows, Run
from tracetypes.compiler.columns.turns import Reached, Turns, in_order, turns_of
from tracetypes.compiler.tracing.expr import (
    Branch,
    Emission,
    Input,
    Leaf,
    Loop,
    Tree,
    Undefined,
    Value,
)
from tracetypes.records import Boolean

__all__ = ["Emissions", "Ran", "evaluate", "interpreted", "return_values", "run", "values_of_others"]

_NOTHING: Final = Column(None, None)


@final
@attrs.frozen(eq=False)
class Emissions:
    """The emissions of one call of ``emit``, or of one loop. ``rows``: int64, the rows that reached it, ascending, in a loop once
    for each emission; None for all. ``number``: which call or loop of its row it is. The columns are as long as ``rows``, and
    in the order of the emissions of a row; ``key`` is that of None where values alone are emitted."""

    rows: Any
    number: int
    key: Columns
    value: Columns


@final
@attrs.frozen(eq=False)
class Ran:
    """The results of a tree: its emissions, and its return value for each row (None if it returns nothing)."""

    emissions: tuple[Emissions, ...]
    result: Columns | None


def evaluate(value: Value, inputs: Callable[[Input], Column], count: int) -> Columns:
    """The columns of ``value`` for ``count`` rows. Raises ``Undefined`` with the number of the first row without a
    value."""
    with np.errstate(all="ignore"):
        run = Run(inputs)
        columns = Rows(run, count, None, None, None).columns(value)
        run.settle()
        return columns


def run(tree: Tree, inputs: Callable[[Input], Column], count: int) -> Ran:
    """The results of the tree for ``count`` rows. Each condition and leaf is evaluated only for the rows that reach it.

    Raises ``Undefined`` with the number of the first row for which a condition or a leaf has no value.
    """
    code = code_of(tree) if count else None
    if code is not None:
        reached = code(inputs, count)
        if reached is not None:
            return _ran(reached, count)
    return interpreted(tree, inputs, count)


def interpreted(tree: Tree, inputs: Callable[[Input], Column], count: int) -> Ran:
    """:func:`run`, node by node."""
    with np.errstate(all="ignore"):
        run = Run(inputs)
        rows, leaves = Rows(run, count, None, None, None), list[tuple[Leaf, Rows]]()
        _walk(tree, rows, leaves)
        reached = _reached(leaves)
        if count:
            learn(tree, rows.inputs)
        run.settle(reached)
    if not reached and any(leaf.result is not None for leaf, _ in leaves):
        first = next(leaf.result for leaf, _ in leaves if leaf.result is not None)
        return Ran((), evaluate(first, inputs, 0))
    return _ran(reached, count)


def _reached(leaves: Sequence[tuple[Leaf, Rows]]) -> list[Reached]:
    """The columns of leaves."""
    reached: list[Reached] = []
    for leaf, rows in leaves:
        if not rows.count:
            continue
        if leaf.raises:
            rows.are_undefined()
            continue
        emissions = [_emission(one, rows) for one in leaf.emissions]
        reached.append((leaf, rows, emissions, None if leaf.result is None else rows.columns(leaf.result)))
    return reached


def _emission(one: Emission | Loop, rows: Rows) -> tuple[Columns, Columns] | Turns:
    if isinstance(one, Emission):
        return _NOTHING if one.key is None else rows.columns(one.key), rows.columns(one.value)
    turns = turns_of(rows, one.turn, *map(rows.column, (one.start, one.stop, one.step)))
    if turns.rows.count:
        leaves = list[tuple[Leaf, Rows]]()
        _walk(one.body, turns.rows, leaves)
        turns.reached.extend(_reached(leaves))
    return turns


def _emitted(reached: Sequence[Reached]) -> Iterator[Emissions]:
    for _, rows, emissions, _ in reached:
        for number, one in enumerate(emissions):
            if isinstance(one, Turns):
                if (parts := in_order(one)) is not None:
                    at, key, value = parts
                    yield Emissions(at if rows.absolute is None else rows.absolute[at], number, key, value)
            else:
                yield Emissions(rows.absolute, number, *one)


def _ran(reached: Sequence[Reached], count: int) -> Ran:
    """The results of a tree from those of its leaves."""
    emissions = tuple(_emitted(reached))
    if all(leaf.result is None for leaf, *_ in reached):
        return Ran(emissions, None)
    if len(reached) == 1:
        return Ran(emissions, reached[0][3] or _NOTHING)
    parts = [(_NOTHING if result is None else result, rows.absolute) for _, rows, _, result in reached]
    return Ran(emissions, merged_columns(parts, count))


def return_values(tree: Tree, inputs: Callable[[Input], Column], count: int) -> Columns:
    """The return value of a tree for each row. Raises :class:`Undefined` like :func:`run`."""
    plain = plain_result(tree)
    if plain is not None and (columns := plain(inputs)) is not None:
        return columns
    result = run(tree, inputs, count).result
    if result is None:
        raise TypeError("the tree returns nothing")
    return result


def values_of_others(error: Undefined, count: int) -> Columns | None:
    """The return values that an evaluation has for all rows but ``error.rows``; what the columns have there means nothing. None
    if there is no such value."""
    parts = [(result, np.arange(count) if rows.absolute is None else rows.absolute) for _, rows, _, result in error.reached]
    if not parts or any(columns is None for columns, _ in parts):
        return None
    try:
        return merged_columns(parts, count)
    except Undefined:
        return None


def _walk(tree: Tree, rows: Rows, leaves: list[tuple[Leaf, Rows]]) -> None:
    while isinstance(tree, Branch):
        column = rows.checked(tree.condition)
        if tree.then is tree.otherwise:  # asked only whether it has a value
            tree = tree.then
            continue
        if column.scalar:
            tree = tree.then if column.values is True else tree.otherwise
            if not isinstance(column.values, bool):
                rows.are_undefined()
                return
            continue
        condition = column.values
        if not isinstance(column.kind, Boolean):
            rows.are_undefined()
            return
        yes = np.flatnonzero(condition)
        if len(yes) == rows.count:
            tree = tree.then
            continue
        if not len(yes):
            tree = tree.otherwise
            continue
        _walk(tree.then, rows.part(yes), leaves)
        rows, tree = rows.part(np.flatnonzero(~condition)), tree.otherwise
    leaves.append((tree, rows))

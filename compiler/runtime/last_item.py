"""An ordered operator whose states say nothing but what the last item was, over columns: all items at once.

The state before an item is what the item before it made of any state; before the first one of its key it is that of the key.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.ordered import LastItem, Ordered
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Columns, inputs_of, take, take_column, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import evaluate
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import Inputs, fit
from tracetypes.compiler.runtime.ordered_base import Emitted, by_row, evaluated
from tracetypes.compiler.runtime.ordered_states import settled
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.records import Schema

__all__ = ["at_once"]

PIECE: Final = 1 << 16
"""Items at once: what they emit fits into the cache, and a loop has turns left for each of them."""

FEWEST: Final = 1 << 10
"""Fewer items are not cut again: then one of them has no value."""

Parts: TypeAlias = list[tuple[Any, Any, Columns]]
"""Keys and ends of blocks (int64) with values."""


def at_once(
    ordered: Ordered, last: LastItem, items: OrderedItems, keys: Columns, states: Columns
) -> tuple[Columns, Emitted]:
    """What some keys have as states when they have taken items, and what they have emitted. ``last``: of ``ordered``. Raises
    :class:`Undefined`."""
    if not items.count:
        return states, Emitted(items.codes, items.ends, _nothing(ordered))
    starts = items.starts
    first, behind = starts[:-1], starts[1:]
    whole = inputs_of({"key": taken_later(keys, items.codes), "value": items.values})
    after = settled(ordered.state, evaluate(last.state, whole, items.count), items.count)
    both = settled(ordered.state, concat([(after, items.count), (states, items.number)]), items.count + items.number)
    before = np.arange(-1, items.count - 1)
    before[first] = items.count + np.arange(items.number)
    piece = _Pieces(last.emits, ordered.gives, items, whole, both, before).emitted
    parts: Parts = []
    for start in range(0, items.count, PIECE):
        parts += piece(start, min(start + PIECE, items.count))
    if not parts:
        none = np.zeros(0, np.int64)
        return take(both, behind - 1), Emitted(none, none, _nothing(ordered))
    codes, ends, values = zip(*parts, strict=True)
    emitted = Emitted(
        np.concatenate(codes),
        np.concatenate(ends),
        concat([(value, len(code)) for value, code in zip(values, codes, strict=True)]),
    )
    return settled(ordered.state, take(both, behind - 1), items.number), emitted


@final
@attrs.frozen(eq=False)
class _Pieces:
    """Evaluates items piece by piece. ``inputs``: of all of them; ``before``: the rows (int64) of ``states`` that they come
    to."""

    tree: Tree
    gives: Schema
    items: OrderedItems
    inputs: Inputs
    states: Columns
    before: Any

    def emitted(self, start: int, stop: int) -> Parts:
        """What the items from ``start`` to ``stop`` emit."""
        try:
            return self._emitted(start, stop)
        except Undefined:
            if stop - start < FEWEST:
                raise
        middle = (start + stop) // 2
        return [*self.emitted(start, middle), *self.emitted(middle, stop)]

    def _emitted(self, start: int, stop: int) -> Parts:
        rows, states = np.arange(start, stop), taken_later(self.states, self.before[start:stop])
        columns = dict[Any, Column]()

        def rest(leaf: Input) -> Column:
            if leaf.path not in columns:
                columns[leaf.path] = take_column(self.inputs(leaf), rows)
            return columns[leaf.path]

        parts: list[tuple[Any, Columns]] = []
        for some, ran in evaluated(self.tree, states, rest, len(rows)):
            for one in ran.emissions:
                own = rows if some is None else rows[some]
                parts.append((own if one.rows is None else own[one.rows], fit(self.gives, one.value)))
        if not parts:
            return []
        at, values = by_row(parts)
        return [(self.items.codes[at], self.items.ends[at], values)]


def _nothing(ordered: Ordered) -> Columns:
    return from_arrow(ordered.gives, array(ordered.gives, []))

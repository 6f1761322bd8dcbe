"""Which of several items of a key is the latest, for many rows at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.batches import POSITION, from_rows, pairs_of_rows
from tracetypes.compiler.columns.column import inputs_of
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.ordering import canonical_columns, place_columns
from tracetypes.compiler.tracing.expr import Tree, Undefined
from tracetypes.compiler.tracing.tracer import Untraceable, trace_function
from tracetypes.formats import Layout
from tracetypes.interpreter import sort_order
from tracetypes.nodes import Gate

__all__ = ["LatestOrder"]


class LatestOrder:
    """The order of the items of a key within a block: by ``latest_by``, or by their positions. ``latest_by`` is evaluated over
    columns if that can be; then two rows of each table are compared as Python compares them, too."""

    def __init__(self, gate: Gate, layout: Layout) -> None:
        self.layout = layout
        self.order = None if gate.latest_by is None else sort_order(gate, layout.value)
        self.tree: Tree | None = None
        if gate.latest_by is not None:
            with suppress(Untraceable):
                self.tree = trace_function(gate.latest_by, layout.value)

    def ranks(self, table: pa.Table) -> Any:
        """The place (int64) of each row in the order."""
        if self.order is None:
            return table.column(POSITION).to_numpy()
        rows = None if self.tree is None else self.by_columns(self.tree, table)
        if rows is None:
            values, order = from_rows(self.layout, table).values, self.order
            rows = np.array(sorted(range(len(values)), key=lambda at: order(values[at])), np.int64)
        ranks = np.empty(len(rows), np.int64)
        ranks[rows] = np.arange(len(rows))
        return ranks

    def by_columns(self, tree: Tree, table: pa.Table) -> Any:
        """The rows in the order; None if columns cannot tell."""
        batch, count = table.combine_chunks().to_batches(), table.num_rows
        if not batch:
            return np.zeros(0, np.int64)
        try:
            values = from_arrow(self.layout.value, pairs_of_rows(self.layout, batch[0])[1])
            columns = place_columns(return_values(tree, inputs_of({"value": values}), count))
            columns += canonical_columns(values)
        except Undefined:
            return None
        rows = np.lexsort(columns[::-1]) if columns else np.arange(count)
        if not self.agrees(table, rows):
            self.tree = None
            return None
        return rows

    def agrees(self, table: pa.Table, rows: Any) -> bool:
        """Does Python put the first and the last of these rows in this order?"""
        assert self.order is not None
        first, last = from_rows(self.layout, table.take(pa.array(rows[[0, -1]], pa.int64()))).values
        return bool(self.order(first) <= self.order(last))

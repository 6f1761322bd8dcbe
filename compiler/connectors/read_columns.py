"""Which columns of a source a link reads, so that the others need not come to its worker.

A column that is not read may still make its row a reject: by a null where the field has no ``None``. The sender looks for that,
and one column says so. In a worker the columns that did not come have some value of their type, or a null in a row with a gap
(:class:`Filled`). So the same rows are rejects. What they look like as text is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.connectors.source_rows import Columns
from tracetypes.compiler.plan.facts import column_monoid
from tracetypes.compiler.plan.plan import SourceLink, Stage
from tracetypes.compiler.runtime.sampled_arguments import Reads
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.formats import Layout
from tracetypes.records import Boolean, Bytes, Float, Integer, Optional, Schema, String

__all__ = ["Filled", "may_lack", "places_read"]

_SOME: Final[dict[type[Schema], Any]] = {Boolean: False, Integer: 0, Float: 0.0, String: "", Bytes: b""}
"""A value of each type of which a null is the only reason to reject."""


def places_read(stage: Stage, link: SourceLink) -> tuple[int, ...] | None:
    """The places in the layout of the columns that must come to a worker, ascending; None for all of them."""
    leaf, layout = link.leaf, link.leaf.layout
    trees: list[Tree | Opaque] = [leaf.traced_time, *([] if leaf.source.key is None else [leaf.traced_key])]
    if link.path:
        trees += [mapped.traced for mapped in link.path]
    elif stage.steps and (monoid := column_monoid(stage)) is not None:
        trees.append(monoid.lift)
    else:
        return None
    if Columns.of(leaf) is None:
        return None
    read = {0} if layout.keyed else set[int]()
    for at, tree in enumerate(trees):
        if isinstance(tree, Opaque):
            return None
        if link.path and at > len(trees) - len(link.path):
            continue  # an operator behind the first one reads what that emits
        for path in Reads.of(tree).inputs:
            if path[0] != "value":
                continue
            if len(path) == 1:
                return None
            read.add(layout.places[str(path[1])])
    read |= {at for at, (_, schema) in enumerate(layout.columns) if type(_bare(schema)) not in _SOME}
    return tuple(sorted(read)) if len(read) < len(layout.columns) else None


def _bare(schema: Schema) -> Schema:
    return schema.item if isinstance(schema, Optional) else schema


def may_lack(layout: Layout, read: Sequence[int]) -> tuple[int, ...]:
    """The places of the columns that are not read and must have a value in each row."""
    return tuple(at for at, (_, schema) in enumerate(layout.columns) if at not in read and not isinstance(schema, Optional))


@attrs.frozen
class Filled:
    """Makes all columns of a layout of those that are read. Behind these lies whether the row has a gap in another one, if
    another one may have gaps."""

    layout: Layout
    read: tuple[int, ...]

    def columns(self, batch: pa.RecordBatch) -> list[Any]:
        """The columns of the layout."""
        count, came = batch.num_rows, iter(batch.columns)
        columns: dict[int, Any] = {at: next(came) for at in self.read}
        gaps = next(came) if may_lack(self.layout, self.read) else None
        for at, (_, schema) in enumerate(self.layout.columns):
            if at in columns:
                continue
            kind = arrow_type(schema)
            if isinstance(schema, Optional):
                columns[at] = pa.nulls(count, kind)
                continue
            columns[at] = pa.repeat(pa.scalar(_SOME[type(schema)], kind), count)
            if gaps is not None and pc.any(gaps).as_py():
                columns[at], gaps = pc.if_else(gaps, pa.scalar(None, kind), columns[at]), None
        return [columns[at] for at in range(len(columns))]

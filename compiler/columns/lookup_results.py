"""Answers of look-up tables outside the dataflow, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.lookup_tables import Index, new_entries, new_index
from tracetypes.compiler.tracing.cache_keys import ObjectKey
from tracetypes.compiler.tracing.expr import Kind

__all__ = ["LookupResults", "distinct_keys"]


class LookupResults:
    """Rows that an outside table returned, as a table."""

    def __init__(self, rows: Mapping[Any, Any]) -> None:
        self.same = ObjectKey(rows)
        self.indices: dict[Any, Index | None] = {}
        self.columns: dict[Any, Column] = {}

    def index(self, kind: Kind | None) -> Index | None:
        """The place of a key."""
        if kind not in self.indices:
            self.indices[kind] = new_index(self.same, kind)
        return self.indices[kind]

    def entries(self, path: tuple[str | int, ...], kind: Kind | None) -> Column:
        """A column of the rows."""
        if (path, kind) not in self.columns:
            self.columns[path, kind] = new_entries(self.same, path, kind)
        return self.columns[path, kind]


def distinct_keys(key: Column) -> list[Any]:
    """The values of a column of keys, each once. May include entries that no row has."""
    if key.scalar:
        return [key.values]
    values = key.values if key.encoding is None else key.encoding.dictionary
    array = values if isinstance(values, pa.Array) else pa.array(values)
    keys: list[Any] = pc.unique(array).to_pylist()
    return [one for one in keys if one is not None]

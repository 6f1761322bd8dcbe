"""Arrow arrays whose text may be dictionary-encoded, in structs, too. Such text is moved as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

__all__ = ["concat_arrays", "plain_array", "with_short_dictionaries", "without_dictionaries"]


def plain_array(column: Any) -> Any:
    """An array without dictionaries."""
    return _as(column, _plain(column.type))


def without_dictionaries(batch: Any) -> Any:
    """A record batch whose columns are not dictionary-encoded."""
    columns = list(map(plain_array, batch.columns))
    if all(one is other for one, other in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def with_short_dictionaries(column: Any) -> Any:
    """An array in which no dictionary has more entries than rows: a few rows would keep all entries."""
    return _as(column, _short(column))


def concat_arrays(arrays: Sequence[Any]) -> Any:
    """Arrays of one type, after each other. Text is dictionary-encoded where it is for most rows."""
    if len(arrays) == 1:
        return arrays[0]
    kind = _common(arrays)
    return pa.concat_arrays([_as(one, kind) for one in arrays])


def _as(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


def _plain(kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_plain(part.type)) for part in kind])
    return kind


def _short(column: Any) -> Any:
    """The type that an array has with short dictionaries only."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kind if len(column.dictionary) <= len(column) else kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_short(column.field(at))) for at, part in enumerate(kind)])
    return kind


def _common(arrays: Sequence[Any]) -> Any:
    """The type for all of some arrays."""
    kind = arrays[0].type
    if all(one.type == kind for one in arrays):
        return kind
    if pa.types.is_struct(kind):
        parts = [part.with_type(_common([one.field(at) for one in arrays])) for at, part in enumerate(kind)]
        return pa.struct(parts)
    (coded,) = {one.type for one in arrays if pa.types.is_dictionary(one.type)}
    rows = [(one.type == coded, len(one) - one.null_count) for one in arrays]
    most = sum(count if is_coded else -count for is_coded, count in rows) >= 0
    return coded if most else coded.value_type

"""Clusters of the points of many blocks and keys at once, as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.clusters import clusters_of
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.records import Integer, Record
from tracetypes.schemas import schema_of
from tracetypes.summaries import Clustering

__all__ = ["clusters_by_group"]


def clusters_by_group(part: Clustering[Any], points: Columns, groups: Groups) -> tuple[Any, Columns]:
    """How many clusters the points of each group have (int64), and these as records, by group. Raises :class:`Undefined`."""
    if not isinstance(points, Struct):
        raise Undefined(0)
    at, group = np.stack([_numbers(one, len(groups.of_row)) for one in points.parts]), groups.of_row.astype(np.int64)
    found = clusters_of(at, group, groups.number, part.k, part.draws, part.iterations)
    sizes, centres, counts = found.sizes, found.centres, found.points
    if found.doubtful.any():
        of_cluster = np.repeat(np.arange(groups.number), sizes)
        sure = np.flatnonzero(~found.doubtful[of_cluster])
        others = [
            (one, cluster.centre, cluster.points)
            for one, clusters in _by_definition(part, at, group, found.doubtful)
            for cluster in clusters
        ]
        of_cluster = np.concatenate([of_cluster[sure], np.array([one for one, _, _ in others], np.int64)])
        order = np.argsort(of_cluster, kind="stable")
        more = np.array([centre for _, centre, _ in others], np.float64).reshape(len(others), len(at))
        centres = np.concatenate([centres[sure], more])[order]
        counts = np.concatenate([counts[sure], np.array([size for _, _, size in others], np.int64)])[order]
        sizes = np.bincount(of_cluster, minlength=groups.number)
    return sizes, _records(part.to, sizes, centres, counts)


def _numbers(column: Columns | None, count: int) -> Any:
    if not isinstance(column, Column) or column.valid is not None:
        raise Undefined(0)
    return np.asarray(full_values(column, count), np.float64)


def _by_definition(
    part: Clustering[Any], at: Any, group: Any, doubtful: Any
) -> Iterator[tuple[int, Sequence[Any]]]:
    """The clusters of some groups, by the definition."""
    rows = np.flatnonzero(doubtful[group] & np.isfinite(at).all(axis=0))
    rows = rows[np.argsort(group[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(group[rows], prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=False):
        yield int(group[rows[start]]), part.clusters(list(map(tuple, at[:, rows[start:end]].T.tolist())))


def _records(cls: type[Any], sizes: Any, centres: Any, counts: Any) -> Columns:
    schema = schema_of(cls)
    assert isinstance(schema, Record)
    kinds: dict[str, Any] = dict(schema.fields)
    number, axes = centres.shape
    if number * axes > np.iinfo(np.int32).max:
        raise Undefined(0)
    offsets = pa.array(np.arange(number + 1, dtype=np.int32) * axes)
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(centres).reshape(-1)))
    numbers = np.arange(number) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = {
        "number": Column(Integer(), numbers),
        "centre": Column(kinds["centre"], lists),
        "points": Column(Integer(), counts),
    }
    return Struct(cls, tuple(kinds), tuple([columns[name] for name in kinds]))

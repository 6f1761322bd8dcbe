"""The first rows of a run, whose times show that they have another unit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import File, Message, SideRows
from tracetypes.compiler.store.output_interface import side_rows
from tracetypes.errors import RunError
from tracetypes.markers import BEYOND, EventTime

__all__ = ["wild_rows"]

ENOUGH: Final = 100
"""Rows of a source, after which a run stops if the times of all of them are beyond the years 1 to 9999."""


def wild_rows(
    plan: Plan, messages: Sequence[Message], staged: Path, before: Mapping[str, Any], timed: Collection[str]
) -> dict[str, int]:
    """How many rows were read so far of each source without an event time, if the times of all of them are beyond the years 1 to
    9999; 0 if it has other rows, too. ``staged``: the directory into which workers have put files; ``before``: the commit record
    before the epoch; ``timed``: the sources with an event time. Raises :class:`RunError` ``TT226``."""
    counts = {source: count for source, count in before.get("wild", {}).items() if source not in timed}
    new = {leaf.source.name for leaf in plan.sources if isinstance(leaf.source.markers, EventTime)} - {*timed}
    bodies = [message.body for message in messages if isinstance(message.body, SideRows | File)]
    rejects = [body for body in bodies if body.holds == "rejects" and body.source in new]
    for rows in side_rows(rejects, staged):
        are_wild = counts.get(rows.source) != 0 and pc.all(pc.match_substring(rows.batch.column("reason"), BEYOND)).as_py()
        counts[rows.source] = counts.get(rows.source, 0) + rows.batch.num_rows if are_wild else 0
        if counts[rows.source] >= ENOUGH:
            raise _wild(rows, counts[rows.source])
    return counts


def _wild(rows: SideRows, count: int) -> RunError:
    reason, row = (rows.batch.column(name)[0].as_py() for name in ("reason", "row"))
    return RunError(
        "TT226",
        f"source {rows.source!r}: all of the first {count:,} rows have times beyond the years 1 to 9999; the first of them is "
        f"{row[:200]} ({reason})",
        fix='declare the unit of the times, as every(..., unit="ms"), or correct time=; nothing was committed',
    )

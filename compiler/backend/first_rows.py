"""The first rows of a run, whose times show that they have another unit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import File, Message, SideRows
from tracetypes.compiler.runtime.side_rows import ENOUGH, other_unit
from tracetypes.compiler.store.output_interface import side_rows
from tracetypes.markers import BEYOND, EventTime

__all__ = ["wild_rows"]


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
            reason, row = (rows.batch.column(name)[0].as_py() for name in ("reason", "row"))
            raise other_unit(rows.source, counts[rows.source], row, reason)
    return counts

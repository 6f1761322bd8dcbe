"""The answer of a run, put together from the messages that leave the last stage: the trace at the sink, late items and
rejects."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import attrs

from tracetypes.arrangement import woven
from tracetypes.compiler.columns.batches import from_rows
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message, Reached, Rows, SideRows, StageProgress, Verified
from tracetypes.compiler.runtime.side_rows import reasons, texts
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns
from tracetypes.trace import Element, Item, StreamType, Trace

__all__ = ["Answer", "Collector"]


@attrs.define
class Answer:
    """The answer of a run: the trace at the sink, and late items and rejects as ``(source, reason, text)``."""

    trace: Trace[Element]
    late: list[tuple[str, str, str]]
    rejects: list[tuple[str, str, str]]


@attrs.define
class Collector:
    """Puts the messages that leave the last stage together, into an :class:`Answer`."""

    plan: Plan
    items: list[tuple[int, int, int, Item]] = attrs.Factory(list)
    markers: MarkerRuns = NO_MARKERS
    late: list[tuple[str, str, str]] = attrs.Factory(list)
    rejects: list[tuple[str, str, str]] = attrs.Factory(list)
    newest: dict[str, list[Reached]] = attrs.Factory(dict)
    verified: int = 0
    """How many rows were compared with plain Python."""

    def take(self, message: Message) -> None:
        """Take one message."""
        match message.body:
            case Rows() as rows:
                self.table(rows.batch)
            case StageProgress() as progress:
                self.newest.update(progress.newest)
                if progress.stage == self.plan.stages[-1].number:
                    self.markers |= progress.markers
            case SideRows(holds, source) as some:
                side_rows = self.late if holds == "late" else self.rejects
                side_rows += zip(repeat(source), reasons(some), texts(some))
            case Verified(rows):
                self.verified += rows
            case body:
                raise AssertionError(f"unexpected message {type(body).__name__}")

    def table(self, table: Any) -> None:
        """Take rows, as a pyarrow record batch or table."""
        batch = from_rows(self.plan.layout, table)
        places = batch.positions or [0] * len(batch)
        for key, value, end, place in zip(batch.keys, batch.values, batch.ends, places, strict=True):
            self.items.append((end, place, len(self.items), Item(key, value)))

    def answer(self, stream: StreamType) -> Answer:
        """The answer so far."""
        placed = sorted(self.items, key=lambda one: one[:3])
        items = woven(((end, item) for end, _, _, item in placed), self.markers)
        return Answer(Trace(stream, items), self.late, self.rejects)

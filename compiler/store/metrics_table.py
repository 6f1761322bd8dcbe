"""The progress of a run as a table: a row for each source, operator and sink, with its totals so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.live_page import size_text
from tracetypes.compiler.plan.plan import FromChannel, Plan, links
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.store.metrics import Batch, instant, operators_of
from tracetypes.errors import counted
from tracetypes.nodes import title

__all__ = ["Query", "Row", "Table"]

COLUMNS = ("items", "out", "markers", "up to", "lag", "keys", "state", "late", "rejected")

LESS: Final = ("markers", "state", "keys", "lag", "out", "up to")
"""What a narrow terminal has no room for, the first one first."""

NAMES: Final = 24
"""Columns of names, which are cut before a column of numbers is left out."""

SHORTEST: Final = 8
"""Columns of names at least."""


@attrs.define
class Row:
    """The numbers of a source, operator or sink; None for those that it does not have. ``items`` and ``out`` are sums
    over the run, and so are ``markers``, ``late`` and ``rejected``; the others are the current ones."""

    name: str
    items: int | None = None
    out: int | None = None
    markers: int | None = None
    marker: int | None = None
    lag: float | None = None
    keys: int | None = None
    state: int | None = None
    late: int | None = None
    rejected: int | None = None

    @property
    def cells(self) -> list[str]:
        """The cells as text, in the order of the columns."""
        counts = [_count(one) for one in (self.items, self.out, self.markers)]
        time = "" if self.marker is None else instant(self.marker)
        lag = "" if self.lag is None else f"{self.lag:,.1f} s"
        aside = [_count(one) for one in (self.late, self.rejected)]
        return [*counts, time, lag, _count(self.keys), "" if self.state is None else size_text(self.state), *aside]


class Query:
    """The rows of a query."""

    def __init__(self, plan: Plan, name: str, sends: str | None) -> None:
        self.name, self.batches, self.seconds = name, 0, 0.0
        self.straight = is_straight(plan)
        """Its items do not pass the stage."""
        self.sources = {leaf.source.name: Row(f"source {leaf.source.name}", 0) for leaf in plan.sources}
        self.stages = [_rows_of_stage(plan, number) for number in range(len(plan.stages))]
        self.gate = None if plan.gate is None else Row(f"{title(plan.gate)}, opened", None, None, 0)
        """How many markers came through."""
        self.sink = Row(f"channel {sends}" if sends is not None else f"sink {plan.sink.name}", None, 0, 0)

    def add(self, batch: Batch) -> None:
        self.batches += 1
        self.seconds = batch.seconds
        for source, row in self.sources.items():
            row.items = (row.items or 0) + batch.read.get(source, 0)
            row.marker = batch.newest.get(source, row.marker)
            row.late = (row.late or 0) + batch.late.get(source, 0)
            row.rejected = (row.rejected or 0) + batch.rejects.get(source, 0)
        for stage in batch.stages:
            rows = self.stages[stage.stage]
            rows[0].markers = (rows[0].markers or 0) + stage.markers
            rows[0].marker = stage.marker if stage.marker is not None else rows[0].marker
            rows[0].lag = batch.lag_of(stage.marker)
            rows[0].state = stage.bytes
            if not stage.operators and not self.straight:
                rows[0].items, rows[0].out = (rows[0].items or 0) + stage.items, (rows[0].out or 0) + stage.emitted
            for row, done in zip(rows, stage.operators, strict=False):
                row.items, row.out = (row.items or 0) + done.items, (row.out or 0) + done.emitted
                row.keys = done.keys
        if self.gate is not None and batch.gate is not None:
            self.gate.markers = batch.gate.executions
        self.sink.out = (self.sink.out or 0) + batch.written
        self.sink.markers = (self.sink.markers or 0) + batch.markers
        self.sink.marker = batch.marker if batch.marker is not None else self.sink.marker
        self.sink.lag = batch.lag_of(self.sink.marker)

    @property
    def rows(self) -> Iterator[Row]:
        yield from self.sources.values()
        for stage in self.stages:
            yield from stage
        if self.gate is not None:
            yield self.gate
        yield self.sink


def _rows_of_stage(plan: Plan, number: int) -> list[Row]:
    stage = plan.stages[number]
    reads = [f"channel {link.leaf.name}" for link in links(stage.region) if isinstance(link.leaf, FromChannel)]
    names = operators_of(stage) or ["closes blocks"]
    names[0] += f" of {', '.join(reads)}" if reads else ""
    return [Row(f"{number} {name}") for name in names]


class Table:
    """The rows of all queries of a program, updated with each micro-batch."""

    def __init__(self, program: Program) -> None:
        pairs = zip(program.segments, program.plans, strict=True)
        several = len(program.plans) > 1
        self.queries = {
            segment.name if several else "": Query(plan, segment.name, segment.sends) for segment, plan in pairs
        }

    def add(self, batch: Batch) -> None:
        """Count a micro-batch."""
        self.queries[batch.query].add(batch)

    def lines(self, width: int | None = None) -> list[str]:
        """The table as text, with columns as wide as necessary. ``width``: what a line has room for. Columns for which there is
        no room are left out, and names are cut; late and rejected rows stay."""
        rows: list[tuple[str, list[str]]] = [("", list(COLUMNS))]
        for query in self.queries.values():
            batches = counted(query.batches, "micro-batch", "micro-batches")
            last = f", {query.seconds:.1f} s the last" if query.batches else ""
            rows.append((f"{query.name}: {batches}{last}", []))
            rows += [(f"  {row.name}", row.cells) for row in query.rows]
        first = max(len(name) for name, cells in rows if cells)
        widths = [max((len(cells[at]) for _, cells in rows if cells), default=0) for at in range(len(COLUMNS))]
        shown = list(range(len(COLUMNS)))
        if width is not None:
            for name in LESS:
                if _width(min(first, NAMES), [widths[at] for at in shown]) <= width:
                    break
                shown.remove(COLUMNS.index(name))
            first = max(min(first, width - _width(0, [widths[at] for at in shown])), SHORTEST)
        return [
            "  ".join([_cut(name, first).ljust(first), *(cells[at].rjust(widths[at]) for at in shown)]).rstrip()
            if cells
            else name
            for name, cells in rows
        ]


def _width(first: int, others: Sequence[int]) -> int:
    return first + sum(2 + one for one in others)


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}\u2026"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"

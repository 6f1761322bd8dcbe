"""What the page of a single run shows: its plans as a picture, and what its metrics say of each operator.

It takes what a run reports after each epoch, on any backend, so a run does nothing more because somebody looks at it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from tracetypes.compiler.plan.live_page import Box, Column, LivePage, Speeds, Table, count_text, size_text
from tracetypes.compiler.plan.live_page import Row as PageRow
from tracetypes.compiler.plan.plan import FromChannel, FromSource, FromStage, MergeStep, Plan, Region, StatelessStep
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.store.metrics import Batch, instant
from tracetypes.compiler.store.metrics_table import Query, Row
from tracetypes.compiler.store.metrics_table import Table as Totals
from tracetypes.errors import counted
from tracetypes.nodes import title
from tracetypes.results import GateReport

__all__ = ["RunView"]

_QUERIES = (
    Column("query"),
    Column("micro-batches", is_number=True),
    Column("blocks/s", is_number=True, about="blocks that were closed at its end, a second"),
    Column("rows/s", is_number=True, about="rows of its sources, a second"),
    Column("lag", is_number=True, about="event time between the newest row and the last closed block"),
    Column("answered up to"),
    Column("last micro-batch", is_number=True),
)
_OPERATORS = (
    Column("operator"),
    Column("items", is_number=True, about="items that it took; aggregates of them, where they are combined before it"),
    Column("items/s", is_number=True),
    Column("emitted", is_number=True),
    Column("keys", is_number=True, about="of which it has a state"),
    Column("state", is_number=True, about="of its stage, in bytes"),
    Column("lag", is_number=True),
)
_GATES = (
    Column("gate"),
    Column("bound"),
    Column("markers", is_number=True, about="that came to it"),
    Column("executions", is_number=True, about="markers that it let through"),
    Column("saved", is_number=True, about="executions of what lies behind it that it saved"),
    Column("held", is_number=True, about="markers since the last execution"),
)
_ASIDE = (
    Column("source"),
    Column("rows", is_number=True),
    Column("late", is_number=True),
    Column("rejected", is_number=True),
)


@attrs.frozen(kw_only=True)
class _Operator:
    """A box whose place is known before anything runs. ``row``: its totals, None for an operator that is part of another
    one."""

    name: str
    title: str
    inputs: tuple[str, ...]
    kind: Literal["source", "operator", "gate", "sink"]
    query: Query
    row: Row | None


class RunView:
    """A run as its metrics tell of it. Queries report in threads of their own."""

    def __init__(self, program: Program, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._totals, self._clock = program.name, Totals(program), clock
        self._queries = tuple(self._totals.queries.values())
        self._operators = _operators(program, self._queries)
        pairs = zip(program.plans, self._queries, strict=True)
        self._titles = {query.name: title(plan.gate) for plan, query in pairs if plan.gate is not None}
        """Of the gates, by query."""
        self._lock, self._speeds, self._began = threading.Lock(), Speeds(clock=clock), clock()
        self._rows, self._gates = 0, dict[str, GateReport]()
        self.status = "starting"
        """What the run is doing."""

    def add(self, batch: Batch) -> None:
        """Count an epoch."""
        with self._lock:
            self._totals.add(batch)
            self._rows += batch.rows
            self.status = "running"
            if batch.gate is not None:
                self._gates[batch.query or self._queries[0].name] = batch.gate

    def page(self) -> LivePage:
        """What is known now."""
        with self._lock:
            speeds = {one.name: self._speed(one.name, one.row) for one in self._operators}
            operators = tuple(_operator_row(one, speeds[one.name]) for one in self._operators)
            tables = [
                Table(title="Queries", columns=_QUERIES, rows=tuple(map(self._query_row, self._queries))),
                Table(title="Operators", columns=_OPERATORS, rows=operators),
            ]
            if self._titles:
                tables.append(Table(title="Gates", columns=_GATES, rows=tuple(map(self._gate_row, self._titles))))
            tables.append(Table(title="Late and rejected rows", columns=_ASIDE, rows=self._aside_rows()))
            heading = f"{self._name}: {self.status}, {counted(self._rows, 'row')}, {self._clock() - self._began:,.0f} s"
            boxes = tuple(self._box(one, speeds[one.name]) for one in self._operators)
            return LivePage(heading=heading, boxes=boxes, tables=tuple(tables))

    # --------------------------------------------------------------------------------------------------- inside

    def _speed(self, name: str, row: Row | None) -> float:
        count = 0 if row is None else row.out if row.items is None else row.items
        return self._speeds.of(name, count or 0)

    def _box(self, one: _Operator, speed: float) -> Box:
        row, lines, facts = one.row, list[str](), list[str]()
        if one.kind == "gate":
            gate = self._gates.get(one.query.name)
            if gate is not None:
                lines = [f"{gate.executions:,} of {gate.markers:,} markers", f"{gate.saved:,} executions saved"]
        elif row is not None:
            count = (row.out if row.items is None else row.items) or 0
            lines = [f"{count:,} {'items' if one.kind == 'operator' else 'rows'}, {count_text(speed)}/s"]
            if row.late or row.rejected:
                lines.append(f"{row.late or 0:,} late, {row.rejected or 0:,} rejected")
            if one.kind == "sink":
                blocks = self._speeds.of(f"{one.name} blocks", row.markers or 0)
                lines.append(f"{count_text(blocks)} blocks/s" + ("" if row.lag is None else f", lag {_seconds(row.lag)}"))
            if row.keys is not None:
                state = f", {size_text(row.state)}" if row.state is not None else ""
                lines.append(f"{counted(row.keys, 'key')}{state}")
            if row.marker is not None:
                facts = [f"{'read' if one.kind == 'source' else 'answered'} up to {instant(row.marker)}"]
        else:
            facts = ["It is part of its reader: the run does not count its items."]
        facts = [*lines, *facts, f"query {one.query.name}"]
        return Box(
            name=one.name,
            title=one.title,
            inputs=one.inputs,
            lines=tuple(lines),
            facts=tuple(facts),
            words=(one.query.name, one.title),
            kind=one.kind,
            look="dashed" if row is None and one.kind == "operator" else "plain",
        )

    def _query_row(self, query: Query) -> PageRow:
        sink, read = query.sink, sum(one.items or 0 for one in query.sources.values())
        cells = (
            query.name,
            f"{query.batches:,}",
            count_text(self._speeds.of(f"{query.name} blocks", sink.markers or 0)),
            count_text(self._speeds.of(f"{query.name} rows", read)) if query.sources else "",
            _seconds(sink.lag),
            "" if sink.marker is None else instant(sink.marker),
            f"{query.seconds:,.2f} s" if query.batches else "",
        )
        return PageRow(name=query.name, cells=cells, words=query.name)

    def _gate_row(self, query: str) -> PageRow:
        gate = self._gates.get(query)
        counts = ("",) * 4 if gate is None else tuple(f"{n:,}" for n in (gate.markers, gate.executions, gate.saved, gate.held))
        return PageRow(name=query, cells=(self._titles[query], "" if gate is None else gate.bound, *counts), words=query)

    def _aside_rows(self) -> tuple[PageRow, ...]:
        """By source. One that is read several times counts its late and rejected rows at one reading."""
        rows: dict[str, list[int]] = {}
        for query in self._queries:
            for name, one in query.sources.items():
                read, late, rejected = rows.get(name, [0, 0, 0])
                rows[name] = [max(read, one.items or 0), late + (one.late or 0), rejected + (one.rejected or 0)]
        return tuple(PageRow(name=name, cells=(name, *(f"{n:,}" for n in counts)), words=name) for name, counts in rows.items())


def _operator_row(one: _Operator, speed: float) -> PageRow:
    row = one.row or Row("")
    cells = (
        one.title,
        "" if row.items is None else f"{row.items:,}",
        "" if row.items is None else count_text(speed),
        *("" if count is None else f"{count:,}" for count in (row.out, row.keys)),
        "" if row.state is None else size_text(row.state),
        _seconds(row.lag),
    )
    return PageRow(name=one.name, cells=cells, words=f"{one.query.name} {one.title}")


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{count_text(seconds)} s"


def _operators(program: Program, queries: Sequence[Query]) -> tuple[_Operator, ...]:
    """All boxes of a program, each behind those that it reads."""
    found: list[_Operator] = []
    ends: dict[str, str] = {}
    """The last box of each channel."""
    for segment, plan, query in zip(program.segments, program.plans, queries, strict=True):
        found += _Plan(plan, query, ends).operators
        if segment.sends is not None:
            ends[segment.sends] = found[-1].name
    return tuple(found)


class _Plan:
    """The boxes of a plan. ``channels``: the boxes that end in the channels before it."""

    def __init__(self, plan: Plan, query: Query, channels: dict[str, str]) -> None:
        self.query, self.channels, self.operators = query, channels, list[_Operator]()
        ends: list[str] = []
        for stage in plan.stages:
            end = self._region(stage.region, ends)
            rows = query.stages[stage.number]
            for step, row in zip(stage.steps, rows, strict=False):
                end = self._add(title(step.node), (end,), "operator", row)
            ends.append(end)
        end = self._region(plan.region, ends)
        if plan.gate is not None:
            end = self._add(title(plan.gate), (end,), "gate", query.gate)
        self._add(query.sink.name, (end,), "sink", query.sink)

    def _region(self, region: Region, stages: Sequence[str]) -> str:
        """The last box of a region."""
        names: list[str] = []
        for node in region.nodes:
            match node:
                case FromSource():
                    row = self.query.sources[node.source.name]
                    names.append(self._add(title(node.source), (), "source", row))
                case FromChannel():
                    names.append(self.channels[node.name])
                case FromStage():
                    names.append(stages[node.stage])
                case StatelessStep():
                    names.append(self._add(title(node.node), (names[node.upstream],), "operator", None))
                case MergeStep():
                    names.append(self._add("merge", tuple(names[one] for one in node.upstreams), "operator", None))
        return names[-1]

    def _add(
        self, title: str, inputs: tuple[str, ...], kind: Literal["source", "operator", "gate", "sink"], row: Row | None
    ) -> str:
        name = f"{self.query.name}/{len(self.operators)}"
        one = _Operator(name=name, title=title, inputs=inputs, kind=kind, query=self.query, row=row)
        self.operators.append(one)
        return name

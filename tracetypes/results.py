"""The result of a run."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from tracetypes.errors import counted
from tracetypes.records import show
from tracetypes.rejects import SideOutputRow

__all__ = ["ROWS", "GateReport", "Result"]


ROWS: Final = 10
"""How many rows of each output are shown."""


@attrs.frozen(kw_only=True)
class GateReport:
    """What a gate did since its checkpoint began. ``markers``: those that came to it. ``executions``: those that it let through.
    ``held``: markers since the last of these. ``bound``: as text."""

    bound: str
    markers: int
    executions: int
    held: int

    @property
    def saved(self) -> int:
        """The executions of what lies behind the gate that it saved so far."""
        return self.markers - self.executions


@attrs.frozen(kw_only=True, repr=False)
class Result:
    """What a run did. ``rows``: rows that its sources read. ``read``: the same by source, once for each reading of the
    source (a dataflow that uses late or rejected rows as streams reads a source again). ``epochs``: commits.
    ``late`` and ``rejects``: counts by source. ``late_rows`` and ``rejected_rows``: these rows, if outputs are
    lists. ``outputs``: the rows of lists, by sink. ``stopped``: the run was stopped before its end. ``drained``: its
    sources have ended and every open block is answered. ``all_rejected``: sources of which every row was rejected
    (``TT241``), in this run and before it under the same checkpoint. ``open``: how many keys have open windows, by operator,
    where sources have markers in band or the run does not drain. ``differences``: operators whose traced form differed from
    Python (``TT240``). ``faster``: operators that would have run in machine code with the extra ``fast``. ``gates``: what
    each gate did, by the name of its channel. ``spent``: where its seconds went, by phases that follow each other and add
    up to all of the time. ``backend``: ``"spark"`` or ``"local"``. ``places``: where outputs went that are no lists, by sink."""

    rows: int
    epochs: int
    markers: int
    seconds: float
    read: Mapping[str, int]
    late: Mapping[str, int]
    rejects: Mapping[str, int]
    outputs: Mapping[str, Sequence[Any]]
    late_rows: Sequence[SideOutputRow] = ()
    rejected_rows: Sequence[SideOutputRow] = ()
    stopped: bool = False
    drained: bool = False
    differences: Sequence[str] = ()
    all_rejected: Sequence[str] = ()
    open: Mapping[str, int] = attrs.Factory(dict)
    faster: Sequence[str] = ()
    gates: Mapping[str, GateReport] = attrs.Factory(dict)
    spent: Mapping[str, float] = attrs.Factory(dict)
    backend: str = ""
    places: Mapping[str, str] = attrs.Factory(dict)

    @property
    def _summary(self) -> str:
        aside = f"{sum(self.late.values()):,} late, {sum(self.rejects.values()):,} rejected"
        verb = "stopped: " if self.stopped else ""
        return f"{verb}{counted(self.rows, 'row')} in {self.seconds:.1f} s, {aside}"

    def __repr__(self) -> str:
        """The first rows of each output."""
        lines = [self._summary]
        for name, place in self.places.items():
            lines.append(f"{name}: in {place}")
        for name, rows in self.outputs.items():
            lines.append(f"{name}: {counted(len(rows), 'row')}")
            lines += [f"    {show(row, 100)}" for row in rows[:ROWS]]
            lines += [f"    and {len(rows) - ROWS:,} more"] if len(rows) > ROWS else []
        lines += [f"TT240: {name} differed from Python" for name in self.differences]
        lines += [f"TT241: each row of source {name!r} was rejected" for name in self.all_rejected]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The first rows of each output, for notebooks."""
        parts = [f"<p>{self._summary}</p>"]
        parts += [f"<p>{html.escape(name)}: in {html.escape(place)}</p>" for name, place in self.places.items()]
        for name, rows in self.outputs.items():
            cells = "".join(f"<tr>{_cells(row)}</tr>" for row in rows[:ROWS])
            more = f"<p>and {len(rows) - ROWS:,} more</p>" if len(rows) > ROWS else ""
            parts.append(f"<h4>{html.escape(name)}</h4><table>{_head(rows)}{cells}</table>{more}")
        return "".join(parts)


def _fields(row: Any) -> dict[str, Any]:
    if attrs.has(type(row)):
        return {field.name: getattr(row, field.name) for field in attrs.fields(type(row))}
    if isinstance(row, tuple) and len(row) == 2:
        key, value = row
        return {"key": key, **_fields(value)}
    return {"value": row}


def _head(rows: Sequence[Any]) -> str:
    return "".join(f"<th>{html.escape(name)}</th>" for name in _fields(rows[0])) if rows else ""


def _cells(row: Any) -> str:
    return "".join(f"<td>{html.escape(str(value))}</td>" for value in _fields(row).values())

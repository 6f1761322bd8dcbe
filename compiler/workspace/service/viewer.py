"""What the page of a service shows to one viewer: the operators that he may see as boxes, and what flows and owners cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from tracetypes.compiler.plan.live_page import (
    Box,
    Column,
    Drawing,
    LivePage,
    Row,
    Shown,
    Speeds,
    Table,
    count_text,
    size_text,
)
from tracetypes.compiler.workspace.merged_graph import OperatorView, box_of
from tracetypes.compiler.workspace.service.process_tree import ProcessorSeconds
from tracetypes.errors import counted

__all__ = ["Viewer"]

_FLOWS: Final = (
    Column("flow"),
    Column("state"),
    Column("operators", is_number=True, about="that it needs"),
    Column("shared", is_number=True, about="operators that other flows need, too"),
    Column("rows", is_number=True, about="that its sources have read since its submit"),
    Column("rows/s", is_number=True),
    Column("late", is_number=True),
    Column("rejected", is_number=True),
    Column("processor", is_number=True, about="seconds, with its part of what it shares"),
    Column("saved", is_number=True, about="processor seconds that it saves by sharing"),
    Column("busy", is_number=True, about="its part of one processor"),
    Column("notes"),
)
_OWNERS: Final = (
    Column("owner"),
    Column("flows", is_number=True),
    Column("processor", is_number=True),
    Column("saved", is_number=True),
    Column("busy", is_number=True),
)
_OPERATORS: Final = (
    Column("operator"),
    Column("flows"),
    Column("rows", is_number=True, about="that it has sent"),
    Column("rows/s", is_number=True),
    Column("lag", is_number=True, about="event time between its newest row and its last closed block"),
    Column("kept", is_number=True, about="bytes that its channel keeps for its readers"),
    Column("processor", is_number=True),
    Column("busy", is_number=True),
    Column("starts", is_number=True, about="more than 1: it has failed, or was stopped for a moment"),
    Column("last error"),
)
_SECONDS: Final = (
    Column("processor seconds of"),
    Column("seconds", is_number=True),
    Column("busy", is_number=True),
)


class Viewer:
    """What one viewer sees, from one look to the next. ``is_administrator``: he sees owners by their colours, and what belongs to
    no operator. Others see their own flows, and one grey. The boxes have numbers of their own: gaps in them would tell of flows
    of others."""

    def __init__(self, *, is_administrator: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_administrator = is_administrator
        self._drawing, self._speeds, self._lock = Drawing(), Speeds(clock=clock), threading.Lock()
        self._numbers, self._colours = dict[str, int](), dict[str, int]()

    def shown(
        self, operators: Sequence[OperatorView], flows: Sequence[Mapping[str, Any]], seconds: ProcessorSeconds | None = None
    ) -> Shown:
        """The page as HTML. ``flows``: as the service tells of them. ``seconds``: for an administrator."""
        with self._lock:
            return self._drawing.of(self._page(operators, flows, seconds))

    def _page(
        self, operators: Sequence[OperatorView], flows: Sequence[Mapping[str, Any]], seconds: ProcessorSeconds | None
    ) -> LivePage:
        for one in operators:
            self._numbers.setdefault(one.name, len(self._numbers))
        self._speeds.keep(
            [
                *(f"{what} {one.name}" for one in operators for what in ("rows", "seconds")),
                *(f"{what} of {self._name(one)}" for one in flows for what in ("rows", "seconds")),
                *self._colours,
                *("all", "flows", "left", "workers", "http"),
            ]
        )
        drawn = [self._operator(one) for one in operators]
        tables = [
            Table(title="Flows", columns=_FLOWS, rows=tuple(map(self._flow, flows))),
            Table(title="Operators", columns=_OPERATORS, rows=tuple(row for _, row in drawn), is_long=True),
        ]
        if self._is_administrator:
            tables.insert(1, Table(title="Owners", columns=_OWNERS, rows=tuple(self._owners(flows))))
        if seconds is not None:
            tables.append(Table(title="Processor seconds", columns=_SECONDS, rows=tuple(self._seconds(seconds))))
        heading = f"Workspace: {counted(len(flows), 'flow')}, {counted(len(operators), 'operator')}"
        return LivePage(heading=heading, boxes=tuple(box for box, _ in drawn), tables=tuple(tables))

    # --------------------------------------------------------------------------------------------------- inside

    def _operator(self, one: OperatorView) -> tuple[Box, Row]:
        speed = self._speeds.of(f"rows {one.name}", one.written)
        busy = self._speeds.of(f"seconds {one.name}", one.seconds)
        box = attrs.evolve(
            box_of(one, speed, busy),
            name=str(self._numbers[one.name]),
            inputs=tuple(str(self._numbers[each]) for each in one.inputs),
            stripes=self._stripes(one),
        )
        runs = one.state is not None
        cells = (
            one.title,
            ", ".join([*one.flows, *([f"{one.others} of others"] if one.others else [])]),
            f"{one.written:,}" if runs else "",
            count_text(speed) if runs else "",
            "" if one.lag is None else f"{count_text(one.lag)} s",
            size_text(one.kept) if one.kept else "",
            f"{one.seconds:,.1f} s" if runs else "",
            f"{busy:.0%}" if runs else "",
            f"{one.starts}" if runs else "",
            one.error or "",
        )
        words = " ".join(box.words)
        return box, Row(name=box.name, cells=cells, words=words, is_failed=one.state == "failed")

    def _stripes(self, one: OperatorView) -> tuple[int | None, ...]:
        if self._is_administrator:
            return tuple(self._colour(owner) for owner in dict.fromkeys(flow.partition(".")[0] for flow in one.flows))
        is_foreign = one.others or any("." in flow for flow in one.flows)
        return (0, None) if is_foreign else (0,)

    def _colour(self, owner: str) -> int:
        return self._colours.setdefault(owner, len(self._colours))

    def _name(self, flow: Mapping[str, Any]) -> str:
        return f"{flow['owner']}.{flow['name']}" if self._is_administrator else str(flow["name"])

    def _flow(self, one: Mapping[str, Any]) -> Row:
        name = self._name(one)
        speed = self._speeds.of(f"rows of {name}", one["rows"])
        busy = self._speeds.of(f"seconds of {name}", one["seconds"])
        cells = (
            name,
            one["state"],
            *(f"{one[what]:,}" for what in ("operators", "shared", "rows")),
            count_text(speed),
            *(f"{one[what]:,}" for what in ("late", "rejects")),
            *(f"{one[what]:,.1f} s" for what in ("seconds", "saved")),
            f"{busy:.0%}",
            " ".join(filter(None, [one["error"], *one["notes"]])),
        )
        stripe = self._colour(one["owner"]) if self._is_administrator else 0
        return Row(
            name=name, cells=cells, words=name, is_failed=one["state"] in ("failed", "stopped"), has_stripe=True, stripe=stripe
        )

    def _owners(self, flows: Sequence[Mapping[str, Any]]) -> Iterable[Row]:
        owners: dict[str, list[Mapping[str, Any]]] = {}
        for one in flows:
            owners.setdefault(one["owner"], []).append(one)
        for owner, some in owners.items():
            seconds, saved = (sum(one[what] for one in some) for what in ("seconds", "saved"))
            cells = (owner, f"{len(some)}", f"{seconds:,.1f} s", f"{saved:,.1f} s", f"{self._speeds.of(owner, seconds):.0%}")
            yield Row(name=owner, cells=cells, words=owner, has_stripe=True, stripe=self._colour(owner))

    def _seconds(self, seconds: ProcessorSeconds) -> Iterable[Row]:
        lines = (
            ("flows", "operators of the flows above", seconds.flows),
            ("left", "operators of flows that have left", seconds.left),
            ("workers", "no operator, in the processes that run them", seconds.workers),
            ("http", "no operator, in the process that speaks HTTP", seconds.http),
            ("all", "all processes", seconds.total),
        )
        for name, title, amount in lines:
            yield Row(name=name, cells=(title, f"{amount:,.1f} s", f"{self._speeds.of(name, amount):.0%}"))

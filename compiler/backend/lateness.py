"""The warnings of a run about the times of its rows: of which many are late, and which jumped far ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import attrs

from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.runtime.messages import Jump
from tracetypes.compiler.runtime.side_rows import Lateness
from tracetypes.compiler.store.metrics import Batch, instant
from tracetypes.markers import EventTime

__all__ = ["LateWatch"]

SHARE, FEW = 0.01, 100
"""Of the rows, from which on late ones are too many to be meant; rows from which a run says so before its end."""

YEAR = 366 * 86_400_000_000
"""Microseconds ahead of the clock, from which on a time is not meant."""

SHOWN = 200
"""Characters of a row that is named."""

WORDS = {"name": "by name", "modified": "by modification time", "time": "by the least time in them"}


@attrs.define(eq=False)
class LateWatch:
    """Warns of late rows (``TT242``), while a run goes on or at its end. Warns of each jump of time, and of times far ahead
    of the clock (``TT226``).

    ``markers``: of sources with event time; ``orders``: of sources
    with several files; ``shares``: late rows by source, and the rows that they are part of."""

    markers: Mapping[str, EventTime]
    orders: Mapping[str, str]
    notify: Callable[[str], None]
    clock: Callable[[], int] = lambda: time.time_ns() // 1000
    """Microseconds since the epoch."""
    _warned: dict[str, str] = attrs.field(init=False, factory=dict)
    """The advice that was given, by source."""
    _ahead: set[str] = attrs.field(init=False, factory=set)
    _known: dict[tuple[str, str], Lateness] = attrs.field(init=False, factory=dict)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    @classmethod
    def of(cls, program: Program, orders: Mapping[str, str], notify: Callable[[str], None]) -> LateWatch:
        """For a program."""
        markers: dict[str, EventTime] = {}
        for leaf in (leaf for plan in program.plans for leaf in plan.sources):
            if isinstance(leaf.source.markers, EventTime):
                markers[leaf.source.name] = leaf.source.markers
        return cls(markers, orders, notify)

    def look(self, summary: Summary, batch: Batch) -> None:
        """Take an epoch."""
        with self._lock:
            for source, newest in batch.newest.items():
                if source not in self._ahead and newest > self.clock() + YEAR:
                    self._ahead.add(source)
                    self.notify(_ahead_of_clock(source, newest))
            for source, jump in batch.jumps:
                self.notify(_jumped(source, jump, self.markers[source].period))
            for source, lateness in batch.lateness.items():
                self._known[batch.query, source] = lateness
            for source, count in summary.late.items():
                if count >= FEW and source not in self._warned and self._is_much(summary, source):
                    self._warned[source] = self._advice(source)
                    self.notify(self._text(summary, source, "so far"))

    def end(self, summary: Summary) -> None:
        """The run is over. What was told is told again only if something else helps now."""
        with self._lock:
            for source in summary.late:
                if self._is_much(summary, source) and self._warned.get(source) != self._advice(source):
                    self.notify(self._text(summary, source, "in the whole run"))

    @staticmethod
    def _is_much(summary: Summary, source: str) -> bool:
        return summary.late[source] > SHARE * summary.rows_of(source)

    def _text(self, summary: Summary, source: str, when: str) -> str:
        count, rows = summary.late[source], summary.rows_of(source)
        mine = [one for (_, name), one in self._known.items() if name == source]
        own, total = sum(one.own for one in mine), sum(one.rows for one in mine)
        order = self.orders.get(source)
        why = "newer rows lie before them"
        if total and 2 * own >= total:
            why = "newer rows lie before them in their own file or partition"
        elif total and order is not None:
            why = f"newer rows lie in files before theirs; the files are read {WORDS[order]}"
        verb = "is" if count == 1 else "are"
        return (
            f"TT242 warning: {count:,} of {rows:,} rows of source {source!r} {verb} late {when} ({count / rows:.1%})\n"
            f"    because:  {why}\n"
            f"    fix:      {self._advice(source)}"
        )

    def _advice(self, source: str) -> str:
        """What would keep the late rows of a source, as far as it is known."""
        mine = [one for (_, name), one in self._known.items() if name == source]
        own, total = sum(one.own for one in mine), sum(one.rows for one in mine)
        order = self.orders.get(source)
        fixes = ["--max-late 0.01 stops such a run"]
        how = self.markers.get(source)
        if mine and how is not None:
            enough = max(one.behind for one in mine) + how.period + how.delay
            fixes.insert(0, f"every(..., delay={_seconds(enough)}) keeps all of them (it is {_seconds(how.delay)})")
        if order is not None and order != "time" and 2 * own < total:
            fixes.insert(0, f"--order {source}=time reads the files by the times in them")
        if how is not None and how.ahead is None:
            fixes.append("if one row with a wild time made the others late, every(..., ahead=SPAN) holds such rows back")
        return "; ".join(fixes)


def _jumped(source: str, jump: Jump, period: int) -> str:
    before, after, row = jump
    row = row if len(row) <= SHOWN else f"{row[:SHOWN]}..."
    return (
        f"TT226 warning: event time of source {source!r} jumps from {instant(before)} to {instant(after)}, over "
        f"{(after - before) // period:,} markers\n"
        f"    at:       {row}\n"
        f"    because:  the row is so much newer than all before it; rows of the time between are late from here on\n"
        f"    fix:      nothing, if it was a pause; otherwise correct the row, or the unit of every(unit=...)"
    )


def _ahead_of_clock(source: str, newest: int) -> str:
    return (
        f"TT226 warning: source {source!r} has a row of {instant(newest)}, more than a year ahead of the clock\n"
        f"    fix:      nothing, if such times are meant; otherwise correct the row, or the unit of every(unit=...)"
    )


def _seconds(micros: int) -> str:
    """As a parameter is written."""
    return f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".")

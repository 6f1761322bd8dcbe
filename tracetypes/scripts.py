"""Scripts for test sources: rows, markers, the ends of micro-batches, and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs

from tracetypes.errors import UsageError
from tracetypes.formats import JsonLines, Layout
from tracetypes.markers import EventTime, Time, micros_from
from tracetypes.nodes import Source
from tracetypes.parsing import Row, text_parser
from tracetypes.records import UNIT, Mismatch, show
from tracetypes.sources import reader

__all__ = ["Crash", "Script", "Step", "Victim", "When", "entries"]

Victim: TypeAlias = Literal["worker", "driver", "jvm", "raise"]
When: TypeAlias = Literal["reading", "written", "committed"]


@attrs.frozen
class Crash:
    """The end of a process, once. ``victim``: the Python worker that reads, the driver or Spark's Java process, by
    SIGKILL; or ``raise`` for an exception. ``when``: ``reading``, in the middle of the step; ``written``, when the
    output has the step's rows and no record says so; ``committed``, when our commit is written and Spark does not
    know."""

    victim: Victim
    when: When = "reading"

    def __str__(self) -> str:
        return f"crash({self.victim}, {self.when})"


@attrs.frozen
class _Given:
    """A row. ``time``: when it happened, in place of what the source says; ``text``: a line that has yet to be parsed."""

    value: Any = None
    time: Time | None = None
    text: str | None = None


@attrs.frozen
class _Beat:
    time: Time


Step: TypeAlias = tuple["Row | Crash", ...]
"""What a source does in one micro-batch."""


@attrs.frozen
class Script:
    """What one source does. A script never changes: each call gives a longer one.

    ::

        Script().rows(Reading(1, 20.5)).step().rows(Reading(2, 21.0)).crash("worker").rows(Reading(3, 19.0))
    """

    steps: tuple[tuple[_Given | _Beat | Crash, ...], ...] = ((),)
    time: Time | None = None

    def _add(self, *entries: _Given | _Beat | Crash) -> Script:
        return attrs.evolve(self, steps=(*self.steps[:-1], (*self.steps[-1], *entries)))

    def rows(self, *rows: Any) -> Script:
        """Rows in this order: values, or pairs ``(key, value)`` if the rows have a key column."""
        return self._add(*(_Given(row, self.time) for row in rows))

    def lines(self, *lines: str) -> Script:
        """Rows as lines of JSON, for example rows that do not fit."""
        return self._add(*(_Given(time=self.time, text=line) for line in lines))

    def at(self, time: Time | None) -> Script:
        """The rows that follow happen at this event time (in the unit of the source's markers, or an aware datetime),
        whatever their values say. None: their values say it again."""
        return attrs.evolve(self, time=time)

    def marker(self, time: Time) -> Script:
        """A marker in band. For a source with event time a heartbeat: "all that happened before this time has been
        sent". ``time``: as for :meth:`at`."""
        return self._add(_Beat(time))

    def step(self) -> Script:
        """End a micro-batch. The n-th steps of all sources are one micro-batch."""
        return attrs.evolve(self, steps=(*self.steps, ()))

    def crash(self, victim: Victim, *, when: When = "reading") -> Script:
        """End a process at this point of the source: see :class:`Crash`. Happens once: the step runs again without it.

        Raises :class:`UsageError` ``TT407`` for an unknown victim or moment, or if no worker works any more at that
        moment.
        """
        if victim not in get_args(Victim) or when not in get_args(When):
            raise UsageError(
                "TT407",
                f"crash({show(victim)}, when={show(when)})",
                fix=f"the victims are {', '.join(get_args(Victim))}, the moments {', '.join(get_args(When))}",
            )
        if victim == "worker" and when != "reading":
            raise UsageError("TT407", f"no worker is at work when a step is {when}", fix="crash the driver, or jvm")
        return self._add(Crash(victim, when))

    def __str__(self) -> str:
        return " | ".join(" ".join(map(_text, step)) or "nothing" for step in self.steps)


def _text(entry: _Given | _Beat | Crash) -> str:
    match entry:
        case Crash():
            return str(entry)
        case _Beat(time=time):
            return f"marker({time})"
        case _Given(value=value, text=text, time=time):
            moment = "" if time is None else f"@{time}"
            return (show(value, 60) if text is None else text) + moment


def entries(script: Script, source: Source, layout: Layout) -> Sequence[Step]:
    """What a source does in each micro-batch, its rows read."""
    read, parse = reader(source).read, text_parser(JsonLines(), layout, None)
    unit = source.markers.unit

    def micros(time: Time) -> int:
        try:
            return micros_from(time, unit)
        except ValueError as error:
            raise UsageError(
                "TT407", f"the script of source {source.name!r}: {error}", fix="give a number, or an aware datetime"
            ) from None

    def row(entry: _Given) -> Row:
        if layout.keyed and entry.text is None and not (isinstance(entry.value, tuple) and len(entry.value) == 2):
            raise UsageError(
                "TT407", f"the script of source {source.name!r}: {show(entry.value)}", fix="give pairs (key, value)"
            )
        try:
            pair = parse(entry.text) if entry.text is not None else entry.value if layout.keyed else (UNIT, entry.value)
            row = read(*pair)
        except Mismatch as error:
            return Row("reject", reason=str(error))
        if entry.time is None or row.kind != "item" or not isinstance(source.markers, EventTime):
            return row
        return attrs.evolve(row, time=micros(entry.time))

    def one(entry: _Given | _Beat | Crash) -> Row | Crash:
        match entry:
            case Crash():
                return entry
            case _Beat(time=time):
                return Row("marker", time=micros(time))
            case _Given():
                return row(entry)

    return [tuple(map(one, step)) for step in script.steps]

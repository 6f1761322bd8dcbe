"""Bounds of gates: when enough has changed for a step to be worth its execution (Flux, section 2).

A gate (:meth:`tracetypes.Stream.gate`, :meth:`tracetypes.Stream.latest`) looks at the **container** of its stream, which has the
latest value of each key, and decides at each marker whether it lets the marker through. What lies behind it runs once for each
marker that is let through: that is an **execution**. A bound says when. The vectors of the paper are functions here:

=====================  =========  ===========================================================================
here                   the paper  reached when
=====================  =========  ===========================================================================
:func:`time`           theta      so much event time has passed since the last execution
:func:`sequence`       sigma      so many items have come since then, or so many percent of the keys were written
:func:`value`          nu         the container is so far from what it was then
:func:`at_least_once`             a predecessor has ever written
:func:`period`                    a multiple of a period of event time was passed: a bound ``& period(...)`` is looked at so often
=====================  =========  ===========================================================================

``a & b`` is reached when both are, ``a | b`` when one is; ``&`` binds more tightly. :func:`all_of`, :func:`at_least_one` and
:func:`majority` take any number. What was counted begins anew at each execution. Every bound is a function of the trace.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from tracetypes.calls import need_function
from tracetypes.errors import UsageError
from tracetypes.impacts import Variation
from tracetypes.markers import Span, show_span, span_as_micros
from tracetypes.records import show

__all__ = [
    "ALWAYS",
    "AtLeast",
    "AtLeastOnce",
    "Bound",
    "Changed",
    "Decision",
    "Divergence",
    "Elements",
    "Impact",
    "Keys",
    "Magnitude",
    "Measure",
    "Observation",
    "Peak",
    "Period",
    "Sequence",
    "Time",
    "Updates",
    "Value",
    "all_of",
    "at_least_once",
    "at_least_one",
    "majority",
    "parts_of",
    "period",
    "sequence",
    "time",
    "value",
]

Rows: TypeAlias = Callable[[Any], bool]
"""Which keys of a container count."""

Columns: TypeAlias = tuple[str, ...]
"""Columns of the values; none stands for the value itself, or for all of its columns that are numbers."""


# ------------------------------------------------------------------------------------------------------ measures


@final
@attrs.frozen
class Updates:
    """How many items have come since the last execution."""

    rows: Rows | None = None


@final
@attrs.frozen
class Changed:
    """How many keys they were written to."""

    rows: Rows | None = None


@final
@attrs.frozen
class Keys:
    """How many keys the container has."""

    rows: Rows | None = None


@final
@attrs.frozen
class Elements:
    """How many numbers the container has: its keys times the columns."""

    columns: Columns
    rows: Rows | None = None


@final
@attrs.frozen
class Divergence:
    """How far the numbers of the container are from those at the last execution: the sum of the absolute differences, or the
    largest of them. The number of a new key was 0."""

    columns: Columns
    rows: Rows | None = None
    largest: bool = False


@final
@attrs.frozen
class Peak:
    """The largest absolute difference between a number that was written since the last execution and that of its key then, also
    if a later write took it back."""

    columns: Columns
    rows: Rows | None = None


@final
@attrs.frozen
class Magnitude:
    """The sum of the absolute numbers of the container at the last execution."""

    columns: Columns
    rows: Rows | None = None


@final
@attrs.frozen
class Impact:
    """How much the numbers of the container have changed since the last execution, or ``since_marker`` since the last marker, by
    a function."""

    function: Variation[float, Any]
    columns: Columns
    rows: Rows | None = None
    since_marker: bool = False


Measure: TypeAlias = Updates | Changed | Keys | Elements | Divergence | Peak | Magnitude | Impact
"""A number that a gate knows of its container. Each is the same in whatever order the items of a block came."""


# ----------------------------------------------------------------------------------------------------- decisions


@attrs.frozen
class Observation:
    """What a bound sees at a marker. Times in microseconds of event time.

    ``previous``: the marker before; ``execution``: the last one that was let through; None if there is none. ``measures``: what
    the bound has asked for. ``outside``: looks at the machine (``"clock"``, ``"load"``); what it returns is recorded with the
    decision, and a decision that is made again gets it from the record.
    """

    marker: int
    previous: int | None
    execution: int | None
    measures: Mapping[Measure, float]
    outside: Callable[[str], float]


@attrs.frozen
class Decision:
    """Whether a bound is reached, and what it has to know at the next marker: plain values, for JSON."""

    reached: bool
    state: Any = None


class Bound(ABC):
    """When a gate lets a marker through. ``a & b`` and ``a | b`` are bounds too.

    Subclasses are frozen. A bound is a function of what it sees and of its own state, so a gate may ask it again.
    """

    __slots__ = ()

    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """What the bound has to be told of the container."""

    def fresh(self) -> Any:
        """Its state before the first marker: plain values, for JSON."""
        return None

    @abstractmethod
    def decide(self, seen: Observation, state: Any) -> Decision:
        """Is it reached at this marker? It is asked at every marker."""

    @property
    def needs_latest(self) -> bool:
        """Must it be known which value of a key is the latest?"""
        return any(isinstance(one, Divergence | Peak | Magnitude | Impact) for one in self.measures())

    def __and__(self, other: Bound) -> Bound:
        return all_of(self, other)

    def __or__(self, other: Bound) -> Bound:
        return at_least_one(self, other)

    def __bool__(self) -> bool:
        raise UsageError(
            "TT126", f"{self} was used as a condition", fix="combine bounds by & and |, or by all_of, at_least_one and majority"
        )


@final
@attrs.frozen(repr=False)
class Time(Bound):
    """See :func:`time`. ``micros``: microseconds."""

    micros: int

    def __repr__(self) -> str:
        return f"time({show_span(self.micros)})"

    def measures(self) -> tuple[Measure, ...]:
        return ()

    def decide(self, seen: Observation, state: Any) -> Decision:
        return Decision(seen.execution is None or seen.marker - seen.execution >= self.micros)


@final
@attrs.frozen(repr=False)
class Sequence(Bound):
    """See :func:`sequence`."""

    count: int | None
    percent: float | None
    of: int | None
    rows: Rows | None

    def __repr__(self) -> str:
        shown = [f"{self.count}" if self.percent is None else f"percent={self.percent:g}"]
        shown += [] if self.of is None else [f"of={self.of}"]
        return f"sequence({', '.join([*shown, *_shown_rows(self.rows)])})"

    def measures(self) -> tuple[Measure, ...]:
        if self.percent is None:
            return (Updates(self.rows),)
        return (Changed(self.rows), Keys(self.rows)) if self.of is None else (Changed(self.rows),)

    def decide(self, seen: Observation, state: Any) -> Decision:
        if self.percent is None:
            return Decision(seen.measures[Updates(self.rows)] >= (self.count or 0))
        changed = seen.measures[Changed(self.rows)]
        whole = seen.measures[Keys(self.rows)] if self.of is None else self.of
        return Decision(changed > 0 and 100 * changed >= self.percent * whole)


@final
@attrs.frozen(repr=False)
class Value(Bound):
    """See :func:`value`."""

    units: float | None
    percent: float | None
    against: float | None
    columns: Columns
    rows: Rows | None
    largest: bool
    per_write: bool

    def __repr__(self) -> str:
        shown = [f"units={self.units:g}" if self.percent is None else f"percent={self.percent:g}"]
        shown += [] if self.against is None else [f"against={self.against:g}"]
        shown += [f"columns={', '.join(self.columns)!r}"] if self.columns else []
        shown += _shown_rows(self.rows)
        shown += ['measure="largest"'] if self.largest else []
        shown += ["per_write=True"] if self.per_write else []
        return f"value({', '.join(shown)})"

    @property
    def divergence(self) -> Divergence | Peak:
        """What grows."""
        return Peak(self.columns, self.rows) if self.per_write else Divergence(self.columns, self.rows, self.largest)

    def measures(self) -> tuple[Measure, ...]:
        elements = Elements(self.columns, self.rows)
        if self.percent is not None and self.against is None:
            return self.divergence, Magnitude(self.columns, self.rows)
        return (self.divergence,) if self.largest else (self.divergence, elements)

    def decide(self, seen: Observation, state: Any) -> Decision:
        diverged = seen.measures[self.divergence]
        if not diverged:
            return Decision(False)
        if self.percent is not None and self.against is None:
            return Decision(100 * diverged >= self.percent * seen.measures[Magnitude(self.columns, self.rows)])
        count = 1.0 if self.largest else seen.measures[Elements(self.columns, self.rows)]
        if self.percent is not None and self.against is not None:
            return Decision(100 * diverged >= self.percent * self.against * count)
        return Decision(diverged >= (self.units or 0) * count)


@final
@attrs.frozen(repr=False)
class AtLeastOnce(Bound):
    """See :func:`at_least_once`."""

    rows: Rows | None

    def __repr__(self) -> str:
        return f"at_least_once({', '.join(_shown_rows(self.rows))})"

    def measures(self) -> tuple[Measure, ...]:
        return (Keys(self.rows),)

    def decide(self, seen: Observation, state: Any) -> Decision:
        return Decision(seen.measures[Keys(self.rows)] > 0)


@final
@attrs.frozen(repr=False)
class Period(Bound):
    """See :func:`period`. ``micros``: microseconds."""

    micros: int

    def __repr__(self) -> str:
        return f"period({show_span(self.micros)})"

    def measures(self) -> tuple[Measure, ...]:
        return ()

    def decide(self, seen: Observation, state: Any) -> Decision:
        return Decision(seen.previous is None or seen.marker // self.micros > seen.previous // self.micros)


@final
@attrs.frozen(repr=False)
class AtLeast(Bound):
    """So many of some bounds are reached."""

    count: int
    bounds: tuple[Bound, ...]

    def __repr__(self) -> str:
        if not self.bounds:
            return "always"
        if self.count in (1, len(self.bounds)):
            word = " & " if self.count == len(self.bounds) else " | "
            return word.join(f"({one})" if isinstance(one, AtLeast) and one.bounds else f"{one}" for one in self.bounds)
        return f"at least {self.count} of ({', '.join(map(str, self.bounds))})"

    def measures(self) -> tuple[Measure, ...]:
        return tuple(dict.fromkeys(measure for one in self.bounds for measure in one.measures()))

    def fresh(self) -> Any:
        return [one.fresh() for one in self.bounds]

    def decide(self, seen: Observation, state: Any) -> Decision:
        decisions = [one.decide(seen, part) for one, part in zip(self.bounds, state, strict=True)]
        return Decision(sum(one.reached for one in decisions) >= self.count, [one.state for one in decisions])


ALWAYS: Final = AtLeast(0, ())
"""Every marker is let through: the strict temporal synchronism of a step without a bound."""


def parts_of(bound: Bound) -> tuple[Bound, ...]:
    """The bounds that a bound combines; itself if it combines none."""
    return tuple(part for one in bound.bounds for part in parts_of(one)) if isinstance(bound, AtLeast) else (bound,)


def _shown_rows(rows: Rows | None) -> list[str]:
    return [] if rows is None else [f"rows={getattr(rows, '__name__', show(rows))}"]


# --------------------------------------------------------------------------------------------- what an author writes


def time(seconds: Span) -> Bound:
    """Reached when ``seconds`` of event time (a number, or a timedelta) have passed since the last execution, and if there was
    none. The paper's theta: no step waits for longer."""
    return Time(span_as_micros("time", seconds, code="TT126"))


def sequence(
    count: int | None = None, *, percent: float | None = None, of: int | None = None, rows: Rows | None = None
) -> Bound:
    """Reached when ``count`` items have come since the last execution, or when ``percent`` of the keys of the container were
    written since then. The paper's sigma.

    ``of``: how many keys are the whole (None: those of the container, which has every key that ever came). ``rows``: a function
    of a key; only the keys for which it is true count.
    """
    _rows(rows)
    if (count is None) == (percent is None):
        raise UsageError("TT126", "sequence takes a count or percent=", fix="write sequence(100) or sequence(percent=20)")
    if count is not None and (type(count) is not int or count < 1):
        raise UsageError("TT126", f"sequence({show(count)})", fix="give a whole number of items from 1")
    if of is not None and (percent is None or type(of) is not int or of < 1):
        raise UsageError("TT126", f"of={show(of)}", fix="give a whole number of keys from 1, and percent= beside it")
    return Sequence(count, None if percent is None else _positive("percent", percent), of, rows)


def value(
    *,
    units: float | None = None,
    percent: float | None = None,
    against: float | None = None,
    columns: str | tuple[str, ...] = (),
    rows: Rows | None = None,
    measure: Literal["mean", "largest"] = "mean",
    per_write: bool = False,
) -> Bound:
    """Reached when the container is so far from what it was at the last execution. The paper's nu.

    ``units``: the mean absolute difference of its numbers, or with ``measure="largest"`` the largest. ``percent``: the sum of
    the absolute differences, in percent of the sum of the absolute numbers then. ``against``: a constant, such as a top
    value; ``percent`` is then of the constant, and the difference is the mean or the largest. The number of a new key was 0.

    ``columns``: the numbers: a column of the values, or a group of them that counts as one container (none: the value itself,
    or all of its columns that are numbers). ``rows``: a function of a key; only the keys for which it is true count.
    ``per_write``: look after each write, not only at the marker: what diverged so far within a block counts even if it came
    back. It needs ``measure="largest"``, because a sum would depend on the order of the writes to different keys.
    """
    _rows(rows)
    if (units is None) == (percent is None):
        raise UsageError("TT126", "value takes units= or percent=", fix="write value(units=0.5) or value(percent=5)")
    if measure not in ("mean", "largest"):
        raise UsageError("TT126", f"measure={show(measure)}", fix='write measure="mean" or measure="largest"')
    if measure == "largest" and percent is not None and against is None:
        raise UsageError(
            "TT126", 'measure="largest" with percent= of what was', fix="give against=, or units=, or leave measure= out"
        )
    if per_write and measure != "largest":
        raise UsageError(
            "TT126",
            "per_write=True with a sum over keys, which depends on the order of the writes to different keys",
            fix='write measure="largest", or leave per_write= out: then the bound is looked at at each marker',
        )
    if against is not None and percent is None:
        raise UsageError("TT126", f"against={show(against)} without percent=", fix="give percent= beside it")
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(type(name) is str and name for name in names) or len({*names}) < len(names):
        raise UsageError("TT126", f"columns={show(columns)}", fix='name each column once: columns="ozone", or a tuple of names')
    return Value(
        None if units is None else _positive("units", units),
        None if percent is None else _positive("percent", percent),
        None if against is None else _positive("against", against),
        names,
        rows,
        measure == "largest",
        bool(per_write),
    )


def at_least_once(rows: Rows | None = None) -> Bound:
    """Reached for ever once the container has a key. ``rows``: a function of a key; then one for which it is true. In front of
    a merge of several steps: each of them has been executed at least once."""
    _rows(rows)
    return AtLeastOnce(rows)


def period(seconds: Span) -> Bound:
    """Reached at the first marker, and at the first one behind each multiple of ``seconds`` of event time. ``bound & period(60)``
    is a bound that is looked at once a minute."""
    return Period(span_as_micros("period", seconds, code="TT126"))


def all_of(*bounds: Bound) -> Bound:
    """Reached when all are. Of no bounds: always."""
    return _at_least(len(bounds), bounds)


def at_least_one(*bounds: Bound) -> Bound:
    """Reached when one is."""
    return _at_least(1, bounds)


def majority(*bounds: Bound) -> Bound:
    """Reached when more than half are: 2 of 3, 3 of 4."""
    return _at_least(len(bounds) // 2 + 1, bounds)


def _at_least(count: int, bounds: tuple[Bound, ...]) -> Bound:
    for one in bounds:
        given: object = one
        if not isinstance(given, Bound):
            raise UsageError("TT126", f"{show(given)} is no bound", fix="give time(...), sequence(...), value(...) or a mix")
    if not bounds:
        return ALWAYS
    return bounds[0] if len(bounds) == 1 else AtLeast(count, bounds)


def _rows(rows: object) -> None:
    if rows is not None:
        need_function("rows=", rows, "rows=lambda key: key.zone == 3")


def _positive(name: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number <= 0:
        raise UsageError("TT126", f"{name}={show(number)}", fix=f"give {name} as a number above 0")
    return float(number)

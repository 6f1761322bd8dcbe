"""What a gate measures of its container, and the bounds that decide by it (Flux, sections 2 and 3). :mod:`tracetypes.gates` has
the functions that make them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

import attrs

from tracetypes.errors import UsageError
from tracetypes.impacts import Variation
from tracetypes.markers import show_span
from tracetypes.records import show
from tracetypes.self_description import name_of_operator

__all__ = [
    "ALWAYS",
    "AtLeast",
    "AtLeastOnce",
    "Bound",
    "Changed",
    "Columns",
    "Decision",
    "Divergence",
    "Elements",
    "Group",
    "Impact",
    "Keys",
    "Magnitude",
    "Measure",
    "Observation",
    "Peak",
    "Period",
    "Rows",
    "Sequence",
    "Time",
    "Updates",
    "Value",
    "combined",
    "parts_of",
]

Rows: TypeAlias = Callable[[Any], bool]
"""Which keys of a container count."""

Group: TypeAlias = Callable[[Any], Any]
"""The group of a key of a container."""

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
    """How many keys were written since the last execution."""

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
    a function. ``by``: a function of the key; what is compared is the mean number of all keys for which it is the same."""

    function: Variation[float, Any]
    columns: Columns
    rows: Rows | None = None
    since_marker: bool = False
    by: Group | None = None

    def __str__(self) -> str:
        parts = [f"{name_of_operator(self.function)}({', '.join(_shown(one) for _, one in self.function._parts())})"]
        parts += [f"of {', '.join(self.columns)}"] if self.columns else []
        parts += [f"{word} {_shown(one)}" for word, one in (("where", self.rows), ("by", self.by)) if one is not None]
        return " ".join(parts)


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

    def next_change(self, seen: Observation, *, reached: bool) -> int | None:
        """In a pause, where two markers were decided alike: the earliest time of a marker at which it may decide otherwise, if
        those between are let through (``reached``) or held like these; None for never. ``seen``: at the second one. Pure
        optimisation: a bound that does not define it is asked at each marker."""
        return seen.marker + 1

    @property
    def needs_latest(self) -> bool:
        """Must it be known which value of a key is the latest?"""
        return any(isinstance(one, Divergence | Peak | Magnitude | Impact) for one in self.measures())

    def __and__(self, other: Bound) -> Bound:
        return combined(None, (self, other))

    def __or__(self, other: Bound) -> Bound:
        return combined(1, (self, other))

    def __bool__(self) -> bool:
        raise UsageError(
            "TT126", f"{self} was used as a condition", fix="combine bounds by & and |, or by all_of, at_least_one and majority"
        )


@final
@attrs.frozen(repr=False)
class Time(Bound):
    """See :func:`tracetypes.gates.time`. ``micros``: microseconds."""

    micros: int

    def __repr__(self) -> str:
        return f"time({show_span(self.micros)})"

    def measures(self) -> tuple[Measure, ...]:
        return ()

    def decide(self, seen: Observation, state: Any) -> Decision:
        return Decision(seen.execution is None or seen.marker - seen.execution >= self.micros)

    def next_change(self, seen: Observation, *, reached: bool) -> int | None:
        if reached:
            return seen.marker + 1
        waits = seen.execution is not None and seen.marker - seen.execution < self.micros
        return (seen.execution or 0) + self.micros if waits else None


@final
@attrs.frozen(repr=False)
class Sequence(Bound):
    """See :func:`tracetypes.gates.sequence`."""

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

    def next_change(self, seen: Observation, *, reached: bool) -> None:
        return None


@final
@attrs.frozen(repr=False)
class Value(Bound):
    """See :func:`tracetypes.gates.value`."""

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

    def next_change(self, seen: Observation, *, reached: bool) -> None:
        return None


@final
@attrs.frozen(repr=False)
class AtLeastOnce(Bound):
    """See :func:`tracetypes.gates.at_least_once`."""

    rows: Rows | None

    def __repr__(self) -> str:
        return f"at_least_once({', '.join(_shown_rows(self.rows))})"

    def measures(self) -> tuple[Measure, ...]:
        return (Keys(self.rows),)

    def decide(self, seen: Observation, state: Any) -> Decision:
        return Decision(seen.measures[Keys(self.rows)] > 0)

    def next_change(self, seen: Observation, *, reached: bool) -> None:
        return None


@final
@attrs.frozen(repr=False)
class Period(Bound):
    """See :func:`tracetypes.gates.period`. ``micros``: microseconds."""

    micros: int

    def __repr__(self) -> str:
        return f"period({show_span(self.micros)})"

    def measures(self) -> tuple[Measure, ...]:
        return ()

    def decide(self, seen: Observation, state: Any) -> Decision:
        return Decision(seen.previous is None or seen.marker // self.micros > seen.previous // self.micros)

    def next_change(self, seen: Observation, *, reached: bool) -> int:
        again = self.decide(seen, None).reached  # it is not at the next marker, unless that lies as far ahead
        return seen.marker + 1 if again else (seen.marker // self.micros + 1) * self.micros


@final
@attrs.frozen(repr=False)
class AtLeast(Bound):
    """Reached when at least ``count`` of the ``bounds`` are."""

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

    def next_change(self, seen: Observation, *, reached: bool) -> int | None:
        times = [one.next_change(seen, reached=reached) for one in self.bounds]
        return min((time for time in times if time is not None), default=None)


ALWAYS: Final = AtLeast(0, ())
"""Every marker is let through: the strict temporal synchronism of a step without a bound."""


def parts_of(bound: Bound) -> tuple[Bound, ...]:
    """The bounds that a bound combines; itself if it combines none."""
    return tuple(part for one in bound.bounds for part in parts_of(one)) if isinstance(bound, AtLeast) else (bound,)


def _shown_rows(rows: Rows | None) -> list[str]:
    return [] if rows is None else [f"rows={_shown(rows)}"]


def _shown(one: object) -> str:
    """A parameter of a bound. Of a function its name."""
    return str(getattr(one, "__name__", show(one)))


def combined(count: int | None, bounds: tuple[Bound, ...]) -> Bound:
    """``count`` of some bounds, or all. Raises :class:`UsageError` ``TT126`` for what is no bound."""
    for one in bounds:
        given: object = one
        if not isinstance(given, Bound):
            raise UsageError("TT126", f"{show(given)} is no bound", fix="give time(...), sequence(...), value(...) or a mix")
    if not bounds:
        return ALWAYS
    return bounds[0] if len(bounds) == 1 else AtLeast(len(bounds) if count is None else count, bounds)

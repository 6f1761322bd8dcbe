"""What a gate does, as a definition: the decision at each marker, and what becomes of the blocks.

Of blocks ``B1 #1 B2 #2``, whose second marker the gate lets through, a holding gate makes ``(B1 + B2) #2``: it is the identity on
items. A container gate makes ``latest(B1 + B2) #2``, where ``latest`` leaves the last item of each key. At the end of the input
the last marker is let through, whatever the bound says, and so is all silence behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, assert_never

import attrs

from tracetypes.bounds import (
    Bound,
    Changed,
    Columns,
    Decision,
    Divergence,
    Elements,
    Group,
    Impact,
    Keys,
    Magnitude,
    Measure,
    Observation,
    Peak,
    Rows,
    Updates,
)
from tracetypes.elements import Piece, mark
from tracetypes.impacts import variation
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.nodes import Gate
from tracetypes.records import Boolean, DecimalOf, Float, Integer, Optional, Record, Schema, Unsigned
from tracetypes.trace import Element, Item, stretches

__all__ = [
    "Container",
    "apart",
    "columns_of",
    "gated",
    "latest_of",
    "mean",
    "means",
    "measured",
    "no_outside",
    "number",
    "numbers_in",
]


# ------------------------------------------------------------------------------------------------------ numbers


def columns_of(value: Schema) -> tuple[str, ...]:
    """The columns of a value that are numbers, in their order; ``""`` is the value itself."""
    match value:
        case Record(_, fields):
            return tuple(name for name, schema in fields if _is_number(schema))
        case _:
            return ("",) if _is_number(value) else ()


def _is_number(schema: Schema) -> bool:
    inner = schema.item if isinstance(schema, Optional) else schema
    return isinstance(inner, Boolean | Integer | Unsigned | Float | DecimalOf)


def numbers_in(columns: Columns, schema: Schema) -> Callable[[Any], tuple[float, ...]]:
    """A function that takes the numbers in some columns out of a value."""
    names = columns or columns_of(schema)
    return lambda value: tuple(number(getattr(value, name) if name else value) for name in names)


def number(value: Any) -> float:
    """A value of a column as a number: None is 0."""
    return 0.0 if value is None else float(value)


def apart(one: float, other: float) -> float:
    """The absolute difference. A number that is not finite is infinitely far from all others, and not from itself."""
    if one == other or (one != one and other != other):
        return 0.0
    return abs(one - other) if math.isfinite(one) and math.isfinite(other) else math.inf


def total(numbers: Iterable[float]) -> float:
    """The exact sum of numbers from 0, rounded once: the same in any order."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def means(numbers: Mapping[tuple[Any, Any], float], by: Group) -> dict[tuple[Any, Any], float]:
    """The mean number of each group of keys and column. ``numbers``: by key and column. The same in any order; NaN where it is
    not finite."""
    groups: dict[tuple[Any, Any], list[float]] = {}
    for (key, column), one in numbers.items():
        groups.setdefault((by(key), column), []).append(one)
    return {group: mean(some) for group, some in groups.items()}


def mean(numbers: Sequence[float]) -> float:
    """The exact sum, rounded once, by their number; NaN if it is not finite."""
    try:
        whole = math.fsum(numbers) / len(numbers)
    except (OverflowError, ValueError):
        return math.nan
    return whole if math.isfinite(whole) else math.nan


# ------------------------------------------------------------------------------------------------------ the measures


def measured(
    measure: Measure,
    schema: Schema,
    now: Mapping[Any, Any],
    then: Mapping[Any, Any],
    since: Sequence[Item],
    before: Mapping[Any, Any],
) -> float:
    """A measure of a container. ``schema``: of its values; ``now``, ``then`` and ``before``: its values by key, at this
    marker, at the last execution and at the last marker; ``since``: the items that came since the last execution."""
    chosen: Rows = measure.rows or (lambda key: True)
    match measure:
        case Updates():
            return sum(chosen(item.key) for item in since)
        case Changed():
            return len({item.key for item in since if chosen(item.key)})
        case Keys():
            return sum(map(chosen, now))
        case Elements(columns):
            return sum(map(chosen, now)) * len(columns or columns_of(schema))
        case Magnitude(columns):
            numbers = numbers_in(columns, schema)
            return total(apart(one, 0.0) for key, value in then.items() if chosen(key) for one in numbers(value))
        case Divergence(columns) | Peak(columns):
            numbers = numbers_in(columns, schema)
            zeros = (0.0,) * len(columns or columns_of(schema))
            written = now.items() if isinstance(measure, Divergence) else [(item.key, item.value) for item in since]
            differences = [
                apart(one, other)
                for key, value in written
                if chosen(key)
                for one, other in zip(numbers(value), numbers(then[key]) if key in then else zeros, strict=True)
            ]
            largest = isinstance(measure, Peak) or measure.largest
            return max(differences, default=0.0) if largest else total(differences)
        case Impact(function, columns, since_marker=since_marker, by=by):
            numbers = numbers_in(columns, schema)
            new, old = (
                {(key, at): one for key, value in values.items() if chosen(key) for at, one in enumerate(numbers(value))}
                for values in (now, before if since_marker else then)
            )
            return variation(function, new, old) if by is None else variation(function, means(new, by), means(old, by))
        case _:
            assert_never(measure)


# --------------------------------------------------------------------------------------------------------- the gate


Outside: TypeAlias = Callable[[int, str], float]
"""Looks at the machine, at a marker (microseconds): for its ``"load"``, say."""

Order: TypeAlias = Callable[[Sequence[Item]], Sequence[Item]]
"""Puts the items of a block in order."""


def no_outside(marker: int, name: str) -> float:
    """For bounds that look at nothing but the trace."""
    raise LookupError(f"nothing is known of the {name!r} of the machine")


@attrs.define(eq=False)
class Container:
    """What a gate knows, and its decisions. ``schema``: of the values. ``now`` and ``then``: the values by key, after the last
    block and at the last execution; ``since``: the items between; ``before``: the values at the last marker. ``previous`` and
    ``execution`` as in :class:`Observation`."""

    bound: Bound
    schema: Schema
    outside: Outside = no_outside
    now: dict[Any, Any] = attrs.Factory(dict)
    then: dict[Any, Any] = attrs.Factory(dict)
    since: list[Item] = attrs.Factory(list)
    before: dict[Any, Any] = attrs.Factory(dict)
    previous: int | None = None
    execution: int | None = None
    state: Any = attrs.field(init=False)
    seen: Observation = attrs.field(init=False)
    """At the last decision."""

    def __attrs_post_init__(self) -> None:
        self.state = self.bound.fresh()

    def take(self, items: Sequence[Item]) -> None:
        """The items of a block, in their order."""
        self.since.extend(items)
        self.now.update((item.key, item.value) for item in items)

    def decide(self, marker: int, *, last: bool = False) -> bool:
        """Is the marker let through? ``last``: the input ends there."""
        values = self.schema, self.now, self.then, self.since, self.before
        measures = {one: measured(one, *values) for one in self.bound.measures()}
        self.seen = Observation(marker, self.previous, self.execution, measures, partial(self.outside, marker))
        decision: Decision = self.bound.decide(self.seen, self.state)
        self.state, self.previous, self.before = decision.state, marker, dict(self.now)
        if decision.reached or last:
            self.execution, self.then, self.since = marker, dict(self.now), []
        return decision.reached or last

    def next_change(self, reached: bool) -> int | None:
        """See :meth:`Bound.next_change`."""
        return self.bound.next_change(self.seen, reached=reached)

    def repeat(self, markers: MarkerRuns, reached: bool) -> None:
        """Some markers are decided like the last one."""
        self.previous = markers[-1]
        self.execution = markers[-1] if reached else self.execution


class Decides(Protocol):
    """What decides about the markers of a gate, in their order."""

    def decide(self, marker: int) -> bool:
        """Is the marker let through?"""

    def next_change(self, reached: bool) -> int | None:
        """See :meth:`Bound.next_change`, for the last decision."""

    def repeat(self, markers: MarkerRuns, reached: bool) -> None:
        """Some markers are decided like the last one."""


def let_through(decides: Decides, markers: MarkerRuns) -> MarkerRuns:
    """The markers of a pause that are let through. As many as the bound allows are decided at once."""
    through: list[range] = []
    rest, before = markers, None
    while rest:
        marker = rest[0]
        rest, reached = rest.after(marker), decides.decide(marker)
        alike = [range(marker, marker + 1)]
        if rest and reached == before:
            change = decides.next_change(reached)
            same = rest if change is None else rest.up_to(change - 1)
            if same:
                decides.repeat(same, reached)
                rest = rest.after(same[-1])
                alike.extend(same.ranges)
        before = reached
        through.extend(alike if reached else ())
    return MarkerRuns(through)


def latest_of(items: Iterable[Item]) -> list[Item]:
    """The last item of each key."""
    return list({item.key: item for item in items}.values())


def gated(
    node: Gate, channel: Sequence[Piece[Element]], value: Schema, order: Order, *, complete: bool, outside: Outside = no_outside
) -> Iterator[Piece[Element]]:
    """The output of a gate. ``value``: the schema of the values; ``order``: of the items of a block, those of a key from the
    first to the latest; ``complete``: the input has ended."""
    container, held = Container(node.bound, value, outside), list[Item]()
    end = next((one for one in reversed(channel) if not isinstance(one, Item)), None)
    final = None if end is None or not complete else end.micros if isinstance(end, Marker) else end[-1]
    for block in stretches(_but_last(channel, final)):
        if isinstance(block, MarkerRuns):
            if through := let_through(container, block):
                yield from latest_of(held) if node.latest else held
                held = []
                passed: list[Piece[Element]] = []
                mark(passed, through)
                yield from passed
            continue
        items = order(block.items)
        held.extend(items)
        if block.marker is not None:
            container.take(items)
            if not container.decide(block.marker.micros, last=block.marker.micros == final):
                continue
        yield from latest_of(held) if node.latest else held
        held = []
        if block.marker is not None:
            yield block.marker


def _but_last(channel: Iterable[Piece[Element]], final: int | None) -> Iterator[Piece[Element]]:
    """The same, with the last marker apart from its pause: it comes through, whatever the bound says."""
    for one in channel:
        if isinstance(one, MarkerRuns) and one[-1] == final:
            yield from (one[:-1],) if len(one) > 1 else ()
            yield Marker(final)
        else:
            yield one

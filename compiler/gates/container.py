"""The container of a gate, kept up to date block by block: what :mod:`tracetypes.containers` defines, without a look at all of
it at each marker.

Only keys that were written since the last execution can have diverged from what they were then. So a block costs time for its
items, a marker for the keys that were written, and an execution for the keys as a whole only if a bound is relative to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, assert_never

import attrs

from tracetypes.containers import apart, columns_of, total
from tracetypes.gates import (
    Bound,
    Changed,
    Columns,
    Divergence,
    Elements,
    Keys,
    Magnitude,
    Measure,
    Peak,
    Rows,
    Updates,
)
from tracetypes.records import Schema

__all__ = ["Numbers", "RunningContainer", "columns_needed"]

Numbers: TypeAlias = tuple[float, ...]
"""The numbers of one value, a place for each column that is needed."""


def columns_needed(bound: Bound, schema: Schema) -> tuple[str, ...]:
    """The columns that a bound looks at, each once."""
    asked = [one for one in bound.measures() if isinstance(one, Divergence | Peak | Magnitude)]
    return tuple(dict.fromkeys(name for one in asked for name in one.columns or columns_of(schema)))


@attrs.define(eq=False)
class RunningContainer:
    """A container. ``now``: the numbers by key; ``then``: those of the keys that were written since the last execution, as they
    were then; ``peaks``: how far each of these was written away from that, at most; ``added``: the keys that
    are new since then; ``updates``: items since then."""

    bound: Bound
    schema: Schema
    now: dict[Any, Numbers] = attrs.Factory(dict)
    then: dict[Any, Numbers] = attrs.Factory(dict)
    peaks: dict[Any, Numbers] = attrs.Factory(dict)
    added: set[Any] = attrs.Factory(set)
    updates: dict[Rows | None, int] = attrs.Factory(dict)
    magnitudes: dict[Measure, float] = attrs.Factory(dict)
    names: tuple[str, ...] = attrs.field(init=False)
    zeros: Numbers = attrs.field(init=False)
    measures: tuple[Measure, ...] = attrs.field(init=False)
    members: dict[Rows, set[Any]] = attrs.field(init=False)
    """The keys for which a function of the bound is true."""
    peaking: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.measures = self.bound.measures()
        self.names = columns_needed(self.bound, self.schema)
        self.zeros = (0.0,) * len(self.names)
        functions = {one.rows for one in self.measures if one.rows is not None}
        self.members = {rows: {key for key in self.now if rows(key)} for rows in functions}
        self.peaking = any(isinstance(one, Peak) for one in self.measures)

    @property
    def remembers(self) -> bool:
        """Does a bound look at keys or numbers that came before the last execution?"""
        return any(not isinstance(one, Updates) for one in self.measures)

    def take(self, keys: Sequence[Any], numbers: Sequence[Numbers]) -> None:
        """Items in their order, with their numbers in the columns ``names``."""
        now, then, members = self.now, self.then, self.members
        for rows in {one.rows for one in self.measures if isinstance(one, Updates)}:
            self.updates[rows] = self.updates.get(rows, 0) + (len(keys) if rows is None else sum(map(rows, keys)))
        for key, new in zip(keys, numbers, strict=True):
            before = now.get(key)
            if before is None:
                before = self.zeros
                self.added.add(key)
                for rows, chosen in members.items():
                    if rows(key):
                        chosen.add(key)
            if key not in then:
                then[key] = before
            now[key] = new
            if self.peaking:
                was = then[key]
                away = tuple(apart(one, other) for one, other in zip(new, was, strict=True))
                self.peaks[key] = tuple(map(max, away, self.peaks[key])) if key in self.peaks else away

    def count(self, count: int) -> None:
        """So many items came, of which a bound needs to know no more."""
        self.updates[None] = self.updates.get(None, 0) + count

    def at_execution(self) -> dict[Any, Numbers]:
        """The numbers by key as they were at the last execution."""
        whole = {**self.now, **self.then}
        return {key: was for key, was in whole.items() if key not in self.added} if self.added else whole

    def execute(self) -> None:
        """The step behind the gate is executed with the container as it is."""
        self.then, self.peaks, self.added, self.updates = {}, {}, set(), {}
        self.magnitudes = {one: self.magnitude(one) for one in self.measures if isinstance(one, Magnitude)}

    def measured(self, measure: Measure) -> float:
        """A measure, as :func:`tracetypes.containers.measured` defines it."""
        match measure:
            case Updates(rows):
                return self.updates.get(rows, 0)
            case Changed(rows):
                return len(self.then) if rows is None else sum(1 for key in self.then if key in self.members[rows])
            case Keys(rows):
                return len(self.now) if rows is None else len(self.members[rows])
            case Elements(columns, rows):
                count = len(self.now) if rows is None else len(self.members[rows])
                return count * len(columns or columns_of(self.schema))
            case Magnitude():
                return self.magnitudes.get(measure, 0.0)
            case Divergence(columns, largest=largest):
                places = self.places(columns)
                away = (
                    apart(self.now[key][at], was[at]) for key, was in self.written(self.then, measure.rows) for at in places
                )
                return max(away, default=0.0) if largest else total(away)
            case Peak(columns):
                places = self.places(columns)
                return max((peak[at] for _, peak in self.written(self.peaks, measure.rows) for at in places), default=0.0)
            case _:
                assert_never(measure)

    def magnitude(self, measure: Magnitude) -> float:
        """Of all numbers as they are."""
        places = self.places(measure.columns)
        return total(apart(new[at], 0.0) for _, new in self.written(self.now, measure.rows) for at in places)

    def written(self, by_key: dict[Any, Numbers], rows: Rows | None) -> Iterable[tuple[Any, Numbers]]:
        """What belongs to the keys for which a function is true."""
        return by_key.items() if rows is None else ((k, v) for k, v in by_key.items() if k in self.members[rows])

    def places(self, columns: Columns) -> list[int]:
        """Where the numbers of some columns stand."""
        return [self.names.index(name) for name in columns or columns_of(self.schema)]

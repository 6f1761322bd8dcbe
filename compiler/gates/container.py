"""The container of a gate as columns, kept up to date block by block: what :mod:`tracetypes.containers` defines, without a look
at all of it at each marker.

Each key has a number. What is known of a key stands in arrays at that number. Only keys that were written since the last
execution can have diverged from what they were then, so a marker costs time for these.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.bounds import (
    Bound,
    Changed,
    Columns,
    Divergence,
    Elements,
    Group,
    Impact,
    Keys,
    Magnitude,
    Measure,
    Peak,
    Rows,
    Updates,
)
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.containers import columns_of, means, total
from tracetypes.impacts import variation
from tracetypes.records import Boolean, Bytes, Date, Integer, Record, Schema, String, Timestamp, Unsigned

__all__ = ["KeyNumbers", "RunningContainer", "Snapshot", "columns_needed"]

PLAIN: Final = (Boolean, Integer, Unsigned, String, Bytes, Date, Timestamp)
"""Keys that Arrow compares as Python does."""


class KeyNumbers:
    """A number from 0 for each key, in the order in which they came. Keys that Arrow compares, and records of these, are never
    made objects, unless they are new."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.count = schema, 0
        self.column = array(schema, []) if isinstance(schema, PLAIN) or _of_plain(schema) else None
        """The keys in order, as a column."""
        self.fields = [KeyNumbers(one) for _, one in schema.fields] if isinstance(schema, Record) and _of_plain(schema) else []
        self.pairs = [KeyNumbers(Integer()) for _ in self.fields[1:]]
        """Of the number of the fields before, and that of a field: both in one integer."""
        self.numbers: dict[Any, int] = {}

    def of(self, keys: Any) -> tuple[Any, list[Any]]:
        """The numbers (int64) of an Arrow array of keys, and the keys that are new."""
        if self.column is None:
            before, objects = len(self.numbers), from_array(self.schema, keys)
            numbers = np.array([self.numbers.setdefault(key, len(self.numbers)) for key in objects], np.int64)
            self.count = len(self.numbers)
            return numbers, list(self.numbers)[before:]
        numbers, new = self.places(keys)
        return numbers, from_array(self.schema, new) if len(new) else []

    def places(self, keys: Any) -> tuple[Any, Any]:
        """The same of keys that are never objects, the new ones as a column."""
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        if self.fields:
            return self.of_fields(keys)
        places = pc.index_in(keys, value_set=self.column)
        new = keys.slice(0, 0)
        if places.null_count:
            new = pc.unique(keys.filter(pc.is_null(places)))
            self.add(new)
            places = pc.index_in(keys, value_set=self.column)
        return places.to_numpy(zero_copy_only=False).astype(np.int64), new

    def of_fields(self, keys: Any) -> tuple[Any, Any]:
        """The same of records, field by field."""
        first, *others = keys.flatten()
        numbers, _ = self.fields[0].places(first)
        for field, pairs, column in zip(self.fields[1:], self.pairs, others, strict=True):
            numbers, _ = pairs.places(pa.array((numbers << 32) | field.places(column)[0], pa.int64()))
        _, at = np.unique(numbers, return_index=True)
        new = keys.take(pa.array(np.sort(at[numbers[at] >= self.count]), pa.int64()))
        self.add(new)
        return numbers, new

    def add(self, keys: Any) -> None:
        """Keys that are new, in the order of their numbers."""
        if len(keys) and self.column is not None:
            self.column = pa.concat_arrays([self.column, keys.cast(self.column.type)])
            self.count = len(self.column)

    @property
    def keys(self) -> list[Any]:
        """All keys, in the order of their numbers."""
        return list(self.numbers) if self.column is None else from_array(self.schema, self.column)


def _of_plain(schema: Schema) -> bool:
    """Is it a record of keys that Arrow compares?"""
    return isinstance(schema, Record) and bool(schema.fields) and all(isinstance(one, PLAIN) for _, one in schema.fields)


@attrs.frozen(eq=False)
class Snapshot:
    """The container at an execution. ``numbers``: a row for each key."""

    keys: list[Any]
    numbers: Any


def columns_needed(bound: Bound, schema: Schema) -> tuple[str, ...]:
    """The columns that a bound looks at, each once."""
    asked = [one for one in bound.measures() if isinstance(one, Divergence | Peak | Magnitude | Impact)]
    return tuple(dict.fromkeys(name for one in asked for name in one.columns or columns_of(schema)))


class RunningContainer:
    """A container. ``key`` and ``schema``: of its keys and values. All arrays have a place for each key. ``now`` and ``then``:
    the numbers in the columns ``names``, as they are, and as they were at the last execution. ``written`` and ``new``:
    whether a key was written since then, and whether it is new since then. ``peaks``: how far it was written away from ``then``
    at most. ``members``: by function of the bound, whether it is true for the key; ``groups``: what it makes of the key.
    ``updates``: items since the last execution.
    ``before``: the numbers at the last marker; ``is_there``: whether the key was there then. Both only if a bound asks."""

    def __init__(self, bound: Bound, key: Schema, schema: Schema) -> None:
        self.measures, self.schema, self.key = bound.measures(), schema, key
        self.names = columns_needed(bound, schema)
        self.numbers = KeyNumbers(key)
        self.now = self.then = self.peaks = self.before = np.zeros((0, len(self.names)))
        self.written = self.new = self.is_there = np.zeros(0, np.bool_)
        self.members: dict[Rows, Any] = {one.rows: self.written for one in self.measures if one.rows is not None}
        grouping = [one.by for one in self.measures if isinstance(one, Impact)]
        self.groups: dict[Group, list[Any]] = {one: [] for one in grouping if one is not None}
        self.updates: dict[Rows | None, int] = {}
        self.magnitudes: dict[Measure, float] = {}
        self.peaking = any(isinstance(one, Peak) for one in self.measures)
        self.marking = any(isinstance(one, Impact) and one.since_marker for one in self.measures)

    @property
    def remembers(self) -> bool:
        """Does a bound look at keys or numbers that came before the last execution?"""
        return any(not isinstance(one, Updates) for one in self.measures)

    def take(self, at: Any, numbers: Any) -> None:
        """Items in their order. ``at``: the places of their keys; ``numbers``: float64, a row for each item."""
        for rows in {one.rows for one in self.measures if isinstance(one, Updates)}:
            self.updates[rows] = self.updates.get(rows, 0) + (len(at) if rows is None else int(self.members[rows][at].sum()))
        self.written[at] = True
        if not self.names:
            return
        if self.peaking:
            np.maximum.at(self.peaks, at, _apart(numbers, self.then[at]))
        latest = np.full(self.numbers.count, -1)
        latest[at] = np.arange(len(at))  # of several items of a key the last one stays
        changed = np.flatnonzero(latest >= 0)
        self.now[changed] = numbers[latest[changed]]

    def place(self, keys: Any) -> Any:
        """The numbers of keys. New ones get a place."""
        at, new = self.numbers.of(keys)
        if new:
            zeros = np.zeros((len(new), len(self.names)))
            self.now, self.then, self.peaks = (np.concatenate([one, zeros]) for one in (self.now, self.then, self.peaks))
            self.written = np.concatenate([self.written, np.zeros(len(new), np.bool_)])
            self.new = np.concatenate([self.new, np.ones(len(new), np.bool_)])
            for rows, members in self.members.items():
                self.members[rows] = np.concatenate([members, np.array([bool(rows(key)) for key in new], np.bool_)])
            for by, groups in self.groups.items():
                groups += map(by, new)
        return at

    def count(self, count: int) -> None:
        """So many items came, of which a bound needs to know no more."""
        self.updates[None] = self.updates.get(None, 0) + count

    def mark(self) -> None:
        """A marker has passed."""
        if self.marking:
            self.before, self.is_there = self.now.copy(), np.ones(self.numbers.count, np.bool_)

    def execute(self) -> None:
        """The step behind the gate is executed with the container as it is."""
        self.then, self.updates = self.now.copy(), {}
        self.peaks, self.written, self.new = np.zeros_like(self.peaks), self.written & False, self.new & False
        self.magnitudes = {one: self.magnitude(one) for one in self.measures if isinstance(one, Magnitude)}

    def at_execution(self) -> Snapshot:
        """The container as it was at the last execution."""
        old = np.flatnonzero(~self.new)
        keys = self.numbers.keys
        return Snapshot([keys[at] for at in old.tolist()], self.then[old])

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with the container of an execution."""
        if snapshot.keys:
            self.place(array(self.key, snapshot.keys))
            self.now = snapshot.numbers
        self.execute()

    # ------------------------------------------------------------------------------------------------ measures

    def measured(self, measure: Measure) -> float:
        """A measure, as :func:`tracetypes.containers.measured` defines it."""
        match measure:
            case Updates(rows):
                return self.updates.get(rows, 0)
            case Changed(rows):
                return int(self.chosen(self.written, rows).sum())
            case Keys(rows):
                return self.numbers.count if rows is None else int(self.members[rows].sum())
            case Elements(columns, rows):
                return self.measured(Keys(rows)) * len(columns or columns_of(self.schema))
            case Magnitude():
                return self.magnitudes.get(measure, 0.0)
            case Divergence(columns, rows, largest):
                at = np.flatnonzero(self.chosen(self.written, rows))
                places = self.places(columns)
                away = _apart(self.now[at][:, places], self.then[at][:, places]).ravel()
                return float(away.max(initial=0.0)) if largest else total(away.tolist())
            case Peak(columns, rows):
                at = np.flatnonzero(self.chosen(self.written, rows))
                return float(self.peaks[at][:, self.places(columns)].max(initial=0.0))
            case Impact():
                return self.impact(measure)
            case _:
                assert_never(measure)

    def impact(self, measure: Impact) -> float:
        """Of the keys whose numbers differ from what they were."""
        places, count = self.places(measure.columns), len(self.before)
        if measure.since_marker:
            old = np.concatenate([self.before, np.zeros((self.numbers.count - count, len(self.names)))])
            new_keys = np.concatenate([~self.is_there, np.ones(self.numbers.count - count, np.bool_)])
        else:
            old, new_keys = self.then, self.new
        now, was = self.now[:, places], old[:, places]
        chosen = self.chosen(np.ones(self.numbers.count, np.bool_), measure.rows)
        if measure.by is not None:
            groups = self.groups[measure.by]
            states = self.means(groups, chosen, now), self.means(groups, chosen & ~new_keys, was)
            return variation(measure.function, *states)
        changed = ((now != was) | new_keys[:, None]) & chosen[:, None]
        at, place = np.nonzero(changed)
        changes = [
            (new, None if is_new else old)
            for new, old, is_new in zip(now[at, place].tolist(), was[at, place].tolist(), new_keys[at].tolist(), strict=True)
        ]
        elements = self.measured(Elements(measure.columns, measure.rows))
        return measure.function.of_elements(changes, int(elements)) if elements else 0.0

    @staticmethod
    def means(groups: list[Any], chosen: Any, numbers: Any) -> dict[Any, float]:
        """The mean number of each group and column. ``groups``: of each key. ``chosen``: the keys that count."""
        at = np.flatnonzero(chosen).tolist()
        return means(
            {(key, column): one for key, row in zip(at, numbers[at].tolist(), strict=True) for column, one in enumerate(row)},
            groups.__getitem__,
        )

    def magnitude(self, measure: Magnitude) -> float:
        """Of all numbers as they are."""
        numbers = self.now[:, self.places(measure.columns)]
        numbers = numbers if measure.rows is None else numbers[self.members[measure.rows]]
        return total(_apart(numbers, np.zeros_like(numbers)).ravel().tolist())

    def chosen(self, mask: Any, rows: Rows | None) -> Any:
        """Those keys of a mask for which a function is true."""
        return mask if rows is None else mask & self.members[rows]

    def places(self, columns: Columns) -> list[int]:
        """Where the numbers of some columns stand."""
        return [self.names.index(name) for name in columns or columns_of(self.schema)]


def _apart(some: Any, others: Any) -> Any:
    """:func:`tracetypes.containers.apart` of two arrays."""
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.abs(some - others)
    away[~(np.isfinite(some) & np.isfinite(others))] = np.inf
    away[(some == others) | (np.isnan(some) & np.isnan(others))] = 0.0
    return away

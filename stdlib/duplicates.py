"""Items of a key without those that came before, in order: all names, the most recent ones, or those of some time.

The operators take an ``O[K, V]``, so put ``sort(by=...)`` before them. None of them reads the clock of the machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar

import attrs

from tracetypes.duplicates import Duplicates, settled
from tracetypes.errors import UsageError
from tracetypes.markers import Marker, Span, Time, TimeUnit, micros_from
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import seconds_as_micros, whole
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["Deduplicate", "DeduplicateRecent", "DeduplicateWithin", "deduplicate"]

K = TypeVar("K")
V = TypeVar("V")


@attrs.frozen
class Deduplicate(OpKeyedOrdered[K, V, V, set[Hashable]]):
    """See :func:`deduplicate`. The state is all names seen."""

    _word = "deduplicate"

    by: Callable[[V], Hashable]

    def initial_state(self) -> set[Hashable]:
        return set()

    def on_item(self, state: set[Hashable], key: K, value: V, emit: EmitValue[V]) -> set[Hashable]:
        if (name := settled(self.by(value))) not in state:
            state.add(name)
            emit(value)
        return state

    def _says(self) -> Duplicates[V] | None:
        if type(self) is not Deduplicate:  # a subclass may do something else
            return None
        return Duplicates(self.by)


Recent: TypeAlias = tuple[deque[Hashable], dict[Hashable, int]]
"""The last items, and how many of them have each name."""


@attrs.frozen
class DeduplicateRecent(OpKeyedOrdered[K, V, V, Recent]):
    """See :func:`deduplicate`. The state is the names of the last ``items`` items, and how many have each name."""

    _word = "deduplicate"

    by: Callable[[V], Hashable]
    items: int

    def initial_state(self) -> Recent:
        return deque(), {}

    def on_item(self, state: Recent, key: K, value: V, emit: EmitValue[V]) -> Recent:
        last, counts = state
        name = settled(self.by(value))
        if name not in counts:
            emit(value)
        last.append(name)
        counts[name] = counts.get(name, 0) + 1
        if len(last) > self.items:
            oldest = last.popleft()
            counts[oldest] -= 1
            if not counts[oldest]:
                del counts[oldest]
        return state

    def _says(self) -> Duplicates[V] | None:
        if type(self) is not DeduplicateRecent:  # a subclass may do something else
            return None
        return Duplicates(self.by, items=self.items)


@attrs.frozen
class DeduplicateWithin(OpKeyedOrdered[K, V, V, dict[Hashable, int]]):
    """See :func:`deduplicate`. The state is the last time of each name that may still count."""

    _word = "deduplicate"

    forgets_idle = True

    by: Callable[[V], Hashable]
    horizon: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def initial_state(self) -> dict[Hashable, int]:
        return {}

    def on_item(self, state: dict[Hashable, int], key: K, value: V, emit: EmitValue[V]) -> dict[Hashable, int]:
        name, time = settled(self.by(value)), self.moment(value)
        last = state.get(name)
        if last is None or time - last > self.horizon:
            emit(value)
        state[name] = time if last is None else max(last, time)
        return state

    def on_marker(self, state: dict[Hashable, int], key: K, marker: Marker, emit: EmitValue[V]) -> dict[Hashable, int]:
        return {name: last for name, last in state.items() if marker.micros - last <= self.horizon}

    def next_due(self, state: dict[Hashable, int], key: K) -> int | None:
        return min(state.values()) + self.horizon + 1 if state else None

    def moment(self, value: V) -> int:
        """The time of an item in microseconds."""
        return micros_from(self.time(value), self.unit)

    def _says(self) -> Duplicates[V] | None:
        if type(self) is not DeduplicateWithin:  # a subclass may do something else
            return None
        return Duplicates(self.by, horizon=self.horizon, time=self.moment)


def deduplicate(
    by: Callable[[V], Hashable],
    *,
    items: int | None = None,
    seconds: Span | None = None,
    time: Callable[[V], Time] | None = None,
    unit: TimeUnit = "s",
) -> OrderedOperator[V, V]:
    """Drop an item if an earlier item of the same key had the same ``by(value)``, whether that one was emitted or not.

    By default the whole history of a key counts, and its state grows with the number of different names. ``items``:
    only this many items before count. ``seconds`` (or a timedelta): only the items at most this long before count, by
    ``time`` and ``unit`` as in :func:`tracetypes.every`. Then the stream must be sorted by the same time, and markers
    remove older names. ``by`` returns something hashable: a scalar, a tuple of these, or a frozen record. NaN equals
    NaN, except inside a record.

    Raises :class:`UsageError` ``TT121`` for both ``items`` and ``seconds``, and for ``seconds`` without ``time``.

    >>> given = [("a", 0), ("a", 1), ("a", 3), ("a", 4)]
    >>> preview(deduplicate(lambda x: x % 3), O[str, int], given)
    [[('a', 0), ('a', 1)]]
    >>> preview(deduplicate(lambda x: x % 3, seconds=2, time=lambda x: x), O[str, int], given)
    [[('a', 0), ('a', 1), ('a', 3), ('a', 4)]]
    """
    op: Any
    if items is not None and seconds is not None:
        raise UsageError("TT121", "both items and seconds are given", fix="give one of them")
    if (seconds is None) != (time is None):
        raise UsageError("TT121", "seconds and time go together", fix="give both or none of them")
    if items is not None:
        whole("items", items)
        op = DeduplicateRecent(by, items)
    elif seconds is not None and time is not None:
        op = DeduplicateWithin(by, seconds_as_micros("seconds", seconds, 0), time, unit)
    else:
        op = Deduplicate(by)
    return on_ordered(op)

"""The interval join of the standard library, with its functions as expressions."""

from __future__ import annotations

from typing import Any

import attrs

from tracetypes.compiler.analysis.joins import LONGEST, JoinForm, JoinKind, gives_joined, sides_in, time_in, value_in
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.near import Near
from tracetypes.records import Boolean, Integer, ListOf, Record
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedNear", "near_in"]


@attrs.frozen(eq=False)
class TracedNear(JoinForm, JoinKind):
    """An interval join. ``waits``: how long (microseconds) left and right items may still find a partner. ``lists``: the kinds of
    the lists in which these wait."""

    waits: tuple[int, int]
    how: str
    lists: tuple[ListOf, ListOf]

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees."""
        return self.times


def near_in(op: OpKeyedOrdered[Any, Any, Any, Any], its: Near[Any], takes: StreamType, gives: StreamType) -> TracedNear:
    """An interval join as expressions. Raises :class:`Untraceable`."""
    left, right = sides_in(takes, its.left)
    if max(abs(its.before), abs(its.after)) > LONGEST:
        raise Untraceable("has an interval of more than 70,000 years")
    if not gives_joined(gives.value, its.gives, its.how, value_in(left), value_in(right)):
        raise Untraceable("emits values of another type than those that it takes")
    lists = _list_of(its, left), ListOf(Integer(), False) if its.how in ("semi", "anti") else _list_of(its, right)
    places: Any = tuple(enumerate(lists))
    return TracedNear(
        state=Record(tuple, places),
        initial=op.initial_state(),
        forgets=op.forgets_idle,
        marks=True,
        dues=True,
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        left=left,
        right=right,
        times=(time_in(its.time, left), time_in(its.time, right)),
        waits=(its.after, its.before),
        how=its.how,
        lists=lists,
    )


def _list_of(its: Near[Any], side: Record) -> ListOf:
    parts: Any = (("time", Integer()), ("value", value_in(side)), ("paired", Boolean()))
    places: Any = tuple(enumerate(part for _, part in parts[:2]))
    return ListOf(Record(its.holds, places if its.holds is tuple else parts), False)


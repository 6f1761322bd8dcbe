"""Sessions and counted windows of the standard library, whose results are computed of their items, as expressions."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tracetypes.compiler.analysis.choices import Places
from tracetypes.compiler.analysis.joins import LONGEST, time_in
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.analysis.summaries import TracedResults, results_in
from tracetypes.compiler.tracing.tracer import Given, Untraceable
from tracetypes.consecutive_windows import ConsecutiveWindows, Gap, HeldItems, HeldSession
from tracetypes.records import Integer, ListOf, OneOf, Optional, Record
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedConsecutive", "TracedGap", "consecutive_in"]

MOST: Final = 1 << 12
"""The largest number of items of a window: a key holds as many."""


@attrs.frozen(eq=False)
class TracedGap:
    """A window ends where the next item, or a marker, is more than ``micros`` behind its last one. ``times``: for values of each
    schema, the tree (Integer) of the time of ``value``."""

    micros: int
    times: Places


@attrs.frozen(eq=False)
class TracedConsecutive(OrderedForm):
    """Windows that follow one another, whose items are held until they end. ``its``: what the operator says of itself;
    ``values``: the kind of the items that a key holds; ``results``: what is emitted, of a session by its times ``first`` and
    ``last``; ``length``: what ends a window, a gap or a number of items."""

    its: ConsecutiveWindows[Any]
    values: ListOf
    results: TracedResults
    length: TracedGap | int

    def shown(self, state: Any) -> Any:
        """A state with the result in place of the aggregate, which may be another object of the same value."""
        of: Any = self.its.aggregate
        match state:
            case HeldSession(first, last, values):
                state = first, last, of.fold(of.identity(), values)
            case HeldItems(values):
                state = len(values), of.fold(of.identity(), values)
            case _:
                pass
        return state if state is None or (state[0] == 0 and len(state) == 2) else (*state[:-1], of.result(state[-1]))


def consecutive_in(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: ConsecutiveWindows[Any], takes: StreamType, gives: StreamType
) -> TracedConsecutive:
    """Windows that follow one another as expressions. Raises :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    values, length = ListOf(takes.value, False), its.length
    if isinstance(length, Gap):
        if length.micros > LONGEST >> 2:
            raise Untraceable("has gaps of more than 17,000 years")
        members = takes.value.members if isinstance(takes.value, OneOf) else (takes.value,)
        gap = TracedGap(length.micros, tuple([(member, time_in(length.time, member)) for member in members]))
        known = Given("first", Integer()), Given("last", Integer())
        times = ("first", Integer()), ("last", Integer())
        return TracedConsecutive(
            state=Optional(Record(HeldSession, (*times, ("values", values)))),
            initial=None,
            **_common(op, its, takes, gives, known),
            length=gap,
        )
    if length > MOST:
        raise Untraceable(f"holds the items of windows of more than {MOST:,} items")
    return TracedConsecutive(
        state=Record(HeldItems, (("values", values),)),
        initial=HeldItems([]),
        **_common(op, its, takes, gives, ()),
        length=length,
    )


def _common(
    op: OpKeyedOrdered[Any, Any, Any, Any],
    its: ConsecutiveWindows[Any],
    takes: StreamType,
    gives: StreamType,
    known: tuple[Given, ...],
) -> dict[str, Any]:
    """What both kinds of windows have. ``known``: what is known of a window beside its items."""
    return {
        "forgets": op.forgets_idle,
        "marks": isinstance(its.length, Gap),
        "dues": isinstance(its.length, Gap),
        "key": takes.key,
        "takes": takes.value,
        "gives": gives.value,
        "its": its,
        "values": ListOf(takes.value, False),
        "results": results_in(op, its.summary, takes.value, its.answer, known),
    }

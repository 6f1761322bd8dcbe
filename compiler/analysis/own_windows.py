"""Windows of the standard library by the items' own times, with their functions as expressions."""

from __future__ import annotations

import math
from typing import Any

import attrs

from tracetypes.blame import called
from tracetypes.compiler.analysis.choices import returned
from tracetypes.compiler.analysis.joins import LONGEST
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import Monoid, constant, leaves, monoid_of_aggregate, results
from tracetypes.compiler.analysis.ordered_form import OrderedForm, kind_of, need_held
from tracetypes.compiler.tracing.expr import Const, Pack, Tree
from tracetypes.compiler.tracing.kinds import Empty, Level, MapOf
from tracetypes.compiler.tracing.tracer import Given, Nested, Untraceable, trace
from tracetypes.own_windows import OwnWindows
from tracetypes.records import Float, Integer, Record
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedWindows", "windows_in"]


@attrs.frozen(eq=False)
class TracedWindows(OrderedForm):
    """Windows by the items' own times. ``number``: the tree (Integer) of the number of the window of ``value``; ``answer``: what
    is emitted for the ``number`` and ``agg`` of a window. ``size``, ``offset`` and ``grace``: microseconds."""

    puts_off = True

    monoid: Monoid
    number: Tree
    answer: Tree
    size: int
    offset: int
    grace: int


def windows_in(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: OwnWindows[Any], takes: StreamType, gives: StreamType
) -> TracedWindows:
    """Windows by the items' own times as expressions. Raises :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    if max(its.size, its.grace, abs(its.offset)) > LONGEST >> 2:
        raise Untraceable("has windows of more than 17,000 years")
    calls = (called(type(op).on_marker, owner=op),)
    monoid = monoid_of_aggregate(its.aggregate, takes.value, calls)
    _need_zero(its.aggregate, monoid)
    number = returned(its.number, takes.value)
    if any(isinstance(result, Pack) or result.kind != Integer() for result in results(number) if result is not None):
        raise Untraceable("has times that are no whole numbers")
    answer = trace(its.answer, [Given("number", Integer()), Nested("agg", monoid.shape)], emits="values", fields=True)
    aggregates = kind_of(monoid.shape)
    need_held(aggregates)
    initial = op.initial_state()
    fields: Any = (
        ("over", Level()),
        ("aggregates", MapOf(Integer(), aggregates)),
        ("values", Empty()),
    )
    return TracedWindows(
        state=Record(type(initial), fields),
        initial=initial,
        forgets=op.forgets_idle,
        marks=True,
        dues=True,
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        monoid=monoid,
        number=number,
        answer=answer,
        size=its.size,
        offset=its.offset,
        grace=its.grace,
    )


def _need_zero(aggregate: Any, monoid: Monoid) -> None:
    """Raises :class:`Untraceable` where a plain sum of floats does not begin with 0.0."""
    starts = dict(leaves(constant(aggregate, "identity")))
    for part in monoid.parts:
        if part.reduction == "sum" and isinstance(part.kind, Float):
            start = starts.get(part.path)
            if not isinstance(start, Const) or start.value != 0.0 or math.copysign(1.0, start.value) < 0.0:
                raise Untraceable("begins a sum of floats with something else than 0.0")

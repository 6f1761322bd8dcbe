"""Windows of the standard library by the items' own times, with their functions as expressions."""

from __future__ import annotations

from typing import Any

import attrs

from tracetypes.blame import called
from tracetypes.compiler.analysis.choices import Places
from tracetypes.compiler.analysis.joins import LONGEST, JoinKind, gives_joined, sides_in, time_in, value_in
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import Monoid, monoid_of_aggregate
from tracetypes.compiler.analysis.ordered_form import OrderedForm, StateKind, kind_of, need_held
from tracetypes.compiler.analysis.summaries import TracedResults, need_zero, results_in
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.compiler.tracing.kinds import Empty, Level, MapOf
from tracetypes.compiler.tracing.tracer import Given, Nested, Untraceable, trace
from tracetypes.own_windows import OwnWindows, PairsOfWindows
from tracetypes.records import Integer, ListOf, OneOf, Record
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedHeldWindows", "TracedPairs", "TracedWindows", "WindowForm", "windows_in"]


@attrs.frozen(eq=False)
class WindowForm(OrderedForm):
    """Windows by the items' own times. ``numbers``: for values of each schema, the tree (Integer) of the number of the window of
    ``value``. ``size``, ``offset`` and ``grace``: microseconds."""

    puts_off = True

    numbers: Places
    size: int
    offset: int
    grace: int


@attrs.frozen(eq=False)
class TracedWindows(WindowForm):
    """Windows whose aggregates are sums and extremes. ``answer``: the tree of what is emitted for the ``number`` and ``agg`` of a
    window."""

    monoid: Monoid
    answer: Tree


@attrs.frozen(eq=False)
class TracedPairs(JoinKind):
    """The items of a window are joined. ``left`` and ``right``: the records of the two sides; ``how``: the kind of the join."""

    left: Record
    right: Record
    how: str


@attrs.frozen(eq=False)
class TracedHeldWindows(WindowForm):
    """Windows whose items are held until they end. ``its``: what the operator says of itself; ``values``: the kind of the items
    that a key holds; ``content``: what is made of the items of a window."""

    its: OwnWindows[Any]
    values: ListOf
    content: TracedPairs | TracedResults

    def shown(self, state: Any) -> Any:
        """A state as Python has it at a marker: its values lie in aggregates, of which only the results count."""
        windows, of = dict(state.aggregates), self.its.aggregate
        assert hasattr(of, "fold")
        assert hasattr(of, "identity")
        assert hasattr(of, "result")
        by_number = dict[int, list[Any]]()
        for value in state.values:
            by_number.setdefault(self.its.number(value), []).append(value)
        for number, values in by_number.items():
            windows[number] = of.fold(windows.get(number, of.identity()), values)
        return state.over, sorted((number, of.result(agg)) for number, agg in windows.items())


def windows_in(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: OwnWindows[Any], takes: StreamType, gives: StreamType
) -> WindowForm:
    """Windows by the items' own times as expressions. Raises :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    if max(its.size, its.grace, abs(its.offset)) > LONGEST >> 2:
        raise Untraceable("has windows of more than 17,000 years")
    content: TracedPairs | TracedResults
    if its.pairs is not None:
        content = _pairs(its.pairs, takes, gives)
    else:
        calls = (called(type(op).on_marker, owner=op),)
        try:
            return _sums(op, its, monoid_of_aggregate(its.aggregate, takes.value, calls), takes, gives)
        except Untraceable:
            if its.summary is None:
                raise
        content = results_in(op, its.summary, takes.value, its.answer_result, (Given("number", Integer()),))
    values = ListOf(takes.value, False)
    return TracedHeldWindows(
        **_common(op, its, takes, gives, MapOf(Integer(), None), values), its=its, values=values, content=content
    )


def _sums(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: OwnWindows[Any], monoid: Monoid, takes: StreamType, gives: StreamType
) -> TracedWindows:
    need_zero(its.aggregate, monoid)
    answer = trace(its.answer, [Given("number", Integer()), Nested("agg", monoid.shape)], emits="values", fields=True)
    aggregates = kind_of(monoid.shape)
    need_held(aggregates)
    common = _common(op, its, takes, gives, MapOf(Integer(), aggregates), Empty())
    return TracedWindows(**common, monoid=monoid, answer=answer)


def _common(
    op: OpKeyedOrdered[Any, Any, Any, Any],
    its: OwnWindows[Any],
    takes: StreamType,
    gives: StreamType,
    aggregates: StateKind,
    values: StateKind,
) -> dict[str, Any]:
    """What all windows by the items' own times have. ``aggregates`` and ``values``: the kinds of these parts of a state."""
    members = takes.value.members if isinstance(takes.value, OneOf) else (takes.value,)
    initial = op.initial_state()
    fields: Any = (("over", Level()), ("aggregates", aggregates), ("values", values))
    return {
        "state": Record(type(initial), fields),
        "initial": initial,
        "forgets": op.forgets_idle,
        "marks": True,
        "dues": True,
        "key": takes.key,
        "takes": takes.value,
        "gives": gives.value,
        "numbers": tuple([(member, time_in(its.number, member)) for member in members]),
        "size": its.size,
        "offset": its.offset,
        "grace": its.grace,
    }


# ---------------------------------------------------------------------------------------- items that are held


def _pairs(its: PairsOfWindows, takes: StreamType, gives: StreamType) -> TracedPairs:
    left, right = sides_in(takes, its.left)
    if not gives_joined(gives.value, its.gives, its.how, value_in(left), value_in(right)):
        raise Untraceable("emits values of another type than those that it takes")
    return TracedPairs(left, right, its.how)

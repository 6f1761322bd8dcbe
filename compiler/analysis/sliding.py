"""The sliding ``count_window`` of the standard library, with the methods of its aggregate as expressions."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tracetypes.compiler.analysis.blame import method_to_blame
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import constant, leaves, need_type, results, united
from tracetypes.compiler.analysis.ordered_form import OrderedForm, need_held
from tracetypes.compiler.tracing.expr import Tree, Value
from tracetypes.compiler.tracing.tracer import Given, Nested, Untraceable, trace_method
from tracetypes.records import Optional
from tracetypes.sliding import Sliding
from tracetypes.state_check import aggregates_of
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedSliding", "sliding_in"]

MOST: Final = 1 << 12
"""The largest ``items``: these are aggregated one after the other, for all windows at once."""


@attrs.frozen(eq=False)
class TracedSliding(OrderedForm):
    """A sliding ``count_window``. Trees: ``lift`` of ``value``, ``combine`` of ``a`` and ``b``, ``result`` of ``agg``. ``shape``:
    the structure of an aggregate."""

    lift: Tree
    combine: Tree
    result: Tree
    shape: Value
    identity: Any
    items: int
    slide: int

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees."""
        return self.lift, self.combine, self.result


def sliding_in(op: OpKeyedOrdered[Any, Any, Any, Any], its: Sliding, takes: StreamType, gives: StreamType) -> TracedSliding:
    """A sliding ``count_window`` as expressions. Raises :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    if its.items > MOST:
        raise Untraceable(f"has windows of more than {MOST:,} items")
    aggregate = its.aggregate
    with method_to_blame(op, "on_item", takes.value):
        lift = trace_method(aggregate, "lift", [Given("value", takes.value)], emits=None)
        shape = united([*_results(lift), constant(aggregate, "identity")], "agg")
        combine = trace_method(aggregate, "combine", [Nested("a", shape), Nested("b", shape)], emits=None)
        whole = united([*_results(combine), shape], "agg")
        kinds = [[at.kind for _, at in leaves(one)] for one in (shape, whole)]
        if kinds[0] != kinds[1]:
            raise Untraceable("has a combine that gives None where lift and identity do not")
        for kind in kinds[0]:
            need_held(kind.item if isinstance(kind, Optional) else kind)
        need_type(shape, aggregates_of(aggregate))
        result = trace_method(aggregate, "result", [Nested("agg", shape)], emits=None)
        if any(one is None for one in results(result)):
            raise Untraceable("has a result that gives nothing")
    return TracedSliding(
        state=None,
        initial=op.initial_state(),
        forgets=op.forgets_idle,
        marks=False,
        dues=False,
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        lift=lift,
        combine=combine,
        result=result,
        shape=shape,
        identity=aggregate.identity(),
        items=its.items,
        slide=its.slide,
    )


def _results(tree: Tree) -> list[Value]:
    values = list(results(tree))
    if not values or None in values:
        raise Untraceable("makes no aggregate of some values")
    return [one for one in values if one is not None]

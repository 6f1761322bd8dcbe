"""The join of the last items of the standard library."""

from __future__ import annotations

from typing import Any

import attrs

from tracetypes.compiler.analysis.joins import gives_joined, sides_in, value_in
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.tracing.kinds import Queue
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.last_items import LastItems
from tracetypes.records import Record
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedLastItems", "last_items_in"]


@attrs.frozen(eq=False)
class TracedLastItems(OrderedForm):
    """A join of the last ``items`` items. ``left`` and ``right``: the records of the two sides."""

    left: Record
    right: Record
    items: int

    def shown(self, state: Any) -> Any:
        """A state as lists, which are compared bit by bit."""
        return tuple(map(list, state))


def last_items_in(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: LastItems, takes: StreamType, gives: StreamType
) -> TracedLastItems:
    """What columns need to know of a join of the last items. Raises :class:`Untraceable`."""
    left, right = sides_in(takes, its.left)
    if not gives_joined(gives.value, its.gives, "inner", value_in(left), value_in(right)):
        raise Untraceable("emits values of another type than those that it takes")
    places: Any = tuple(enumerate(Queue(value_in(side)) for side in (left, right)))
    return TracedLastItems(
        state=Record(tuple, places),
        initial=op.initial_state(),
        forgets=op.forgets_idle,
        marks=False,
        dues=False,
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        left=left,
        right=right,
        items=its.items,
    )

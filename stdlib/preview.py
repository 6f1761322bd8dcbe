"""What an operator makes of a few items: for notebooks, examples and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tracetypes.canonical import canonical
from tracetypes.check import check
from tracetypes.edges import Edge, edge_type
from tracetypes.graph import Dataflow, Stream
from tracetypes.interpreter import interpret
from tracetypes.markers import Marker, every
from tracetypes.nodes import ROW_POSITION
from tracetypes.trace import Element, Item, blocks

__all__ = ["preview"]

E = TypeVar("E", bound=Edge[Any, Any])
R = TypeVar("R", bound=Edge[Any, Any])

_PERIOD = 1_000_000


def preview(
    op: Callable[[Stream[E]], Stream[R]], edge: type[E], *items: Sequence[tuple[Any, Any]]
) -> list[list[tuple[Any, Any]]]:
    """The pairs that come out for the pairs that go in, block by block; markers are a second apart, from second 1.

    ``op``: whatever ``Stream.through`` takes. ``edge``: the type of what goes in, ``U[K, V]`` or ``O[K, V]``. Inside a
    block the pairs that come out are in the canonical order of their keys; those of one key in their order, or where they
    have none of their own in the canonical order of their values. This is the definition of the
    operator, not a backend: slow, and for small inputs. Raises what ``check`` and the operator raise.

    >>> from tracetypes.stdlib import map_values
    >>> preview(map_values(abs, to=int), U[str, int], [("b", -2), ("a", 1)], [("b", 3)])
    [[('a', 1), ('b', 2)], [('b', 3)]]
    """
    flow = Dataflow("preview")
    declare: Any = flow.source  # the edge is not known here
    order = ROW_POSITION if edge_type(edge).ordered else None
    source: Stream[E] = declare("given", edge, markers=every(seconds=1, time=lambda value: 0), ordered_by=order)
    flow.sink("out", source.through(op))
    checked = check(flow)
    stream = checked.streams[checked.graph.sinks[0].id]
    elements: list[Element] = []
    for at, block in enumerate(items, 1):
        elements += [Item(key, value) for key, value in block]
        elements.append(Marker(at * _PERIOD))
    output = blocks(interpret(checked, {"given": elements})["out"].items)
    key_order, value_order = canonical(stream.key), canonical(stream.value)

    def place(item: Item) -> Any:
        return key_order(item.key), None if stream.ordered else value_order(item.value)

    return [
        [(item.key, item.value) for item in sorted(block.items, key=place)]
        for block in output
        if block.marker is not None
    ]

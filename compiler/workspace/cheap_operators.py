"""Which operators of a dataflow cost less than a channel, so that each of their readers computes them again.

To write a row into a channel and to read it again costs some 400 ns of processor time. If two flows share what lies in front of
the channel, that pays from :data:`BREAK_EVEN` on: ``cost + write + 2 * read < 2 * cost``. ``benchmarks/reuse.py --attach``
measures it: 530 to 630.
Operators of a chain count together, from the last one on that is not cheap: where the chain costs more than a channel, it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tracetypes.check import Checked
from tracetypes.compiler.analysis.traced import Opaque, traced
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.compiler.tracing.expr import Branch, Call, Emission, Expr, Leaf, Loop, Pack, Tree, Value
from tracetypes.nodes import Apply, Merge, Node, Sort
from tracetypes.templates import OpStateless, overrides

__all__ = ["BREAK_EVEN", "cheap_operators"]

BREAK_EVEN: Final = 550
"""Nanoseconds of processor time a row: what dearer operators emit goes through a channel."""

SORT: Final = 60
MERGE: Final = 5
OPERATION: Final = 10
EMISSION: Final = 20
"""Nanoseconds a row of a sort, a merge, an operation on columns, and a row that an operator emits. Rough: they only have to tell
a chain of a few operators from one of fifty operations."""

TURNS: Final = 10
"""Of a loop, whose length is not known."""


def cheap_operators(checked: Checked, once: AnalysisCache) -> frozenset[int]:
    """The numbers of operators that keep nothing from one block to the next, and cost less than a channel with all such ones in
    front of them: stateless operators that run over columns, merges and sorts."""
    costs: dict[int, float] = {}
    for node in checked.graph.nodes:  # each behind its inputs
        cost = _cost(node, checked, once)
        if cost is not None and (total := cost + max((costs.get(one, 0.0) for one in node.inputs), default=0.0)) < BREAK_EVEN:
            costs[node.id] = total
    return frozenset(costs)


def _cost(node: Node, checked: Checked, once: AnalysisCache) -> float | None:
    """Nanoseconds a row. None if it keeps something, or runs as Python."""
    match node:
        case Merge():
            return MERGE
        case Sort():
            return SORT
        case Apply(op=OpStateless()) if not overrides(node.op, "on_marker"):
            tree = once(traced, node.op, checked.streams[node.inputs[0]])
            return None if isinstance(tree, Opaque) else _of_tree(tree, set())
        case _:
            return None


def _of_tree(tree: Tree, seen: set[int]) -> float:
    """An operation that several branches use is done once. ``seen``: those that are counted."""
    match tree:
        case Branch():
            decided = OPERATION * sum(1 for _ in _calls(tree.condition, seen))
            return decided + _of_tree(tree.then, seen) + _of_tree(tree.otherwise, seen)
        case Leaf():
            return sum(_of_emission(one, seen) for one in tree.emissions)


def _of_emission(one: Emission | Loop, seen: set[int]) -> float:
    if isinstance(one, Loop):
        return TURNS * _of_tree(one.body, seen)
    values = [one.value] if one.key is None else [one.key, one.value]
    return EMISSION + OPERATION * sum(1 for value in values for _ in _calls(value, seen))


def _calls(value: Value | Expr, seen: set[int]) -> Iterator[Call]:
    """The operations of a value that were not counted yet."""
    pending: list[Value] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Pack):
            pending += one.parts
        elif isinstance(one, Call) and id(one) not in seen:
            seen.add(id(one))
            yield one
            pending += one.args

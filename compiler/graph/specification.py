"""Well-formedness as data: rules for a graph under compilation here, and for a plan in ``plan/specification``.

Tests check a graph after every pass, and every plan, so that a wrong pass is caught where it is wrong (as tinygrad's
``spec.py``). A run does not check: it takes time, and a run compiles only checked graphs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from tracetypes.check import Checked
from tracetypes.edge_check import unify
from tracetypes.edges import EdgeType
from tracetypes.nodes import (
    Apply,
    Fused,
    Gather,
    Merge,
    Node,
    Receive,
    Restore,
    Sink,
    Sort,
    Source,
    Split,
    steps_of,
    title,
)
from tracetypes.templates import OpKeyedOrdered, OpStateless, as_operator, template_types

__all__ = ["GRAPH", "IllFormed", "Rule", "problems", "require"]

T = TypeVar("T")


class IllFormed(AssertionError):
    """A pass or the planner made a graph or plan that is not well-formed."""


@attrs.frozen
class Rule(Generic[T]):
    """A condition that always holds. ``broken``: describes where it does not."""

    says: str
    broken: Callable[[T], Iterator[str]]


def problems(rules: Sequence[Rule[T]], of: T) -> list[str]:
    """The violations of the first rule that is broken. Later rules rely on it."""
    for rule in rules:
        if broken := [f"{rule.says}: {where}" for where in rule.broken(of)]:
            return broken
    return []


def require(rules: Sequence[Rule[T]], of: T, who: str) -> T:
    """In tests, raise :class:`IllFormed` unless all rules hold; ``who`` made the graph or plan. Elsewhere do nothing."""
    if os.environ.get("TRACETYPES_SPECIFICATION") and (broken := problems(rules, of)):
        raise IllFormed("\n    ".join([f"what {who} made is not well-formed", *broken]))
    return of


# --------------------------------------------------------------------------------------------------- graphs


def _steps(checked: Checked) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """All nodes, those of chains one by one, with what each reads."""
    for node in checked.graph.nodes:
        inputs = node.inputs
        for step in steps_of(node):
            yield step, inputs
            inputs = (step.id,)


def _named(node: Node) -> str:
    return f"{title(node)} ({node.id})"


def _numbers(checked: Checked) -> Iterator[str]:
    for id, times in Counter(step.id for step, _ in _steps(checked)).items():
        if times > 1:
            yield f"{times} nodes have the number {id}"


def _chains(checked: Checked) -> Iterator[str]:
    for node in checked.graph.nodes:
        if isinstance(node, Fused):
            if len(node.steps) < 2 or any(isinstance(step, Fused) for step in node.steps):
                yield f"{_named(node)} is no chain of two nodes or more"
            elif node.id != node.steps[-1].id:
                yield f"{_named(node)} has not the number of its last step"


def _inputs(checked: Checked) -> Iterator[str]:
    before = set[int]()
    for node, inputs in _steps(checked):
        for upstream in inputs:
            if upstream not in before:
                yield f"{_named(node)} reads {upstream}, which does not come before it"
        before.add(node.id)


def _arity(checked: Checked) -> Iterator[str]:
    for node, inputs in _steps(checked):
        fits = not inputs if isinstance(node, Source | Receive) else inputs if isinstance(node, Merge) else len(inputs) == 1
        if not fits:
            yield f"{_named(node)} has {len(inputs)} inputs"


def _readers(checked: Checked) -> Iterator[str]:
    read = {upstream for _, inputs in _steps(checked) for upstream in inputs}
    for node, _ in _steps(checked):
        if isinstance(node, Sink) == (node.id in read) and not isinstance(node, Source):
            yield f"{_named(node)} is read by {'somebody' if node.id in read else 'nobody'}"


def _typed(checked: Checked) -> Iterator[str]:
    for node, _ in _steps(checked):
        if node.id not in checked.types:
            yield f"{_named(node)} has no type"


def _types(checked: Checked) -> Iterator[str]:
    for node, edges in _steps(checked):
        inputs, gives = [checked.types[i] for i in edges], checked.types[node.id]
        if not _fits(node, inputs, gives):
            yield f"{_named(node)} gives {gives} of {', '.join(map(str, inputs)) or 'nothing'}"


def _fits(node: Node, inputs: Sequence[EdgeType], gives: EdgeType) -> bool:
    """Can a node make an edge of that type?"""
    match node:
        case Sink() | Gather():
            return inputs[0] == gives
        case Restore():
            return inputs[0] == gives and gives.ordered
        case Split():  # in front of a merge it looks at keys as the merged stream has them
            return (inputs[0].ordered, inputs[0].value) == (gives.ordered, gives.value)
        case Sort():
            return attrs.evolve(inputs[0], ordered=True) == gives
        case Merge():
            return gives.ordered == all(one.ordered for one in inputs) and all(one.value == gives.value for one in inputs)
        case Apply():
            takes, _ = template_types(as_operator(node.op))
            bound: dict[Any, Any] = {}
            keyed = unify(takes.key, inputs[0].key, bound) and unify(takes.value, inputs[0].value, bound)
            return keyed and inputs[0].ordered >= takes.ordered and gives.ordered == takes.ordered
        case _:
            return True


Levels: TypeAlias = tuple[tuple[bool, int], ...]
"""The channels of an edge, the outermost level first: are the items of a key in one channel, and how many channels are there?"""


def _channels(checked: Checked) -> Iterator[str]:
    levels: dict[int, Levels] = {}
    for node, inputs in _steps(checked):
        above: Levels = levels[inputs[0]] if inputs else ()
        match node:
            case Split(how=how, ways=ways):
                above = (*above, (how == "HASH", ways))
            case Gather():
                if not above:
                    yield f"{_named(node)} gathers what is one channel"
                above = above[1:]
            case Merge():
                sides = [levels[i] for i in inputs]
                if any([ways for _, ways in one] != [ways for _, ways in above] for one in sides):
                    yield f"{_named(node)} merges streams of different channels"
                    return
                above = tuple((all(one[at][0] for one in sides), ways) for at, (_, ways) in enumerate(above))
            case Sink() if above:
                yield f"{_named(node)} reads {len(above)} levels of channels"
            case Sort() | Apply() if _is_keyed(node) and not all(together for together, _ in above):
                yield f"{_named(node)} reads channels over which the items of a key are spread"
            case Apply() if not isinstance(node.op, OpKeyedOrdered):
                above = tuple((False, ways) for _, ways in above)  # keys may be others now
            case _:
                pass
        levels[node.id] = above


def _is_keyed(node: Node) -> bool:
    return isinstance(node, Sort) or (isinstance(node, Apply) and not isinstance(node.op, OpStateless))


GRAPH: Final[tuple[Rule[Checked], ...]] = (
    Rule("each number is that of one node", _numbers),
    Rule("a fused node is a chain", _chains),
    Rule("inputs come before what reads them", _inputs),
    Rule("a node has the inputs that it needs", _arity),
    Rule("what is no sink is read, and a sink is not", _readers),
    Rule("every edge has a type", _typed),
    Rule("an edge has the type that its node makes of its inputs", _types),
    Rule("keyed nodes find all items of a key in one channel, and sinks one channel", _channels),
)
"""What holds of a graph before and after each pass."""

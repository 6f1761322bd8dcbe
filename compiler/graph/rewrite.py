"""Building the graph that a pass returns. Nodes are frozen: a pass writes a new list of nodes, in topological order."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tracetypes.check import Checked
from tracetypes.edges import EdgeType
from tracetypes.errors import Location
from tracetypes.nodes import Gather, Graph, Node, Restore, Split

__all__ = ["Rewrite"]


class Rewrite:
    """The graph under construction. ``place`` copies a node, ``add`` puts a new node after an existing one."""

    def __init__(self, checked: Checked) -> None:
        self.old = checked
        self.nodes: list[Node] = []
        self.types: dict[int, EdgeType] = {}
        self.moved: dict[int, int] = {}
        self.fresh = max((node.id for node in checked.graph.nodes), default=-1) + 1

    def input_of(self, id: int) -> int:
        """The node that now has the output of an old node."""
        return self.moved.get(id, id)

    def place(self, node: Node, inputs: tuple[int, ...] | None = None) -> int:
        """Copy a node of the old graph. ``inputs``: the new ones, by default those that now have the outputs of the old
        ones."""
        now = tuple(self.input_of(i) for i in node.inputs) if inputs is None else inputs
        self.nodes.append(node if now == node.inputs else attrs.evolve(node, inputs=now))
        self.types[node.id] = self.old.types[node.id]
        return node.id

    def add(self, make: Callable[[int, tuple[int, ...], Location], Node], upstream: tuple[int, ...], like: Node) -> int:
        """Add a node of the compiler. Its edge has the type of its first input, and its line is that of ``like``."""
        node = make(self.fresh, upstream, like.where)
        self.fresh += 1
        self.nodes.append(node)
        self.types[node.id] = self.types[upstream[0]]
        return node.id

    def done(self) -> Checked:
        """The new graph."""
        return Checked(Graph(self.old.graph.name, tuple(self.nodes)), self.types)


def gather(id: int, inputs: tuple[int, ...], where: Location) -> Node:
    """MRG of channels, for :meth:`Rewrite.add`."""
    return Gather(id=id, inputs=inputs, where=where)


def restore(id: int, inputs: tuple[int, ...], where: Location) -> Node:
    """SORT by position, for :meth:`Rewrite.add`."""
    return Restore(id=id, inputs=inputs, where=where)


def round_robin(ways: int) -> Callable[[int, tuple[int, ...], Location], Node]:
    """RR, for :meth:`Rewrite.add`."""
    return lambda id, inputs, where: Split(id=id, inputs=inputs, where=where, how="RR", ways=ways)


def hashing(ways: int) -> Callable[[int, tuple[int, ...], Location], Node]:
    """HASH, for :meth:`Rewrite.add`."""
    return lambda id, inputs, where: Split(id=id, inputs=inputs, where=where, how="HASH", ways=ways)

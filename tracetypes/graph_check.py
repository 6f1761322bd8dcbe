"""The checks of a graph: names, edges, cycles."""

from __future__ import annotations

import re
from typing import Any

from tracetypes.edges import EdgeType
from tracetypes.errors import Location, Violation
from tracetypes.nodes import (
    Fused,
    Gate,
    Graph,
    Merge,
    Node,
    Sink,
    Source,
    title,
)
from tracetypes.records import (
    Schema,
)

__all__ = ["GraphCheck"]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class GraphCheck:
    """Finds what is wrong with the names and edges of a graph, and notes it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.by_id = graph.by_id
        self.consumers = graph.consumers
        self.violations: list[Violation] = []
        self.types: dict[int, EdgeType | None] = {}
        self.schemas: dict[Any, Schema | None] = {}
        self.places = {node.id: at for at, node in enumerate(graph.nodes)}
        self.origins: dict[int, int] = {}

    def refuse(self, code: str, node: Node, found: str, expected: str, fix: str) -> None:
        self.violations.append(Violation(code, title(node), node.where, found, expected, fix))

    def names(self) -> None:
        for kind in (Source, Sink):
            first: dict[str, Location] = {}
            for node in self.graph.nodes:
                if not isinstance(node, kind) or not isinstance(node, Source | Sink):
                    continue
                if isinstance(node, Source) and node.output != "items":
                    continue  # its name is that of the source, which is there too
                if not _is_name(node.name):
                    self.refuse(
                        "TT118",
                        node,
                        f"the name {node.name!r}",
                        "a name of letters, digits, '_', '-' and '.'",
                        "rename it: names become file names and command line arguments",
                    )
                elif node.name in first:
                    self.refuse(
                        "TT112",
                        node,
                        f"a second {kind.__name__.lower()} named {node.name!r}",
                        f"one {kind.__name__.lower()} of that name (the first is at {first[node.name]})",
                        "rename one of them",
                    )
                else:
                    first[node.name] = node.where

        for node in self.graph.nodes:
            if isinstance(node, Gate) and node.name is not None and not _is_name(node.name):
                self.refuse(
                    "TT118",
                    node,
                    f"the name {node.name!r}",
                    "a name of letters, digits, '_', '-' and '.'",
                    "rename it: names become file names",
                )

    def partners(self) -> None:
        for node in self.graph.nodes:
            for upstream in node.inputs:
                if upstream not in self.by_id or isinstance(self.by_id[upstream], Sink):
                    self.refuse(
                        "TT108",
                        node,
                        "an input that is not in this dataflow",
                        f"a stream of dataflow {self.graph.name!r}",
                        "pass a stream that came from this dataflow's source(...)",
                    )
            self.arity(node)
            if not isinstance(node, Sink) and not self.consumers.get(node.id) and not self.side_outputs(node):
                self.refuse(
                    "TT109",
                    node,
                    "nobody reads its output",
                    "a path to a sink",
                    "send it to a sink with flow.sink(name, stream), or delete it",
                )
        if not self.graph.nodes:
            nowhere = Location(self.graph.name, 0)
            self.violations.append(
                Violation(
                    "TT109", f"dataflow {self.graph.name!r}", nowhere, "no nodes", "a source and a sink", "add them"
                )
            )

    def side_outputs(self, node: Node) -> bool:
        """Whether this is the item stream of a source whose late items or rejects are used."""
        others = (other for other in self.graph.nodes if isinstance(other, Source) and other.output != "items")
        return isinstance(node, Source) and node.output == "items" and any(other.name == node.name for other in others)

    def arity(self, node: Node) -> None:
        count = len(node.inputs)
        if isinstance(node, Source | Fused) or (isinstance(node, Merge) and count) or count == 1:
            return
        self.refuse(
            "TT108",
            node,
            f"{count} inputs" if count else "no input",
            "streams" if isinstance(node, Merge) else "one stream",
            f"give {title(node)} the stream to read" if not count else "merge them first",
        )

    def order(self) -> list[Node]:
        """A topological order. Omits nodes on a cycle or downstream of one, and reports the cycle."""
        waiting = {node.id: sum(1 for i in set(node.inputs) if i in self.by_id) for node in self.graph.nodes}
        ready = [node for node in self.graph.nodes if waiting[node.id] == 0]
        order: list[Node] = []
        for node in ready:
            order.append(node)
            for consumer in {c.id: c for c in self.consumers.get(node.id, ())}.values():
                waiting[consumer.id] -= 1
                if waiting[consumer.id] == 0:
                    ready.append(consumer)
        if len(order) < len(self.graph.nodes):
            self.cycles({node.id for node in self.graph.nodes} - {node.id for node in order})
        return order

    def cycles(self, stuck: set[int]) -> None:
        """Report one cycle of each group of nodes that are stuck together. Every stuck node has a stuck input."""
        seen: set[int] = set()
        for start in sorted(stuck):
            path: dict[int, None] = {}
            at = start
            while at not in path and at not in seen:
                path[at] = None
                at = next(i for i in self.by_id[at].inputs if i in stuck)
            if at in path:
                ring = list(path)[list(path).index(at) :]
                names = " <- ".join(title(self.by_id[i]) for i in (*ring, at))
                gate = next((self.by_id[i] for i in ring if isinstance(self.by_id[i], Gate)), None)
                if gate is None:
                    self.refuse(
                        "TT105", self.by_id[at], f"the cycle {names}", "an acyclic graph", "remove the edge that leads back"
                    )
                else:
                    self.refuse(
                        "TT130",
                        gate,
                        f"a container downstream of its own gate: {names}",
                        "a container that the steps before the gate write",
                        "put the gate on a stream that does not come from what it lets through",
                    )
            seen.update(path)

"""The graph checker. It finds every reason why a dataflow has no meaning, all at once.

The checker repeats at graph-build time what mypy checks, for code that mypy never saw. It adds what no type checker
knows: names, cycles, schemas, frozen operators, functions that cannot be shipped. :func:`check` returns a
:class:`Checked`, and only a ``Checked`` can be compiled or interpreted.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

import attrs

from tracetypes.column_check import ColumnCheck
from tracetypes.edges import EdgeType, edge_type
from tracetypes.errors import CheckFailed, Violation
from tracetypes.formats import Layout
from tracetypes.graph import DISPLAY, Dataflow, Stream
from tracetypes.nodes import (
    ROW_POSITION,
    Apply,
    Gate,
    Graph,
    Node,
    Sink,
    Sort,
    Source,
)
from tracetypes.open_types import OpenOperator
from tracetypes.records import (
    UnitValue,
)
from tracetypes.redaction import conceal
from tracetypes.shipping import try_to_ship
from tracetypes.templates import TEMPLATES
from tracetypes.trace import StreamType, stream_type

__all__ = ["Checked", "check", "edge_of", "violations"]


@attrs.define(eq=False, slots=False, frozen=True)
class Checked:
    """A graph without violations, with the type of the edge that leaves each node."""

    graph: Graph
    types: dict[int, EdgeType]

    @cached_property
    def streams(self) -> dict[int, StreamType]:
        """The data-trace type of the edge that leaves each node."""
        known: dict[EdgeType, StreamType] = {}
        for edge in self.types.values():
            if edge not in known:
                known[edge] = stream_type(edge)
        return {id: known[edge] for id, edge in self.types.items()}

    def layout(self, node: Source | Sink) -> Layout:
        """The columns that hold the rows of a source or sink."""
        stream = self.streams[node.id]
        if isinstance(node, Source):
            if node.output != "items":
                stream = stream_type(edge_type(node.edge))
            key = UnitValue() if node.key is not None else stream.key
            return Layout(key, stream.value, truncated=node.times == "truncate")
        return Layout(stream.key, stream.value, tuple(name for name in (node.marker, node.position) if name))


def check(flow: Dataflow | Graph) -> Checked:
    """Check a dataflow. Raises :class:`CheckFailed` with every violation."""
    problems, edges = _Checker(flow.graph if isinstance(flow, Dataflow) else flow).run()
    if problems:
        raise CheckFailed(problems)
    return Checked(flow.graph if isinstance(flow, Dataflow) else flow, edges)


def violations(flow: Dataflow | Graph) -> tuple[Violation, ...]:
    """Every violation of a dataflow, in the order of the author's lines. Empty if there is none."""
    return tuple(_Checker(flow.graph if isinstance(flow, Dataflow) else flow).run()[0])


def edge_of(stream: Stream[Any]) -> EdgeType | None:
    """The type of the edge behind a stream of an unfinished dataflow. None if a violation hides it, which :func:`check`
    will report."""
    flow, types = stream.flow, _EDGES.setdefault(stream.flow, {})
    new: dict[int, Node] = {}
    pending = [stream.id]
    while pending:
        id = pending.pop()
        if id not in types and id not in new and 0 <= id < len(flow._nodes):
            new[id] = flow._nodes[id]
            pending.extend(new[id].inputs)
    checker = _Checker(Graph(flow.name, tuple(new.values())))
    checker.types = types
    for node in checker.order():
        checker.visit(node)
    return types.get(stream.id)


def _edge_shown(stream: Stream[Any]) -> EdgeType | None:
    """As :func:`edge_of`, for people: whatever is wrong is told by :func:`check`."""
    with suppress(Exception):
        return edge_of(stream)
    return None


DISPLAY.edge = _edge_shown

_EDGES: Final = WeakKeyDictionary[Dataflow, dict[int, EdgeType | None]]()
"""What :func:`edge_of` found: an edge keeps its type while a dataflow grows."""


class _Checker(ColumnCheck):

    def run(self) -> tuple[list[Violation], dict[int, EdgeType]]:
        self.names()
        self.partners()
        order = self.order()
        for node in order:
            self.visit(node)
            self.record_of(node)
            self.parallelism(node)
            self.linger(node)
        self.columns()
        for node in self.graph.nodes:
            if isinstance(node, Apply):
                conceal(node.op)
        self.frozen()
        self.shippable()
        self.violations.sort(key=lambda v: (v.where.file, v.where.line))
        return self.violations, {id: edge for id, edge in self.types.items() if edge is not None}


    # -------------------------------------------------------------------------------------------- operators

    def frozen(self) -> None:
        for node in self.graph.nodes:
            op: object = node.op if isinstance(node, Apply) else None
            if isinstance(op, TEMPLATES) and not is_frozen(op):
                name = type(op).__name__
                self.refuse(
                    "TT110",
                    node,
                    f"{name} can be assigned to",
                    "a frozen instance: state is passed in and returned, never kept on self",
                    f"decorate {name} with @attrs.frozen and declare its parameters as fields",
                )

    def shippable(self) -> None:
        shipped = [(node, what, part) for node in self.graph.nodes for what, part in _functions(node)]
        try:
            try_to_ship([part for _, _, part in shipped])
        except Exception:
            for node, what, part in shipped:
                try:
                    try_to_ship(part)
                except Exception as error:
                    fix = "open files, sockets and locks inside the function that uses them; pass plain data as parameters"
                    if "generator" in str(error):
                        fix = "a generator can be read once, in this process: pass list(...) of it"
                    self.refuse(
                        "TT111",
                        node,
                        f"{what} cannot be sent to a worker: {type(error).__name__}: {error}",
                        "functions and parameters that can be pickled",
                        fix,
                    )


def _functions(node: Node) -> list[tuple[str, Any]]:
    match node:
        case Source(output="late" | "rejects"):
            return []
        case Source():
            parts: list[tuple[str, object]] = [
                ("markers", node.markers),
                ("key", node.key),
                ("ordered_by", node.ordered_by),
            ]
            return [(what, part) for what, part in parts if part is not None and part is not ROW_POSITION]
        case Sort():
            return [("by", node.by)]
        case Gate():
            return [("bound", node.bound), *([] if node.latest_by is None else [("latest_by", node.latest_by)])]
        case Apply():
            return [] if isinstance(node.op, OpenOperator) else [(type(node.op).__name__, node.op)]
        case _:
            return []


def is_frozen(op: object) -> bool:
    """Whether no attribute of the operator can be assigned."""
    cls = type(op)
    for at in cls.__mro__:  # a subclass need not be decorated itself: it inherits the refusal
        if "__attrs_props__" in vars(at):
            return bool(attrs.inspect(at).is_frozen)
        if "__setattr__" in vars(at):
            break
    parameters: object = getattr(cls, "__dataclass_params__", None)
    return bool(getattr(parameters, "frozen", False))



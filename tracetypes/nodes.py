"""The nodes of a graph: frozen, each with the numbers of its inputs.

``Split``, ``Gather``, ``Restore``, ``Receive`` and ``Fused`` are the compiler's. A node holds no derived facts: types and widths
are computed where they are needed (``check``, ``interpreter``, ``compiler``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from tracetypes.bounds import Bound
from tracetypes.errors import Location
from tracetypes.formats import Format, Kafka
from tracetypes.markers import Markers
from tracetypes.self_description import SelfDescribing, name_of_operator

__all__ = [
    "ROW_POSITION",
    "Apply",
    "Fused",
    "Gate",
    "Gather",
    "Graph",
    "Merge",
    "Node",
    "Output",
    "Receive",
    "Restore",
    "RowPosition",
    "Sink",
    "Sort",
    "Source",
    "Split",
    "Times",
    "ancestors",
    "label",
    "steps_of",
    "title",
]


@attrs.frozen(eq=False, kw_only=True)
class _Vertex:
    """What each node has: its number, the author's line, and the numbers of the nodes that it reads."""

    id: int
    where: Location
    inputs: tuple[int, ...]


@final
@attrs.frozen(eq=False, kw_only=True)
class Source(_Vertex):
    """Where a stream comes in. ``edge`` is the declared annotation ``U[K, V]`` or ``O[K, V]``, of the source's items. The same
    source may be there several times, with one ``output`` each: its items, its late items, its rejected rows. ``file_name``: the
    column that is the name of the file of a row."""

    name: str
    edge: Any
    markers: Markers
    key: Callable[[Any], Any] | None = None
    ordered_by: Callable[[Any], Any] | RowPosition | None = None
    format: Format | Kafka | None = None
    times: Times = "exact"
    output: Output = "items"
    inputs: tuple[int, ...] = ()
    file_name: str | None = None

    @property
    def label(self) -> str:
        """A name of the stream among those of all sources."""
        return label(self.name, self.output)


def label(name: str, output: Output) -> str:
    """A name for what a source of that name gives: no source can be named so but for its items."""
    return name if output == "items" else f"{name}:{output}"


@final
@attrs.frozen(eq=False, kw_only=True)
class Apply(_Vertex):
    """An author's operator."""

    op: SelfDescribing
    parallelism: int | None = None


@final
@attrs.frozen(eq=False, kw_only=True)
class Sort(_Vertex):
    """SORT: ``U[K, V] -> O[K, V]``, per key and block by ``by``, ties by the canonical order of the value."""

    by: Callable[[Any], Any]
    parallelism: int | None = None


@final
@attrs.frozen(eq=False, kw_only=True)
class Merge(_Vertex):
    """MRG of several streams: the union of their blocks, aligned on markers."""


@final
@attrs.frozen(eq=False, kw_only=True)
class Gate(_Vertex):
    """Lets a marker through where ``bound`` is reached, and joins the blocks between (:mod:`tracetypes.containers`). ``latest``:
    only the latest item of each key goes on. ``latest_by``: says of a ``U`` which item of a key in a block is the latest, the
    one with the greatest; ties by the canonical order of the value. ``name``: for metrics, where the author gave one."""

    bound: Bound
    latest: bool = False
    latest_by: Callable[[Any], Any] | None = None
    name: str | None = None


@final
@attrs.frozen(eq=False, kw_only=True)
class Sink(_Vertex):
    """Where a stream goes out. ``marker`` and ``position`` name extra columns of the output, if any. ``partition_by``: the
    columns that are folders. ``flat``: whether the fields of records stand in their place."""

    name: str
    marker: str | None = None
    position: str | None = None
    format: Format | Kafka | None = None
    partition_by: tuple[str, ...] = ()
    flat: bool = False


@final
@attrs.frozen(eq=False, kw_only=True)
class Split(_Vertex):
    """RR or HASH: one channel becomes ``ways`` channels; every channel gets every marker."""

    how: Literal["RR", "HASH"]
    ways: int


@final
@attrs.frozen(eq=False, kw_only=True)
class Gather(_Vertex):
    """MRG of the outermost level of channels of one edge."""


@final
@attrs.frozen(eq=False, kw_only=True)
class Restore(_Vertex):
    """SORT by the position that items had where an ordered edge was cut: the identity on traces."""


@final
@attrs.frozen(eq=False, kw_only=True)
class Receive(_Vertex):
    """Where a stream comes in that another query computes: the far end of a channel of that ``name``. ``behind``: the stream
    begins behind this marker, in microseconds; None if it begins where the channel does."""

    name: str
    edge: Any
    behind: int | None = None
    inputs: tuple[int, ...] = ()


@final
@attrs.frozen(eq=False, kw_only=True)
class Fused(_Vertex):
    """A chain of nodes that runs without moving data. ``steps`` are in order; their own ``inputs`` do not count,
    but for a first step that merges (its inputs are ``inputs``)."""

    steps: tuple[Node, ...]


def title(node: Node) -> str:
    """A node's name in messages and plans: the author's word for those of the program, the paper's for those that the compiler
    adds."""
    match node:
        case Source(name=name, output=output):
            return {"items": "", "late": "late items of ", "rejects": "rejects of "}[output] + f"source {name!r}"
        case Sink(name=name):
            return f"sink {name!r}"
        case Apply(op=op):
            return name_of_operator(op)
        case Sort():
            return "sort"
        case Merge():
            return "merge"
        case Gate(name=name, latest=latest):
            return ("latest" if latest else "gate") + ("" if name is None else f" {name!r}")
        case Split(how=how, ways=ways):
            return f"{how}({ways})"
        case Gather():
            return "MRG"
        case Restore():
            return "SORT by position"
        case Receive(name=name):
            return f"channel {name!r}"
        case Fused(steps=steps):
            return " ; ".join(title(step) for step in steps)


@attrs.frozen(eq=False)
class Graph:
    """A named tuple of nodes. ``nodes`` are in topological order when the graph is acyclic and was built by a Dataflow."""

    name: str
    nodes: tuple[Node, ...]

    def node(self, id: int) -> Node:
        """The node of that number."""
        return self.by_id[id]

    @property
    def by_id(self) -> dict[int, Node]:
        """Nodes by number."""
        return {node.id: node for node in self.nodes}

    @property
    def consumers(self) -> dict[int, list[Node]]:
        """For each node's number the nodes that read it."""
        consumers: dict[int, list[Node]] = {node.id: [] for node in self.nodes}
        for node in self.nodes:
            for upstream in node.inputs:
                consumers.setdefault(upstream, []).append(node)
        return consumers

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources, those inside fused chains included; each once, whatever streams it has."""
        sources: dict[str, Source] = {}
        for node in self.nodes:
            for step in steps_of(node):
                if isinstance(step, Source):
                    sources.setdefault(step.name, step)
        return tuple(sources.values())

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All sinks, those inside fused chains included."""
        return tuple(step for node in self.nodes for step in steps_of(node) if isinstance(step, Sink))


def steps_of(node: Node) -> tuple[Node, ...]:
    """The steps of a fused chain, or the node itself."""
    return node.steps if isinstance(node, Fused) else (node,)


def ancestors(graph: Graph, id: int) -> Iterator[Node]:
    """A node and everything upstream of it, each once."""
    by_id, seen, pending = graph.by_id, set[int](), [id]
    while pending:
        at = pending.pop()
        if at in seen or at not in by_id:
            continue
        seen.add(at)
        yield by_id[at]
        pending.extend(by_id[at].inputs)


Times: TypeAlias = Literal["exact", "truncate"]
"""What a source does with times that are more exact than a microsecond: they make a reject, or are cut towards the past."""

Output: TypeAlias = Literal["items", "late", "rejects"]
"""What of a source a stream has."""


Node: TypeAlias = Source | Apply | Sort | Merge | Gate | Sink | Split | Gather | Restore | Receive | Fused


@final
class RowPosition:
    """The type of :data:`ROW_POSITION`."""

    def __repr__(self) -> str:
        return "ROW_POSITION"


ROW_POSITION: Final = RowPosition()
"""Says of an ``O`` source that the position of rows in their file, and of files by modification time, is the order."""

"""A checked graph, cut into in-trees with one root each: a backend runs a query for each, and durable channels join them.

::

    one stream, two consumers          source -> A -> B -> sink        source -> A -> (channel)
                                                   \\-> C -> sink       (channel) -> B -> sink,  (channel) -> C -> sink

A stream with several consumers is computed once and sent through a **channel**: rows, and the markers that close their blocks,
each exactly once. Where only native stateless operators lie between the sources and the consumers, computing the stream again is
cheaper than writing and reading it, and each consumer gets a copy of its own. The copies agree: what a source makes of its rows
depends on the rows alone (lateness too), and only one of them tells of late and rejected rows. Each copy of a source falls silent
for as long as its own consumer needs (:mod:`tracetypes.silence`).

A **gate** ends a segment: it stands in front of a channel, to which nothing is appended while the gate is closed. So the segments
behind it have nothing to do::

    source -> A -> gate -> B -> sink       source -> A -> gate (channel)       (channel) -> B -> sink

Why the meaning is kept: a channel is the identity on traces, and a node is a function of the traces that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.analysis.traced import Opaque, traced
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.edges import EdgeType
from tracetypes.errors import UsageError
from tracetypes.formats import Csv, JsonLines, Kafka, TextLines
from tracetypes.nodes import Apply, Gate, Graph, Merge, Node, Receive, Sink, Source, ancestors, title
from tracetypes.silence import needs, periods_in, unrolled
from tracetypes.templates import OpStateless, overrides

__all__ = ["Segment", "cut", "whole"]

COPIES = 4
"""How often a stream is computed at most before it gets a channel."""


@attrs.frozen(eq=False)
class Segment:
    """An in-tree with one sink, which runs as one query. ``sends``: the channel that its sink feeds, None for a sink of
    the author. ``quiet``: readings of sources whose late and rejected rows another segment, or another branch of
    this one, reports. ``title``: the name without its number."""

    name: str
    checked: Checked
    sends: str | None
    quiet: frozenset[int]
    title: str

    @property
    def receives(self) -> tuple[str, ...]:
        """The channels that it reads, each once."""
        names = [node.name for node in self.checked.graph.nodes if isinstance(node, Receive)]
        return tuple(dict.fromkeys(names))

    @property
    def gate(self) -> Gate | None:
        """The gate in front of its channel, if there is one."""
        return next((node for node in self.checked.graph.nodes if isinstance(node, Gate)), None)

    @property
    def ungated(self) -> Checked:
        """The graph up to the gate, with the sink there: what a plan computes. The gate is where epochs are committed."""
        gate, checked = self.gate, self.checked
        if gate is None:
            return checked
        nodes = [
            attrs.evolve(node, inputs=gate.inputs) if isinstance(node, Sink) else node
            for node in checked.graph.nodes
            if node is not gate
        ]
        types = {**checked.types, nodes[-1].id: checked.types[gate.inputs[0]]}
        return Checked(Graph(checked.graph.name, tuple(nodes)), types)


def cut(checked: Checked, once: AnalysisCache | None = None) -> tuple[tuple[Segment, ...], tuple[str, ...]]:
    """The segments of a graph in topological order, and the decisions about shared streams."""
    return _Cut(checked, once or AnalysisCache()).run()


MOST = 500
"""Nodes of a graph at most that has no channel."""


def whole(checked: Checked, sink: Sink) -> Segment:
    """All that is upstream of a sink as one in-tree without channels: what has several consumers is computed for each of them.

    Raises :class:`UsageError` ``TT430`` for a gate, for a merge whose readers wait for different lengths of time behind the end
    of its inputs, and for a graph that would become too large."""
    found = _Cut(checked, AnalysisCache())
    merged, sizes = found.behind_merges(), dict[int, int]()
    above = {node.id: node for node in (sink, *ancestors(checked.graph, sink.id))}
    for node in checked.graph.nodes:
        sizes[node.id] = 1 + sum(sizes[one] for one in node.inputs)
        if node.id not in above:
            continue
        readers = [reader for reader in found.consumers[node.id] if reader.id in above]
        where = f"sink {sink.name!r}: {title(node)} ({node.where})"
        if isinstance(node, Gate):
            fix = "run the flow with run(), or take the gate out"
            raise UsageError("TT430", f"{where} is a gate, and a DataFrame has nothing that a gate could hold back", fix=fix)
        if len(readers) > 1 and node.id in merged and found.silence_differs(node, readers):
            fix = "give each of its readers a merge of its own"
            raise UsageError("TT430", f"{where} has readers that wait for different lengths of time behind its end", fix=fix)
    if sizes[sink.id] > MOST:
        fix = "run the flow with run(), which computes once what has several consumers"
        raise UsageError("TT430", f"sink {sink.name!r} would compute {sizes[sink.id]:,} operators in one plan", fix=fix)
    return found.segment(sink.name, sink.id, None)


class _Cut:
    def __init__(self, checked: Checked, once: AnalysisCache) -> None:
        self.checked, self.by_id, self.consumers = checked, checked.graph.by_id, checked.graph.consumers
        self.once = once
        steps = unrolled(checked.graph)
        self.needs = needs(steps, periods_in(steps))
        self.channels: dict[int, str] = {}
        self.sinks = {sink.name for sink in checked.graph.sinks}
        self.titles: dict[str, int] = {}
        """How many channels have a title."""
        self.reported: set[str] = set()
        """Sources of which a reading reports late and rejected rows already."""
        self.shared: list[str] = []

    def run(self) -> tuple[tuple[Segment, ...], tuple[str, ...]]:
        self.choose()
        self.shared += self.readings()
        segments: list[Segment] = []
        for node in self.checked.graph.nodes:  # in topological order: channels come before what reads them
            if node.id in self.channels:
                name = self.channels[node.id]
                segments.append(self.segment(name, node.id, name))
        for sink in self.checked.graph.sinks:
            segments.append(self.segment(sink.name, sink.id, None))
        return tuple(segments), tuple(self.shared)

    def choose(self) -> None:
        """Find the nodes whose output goes through a channel."""
        dear, merged = self.dear(), self.behind_merges()
        copies: dict[int, int] = {}
        reasons: dict[int, str] = {}
        for node in reversed(self.checked.graph.nodes):
            readers = self.consumers[node.id]
            count = sum(1 if reader.id in reasons else copies[reader.id] for reader in readers)
            copies[node.id] = count if readers else int(isinstance(node, Sink))
            if isinstance(node, Gate):
                reasons[node.id] = f"nothing behind a gate runs while it is closed; it opens at {node.bound}"
            if count < 2 or isinstance(node, Gate):
                continue
            why = dear[node.id]
            if why is None and count > COPIES:
                why = f"{count} copies of it would be needed"
            if why is None and node.id in merged and self.silence_differs(node, readers):
                why = "its readers wait for different lengths of time behind the end of its inputs"
            if why is not None:
                reasons[node.id] = why
        for node in self.checked.graph.nodes:
            readers = self.consumers[node.id]
            reads = ", ".join(f"{title(reader)} ({reader.where})" for reader in readers)
            if node.id in reasons:
                name = self.channels[node.id] = self.name(node)
                self.shared.append(
                    f"{title(node)} ({node.where}) goes through channel {name!r} to {reads}: {reasons[node.id]}"
                )
            elif len(readers) > 1:
                self.shared.append(
                    f"{title(node)} ({node.where}) is computed {copies[node.id]} times, for {reads}: "
                    "reading the source again and native operators are cheaper than a channel"
                )

    def behind_merges(self) -> set[int]:
        """The merges, and all nodes after one."""
        behind: set[int] = set()
        for node in self.checked.graph.nodes:
            if isinstance(node, Merge) or not behind.isdisjoint(node.inputs):
                behind.add(node.id)
        return behind

    def silence_differs(self, node: Node, readers: Sequence[Node]) -> bool:
        """Do its readers need different silences? Then copies of a merge would give it different markers: one input goes on
        with its silence while the other is not at its end."""
        wants = [self.needs.edge(node.id, reader.id) for reader in readers]
        return any(want != wants[0] for want in wants)

    def readings(self) -> list[str]:
        """The reports of sources that are read again for other outputs than their items."""
        readers = [
            source for source in self.checked.graph.nodes if isinstance(source, Source) and self.consumers[source.id]
        ]
        first: dict[str, Source] = {}
        return [
            f"{title(source)} ({source.where}): the source is read again for them"
            for source in readers
            if first.setdefault(source.name, source) is not source
        ]

    def dear(self) -> dict[int, str | None]:
        """For each node, why its stream should not be computed twice. None if it may be."""
        reasons: dict[int, str | None] = {}
        for node in self.checked.graph.nodes:  # in topological order
            reasons[node.id] = self.why(node, reasons)
        return reasons

    def why(self, node: Node, reasons: dict[int, str | None]) -> str | None:
        match node:
            case Source(format=Csv() | JsonLines() | TextLines()):
                return "its rows are text, which Python parses"
            case Source(format=Kafka()):
                return "a topic grows while it is read"
            case Source():
                return None
            case Merge():
                return next((reasons[i] for i in node.inputs if reasons[i] is not None), None)
            case Apply(op=OpStateless()):
                if overrides(node.op, "on_marker"):
                    return f"{title(node)} emits at markers"
                result = self.once(traced, node.op, self.checked.streams[node.inputs[0]])
                return f"{title(node)} runs in Python" if isinstance(result, Opaque) else reasons[node.inputs[0]]
            case Gate():
                return "it is behind a gate"
            case _:
                return f"{title(node)} is keyed"

    def name(self, node: Node) -> str:
        """A name for a channel, which stays the same if other channels are added: only equal names get numbers."""
        plain = _plain(node)
        self.titles[plain] = count = self.titles.get(plain, 0) + 1
        name = plain if count == 1 else f"{plain}-{count}"
        return self.name(node) if name in self.sinks else name

    def segment(self, name: str, root: int, sends: str | None) -> Segment:
        """The in-tree upstream of a node, up to sources and channels, with nodes of its own."""
        nodes: list[Node] = []
        types: dict[int, EdgeType] = {}
        quiet: set[int] = set()

        def add(node: Node, like: int) -> int:
            nodes.append(node)
            types[node.id] = self.checked.types[like]
            return node.id

        def receives(id: int) -> bool:
            return id in self.channels and id != root

        pending, order = [root], list[int]()
        while pending:
            id = pending.pop()
            order.append(id)
            pending.extend(() if receives(id) else self.by_id[id].inputs)
        copied: list[int] = []
        """The copies that no other has taken as an input yet."""
        for id in reversed(order):
            node = self.by_id[id]
            if receives(id):
                receive = Receive(id=len(nodes), where=node.where, name=self.channels[id], edge=self.checked.types[id])
                copied.append(add(receive, id))
                continue
            first = len(copied) - len(node.inputs)
            copied[first:] = [add(attrs.evolve(node, id=len(nodes), inputs=tuple(copied[first:])), id)]
            if isinstance(node, Source):
                if node.name in self.reported:
                    quiet.add(copied[-1])
                self.reported.add(node.name)
        (top,) = copied
        if sends is not None:
            where = self.by_id[root].where
            add(Sink(id=len(nodes), where=where, inputs=(top,), name=sends), root)
        graph = Graph(self.checked.graph.name, tuple(nodes))
        plain = name if sends is None else _plain(self.by_id[root])
        return Segment(name, Checked(graph, types), sends, frozenset(quiet), plain)


def _plain(node: Node) -> str:
    return "".join(c if c.isalnum() else "-" for c in title(node)).strip("-")

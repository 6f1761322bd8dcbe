"""A dataflow with learned gates as a workflow, and the waves of a run of it in which everything runs.

A gated step is what lies behind a gate, up to the next gates, merges and sinks. Its output is the container of each stream that
enters one of these. What it reads is the container of the stream that enters its own gate. A wave is a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tracetypes.bounds import ALWAYS, parts_of
from tracetypes.check import Checked
from tracetypes.compiler.gates.learned.steps import Step, Tolerance, Values
from tracetypes.containers import columns_of, numbers_in
from tracetypes.errors import UsageError
from tracetypes.gate_check import digest
from tracetypes.interpreter import interpret_rows
from tracetypes.learned_gates import Learned, Subject
from tracetypes.nodes import Gate, Graph, Merge, Node, Sink
from tracetypes.trace import blocks

__all__ = ["TrainingRun", "learned_gates"]

READ = "what {} reads"
SOURCE = "sources"


def learned_gates(graph: Graph) -> dict[int, Learned]:
    """The learned bounds of the gates of a graph, in topological order, by the numbers of the gates.

    Raises :class:`UsageError` ``TT121`` for two bounds of one name, or two in one gate.
    """
    found: dict[int, Learned] = {}
    for node in graph.nodes:
        if isinstance(node, Gate):
            own = [one for one in parts_of(node.bound) if isinstance(one, Learned)]
            if len(own) > 1:
                raise UsageError("TT121", f"{node.where}: a gate with {len(own)} learned bounds", fix="give a gate one of them")
            for bound in own:
                if any(bound.name == other.name for other in found.values()):
                    text = f"{node.where}: a second gate learns {bound.name!r}"
                    raise UsageError("TT121", text, fix="give each step its own name")
                found[node.id] = bound
    return found


@attrs.frozen(eq=False)
class _Tap:
    """A stream whose container is looked at. ``sink``: the name of a sink that is added to it."""

    sink: str
    stream: int
    columns: tuple[str, ...]
    rows: Any


class TrainingRun:
    """A dataflow with learned gates, all of which are open."""

    def __init__(self, checked: Checked) -> None:
        self.gates = learned_gates(checked.graph)
        if not self.gates:
            fix = "put learned(...) in front of a step: stream.latest(learned(...))"
            raise UsageError("TT121", "the dataflow has no learned gate", fix=fix)
        graph = checked.graph
        self.taps: dict[str, list[_Tap]] = {}
        self.steps: list[Step] = []
        for id_, bound in self.gates.items():
            gate = graph.node(id_)
            read = READ.format(bound.name)
            before = _learned_before(graph, gate, self.gates)
            self.steps.append(Step(read, tuple(self.gates[one].name for one in before) or (SOURCE,)))
            self.steps.append(Step(bound.name, (read,), Tolerance(bound.error, bound.impact, bound.variation, bound.accumulates)))
            self.taps[read] = [_Tap(f"{id_}.in", gate.inputs[0], bound.columns, bound.rows)]
            streams = _outputs(graph, gate)
            self.taps[bound.name] = [_Tap(f"{id_}.out.{one}", one, (), None) for one in streams]
        names = tuple(one.name for one in self.gates.values())
        errors = tuple(one.error for one in self.gates.values())
        self.subject = Subject(digest(graph), names, errors, tuple((at,) for at in range(len(names))))
        self.checked = self._tapped(checked)

    def _tapped(self, checked: Checked) -> Checked:
        """The same with all learned gates open and a sink at each tap."""
        nodes: list[Node] = []
        for node in checked.graph.nodes:
            learns = isinstance(node, Gate) and node.id in self.gates
            nodes.append(attrs.evolve(node, bound=ALWAYS) if isinstance(node, Gate) and learns else node)
        types, next_ = dict(checked.types), max(checked.types) + 1
        for number, tap in enumerate(one for taps in self.taps.values() for one in taps):
            where = checked.graph.node(tap.stream).where
            nodes.append(Sink(id=next_ + number, where=where, inputs=(tap.stream,), name=tap.sink))
            types[next_ + number] = checked.types[tap.stream]
        return Checked(attrs.evolve(checked.graph, nodes=tuple(nodes)), types)

    def waves(self, rows: Mapping[str, Sequence[Any]]) -> Iterator[Mapping[str, Values]]:
        """The containers of all steps behind each marker, by the interpreter. ``rows``: of the sources, by name. A mapping is
        as it was
        when it is handed out."""
        traces, _ = interpret_rows(self.checked, rows)
        feeds = {tap.sink: _Feed(self.checked, tap, traces[tap.sink]) for taps in self.taps.values() for tap in taps}
        for marker in sorted({marker for feed in feeds.values() for marker in feed.blocks}):
            for feed in feeds.values():
                feed.take(marker)
            yield {
                SOURCE: {},
                **{
                    name: {(tap.sink, *at): number for tap in taps for at, number in feeds[tap.sink].values.items()}
                    for name, taps in self.taps.items()
                },
            }


class _Feed:
    """The container of a tap, block by block."""

    def __init__(self, checked: Checked, tap: _Tap, trace: Any) -> None:
        schema = checked.streams[tap.stream].value
        self.columns = tap.columns or columns_of(schema)
        self.numbers, self.rows = numbers_in(self.columns, schema), tap.rows
        self.blocks = {block.marker.micros: block.items for block in blocks(trace.items) if block.marker is not None}
        self.values: dict[tuple[Any, str], float] = {}

    def take(self, marker: int) -> None:
        """The block of a marker, if it has one."""
        for item in self.blocks.get(marker, ()):
            if self.rows is None or self.rows(item.key):
                for column, number in zip(self.columns, self.numbers(item.value), strict=True):
                    self.values[item.key, column] = number


def _outputs(graph: Graph, gate: Node) -> list[int]:
    """The streams behind a gate that enter a gate, a sink, or a merge with what is not of this step."""
    found: dict[int, None] = {}
    waiting = [gate.id]
    looked_at = set(waiting)
    while waiting:
        here = waiting.pop()
        for node in graph.consumers[here]:
            if isinstance(node, Gate | Sink | Merge):
                found[here] = None
            elif node.id not in looked_at:
                looked_at.add(node.id)
                waiting.append(node.id)
    return sorted(found)


def _learned_before(graph: Graph, gate: Node, gates: Mapping[int, Learned]) -> list[int]:
    """The learned gates that a gate reads, directly or through operators."""
    found: set[int] = set()
    waiting, looked_at = [*gate.inputs], set(gate.inputs)
    while waiting:
        here = waiting.pop()
        if here in gates:
            found.add(here)
            continue
        fresh = [one for one in graph.node(here).inputs if one not in looked_at]
        looked_at.update(fresh)
        waiting += fresh
    return sorted(found)

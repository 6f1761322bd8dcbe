"""A dataflow with learned gates as a workflow, and the waves of a run of it in which everything runs.

A gated step is what lies behind a gate, up to the next gates, merges and sinks. Its output is the container of each stream that
enters one of these. What it reads is the container of the stream that enters its own gate. A wave is a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tracetypes.arrangement import arrange_rows, streams_of
from tracetypes.bounds import parts_of
from tracetypes.check import Checked
from tracetypes.compiler.gates.learned.knowledge import subject_of
from tracetypes.compiler.gates.learned.steps import Step, Tolerance, Values
from tracetypes.compiler.gates.taps import Feed, Tap, Tapped, Together, markers_of, outputs_of
from tracetypes.errors import UsageError
from tracetypes.gate_check import digest
from tracetypes.learned_gates import Learned
from tracetypes.nodes import Gate, Graph, Node

__all__ = ["TrainingRun", "learned_gates", "steps_of"]

READ = "what {} reads"
FEATURE = "what {} reads, feature {}"
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


def steps_of(graph: Graph, gates: Mapping[int, Learned]) -> list[Step]:
    """The workflow of learned gates. Steps for each: what it reads, its features, and what lies behind it."""
    steps: list[Step] = []
    for id_, bound in gates.items():
        read = READ.format(bound.name)
        before = _learned_before(graph, graph.node(id_), gates)
        reads = tuple(gates[one].name for one in before) or (SOURCE,)
        features = tuple((FEATURE.format(bound.name, n), one.function) for n, one in enumerate(bound.features))
        steps += [Step(name, reads) for name in (read, *(name for name, _ in features))]
        tolerance = Tolerance(bound.error, bound.impact, bound.variation, bound.accumulates, features)
        steps.append(Step(bound.name, (read,), tolerance))
    return steps


class TrainingRun:
    """A dataflow with learned gates, all of which are open."""

    def __init__(self, checked: Checked) -> None:
        self.gates = learned_gates(checked.graph)
        if not self.gates:
            fix = "put learned(...) in front of a step: stream.latest(learned(...))"
            raise UsageError("TT121", "the dataflow has no learned gate", fix=fix)
        graph = checked.graph
        self.steps = steps_of(graph, self.gates)
        self.taps: dict[str, list[Tap]] = {}
        for id_, bound in self.gates.items():
            gate = graph.node(id_)
            (source,) = gate.inputs
            self.taps[READ.format(bound.name)] = [Tap(f"{id_}.in", source, bound.columns, bound.rows)]
            for n, one in enumerate(bound.features):
                self.taps[FEATURE.format(bound.name, n)] = [Tap(f"{id_}.in.{n}", source, one.columns, one.rows, one.by)]
            streams = outputs_of(graph, gate)
            self.taps[bound.name] = [Tap(f"{id_}.out.{one}", one, (), None) for one in streams]
        self.subject = attrs.evolve(
            subject_of(digest(graph), self.steps),
            before=tuple((at,) for at in range(len(self.gates))),  # the others decide in other segments
            features=tuple(tuple(map(str, one.features)) for one in self.gates.values()),
        )
        self.tapped = Tapped(checked, [tap for taps in self.taps.values() for tap in taps], self.gates)

    def waves(self, rows: Mapping[str, Sequence[Any]]) -> Iterator[Mapping[str, Values]]:
        """The containers of all steps behind each marker, by the interpreter. ``rows``: of the sources, by name. A mapping
        does not change after it was handed out."""
        yield from self.containers(self.tapped.run(streams_of(arrange_rows(self.tapped.checked, rows))))

    def containers(self, feeds: Mapping[str, Feed]) -> Iterator[Mapping[str, Values]]:
        """The same of what came to each tap, by name."""
        together = {name: Together() for name in self.taps}
        for _ in markers_of(feeds):
            containers: dict[str, Values] = {SOURCE: {}}
            for name, taps in self.taps.items():
                containers[name] = together[name].take((tap.name, feeds[tap.name]) for tap in taps)
            yield containers


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

"""The segments of a workspace: one for each operator that is not cheap, and one for each sink.

::

    flow        source -> filter -> window -> map -> sink
    segments    [source] =channel=> [filter, window] =channel=> [map, sink]

So each stream that costs something is in a channel, and another flow may read it at any time: nobody who runs already is planned
anew. A cheap operator is part of each segment that reads it (:mod:`.cheap_operators`).

The plan of a segment follows from the flow that started it, never from flows that come later: they come and leave, and the plan
stays. Behind the end of a stream there is the silence (:mod:`tracetypes.silence`) that the readers in that flow need. More would
be markers of a merged stream, and less would leave out what they still emit. A stream ends when a flow is drained. If that flow
has joined operators of another one and needs another silence (:func:`silences_of`), they are planned anew for its drain, in a
copy in which it is alone (:mod:`.drain_copies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.graph.passes import compile_graph
from tracetypes.compiler.graph.segments import Segment
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan_of
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.compiler.workspace.classes import Class
from tracetypes.compiler.workspace.running import Instance, Operator
from tracetypes.edges import EdgeType
from tracetypes.markers import EventTime, InBand
from tracetypes.nodes import Gate, Graph, Node, Receive, Sink, Source, title
from tracetypes.silence import NOTHING, Need, needs, periods_in

__all__ = ["Launched", "OperatorSegment", "Reading", "name_of", "operator_segment", "silences_of"]

@attrs.frozen
class Reading:
    """An input of a segment that comes through a channel. ``reader``: the operator that reads it, which may be a cheap one inside
    the segment; ``place``: which of its inputs it is; ``tap``: what it reads."""

    reader: Instance
    place: int
    tap: Instance


@attrs.frozen(eq=False, kw_only=True, slots=False)
class OperatorSegment:
    """What runs for an operator. ``name``: of its channel and its directory; ``title``: for people. ``root``: the operator.
    ``segment``: its part of the graph. ``members``: it, and the cheap operators in front of it. ``readings``: what it reads
    through channels. ``sends``: whether it feeds a channel, and is no sink; ``gated``: whether a gate is in front of it."""

    name: str
    title: str
    sends: bool
    gated: bool
    root: Instance
    members: tuple[Instance, ...]
    readings: tuple[Reading, ...]
    segment: Segment
    _launched: Launched = attrs.field(alias="launched")
    _id: int = attrs.field(alias="id")
    _silence: Need | None = attrs.field(alias="silence", default=None)
    """Behind its end, if it is not the one that the flow needs that has started it."""

    @cached_property
    def plan(self) -> Plan:
        """Its plan, which takes some milliseconds to make."""
        return _plan(self._launched, self.segment, self._id, self._silence)

    @property
    def upstream(self) -> tuple[Instance, ...]:
        """What it reads, each once."""
        return tuple(dict.fromkeys(one.tap for one in self.readings))


def name_of(operator: Operator) -> str:
    """The name of the segment and of the channel of an operator. No other operator ever has it."""
    return f"{operator.launch}-{operator.id}"


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Launched:
    """A dataflow as one launch has it. ``sinks``: their names by their number; ``classes``: of the operators, by their number;
    ``cheap``: the numbers of those that are computed again by each reader."""

    checked: Checked
    sinks: Mapping[int, str]
    classes: Mapping[int, Class]
    cheap: frozenset[int]
    parallelism: int
    key_groups: int
    fuse: bool
    once: AnalysisCache = attrs.field(factory=AnalysisCache)

    @cached_property
    def silences(self) -> Mapping[Class, Need]:
        """The silence that the readers of each operator need in this flow. Operators of one class are one."""
        nodes = {self.classes[one.id]: one for one in reversed(self.checked.graph.nodes) if one.id in self.classes}
        inputs = {cls: tuple(self.classes[id] for id in one.inputs) for cls, one in nodes.items()}
        return silences_of({cls: (nodes[cls], inputs[cls]) for cls in reversed(nodes)})


Name = TypeVar("Name", Class, Instance)


def silences_of(operators: Mapping[Name, tuple[Node, tuple[Name, ...]]]) -> dict[Name, Need]:
    """The silence that the readers of operators need, which are all that there are. ``operators``: each behind those that it
    reads, with its node."""
    numbers = {name: number for number, name in enumerate(operators)}
    steps = [
        (attrs.evolve(node, id=numbers[name]), tuple(numbers[one] for one in inputs))
        for name, (node, inputs) in operators.items()
    ]
    out = needs(steps, periods_in(steps)).out
    return {name: out.get(number, NOTHING) for name, number in numbers.items()}


def operator_segment(
    launched: Launched,
    operators: Mapping[Instance, Operator],
    root: Operator,
    behind: Mapping[Reading, int],
    silence: Need | None = None,
) -> OperatorSegment:
    """The segment of an operator that is not cheap. ``operators``: all that run. ``behind``: the markers behind which it reads
    its channels; those that are not there yet do not matter for its ``readings``. ``silence``: behind its end, if it is not the
    one that the flow needs that has started it."""
    checked, by_id = launched.checked, launched.checked.graph.by_id
    nodes: list[Node] = []
    types: dict[int, EdgeType] = {}
    readings: list[Reading] = []
    members: list[Instance] = []

    def add(node: Node, like: int) -> int:
        nodes.append(node)
        types[node.id] = checked.types[like]
        return node.id

    def inputs_of(operator: Operator) -> list[tuple[int, Instance]]:
        """The numbers of the nodes that an operator reads, each with the operator that computes it."""
        inputs = list(operator.inputs)
        pairs: list[tuple[int, Instance]] = []
        for id in by_id[operator.id].inputs:
            instance = next(one for one in inputs if one.cls == launched.classes[id])
            inputs.remove(instance)
            pairs.append((id, instance))
        return pairs

    def visit(operator: Operator) -> int:
        inputs = list[int]()
        for place, (id, instance) in enumerate(inputs_of(operator)):
            if id in launched.cheap:
                inputs.append(visit(operators[instance]))
                continue
            reading = Reading(operator.instance, place, instance)
            readings.append(reading)
            channel = Receive(
                id=len(nodes),
                where=by_id[id].where,
                name=name_of(operators[instance]),
                edge=checked.types[id],
                behind=behind.get(reading),
            )
            inputs.append(add(channel, id))
        members.append(operator.instance)
        return add(attrs.evolve(by_id[operator.id], id=len(nodes), inputs=tuple(inputs)), operator.id)

    top, node, name = visit(root), by_id[root.id], name_of(root)
    sends = None if isinstance(node, Sink) else name
    if sends is not None:
        add(Sink(id=len(nodes), where=node.where, inputs=(top,), name=name), root.id)
    segment = Segment(name, Checked(Graph(checked.graph.name, tuple(nodes)), types), sends, frozenset(), title(node))
    return OperatorSegment(
        name=name,
        title=title(node),
        sends=sends is not None,
        gated=segment.gate is not None,
        root=root.instance,
        segment=segment,
        launched=launched,
        id=root.id,
        silence=silence,
        members=tuple(members),
        readings=tuple(readings),
    )


def _plan(launched: Launched, segment: Segment, root: int, silence: Need | None) -> Plan:
    periods, in_band, gated = set[int](), False, False
    pending, seen = [root], set[int]()
    while pending:
        if (id := pending.pop()) in seen:
            continue
        seen.add(id)
        node = launched.checked.graph.by_id[id]
        match node:
            case Source(markers=EventTime(period=period)):
                periods.add(period)
            case Source(markers=InBand()):
                in_band = True
            case Gate() if id != root:
                gated = True
            case _:
                pass
        pending.extend(node.inputs)
    if silence is None:
        silence = launched.silences[launched.classes[root]]
    return plan_of(
        compile_graph(segment.ungated, parallelism=launched.parallelism, key_groups=launched.key_groups),
        parallelism=launched.parallelism,
        key_groups=launched.key_groups,
        once=launched.once,
        beyond={} if segment.sends is None else {segment.sends: silence},
        periods=periods,
        banded=in_band or gated,
        gate=segment.gate,
        fuse=launched.fuse,
    )

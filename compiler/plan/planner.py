"""From the fused graph to the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.analysis.block_joins import TracedBlockJoin, block_join_in
from tracetypes.compiler.analysis.choices import TracedChoice, choices_in
from tracetypes.compiler.analysis.keyed import Keyed
from tracetypes.compiler.analysis.monoids import Monoid
from tracetypes.compiler.analysis.ordered import ordered_in, place_in
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.analysis.summaries import Closing, closing_in
from tracetypes.compiler.analysis.traced import Opaque, keyed_in, monoid_in, traced
from tracetypes.compiler.graph.passes import compile_graph
from tracetypes.compiler.graph.specification import require
from tracetypes.compiler.plan.facts import emits_at_markers, sums_only
from tracetypes.compiler.plan.plan import (
    FromChannel,
    FromSource,
    FromStage,
    Leaf,
    MergeStep,
    Plan,
    Region,
    Stage,
    StatelessStep,
    Step,
)
from tracetypes.compiler.plan.specification import PLAN
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.compiler.tracing.tracer import Untraceable, trace_function
from tracetypes.edges import edge_type
from tracetypes.errors import UsageError
from tracetypes.formats import Layout
from tracetypes.markers import EventTime
from tracetypes.nodes import Apply, Gate, Gather, Merge, Node, Receive, Restore, Sink, Sort, Source, Split, title
from tracetypes.records import Schema
from tracetypes.silence import NOTHING, Need, has_markers_in_band, needs, periods_in, unrolled
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless, as_operator
from tracetypes.trace import StreamType, stream_type

__all__ = ["DEFAULT_KEY_GROUPS", "plan", "plan_of"]

DEFAULT_KEY_GROUPS = 16
"""Key groups of a plan unless the run says otherwise: fixed for the life of a checkpoint, and the most parallelism."""


def plan(
    checked: Checked, *, parallelism: int = 1, key_groups: int = DEFAULT_KEY_GROUPS, fuse: bool = True
) -> Plan:
    """Compile a checked graph: all passes, then the plan. ``fuse`` as of :func:`plan_of`.

    Raises :class:`UsageError` ``TT404`` for a parallelism below 1 or above the key groups, and ``TT405`` for a graph that
    is no in-tree with one sink (several consumers of a stream, several sinks).
    """
    require_groups(parallelism, key_groups)
    refuse_sharing(checked)
    compiled = compile_graph(checked, parallelism=parallelism, key_groups=key_groups)
    return plan_of(compiled, parallelism=parallelism, key_groups=key_groups, fuse=fuse)


def require_groups(parallelism: int, key_groups: int) -> None:
    """Raise ``TT404`` unless the numbers make sense together."""
    if parallelism < 1 or key_groups < 1:
        raise UsageError("TT404", f"parallelism {parallelism}, {key_groups} key groups", fix="give numbers from 1")
    if parallelism > key_groups:
        raise UsageError(
            "TT404",
            f"parallelism {parallelism} is more than the {key_groups} key groups",
            fix=f"use --key-groups {parallelism} or more (for a new checkpoint), or less parallelism",
        )


def refuse_sharing(checked: Checked) -> None:
    """Raise ``TT405`` unless the graph is an in-tree with one sink."""
    sinks = checked.graph.sinks
    if len(sinks) != 1:
        names = ", ".join(sink.name for sink in sinks)
        raise UsageError(
            "TT405",
            f"dataflow {checked.graph.name!r} has {len(sinks)} sinks ({names}), and a plan has one",
            fix="compile it by compiler.plan.program.program(), which makes as many plans as it takes",
        )
    gates = [f"{title(node)} ({node.where})" for node in checked.graph.nodes if isinstance(node, Gate)]
    if gates:
        raise UsageError(
            "TT405",
            f"dataflow {checked.graph.name!r} has {gates[0]}, which ends a segment, and a plan is of one segment",
            fix="compile it by compiler.plan.program.program(), which makes as many plans as it takes",
        )
    consumers = checked.graph.consumers
    for node in checked.graph.nodes:
        readers = consumers[node.id]
        if len(readers) > 1:
            names = ", ".join(f"{title(r)} ({r.where})" for r in readers)
            raise UsageError(
                "TT405",
                f"{title(node)} ({node.where}) has {len(readers)} consumers ({names}), and a plan is a tree",
                fix="compile it by compiler.plan.program.program(), which makes as many plans as it takes",
            )


def plan_of(
    compiled: Checked,
    *,
    parallelism: int,
    key_groups: int,
    quiet: Collection[int] = (),
    once: AnalysisCache | None = None,
    beyond: Mapping[str, Need] | None = None,
    periods: Collection[int] = (),
    banded: bool = False,
    gate: Gate | None = None,
    fuse: bool = True,
) -> Plan:
    """The plan of a graph to which any of the passes were applied, parallelisation among them. ``quiet``: sources whose late
    and rejected rows are told of elsewhere; ``once``: analyses of the program that the plan is of; ``beyond``: the silence that
    the readers of its channel need; ``periods``: of sources that send into channels that it reads; ``banded``: such a source has
    markers in band, or a gate joins blocks; ``gate``: in front of the channel that it sends into. ``fuse``: whether a chain of
    keyed operators is one stage, with the stateless ones around it; otherwise each stage has one operator, and the first one
    behind a source runs where that is read."""
    planner = _Planner(compiled, parallelism, key_groups, quiet, once or AnalysisCache(), beyond or {}, periods, banded, fuse)
    return attrs.evolve(require(PLAN, planner.run(), "the planner"), gate=gate)


class _Planner:
    def __init__(
        self,
        compiled: Checked,
        parallelism: int,
        key_groups: int,
        quiet: Collection[int],
        once: AnalysisCache,
        beyond: Mapping[str, Need],
        periods: Collection[int],
        banded: bool,
        fuse: bool,
    ) -> None:
        self.fuse = fuse
        self.streams, self.types = compiled.streams, compiled.types
        self.parallelism, self.key_groups = parallelism, key_groups
        self.compiled, self.quiet, self.once = compiled, quiet, once
        self.nodes: dict[int, Node] = {}
        self.inputs: dict[int, tuple[int, ...]] = {}
        steps = unrolled(compiled.graph)
        for step, inputs in steps:
            self.nodes[step.id], self.inputs[step.id] = step, inputs
        self.periods = {*periods_in(steps), *periods}
        self.banded = banded or has_markers_in_band(steps)
        self.silence = needs(steps, self.periods, beyond).out
        self.stages: list[Stage] = []
        self.readings: Counter[str] = Counter()

    def run(self) -> Plan:
        sink = next(node for node in self.nodes.values() if isinstance(node, Sink))
        above = self.inputs[sink.id][0]
        parent, order = self.tree(above)
        cut = set[int]() if self.fuse else self.cut(parent, order)
        regions: dict[int, list[Leaf | StatelessStep | MergeStep]] = {}
        """The nodes of each region so far, by the number of its root."""
        root: dict[int, int] = {}
        for id in reversed(order):
            reader = parent.get(id)
            root[id] = id if reader is None or self.is_step(reader) or id in cut else root[reader]
        place: dict[int, int] = {}
        """Where in its region a node stands."""
        steps: dict[int, list[Step]] = {}
        """The steps of a stage, up to a node."""
        for id in order:
            if self.is_step(id):
                upstream = self.inputs[id][0]
                steps[id] = steps.pop(upstream, []) or self.restored(id)
                steps[id].append(self.step(id))
                reader = parent.get(id)
                if reader is not None and self.is_step(reader) and self.is_fused(id, reader):
                    continue
                first = steps[id][0].node.id
                member: Leaf | StatelessStep | MergeStep = self.stage(
                    Region(tuple(regions.pop(self.inputs[first][0]))), steps.pop(id), self.streams[id]
                )
            elif isinstance(self.nodes[id], Split | Gather):
                place[id] = place[self.inputs[id][0]]
                continue
            else:
                member = self.member(id, place)
            if id in cut:
                member = self.stage(Region((*regions.pop(id, ()), member)), [], self.streams[id])
            region = regions.setdefault(root[parent[id]] if id in cut else root[id], [])
            place[id] = len(region)
            region.append(member)
        last_region = Region(tuple(regions.pop(above)))
        if not self.is_from_one_stage(above):
            last_region = Region((self.stage(last_region, [], self.streams[above]),))
        return Plan(
            name=self.compiled.graph.name,
            stages=tuple(self.stages),
            sink=sink,
            region=last_region,
            layout=self.compiled.layout(sink),
            edge=self.types[sink.id],
            parallelism=self.parallelism,
            key_groups=self.key_groups,
            fused=self.fuse,
        )

    def tree(self, top: int) -> tuple[dict[int, int], list[int]]:
        """What reads each node, and the nodes above one: inputs first, from the left."""
        parent: dict[int, int] = {}
        order: list[int] = []
        pending = [top]
        while pending:
            id = pending.pop()
            order.append(id)
            parent.update(dict.fromkeys(self.inputs[id], id))
            pending.extend(self.inputs[id])
        return parent, order[::-1]

    def cut(self, parent: Mapping[int, int], order: Sequence[int]) -> set[int]:
        """The nodes behind which a stage without steps begins, so that the stateless operator that reads them does not run with
        an operator before it: it runs where this stage sends. None if no keyed operator holds items back: then they go
        straight to the sink."""
        if not any(map(self.is_step, order)):
            return set()
        runs, feeds = dict[int, bool](), dict[int, bool]()
        """Whether there is an operator at a node or on the way to it; whether a stateless operator reads it."""
        for id in order:
            runs[id] = isinstance(self.nodes[id], Apply) or any(runs[one] for one in self.inputs[id])
        for id in reversed(order):
            reader = parent.get(id)
            through = reader is not None and isinstance(self.nodes[reader], Split | Gather)
            feeds[id] = reader is not None and (feeds[reader] if through else _is_stateless(self.nodes[reader]))
        return {id for id in order if runs[id] and feeds[id] and not isinstance(self.nodes[id], Split | Gather)}

    def is_step(self, id: int) -> bool:
        """Does a stage run the node, not the way to it?"""
        node = self.nodes[id]
        return isinstance(node, Sort | Restore) or (isinstance(node, Apply) and not _is_stateless(node))

    def is_fused(self, id: int, reader: int) -> bool:
        """Is a step in the stage of the one before it? A sort always is in that of the operator that needs it."""
        return self.fuse or (self.is_ordered(reader) and isinstance(self.nodes[id], Sort | Restore))

    def is_ordered(self, id: int) -> bool:
        """Does a step look at the order of its items?"""
        node = self.nodes[id]
        return isinstance(node, Apply) and isinstance(node.op, OpKeyedOrdered)

    def restored(self, id: int) -> list[Step]:
        """What has to come before the first step of a stage: where a chain was cut, the order of what was emitted is restored,
        as the pass *restore order* does where an exchange cuts an edge."""
        if not self.is_ordered(id):
            return []
        number, inputs = -1 - len(self.stages), self.inputs[id]
        node, self.inputs[number] = Restore(id=number, inputs=inputs, where=self.nodes[id].where), inputs
        stream = self.streams[inputs[0]]
        return [self.step_of(node, stream, stream)]

    def is_from_one_stage(self, id: int) -> bool:
        """Do only stateless operators lie between a node and a stage? If not, its blocks are closed by a stage yet to make."""
        while _is_stateless(self.nodes[id]) or isinstance(self.nodes[id], Split | Gather):
            id = self.inputs[id][0]
        return not isinstance(self.nodes[id], Source | Receive | Merge)

    def member(self, id: int, place: dict[int, int]) -> Leaf | StatelessStep | MergeStep:
        """A node of a region. ``place``: where those stand that it reads."""
        node, inputs = self.nodes[id], self.inputs[id]
        match node:
            case Source():
                items, markers = stream_type(edge_type(node.edge)), node.markers
                value = items.value
                reading = self.readings[node.name]
                self.readings[node.name] += 1
                return FromSource(
                    source=node,
                    layout=self.compiled.layout(node),
                    stream=self.streams[id],
                    items=items,
                    traced_key=function_in(node.key, value) if node.key is not None else Opaque("there is none"),
                    traced_time=function_in(markers.time, value)
                    if isinstance(markers, EventTime)
                    else Opaque("in band"),
                    quiet=reading > 0 or node.id in self.quiet,
                    reading=reading,
                    silence=self.silence.get(id, NOTHING).get(markers.period, 0)
                    if isinstance(markers, EventTime)
                    else 0,
                )
            case Receive(name=name, behind=behind):
                stream = self.streams[id]
                return FromChannel(
                    name=name,
                    edge=self.types[id],
                    layout=Layout(stream.key, stream.value),
                    stream=stream,
                    silence=self.silence.get(id, NOTHING),
                    behind=behind,
                )
            case Merge():
                return MergeStep(node=node, upstreams=tuple(place[i] for i in inputs), stream=self.streams[id])
            case Apply(op=OpStateless()):
                takes = self.streams[inputs[0]]
                return StatelessStep(
                    node=node,
                    upstream=place[inputs[0]],
                    takes=takes,
                    stream=self.streams[id],
                    traced=self.once(traced, node.op, takes),
                )
            case _:
                raise AssertionError(f"{title(node)} is not on the way to a stage")

    def step(self, id: int) -> Step:
        """A step of a stage."""
        node = self.nodes[id]
        assert isinstance(node, Sort | Restore | Apply)
        return self.step_of(node, self.streams[self.inputs[id][0]], self.streams[id])

    def step_of(
        self,
        node: Sort | Restore | Apply,
        takes: StreamType,
        gives: StreamType,
        coarse: OpKeyedUnordered[Any, Any, Any, Any, Any, Any] | None = None,
    ) -> Step:
        """A node as a step. ``coarse``: what runs in place of its operator."""
        monoid: Monoid | Opaque = Opaque("it is no operator")
        keyed: Keyed | Opaque = Opaque("it is no operator")
        choices: tuple[TracedChoice, ...] | Opaque = Opaque("it is no operator")
        closing: Closing | Opaque = Opaque("it is no operator")
        ordered: OrderedForm | Opaque = Opaque("it is no operator")
        joins: TracedBlockJoin | Opaque = Opaque("it is no operator")
        if isinstance(node, Apply):
            op = as_operator(node.op) if coarse is None else coarse
            monoid = self.once(monoid_in, op, takes)
            keyed = self.once(keyed_in, op, monoid, takes, gives)
            choices = self.once(choices_in, op, takes)
            closing = self.once(closing_in, op, choices, takes)
            ordered = self.once(ordered_in, op, takes, gives)
            joins = self.once(block_join_in, op, takes, gives)
        return Step(
            node=node,
            takes=takes,
            gives=gives,
            monoid=monoid,
            keyed=keyed,
            choices=choices,
            closing=closing,
            joins=joins,
            coarse=coarse,
            ordered=ordered,
            place=self.once(place_in, node, takes.value) if isinstance(node, Sort) else Opaque("it is no sort"),
        )

    def stage(self, region: Region, steps: list[Step], gives: StreamType) -> FromStage:
        """Make a stage; without steps it closes the blocks of its region."""
        counts = [n.node.parallelism for n in steps if not isinstance(n.node, Restore) and n.node.parallelism]
        stage = Stage(
            number=len(self.stages),
            region=region,
            takes=region.stream,
            gives=gives,
            steps=tuple(steps),
            parallelism=min(max(counts, default=self.parallelism), self.key_groups),
        )
        stage = self.with_joined_blocks(stage)
        self.stages.append(stage)
        return FromStage(stage=stage.number, stream=gives)

    def with_joined_blocks(self, stage: Stage) -> Stage:
        """The stage as it runs where blocks may be joined: to windows that follow one another, or to panes."""
        if not stage.steps or not sums_only(stage):
            return stage
        step, *others = stage.steps
        op = step.operator
        if not isinstance(op, OpKeyedUnordered):
            return stage
        assert isinstance(step.node, Apply)
        window, coarser = op.tumbles(), op.coarser()
        grid = window if window is not None else None if coarser is None else (coarser.size, coarser.offset)
        if grid is None or not self.joins(stage, grid):
            return stage
        if coarser is not None and grid == (coarser.size, coarser.offset):
            stage = attrs.evolve(stage, steps=(self.step_of(step.node, step.takes, step.gives, coarser.op), *others))
        return attrs.evolve(stage, tumbles=window) if window is not None else attrs.evolve(stage, pane=grid)

    def joins(self, stage: Stage, grid: tuple[int, int]) -> bool:
        """May the blocks of a stage be joined? All markers that come must lie on the grid: its size and offset."""
        if self.banded or emits_at_markers(stage.region):
            return False
        aside = any(isinstance(leaf, FromSource) and not leaf.gives_items for leaf in stage.region.leaves)
        return not aside and all(not size_or_offset % period for size_or_offset in grid for period in self.periods)


def function_in(function: Callable[[Any], Any], value: Schema) -> Tree | Opaque:
    """A function of a source's values, as expressions where it can be said."""
    try:
        return trace_function(function, value, instants=True)
    except Untraceable as why:
        return Opaque(why.what)


def _is_stateless(node: Node) -> bool:
    return isinstance(node, Apply) and isinstance(node.op, OpStateless)

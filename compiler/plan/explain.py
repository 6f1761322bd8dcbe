"""The work of the compiler as text: the graph, the graph after each pass with its equation, and the plan."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator
from typing import Protocol

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.analysis.summaries import leaves_some
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.graph.passes import passes
from tracetypes.compiler.plan.facts import (
    closes_whole_blocks,
    closing_of,
    columns_in_order,
    joins_of,
    needs_of,
    runs_at_each_marker,
    sorts_columns,
    sums_only,
)
from tracetypes.compiler.plan.in_python import link_calls_python, stage_calls_python
from tracetypes.compiler.plan.plan import (
    FromChannel,
    FromSource,
    FromStage,
    Leaf,
    Link,
    Plan,
    Stage,
    StageLink,
    Step,
    links,
)
from tracetypes.compiler.plan.program import program
from tracetypes.errors import Location, counted
from tracetypes.formats import Layout
from tracetypes.markers import show_markers
from tracetypes.nodes import Apply, Fused, Node, Restore, RowPosition, Sink, Sort, Source, steps_of, title
from tracetypes.records import renamed_columns
from tracetypes.redaction import redact
from tracetypes.sources import edge_given
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["Runs", "Wording", "combining_run", "explain", "keyed_runs", "show_graph", "show_plan", "stateless_runs"]


class Wording(Protocol):
    """How a backend runs a plan: pairs of who does something, and what."""

    def source(self, source: Source) -> Iterable[tuple[str, str]]:
        """Who finds and reads the rows of a source."""

    def channel(self) -> Iterable[tuple[str, str]]:
        """Who finds and reads the rows of a channel."""

    def exchange(self) -> str:
        """How messages reach their key groups."""

    def sink(self, sink: Sink) -> Iterable[tuple[str, str]]:
        """Who writes the rows of a sink."""

    def faster(self, step: Step) -> str | None:
        """What would have an operator run in machine code that runs over columns now; None for nothing."""

    def python(self, plan: Plan) -> str | None:
        """Where the parts of a plan run that call Python for their items, if that is worth a line."""


@attrs.frozen
class Runs:
    """An operator of a plan and how it runs: over columns (``native``), or in Python for the ``reason``. ``where``: the author's
    line to which the reason points."""

    node: Node
    name: str
    native: bool
    reason: str | None = None
    where: Location | None = None


def explain(checked: Checked, wording: Wording, *, parallelism: int, key_groups: int) -> str:
    """The whole text of ``tracetypes explain``."""
    compiled = program(checked, parallelism=parallelism, key_groups=key_groups)
    lines = [f"dataflow {checked.graph.name}", "", "graph", *show_graph(checked)]
    if len(compiled.segments) == 1 and not compiled.shared:
        return "\n".join([*lines, *_compilation(checked, compiled.plans[0], wording)])
    lines += [
        "",
        f"cut into {counted(len(compiled.segments), 'query', 'queries')}",
        *[f"    {line}" for line in compiled.shared],
    ]
    for segment, plan in zip(compiled.segments, compiled.plans, strict=True):
        lines += [
            "",
            f"query {segment.name!r}",
            *show_graph(segment.checked),
            *_compilation(segment.ungated, plan, wording),
        ]
    return "\n".join(lines)


def _compilation(checked: Checked, planned: Plan, wording: Wording) -> Iterator[str]:
    """The passes over an in-tree, and its plan."""
    for one in passes(parallelism=planned.parallelism, key_groups=planned.key_groups):
        before = list(show_graph(checked))
        checked = one.run(checked)
        after = list(show_graph(checked))
        yield ""
        yield f"after {one.name}:  {one.equation}"
        yield from after if after != before else ["    (no change)"]
    yield ""
    yield from show_plan(planned, wording)


def show_graph(checked: Checked) -> Iterator[str]:
    """A line for each node: number, name, the type of the edge that leaves it, and its inputs."""
    for node in checked.graph.nodes:
        reads = f" <- {', '.join(map(str, node.inputs))}" if node.inputs else ""
        name = f"[{title(node)}]" if isinstance(node, Fused) else title(node)
        copies = next(
            (f" x{n.parallelism}" for n in steps_of(node) if isinstance(n, Apply) and n.parallelism is not None), ""
        )
        yield f"    {node.id:>3}  {name}{copies}{reads} : {checked.types[node.id]}"


def show_plan(plan: Plan, wording: Wording) -> Iterator[str]:
    """Stages, exchanges and sorts, and what runs in Python or in Catalyst."""
    yield f"plan: {counted(len(plan.stages), 'stage')}, parallelism {plan.width}, {plan.key_groups} key groups"
    for stage in plan.stages:
        yield from _stage(plan, stage, wording)
    (tail,) = links(plan.region)
    yield f"    sink {plan.sink.name!r} : {plan.edge}"
    for one in stateless_runs(tail):
        yield from _operator(one, "native")
    yield from _lines(wording.sink(plan.sink))
    yield from _lines(_columns(plan.layout))
    if plan.gate is not None:
        yield f"    {title(plan.gate)}, where epochs are committed: opens at {plan.gate.bound}"


def _columns(layout: Layout) -> Iterator[tuple[str, str]]:
    """The columns that have other names than the fields of the records."""
    renamed = [*renamed_columns(layout.key, "key"), *renamed_columns(layout.value)]
    if renamed:
        yield "columns", ", ".join(f"{name!r} for {path}" for path, name in renamed)


def _lines(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (f"        {who:<8}  {what}" for who, what in pairs)


TAIL = 20
"""Operators on the way from one source to a stage that are not shown again where another source joins them."""


def _stage(plan: Plan, stage: Stage, wording: Wording) -> Iterator[str]:
    places: dict[tuple[int, bool, bool], str] = {}
    for link in links(stage.region):
        match link.leaf:
            case FromSource(source=source):
                yield f"    {title(source)} : {edge_given(source)}   markers: {show_markers(source.markers)}"
                if link.leaf.silence:
                    yield from _lines([("end", f"silence of {counted(link.leaf.silence, 'block')} behind its last one")])
                yield from _lines(wording.source(source))
                yield from _lines(_columns(link.leaf.layout))
            case FromChannel(name=name, edge=edge):
                yield f"    channel {name!r} : {edge}"
                yield from _lines(wording.channel())
            case FromStage(stage=earlier):
                yield f"    from stage {earlier}"
        yield from _way(link, places)
        if not isinstance(link, StageLink) and link_calls_python(stage, link):
            yield from _where(plan, wording)
        yield from _combining(stage)
        yield f"        Exchange  HASH to {plan.key_groups} key groups: {wording.exchange()}"
    many = len(stage.region.leaves) > 1
    steps = [*(["MRG"] if many else []), *[_step(stage, at) for at in range(len(stage.steps))]]
    yield f"    stage {stage.number}, one stateful operator by key group, {_tasks(plan)} : {_edge(stage)}"
    if stage.tumbles is not None:
        yield from _lines([("joined", f"the blocks of each window of {stage.tumbles[0] / 1e6:g} s")])
    if stage.pane is not None:
        yield from _lines([("joined", f"the blocks of each pane of {stage.pane[0] / 1e6:g} s")])
    if names := runs_at_each_marker(stage):
        verb = "runs" if len(names) == 1 else "run"
        yield from _lines([("pauses", f"{', '.join(names)} {verb} at each marker, also where nothing comes")])
    if not stage.steps:
        yield f"        Arrow     {' ; '.join([*steps, 'close blocks'])}"
        return
    if many:
        yield "        Arrow     MRG"
    for step, one in zip(stage.steps, keyed_runs(stage), strict=True):
        yield from _operator(one, "Arrow")
        if one.native and (how := wording.faster(step)) is not None:
            yield f"                  {how}"
    if stage_calls_python(plan, stage):
        yield from _where(plan, wording)


def _where(plan: Plan, wording: Wording) -> Iterator[str]:
    """Where Python code runs."""
    where = wording.python(plan)
    if where is not None:
        yield from _lines([("Python", where)])


def _way(link: Link, places: dict[tuple[int, bool, bool], str]) -> Iterator[str]:
    """The operators of a link. A long tail that other links have too is shown once: of many sources that join one chain each
    would show all of it. ``places``: operators, whether they follow a source, and one that runs in Python, and where they are."""
    python = False
    for at, one in enumerate(stateless_runs(link)):
        key = link.path[at].node.id, isinstance(link.leaf, FromSource), python
        left = len(link.path) - at
        if key in places and left > TAIL:
            yield f"        {left} more, from {one.name} ({one.node.where}) on: as for {places[key]}"
            return
        places.setdefault(key, _leaf(link.leaf))
        python = python or isinstance(link.path[at].traced, Opaque)
        yield from _operator(one, "native")


def _leaf(leaf: Leaf) -> str:
    match leaf:
        case FromSource(source=source):
            return title(source)
        case FromChannel(name=name):
            return f"channel {name!r}"
        case FromStage(stage=stage):
            return f"stage {stage}"


def _operator(one: Runs, native: str) -> Iterator[str]:
    yield f"        {native if one.native else 'Python':<6}    {one.name}"
    if one.reason is not None:
        yield f"                  because {redact(one.reason)}"
    if one.where is not None:
        yield f"                  at {one.where}{redact(f': {text}' if (text := one.where.text) else '')}"


def stateless_runs(link: Link) -> Iterator[Runs]:
    """The stateless operators between a source or stage and the next stage. After a source, those before the first
    operator in Python and those after the last one take columns. Between stages either all take columns or none."""
    python = [at for at, mapped in enumerate(link.path) if isinstance(mapped.traced, Opaque)]
    for at, mapped in enumerate(link.path):
        if isinstance(mapped.traced, Opaque):
            yield _opaque(mapped.node, title(mapped.node), mapped.traced)
            continue
        reason: str | None = None
        if python and not (isinstance(link.leaf, FromSource) and not python[0] < at < python[-1]):
            behind = bisect(python, at)
            near = min(python[max(behind - 1, 0) : behind + 1], key=lambda one: abs(one - at))
            reason = f"{title(link.path[near].node)} beside it runs in Python"
        yield Runs(mapped.node, title(mapped.node), reason is None, reason)


def combining_run(stage: Stage) -> Runs | None:
    """The operator whose items are combined before the exchange, if there is one."""
    if not sums_only(stage):
        return None
    step = stage.steps[0]
    if isinstance(step.monoid, Opaque):
        return _opaque(step.node, title(step.node), _opaque_aggregate(stage, step.monoid))
    return Runs(step.node, title(step.node), True)


def keyed_runs(stage: Stage) -> Iterator[Runs]:
    """The sorts and keyed operators of a stage."""
    for at, step in enumerate(stage.steps):
        native = at == 0 and ((not isinstance(step.keyed, Opaque) and sums_only(stage)) or closing_of(stage) is not None)
        native = native or (at == 0 and joins_of(stage) is not None)
        native = native or (at <= columns_in_order(stage) if at else sorts_columns(stage))
        why = None if native else _why(stage, at)
        name = _step(stage, at)
        yield _opaque(step.node, name, why) if isinstance(why, Opaque) else Runs(step.node, name, native, why)


def _opaque(node: Node, name: str, why: Opaque) -> Runs:
    """An operator that could not be expressed, with the line that is to blame, or else its own."""
    return Runs(node, name, False, why.reason, why.where or node.where)


def _combining(stage: Stage) -> Iterator[str]:
    """What is combined before the exchange."""
    one = combining_run(stage)
    if one is None:
        return
    monoid = stage.steps[0].monoid
    if joins_of(stage) is not None:
        one = attrs.evolve(one, native=True, reason=None, where=None)
        name = f"send the items that {one.name} needs across the exchange"
    elif needs := needs_of(stage):
        some = "only items that" if all(map(leaves_some, needs)) else "the items that"
        name = f"send {some} {one.name} needs across the exchange"
        one = attrs.evolve(one, native=True, reason=None, where=None)
    elif isinstance(monoid, Opaque):
        name = f"combine by {one.name} before the exchange, where that makes the items fewer"
    else:
        name = f"combine by {one.name} before the exchange: {', '.join(part.reduction for part in monoid.parts)}"
    yield from _operator(attrs.evolve(one, name=name), "Arrow")


def _why(stage: Stage, at: int) -> str | Opaque:
    step = stage.steps[at]
    match step.operator:
        case Sort():
            return "the function by= is called per item; numbers, times and text that it returns are sorted as columns"
        case Restore():
            return "each item is kept with its place in the source"
        case OpKeyedOrdered() if isinstance(step.ordered, Opaque):
            return step.ordered
        case OpKeyedOrdered() if at and isinstance(stage.steps[at - 1].operator, OpKeyedOrdered | OpKeyedUnordered):
            return "its items come from the operator before it"
        case OpKeyedOrdered() if (
            at and isinstance(stage.steps[at - 1].node, Sort) and isinstance(why := stage.steps[at - 1].place, Opaque)
        ):
            return why
        case OpKeyedOrdered():
            return "the items before it are not sorted as columns"
        case OpKeyedUnordered() as op if overrides(op, "on_item"):
            return "it emits for single items"
        case OpKeyedUnordered():
            if at == 0 and isinstance(step.keyed, Opaque):
                return _opaque_aggregate(stage, step.keyed)
            return "its items come from the operator before it"


def _opaque_aggregate(stage: Stage, why: Opaque) -> Opaque:
    """Why the first operator sums up its items in Python."""
    closing, joins, op = stage.steps[0].closing, stage.steps[0].joins, stage.steps[0].operator
    if isinstance(joins, Opaque) and isinstance(op, OpKeyedUnordered) and op._joins() is not None:
        return joins
    return closing if isinstance(closing, Opaque) and closes_whole_blocks(stage) else why


def _tasks(plan: Plan) -> str:
    return counted(plan.width, "task")


def _edge(stage: Stage) -> str:
    return "ordered per key" if stage.gives.ordered else "unordered"


def _step(stage: Stage, at: int) -> str:
    step = stage.steps[at]
    match step.node:
        case Sort():
            return "SORT (fused)"
        case Restore():
            by = [leaf.source.ordered_by for leaf in stage.region.leaves if isinstance(leaf, FromSource)]
            own = [b for b in by if b is not None and not isinstance(b, RowPosition)]
            return "SORT by the source's own order (fused)" if own else "SORT by position (fused)"
        case Apply(op=op):
            name = title(step.node)
            if isinstance(op, OpKeyedUnordered):
                sums_only = (
                    "items folded as they come"
                    if not overrides(op, "on_item") and at == 0 and joins_of(stage) is None
                    else "items kept to the marker"
                )
                skips = ", untouched keys skipped" if op.skips_untouched else ", every key visited at every marker"
                if op.forgets_idle and not op.skips_untouched:
                    skips += ", idle keys forgotten"
                return f"{name} ({sums_only}{skips})"
            return f"{name} (idle keys forgotten)" if isinstance(op, OpKeyedOrdered) and op.forgets_idle else name
    raise AssertionError

"""The work of the compiler as text: an overview, the graph, the graph after each pass with its equation, and the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.analysis.summaries import leaves_some
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.graph.passes import passes as all_passes
from tracetypes.compiler.plan.facts import joins_of, needs_of, runs_at_each_marker
from tracetypes.compiler.plan.in_python import link_calls_python, stage_calls_python
from tracetypes.compiler.plan.operator_runs import Runs, Wording, combining_run, keyed_runs, stateless_runs, step_name
from tracetypes.compiler.plan.overview import overview
from tracetypes.compiler.plan.plan import FromChannel, FromSource, FromStage, Leaf, Link, Plan, Stage, StageLink, links
from tracetypes.compiler.plan.program import program
from tracetypes.errors import counted
from tracetypes.formats import Layout
from tracetypes.markers import show_markers
from tracetypes.nodes import Apply, Fused, steps_of, title
from tracetypes.records import renamed_columns
from tracetypes.redaction import redact
from tracetypes.sources import edge_given

__all__ = ["Runs", "Wording", "combining_run", "explain", "keyed_runs", "show_graph", "show_plan", "stateless_runs"]


def explain(checked: Checked, wording: Wording, *, parallelism: int, key_groups: int, passes: bool = False) -> str:
    """The whole text of ``tracetypes explain``. ``passes``: with the graph after each pass."""
    compiled = program(checked, parallelism=parallelism, key_groups=key_groups)
    lines = [f"dataflow {checked.graph.name}", "", *overview(compiled, wording), "", "graph", *show_graph(checked)]
    if len(compiled.segments) == 1 and not compiled.shared:
        return "\n".join([*lines, *_compilation(checked, compiled.plans[0], wording, passes)])
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
            *_compilation(segment.ungated, plan, wording, passes),
        ]
    return "\n".join(lines)


def _compilation(checked: Checked, planned: Plan, wording: Wording, shows_passes: bool) -> Iterator[str]:
    """The passes over an in-tree, if they are shown, and its plan."""
    for one in all_passes(parallelism=planned.parallelism, key_groups=planned.key_groups) if shows_passes else ():
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
    steps = [*(["merge"] if many else []), *[step_name(stage, at) for at in range(len(stage.steps))]]
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
        yield "        Arrow     merge"
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


def _tasks(plan: Plan) -> str:
    return counted(plan.width, "task")


def _edge(stage: Stage) -> str:
    return "ordered per key" if stage.gives.ordered else "unordered"



"""What of a plan runs in plain Python; a plan with more of its operators in plain Python; names for operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan.facts import closing_of, column_monoid, columns_in_order, joins_of, needs_of, sums_only
from tracetypes.compiler.plan.plan import (
    FromSource,
    Leaf,
    Link,
    MergeStep,
    Plan,
    Region,
    Stage,
    StageLink,
    StatelessStep,
    Step,
    links,
)
from tracetypes.markers import EventTime
from tracetypes.nodes import Apply, Restore, Sort, title

__all__ = ["in_python", "link_calls_python", "names_of", "stage_calls_python"]


def link_calls_python(stage: Stage, link: Link) -> bool:
    """Whether Python is called for the items of a link: by an operator on its way, by a function of its source, or where items
    are combined before the exchange."""
    leaf = link.leaf
    if isinstance(leaf, FromSource):
        by_key = leaf.source.key is not None and isinstance(leaf.traced_key, Opaque)
        by_time = isinstance(leaf.source.markers, EventTime) and isinstance(leaf.traced_time, Opaque)
        if by_key or by_time:
            return True
    calls_combine = sums_only(stage) and column_monoid(stage) is None and not needs_of(stage) and joins_of(stage) is None
    return calls_combine or _is_opaque(link)


def stage_calls_python(plan: Plan, stage: Stage) -> bool:
    """Whether Python is called for the items, or keys, of a stage: by its keyed operators, or by those between it and the next
    stage or the sink."""
    behind = [(link, link_calls_python(later, link)) for later in plan.stages for link in links(later.region)]
    behind += [(link, _is_opaque(link)) for link in links(plan.region)]
    if any(calls and isinstance(link, StageLink) and link.leaf.stage == stage.number for link, calls in behind):
        return True
    if 0 < columns_in_order(stage) == len(stage.steps) - 1:
        return False
    steps = [(at, step) for at, step in enumerate(stage.steps) if not isinstance(step.node, Sort | Restore)]
    first = bool(stage.steps) and isinstance(stage.steps[0].keyed, Opaque)
    first = first and closing_of(stage) is None and joins_of(stage) is None
    return any(at or first or not sums_only(stage) for at, _ in steps)


def _is_opaque(link: Link) -> bool:
    return any(isinstance(step.traced, Opaque) for step in link.path)


def names_of(plan: Plan) -> dict[int, str]:
    """A name for each operator and source function of a plan, by identity; the same in the driver and in each worker."""
    names: dict[int, str] = {}

    def add(thing: object, name: str) -> None:
        names.setdefault(id(thing), f"{len(names)} {name}")

    def add_path(path: Sequence[StatelessStep]) -> None:
        for mapped in path:
            add(mapped.node.op, title(mapped.node))

    for stage in plan.stages:
        for link in links(stage.region):
            if isinstance(link.leaf, FromSource):
                add(link.leaf.source, title(link.leaf.source))
            add_path(link.path)
        for step in stage.steps:
            add(step.node.op if isinstance(step.node, Apply) else step.node, title(step.node))
            if step.coarse is not None and isinstance(step.node, Apply):
                names[id(step.coarse)] = names[id(step.node.op)]
    for link in links(plan.region):
        add_path(link.path)
    return names


def in_python(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with some of its operators (:func:`names_of`) in plain Python."""
    by_operator, stages = names_of(plan), list[Stage]()
    why = Opaque("what tracing made of it differed from plain Python")

    def node(one: Leaf | StatelessStep | MergeStep) -> Leaf | StatelessStep | MergeStep:
        if isinstance(one, FromSource) and by_operator.get(id(one.source)) in names:
            return attrs.evolve(one, traced_key=why, traced_time=why)
        if isinstance(one, StatelessStep) and by_operator[id(one.node.op)] in names:
            return attrs.evolve(one, traced=why)
        return one

    def region(one: Region) -> Region:
        return Region(tuple(map(node, one.nodes)))

    def step(one: Step) -> Step:
        matches = by_operator[id(one.node.op if isinstance(one.node, Apply) else one.node)] in names
        if not matches:
            return one
        return attrs.evolve(one, monoid=why, keyed=why, choices=why, closing=why, joins=why, ordered=why, place=why)

    for stage in plan.stages:
        steps = tuple(map(step, stage.steps))
        stages.append(attrs.evolve(stage, region=region(stage.region), steps=steps))
    return attrs.evolve(plan, stages=tuple(stages), region=region(plan.region))

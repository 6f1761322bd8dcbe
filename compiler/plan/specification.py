"""What is well-formed: rules as data, over a plan. See :mod:`tracetypes.compiler.graph.specification`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tracetypes.compiler.graph.specification import Rule
from tracetypes.compiler.plan.plan import FromStage, MergeStep, Plan, Region, StatelessStep, links
from tracetypes.nodes import Apply, Restore, Sort, title
from tracetypes.templates import OpKeyedOrdered, OpStateless

__all__ = ["PLAN"]


def _regions(plan: Plan) -> Iterator[tuple[str, Region]]:
    yield from ((f"stage {stage.number}", stage.region) for stage in plan.stages)
    yield "the sink", plan.region


def _numbers(plan: Plan) -> Iterator[str]:
    if not plan.stages:
        yield "there is no stage"
    for at, stage in enumerate(plan.stages):
        if stage.number != at:
            yield f"stage {stage.number} stands at place {at}"


def _trees(plan: Plan) -> Iterator[str]:
    for name, region in _regions(plan):
        read = Counter[int]()
        for at, node in enumerate(region.nodes):
            upstreams: tuple[int, ...] = ()
            if isinstance(node, MergeStep):
                upstreams = node.upstreams
            elif isinstance(node, StatelessStep):
                upstreams = (node.upstream,)
            read.update(upstreams)
            if isinstance(node, MergeStep) and not upstreams:
                yield f"a merge on the way to {name} has no input"
            if any(not 0 <= upstream < at for upstream in upstreams):
                yield f"node {at} on the way to {name} reads what does not stand before it"
        if not region.nodes or [read[at] for at in range(len(region.nodes))] != [1] * (len(region.nodes) - 1) + [0]:
            yield f"not every node on the way to {name} is read once, and the last one not"


def _order(plan: Plan) -> Iterator[str]:
    read = Counter[int]()
    for at, (name, region) in enumerate(_regions(plan)):
        for leaf in region.leaves:
            if isinstance(leaf, FromStage):
                read[leaf.stage] += 1
                if not 0 <= leaf.stage < at:
                    yield f"{name} reads stage {leaf.stage}, which is not before it"
    for stage in plan.stages:
        if read[stage.number] != 1:
            yield f"stage {stage.number} is read {read[stage.number]} times"


def _last(plan: Plan) -> Iterator[str]:
    if [type(leaf) for leaf in plan.region.leaves] != [FromStage] or any(isinstance(n, MergeStep) for n in plan.region.nodes):
        yield "the sink reads something else than one stage"


def _streams(plan: Plan) -> Iterator[str]:
    for name, region in _regions(plan):
        for node in region.nodes:
            if isinstance(node, StatelessStep) and node.takes != region.nodes[node.upstream].stream:
                yield f"{title(node.node)} on the way to {name} takes another stream than it is given"
            if isinstance(node, FromStage) and node.stream != plan.stages[node.stage].gives:
                yield f"{name} reads another stream than stage {node.stage} gives"
    for stage in plan.stages:
        flowing = stage.takes
        if flowing != stage.region.stream:
            yield f"stage {stage.number} takes another stream than it is given"
        for step in stage.steps:
            if (step.takes.key, step.takes.value) != (flowing.key, flowing.value):
                yield f"{title(step.node)} in stage {stage.number} takes another stream than it is given"
            flowing = step.gives
        if flowing != stage.gives:
            yield f"stage {stage.number} gives another stream than its last operator"
    if plan.region.stream.ordered != plan.edge.ordered:
        yield "the sink has another order than its stream"


def _steps(plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step.node, Apply) and isinstance(step.node.op, OpStateless):
                yield f"stateless {title(step.node)} is an operator of stage {stage.number}"
    for name, region in _regions(plan):
        for node in region.nodes:
            if isinstance(node, StatelessStep) and not isinstance(node.node.op, OpStateless):
                yield f"keyed {title(node.node)} is on the way to {name}"


def _sorted(plan: Plan) -> Iterator[str]:
    """An exchange interleaves what its senders send."""
    for stage in plan.stages:
        is_ordered = False
        for step in stage.steps:
            is_ordered = isinstance(step.node, Sort | Restore) or (is_ordered and step.gives.ordered)
            if isinstance(step.node, Apply) and isinstance(step.node.op, OpKeyedOrdered) and not is_ordered:
                yield f"{title(step.node)} in stage {stage.number} looks at an order that nobody made or restored"
        if stage.restores and any(link.path for link in links(stage.region)):
            yield f"stage {stage.number} restores the order of what stateless operators emit, which has none"


def _width(plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        if not 1 <= stage.parallelism <= plan.key_groups:
            yield f"stage {stage.number} has {stage.parallelism} tasks for {plan.key_groups} key groups"


def _readings(plan: Plan) -> Iterator[str]:
    for label, times in Counter(leaf.label for leaf in plan.sources).items():
        if times > 1:
            yield f"{times} readings are called {label}"
    counts = Counter(leaf.source.name for leaf in plan.sources if not leaf.quiet)
    for name, times in counts.items():
        if times > 1:
            yield f"{times} readings of {name} report late and rejected rows"


PLAN: Final[tuple[Rule[Plan], ...]] = (
    Rule("stages are numbered by their places", _numbers),
    Rule("a region is a tree, inputs first", _trees),
    Rule("a stage reads earlier ones, and each is read once", _order),
    Rule("between the last stage and the sink nothing is merged or read", _last),
    Rule("stages run keyed operators, and links stateless ones", _steps),
    Rule("an operator takes the stream that it is given", _streams),
    Rule("behind an exchange an order is made or restored before it is looked at", _sorted),
    Rule("a stage has tasks for its key groups", _width),
    Rule("readings have names of their own, and one of a source reports", _readings),
)
"""What holds of a plan."""

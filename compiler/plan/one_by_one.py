"""Plans and links of which a clock decides the rows, one after the other (:mod:`tracetypes.clocks`)."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from tracetypes.compiler.plan.plan import FromSource, Leaf, MergeStep, Plan, Region, SourceLink, StatelessStep

__all__ = ["decided_one_by_one", "one_by_one"]


def one_by_one(link: SourceLink) -> SourceLink:
    """A link whose rows are decided one after the other."""
    return link if link.leaf.has_clock else attrs.evolve(link, leaf=attrs.evolve(link.leaf, one_by_one=True))


def decided_one_by_one(plan: Plan, labels: Collection[str]) -> Plan:
    """The plan with some readings of sources decided so, by label."""

    def node(one: Leaf | StatelessStep | MergeStep) -> Leaf | StatelessStep | MergeStep:
        if isinstance(one, FromSource) and one.label in labels:
            return attrs.evolve(one, one_by_one=True)
        return one

    def region(one: Region) -> Region:
        return Region(tuple(map(node, one.nodes)))

    stages = tuple(attrs.evolve(stage, region=region(stage.region)) for stage in plan.stages)
    return attrs.evolve(plan, stages=stages, region=region(plan.region))

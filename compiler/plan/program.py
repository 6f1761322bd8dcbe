"""A program: the plans of all segments of a checked graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.graph.passes import compile_graph
from tracetypes.compiler.graph.segments import Segment, cut, whole
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS, plan_of, require_groups
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.nodes import Graph, Receive, Sink
from tracetypes.silence import NOTHING, Need, has_markers_in_band, needs, periods_in, unrolled

__all__ = ["Program", "alone", "program", "silence_beyond", "whole_plan"]


@attrs.frozen(eq=False)
class Program:
    """The plans of all segments, each after those that it reads from. ``shared``: the decision about each stream with
    several consumers, as text."""

    name: str
    segments: tuple[Segment, ...]
    plans: tuple[Plan, ...]
    shared: tuple[str, ...]

    @property
    def named(self) -> tuple[tuple[str, Plan], ...]:
        """The plans with the names of their segments."""
        return tuple((one.name, plan) for one, plan in zip(self.segments, self.plans, strict=True))

    @property
    def width(self) -> int:
        """The number of tasks of the widest plan."""
        return max(plan.width for plan in self.plans)

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the author's sinks."""
        return tuple(segment.name for segment in self.segments if segment.sends is None)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels."""
        return tuple(segment.sends for segment in self.segments if segment.sends is not None)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources, each once."""
        return tuple(dict.fromkeys(leaf.source.name for plan in self.plans for leaf in plan.sources))

    @property
    def sources_above(self) -> dict[str, tuple[str, ...]]:
        """For each segment, the sources of all segments upstream and its own."""
        sources: dict[str, tuple[str, ...]] = {}
        for segment, plan in zip(self.segments, self.plans, strict=True):
            names = [leaf.source.name for leaf in plan.sources]
            names += [name for channel in segment.receives for name in sources[channel]]
            sources[segment.name] = tuple(dict.fromkeys(names))
        return sources


def program(
    checked: Checked, *, parallelism: int = 1, key_groups: int = DEFAULT_KEY_GROUPS, fuse: bool = True
) -> Program:
    """Compile a checked graph of any shape. ``fuse`` as of :func:`.planner.plan_of`. Raises :class:`UsageError` ``TT404`` as
    :func:`.planner.plan` does."""
    require_groups(parallelism, key_groups)
    once = AnalysisCache()
    segments, shared = cut(checked, once)
    beyond = silence_beyond(segments, periods_in(unrolled(checked.graph)))
    markers = markers_above(segments)
    plans = tuple(
        plan_of(
            compile_graph(segment.ungated, parallelism=parallelism, key_groups=key_groups),
            parallelism=parallelism,
            key_groups=key_groups,
            quiet=segment.quiet,
            once=once,
            beyond=beyond,
            periods=markers[segment.name].periods,
            banded=not markers[segment.name].by_time,
            gate=segment.gate,
            fuse=fuse,
        )
        for segment in segments
    )
    return Program(checked.graph.name, segments, plans, shared)


def whole_plan(checked: Checked, sink: Sink, key_groups: int) -> Plan:
    """One plan for all that is upstream of a sink, without channels. Raises :class:`UsageError` ``TT430`` as
    :func:`.segments.whole`."""
    segment = whole(checked, sink)
    compiled = compile_graph(segment.checked, parallelism=key_groups, key_groups=key_groups)
    return plan_of(compiled, parallelism=key_groups, key_groups=key_groups, quiet=segment.quiet)


def silence_beyond(segments: Sequence[Segment], periods: Collection[int]) -> dict[str, Need]:
    """How much silence the readers of each channel need."""
    beyond: dict[str, Need] = {}
    for segment in reversed(segments):
        steps = unrolled(segment.checked.graph)
        out = needs(steps, periods, beyond).out
        for node, _ in steps:
            if isinstance(node, Receive):
                need, other = out.get(node.id, NOTHING), beyond.get(node.name, NOTHING)
                beyond[node.name] = {p: max(need.get(p, 0), other.get(p, 0)) for p in {*need, *other}}
    return beyond


@attrs.frozen
class MarkersAbove:
    """The markers that reach a segment. ``periods``: of the sources upstream that have event time. ``by_time``: whether all
    markers end blocks of such a period. A source with markers in band has none, and behind a gate some blocks are joined."""

    periods: frozenset[int]
    by_time: bool


def markers_above(segments: Sequence[Segment]) -> dict[str, MarkersAbove]:
    """The markers that reach each segment, by its name: what other segments do with the same program does not count."""
    above: dict[str, MarkersAbove] = {}
    sent: dict[str, MarkersAbove] = {}
    for segment in segments:
        steps, received = unrolled(segment.checked.graph), [sent[name] for name in segment.receives]
        periods = frozenset(periods_in(steps)).union(*(one.periods for one in received))
        by_time = not has_markers_in_band(steps) and all(one.by_time for one in received)
        above[segment.name] = MarkersAbove(periods, by_time)
        if segment.sends is not None:
            sent[segment.sends] = MarkersAbove(periods, by_time and segment.gate is None)
    return above


def alone(plan: Plan) -> Program:
    """A plan as a program of one segment, whose graph is no longer known: for tests and benchmarks."""
    segment = Segment(plan.sink.name, Checked(Graph(plan.name, ()), {}), None, frozenset(), plan.sink.name)
    return Program(plan.name, (segment,), (plan,), ())

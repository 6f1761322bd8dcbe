"""The silence behind the end of a source (design, corner 11).

A bounded run that drains answers all that its items determine: windows that are still open, sessions, joins. For that a source
that ends falls silent before it is dead. Behind its last block it sends markers over empty blocks, as many as the operators
behind it need to emit what they hold.

* An operator says how long it **lingers** (``linger``): for how many blocks, or for how much time after its last item it may
  still emit at markers. The default is 0.
* Lingering adds up along a way. An edge **needs** as many silent blocks as the longest way behind it.
* The markers of a silence that an operator lingers for are markers like any others: its ``on_marker`` runs. The rest of the
  silence passes it, and ``on_marker`` does not run.
* A merge goes on until its last input has ended. Markers of the silence of an input that ended earlier are markers of the merged
  stream up to there.

A silence is a range of markers for each source that it comes from, with the period of the source as its step. So it is a few
numbers, however long it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from tracetypes.marker_runs import MarkerRuns, ranges_of
from tracetypes.markers import EventTime, InBand
from tracetypes.nodes import Apply, Fused, Graph, Node, Sink, Source, steps_of
from tracetypes.templates import Linger, OpKeyedOrdered, OpKeyedUnordered

__all__ = [
    "NOTHING",
    "NO_SILENCE",
    "Need",
    "Needs",
    "Silence",
    "Step",
    "blocks_of",
    "cut",
    "emitted_in",
    "has_markers_in_band",
    "linger_of",
    "markers_in",
    "needs",
    "periods_in",
    "ranges_of",
    "read_ranges",
    "shown_ranges",
    "split_at",
    "unrolled",
]

Silence: TypeAlias = tuple[range, ...]
"""Markers in microseconds, a range for each source."""

NO_SILENCE: Final[Silence] = ()
"""No silence: the source goes on, or nothing behind it needs any."""


def markers_in(silence: Silence) -> MarkerRuns:
    """All markers, each once, in order."""
    return MarkerRuns(silence)


def split_at(silence: Silence, last: int) -> tuple[Silence, Silence]:
    """The markers up to ``last``, and the rest."""
    counts = [max(0, min(len(one), (last - one.start) // one.step + 1)) for one in silence]
    before = (one[:count] for one, count in zip(silence, counts, strict=True))
    after = (one[count:] for one, count in zip(silence, counts, strict=True))
    return tuple(one for one in before if one), tuple(one for one in after if one)


def cut(silence: Silence, need: Mapping[int, int]) -> Silence:
    """As much of a silence as an edge needs. ``need``: blocks, by the period of a source."""
    return tuple(part for one in silence if (part := one[: need.get(one.step, 0)]))


def emitted_in(silence: Silence, linger: Linger) -> int | None:
    """The last marker at which an operator may emit; None where that is none of them."""
    lasts = [one[min(blocks_of(linger, one.step), len(one)) - 1] for one in silence if blocks_of(linger, one.step)]
    return max(lasts, default=None)


def blocks_of(linger: Linger, period: int) -> int:
    """How many blocks of ``period`` microseconds an operator lingers for."""
    return linger if isinstance(linger, int) else -(-linger // dt.timedelta(microseconds=period))


def shown_ranges(silence: Silence) -> list[list[int]]:
    """As plain values, for JSON."""
    return [[one.start, one.stop, one.step] for one in silence]


def read_ranges(ranges: Iterable[Sequence[int]]) -> Silence:
    """What :func:`shown_ranges` has shown."""
    return tuple(range(*one) for one in ranges)


def linger_of(node: Node) -> Linger:
    """How long the operator of a node lingers; 0 for any other node."""
    match node:
        case Apply(op=OpKeyedOrdered() | OpKeyedUnordered() as op):
            return op.linger()
        case _:
            return 0


# ------------------------------------------------------------------------------------------------- what edges need

Need: TypeAlias = Mapping[int, int]
"""Silent blocks by the period of the source that sends them, in microseconds."""

NOTHING: Final[Need] = {}


@attrs.frozen
class Needs:
    """How much silence the edges of a graph need. ``edges``: by node and reader; ``out``: by node, the most of its readers."""

    edges: Mapping[tuple[int, int], Need]
    out: Mapping[int, Need]

    def edge(self, node: int, reader: int) -> Need:
        """Of one edge."""
        return self.edges.get((node, reader), NOTHING)


Step: TypeAlias = tuple[Node, tuple[int, ...]]
"""A node that is no fused chain, and what it reads."""


def unrolled(graph: Graph) -> list[Step]:
    """The nodes of a graph with fused chains taken apart, in topological order."""
    steps: list[Step] = []
    last: dict[int, int] = {}
    """The last step of each chain, by the number of the chain."""
    for node in graph.nodes:
        inputs = tuple(last.get(id, id) for id in node.inputs)
        for step in steps_of(node):
            steps.append((step, inputs))
            inputs = (step.id,)
        last[node.id] = inputs[0] if isinstance(node, Fused) else node.id
    return steps


def needs(steps: Sequence[Step], periods: Iterable[int], beyond: Mapping[str, Need] | None = None) -> Needs:
    """What the edges between ``steps`` need. ``periods``: of all sources, also of those that send into a channel that is read
    here. ``beyond``: what the readers of a channel need, by the name of the sink that sends into it."""
    distinct = tuple(sorted(set(periods)))
    edges: dict[tuple[int, int], Need] = {}
    out: dict[int, Need] = {}
    for node, inputs in reversed(steps):
        here = out.get(node.id, NOTHING)
        if isinstance(node, Sink):
            here = (beyond or {}).get(node.name, NOTHING)
        linger = linger_of(node)
        need = {p: count for p in distinct if (count := here.get(p, 0) + blocks_of(linger, p))} if linger else here
        if not need:
            continue
        for upstream in inputs:
            edges[upstream, node.id] = need
            other = out.get(upstream, NOTHING)
            out[upstream] = {p: max(need.get(p, 0), other.get(p, 0)) for p in distinct} if other else need
    return Needs(edges, out)


def periods_in(steps: Iterable[Step]) -> set[int]:
    """The periods of all sources that have markers by event time."""
    return {node.markers.period for node, _ in steps if isinstance(node, Source) and isinstance(node.markers, EventTime)}


def has_markers_in_band(steps: Iterable[Step]) -> bool:
    """Is there a source with markers in band?"""
    return any(isinstance(node, Source) and isinstance(node.markers, InBand) for node, _ in steps)

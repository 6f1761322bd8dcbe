"""The plan: stages that run without moving data, joined by exchanges by key group.

A :class:`Stage` is keyed: it owns, for each key group, the state of a chain of sorts and keyed operators. What lies between
stages is a :class:`Region`: sources, stateless operators and merges, a tree whose leaves are sources and earlier stages.
A region's operators run where the data comes from (each leaf's :class:`Link` has its own path of them), except for what
they emit at markers: that is computed where the blocks are closed, so that it is emitted once (design, corner 1).

Nothing here is nested in what it feeds: a region is a list of nodes that name their inputs by place, and a stage is named by
its number. So a plan of any depth is pickled, compared and walked without recursion.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

import attrs

from tracetypes.compiler.analysis.block_joins import TracedBlockJoin
from tracetypes.compiler.analysis.choices import Places, TracedChoice
from tracetypes.compiler.analysis.keyed import Keyed
from tracetypes.compiler.analysis.monoids import Monoid
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.analysis.summaries import Closing
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.edges import EdgeType
from tracetypes.formats import Layout
from tracetypes.markers import EventTime
from tracetypes.nodes import Apply, Gate, Merge, Restore, Sink, Sort, Source, title
from tracetypes.silence import NOTHING, Need
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless
from tracetypes.trace import StreamType

__all__ = [
    "EVERY",
    "ChannelLink",
    "FromChannel",
    "FromSource",
    "FromStage",
    "Leaf",
    "Link",
    "MergeStep",
    "Operator",
    "Plan",
    "Region",
    "SourceLink",
    "Stage",
    "StageLink",
    "StatelessStep",
    "Step",
    "links",
]


EVERY = 100_000
"""Of so many rows that come to an operator one is computed in plain Python too."""

_UNTRACED: Final = Opaque("it was not traced")
_NO_MONOID: Final = Opaque("it has none")
_NOT_KEYED: Final = Opaque("it has no monoid")
_NO_ORDER: Final = Opaque("its items have no order")
_NO_JOIN: Final = Opaque("it is no join by blocks")
_NO_CHOICES: Final = Opaque("it needs all of its items")


@final
@attrs.frozen(eq=False, kw_only=True)
class FromSource:
    """A source, read in pieces by several workers, for its items or for one of its other outputs. ``stream``: what it gives;
    ``items``: the stream of its items. ``traced_key`` and ``traced_time``: its functions as expressions of ``value``; for a
    source without ``key=`` the first means nothing. ``quiet``: another reading of the same source tells of its late and
    rejected rows; ``reading``: how many readings of it lie before this one in the plan; ``silence``: how many blocks of silence
    the plan needs behind the end of the source. ``one_by_one``: rows are very far ahead of others, so that a clock must decide
    each."""

    source: Source
    layout: Layout
    stream: StreamType
    items: StreamType
    traced_key: Tree | Opaque = _UNTRACED
    traced_time: Tree | Opaque = _UNTRACED
    quiet: bool = False
    reading: int = 0
    silence: int = 0
    one_by_one: bool = False

    @property
    def has_clock(self) -> bool:
        """Whether a :class:`~tracetypes.clocks.Clock` decides its rows: then its splits are read one after the other."""
        how = self.source.markers
        return isinstance(how, EventTime) and (self.one_by_one or how.per is not None)

    @property
    def label(self) -> str:
        """A name for this reading among all of the plan: each has a progress of its own."""
        return f"{self.source.name}:{self.reading}" if self.reading else self.source.name

    @property
    def gives_items(self) -> bool:
        """Is it read for its items, not for the late or rejected ones?"""
        return self.source.output == "items"


@final
@attrs.frozen(eq=False, kw_only=True)
class FromStage:
    """The output of an earlier stage, by its number."""

    stage: int
    stream: StreamType


@final
@attrs.frozen(eq=False, kw_only=True)
class FromChannel:
    """The output of another query. Its rows lie in columns as ``layout`` has them. ``silence``: how much of the silence behind
    its end the plan needs. ``behind``: the marker behind which the plan reads it, if not from its beginning."""

    name: str
    edge: EdgeType
    layout: Layout
    stream: StreamType
    silence: Need = NOTHING
    behind: int | None = None


@final
@attrs.frozen(eq=False, kw_only=True)
class StatelessStep:
    """A stateless operator. ``upstream``: the place in the region of its input. ``traced``: what it does with an item,
    as expressions."""

    node: Apply
    upstream: int
    takes: StreamType
    stream: StreamType
    traced: Tree | Opaque = _UNTRACED

    @property
    def op(self) -> OpStateless[Any, Any, Any, Any]:
        """The author's operator."""
        if isinstance(op := self.node.op, OpStateless):
            return op
        raise TypeError(f"{title(self.node)} is not stateless")


@final
@attrs.frozen(eq=False, kw_only=True)
class MergeStep:
    """MRG of several streams, by their places in the region."""

    node: Merge
    upstreams: tuple[int, ...]
    stream: StreamType


Leaf: TypeAlias = FromSource | FromStage | FromChannel


@final
@attrs.frozen(eq=False)
class Region:
    """A tree of sources, earlier stages, stateless operators and merges. ``nodes``: each after its inputs, from the
    left; the last one is the root."""

    nodes: tuple[Leaf | StatelessStep | MergeStep, ...]

    @property
    def stream(self) -> StreamType:
        """The stream of its output."""
        return self.nodes[-1].stream

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves, from the left."""
        return tuple(node for node in self.nodes if not isinstance(node, StatelessStep | MergeStep))


Operator: TypeAlias = OpKeyedOrdered[Any, Any, Any, Any] | OpKeyedUnordered[Any, Any, Any, Any, Any, Any] | Sort | Restore


@final
@attrs.frozen(eq=False, kw_only=True)
class Step:
    """A sort or keyed operator inside a stage, with the streams of its input and output. ``monoid``: of an
    ``OpKeyedUnordered`` whose aggregates can be combined as columns. ``keyed``: its methods for aggregates, if
    states can be columns. ``choices``: which of its items it needs, where it does not need all and columns can tell;
    ``closing``: what it emits of a block if that follows from the items of the block alone. ``joins``: a join by key and block,
    if it can run over columns.
    ``coarse``: what runs in place of the author's operator, on joined blocks. ``ordered``: an ordered operator's methods, if it
    can run over columns; ``place``: of a sort, the function by which it sorts."""

    node: Apply | Sort | Restore
    takes: StreamType
    gives: StreamType
    monoid: Monoid | Opaque = _NO_MONOID
    keyed: Keyed | Opaque = _NOT_KEYED
    choices: tuple[TracedChoice, ...] | Opaque = _NO_CHOICES
    closing: Closing | Opaque = _NO_CHOICES
    joins: TracedBlockJoin | Opaque = _NO_JOIN
    coarse: OpKeyedUnordered[Any, Any, Any, Any, Any, Any] | None = None
    ordered: OrderedForm | Opaque = _NO_ORDER
    place: Places | Opaque = _UNTRACED

    @property
    def operator(self) -> Operator:
        """The operator that runs."""
        if self.coarse is not None:
            return self.coarse
        match self.node:
            case Apply(op=OpKeyedOrdered() | OpKeyedUnordered() as op):
                return op
            case Sort() | Restore() as node:
                return node
            case _:
                raise TypeError(f"{title(self.node)} has no place in a stage")


@final
@attrs.frozen(eq=False, kw_only=True)
class Stage:
    """A keyed stage. ``takes``: the stream at its head, after the region. A stage without steps only closes blocks. ``tumbles``:
    the first operator answers whole windows of this size and offset, so that items come with the end of their window for that of
    their block. ``pane``: the first operator runs on blocks of this size and offset, into which those of the markers are
    joined."""

    number: int
    region: Region
    takes: StreamType
    gives: StreamType
    steps: tuple[Step, ...]
    parallelism: int
    tumbles: tuple[int, int] | None = None
    pane: tuple[int, int] | None = None

    @property
    def joined(self) -> tuple[int, int] | None:
        """Size and offset of what the blocks of the markers are joined to, if they are."""
        return self.tumbles or self.pane

    @property
    def restores(self) -> bool:
        """Whether it needs the positions of items. If so, there is no stateless operator on the way to it, because
        emissions have no order."""
        return any(isinstance(step.node, Restore) for step in self.steps)


@attrs.frozen(eq=False, kw_only=True)
class _Link:
    """A way from a leaf of a region to its root: the leaf and the stateless operators between them, in order."""

    number: int
    path: tuple[StatelessStep, ...]


@final
@attrs.frozen(eq=False, kw_only=True)
class SourceLink(_Link):
    """From a source."""

    leaf: FromSource


@final
@attrs.frozen(eq=False, kw_only=True)
class StageLink(_Link):
    """From an earlier stage."""

    leaf: FromStage


@final
@attrs.frozen(eq=False, kw_only=True)
class ChannelLink(_Link):
    """From a channel."""

    leaf: FromChannel


Link: TypeAlias = SourceLink | StageLink | ChannelLink


@attrs.frozen(eq=False, kw_only=True)
class Plan:
    """The input of a backend: stages in topological order, the sink, and the region between the last stage and the
    sink. ``verify_every``: one row of this many is computed in plain Python too (:mod:`.runtime.verification`); 0
    for none. ``gate``: what stands between the last region and the channel that the plan sends into. ``fused``: whether chains of
    operators are one stage."""

    name: str
    stages: tuple[Stage, ...]
    sink: Sink
    region: Region
    layout: Layout
    edge: EdgeType
    parallelism: int
    key_groups: int
    verify_every: int = EVERY
    gate: Gate | None = None
    fused: bool = True

    @property
    def width(self) -> int:
        """The number of tasks of every stage if a backend has one number for all: the largest that any of them asks
        for."""
        return max(stage.parallelism for stage in self.stages)

    @property
    def sources(self) -> tuple[FromSource, ...]:
        """The sources, in the order of the stages that read them."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, FromSource))

    @property
    def channels(self) -> tuple[FromChannel, ...]:
        """The channels that it reads."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, FromChannel))

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Everything that a stage reads."""
        return tuple(leaf for stage in self.stages for leaf in stage.region.leaves)


def links(region: Region) -> tuple[Link, ...]:
    """The links of a region, numbered from the left."""
    last, reader = len(region.nodes) - 1, [0] * len(region.nodes)
    """``reader``: the place of what reads each node."""
    for at, node in enumerate(region.nodes):
        if isinstance(node, StatelessStep):
            reader[node.upstream] = at
        elif isinstance(node, MergeStep):
            for upstream in node.upstreams:
                reader[upstream] = at
    ways: list[tuple[Leaf, tuple[StatelessStep, ...]]] = []
    behind: dict[int, tuple[StatelessStep, ...]] = {}
    """The operators behind each merge: what joins a chain shares the rest of it."""
    for at in range(last, -1, -1):
        node = region.nodes[at]
        if isinstance(node, StatelessStep):
            continue
        path, tail, to = list[StatelessStep](), tuple[StatelessStep, ...](), at
        while to < last:
            to = reader[to]
            below = region.nodes[to]
            if not isinstance(below, StatelessStep):
                tail = behind[to]
                break
            path.append(below)
        whole = (*path, *tail) if path else tail
        if isinstance(node, MergeStep):
            behind[at] = whole
        else:
            ways.append((node, whole))
    return tuple(_link(number, leaf, path) for number, (leaf, path) in enumerate(reversed(ways)))


def _link(number: int, leaf: Leaf, path: tuple[StatelessStep, ...]) -> Link:
    match leaf:
        case FromSource():
            return SourceLink(number=number, leaf=leaf, path=path)
        case FromStage():
            return StageLink(number=number, leaf=leaf, path=path)
        case FromChannel():
            return ChannelLink(number=number, leaf=leaf, path=path)

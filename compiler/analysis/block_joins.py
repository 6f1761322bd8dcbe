"""The joins by key and block of the standard library: what columns need to know of them."""

from __future__ import annotations

import attrs

from tracetypes.block_joins import BlockJoin
from tracetypes.compiler.analysis.blame import Opaque, refusal
from tracetypes.compiler.analysis.joins import JoinKind, gives_joined, sides_in, value_in
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.records import Record, Schema
from tracetypes.templates import Operator, OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["TracedBlockJoin", "block_join_in"]


@attrs.frozen(eq=False)
class TracedBlockJoin(JoinKind):
    """A join by key and block. ``takes``: the union of the records ``left`` and ``right``; ``gives``: what it emits. The others
    are those of :class:`tracetypes.block_joins.BlockJoin`."""

    key: Schema
    takes: Schema
    gives: Schema
    left: Record
    right: Record
    how: str
    reach: int
    windows: bool
    grid: tuple[int, int] | None

    @property
    def values(self) -> tuple[Schema, Schema]:
        """The schemas of the values of the two sides."""
        return value_in(self.left), value_in(self.right)


def block_join_in(op: Operator, takes: StreamType, gives: StreamType) -> TracedBlockJoin | Opaque:
    """A join by key and block, if an operator is one."""
    its = op._joins() if isinstance(op, OpKeyedUnordered) else None
    if its is None:
        return Opaque("it is no join by blocks")
    try:
        return _traced(its, takes, gives)
    except Untraceable as why:
        return refusal(op, why)


def _traced(its: BlockJoin, takes: StreamType, gives: StreamType) -> TracedBlockJoin:
    left, right = sides_in(takes, its.left)
    if right.cls is not its.right or not gives_joined(gives.value, its.gives, its.how, value_in(left), value_in(right)):
        raise Untraceable("emits values of another type than those that it takes")
    return TracedBlockJoin(
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        left=left,
        right=right,
        how=its.how,
        reach=its.reach,
        windows=its.windows,
        grid=its.grid,
    )

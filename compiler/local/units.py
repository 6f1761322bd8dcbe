"""What travels between the operators of an epoch: the units of the ordered runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tracetypes.compiler.local.ordered.marks import Mark
from tracetypes.compiler.runtime.messages import Aggregates, Items, Message, Partials
from tracetypes.compiler.wire.messages import EncodedBody

__all__ = ["Batch", "Sent", "aligned_barriers", "row_count"]


@attrs.frozen(eq=False)
class Sent(Mark):
    """Messages of any shards that belong together. ``last``: the barrier at the end of the epoch; nothing of it follows."""

    messages: Sequence[Message]
    last: bool = False


@attrs.frozen(eq=False)
class Batch(Mark):
    """Messages for the shards of a stage, which takes them in one step. (No Arrow record batch: the messages contain those.)
    ``left``: what each shard has sent, where the shard puts it. ``last`` as of :class:`Sent`."""

    messages: Mapping[int, Sequence[Message]]
    left: list[Sequence[Message]]
    last: bool

    def sent(self) -> Sent:
        """What all shards have sent, in their order."""
        return Sent([message for messages in self.left for message in messages], self.last)


def aligned_barriers(barriers: Sequence[Mark]) -> Sent:
    """One barrier from those of all inputs of a merge."""
    return Sent([message for one in barriers if isinstance(one, Sent) for message in one.messages], last=True)


def row_count(body: Any) -> int:
    """How many items, or aggregates of items, a message has."""
    match body:
        case Items(count=count):
            return count
        case Aggregates(rows=rows):
            return len(rows)
        case Partials(keys=keys):
            return len(keys)
        case EncodedBody(count=count):
            return count
        case _:
            return 0

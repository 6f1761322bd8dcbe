"""What a key group of a stage keeps between epochs."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.progress import Progress

__all__ = ["OPEN", "StageState", "items_waiting", "keys_held"]

OPEN: Final = 2**62
"""The end of a block whose marker has not come is ``OPEN`` and a number for link and part (sources with markers in band; late
items and rejects that come before the first marker of their source is known)."""


@attrs.define
class StageState:
    """All that a key group of a stage keeps between epochs; pickled into the checkpoint."""

    progress: list[list[Progress]]
    """Of each link, and of each part of its source: what the link sends is the merge of them."""
    open_blocks: dict[int, Any] = attrs.Factory(dict)
    """What has arrived for blocks that are open, by end of block; see :data:`OPEN`."""
    operators: list[Any] = attrs.Factory(list)
    tables: list[tuple[Any, Any, Any]] = attrs.Factory(list)
    """What a stage holds that does nothing but close blocks, or sorts first: ends, keys and values, as columns."""
    owners: dict[Any, int] = attrs.Factory(dict)
    """For ordered merges: which link, and which part of its source, each key comes from; see :class:`Owners`."""
    closed: int | None = None


def items_waiting(state: StageState) -> int:
    """How many items wait in open blocks. Those that are aggregated as they come do not."""
    held = sum(len(ends) for ends, _, _ in state.tables)
    for block in state.open_blocks.values():
        if isinstance(block, tuple):  # keys and values
            held += len(block[0])
        elif isinstance(block, list):  # items with their places
            held += len(block)
    return held


def keys_held(state: Any) -> int:
    """Of how many keys an operator has a state; a sort has none."""
    match state:
        case ColumnState(count=count) | OrderedState(count=count) | HeldItems(count=count):
            return count
        case UnorderedState(states=states):
            return len(states)
        case dict():
            return len(state)
        case _:
            return 0

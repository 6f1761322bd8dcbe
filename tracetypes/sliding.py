"""What an operator that aggregates the last items of a key says of itself, so that it can run over columns."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Sliding"]


@attrs.frozen(eq=False)
class Sliding:
    """The parameters of a sliding :func:`tracetypes.stdlib.count_window`, which says what they mean. ``aggregate`` has the
    methods ``lift``, ``identity``, ``combine`` and ``result``.

    The state of a key says how many items came since a window was emitted; then come the last items in two stacks, and the
    aggregate of the second one. This has the new items, lifted, ``items`` of them at most. When it has so many, the next item
    first turns it into the first stack, each item into the aggregate from there on, the oldest on top. Each item takes one from
    the first stack, unless fewer than ``items`` came so far."""

    aggregate: Any
    items: int
    slide: int

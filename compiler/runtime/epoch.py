"""What a key group of a stage learns in one epoch and forgets after it."""

from __future__ import annotations

from typing import final

import attrs

from tracetypes.compiler.runtime.emissions import HELD_BACK, Outlet
from tracetypes.compiler.runtime.messages import Jump, Message, Piece
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns
from tracetypes.silence import NO_SILENCE, Silence

__all__ = ["Epoch"]


@final
@attrs.define(eq=False)
class Epoch:
    """The scratch of one epoch. What is by link and piece is known once the reports are taken.

    ``starts``: of sources with markers in band, the end of the block of the items before each marker of a piece, and after the
    last. ``part_of``: the part of the source that a piece belongs to. ``frontiers``: of sources with event time, the last
    marker before a piece. ``rows`` and ``read``: rows that the sources read, ``read`` by source. ``aside``: late items and
    rejects that only the stage knows of. ``flowed``: items that came to the first operator and from there to each next one.
    ``emitted``: items that left the stage. ``closed``: the markers of the blocks that closed. ``silence``: what is left of it
    behind the last of them, once all links have ended. ``jumps``: rows that are very far ahead of those before them, by source.
    ``ends``: of each link the last marker before its silence, None while it goes on. ``limit``: no marker behind it is due.
    ``frontier``: of a flow over bags, up to where the stage has closed its blocks. ``outlet``: takes rows before the epoch ends.
    """

    group: int
    flowed: list[int]
    outlet: Outlet = HELD_BACK
    starts: dict[tuple[int, Piece], list[int]] = attrs.Factory(dict)
    part_of: dict[tuple[int, Piece], int] = attrs.Factory(dict)
    frontiers: dict[tuple[int, Piece], int] = attrs.Factory(dict)
    rows: int = 0
    read: dict[str, int] = attrs.Factory(dict)
    aside: list[Message] = attrs.Factory(list)
    emitted: int = 0
    jumps: list[tuple[str, Jump]] = attrs.Factory(list)
    closed: MarkerRuns = NO_MARKERS
    silence: Silence = NO_SILENCE
    ends: list[int | None] = attrs.Factory(list)
    limit: int | None = None
    frontier: int | None = None

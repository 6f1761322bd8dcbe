"""Which blocks a segment has sent into its channel so far, as its commit records say. A reader that joins begins behind them, and
for a reader that is drained the channel ends with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from tracetypes.compiler.store.channel import Entry
from tracetypes.silence import Need, shown_ranges

__all__ = ["BEGINNING", "SentBlocks"]

BEGINNING = -(1 << 62)
"""A marker before all others, in microseconds: who begins behind it leaves nothing out."""


@attrs.frozen
class SentBlocks:
    """``first`` and ``last``: the ends of the first and of the last block that has had a row; ``marker``: the last marker;
    ``period``: of the markers, where rows may be ahead of them. All in microseconds, and None where there is none."""

    first: int | None = None
    last: int | None = None
    marker: int | None = None
    period: int | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """As a commit record has them."""
        return cls(*record.get("sent", ()))

    @property
    def plain(self) -> list[int | None]:
        """For a commit record."""
        return [self.first, self.last, self.marker, self.period]

    def later(self, blocks: tuple[int, int] | None, marker: int | None) -> Self:
        """Behind one more epoch. ``blocks``: of rows that may be ahead of the markers; ``marker``: the last of the epoch."""
        first, last = self.first, self.last
        if blocks is not None:
            first = blocks[0] if first is None else min(first, blocks[0])
            last = blocks[1] if last is None else max(last, blocks[1])
        return attrs.evolve(self, first=first, last=last, marker=self.marker if marker is None else marker)

    @property
    def open(self) -> range:
        """The markers of the blocks that are not closed yet, empty ones among them."""
        if self.last is None or self.first is None or (self.marker is not None and self.last <= self.marker):
            return range(0)
        step = self.period or 1
        start = self.first if self.marker is None else self.marker + step
        return range(start if self.period else self.last, self.last + 1, step)

    def ending(self, need: Need) -> Entry:
        """What ends the channel for a reader here, where the sender goes on: all open blocks are closed, and the sources fall
        silent for as long as it needs."""
        behind = self.behind
        silence: list[range] = []
        if behind != BEGINNING:
            for period, count in need.items():
                start = (behind // period + 1) * period
                silence.append(range(start, start + count * period, period))
        markers = shown_ranges((self.open,) if self.open else ())
        return {"batch": -1, "markers": markers, "complete": True, "silence": shown_ranges(tuple(silence))}

    @property
    def behind(self) -> int:
        """The first marker behind every block that has had a row."""
        return max([BEGINNING, *(one for one in (self.last, self.marker) if one is not None)])

"""How much of its files an epoch takes.

A listing has as much text as slow operators work through in minutes. Fast ones need a tenth of a second for it, and the end of an
epoch takes a part of that: the barrier, the commit, and workers that wait for it. So an epoch takes several listings where the
epochs before it were short. After a crash about a second is done again.
"""

from __future__ import annotations

from typing import Final, final

__all__ = ["EpochSize"]

SECONDS: Final = 1.0
"""How long an epoch takes about, if so much is there."""

GROWTH: Final = 4
"""How many times as much as the last one an epoch takes at most."""

MOST: Final = 2 << 30
"""Bytes that several listings have together at most. Rows for a topic or the program are in memory until the epoch ends."""


@final
class EpochSize:
    """Of a segment. ``bytes``: how much the next epoch may take of each source, if it takes more than one listing."""

    def __init__(self) -> None:
        self.bytes = 0

    def took(self, size: int, seconds: float) -> None:
        """An epoch has taken so many bytes of a source, and so long."""
        most = min(GROWTH * size, MOST)
        self.bytes = most if size * SECONDS >= most * seconds else int(size * SECONDS / seconds)

"""What every connector of a source can: find its splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Offset", "Splits"]

Offset: TypeAlias = dict[str, Any]
"""Up to where a source is read: plain data, which a backend keeps with each epoch."""


class Splits(Protocol):
    """Finds what there is to read. It raises the errors of its connector."""

    def begin(self) -> Offset:
        """Where a new run begins."""

    def end(self, since: Offset) -> Offset:
        """Where an epoch ends that begins at an offset. It is the same offset, after a moment, where nothing is new."""

    def splits(self, since: Offset, until: Offset) -> Sequence[tuple[Any, ...]]:
        """The splits between two offsets, the same ones each time. Workers read them."""

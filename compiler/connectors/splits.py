"""The interface to find the splits of a source, which every connector implements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Offset", "Splits"]

Offset: TypeAlias = dict[str, Any]
"""Up to where a source is read: plain data, which a backend keeps with each epoch."""


class Splits(Protocol):
    """Finds what there is to read. Raises the errors of its connector."""

    def begin(self) -> Offset:
        """The offset at which a new run begins."""

    def end(self, since: Offset) -> Offset:
        """The end of an epoch that begins at an offset. It returns the same offset, after a moment, if nothing is new."""

    def splits(self, since: Offset, until: Offset) -> Sequence[tuple[Any, ...]]:
        """The splits between two offsets, the same ones each time. Workers read them."""

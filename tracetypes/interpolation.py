"""What an operator that interpolates says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

__all__ = ["Interpolation"]

V = TypeVar("V")


@attrs.frozen(eq=False)
class Interpolation(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.interpolate`, which says what they mean. The state of a key is None, or the last
    reading, its time and its number."""

    time: Callable[[V], int]
    number: Callable[[V], float]
    make: Callable[[V, int, float], V]
    step: int
    max_gap: int | None

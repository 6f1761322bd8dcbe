"""What an operator of windows by the times of the items themselves says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from tracetypes.self_description import SelfDescribing

__all__ = ["OwnWindows"]

V = TypeVar("V")


@attrs.frozen(eq=False)
class OwnWindows(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.time_window`, which says what they mean; ``size``, ``offset`` and ``grace`` in
    microseconds. ``number``: of the window of a value. ``answer``: emits the result of a window, by its number and aggregate.

    The state of a key is an object with the fields ``over``, ``aggregates`` and ``values``: windows before that number are over
    (minus infinity before the first marker), the aggregates of the others by number, and values that came since the last
    marker."""

    aggregate: SelfDescribing
    number: Callable[[V], int]
    answer: Callable[..., None]
    size: int
    offset: int
    grace: int

"""What an operator that joins items with the latest of another side says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

__all__ = ["Latest"]

V = TypeVar("V")


@attrs.frozen(eq=False)
class Latest(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.asof_join`, which says what they mean. ``left``: the class of items of the left
    side; those of the other class are of the right side. Both are records with the field ``value``. ``time``: of an item of
    either side, in microseconds. What is emitted is a record of the class ``gives``: of the left value, then the right one or
    None. The state of a key is None, or the time and value of its latest right item."""

    left: type[Any]
    gives: type[Any]
    time: Callable[[V], int]
    tolerance: int | None

"""What an operator that joins items with the latest of another side says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import attrs

__all__ = ["Latest"]

V = TypeVar("V")


@attrs.frozen(eq=False)
class Latest(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.asof_join` and :func:`tracetypes.stdlib.table_join`, which say what they mean.
    ``left``: the class of items of the left side; those of the other class are of the right side. Both are records with the field
    ``value``. ``time``: of an item of either side, in microseconds. ``deleted``: does a right item remove what is known?
    ``gives``: the class of the record of a left and a right value (None if there is none) that is emitted; for ``"semi"`` and
    ``"anti"`` the left value alone is. The state of a key is None, or the time and value of its latest right item."""

    left: type[Any]
    gives: type[Any]
    time: Callable[[V], int]
    tolerance: int | None = None
    deleted: Callable[[V], bool] | None = None
    how: Literal["inner", "left", "semi", "anti"] = "left"

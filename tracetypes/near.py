"""What an operator that joins items whose times are near says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import attrs

__all__ = ["Near"]

V = TypeVar("V")


@attrs.frozen(eq=False)
class Near(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.interval_join`, which says what they mean. ``left``: the class of items of the
    left side; those of the other class are of the right side. Both are records with the field ``value``. ``time``: of an item of
    either side, in microseconds, as ``before`` and ``after`` are. ``gives``: the class of the record of a left and a right value
    that is emitted; for ``"semi"`` and ``"anti"`` the left value alone is.

    The state of a key is a pair of lists of left and right items, each sorted by time. An item is of the class ``holds``: a tuple
    of time and value, or a record of time, value and whether it has found a partner, which outer joins need. For ``"semi"`` and
    ``"anti"`` left items are those without a partner, and of a right item only the time is held."""

    left: type[Any]
    gives: type[Any]
    holds: type[Any]
    time: Callable[[V], int]
    before: int
    after: int
    how: Literal["inner", "left", "right", "full", "semi", "anti"]

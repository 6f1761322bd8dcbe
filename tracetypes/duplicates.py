"""What an operator that drops items of a name that came before says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import attrs

__all__ = ["Duplicates", "settled"]

V = TypeVar("V")


def settled(name: Hashable) -> Hashable:
    """A name in which NaN, alone or in a tuple, is replaced. A NaN equals only the same object, and a state that was
    saved and read again has other objects."""
    if type(name) is tuple:
        return tuple(map(settled, name))
    return ... if name != name else name


@attrs.frozen(eq=False)
class Duplicates(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.deduplicate`, which says what they mean. Only one of
    ``items`` and ``horizon`` is given, or none. ``time``: of an item, in microseconds, as ``horizon`` is.

    The state of a key holds :func:`settled` names. It is a set of all of them; for ``items`` a deque of the last ones and a dict
    of how many of these each name has; for ``time`` a dict of the last time of each name, without those that a marker has
    removed: the first one that lies more than ``horizon`` behind it."""

    name: Callable[[V], Any]
    items: int | None = None
    horizon: int | None = None
    time: Callable[[V], int] | None = None

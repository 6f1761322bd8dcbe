"""What a join of items by their blocks says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import attrs

__all__ = ["BlockJoin", "JoinedBlock"]


@attrs.frozen
class JoinedBlock:
    """What a key holds of one block. ``age``: how many blocks ago it closed. ``left_paired``, ``right_paired``: whether the
    items of a side have found a partner; only where items wait for partners."""

    age: int
    lefts: Iterable[Any]
    rights: Iterable[Any]
    left_paired: bool = False
    right_paired: bool = False


@attrs.frozen(eq=False, kw_only=True)
class BlockJoin:
    """A join of two sides by key and block. ``left`` and ``right``: the classes of their items, records with the field ``value``.
    ``gives``: the class of the record of a left and a right value that is emitted; for ``"semi"`` and ``"anti"`` the left value
    alone is. ``reach``: how many blocks before the last one still matter.

    With ``windows`` a window is the last ``reach + 1`` blocks, it ends at each marker that lies on ``grid`` (size and offset in
    microseconds; None: at each marker), and :func:`tracetypes.stdlib.window_join` says what it emits. Otherwise an item waits for
    partners for ``reach`` blocks, as :func:`tracetypes.stdlib.equi_join` says.

    ``sides``: the left and the right values of an aggregate. ``blocks``: what a state holds; ``state``: the state that holds
    that, which comes by age, the oldest first."""

    left: type[Any]
    right: type[Any]
    gives: type[Any]
    how: Literal["inner", "left", "right", "full", "semi", "anti"]
    reach: int
    windows: bool
    grid: tuple[int, int] | None = None
    sides: Callable[[Any], tuple[Iterable[Any], Iterable[Any]]]
    blocks: Callable[[Any], Sequence[JoinedBlock]]
    state: Callable[[Sequence[JoinedBlock]], Any]

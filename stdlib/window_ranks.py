"""The place of each value in a window: ranks, tiles, cumulative distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.sort_keys import Orderable
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.annotations import needed_function
from tracetypes.stdlib.lists import Bag
from tracetypes.stdlib.orders import order_of, place_of
from tracetypes.stdlib.where import restrict
from tracetypes.stdlib.windows import whole

__all__ = ["RankedIn", "window_ranks"]

V = TypeVar("V")


@attrs.frozen
class RankedIn(Generic[V]):
    """A value of :func:`window_ranks`. ``row``: its number, from 1 (ROW_NUMBER of SQL). ``rank``: how many come before it, plus
    1; those that tie have one (RANK). ``dense_rank``: the same without gaps. ``percent_rank``: ``(rank - 1) / (n - 1)`` of ``n``
    values, 0.0 for one. ``cume_dist``: the share of values that do not come after it. ``tile``: the number of its tile, from 1
    (NTILE)."""

    value: V
    row: int
    rank: int
    dense_rank: int
    percent_rank: float
    cume_dist: float
    tile: int


@attrs.frozen
class WindowRanks(Aggregate[V, Bag, list[RankedIn[V]]], Generic[V]):
    """See :func:`window_ranks`."""

    _word = "window_ranks"
    _in_python = "keeps a list of any length"

    by: Callable[[V], Any]
    tiles: int

    def lift(self, value: V) -> Bag:
        return Bag(((self.placed(value),),))

    def placed(self, value: V) -> Any:
        """A value behind its place and its canonical order."""
        return place_of(self.by(value)), order_of(value), value

    def identity(self) -> Bag:
        return Bag()

    def combine(self, a: Bag, b: Bag) -> Bag:
        return a | b

    def fold(self, agg: Bag, values: Sequence[V]) -> Bag:
        return agg | Bag((tuple([self.placed(value) for value in values]),)) if values else agg

    def result(self, agg: Bag) -> list[RankedIn[V]]:
        placed = agg.whole
        n = len(placed)
        ends: dict[Any, int] = {place: at for at, (place, _, _) in enumerate(placed, 1)}
        large, size = n % self.tiles, n // self.tiles  # the first tiles have one more
        ranked: list[RankedIn[V]] = []
        rank = dense = 0
        for at, (place, _, value) in enumerate(placed):
            if at == 0 or place != placed[at - 1][0]:
                rank, dense = at + 1, dense + 1
            of_large = at // (size + 1)
            tile = of_large if of_large < large else large + (at - large * (size + 1)) // size
            share = (rank - 1) / (n - 1) if n > 1 else 0.0
            ranked.append(RankedIn(value, at + 1, rank, dense, share, ends[place] / n, tile + 1))
        return ranked


def window_ranks(
    by: Callable[[V], Orderable], *, tiles: int = 1, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, list[RankedIn[V]]]:
    """All values of a window in the order of ``by``, each with its place among them, as ``RankedIn``: RANK, DENSE_RANK,
    PERCENT_RANK, CUME_DIST and NTILE of SQL over a whole window. Ties are in the canonical order of whole values. ``tiles``: how
    many tiles there are, whose sizes differ by one at most; the first ones are larger. :func:`tracetypes.stdlib.explode` makes an
    item of each. ``where``: of the values for which it is true. The state keeps all values. Raises :class:`UsageError` ``TT121``.

    >>> [(one.value, one.rank, one.cume_dist, one.tile) for one in evaluate(window_ranks(abs, tiles=2), [3, -1, 1, 2])]
    [(-1, 1, 0.5, 1), (1, 1, 0.5, 1), (2, 3, 0.75, 2), (3, 4, 1.0, 2)]
    """
    whole("tiles", tiles)
    aggregate: WindowRanks[V] = WindowRanks(needed_function("window_ranks", "by", by), tiles)
    return restrict("window_ranks", aggregate, where)  # type: ignore[no-any-return]

"""What an operator that needs only some of its items says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from tracetypes.sort_keys import Orderable, sort_key

__all__ = ["Choice", "Ties"]

V = TypeVar("V")

Ties: TypeAlias = Literal["all", "canonical", "any"]


@attrs.frozen
class Choice(Generic[V]):
    """Of a bag of values the ``count`` that are last in the order of ``by``, or with ``first`` those that are first.

    The order is that of :func:`tracetypes.sort_keys.sort_key`, with NaN after all other numbers. ``ties``: of values in one
    place those count as later that are later in the canonical order of whole values (``"canonical"``), or it does not matter
    which (``"any"``); ``"all"``: all of the place in which the last of them lies are chosen, too. ``where``: of the values for
    which it is true.
    """

    by: Callable[[V], Orderable]
    count: int = 1
    ties: Ties = "canonical"
    first: bool = False
    where: Callable[[V], bool] | None = None

    def rows(self, values: Iterable[V], whole: Callable[[V], Any]) -> list[int]:
        """The numbers of the chosen values. ``whole``: the place of a value in the canonical order."""
        some = [(row, value) for row, value in enumerate(values) if self.where is None or self.where(value)]
        placed = [(sort_key(self.by(value), nan=True), whole(value), row) for row, value in some]
        placed.sort(key=itemgetter(0, 1), reverse=not self.first)
        end = min(self.count, len(placed))
        while self.ties == "all" and 0 < end < len(placed) and placed[end][0] == placed[end - 1][0]:
            end += 1
        return [row for _, _, row in placed[:end]]

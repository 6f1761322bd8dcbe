"""What a join of the last items says of itself, so that it can run over columns."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["LastItems"]


@attrs.frozen(eq=False, kw_only=True)
class LastItems:
    """Each item is joined with the last ``items`` items of the other side, the oldest first. ``left``: the class of items of the
    left side; those of the other class are of the right side. Both are records with the field ``value``. ``gives``: the class of
    the record of a left and a right value that is emitted.

    The state of a key is a pair of deques: the values of the last left and of the last right items, the oldest first."""

    left: type[Any]
    gives: type[Any]
    items: int

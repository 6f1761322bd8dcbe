"""What an operator of windows by the times of the items themselves says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import attrs

from tracetypes.self_description import SelfDescribing
from tracetypes.summaries import Summary

__all__ = ["OwnWindows", "PairsOfWindows"]

V = TypeVar("V")


@attrs.frozen(eq=False, kw_only=True)
class PairsOfWindows:
    """The items of a window are joined. ``left``: the class of items of the left side; those of the other class are of the right
    side. Both are records with the field ``value``. ``gives``: the class of the record of a left and a right value that is
    emitted; for ``"semi"`` and ``"anti"`` the left value alone is. :func:`tracetypes.stdlib.window_join` says what and in which
    order."""

    left: type[Any]
    gives: type[Any]
    how: Literal["inner", "left", "right", "full", "semi", "anti"]


@attrs.frozen(eq=False, kw_only=True)
class OwnWindows(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.time_window`, which says what they mean; ``size``, ``offset`` and ``grace`` in
    microseconds. ``number``: of the window of a value. ``answer``: emits the result of a window, by its number and aggregate;
    ``answer_result``: by its number and that result.

    The state of a key is an object with the fields ``over``, ``aggregates`` and ``values``: windows before that number are over
    (minus infinity before the first marker), the aggregates of the others by number, and values that came since the last
    marker. ``values``: what values an aggregate has, in any order that gives the same; None where it does not keep them.

    Where the aggregate is neither sums nor extremes of numbers, ``summary`` says what it computes of the values of a window, or
    ``pairs`` how these are joined."""

    aggregate: SelfDescribing
    number: Callable[[V], int]
    answer: Callable[..., None]
    answer_result: Callable[..., None]
    size: int
    offset: int
    grace: int
    values: Callable[[Any], list[V]] | None = None
    summary: Summary[V] | None = None
    pairs: PairsOfWindows | None = None

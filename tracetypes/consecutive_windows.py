"""What an operator of windows that follow one another says of itself, so that it can run over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from tracetypes.self_description import SelfDescribing
from tracetypes.summaries import Summary

__all__ = ["ConsecutiveWindows", "Gap", "HeldItems", "HeldSession"]

V = TypeVar("V")


@attrs.frozen
class HeldItems(Generic[V]):
    """A state in which the aggregate of the open window has not been made: the values of that window, as they came."""

    values: list[V]


@attrs.frozen
class HeldSession(Generic[V]):
    """The same of a session. ``first`` and ``last``: the smallest and the largest time of its items, in microseconds. Values
    that make no difference to the result may be missing."""

    first: int
    last: int
    values: list[V]


@attrs.frozen(eq=False, kw_only=True)
class Gap(Generic[V]):
    """A window ends where the next item, or a marker, is more than ``micros`` behind the last one. ``time``: of a value, in
    microseconds."""

    micros: int
    time: Callable[[V], int]


@attrs.frozen(eq=False, kw_only=True)
class ConsecutiveWindows(Generic[V]):
    """The parameters of :func:`tracetypes.stdlib.session` and of :func:`tracetypes.stdlib.count_window` without ``slide``, which
    say what they mean. ``length``: what ends a window, a gap or a number of items. ``answer``: emits the result of a window: of a
    session by its first and its last time and its result, of another one by its result.

    The state of a key has the aggregate of its open window. Where its values have been held instead, it is :class:`HeldSession`,
    or :class:`HeldItems`, and the methods of the operator take that, too. ``summary``: what the aggregate computes of the values
    of a window."""

    aggregate: SelfDescribing
    summary: Summary[V]
    length: Gap[V] | int
    answer: Callable[..., None]

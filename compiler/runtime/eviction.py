"""Eviction of keys whose state equals that of a key that was never seen (``forgets_idle``)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from tracetypes.plain_values import indistinguishable

__all__ = ["forget", "forget_some", "indistinguishable"]


def forget(states: dict[Any, Any], touched: Container[Any], start: Any) -> None:
    """Remove the keys that were not touched and whose state is ``start``."""
    try:
        if type(start) is tuple and start:
            last = start[-1]  # often sums the others up, and is a short look
            equal = [k for k, state in states.items() if k not in touched and state[-1] == last and state == start]
        else:
            equal = [k for k, state in states.items() if k not in touched and state == start]
    except Exception:  # an author's ==, or states of several kinds
        equal = [k for k in states if k not in touched]
    for key in equal:
        if indistinguishable(states[key], start):
            del states[key]


def forget_some(states: dict[Any, Any], keys: Iterable[Any], start: Any) -> None:
    """Remove those of ``keys`` whose state is ``start``."""
    try:
        equal = [key for key in keys if states[key] == start]
    except Exception:  # an author's ==
        equal = [*keys]
    for key in equal:
        if indistinguishable(states[key], start):
            del states[key]

"""The two data-trace types of an edge: ``U[K, V]`` and ``O[K, V]`` (data-trace-types, section 4).

Both are streams of items ``(key, value)`` and markers. Markers are totally ordered. Between two markers the items of a
``U`` are a bag; the items of an ``O`` are ordered per key and unordered across keys. ``O`` is a subtype of ``U``,
because a stream may lose its order but cannot gain one.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args, get_origin

import attrs

from tracetypes.errors import DataError
from tracetypes.schemas import show_type

__all__ = ["Edge", "EdgeType", "O", "U", "edge_type"]

K = TypeVar("K")
V = TypeVar("V")


class Edge(Generic[K, V]):
    """The common base of ``U`` and ``O``. These classes are never instantiated: they exist for the type checker."""


class U(Edge[K, V]):
    """Key-value pairs, unordered between markers."""


class O(U[K, V]):
    """Key-value pairs, ordered per key between markers."""


@attrs.frozen
class EdgeType:
    """``U[key, value]`` or ``O[key, value]`` at run time. ``key`` and ``value`` are annotations."""

    ordered: bool
    key: Any
    value: Any

    def __str__(self) -> str:
        return f"{'O' if self.ordered else 'U'}[{show_type(self.key)}, {show_type(self.value)}]"

    @property
    def forgotten(self) -> EdgeType:
        """This type without its order."""
        return attrs.evolve(self, ordered=False)


def edge_type(annotation: Any) -> EdgeType:
    """The :class:`EdgeType` of the annotation ``U[K, V]`` or ``O[K, V]``. Raises :class:`DataError` ``TT107``."""
    if isinstance(annotation, EdgeType):
        return annotation
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (U, O) and len(args) == 2:
        return EdgeType(ordered=origin is O, key=args[0], value=args[1])
    raise DataError(
        "TT107",
        f"{show_type(annotation)} is not the type of an edge",
        fix="write U[K, V] (unordered between markers) or O[K, V] (ordered per key)",
    )

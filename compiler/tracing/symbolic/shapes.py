"""The arguments with which a function is traced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, final

import attrs

from tracetypes.compiler.tracing.expr import Input, Pack, Value
from tracetypes.records import Schema, UnitValue

__all__ = ["Fixed", "Given", "Nested", "Shape", "shape_of"]


@final
@attrs.frozen
class Given:
    """An argument of a known schema; its scalars are inputs ``(name, field, ...)``."""

    name: str
    schema: Schema


@final
@attrs.frozen(eq=False)
class Fixed:
    """An argument with a known, constant value."""

    value: Any


@final
@attrs.frozen(eq=False)
class Nested:
    """An aggregate or a state: tuples and records as in ``template``, whose leaves are the kinds of the scalars.

    A leaf None, without a kind, is always None.
    """

    name: str
    template: Value


Shape: TypeAlias = Given | Fixed | Nested


def shape_of(value: Value, name: str) -> Value:
    """The same structure with inputs ``(name, field or place, ...)`` for its scalars. A None without a kind stays."""
    return _shape(value, (name,))


def _shape(value: Value, path: tuple[str | int, ...]) -> Value:
    if isinstance(value, Pack):
        steps: Iterable[str | int] = value.names or range(len(value.parts))
        parts = tuple(_shape(part, (*path, step)) for part, step in zip(value.parts, steps, strict=True))
        return Pack(value.cls, value.names, parts)
    return value if value.kind is None or isinstance(value.kind, UnitValue) else Input(path, value.kind)

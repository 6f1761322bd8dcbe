"""Functions that are traced and right, or refused: what the tests of this folder share."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tests.programs import Row, Sub, inputs_of
from tracetypes.compiler.tracing.expr import Undefined, run
from tracetypes.compiler.tracing.tracer import Untraceable, trace_function
from tracetypes.schemas import schema_of

__all__ = ["EARLY", "LEAP", "ROWS", "Color", "is_traced", "shown"]


class Color(str, enum.Enum):  # noqa: UP042
    """Text, and compared as text."""

    RED = "a"


REASONS = ("always raises", "not deterministic", "returns", "recurses")

LEAP = dt.datetime(2024, 2, 29, 23, 59, 30, tzinfo=dt.UTC)
EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
ROWS = [
    Row(0, 0, 0.0, -0.0, "", "", False, False, None, None, LEAP, EARLY, LEAP.date(), Sub(0, None), None),
    Row(1, 2, 1.0, 2.5, "a", "a,b", True, False, 1, 0.5, EARLY, LEAP, LEAP.date(), Sub(1, 2.0), Sub(3, None)),
    Row(7, -2, -1.5, 2.0, "b,a,c", "a", True, True, 0, 0.0, LEAP, LEAP, EARLY.date(), Sub(3, 0.0), Sub(1, 2.0)),
]


def shown(value: Any) -> Any:
    """All that a program can see of a value."""
    if isinstance(value, dt.datetime):
        return type(value).__name__, value.isoformat(), value.tzname(), value.fold, repr(value.tzinfo)
    if attrs.has(type(value)):
        return type(value).__name__, *(shown(getattr(value, field.name)) for field in attrs.fields(type(value)))
    if dataclasses.is_dataclass(value):
        return type(value).__name__, *(shown(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple | list):
        return type(value).__name__, *map(shown, value)
    return type(value).__name__, repr(value)


def is_traced(function: Callable[[Any], Any], rows: Sequence[Row] = ROWS) -> bool:
    """Is it traced? Then it means what Python says; otherwise the reason names the line."""
    try:
        tree = trace_function(function, schema_of(Row), limit=200)
    except Untraceable as error:
        if not error.calls and not any(part in str(error) for part in REASONS):
            raise
        return False
    for row in rows:
        try:
            _, got = run(tree, inputs_of(value=row))
        except Undefined:
            continue
        assert shown(got) == shown(function(row)), (row, got)
    return True

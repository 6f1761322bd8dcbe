"""What the error of a broken law says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tracetypes.equations.equality import floats_in, near, same
from tracetypes.equations.subject import Elements, items_in

__all__ = ["advice_on_floats", "message_of"]


def message_of(heading: str, law: str, lines: Iterable[tuple[str, str]]) -> str:
    body = [f"    {label + ':':<9} {text}" for label, text in [("law", law), *lines]]
    return "\n".join([heading, *body])


def advice_on_floats(drawn: Sequence[Elements], left: Any, right: Any) -> str:
    """A fix for the counter-examples that floats are famous for, or nothing."""
    inputs = [f for stream in drawn for item in items_in(stream) for f in floats_in((item.key, item.value))]
    floats = [*inputs, *floats_in(left), *floats_in(right)]
    if near(left, right) and not same(left, right):
        return (
            "floating-point addition rounds, so the order shows: sum with tracetypes.ExactSum (lift to ExactSum.of(x), "
            "combine with +, read with .value())"
        )
    if any(f != f for f in inputs):
        return (
            "NaN is neither larger nor smaller than anything, so max, min and sorted depend on the order: leave NaN out "
            "or give it a place of its own"
        )
    if any(f == 0.0 and math.copysign(1.0, f) < 0 for f in floats) and same(left, right):
        return "0.0 and -0.0 are equal and yet two values: lift x + 0.0 instead of x, which is never -0.0"
    return ""

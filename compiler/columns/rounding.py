"""Exact sums divided by counts and rounded once, where that is certain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

__all__ = ["LARGEST", "MOST", "SMALLEST", "rounded_means", "two_sum"]

MOST: Final = 1 << 24
"""Counts from here on are never certain."""

LARGEST: Final = 2.0**900
SMALLEST: Final = 2.0**-700
"""Results beyond these are never certain."""

SPLIT: Final = 2.0**27 + 1
"""Cuts a float into two halves (Veltkamp)."""


def rounded_means(sums: Sequence[Any], counts: Any) -> tuple[Any, Any]:
    """The sum of three columns over counts, rounded once, and where that is certain. ``sums``: float64, the largest numbers
    first; ``counts``: float64, whole."""
    first, second, third = sums
    total, error = two_sum(first, second)
    error, behind = two_sum(error, third)
    total, error = two_sum(total, error)
    rest, inexact = two_sum(error, behind)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        quotient = total / counts
        upper = (quotient * SPLIT) - (quotient * SPLIT - quotient)
        left = (total - upper * counts) - (quotient - upper) * counts
        left, lost = two_sum(left, rest)
        more = left / counts
        mean = quotient + more
        below = np.abs((quotient - mean) + more)
        # How far what was not computed can lie from a number between two floats, where rounding turns.
        unknown = (np.abs(more) + np.abs(inexact) + np.abs(lost)) * 2.0**-48 + np.abs(inexact) + np.abs(lost)
        half = np.spacing(np.abs(mean)) / 2
        sure = (np.abs(below - half) > unknown) & (np.abs(below - half / 2) > unknown)
        high = (more * SPLIT) - (more * SPLIT - more)
        exact = (inexact == 0.0) & (lost == 0.0) & ((left - high * counts) - (more - high) * counts == 0.0)
        size = np.abs(mean)
        normal = ((size > SMALLEST) & (size < LARGEST)) | ((total == 0.0) & (rest == 0.0))
        normal &= counts < MOST
    return mean + 0.0, (sure | exact) & normal


def two_sum(one: Any, other: Any) -> tuple[Any, Any]:
    """The sum of two columns, and what was lost in it (Knuth)."""
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)

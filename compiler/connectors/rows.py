"""Rows of the program itself as an input."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Rows"]


@attrs.frozen
class Rows:
    """Rows in memory as the input of a source, for tests: a file a list, in this order; ``files_per_step`` of them a
    micro-batch. Each row is a value, or a pair ``(key, value)`` where the rows have a key column; text is taken as a line."""

    files: tuple[tuple[Any, ...], ...]
    files_per_step: int | None = None

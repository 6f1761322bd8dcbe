"""Rows of the program itself as an input."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Rows"]


@attrs.frozen
class Rows:
    """Rows in memory as the input of a source, for tests. Each list is a file, in this order; a micro-batch has
    ``files_per_step`` of them. Each row is a value, or a pair ``(key, value)`` if the rows have a key column. With ``text`` a row
    that is a text is a line of a file."""

    files: tuple[tuple[Any, ...], ...]
    files_per_step: int | None = None
    text: bool = True

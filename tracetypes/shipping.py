"""Which values can be sent to a worker."""

from __future__ import annotations

import io
from typing import Any, Final

import cloudpickle

__all__ = ["try_to_ship"]

MANY: Final = 1000
"""Values of a container from which on looking at their types pays."""

_PLAIN: Final = {int, float, bool, str, bytes, type(None)}


def try_to_ship(value: object) -> None:
    """Raise what pickling raises. Large containers of plain values are left out: they can always be pickled, but 100,000
    entries take 20 ms."""
    _Pickler(io.BytesIO()).dump(value)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def persistent_id(self, value: Any) -> str | None:
        cls = type(value)
        if (cls is not dict and cls not in (list, tuple, set, frozenset)) or len(value) < MANY:
            return None
        plain = set(map(type, value)) <= _PLAIN and (cls is not dict or set(map(type, value.values())) <= _PLAIN)
        return "plain" if plain else None

"""Where the outputs of an owner may lie: below a folder of his own, whatever names and links say."""

from __future__ import annotations

import os
from pathlib import Path

from tracetypes.errors import UsageError

__all__ = ["place_below"]


def place_below(root: Path, place: str) -> Path:
    """The real path of a place below a folder. Raises :class:`UsageError` ``TT417`` for one that is not below it."""
    parts = place.split("/")
    is_plain = all(part not in ("", ".", "..") and not part.startswith("_") for part in parts)
    if not is_plain or ":" in place or "\\" in place or any(not char.isprintable() for char in place):
        raise _refused(place)
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(base / place))
    if base not in real.parents:
        raise _refused(place)
    return real


def _refused(place: str) -> UsageError:
    return UsageError(
        "TT417",
        f"the output {place!r} is no place below the folder of its owner",
        fix="give names of folders, such as 'spent' or 'shop/spent'",
    )

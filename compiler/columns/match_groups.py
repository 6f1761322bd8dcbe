"""Groups of the matches of a regular expression, by Arrow: one pass over the texts for all groups."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.regular_expressions import GroupPattern, groups_of_arrow

__all__ = ["group_of_matches"]


@final
@attrs.frozen(eq=False)
class _Last:
    """The groups of the texts that were looked at last. They go with the texts."""

    texts: weakref.ref[Any]
    pattern: GroupPattern
    groups: dict[int, Any]
    undefined: Any


class _Lasts(threading.local):
    last: _Last | None = None

    def forget(self, texts: object) -> None:
        """The texts are gone, perhaps in another thread, which has nothing of them."""
        if self.last is not None and self.last.texts() is None:
            self.last = None


_LASTS: Final = _Lasts()


def group_of_matches(texts: Any, method: str, pattern: str, flags: int, at: int, *, ascii_only: bool) -> tuple[Any, Any] | None:
    """A group of the match in each text (Arrow), empty where there is none, and a mask of the texts without a match. None where
    RE2 does not give the same."""
    arrow = groups_of_arrow(method, pattern, flags, ascii_only=ascii_only)
    if arrow is None or at not in arrow.groups:
        return None
    last = _LASTS.last
    if last is None or last.texts() is not texts or last.pattern is not arrow:
        try:
            parts = pc.extract_regex(texts, arrow.pattern)
        except pa.ArrowInvalid:  # too large for it
            return None
        fields = {number: parts.field(f"g{number}") for number in arrow.groups}
        missing = np.asarray(parts.is_null()) if parts.null_count else None
        last = _LASTS.last = _Last(weakref.ref(texts, _LASTS.forget), arrow, fields, missing)
    group = last.groups[at]
    return group.fill_null("") if group.null_count else group, last.undefined

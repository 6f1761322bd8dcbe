"""Whether two values of plain data are the same, so that no function can tell one from the other."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import Counter, OrderedDict, deque
from decimal import Decimal
from typing import Any, Final

import attrs

__all__ = ["indistinguishable"]

_PLAIN: Final = (int, bool, str, bytes, dt.date, dt.timedelta, type(None))
_SEQUENCES: Final = (tuple, list, deque)
_MAPPINGS: Final = (dict, Counter, OrderedDict)
_SETS: Final = (set, frozenset)


def indistinguishable(one: Any, other: Any) -> bool:
    """Whether no function can tell two values apart. Stricter than ``==``, for which ``-0.0`` is ``0.0`` and ``True``
    is ``1``. Only plain data, and attrs classes and dataclasses of plain data, can be indistinguishable; anything
    else is not."""
    try:
        return one is other or (bool(one == other) and _same(one, other))
    except Exception:  # an author's ==, or fields that are not set
        return False


def _same(one: Any, other: Any) -> bool:
    # A list of what is to be compared, and no recursion: a stack of panes is deeper than Python allows.
    pending = [(one, other)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        kind = type(a)
        if kind is not type(b):
            return False
        if kind in _PLAIN:
            if a != b:
                return False
        elif kind is Decimal:
            if a.as_tuple() != b.as_tuple():  # 1.0 is 1.00
                return False
        elif kind is float:
            if a != b or math.copysign(1.0, a) != math.copysign(1.0, b):
                return False
        elif kind in _SEQUENCES or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            if len(a) != len(b) or getattr(a, "maxlen", None) != getattr(b, "maxlen", None):
                return False
            pending.extend(zip(a, b, strict=True))
        elif kind in _MAPPINGS:  # in their order, which shows
            if len(a) != len(b):
                return False
            pending.extend(zip(a, b, strict=True))
            pending.extend(zip(a.values(), b.values(), strict=True))
        elif kind in _SETS:
            if a or b:  # they have an order that cannot be compared
                return False
        elif attrs.has(kind):
            pending.extend((getattr(a, f.name), getattr(b, f.name)) for f in attrs.fields(kind))
        elif dataclasses.is_dataclass(kind):
            pending.extend((getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(kind))
        else:
            return False
    return True

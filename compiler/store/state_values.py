"""Values of states as text and as JSON."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
from typing import Any

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.compiler.runtime.state import OPEN
from tracetypes.markers import Marker
from tracetypes.records import Unit, show

__all__ = ["iso", "plain", "when"]


def when(end: int) -> str:
    """A marker as text."""
    return "a marker that has not come" if end >= OPEN else f"{Marker(end)!r} ({iso(end)})"


def iso(end: int) -> str | None:
    """A marker for JSON; None if it has not come yet."""
    if end >= OPEN:
        return None
    try:
        return Marker(end).datetime.isoformat()
    except OverflowError:
        return repr(Marker(end))


def plain(value: Any) -> Any:
    """Any value as JSON can express it."""
    match value:
        case Unit():
            return show(value)
        case enum.Enum():
            return plain(value.value)
        case decimal.Decimal():
            return str(value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case ExactSum():
            return plain(value.value())
        case dt.datetime() | dt.date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case dict() if all(isinstance(key, str) for key in value):
            return {key: plain(one) for key, one in value.items()}
        case dict():
            return [[plain(key), plain(one)] for key, one in value.items()]
        case tuple() if hasattr(value, "_asdict"):
            return {key: plain(one) for key, one in value._asdict().items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case set() | frozenset():
            return [plain(one) for one in sorted(value, key=repr)]
        case _ if attrs.has(type(value)):
            return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
        case _ if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return show(value, 500)

"""Which record fits rows that nobody has declared yet: a type for each field, of the values that a sample has.

A type is proposed if the reader of the format takes each value of the sample for it. So the readers decide, and no second set of
rules can differ from theirs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tracetypes.plain_data import from_plain, from_text
from tracetypes.records import Boolean, Date, DecimalOf, Float, Integer, Mismatch, Schema, String, Timestamp, Unsigned

__all__ = [
    "NO_ZONE",
    "ZONE",
    "Maybe",
    "Proposal",
    "ProposedField",
    "ProposedList",
    "ProposedRecord",
    "Refused",
    "is_number",
    "of_cells",
    "of_values",
]

ZONE: Final = "UTC"
"""The zone with which times without one are tried."""


@attrs.frozen
class Maybe:
    """A type whose values may be missing."""

    item: Proposal


@attrs.frozen
class ProposedList:
    """A list. ``item`` None: no list of the sample has an item."""

    item: Proposal | None


@attrs.frozen
class Refused:
    """A type that no field can have. ``what``: its name."""

    what: str


@attrs.frozen
class ProposedField:
    """A field. ``column``: its name outside; ``about``: what its author has to know, or nothing; ``example``: a number that
    it has, if it has one."""

    column: str
    kind: Proposal
    about: str = ""
    example: Any = None


@attrs.frozen
class ProposedRecord:
    """A record."""

    fields: tuple[ProposedField, ...]


Proposal: TypeAlias = Schema | Maybe | ProposedList | ProposedRecord | Refused
"""A type of a field. Of the schemas it has scalars only."""

Reader: TypeAlias = Callable[[Schema, Any], Any]
"""Makes the value of a schema of what a file has, or raises :class:`Mismatch`."""

_LIKE_NUMBERS: Final = re.compile(r"[+-]?0\d|\+")
"""How texts begin that a number would change: ``007``."""

TWICE: Final = "value of a field that is there twice"

NO_ZONE: Final = "its times name no zone: declare one in the format, zone=..."
"""What is to be known of such times."""


# ------------------------------------------------------------------------------------------------- cells of text


def of_cells(column: str, cells: Iterable[str | None]) -> ProposedField:
    """The field of a column of CSV. None: a cell with nothing in it."""
    texts = list(cells)
    some = [text for text in texts if text]
    if not some:
        return ProposedField(column, Maybe(String()), "no row of the sample has a value")
    changed = any(map(_LIKE_NUMBERS.match, some))
    numbers: tuple[Schema, ...] = () if changed else (Integer(), Unsigned(), Float())
    tried: tuple[Schema, ...] = (*numbers, Boolean(), Date(), Timestamp(), Timestamp(ZONE))
    kind = next((one for one in tried if _all_fit(one, some, from_text)), String())
    about = NO_ZONE if kind == Timestamp(ZONE) else ""
    if changed and all(_fits(Float(), text, from_text) for text in some):
        about = "numbers that begin with a zero or a plus sign, so texts"
    example = float(some[0]) if isinstance(kind, Integer | Float) else None
    return ProposedField(column, Maybe(kind) if len(some) < len(texts) else kind, about, example)


def is_number(text: str) -> bool:
    """Whether a text is a number, so that it is hardly a name."""
    return _fits(Float(), text, from_text)


# ------------------------------------------------------------------------------------------------- values of JSON


def of_values(objects: Sequence[Mapping[str, Any]]) -> ProposedRecord:
    """The record of objects of JSON."""
    names = dict.fromkeys(name for one in objects for name in one)
    return ProposedRecord(tuple(_of_field(name, [one.get(name) for one in objects]) for name in names))


def _of_field(name: str, values: Sequence[Any]) -> ProposedField:
    some = [value for value in values if value is not None]
    if not some:
        return ProposedField(name, Maybe(String()), "no row of the sample has a value")
    kind, about = _of_some(some)
    example = next((one for one in some if _kind(one) in ("integer", "number")), None)
    return ProposedField(name, Maybe(kind) if len(some) < len(values) else kind, about, example)


def _of_some(values: Sequence[Any]) -> tuple[Proposal, str]:
    """The type of values of which none is missing, and what is to be known of it."""
    kinds = Counter(map(_kind, values))
    if {*kinds} == {"integer", "number"}:
        kinds = Counter({"number": len(values)})
    (kind, most), *others = kinds.most_common()
    alike = [value for value in values if kind == "number" or _kind(value) == kind]
    about = f"{most} of {len(values)} values of the sample; the others are {_listed(kinds, kind)}, and rejects" if others else ""
    if kind == "object":
        return of_values(alike), about
    if kind == "list":
        items = [item for value in alike for item in value]
        return _of_list(items, about)
    tried, otherwise = _TRIED[kind]
    for schema in tried:
        if _all_fit(schema, alike, from_plain):
            return schema, about or (NO_ZONE if schema == Timestamp(ZONE) else "")
    return otherwise, about or "some values of the sample do not fit, and are rejects"


def _of_list(items: Sequence[Any], about: str) -> tuple[Proposal, str]:
    some = [item for item in items if item is not None]
    if not some:
        return ProposedList(None if not items else Maybe(String())), about or "no list of the sample has an item"
    kind, of_items = _of_some(some)
    return ProposedList(Maybe(kind) if len(some) < len(items) else kind), about or of_items


def _kind(value: Any) -> str:
    """What a value of JSON is."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return "object"
    return "list" if isinstance(value, list) else TWICE


def _listed(kinds: Counter[str], but: str) -> str:
    return " and ".join(f"{kind}s" for kind in kinds if kind != but)


_TRIED: Final[Mapping[str, tuple[tuple[Schema, ...], Proposal]]] = {
    "boolean": ((Boolean(),), Boolean()),
    "integer": ((Integer(), Unsigned(), DecimalOf(38, 0)), Refused("integers of more than 38 digits")),
    "number": ((Float(),), Float()),
    "text": ((Date(), Timestamp(), Timestamp(ZONE), String()), String()),
    TWICE: ((), Refused("a field that is there twice in an object")),
}
"""By kind: the types that are tried, in this order, and the one if none of them fits."""


def _all_fit(schema: Schema, values: Iterable[Any], read: Reader) -> bool:
    return all(_fits(schema, value, read) for value in values)


def _fits(schema: Schema, value: Any, read: Reader) -> bool:
    try:
        read(schema, value)
    except Mismatch:
        return False
    return True



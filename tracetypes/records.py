"""Schemas: the types that a key or a value may have, and four functions for each.

:func:`.schema_of` derives a :class:`Schema` from annotations alone, never from data. For each schema there are

* :func:`.conformer`: whether a value fits. It converts ``int`` to ``float``, the one widening that Python allows
  silently;
* :func:`.canonical`: a total order, which distinguishes NaN and ``-0.0``, for normal forms and for ties in ``sort``;
* :func:`.stable_hash`: a hash that is the same in every process and run, and equal for equal keys;
* :func:`.to_plain` / :func:`.from_plain`: JSON-like values, for text formats and messages.

Integers have 64 bits, floats are IEEE doubles, times are aware ``datetime`` with microseconds. :func:`decimal`,
:data:`uint64` and :func:`column` declare what a type alone does not say.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

import attrs

from tracetypes.errors import UsageError

__all__ = [
    "RESERVED",
    "UNIT",
    "Boolean",
    "Bytes",
    "ColumnName",
    "Date",
    "DecimalOf",
    "EnumOf",
    "Float",
    "Integer",
    "ListOf",
    "LiteralOf",
    "Mismatch",
    "OneOf",
    "Optional",
    "Record",
    "Schema",
    "String",
    "Timestamp",
    "UInt64",
    "Unit",
    "UnitValue",
    "Unsigned",
    "column",
    "contains",
    "decimal",
    "is_utf8",
    "members_of",
    "renamed_columns",
    "uint64",
]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
DIGITS_MAX: Final = 38


class Unit(enum.Enum):
    """The type with one value: the key of a stream without keys (the paper's ``Ut``)."""

    UNIT = "unit"

    def __repr__(self) -> str:
        return "UNIT"


UNIT: Final = Unit.UNIT


class Mismatch(ValueError):
    """A value does not fit a schema. ``path``: where in the value, for example ``.reading.watts``."""

    def __init__(self, path: str, found: object, expected: str) -> None:
        self.path, self.found, self.expected = path, found, expected
        super().__init__(f"{path or 'value'} is {show(found)}, expected {expected}")

    def __reduce__(self) -> tuple[object, ...]:
        return Mismatch, (self.path, self.found, self.expected)


def show(value: object, limit: int = 120) -> str:
    """A short repr. Of a function, its name: nobody looks for its address."""
    try:
        is_function = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
        text = f"the function {value.__qualname__}" if is_function else repr(value)  # type: ignore[attr-defined]
    except Exception:  # the author's own, or an integer of thousands of digits
        return f"<{type(value).__name__} that has no repr>"
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text


# ------------------------------------------------------------------------------------------------ schemas


@attrs.frozen
class Boolean:
    """``bool``."""


@attrs.frozen
class Integer:
    """``int``, 64 bit."""


@attrs.frozen
class Float:
    """``float``, IEEE double."""


@attrs.frozen
class String:
    """``str``."""


@attrs.frozen
class Bytes:
    """``bytes``."""


@attrs.frozen
class Timestamp:
    """An aware ``datetime``, kept in UTC with microseconds. ``zone``: the zone of texts without one. None: such texts
    do not fit. ``truncated``: digits behind the microseconds are cut off; otherwise they do not fit."""

    zone: str | None = None
    truncated: bool = False


@attrs.frozen
class Date:
    """``date``."""


@attrs.frozen
class Unsigned:
    """``int`` from 0, 64 bit: see :data:`uint64`."""

    def __str__(self) -> str:
        return "uint64"


@attrs.frozen
class DecimalOf:
    """``Decimal`` with ``scale`` digits after the point and ``precision`` digits in all: see :func:`decimal`."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@attrs.frozen
class LiteralOf:
    """``Literal[...]`` of texts or of integers, in the order of their declaration."""

    item: Integer | String
    values: tuple[Any, ...]


@attrs.frozen
class EnumOf:
    """A member of an ``Enum`` whose values are texts or integers: in columns and formats its value stands for it."""

    cls: type[enum.Enum]
    item: Integer | String


@cache
def members_of(cls: type[enum.Enum]) -> dict[Any, enum.Enum]:
    """The members of an enum by their values, without aliases."""
    return {member.value: member for member in cls}


@attrs.frozen
class UnitValue:
    """:class:`Unit`."""


@attrs.frozen
class Optional:
    """``T | None``."""

    item: Schema


@attrs.frozen
class ListOf:
    """``list[T]``, or ``tuple[T, ...]`` if ``frozen``."""

    item: Schema
    frozen: bool


@attrs.frozen
class Record:
    """A frozen attrs class, a frozen dataclass or a ``NamedTuple`` with annotated fields. ``fields`` of a generic class
    have its type arguments filled in. ``names``: of their columns, see :func:`column`. Python, states and messages know a
    field by its own name; files, topics, tables and JSON by that of its column."""

    cls: type[Any]
    fields: tuple[tuple[str, Schema], ...]
    names: tuple[str, ...] = attrs.field()

    @names.default
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    @property
    def columns(self) -> tuple[tuple[str, Schema], ...]:
        """The names and schemas of the columns, in the order of the fields."""
        return tuple((name, schema) for name, (_, schema) in zip(self.names, self.fields, strict=True))

    @property
    def renamed(self) -> dict[str, str]:
        """The columns that have other names than their fields, by these."""
        return {field: name for name, (field, _) in zip(self.names, self.fields, strict=True) if name != field}


@attrs.frozen
class OneOf:
    """A union of records, which the class of a value tells apart. The key type of a merge of streams with different
    keys."""

    members: tuple[Record, ...]


Schema: TypeAlias = (
    Boolean
    | Integer
    | Unsigned
    | Float
    | DecimalOf
    | String
    | Bytes
    | Timestamp
    | Date
    | LiteralOf
    | EnumOf
    | UnitValue
    | Optional
    | ListOf
    | Record
    | OneOf
)


def contains(schema: Schema, *kinds: type[Any]) -> bool:
    """Whether a value of the schema is of one of these kinds of schemas, or can have one inside."""
    match schema:
        case _ if isinstance(schema, kinds):
            return True
        case Optional(item) | ListOf(item, _):
            return contains(item, *kinds)
        case Record(_, fields):
            return any(contains(inner, *kinds) for _, inner in fields)
        case OneOf(members):
            return any(contains(member, *kinds) for member in members)
        case _:
            return False


def renamed_columns(schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """The fields inside a schema whose columns have other names, by path, with these names."""
    match schema:
        case Optional(item) | ListOf(item, _):
            yield from renamed_columns(item, path)
        case Record(_, fields, names):
            for name, (field, inner) in zip(names, fields, strict=True):
                at = f"{path}.{field}" if path else field
                if name != field:
                    yield at, name
                yield from renamed_columns(inner, at)
        case OneOf(members):
            for member in members:
                yield from renamed_columns(member, path)
        case _:
            pass


def is_utf8(text: str) -> bool:
    """Whether a text has no half of a character (a lone surrogate)."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


uint64: Final = Unsigned()
"""For ``Annotated[int, uint64]``: an integer from 0 to ``2**64 - 1``."""

UInt64: TypeAlias = Annotated[int, uint64]
"""An integer from 0 to ``2**64 - 1``."""


def decimal(precision: int, scale: int) -> DecimalOf:
    """For ``Annotated[Decimal, decimal(18, 2)]``: numbers of at most ``precision`` digits (1 to 38), ``scale`` of them after
    the point. A value with more digits does not fit; none is ever rounded. Raises :class:`UsageError` ``TT115``."""
    whole = type(precision) is int and type(scale) is int
    if not whole or not 1 <= precision <= DIGITS_MAX or not 0 <= scale <= precision:
        raise UsageError(
            "TT115",
            f"decimal was given {show(precision)} digits, {show(scale)} of them after the point",
            fix=f"give 1 to {DIGITS_MAX} digits, and 0 or more but no more than these after the point: decimal(18, 2)",
        )
    return DecimalOf(precision, scale)




@attrs.frozen
class ColumnName:
    """The name of a column: see :func:`column`."""

    name: str

    def __str__(self) -> str:
        return f"column({self.name!r})"


RESERVED: Final = "tracetypes-"
"""How the columns begin that a run adds to rows on their way."""


def column(name: str) -> ColumnName:
    """For ``Annotated[str, column("@timestamp")]``: the field of a record whose column has this name, in every format. A field
    without it has a column of its own name. Raises :class:`UsageError` ``TT115``."""
    named: object = name
    if not isinstance(named, str) or not name or not is_utf8(name) or name.startswith(RESERVED):
        raise UsageError(
            "TT115",
            f"column was given the name {show(name)}",
            fix=f"give a text that is not empty and does not begin with {RESERVED!r}",
        )
    return ColumnName(name)

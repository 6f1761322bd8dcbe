"""Kinds of scalars in expressions: schemas, and exact sums. Kinds of parts of states that no expression reads."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

import attrs

from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DATE",
    "EXACT",
    "FLOAT",
    "INTEGER",
    "PASSED_ON",
    "STRING",
    "TIMESTAMP",
    "UNIT_VALUE",
    "Empty",
    "Exact",
    "Kind",
    "Level",
    "MapOf",
    "Queue",
]


@final
@attrs.frozen
class Exact:
    """The kind of an :class:`tracetypes.ExactSum`, in place of a schema. Only aggregates and states have it."""

    __module__ = "tracetypes.compiler.tracing.expr"  # under this name it lies in checkpoints


Kind: TypeAlias = Schema | Exact


@final
@attrs.frozen
class Level:
    """The kind of a part of a state that is a whole number, or minus infinity before there is one. As a column: an integer,
    which is missing there."""


@final
@attrs.frozen
class MapOf:
    """The kind of a part of a state that is a dict. ``key`` and ``value``: the kinds of what it holds. As a column: a list of
    pairs, ascending by key."""

    key: Any
    value: Any


@final
@attrs.frozen
class Queue:
    """The kind of a part of a state that is a deque. ``item``: the schema of what it holds. As a column: a list."""

    item: Any


@final
@attrs.frozen
class Empty:
    """The kind of a part of a state that is an empty list whenever states are kept. As a column: None."""


PASSED_ON: Final = Unsigned | DecimalOf | EnumOf
"""Kinds of scalars that are passed on as they are: nothing is computed with them, but for the value of an enum."""

BOOLEAN: Final = Boolean()

INTEGER: Final = Integer()

FLOAT: Final = Float()

STRING: Final = String()

BYTES: Final = Bytes()

TIMESTAMP: Final = Timestamp()

DATE: Final = Date()

UNIT_VALUE: Final = UnitValue()

EXACT: Final = Exact()

"""Kinds of scalars in expressions: schemas, and exact sums."""

from __future__ import annotations

from typing import Final, TypeAlias, final

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
    "Exact",
    "Kind",
]


@final
@attrs.frozen
class Exact:
    """The kind of an :class:`tracetypes.ExactSum`, in place of a schema. Only aggregates and states have it."""

    __module__ = "tracetypes.compiler.tracing.expr"  # under this name it lies in checkpoints


Kind: TypeAlias = Schema | Exact

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

"""The canonical order of values, and a hash that is the same in every process."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final, assert_never

from tracetypes.conformance import micros_of
from tracetypes.records import (
    INT_MAX,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["canonical", "float_order", "mix", "stable_hash"]


def float_order(value: float) -> int:
    """An integer that orders doubles totally: -inf < ... < -0.0 < 0.0 < ... < inf < NaN. All NaNs are equal."""
    if value != value:
        return 2**63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & INT_MAX) - 1


@cache
def canonical(schema: Schema) -> Callable[[Any], Any]:
    """A function from values to comparable keys. The keys are totally ordered, and equal exactly for identical values."""
    match schema:
        case Float():
            return float_order
        case UnitValue():
            return lambda value: 0
        case Timestamp():
            return micros_of
        case EnumOf():
            return lambda value: value.value
        case Optional(item):
            some = canonical(item)
            return lambda value: (0,) if value is None else (1, some(value))
        case ListOf(item, _):
            one = canonical(item)
            return lambda value: tuple([one(v) for v in value])
        case Record(_, fields):
            parts = tuple((name, canonical(inner)) for name, inner in fields)
            return lambda value: tuple([order(getattr(value, name)) for name, order in parts])
        case OneOf(members):
            orders = {m.cls: (at, canonical(m)) for at, m in enumerate(members)}

            def of_member(value: Any) -> Any:
                at, order = orders[type(value)]
                return (at, order(value))

            return of_member
        case _:
            return lambda value: value


_MASK: Final = 2**64 - 1


def mix(x: int) -> int:
    """The finaliser of splitmix64: a bijection of 64-bit integers that spreads neighbours. ``columns`` has it
    vectorised."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


@cache
def stable_hash(schema: Schema) -> Callable[[Any], int]:
    """A 64-bit hash that depends on the value alone, without a process salt. Equal for equal keys (0.0 and -0.0)."""
    match schema:
        case Integer() | Boolean() | Unsigned():
            return mix
        case LiteralOf(item, _):
            return stable_hash(item)
        case EnumOf(_, item):
            of_value = stable_hash(item)
            return lambda value: of_value(value.value)
        case String():
            return lambda value: mix(zlib.crc32(value.encode()))
        case UnitValue():
            return lambda value: 0
        case _:

            def by_bytes(value: Any) -> int:
                digest = hashlib.blake2b(_encode(schema, value), digest_size=8).digest()
                return int.from_bytes(digest, "little")

            return by_bytes


def _encode(schema: Schema, value: Any) -> bytes:
    match schema:
        case Boolean() | Integer():
            return struct.pack("<q", value)
        case Float():
            return struct.pack("<d", value + 0.0)
        case Unsigned():
            return struct.pack("<Q", value)
        case DecimalOf():
            # All values of a schema have as many digits after the point.
            sign, digits, _ = value.as_tuple()
            return struct.pack("<b", sign) + bytes(digits) + b"\xff"
        case LiteralOf(item, _):
            return _encode(item, value)
        case EnumOf(_, item):
            return _encode(item, value.value)
        case String():
            raw: bytes = value.encode()
            return struct.pack("<q", len(raw)) + raw
        case Bytes():
            octets: bytes = value
            return struct.pack("<q", len(octets)) + octets
        case Timestamp():
            return struct.pack("<q", micros_of(value))
        case Date():
            return struct.pack("<q", value.toordinal())
        case UnitValue():
            return b""
        case Optional(item):
            return b"\0" if value is None else b"\1" + _encode(item, value)
        case ListOf(item, _):
            return struct.pack("<q", len(value)) + b"".join(_encode(item, one) for one in value)
        case Record(_, fields):
            return b"".join(_encode(inner, getattr(value, name)) for name, inner in fields)
        case OneOf(members):
            at, member = next((i, m) for i, m in enumerate(members) if type(value) is m.cls)
            return struct.pack("<q", at) + _encode(member, value)
        case _:
            assert_never(schema)

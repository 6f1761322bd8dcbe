"""Keys and values of a sink as bytes, where their schemas are in a registry.

The schema is that of the record. If the latest one of the subject takes the same values, it is used; otherwise the schema is
registered, which the registry refuses if it does not go together with those before.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Mapping
from decimal import Context
from typing import Any, Final, TypeAlias

from tracetypes.compiler.connectors.avro_schemas import AvroType, avro_type, bare_schema
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.protobuf_values import protobuf_encoder
from tracetypes.compiler.connectors.registered_records import topic_format
from tracetypes.compiler.connectors.schema_registry import RegisteredSchema, Registry, registry_of
from tracetypes.conformance import micros_of, name_of
from tracetypes.errors import UsageError
from tracetypes.foreign_schemas import schema_text
from tracetypes.formats import Layout
from tracetypes.parsing import Headers, to_bytes
from tracetypes.plain_data import to_plain
from tracetypes.records import (
    Date,
    DecimalOf,
    EnumOf,
    ListOf,
    OneOf,
    Optional,
    Record,
    Schema,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["avro_encoder", "registered_writer"]

Encode: TypeAlias = Callable[[Any], bytes | None]
Datum: TypeAlias = Callable[[Any], Any]

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_WIDE: Final = Context(prec=80)
"""In which no digit of a decimal is lost."""


def registered_writer(
    declared: object, layout: Layout, address: Address, sink: str
) -> Callable[[Any, Any], tuple[bytes | None, bytes | None, Headers]] | None:
    """How rows become the key, value and headers of a record. None if no schema is in a registry. Raises :class:`UsageError`
    ``TT401`` and ``TT402``, and :class:`RunError` ``TT208`` and ``TT209``."""
    format = topic_format(declared, address)
    if format.key is None and format.value is None:
        return None
    if format.headers and format.value is not None:
        raise UsageError(
            "TT402",
            f"sink {sink!r}: kafka(headers=...) takes fields out of a value whose schema has them",
            fix="leave headers out, or leave value out",
        )
    address = address.with_registry()
    registry = registry_of(address)
    key = _encoder(registry, address, "key", format.key, layout.key) if layout.keyed else lambda one: None
    value = _encoder(registry, address, "value", format.value, layout.value)
    return lambda of_key, of_value: (key(of_key), value(of_value), [])


def _encoder(registry: Registry, address: Address, part: str, kind: str | None, schema: Schema) -> Encode:
    subject, bare = f"{address.topic}-{part}", schema.item if isinstance(schema, Optional) else schema
    match kind:
        case None:
            return lambda one: to_bytes(schema, one)
        case "avro":
            encode = avro_encoder(registry, subject, bare)
        case "json_schema":
            number = registry.register(subject, "JSON", schema_text(bare, "json"))
            front = _header(number)
            encode = lambda one: front + json.dumps(to_plain(bare, one), ensure_ascii=False).encode()  # noqa: E731
        case _:
            if not isinstance(bare, Record):
                fix = "write a record, or another format"
                raise UsageError("TT402", f"{address.text}: the {part}s are {name_of(bare)}, and protobuf has messages", fix=fix)
            text, message = schema_text(bare, "protobuf"), protobuf_encoder(bare)
            front = _header(registry.register(subject, "PROTOBUF", text))
            encode = lambda one: front + message(one)  # noqa: E731
    return lambda one: None if one is None else encode(one)


def _header(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


# ------------------------------------------------------------------------------------------------- Avro


def avro_encoder(registry: Registry, subject: str, schema: Schema) -> Encode:
    """How values become bytes of Avro, with the id of their schema in front. Raises :class:`UsageError` ``TT402``, and
    :class:`RunError` ``TT208`` and ``TT209``."""
    import fastavro

    ours = json.loads(schema_text(schema, "avro"))
    latest = registry.latest(subject)
    number, text = None, ""
    if latest is not None and latest.kind == "AVRO" and not latest.references:
        theirs = avro_type(latest)
        if theirs.kind == "record" and isinstance(ours, dict):
            space, _, name = theirs.name.rpartition(".")
            ours |= {"name": name} | ({"namespace": space} if space else {})
        if _takes(theirs, avro_type(_unregistered(ours))):
            number, text = latest.id, latest.text
    if _unregistered(ours) and avro_type(_unregistered(ours)).endless():
        raise UsageError("TT402", f"{subject}: a list of Unit has no bytes in Avro", fix="write a list of something else")
    if number is None:
        text = json.dumps(ours)
        number = registry.register(subject, "AVRO", text)
    names = _full_names(avro_type(RegisteredSchema(number, "AVRO", text)))
    writer, datum, front = fastavro.parse_schema(bare_schema(json.loads(text)), {}), _datum(schema, names), _header(number)
    write = fastavro.schemaless_writer

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        out.write(front)
        write(out, writer, datum(value))
        return out.getvalue()

    return encode


def _unregistered(ours: Any) -> RegisteredSchema:
    return RegisteredSchema(0, "AVRO", json.dumps(ours))


def _takes(theirs: AvroType, ours: AvroType) -> bool:
    """Whether every value of a type of ours is one of theirs as it is, and no field is lost."""
    if theirs.kind == "union" or ours.kind == "union":
        if sum(one.kind in _NUMBERS for one in theirs.branches) > 1:
            return False  # fastavro writes an integer as the first of them
        return all(any(_takes(one, other) for one in theirs.branches) for other in ours.branches) and (
            theirs.has_null or not ours.has_null
        )
    if (theirs.kind, theirs.logical, theirs.scale) != (ours.kind, ours.logical, ours.scale):
        return False
    if theirs.precision < ours.precision:
        return False
    if ours.kind == "record":
        there = {one.name: one for one in theirs.fields}
        new = [one for one in theirs.fields if ours.field(one.name) is None]
        known = all(one.name in there and _takes(there[one.name].type, one.type) for one in ours.fields)
        same = theirs.name.rpartition(".")[2] == ours.name.rpartition(".")[2]
        return same and known and all(one.has_default for one in new)
    return all(_takes(one, other) for one, other in zip(theirs.inner, ours.inner, strict=True))


_NUMBERS: Final = ("int", "long", "float", "double")


def _full_names(actual: AvroType, above: tuple[AvroType, ...] = ()) -> dict[str, str]:
    """The names of the records with their namespaces, by those without."""
    if actual in above:
        return {}
    names = {actual.name.rpartition(".")[2]: actual.name} if actual.kind == "record" else {}
    for inner in (*actual.inner, *(one.type for one in actual.fields)):
        names |= _full_names(inner, (*above, actual))
    return names


def _same(value: Any) -> Any:
    return value


def _datum(schema: Schema, names: Mapping[str, str]) -> Datum:
    """From a value to what fastavro writes, without logical types. ``names``: see :func:`_full_names`."""
    match schema:
        case Timestamp():
            return micros_of
        case Date():
            return lambda value: value.toordinal() - _EPOCH_DAY
        case DecimalOf(_, scale):
            return lambda value: _as_bytes(int(value.scaleb(scale, _WIDE)))
        case Unsigned():
            return _as_bytes
        case EnumOf():
            return lambda value: value.value
        case UnitValue():
            return lambda value: None
        case Optional(item):
            inner = _datum(item, names)
            return inner if inner is _same else lambda value: None if value is None else inner(value)
        case ListOf(item, _):
            inner = _datum(item, names)
            return lambda value: list(map(inner, value))
        case Record(_, fields, columns):
            parts = [(name, field, _datum(one, names)) for name, (field, one) in zip(columns, fields, strict=True)]
            return lambda value: {name: of(getattr(value, field)) for name, field, of in parts}
        case OneOf(members):
            of_class = {one.cls: (names[one.cls.__name__], _datum(one, names)) for one in members}

            def tagged(value: Any) -> Any:
                name, of = of_class[type(value)]
                return name, of(value)

            return tagged
        case _:
            return _same


def _as_bytes(number: int) -> bytes:
    """Two's complement, in the fewest bytes."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)

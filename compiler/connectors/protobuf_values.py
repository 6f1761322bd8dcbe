"""Records as Protocol Buffers, by the schema that ``tracetypes schema`` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tracetypes.conformance import micros_of
from tracetypes.plain_data import decimal_text
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    Unsigned,
)

__all__ = ["message_of", "protobuf_encoder"]

Datum: TypeAlias = Callable[[Any], Any]

_KINDS: Final[dict[type[Any], int]] = {
    Boolean: 8,
    Integer: 3,
    Unsigned: 4,
    Float: 1,
    String: 9,
    Bytes: 12,
    Date: 9,
    DecimalOf: 9,
    Timestamp: 11,
    Record: 11,
}
"""The numbers of the types in the description of a field."""


def message_of(record: Record) -> tuple[Any, Any]:
    """The description of the file of a record, and the class of its messages."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    file: Any = descriptor_pb2.FileDescriptorProto(name="value.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    _add(file, record, set())
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return file, message_factory.GetMessageClass(pool.FindMessageTypeByName(record.cls.__name__))


def _add(file: Any, record: Record, known: set[str]) -> str:
    """Add the message of a record, and those inside; its name."""
    name = record.cls.__name__
    if name in known:
        return f".{name}"
    known.add(name)
    message = file.message_type.add(name=name)
    for number, (column, schema) in enumerate(record.columns, 1):
        repeated, bare = isinstance(schema, ListOf), _bare(schema)
        field = message.field.add(name=column, number=number, type=_KINDS[type(bare)], label=3 if repeated else 1)
        if isinstance(schema, Optional):
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{column}")
        if isinstance(bare, Timestamp):
            field.type_name = ".google.protobuf.Timestamp"
        elif isinstance(bare, Record):
            field.type_name = _add(file, bare, known)
    return f".{name}"


def _bare(schema: Schema) -> Schema:
    """The schema of a value of a field, without that it may be missing or repeated; of an enum or literal, that of its values."""
    if isinstance(schema, Optional | ListOf | EnumOf | LiteralOf):
        return _bare(schema.item)
    return schema


def protobuf_encoder(record: Record) -> Callable[[Any], bytes]:
    """How values of a record become bytes: the message is the first one of its file."""
    _, kind = message_of(record)
    datum = _datum(record)
    return lambda value: b"\0" + bytes(kind(**datum(value)).SerializeToString())


def _datum(schema: Schema) -> Datum:
    """From a value to what the class of a message takes."""
    match schema:
        case Timestamp():
            return _time
        case Date():
            return lambda value: value.isoformat()
        case DecimalOf():
            return decimal_text
        case EnumOf():
            return lambda value: value.value
        case Optional(item):
            inner = _datum(item)
            return lambda value: None if value is None else inner(value)
        case ListOf(item, _):
            inner = _datum(item)
            return lambda value: list(map(inner, value))
        case Record(_, fields, names):
            parts = [(name, field, _datum(one)) for name, (field, one) in zip(names, fields, strict=True)]
            return lambda value: {name: of(getattr(value, field)) for name, field, of in parts}
        case _:
            return lambda value: value


def _time(value: Any) -> dict[str, int]:
    seconds, micros = divmod(micros_of(value), 1_000_000)
    return {"seconds": seconds, "nanos": micros * 1_000}

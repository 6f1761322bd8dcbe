"""The schema of a record for other systems: Avro, Protocol Buffers, JSON Schema, Spark.

Those of JSON, Spark and Avro say what this library reads and writes; it reads Protocol Buffers, too. Times are in microseconds,
and enums and literals are their values (docs/types.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from tracetypes.errors import UsageError
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
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
    members_of,
)

__all__ = ["KINDS", "schema_text"]


def schema_text(schema: Schema, kind: str) -> str:
    """The text of the schema of a record; of Avro and JSON of any value. ``kind``: one of :data:`KINDS`. Raises
    :class:`UsageError` ``TT402`` where the other system has no such type or name."""
    if isinstance(schema, Record):
        return KINDS[kind](schema)
    return json.dumps(_Avro().of(schema, "the value") if kind == "avro" else _json_text(schema))


def _none(where: str, what: str, system: str) -> UsageError:
    return UsageError("TT402", f"{where}: {system} has no {what}", fix="declare a record without it, for that system")


def _name(name: str, where: str, system: str) -> str:
    """A name that the other system takes, too."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise _none(where, f"name such as {name!r}", system)
    return name


def _plain(schema: Schema) -> Schema:
    """The schema of the values that stand for enums and literals."""
    return schema.item if isinstance(schema, EnumOf | LiteralOf) else schema


# ------------------------------------------------------------------------------------------------- Avro

_AVRO: Final[Mapping[type[Any], Any]] = {
    Boolean: "boolean",
    Integer: "long",
    Float: "double",
    String: "string",
    Bytes: "bytes",
    UnitValue: "null",
    Date: {"type": "int", "logicalType": "date"},
    Timestamp: {"type": "long", "logicalType": "timestamp-micros"},
    Unsigned: {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0},
}


@attrs.frozen
class _Avro:
    """``known``: the records that have been written, by name."""

    known: dict[str, Record] = attrs.Factory(dict)

    def of(self, schema: Schema, where: str) -> Any:
        schema = _plain(schema)
        match schema:
            case Optional(item):
                inner = self.of(item, where)
                return ["null", *inner] if isinstance(inner, list) else ["null", inner]
            case ListOf(item, _):
                return {"type": "array", "items": self.of(item, f"{where}[]")}
            case OneOf(members):
                return [self.of(one, where) for one in members]
            case Record(cls, _, _):
                return self.record(schema, cls.__name__, where)
            case DecimalOf(precision, scale):
                return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
            case _:
                return _AVRO[type(schema)]

    def record(self, schema: Record, name: str, where: str) -> Any:
        if (known := self.known.get(name)) is not None:
            if known != schema:
                raise _none(where, f"second type with the name {name}", "Avro")
            return name  # a type is written once, and named from then on
        self.known[name] = schema
        return {"type": "record", "name": name, "fields": list(self._fields(schema, where))}

    def _fields(self, schema: Record, where: str) -> Iterator[dict[str, Any]]:
        for name, inner in schema.columns:
            place = f"{where}.{name}"
            one = {"name": _name(name, place, "Avro"), "type": self.of(inner, place)}
            yield one | ({"default": None} if isinstance(inner, Optional) else {})


def _avro(record: Record) -> str:
    return json.dumps(_Avro().of(record, record.cls.__name__), indent=2)


# ------------------------------------------------------------------------------------------------- Protocol Buffers

_PROTOBUF: Final[Mapping[type[Any], str]] = {
    Boolean: "bool",
    Integer: "int64",
    Unsigned: "uint64",
    Float: "double",
    String: "string",
    Bytes: "bytes",
    Timestamp: "google.protobuf.Timestamp",
}
_PROTOBUF_TEXTS: Final = (Date, DecimalOf)
"""Types that are texts there, as in JSON."""


def _protobuf(record: Record) -> str:
    messages: dict[str, tuple[Record, list[str]]] = {}
    _message(record, record.cls.__name__, messages)
    body = "\n\n".join("\n".join([f"message {name} {{", *lines, "}"]) for name, (_, lines) in messages.items())
    head = ['syntax = "proto3";', ""]
    if _PROTOBUF[Timestamp] in body:
        head += ['import "google/protobuf/timestamp.proto";', ""]
    return "\n".join(head) + "\n" + body


def _message(record: Record, where: str, messages: dict[str, tuple[Record, list[str]]]) -> str:
    """Add the message of a record; its name."""
    name, lines = record.cls.__name__, list[str]()
    if name in messages:
        if messages[name][0] != record:
            raise _none(where, f"second type with the name {name}", "Protocol Buffers")
        return name
    messages[name] = record, lines
    for number, (field, schema) in enumerate(record.columns, 1):
        place = f"{where}.{field}"
        label, kind, about = _proto_field(schema, place, messages)
        lines.append(f"  {label}{kind} {_name(field, place, 'Protocol Buffers')} = {number};{about}")
    return name


def _proto_field(schema: Schema, where: str, messages: dict[str, Any]) -> tuple[str, str, str]:
    """The label of a field, its type, and a comment."""
    match schema:
        case Optional(ListOf()):
            raise _none(where, "list that may be missing", "Protocol Buffers")
        case Optional(item):
            return "optional ", *_proto_type(item, where, messages)
        case ListOf(Optional() | ListOf(), _):
            raise _none(where, "list of optional values, or of lists", "Protocol Buffers")
        case ListOf(item, _):
            return "repeated ", *_proto_type(item, where, messages)
        case _:
            return "", *_proto_type(schema, where, messages)


def _proto_type(schema: Schema, where: str, messages: dict[str, Any]) -> tuple[str, str]:
    schema = _plain(schema)
    if isinstance(schema, Record):
        return _message(schema, where, messages), ""
    if isinstance(schema, _PROTOBUF_TEXTS):
        return "string", "  // digits, as text" if isinstance(schema, DecimalOf) else "  // ISO 8601"
    kind = _PROTOBUF.get(type(schema))
    if kind is None:
        raise _none(where, "union of messages" if isinstance(schema, OneOf) else "Unit", "Protocol Buffers")
    return kind, ""


# ------------------------------------------------------------------------------------------------- JSON Schema

_SPECIAL: Final = ["NaN", "Infinity", "-Infinity"]

_JSON: Final[Mapping[type[Any], dict[str, Any]]] = {
    Boolean: {"type": "boolean"},
    Integer: {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    Unsigned: {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
    Float: {"anyOf": [{"type": "number"}, {"enum": _SPECIAL}]},
    String: {"type": "string"},
    Bytes: {"type": "string", "contentEncoding": "base64"},
    Timestamp: {"type": "string", "format": "date-time"},
    Date: {"type": "string", "format": "date"},
    UnitValue: {"type": "null"},
}


def _json_of(schema: Schema) -> dict[str, Any]:
    match schema:
        case Optional(item):
            return {"anyOf": [_json_of(item), {"type": "null"}]}
        case ListOf(item, _):
            return {"type": "array", "items": _json_of(item)}
        case LiteralOf(_, values):
            return {"enum": list(values)}
        case EnumOf(cls, _):
            return {"enum": list(members_of(cls))}
        case DecimalOf():
            return {"type": ["number", "string"], "pattern": r"^-?[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?$"}
        case OneOf(members):
            return {"anyOf": [_json_member(one) for one in members]}
        case Record():
            needed = [name for name, inner in schema.columns if not isinstance(inner, Optional)]
            properties = {name: _json_of(inner) for name, inner in schema.columns}
            return {"type": "object", "title": schema.cls.__name__, "properties": properties, "required": needed}
        case _:
            return _JSON[type(schema)]


def _json_member(record: Record) -> dict[str, Any]:
    """A record of a union: an object with its class as the only field."""
    name = record.cls.__name__
    return {"type": "object", "properties": {name: _json_of(record)}, "required": [name]}


def _json_text(schema: Schema) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _json_of(schema)


def _json(record: Record) -> str:
    return json.dumps(_json_text(record), indent=2)


# ------------------------------------------------------------------------------------------------- Spark

_SPARK: Final[Mapping[type[Any], str]] = {
    Boolean: "BOOLEAN",
    Integer: "BIGINT",
    Unsigned: "DECIMAL(20,0)",
    Float: "DOUBLE",
    String: "STRING",
    Bytes: "BINARY",
    Timestamp: "TIMESTAMP",
    Date: "DATE",
    UnitValue: "VOID",
}


def _spark_type(schema: Schema) -> str:
    schema = _plain(schema)
    match schema:
        case Optional(item):
            return _spark_type(item)
        case ListOf(item, _):
            return f"ARRAY<{_spark_type(item)}>"
        case DecimalOf(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Record():
            return f"STRUCT<{', '.join(_spark_columns(schema, ':'))}>"
        case OneOf(members):
            return f"STRUCT<{', '.join(f'{_quoted(one.cls.__name__)}: {_spark_type(one)}' for one in members)}>"
        case _:
            return _SPARK[type(schema)]


def _spark_columns(record: Record, colon: str) -> Iterator[str]:
    for name, schema in record.columns:
        yield f"{_quoted(name)}{colon} {_spark_type(schema)}{'' if isinstance(schema, Optional) else ' NOT NULL'}"


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def _spark(record: Record) -> str:
    return ",\n".join(_spark_columns(record, ""))


KINDS: Final[Mapping[str, Callable[[Record], str]]] = {"avro": _avro, "protobuf": _protobuf, "json": _json, "spark": _spark}
"""The systems, by name."""

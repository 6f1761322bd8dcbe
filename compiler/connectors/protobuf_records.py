"""Records of Protocol Buffers as rows. The registry describes the file of a schema, and names a message in it by numbers.

A field of ours is the field of the message that has the name of its column, or else the number that the latest schema gives that
name. A field that is not there has its default, as
Protocol Buffers say: zero, an empty text or list; None if the field of ours may be that and the message tells both apart. A
field that the writer's message does not know has the default that it has in the latest schema.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

from tracetypes.compiler.connectors.schema_registry import RegisteredSchema
from tracetypes.conformance import datetime_of, name_of
from tracetypes.plain_data import WHOLE_MICROS, YEARS
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
    Mismatch,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["ProtobufDecoder", "message_numbers", "numbers_as_bytes"]

Convert: TypeAlias = Callable[[Any], Any]
"""From a value of a field to plain data. Raises :class:`Mismatch`."""

_TIME: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String",
    "Bytes")
)
_INFINITE: Final = {"inf": "Infinity", "-inf": "-Infinity"}
_SHOWN: Final = {1: "double", 2: "float", 8: "bool", 9: "string", 11: "message", 12: "bytes", 14: "enum"}
_INTEGERS: Final = (3, 4, 5, 6, 7, 13, 15, 16, 17, 18)


def message_numbers(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The numbers that name a message in its file, and where the message begins. Raises ``ValueError``."""
    count, at = _number(payload, 0)
    if not 0 <= count <= len(payload):
        raise ValueError("a list of numbers that ends nowhere")
    if not count:
        return (0,), at
    numbers = []
    for _ in range(count):
        one, at = _number(payload, at)
        numbers.append(one)
    return tuple(numbers), at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    zigzag = 0
    for shift in range(0, 70, 7):
        if at == len(payload):
            break
        zigzag |= (payload[at] & 0x7F) << shift
        at += 1
        if payload[at - 1] < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), at
    raise ValueError("a number that does not end")


def numbers_as_bytes(numbers: Sequence[int]) -> bytes:
    """The inverse of :func:`message_numbers`."""
    if tuple(numbers) == (0,):
        return b"\0"
    out = bytearray()
    for one in (len(numbers), *numbers):
        zigzag = one << 1
        while zigzag >= 0x80:
            out.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        out.append(zigzag)
    return bytes(out)


@final
class _File:
    """A schema of the registry."""

    def __init__(self, registered: RegisteredSchema) -> None:
        from google.protobuf import (
            any_pb2,
            descriptor_pb2,
            descriptor_pool,
            duration_pb2,
            empty_pb2,
            field_mask_pb2,
            struct_pb2,
            timestamp_pb2,
            wrappers_pb2,
        )

        self.pool: Any = descriptor_pool.DescriptorPool()
        try:
            for one in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
                self.pool.AddSerializedFile(one.DESCRIPTOR.serialized_pb)
            for name, text in (*registered.references, ("", registered.text)):
                file: Any = descriptor_pb2.FileDescriptorProto()
                file.ParseFromString(base64.b64decode(text, validate=True))
                file.name = name or file.name or "value.proto"
                self.pool.Add(file)
            self.file = file
            self.pool.FindFileByName(file.name)
        except Exception as error:  # of the pool's own kinds
            raise ValueError(f"no description of Protocol Buffers: {error}") from error

    def message(self, numbers: Sequence[int]) -> Any:
        """The message with these numbers. Raises ``ValueError``."""
        inside, names = self.file.message_type, [self.file.package] if self.file.package else []
        for number in numbers:
            if not 0 <= number < len(inside):
                raise ValueError(f"no message with the numbers {list(numbers)}")
            names.append(inside[number].name)
            inside = inside[number].nested_type
        return self.pool.FindMessageTypeByName(".".join(names))


@final
class ProtobufDecoder:
    """Decodes values of one schema of the registry. Raises ``ValueError`` if that is none of Protocol Buffers."""

    gaps: tuple[str, ...] = ()

    def __init__(self, registered: RegisteredSchema, schema: Schema, latest: RegisteredSchema | None) -> None:
        self.registered, self.schema, self.file = registered, schema, _File(registered)
        self.latest = None if latest is None else _File(latest)
        self._messages: dict[tuple[int, ...], tuple[Any, Convert] | str] = {}
        alone = len(self.file.file.message_type) == 1
        found = self._message((0,)) if alone else None  # of several messages the record says which
        self.problems: tuple[str, ...] = (found,) if isinstance(found, str) else ()

    def _message(self, numbers: tuple[int, ...]) -> tuple[Any, Convert] | str:
        """The class of a message and how it becomes plain data, or why it does not fit."""
        if numbers not in self._messages:
            self._messages[numbers] = self._found(numbers)
        return self._messages[numbers]

    def _found(self, numbers: tuple[int, ...]) -> tuple[Any, Convert] | str:
        from google.protobuf import message_factory

        try:
            actual = self.file.message(numbers)
        except ValueError as error:
            return str(error)
        newest = None
        if self.latest is not None:
            try:
                newest = self.latest.pool.FindMessageTypeByName(actual.full_name)
            except KeyError:
                newest = None
        problems: list[str] = []
        if not isinstance(self.schema, Record):
            return f"the value is the message {actual.full_name}, expected {name_of(self.schema)}"
        convert = _of_message(actual, self.schema, newest, "", problems)
        return problems[0] if problems else (message_factory.GetMessageClass(actual), convert)

    def plain(self, payload: bytes) -> Any:
        """A value as plain data. Raises :class:`Mismatch`."""
        try:
            numbers, at = message_numbers(payload)
            found = self._message(numbers)
            if isinstance(found, str):
                raise Mismatch("", payload, f"a message that fits: in the schema {self.registered.id}, {found}")
            kind, convert = found
            message = kind()
            message.ParseFromString(payload[at:])
            return convert(message)
        except Mismatch:
            raise
        except Exception as error:  # of the parser's own kinds
            what = f"Protocol Buffers of the schema {self.registered.id} ({type(error).__name__}: {error})"
            raise Mismatch("", payload, what) from None


def _of_message(actual: Any, schema: Record, latest: Any, path: str, problems: list[str]) -> Convert:
    getters: list[tuple[str, Callable[[Any], Any]]] = []
    for name, inner in schema.columns:
        place = f"{path}.{name}"
        field = actual.fields_by_name.get(name)
        wanted = None if latest is None else latest.fields_by_name.get(name)
        if field is None and wanted is not None:
            field = actual.fields_by_number.get(wanted.number)  # it had another name
        if field is not None:
            getters.append((name, _of_field(field, inner, wanted, place, problems)))
        elif wanted is not None:
            getters.append((name, _of_default(wanted, inner, place, problems)))
        elif isinstance(inner, Optional | UnitValue):
            getters.append((name, lambda message: None))
        else:
            has = ", ".join(one.name for one in actual.fields) or "no field"
            problems.append(f"{place} is missing (it has {has}), expected {name_of(inner)}")
    return lambda message: {name: get(message) for name, get in getters}


def _of_field(field: Any, schema: Schema, latest: Any, path: str, problems: list[str]) -> Callable[[Any], Any]:
    name, may_miss = field.name, isinstance(schema, Optional)
    bare = schema.item if isinstance(schema, Optional) else schema
    if isinstance(bare, ListOf) != bool(field.is_repeated) or (field.message_type and field.message_type.GetOptions().map_entry):
        problems.append(f"{path} is {_shown(field)}, expected {name_of(schema)}")
        return lambda message: None
    if isinstance(bare, ListOf):
        item = bare.item
        convert = _of_value(field, item.item if isinstance(item, Optional) else item, latest, f"{path}[]", problems)
        return lambda message: list(map(convert, getattr(message, name)))
    convert = _of_value(field, bare, latest, path, problems)
    if field.has_presence and (may_miss or field.message_type is not None):
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _of_default(field: Any, schema: Schema, path: str, problems: list[str]) -> Callable[[Any], Any]:
    """A field that only the latest schema has."""
    _of_field(field, schema, None, path, problems)
    if field.is_repeated:
        return lambda message: []
    if field.message_type is not None or (field.has_presence and isinstance(schema, Optional)):
        return lambda message: None
    default = field.default_value
    if field.type == 14 and not isinstance(schema.item if isinstance(schema, Optional) else schema, Integer):
        default = field.enum_type.values_by_number[default].name
    return lambda message: default


def _of_value(field: Any, schema: Schema, latest: Any, path: str, problems: list[str]) -> Convert:
    kind, message = field.type, field.message_type
    is_text = isinstance(schema, String | LiteralOf | EnumOf) and isinstance(getattr(schema, "item", String()), String)
    is_number = isinstance(schema, Integer | Unsigned | LiteralOf | EnumOf) and not is_text
    if message is not None and message.full_name == _TIME and isinstance(schema, Timestamp):
        return lambda value: _time(schema, value, path)
    if message is not None and message.full_name in _WRAPPERS:
        inner = _of_value(message.fields_by_name["value"], schema, None, path, problems)
        return lambda value: inner(value.value)
    if message is not None and isinstance(schema, Record):
        return _of_message(message, schema, None if latest is None else latest.message_type, path, problems)
    if kind in _INTEGERS and (is_number or isinstance(schema, Float)):
        return _same
    if kind in (1, 2) and isinstance(schema, Float):
        return lambda value: _INFINITE.get(repr(value), value)
    if kind == 14 and is_text:
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value, value)
    fits = {8: Boolean, 9: String | Date | DecimalOf, 12: Bytes, 14: Integer}
    if (kind == 9 and is_text) or (kind in fits and isinstance(schema, fits[kind])):
        return _same
    problems.append(f"{path} is {_shown(field)}, expected {name_of(schema)}")
    return _same


def _same(value: Any) -> Any:
    return value


def _time(schema: Timestamp, value: Any, path: str) -> dt.datetime:
    micros, rest = divmod(value.seconds * 1_000_000_000 + value.nanos, 1_000)
    if rest and not schema.truncated:
        raise Mismatch(path, f"{value.seconds} s {value.nanos} ns", WHOLE_MICROS)
    try:
        return datetime_of(micros)
    except OverflowError:
        raise Mismatch(path, value.seconds, YEARS) from None


def _shown(field: Any) -> str:
    what = field.message_type.full_name if field.message_type is not None else _SHOWN.get(field.type, "an integer")
    return f"repeated {what}" if field.is_repeated else what

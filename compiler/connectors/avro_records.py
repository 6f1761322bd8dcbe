"""Records of Avro as rows: by fastavro, one by one. Columns of many at once: :mod:`.avro_columns`.

A field of ours is the field of the writer's schema that has the name of its column. If the writer's schema lacks it, the schema
that a reader has decides: the latest of the subject, by its aliases and defaults. Fields that no record needs are passed over.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast, final

import attrs

from tracetypes.compiler.connectors.avro_schemas import AvroField, AvroType, avro_type, bare_schema
from tracetypes.compiler.connectors.schema_registry import RegisteredSchema
from tracetypes.conformance import datetime_of, instant_in, name_of
from tracetypes.plain_data import WHOLE_MICROS, YEARS, one_instant
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
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["AvroDecoder", "FieldMatch", "Matching", "nanos_of"]

Convert: TypeAlias = Callable[[Any], Any]
"""From a value as fastavro gives it to plain data (:func:`tracetypes.plain_data.from_plain`). Raises :class:`Mismatch`."""

_TYPES: Final[dict[str, tuple[type[Any], ...]]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "string": (str,),
    "enum": (str,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}

_TIMES: Final = ("date", "time-millis", "time-micros")
"""Logical types of numbers that are no numbers, beside those of :func:`nanos_of`."""

_INFINITE: Final = {"inf": "Infinity", "-inf": "-Infinity"}


def nanos_of(logical: str | None) -> tuple[int, bool] | None:
    """How many nanoseconds the unit of a logical type has, and whether its times have no zone. None if it is no time."""
    local = logical is not None and logical.startswith("local-")
    unit = {"timestamp-millis": 1_000_000, "timestamp-micros": 1_000, "timestamp-nanos": 1}.get((logical or
    "").removeprefix("local-"))
    return None if unit is None else (unit, local)


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    """Infinities by their names: as numbers of JSON they are numerals that are too large."""
    return _INFINITE.get(repr(value), value)


@attrs.frozen
class FieldMatch:
    """A field of ours. ``column``: the name of its column. ``field``: of the writer's schema; None if that lacks it, then the
    value is ``constant``. ``latest``: its type in the latest schema."""

    column: str
    schema: Schema
    field: AvroField | None
    convert: Convert
    constant: Any = None
    latest: AvroType | None = None


@attrs.define
class Matching:
    """A schema of ours beside one of Avro. ``problems``: why some value, or every one, does not fit. ``gaps``: where a value
    may be missing and must not."""

    problems: list[str] = attrs.Factory(list)
    gaps: list[str] = attrs.Factory(list)

    def of(self, actual: AvroType, schema: Schema, latest: AvroType | None, path: str) -> Convert:
        """How values become plain data of a schema. None stays None, also where it does not fit."""
        bare = schema.item if isinstance(schema, Optional) else schema
        if actual.has_null and bare is schema and not (isinstance(schema, UnitValue) and actual.kind == "null"):
            self.gaps.append(f"{path or 'the value'} is {actual}, expected {name_of(schema)}")
        if actual.kind == "null":
            return _same
        convert = self._there(actual, bare, latest, path)
        return convert if convert is _same or not actual.has_null else lambda value: None if value is None else convert(value)

    def _there(self, actual: AvroType, schema: Schema, latest: AvroType | None, path: str) -> Convert:
        """The same for values other than None."""
        if isinstance(schema, OneOf):
            return self._members(actual, schema, latest, path)
        branches = [(one, self._one(one, schema, latest, path)) for one in actual.branches]
        if len(branches) == 1 or all(convert is _same for _, convert in branches):
            return branches[0][1] if branches else _same
        if len({one.scale for one, _ in branches if one.logical == "decimal"}) > 1:
            # fastavro gives the bytes without the name of their branch
            self.problems.append(f"{path or 'the value'} is {actual}, decimals of several scales that look alike")
        by_type = {of: convert for one, convert in branches for of in _TYPES[one.kind]}
        by_name = {one.name: convert for one, convert in branches if one.kind == "record"}

        def convert(value: Any) -> Any:
            return by_name[value[0]](value[1]) if type(value) is tuple else by_type[type(value)](value)

        return convert

    def _one(self, actual: AvroType, schema: Schema, latest: AvroType | None, path: str) -> Convert:
        kind, time = actual.kind, nanos_of(actual.logical)
        is_number = kind in ("int", "long") and time is None and actual.logical not in _TIMES
        match schema:
            case Boolean() if kind == "boolean":
                return _same
            case Integer() | Unsigned() | LiteralOf(Integer()) | EnumOf(_, Integer()) | Float() if is_number:
                return _same
            case Float() if kind in ("float", "double"):
                return _float
            case Unsigned() | DecimalOf() if actual.logical == "decimal" and kind in ("bytes", "fixed"):
                return _decimals(actual.scale, path, whole=isinstance(schema, Unsigned))
            case String() | LiteralOf(String()) | EnumOf(_, String()) if kind in ("string", "enum"):
                return _same
            case Bytes() if kind in ("bytes", "fixed") and actual.logical != "decimal":
                return _same
            case Timestamp() if time is not None and kind == "long" and (schema.zone is not None or not time[1]):
                return _times(schema, *time, path)
            case Date() if kind == "int" and actual.logical == "date":
                return _dates(path)
            case ListOf(item, _) if kind == "array":
                branch = next((one for one in latest.branches if one.kind == "array"), None) if latest else None
                inner = self.of(actual.inner[0], item, branch.inner[0] if branch else None, f"{path}[]")
                return inner if inner is _same else lambda value: list(map(inner, value))
            case Record() if kind == "record":
                return _object(self.fields(actual, schema, latest, path))
            case _:
                self.problems.append(f"{path or 'the value'} is {actual}, expected {name_of(schema)}")
                return _same

    def fields(self, actual: AvroType, schema: Record, latest: AvroType | None, path: str) -> list[FieldMatch]:
        """The fields of a record of ours in one of Avro."""
        reader, matches = latest.record if latest is not None else None, []
        for name, inner in schema.columns:
            wanted = reader.field(name) if reader is not None else None
            names = (name, *(wanted.aliases if wanted is not None else ()))
            field = next((found for one in names if (found := actual.field(one)) is not None), None)
            place, constant, convert = f"{path}.{name}", None, cast("Convert", _same)
            if field is not None:
                convert = self.of(field.type, inner, wanted.type if wanted is not None else None, place)
            elif wanted is not None and wanted.has_default:
                convert = self.of(wanted.type, inner, wanted.type, place)
                constant = convert(_default(wanted.type, wanted.default))
            elif not isinstance(inner, Optional | UnitValue):
                has = ", ".join(one.name for one in actual.fields) or "no field"
                self.problems.append(f"{place} is missing (it has {has}), expected {name_of(inner)}")
            matches.append(FieldMatch(name, inner, field, convert, constant, wanted.type if wanted is not None else None))
        return matches

    def _members(self, actual: AvroType, schema: OneOf, latest: AvroType | None, path: str) -> Convert:
        """Records of a union, which their names tell apart."""
        members = {one.cls.__name__: one for one in schema.members}
        converts: dict[str, tuple[str, Convert]] = {}
        for one in actual.branches:
            short = one.name.rpartition(".")[2]
            if one.kind != "record" or short not in members:
                self.problems.append(f"{path or 'the value'} is {actual}, expected {name_of(schema)}")
                return _same
            known = next((other for other in latest.branches if other.name == one.name), None) if latest else None
            converts[one.name] = short, self._one(one, members[short], known, path)
        alone = next(iter(converts), "")

        def convert(value: Any) -> Any:
            full, inner = value if type(value) is tuple else (alone, value)
            short, of_member = converts[full]
            return {short: of_member(inner)}

        return convert


def _object(matches: list[FieldMatch]) -> Convert:
    there = [(one.column, one.field.name, one.convert) for one in matches if one.field is not None]
    constants = {one.column: one.constant for one in matches if one.field is None}
    if all(convert is _same and column == name for column, name, convert in there) and not constants:
        return _same
    return lambda value: constants | {column: convert(value[name]) for column, name, convert in there}


def _decimals(scale: int, path: str, *, whole: bool) -> Convert:
    def convert(raw: bytes) -> Any:
        number = Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E-{scale}")
        if not whole:
            return number
        if number != int(number):
            raise Mismatch(path, number, "uint64")
        return int(number)

    return convert


def _times(schema: Timestamp, nanos: int, local: bool, path: str) -> Convert:
    def convert(number: int) -> dt.datetime:
        micros, rest = divmod(number * nanos, 1_000)
        if rest and not schema.truncated:
            raise Mismatch(path, number, WHOLE_MICROS)
        try:
            time = datetime_of(micros)
            instant = instant_in(str(schema.zone), time.replace(tzinfo=None)) if local else time
        except OverflowError:
            raise Mismatch(path, number, YEARS) from None
        if instant is None:
            raise Mismatch(path, time, one_instant(str(schema.zone)))
        return instant

    return convert


def _dates(path: str) -> Convert:
    def convert(days: int) -> dt.date:
        try:
            return dt.date.fromordinal(days + _EPOCH_DAY)
        except (ValueError, OverflowError):
            raise Mismatch(path, days, "date of the years 1 to 9999") from None

    return convert


_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()


def _default(actual: AvroType, plain: Any) -> Any:
    """A default as fastavro would give it: bytes are text of Latin-1 in JSON, and that of a union is of its first branch that it
    fits."""
    match actual.kind:
        case "bytes" | "fixed":
            return plain.encode("latin-1")
        case "float" | "double":
            return float(plain)
        case "union":
            branch = next((one for one in actual.inner if (one.kind == "null") == (plain is None)), actual.inner[0])
            return None if branch.kind == "null" else _default(branch, plain)
        case "record":
            return {one.name: _default(one.type, plain.get(one.name, one.default)) for one in actual.fields}
        case "array":
            return [_default(actual.inner[0], one) for one in plain]
        case "map":
            return {name: _default(actual.inner[0], one) for name, one in plain.items()}
        case _:
            return plain


@final
class AvroDecoder:
    """Decodes values of one schema of the registry. Raises ``ValueError`` if that is no schema, or one that does not fit."""

    def __init__(self, registered: RegisteredSchema, schema: Schema, latest: RegisteredSchema | None) -> None:
        import fastavro

        self.registered, self.type = registered, avro_type(registered)
        matching, newest = Matching(), None if latest is None else avro_type(latest)
        self.convert = matching.of(self.type, schema, newest, "")
        self.matches = None
        if isinstance(schema, Record) and self.type.kind == "record":
            self.matches = Matching().fields(self.type, schema, newest, "")
        if self.type.endless():
            matching.problems.append("an array has items of no bytes")
        self.problems, self.gaps = tuple(dict.fromkeys(matching.problems)), tuple(dict.fromkeys(matching.gaps))
        names: dict[str, Any] = {}
        try:
            for _, text in registered.references:
                fastavro.parse_schema(bare_schema(json.loads(text)), names)
            self._writer = fastavro.parse_schema(bare_schema(json.loads(registered.text)), names)
        except Exception as error:
            raise ValueError(f"no schema of Avro: {error}") from error
        self._reader = fastavro.schemaless_reader

    def read(self, source: io.BytesIO) -> Any:
        """The next value as fastavro gives it. Raises anything."""
        return self._reader(source, self._writer, None, return_record_name=True, return_record_name_override=True)

    def value(self, payload: bytes) -> Any:
        """A value as fastavro gives it. Raises :class:`Mismatch`."""
        source = io.BytesIO(payload)
        try:
            value = self.read(source)
        except Exception as error:
            raise Mismatch("", payload, f"Avro of the schema {self.registered.id} ({type(error).__name__}: {error})") from None
        if (rest := len(payload) - source.tell()) != 0:
            raise Mismatch("", payload, f"Avro of the schema {self.registered.id} without {rest} bytes behind it")
        return value

    def plain(self, payload: bytes) -> Any:
        """A value as plain data. Raises :class:`Mismatch`."""
        return self.convert(self.value(payload))

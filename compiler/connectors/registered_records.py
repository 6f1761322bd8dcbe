"""Keys and values of topics whose schemas are in a registry: a byte 0, the id of the schema in four bytes, and the value.

The driver asks for the latest schemas of the topic once, when a run starts. They say what a record must have, and the defaults of
fields that older records lack; a run has them for all its records. The schema that wrote a record comes by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, final

import attrs

from tracetypes.compiler.connectors.avro_columns import ColumnDecoder
from tracetypes.compiler.connectors.avro_records import AvroDecoder
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.protobuf_records import ProtobufDecoder
from tracetypes.compiler.connectors.schema_registry import RegisteredSchema, registry_of
from tracetypes.conformance import name_of
from tracetypes.debezium import envelope_of
from tracetypes.errors import RunError
from tracetypes.formats import Kafka, Layout
from tracetypes.parsing import Decoders, text_of_json
from tracetypes.records import Mismatch, Record, Schema

__all__ = ["HEADER", "PartDecoder", "TopicSchemas", "topic_format"]

HEADER: Final = 5
"""Bytes in front of a value."""

_KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}


class Decoder(Protocol):
    """Decodes values of one schema. ``problems``: why no value of it fits, or some do not. ``gaps``: where one may be missing,
    and must not."""

    problems: tuple[str, ...]
    gaps: tuple[str, ...]

    def plain(self, payload: bytes, /) -> Any:
        """A value as plain data. Raises :class:`Mismatch`."""


@final
class JsonDecoder:
    """Values of a schema of JSON. The schema is not looked at: each value says what it has."""

    problems: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    def __init__(self, registered: RegisteredSchema, schema: Schema, latest: RegisteredSchema | None) -> None:
        self._parse = text_of_json(schema)

    def plain(self, payload: bytes) -> Any:
        """A value as plain data. Raises :class:`Mismatch`."""
        return self._parse(payload)


_DECODERS: Final[Mapping[str, Callable[[RegisteredSchema, Schema, RegisteredSchema | None], Decoder]]] = {
    "AVRO": AvroDecoder,
    "PROTOBUF": ProtobufDecoder,
    "JSON": JsonDecoder,
}

Known: TypeAlias = Decoder | str
"""How values of a schema are decoded, or why they are not."""


@final
class PartDecoder:
    """Decodes keys, or values, of a topic. ``schema``: of ours. ``latest``: of the subject, if there is one."""

    def __init__(self, address: Address, kind: str, schema: Schema, latest: RegisteredSchema | None, path: str) -> None:
        self.registry, self.kind, self.schema, self.latest, self.path = registry_of(address), kind, schema, latest, path
        self._known: dict[int, Known] = {}
        self._columns: dict[int, ColumnDecoder | None] = {}

    def plain(self, raw: bytes) -> Any:
        """A key or value as plain data. Raises :class:`Mismatch`."""
        if len(raw) < HEADER or raw[0]:
            raise Mismatch(self.path, raw, "a byte 0 and the id of a schema in four bytes, and a value behind them")
        number = int.from_bytes(raw[1:HEADER], "big")
        decoder = self.decoder(number)
        if isinstance(decoder, str):
            raise Mismatch(self.path, raw, decoder)
        try:
            return decoder.plain(raw[HEADER:])
        except Mismatch as error:
            raise Mismatch(self.path + error.path, error.found, error.expected) from None

    def decoder(self, number: int) -> Known:
        """How values of a schema are decoded."""
        if number not in self._known:
            registered = self.registry.schema(number)
            if registered is None:  # it may be registered later
                return f"a schema that the registry has: it has none with the id {number}"
            self._known[number] = self._found(number, registered)
        return self._known[number]

    def _found(self, number: int, registered: RegisteredSchema) -> Known:
        if registered.kind != _KINDS[self.kind]:
            return f"a schema of {_KINDS[self.kind]}: that with the id {number} is of {registered.kind}"
        try:
            decoder = _DECODERS[registered.kind](registered, self.schema, self.latest)
        except ValueError as error:
            return f"a schema that can be read: in that with the id {number}, {error}"
        if decoder.problems:
            return f"a schema that {name_of(self.schema)} fits: in that with the id {number}, {decoder.problems[0]}"
        return decoder

    def columns(self, number: int, schemas: Sequence[Schema], *, fields: bool) -> ColumnDecoder | None:
        """How many values of a schema are read together; None if they are not. ``schemas``: of the columns. ``fields``: whether
        these are the fields of the value."""
        if number not in self._columns:
            decoder = self.decoder(number)
            found = None
            if isinstance(decoder, AvroDecoder):
                found = ColumnDecoder.of(decoder.type, schemas, decoder.matches if fields else None)
            self._columns[number] = found
        return self._columns[number]


def topic_format(declared: object, address: Address) -> Kafka:
    """The format of the records of a topic: the address says more than the source or sink."""
    format = declared if isinstance(declared, Kafka) else Kafka()
    return attrs.evolve(format, key=address.key or format.key, value=address.value or format.value)


@attrs.frozen
class TopicSchemas:
    """How the keys and values of a topic are read, where the registry has their schemas. ``key``, ``value``: the latest ones."""

    address: Address
    format: Kafka
    key: RegisteredSchema | None = None
    value: RegisteredSchema | None = None

    @classmethod
    def of(cls, address: Address, declared: object, layout: Layout, where: str) -> TopicSchemas | None:
        """Asks the registry, and checks that the latest schemas fit. None if no schema is in a registry. ``where``: the source.
        Raises :class:`RunError` ``TT203`` and ``TT208``, and :class:`UsageError` ``TT401`` and ``TT402``."""
        format = topic_format(declared, address)
        if format.key is None and format.value is None:
            return None
        address = address.with_registry()
        registry, latest = registry_of(address), dict[str, RegisteredSchema | None]()
        for part, kind, schema in cls(address, format)._parts(layout):
            latest[part] = found = registry.latest(f"{address.topic}-{part}")
            if found is not None:
                _check(found, kind, schema, f"{where}: version {found.version} of the subject '{address.topic}-{part}'")
        return cls(address, format, **latest)

    def _parts(self, layout: Layout) -> list[tuple[str, str, Schema]]:
        zoned = layout.zoned(self.format.zone)
        parts = [("key", self.format.key, zoned.key if zoned.keyed else None)]
        value = zoned.value if self.format.envelope is None else envelope_of(zoned.value)
        parts.append(("value", self.format.value, _without(value, self.format.headers)))
        return [(part, kind, schema) for part, kind, schema in parts if kind is not None and schema is not None]

    def parts(self, layout: Layout) -> dict[str, PartDecoder]:
        """The decoders of ``key`` and ``value``, of those that have schemas in the registry."""
        latest = {"key": self.key, "value": self.value}
        return {
            part: PartDecoder(self.address, kind, schema, latest[part], ".key" if part == "key" else "")
            for part, kind, schema in self._parts(layout)
        }

    @staticmethod
    def decoders(parts: Mapping[str, PartDecoder]) -> Decoders:
        """The same for single records."""
        return Decoders(**{part: partial(_plain, one) for part, one in parts.items()})


def _plain(part: PartDecoder, raw: bytes) -> Any:
    return part.plain(raw)


def _without(schema: Schema, headers: Sequence[str]) -> Schema:
    """The schema of a value without the fields that come from headers."""
    if not isinstance(schema, Record) or not headers:
        return schema
    kept = [at for at, name in enumerate(schema.names) if name not in headers]
    return Record(schema.cls, tuple(schema.fields[at] for at in kept), tuple(schema.names[at] for at in kept))


def _check(registered: RegisteredSchema, kind: str, schema: Schema, where: str) -> None:
    """Raises :class:`RunError` ``TT203`` if a schema does not fit."""
    if registered.kind != _KINDS[kind]:
        raise RunError(
            "TT203", f"{where} is of {registered.kind}, expected {_KINDS[kind]}", fix="name the format that the topic has"
        )
    try:
        decoder = _DECODERS[registered.kind](registered, schema, registered)
    except ValueError as error:
        raise RunError("TT203", f"{where}: {error}", fix="mend the schema in the registry") from error
    problems = (*decoder.problems, *decoder.gaps)
    if problems:
        raise RunError(
            "TT203",
            f"{where} (id {registered.id}) does not fit {name_of(schema)}: {'; '.join(problems)}",
            fix="declare the fields with the types of the schema; a field that may be null is X | None",
        )

"""Schemas of Avro as a tree of types, and which of their types fit a schema of ours.

A logical type is kept beside the type that the bytes have (``long``, ``timestamp-micros``). Unknown logical types mean nothing,
as the specification says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from tracetypes.compiler.connectors.schema_registry import RegisteredSchema

__all__ = ["AvroField", "AvroType", "avro_type", "bare_schema"]

_PRIMITIVE: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_RECORDS: Final = ("record", "error")

NOTHING: Final = object()
"""Stands for the default of a field that has none."""


@attrs.define(eq=False)
class AvroType:
    """``kind``: one of the types of Avro, or ``union``. ``name``: with its namespace. ``inner``: the branches of a union, or the
    items of an array or a map. ``symbols``: of an enum. ``size``: of a ``fixed``. ``scale``, ``precision``: of a decimal."""

    kind: str
    logical: str | None = None
    name: str = ""
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    scale: int = 0
    precision: int = 0

    def __str__(self) -> str:
        if self.kind == "union":
            return " or ".join(map(str, self.inner))
        if self.kind in ("array", "map"):
            return f"{self.kind} of {self.inner[0]}"
        return self.logical or " ".join(filter(None, (self.kind, self.name)))

    @property
    def branches(self) -> tuple[AvroType, ...]:
        """The types of a value that is there."""
        return tuple(one for one in self.inner if one.kind != "null") if self.kind == "union" else (self,)

    @property
    def has_null(self) -> bool:
        """Whether a value may be missing."""
        return self.kind == "null" or (self.kind == "union" and any(one.kind == "null" for one in self.inner))

    @property
    def record(self) -> AvroType | None:
        """The only record that a value may be."""
        records = [one for one in self.branches if one.kind == "record"]
        return records[0] if len(records) == 1 else None

    def field(self, name: str) -> AvroField | None:
        """The field of a record."""
        return next((one for one in self.fields if one.name == name), None)

    def least_size(self, above: tuple[AvroType, ...] = ()) -> int:
        """How many bytes a value has at least."""
        if self.kind == "null" or self in above:
            return 0
        if self.kind == "fixed":
            return self.size
        if self.kind == "record":
            return sum(one.type.least_size((*above, self)) for one in self.fields)
        return 1

    def endless(self, above: tuple[AvroType, ...] = ()) -> bool:
        """Whether a few bytes may stand for any number of items."""
        if self in above:
            return False
        if self.kind == "array" and not self.inner[0].least_size():
            return True
        parts = (*self.inner, *(one.type for one in self.fields))
        return any(one.endless((*above, self)) for one in parts)


@attrs.frozen(eq=False)
class AvroField:
    """A field of a record. ``default``: as JSON has it, :data:`NOTHING` for none."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = NOTHING

    @property
    def has_default(self) -> bool:
        """Whether there is one."""
        return self.default is not NOTHING


def avro_type(registered: RegisteredSchema) -> AvroType:
    """The type of a schema. Raises ``ValueError`` if it is none of Avro."""
    names: dict[str, AvroType] = {}
    try:
        for _, text in registered.references:
            _parsed(json.loads(text), "", names)
        return _parsed(json.loads(registered.text), "", names)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no schema of Avro: {error}") from error


def _parsed(node: Any, space: str, names: dict[str, AvroType]) -> AvroType:
    if isinstance(node, str):
        if node in _PRIMITIVE:
            return AvroType(node)
        return names[node if "." in node or not space or f"{space}.{node}" not in names else f"{space}.{node}"]
    if isinstance(node, Sequence):
        return AvroType("union", inner=tuple(_parsed(one, space, names) for one in node))
    kind, logical = node["type"], node.get("logicalType")
    if not isinstance(kind, str) or kind not in (*_PRIMITIVE, *_RECORDS, "enum", "fixed", "array", "map"):
        return _parsed(kind, space, names)
    if kind in _PRIMITIVE:
        return AvroType(kind, logical, scale=node.get("scale", 0), precision=node.get("precision", 0))
    if kind in ("array", "map"):
        return AvroType(kind, inner=(_parsed(node["items" if kind == "array" else "values"], space, names),))
    name = node["name"]
    space = name.rpartition(".")[0] if "." in name else node.get("namespace", space) or ""
    full = name if "." in name or not space else f"{space}.{name}"
    names[full] = named = AvroType("record" if kind in _RECORDS else kind, logical, full)
    if kind == "enum":
        named.symbols = tuple(node["symbols"])
    elif kind == "fixed":
        named.size, named.scale, named.precision = int(node["size"]), node.get("scale", 0), node.get("precision", 0)
    else:
        named.fields = tuple(_fields(node["fields"], space, names))
    return named


def _fields(nodes: Sequence[Mapping[str, Any]], space: str, names: dict[str, AvroType]) -> Iterator[AvroField]:
    for one in nodes:
        of = _parsed(one["type"], space, names)
        if of.kind in _PRIMITIVE and "logicalType" in one and of.logical is None:
            of = attrs.evolve(of, logical=one["logicalType"], scale=one.get("scale", 0), precision=one.get("precision", 0))
        yield AvroField(one["name"], of, tuple(one.get("aliases", ())), one.get("default", NOTHING))


def bare_schema(node: Any) -> Any:
    """A schema without its logical types, whose values fastavro would make others of."""
    if isinstance(node, Mapping):
        left = ("logicalType", "scale", "precision")
        return {name: bare_schema(one) if name in _INNER else one for name, one in node.items() if name not in left}
    return [bare_schema(one) for one in node] if isinstance(node, list) else node


_INNER: Final = ("type", "items", "values", "fields")

"""The checks of the rows of sources and sinks: records, columns, folders, lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracetypes.conformance import hashable, name_of
from tracetypes.debezium import is_change_of
from tracetypes.edge_check import EdgeCheck
from tracetypes.edges import EdgeType
from tracetypes.errors import DataError
from tracetypes.flat_columns import sink_columns
from tracetypes.formats import Avro, Csv, Kafka, Layout, TextLines
from tracetypes.nodes import (
    Apply,
    Node,
    Sink,
    Source,
)
from tracetypes.records import (
    Boolean,
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
    Unit,
    Unsigned,
)
from tracetypes.schemas import schema_of, show_type

__all__ = ["ColumnCheck"]


class ColumnCheck(EdgeCheck):
    """Finds what a format or an output has no columns for."""

    def record_of(self, node: Node) -> None:
        """Check that the edge that leaves a node has a schema, and that its key can be a key."""
        edge = self.types.get(node.id)
        if edge is None or not isinstance(node, Source | Apply):
            return
        aside = isinstance(node, Source) and node.output != "items"  # what is wrong is told at the source
        for what, annotation in (("key", edge.key), ("value", edge.value)):
            seen = annotation in self.schemas if _hashable(annotation) else False
            if seen and self.schemas[annotation] is not None and what == "value":
                continue
            try:
                schema = schema_of(annotation)
            except DataError as error:
                if not aside:
                    self.refuse("TT106", node, f"{what} {error.message}", "a type with a schema", error.fix)
                self.types[node.id] = None
                continue
            if _hashable(annotation):
                self.schemas[annotation] = schema
            if what == "key" and not aside and (isinstance(schema, Optional) or not hashable(schema)):
                self.refuse(
                    "TT117",
                    node,
                    f"the key type {name_of(schema)}",
                    "a key that is never None and can be hashed",
                    "use a scalar, a tuple or a frozen record; give missing keys a value of their own",
                )

    def columns(self) -> None:
        for node in self.graph.nodes:
            edge = self.types.get(node.id)
            if edge is None or not isinstance(node, Source | Sink):
                continue
            if isinstance(node, Source) and node.output != "items":
                continue
            if isinstance(node, Source):
                self.file_name(node, EdgeType(edge.ordered, edge.key if node.key is None else Unit, edge.value))
                self.flat(node, EdgeType(edge.ordered, edge.key if node.key is None else Unit, edge.value))
                continue
            if node.position is not None and not edge.ordered:
                self.refuse(
                    "TT114",
                    node,
                    f"position={node.position!r} on {edge}",
                    "an ordered stream",
                    "items of a U have no position: leave position out, or sort before",
                )
            try:
                layout = Layout(schema_of(edge.key), schema_of(edge.value), ())
            except DataError:
                continue
            columns = sink_columns(layout, node)
            names = [name for name, _ in columns]
            for name in dict.fromkeys(one for one in names if names.count(one) > 1):
                fix = "leave flat out, or rename a field: Annotated[..., column(...)]"
                self.refuse("TT119", node, f"flat=True with two columns named {name!r}", "distinct columns", fix)
            extra = [name for name in (node.marker, node.position) if name is not None]
            for name in dict.fromkeys(extra):
                if [*names, *extra].count(name) > 1:
                    self.refuse("TT119", node, f"two columns named {name!r}", "distinct columns", "choose another name")
            self.folders(node, {**dict(columns), **dict.fromkeys(extra)})
            self.flat(node, edge)

    def folders(self, node: Sink, columns: Mapping[str, Schema | None]) -> None:
        """The columns that are folders. ``columns``: all of the sink; None for the time of a marker and for a position."""
        names = node.partition_by
        there = ", ".join(map(repr, columns))
        for name in dict.fromkeys(names):
            schema = columns.get(name)
            bare = schema.item if isinstance(schema, Optional) else schema
            if name not in columns or names.count(name) > 1:
                found, wanted = f"partition_by={list(names)!r}", f"columns of the sink, each once: {there}"
                self.refuse("TT119", node, found, wanted, "name columns of the key and the value, or the marker's")
            elif bare is not None and not isinstance(bare, _FOLDERS):
                found = f"partition_by={name!r} on a column of {name_of(bare)}"
                wanted = "a number, a text, a truth value, a time, a day, or one of some values"
                self.refuse("TT119", node, found, wanted, "partition by another column, or add one with map_values")
        if names and set(columns) <= set(names):
            found = f"partition_by={list(names)!r}, which are all columns"
            self.refuse("TT119", node, found, "a column that the files have", "leave one out")

    def file_name(self, node: Source, edge: EdgeType) -> None:
        """The column that is the name of the file; and whether values are changes, if the format says so."""
        row = node.format.envelope if isinstance(node.format, Kafka) else None
        if row is not None and not is_change_of(edge.value, row):
            found = f"debezium(row={row}) for values {show_type(edge.value)}"
            self.refuse("TT119", node, found, f"Change[{row}]", f"declare the source as U[..., Change[{row}]]")
        if node.file_name is None:
            return
        try:
            columns = dict(Layout(schema_of(edge.key), schema_of(edge.value)).columns)
        except DataError:
            return
        schema = columns.get(node.file_name)
        bare = schema.item if isinstance(schema, Optional) else schema
        if not isinstance(bare, String) or isinstance(node.format, TextLines):
            found = f"file_name={node.file_name!r} for {', '.join(columns) or 'no columns'}"
            self.refuse("TT119", node, found, "a column of text", "name a field of the record that is a str, or the column 'key'")

    def flat(self, node: Source | Sink, edge: EdgeType) -> None:
        if isinstance(node, Sink) and isinstance(node.format, Avro):
            self.refuse("TT119", node, "avro() at a sink", "a format that is written", "write JSON lines or Parquet")
        if not isinstance(node.format, Csv | TextLines):
            return
        try:
            layout = Layout(schema_of(edge.key), schema_of(edge.value), ())
        except DataError:
            return
        if isinstance(node.format, TextLines):
            self.lines(node, layout)
            return
        if isinstance(node, Sink) and node.format.separator is None:
            fix = "name a separator: csv(separator=...)"
            self.refuse("TT119", node, "csv(separator=None) at a sink", "a format that is written", fix)
        columns = sink_columns(layout, node) if isinstance(node, Sink) else layout.columns
        nested = [name for name, schema in columns if _nested(schema)]
        if nested:
            self.refuse(
                "TT119",
                node,
                f"CSV for the nested column {nested[0]!r}",
                "flat columns",
                f"{'write' if isinstance(node, Sink) else 'read'} JSON lines or Parquet, or map to a flat record",
            )

    def lines(self, node: Source | Sink, layout: Layout) -> None:
        if isinstance(node, Sink):
            self.refuse("TT119", node, "text_lines() at a sink", "a format that is written", "write JSON lines or Parquet")
        elif [type(schema) for _, schema in layout.columns] != [String]:
            columns = ", ".join(name for name, _ in layout.columns) or "nothing"
            self.refuse(
                "TT119",
                node,
                f"lines of text for {columns}",
                "one column of text",
                "declare U[Unit, str] and parse it in an operator, give the key with key=, or read CSV or JSON lines",
            )


_FOLDERS: Final = (Boolean, Integer, Unsigned, Float, DecimalOf, String, Date, Timestamp, LiteralOf, EnumOf)
"""Schemas whose values are names of folders."""


def _nested(schema: Schema) -> bool:
    match schema:
        case Record() | ListOf() | OneOf():
            return True
        case Optional(item):
            return _nested(item)
        case _:
            return False


def _hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True

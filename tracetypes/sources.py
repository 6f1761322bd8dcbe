"""How a source turns rows into items: key, event time, marker or reject. Every backend uses these functions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable
from typing import Any, assert_never

import attrs

from tracetypes.conformance import conformer, key_conformer
from tracetypes.edges import EdgeType, edge_type
from tracetypes.errors import RunError
from tracetypes.formats import Avro, Csv, Kafka, Layout, Parquet, TextLines
from tracetypes.markers import InBand, TimeUnit, marker_time
from tracetypes.nodes import RowPosition, Source
from tracetypes.parsing import PLAIN, Decoders, Headers, Row, checked_key, record_parser
from tracetypes.plain_data import WHOLE_MICROS, in_whole_micros
from tracetypes.records import Mismatch, Unit, show
from tracetypes.rejects import Rejected
from tracetypes.schemas import schema_of
from tracetypes.sort_keys import NoSortKey, sort_key

__all__ = ["Reader", "edge_given", "reader", "record_reader"]


def edge_given(source: Source) -> EdgeType:
    """The type of a stream of a source: its items, its late items, or its rejected rows. Raises :class:`DataError`
    ``TT107``."""
    edge = edge_type(source.edge)
    match source.output:
        case "items":
            return edge
        case "late":
            return edge.forgotten
        case "rejects":
            return EdgeType(False, Unit, Rejected)
        case _:
            assert_never(source.output)


@attrs.frozen
class Reader:
    """Turns a pair of a source's layout, or the exception that its parsing raised, into a :class:`Row`."""

    source: Source
    read: Callable[[Any, Any], Row]


def reader(source: Source) -> Reader:
    """The reader of a source: ``read(key, value)`` for parsed rows. It ignores the key if the source has ``key=``."""
    edge = edge_type(source.edge)
    key_schema, value_schema = schema_of(edge.key), schema_of(edge.value)
    fit_key, fit_value = key_conformer(key_schema), conformer(value_schema)
    check_key = checked_key(key_schema)
    markers, key_of = source.markers, source.key
    per = None if isinstance(markers, InBand) else markers.per
    order = None if isinstance(source.ordered_by, RowPosition) else source.ordered_by

    def read(key: Any, value: Any) -> Row:
        step = "value"
        try:
            value = fit_value(value)
            if isinstance(markers, InBand):
                step = "is_marker"
                if markers.is_marker(value):
                    step = "time"
                    return Row("marker", time=markers.time_of(value))
                time = 0
            else:
                step = "time"
                time = markers.time_of(value)
            step = "key"
            if key_of is not None:
                key = key_of(value)
            key = check_key(fit_key(key))
            if order is not None:
                step = "ordered_by"
                position = order(value)
                try:
                    sort_key(position)
                except NoSortKey:
                    raise Mismatch(".ordered_by", position, "a value that has a place in an order") from None
            if per is None:
                return Row("item", key, value, time)
            step = "per"
            return Row("item", key, value, time, device=_sender(per(value)))
        except Mismatch as error:
            path = error.path or f".{step}"
            return Row("reject", reason=str(Mismatch(path, error.found, error.expected)))
        except ValueError as error:
            return Row("reject", reason=f"{step}: {error}")
        except Exception as error:  # the author's functions may raise anything; the row is at fault, and kept
            return Row("reject", reason=f"{step} raised {type(error).__name__}: {error} for {show(value)}")

    return Reader(source, read)


def _sender(device: Hashable) -> Hashable:
    hash(device)
    if device != device:
        raise Mismatch(".per", device, "a value that is equal to itself")
    return device


def record_reader(
    source: Source, layout: Layout, decoders: Decoders = PLAIN
) -> Callable[[bytes | None, bytes | None, Headers], Row]:
    """The reader of a source for records of Kafka: key, value and headers. ``decoders``: for keys and values whose schemas are
    in a registry. Raises :class:`UsageError` ``TT402``, and :class:`RunError` ``TT207`` for a format that Kafka records cannot
    have."""
    if isinstance(source.format, Csv | Parquet | Avro | TextLines):
        raise RunError(
            "TT207",
            f"source {source.name!r}: records of a topic are not {type(source.format).__name__}",
            fix="declare format=kafka(...) or no format: records are JSON",
        )
    format = source.format if isinstance(source.format, Kafka) else Kafka()
    parse, read, unit = record_parser(format, layout, decoders), reader(source).read, source.markers.unit

    def read_record(key: bytes | None, value: bytes | None, headers: Headers) -> Row:
        for name, raw in headers:
            if name == format.marker:
                try:
                    return Row("marker", time=_time(raw, unit))
                except ValueError as error:
                    return Row("reject", reason=f"{name}: {error}")
        try:
            return read(*parse(key, value, headers))
        except Mismatch as error:
            return Row("reject", reason=str(error))

    return read_record


def _time(raw: bytes | None, unit: TimeUnit) -> int:
    """The time in a header: a number in the unit of the source's markers, or an instant in ISO 8601."""
    text = (raw or b"").decode("utf-8", "backslashreplace")
    for kind in (int, float, _instant):
        try:
            time = kind(text)
        except ValueError:
            continue
        return marker_time(time, unit)
    raise ValueError(f"{text!r} is no time")


def _instant(text: str) -> dt.datetime:
    if not in_whole_micros(text):
        raise ValueError(WHOLE_MICROS)
    return dt.datetime.fromisoformat(text)

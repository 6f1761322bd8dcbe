"""What a source makes of its rows: key, event time, marker or reject. The same for every way to run a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tracetypes.edges import edge_type
from tracetypes.formats import Row, checked_key
from tracetypes.graph import RowPosition, Source
from tracetypes.markers import InBand
from tracetypes.records import Mismatch, conformer, key_conformer, schema_of, show

__all__ = ["Reader", "reader"]


@attrs.frozen
class Reader:
    """Turns a pair of a source's layout, or the exception that parsing it raised, into a :class:`Row`."""

    source: Source
    read: Callable[[Any, Any], Row]


def placeless(key: Any) -> bool:
    """Has a key to sort by no place in a total order: None and NaN, alone or inside a tuple?"""
    return key is None or key != key or (isinstance(key, tuple) and any(map(placeless, key)))


def reader(source: Source) -> Reader:
    """The reader of a source: ``read(key, value)`` for parsed rows; the key is ignored where the source has ``key=``."""
    edge = edge_type(source.edge)
    key_schema, value_schema = schema_of(edge.key), schema_of(edge.value)
    fit_key, fit_value = key_conformer(key_schema), conformer(value_schema)
    check_key = checked_key(key_schema)
    markers, key_of = source.markers, source.key
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
                if placeless(place := order(value)):
                    raise Mismatch(".ordered_by", place, "a value that has a place in an order")
            return Row("item", key, value, time)
        except Mismatch as error:
            path = error.path or f".{step}"
            return Row("reject", reason=str(Mismatch(path, error.found, error.expected)))
        except ValueError as error:
            return Row("reject", reason=f"{step}: {error}")
        except Exception as error:  # the author's functions may raise anything; the row is at fault, and kept
            return Row("reject", reason=f"{step} raised {type(error).__name__}: {error} for {show(value)}")

    return Reader(source, read)

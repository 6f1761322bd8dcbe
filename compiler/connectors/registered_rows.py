"""Many records of a topic at once, where their schemas are in a registry: as columns if possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.connectors.avro_columns import DecodedRecords
from tracetypes.compiler.connectors.registered_records import HEADER, PartDecoder
from tracetypes.compiler.connectors.source_rows import Columns, in_columns
from tracetypes.compiler.connectors.text import FEWEST, Dialect, Fit, ParsedRows, fit_of_json
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.formats import Layout
from tracetypes.parsing import of_bytes
from tracetypes.plain_data import from_plain
from tracetypes.records import Bytes, Mismatch, Record, String

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["registered_rows"]


def registered_rows(
    leaf: FromSource,
    layout: Layout,
    parts: Mapping[str, PartDecoder],
    one: Callable[[Message], TakenRow],
    verifier: Verifier | None,
) -> Callable[[Sequence[Message]], Iterator[TakenRow | Chunk]]:
    """Takes records that are not markers. ``layout``: with the zone of the topic. ``one``: a record by itself."""
    columnar, value = Columns.of(leaf, verifier), layout.value
    decoder = parts.get("value")
    if columnar is None or decoder is None or not isinstance(value, Record) or not layout.opened:
        return lambda messages: map(one, messages)
    by_cell = in_columns(leaf, _dialect(layout, parts, one), verifier)
    blocks, ordered = _Blocks(layout, decoder, parts.get("key")), leaf.source.output == "rejects"

    def take(messages: Sequence[Message]) -> Iterator[TakenRow | Chunk]:
        decoded = blocks.decoded(messages) if len(messages) >= FEWEST else None
        if decoded is not None:
            aside = [one(messages[at]) for at in decoded.bad]
            if not aside or not (ordered or any(row.row.kind != "reject" for row in aside)):
                chunk = columnar.chunk(ParsedRows(decoded.columns, len(messages) - len(aside)))
                if chunk is not None:
                    yield from aside
                    yield chunk
                    return
        yield from by_cell(messages)

    return take


def _dialect(layout: Layout, parts: Mapping[str, PartDecoder], one: Callable[[Message], TakenRow]) -> Dialect[Message]:
    """Each record is decoded by itself, and the cells of all are columns."""
    value, key = layout.value, parts.get("key")
    assert isinstance(value, Record)
    fits, names, decode = [fit_of_json(schema) for _, schema in value.fields], value.names, parts["value"].plain
    if layout.keyed:
        of_key = (lambda raw: of_bytes(layout.key, raw, ".key")) if key is None else lambda raw: _key(layout, key, raw)
        fits = [Fit(lambda cells: None, of_key), *fits]

    def cells(messages: Sequence[Message]) -> tuple[list[int], list[list[Any]]]:
        places, objects = list[int](), list[dict[str, Any]]()
        for at, message in enumerate(messages):
            raw = message.value()
            if raw is not None:
                try:
                    plain = decode(raw)
                except Mismatch:
                    continue
                if type(plain) is dict and all(name in plain for name in names):
                    places.append(at)
                    objects.append(plain)
        columns = [[plain[name] for plain in objects] for name in names]
        return places, [[messages[at].key() for at in places], *columns] if layout.keyed else columns

    return Dialect(cells, fits, one)


def _key(layout: Layout, decoder: PartDecoder, raw: bytes | None) -> Any:
    return of_bytes(layout.key, raw, ".key") if raw is None else from_plain(layout.key, decoder.plain(raw), ".key")


@final
@attrs.frozen
class _Blocks:
    """Reads many records together."""

    layout: Layout
    value: PartDecoder
    key: PartDecoder | None

    def decoded(self, messages: Sequence[Message]) -> DecodedRecords | None:
        """None if that is not possible."""
        schemas = [schema for _, schema in self.layout.columns]
        raws = [message.value() for message in messages]
        values = _decoded(self.value, raws, schemas[self.layout.keyed :], fields=True)
        if values is None or not self.layout.keyed:
            return values
        keys = self._keys([message.key() for message in messages])
        if keys is None:
            return None
        bad = sorted({*values.bad, *keys.bad})
        columns = (*keys.columns, *values.columns)
        if bad:
            columns = (*_left(keys, bad, len(messages)), *_left(values, bad, len(messages)))
        return DecodedRecords(columns, bad)

    def _keys(self, raws: Sequence[bytes | None]) -> DecodedRecords | None:
        schema = self.layout.key
        if self.key is not None:
            return _decoded(self.key, raws, [schema], fields=False)
        if not isinstance(schema, String | Bytes) or None in raws:
            return None
        try:
            column = pa.array(raws, pa.binary())
            return DecodedRecords((column if isinstance(schema, Bytes) else column.cast(pa.string()),), [])
        except pa.ArrowException:
            return None


def _left(decoded: DecodedRecords, bad: Sequence[int], count: int) -> Iterator[Any]:
    """The columns without more rows."""
    there = np.delete(np.arange(count), decoded.bad)
    kept = pa.array(np.flatnonzero(~np.isin(there, bad)))
    return (column.take(kept) for column in decoded.columns)


def _decoded(
    decoder: PartDecoder, raws: Sequence[bytes | None], schemas: Sequence[Any], *, fields: bool
) -> DecodedRecords | None:
    """Keys or values as columns. Records of different schemas are read by schema, and come back in their order."""
    headers = [None if raw is None else raw[:HEADER] for raw in raws]
    some = set(headers)
    groups: list[tuple[Any, DecodedRecords]] = []
    bad: list[int] = []
    for header in some:
        rows = [at for at, one in enumerate(headers) if one == header] if len(some) > 1 else range(len(raws))
        if header is None or len(header) < HEADER or header[0]:
            bad.extend(rows)
            continue
        number = int.from_bytes(header[1:], "big")
        if isinstance(decoder.decoder(number), str):
            bad.extend(rows)
            continue
        columns = decoder.columns(number, schemas, fields=fields)
        texts: Any = raws if len(some) == 1 else [raws[at] for at in rows]
        decoded = None if columns is None else columns.decode(texts, HEADER)
        if decoded is None:
            return None
        there = np.asarray(rows)
        bad.extend(there[decoded.bad].tolist() if decoded.bad else ())
        groups.append((np.delete(there, decoded.bad) if decoded.bad else there, decoded))
    if not groups:
        return None
    if len(groups) == 1:
        return DecodedRecords(groups[0][1].columns, sorted(bad))
    order = pa.array(np.argsort(np.concatenate([there for there, _ in groups]), kind="stable"))
    together = zip(*[decoded.columns for _, decoded in groups], strict=True)
    return DecodedRecords(tuple(pa.concat_arrays(list(some)).take(order) for some in together), sorted(bad))

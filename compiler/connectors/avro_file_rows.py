"""Rows of files of Avro. A field of a record is the column of its name; further ones are not read."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, final

import attrs

from tracetypes.compiler.connectors.avro_files import AvroHeader, blocks_of, header_of
from tracetypes.compiler.connectors.avro_records import AvroDecoder
from tracetypes.compiler.connectors.avro_schemas import avro_type
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.folders import folder_values
from tracetypes.compiler.connectors.source_rows import in_columns
from tracetypes.compiler.connectors.text import AT_ONCE, Dialect, fit_of_json
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Avro, Layout
from tracetypes.parsing import Row, plain_values
from tracetypes.records import Mismatch, Record, Schema

__all__ = ["AvroFileReader", "check_avro"]

_Read: TypeAlias = "tuple[dict[str, Any] | Mismatch, Any]"
"""A record as plain data of the columns, or why it is none; and as it is in the file."""


def check_avro(leaf: FromSource, path: str) -> None:
    """Whether a file has all columns, of types that fit. Raises :class:`RunError` ``TT203`` and ``TT208``."""
    _opened(leaf, path)


@final
@attrs.frozen
class AvroFileReader:
    """Reads the files of a source. ``read``: makes items of rows."""

    leaf: FromSource
    read: Callable[[Any, Any], Row]
    verifier: Verifier | None = None
    by_row: bool = False

    def rows(
        self, path: str, part: int = 0, parts: int = 1, state: FileState | None = None
    ) -> Iterator[TakenRow | Chunk]:
        """The rows of a part of a file. ``state``: as it must be, if that is known. Raises :class:`RunError` ``TT203`` and
        ``TT208``."""
        opened = _opened(self.leaf, path, state)
        dialect = self._dialect()
        take = partial(map, dialect.row_of) if self.by_row else in_columns(self.leaf, dialect, self.verifier)
        buffer: list[_Read] = []
        for one in _records(path, *opened, part, parts, state):
            buffer.append(one)
            if len(buffer) == AT_ONCE:
                yield from take(buffer)
                buffer = []
        yield from take(buffer)

    def one_by_one(self, path: str) -> Iterator[TakenRow]:
        """The rows of a file, none of them in columns."""
        for one in attrs.evolve(self, by_row=True).rows(path):
            assert isinstance(one, TakenRow)
            yield one

    def _dialect(self) -> Dialect[_Read]:
        layout = _layout(self.leaf)
        names = [name for name, _ in layout.columns]

        def cells(rows: Sequence[_Read]) -> tuple[list[int], list[list[Any]]]:
            places = [at for at, (plain, _) in enumerate(rows) if type(plain) is dict]
            plains: list[Any] = [rows[at][0] for at in places]
            return places, [[plain[name] for plain in plains] for name in names]

        return Dialect(cells, [fit_of_json(schema) for _, schema in layout.columns], partial(self._row, layout))

    def _row(self, layout: Layout, one: _Read) -> TakenRow:
        plain, raw = one
        show = partial(json.dumps, raw, ensure_ascii=False, default=_shown)
        try:
            if isinstance(plain, Mismatch):
                raise plain
            key, value = layout.pair(plain)
        except Mismatch as error:
            return TakenRow(Row("reject", reason=str(error)), show)
        return TakenRow(self.read(key, value), show)


def _records(
    path: str,
    header: AvroHeader,
    decoder: AvroDecoder,
    outside: Mapping[str, Any],
    part: int,
    parts: int,
    state: FileState | None,
) -> Iterator[_Read]:
    try:
        for count, data in blocks_of(path, header, part, parts, state):
            source = io.BytesIO(data)
            for _ in range(count):
                yield _plain(decoder, decoder.read(source), outside)
            if source.read(1):
                raise ValueError("a block has bytes behind its last record")
    except Exception as error:  # fastavro raises anything
        raise _unreadable(path, error) from error


def _shown(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _plain(decoder: AvroDecoder, value: Any, outside: Mapping[str, Any]) -> _Read:
    try:
        plain = decoder.convert(value)
    except Mismatch as error:
        return error, value
    return {**outside, **plain} if outside else plain, value


def _layout(leaf: FromSource) -> Layout:
    format = leaf.source.format
    return leaf.layout.zoned(format.zone if isinstance(format, Avro) else None)


def _opened(
    leaf: FromSource, path: str, state: FileState | None = None
) -> tuple[AvroHeader, AvroDecoder, Mapping[str, Any]]:
    """A file, and the values of columns that the folders above it have."""
    if importlib.util.find_spec("fastavro") is None:
        raise UsageError("TT401", f"{path} is Avro, and fastavro is not installed", fix="pip install 'tracetypes[registry]'")
    layout, format = _layout(leaf), leaf.source.format
    try:
        header = header_of(path, state)
        names = [one.name for one in avro_type(header.schema).fields]
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    zone = format.zone if isinstance(format, Avro) else None
    outside = plain_values(layout, folder_values(path, layout, zone, names, leaf.source.file_name))
    columns = tuple((name, schema) for name, schema in layout.columns if name not in outside)
    try:
        decoder = AvroDecoder(header.schema, _record(columns), None)
    except ValueError as error:
        raise _unreadable(path, error) from error
    if decoder.problems:
        raise RunError(
            "TT203", f"{path}: {'; '.join(decoder.problems)}", fix="change the fields' types, or write the file with their types"
        )
    return header, decoder, outside


def _record(columns: tuple[tuple[str, Schema], ...]) -> Record:
    """The columns as a record of no class: values are plain data."""
    return Record(dict, columns)


def _unreadable(path: str, why: Exception) -> RunError:
    fix = "see whether the file is whole, then run again to go on"
    return RunError("TT208", f"{path} cannot be read as Avro: {why}", fix=fix)

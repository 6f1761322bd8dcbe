"""Rows of the text of a source: chunks of columns where that can be, else one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain as chained
from itertools import groupby
from typing import Any, Final

import attrs

from tracetypes.compiler.connectors.csv_header import header_of, read_header
from tracetypes.compiler.connectors.file_splits import Reading
from tracetypes.compiler.connectors.file_system import BLOCK
from tracetypes.compiler.connectors.folders import folder_values
from tracetypes.compiler.connectors.json_blocks import JsonBlock
from tracetypes.compiler.connectors.line_block import LineBlock
from tracetypes.compiler.connectors.record_blocks import RecordBlocks, Stretch
from tracetypes.compiler.connectors.source_rows import in_columns, parsed_row
from tracetypes.compiler.connectors.template_rows import TemplateRows
from tracetypes.compiler.connectors.text import (
    AT_ONCE,
    Dialect,
    Fit,
    columns_of_csv,
    columns_of_json,
    columns_of_lines,
    decoded,
    fit_of_csv,
    fit_of_json,
    fit_of_value,
    json_scan,
)
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Message, Piece, TextNotes
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.csv_records import BOUND, RecordCutter
from tracetypes.errors import RunError
from tracetypes.formats import Csv, JsonLines, ProgramLines, TextLines
from tracetypes.parsing import (
    NOTHING,
    Row,
    cell_splitter,
    is_blank,
    may_be_none,
    plain_values,
    split_header,
    text_parser,
)

__all__ = ["SplitNotes", "TextReader"]

HEADERS: Final = 100
"""Headers of files whose parsers are kept."""

TOO_LONG: Final = f"a record of CSV is longer than {BOUND:,} bytes"


@attrs.define
class SplitNotes:
    """What is noticed while a split is read. ``doubtful``: how many of its rows lie within the bound behind a rejected line.
    ``columns``: of its file, at the beginning of that."""

    doubtful: int = 0
    columns: Sequence[str] | None = None

    def messages(self, leaf: FromSource, piece: Piece, file: str, first: Sequence[str] | None) -> list[Message]:
        """The report, if there is something to say. ``first``: the columns of the first file of the source."""
        if not self.doubtful and self.columns is None:
            return []
        names = {name for name, schema in leaf.layout.columns if may_be_none(schema)}
        optional = None
        if self.columns is not None and first is not None and not names <= {*self.columns} & {*first}:
            optional = tuple(sorted(names & {*self.columns})), tuple(sorted(names & {*first}))
        if leaf.quiet or not (self.doubtful or optional):
            return []
        return [Message(0, TextNotes(leaf.source.name, piece, file, self.doubtful, optional))]


@attrs.frozen
class _Parser:
    """The parser of rows. ``width``: how many columns a file of CSV has. ``one``: makes a row. ``take``: takes many.
    ``take_text``: takes a text of whole lines."""

    width: int | None
    one: Callable[[bytes], TakenRow]
    take: Callable[[Sequence[bytes]], Iterator[TakenRow | Chunk]]
    take_text: Callable[[bytes], Iterator[TakenRow | Chunk]]


class TextReader:
    """Parses the text of a source. ``header``: the columns of CSV without a header of its own, or of the first file; ``read``:
    makes rows of keys and values. ``outside``: the values of columns that rows may lack."""

    def __init__(
        self,
        leaf: FromSource,
        format: Csv | JsonLines | TextLines,
        header: Sequence[str] | None,
        read: Callable[[Any, Any], Row],
        verifier: Verifier | None = None,
        outside: Mapping[str, Any] = NOTHING,
    ) -> None:
        self.outside, self._in_folders = outside, dict[str, TextReader]()
        self.leaf, self.format, self.header, self.read, self.verifier = leaf, format, header, read, verifier
        self.declared = isinstance(format, Csv) and format.columns is not None
        self.cutter = RecordCutter(format.separator if isinstance(format, Csv) else None)
        self._parsers: dict[tuple[str, ...] | None, _Parser] = {}

    def of_splits(self, readings: Sequence[tuple[Reading, SplitNotes]]) -> Iterator[TakenRow | Chunk]:
        """The rows of parts of files, one after the other. Small parts are parsed together."""
        if isinstance(self.format, Csv):
            for parser, stretch, notes in _together(self._of_files(readings, self.format)):
                yield from self._taken(parser, stretch, notes)
            return
        for rows, some in groupby(readings, lambda one: self._below(one[0].split.path)):
            yield from rows._of_lines(_joined(reading.texts() for reading, _ in some))

    def of_text(self, text: bytes, doubtful: int, notes: SplitNotes) -> Iterator[TakenRow | Chunk]:
        """The rows of a text without a header. It begins with a row, and ends behind one. ``doubtful``: bytes at its beginning
        that lie within the bound behind a rejected line."""
        if not isinstance(self.format, Csv):
            yield from self._of_lines([text])
            return
        parser = self._parser(self.header)
        for stretch in RecordBlocks(self.cutter, doubtful).cut(text, last=True).stretches:
            yield from self._taken(parser, stretch, notes)

    def of_cut_lines(self, blocks: Iterable[Sequence[bytes]], *, begins: bool) -> Iterator[TakenRow | Chunk]:
        """The rows of a part of a file that somebody else has cut into lines. ``begins``: the first line of the file is among
        them. Raises :class:`RunError` ``TT402`` if a quoted cell goes on behind a line."""
        if not isinstance(self.format, Csv):
            yield from self._of_lines(map(b"\n".join, blocks))
            return
        parser, headed = self._parser(self.header), self.declared or not begins
        for lines in blocks:
            rows = [row for row in lines if not is_blank(self.format, row, parser.width if headed else None)]
            if broken := next((row for row in rows if b'"' in row and self.cutter.is_open(row)), None):
                raise self._cut_cell(broken)
            if not headed and rows:
                headed = True
                self._check_header(rows.pop(0))
            long = [row for row in rows if len(row) > BOUND] if self.cutter.separator else []
            rows = [row for row in rows if len(row) <= BOUND] if long else rows
            for stretch in (*(Stretch([row], too_long=True) for row in long), Stretch(rows)):
                yield from self._taken(parser, stretch, SplitNotes())

    def one_by_one(self, path: str) -> Iterator[TakenRow]:
        """The rows of a file as it is now, none of them as columns."""
        reading, rows = Reading.of_file(path), self._below(path)
        if not isinstance(self.format, Csv):
            parser = rows._parser(None)
            yield from map(parser.one, chained.from_iterable(map(LineBlock.of, reading.texts())))
            return
        for parser, stretch in rows._of_file(reading, self.format, SplitNotes()):
            yield from map(_too_long if stretch.too_long else parser.one, stretch.rows)

    # ------------------------------------------------------------------------------------------------------ rows

    def _below(self, path: str) -> TextReader:
        """The reader of a file: the folders above it may be columns. Raises :class:`RunError` ``TT203``."""
        column = self.leaf.source.file_name
        folder = os.path.dirname(path) if column is None else path
        if ("=" not in folder and column is None) or isinstance(self.format, TextLines | ProgramLines):
            return self
        if folder not in self._in_folders:
            if len(self._in_folders) >= HEADERS:
                self._in_folders.clear()
            values = folder_values(path, self.leaf.layout, self.format.zone, (), column)
            rows = TextReader(self.leaf, self.format, self.header, self.read, self.verifier, values) if values else self
            self._in_folders[folder] = rows
        return self._in_folders[folder]

    def _of_lines(self, texts: Iterable[bytes]) -> Iterator[TakenRow | Chunk]:
        return chained.from_iterable(map(self._parser(None).take_text, texts))

    def _of_files(
        self, readings: Sequence[tuple[Reading, SplitNotes]], format: Csv
    ) -> Iterator[tuple[_Parser, Stretch, SplitNotes]]:
        for reading, notes in readings:
            for parser, stretch in self._below(reading.split.path)._of_file(reading, format, notes):
                yield parser, stretch, notes

    def _of_file(self, reading: Reading, format: Csv, notes: SplitNotes) -> Iterator[tuple[_Parser, Stretch]]:
        """The records of a part of a file, with their parser."""
        split, records = reading.split, RecordBlocks(self.cutter, reading.split.doubtful)
        header = format.columns or (header_of(split.path, format) if split.start else None)
        for some in records.of(reading.text(format.encoding)):
            for stretch in some.stretches:
                rows = stretch.rows
                if header is None:
                    at = next((at for at, row in enumerate(rows) if not is_blank(format, row)), None)
                    if at is None:
                        continue
                    header = notes.columns = read_header(format, self.leaf, rows[at], split.path)
                    rows = rows[at + 1 :]
                yield self._parser(header), attrs.evolve(stretch, rows=rows)

    def _taken(self, parser: _Parser, stretch: Stretch, notes: SplitNotes) -> Iterator[TakenRow | Chunk]:
        """The rows of a stretch. Those that are doubtful are counted."""
        if stretch.too_long:
            yield from map(_too_long, stretch.rows)
            return
        assert isinstance(self.format, Csv)
        rows = [row for row in stretch.rows if row and not row.isspace()]
        if len(rows) < len(stretch.rows):
            rows = [row for row in stretch.rows if not is_blank(self.format, row, parser.width)]
        for at in range(0, len(rows), AT_ONCE):
            for one in parser.take(rows[at : at + AT_ONCE]):
                if stretch.doubtful:
                    notes.doubtful += len(one) if isinstance(one, Chunk) else one.row.kind == "item"
                yield one

    # --------------------------------------------------------------------------------------------------- parsers

    def _parser(self, header: Sequence[str] | None) -> _Parser:
        """The parser of rows with these columns."""
        names = None if header is None else tuple(header)
        if names not in self._parsers:
            if len(self._parsers) >= HEADERS:
                self._parsers.clear()
            self._parsers[names] = self._parser_of(names)
        return self._parsers[names]

    def _parser_of(self, names: tuple[str, ...] | None) -> _Parser:
        format, read = self.format, self.read
        parse = text_parser(format, self.leaf.layout, names, self.outside)
        encoding = format.encoding if isinstance(format, Csv) else "utf-8"

        def one(raw: bytes) -> TakenRow:
            return TakenRow(parsed_row(raw, parse, read, encoding), partial(raw.decode, "utf-8", "backslashreplace"))

        dialect = Dialect(self._cells(names), self._fits(names), one, self._block())
        take = in_columns(self.leaf, dialect, self.verifier)
        take_text = self._take_text(dialect, take)
        return _Parser(None if names is None else len(names), one, take, take_text)

    def _take_text(
        self, dialect: Dialect[bytes], take: Callable[[Sequence[bytes]], Iterator[TakenRow | Chunk]]
    ) -> Callable[[bytes], Iterator[TakenRow | Chunk]]:
        """Takes texts of whole lines."""

        def usual(text: bytes) -> Iterator[TakenRow | Chunk]:
            rows = LineBlock.of(text)
            for at in range(0, len(rows), AT_ONCE):
                yield from take(rows[at : at + AT_ONCE])

        format = self.format
        if not isinstance(format, JsonLines) or isinstance(format, ProgramLines) or self.outside:
            return usual
        return TemplateRows(self.leaf, self.leaf.layout.zoned(format.zone), dialect, usual, self.verifier).take

    def _cells(self, names: tuple[str, ...] | None) -> Callable[[Sequence[bytes]], tuple[list[int], list[list[Any]]]]:
        """Takes rows apart."""
        layout = self.leaf.layout
        columns = [name for name, _ in layout.columns]
        if isinstance(self.format, JsonLines):
            scan = json_scan(schema for _, schema in layout.columns)
            defaults = plain_values(layout, self.outside)
            return lambda rows: columns_of_json(list(map(decoded, rows)), columns, scan, defaults)
        if isinstance(self.format, TextLines):
            return lambda rows: columns_of_lines(list(map(decoded, rows)))
        split = cell_splitter(self.format, layout, names, self.outside)
        return lambda rows: columns_of_csv(list(map(decoded, rows)), split, len(columns))

    def _block(self) -> JsonBlock | None:
        """Reads many lines at once."""
        if not isinstance(self.format, JsonLines) or self.outside:  # for it a missing field is null
            return None
        block = JsonBlock(self.leaf.layout.zoned(self.format.zone))
        return block if block.plain else None

    def _fits(self, names: tuple[str, ...] | None) -> list[Fit]:
        """Of the columns."""
        columns = self.leaf.layout.zoned(self.format.zone).columns
        if not isinstance(self.format, Csv):
            return [fit_of_json(schema) for _, schema in columns]
        given = set(self.outside) - set(names or ())
        return [
            fit_of_value(schema, self.outside[name]) if name in given else fit_of_csv(schema)
            for name, schema in columns
        ]

    # ---------------------------------------------------------------------------------------------------- errors

    def _check_header(self, raw: bytes) -> None:
        """A file that somebody else cuts must have the header of the first: the columns of a part are not known otherwise."""
        assert isinstance(self.format, Csv)
        header = split_header(self.format, raw.decode("utf-8", "replace"))
        if header != list(self.header or []):
            raise RunError(
                "TT203",
                f"source {self.leaf.source.name!r}: a file has the columns {', '.join(header)}; "
                f"the first file has {', '.join(self.header or [])}",
                fix="give all files that Spark reads the same columns in the same order, or read them from a local disk",
            )

    def _cut_cell(self, line: bytes) -> RunError:
        return RunError(
            "TT402",
            f"source {self.leaf.source.name!r}: Spark cuts files at ://, and a quoted cell goes on behind the line "
            f"{line.decode('utf-8', 'backslashreplace')[:200]!r}",
            fix="read the files from a local or mounted disk, or give Parquet or JSON lines",
        )


def _joined(files: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Texts of whole lines, of several files: small ones in one piece, each with a line end behind it."""
    parts, size = list[bytes](), 0
    for text in chained.from_iterable(files):
        if parts and size + len(text) > BLOCK:
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(text)
        size += len(text)
        if size < BLOCK and not text.endswith(b"\n"):
            parts.append(b"\n")
    if parts:
        yield b"".join(parts)


def _together(parts: Iterable[tuple[_Parser, Stretch, SplitNotes]]) -> Iterator[tuple[_Parser, Stretch, SplitNotes]]:
    """Stretches of several files: those with the same columns in one, as long as they are short, sound and not doubtful."""
    some: list[tuple[_Parser, Stretch, SplitNotes]] = []
    count = 0
    for one in parts:
        parser, stretch, _ = one
        plain = not stretch.doubtful and not stretch.too_long
        if some and not (plain and parser is some[0][0] and count + len(stretch.rows) <= AT_ONCE):
            yield _one_stretch(some)
            some, count = [], 0
        some.append(one)
        count += len(stretch.rows)
        if not plain or count >= AT_ONCE:
            yield _one_stretch(some)
            some, count = [], 0
    if some:
        yield _one_stretch(some)


def _one_stretch(some: Sequence[tuple[_Parser, Stretch, SplitNotes]]) -> tuple[_Parser, Stretch, SplitNotes]:
    if len(some) == 1:
        return some[0]
    parser, _, notes = some[0]
    return parser, Stretch([row for _, stretch, _ in some for row in stretch.rows]), notes


def _too_long(raw: bytes) -> TakenRow:
    """The reject of a line that is longer than the bound."""
    return TakenRow(Row("reject", reason=TOO_LONG), partial(raw.decode, "utf-8", "backslashreplace"))

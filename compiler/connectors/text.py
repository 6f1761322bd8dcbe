"""Rows of text as columns. Each row is split into cells by itself, then the cells are checked column by column.

If all cells of a column have the right type, which usually one look at the column shows, no work is done for single
cells, and no record is made. A row that does not fit is read by itself, like any row of a source: it is a reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from itertools import compress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.connectors.fitted_columns import Misfits
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.conformance import conform
from tracetypes.formats import Layout
from tracetypes.parsing import NOTHING, value_of_cell
from tracetypes.plain_data import from_plain, json_decoder
from tracetypes.records import Boolean, EnumOf, Float, Integer, LiteralOf, Mismatch, Optional, Schema, String

__all__ = [
    "AT_ONCE",
    "Dialect",
    "Fit",
    "FittedRows",
    "ParsedRows",
    "Scan",
    "chunks_of",
    "columns_of_csv",
    "columns_of_json",
    "columns_of_lines",
    "decoded",
    "fit_of_csv",
    "fit_of_json",
    "fit_of_value",
    "json_scan",
]

R = TypeVar("R")

AT_ONCE = 50_000
"""Rows that are looked at together."""

FEWEST = 256
"""Rows that are read by cell if they cannot be read at once. More are cut into pieces first."""

PIECES = 8
"""How many."""

_EXACT: dict[type[Any], type[Any]] = {Integer: int, Boolean: bool, String: str, Float: float}
"""Cells of these types are values as they are."""

Scan: TypeAlias = Callable[[str, int], tuple[Any, int]]
"""A value of JSON and its end, without what ``json.loads`` does around it."""


def json_scan(schemas: Iterable[Schema]) -> Scan:
    """The scan of objects with fields of these schemas."""
    return json_decoder(schemas).scan_once  # type: ignore[attr-defined, no-any-return]


@attrs.define
class ParsedRows:
    """Rows as columns of a layout. ``unfit``: the misfits of a column, by its number."""

    columns: tuple[Any, ...]
    num_rows: int
    unfit: Mapping[int, Misfits] = attrs.field(factory=dict)

    def column(self, at: int, /) -> Any:
        """An Arrow array of the layout's type."""
        return self.columns[at]

    def misfits(self, at: int, /) -> Misfits | None:
        """The rows of a column with values that do not fit; they are null in the array."""
        return self.unfit.get(at)

    def without(self, rows: Any) -> ParsedRows:
        """All rows but these. No value of a column is a misfit."""
        keep = np.ones(self.num_rows, np.bool_)
        keep[rows] = False
        mask = pa.array(keep)
        return ParsedRows(tuple(column.filter(mask) for column in self.columns), self.num_rows - len(rows))


class ChunkMaker(Protocol):
    """Makes chunks of columns."""

    def chunk(self, table: ParsedRows, /) -> Chunk | None:
        """The chunk of all rows; None if one of them might be rejected."""

    def chunk_of_most(self, table: ParsedRows, /) -> tuple[Chunk | None, Any]:
        """The chunk of all rows but some that might be, and the numbers of these (int64, ascending; None if there are none)."""


@attrs.frozen
class Fit:
    """Makes values of the cells of a column. ``quick``: of all cells, None if each must be checked. ``one``: of one
    cell; raises :class:`Mismatch`."""

    quick: Callable[[list[Any]], list[Any] | None]
    one: Callable[[Any], Any]

    def of(self, cells: list[Any], bad: set[int]) -> list[Any]:
        """The values of a column. The numbers of cells that do not fit go to ``bad``."""
        quickly = self.quick(cells)
        if quickly is not None:
            return quickly
        values: list[Any] = []
        for at, cell in enumerate(cells):
            try:
                values.append(self.one(cell))
            except Mismatch:
                values.append(None)
                bad.add(at)
        return values


class Block(Protocol[R]):
    """Reads many rows at once, where that gives what a row by itself gives."""

    def sure(self, rows: Sequence[R], /) -> tuple[Sequence[R], Sequence[R]]:
        """The rows that may be read at once, and the others."""

    def columns(self, rows: Sequence[R], /) -> tuple[Any, ...] | None:
        """The columns of rows that may be read at once. None if that fails: then they are read one by one."""


@attrs.frozen
class Dialect(Generic[R]):
    """How rows are split into cells.

    ``cells``: for rows, the numbers of those that could be split, and the columns of their cells. ``fits``: one per
    column. ``row_of``: a row by itself. ``block``: reads many rows at once.
    """

    cells: Callable[[Sequence[R]], tuple[list[int], list[list[Any]]]]
    fits: Sequence[Fit]
    row_of: Callable[[R], TakenRow]
    block: Block[R] | None = None


def chunks_of(
    layout: Layout, dialect: Dialect[R], maker: ChunkMaker, in_order: bool, rows: Sequence[R]
) -> Iterator[TakenRow | Chunk]:
    """Rows of a split, in order, except that rejects come first. ``maker``: makes chunks of columns where it can.
    ``in_order``: the places of rejects matter, so rows with rejects among them come one by one."""
    if dialect.block is None or len(rows) < FEWEST:
        return _chunks_by_cell(layout, dialect, maker, in_order, rows)
    sure, others = dialect.block.sure(rows)
    if not others:
        return _chunks_at_once(layout, dialect, maker, in_order, rows)
    aside = list(map(dialect.row_of, others))
    if in_order or any(one.row.kind != "reject" for one in aside):
        return _chunks_by_cell(layout, dialect, maker, in_order, rows)
    return chained(aside, _chunks_at_once(layout, dialect, maker, in_order, sure))


def _chunks_at_once(
    layout: Layout, dialect: Dialect[R], maker: ChunkMaker, in_order: bool, rows: Sequence[R]
) -> Iterator[TakenRow | Chunk]:
    """:func:`chunks_of` for rows that may be read at once; where that fails, in pieces."""
    columns = dialect.block.columns(rows) if rows and dialect.block is not None else None
    found = None if columns is None else _chunk_and_rejects(ParsedRows(columns, len(rows)), dialect, maker, in_order, rows)
    if found is not None:
        yield from found
        return
    if len(rows) < FEWEST:
        yield from _chunks_by_cell(layout, dialect, maker, in_order, rows)
        return
    size = -(-len(rows) // PIECES)
    for at in range(0, len(rows), size):
        yield from _chunks_at_once(layout, dialect, maker, in_order, rows[at : at + size])


def _chunks_by_cell(
    layout: Layout, dialect: Dialect[R], maker: ChunkMaker, in_order: bool, rows: Sequence[R]
) -> Iterator[TakenRow | Chunk]:
    """:func:`chunks_of`, with the cells of each row as Python objects."""
    fitted = FittedRows.of(dialect, rows)
    columns = fitted.columns(layout) if fitted.places and not (in_order and fitted.aside) else None
    fitting = [rows[at] for at in fitted.places] if columns is not None and fitted.aside else rows
    parsed = None if columns is None else ParsedRows(columns, len(fitted.places))
    found = None if parsed is None else _chunk_and_rejects(parsed, dialect, maker, in_order, fitting)
    if found is not None:
        yield from fitted.aside
        yield from found
    elif fitted.places:
        yield from map(dialect.row_of, rows)
    else:
        yield from fitted.aside


def _chunk_and_rejects(
    parsed: ParsedRows, dialect: Dialect[R], maker: ChunkMaker, in_order: bool, rows: Sequence[R]
) -> Sequence[TakenRow | Chunk] | None:
    """The chunk of columns that were parsed of rows, behind the rejects among them, if these are few. None where it cannot be."""
    chunk, aside = (maker.chunk(parsed), None) if in_order else maker.chunk_of_most(parsed)
    if chunk is None or aside is None:
        return None if chunk is None else [chunk]
    rejects = [dialect.row_of(rows[at]) for at in aside.tolist()]
    return [*rejects, chunk] if all(one.row.kind == "reject" for one in rejects) else None


@attrs.frozen
class FittedRows:
    """Rows with their cells as Python objects. ``places``: the numbers of those whose cells all fit; ``cells``: their values, by
    column. ``aside``: all others, each by itself."""

    places: list[int]
    cells: list[list[Any]]
    aside: list[TakenRow]

    @classmethod
    def of(cls, dialect: Dialect[R], rows: Sequence[R]) -> FittedRows:
        """Split rows, and fit their cells."""
        places, cells = dialect.cells(rows)
        columns, bad = [], set[int]()
        for fit, column in zip(dialect.fits, cells, strict=True):
            columns.append(fit.of(column, bad))
        if bad:
            sound = [at not in bad for at in range(len(places))]
            places, columns = list(compress(places, sound)), [list(compress(column, sound)) for column in columns]
        aside: list[TakenRow] = []
        if len(places) < len(rows):
            whole = set(places)
            aside = [dialect.row_of(row) for at, row in enumerate(rows) if at not in whole]
        return cls(places, columns, aside)

    def columns(self, layout: Layout) -> tuple[Any, ...] | None:
        """The cells as Arrow arrays. None for a number beyond 64 bits, or half a character: what is said of it is said by row."""
        try:
            return tuple(array(schema, column) for (_, schema), column in zip(layout.columns, self.cells, strict=True))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            return None


# ---------------------------------------------------------------------------------------------------- JSON


def columns_of_json(
    texts: Sequence[str | None], names: Sequence[str], scan: Scan, outside: Mapping[str, Any] = NOTHING
) -> tuple[list[int], list[list[Any]]]:
    """The cells of JSON objects, and the numbers of the texts that are objects. A missing field is what it is ``outside``, else
    None."""
    places: list[int] = []
    objects: list[dict[str, Any]] = []
    for at, text in enumerate(texts):
        if text is not None:
            text = text.strip(" \t\n\r")
            try:
                values, end = scan(text, 0)
            except (StopIteration, ValueError, RecursionError):
                continue
            if end == len(text) and type(values) is dict:
                places.append(at)
                objects.append(values)
    return places, [[one.get(name, outside.get(name)) for one in objects] for name in names]


def fit_of_json(schema: Schema) -> Fit:
    """The fit of a field."""
    bare = schema.item if isinstance(schema, Optional) else schema
    if isinstance(bare, LiteralOf | EnumOf):
        return _fit_of_choices(lambda cell: from_plain(schema, cell))
    exact = {_EXACT.get(type(bare)), type(None) if isinstance(schema, Optional) else None}
    infinite = (math.inf, -math.inf) if isinstance(bare, Float) else ()  # a numeral that is too large

    def quick(cells: list[Any]) -> list[Any] | None:
        return cells if set(map(type, cells)) <= exact and not any(one in cells for one in infinite) else None

    return Fit(quick, lambda cell: from_plain(schema, cell))


_CHOICES = {str, int, type(None)}


def _fit_of_choices(one: Callable[[Any], Any]) -> Fit:
    """The fit of a column with few values: each is checked once."""

    def quick(cells: list[Any]) -> list[Any] | None:
        if not set(map(type, cells)) <= _CHOICES:  # a bool is equal to an integer, and a list has no hash
            return None
        try:
            fitted = {cell: one(cell) for cell in set(cells)}
        except Mismatch:
            return None
        return [fitted[cell] for cell in cells]

    return Fit(quick, one)


# ----------------------------------------------------------------------------------------------------- CSV


def columns_of_csv(
    texts: Sequence[str | None], split: Callable[[str], list[str | None]], width: int
) -> tuple[list[int], list[list[Any]]]:
    """The cells of lines, and the numbers of the lines that have the right number of cells."""
    places: list[int] = []
    lines: list[list[str | None]] = []
    for at, text in enumerate(texts):
        if text is not None:
            try:
                lines.append(split(text))
            except Mismatch:
                continue
            places.append(at)
    return places, [list(column) for column in zip(*lines, strict=True)] if lines else [[] for _ in range(width)]


def fit_of_value(schema: Schema, value: Any) -> Fit:
    """The fit of a column that no file has, with this value in each row."""
    try:
        fitted = conform(schema, value, "")
    except Mismatch:
        return Fit(lambda cells: None, lambda cell: conform(schema, value, ""))
    return Fit(lambda cells: [fitted] * len(cells), lambda cell: fitted)


def fit_of_csv(schema: Schema) -> Fit:
    """The fit of a column."""
    quick: Callable[[list[Any]], list[Any] | None] = lambda cells: None  # noqa: E731
    match schema:
        case String() | Optional(String()):
            quick = lambda cells: cells  # noqa: E731
        case Integer():
            quick = _digits
        case LiteralOf() | EnumOf() | Optional(LiteralOf() | EnumOf()):
            return _fit_of_choices(lambda cell: value_of_cell(schema, cell))
        case _:
            pass
    return Fit(quick, lambda cell: value_of_cell(schema, cell))


def _digits(cells: list[str]) -> list[int] | None:
    """Numbers of plain digits that surely have 64 bits."""
    together = "".join(cells)
    plain = together.isascii() and together.isdigit() and min(map(len, cells)) > 0 and max(map(len, cells)) <= 18
    return list(map(int, cells)) if plain else None


# --------------------------------------------------------------------------------------------------- texts


def columns_of_lines(texts: Sequence[str | None]) -> tuple[list[int], list[list[Any]]]:
    """The lines as the cells of one column, and the numbers of those that are text."""
    places = [at for at, text in enumerate(texts) if text is not None]
    return places, [[texts[at] for at in places]]


def decoded(raw: bytes | None) -> str | None:
    """The text, or None if the bytes are not text."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None

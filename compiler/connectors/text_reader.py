"""Lines of the files of a source as rows: chunks of columns where that can be, else one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from tracetypes.compiler.connectors.file_splits import Reading, Split
from tracetypes.compiler.connectors.json_blocks import JsonBlock
from tracetypes.compiler.connectors.line_block import LineBlock
from tracetypes.compiler.connectors.source_rows import in_columns, parsed_row
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
    json_scan,
)
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.errors import RunError
from tracetypes.formats import Csv, JsonLines, TextLines
from tracetypes.parsing import Row, cell_splitter, is_blank, split_header, text_parser

__all__ = ["TextReader"]


class TextReader:
    """Parses the lines of a source. ``header``: that of its first file of CSV; ``read``: makes rows of keys and values."""

    def __init__(
        self,
        leaf: FromSource,
        format: Csv | JsonLines | TextLines,
        header: list[str] | None,
        read: Callable[[Any, Any], Row],
        verifier: Verifier | None = None,
    ) -> None:
        self.leaf, self.format, self.header = leaf, format, header
        parse = text_parser(format, leaf.layout, header)

        def one(raw: bytes) -> TakenRow:
            return TakenRow(parsed_row(raw, parse, read), partial(raw.decode, "utf-8", "backslashreplace"))

        self.one = one
        self.take = in_columns(leaf, Dialect(self._cells(), self._fits(), one, self._block()), verifier)

    def of(self, texts: Iterable[bytes], *, begins: bool) -> Iterator[TakenRow | Chunk]:
        """The rows of a piece. ``texts``: whole lines. ``begins``: the first line of a file is among them."""
        for rows in self._rows(texts, begins=begins):
            for at in range(0, len(rows), AT_ONCE):
                yield from self.take(rows[at : at + AT_ONCE])

    def one_by_one(self, path: str) -> Iterator[TakenRow]:
        """The rows of a file as it is now, none of them as columns."""
        stat = os.stat(path)
        whole = Reading(Split(0, path, 0, stat.st_size, stat.st_mtime_ns, 0, stat.st_size))
        for rows in self._rows(whole.texts(), begins=True):
            yield from map(self.one, rows)

    def _rows(self, texts: Iterable[bytes], *, begins: bool) -> Iterator[Sequence[bytes]]:
        """Lines that are rows."""
        format = self.format
        if not isinstance(format, Csv):
            yield from map(LineBlock.of, texts)
            return
        headed = self.header is None or not begins
        for text in texts:
            rows = [raw for raw in text.splitlines() if not is_blank(format, raw)]
            if not headed and rows:
                headed = True
                self._check_header(rows.pop(0))
            yield rows

    def _cells(self) -> Callable[[Sequence[bytes]], tuple[list[int], list[list[Any]]]]:
        """Takes lines apart."""
        layout = self.leaf.layout
        names = [name for name, _ in layout.columns]
        if isinstance(self.format, JsonLines):
            scan = json_scan(schema for _, schema in layout.columns)
            return lambda rows: columns_of_json(list(map(decoded, rows)), names, scan)
        if isinstance(self.format, TextLines):
            return lambda rows: columns_of_lines(list(map(decoded, rows)))
        split = cell_splitter(self.format, layout, self.header)
        return lambda rows: columns_of_csv(list(map(decoded, rows)), split, len(names))

    def _block(self) -> JsonBlock | None:
        """Reads many lines at once."""
        block = JsonBlock(self.leaf.layout.zoned(self.format.zone)) if isinstance(self.format, JsonLines) else None
        return block if block is not None and block.plain else None

    def _fits(self) -> list[Fit]:
        """Of the columns."""
        fit = fit_of_csv if isinstance(self.format, Csv) else fit_of_json
        return [fit(schema) for _, schema in self.leaf.layout.zoned(self.format.zone).columns]

    def _check_header(self, raw: bytes) -> None:
        """Every file must have the header of the first."""
        assert isinstance(self.format, Csv)
        header = split_header(self.format, raw.decode("utf-8", "replace"))
        if header != self.header:
            raise RunError(
                "TT203",
                f"source {self.leaf.source.name!r}: a file has the columns {', '.join(header)}; "
                f"the first file has {', '.join(self.header or [])}",
                fix="give all files of a source the same columns in the same order",
            )
